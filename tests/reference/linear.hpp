// What activations, gates and a linear layer's epilogue compute, in plain C++:
//
//     D = activation(row * col * alpha * acc + bias) [+ residual]
//     D = gate(alpha1 * acc1 + bias1, alpha2 * acc2 + bias2)
//
// Twice: in double, by the formulas of warpline.h, and as the kernels do it, FP32 operation by
// operation (ptx/epilogue.inc), with ex2 and rcp of numerics.hpp.
#pragma once

#include "tests/reference/dual_gemm.hpp"
#include "warpline/warpline.h"

#include <cstdint>
#include <vector>

namespace wltest {

double activated(wl_activation activation, double x);
float activated_replayed(wl_activation activation, float x);

// What the kernels take c0 and c1 for: zeros where the activation is none of SIGMOID_TIMES.
struct SigmoidFactors {
  float c0 = 0, c1 = 0;
};
SigmoidFactors sigmoid_factors(wl_activation activation);

// acc is the sum of products, exact in FP32. `bias` is -0 where there is none, so that zeros keep
// their sign; `residual` is null where there is none.
struct LinearInputs {
  double acc = 0;
  float alpha = 1, row = 1, bias = -0.0f;
  const float* residual = nullptr;
  float col = 1;
};
double linear(wl_activation activation, const LinearInputs& in);
float linear_replayed(wl_activation activation, const LinearInputs& in);

// What a product reads beside A and B; empty where there is none.
struct LinearOperands {
  wl_activation activation = WL_ACTIVATION_NONE;
  float alpha = 1;
  std::vector<float> row, bias, residual; // [L, M], [N], [L, M, N]
  std::vector<float> col = {};            // [N]
};
// D before it is rounded, [L, M, N], of the sums' first product.
std::vector<double> linear(const Sums& sums, const LinearOperands& operands);
std::vector<float> linear_replayed(const Sums& sums, const LinearOperands& operands);
// In WL_F16, WL_BF16 or WL_F32, as bytes; and in NVFP4.
std::vector<uint8_t> rounded(const std::vector<float>& values, wl_dtype type);
// Numbers of `found` whose bits differ from those of rounded(...); every NaN equals every NaN.
int64_t count_unequal(const std::vector<uint8_t>& found, const std::vector<uint8_t>& expected,
                      wl_dtype type);
Operand quantized(const std::vector<float>& values, const Sums& shape, float d_scale);

struct Gate {
  wl_gate kind = WL_GATE_SILU;
  float limit = 0; // 0: none
};
struct GatedInputs {
  double acc1 = 0, acc2 = 0;
  float alpha1 = 1, alpha2 = 1, bias1 = -0.0f, bias2 = -0.0f;
};
double gated(const Gate& gate, const GatedInputs& in);
float gated_replayed(const Gate& gate, const GatedInputs& in);

// What a dual GEMM reads beside A, B1 and B2.
struct GatedOperands {
  Gate gate;
  float alpha1 = 1, alpha2 = 1;
  std::vector<float> bias1, bias2; // [N], empty where there is none
};
// D before it is rounded, [L, M, N].
std::vector<double> gated(const Sums& sums, const GatedOperands& operands);
std::vector<float> gated_replayed(const Sums& sums, const GatedOperands& operands);

} // namespace wltest
