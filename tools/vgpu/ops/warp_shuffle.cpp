// shfl.sync, vote.sync, match.sync, redux.sync, elect.sync, activemask (PTX ISA 9.7.9.6,
// 9.7.13.9 - 9.7.13.14).
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/warp_members.hpp"

#include <sstream>

namespace vgpu::ops {

uint32_t complete_members(Warp& w, const Inst& i, uint32_t mask, uint32_t slot) {
  const uint32_t* members = w.lanes<uint32_t>(slot);
  uint32_t ready = 0;
  for_groups(w, mask, slot, [&](uint32_t group) {
    uint32_t wanted = members[std::countr_zero(group)];
    if (group & ~wanted) {
      std::ostringstream s;
      s << std::hex << "lanes 0x" << group << " execute a .sync instruction whose member mask 0x"
        << wanted << " does not name all of them";
      w.fault(i, group, FaultCode::illegal_instruction, "members", s.str());
    }
    if ((wanted & w.live_mask & ~group) == 0) ready |= group;
  });
  return ready;
}

namespace {

enum class Shuffle { up, down, bfly, idx };

// op: d, p (or scratch), a, b, c, members.
template <Shuffle S>
Step shfl(Warp& w, const Inst& i, uint32_t mask) {
  return run_groups(w, i, mask, i.op[5], [&](uint32_t group) {
    uint32_t* d = w.lanes<uint32_t>(i.op[0]);
    const uint32_t *b = w.lanes<uint32_t>(i.op[3]), *c = w.lanes<uint32_t>(i.op[4]);
    uint32_t a[32];
    std::memcpy(a, w.lanes<uint32_t>(i.op[2]), sizeof a);
    uint32_t from[32], in_range[32];
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t delta = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
      uint32_t low = l & segment, high = low | (clamp & ~segment);
      int32_t j = S == Shuffle::up     ? int32_t(l) - int32_t(delta)
                  : S == Shuffle::down ? int32_t(l + delta)
                  : S == Shuffle::bfly ? int32_t(l ^ delta)
                                       : int32_t(low | (delta & ~segment));
      bool inside = S == Shuffle::up ? j >= int32_t(high) : j <= int32_t(high);
      from[l] = inside ? uint32_t(j) : l;
      in_range[l] = inside ? 1u : 0u;
    }
    uint32_t valid = 0;
    for (uint32_t l = 0; l < 32; ++l) valid |= in_range[l] << l;
    if (group == 0xFFFFFFFFu) {
      for (uint32_t l = 0; l < 32; ++l) d[l] = a[from[l] & 31];
    } else {
      // 9.7.9.6: data of a lane that does not take part is undefined; chosen: a pattern that shows.
      for_lanes(group, [&](uint32_t l) { d[l] = group >> from[l] & 1 ? a[from[l]] : 0xA5A5A5A5u; });
    }
    w.set_pred(i.op[1], group, valid);
  });
}

enum class Vote { all, any, uni, ballot };

// op: d, members, a. mod[0]: a is negated.
template <Vote V>
Step vote(Warp& w, const Inst& i, uint32_t mask) {
  return run_groups(w, i, mask, i.op[1], [&](uint32_t group) {
    uint32_t holds = w.holds(i.op[2], i.mod[0], group);
    if constexpr (V == Vote::ballot) {
      uint32_t* d = w.lanes<uint32_t>(i.op[0]);
      for_lanes(group, [=](uint32_t l) { d[l] = holds; });
    } else {
      bool r = V == Vote::all   ? holds == group
               : V == Vote::any ? holds != 0
                                : holds == 0 || holds == group;
      w.set_pred(i.op[0], group, r ? group : 0);
    }
  });
}

// op: d, p (or scratch), a, members.
template <class T, bool All>
Step match(Warp& w, const Inst& i, uint32_t mask) {
  return run_groups(w, i, mask, i.op[3], [&](uint32_t group) {
    uint32_t* d = w.lanes<uint32_t>(i.op[0]);
    T a[32];
    std::memcpy(a, w.lanes<T>(i.op[2]), sizeof a);
    uint32_t valid = 0;
    for (uint32_t m = group; m; m &= m - 1) {
      uint32_t l = uint32_t(std::countr_zero(m)), same = 0;
      for (uint32_t n = group; n; n &= n - 1)
        if (a[std::countr_zero(n)] == a[l]) same |= n & (0u - n);
      bool full = same == group;
      d[l] = All ? (full ? group : 0u) : same;
      valid |= (full ? 1u : 0u) << l;
    }
    w.set_pred(i.op[1], group, valid);
  });
}

enum class Reduce { add, min_u, max_u, min_s, max_s, band, bor, bxor };

// op: d, a, members.
template <Reduce R>
Step redux(Warp& w, const Inst& i, uint32_t mask) {
  return run_groups(w, i, mask, i.op[2], [&](uint32_t group) {
    const uint32_t* a = w.lanes<uint32_t>(i.op[1]);
    uint32_t r = a[std::countr_zero(group)];
    for (uint32_t m = group & (group - 1); m; m &= m - 1) {
      uint32_t v = a[std::countr_zero(m)];
      if constexpr (R == Reduce::add) r += v;
      if constexpr (R == Reduce::min_u) r = v < r ? v : r;
      if constexpr (R == Reduce::max_u) r = v > r ? v : r;
      if constexpr (R == Reduce::min_s) r = int32_t(v) < int32_t(r) ? v : r;
      if constexpr (R == Reduce::max_s) r = int32_t(v) > int32_t(r) ? v : r;
      if constexpr (R == Reduce::band) r &= v;
      if constexpr (R == Reduce::bor) r |= v;
      if constexpr (R == Reduce::bxor) r ^= v;
    }
    uint32_t* d = w.lanes<uint32_t>(i.op[0]);
    for_lanes(group, [=](uint32_t l) { d[l] = r; });
  });
}
// mod[0]: .abs
template <bool Max, bool Nan>
Step redux_f32(Warp& w, const Inst& i, uint32_t mask) {
  return run_groups(w, i, mask, i.op[2], [&](uint32_t group) {
    const uint32_t* a = w.lanes<uint32_t>(i.op[1]);
    uint32_t keep = i.mod[0] ? 0x7FFFFFFFu : ~0u;
    float r = f32_of(a[std::countr_zero(group)] & keep);
    for (uint32_t m = group & (group - 1); m; m &= m - 1)
      r = min_max<Max, Nan>(r, f32_of(a[std::countr_zero(m)] & keep));
    uint32_t bits = bits_of(canonical(r));
    uint32_t* d = w.lanes<uint32_t>(i.op[0]);
    for_lanes(group, [=](uint32_t l) { d[l] = bits; });
  });
}

// op: d, p, members. The leader is the lowest lane of the member mask.
Step elect(Warp& w, const Inst& i, uint32_t mask) {
  return run_groups(w, i, mask, i.op[2], [&](uint32_t group) {
    uint32_t leader = uint32_t(std::countr_zero(group));
    uint32_t* d = w.lanes<uint32_t>(i.op[0]);
    for_lanes(group, [=](uint32_t l) { d[l] = leader; });
    w.set_pred(i.op[1], group, 1u << leader);
  });
}

Step activemask(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  for_lanes(mask, [=](uint32_t l) { d[l] = mask; });
  return Step::Next;
}

// d|p or d; a sink for what is not written.
std::vector<uint32_t> value_and_predicate(DecodeContext& dc, const Operand& o) {
  if (o.kind == Operand::Kind::Pair)
    return {dc.dst(o.items[0], RegClass::B32), dc.pred_dst(o.items[1])};
  return {dc.dst(o, RegClass::B32), dc.scratch(RegClass::Pred)};
}

} // namespace

void shfl_sync(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view mode = m.get("mode");
  inst.run = mode == "up"     ? shfl<Shuffle::up>
             : mode == "down" ? shfl<Shuffle::down>
             : mode == "bfly" ? shfl<Shuffle::bfly>
                              : shfl<Shuffle::idx>;
  std::vector<uint32_t> src;
  for (size_t k = 1; k <= 4; ++k) src.push_back(dc.src(s.operands[k], RegClass::B32));
  dc.set_operands(inst, value_and_predicate(dc, s.operands[0]), src);
}

void vote_sync(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view mode = m.get("mode");
  bool negated = false;
  uint32_t a = dc.pred_src(s.operands[1], negated);
  inst.mod[0] = negated;
  uint32_t members = dc.src(s.operands[2], RegClass::B32);
  bool ballot = m.has("ballot");
  inst.run = ballot          ? vote<Vote::ballot>
             : mode == "all" ? vote<Vote::all>
             : mode == "any" ? vote<Vote::any>
                             : vote<Vote::uni>;
  uint32_t d = ballot ? dc.dst(s.operands[0], RegClass::B32) : dc.pred_dst(s.operands[0]);
  dc.set_operands(inst, {d}, {members, a});
}

void match_sync(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool all = m.get("mode") == "all", wide = m.get("type") == "b64";
  if (!all && s.operands[0].kind == Operand::Kind::Pair)
    dc.refuse(s, "only match.all writes a predicate");
  inst.run = wide ? (all ? match<uint64_t, true> : match<uint64_t, false>)
                  : (all ? match<uint32_t, true> : match<uint32_t, false>);
  dc.set_operands(inst, value_and_predicate(dc, s.operands[0]),
                  {dc.src(s.operands[1], wide ? RegClass::B64 : RegClass::B32),
                   dc.src(s.operands[2], RegClass::B32)});
}

void redux_sync(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view op = m.get("op"), t = m.get("type");
  bool is_signed = t == "s32";
  if (t == "f32") {
    bool nan = m.has("NaN");
    inst.mod[0] = m.has("abs");
    inst.run = op == "max" ? (nan ? redux_f32<true, true> : redux_f32<true, false>)
                           : (nan ? redux_f32<false, true> : redux_f32<false, false>);
  } else {
    inst.run = op == "add"   ? redux<Reduce::add>
               : op == "min" ? (is_signed ? redux<Reduce::min_s> : redux<Reduce::min_u>)
               : op == "max" ? (is_signed ? redux<Reduce::max_s> : redux<Reduce::max_u>)
               : op == "and" ? redux<Reduce::band>
               : op == "or"  ? redux<Reduce::bor>
                             : redux<Reduce::bxor>;
  }
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)},
                  {source(dc, s.operands[1], t), dc.src(s.operands[2], RegClass::B32)});
}

void elect_sync(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  if (s.operands[0].kind != Operand::Kind::Pair) dc.refuse(s, "elect.sync writes a pair d|p");
  inst.run = elect;
  dc.set_operands(inst, value_and_predicate(dc, s.operands[0]),
                  {dc.src(s.operands[1], RegClass::B32)});
}

void activemask_any(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  inst.run = activemask;
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)}, {});
}

} // namespace vgpu::ops
