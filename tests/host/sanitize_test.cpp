// tools/sanitize.sh where there is nothing to run it on, and the rows it names.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/grouped/grouped.hpp"
#include "kernels/linear/linear.hpp"
#include "runtime/src/configs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <filesystem>
#include <regex>
#include <sstream>

using wltest::ChildResult;
using wltest::ContainsSubstring;

namespace {

// PATH without the CUDA toolkit; a directory to look for compute-sanitizer in.
ChildResult sanitize(const std::string& cuda_home, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {wltest::source_file("tools/sanitize.sh")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return wltest::run_child(command, {{"PATH", "/usr/bin:/bin"},
                                     {"CUDA_HOME", cuda_home},
                                     {"CUDA_PATH", ""},
                                     {"WARPLINE_DRIVER", "/nonexistent/libcuda.so"}});
}

} // namespace

TEST_CASE("sanitize: without a GPU it says that nothing was checked", "[host][tools]") {
  const wltest::TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "bin");
  const std::string tool = directory / "bin/compute-sanitizer";
  wltest::write_text(tool, "#!/bin/sh\nexit 1\n");
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  const std::string build = std::filesystem::path(wltest::build_file("x")).parent_path();
  const ChildResult child = sanitize(directory.path(), {"--build", build});
  INFO(child.out << child.err);
  CHECK(child.status == 0);
  CHECK(child.out == "sanitize: skipped, no GPU that warpline has kernels for\n");
}

TEST_CASE("sanitize: runs end in any order, are told in theirs, and each counts", "[host][tools]") {
  const wltest::TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "bin");
  std::filesystem::create_directory(directory / "tests");
  const auto add = [&](const std::string& name, const std::string& body) {
    wltest::write_text(directory / name, "#!/bin/sh\n" + body);
    std::filesystem::permissions(directory / name, std::filesystem::perms::owner_all);
  };
  // One run is slow, another is not clean.
  add("bin/compute-sanitizer", "case \"$*\" in\n"
                               "  *'dual-gemm -m 1 '*) sleep 0.5 ;;\n"
                               "  *'dual-gemm -m 64 '*) echo an error; exit 9 ;;\n"
                               "esac\n");
  add("warpline", "echo '{\"name\": \"gpu:0\", \"kernels\": \"sm_90a\"}'\n");
  add("tests/problems", "");
  const ChildResult child =
      sanitize(directory.path(), {"--build", directory.path(), "--tools", "memcheck", "--only",
                                  "^dual-gemm -m|operation linear"});
  INFO(child.out << child.err);
  CHECK(child.status == 1);
  std::istringstream lines(child.out);
  std::string verdicts;
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    verdicts += line.find(" clean") != std::string::npos ? "c" : line[0] == 'm' ? "n" : "+";
  CHECK(verdicts.substr(0, 6) == "cccn+c"); // "+": what a run said follows its verdict
  CHECK_THAT(child.out, ContainsSubstring("status 9\n    an error\n"));
  CHECK_THAT(child.out, ContainsSubstring("--operation linear --problems 2 --jobs "));
  CHECK_THAT(child.out,
             ContainsSubstring("sanitize: " + std::to_string(count - 3) + " clean, 1 not\n"));
}

TEST_CASE("sanitize: wrong arguments are refused", "[host][tools]") {
  for (const auto& [arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--what"}, "unknown argument --what"},
           {{"--tools"}, "--tools needs a value"},
           {{"--build", "build", "--jobs", "0"}, "--jobs 0 is no positive number"},
           {{"--build", "/nonexistent"}, "run make first"}}) {
    const ChildResult child = sanitize("", arguments);
    CHECK(child.status == 2);
    CHECK_THAT(child.err, ContainsSubstring(message));
  }
}

TEST_CASE("sanitize: the rows it forces exist", "[host][tools]") {
  const std::string script = wltest::read_text(wltest::source_file("tools/sanitize.sh"));
  const std::regex forced("(?:--config |=)((?:grouped_)?(?:dual_)?gemm_[a-z0-9_]+)");
  int count = 0;
  for (std::sregex_iterator at(script.begin(), script.end(), forced), end; at != end; ++at) {
    INFO((*at)[1]);
    const std::string name = (*at)[1];
    CHECK((warpline::dual_gemm::find_config(name) != nullptr ||
           warpline::find_config(warpline::linear::configs(), name) != nullptr ||
           warpline::find_config(warpline::grouped::linear_configs(), name) != nullptr ||
           warpline::find_config(warpline::grouped::dual_configs(), name) != nullptr));
    ++count;
  }
  CHECK(count >= 7);
}
