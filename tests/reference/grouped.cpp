#include "tests/reference/grouped.hpp"

#include <algorithm>
#include <cstring>

namespace wltest {

namespace {

constexpr int64_t tile_rows = 128;

// Offset in an operand's scales, of the layout's formula in warpline.h.
size_t scale_offset(int64_t row, int64_t s, int64_t k) {
  const int64_t atoms = (k + 63) / 64;
  return static_cast<size_t>((row / 128 * atoms + s / 4) * 512 + row % 32 * 16 +
                             row % 128 / 32 * 4 + s % 4);
}

// Rows [first, end) of an entry-less operand, as an operand.
Operand rows_of(const Operand& a, const std::vector<int64_t>& rows) {
  Operand to{static_cast<int64_t>(rows.size()), a.k, 1, {}, {}, a.type};
  const size_t bytes = a.row_bytes();
  const size_t scales = a.scales.size() / static_cast<size_t>(std::max<int64_t>(a.rows, 1));
  for (const int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    to.values.insert(to.values.end(), &a.values[at * bytes], &a.values[at * bytes] + bytes);
    if (scales != 0)
      to.scales.insert(to.scales.end(), &a.scales[at * scales], &a.scales[at * scales] + scales);
  }
  return to;
}

Operand matrix_of(const Operand& b, int64_t g) {
  Operand to{b.rows, b.k, 1, {}, {}, b.type};
  const size_t values = b.values.size() / static_cast<size_t>(b.l);
  const size_t scales = b.scales.size() / static_cast<size_t>(b.l);
  const auto at = static_cast<std::ptrdiff_t>(g);
  to.values.assign(b.values.begin() + at * static_cast<std::ptrdiff_t>(values),
                   b.values.begin() + (at + 1) * static_cast<std::ptrdiff_t>(values));
  to.scales.assign(b.scales.begin() + at * static_cast<std::ptrdiff_t>(scales),
                   b.scales.begin() + (at + 1) * static_cast<std::ptrdiff_t>(scales));
  return to;
}

// result(g, row, column, index) of the outputs of all groups.
template <class Value, class Result>
std::vector<Value> each_output(const Sums& sums, const std::vector<GroupRange>& ranges,
                               const Result& result) {
  std::vector<Value> out(sums.acc1.size());
  for (size_t g = 0; g < ranges.size(); ++g)
    for (int64_t row = ranges[g].first; row < ranges[g].end; ++row)
      for (int64_t column = 0; column < sums.n; ++column) {
        const auto i = static_cast<size_t>(row * sums.n + column);
        out[i] = result(g, static_cast<size_t>(row), static_cast<size_t>(column), i);
      }
  return out;
}

LinearInputs linear_inputs(const Sums& sums, const GroupedLinear& o, size_t g, size_t row,
                           size_t column, size_t i) {
  LinearInputs in;
  in.acc = sums.acc1[i];
  if (!o.alpha.empty()) in.alpha = o.alpha[g];
  if (!o.row.empty()) in.row = o.row[row];
  if (!o.bias.empty()) in.bias = o.bias[g * static_cast<size_t>(sums.n) + column];
  if (!o.residual.empty()) in.residual = &o.residual[i];
  return in;
}
GatedInputs gated_inputs(const Sums& sums, const GroupedGated& o, size_t g, size_t column,
                         size_t i) {
  GatedInputs in{sums.acc1[i], sums.acc2[i]};
  const size_t at = g * static_cast<size_t>(sums.n) + column;
  if (!o.alpha1.empty()) in.alpha1 = o.alpha1[g];
  if (!o.alpha2.empty()) in.alpha2 = o.alpha2[g];
  if (!o.bias1.empty()) in.bias1 = o.bias1[at];
  if (!o.bias2.empty()) in.bias2 = o.bias2[at];
  return in;
}

} // namespace

std::vector<GroupRange> ranges_of(const GroupTable& table, int64_t m, uint32_t* status) {
  std::vector<GroupRange> ranges;
  uint32_t wrong = 0;
  int64_t start = 0;
  for (int64_t g = 0; g < table.count; ++g) {
    const auto at = static_cast<size_t>(g);
    if (table.ends.empty()) {
      const int64_t size = table.sizes[at];
      if (size < 0) wrong |= WL_GROUPS_DECREASE;
      if (size > table.row_stride) wrong |= WL_GROUPS_BEYOND_M;
      const int64_t first = g * table.row_stride;
      ranges.push_back({first, first + std::clamp<int64_t>(size, 0, table.row_stride)});
      continue;
    }
    const int64_t end = table.ends[at];
    // What is wrong is said of the numbers as they are, not of what they are taken for.
    const int64_t before = g == 0 ? 0 : table.ends[at - 1];
    if (end < before) wrong |= WL_GROUPS_DECREASE;
    if (end > m) wrong |= WL_GROUPS_BEYOND_M;
    const int64_t taken = std::max(start, std::min(end, m));
    ranges.push_back({start, taken});
    start = taken;
  }
  if (status != nullptr) {
    for (size_t g = 0; g < ranges.size() && !table.sf_tiles.empty(); ++g) {
      const int64_t first = table.sf_tiles[g];
      const int64_t end = first + (ranges[g].rows() + tile_rows - 1) / tile_rows;
      if (ranges[g].rows() > 0 && (first < 0 || end > table.sf_tile_count))
        wrong |= WL_GROUPS_BAD_TILE;
    }
    for (const GroupRange& range : ranges)
      for (int64_t i = range.first; i < range.end && !table.rows.empty(); ++i) {
        const int32_t row = table.rows[static_cast<size_t>(i)];
        if (row < 0 || row >= table.a_rows) wrong |= WL_GROUPS_BAD_ROW;
      }
    *status = wrong;
  }
  return ranges;
}

int64_t row_of_a(const GroupTable& table, int64_t i) {
  if (table.rows.empty()) return i;
  return std::clamp<int64_t>(table.rows[static_cast<size_t>(i)], 0, table.a_rows - 1);
}

int64_t first_scale_tile(const GroupTable& table, const std::vector<GroupRange>& ranges,
                         int64_t g) {
  const auto at = static_cast<size_t>(g);
  return table.sf_tiles.empty() ? ranges[at].first / tile_rows + g : table.sf_tiles[at];
}

int64_t scale_tiles(const GroupTable& table, int64_t m) {
  return table.sf_tiles.empty() ? (m + tile_rows - 1) / tile_rows + table.count - 1
                                : table.sf_tile_count;
}

std::vector<uint8_t> packed_group_scales(const GroupTable& table, int64_t m, int64_t k,
                                         const std::vector<uint8_t>& plain, uint8_t padding) {
  const size_t tile = wl_sf_bytes(WL_SF_128x4, tile_rows, k);
  const int64_t tiles = scale_tiles(table, m), blocks = k / 16;
  std::vector<uint8_t> packed(static_cast<size_t>(tiles) * tile, padding);
  const std::vector<GroupRange> ranges = ranges_of(table, m);
  for (int64_t g = 0; g < table.count; ++g) {
    const GroupRange& range = ranges[static_cast<size_t>(g)];
    const int64_t first = first_scale_tile(table, ranges, g);
    for (int64_t row = range.first; row < range.end; ++row) {
      const int64_t inside = row - range.first;
      // One beyond the tiles counts as the last one.
      int64_t at = first + inside / tile_rows;
      if (at < 0 || at >= tiles) at = tiles - 1;
      for (int64_t s = 0; s < blocks; ++s)
        packed[static_cast<size_t>(at) * tile + scale_offset(inside % tile_rows, s, k)] =
            plain[static_cast<size_t>(row * blocks + s)];
    }
  }
  return packed;
}

Sums accumulate_groups(const Problem& problem, const GroupTable& table, int threads,
                       const Progress& progress,
                       const std::function<Sums(const Problem&)>& of_group) {
  Sums sums{problem.m, problem.n, 1, {}, {}};
  sums.acc1.resize(static_cast<size_t>(problem.m * problem.n));
  const bool two = !problem.b2.values.empty();
  if (two) sums.acc2.resize(sums.acc1.size());
  const std::vector<GroupRange> ranges = ranges_of(table, problem.m);
  for (int64_t g = 0; g < table.count; ++g) {
    const GroupRange& range = ranges[static_cast<size_t>(g)];
    if (progress) progress(static_cast<double>(g) / static_cast<double>(table.count));
    if (range.rows() == 0) continue;
    std::vector<int64_t> rows;
    for (int64_t i = range.first; i < range.end; ++i) rows.push_back(row_of_a(table, i));
    Problem one{range.rows(), problem.n, problem.k, 1, {}, {}, {}, 1, 1};
    one.a = rows_of(problem.a, rows);
    one.b1 = matrix_of(problem.b1, g);
    if (two) one.b2 = matrix_of(problem.b2, g);
    const Sums own = of_group ? of_group(one) : accumulate(one, threads);
    const auto at = static_cast<std::ptrdiff_t>(range.first * problem.n);
    std::copy(own.acc1.begin(), own.acc1.end(), sums.acc1.begin() + at);
    if (two) std::copy(own.acc2.begin(), own.acc2.end(), sums.acc2.begin() + at);
  }
  return sums;
}

std::vector<double> grouped_linear(const Sums& sums, const std::vector<GroupRange>& ranges,
                                   const GroupedLinear& o) {
  return each_output<double>(sums, ranges, [&](size_t g, size_t row, size_t column, size_t i) {
    return linear(o.activation, linear_inputs(sums, o, g, row, column, i));
  });
}
std::vector<float> grouped_linear_replayed(const Sums& sums, const std::vector<GroupRange>& ranges,
                                           const GroupedLinear& o) {
  return each_output<float>(sums, ranges, [&](size_t g, size_t row, size_t column, size_t i) {
    return linear_replayed(o.activation, linear_inputs(sums, o, g, row, column, i));
  });
}
std::vector<double> grouped_gated(const Sums& sums, const std::vector<GroupRange>& ranges,
                                  const GroupedGated& o) {
  return each_output<double>(sums, ranges, [&](size_t g, size_t, size_t column, size_t i) {
    return gated(o.gate, gated_inputs(sums, o, g, column, i));
  });
}
std::vector<float> grouped_gated_replayed(const Sums& sums, const std::vector<GroupRange>& ranges,
                                          const GroupedGated& o) {
  return each_output<float>(sums, ranges, [&](size_t g, size_t, size_t column, size_t i) {
    return gated_replayed(o.gate, gated_inputs(sums, o, g, column, i));
  });
}

} // namespace wltest
