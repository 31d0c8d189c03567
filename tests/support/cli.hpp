// The program build/warpline as its users run it.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"

#include <string>
#include <vector>

namespace wltest {

inline ChildResult warpline_cli(std::vector<std::string> arguments,
                                const std::string& driver = "") {
  arguments.insert(arguments.begin(), build_file("warpline"));
  return run_child(arguments, {{"WARPLINE_DRIVER", driver}});
}

inline std::string last_line(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return trimmed.substr(trimmed.find_last_of('\n') + 1);
}

#define INFO_CHILD(child)                                                                          \
  INFO("status " << child.status << (child.timed_out ? " (timed out)" : "") << "\nstdout:\n"       \
                 << child.out << "\nstderr:\n"                                                     \
                 << child.err)

inline void check_refusal(const ChildResult& child, int status, const std::string& text) {
  INFO_CHILD(child);
  CHECK(child.status == status);
  CHECK(child.out.empty());
  CHECK(child.err.rfind("warpline: ", 0) == 0);
  CHECK_THAT(child.err, ContainsSubstring(text));
}

} // namespace wltest
