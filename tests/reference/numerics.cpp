#include "tests/reference/numerics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace wltest {
namespace {

// 2^exponent, of a normal number: a product with it is exact where it is a normal number, too.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// value = (-1)^sign * 2^(max(exponent, 1) - bias) * ((exponent > 0) + mantissa / 2^mantissa_bits)
template <int exponent_bits, int mantissa_bits>
double decode(uint32_t code) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  const int sign = code >> (exponent_bits + mantissa_bits) & 1;
  const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int significand = mantissa + (exponent > 0 ? 1 << mantissa_bits : 0);
  const double magnitude = significand * power_of_two(std::max(exponent, 1) - bias - mantissa_bits);
  return sign ? -magnitude : magnitude;
}

// The magnitude's code, exponent and mantissa as one number, as if the exponent had no upper limit.
// A carry out of the mantissa lands in the exponent.
template <int exponent_bits, int mantissa_bits>
uint64_t encode_magnitude(double magnitude) {
  if (magnitude == 0) return 0;
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr int smallest_exponent = 1 - bias;
  const int binade = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023;
  const int exponent = std::max(binade, smallest_exponent);
  // Less than 2^12: of a sum with 1.5 * 2^52 a double keeps the integer nearest to them, even of
  // two.
  constexpr double integers = 0x1.8p52;
  const double units = magnitude * power_of_two(mantissa_bits - exponent) + integers - integers;
  return (static_cast<uint64_t>(exponent - smallest_exponent) << mantissa_bits) +
         static_cast<uint64_t>(units);
}

template <int exponent_bits, int mantissa_bits>
uint16_t encode_ieee(double value) {
  if (std::isnan(value)) return 0x7FFF;
  constexpr uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const uint64_t magnitude = std::isinf(value)
                                 ? infinity
                                 : encode_magnitude<exponent_bits, mantissa_bits>(std::fabs(value));
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  return static_cast<uint16_t>(sign | std::min(magnitude, infinity));
}

template <int exponent_bits, int mantissa_bits>
double decode_ieee(uint32_t code) {
  constexpr uint32_t sign = uint32_t{1} << (exponent_bits + mantissa_bits);
  const uint32_t magnitude = code & (sign - 1);
  constexpr uint32_t infinity = ((uint32_t{1} << exponent_bits) - 1) << mantissa_bits;
  if (magnitude > infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude < infinity) return decode<exponent_bits, mantissa_bits>(code);
  const double inf = std::numeric_limits<double>::infinity();
  return code & sign ? -inf : inf;
}

// Without infinities: the largest number takes what is beyond, and a NaN is `nan`.
template <int exponent_bits, int mantissa_bits>
uint8_t encode_saturating(double value, double largest, uint8_t nan) {
  if (std::isnan(value)) return nan;
  const int sign = std::signbit(value) ? 1 << (exponent_bits + mantissa_bits) : 0;
  const double magnitude = std::min(std::fabs(value), largest);
  return static_cast<uint8_t>(
      sign | static_cast<int>(encode_magnitude<exponent_bits, mantissa_bits>(magnitude)));
}

} // namespace

double decode_e2m1(uint8_t code) { return decode<2, 1>(code & 0xF); }

double decode_e4m3(uint8_t code) {
  if ((code & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  return decode<4, 3>(code);
}

double decode_ue4m3(uint8_t code) { return decode_e4m3(code & 0x7F); }
double decode_e5m2(uint8_t code) { return decode_ieee<5, 2>(code); }
double decode_e2m3(uint8_t code) { return decode<2, 3>(code & 0x3F); }
double decode_e3m2(uint8_t code) { return decode<3, 2>(code & 0x3F); }
double decode_ue8m0(uint8_t code) {
  return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}
double decode_tf32(uint32_t code) { return decode_ieee<8, 10>(code >> 13); }
double decode_f16(uint16_t code) { return decode_ieee<5, 10>(code); }
double decode_bf16(uint16_t code) { return decode_ieee<8, 7>(code); }

uint8_t encode_e2m1(double value) { return encode_saturating<2, 1>(value, 6, 0x7); }
uint8_t encode_e4m3(double value) { return encode_saturating<4, 3>(value, 448, 0x7F); }
uint8_t encode_e5m2(double value) { return encode_saturating<5, 2>(value, 57344, 0x7F); }
uint8_t encode_e2m3(double value) { return encode_saturating<2, 3>(value, 7.5, 0x1F); }
uint8_t encode_e3m2(double value) { return encode_saturating<3, 2>(value, 28, 0x1F); }

uint16_t encode_f16(double value) { return encode_ieee<5, 10>(value); }
uint16_t encode_bf16(double value) { return encode_ieee<8, 7>(value); }

const char* name_of(OutputType type) { return type == OutputType::f16 ? "f16" : "bf16"; }

double decode_output(OutputType type, uint16_t code) {
  return type == OutputType::f16 ? decode_f16(code) : decode_bf16(code);
}

uint16_t encode_output(OutputType type, double value) {
  return type == OutputType::f16 ? encode_f16(value) : encode_bf16(value);
}

double overflow_threshold(OutputType type) {
  return type == OutputType::f16 ? 65520.0 : std::ldexp(511.0, 119);
}

bool is_nan(OutputType type, uint16_t code) {
  return (code & 0x7FFF) > (type == OutputType::f16 ? 0x7C00 : 0x7F80);
}

namespace {
float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
} // namespace

float ex2_ftz(float x) { return flush(static_cast<float>(std::exp2(double{flush(x)}))); }
float rcp_ftz(float x) { return flush(static_cast<float>(1.0 / double{flush(x)})); }

} // namespace wltest
