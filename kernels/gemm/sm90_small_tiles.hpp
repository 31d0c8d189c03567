// How many tiles and CTAs configurations of sm90_small.ptx and sm90_stream.ptx make, for their
// plans and what these cost.
#pragma once

#include "kernels/gemm/sm90_plan.hpp"
#include "ptx/layouts.hpp"

#include <algorithm>

namespace warpline::gemm::sm90_small {

// Columns of each 32 that are a tile's.
inline int tile_lines(const Config& config) { return config.columns() / 4; }

// Tiles that hold a column below N: of a block of less than 128 the first 32 columns decide.
inline int64_t tiles_n(const Config& config, int64_t n) {
  const int64_t blocks = n / ptx::scale_atom_rows, rest = n % ptx::scale_atom_rows;
  const int lines = tile_lines(config);
  return blocks * (32 / lines) + divide_up(std::min<int64_t>(rest, 32), lines);
}

// Of an entry; of rows with a matrix each, of a row.
inline int64_t row_tiles(const Problem& problem, const Config& config) {
  return config.routed ? 1 : divide_up(problem.m, config.tile_m);
}
inline int64_t entries(const Problem& problem, const Config& config) {
  return config.routed ? problem.m : problem.l;
}

// ---- rows that say which matrix is theirs

// CTAs that an SM holds by the models; of one tensor registers have room for one more.
inline int routed_resident(const Config& config) {
  return sm90_small_ctas(config.tile_n, config.decoders) + 1;
}
inline int64_t cluster_size(const Problem& problem, const Config& config) {
  return config.summed ? std::max<int64_t>(problem.groups.sum.each, 1) : config.cluster[0];
}
// Clusters, where each CTA makes `each` tiles of columns one behind the other.
int64_t routed_clusters(const Problem& problem, const Config& config, int64_t each);
// Tiles of columns that a cluster makes, a CTA alone or those that share K.
int64_t tiles_each(const Problem& problem, const Config& config, const DeviceLimits& device);

} // namespace warpline::gemm::sm90_small
