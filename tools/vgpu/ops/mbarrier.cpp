// mbarrier instructions, PTX ISA 9.7.13.15. Memory order needs nothing here: the executor is
// sequential, so .sem and .scope are forms only.
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/ops/async_operand.hpp"

#include <algorithm>

namespace vgpu::ops {

using exec::Mbarrier;

namespace {

struct MbarrierData {
  MemOperand barrier;
  uint32_t value = exec::kNoSlot;  // count, bytes, state or parity
  uint32_t result = exec::kNoSlot; // state or predicate
  bool drop = false, no_complete = false;
};

const MbarrierData& data(const Inst& inst) { return *static_cast<const MbarrierData*>(inst.data); }

// The opaque state that an arrive returns: the phase in which it arrived and the arrivals that the
// phase awaited before it.
uint64_t make_state(const Mbarrier& b) { return b.phase << 24 | b.pending; }
uint64_t state_phase(uint64_t state) { return state >> 24; }
uint32_t state_pending(uint64_t state) { return state & 0xFFFFFF; }

MbarrierData* make_data(DecodeContext& ctx, const Match& m, const Operand& address, Inst& inst) {
  auto* d = ctx.make<MbarrierData>();
  d->barrier = mem_operand(ctx, address, m.get("space"));
  inst.data = d;
  return d;
}

// fn(CTA, offset, value, origin) for the barrier of every lane.
template <class Fn>
Step each_barrier(Warp& warp, const Inst& inst, uint32_t mask, Fn&& fn) {
  const MbarrierData& operands = data(inst);
  each_lane(mask, [&](uint32_t lane) {
    const SharedPlace place = shared_place(warp, inst, operands.barrier, lane);
    const uint32_t value =
        operands.value == exec::kNoSlot ? 0 : warp.lanes<uint32_t>(operands.value)[lane];
    fn(place.cta, place.offset, value, warp.origin(inst, lane_bit(lane)));
  });
  return Step::Next;
}

using Origin = exec::Origin;

Step run_init(Warp& warp, const Inst& inst, uint32_t mask) {
  return each_barrier(warp, inst, mask,
                      [&](uint32_t cta, uint32_t offset, uint32_t count, const Origin& origin) {
                        warp.cluster().mbarrier_init(cta, offset, count, origin);
                      });
}

Step run_inval(Warp& warp, const Inst& inst, uint32_t mask) {
  return each_barrier(warp, inst, mask,
                      [&](uint32_t cta, uint32_t offset, uint32_t, const Origin& origin) {
                        warp.cluster().mbarrier_inval(cta, offset, origin);
                      });
}

Step run_expect_tx(Warp& warp, const Inst& inst, uint32_t mask) {
  return each_barrier(warp, inst, mask,
                      [&](uint32_t cta, uint32_t offset, uint32_t bytes, const Origin& origin) {
                        warp.cluster().mbarrier_expect_tx(cta, offset, bytes, origin);
                      });
}

Step run_complete_tx(Warp& warp, const Inst& inst, uint32_t mask) {
  return each_barrier(warp, inst, mask,
                      [&](uint32_t cta, uint32_t offset, uint32_t bytes, const Origin& origin) {
                        warp.cluster().mbarrier_complete_tx(cta, offset, bytes, origin);
                      });
}

// expect_tx comes before the arrival in one operation, so the phase cannot complete in between.
template <bool expect>
Step run_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  const MbarrierData& operands = data(inst);
  Cluster& cluster = warp.cluster();
  each_lane(mask, [&](uint32_t lane) {
    exec::Origin origin = warp.origin(inst, lane_bit(lane));
    SharedPlace place = shared_place(warp, inst, operands.barrier, lane);
    Mbarrier& barrier = cluster.mbarrier(place.cta, place.offset, origin);
    uint32_t value = warp.lanes<uint32_t>(operands.value)[lane];
    uint64_t state = make_state(barrier);
    uint32_t count = expect ? 1 : value;
    if (operands.no_complete && count >= barrier.pending)
      warp.fault(inst, lane_bit(lane), FaultCode::launch_failed, "barriers",
                 "mbarrier arrive.noComplete with count " + std::to_string(count) +
                     " would complete the phase, which awaits " + std::to_string(barrier.pending));
    if (expect) cluster.mbarrier_expect_tx(place.cta, place.offset, value, origin);
    cluster.mbarrier_arrive(place.cta, place.offset, count, operands.drop, origin);
    if (operands.result != exec::kNoSlot) warp.lanes<uint64_t>(operands.result)[lane] = state;
  });
  return Step::Next;
}

// A state names a phase; it is over when the barrier has gone past it. A parity names the phase
// before the current one or the current one.
template <bool parity>
uint32_t done_lanes(Warp& warp, const Inst& inst, uint32_t mask) {
  const MbarrierData& operands = data(inst);
  uint32_t done = 0;
  each_lane(mask, [&](uint32_t lane) {
    SharedPlace place = shared_place(warp, inst, operands.barrier, lane);
    const Mbarrier& barrier =
        warp.cluster().mbarrier(place.cta, place.offset, warp.origin(inst, lane_bit(lane)));
    bool over;
    if (parity) {
      uint32_t bit = warp.lanes<uint32_t>(operands.value)[lane];
      if (bit > 1)
        warp.cluster().violation(
            warp.origin(inst, lane_bit(lane)), check::Rule::parity, FaultCode::launch_failed,
            [&] { return "phase parity " + std::to_string(bit) + " is neither 0 nor 1"; });
      over = Cluster::phase_done(barrier, bit);
    } else {
      over = barrier.phase > state_phase(warp.lanes<uint64_t>(operands.value)[lane]);
    }
    if (!over) return;
    done |= lane_bit(lane);
    warp.started |= barrier.started;
  });
  return done;
}

// Tells the checkers which phase each lane has seen complete: with a parity the one before the
// current.
template <bool parity>
void note_waits(Warp& warp, const Inst& inst, uint32_t done) {
  check::Hub* hub = warp.cluster().hub.get();
  if (!hub) return;
  const MbarrierData& operands = data(inst);
  for (uint32_t left = done; left;) {
    uint32_t first = static_cast<uint32_t>(std::countr_zero(left)), together = 0;
    SharedPlace place = shared_place(warp, inst, operands.barrier, first);
    each_lane(left, [&](uint32_t lane) {
      SharedPlace other_place = shared_place(warp, inst, operands.barrier, lane);
      bool same = other_place.cta == place.cta && other_place.offset == place.offset &&
                  (parity || warp.lanes<uint64_t>(operands.value)[lane] ==
                                 warp.lanes<uint64_t>(operands.value)[first]);
      if (same) together |= lane_bit(lane);
    });
    left &= ~together;
    const Mbarrier& barrier =
        warp.cluster().mbarrier(place.cta, place.offset, warp.origin(inst, lane_bit(first)));
    uint64_t phase =
        parity ? barrier.phase - 1 : state_phase(warp.lanes<uint64_t>(operands.value)[first]);
    hub->mbarrier_wait(warp, inst, together, place.cta, place.offset, phase, operands.result);
  }
}

template <bool parity>
Step run_test_wait(Warp& warp, const Inst& inst, uint32_t mask) {
  uint32_t done = done_lanes<parity>(warp, inst, mask);
  warp.set_pred(data(inst).result, mask, done);
  note_waits<parity>(warp, inst, done);
  if (done == mask) return Step::Next;
  warp.polling = true;
  return Step::Yield;
}

// Lanes park until the phase that one of them waits for is over. When some are done and others are
// not, the others get false, as at the end of a time limit, and ask again.
template <bool parity>
Step run_try_wait(Warp& warp, const Inst& inst, uint32_t mask) {
  const MbarrierData& operands = data(inst);
  uint32_t done = done_lanes<parity>(warp, inst, mask);
  if (done != 0) {
    exec::Policy& policy = *warp.cluster().policy;
    if (policy.spurious_false() || (warp.resumed() && policy.false_first())) done = 0;
    warp.set_pred(operands.result, mask, done);
    note_waits<parity>(warp, inst, done);
    return Step::Next;
  }
  if (warp.resume_token() == exec::kWaitEnded) {
    warp.set_pred(operands.result, mask, 0);
    return Step::Next;
  }
  uint32_t first = static_cast<uint32_t>(std::countr_zero(mask));
  SharedPlace place = shared_place(warp, inst, operands.barrier, first);
  Mbarrier& barrier =
      warp.cluster().mbarrier(place.cta, place.offset, warp.origin(inst, lane_bit(first)));
  uint32_t bit =
      parity ? warp.lanes<uint32_t>(operands.value)[first] & 1
             : static_cast<uint32_t>(state_phase(warp.lanes<uint64_t>(operands.value)[first]) & 1);
  Step step = warp.park(mask, barrier.waiters,
                        WaitInfo{WaitInfo::Kind::Mbarrier, place.cta, place.offset, bit});
  exec::Waiter self = barrier.waiters.back();
  each_lane(mask & (mask - 1), [&](uint32_t lane) {
    SharedPlace other_place = shared_place(warp, inst, operands.barrier, lane);
    if (other_place.cta == place.cta && other_place.offset == place.offset) return;
    Mbarrier& other = warp.cluster().mbarrier(other_place.cta, other_place.offset,
                                              warp.origin(inst, lane_bit(lane)));
    bool listed = std::any_of(other.waiters.begin(), other.waiters.end(), [&](const auto& x) {
      return x.warp == self.warp && x.fragment == self.fragment;
    });
    if (!listed) other.waiters.push_back(self);
  });
  return step;
}

Step run_pending_count(Warp& warp, const Inst& inst, uint32_t mask) {
  const MbarrierData& operands = data(inst);
  each_lane(mask, [&](uint32_t lane) {
    warp.lanes<uint32_t>(operands.result)[lane] =
        state_pending(warp.lanes<uint64_t>(operands.value)[lane]);
  });
  return Step::Next;
}

} // namespace

void decode_mbarrier_init(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  MbarrierData* d = make_data(ctx, m, s.operands[0], inst);
  d->value = ctx.src(s.operands[1], RegClass::B32);
  ctx.set_operands(inst, {}, {d->barrier.slot, d->value});
  inst.run = run_init;
}

void decode_mbarrier_inval(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  MbarrierData* d = make_data(ctx, m, s.operands[0], inst);
  ctx.set_operands(inst, {}, {d->barrier.slot});
  inst.run = run_inval;
}

namespace {
void decode_tx(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst,
               exec::Handler run) {
  if (m.has("sem") != m.has("scope")) ctx.refuse(s, ".relaxed and a scope come together");
  MbarrierData* d = make_data(ctx, m, s.operands[0], inst);
  d->value = ctx.src(s.operands[1], RegClass::B32);
  ctx.set_operands(inst, {}, {d->barrier.slot, d->value});
  inst.run = run;
}
} // namespace

void decode_mbarrier_expect_tx(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  decode_tx(ctx, s, m, inst, run_expect_tx);
}

void decode_mbarrier_complete_tx(DecodeContext& ctx, const Statement& s, const Match& m,
                                 Inst& inst) {
  decode_tx(ctx, s, m, inst, run_complete_tx);
}

void decode_mbarrier_arrive(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  if (m.has("sem") != m.has("scope") && !m.has("noComplete"))
    ctx.refuse(s, "a memory order and a scope come together");
  MbarrierData* d = make_data(ctx, m, s.operands[1], inst);
  bool expect = m.has("expect_tx");
  d->drop = m.has("kind");
  d->no_complete = m.has("noComplete");
  d->value = s.operands.size() > 2 ? ctx.src(s.operands[2], RegClass::B32)
                                   : ctx.constant(RegClass::B32, 1);
  std::vector<uint32_t> dst;
  if (s.operands[0].kind != Operand::Kind::Sink) {
    if (m.get("space") == "shared::cluster")
      ctx.refuse(s, "an arrive with .shared::cluster returns no state; the destination must be _");
    d->result = ctx.dst(s.operands[0], RegClass::B64);
    dst.push_back(d->result);
  }
  ctx.set_operands(inst, dst, {d->barrier.slot, d->value});
  inst.run = expect ? run_arrive<true> : run_arrive<false>;
}

void decode_mbarrier_wait(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  if (m.has("sem") != m.has("scope")) ctx.refuse(s, "a memory order and a scope come together");
  MbarrierData* d = make_data(ctx, m, s.operands[1], inst);
  bool parity = m.has("parity"), blocking = m.get("kind") == "try_wait";
  d->value = ctx.src(s.operands[2], parity ? RegClass::B32 : RegClass::B64);
  d->result = ctx.pred_dst(s.operands[0]);
  std::vector<uint32_t> src{d->barrier.slot, d->value};
  // The time limit is a hint: the wait ends when nothing else can happen (Cluster::end_waits).
  if (s.operands.size() > 3) src.push_back(ctx.src(s.operands[3], RegClass::B32));
  ctx.set_operands(inst, {d->result}, src);
  if (blocking)
    inst.run = parity ? run_try_wait<true> : run_try_wait<false>;
  else
    inst.run = parity ? run_test_wait<true> : run_test_wait<false>;
}

void decode_mbarrier_pending_count(DecodeContext& ctx, const Statement& s, const Match&,
                                   Inst& inst) {
  auto* d = ctx.make<MbarrierData>();
  d->result = ctx.dst(s.operands[0], RegClass::B32);
  d->value = ctx.src(s.operands[1], RegClass::B64);
  inst.data = d;
  ctx.set_operands(inst, {d->result}, {d->value});
  inst.run = run_pending_count;
}

} // namespace vgpu::ops
