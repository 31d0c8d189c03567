#include "tests/problems/edges.hpp"

#include <algorithm>
#include <cmath>

namespace wltest::problems {

namespace {

// Blocks of 16 elements of K: the first makes product 1, of any values; the others make product 2
// of binary digits, 7 each, from 2^-20 on: E4M3 and E2M1 have nothing below. Digit i of a block is
// 2^(i - 2), times the scales of A and B2.
constexpr size_t digit_blocks = 4;
constexpr int scale_exponents_a[digit_blocks] = {-9, -5, -2, 2};
constexpr int scale_exponents_b[digit_blocks] = {-9, -6, -2, 1};
constexpr uint8_t digits_own[7] = {1, 1, 1, 1, 6, 6, 6};  // E2M1: 0.5 and 4
constexpr uint8_t digits_same[7] = {1, 2, 4, 6, 2, 4, 6}; // 0.5, 1, 2, 4

// E4M3 of 2^exponent, from 2^-9 to 2^8.
uint8_t power_of_two(int exponent) {
  return static_cast<uint8_t>(exponent >= -6 ? (exponent + 7) << 3 : 1 << (exponent + 9));
}

void set_block(Operand* o, size_t row, size_t block, const uint8_t (&codes)[16], uint8_t scale) {
  const size_t at = row * static_cast<size_t>(o->k / 16) + block;
  o->scales[at] = scale;
  for (size_t i = 0; i < 8; ++i)
    o->values[8 * at + i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

// The number halfway between `value`, at least 0, and the next larger one.
double halfway(double value, wl_dtype type, float d_scale) {
  if (type == WL_NVFP4) {
    const double unit = 6.0 * d_scale; // the largest value of a block with a scale of 1
    const uint8_t code = encode_e4m3(std::min(value / unit, 400.0));
    return unit * (decode_e4m3(code) + decode_e4m3(static_cast<uint8_t>(code + 1))) / 2;
  }
  const OutputType of = type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  const uint16_t code = encode_output(of, value);
  return (decode_output(of, code) + decode_output(of, static_cast<uint16_t>(code + 1))) / 2;
}

} // namespace

void make_edges(wltest::Problem* q, const EdgeFactors& f, bool by_columns, uint64_t seed) {
  const Random random(seed, 11), of_lines(seed, 12);
  const auto blocks = static_cast<size_t>(q->k / 16);
  const size_t first = random.below(0, blocks - digit_blocks);
  const auto rows = static_cast<size_t>(q->l * q->m), columns = static_cast<size_t>(q->l * q->n);
  // Products are of the order of 34 before the scale.
  const int exponent =
      std::clamp(static_cast<int>(std::lround(std::log2(0.1 / std::fabs(f.alpha1)))), -6, 8);
  // Where B is 0, A is anything but NaN.
  std::fill(q->a.scales.begin(), q->a.scales.end(), power_of_two(0));
  for (Operand* o : {&q->b1, &q->b2}) {
    std::fill(o->values.begin(), o->values.end(), uint8_t{0});
    std::fill(o->scales.begin(), o->scales.end(), power_of_two(0));
  }
  const auto set_first = [&](bool of_a, size_t line, const uint8_t(&codes)[16]) {
    set_block(of_a ? &q->a : &q->b1, line, first, codes, power_of_two(of_a ? 0 : exponent));
  };
  const auto set_digits = [&](bool of_a, size_t line, size_t j, const uint8_t(&codes)[16]) {
    set_block(of_a ? &q->a : &q->b2, line, first + 1 + j, codes,
              power_of_two(of_a ? scale_exponents_a[j] : scale_exponents_b[j]));
  };

  uint8_t same[16], ones[16] = {};
  for (size_t i = 0; i < 16; ++i) same[i] = static_cast<uint8_t>(random.below(1 + i, 16));
  std::copy(digits_same, digits_same + 7, ones);
  for (size_t line = 0; line < (by_columns ? rows : columns); ++line) {
    set_first(by_columns, line, same);
    for (size_t j = 0; j < digit_blocks; ++j) set_digits(by_columns, line, j, ones);
  }

  const bool clamped = f.gate.kind == WL_GATE_CLAMPED;
  const double offset = clamped ? 1 : 0;
  // So that sums have all their digits, and within the limit.
  double largest = 24 * std::fabs(f.alpha2);
  if (f.gate.limit != 0) largest = std::min(largest, 0.6 * f.gate.limit);
  for (size_t line = 0; line < (by_columns ? columns : rows); ++line) {
    uint8_t own[16];
    double acc1 = 0;
    for (size_t i = 0; i < 16; ++i) {
      own[i] = static_cast<uint8_t>(of_lines.below(32 * line + i, 16));
      acc1 += std::ldexp(decode_e2m1(own[i]) * decode_e2m1(same[i]), exponent);
    }
    set_first(!by_columns, line, own);
    // The gate's first factor, which a second one of a power of two leaves as it is.
    const GatedInputs in{acc1, 0, f.alpha1, 0, f.bias1, clamped ? 0.0f : 0.5f};
    const double gate = std::fabs(gated_replayed(f.gate, in)) / (clamped ? 1 : 0.5);
    const double up = largest * (0.7 + 0.5 * of_lines.uniform(32 * line + 16)) + offset;
    const double edge = halfway(gate * up, f.type, f.d_scale) / gate - offset;
    const double acc2 = (edge - f.bias2) / f.alpha2;
    // At most 24 significant digits, so that FP32 holds every part of the sum.
    auto number = static_cast<uint64_t>(
        std::isfinite(acc2) ? std::min(std::ldexp(std::fabs(acc2), 20), 268435455.0) : 0.0);
    for (uint64_t low = 1; number >> 24 >= low; low <<= 1) number &= ~low;
    for (size_t j = 0; j < digit_blocks; ++j) {
      uint8_t digits[16] = {};
      for (size_t i = 0; i < 7; ++i)
        if (number >> (7 * j + i) & 1)
          digits[i] = static_cast<uint8_t>(digits_own[i] | (acc2 < 0 ? 8 : 0));
      set_digits(!by_columns, line, j, digits);
    }
  }
}

} // namespace wltest::problems
