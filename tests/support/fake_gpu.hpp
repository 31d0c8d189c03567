// A fixture that puts the fake driver (fake_driver.hpp) under the runtime for one test case.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/driver.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_driver.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

namespace wltest {

inline std::string test_directory() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string file(path, length > 0 ? static_cast<size_t>(length) : 0);
  return file.substr(0, file.rfind('/'));
}

// Sets an environment variable and restores what was there.
class ScopedEnv {
public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) {
    const char* old = std::getenv(name);
    had_ = old != nullptr;
    if (old) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnv() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

private:
  const char* name_;
  bool had_;
  std::string old_;
};

class FakeGpu {
public:
  explicit FakeGpu(int version = 13000) : driver_variable_("WARPLINE_DRIVER", fresh_path()) {
    const std::string file = test_directory() + "/libfakecuda.so";
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    INFO("needs " << file << ": make suites");
    REQUIRE(library);
    reinterpret_cast<void (*)()>(dlsym(library, "fakeReset"))();
    fake = reinterpret_cast<FakeDriver* (*)()>(dlsym(library, "fakeDriver"))();
    fake->version = version;
  }
  ~FakeGpu() { wl_context_destroy(context_); }

  wl_context& context() {
    if (!context_) REQUIRE(wl_context_create(0, &context_) == WL_SUCCESS);
    return *context_;
  }

  // Of a device that reaches the host's memory.
  wl_context& paging_context() {
    fake->pageable_memory = true;
    return context();
  }

  // Gives the context to a caller, who destroys it.
  wl_context* give_context() {
    wl_context* given = &context();
    context_ = nullptr;
    return given;
  }

  FakeDriver* fake = nullptr;

private:
  // The runtime opens a driver once for each name: another spelling of the same path makes it ask
  // the fake for its version again.
  static std::string fresh_path() {
    static int count = 0;
    std::string path = test_directory();
    for (int i = 0; i <= count; ++i) path += "/.";
    ++count;
    return path + "/libfakecuda.so";
  }

  ScopedEnv driver_variable_;
  wl_context* context_ = nullptr;
};

} // namespace wltest
