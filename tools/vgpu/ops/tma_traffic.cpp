#include "tools/vgpu/ops/tma_traffic.hpp"

#include <mutex>

namespace vgpu::ops {

namespace {
std::mutex mutex;
std::map<uint64_t, TensorTraffic> traffic;
} // namespace

void count_tensor_load(uint64_t tensor, uint64_t bytes, unsigned ctas) {
  std::lock_guard lock(mutex);
  TensorTraffic& t = traffic[tensor];
  ++t.loads;
  t.read_bytes += bytes;
  t.delivered_bytes += bytes * ctas;
}

std::map<uint64_t, TensorTraffic> tensor_traffic() {
  std::lock_guard lock(mutex);
  return traffic;
}

void reset_tensor_traffic() {
  std::lock_guard lock(mutex);
  traffic.clear();
}

} // namespace vgpu::ops
