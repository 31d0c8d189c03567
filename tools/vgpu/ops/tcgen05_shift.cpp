// tcgen05.shift. PTX ISA 9.7.16.9.3.
//
// Chosen, where the ISA has a figure and no words: the 32 lanes from the address on move (the shape
// is 31x256b, "for a warp"), each row taking the one after it. The halo pixels of im2col::w::128
// come after every 32, so it is the last row that a convolution has to fill anew.
#include "tools/vgpu/ops/tcgen05.hpp"

#include <algorithm>

namespace vgpu::ops {

namespace {

constexpr uint32_t kRows = 32, kColumns = 8;

struct ShiftData {
  MemOperand at;
  uint32_t group = 1;
};

class TensorShift : public TensorCoreOp {
public:
  TensorShift() : TensorCoreOp(check::OpKind::TensorShift) {}
  CtaSet set;
  TensorPlace at;

  bool perform(Cluster& cluster) override {
    for (uint32_t i = 0; i < set.count; ++i) {
      touch(cluster, set.first + i);
      shift_rows(cluster.ctas[set.first + i]->tensor, at.lane, at.column);
    }
    return true;
  }
  std::string describe() const override {
    return "tcgen05.shift of lanes " + std::to_string(at.lane) + ".." +
           std::to_string(at.lane + kRows - 1) + ", columns " + std::to_string(at.column) + ".." +
           std::to_string(at.column + kColumns - 1);
  }
  void touch(Cluster& cluster, uint32_t rank) {
    cluster.touch_tensor(rank, at.lane, kRows, at.column, kColumns, false, this, origin);
    cluster.touch_tensor(rank, at.lane, kRows - 1, at.column, kColumns, true, this, origin);
  }
};

Step run_shift(Warp& w, const Inst& inst, uint32_t mask) {
  const ShiftData& d = *static_cast<const ShiftData*>(inst.data);
  check_cta_group(w, inst, mask, d.group);
  each_lane(mask, [&](uint32_t l) {
    auto op = std::make_unique<TensorShift>();
    op->strict = strict_order(w.cluster());
    op->origin = w.origin(inst, lane_bit(l));
    op->origin.unit = "tensor core";
    op->at = tensor_place(w, inst, lane_bit(l), static_cast<uint32_t>(d.at.value(w, l)));
    if (op->at.lane % kRows != 0)
      w.fault(inst, lane_bit(l), FaultCode::illegal_address, "tmem",
              "tcgen05.shift from lane " + std::to_string(op->at.lane) +
                  ": the lane must be a multiple of 32");
    op->set = cta_set(w.cta.rank, d.group);
    op->pipe = &w.cta.tensor_pipe;
    for (uint32_t i = 0; i < op->set.count; ++i) {
      op->touch(w.cluster(), op->set.first + i);
      op->ranges.push_back(Range{Space::Tensor, true, op->set.first + i, op->at.column,
                                 op->at.column + kColumns, op->at.lane, op->at.lane + kRows});
    }
    w.cluster().issue(std::move(op));
  });
  return Step::Next;
}

} // namespace

void shift_rows(TensorMemory& memory, uint32_t lane, uint32_t column) {
  for (uint32_t r = lane; r + 1 < lane + kRows; ++r)
    std::copy_n(memory.row(r + 1) + column, kColumns, memory.row(r) + column);
}

void decode_tcgen05_shift(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<ShiftData>();
  d->group = group_number(m.get("group"));
  d->at = mem_operand(ctx, s.operands[0], "tensor");
  ctx.set_operands(inst, {}, {d->at.slot});
  inst.data = d;
  inst.run = run_shift;
}

} // namespace vgpu::ops
