// Files of the source tree, found from the place of the test binary.
#pragma once

#include "tests/support/child.hpp"

#include <filesystem>
#include <stdexcept>
#include <string>

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

} // namespace wltest
