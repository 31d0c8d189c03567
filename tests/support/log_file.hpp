// The library's log in a file, for one test case.
#pragma once

#include "runtime/src/log.hpp"
#include "tests/support/fake_gpu.hpp"

#include <cstdio>

namespace wltest {

// A log file for one test case; the settings are read again on entry and on exit.
struct LogFile {
  explicit LogFile(const std::string& level)
      : path("/tmp/warpline_log_test_" + std::to_string(getpid())),
        level_("WARPLINE_LOG_LEVEL", level), destination_("WARPLINE_LOG_DEST", path) {
    std::remove(path.c_str());
    warpline::log_reload();
  }
  ~LogFile() { std::remove(path.c_str()); }

  std::string path;

private:
  // Declared first, so destroyed last: after the environment is restored.
  struct Reload {
    ~Reload() { warpline::log_reload(); }
  } reload_;
  ScopedEnv level_, destination_;
};

} // namespace wltest
