#include "tests/support/virtual_gpu.hpp"

#include "runtime/src/driver.hpp"

#include <cstdlib>
#include <stdexcept>

namespace wltest {

wl_context* virtual_context(const std::string& profile) {
  static wl_context* context = nullptr;
  if (context) return context;
  setenv("WARPLINE_DRIVER", ("virtual:" + profile).c_str(), 1);
  if (wl_context_create(0, &context) != WL_SUCCESS) throw std::runtime_error(wl_last_error());
  return context;
}

wl_context* context_of_process() {
  const char* driver = std::getenv("WARPLINE_DRIVER");
  const std::string name = driver != nullptr ? driver : "";
  return virtual_context(name.rfind("virtual:", 0) == 0 ? name.substr(8) : "b200");
}

bool set_option(const std::string& key, const std::string& value) {
  using SetOption = int (*)(const char*, const char*);
  const auto set = reinterpret_cast<SetOption>(warpline::driver_symbol("vgpuSetOption"));
  return set != nullptr && set(key.c_str(), value.c_str()) == 0;
}

bool set_schedule(const std::string& schedule) { return set_option("schedule", schedule); }
bool set_checks(const std::string& list) { return set_option("check", list); }

std::string virtual_report() {
  const auto report = reinterpret_cast<const char* (*)()>(warpline::driver_symbol("vgpuReport"));
  return report != nullptr ? report() : "";
}

} // namespace wltest
