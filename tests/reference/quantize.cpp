#include "tests/reference/quantize.hpp"

#include <cmath>

namespace wltest {
namespace {

// One block of 16 codes.
void fill_block(uint16_t* out, OutputType type, const Random& random, uint64_t index) {
  const uint64_t at = index * 64; // draws of this block
  const auto number = [&](uint64_t i, double most) {
    return most * (2 * random.uniform(at + i) - 1);
  };
  const uint64_t kind = random.below(at, 6);
  const int exponent = static_cast<int>(random.below(at + 1, type == OutputType::f16 ? 38 : 250)) -
                       (type == OutputType::f16 ? 24 : 130);
  for (uint64_t i = 0; i < 16; ++i) {
    double value = 0;
    switch (kind) {
    case 0:
    case 1:
      value = number(2 + i, 3);
      break;
    case 2: // one binade for each block, and a few octaves below it
      value =
          std::ldexp(number(2 + i, 1), exponent - static_cast<int>(random.below(at + 20 + i, 5)));
      break;
    case 3:
      out[i] = static_cast<uint16_t>(random.bits(at + 2 + i));
      continue;
    case 4: // the largest is 6 steps, all are multiples of a quarter step
      value = std::ldexp(i == 0 ? 6.0 : static_cast<double>(random.below(at + 2 + i, 49)) / 4 - 6,
                         exponent / 4);
      break;
    default:
      out[i] =
          static_cast<uint16_t>(random.below(at + 2 + i, 4) | random.below(at + 20 + i, 2) << 15);
      continue;
    }
    out[i] = encode_output(type, value);
  }
}

} // namespace

Matrix make_matrix(int64_t rows, int64_t k, int64_t l, OutputType type, uint64_t seed) {
  Matrix x{rows, k, l, type, {}};
  x.codes.resize(static_cast<size_t>(rows * k * l));
  const Random random(seed, 77);
  for (size_t block = 0; block < x.codes.size() / 16; ++block)
    fill_block(&x.codes[16 * block], type, random, block);
  return x;
}

Matrix random_matrix(int64_t rows, int64_t k, int64_t l, OutputType type, uint64_t seed) {
  Matrix x{rows, k, l, type, {}};
  x.codes.resize(static_cast<size_t>(rows * k * l));
  const Random random(seed, 78);
  for (size_t i = 0; i < x.codes.size(); ++i)
    x.codes[i] = encode_output(type, 2 * random.uniform(i) - 1);
  return x;
}

// volatile keeps every operation a separate FP32 rounding whatever the compiler's flags are.
Inverse::Inverse(float d_scale) {
  const volatile float one_over = 1.0f / d_scale;
  const volatile float over_six = one_over * 0x1.555556p-3f; // 0x3E2AAAAB
  inverse = one_over;
  sixth = over_six;
}

void quantize_block(const float* x, const Inverse& scale_of_all, uint8_t* codes, uint8_t* scale) {
  float largest = 0;
  for (int i = 0; i < 16; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  const volatile float scaled = largest * scale_of_all.sixth;
  *scale = encode_e4m3(double{scaled});
  const auto decoded = static_cast<float>(decode_e4m3(*scale));
  const volatile float reciprocal = decoded == 0 ? 0.0f : 1.0f / decoded;
  const volatile float factor = scale_of_all.inverse * reciprocal;
  for (int i = 0; i < 16; i += 2) {
    const volatile float low = x[i] * factor, high = x[i + 1] * factor;
    codes[i / 2] = static_cast<uint8_t>(encode_e2m1(double{low}) | encode_e2m1(double{high}) << 4);
  }
}

Operand quantize(const Matrix& x, float d_scale) {
  Operand out{x.rows, x.k, x.l, {}, {}};
  out.values.resize(x.codes.size() / 2);
  out.scales.resize(x.codes.size() / 16);
  const Inverse scale_of_all(d_scale);
  for (size_t block = 0; block < out.scales.size(); ++block) {
    float values[16];
    for (size_t i = 0; i < 16; ++i)
      values[i] = static_cast<float>(decode_output(x.type, x.codes[16 * block + i]));
    quantize_block(values, scale_of_all, &out.values[8 * block], &out.scales[block]);
  }
  return out;
}

} // namespace wltest
