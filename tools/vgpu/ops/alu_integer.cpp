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

// add and sub; .sat is s32 only.
template <template <class> class F, auto Sat>
void sum(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, [&](std::string_view t) {
    return m.has("sat") ? lanewise<Sat> : pick_integer_or_pair<F>(t);
  });
}

// mul and mad: d and an addend of .wide have the doubled type.
template <template <class> class Lo, template <class> class Hi, template <class> class Wide>
void product(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type"), mode = m.get("mode");
  if (mode != "wide")
    return typed(dc, s, m, inst, mode == "hi" ? pick_integer<Hi> : pick_integer<Lo>);
  inst.run = pick_wide<Wide>(t);
  std::vector<uint32_t> src;
  for (size_t k = 1; k < s.operands.size(); ++k)
    src.push_back(source(dc, s.operands[k], k < 3 ? t : doubled(t)));
  dc.set_operands(inst, {dc.dst(s.operands[0], class_of(doubled(t)))}, src);
}

template <template <class> class F, template <class> class Relu>
void min_max_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, [&](std::string_view t) {
    if (!m.has("relu")) return pick_integer_or_pair<F>(t);
    return t == "s32" ? lanewise<&Relu<int32_t>::apply>
                      : lanewise<&pair16<int16_t, &Relu<int16_t>::apply>>;
  });
}

} // namespace

void add_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  sum<Add, &add_sat>(dc, s, m, inst);
}
void sub_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  sum<Sub, &sub_sat>(dc, s, m, inst);
}

void mul_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  product<MulLo, MulHi, MulWide>(dc, s, m, inst);
}
void mad_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  product<MadLo, MadHi, MadWide>(dc, s, m, inst);
  if (m.has("sat")) inst.run = lanewise<&mad_hi_sat>;
}

void mul24_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, m.get("mode") == "hi" ? pick_32<Mul24Hi> : pick_32<Mul24Lo>);
}
void mad24_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, m.get("mode") == "hi" ? pick_32<Mad24Hi> : pick_32<Mad24Lo>);
  if (m.has("sat")) inst.run = lanewise<&mad24_hi_sat>;
}

void sad_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_integer<Sad>);
}
void div_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_integer<Div>);
}
void rem_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_integer<Rem>);
}
void abs_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_signed<Abs>);
}
void neg_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, pick_signed<Neg>);
}

void min_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  min_max_integer<Min, MinRelu>(dc, s, m, inst);
}
void max_integer(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  min_max_integer<Max, MaxRelu>(dc, s, m, inst);
}

} // namespace vgpu::ops
