// What tools/sass needs of a CUDA toolkit, as shell scripts, with one small kernel.
#pragma once

#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace wltest {

inline const char sass_ptx[] = R"(// ROLES
//   | warp | name      | registers | work |
//   |------|-----------|-----------|------|
//   | 0    | loader    | 40        | TMA  |
//   | 1-4  | consumer0 | 232       | MMA  |
//   Launched with 64 registers a thread.
// MEMORY MAP
.version 8.8
.target sm_100f
.visible .entry small() {
  mov.u32 warp, %tid.x;
loader:
  cp.async.bulk.tensor;
consumer:
  loop:
    wgmma.mma_async;
    @more bra loop;
  st.global.b32 [d], r;
  ret;
}
)";

inline const char sass_listing[] = R"(
        .text.small:
	//## File ".nv_debug_ptx_txt", line 11
        /*0000*/                   S2R R0, SR_TID.X ;
	//## File ".nv_debug_ptx_txt", line 13
        /*0010*/                   UTMALDG.3D [UR8], [UR4] ;
.L_x_1:
	//## File ".nv_debug_ptx_txt", line 16
        /*0020*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
	//## File ".nv_debug_ptx_txt", line 17
        /*0030*/               @P0 BRA `(.L_x_1) ;
	//## File ".nv_debug_ptx_txt", line 18
        /*0040*/                   STG.E desc[UR4][R2.64], R0 ;
	//## File ".nv_debug_ptx_txt", line 19
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   BRA `(.L_x_2);
        /*0070*/                   NOP ;
)";

// A toolkit whose ptxas writes nothing and whose nvdisasm prints the listing.
struct SassToolkit {
  TemporaryDirectory directory;

  SassToolkit() {
    std::filesystem::create_directories(directory / "bin");
    write_text(directory / "small.ptx", sass_ptx);
    script("ptxas", "case $1 in --version) echo 'release 13.0, V13.0.88';; *) "
                    "echo 'ptxas info : 8 bytes stack frame, 4 bytes spill stores, 4 bytes spill "
                    "loads'; echo 'ptxas info : Used 64 registers';; esac");
    list(sass_listing);
  }
  void list(const std::string& text) {
    write_text(directory / "listing", text);
    script("nvdisasm", "cat " + directory / "listing");
  }
  void script(const std::string& name, const std::string& body) {
    const std::string path = directory / ("bin/" + name);
    write_text(path, "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // The scripts, in a tree of these kernels only.
  void take_kernels(const std::vector<std::string>& names) {
    namespace fs = std::filesystem;
    scripts_ = directory / "tools/sass/";
    fs::create_directories(directory / "tools");
    fs::copy(source_file("tools/sass"), scripts_);
    fs::create_directory_symlink(source_file("kernels"), directory / "kernels");
    fs::create_directories(directory / "build/ptx");
    for (const std::string& name : names)
      fs::create_symlink(build_file("ptx/" + name + ".ptx"),
                         directory / ("build/ptx/" + name + ".ptx"));
  }
  // A kernel, or the tools, with one line more.
  void change(const std::string& name, const std::string& line) {
    const std::string path = directory / ("build/ptx/" + name + ".ptx");
    const std::string text = read_text(path) + line;
    std::filesystem::remove(path);
    write_text(path, text);
  }
  void change_tools() {
    const std::string path = scripts_ + "sass-summary";
    write_text(path, read_text(path) + "# another line\n");
  }
  ChildResult run(const std::string& tool, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), scripts_ + tool);
    return run_child(arguments, {{"CUDA_HOME", directory.path()}});
  }

private:
  std::string scripts_ = source_file("tools/sass/");
};

} // namespace wltest
