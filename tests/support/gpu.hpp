// The GPU that hardware tests run on: the first device of the driver that WARPLINE_DRIVER names
// (the real one when it is unset), if there is one.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/driver.hpp"

#include <functional>
#include <string>

namespace wltest {

struct Gpu {
  const warpline::Driver* driver = nullptr; // null: no driver or no device
  cuapi::CUdevice device = 0;
  int major = 0, minor = 0;
};

Gpu find_gpu();

// The device's primary context, current for the scope's life.
class CurrentContext {
public:
  explicit CurrentContext(const Gpu& gpu);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

private:
  const Gpu& gpu_;
};

// A context on a real GPU when it can run what a test is about, or the reason why there is none.
struct HardwareContext {
  explicit HardwareContext(const std::function<bool(const warpline::DeviceLimits&)>& runs,
                           int ordinal = 0);
  ~HardwareContext();
  HardwareContext(const HardwareContext&) = delete;
  HardwareContext& operator=(const HardwareContext&) = delete;

  wl_context* context = nullptr;
  std::string reason;
};

} // namespace wltest
