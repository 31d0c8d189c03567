// What the grouped products compute, in plain C++: a product for each group of rows.
#pragma once

#include "tests/reference/linear.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace wltest {

// wl_groups, on the host; empty vectors stand for null.
struct GroupTable {
  int64_t count = 0;
  std::vector<int32_t> ends, sizes, sf_tiles, rows;
  int64_t row_stride = 0, sf_tile_count = 0, a_rows = 0;
};

// Rows first .. end - 1 of the product are group g's.
struct GroupRange {
  int64_t first = 0, end = 0;
  int64_t rows() const { return end - first; }
};
// As warpline.h says that wrong offsets are taken; `status` gets bits of wl_group_status, null:
// nobody asks. `m` is the most rows there are.
std::vector<GroupRange> ranges_of(const GroupTable& table, int64_t m, uint32_t* status = nullptr);

// The row of A that row i of the product is.
int64_t row_of_a(const GroupTable& table, int64_t i);

// First of the tiles of 128 rows that hold the scales of a group, and how many there are of all
// groups.
int64_t first_scale_tile(const GroupTable& table, const std::vector<GroupRange>& ranges, int64_t g);
int64_t scale_tiles(const GroupTable& table, int64_t m);

// Scales of rows of groups as they lie in memory: `plain` is [m, k / 16], padding what it says.
std::vector<uint8_t> packed_group_scales(const GroupTable& table, int64_t m, int64_t k,
                                         const std::vector<uint8_t>& plain, uint8_t padding);

// Sums [1, m, n] of A's rows and the matrices of B1, and of B2 if there are any: `problem` has l 1
// and an A of `a_rows` rows where they are gathered, and b1 and b2 of l = count. Rows of no group
// are 0. `of_group` makes those of one group's rows, in the place of accumulate().
Sums accumulate_groups(const Problem& problem, const GroupTable& table, int threads = 0,
                       const Progress& progress = {},
                       const std::function<Sums(const Problem&)>& of_group = {});

// What the products read beside A and B: alpha for each group, biases [count, n]; row [m] and
// residual [m, n] of all rows. Empty: null.
struct GroupedLinear {
  wl_activation activation = WL_ACTIVATION_NONE;
  std::vector<float> alpha, row, bias, residual;
};
struct GroupedGated {
  Gate gate;
  std::vector<float> alpha1, alpha2, bias1, bias2;
};

// D before it is rounded, [m, n], 0 in rows of no group: in double and as the kernels compute it.
std::vector<double> grouped_linear(const Sums& sums, const std::vector<GroupRange>& ranges,
                                   const GroupedLinear& operands);
std::vector<float> grouped_linear_replayed(const Sums& sums, const std::vector<GroupRange>& ranges,
                                           const GroupedLinear& operands);
std::vector<double> grouped_gated(const Sums& sums, const std::vector<GroupRange>& ranges,
                                  const GroupedGated& operands);
std::vector<float> grouped_gated_replayed(const Sums& sums, const std::vector<GroupRange>& ranges,
                                          const GroupedGated& operands);

} // namespace wltest
