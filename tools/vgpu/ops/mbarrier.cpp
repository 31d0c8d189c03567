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
Step each_barrier(Warp& w, const Inst& inst, uint32_t mask, Fn&& fn) {
  const MbarrierData& d = data(inst);
  each_lane(mask, [&](uint32_t l) {
    SharedPlace p = shared_place(w, inst, d.barrier, l);
    uint32_t value = d.value == exec::kNoSlot ? 0 : w.lanes<uint32_t>(d.value)[l];
    fn(p.cta, p.offset, value, w.origin(inst, lane_bit(l)));
  });
  return Step::Next;
}

Step run_init(Warp& w, const Inst& inst, uint32_t mask) {
  return each_barrier(w, inst, mask, [&](uint32_t cta, uint32_t at, uint32_t v, const auto& o) {
    w.cluster().mbarrier_init(cta, at, v, o);
  });
}

Step run_inval(Warp& w, const Inst& inst, uint32_t mask) {
  return each_barrier(w, inst, mask, [&](uint32_t cta, uint32_t at, uint32_t, const auto& o) {
    w.cluster().mbarrier_inval(cta, at, o);
  });
}

Step run_expect_tx(Warp& w, const Inst& inst, uint32_t mask) {
  return each_barrier(w, inst, mask, [&](uint32_t cta, uint32_t at, uint32_t v, const auto& o) {
    w.cluster().mbarrier_expect_tx(cta, at, v, o);
  });
}

Step run_complete_tx(Warp& w, const Inst& inst, uint32_t mask) {
  return each_barrier(w, inst, mask, [&](uint32_t cta, uint32_t at, uint32_t v, const auto& o) {
    w.cluster().mbarrier_complete_tx(cta, at, v, o);
  });
}

// expect_tx comes before the arrival in one operation, so the phase cannot complete in between.
template <bool expect>
Step run_arrive(Warp& w, const Inst& inst, uint32_t mask) {
  const MbarrierData& d = data(inst);
  Cluster& cluster = w.cluster();
  each_lane(mask, [&](uint32_t l) {
    exec::Origin origin = w.origin(inst, lane_bit(l));
    SharedPlace p = shared_place(w, inst, d.barrier, l);
    Mbarrier& b = cluster.mbarrier(p.cta, p.offset, origin);
    uint32_t value = w.lanes<uint32_t>(d.value)[l];
    uint64_t state = make_state(b);
    uint32_t count = expect ? 1 : value;
    if (d.no_complete && count >= b.pending)
      w.fault(inst, lane_bit(l), FaultCode::launch_failed, "barriers",
              "mbarrier arrive.noComplete with count " + std::to_string(count) +
                  " would complete the phase, which awaits " + std::to_string(b.pending));
    if (expect) cluster.mbarrier_expect_tx(p.cta, p.offset, value, origin);
    cluster.mbarrier_arrive(p.cta, p.offset, count, d.drop, origin);
    if (d.result != exec::kNoSlot) w.lanes<uint64_t>(d.result)[l] = state;
  });
  return Step::Next;
}

// A state names a phase; it is over when the barrier has gone past it. A parity names the phase
// before the current one or the current one.
template <bool parity>
uint32_t done_lanes(Warp& w, const Inst& inst, uint32_t mask) {
  const MbarrierData& d = data(inst);
  uint32_t done = 0;
  each_lane(mask, [&](uint32_t l) {
    SharedPlace p = shared_place(w, inst, d.barrier, l);
    const Mbarrier& b = w.cluster().mbarrier(p.cta, p.offset, w.origin(inst, lane_bit(l)));
    bool over;
    if (parity) {
      uint32_t bit = w.lanes<uint32_t>(d.value)[l];
      if (bit > 1)
        w.fault(inst, lane_bit(l), FaultCode::launch_failed, "barriers",
                "phase parity " + std::to_string(bit) + " is neither 0 nor 1");
      over = Cluster::phase_done(b, bit);
    } else {
      over = b.phase > state_phase(w.lanes<uint64_t>(d.value)[l]);
    }
    if (!over) return;
    done |= lane_bit(l);
    w.started |= b.started;
  });
  return done;
}

// Tells the checkers which phase each lane has seen complete: with a parity the one before the
// current.
template <bool parity>
void note_waits(Warp& w, const Inst& inst, uint32_t done) {
  check::Hub* hub = w.cluster().hub.get();
  if (!hub) return;
  const MbarrierData& d = data(inst);
  for (uint32_t left = done; left;) {
    uint32_t first = static_cast<uint32_t>(std::countr_zero(left)), together = 0;
    SharedPlace p = shared_place(w, inst, d.barrier, first);
    each_lane(left, [&](uint32_t l) {
      SharedPlace q = shared_place(w, inst, d.barrier, l);
      bool same = q.cta == p.cta && q.offset == p.offset &&
                  (parity || w.lanes<uint64_t>(d.value)[l] == w.lanes<uint64_t>(d.value)[first]);
      if (same) together |= lane_bit(l);
    });
    left &= ~together;
    const Mbarrier& b = w.cluster().mbarrier(p.cta, p.offset, w.origin(inst, lane_bit(first)));
    uint64_t phase = parity ? b.phase - 1 : state_phase(w.lanes<uint64_t>(d.value)[first]);
    hub->mbarrier_wait(w, inst, together, p.cta, p.offset, phase);
  }
}

template <bool parity>
Step run_test_wait(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t done = done_lanes<parity>(w, inst, mask);
  w.set_pred(data(inst).result, mask, done);
  note_waits<parity>(w, inst, done);
  if (done == mask) return Step::Next;
  w.polling = true;
  return Step::Yield;
}

// Lanes park until the phase that one of them waits for is over. When some are done and others are
// not, the others get false, as at the end of a time limit, and ask again.
template <bool parity>
Step run_try_wait(Warp& w, const Inst& inst, uint32_t mask) {
  const MbarrierData& d = data(inst);
  uint32_t done = done_lanes<parity>(w, inst, mask);
  if (done != 0) {
    if (w.cluster().policy->spurious_false()) done = 0;
    w.set_pred(d.result, mask, done);
    note_waits<parity>(w, inst, done);
    return Step::Next;
  }
  uint32_t first = static_cast<uint32_t>(std::countr_zero(mask));
  SharedPlace p = shared_place(w, inst, d.barrier, first);
  Mbarrier& b = w.cluster().mbarrier(p.cta, p.offset, w.origin(inst, lane_bit(first)));
  uint32_t bit = parity ? w.lanes<uint32_t>(d.value)[first]
                        : static_cast<uint32_t>(state_phase(w.lanes<uint64_t>(d.value)[first]) & 1);
  Step step = w.park(mask, b.waiters, WaitInfo{WaitInfo::Kind::Mbarrier, p.cta, p.offset, bit});
  exec::Waiter self = b.waiters.back();
  each_lane(mask & (mask - 1), [&](uint32_t l) {
    SharedPlace q = shared_place(w, inst, d.barrier, l);
    if (q.cta == p.cta && q.offset == p.offset) return;
    Mbarrier& other = w.cluster().mbarrier(q.cta, q.offset, w.origin(inst, lane_bit(l)));
    bool listed = std::any_of(other.waiters.begin(), other.waiters.end(), [&](const auto& x) {
      return x.warp == self.warp && x.fragment == self.fragment;
    });
    if (!listed) other.waiters.push_back(self);
  });
  return step;
}

Step run_pending_count(Warp& w, const Inst& inst, uint32_t mask) {
  const MbarrierData& d = data(inst);
  each_lane(mask, [&](uint32_t l) {
    w.lanes<uint32_t>(d.result)[l] = state_pending(w.lanes<uint64_t>(d.value)[l]);
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
  // The time limit is a hint: waiting as long as it takes is one of its outcomes.
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
