// Limits of the GPUs that the library has kernels for.
#pragma once

#include "runtime/src/context.hpp"

namespace wltest {

inline warpline::DeviceLimits limits_of(const char* name, int major, int sms) {
  warpline::DeviceLimits device;
  device.name = name;
  device.compute_major = major;
  device.sm_count = sms;
  device.shared_bytes_per_block = 232448;
  device.max_cluster = 8;
  device.max_cluster_nonportable = 16;
  return device;
}
inline warpline::DeviceLimits b200_limits() { return limits_of("B200", 10, 148); }
inline warpline::DeviceLimits h200_limits() { return limits_of("H200", 9, 132); }

} // namespace wltest
