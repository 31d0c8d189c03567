// Integer arithmetic (PTX ISA 9.7.1).
#include "tools/vgpu/ops/lanes.hpp"

#include <algorithm>
#include <limits>

namespace vgpu::ops {

namespace {

template <class T>
struct Add {
  static T apply(T a, T b) { return T(Wrap<T>(a) + Wrap<T>(b)); }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return T(Wrap<T>(a) - Wrap<T>(b)); }
};
template <class T>
struct MulLo {
  static T apply(T a, T b) { return T(Wrap<T>(a) * Wrap<T>(b)); }
};

template <class T>
struct Twice;
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
template <>
struct Twice<int64_t> {
  using type = Int128;
};
template <>
struct Twice<uint64_t> {
  using type = Uint128;
};

template <class T>
T mul_hi(T a, T b) {
  using W = typename Twice<T>::type;
  return T(W(W(a) * W(b)) >> (8 * sizeof(T)));
}
template <class T>
struct MulHi {
  static T apply(T a, T b) { return mul_hi(a, b); }
};
template <class T>
struct MulWide {
  using W = typename Twice<T>::type;
  static W apply(T a, T b) { return W(W(a) * W(b)); }
};
template <class T>
struct MadLo {
  static T apply(T a, T b, T c) { return T(Wrap<T>(a) * Wrap<T>(b) + Wrap<T>(c)); }
};
template <class T>
struct MadHi {
  static T apply(T a, T b, T c) { return T(Wrap<T>(mul_hi(a, b)) + Wrap<T>(c)); }
};
template <class T>
struct MadWide {
  using W = typename Twice<T>::type;
  static W apply(T a, T b, W c) { return W(Wrap<W>(W(a) * W(b)) + Wrap<W>(c)); }
};

int32_t saturate(int64_t v) {
  return int32_t(std::clamp<int64_t>(v, std::numeric_limits<int32_t>::min(),
                                     std::numeric_limits<int32_t>::max()));
}
int32_t add_sat(int32_t a, int32_t b) { return saturate(int64_t(a) + b); }
int32_t sub_sat(int32_t a, int32_t b) { return saturate(int64_t(a) - b); }
int32_t mad_hi_sat(int32_t a, int32_t b, int32_t c) { return saturate(int64_t(mul_hi(a, b)) + c); }

// 9.7.1.5: the low 24 bits are multiplied; .lo takes bits 0..31 of the 48, .hi bits 16..47.
template <class T>
int64_t product24(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    return int64_t(int32_t(uint32_t(a) << 8) >> 8) * (int32_t(uint32_t(b) << 8) >> 8);
  else
    return int64_t(uint64_t(a & 0xFFFFFF) * (b & 0xFFFFFF));
}
template <class T>
struct Mul24Lo {
  static T apply(T a, T b) { return T(product24(a, b)); }
};
template <class T>
struct Mul24Hi {
  static T apply(T a, T b) { return T(product24(a, b) >> 16); }
};
template <class T>
struct Mad24Lo {
  static T apply(T a, T b, T c) { return T(uint32_t(product24(a, b)) + uint32_t(c)); }
};
template <class T>
struct Mad24Hi {
  static T apply(T a, T b, T c) { return T(uint32_t(product24(a, b) >> 16) + uint32_t(c)); }
};
int32_t mad24_hi_sat(int32_t a, int32_t b, int32_t c) {
  return saturate(int64_t(int32_t(product24(a, b) >> 16)) + c);
}

template <class T>
struct Sad {
  static T apply(T a, T b, T c) {
    return T(Wrap<T>(c) + (a < b ? Wrap<T>(b) - Wrap<T>(a) : Wrap<T>(a) - Wrap<T>(b)));
  }
};

// 9.7.1.8: division by zero gives an unspecified value; chosen: all ones, and the dividend as the
// remainder, which is what the hardware's expansion yields for 32 bits. The one signed overflow
// wraps.
template <class T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0) return T(~T(0));
    if (std::is_signed_v<T> && b == T(-1)) return T(Wrap<T>(0) - Wrap<T>(a));
    return T(a / b);
  }
};
template <class T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return T(-1); // unspecified by the ISA; measured on an H200
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};

template <class T>
struct Abs {
  static T apply(T a) { return a < 0 ? T(Wrap<T>(0) - Wrap<T>(a)) : a; }
};
template <class T>
struct Neg {
  static T apply(T a) { return T(Wrap<T>(0) - Wrap<T>(a)); }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu {
  static T apply(T a, T b) { return std::max<T>(a < b ? a : b, 0); }
};
template <class T>
struct MaxRelu {
  static T apply(T a, T b) { return std::max<T>(a > b ? a : b, 0); }
};

// Two 16-bit lanes in 32 bits.
template <class T, T (*F)(T, T)>
uint32_t pair16(uint32_t a, uint32_t b) {
  uint32_t lo = uint16_t(F(T(uint16_t(a)), T(uint16_t(b))));
  uint32_t hi = uint16_t(F(T(uint16_t(a >> 16)), T(uint16_t(b >> 16))));
  return lo | hi << 16;
}
template <template <class> class F>
Handler pick_integer_or_pair(std::string_view t) {
  if (t == "u16x2") return lanewise<&pair16<uint16_t, &F<uint16_t>::apply>>;
  if (t == "s16x2") return lanewise<&pair16<int16_t, &F<int16_t>::apply>>;
  return pick_integer<F>(t);
}

template <template <class> class F>
Handler pick_wide(std::string_view t) {
  if (t == "s32") return lanewise<&F<int32_t>::apply>;
  if (t == "u32") return lanewise<&F<uint32_t>::apply>;
  if (t == "s16") return lanewise<&F<int16_t>::apply>;
  if (t == "u16") return lanewise<&F<uint16_t>::apply>;
  return nullptr;
}
template <template <class> class F>
Handler pick_32(std::string_view t) {
  return t == "s32" ? lanewise<&F<int32_t>::apply> : lanewise<&F<uint32_t>::apply>;
}
template <template <class> class F>
Handler pick_signed(std::string_view t) {
  if (t == "s32") return lanewise<&F<int32_t>::apply>;
  if (t == "s64") return lanewise<&F<int64_t>::apply>;
  return lanewise<&F<int16_t>::apply>;
}

std::string_view doubled(std::string_view t) {
  return t == "s32" ? "s64" : t == "u32" ? "u64" : t == "s16" ? "s32" : "u32";
}

} // namespace

void add_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = m.has("sat") ? lanewise<&add_sat> : pick_integer_or_pair<Add>(t);
  same_type(dc, s, t, inst);
}

void sub_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = m.has("sat") ? lanewise<&sub_sat> : pick_integer_or_pair<Sub>(t);
  same_type(dc, s, t, inst);
}

void mul_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type"), mode = m.get("mode");
  if (mode == "wide") {
    inst.run = pick_wide<MulWide>(t);
    dc.set_operands(inst, {dc.dst(s.operands[0], class_of(doubled(t)))},
                    {source(dc, s.operands[1], t), source(dc, s.operands[2], t)});
    return;
  }
  inst.run = mode == "hi" ? pick_integer<MulHi>(t) : pick_integer<MulLo>(t);
  same_type(dc, s, t, inst);
}

void mad_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type"), mode = m.get("mode");
  if (mode == "wide") {
    inst.run = pick_wide<MadWide>(t);
    dc.set_operands(inst, {dc.dst(s.operands[0], class_of(doubled(t)))},
                    {source(dc, s.operands[1], t), source(dc, s.operands[2], t),
                     source(dc, s.operands[3], doubled(t))});
    return;
  }
  inst.run = m.has("sat")   ? lanewise<&mad_hi_sat>
             : mode == "hi" ? pick_integer<MadHi>(t)
                            : pick_integer<MadLo>(t);
  same_type(dc, s, t, inst);
}

void mul24_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = m.get("mode") == "hi" ? pick_32<Mul24Hi>(t) : pick_32<Mul24Lo>(t);
  same_type(dc, s, t, inst);
}

void mad24_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = m.has("sat")            ? lanewise<&mad24_hi_sat>
             : m.get("mode") == "hi" ? pick_32<Mad24Hi>(t)
                                     : pick_32<Mad24Lo>(t);
  same_type(dc, s, t, inst);
}

void sad_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  inst.run = pick_integer<Sad>(m.get("type"));
  same_type(dc, s, m.get("type"), inst);
}

void div_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  inst.run = pick_integer<Div>(m.get("type"));
  same_type(dc, s, m.get("type"), inst);
}

void rem_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  inst.run = pick_integer<Rem>(m.get("type"));
  same_type(dc, s, m.get("type"), inst);
}

void abs_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  inst.run = pick_signed<Abs>(m.get("type"));
  same_type(dc, s, m.get("type"), inst);
}

void neg_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  inst.run = pick_signed<Neg>(m.get("type"));
  same_type(dc, s, m.get("type"), inst);
}

void min_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  if (m.has("relu"))
    inst.run = t == "s32" ? lanewise<&MinRelu<int32_t>::apply>
                          : lanewise<&pair16<int16_t, &MinRelu<int16_t>::apply>>;
  else
    inst.run = pick_integer_or_pair<Min>(t);
  same_type(dc, s, t, inst);
}

void max_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  if (m.has("relu"))
    inst.run = t == "s32" ? lanewise<&MaxRelu<int32_t>::apply>
                          : lanewise<&pair16<int16_t, &MaxRelu<int16_t>::apply>>;
  else
    inst.run = pick_integer_or_pair<Max>(t);
  same_type(dc, s, t, inst);
}

} // namespace vgpu::ops
