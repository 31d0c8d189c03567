// Numbers beside a product, or beside rows that are quantised, under which FP32's last place tells:
// random ones leave few outputs so near to where D's rounding decides.
#pragma once

#include "tests/problems/products.hpp"
#include "tests/reference/linear.hpp"
#include "tests/reference/quantize.hpp"

namespace wltest::problems {

// Rows of D that have the same biases, and where these start.
struct BiasedRows {
  int64_t first, end;
  size_t biases;
  float alpha1, alpha2;
};

// Both biases, in FP32, of most columns become such that in one of the rows, another one in each
// column, a D of 16 bits is another number when a sum with a bias or the last product is rounded
// towards zero.
void tell_by_biases(const Sums& sums, const BiasedRows& rows, const Gate& gate, wl_dtype type,
                    uint64_t seed, Numbers* bias1, Numbers* bias2);

// The same of one product, of which alpha1 is: one bias and no gate.
void tell_by_bias(const Sums& sums, const BiasedRows& rows, wl_dtype type, uint64_t seed,
                  Numbers* bias);

// The residual takes away what D's type, of 16 bits, can hold of the result, where that is a
// number: what is left are the last places of FP32, so that every rounding before it tells. Where
// the result lies near halfway between two numbers of D, it brings the two so near to it that its
// own addition tells.
void cancel(const std::vector<float>& out, wl_dtype type, Numbers* residual);

// Betas, or gammas where there are none, become such that in one row of each block of 16 columns
// all values but the largest lie where FP32's last place decides between two codes.
void tell_by_codes(const Matrix& x, float d_scale, uint64_t seed, Norm* norm);

// Most numbers of half of the blocks become ties between two codes under a scale with digits of its
// own, as far as the type holds them: an inverse that is not exact decides.
void tell_by_ties(float d_scale, uint64_t seed, Matrix* x);

} // namespace wltest::problems
