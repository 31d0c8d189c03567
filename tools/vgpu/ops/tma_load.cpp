// cp.async.bulk.tensor, global to shared memory. PTX ISA 9.7.9.27.1.2.
//
// Every destination CTA of a multicast is an operation of its own: deliveries complete separately.
#include "tools/vgpu/ops/tma.hpp"
#include "tools/vgpu/ops/tma_traffic.hpp"

namespace vgpu::ops {

using tensor::Segment;
using tensor::SegmentKind;

namespace {

struct LoadData {
  TmaOperands tensor;
  MemOperand dst, barrier;
  uint32_t mask = exec::kNoSlot; // multicast
  bool pair = false;             // cta_group::2
};

class TensorLoad : public AsyncOp {
public:
  std::shared_ptr<TmaBox> box;
  uint32_t cta = 0; // destination
  SharedPlace barrier;
  uint64_t bytes = 0;

  bool perform(Cluster& cluster) override {
    const tensor::TmaAccess& access = box->access;
    for (const exec::Range& r : ranges) {
      Access a{Space::Shared,
               Proxy::Async,
               true,
               false,
               cta,
               r.lo,
               static_cast<uint32_t>(r.hi - r.lo),
               1,
               this};
      cluster.touch(a, origin);
    }
    uint8_t* shared = cluster.ctas[cta]->shared.data();
    unsigned char fill[16];
    bool rounds = tensor::rounds_on_load(box->map.type);
    tensor::fill_pattern(box->map, fill);
    for_each_checked_segment(cluster, access, *this, false, false,
                             [&](const Segment& s, const uint8_t* from) {
                               uint8_t* to = shared + s.shared;
                               if (from) {
                                 std::memcpy(to, from, s.bytes);
                                 if (rounds) tensor::round_loaded(to, s.bytes);
                               } else if (s.kind == SegmentKind::fill) {
                                 for (uint32_t i = 0; i < s.bytes; ++i)
                                   to[i] = fill[(s.shared + i) % 16];
                               }
                             });
    if (cluster.read_unwritten()) carry_states(cluster);
    ++cluster.stats.tma_loads;
    cluster.stats.tma_load_bytes += bytes;
    cluster.mbarrier_complete_tx(barrier.cta, barrier.offset, static_cast<int64_t>(bytes), origin);
    return true;
  }

  std::string describe() const override {
    return "tensor load of " + std::to_string(bytes) + " bytes to shared offset " +
           hex(box->access.shared) + " of CTA " + std::to_string(cta) + ", " + tma_text(*box) +
           ", completing on the mbarrier at " + hex(barrier.offset) + " of CTA " +
           std::to_string(barrier.cta);
  }

private:
  void carry_states(Cluster& cluster) const {
    tensor::for_each_segment(box->access, [&](const Segment& s) {
      if (s.kind != SegmentKind::data) return;
      const auto states = cluster.states(exec::Space::Global, 0, s.global, s.bytes);
      if (!states.empty())
        cluster.put_states(exec::Space::Shared, cta, s.shared, states.data(), s.bytes, false,
                           origin);
    });
  }
};

Step run_tensor_load(Warp& w, const Inst& inst, uint32_t mask) {
  const LoadData& d = *static_cast<const LoadData*>(inst.data);
  Cluster& cluster = w.cluster();
  each_lane(mask, [&](uint32_t l) {
    uint32_t bit = lane_bit(l);
    SharedPlace dst = shared_place(w, inst, d.dst, l);
    SharedPlace bar = shared_place(w, inst, d.barrier, l);
    std::shared_ptr<TmaBox> box = tma_box(w, inst, d.tensor, l, dst.offset, false, false);
    uint32_t targets = copy_targets(w, inst, l, d.mask, dst, bar, d.pair);
    count_tensor_load(box->map.address, tensor::transaction_bytes(box->access),
                      static_cast<unsigned>(std::popcount(targets)));
    for (uint32_t left = targets; left; left &= left - 1) {
      uint32_t cta = static_cast<uint32_t>(std::countr_zero(left));
      auto op = std::make_unique<TensorLoad>();
      op->origin = w.origin(inst, bit);
      op->origin.unit = "TMA";
      op->box = box;
      op->cta = cta;
      // cta_group::2: the CTA of the destination's pair whose parity is that of the barrier's
      // address.
      op->barrier = {d.pair ? (cta & ~1u) | (bar.cta & 1u) : cta, bar.offset};
      op->bytes = tensor::transaction_bytes(box->access);
      op->ranges = tma_shared_ranges(box->access, cta, true);
      // Faults here, at the instruction, when the barrier does not exist.
      cluster.mbarrier(op->barrier.cta, op->barrier.offset, op->origin);
      for (const exec::Range& r : op->ranges)
        cluster.touch(Access{Space::Shared, Proxy::Async, true, false, cta, r.lo,
                             static_cast<uint32_t>(r.hi - r.lo), 1, op.get()},
                      op->origin);
      cluster.issue(std::move(op));
    }
  });
  return Step::Next;
}

} // namespace

void decode_tensor_load(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<LoadData>();
  OperandReader r(ctx, s, m);
  d->dst = r.memory(m.get("dst"));
  d->tensor = tma_operands(ctx, s, m, r);
  d->barrier = r.memory("shared::cluster");
  d->pair = m.get("group") == "cta_group::2";
  tma_offsets(ctx, s, d->tensor, r);
  d->mask = r.cta_mask();
  r.cache_policy();
  r.finish(inst, d, run_tensor_load);
}

} // namespace vgpu::ops
