// What the tcgen05 instructions share. PTX ISA 9.7.16.
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/tensor/mma_operand.hpp"

#include <utility>

namespace vgpu::ops {

struct TensorPlace {
  uint32_t lane = 0, column = 0;
};

// lane << 16 | column; faults on bits outside the two fields.
TensorPlace tensor_place(exec::Warp& w, const exec::Inst& inst, uint32_t mask, uint32_t address);

// Columns: an MMA reads scale factors from multiples of it. PTX ISA is silent; public kernels keep
// to it, and a B300 was measured to (quack's notes).
constexpr uint32_t kScaleGrain = 2;

inline bool strict_order(const exec::Cluster& cluster) {
  return cluster.spec.rules.stops(check::Rule::tensor_order);
}

// All tcgen05 instructions of a kernel carry the same cta_group; with 2 the CTA needs a peer.
void check_cta_group(exec::Warp& w, const exec::Inst& inst, uint32_t mask, uint32_t group);

// An operation of a CTA's tensor core. The order is that of its thread: 9.7.16.6.2.
class TensorCoreOp : public exec::AsyncOp {
public:
  explicit TensorCoreOp(check::OpKind k) : kind(k) {}
  bool follows(const AsyncOp& earlier) const override { return !strict || ordered_after(earlier); }
  bool ordered_after(const AsyncOp& earlier) const override;
  const check::OpKind kind;
  bool strict = true; // rule tensor_order stops; else issue order, as devices seem to keep it
};

// The warp must be whole: no lane absent, none exited.
void check_whole_warp(exec::Warp& w, const exec::Inst& inst, uint32_t mask);

// CTAs that a cta_group::1 or ::2 operation of `rank` works on: itself, or its pair, even first.
struct CtaSet {
  uint32_t first = 0, count = 1;
};
inline CtaSet cta_set(uint32_t rank, uint32_t group) {
  return group == 2 ? CtaSet{rank & ~1u, 2} : CtaSet{rank, 1};
}

// Rows lane .. lane + 30 of a 32-byte column take the row after theirs; the last one stays.
void shift_rows(exec::TensorMemory& memory, uint32_t lane, uint32_t column);

inline uint32_t group_number(std::string_view token) { return token == "cta_group::2" ? 2 : 1; }

// Shared bytes [lo, hi) that hold the 16-byte units of an operand.
struct OperandSpan {
  uint32_t lo = 0, hi = 0;
};
OperandSpan k_major_span(const tensor::OperandDesc& d, uint32_t rows, uint32_t units);
OperandSpan mn_major_span(const tensor::OperandDesc& d, uint32_t rows, uint32_t k_count,
                          uint32_t element_bytes);

} // namespace vgpu::ops
