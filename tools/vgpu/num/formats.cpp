#include "tools/vgpu/num/formats.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace vgpu::num {
namespace {

constexpr FormatInfo kInfo[] = {
    // name    e  m  bias bits box sign   inf    max         nan
    {"e2m1", 2, 1, 1, 4, 4, true, false, 0x7, 0x7},
    {"e2m3", 2, 3, 1, 6, 8, true, false, 0x1F, 0x1F},
    {"e3m2", 3, 2, 3, 6, 8, true, false, 0x1F, 0x1F},
    {"e4m3", 4, 3, 7, 8, 8, true, false, 0x7E, 0x7F},
    {"ue4m3", 4, 3, 7, 7, 8, false, false, 0x7E, 0x7F},
    {"e5m2", 5, 2, 15, 8, 8, true, true, 0x7B, 0x7F},
    {"ue8m0", 8, 0, 127, 8, 8, false, false, 0xFE, 0xFF},
    {"f16", 5, 10, 15, 16, 16, true, true, 0x7BFF, 0x7FFF},
    {"bf16", 8, 7, 127, 16, 16, true, true, 0x7F7F, 0x7FFF},
    {"tf32", 8, 10, 127, 19, 32, true, true, 0x3FBFF, 0x3FFFF},
    {"f32", 8, 23, 127, 32, 32, true, true, 0x7F7FFFFF, 0x7FFFFFFF},
};

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(uint64_t(exponent + 1023) << 52);
}

// Value of a code by the definition of the format. NaN where the format has one there.
constexpr float value_of(const FormatInfo& f, uint32_t code) {
  uint32_t magnitude = code & ((1u << (f.exponent_bits + f.mantissa_bits)) - 1);
  bool negative = f.has_sign && ((code >> (f.bits - 1)) & 1u);
  if (magnitude > f.max_finite) {
    if (f.has_inf && magnitude == f.max_finite + 1) {
      float inf = std::numeric_limits<float>::infinity();
      return negative ? -inf : inf;
    }
    return std::bit_cast<float>(kF32Nan);
  }
  if (f.mantissa_bits == 0) return float(power_of_two(int(magnitude) - f.bias));
  int exponent = int(magnitude >> f.mantissa_bits);
  uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  double significand = exponent == 0 ? double(mantissa) : double(mantissa | 1u << f.mantissa_bits);
  int power = (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits;
  double value = significand * power_of_two(power);
  return float(negative ? -value : value);
}

template <int N>
struct Table {
  float value[N];
};

template <int N>
constexpr Table<N> make_table(Format format) {
  Table<N> table{};
  for (int i = 0; i < N; ++i) table.value[i] = value_of(kInfo[int(format)], uint32_t(i));
  return table;
}

constexpr Table<16> kE2m1 = make_table<16>(Format::e2m1);
constexpr Table<64> kE2m3 = make_table<64>(Format::e2m3);
constexpr Table<64> kE3m2 = make_table<64>(Format::e3m2);
constexpr Table<256> kE4m3 = make_table<256>(Format::e4m3);
constexpr Table<256> kUe4m3 = make_table<256>(Format::ue4m3);
constexpr Table<256> kE5m2 = make_table<256>(Format::e5m2);
constexpr Table<256> kUe8m0 = make_table<256>(Format::ue8m0);

uint32_t encode_ue8m0(double value, EncodeOptions options) {
  const FormatInfo& f = kInfo[int(Format::ue8m0)];
  if (std::isnan(value)) return f.nan;
  double magnitude = std::fabs(value);
  uint32_t overflow = options.satfinite ? f.max_finite : f.nan;
  if (std::isinf(magnitude)) return overflow;
  if (magnitude <= 0x1p-127) return 0; // 2^-127 is the smallest value: there is no zero
  int exponent = std::ilogb(magnitude);
  bool exact = std::ldexp(1.0, exponent) == magnitude;
  int code = exponent + f.bias + (options.rounding == Rounding::rp && !exact ? 1 : 0);
  return code > int(f.max_finite) ? overflow : uint32_t(code);
}

} // namespace

const float (&e2m1_table)[16] = kE2m1.value;
const float (&e2m3_table)[64] = kE2m3.value;
const float (&e3m2_table)[64] = kE3m2.value;
const float (&e4m3_table)[256] = kE4m3.value;
const float (&ue4m3_table)[256] = kUe4m3.value;
const float (&e5m2_table)[256] = kE5m2.value;
const float (&ue8m0_table)[256] = kUe8m0.value;

const FormatInfo& info(Format format) { return kInfo[int(format)]; }

float decode(Format format, uint32_t code) {
  switch (format) {
  case Format::e2m1:
    return e2m1_table[code & 15];
  case Format::e2m3:
    return e2m3_table[code & 63];
  case Format::e3m2:
    return e3m2_table[code & 63];
  case Format::e4m3:
    return e4m3_table[code & 255];
  case Format::ue4m3:
    return ue4m3_table[code & 255];
  case Format::e5m2:
    return e5m2_table[code & 255];
  case Format::ue8m0:
    return ue8m0_table[code & 255];
  case Format::f16:
    return f16_to_f32(uint16_t(code));
  case Format::bf16:
    return bf16_to_f32(uint16_t(code));
  case Format::tf32:
    return tf32_to_f32(code);
  case Format::f32:
    return std::bit_cast<float>(code);
  }
  return 0;
}

uint32_t encode(Format format, double value, EncodeOptions options) {
  if (format == Format::ue8m0) return encode_ue8m0(value, options);
  const FormatInfo& f = info(format);
  // tf32 codes are computed on their 19 bits and live in the upper bits of a 32-bit register.
  int place = format == Format::tf32 ? 13 : 0;
  if (std::isnan(value)) {
    return f.nan << place; // tf32: 0x7FFFE000, measured on an H200
  }
  bool negative = std::signbit(value);
  if (negative && (options.relu || !f.has_sign)) return 0;
  uint32_t sign = negative ? 1u << (f.bits - 1) : 0;
  double magnitude = std::fabs(value);

  bool away = false; // directed rounding away from zero
  bool toward = false;
  switch (options.rounding) {
  case Rounding::rz:
    toward = true;
    break;
  case Rounding::rm:
    (negative ? away : toward) = true;
    break;
  case Rounding::rp:
    (negative ? toward : away) = true;
    break;
  case Rounding::rn:
  case Rounding::rna:
    break;
  }

  bool saturate = options.satfinite || !f.has_inf;
  uint32_t infinity = f.max_finite + 1;
  if (std::isinf(magnitude)) return (sign | (saturate ? f.max_finite : infinity)) << place;
  if (magnitude == 0) return sign << place;

  // Significand of 53 bits: magnitude = significand * 2^(exponent - 52).
  int exponent = 0;
  double fraction = std::frexp(magnitude, &exponent);
  uint64_t significand = uint64_t(std::ldexp(fraction, 53));
  exponent -= 1;
  // Distance from the last significand bit to the last bit the format keeps.
  int smallest = 1 - f.bias;
  int shift = 52 - f.mantissa_bits + (exponent < smallest ? smallest - exponent : 0);
  uint64_t kept = shift > 63 ? 0 : significand >> shift;
  uint64_t rest = shift > 63 ? 1 : significand & ((uint64_t(1) << shift) - 1);
  bool above_half = false, half = false;
  if (shift <= 54) {
    uint64_t middle = uint64_t(1) << (shift - 1);
    above_half = rest > middle;
    half = rest == middle;
  }
  bool up = false;
  if (rest != 0 && !toward) {
    if (away)
      up = true;
    else if (options.rounding == Rounding::rna)
      up = above_half || half;
    else
      up = above_half || (half && (kept & 1));
  }
  kept += up ? 1 : 0;
  // The hidden bit adds itself to the exponent field, and a carry moves to the next binade.
  uint64_t code =
      exponent < smallest ? kept : (uint64_t(exponent + f.bias - 1) << f.mantissa_bits) + kept;
  if (code > f.max_finite) {
    // Rounding toward zero never leaves the finite range.
    code = (saturate || toward) ? f.max_finite : infinity;
  }
  return (sign | uint32_t(code)) << place;
}

uint32_t encode_x2(Format format, double a, double b, EncodeOptions options) {
  return encode(format, a, options) << info(format).container_bits | encode(format, b, options);
}

uint32_t decode_x2_to_f16x2(Format format, uint32_t packed, bool relu) {
  int bits = info(format).container_bits;
  uint32_t mask = (1u << bits) - 1;
  uint32_t result = 0;
  for (int half = 0; half < 2; ++half) {
    float value = decode(format, packed >> (half * bits) & mask);
    uint32_t code = f32_to_f16(value);
    if (relu && (code & 0x8000u)) code = 0;
    result |= code << (16 * half);
  }
  return result;
}

uint32_t decode_ue8m0x2_to_bf16x2(uint32_t packed) {
  uint32_t low = f32_to_bf16(ue8m0_table[packed & 255]);
  uint32_t high = f32_to_bf16(ue8m0_table[packed >> 8 & 255]);
  return high << 16 | low;
}

void f16_to_f32(const uint16_t* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = f16_to_f32(in[i]);
}

void bf16_to_f32(const uint16_t* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = bf16_to_f32(in[i]);
}

void f32_to_f16(const float* in, uint16_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = f32_to_f16(in[i]);
}

void f32_to_bf16(const float* in, uint16_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = f32_to_bf16(in[i]);
}

} // namespace vgpu::num
