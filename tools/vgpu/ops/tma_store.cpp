// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor, shared to global memory, and the prefetch.
// PTX ISA 9.7.9.27.1.2 - 9.7.9.27.1.4.
//
// A store first reads its source (wait_group.read may go on), later writes its destination.
#include "tools/vgpu/exec/transfers.hpp"
#include "tools/vgpu/ops/async_groups.hpp"
#include "tools/vgpu/ops/async_reduce.hpp"
#include "tools/vgpu/ops/tma.hpp"

namespace vgpu::ops {

using tensor::Segment;
using tensor::SegmentKind;

namespace {

struct StoreData {
  TmaOperands tensor;
  MemOperand src;
  bool reduce = false;
  ReduceOp op = ReduceOp::add;
};

// Destinations are guarded row by row up to this many runs; a box of more runs is written late all
// the same, but an access in between is not reported.
constexpr size_t kGuardedRuns = 64;

ReduceType type_of(const tensor::TensorMap& m, ReduceOp op) {
  using tensor::ElementType;
  bool bits = op == ReduceOp::and_ || op == ReduceOp::or_ || op == ReduceOp::xor_;
  switch (m.type) {
  case ElementType::u32:
    return bits ? ReduceType::b32 : ReduceType::u32;
  case ElementType::s32:
    return bits ? ReduceType::b32 : ReduceType::s32;
  case ElementType::u64:
    return bits ? ReduceType::b64 : ReduceType::u64;
  case ElementType::s64: // an H200 ends and, or, xor of INT64 with an illegal instruction
    return ReduceType::s64;
  case ElementType::f16:
    return ReduceType::f16;
  case ElementType::bf16:
    return ReduceType::bf16;
  case ElementType::f32:
  case ElementType::tf32: // added as f32
    return ReduceType::f32;
  case ElementType::f32_ftz:
  case ElementType::tf32_ftz:
    return ReduceType::f32_ftz;
  case ElementType::f64:
    return ReduceType::f64;
  default:
    return ReduceType::none;
  }
}

class TensorStore : public AsyncOp {
public:
  std::shared_ptr<TmaBox> box;
  uint32_t cta = 0;
  std::vector<GroupRef> groups; // of the lanes that issued it
  bool reduces = false;
  ReduceOp reduce_op = ReduceOp::add;
  ReduceType reduce_type = ReduceType::none;

  bool perform(Cluster& cluster) override {
    if (!read_) {
      read_ = true;
      uint64_t lo = ~0ull, hi = 0;
      for (const Range& r : ranges) {
        if (r.space != Space::Shared) continue;
        lo = std::min(lo, r.lo);
        hi = std::max(hi, r.hi);
        cluster.touch(Access{Space::Shared, Proxy::Async, false, false, cta, r.lo,
                             static_cast<uint32_t>(r.hi - r.lo), 1, this},
                      origin);
      }
      base_ = lo;
      const uint8_t* p = cluster.ctas[cta]->shared.data();
      source_.assign(p + lo, p + hi);
      states_ = cluster.states(Space::Shared, cta, lo, hi - lo);
      cluster.release_ranges(*this, false);
      for (const GroupRef& g : groups) group_read(cluster, g);
      return false;
    }
    uint64_t bytes = 0;
    exec::Sectors sectors;
    for_each_checked_segment(
        cluster, box->access, *this, true, reduces, [&](const Segment& s, uint8_t* to) {
          if (!to) return;
          const uint8_t* from = source_.data() + (s.shared - base_);
          if (!states_.empty())
            cluster.put_states(Space::Global, 0, s.global, states_.data() + (s.shared - base_),
                               s.bytes, true, origin);
          if (reduces)
            reduce(reduce_op, reduce_type, to, from, s.bytes);
          else
            std::memcpy(to, from, s.bytes);
          bytes += s.bytes;
          if (cluster.spec.count) sectors.add(s.global, s.bytes);
        });
    cluster.stats.store_sectors += sectors.touched();
    cluster.stats.partial_sectors += sectors.partial();
    ++cluster.stats.tma_stores;
    cluster.stats.tma_store_bytes += bytes;
    for (const GroupRef& g : groups) group_finished(cluster, g, true);
    return true;
  }

  std::string describe() const override {
    return std::string(reduces ? "tensor reduction" : "tensor store") + " from shared offset " +
           hex(box->access.shared) + " of CTA " + std::to_string(cta) + ", " + tma_text(*box);
  }

private:
  bool read_ = false;
  uint64_t base_ = 0;
  std::vector<uint8_t> source_, states_; // states_: Cluster::states
};

void guard_destination(TensorStore& op) {
  std::vector<Range> runs;
  for (const Segment& s : tensor::unswizzled_segments(op.box->access)) {
    if (s.kind != SegmentKind::data) continue;
    if (!runs.empty() && runs.back().hi == s.global)
      runs.back().hi += s.bytes;
    else
      runs.push_back(Range{Space::Global, true, 0, s.global, s.global + s.bytes, 0, 128});
  }
  if (runs.size() <= kGuardedRuns) op.ranges.insert(op.ranges.end(), runs.begin(), runs.end());
}

// The lanes of the mask whose operands are those of lane `first`.
uint32_t same_operands(Warp& w, const Inst& inst, uint32_t mask, uint32_t first) {
  uint32_t same = mask;
  for (uint32_t k = 0; k < inst.n_src; ++k) {
    const uint32_t slot = inst.op[inst.n_dst + k];
    const bool wide = w.program().slot_class[slot / 8] == exec::RegClass::B64;
    each_lane(same, [&](uint32_t l) {
      const bool equal = wide ? w.lanes<uint64_t>(slot)[l] == w.lanes<uint64_t>(slot)[first]
                              : w.lanes<uint32_t>(slot)[l] == w.lanes<uint32_t>(slot)[first];
      if (!equal) same &= ~lane_bit(l);
    });
  }
  return same;
}

// Lanes with equal operands store once, together: ptxas makes one instruction of the warp of it.
Step run_tensor_store(Warp& w, const Inst& inst, uint32_t mask) {
  const StoreData& d = *static_cast<const StoreData*>(inst.data);
  Cluster& cluster = w.cluster();
  uint32_t done = 0;
  each_lane(mask, [&](uint32_t l) {
    uint32_t bit = lane_bit(l);
    if (done & bit) return;
    const uint32_t together = d.reduce ? bit : same_operands(w, inst, mask, l);
    done |= together;
    SharedPlace src = shared_place(w, inst, d.src, l);
    auto op = std::make_unique<TensorStore>();
    op->origin = w.origin(inst, bit);
    op->origin.unit = "TMA";
    op->box = tma_box(w, inst, d.tensor, l, src.offset, true, d.reduce);
    op->cta = src.cta;
    op->reduces = d.reduce;
    op->reduce_op = d.op;
    if (d.reduce) {
      op->reduce_type = type_of(op->box->map, d.op);
      if (!reduce_allowed(d.op, op->reduce_type, true))
        w.fault(inst, bit, FaultCode::illegal_instruction, "tensormap",
                std::string("the reduction does not exist for elements of type ") +
                    tensor::element_type_name(op->box->map.type));
    }
    op->ranges = tma_shared_ranges(op->box->access, src.cta, false);
    for (const Range& r : op->ranges)
      cluster.touch(Access{Space::Shared, Proxy::Async, false, false, src.cta, r.lo,
                           static_cast<uint32_t>(r.hi - r.lo), 1, op.get()},
                    op->origin);
    // Reductions of several threads into the same elements are in order.
    if (!d.reduce) guard_destination(*op);
    op->lanes = together;
    each_lane(together,
              [&](uint32_t k) { op->groups.push_back(join_group(w, GroupKind::bulk, k)); });
    cluster.issue(std::move(op));
  });
  return Step::Next;
}

// A prefetch changes nothing that can be seen; its map and coordinates are checked.
Step run_tensor_prefetch(Warp& w, const Inst& inst, uint32_t mask) {
  const StoreData& d = *static_cast<const StoreData*>(inst.data);
  each_lane(mask, [&](uint32_t l) { tma_box(w, inst, d.tensor, l, 0, false, false); });
  return Step::Next;
}

} // namespace

void decode_tensor_store(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<StoreData>();
  OperandReader r(ctx, s, m);
  d->tensor = tma_operands(ctx, s, m, r);
  d->src = r.memory("shared::cta");
  d->reduce = m.has("op");
  if (d->reduce) d->op = reduce_op(m.get("op"));
  r.cache_policy();
  r.finish(inst, d, run_tensor_store);
}

void decode_tensor_prefetch(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<StoreData>();
  OperandReader r(ctx, s, m);
  d->tensor = tma_operands(ctx, s, m, r);
  tma_offsets(ctx, s, d->tensor, r);
  r.cache_policy();
  r.finish(inst, d, run_tensor_prefetch);
}

} // namespace vgpu::ops
