// Named barriers, bar.warp.sync and the cluster barrier. PTX ISA 9.7.13.1 - 9.7.13.3.
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/ops/warp_members.hpp"

namespace vgpu::ops {

using exec::NamedBarrier;

namespace {

enum class BarKind : uint8_t { sync, arrive, red_popc, red_and, red_or };

struct BarData {
  BarKind kind = BarKind::sync;
  uint32_t id = exec::kNoSlot, threads = exec::kNoSlot; // threads: kNoSlot = all of the CTA
  uint32_t result = exec::kNoSlot, value = exec::kNoSlot;
  bool negated = false;
};

// Threads that the executing lanes count for. A warp counts as 32 threads whatever its size, so
// its lowest live lane brings the lanes that do not exist or have exited along.
uint32_t arriving_threads(const Warp& w, uint32_t mask) {
  uint32_t n = static_cast<uint32_t>(std::popcount(mask));
  if (mask & w.live_mask & (0u - w.live_mask))
    n += 32 - static_cast<uint32_t>(std::popcount(w.live_mask));
  return n;
}

Step finish_bar(Warp& w, const BarData& d, const NamedBarrier& b, uint32_t mask) {
  if (d.kind != BarKind::arrive) w.started |= b.started;
  switch (d.kind) {
  case BarKind::sync:
  case BarKind::arrive:
    break;
  case BarKind::red_popc:
    each_lane(mask, [&](uint32_t l) { w.lanes<uint32_t>(d.result)[l] = b.last_pop; });
    break;
  case BarKind::red_and:
    w.set_pred(d.result, mask, b.last_and ? mask : 0);
    break;
  case BarKind::red_or:
    w.set_pred(d.result, mask, b.last_or ? mask : 0);
    break;
  }
  return Step::Next;
}

Step run_bar(Warp& w, const Inst& inst, uint32_t mask) {
  const BarData& d = *static_cast<const BarData*>(inst.data);
  Cta& cta = w.cta;
  uint32_t id = uniform_u32(w, inst, mask, d.id, "the barrier number");
  if (id > 15)
    w.fault(inst, mask, FaultCode::illegal_instruction, "barriers",
            "barrier number " + std::to_string(id) + " is outside 0..15");
  NamedBarrier& b = cta.named[id];
  if (w.resumed()) {
    // The token holds the generation that completes this wait.
    if (b.generation >= w.resume_token()) return finish_bar(w, d, b, mask);
    return w.park(mask, b.waiters,
                  WaitInfo{WaitInfo::Kind::NamedBarrier, cta.rank, id, b.expected});
  }
  uint32_t threads = static_cast<uint32_t>(cta.warps.size()) * 32;
  bool all = d.threads == exec::kNoSlot;
  if (!all) {
    uint32_t want = uniform_u32(w, inst, mask, d.threads, "the thread count");
    if (want == 0 || want % 32 != 0 || want > threads)
      w.fault(inst, mask, FaultCode::launch_failed, "barriers",
              "thread count " + std::to_string(want) + " of barrier " + std::to_string(id) +
                  " must be a multiple of 32 in 32.." + std::to_string(threads) +
                  " (the CTA's threads)");
    threads = want;
  }
  if (b.expected != 0 && b.expected != threads)
    w.fault(inst, mask, FaultCode::launch_failed, "barriers",
            "barrier " + std::to_string(id) + " is used with " + std::to_string(threads) +
                " threads while others have arrived for " + std::to_string(b.expected));
  if (b.arrived == 0) {
    b.red_and = 1;
    b.red_or = b.red_pop = 0;
  }
  b.expected = threads;
  b.all = all;
  b.started |= w.started;
  b.arrived += arriving_threads(w, mask);
  if (b.arrived > threads)
    w.fault(inst, mask, FaultCode::launch_failed, "barriers",
            "barrier " + std::to_string(id) + " awaits " + std::to_string(threads) +
                " threads and " + std::to_string(b.arrived) + " have arrived");
  if (d.value != exec::kNoSlot) {
    uint32_t holds = w.holds(d.value, d.negated, mask);
    b.red_and &= holds == mask;
    b.red_or |= holds != 0;
    b.red_pop += static_cast<uint32_t>(std::popcount(holds));
  }
  uint64_t done_at = b.generation + 1;
  cta.settle_named(b);
  if (b.generation >= done_at || d.kind == BarKind::arrive) return finish_bar(w, d, b, mask);
  w.resume_token() = done_at;
  return w.park(mask, b.waiters, WaitInfo{WaitInfo::Kind::NamedBarrier, cta.rank, id, b.expected});
}

Step run_bar_warp_sync(Warp& w, const Inst& inst, uint32_t mask);

// Lanes of a parked fragment that wait in a bar.warp.sync with these members.
uint32_t waiting_lanes(Warp& w, const exec::Fragment& f, uint32_t members) {
  if (f.state != exec::Fragment::State::Parked || f.wait.kind != WaitInfo::Kind::Converge) return 0;
  const Inst& at = w.program().code[f.pc];
  if (at.run != run_bar_warp_sync) return 0;
  const uint32_t* theirs = w.lanes<uint32_t>(at.op[0]);
  uint32_t lanes = 0;
  for (uint32_t m = f.mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(std::countr_zero(m));
    if (theirs[l] == members) lanes |= 1u << l;
  }
  return lanes;
}

// Lanes wait until all lanes of the mask execute bar.warp.sync with the same mask, at this place or
// at others. Lanes may come in several groups, each with a mask of its own. The token holds the
// lanes of a parked fragment that others have released.
Step run_bar_warp_sync(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t slot = inst.op[0];
  uint32_t ready = static_cast<uint32_t>(w.resume_token()) & mask;
  w.resume_token() = 0;
  for_groups(w, mask & ~ready, slot, [&](uint32_t group) {
    const uint32_t members = w.lanes<uint32_t>(slot)[std::countr_zero(group)];
    if (group & ~members)
      w.fault(inst, group, FaultCode::illegal_instruction, "barriers",
              "lanes " + hex(group) + " execute bar.warp.sync with member mask " + hex(members) +
                  ", which leaves some of them out");
    uint32_t here = group;
    for (const auto& f : w.fragments()) here |= waiting_lanes(w, *f, members);
    if (members & w.live_mask & ~here) return;
    for (const auto& f : w.fragments())
      if (const uint32_t lanes = waiting_lanes(w, *f, members)) {
        f->token |= lanes;
        w.wake(f->id);
      }
    if (check::Hub* hub = w.cluster().hub.get()) hub->warp_sync(w, inst, here);
    ready |= group;
  });
  if (ready == mask) return Step::Next;
  // The last to come wakes the fragments by id, so no list is kept.
  exec::WaitList unused;
  return w.park(mask & ~ready, unused, WaitInfo{WaitInfo::Kind::Converge, w.cta.rank, inst.pc, 0});
}

Step run_cluster_arrive(Warp& w, const Inst& inst, uint32_t mask) {
  w.cluster().cluster_barrier_arrive(w, inst, mask);
  return Step::Next;
}

Step run_cluster_wait(Warp& w, const Inst& inst, uint32_t mask) {
  exec::Cluster& cluster = w.cluster();
  if ((mask & w.cluster_arrived) != mask)
    w.fault(inst, mask, FaultCode::launch_failed, "barriers",
            "barrier.cluster.wait by lanes " + hex(mask & ~w.cluster_arrived) +
                " that have not executed barrier.cluster.arrive before");
  if (!cluster.cluster_barrier_done(w))
    return w.park(mask, cluster.barrier.waiters,
                  WaitInfo{WaitInfo::Kind::ClusterBarrier, w.cta.rank, 0,
                           static_cast<uint32_t>(cluster.barrier.generation)});
  w.cluster_arrived &= ~mask;
  w.started = (1u << cluster.ctas.size()) - 1;
  return Step::Next;
}

} // namespace

void decode_bar(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<BarData>();
  d->kind = m.get("kind") == "arrive" ? BarKind::arrive : BarKind::sync;
  d->id = ctx.src(s.operands[0], RegClass::B32);
  std::vector<uint32_t> src{d->id};
  if (s.operands.size() > 1) src.push_back(d->threads = ctx.src(s.operands[1], RegClass::B32));
  ctx.set_operands(inst, {}, src);
  inst.data = d;
  // `bar` is `barrier.aligned`.
  inst.aligned = s.opcode[0] == "bar" || m.has("aligned");
  inst.run = run_bar;
}

void decode_bar_red(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<BarData>();
  std::string_view op = m.get("op");
  d->kind = op == "popc" ? BarKind::red_popc : op == "and" ? BarKind::red_and : BarKind::red_or;
  d->result = op == "popc" ? ctx.dst(s.operands[0], RegClass::B32) : ctx.pred_dst(s.operands[0]);
  d->id = ctx.src(s.operands[1], RegClass::B32);
  std::vector<uint32_t> src{d->id};
  if (s.operands.size() > 3) src.push_back(d->threads = ctx.src(s.operands[2], RegClass::B32));
  src.push_back(d->value = ctx.pred_src(s.operands.back(), d->negated));
  ctx.set_operands(inst, {d->result}, src);
  inst.data = d;
  inst.aligned = s.opcode[0] == "bar" || m.has("aligned");
  inst.run = run_bar;
}

void decode_bar_warp_sync(DecodeContext& ctx, const Statement& s, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {ctx.src(s.operands[0], RegClass::B32)});
  inst.run = run_bar_warp_sync;
}

void decode_barrier_cluster_arrive(DecodeContext& ctx, const Statement&, const Match& m,
                                   Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.aligned = m.has("aligned");
  inst.run = run_cluster_arrive;
}

void decode_barrier_cluster_wait(DecodeContext& ctx, const Statement&, const Match& m, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.aligned = m.has("aligned");
  inst.run = run_cluster_wait;
}

} // namespace vgpu::ops
