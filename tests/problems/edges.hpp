// Operands under which the last place of every step of a gate tells.
#pragma once

#include "tests/problems/products.hpp"
#include "tests/reference/linear.hpp"

namespace wltest::problems {

// Elements of K that they need.
constexpr int64_t edges_k = 80;

// What the call reads beside them. Biases are the same in all columns.
struct EdgeFactors {
  Gate gate;
  float alpha1 = 1, alpha2 = 1, bias1 = -0.0f, bias2 = -0.0f;
  wl_dtype type = WL_F16; // of D
  float d_scale = 1;
};

// All columns of D are alike, or all rows, and each of the others lies so near to halfway between
// two numbers of D's type (of NVFP4: between two scales) that FP32's last place decides to which of
// them it is rounded.
void make_edges(wltest::Problem* q, const EdgeFactors& factors, bool by_columns, uint64_t seed);

} // namespace wltest::problems
