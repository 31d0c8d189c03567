#include "runtime/src/dump.hpp"

#include "runtime/src/log.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

namespace warpline {

namespace {

const char* directory() {
  const char* text = std::getenv("WARPLINE_DUMP_DIR");
  return text && *text ? text : nullptr;
}

void cannot(const char* folder, const std::string& path, const std::string& reason) {
  WL_LOG(log_errors, "WARPLINE_DUMP_DIR: %s cannot be written: %s", path.c_str(), reason.c_str());
  static std::mutex mutex;
  static std::string said;
  const std::lock_guard<std::mutex> lock(mutex);
  if (said == folder) return;
  said = folder;
  std::fprintf(stderr,
               "warpline: WARPLINE_DUMP_DIR = \"%s\" must be a folder that can be written: %s: "
               "%s; the dump lacks it\n",
               folder, path.c_str(), reason.c_str());
}

void write(const std::string& name, const std::string& bytes, const char* mode) {
  const char* folder = directory();
  if (!folder) return;
  const std::string path = (std::filesystem::path(folder) / name).string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return cannot(folder, path, error.message());
  FILE* file = std::fopen(path.c_str(), mode);
  if (!file) return cannot(folder, path, std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int reason = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) cannot(folder, path, std::strerror(written ? errno : reason));
}

} // namespace

bool dump_wanted() { return directory() != nullptr; }

void dump_file(const std::string& name, const std::string& bytes) { write(name, bytes, "wb"); }

void dump_appended(const std::string& name, const std::string& bytes) { write(name, bytes, "ab"); }

} // namespace warpline
