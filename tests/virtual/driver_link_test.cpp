// LD_LIBRARY_PATH=build/vgpu-driver gives any program of the driver API the virtual GPU.
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <dlfcn.h>

using namespace wltest;

namespace {

constexpr const char* kCudaInclude = "/usr/local/cuda/include";

// Built with these flags and -lcuda, run with the virtual driver in the library path.
ChildResult build_and_run(const std::vector<std::string>& flags) {
  TemporaryDirectory directory;
  const std::string program = directory / "program", drivers = build_file("vgpu-driver");
  std::vector<std::string> command{"cc", source_file("tests/virtual/driver_program.c"), "-o",
                                   program};
  command.insert(command.end(), flags.begin(), flags.end());
  for (const char* c : {"-Wall", "-Wextra", "-Werror", "-lcuda"}) command.push_back(c);
  command.push_back("-L" + drivers);
  ChildResult built = run_child(command);
  INFO(built.err);
  REQUIRE(built.status == 0);
  return run_child({program}, {{"LD_LIBRARY_PATH", drivers}, {"VGPU_PROFILE", "h200"}});
}

} // namespace

TEST_CASE("a plain C program linked with -lcuda runs on the virtual GPU", "[virtual][driver]") {
  if (!plain_build()) WL_SKIP("a sanitizer's library needs the sanitizer's program");
  const ChildResult r = build_and_run({});
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("1000 sums on"));
  CHECK_THAT(r.out, ContainsSubstring("H200"));
}

TEST_CASE("the same program with NVIDIA's header", "[virtual][driver]") {
  if (!plain_build()) WL_SKIP("a sanitizer's library needs the sanitizer's program");
  if (!std::filesystem::exists(std::string(kCudaInclude) + "/cuda.h")) WL_SKIP("no cuda.h here");
  const ChildResult r = build_and_run({"-DWITH_CUDA_H", std::string("-I") + kCudaInclude});
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("1000 sums on"));
}

TEST_CASE("the virtual driver exports functions of the driver API and its own, nothing else",
          "[virtual][driver]") {
  void* handle = dlopen(build_file("vgpu-driver/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle);
  CHECK(dlsym(handle, "cuInit"));
  CHECK(dlsym(handle, "vgpuReport"));
  // An inline function of the C++ library that all copies of the virtual GPU would share.
  CHECK_FALSE(dlsym(handle, "_ZZNSt19_Sp_make_shared_tag5_S_tiEvE5__tag"));
  dlclose(handle);
}
