// Logic, shifts and bit fields (PTX ISA 9.7.1.14 - 9.7.1.24, 9.7.8).
#include "tools/vgpu/ops/lanes.hpp"

#include <algorithm>

namespace vgpu::ops {

namespace {

template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T apply(T a) { return T(~a); }
};
template <class T>
struct Cnot {
  static T apply(T a) { return a == 0; }
};

// 9.7.8.8, 9.7.8.9: amounts beyond the width are clamped to it.
template <class T>
struct Shl {
  static T apply(T a, uint32_t n) {
    constexpr uint32_t bits = 8 * sizeof(T);
    return n >= bits ? T(0) : T(Wrap<T>(a) << (n & (bits - 1)));
  }
};
template <class T>
struct Shr {
  static T apply(T a, uint32_t n) {
    constexpr uint32_t bits = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return T(a >> std::min(n, bits - 1));
    return n >= bits ? T(0) : T(a >> (n & (bits - 1)));
  }
};

uint32_t shf_left(uint32_t a, uint32_t b, uint32_t n) {
  return uint32_t(((uint64_t(b) << 32 | a) << n) >> 32);
}
uint32_t shf_right(uint32_t a, uint32_t b, uint32_t n) {
  return uint32_t((uint64_t(b) << 32 | a) >> n);
}
uint32_t shf_l_clamp(uint32_t a, uint32_t b, uint32_t c) {
  return shf_left(a, b, std::min(c, 32u));
}
uint32_t shf_l_wrap(uint32_t a, uint32_t b, uint32_t c) { return shf_left(a, b, c & 31); }
uint32_t shf_r_clamp(uint32_t a, uint32_t b, uint32_t c) {
  return shf_right(a, b, std::min(c, 32u));
}
uint32_t shf_r_wrap(uint32_t a, uint32_t b, uint32_t c) { return shf_right(a, b, c & 31); }

template <class T>
struct Popc {
  static uint32_t apply(T a) { return uint32_t(std::popcount(a)); }
};
template <class T>
struct Clz {
  static uint32_t apply(T a) { return uint32_t(std::countl_zero(a)); }
};
template <class T>
struct Brev {
  static T apply(T a) {
    T r = 0;
    for (uint32_t k = 0; k < 8 * sizeof(T); ++k) r = T(r << 1 | (a >> k & 1));
    return r;
  }
};

template <class T, bool Shift>
uint32_t bfind(T v) {
  std::make_unsigned_t<T> a = v < 0 ? ~v : v;
  if (a == 0) return 0xFFFFFFFFu;
  uint32_t zeros = uint32_t(std::countl_zero(a));
  return Shift ? zeros : uint32_t(8 * sizeof(T)) - 1 - zeros;
}
template <class T>
struct Bfind {
  static uint32_t apply(T a) { return bfind<T, false>(a); }
};
template <class T>
struct BfindShift {
  static uint32_t apply(T a) { return bfind<T, true>(a); }
};

// Only the low 8 bits of position and length count (9.7.1.19, 9.7.1.20), but on an H200 the 64-bit
// forms look at all 32.
template <class T>
constexpr uint32_t kFieldBits = sizeof(T) == 8 ? 0xFFFFFFFFu : 255u;

template <class T>
struct Bfe {
  static T apply(T a, uint32_t b, uint32_t c) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t bits = 8 * sizeof(T);
    uint32_t pos = b & kFieldBits<T>, len = c & kFieldBits<T>;
    if (len == 0) return 0;
    uint64_t last = std::min<uint64_t>(uint64_t(pos) + len - 1, bits - 1);
    bool sign = std::is_signed_v<T> && (U(a) >> last & 1);
    U field = pos >= bits ? U(0) : U(U(a) >> pos);
    uint32_t have = pos >= bits ? 0 : std::min(len, bits - pos); // bits that come from a
    U mask = have >= bits ? U(~U(0)) : U((U(1) << have) - 1);
    return T((field & mask) | (sign ? U(~mask) : U(0)));
  }
};

template <class T>
struct Bfi {
  static T apply(T a, T b, uint32_t c, uint32_t d) {
    constexpr uint32_t bits = 8 * sizeof(T);
    uint32_t pos = c & kFieldBits<T>, len = d & kFieldBits<T>;
    if (len == 0 || pos >= bits) return b;
    T mask = len >= bits ? T(~T(0)) : T((T(1) << len) - 1);
    mask = T(mask << pos);
    return T((b & ~mask) | (T(a << pos) & mask));
  }
};

uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : 0xFFFFFFFFu;
  int64_t count = (offset < 0 ? -int64_t(offset) : offset) - 1;
  int step = offset > 0 ? 1 : -1;
  for (int64_t pos = base; pos >= 0 && pos < 32; pos += step)
    if (mask >> pos & 1 && count-- == 0) return uint32_t(pos);
  return 0xFFFFFFFFu;
}

template <bool Signed, bool Clamp>
uint32_t szext(uint32_t a, uint32_t n) {
  if (Clamp && n >= 32) return a;
  n &= 31;
  if (n == 0) return 0;
  uint32_t mask = ~0u << n;
  return (a & ~mask) | (Signed && (a >> (n - 1) & 1) ? mask : 0u);
}

template <bool Clamp>
uint32_t bmsk(uint32_t a, uint32_t b) {
  uint32_t start = a & 31, width = b & 31, sum = start + width;
  uint32_t mask0 = ~0u << start, mask1 = sum >= 32 ? 0u : ~0u << sum;
  bool overflow = sum >= 32;
  if (Clamp) {
    if (a >= 32) {
      mask0 = 0;
      overflow = true;
    }
    overflow |= b >= 32;
  }
  if (overflow)
    mask1 = 0;
  else if (width == 0)
    mask1 = ~0u;
  return mask0 & ~mask1;
}

// F(a,b,c) = OR over the set bits k of the table of the minterm whose inputs spell k (9.7.8.6).
uint32_t lop3(const Inst& i, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t table = i.mod[0], d = 0;
  for (uint32_t k = 0; k < 8; ++k) {
    uint32_t term = (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    d |= table >> k & 1 ? term : 0u;
  }
  return d;
}

// op: d, p, a, b, c, q. mod[1]: 1 = or, 0 = and; mod[2]: q is negated.
Step lop3_bool(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  const uint32_t *a = w.lanes<uint32_t>(i.op[2]), *b = w.lanes<uint32_t>(i.op[3]),
                 *c = w.lanes<uint32_t>(i.op[4]);
  uint32_t nonzero = 0;
  for_lanes(mask, [&](uint32_t l) {
    d[l] = lop3(i, a[l], b[l], c[l]);
    nonzero |= (d[l] != 0 ? 1u : 0u) << l;
  });
  uint32_t q = w.pred(i.op[5]) ^ (i.mod[2] ? ~0u : 0u);
  w.set_pred(i.op[1], mask, i.mod[1] ? nonzero | q : nonzero & q);
  return Step::Next;
}

template <bool SignedA, bool SignedB>
uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 32; k += 8) {
    int32_t x = SignedA ? int32_t(int8_t(a >> k)) : int32_t(uint8_t(a >> k));
    int32_t y = SignedB ? int32_t(int8_t(b >> k)) : int32_t(uint8_t(b >> k));
    c += uint32_t(x * y);
  }
  return c;
}
template <bool SignedA, bool SignedB, bool High>
uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 2; ++k) {
    int32_t x = SignedA ? int32_t(int16_t(a >> 16 * k)) : int32_t(uint16_t(a >> 16 * k));
    uint32_t byte = b >> (8 * k + (High ? 16 : 0));
    int32_t y = SignedB ? int32_t(int8_t(byte)) : int32_t(uint8_t(byte));
    c += uint32_t(x) * uint32_t(y);
  }
  return c;
}

// Predicates are bit masks; mod[0] bit k: source k is negated.
template <uint32_t (*F)(uint32_t, uint32_t)>
Step pred_binary(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t a = w.pred(i.op[1]) ^ (i.mod[0] & 1 ? ~0u : 0u);
  uint32_t b = w.pred(i.op[2]) ^ (i.mod[0] & 2 ? ~0u : 0u);
  w.set_pred(i.op[0], mask, F(a, b));
  return Step::Next;
}
Step pred_not(Warp& w, const Inst& i, uint32_t mask) {
  w.set_pred(i.op[0], mask, ~(w.pred(i.op[1]) ^ (i.mod[0] & 1 ? ~0u : 0u)));
  return Step::Next;
}

// d and the first `own` sources of the instruction's type, the others .u32.
template <class Pick>
void with_u32(DecodeContext& dc, const Statement& s, const Match& m, size_t own, Inst& inst,
              Pick&& pick) {
  const std::string_view type = m.get("type");
  inst.run = pick(type);
  std::vector<uint32_t> src;
  for (size_t k = 1; k < s.operands.size(); ++k)
    src.push_back(dc.src(s.operands[k], k <= own ? class_of(type) : RegClass::B32));
  dc.set_operands(inst, {dc.dst(s.operands[0], class_of(type))}, src);
}

// d is .u32, the sources have the instruction's type.
template <class Pick>
void to_u32(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst, Pick&& pick) {
  const std::string_view type = m.get("type");
  inst.run = pick(type);
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)},
                  {dc.src(s.operands[1], class_of(type))});
}

template <template <class> class F>
void logic(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  if (m.get("type") == "pred") {
    bool na = false, nb = false;
    uint32_t a = dc.pred_src(s.operands[1], na), b = dc.pred_src(s.operands[2], nb);
    inst.mod[0] = (na ? 1 : 0) | (nb ? 2 : 0);
    inst.run = pred_binary<&F<uint32_t>::apply>;
    dc.set_operands(inst, {dc.pred_dst(s.operands[0])}, {a, b});
    return;
  }
  typed(dc, s, m, inst, pick_bits<F>);
}

} // namespace

void and_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  logic<And>(dc, s, m, inst);
}
void or_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  logic<Or>(dc, s, m, inst);
}
void xor_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  logic<Xor>(dc, s, m, inst);
}

void not_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  if (m.get("type") == "pred") {
    bool negated = false;
    uint32_t a = dc.pred_src(s.operands[1], negated);
    inst.mod[0] = negated;
    inst.run = pred_not;
    dc.set_operands(inst, {dc.pred_dst(s.operands[0])}, {a});
    return;
  }
  typed(dc, s, m, inst, pick_bits<Not>);
}

void cnot_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_bits<Cnot>);
}

void lop3_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const Operand& table = s.operands[4];
  if (table.kind != Operand::Kind::Int || table.value > 255)
    dc.refuse(s, "the table of lop3 is an integer constant in 0..255");
  inst.mod[0] = uint32_t(table.value);
  std::vector<uint32_t> abc;
  for (int k = 1; k <= 3; ++k) abc.push_back(dc.src(s.operands[k], RegClass::B32));
  if (!m.has("bool")) {
    inst.run = lanewise<&lop3>;
    dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)}, abc);
    return;
  }
  const Operand& d = s.operands[0];
  if (d.kind != Operand::Kind::Pair) dc.refuse(s, "lop3 with .or or .and writes a pair d|p");
  bool negated = false;
  abc.push_back(dc.pred_src(s.operands[5], negated));
  inst.mod[1] = m.get("bool") == "or";
  inst.mod[2] = negated;
  inst.run = lop3_bool;
  dc.set_operands(inst, {dc.dst(d.items[0], RegClass::B32), dc.pred_dst(d.items[1])}, abc);
}

void shl_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  with_u32(dc, s, m, 1, inst, pick_bits<Shl>);
}

void shr_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  with_u32(dc, s, m, 1, inst, m.get("type")[0] == 'b' ? pick_bits<Shr> : pick_integer<Shr>);
}

void shf_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool clamp = m.get("mode") == "clamp";
  if (m.get("dir") == "l")
    inst.run = clamp ? lanewise<&shf_l_clamp> : lanewise<&shf_l_wrap>;
  else
    inst.run = clamp ? lanewise<&shf_r_clamp> : lanewise<&shf_r_wrap>;
  same_type(dc, s, "b32", inst);
}

void popc_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  to_u32(dc, s, m, inst, pick_bits<Popc>);
}

void clz_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  to_u32(dc, s, m, inst, pick_bits<Clz>);
}

void brev_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_bits<Brev>);
}

void bfind_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  to_u32(dc, s, m, inst, m.has("shiftamt") ? pick_integer<BfindShift> : pick_integer<Bfind>);
}

void bfe_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  with_u32(dc, s, m, 1, inst, pick_integer<Bfe>);
}

void bfi_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  with_u32(dc, s, m, 2, inst, pick_bits<Bfi>);
}

void fns_bits(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  inst.run = lanewise<&fns>;
  same_type(dc, s, "b32", inst);
}

void szext_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool clamp = m.get("mode") == "clamp";
  if (m.get("type") == "s32")
    inst.run = clamp ? lanewise<&szext<true, true>> : lanewise<&szext<true, false>>;
  else
    inst.run = clamp ? lanewise<&szext<false, true>> : lanewise<&szext<false, false>>;
  same_type(dc, s, "b32", inst);
}

void bmsk_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  inst.run = m.get("mode") == "clamp" ? lanewise<&bmsk<true>> : lanewise<&bmsk<false>>;
  same_type(dc, s, "b32", inst);
}

void dp4a_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool a = m.get("a") == "s32", b = m.get("b") == "s32";
  inst.run = a ? (b ? lanewise<&dp4a<true, true>> : lanewise<&dp4a<true, false>>)
               : (b ? lanewise<&dp4a<false, true>> : lanewise<&dp4a<false, false>>);
  same_type(dc, s, "b32", inst);
}

void dp2a_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool a = m.get("a") == "s32", b = m.get("b") == "s32";
  if (m.get("mode") == "hi")
    inst.run = a ? (b ? lanewise<&dp2a<true, true, true>> : lanewise<&dp2a<true, false, true>>)
                 : (b ? lanewise<&dp2a<false, true, true>> : lanewise<&dp2a<false, false, true>>);
  else
    inst.run = a ? (b ? lanewise<&dp2a<true, true, false>> : lanewise<&dp2a<true, false, false>>)
                 : (b ? lanewise<&dp2a<false, true, false>> : lanewise<&dp2a<false, false, false>>);
  same_type(dc, s, "b32", inst);
}

} // namespace vgpu::ops
