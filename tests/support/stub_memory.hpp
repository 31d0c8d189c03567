// A context for tests of rules without a driver: every address is memory of its device, but those
// of one window are the host's.
#pragma once

#include "runtime/src/context.hpp"

namespace wltest {

constexpr uint64_t host_window = 0x7FFF00000000; // 2^32 bytes, where a process has its stack

inline const wl_context* stub_memory() {
  struct Stub {
    warpline::Driver driver;
    wl_context context;
    Stub() {
      driver.cu.PointerGetAttribute = [](void* value, cuapi::CUpointer_attribute which,
                                         cuapi::CUdeviceptr pointer) {
        if (pointer >> 32 == host_window >> 32 ||
            which != cuapi::CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
          return cuapi::CUDA_ERROR_INVALID_VALUE;
        *static_cast<cuapi::CUdeviceptr*>(value) = pointer;
        return cuapi::CUDA_SUCCESS;
      };
      context.driver = &driver;
    }
  };
  static const Stub stub;
  return &stub.context;
}

} // namespace wltest
