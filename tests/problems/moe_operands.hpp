// What a problem of a mixture of experts reads.
#pragma once

#include "tests/problems/products.hpp"
#include "tests/reference/quantize.hpp"

#include <cstdint>

namespace wltest::problems {

// Without what would make h more than FP16 holds.
void make_finite(Numbers* numbers, wl_dtype type);

// Numbers of few digits, so that sums of products are exact, quantised ones too; some rows are 0.
Matrix draw_x(int64_t tokens, int64_t hidden, OutputType type, uint64_t seed);

// Tokens that the kernel quantises: a scale is of one binade in all blocks of a token, so that sums
// stay exact. Numbers lie on ties between two codes, and a block's largest often on one between two
// scales. Some blocks have a NaN, which the fast way of quantising does not take, some nothing but
// NaN, and some tokens are `loud`: their scales the largest one, and numbers beyond six steps of
// it.
Matrix draw_quantised_x(int64_t tokens, int64_t hidden, OutputType type, float x_scale, bool loud,
                        uint64_t seed);

// Columns of h become 0: gates of them are.
void make_quiet(Operand* gate, Numbers* bias, wl_dtype bias_type, uint64_t seed);

// A weight at one k of each row, so that a product of any h with it is one number: at another k in
// each row, as long as there are. Where `quiet` says so, h is 0 and weights are any.
Operand one_hot(int64_t rows, int64_t k, int64_t l, uint64_t seed, const uint64_t* quiet);

} // namespace wltest::problems
