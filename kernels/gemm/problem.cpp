#include "kernels/gemm/problem.hpp"

namespace warpline::gemm {

namespace {

constexpr double minus_log2e = -1.4426950408889634;
// -2 sqrt(2 / pi) log2 e
constexpr double gelu_tanh_c0 = -2.302208198144325;

} // namespace

Activation activation_of(wl_activation activation) {
  switch (activation) {
  case WL_ACTIVATION_SILU:
    return {.kind = WL_ACTIVATION_SILU, .c0 = static_cast<float>(minus_log2e)};
  case WL_ACTIVATION_GELU_TANH:
    return {.kind = WL_ACTIVATION_GELU_TANH,
            .c0 = static_cast<float>(gelu_tanh_c0),
            .c1 = static_cast<float>(0.044715 * gelu_tanh_c0)};
  default:
    return {.kind = static_cast<uint32_t>(activation)};
  }
}

} // namespace warpline::gemm
