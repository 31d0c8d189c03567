// The element-wise reductions of cp.reduce.async.bulk and its tensor form. PTX ISA 9.7.9.25.4.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vgpu::ops {

enum class ReduceOp : uint8_t { add, min, max, inc, dec, and_, or_, xor_ };
enum class ReduceType : uint8_t {
  b32,
  u32,
  s32,
  b64,
  u64,
  s64,
  f16,
  bf16,
  f32,
  f64,
  f32_ftz,
  none
};

ReduceOp reduce_op(std::string_view token);
ReduceType reduce_type(std::string_view token);
uint32_t reduce_size(ReduceType type);
// Whether the ISA has the combination, in global memory or in shared::cluster.
bool reduce_allowed(ReduceOp op, ReduceType type, bool global);
// dst[i] = op(dst[i], src[i]), each element atomic: clusters on other host threads may reduce into
// the same bytes. dst is aligned to the element; a trailing part of an element is left out.
void reduce(ReduceOp op, ReduceType type, uint8_t* dst, const uint8_t* src, size_t bytes);

} // namespace vgpu::ops
