// tcgen05.cp (PTX ISA 9.7.16.9.2) and tcgen05.commit (9.7.16.12.1).
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/ops/tcgen05.hpp"
#include "tools/vgpu/tensor/unpack.hpp"

#include <array>

namespace vgpu::ops {

namespace {

enum class Unpack : uint8_t { none, f4, f6 };

// Destination lanes of the source rows: row r goes to lanes first[r] + k * step, k < copies.
struct CopyShape {
  uint32_t rows = 0, units = 0; // 16-byte units of a row: 4 columns each
  enum class To : uint8_t { all, rows32, pairs_02_13, pairs_01_23, rows4 } to = To::all;
};

struct CopyData {
  MemOperand dst;
  uint32_t desc = exec::kNoSlot;
  uint32_t group = 1;
  CopyShape shape;
  Unpack unpack = Unpack::none;
};

// Lanes that row r goes to; returns how many.
uint32_t lanes_of(CopyShape::To to, uint32_t r, std::array<uint32_t, 4>& lanes) {
  using To = CopyShape::To;
  switch (to) {
  case To::all:
    lanes = {r};
    return 1;
  case To::rows32:
    lanes = {r, r + 32, r + 64, r + 96};
    return 4;
  case To::pairs_02_13:
    lanes = {r, r + 64};
    return 2;
  case To::pairs_01_23:
    lanes = {r % 32 + r / 32 * 64, r % 32 + r / 32 * 64 + 32};
    return 2;
  case To::rows4:
    lanes = {32 * r};
    return 1;
  }
  return 0;
}

class TensorCopy : public TensorCoreOp {
public:
  TensorCopy() : TensorCoreOp(check::OpKind::TensorCopy) {}
  tensor::OperandDesc desc;
  OperandSpan span;
  CopyShape shape;
  Unpack unpack = Unpack::none;
  CtaSet set;
  uint32_t column = 0;

  bool perform(Cluster& cluster) override {
    for (uint32_t i = 0; i < set.count; ++i) copy(cluster, set.first + i);
    ++cluster.stats.tensor_copies;
    return true;
  }

  std::string describe() const override {
    return "tcgen05.cp of " + std::to_string(shape.rows) + " rows x " +
           std::to_string(shape.units * 16) + " bytes from shared " + hex(span.lo) + ".." +
           hex(span.hi - 1) + " to tensor memory columns " + std::to_string(column) + ".." +
           std::to_string(column + 4 * shape.units - 1);
  }

private:
  void copy(Cluster& cluster, uint32_t rank) {
    const uint8_t* base = cluster.touch(Access{Space::Shared, Proxy::Async, false, false, rank,
                                               span.lo, span.hi - span.lo, 16, this},
                                        origin) -
                          span.lo;
    cluster.touch_tensor(rank, 0, TensorMemory::kLanes, column, 4 * shape.units, true, this,
                         origin);
    TensorMemory& memory = cluster.ctas[rank]->tensor;
    for (uint32_t r = 0; r < shape.rows; ++r) {
      std::array<uint32_t, 4> lanes;
      uint32_t copies = lanes_of(shape.to, r, lanes);
      for (uint32_t u = 0; u < shape.units; ++u) {
        const uint8_t* from = base + tensor::k_major_address(desc, r, u);
        uint8_t wide[16];
        if (unpack != Unpack::none) {
          // As the tensor core reads them: a 4-bit value in bits 5..2, a 6-bit one in bits 5..0.
          const bool four = unpack == Unpack::f4;
          tensor::unpack_unit(four ? 4 : 6, four ? 2 : 0, from, wide);
          from = wide;
        }
        for (uint32_t k = 0; k < copies; ++k)
          std::memcpy(memory.row(lanes[k]) + column + 4 * u, from, 16);
      }
    }
  }
};

// Copies that repeat a row for other warps are those of scale factors, whose tensor memory has a
// grain: kScaleGrain columns where the MMA reads it, four where shipped kernels write it. A B300
// was measured to have two there too; others were not.
void check_scale_column(Warp& w, const Inst& inst, uint32_t bit, uint32_t column) {
  if (column % kScaleGrain != 0)
    w.fault(inst, bit, FaultCode::illegal_address, "tmem",
            "tcgen05.cp of scale factors to column " + std::to_string(column) +
                "; it must be even, and better a multiple of 4: the nearest is " +
                std::to_string((column + 1) / 4 * 4));
  if (column % 4 == 0 || w.cluster().spec.checks == 0) return;
  check::Finding f{"tmem", "scale-column", true, "", {}};
  f.text =
      "tcgen05.cp of scale factors to column " + std::to_string(column) +
      ", which is no multiple of 4: shipped kernels copy to multiples of 4 and shift where the "
      "MMA reads";
  f.sites.push_back({"this copy", {w.cta.rank, w.index, bit, inst.pc, 0}});
  f.of_instruction = true;
  w.cluster().hub->found(f);
}

Step run_cp(Warp& w, const Inst& inst, uint32_t mask) {
  const CopyData& d = *static_cast<const CopyData*>(inst.data);
  check_cta_group(w, inst, mask, d.group);
  each_lane(mask, [&](uint32_t l) {
    uint32_t bit = lane_bit(l);
    auto op = std::make_unique<TensorCopy>();
    op->strict = strict_order(w.cluster());
    op->origin = w.origin(inst, bit);
    op->origin.unit = "tensor core";
    std::string error = tensor::decode_tcgen05_desc(w.lanes<uint64_t>(d.desc)[l], op->desc);
    if (error.empty() && op->desc.swizzle == tensor::Swizzle::b128_atom32)
      error = "matrix descriptor: tcgen05.cp cannot use swizzle 128B with 32B atoms";
    if (!error.empty()) w.fault(inst, bit, FaultCode::illegal_instruction, "descriptor", error);
    TensorPlace p = tensor_place(w, inst, bit, static_cast<uint32_t>(d.dst.value(w, l)));
    if (p.lane != 0)
      w.fault(inst, bit, FaultCode::illegal_address, "tmem",
              "tcgen05.cp writes from lane 0 on; the address names lane " + std::to_string(p.lane));
    if (d.shape.to != CopyShape::To::all && d.shape.to != CopyShape::To::rows4)
      check_scale_column(w, inst, bit, p.column);
    op->shape = d.shape;
    op->unpack = d.unpack;
    op->set = cta_set(w.cta.rank, d.group);
    op->column = p.column;
    op->span = k_major_span(op->desc, d.shape.rows, d.shape.units);
    op->pipe = &w.cta.tensor_pipe;
    for (uint32_t i = 0; i < op->set.count; ++i) {
      uint32_t rank = op->set.first + i;
      w.cluster().touch_tensor(rank, 0, TensorMemory::kLanes, p.column, 4 * d.shape.units, true,
                               op.get(), op->origin);
      op->ranges.push_back(Range{Space::Shared, false, rank, op->span.lo, op->span.hi, 0, 128});
      op->ranges.push_back(
          Range{Space::Tensor, true, rank, p.column, p.column + 4 * d.shape.units, 0, 128});
    }
    w.cluster().issue(std::move(op));
  });
  return Step::Next;
}

struct CommitData {
  MemOperand barrier;
  uint32_t mask = exec::kNoSlot;
  uint32_t group = 1;
};

class Commit : public TensorCoreOp {
public:
  Commit() : TensorCoreOp(check::OpKind::Commit) {}
  uint32_t targets = 0; // CTAs that it has yet to arrive at
  uint32_t offset = 0;

  // One CTA after the other: a multicast arrives at each in its own time.
  bool perform(Cluster& cluster) override {
    cluster.mbarrier_arrive(static_cast<uint32_t>(std::countr_zero(targets)), offset, 1, false,
                            origin);
    targets &= targets - 1;
    return targets == 0;
  }
  std::string describe() const override {
    return "tcgen05.commit to the mbarrier at shared offset " + hex(offset) + " of CTA mask " +
           hex(targets);
  }
};

Step run_commit(Warp& w, const Inst& inst, uint32_t mask) {
  const CommitData& d = *static_cast<const CommitData*>(inst.data);
  Cluster& cluster = w.cluster();
  check_cta_group(w, inst, mask, d.group);
  each_lane(mask, [&](uint32_t l) {
    uint32_t bit = lane_bit(l);
    SharedPlace p = shared_place(w, inst, d.barrier, l);
    auto op = std::make_unique<Commit>();
    op->strict = strict_order(cluster);
    op->origin = w.origin(inst, bit);
    op->origin.unit = "tensor core";
    op->offset = p.offset;
    op->targets = 1u << p.cta;
    if (d.mask != exec::kNoSlot) {
      op->targets = w.lanes<uint32_t>(d.mask)[l] & 0xFFFF;
      if (op->targets == 0 || op->targets >> cluster.ctas.size() != 0)
        w.fault(inst, bit, FaultCode::illegal_instruction, "multicast",
                "CTA mask " + hex(op->targets) + " must name CTAs of the cluster of " +
                    std::to_string(cluster.ctas.size()));
    }
    for (uint32_t left = op->targets; left; left &= left - 1)
      cluster.mbarrier(static_cast<uint32_t>(std::countr_zero(left)), p.offset, op->origin);
    // It tracks the operations of its own thread: with none of them in flight it does not wait for
    // those of others.
    for (const AsyncOp* o : w.cta.tensor_pipe.queue)
      if (o->origin.warp == w.index && o->origin.lane == l) op->pipe = &w.cta.tensor_pipe;
    cluster.issue(std::move(op));
  });
  return Step::Next;
}

} // namespace

void decode_tcgen05_cp(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  using To = CopyShape::To;
  auto* d = ctx.make<CopyData>();
  d->group = group_number(m.get("group"));
  std::string_view shape = m.get("shape"), cast = m.get("multicast");
  if (shape == "128x256b")
    d->shape = {128, 2, To::all};
  else if (shape == "128x128b")
    d->shape = {128, 1, To::all};
  else if (shape == "4x256b")
    d->shape = {4, 2, To::rows4};
  else if (shape == "32x128b")
    d->shape = {32, 1, To::rows32};
  else
    d->shape = {64, 1, cast == "warpx2::01_23" ? To::pairs_01_23 : To::pairs_02_13};
  bool fits = shape == "32x128b"   ? cast == "warpx4"
              : shape == "64x128b" ? cast.substr(0, 6) == "warpx2"
                                   : cast.empty();
  if (!fits)
    ctx.refuse(s, "shape ." + std::string(shape) +
                      (shape == "32x128b"   ? " needs .warpx4"
                       : shape == "64x128b" ? " needs .warpx2::02_13 or .warpx2::01_23"
                                            : " takes no multicast"));
  if (m.has("b8x16") != m.has("format")) ctx.refuse(s, ".b8x16 and a source format come together");
  if (m.has("format")) d->unpack = m.get("format") == "b4x16_p64" ? Unpack::f4 : Unpack::f6;
  d->dst = mem_operand(ctx, s.operands[0], "tensor");
  d->desc = ctx.src(s.operands[1], RegClass::B64);
  ctx.set_operands(inst, {}, {d->dst.slot, d->desc});
  inst.data = d;
  inst.run = run_cp;
}

void decode_tcgen05_commit(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<CommitData>();
  d->group = group_number(m.get("group"));
  d->barrier = mem_operand(ctx, s.operands[0], m.has("shared::cluster") ? "shared::cluster" : "");
  std::vector<uint32_t> src{d->barrier.slot};
  bool cast = m.has("multicast::cluster");
  if (cast != (s.operands.size() == 2))
    ctx.refuse(s, ".multicast::cluster and a CTA mask come together");
  if (cast) src.push_back(d->mask = ctx.src(s.operands[1], RegClass::B32));
  ctx.set_operands(inst, {}, src);
  inst.data = d;
  inst.run = run_commit;
}

} // namespace vgpu::ops
