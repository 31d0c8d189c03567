// f16, f16x2, bf16 and bf16x2 arithmetic (PTX ISA 9.7.4).
//
// Sums and products of f16 are rounded to f32 and then to f16: with 24 >= 2 * 11 + 2 bits the first
// rounding does no harm. bf16 has f32's exponent range, so its results near the subnormals and all
// fused operations pass through round-to-odd, which never does harm.
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

namespace {

struct F16 {
  static constexpr uint32_t one = 0x3C00, exponent = 0x7C00;
  static float get(uint16_t v) { return num::f16_to_f32(v); }
  static uint16_t put(float v) { return num::f32_to_f16(v); }
};
struct Bf16 {
  static constexpr uint32_t one = 0x3F80, exponent = 0x7F80;
  static float get(uint16_t v) { return num::bf16_to_f32(v); }
  static uint16_t put(float v) { return num::f32_to_bf16(v); }
};

// Round-to-odd in f32 of a double that may itself be rounded to odd.
float odd_f32(double v) {
  float f = round_to_f32<Rnd::rz>(v);
  return double(f) == v || v != v ? f : f32_of(bits_of(f) | 1);
}

constexpr uint32_t kFtz = 1, kSat = 2, kRelu = 4, kOob = 8;

// What a tensor copy with NaN fill leaves in 16 bits outside the tensor (measured on an H200).
constexpr uint16_t kOobNan = 0x7FF7;

enum class Op { add, sub, mul, fma };

template <class H, Op O>
uint16_t arithmetic(uint16_t x, uint16_t y, uint16_t z) {
  float a = H::get(x), b = H::get(y);
  if constexpr (O == Op::add) return H::put(odd_f32(odd_sum(a, b)));
  if constexpr (O == Op::sub) return H::put(odd_f32(odd_sum(a, -b)));
  if constexpr (O == Op::mul) return H::put(odd_f32(double(a) * double(b)));
  return H::put(odd_f32(odd_sum(double(a) * double(b), double(H::get(z)))));
}
template <>
[[gnu::always_inline]] inline uint16_t arithmetic<F16, Op::add>(uint16_t x, uint16_t y, uint16_t) {
  return F16::put(F16::get(x) + F16::get(y));
}
template <>
[[gnu::always_inline]] inline uint16_t arithmetic<F16, Op::sub>(uint16_t x, uint16_t y, uint16_t) {
  return F16::put(F16::get(x) - F16::get(y));
}
template <>
[[gnu::always_inline]] inline uint16_t arithmetic<F16, Op::mul>(uint16_t x, uint16_t y, uint16_t) {
  return F16::put(F16::get(x) * F16::get(y));
}

template <class H>
uint16_t flush_half(uint16_t v) {
  return v & H::exponent ? v : v & 0x8000;
}
template <class H>
uint16_t limit(uint32_t flags, uint16_t v) {
  if (flags & kFtz) v = flush_half<H>(v);
  bool nan = (v & 0x7FFFu) > H::exponent;
  if (flags & kSat) {
    if (nan || v & 0x8000) return 0;
    return v > H::one ? H::one : v;
  }
  if (flags & kRelu && !nan && v & 0x8000) return 0;
  return v;
}

// mod[0]: flags. One half a register, or two.
template <class H, Op O>
struct Arithmetic {
  static uint16_t flagged(uint32_t flags, uint16_t a, uint16_t b, uint16_t c) {
    if (flags & kFtz) {
      a = flush_half<H>(a);
      b = flush_half<H>(b);
      c = flush_half<H>(c);
    }
    if (flags & kOob && (a == kOobNan || b == kOobNan)) return 0;
    return limit<H>(flags, arithmetic<H, O>(a, b, c));
  }
  static uint16_t two(uint16_t a, uint16_t b) { return arithmetic<H, O>(a, b, 0); }
  static uint16_t three(uint16_t a, uint16_t b, uint16_t c) { return arithmetic<H, O>(a, b, c); }
  static uint16_t two_flags(const Inst& i, uint16_t a, uint16_t b) {
    return flagged(i.mod[0], a, b, 0);
  }
  static uint16_t three_flags(const Inst& i, uint16_t a, uint16_t b, uint16_t c) {
    return flagged(i.mod[0], a, b, c);
  }
  // Without flags the lanes are a vector loop.
  static uint32_t plain_pair2(uint32_t a, uint32_t b) {
    return arithmetic<H, O>(uint16_t(a), uint16_t(b), 0) |
           uint32_t(arithmetic<H, O>(uint16_t(a >> 16), uint16_t(b >> 16), 0)) << 16;
  }
  static uint32_t pair2(const Inst& i, uint32_t a, uint32_t b) {
    uint32_t lo = flagged(i.mod[0], uint16_t(a), uint16_t(b), 0);
    return lo | uint32_t(flagged(i.mod[0], uint16_t(a >> 16), uint16_t(b >> 16), 0)) << 16;
  }
  static uint32_t pair3(const Inst& i, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t lo = flagged(i.mod[0], uint16_t(a), uint16_t(b), uint16_t(c));
    uint32_t hi = flagged(i.mod[0], uint16_t(a >> 16), uint16_t(b >> 16), uint16_t(c >> 16));
    return lo | hi << 16;
  }
};

template <class H, Op O>
Handler pick_arithmetic(bool pair, bool flags) {
  using A = Arithmetic<H, O>;
  if constexpr (O == Op::fma) {
    if (pair) return lanewise<&A::pair3>;
    return flags ? lanewise<&A::three_flags> : lanewise<&A::three>;
  } else {
    if (pair) return flags ? lanewise<&A::pair2> : lanewise<&A::plain_pair2>;
    return flags ? lanewise<&A::two_flags> : lanewise<&A::two>;
  }
}

bool is_pair(std::string_view t) { return t.ends_with("x2"); }
bool is_bf16(std::string_view t) { return t[0] == 'b'; }

template <Op O>
void decode_arithmetic(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.mod[0] = (m.has("ftz") ? kFtz : 0) | (m.has("sat") ? kSat : 0) |
                (m.has("relu") ? kRelu : 0) | (m.has("oob") ? kOob : 0);
  inst.run = is_bf16(t) ? pick_arithmetic<Bf16, O>(is_pair(t), inst.mod[0])
                        : pick_arithmetic<F16, O>(is_pair(t), inst.mod[0]);
  same_type(dc, s, t, inst);
}

// abs, neg: the sign bit, after flushing. mod[0] bit 0: ftz. A NaN of f16 becomes the canonical
// one, bf16 keeps its payload (measured on an H200).
template <class H, bool Abs>
uint16_t sign_half(uint32_t ftz, uint16_t v) {
  if (ftz) v = flush_half<H>(v);
  if (std::is_same_v<H, F16> && (v & 0x7FFFu) > H::exponent) return num::kF16Nan;
  return Abs ? v & 0x7FFF : v ^ 0x8000;
}
template <class H, bool Abs>
uint16_t sign_one(const Inst& i, uint16_t v) {
  return sign_half<H, Abs>(i.mod[0], v);
}
template <class H, bool Abs>
uint32_t sign_pair(const Inst& i, uint32_t v) {
  return sign_half<H, Abs>(i.mod[0], uint16_t(v)) |
         uint32_t(sign_half<H, Abs>(i.mod[0], uint16_t(v >> 16))) << 16;
}
template <bool Abs>
void decode_sign(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.mod[0] = m.has("ftz");
  if (is_pair(t))
    inst.run = is_bf16(t) ? lanewise<&sign_pair<Bf16, Abs>> : lanewise<&sign_pair<F16, Abs>>;
  else
    inst.run = is_bf16(t) ? lanewise<&sign_one<Bf16, Abs>> : lanewise<&sign_one<F16, Abs>>;
  same_type(dc, s, t, inst);
}

// min and max. mod[0] bits: 0 ftz, 1 NaN, 2 xorsign.abs.
template <class H, bool Max>
uint16_t min_max_half(uint32_t flags, uint16_t a, uint16_t b) {
  if (flags & 1) {
    a = flush_half<H>(a);
    b = flush_half<H>(b);
  }
  uint16_t sign = 0;
  if (flags & 4) {
    sign = (a ^ b) & 0x8000;
    a &= 0x7FFF;
    b &= 0x7FFF;
  }
  bool nan_a = (a & 0x7FFFu) > H::exponent, nan_b = (b & 0x7FFFu) > H::exponent;
  if ((nan_a && nan_b) || ((flags & 2) && (nan_a || nan_b))) return num::kF16Nan;
  uint16_t r = nan_a ? b : nan_b ? a : less(H::get(a), H::get(b)) != Max ? a : b;
  return r | sign;
}
template <class H, bool Max>
uint16_t min_max_one(const Inst& i, uint16_t a, uint16_t b) {
  return min_max_half<H, Max>(i.mod[0], a, b);
}
template <class H, bool Max>
uint32_t min_max_pair(const Inst& i, uint32_t a, uint32_t b) {
  uint32_t lo = min_max_half<H, Max>(i.mod[0], uint16_t(a), uint16_t(b));
  return lo | uint32_t(min_max_half<H, Max>(i.mod[0], uint16_t(a >> 16), uint16_t(b >> 16))) << 16;
}
template <bool Max>
void decode_min_max(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.mod[0] = (m.has("ftz") ? 1 : 0) | (m.has("NaN") ? 2 : 0) | (m.has("xorsign") ? 4 : 0);
  if (is_pair(t))
    inst.run = is_bf16(t) ? lanewise<&min_max_pair<Bf16, Max>> : lanewise<&min_max_pair<F16, Max>>;
  else
    inst.run = is_bf16(t) ? lanewise<&min_max_one<Bf16, Max>> : lanewise<&min_max_one<F16, Max>>;
  same_type(dc, s, t, inst);
}

// Approximate functions: correctly rounded to the format from double (chosen).
template <class H, bool Tanh>
uint16_t function_half(uint32_t ftz, uint16_t v) {
  if (ftz) v = flush_half<H>(v);
  double a = H::get(v);
  uint16_t r = H::put(odd_f32(Tanh ? std::tanh(a) : std::exp2(a)));
  return ftz ? flush_half<H>(r) : r;
}
template <class H, bool Tanh>
uint16_t function_one(const Inst& i, uint16_t v) {
  return function_half<H, Tanh>(i.mod[0], v);
}
template <class H, bool Tanh>
uint32_t function_pair(const Inst& i, uint32_t v) {
  return function_half<H, Tanh>(i.mod[0], uint16_t(v)) |
         uint32_t(function_half<H, Tanh>(i.mod[0], uint16_t(v >> 16))) << 16;
}
template <bool Tanh>
Handler pick_function(std::string_view t) {
  if (is_pair(t))
    return is_bf16(t) ? lanewise<&function_pair<Bf16, Tanh>> : lanewise<&function_pair<F16, Tanh>>;
  return is_bf16(t) ? lanewise<&function_one<Bf16, Tanh>> : lanewise<&function_one<F16, Tanh>>;
}

} // namespace

void add_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_arithmetic<Op::add>(dc, s, m, inst);
}
void sub_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_arithmetic<Op::sub>(dc, s, m, inst);
}
void mul_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_arithmetic<Op::mul>(dc, s, m, inst);
}
void fma_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_arithmetic<Op::fma>(dc, s, m, inst);
}
void neg_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_sign<false>(dc, s, m, inst);
}
void abs_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_sign<true>(dc, s, m, inst);
}
void min_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_min_max<false>(dc, s, m, inst);
}
void max_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode_min_max<true>(dc, s, m, inst);
}

void approx_half(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.mod[0] = m.has("ftz");
  inst.run = s.opcode[0] == "tanh" ? pick_function<true>(t) : pick_function<false>(t);
  same_type(dc, s, t, inst);
}

} // namespace vgpu::ops
