#include "tests/support/gpu.hpp"

#include <stdexcept>

namespace wltest {

using namespace cuapi;

Gpu find_gpu() {
  Gpu gpu;
  const warpline::Driver* driver = nullptr;
  if (warpline::open_driver(&driver) != WL_SUCCESS) return gpu;
  int count = 0;
  if (static_cast<int>(driver->cu.DeviceGetCount(&count)) != 0 || count == 0) return gpu;
  if (static_cast<int>(driver->cu.DeviceGet(&gpu.device, 0)) != 0) return gpu;
  constexpr int kMajor = 75, kMinor = 76; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  driver->cu.DeviceGetAttribute(&gpu.major, static_cast<CUdevice_attribute>(kMajor), gpu.device);
  driver->cu.DeviceGetAttribute(&gpu.minor, static_cast<CUdevice_attribute>(kMinor), gpu.device);
  gpu.driver = driver;
  return gpu;
}

CurrentContext::CurrentContext(const Gpu& gpu) : gpu_(gpu) {
  CUcontext context = nullptr;
  if (static_cast<int>(gpu.driver->cu.DevicePrimaryCtxRetain(&context, gpu.device)) != 0 ||
      static_cast<int>(gpu.driver->cu.CtxPushCurrent(context)) != 0)
    throw std::runtime_error("the device's primary context cannot be used");
}

CurrentContext::~CurrentContext() {
  CUcontext context = nullptr;
  gpu_.driver->cu.CtxPopCurrent(&context);
  gpu_.driver->cu.DevicePrimaryCtxRelease(gpu_.device);
}

HardwareContext::HardwareContext(const std::function<bool(const warpline::DeviceLimits&)>& runs,
                                 int ordinal) {
  const Gpu gpu = find_gpu();
  if (!gpu.driver || gpu.driver->is_virtual)
    reason = "no real CUDA driver";
  else if (wl_context_create(ordinal, &context) != WL_SUCCESS)
    reason = wl_last_error();
  else if (!runs(context->limits))
    reason = "no kernel for this GPU";
}

HardwareContext::~HardwareContext() { wl_context_destroy(context); }

} // namespace wltest
