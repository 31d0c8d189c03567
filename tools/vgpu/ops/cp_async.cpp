// cp.async: 4, 8 or 16 bytes a thread, global to shared memory. PTX ISA 9.7.9.25.3.1, and
// cp.async.mbarrier.arrive, 9.7.13.15.15.
//
// The copies of one warp instruction are one operation. Instructions complete in any order.
#include "tools/vgpu/ops/async_groups.hpp"
#include "tools/vgpu/ops/async_operand.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::ops {

namespace {

struct CpData {
  MemOperand dst, src;
  uint32_t bytes = 0;
  uint32_t source_bytes = exec::kNoSlot; // src-size
  uint32_t ignore = exec::kNoSlot;       // ignore-src predicate
  bool ignore_negated = false;
};

class CpAsync : public AsyncOp {
public:
  struct Item {
    uint32_t offset;
    uint64_t global;
    uint32_t read; // bytes taken from global memory, the others are zero
    uint32_t lane;
    GroupRef group;
  };
  std::vector<Item> items;
  uint32_t cta = 0, bytes = 0;
  std::shared_ptr<bool> done = std::make_shared<bool>(false);
  Warp* warp = nullptr;

  bool perform(Cluster& cluster) override {
    for (const Item& x : items) {
      exec::Origin at = origin;
      at.lane = x.lane;
      uint8_t* to = cluster.touch(
          Access{Space::Shared, Proxy::Generic, true, false, cta, x.offset, bytes, bytes, this},
          at);
      if (x.read != 0)
        std::memcpy(to,
                    cluster.touch(Access{Space::Global, Proxy::Generic, false, false, 0, x.global,
                                         x.read, 1, this},
                                  at),
                    x.read);
      std::memset(to + x.read, 0, bytes - x.read);
      if (!cluster.read_unwritten()) continue;
      const auto states = cluster.states(Space::Global, 0, x.global, x.read);
      if (!states.empty())
        cluster.put_states(Space::Shared, cta, x.offset, states.data(), x.read, false, at);
    }
    *done = true;
    for (const Item& x : items) {
      std::erase(warp->cp_async_in_flight[x.lane], done);
      group_finished(cluster, x.group, false);
    }
    return true;
  }
  std::string describe() const override {
    return "cp.async of " + std::to_string(bytes) + " bytes for each of " +
           std::to_string(items.size()) + " threads of warp " + std::to_string(warp->index);
  }

  void guard() {
    std::vector<Range> runs;
    for (const Item& x : items)
      runs.push_back(Range{Space::Shared, true, cta, x.offset, x.offset + bytes, 0, 128});
    std::sort(runs.begin(), runs.end(), [](const Range& a, const Range& b) { return a.lo < b.lo; });
    for (const Range& r : runs) {
      if (!ranges.empty() && ranges.back().hi == r.lo)
        ranges.back().hi = r.hi;
      else
        ranges.push_back(r);
    }
  }
};

Step run_cp_async(Warp& w, const Inst& inst, uint32_t mask) {
  const CpData& d = *static_cast<const CpData*>(inst.data);
  Cluster& cluster = w.cluster();
  auto op = std::make_unique<CpAsync>();
  op->origin = w.origin(inst, mask);
  op->origin.unit = "cp.async";
  op->cta = w.cta.rank;
  op->bytes = d.bytes;
  op->warp = &w;
  uint32_t ignored = d.ignore == exec::kNoSlot ? 0 : w.holds(d.ignore, d.ignore_negated, mask);
  each_lane(mask, [&](uint32_t l) {
    SharedPlace to = shared_place(w, inst, d.dst, l);
    if (to.cta != w.cta.rank)
      w.fault(inst, lane_bit(l), FaultCode::invalid_address_space, "space",
              "cp.async writes the CTA's own shared memory only");
    uint32_t read = d.bytes;
    if (d.source_bytes != exec::kNoSlot) {
      read = w.lanes<uint32_t>(d.source_bytes)[l];
      if (read > d.bytes)
        w.fault(inst, lane_bit(l), FaultCode::illegal_instruction, "bounds",
                "src-size " + std::to_string(read) + " is larger than cp-size " +
                    std::to_string(d.bytes));
    }
    if (ignored >> l & 1) read = 0;
    uint64_t from = global_place(w, inst, d.src, l);
    exec::Origin at = w.origin(inst, lane_bit(l));
    cluster.touch(Access{Space::Shared, Proxy::Generic, true, false, to.cta, to.offset, d.bytes,
                         d.bytes, op.get()},
                  at);
    if (read != 0)
      cluster.touch(
          Access{Space::Global, Proxy::Generic, false, false, 0, from, read, d.bytes, op.get()},
          at);
    op->items.push_back({to.offset, from, read, l, join_group(w, GroupKind::cp_async, l)});
    w.cp_async_in_flight[l].push_back(op->done);
  });
  op->guard();
  cluster.issue(std::move(op));
  return Step::Next;
}

// Arrives on a barrier once the thread's cp.async of before have completed.
class CpAsyncArrive : public AsyncOp {
public:
  std::vector<std::shared_ptr<bool>> awaited;
  SharedPlace barrier;

  bool perform(Cluster& cluster) override {
    for (const auto& done : awaited)
      if (!*done) return false;
    cluster.mbarrier_arrive(barrier.cta, barrier.offset, 1, false, origin);
    return true;
  }
  std::string describe() const override {
    return "cp.async.mbarrier.arrive on the mbarrier at shared offset " + hex(barrier.offset);
  }
};

template <bool noinc>
Step run_cp_async_arrive(Warp& w, const Inst& inst, uint32_t mask) {
  const CpData& d = *static_cast<const CpData*>(inst.data);
  Cluster& cluster = w.cluster();
  each_lane(mask, [&](uint32_t l) {
    auto op = std::make_unique<CpAsyncArrive>();
    op->origin = w.origin(inst, lane_bit(l));
    op->origin.unit = "cp.async";
    op->barrier = shared_place(w, inst, d.dst, l);
    exec::Mbarrier& b = cluster.mbarrier(op->barrier.cta, op->barrier.offset, op->origin);
    // Without .noinc the pending count rises by the arrival that will follow.
    if (!noinc) ++b.pending;
    op->awaited = w.cp_async_in_flight[l];
    cluster.issue(std::move(op));
  });
  return Step::Next;
}

} // namespace

void decode_cp_async(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<CpData>();
  OperandReader r(ctx, s, m);
  d->dst = r.memory(m.get("dst"));
  d->src = r.memory("global");
  const Operand& size = r.next("cp-size");
  if (size.kind != Operand::Kind::Int) ctx.refuse(s, "cp-size must be an integer constant");
  d->bytes = static_cast<uint32_t>(size.value);
  bool sizes = d->bytes == 16 || (m.get("cache") == "ca" && (d->bytes == 4 || d->bytes == 8));
  if (!sizes)
    ctx.refuse(s, "cp-size " + std::to_string(d->bytes) +
                      (m.get("cache") == "ca" ? " must be 4, 8 or 16" : " must be 16 with .cg"));
  if (s.operands.size() > (m.has("L2::cache_hint") ? 4u : 3u)) {
    const Operand& o = r.next("the source size");
    if (ctx.is_register(o) && ctx.register_bits(o) == 1)
      r.src.push_back(d->ignore = ctx.pred_src(o, d->ignore_negated));
    else
      r.src.push_back(d->source_bytes = ctx.src(o, RegClass::B32));
  }
  r.cache_policy();
  r.finish(inst, d, run_cp_async);
}

void decode_cp_async_arrive(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<CpData>();
  OperandReader r(ctx, s, m);
  d->dst = r.memory(m.get("space"));
  r.finish(inst, d, m.has("noinc") ? run_cp_async_arrive<true> : run_cp_async_arrive<false>);
}

} // namespace vgpu::ops
