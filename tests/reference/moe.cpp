#include "tests/reference/moe.hpp"

#include <algorithm>
#include <cmath>

namespace wltest {

ExpertOrder order_experts(const std::vector<int32_t>& ids, int64_t top_k, int64_t experts,
                          int64_t first) {
  ExpertOrder order;
  order.positions.assign(ids.size(), -1);
  for (int64_t e = 0; e < experts; ++e) {
    for (size_t slot = 0; slot < ids.size(); ++slot) {
      if (int64_t{ids[slot]} != first + e) continue;
      order.positions[slot] = static_cast<int32_t>(order.rows.size());
      order.rows.push_back(static_cast<int32_t>(static_cast<int64_t>(slot) / top_k));
    }
    order.ends.push_back(static_cast<int32_t>(order.rows.size()));
  }
  return order;
}

PermutedOperand permuted(const Operand& tokens, const ExpertOrder& order) {
  const size_t row_bytes = tokens.row_bytes(), slots = order.positions.size();
  const auto blocks = static_cast<size_t>(tokens.k / 16), groups = order.ends.size();
  PermutedOperand out;
  out.values.resize(slots * row_bytes);
  out.values_written.resize(slots * row_bytes);
  out.scales.resize(((slots + 127) / 128 + groups - 1) * 128 * blocks);
  out.scales_written.resize(out.scales.size());
  size_t row = 0;
  for (size_t g = 0; g < groups; ++g) {
    const size_t start = row;
    for (; row < static_cast<size_t>(order.ends[g]); ++row) {
      const auto token = static_cast<size_t>(order.rows[row]);
      std::copy_n(&tokens.values[token * row_bytes], row_bytes, &out.values[row * row_bytes]);
      std::fill_n(out.values_written.begin() + static_cast<int64_t>(row * row_bytes), row_bytes,
                  true);
      const size_t r = 128 * (start / 128 + g) + row - start;
      for (size_t s = 0; s < blocks; ++s) {
        const size_t at =
            (r / 128 * (blocks / 4) + s / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + s % 4;
        out.scales[at] = tokens.scales[token * blocks + s];
        out.scales_written[at] = true;
      }
    }
  }
  return out;
}

std::vector<float> combined(const std::vector<float>& rows, const std::vector<int32_t>& positions,
                            const std::vector<float>& weights, const std::vector<float>& addend,
                            int64_t top_k, int64_t columns) {
  const auto width = static_cast<size_t>(columns), k = static_cast<size_t>(top_k);
  const size_t tokens = positions.size() / k, count = rows.size() / width;
  std::vector<float> y(tokens * width);
  for (size_t t = 0; t < tokens; ++t)
    for (size_t c = 0; c < width; ++c) {
      float sum = 0;
      for (size_t j = 0; j < k; ++j) {
        const int32_t position = positions[t * k + j];
        if (position < 0 || static_cast<size_t>(position) >= count) continue;
        const float weight = weights.empty() ? 1 : weights[t * k + j];
        sum = std::fma(weight, rows[static_cast<size_t>(position) * width + c], sum);
      }
      if (!addend.empty()) {
        const volatile float with = sum + addend[t * width + c];
        sum = with;
      }
      y[t * width + c] = sum;
    }
  return y;
}

} // namespace wltest
