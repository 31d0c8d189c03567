// How many groups a problem of wl_grouped_gemm has, and which rows are whose.
#pragma once

#include "tests/problems/products.hpp"
#include "tests/reference/grouped.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace wltest::problems {

// How many groups, and what they have of each.
struct GroupSizes {
  int64_t m, n, k, count;
  bool masked;        // sizes at a stride, not ends
  int64_t row_stride; // masked
  bool gathers, has_tiles, has_status, hostile;
  enum class Fault { table, tiles, rows } first; // of a hostile problem's first run
  int64_t a_rows, tile_count;
  int64_t most_spoilt;              // rows of a group whose tiles may be wrong
  int64_t b_gap, sfb_gap, bias_gap; // bytes, bytes, elements
  int64_t blocked_k() const { return (k + 63) / 64 * 64; } // of NVFP4 before it is retyped
};

// Rows of several groups beyond those that the launch ahead decodes.
bool has_later_groups(const Configuration& c, const Draw& draw);

// Few rows of many groups, or many rows of few.
// Rows of operands without scales have whole 16 bytes.
GroupSizes draw_groups(const Configuration& c, wl_operand type, Draw& draw);

// The table of one run, 0 or 1. What is wrong with a hostile one is one number in the first run,
// and in the second any number of them all.
GroupTable table_of(const GroupSizes& s, int64_t tile, const std::string& kind, size_t run,
                    uint64_t seed);

// Rows of a group whose tiles of scales are none of the tensor's have the last tile's, and so each
// the scales of the one 128 rows ahead.
void share_last_tile(const GroupTable& t, int64_t m, Operand* a);

} // namespace wltest::problems
