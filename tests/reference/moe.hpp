// What stands around the products of a mixture of experts, in plain C++: the specification that its
// kernels are compared with bit for bit.
#pragma once

#include "tests/reference/quantize.hpp"
#include "warpline/warpline.h"

#include <cstdint>
#include <vector>

namespace wltest {

// The order of experts: slot t * top_k + j is the j-th expert of token t.
struct ExpertOrder {
  std::vector<int32_t> ends;      // [experts]: slots of experts 0 to e
  std::vector<int32_t> rows;      // token of each place in the order
  std::vector<int32_t> positions; // [slots]: place of a slot, -1: its id is not from `first` to
                                  // first + experts - 1
};
// Slots of an expert stand in their own order.
ExpertOrder order_experts(const std::vector<int32_t>& ids, int64_t top_k, int64_t experts,
                          int64_t first);

// Rows of a quantised matrix in the order of experts, values dense and scales in tiles of 128 rows:
// those of expert g, which starts at row s, from tile s / 128 + g on.
struct PermutedOperand {
  std::vector<uint8_t> values, scales;
  std::vector<bool> values_written, scales_written;
};
PermutedOperand permuted(const Operand& tokens, const ExpertOrder& order);

// sum over j of weights[t,j] * rows[positions[t,j]] + addend[t] in FP32: an fma for each j that has
// a position, in their order, from +0 on; then one addition. Without weights they are 1.
std::vector<float> combined(const std::vector<float>& rows, const std::vector<int32_t>& positions,
                            const std::vector<float>& weights, const std::vector<float>& addend,
                            int64_t top_k, int64_t columns);

} // namespace wltest
