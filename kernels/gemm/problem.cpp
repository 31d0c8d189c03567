#include "kernels/gemm/problem.hpp"

#include <algorithm>
#include <limits>

namespace warpline::gemm {

namespace {

constexpr double minus_log2e = -1.4426950408889634;
// -2 sqrt(2 / pi) log2 e
constexpr double gelu_tanh_c0 = -2.302208198144325;

} // namespace

int64_t Groups::most_tiles(int64_t m, int64_t tile) const {
  if (sizes != nullptr) return count * ((row_stride + tile - 1) / tile);
  // A group of one row has a tile, every further tile takes `tile` rows more.
  const int64_t some = std::min<int64_t>(count, m);
  return some + (m - some) / tile;
}

int64_t Problem::b_stride() const {
  return groups.count != 0 ? groups.b_stride : n * (k * format_of(types.b).bits / 8);
}
int64_t Problem::sfb_stride() const {
  return groups.count != 0 ? groups.sfb_stride
                           : static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, n, k));
}

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

Activation gate_of(wl_gate gate, float limit) {
  if (gate == WL_GATE_SILU && limit == 0) return {};
  Activation result;
  if (gate == WL_GATE_CLAMPED)
    result.c0 = static_cast<float>(1.702 * minus_log2e);
  else
    result = activation_of(gate == WL_GATE_SILU ? WL_ACTIVATION_SILU : WL_ACTIVATION_GELU_TANH);
  result.kind = 1;
  result.limit = result.up_limit = limit == 0 ? std::numeric_limits<float>::infinity() : limit;
  result.up_offset = gate == WL_GATE_CLAMPED ? 1.0f : -0.0f;
  return result;
}

} // namespace warpline::gemm
