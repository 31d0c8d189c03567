// Configurations of the engine's kernels and their sizes: the memory maps at the heads of the
// kernels in this folder, as formulas. An operation's table lists configurations (configs of
// kernels/<op>/configs.def).
#pragma once

#include "kernels/gemm/operand.hpp"
#include "runtime/src/images.hpp"
#include "warpline/warpline.h"

#include <bit>
#include <cstdint>

namespace warpline::gemm {

// How tiles come to clusters: the GRID column.
enum class Grid { one_tile, persistent, launch_control, stream_k };

// How D leaves: the STORE column. sectors, lines: sm90.
enum class Store { direct, bulk, sectors, lines };

// Who drains an accumulator set: the EPILOGUE column.
enum class Epilogue { both, ping_pong };

// Which kernel: the macro of the table.
enum class Family { sm100, sm90, sm90_double_buffered, sm90_small, sm90_stream, sm90_native };

// Which operands an sm100 kernel multiplies: the file of operands that it includes, and its KIND.
enum class Kind { nvfp4, h16, f8, tf32, i8, mx };

// What an sm90_native kernel multiplies: the TYPE column. F8FAST: FP8 whose sums are the tensor
// core's own, of which it keeps 14 bits; F8 adds what it makes of 128 of K in FP32.
enum class NativeType { F16, BF16, TF32, F8, F8FAST, I8 };

struct Config {
  const char* name;   // also the PTX file and its entry
  const char* target; // of the PTX
  Family family;
  wl_dtype d_type;
  int tile_m, tile_n, tile_k; // tile_n: columns of one product
  int stages, acc_stages;
  int group_m;
  int cluster[3];
  int threads;
  int shared_bytes; // dynamic
  Image (*image)();
  // B_TENSORS of the form: 2 products of two tensors, or the two halves of a tile of one.
  int b_tensors = 2;
  int split_k = 1; // CTAs of a cluster that share a tile's K
  // sm100: a cluster is cluster_m x cluster_n CTAs, each of rows() rows; tile_m is the rows of an
  // MMA, 128 for each CTA of its group. Swapped: weights are the M of an MMA, up to 64 tokens its
  // N.
  int cta_group = 1, cluster_m = 1, cluster_n = 1;
  bool swapped = false;
  Kind kind = Kind::nvfp4;
  int scale_sets = 0;   // sets of scale columns in tensor memory
  int decoders = 0;     // sm90_small: warps that decode activations
  int ctas = 1;         // sm90: that an SM holds
  bool later = false;   // sm90: activations of later rows are made ready under the product
  bool fitted = false;  // sm90: its tiles may have fewer rows, where others of its size are whole
  bool spread = false;  // sm90: the CTAs that share a tile's K are of no cluster
  bool helped = false;  // sm90: CTAs that have no tile have some of the K of others' tiles
  bool direct = false;  // sm90: 16-bit activations as they lie, in one launch
  bool grouped = false; // for groups of rows
  bool routed = false;  // for few rows that say which matrix they are multiplied with
  bool summed = false;  // and a token's become their sum
  Grid grid = Grid::persistent;
  Store store = Store::direct;
  Epilogue epilogue = Epilogue::both;
  // Types of A and of B that the kernel takes, and whether they must be the same.
  uint32_t a_types = bit(WL_OPERAND_NVFP4), b_types = bit(WL_OPERAND_NVFP4);
  bool one_type = false;
  bool decodes_b = false;      // sm100: an NVFP4 B becomes A's type in a launch ahead
  bool turned = false;         // sm90_native: rows of A are the M side of wgmma, not rows of B
  bool ping_pong = false;      // there: each consumer makes tiles of its own
  bool mn_major = false;       // takes pairs of operands of which one or both are MN-major
  bool fast_sums = false;      // NativeType::F8FAST
  bool column_factors = false; // Operands::column may be there

  bool takes(const Types& types) const {
    if (!known(types.a) || !known(types.b)) return false;
    const Types t = multiplied(types);
    return (a_types & bit(t.a)) && (b_types & bit(t.b)) && (!one_type || t.a == t.b) &&
           mn_major == t.mn_major();
  }
  bool decodes_ahead(const Types& types) const { return decodes_b && types.b == WL_OPERAND_NVFP4; }
  // What the product's own kernel multiplies.
  Types multiplied(Types types) const {
    if (decodes_ahead(types)) types.b = types.a;
    return types;
  }
  Types first_types() const { // of the pairs that it takes
    const auto first = [](uint32_t set) { return static_cast<wl_operand>(std::countr_zero(set)); };
    return {first(a_types), first(b_types), WL_K_MAJOR, mn_major ? WL_MN_MAJOR : WL_K_MAJOR};
  }
  // NVFP4 operands are decoded to FP16, as Hopper's tensor cores need them; by the kernel itself:
  // fused.
  bool blackwell() const { return family == Family::sm100; }
  bool decodes() const { return !blackwell() && family != Family::sm90_native; }
  bool fused() const { return family == Family::sm90_small || family == Family::sm90_stream; }
  // Its CTAs let the next grid start when they have waited for those ahead.
  bool lets_next_start_late() const { return family == Family::sm90_small && (grouped || routed); }
  // Of groups: D may be in order for a product behind; A may be so that one ahead made.
  bool orders_d() const { return family == Family::sm90 && grouped && b_tensors == 2; }
  bool takes_ordered() const { return family == Family::sm90 && grouped && b_tensors == 1; }
  // Of rows that say which matrix is theirs: CTAs make several tiles of columns, one behind the
  // other; with keeps_sums those of a cluster share the K of each.
  bool keeps_sums() const { return routed && b_tensors == 2 && split_k == 2; }
  bool goes_on() const { return routed && (split_k == 1 || keeps_sums()); }
  // It finds the rows of each matrix in D from the numbers that rows have.
  bool counts() const {
    return family == Family::sm90_small && grouped &&
           (b_tensors == 2 || (a_types & bit(WL_OPERAND_NVFP4)) == 0);
  }
  // The kernel waits for the launch ahead by itself, sm100_plain.ptx.
  bool waits_behind_start() const {
    return blackwell() && kind != Kind::nvfp4 && kind != Kind::mx && !grouped;
  }
  // Of an sm100 configuration: one MMA a K step makes all columns of a tile.
  constexpr bool one_mma() const { return swapped || kind != Kind::nvfp4; }
  // Columns of D that a CTA makes of a tile.
  int columns() const { return tile_n * (b_tensors == 1 && !swapped ? 2 : 1); }
  // Rows of it, of an sm100 configuration.
  int rows() const { return swapped ? tile_m : 128; }
};

// ---- sm100.ptx, sm100_swapped.ptx

// Rows of a tile's box of A, with swapped operands the N of its MMAs: TOKENS of sm100_work.inc.
constexpr int64_t sm100_tokens(int64_t m) { return m < 64 ? (m + 15) / 16 * 16 : 64; }
constexpr int64_t sm100_box_rows(const Config& config, int64_t m) {
  if (config.swapped && config.grouped) return 16; // as many boxes as a tile of its group takes
  return config.swapped ? sm100_tokens(m) : 128 / config.cluster_n;
}
// Tiles of scales of B in a stage: both halves of 128 columns lie in one block of 128.
constexpr int sm100_sfb_tiles(int tile_n, int b_tensors) {
  return b_tensors == 1 && tile_n == 64 ? 1 : 2;
}
constexpr int sm100_operand_bytes(int cta_group, int tile_n) {
  return 128 * 128 + 2 * tile_n * 128 / cta_group;
}
constexpr int sm100_stage_bytes(int cta_group, int tile_n, int b_tensors = 2) {
  return sm100_operand_bytes(cta_group, tile_n) + 2048 * (1 + sm100_sfb_tiles(tile_n, b_tensors));
}
constexpr int sm100_tile_ring(Grid grid) { return grid == Grid::launch_control ? 2 : 4; }
constexpr int sm100_queries(Grid grid) { return grid == Grid::launch_control ? 1 : 0; }
constexpr int sm100_slot_bytes(Grid grid, bool groups = false) {
  return grid == Grid::stream_k || groups ? 32 : 16;
}
// Rows of A of a slot's tile, where rows are gathered.
constexpr int sm100_slot_rows_bytes(bool groups) { return groups ? 512 : 0; }
// Outputs of a CTA on their way to TMA.
constexpr int sm100_staging_bytes(int tile_n, Store store) {
  return store == Store::bulk ? 256 * tile_n : 0;
}
constexpr int sm100_exchange_bytes(int split_k) { return (split_k - 1) * 32768; }
constexpr int sm100_swapped_exchange_bytes(int split_k) { return split_k == 4 ? 24576 : 16384; }
// Biases of both products, of each epilogue warp's columns, in FP32.
constexpr int sm100_bias_bytes(int tile_n, Epilogue epilogue) {
  return 8 * 2 * 4 * tile_n / (epilogue == Epilogue::both ? 2 : 1);
}
constexpr int sm100_shared_bytes(int cta_group, int split_k, int tile_n, int stages, int acc_stages,
                                 Grid grid, Store store, Epilogue epilogue, int b_tensors = 2) {
  const int ring = sm100_tile_ring(grid), queries = sm100_queries(grid);
  const int barriers = 2 * stages + 3 * acc_stages + 2 * (ring + queries) + split_k - 1;
  return stages * sm100_stage_bytes(cta_group, tile_n, b_tensors) + sm100_exchange_bytes(split_k) +
         sm100_staging_bytes(tile_n, store) + sm100_bias_bytes(tile_n, epilogue) +
         sm100_slot_bytes(grid) * ring + 16 * queries + 8 * barriers + 8;
}
// Workspace of a CTA of a STREAM_K configuration: PART_BYTES of sm100_config.inc.
constexpr int64_t sm100_part_bytes(int tile_n) { return 128 + 8 * 128 * int64_t{tile_n}; }
// Columns of tensor memory; SCALE_COLUMNS of sm100_config.inc.
constexpr int sm100_scale_columns(int tile_n, int b_tensors) {
  return 16 * (1 + sm100_sfb_tiles(tile_n, b_tensors));
}
constexpr int sm100_tmem_columns(int tile_n, int acc_stages, int scale_sets, int b_tensors = 2) {
  return acc_stages * 2 * tile_n + scale_sets * sm100_scale_columns(tile_n, b_tensors);
}

// Of a configuration of any source.
constexpr int sm100_sfa_bytes(const Config& c) {
  return c.kind == Kind::nvfp4 ? 2048 : c.kind == Kind::mx ? 512 : 0;
}
constexpr int sm100_sfb_bytes(const Config& c) {
  if (c.kind == Kind::mx) return 512 * (2 * c.tile_n / 128);
  if (c.kind != Kind::nvfp4) return 0;
  return 2048 * (c.swapped ? 1 : sm100_sfb_tiles(c.tile_n, c.b_tensors));
}
constexpr int sm100_stage_bytes(const Config& c) {
  const int scales = sm100_sfa_bytes(c) + sm100_sfb_bytes(c);
  // Stages start on 1024 bytes.
  return (c.swapped ? (64 + 128) * 128 : sm100_operand_bytes(c.cta_group, c.tile_n)) +
         (scales + 1023) / 1024 * 1024;
}
constexpr int sm100_exchange_bytes(const Config& c) {
  return c.swapped ? sm100_swapped_exchange_bytes(c.split_k) : sm100_exchange_bytes(c.split_k);
}
// Factors of the columns, where they have some, lie behind; with shared K in bytes that are there.
constexpr int sm100_bias_bytes(const Config& c) {
  if (c.swapped) return 8 * 128;
  return sm100_bias_bytes(c.tile_n, c.epilogue) * (c.column_factors && c.split_k == 1 ? 2 : 1);
}
constexpr int sm100_barriers(const Config& c) {
  return 2 * c.stages + (c.one_mma() ? 2 : 3) * c.acc_stages +
         2 * (sm100_tile_ring(c.grid) + sm100_queries(c.grid)) + (c.split_k > 1 ? 1 : 0);
}
constexpr int sm100_tmem_columns(const Config& c, int scale_sets) {
  const int columns = c.swapped ? c.tile_m : 2 * c.tile_n;
  return c.acc_stages * columns + scale_sets * (sm100_sfa_bytes(c) + sm100_sfb_bytes(c)) / 128;
}
constexpr int sm100_shared_bytes(const Config& c) {
  const int ring = sm100_tile_ring(c.grid), queries = sm100_queries(c.grid);
  return c.stages * sm100_stage_bytes(c) + sm100_exchange_bytes(c) +
         sm100_staging_bytes(c.tile_n, c.store) + sm100_bias_bytes(c) +
         (sm100_slot_bytes(c.grid, c.grouped) + sm100_slot_rows_bytes(c.grouped)) * ring +
         16 * queries + 8 * sm100_barriers(c) + 8;
}

// ---- sm90.ptx

constexpr int sm90_columns(int consumers) { return consumers == 4 ? 64 : 32 * consumers; }
constexpr int sm90_scale_blocks(int columns) { return 128 % columns == 0 ? 1 : 2; }
// PLANE_RING of sm90_kinds.inc: planes of 64 of K of the tokens have a ring of their own.
constexpr bool sm90_plane_ring(int tokens) { return tokens == 288; }
constexpr int sm90_planes = 5;
constexpr int sm90_stage_bytes(int tokens, int columns, int b_tensors = 2) {
  return (sm90_plane_ring(tokens) ? 0 : tokens * 256) + columns * 128 +
         b_tensors * sm90_scale_blocks(columns) * 1024;
}
// Of groups: the tiles of a group have as many rows as each other.
constexpr bool sm90_even_tiles(int tokens) { return tokens == 144; }
// Rows of a group's tiles ahead of its last one.
constexpr int sm90_group_rows(int tokens) { return sm90_plane_ring(tokens) ? 256 : tokens; }
// Of a group's outputs: OUTPUT_BYTES of sm90_config.inc.
constexpr int sm90_output_bytes(Store store) {
  return store == Store::sectors ? 0 : store == Store::lines ? 4096 : 2048;
}
// Of OUTPUTS_APART there, of few tokens, what each chunk of each product's columns has but the
// first.
constexpr int sm90_outputs_apart_bytes(const Config& c, int b_tensors) {
  const bool one_tile = c.split_k > 1 || c.ctas > 1 || c.threads > 128 * 4;
  if (c.family != Family::sm90 || c.direct ||
      c.cluster[0] * (c.spread ? c.split_k : 1) != c.split_k || c.tile_m > 64 || !one_tile ||
      c.d_type == WL_F32)
    return 0;
  const int chunks = (c.tile_m / c.split_k + 31) / 32;
  return c.tile_n / 32 * 2048 * ((3 - b_tensors) * chunks - 1);
}
constexpr int sm90_shared_bytes(int tokens, int stages, int columns, int b_tensors = 2) {
  return stages * sm90_stage_bytes(tokens, columns, b_tensors) +
         (sm90_plane_ring(tokens) ? sm90_planes * (tokens * 128 + 16) : 0) +
         columns / 32 * sm90_output_bytes(Store::direct) + 16 * stages + 32;
}

// LATER: images of the warps that make activations of later rows ready.
constexpr int sm90_later_bytes(int b_tensors) { return 128 + 512 * (3 - b_tensors); }
// Of groups: images of two warps, aligned; the rows of the image that one word counts.
constexpr int sm90_group_later_bytes = 128 + 2 * 2048;
constexpr int64_t sm90_group_later_rows = 256;
// ZERO_BYTES of sm90_later_places.inc.
constexpr int sm90_group_zero_bytes = 80 * 128;
// IMAGE_ROWS of sm90_groups.inc: rows of groups in a product's order, and what they take.
constexpr int64_t sm90_image_rows(int64_t m, int64_t groups) {
  return 8 * ((m + 7) / 8 + groups - 1);
}
constexpr int64_t sm90_image_bytes(int64_t m, int64_t groups, int64_t k) {
  return sm90_image_rows(m, groups) * ((k + 127) / 128) * 256;
}
// TURNS of sm90_turns.inc: tiles that the roles of a CTA pass on; a barrier and 32 bytes each,
// aligned.
constexpr int sm90_turns(int stages) { return stages + 2 <= 4 ? 4 : stages + 2 <= 8 ? 8 : 16; }
constexpr int sm90_turns_bytes(int stages) { return sm90_turns(stages) * (8 + 32) + 16; }
// Blocks of K that a job, of 8 rows, makes ready.
constexpr int64_t sm90_later_blocks = 4;

// Of a helped tile in the workspace, of all sums of a set: GIVEN_BYTES of sm90_helped.inc and a
// flag.
constexpr int64_t sm90_given_bytes(int tokens, int columns) {
  return int64_t{128} + int64_t{tokens} / 8 * (columns / 32) * 2048;
}
// Of a spread tile in the workspace: SPREAD_BYTES of sm90_spread.inc for each pair of splits.
constexpr int64_t sm90_spread_bytes(int tokens, int columns, int split) {
  return int64_t{split} * (split - 1) * (128 + tokens / split / 8 * (columns / 32) * 2048);
}

// From GROUP_TABLE of sm90_groups.inc to GROUPS_END, what its table of narrow tiles takes, and
// ROW_TABLE of sm90_native_config.inc.
constexpr int sm90_group_table_bytes = 513 * 16 + 3 * 64, sm90_narrow_table_bytes = 513 * 4 + 12;
constexpr int sm90_native_row_table_bytes = 512;

// ---- sm90_native.ptx

constexpr int sm90_native_stage_bytes(int tokens, int consumers, int b_tensors) {
  return tokens * 128 + b_tensors * consumers * 8192;
}
constexpr int sm90_native_shared_bytes(int tokens, int stages, int consumers, int b_tensors) {
  const int places = consumers == 3 ? 1 : 2; // of a consumer
  return stages * (sm90_native_stage_bytes(tokens, consumers, b_tensors) + 16) +
         consumers * places * (8192 + 2 * 8);
}
// Places for pieces of D.
constexpr int sm90_native_places(const Config& c) {
  const int consumers = c.threads / 128 - 1;
  return consumers * (consumers == 3 || c.ping_pong ? 1 : 2);
}
// Columns of a piece of D, of a TURNED configuration: PIECE_TOKENS.
constexpr int sm90_turned_piece_columns(int columns) {
  if (columns < 64) return columns;
  return columns == 64 ? 32 : columns == 112 || columns == 224 ? 56 : columns == 176 ? 88 : 48;
}
constexpr int sm90_turned_piece_bytes(int columns, wl_dtype out) {
  return 64 * sm90_turned_piece_columns(columns) * (out == WL_F32 ? 4 : 2);
}
// What SPLIT_K 2 takes besides: barriers, and OWN_SUMS where there are bytes for them.
constexpr int sm90_native_split_bytes(int tokens, int consumers) {
  return consumers == 3 ? 16 : consumers * (64 * 4 * tokens / 2 + 4 * 8);
}
// Workspace of a CTA of a STREAM_K configuration, PART_BYTES of sm90_parts.inc, and of it
// FLAG_BYTES: with sectors those of sm90_scatter.inc.
constexpr int sm90_part_flags(Store store) { return store == Store::sectors ? 256 : 128; }
constexpr int64_t sm90_part_bytes(int tokens, int columns, int flags = 128) {
  return flags + 4 * int64_t{tokens} * columns;
}
// Rows of a piece of D.
constexpr int sm90_native_piece_tokens(int tokens, wl_dtype out) {
  const int most = out == WL_F32 ? 32 : 64;
  return tokens < most ? tokens : most;
}

// ---- sm90_small.ptx

constexpr int sm90_small_mma_columns(int tokens) { return tokens < 8 ? 8 : tokens; }
// TOKEN_STAGES
constexpr int sm90_small_token_stages(int tokens, int decoders, bool grouped) {
  return tokens == 1 ? 8 : tokens == 16 && decoders == 2 && !grouped ? 3 : 4;
}
constexpr int sm90_small_token_bytes(int tokens) {
  return tokens == 1 ? 544 : sm90_small_mma_columns(tokens) * 512;
}
// Stages start on 1024 bytes.
constexpr int sm90_small_stage_bytes(int columns) { return (columns * 288 + 1023) / 1024 * 1024; }
// CTAs of a cluster that end outputs, each of at least 8 columns of each product.
constexpr int sm90_small_owners(int columns, int split_k) {
  return split_k < columns / 8 ? split_k : columns / 8;
}
// Sums of a tile that a CTA ends: SUM_BYTES.
constexpr int sm90_small_sum_bytes(int tokens, int columns, int split_k) {
  return sm90_small_mma_columns(tokens) * columns * 32 * split_k /
         sm90_small_owners(columns, split_k);
}
constexpr int sm90_small_shared_bytes(int tokens, int columns, int stages, int split_k,
                                      int decoders) {
  return stages * (sm90_small_stage_bytes(columns) + 16) +
         sm90_small_token_stages(tokens, decoders, false) * (sm90_small_token_bytes(tokens) + 16) +
         sm90_small_sum_bytes(tokens, columns, split_k) + 8;
}
// What GROUPED takes besides its table.
constexpr int sm90_small_group_bytes(int tokens, int stages, int decoders) {
  return sm90_turns(stages) * (8 + 32) + (sm90_small_token_stages(tokens, decoders, true) -
                                          sm90_small_token_stages(tokens, decoders, false)) *
                                             (sm90_small_token_bytes(tokens) + 16);
}
// CTAs that an SM holds: CTAS_AN_SM.
constexpr int sm90_small_ctas(int columns, int decoders) {
  return columns == 32 ? 2 : decoders == 4 ? 3 : 4;
}
constexpr int sm90_small_threads(int columns, int decoders) {
  return 32 + 32 * decoders + 8 * columns;
}

// ---- sm90_stream.ptx

constexpr int sm90_stream_loaded_bytes(int tokens, wl_operand a) {
  return 32 * 288 + tokens * (a == WL_OPERAND_NVFP4 ? 192 : 512);
}
// Stages start on 1024 bytes.
constexpr int sm90_stream_stage_bytes(int tokens, wl_operand a) {
  return (sm90_stream_loaded_bytes(tokens, a) + 1023) / 1024 * 1024;
}
// Of a cluster's sums a CTA gets its part from every CTA.
constexpr int sm90_stream_sum_bytes(int tokens) { return tokens * 1024; }
constexpr int sm90_stream_shared_bytes(int tokens, wl_operand a, int stages) {
  return stages * (sm90_stream_stage_bytes(tokens, a) + 16) + sm90_stream_sum_bytes(tokens) + 8;
}

} // namespace warpline::gemm
