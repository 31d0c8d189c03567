// Comparison and selection (PTX ISA 9.7.6, 9.7.7).
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/lanes.hpp"

#include <algorithm>
#include <vector>

namespace vgpu::ops {

namespace {

enum class Cmp { eq, ne, lt, le, gt, ge, num };

// Ordered comparisons are false when an operand is NaN; ne is ordered in the ISA's table (9.3.1.2).
template <Cmp C, class T>
bool compare(T a, T b) {
  if constexpr (C == Cmp::eq) return a == b;
  if constexpr (C == Cmp::ne) return a < b || a > b;
  if constexpr (C == Cmp::lt) return a < b;
  if constexpr (C == Cmp::le) return a <= b;
  if constexpr (C == Cmp::gt) return a > b;
  if constexpr (C == Cmp::ge) return a >= b;
  return a == a && b == b;
}

// Half of all comparisons are the opposite of one of the others.
struct Opposite {
  std::string_view name, of;
};
const std::vector<Opposite> float_opposites = {{"equ", "ne"}, {"neu", "eq"}, {"ltu", "ge"},
                                               {"leu", "gt"}, {"gtu", "le"}, {"geu", "lt"},
                                               {"nan", "num"}};
const std::vector<Opposite> integer_opposites = {{"ne", "eq"}, {"gt", "le"}, {"ge", "lt"}};

// How the operands of a type are read: Type::Bits in the register, Type::get to compare.
template <class T>
struct Plain {
  using Bits = T;
  using Value = T;
  static Value get(Bits v) { return v; }
};
struct F32Ftz {
  using Bits = float;
  using Value = float;
  static Value get(Bits v) { return flush(v); }
};
template <bool Ftz>
struct F16 {
  using Bits = uint16_t;
  using Value = float;
  static Value get(Bits v) { return num::f16_to_f32(Ftz && (v & 0x7C00) == 0 ? v & 0x8000 : v); }
};
struct Bf16 {
  using Bits = uint16_t;
  using Value = float;
  static Value get(Bits v) { return num::bf16_to_f32(v); }
};

template <class Type, Cmp C>
uint32_t compare_lanes(Warp& w, const Inst& i, uint32_t mask) {
  using B = typename Type::Bits;
  const auto* a = w.lanes<Word<B>>(i.op[i.n_dst]);
  const auto* b = w.lanes<Word<B>>(i.op[i.n_dst + 1]);
  return lane_bits(mask, [&](uint32_t l) {
    return compare<C>(Type::get(from_word<B>(a[l])), Type::get(from_word<B>(b[l])));
  });
}
// Halves of packed operands: the lower pair's bits, and the upper pair's in `high`.
template <class Type, Cmp C>
uint32_t compare_pairs(Warp& w, const Inst& i, uint32_t mask, uint32_t& high) {
  const auto* a = w.lanes<uint32_t>(i.op[i.n_dst]);
  const auto* b = w.lanes<uint32_t>(i.op[i.n_dst + 1]);
  high = lane_bits(mask, [&](uint32_t l) {
    return compare<C>(Type::get(uint16_t(a[l] >> 16)), Type::get(uint16_t(b[l] >> 16)));
  });
  return lane_bits(mask, [&](uint32_t l) {
    return compare<C>(Type::get(uint16_t(a[l])), Type::get(uint16_t(b[l])));
  });
}

// mod[0]: 0 none, 1 and, 2 or, 3 xor with the predicate op[n_dst + 2]; mod[1]: it is negated.
uint32_t combine(Warp& w, const Inst& i, uint32_t bits) {
  if (i.mod[0] == 0) return bits;
  uint32_t c = w.pred(i.op[i.n_dst + 2]) ^ (i.mod[1] ? ~0u : 0u);
  return i.mod[0] == 1 ? bits & c : i.mod[0] == 2 ? bits | c : bits ^ c;
}

// mod[3]: all ones where the opposite of C is asked for.
template <class Type, Cmp C>
Step setp(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t bits = compare_lanes<Type, C>(w, i, mask) ^ i.mod[3];
  uint32_t p = combine(w, i, bits);
  uint32_t q = i.n_dst == 2 ? combine(w, i, ~bits) : 0;
  w.set_pred(i.op[0], mask, p);
  if (i.n_dst == 2) w.set_pred(i.op[1], mask, q);
  return Step::Next;
}
template <class Type, Cmp C>
Step setp_pairs(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t high = 0, low = compare_pairs<Type, C>(w, i, mask, high);
  uint32_t p = combine(w, i, low ^ i.mod[3]), q = combine(w, i, high ^ i.mod[3]);
  w.set_pred(i.op[0], mask, p);
  if (i.n_dst == 2) w.set_pred(i.op[1], mask, q);
  return Step::Next;
}

// set: the setp of its operands into predicates of its own, then
// mod[2]: the register's value where the comparison is true (all ones, or 1.0 in the type).
struct Set {
  Inst inner;
  uint32_t slots[5]; // of `inner`
};
Step set(Warp& w, const Inst& i, uint32_t mask) {
  const Set& x = *static_cast<const Set*>(i.data);
  x.inner.run(w, x.inner, mask);
  const uint32_t bits = w.pred(x.slots[0]);
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = bits >> l & 1 ? i.mod[2] : 0u; });
  return Step::Next;
}
// Each half of the result belongs to one half of the operands (9.7.7.1).
Step set_pairs(Warp& w, const Inst& i, uint32_t mask) {
  const Set& x = *static_cast<const Set*>(i.data);
  x.inner.run(w, x.inner, mask);
  const uint32_t low = w.pred(x.slots[0]), high = w.pred(x.slots[1]);
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  for_lanes(mask, [&](uint32_t l) {
    uint32_t lo = low >> l & 1, hi = high >> l & 1;
    d[l] = (lo ? i.mod[2] & 0xFFFFu : 0u) | (hi ? i.mod[2] & 0xFFFF0000u : 0u);
  });
  return Step::Next;
}

template <class Type>
Handler pick_cmp(std::string_view c) {
  if (c == "eq") return setp<Type, Cmp::eq>;
  if (c == "lt") return setp<Type, Cmp::lt>;
  if (c == "le") return setp<Type, Cmp::le>;
  if constexpr (std::is_floating_point_v<typename Type::Value>) {
    if (c == "ne") return setp<Type, Cmp::ne>;
    if (c == "gt") return setp<Type, Cmp::gt>;
    if (c == "ge") return setp<Type, Cmp::ge>;
    if (c == "num") return setp<Type, Cmp::num>;
  }
  return nullptr;
}
template <class Type>
Handler pick_cmp_pairs(std::string_view c) {
  if (c == "eq") return setp_pairs<Type, Cmp::eq>;
  if (c == "ne") return setp_pairs<Type, Cmp::ne>;
  if (c == "lt") return setp_pairs<Type, Cmp::lt>;
  if (c == "le") return setp_pairs<Type, Cmp::le>;
  if (c == "gt") return setp_pairs<Type, Cmp::gt>;
  if (c == "ge") return setp_pairs<Type, Cmp::ge>;
  if (c == "num") return setp_pairs<Type, Cmp::num>;
  return nullptr;
}

// The handler of setp, and mod[3] for it.
struct Comparison {
  Handler run;
  uint32_t flip;
};

// lo, ls, hi and hs compare without sign; bit types know eq and ne only (9.3.1.1).
Comparison pick(DecodeContext& dc, const Statement& s, std::string_view t, std::string_view c,
                bool ftz) {
  bool is_float = t[0] == 'f' || t.substr(0, 2) == "bf";
  if (!is_float) {
    if (t[0] == 'b' && c != "eq" && c != "ne") dc.refuse(s, "bit types compare by eq and ne only");
    if (c.size() == 3) dc.refuse(s, "unordered comparisons need a floating-point type");
    if (t[0] == 's' && (c == "lo" || c == "ls" || c == "hi" || c == "hs"))
      dc.refuse(s, "lo, ls, hi and hs need an unsigned type");
  } else if (c == "lo" || c == "ls" || c == "hi" || c == "hs") {
    dc.refuse(s, "lo, ls, hi and hs need an unsigned type");
  }
  if (c == "lo") c = "lt";
  if (c == "ls") c = "le";
  if (c == "hi") c = "gt";
  if (c == "hs") c = "ge";
  uint32_t flip = 0;
  for (const Opposite& o : is_float ? float_opposites : integer_opposites)
    if (c == o.name) {
      c = o.of;
      flip = ~0u;
      break;
    }
  const auto handler = [&]() -> Handler {
    if (t == "s32") return pick_cmp<Plain<int32_t>>(c);
    if (t == "u32" || t == "b32") return pick_cmp<Plain<uint32_t>>(c);
    if (t == "s64") return pick_cmp<Plain<int64_t>>(c);
    if (t == "u64" || t == "b64") return pick_cmp<Plain<uint64_t>>(c);
    if (t == "s16") return pick_cmp<Plain<int16_t>>(c);
    if (t == "u16" || t == "b16") return pick_cmp<Plain<uint16_t>>(c);
    if (t == "f32") return ftz ? pick_cmp<F32Ftz>(c) : pick_cmp<Plain<float>>(c);
    if (t == "f64") return pick_cmp<Plain<double>>(c);
    if (t == "f16") return ftz ? pick_cmp<F16<true>>(c) : pick_cmp<F16<false>>(c);
    if (t == "bf16") return pick_cmp<Bf16>(c);
    if (t == "f16x2") return ftz ? pick_cmp_pairs<F16<true>>(c) : pick_cmp_pairs<F16<false>>(c);
    return pick_cmp_pairs<Bf16>(c);
  };
  return {handler(), flip};
}

void compare_operands(DecodeContext& dc, const Statement& s, const Match& m,
                      const std::vector<uint32_t>& dst, Inst& inst) {
  std::string_view t = m.get("type"), b = m.get("bool");
  std::vector<uint32_t> src = {source(dc, s.operands[1], t), source(dc, s.operands[2], t)};
  if (!b.empty()) {
    bool negated = false;
    src.push_back(dc.pred_src(s.operands[3], negated));
    inst.mod[0] = b == "and" ? 1 : b == "or" ? 2 : 3;
    inst.mod[1] = negated;
  }
  dc.set_operands(inst, dst, src);
}

// ---- selection

template <class W>
Step selp(Warp& w, const Inst& i, uint32_t mask) {
  W* d = w.lanes<W>(i.op[0]);
  const W *a = w.lanes<W>(i.op[1]), *b = w.lanes<W>(i.op[2]);
  uint32_t p = w.pred(i.op[3]) ^ i.mod[0];
  W keep = i.mod[1] ? W(0xFFFF) : W(~W(0)); // immediates of 16-bit types
  for_lanes(mask, [=](uint32_t l) { d[l] = (p >> l & 1 ? a[l] : b[l]) & keep; });
  return Step::Next;
}
template <class W, bool Float, bool Ftz>
Step slct(Warp& w, const Inst& i, uint32_t mask) {
  W* d = w.lanes<W>(i.op[0]);
  const W *a = w.lanes<W>(i.op[1]), *b = w.lanes<W>(i.op[2]);
  const uint32_t* c = w.lanes<uint32_t>(i.op[3]);
  W keep = i.mod[1] ? W(0xFFFF) : W(~W(0));
  for_lanes(mask, [=](uint32_t l) {
    bool first = Float ? in<Ftz>(f32_of(c[l])) >= 0.0f : int32_t(c[l]) >= 0;
    d[l] = (first ? a[l] : b[l]) & keep;
  });
  return Step::Next;
}

} // namespace

void setp_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const Comparison x = pick(dc, s, m.get("type"), m.get("cmp"), m.has("ftz"));
  inst.run = x.run;
  inst.mod[3] = x.flip;
  const Operand& d = s.operands[0];
  std::vector<uint32_t> dst;
  if (d.kind == Operand::Kind::Pair)
    dst = {dc.pred_dst(d.items[0]), dc.pred_dst(d.items[1])};
  else
    dst = {dc.pred_dst(d)};
  compare_operands(dc, s, m, dst, inst);
}

void set_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const Comparison picked = pick(dc, s, m.get("type"), m.get("cmp"), m.has("ftz"));
  const bool pairs = m.get("type").ends_with("x2");
  std::string_view d = m.get("dtype");
  inst.run = pairs ? set_pairs : set;
  inst.mod[2] = d == "f32"           ? 0x3F800000u
                : d == "f16"         ? 0x3C00u
                : d == "bf16"        ? 0x3F80u
                : d == "f16x2"       ? 0x3C003C00u
                : d == "bf16x2"      ? 0x3F803F80u
                : type_bytes(d) == 2 ? 0xFFFFu
                                     : 0xFFFFFFFFu;
  compare_operands(dc, s, m, {dc.dst(s.operands[0], RegClass::B32)}, inst);
  Set* x = dc.make<Set>();
  x->inner.run = picked.run;
  x->inner.mod[0] = inst.mod[0];
  x->inner.mod[1] = inst.mod[1];
  x->inner.mod[3] = picked.flip;
  x->inner.n_dst = pairs ? 2 : 1;
  x->inner.n_src = inst.n_src;
  x->inner.op = x->slots;
  for (uint32_t k = 0; k < x->inner.n_dst; ++k) x->slots[k] = dc.scratch(RegClass::Pred);
  std::copy_n(inst.op + inst.n_dst, inst.n_src, x->slots + x->inner.n_dst);
  inst.data = x;
}

void selp_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = type_bytes(t) == 8 ? selp<uint64_t> : selp<uint32_t>;
  inst.mod[1] = type_bytes(t) == 2;
  bool negated = false;
  uint32_t p = dc.pred_src(s.operands[3], negated);
  inst.mod[0] = negated ? ~0u : 0u;
  dc.set_operands(inst, {dc.dst(s.operands[0], class_of(t))},
                  {source(dc, s.operands[1], t), source(dc, s.operands[2], t), p});
}

void slct_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  bool wide = type_bytes(t) == 8, ftz = m.has("ftz"), by_float = m.get("by") == "f32";
  if (by_float)
    inst.run = wide ? (ftz ? slct<uint64_t, true, true> : slct<uint64_t, true, false>)
                    : (ftz ? slct<uint32_t, true, true> : slct<uint32_t, true, false>);
  else
    inst.run = wide ? slct<uint64_t, false, false> : slct<uint32_t, false, false>;
  inst.mod[1] = type_bytes(t) == 2;
  dc.set_operands(inst, {dc.dst(s.operands[0], class_of(t))},
                  {source(dc, s.operands[1], t), source(dc, s.operands[2], t),
                   source(dc, s.operands[3], by_float ? "f32" : "s32")});
}

} // namespace vgpu::ops
