// malloc and free of kernels (CUDA C++ Programming Guide, dynamic global memory allocation): blocks
// of a heap that belongs to the context and outlives the kernel.
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/ops/external.hpp"

#include <bit>

namespace vgpu::ops {

namespace {

constexpr uint64_t kAlignment = 16, kMostAlignment = 1 << 20;

template <class Fn>
void each(uint32_t mask, Fn&& fn) {
  for (uint32_t m = mask; m; m &= m - 1) fn(uint32_t(std::countr_zero(m)));
}

uint64_t take(Warp& w, uint64_t bytes, uint64_t alignment) {
  const exec::LaunchSpec& s = w.cluster().spec;
  return s.memory->heap_allocate(s.heap, s.heap_bytes, bytes, alignment);
}

} // namespace

Step heap_allocate(Warp& w, const Inst& i, uint32_t mask) {
  each(mask, [&](uint32_t l) { give_result(w, i, l, take(w, argument(w, i, l, 0), kAlignment)); });
  return Step::Next;
}

Step heap_allocate_aligned(Warp& w, const Inst& i, uint32_t mask) {
  each(mask, [&](uint32_t l) {
    const uint64_t alignment = std::max(argument(w, i, l, 1), kAlignment);
    const bool legal = std::has_single_bit(alignment) && alignment <= kMostAlignment;
    give_result(w, i, l, legal ? take(w, argument(w, i, l, 0), alignment) : 0);
  });
  return Step::Next;
}

Step heap_free(Warp& w, const Inst& i, uint32_t mask) {
  const exec::LaunchSpec& s = w.cluster().spec;
  each(mask, [&](uint32_t l) {
    const uint64_t address = argument(w, i, l, 0);
    if (address && !s.memory->heap_free(s.heap, address))
      w.fault(i, 1u << l, FaultCode::launch_failed, "heap",
              "free of " + hex(address) + ", which is not the start of a live block of malloc: " +
                  s.memory->explain(address, 1));
  });
  return Step::Next;
}

} // namespace vgpu::ops
