#include "runtime/src/log.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace warpline {

namespace {

constexpr int unread = -1;
std::atomic<int> level_now{unread};
std::mutex log_mutex;
FILE* destination = stderr;

int read_level() {
  const char* text = std::getenv("WARPLINE_LOG_LEVEL");
  if (!text || !*text) return log_off;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < log_off || value > log_detail) {
    std::fprintf(stderr,
                 "warpline: WARPLINE_LOG_LEVEL = \"%s\" must be 0 (off), 1 (errors), 2 (calls), "
                 "3 (arguments) or 4 (detail); logging is off\n",
                 text);
    return log_off;
  }
  return static_cast<int>(value);
}

FILE* open_destination() {
  const char* text = std::getenv("WARPLINE_LOG_DEST");
  if (!text || !*text || !std::strcmp(text, "stderr")) return stderr;
  if (!std::strcmp(text, "stdout")) return stdout;
  if (FILE* file = std::fopen(text, "a")) return file;
  std::fprintf(stderr, "warpline: WARPLINE_LOG_DEST = \"%s\" cannot be opened: %s; using stderr\n",
               text, std::strerror(errno));
  return stderr;
}

int load_settings() {
  std::lock_guard<std::mutex> lock(log_mutex);
  int level = level_now.load(std::memory_order_relaxed);
  if (level != unread) return level;
  level = read_level();
  if (level != log_off) destination = open_destination();
  level_now.store(level, std::memory_order_relaxed);
  return level;
}

} // namespace

bool log_enabled(LogLevel level) {
  int current = level_now.load(std::memory_order_relaxed);
  if (current == unread) current = load_settings();
  return level != log_off && level <= current;
}

void log(LogLevel level, const char* text, ...) {
  if (!log_enabled(level)) return;
  static const char* const words[] = {"", "error", "call", "arguments", "detail"};
  std::lock_guard<std::mutex> lock(log_mutex);
  va_list arguments;
  va_start(arguments, text);
  std::fprintf(destination, "warpline[%s] ", words[level]);
  std::vfprintf(destination, text, arguments);
  va_end(arguments);
  std::fputc('\n', destination);
  std::fflush(destination);
}

void log_reload() {
  std::lock_guard<std::mutex> lock(log_mutex);
  if (destination != stderr && destination != stdout) std::fclose(destination);
  destination = stderr;
  level_now.store(unread, std::memory_order_relaxed);
}

} // namespace warpline
