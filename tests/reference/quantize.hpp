// What the quantiser computes, in plain C++, FP32 operation by operation (ptx/fp4.inc): the
// specification that kernels are compared with bit for bit.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/reference/numerics.hpp"

#include <cstdint>
#include <vector>

namespace wltest {

// A tensor of 16-bit floats, [l, rows, k] without gaps.
struct Matrix {
  int64_t rows = 0, k = 0, l = 0;
  OutputType type = OutputType::f16;
  std::vector<uint16_t> codes;
};

// Blocks of 16 of many kinds, chosen at random: ordinary values; magnitudes all over the format's
// range; every bit pattern, infinities and NaNs among them; quotients that lie on ties of E2M1;
// zeros of both signs and the smallest numbers.
Matrix make_matrix(int64_t rows, int64_t k, int64_t l, OutputType type, uint64_t seed);

// Uniform in [-1, 1).
Matrix random_matrix(int64_t rows, int64_t k, int64_t l, OutputType type, uint64_t seed);

// Factors of an FP32 scale of the whole tensor.
struct Inverse {
  float inverse, sixth; // 1 / d_scale, and that / 6
  explicit Inverse(float d_scale);
};

// Sixteen values: eight bytes of codes, the lower nibble the even one, and the scale's code.
// largest = max |x|, NaN passed over   scale = e4m3(largest * sixth)   r = 1 / scale, 0 for 0
// factor = inverse * r                 code = e2m1(x * factor)
void quantize_block(const float* x, const Inverse& scale_of_all, uint8_t* codes, uint8_t* scale);
float block_factor(const float* x, const Inverse& scale_of_all, uint8_t* scale);
// Whether codes and scale are of values that lie within that share of x: the scale rounds one of
// their largest magnitudes, each code one of its values under that scale.
bool is_block_near(const float* x, float relative, const Inverse& scale_of_all,
                   const uint8_t* codes, uint8_t scale);

// Values and scales in plain layout.
Operand quantize(const Matrix& x, float d_scale);

// x + r, rounded to the type of both once.
Matrix add(const Matrix& x, const Matrix& r);

// What is done to rows ahead of it, in the order that kernels/norm/rows.inc gives.
struct Norm {
  enum class Kind { rms, layer } kind = Kind::rms;
  float eps = 1e-6f;
  std::vector<float> gamma, beta; // empty: 1 and 0
};
struct RowStatistics {
  float mean, rstd; // mean: 0 for RMS
};
RowStatistics statistics(const float* row, int64_t k, const Norm& norm);
Operand quantize(const Matrix& x, const Norm& norm, float d_scale);
// One row on its way there: before gamma and beta, what codes are made of, and their factors.
struct NormalisedRow {
  std::vector<float> plain, values;
  Inverse inverse;
};
NormalisedRow normalised_row(const Matrix& x, size_t row, const Norm& norm, float d_scale);
// The normalised rows as FP32 numbers, RMSNorm's x * gamma * rstd rounded twice.
std::vector<float> normalised(const Matrix& x, const Norm& norm);
// The same rounded to x's type.
Matrix normalised_rows(const Matrix& x, const Norm& norm);

// Weights with gamma and beta in them, as kernels/norm_linear/fold.inc makes them.
struct Folded {
  Matrix w;
  std::vector<float> bias;
};
Folded fold(const Matrix& w, const Norm& norm, const std::vector<float>& bias);

} // namespace wltest
