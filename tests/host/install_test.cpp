// What `make install` leaves: a tree that works wherever it is moved, for pkg-config and for CMake,
// small, without dependencies, exporting nothing but the C ABI. The examples of tests/examples are
// its consumers; they run on the virtual GPU.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

using wltest::ChildResult;
using wltest::ContainsSubstring;
using wltest::run_child;
using wltest::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

bool has_tool(const std::string& name) {
  return run_child({"sh", "-c", "command -v " + name}).status == 0;
}

// A shell command that must succeed; its standard output.
std::string shell(const std::string& command,
                  const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  const ChildResult result = run_child({"sh", "-c", command}, environment, 300);
  INFO(command << "\n" << result.out << result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

// `make TARGET` in the source tree with this build directory.
std::string make(const std::string& target, const std::string& variables) {
  const fs::path build = fs::path(wltest::build_file("x")).parent_path();
  return shell("cd " + wltest::source_file("") + " && make -s -j2 " + target + " BUILD=" +
                   fs::relative(build, wltest::source_file("")).string() + " " + variables,
               wltest::make_environment());
}

// Installs for /opt/warpline, staged, and moves the tree.
std::string moved_tree(const TemporaryDirectory& directory) {
  make("install", "PREFIX=/opt/warpline DESTDIR=" + directory / "stage");
  fs::create_directory(directory / "some where");
  const std::string tree = directory / "some where/else";
  fs::rename(directory / "stage/opt/warpline", tree);
  return tree;
}

// Runs a consumer on the virtual GPU of the tree.
void check_consumer(const std::string& program, const std::string& tree) {
  const ChildResult result = run_child(
      {program}, {{"WARPLINE_DRIVER", "virtual:b200"}, {"LD_LIBRARY_PATH", tree + "/lib"}});
  INFO(program << "\n" << result.out << result.err);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, ContainsSubstring("0 of "));
}

} // namespace

TEST_CASE("a moved tree serves a C and a C++ program through pkg-config", "[host][install]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  if (!has_tool("pkg-config")) WL_SKIP("no pkg-config");
  TemporaryDirectory directory;
  const std::string tree = moved_tree(directory);
  const std::vector<std::pair<std::string, std::string>> path = {
      {"PKG_CONFIG_PATH", tree + "/lib/pkgconfig"}};
  CHECK_THAT(shell("pkg-config --cflags warpline", path), ContainsSubstring("lib/pkgconfig/../.."));
  const std::string flags =
      " $(pkg-config --cflags --libs warpline | sed 's/some\\\\* where/link/g')";
  // Compilers split pkg-config's words at blanks, so they see the tree through a link.
  fs::create_directory_symlink(directory / "some where", directory / "link");
  const std::string warnings = " -Wall -Wextra -Wpedantic -Werror -O1 ";
  for (const char* example : {"program", "quantize", "moe"})
    shell("cc -std=c11" + warnings + wltest::source_file("tests/examples/") + example + ".c" +
              flags + " -o " + directory / example,
          path);
  shell("c++ -std=c++17" + warnings + wltest::source_file("tests/examples/program.cpp") + flags +
            " -o " + directory / "cpp",
        path);
  check_consumer(directory / "program", tree);
  check_consumer(directory / "quantize", tree);
  check_consumer(directory / "moe", tree);
  check_consumer(directory / "cpp", tree);

  // The installed program finds the tree's virtual GPU by itself.
  const ChildResult run = run_child({tree + "/bin/warpline", "dual-gemm", "-m", "64", "-n", "64",
                                     "-k", "64", "--device", "virtual:b200"},
                                    {{"WARPLINE_DRIVER", ""}, {"LD_LIBRARY_PATH", ""}});
  INFO(run.err);
  CHECK(run.status == 0);
}

TEST_CASE("a moved tree serves C and C++ programs through CMake", "[host][install]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  if (!has_tool("cmake")) WL_SKIP("no cmake");
  TemporaryDirectory directory;
  const std::string tree = moved_tree(directory);
  shell("cmake -S " + wltest::source_file("tests/examples") + " -B " + directory / "build" +
        " -DCMAKE_PREFIX_PATH='" + tree + "' && cmake --build " + directory / "build");
  check_consumer(directory / "build/program_c", tree);
  check_consumer(directory / "build/quantize_c", tree);
  check_consumer(directory / "build/moe_c", tree);
  check_consumer(directory / "build/program_cpp", tree);

  // A version that is not there is refused.
  wltest::write_text(directory / "CMakeLists.txt",
                     "cmake_minimum_required(VERSION 3.16)\nproject(x C)\n"
                     "find_package(warpline 9.0 REQUIRED)\n");
  const ChildResult refused = run_child({"cmake", "-S", directory.path(), "-B",
                                         directory / "refused", "-DCMAKE_PREFIX_PATH=" + tree});
  CHECK(refused.status != 0);
  CHECK_THAT(refused.err, ContainsSubstring("9.0"));
}

TEST_CASE("uninstall leaves nothing behind", "[host][install]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  TemporaryDirectory directory;
  const std::string where = "PREFIX=/usr DESTDIR=" + directory / "stage";
  make("install", where);
  CHECK(fs::exists(directory / "stage/usr/lib/pkgconfig/warpline.pc"));
  make("uninstall", where);
  for (const auto& entry : fs::recursive_directory_iterator(directory / "stage")) {
    INFO(entry.path());
    CHECK(entry.is_directory());
    CHECK(entry.path().filename() != "warpline");
  }
}

namespace {

// The dynamic symbols of a library, each of which begins with one of the prefixes.
int exported(const std::string& library, const std::vector<std::string>& prefixes) {
  std::istringstream symbols(shell("nm -D --defined-only " + library + " | awk '{ print $NF }'"));
  int count = 0;
  for (std::string name; symbols >> name; ++count) {
    INFO(library << ": " << name);
    CHECK(std::any_of(prefixes.begin(), prefixes.end(),
                      [&](const std::string& p) { return name.rfind(p, 0) == 0; }));
  }
  return count;
}

} // namespace

TEST_CASE("the libraries are small, depend on nothing and export wl_ only", "[host][install]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  make("shared", "");
  CHECK(fs::file_size(wltest::build_file("libwarpline.a")) < 10000000);
  if (!has_tool("nm") || !has_tool("readelf")) WL_SKIP("no nm or readelf");
  const std::string shared = wltest::build_file("libwarpline.so");
  // A symbol more could take the place of one of the program's.
  CHECK(exported(shared, {"wl_"}) >= 20);
  CHECK(exported(wltest::build_file("libvgpu.so"), {"cu", "vgpu"}) >= 400);
  std::istringstream needed(
      shell("readelf -d " + shared + " | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\]/\\1/p'"));
  for (std::string name; needed >> name;) {
    INFO(name);
    const std::string stem = name.substr(0, name.find(".so"));
    CHECK((stem == "libc" || stem == "libstdc++" || stem == "libm" || stem == "libgcc_s" ||
           stem == "libdl" || stem == "libpthread" || stem.substr(0, 8) == "ld-linux"));
  }
}
