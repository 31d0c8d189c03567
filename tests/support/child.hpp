// Runs a program as a child process and collects what it says.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace wltest {

struct ChildResult {
  int status = -1; // exit status, 128 + signal when it was killed
  bool timed_out = false;
  std::string out, err;
};

// Environment changes: a name with the value "" is removed. A child that takes longer than
// `timeout_seconds` is killed.
ChildResult run_child(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& environment = {},
                      double timeout_seconds = 120);

// A file of the build directory, from the place of this test binary (build/tests/NAME).
std::string build_file(const std::string& name);

} // namespace wltest
