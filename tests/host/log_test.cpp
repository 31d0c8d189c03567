#include "runtime/src/log.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/log_file.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

using namespace warpline;
using wltest::ContainsSubstring;
using wltest::LogFile;
using wltest::ScopedEnv;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("each level includes those below it", "[host][log]") {
  for (int level = 0; level <= 4; ++level) {
    LogFile file(std::to_string(level));
    INFO("level " << level);
    for (int line = log_errors; line <= log_detail; ++line) {
      CHECK(log_enabled(static_cast<LogLevel>(line)) == (line <= level));
      WL_LOG(static_cast<LogLevel>(line), "line of level %d", line);
    }
    const std::string text = contents(file.path);
    for (int line = log_errors; line <= log_detail; ++line)
      CHECK((text.find("line of level " + std::to_string(line)) != std::string::npos) ==
            (line <= level));
  }
}

TEST_CASE("a wrong level turns the log off", "[host][log]") {
  for (const char* level : {"", "-1", "5", "loud", "2x"}) {
    LogFile file(level);
    CHECK_FALSE(log_enabled(log_errors));
  }
}

TEST_CASE("failures and calls reach the log", "[host][log]") {
  LogFile file("2");
  CHECK(wl_plan_run(nullptr, nullptr, 0, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  const std::string text = contents(file.path);
  CHECK_THAT(text, ContainsSubstring("warpline[call] wl_plan_run\n"));
  CHECK_THAT(text,
             ContainsSubstring("warpline[error] WL_ERROR_INVALID_ARGUMENT: wl_plan_run: plan"));
}

TEST_CASE("a log file that cannot be opened does not stop the program", "[host][log]") {
  const ScopedEnv level("WARPLINE_LOG_LEVEL", "1");
  {
    const ScopedEnv destination("WARPLINE_LOG_DEST", "/nonexistent/directory/log");
    log_reload();
    CHECK(log_enabled(log_errors));
  }
  log_reload();
}
