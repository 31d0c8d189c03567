// What tensor loads moved, by tensor: bytes read from L2, where a multicast counts once, and bytes
// delivered to shared memory, where it counts in every CTA.
#pragma once

#include <cstdint>
#include <map>

namespace vgpu::ops {

struct TensorTraffic {
  uint64_t loads = 0, read_bytes = 0, delivered_bytes = 0;
};

// Boxes count whole, elements out of bounds included, as the mbarrier is paid.
void count_tensor_load(uint64_t tensor, uint64_t bytes, unsigned ctas);
// By the tensor's global address, since the last reset; of all launches of the process.
std::map<uint64_t, TensorTraffic> tensor_traffic();
void reset_tensor_traffic();

} // namespace vgpu::ops
