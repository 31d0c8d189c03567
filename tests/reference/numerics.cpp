#include "tests/reference/numerics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wltest {
namespace {

// value = (-1)^sign * 2^(max(exponent, 1) - bias) * ((exponent > 0) + mantissa / 2^mantissa_bits)
double decode(uint32_t code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int sign = code >> (exponent_bits + mantissa_bits) & 1;
  const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int significand = mantissa + (exponent > 0 ? 1 << mantissa_bits : 0);
  const double magnitude = std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits);
  return sign ? -magnitude : magnitude;
}

// The magnitude's code, exponent and mantissa as one number, as if the exponent had no upper limit.
// nearbyint rounds to nearest even, and a carry out of the mantissa lands in the exponent.
uint64_t encode_magnitude(double magnitude, int exponent_bits, int mantissa_bits) {
  if (magnitude == 0) return 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int smallest_exponent = 1 - bias;
  const int exponent = std::max(std::ilogb(magnitude), smallest_exponent);
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  return (static_cast<uint64_t>(exponent - smallest_exponent) << mantissa_bits) +
         static_cast<uint64_t>(units);
}

uint16_t encode_ieee(double value, int exponent_bits, int mantissa_bits) {
  if (std::isnan(value)) return 0x7FFF;
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const uint64_t magnitude = std::isinf(value)
                                 ? infinity
                                 : encode_magnitude(std::fabs(value), exponent_bits, mantissa_bits);
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  return static_cast<uint16_t>(sign | std::min(magnitude, infinity));
}

double decode_ieee(uint16_t code, int exponent_bits, int mantissa_bits) {
  const int magnitude = code & 0x7FFF;
  const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  if (magnitude > infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude < infinity) return decode(code, exponent_bits, mantissa_bits);
  const double inf = std::numeric_limits<double>::infinity();
  return code & 0x8000 ? -inf : inf;
}

} // namespace

double decode_e2m1(uint8_t code) { return decode(code & 0xF, 2, 1); }

double decode_e4m3(uint8_t code) {
  if ((code & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  return decode(code, 4, 3);
}

double decode_ue4m3(uint8_t code) { return decode_e4m3(code & 0x7F); }
double decode_f16(uint16_t code) { return decode_ieee(code, 5, 10); }
double decode_bf16(uint16_t code) { return decode_ieee(code, 8, 7); }

uint8_t encode_e2m1(double value) {
  if (std::isnan(value)) return 0x7;
  const double magnitude = std::min(std::fabs(value), 6.0);
  return static_cast<uint8_t>((std::signbit(value) ? 8 : 0) | encode_magnitude(magnitude, 2, 1));
}

uint8_t encode_e4m3(double value) {
  if (std::isnan(value)) return 0x7F;
  const double magnitude = std::min(std::fabs(value), 448.0);
  return static_cast<uint8_t>((std::signbit(value) ? 0x80 : 0) | encode_magnitude(magnitude, 4, 3));
}

uint16_t encode_f16(double value) { return encode_ieee(value, 5, 10); }
uint16_t encode_bf16(double value) { return encode_ieee(value, 8, 7); }

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
