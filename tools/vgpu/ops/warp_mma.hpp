// Elements and sums of the warp's matrix instructions, mma and wmma.
//
// Accumulation of floats: products and their sum with C in double, ascending k, one rounding at the
// end (chosen: the ISA leaves order and rounding open); f64 fused. Integers wrap, or saturate with
// .satfinite.
#pragma once

#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <string_view>

namespace vgpu::ops {

enum class Element : uint8_t { f16, bf16, tf32, e4m3, e5m2, f64, u8, s8, u4, s4, b1 };
enum class Result : uint8_t { f16, f32, f64, s32 };

inline uint32_t element_bits(Element e) {
  switch (e) {
  case Element::f64:
    return 64;
  case Element::tf32:
    return 32;
  case Element::f16:
  case Element::bf16:
    return 16;
  case Element::u4:
  case Element::s4:
    return 4;
  case Element::b1:
    return 1;
  default:
    return 8;
  }
}

inline double value_of(Element e, uint64_t v) {
  switch (e) {
  case Element::f16:
    return num::f16_to_f32(uint16_t(v));
  case Element::bf16:
    return num::bf16_to_f32(uint16_t(v));
  case Element::tf32:
    return num::tf32_to_f32(uint32_t(v));
  case Element::e4m3:
    return num::e4m3_table[v & 255];
  case Element::e5m2:
    return num::e5m2_table[v & 255];
  case Element::f64:
    return std::bit_cast<double>(v);
  case Element::u8:
    return double(uint8_t(v));
  case Element::s8:
    return double(int8_t(v));
  case Element::u4:
    return double(v & 15);
  case Element::s4:
    return double(int8_t(v << 4) >> 4);
  case Element::b1:
    return double(v & 1);
  }
  return 0;
}

inline Element element_of(std::string_view t) {
  static constexpr std::string_view names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "f64",
                                               "u8",  "s8",   "u4",   "s4",   "b1"};
  return Element(std::find(names, names + 11, t) - names);
}

inline Result result_of(std::string_view t) {
  return t == "f16"   ? Result::f16
         : t == "f32" ? Result::f32
         : t == "f64" ? Result::f64
                      : Result::s32;
}

inline int host_rounding(std::string_view t) {
  return t == "rz" ? FE_TOWARDZERO : t == "rm" ? FE_DOWNWARD : t == "rp" ? FE_UPWARD : FE_TONEAREST;
}

struct Sum {
  Element a = Element::f16; // of A and B: their type or width
  Result c = Result::f32, d = Result::f32;
  bool satfinite = false, by_xor = false;
  int rounding = FE_TONEAREST; // of f64

  // A row of A times a column of B plus the word of C, as a word of D.
  uint64_t operator()(const double* x, const double* y, uint32_t terms, uint64_t start) const {
    if (d == Result::s32) {
      int64_t sum = int32_t(start);
      for (uint32_t k = 0; k < terms; ++k) {
        if (a != Element::b1)
          sum += int64_t(x[k]) * int64_t(y[k]);
        else
          sum += by_xor ? x[k] != y[k] : x[k] != 0 && y[k] != 0;
      }
      if (satfinite)
        sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int32_t>::max());
      return uint32_t(sum);
    }
    if (d == Result::f64) {
      volatile double sum = std::bit_cast<double>(start); // its stores stay between the calls
      if (rounding != FE_TONEAREST) std::fesetround(rounding);
      for (uint32_t k = 0; k < terms; ++k) sum = std::fma(x[k], y[k], sum);
      if (rounding != FE_TONEAREST) std::fesetround(FE_TONEAREST);
      return std::bit_cast<uint64_t>(double(sum));
    }
    double sum = 0;
    for (uint32_t k = 0; k < terms; ++k) sum += x[k] * y[k];
    return rounded(sum, start);
  }

  // The word of D for a sum of products in FP32 or FP16.
  uint64_t rounded(double sum, uint64_t start) const {
    sum += c == Result::f32 ? double(std::bit_cast<float>(uint32_t(start)))
                            : num::f16_to_f32(uint16_t(start));
    if (d == Result::f16) return num::encode(num::Format::f16, sum);
    const float r = float(sum);
    return r != r ? num::kF32Nan : std::bit_cast<uint32_t>(r);
  }
};

} // namespace vgpu::ops
