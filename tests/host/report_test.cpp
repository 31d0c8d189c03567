// tools/report.sh with stand-ins for the programs that it runs: a step that fails or hangs is
// recorded, and the next one runs.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <cstdlib>
#include <filesystem>

using wltest::ChildResult;
using wltest::ContainsSubstring;
using wltest::run_child;

namespace {

// A build folder of shell scripts. doctor fails, the hardware tests hang; the other steps end
// within the limit on a busy machine, too.
class StandIns {
public:
  StandIns() {
    std::filesystem::create_directory(directory_ / "tests");
    add("warpline",
        "case $1 in\n"
        "  doctor) echo it is broken; exit 1 ;;\n"
        "  configs) echo dual_gemm_first; echo '    a reason'; echo dual_gemm_second ;;\n"
        "esac\n");
    add("tests/hardware", "exec sleep 60\n");
    for (const char* name : {"bench", "host-cost", "driver-cost"}) add(name, "echo times\n");
    // Those of the machine, which may have a GPU, stay out of it.
    add("python3", "exit 1\n");
    add("nvidia-smi", "echo a GPU\n");
  }
  void remove(const std::string& name) { std::filesystem::remove(directory_ / name); }
  ChildResult report(const std::string& device) {
    return run_child({wltest::source_file("tools/report.sh"), "--device", device, "--build",
                      directory_.path(), "--out", out(), "--limit", "5"},
                     {{"PATH", directory_.path() + ":" + std::getenv("PATH")}});
  }
  std::string out() const { return directory_ / "out.txt"; }

private:
  void add(const std::string& name, const std::string& body) {
    wltest::write_text(directory_ / name, "#!/bin/sh\n" + body);
    std::filesystem::permissions(directory_ / name, std::filesystem::perms::owner_all);
  }
  wltest::TemporaryDirectory directory_;
};

} // namespace

TEST_CASE("a report goes on after steps that fail and hang", "[host][report]") {
  StandIns programs;
  const ChildResult result = programs.report("gpu");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.out,
             ContainsSubstring("doctor                                       status 1"));
  CHECK_THAT(result.out,
             ContainsSubstring("hardware tests                               stopped after 5 s"));
  CHECK_THAT(result.out, ContainsSubstring("right: 512 x 3072 x 7168                     ok"));
  CHECK_THAT(result.out, ContainsSubstring("speed of the quantiser                       ok"));
  CHECK_THAT(result.out, ContainsSubstring("dual_gemm_first                              ok"));
  CHECK_THAT(result.out, ContainsSubstring("dual_gemm_second                             ok"));
  CHECK_THAT(result.out, ContainsSubstring(" 2 failed; send back " + programs.out()));
  const std::string file = wltest::read_text(programs.out());
  CHECK_THAT(file, ContainsSubstring("it is broken"));
  CHECK_THAT(file, ContainsSubstring("bench --config dual_gemm_second --m 256,512\ntimes"));
  CHECK(file.find("REHEARSAL") == std::string::npos);
}

TEST_CASE("a report on the virtual GPU says that it is a rehearsal", "[host][report]") {
  StandIns programs;
  programs.remove("tests/hardware");
  programs.remove("bench");
  const ChildResult result = programs.report("virtual:b200");
  INFO(result.out << result.err);
  CHECK(result.status == 1); // doctor
  CHECK_THAT(result.out, ContainsSubstring("REHEARSAL on the virtual GPU"));
  CHECK_THAT(result.out, ContainsSubstring("speed: skipped, "));
  CHECK(result.out.find("hardware tests") == std::string::npos);
  CHECK(run_child({wltest::source_file("tools/report.sh"), "--speed"}).status == 2);
}
