// Files of the source tree, found from the place of the test binary.
#pragma once

#include "tests/support/child.hpp"

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace wltest {

// build/tests/NAME and build/<sanitizer>/tests/NAME lie at different depths.
inline std::string source_file(const std::string& name) {
  std::filesystem::path directory = std::filesystem::path(build_file("x")).parent_path();
  while (!std::filesystem::exists(directory / "runtime/include/warpline/warpline.h")) {
    if (directory == directory.root_path())
      throw std::runtime_error("the test binary does not lie in its source tree");
    directory = directory.parent_path();
  }
  return (directory / name).string();
}

// Not build/<sanitizer> or build/coverage, whose objects link only with the flags of their make.
inline bool plain_build() {
  return std::filesystem::path(build_file("x")).parent_path().filename() == "build";
}

// For a make in a test: not the job server of the make that runs the tests, and kernels in the form
// in which this build has them, so that nothing of it is built anew.
inline std::vector<std::pair<std::string, std::string>> make_environment() {
  return {{"MAKEFLAGS", ""},
          {"MFLAGS", ""},
          {"MAKELEVEL", ""},
          {"CUBINS", std::filesystem::exists(build_file("gen/cubins.1")) ? "1" : "0"}};
}

} // namespace wltest
