#include "tools/vgpu/ops/tcgen05.hpp"

#include <algorithm>

namespace vgpu::ops {

TensorPlace tensor_place(Warp& w, const Inst& inst, uint32_t mask, uint32_t address) {
  TensorPlace p{address >> 16, address & 0xFFFF};
  if (p.lane >= exec::TensorMemory::kLanes || p.column >= exec::TensorMemory::kColumns)
    w.fault(inst, mask, FaultCode::illegal_address, "tmem",
            "tensor memory address " + hex(address) + " names lane " + std::to_string(p.lane) +
                ", column " + std::to_string(p.column) + "; there are 128 lanes and 512 columns");
  return p;
}

void check_cta_group(Warp& w, const Inst& inst, uint32_t mask, uint32_t group) {
  exec::TensorMemory& t = w.cta.tensor;
  if (t.words.empty())
    w.fault(inst, mask, FaultCode::illegal_instruction, "tmem",
            "device " + w.cluster().spec.profile->name + " has no tensor memory");
  if (t.cta_group == group) return;
  if (t.cta_group != 0)
    w.cluster().violation(w.origin(inst, mask), check::Rule::cta_group,
                          FaultCode::illegal_instruction, [&] {
                            return "cta_group::" + std::to_string(group) +
                                   " after cta_group::" + std::to_string(t.cta_group) +
                                   ": all tcgen05 instructions of a kernel must say the same";
                          });
  if (group == 2 && (w.cta.rank ^ 1) >= w.cluster().ctas.size())
    w.fault(inst, mask, FaultCode::illegal_instruction, "cta_group",
            "cta_group::2 needs a peer CTA of rank " + std::to_string(w.cta.rank ^ 1) +
                "; the cluster has " + std::to_string(w.cluster().ctas.size()));
  t.cta_group = group;
}

void check_whole_warp(Warp& w, const Inst& inst, uint32_t mask) {
  if (w.live_mask == 0xFFFFFFFFu) return;
  w.fault(inst, mask, FaultCode::illegal_instruction, "aligned",
          "all 32 threads of the warp must execute it; live are " + hex(w.live_mask));
}

bool TensorCoreOp::ordered_after(const AsyncOp& earlier) const {
  if (earlier.origin.warp != origin.warp || earlier.origin.lane != origin.lane) return false;
  const check::OpKind first = static_cast<const TensorCoreOp&>(earlier).kind;
  return kind == check::OpKind::Commit ? first != check::OpKind::Commit
                                       : check::pipelined(first, kind);
}

OperandSpan k_major_span(const tensor::OperandDesc& d, uint32_t rows, uint32_t units) {
  uint32_t in_group = std::min(rows, 8u) - 1, groups = (rows + 7) / 8 - 1;
  uint32_t span = tensor::swizzle_span(d.swizzle);
  if (span == 0)
    return {d.start, d.start + in_group * 16 + groups * d.stride + (units - 1) * d.leading + 16};
  // Swizzling moves units inside a line of the span.
  uint32_t hi = d.start + in_group * span + groups * d.stride + units * 16;
  return {d.start / span * span, (hi + span - 1) / span * span};
}

OperandSpan mn_major_span(const tensor::OperandDesc& d, uint32_t rows, uint32_t k_count,
                          uint32_t element_bytes) {
  uint32_t units = (rows * element_bytes + 15) / 16;
  OperandSpan s{~0u, 0};
  for (uint32_t r = 0; r < units; ++r)
    for (uint32_t k = 0; k < k_count; ++k) {
      uint32_t a = tensor::mn_major_address(d, r, k);
      s.lo = std::min(s.lo, a);
      s.hi = std::max(s.hi, a + 16);
    }
  return s;
}

namespace {
// tcgen05.fence orders between threads; this executor keeps program order, and the pipe and the
// guards judge whether a completion was waited for.
Step run_fence(Warp&, const Inst&, uint32_t) { return Step::Next; }
} // namespace

void decode_tcgen05_fence(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.run = run_fence;
}

} // namespace vgpu::ops
