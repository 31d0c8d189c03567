// The engine's Hopper half: what its configurations cost, and plans of them.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/launch.hpp"

#include <algorithm>

namespace warpline::gemm {

// A line of a table: SM90_CONFIG or SM90_DOUBLE_BUFFERED_CONFIG, SM90_SMALL_CONFIG. `mma` is what
// the kernel multiplies: activations in FP16 come from NVFP4 as well.
inline Config sm90_config(const char* name, Image (*image)(), int b_tensors, Family family,
                          wl_dtype mma, wl_dtype out, int tokens, int stages, int rows, int split,
                          int consumers, int group_m, int ctas = 1, int launches = 2,
                          int spread = 0, int groups = 0) {
  Config c{};
  c.name = name, c.target = "sm_90a", c.image = image;
  c.family = family, c.d_type = out, c.b_tensors = b_tensors;
  c.a_types = bit(mma == WL_BF16 ? WL_OPERAND_BF16 : WL_OPERAND_F16);
  c.direct = launches == 1;
  if (mma == WL_F16 && !c.direct) c.a_types |= bit(WL_OPERAND_NVFP4);
  c.tile_m = tokens, c.tile_n = groups != 0 ? 32 * groups : sm90_columns(consumers), c.tile_k = 128;
  c.stages = stages, c.acc_stages = 1, c.group_m = group_m, c.ctas = ctas;
  c.spread = spread != 0;
  c.cluster[0] = rows * (c.spread ? 1 : split), c.cluster[1] = c.cluster[2] = 1, c.split_k = split;
  c.threads = 128 * consumers + (family == Family::sm90 ? 128 : 0);
  c.shared_bytes = sm90_shared_bytes(tokens, stages, c.tile_n, b_tensors);
  if (split > 1 && !c.spread) {
    // OPEN; a stage that gets sums may have to be larger than what is loaded.
    const int more = (split - 1) * (tokens / split / 8) * (c.tile_n / 32) * 2048 -
                     sm90_stage_bytes(tokens, c.tile_n, b_tensors);
    c.shared_bytes += 8 + stages * std::max(more, 0);
  }
  c.later = family == Family::sm90 && !c.direct && split == 1 && ctas == 1 && consumers < 4 &&
            tokens >= 96;
  if (c.later) c.shared_bytes += sm90_later_bytes(b_tensors);
  c.shared_bytes += sm90_outputs_apart_bytes(c, b_tensors);
  return c;
}
// SM90_STORED_CONFIG
inline Config stored(Store store, Config c) {
  c.store = store;
  c.shared_bytes -= sm90_outputs_apart_bytes(c, c.b_tensors);
  c.shared_bytes += c.tile_n / 32 * (sm90_output_bytes(store) - sm90_output_bytes(Store::direct));
  return c;
}
// SM90_FITTED_CONFIG
inline Config fitted(Config c) {
  c.fitted = true;
  return c;
}
// SM90_HELPED_CONFIG
inline Config helped(Config c) {
  c.helped = true;
  c.shared_bytes += static_cast<int>(sm90_given_bytes(c.tile_m, c.tile_n)); // GIVEN, a barrier
  return c;
}
// SM90_STREAM_K_CONFIG
inline Config streamed(Config c) {
  c.grid = Grid::stream_k;
  return c;
}
inline Config sm90_small_config(const char* name, Image (*image)(), int b_tensors, wl_dtype a,
                                wl_dtype out, int tokens, int columns, int stages, int split,
                                int decoders) {
  Config c{};
  c.name = name, c.target = "sm_90a", c.image = image;
  c.family = Family::sm90_small, c.d_type = out, c.b_tensors = b_tensors;
  c.a_types = bit(a == WL_F16 ? WL_OPERAND_F16 : a == WL_BF16 ? WL_OPERAND_BF16 : WL_OPERAND_NVFP4);
  c.tile_m = tokens, c.tile_n = columns, c.tile_k = 256;
  c.stages = stages, c.acc_stages = 1, c.group_m = 1, c.grid = Grid::one_tile;
  c.cluster[0] = split, c.cluster[1] = c.cluster[2] = 1, c.split_k = split;
  c.decoders = decoders, c.threads = sm90_small_threads(columns, decoders);
  c.shared_bytes = sm90_small_shared_bytes(tokens, columns, stages, split, decoders);
  return c;
}
// SM90_STREAM_CONFIG
inline Config sm90_stream_config(const char* name, Image (*image)(), int b_tensors, wl_dtype a,
                                 wl_dtype out, int tokens, int stages, int split, int ctas,
                                 int /*of the PTX*/) {
  Config c{};
  c.name = name, c.target = "sm_90a", c.image = image;
  c.family = Family::sm90_stream, c.d_type = out, c.b_tensors = b_tensors;
  const wl_operand type = a == WL_F16    ? WL_OPERAND_F16
                          : a == WL_BF16 ? WL_OPERAND_BF16
                                         : WL_OPERAND_NVFP4;
  c.a_types = bit(type);
  c.tile_m = tokens, c.tile_n = 32, c.tile_k = 256;
  c.stages = stages, c.acc_stages = 1, c.group_m = 1, c.grid = Grid::one_tile;
  c.cluster[0] = split, c.cluster[1] = c.cluster[2] = 1, c.split_k = split;
  c.ctas = ctas, c.threads = 288;
  c.shared_bytes = sm90_stream_shared_bytes(tokens, type, stages);
  return c;
}
// Of a table of groups: the same kernel, whose CTAs walk over tiles.
inline Config grouped(Config c) {
  c.grouped = true, c.grid = Grid::persistent;
  if (c.later) c.shared_bytes -= sm90_later_bytes(c.b_tensors);
  c.later = c.family == Family::sm90;
  if (c.later) c.shared_bytes += sm90_group_later_bytes + sm90_turns_bytes(c.stages);
  c.shared_bytes += sm90_group_table_bytes;
  // The table takes the place of `received`.
  if (c.family == Family::sm90_small)
    c.shared_bytes += sm90_small_group_bytes(c.tile_m, c.stages, c.decoders) - 8;
  if (c.later && c.tile_m == 64 && c.b_tensors == 1) c.shared_bytes += sm90_narrow_table_bytes;
  if (c.family == Family::sm90_native) c.shared_bytes += sm90_native_row_table_bytes;
  c.column_factors = false;
  return c;
}
// Tiles of columns that a CTA makes of rows that say which matrix is theirs.
constexpr int most_tiles_each = 3;
inline Config routed(Config c) {
  c.routed = true;
  c.shared_bytes += 24; // TILE_PLACE
  if (c.keeps_sums())
    c.shared_bytes += 16 + (most_tiles_each - 1) * sm90_small_sum_bytes(c.tile_m, c.tile_n, 2);
  // Activations are one token's.
  c.shared_bytes -= sm90_small_token_stages(c.tile_m, c.decoders, false) *
                    (sm90_small_token_bytes(c.tile_m) - sm90_small_token_bytes(c.tile_m) / 8);
  return c;
}
inline Config summed_if(int summed, Config c) {
  c.summed = summed != 0;
  // SUMMANDS in the place of `received`, SUM_WEIGHTS, SUM_ROWS.
  if (c.summed) c.shared_bytes += 16 + 32 + most_tiles_each * 8 * 128;
  return c;
}
// SM90_NATIVE_CONFIG, SM90_NATIVE_STREAM_CONFIG
inline Config sm90_native_config(const char* name, Image (*image)(), int b_tensors, NativeType type,
                                 wl_dtype out, int tokens, int stages, int rows, int consumers,
                                 int group_m, int stream_k = 0, int split_k = 1) {
  Config c{};
  c.name = name, c.target = "sm_90a", c.image = image;
  c.family = Family::sm90_native, c.d_type = out, c.b_tensors = b_tensors;
  const bool f8 = type == NativeType::F8 || type == NativeType::F8FAST;
  c.a_types = c.b_types = f8                         ? bit(WL_OPERAND_E4M3) | bit(WL_OPERAND_E5M2)
                          : type == NativeType::F16  ? bit(WL_OPERAND_F16)
                          : type == NativeType::BF16 ? bit(WL_OPERAND_BF16)
                          : type == NativeType::TF32 ? bit(WL_OPERAND_TF32)
                                                     : bit(WL_OPERAND_INT8);
  if (stream_k != 0) c.grid = Grid::stream_k;
  c.fast_sums = type == NativeType::F8FAST;
  c.column_factors = b_tensors == 1 && (f8 || type == NativeType::I8);
  c.tile_m = tokens, c.tile_n = (b_tensors == 2 ? 64 : 32) * consumers;
  c.tile_k = 128 * 8 / format_of(c.first_types().a).bits;
  c.stages = stages, c.acc_stages = 1, c.group_m = group_m;
  c.split_k = split_k;
  if (split_k > 1) c.grid = Grid::one_tile;
  c.cluster[0] = rows * split_k, c.cluster[1] = c.cluster[2] = 1;
  c.threads = 128 + 128 * consumers;
  c.shared_bytes = sm90_native_shared_bytes(tokens, stages, consumers, b_tensors) +
                   (split_k > 1 ? sm90_native_split_bytes(tokens, consumers) : 0);
  return c;
}

// SM90_NATIVE_TURNED_CONFIG: `columns` of D and 64 rows a consumer, or with ping_pong 128 of one.
inline Config sm90_turned_config(const char* name, Image (*image)(), NativeType type, wl_dtype out,
                                 int columns, int stages, int rows, int consumers, int group_m,
                                 int ping_pong) {
  Config c =
      sm90_native_config(name, image, 1, type, out, columns, stages, rows, consumers, group_m);
  c.turned = true, c.ping_pong = ping_pong != 0;
  c.tile_m = 64 * consumers, c.tile_n = columns / 2;
  c.shared_bytes = stages * (sm90_native_stage_bytes(columns, consumers, 1) + 16) +
                   sm90_native_places(c) * (sm90_turned_piece_bytes(columns, out) + 16);
  return c;
}

inline Config mn_major(Config config) {
  config.mn_major = true;
  return config;
}

// Stages of all tiles of a cluster, which the clusters of a STREAM_K configuration share.
int64_t sm90_native_stages(const Config& config, const Problem& problem);
Cost sm90_native_cost(const Config& config, const Problem& problem, const DeviceLimits& device);
// Four consumers of the same columns, which take stages in turn.
inline bool in_turn(const Config& config) { return config.tile_n == 32 && config.ctas == 1; }
// Whether tiles are all of tile_m rows, and others of that size, `fitted`, of fewer: FITTED_APART
// of sm90_kinds.inc.
inline bool fitted_apart(const Config& config) {
  return config.b_tensors == 1 && config.split_k == 1 && config.grid != Grid::stream_k &&
         config.d_type != WL_F32;
}
// Whether tiles may have fewer rows than tile_m: FITS_ROWS of sm90_kinds.inc.
inline bool fits_rows(const Config& config) {
  return config.family == Family::sm90 && !config.grouped &&
         (config.fitted || !fitted_apart(config)) &&
         (config.tile_m == 256 ||
          (config.tile_m == 128 && (config.tile_n < 96 || config.split_k > 1)));
}
// Tokens of the MMAs of tiles of `rows`.
inline int64_t sm90_rows_of_mmas(const Config& config, int64_t rows) {
  if (!fits_rows(config)) return config.tile_m;
  const int64_t tokens = std::max<int64_t>(divide_up(rows, 16) * 16, config.tile_m / 2 + 16);
  return config.tile_m == 128 && tokens > 96 ? 128 : tokens; // FEWER_TOKENS of sm90_narrow.inc
}
// Tiles that rows are shared out to, to each as many, and the rows of a tile, tokens of its MMAs.
struct Sm90Rows {
  int64_t tiles, each;
};
Sm90Rows sm90_rows(const Config& config, const Problem& problem, const DeviceLimits& device);
// CTAs of a cluster that share a tile's rows of D.
inline int cluster_rows(const Config& config) {
  return config.spread ? config.cluster[0] : config.cluster[0] / config.split_k;
}
// What the clusters of a STREAM_K configuration do, in stages of K: tiles of `whole` one by one; of
// the others `parts` clusters have `span`, `share` each, `extra` of them one more, the last of them
// what is left.
struct Sm90Ranges {
  int64_t clusters, whole, share, extra, parts, span;
  double clocks; // of the longest, by the model, with what sharing costs
};
// Fewer columns, of both tensors of B, take too short a time over rows to make others ready
// meanwhile (H100, NVFP4, 4096 rows, t128c96: 1280 and 1536 columns take 1.2 times as long, 2048
// 1.05, 2560 0.91).
constexpr int64_t sm90_later_columns = 2560;
int64_t sm90_all_stages(const Config& config, const Problem& problem);
Sm90Ranges sm90_ranges(const Config& config, const Problem& problem, int64_t resident);
// Of a configuration whose tiles are helped: the helpers, each of which has up to as many tiles as
// it has sets of consumers, and the blocks of a tile's K that its own CTA has.
struct Sm90Help {
  int64_t helpers, own_blocks;
  double clocks; // of a tile's blocks until its sums are complete
};
Sm90Help sm90_help(const Config& config, int64_t tiles, int64_t k_blocks,
                   const DeviceLimits& device);
// CTAs of a configuration whose tiles are spread: all of them are on the device at once.
int64_t sm90_spread_ctas(const Config& config, const Problem& problem);
Cost sm90_cost(const Config& config, const Problem& problem, const DeviceLimits& device);
Cost sm90_small_cost(const Config& config, const Problem& problem, const DeviceLimits& device);
Cost sm90_stream_cost(const Config& config, const Problem& problem, const DeviceLimits& device);

// Loads the configuration's kernels, fills their parameters and launches. The context is current,
// the problem is checked.
wl_status make_sm90_plan(wl_context* context, const Problem& problem, const Config& config,
                         wl_plan** plan);
wl_status make_sm90_native_plan(wl_context* context, const Problem& problem, const Config& config,
                                wl_plan** plan);
// Also of sm90_stream configurations.
wl_status make_sm90_small_plan(wl_context* context, const Problem& problem, const Config& config,
                               wl_plan** plan);

// SMs come to a launch one by one as the kernel ahead leaves them. CTAs of which an SM holds more
// than an even share can then crowd into the first: 128 of them, two of which an SM holds, took
// twice the time on an H100. So a launch takes as much shared memory as leaves no room for more.
constexpr int64_t largest_share = 8; // above, one CTA more or less is little
inline int shared_bytes_of_share(const DeviceLimits& device, int64_t share) {
  if (share > largest_share) return 0;
  const int64_t least =
      device.shared_bytes_per_sm / (share + 1) + 1024 - device.reserved_shared_bytes;
  return static_cast<int>(std::clamp<int64_t>(least, 0, device.shared_bytes_per_block));
}
// `holds(bytes, share)`: clusters that the device holds at once of CTAs of so much shared memory,
// of which an SM holds `share` by that; share 0: as many as it does.
template <class Holds>
void share_sms(const DeviceLimits& device, LaunchConfig* launch, const Holds& holds) {
  const int64_t clusters = launch->grid[0] / launch->cluster[0];
  const unsigned own = launch->dynamic_shared_bytes;
  for (int64_t share = 1; share <= largest_share; ++share) {
    if (share * device.sm_count < launch->grid[0]) continue;
    const unsigned bytes =
        std::max(own, static_cast<unsigned>(shared_bytes_of_share(device, share)));
    const int64_t held = holds(bytes, share);
    if (held < clusters) continue;
    // Registers may leave no room for more either.
    if (bytes > own && holds(own, 0) > held) launch->dynamic_shared_bytes = bytes;
    return;
  }
}
// Clusters of more than 2 do not fit everywhere, as GPCs differ in size: 15 of 16 SMs count. An
// H200 holds one more or less: 30, 62, 92, 124 and 154 clusters of 4 by 1 to 5 CTAs an SM, and 15,
// 30, 45, 62 and 77 of 8.
inline int64_t held_clusters(const DeviceLimits& device, int64_t size, int64_t share) {
  const int64_t sms = std::max(device.sm_count, 1);
  return (size > 2 ? sms * 15 / 16 : sms) * share / size;
}
inline void share_sms(const DeviceLimits& device, LaunchConfig* launch) {
  share_sms(device, launch, [&](unsigned, int64_t share) {
    return share == 0 ? INT64_MAX : held_clusters(device, launch->cluster[0], share);
  });
}
// That a launch of the configuration may take.
inline int most_shared_bytes(const DeviceLimits& device, const Config& config) {
  return std::max(config.shared_bytes, shared_bytes_of_share(device, 1));
}

} // namespace warpline::gemm
