// The log. WARPLINE_LOG_LEVEL: 0 off (default), 1 errors, 2 calls, 3 arguments, 4 module and TMA
// detail. WARPLINE_LOG_DEST: stderr (default), stdout, or a file that is appended to. Both are read
// once, at the first line. A line is written in one piece and flushed, so a crash after it leaves
// it.
#pragma once

#include "runtime/src/status.hpp"

namespace warpline {

enum LogLevel : int {
  log_off = 0,
  log_errors = 1,
  log_calls = 2,
  log_arguments = 3,
  log_detail = 4
};

// Cheap when the level is off: one relaxed load.
bool log_enabled(LogLevel level);

void log(LogLevel level, const char* text, ...) WL_PRINTF(2, 3);

// Formats only when the level is on.
#define WL_LOG(level, ...)                                                                         \
  do {                                                                                             \
    if (::warpline::log_enabled(level)) ::warpline::log(level, __VA_ARGS__);                       \
  } while (0)

// Reads the environment again (tests change it).
void log_reload();

} // namespace warpline
