// A copy of the source tree, file times included, so that what a command rewrites there stays out
// of the tree.
#pragma once

#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace wltest {

struct TreeCopy {
  TemporaryDirectory directory;

  TreeCopy() {
    std::vector<std::string> command{"cp", "-a"};
    for (const char* part :
         {"Makefile", "README.md", "kernels", "ptx", "runtime", "tests", "tools"})
      command.push_back(source_file(part));
    command.push_back(directory.path());
    const ChildResult copied = run_child(command);
    if (copied.status != 0) throw std::runtime_error("the tree was not copied: " + copied.err);
  }
  std::string operator/(const std::string& name) const { return directory / name; }

  // Objects of this build, which is up to date for the copy too.
  void link_build() const {
    std::filesystem::create_directory_symlink(std::filesystem::path(build_file("x")).parent_path(),
                                              directory / "build");
  }
};

} // namespace wltest
