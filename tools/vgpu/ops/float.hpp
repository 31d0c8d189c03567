// Floating-point building blocks: rounding modes, flushing, canonical NaN.
//
// f32 results with a directed rounding are computed in double by round-to-odd and rounded once
// more: with 53 >= 24 + 2 bits the second rounding gives the correctly rounded value of the exact
// result.
#pragma once

#include "tools/vgpu/num/formats.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace vgpu::ops {

enum class Rnd : uint8_t { rn, rz, rm, rp };

inline Rnd rnd_of(std::string_view t) {
  return t == "rz" ? Rnd::rz : t == "rm" ? Rnd::rm : t == "rp" ? Rnd::rp : Rnd::rn;
}

inline uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
inline uint64_t bits_of(double v) { return std::bit_cast<uint64_t>(v); }
inline float f32_of(uint32_t v) { return std::bit_cast<float>(v); }

// Subnormals become zero of the same sign.
inline float flush(float v) {
  uint32_t b = bits_of(v);
  return f32_of((b & 0x7F800000u) == 0 ? b & 0x80000000u : b);
}
// Every NaN result of f32 arithmetic is the canonical one.
inline float canonical(float v) { return v != v ? f32_of(num::kF32Nan) : v; }
// [0, 1], NaN to +0.
inline float saturate_unit(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }

template <bool Ftz>
inline float in(float v) {
  return Ftz ? flush(v) : v;
}
template <bool Ftz, bool Sat>
inline float out(float v) {
  if (Ftz) v = flush(v);
  return Sat ? saturate_unit(v) : canonical(v);
}

// The double next to v in the direction of +inf or -inf; v is finite and not zero.
inline double neighbour(double v, bool up) {
  uint64_t b = bits_of(v);
  return std::bit_cast<double>((v > 0) == up ? b + 1 : b - 1);
}
// Round-to-odd of the exact value v + rest, where v is its nearest double.
inline double odd(double v, double rest) {
  if (rest == 0 || !std::isfinite(v) || !std::isfinite(rest) || (bits_of(v) & 1)) return v;
  return neighbour(v, rest > 0);
}
inline double odd_sum(double a, double b) {
  double s = a + b;
  if (!std::isfinite(s)) return s;
  double t = s - a;
  return odd(s, (a - (s - t)) + (b - t));
}

template <Rnd R>
inline float round_to_f32(double v) {
  float f = float(v);
  if constexpr (R == Rnd::rn) return f;
  double back = f;
  if (back == v || v != v) return f;
  bool toward_zero = R == Rnd::rz ? std::fabs(back) > std::fabs(v) : false;
  bool down = R == Rnd::rm && back > v, up = R == Rnd::rp && back < v;
  uint32_t b = bits_of(f);
  if (toward_zero || (down && v > 0) || (up && v < 0)) return f32_of(b - 1);
  if (down || up) return f32_of(b + 1);
  return f;
}
// An exact sum that is zero is -0 when rounding down, unless both terms are +0.
template <Rnd R>
inline float round_sum(double s, double a, double b) {
  if (R == Rnd::rm && s == 0 && (std::signbit(a) || std::signbit(b))) return -0.0f;
  return round_to_f32<R>(s);
}

// Whether a result of +-2^-126 is tiny: `exact` (or that rounded to odd) rounds to less with an
// unbounded exponent. .ftz flushes such a result, though its f32 value is normal (measured on an
// H200).
template <Rnd R>
inline bool tiny_before(double exact) {
  return std::fabs(round_to_f32<R>(exact * 0x1p64)) < 0x1p-62f;
}
inline bool is_least_normal(float v) { return (bits_of(v) & 0x7FFFFFFFu) == 0x00800000u; }
// `v` is `exact` rounded to f32. Sums cannot be tiny and inexact, nor can square roots be tiny.
template <bool Ftz, bool Sat, Rnd R>
inline float out_of(float v, double exact) {
  if (Ftz && is_least_normal(v) && tiny_before<R>(exact)) v = std::copysign(0.0f, v);
  return out<Ftz, Sat>(v);
}

// Exact in double, whatever the f32 values: 48-bit products.
template <Rnd R>
inline float add_f32(float a, float b) {
  if constexpr (R == Rnd::rn) return a + b;
  return round_sum<R>(odd_sum(a, b), a, b);
}
template <Rnd R>
inline float mul_f32(float a, float b) {
  if constexpr (R == Rnd::rn) return a * b;
  return round_to_f32<R>(double(a) * double(b));
}
template <Rnd R>
inline float fma_f32(float a, float b, float c) {
  if constexpr (R == Rnd::rn) return std::fmaf(a, b, c);
  double p = double(a) * double(b);
  return round_sum<R>(odd_sum(p, c), p, c);
}
// The quotient rounded to odd.
inline double odd_quotient(float a, float b) {
  double q = double(a) / double(b);
  if (!std::isfinite(q) || q == 0) return q;
  double rest = std::fma(-q, double(b), double(a));
  return odd(q, b > 0 ? rest : -rest);
}
template <Rnd R>
inline float div_f32(float a, float b) {
  if constexpr (R == Rnd::rn) return a / b;
  return round_to_f32<R>(odd_quotient(a, b));
}
template <Rnd R>
inline float sqrt_f32(float a) {
  if constexpr (R == Rnd::rn) return std::sqrt(a);
  double q = std::sqrt(double(a));
  if (!std::isfinite(q) || q == 0) return float(q);
  return round_to_f32<R>(odd(q, std::fma(-q, q, double(a))));
}

// min and max (9.7.3.11): -0 < +0; a NaN loses unless `nan`.
inline bool less(float a, float b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
inline bool less(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
template <bool Max, bool Nan>
inline float min_max(float a, float b) {
  if (a != a || b != b) {
    if (Nan || (a != a && b != b)) return f32_of(num::kF32Nan);
    return a != a ? b : a;
  }
  return less(a, b) != Max ? a : b;
}

// ---- approximate functions. Chosen: the correctly rounded f32 of the double-precision result;
// special values, flushing and ranges as the ISA says.

inline float ex2_f32(float a) { return float(std::exp2(double(a))); }
inline float lg2_f32(float a) { return a < 0 ? f32_of(num::kF32Nan) : float(std::log2(double(a))); }
inline float rsqrt_f32(float a) { return float(1.0 / std::sqrt(double(a))); }
inline float tanh_f32(float a) {
  return (bits_of(a) & 0x7F800000u) == 0 ? a : float(std::tanh(double(a)));
}
inline float sin_f32(float a) { return float(std::sin(double(a))); }
inline float cos_f32(float a) { return float(std::cos(double(a))); }
// d = a * (1/b), with 1/b flushed to zero above 2^126 (9.7.3.8).
inline float div_approx_f32(float a, float b) {
  if (std::fabs(b) > 0x1p126f && std::isfinite(b)) {
    if (!std::isfinite(a)) return f32_of(num::kF32Nan);
    return std::signbit(a) != std::signbit(b) ? -0.0f : 0.0f;
  }
  return a / b;
}

} // namespace vgpu::ops
