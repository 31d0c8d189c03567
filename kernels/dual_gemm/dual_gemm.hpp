// The dual GEMM's tables: configuration rows, their costs, and the rules of its arguments.
// The kernels' contracts are in sm100.ptx; the public contract is in warpline.h.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/cuda_api.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/rules.hpp"
#include "warpline/warpline.h"

#include <string>
#include <vector>

namespace warpline::dual_gemm {

// ---- configuration rows (rows.def) --------------------------------------------------------------

// How tiles come to clusters: the GRID column.
enum class Grid { one_tile, persistent, launch_control, stream_k };

// How D leaves: the STORE column.
enum class Store { direct, bulk };

// Who drains an accumulator set: the EPILOGUE column.
enum class Epilogue { both, ping_pong };

struct Row {
  const char* name;   // also the PTX file and its entry
  const char* target; // of the PTX
  wl_dtype d_type;
  int tile_m, tile_n, tile_k; // tile_n: columns of one product
  int stages, acc_stages;
  int group_m;
  int cluster[3];
  int threads;
  int shared_bytes; // dynamic
  Image (*image)();
  int split_k = 1;      // CTAs of a cluster that share a tile's K
  bool decodes = false; // a Hopper row: operands are decoded to FP16
  // sm100: a cluster is cluster_m x cluster_n CTAs, each of 128 rows and tile_n columns; tile_m is
  // the rows of an MMA, 128 for each CTA of its group.
  int cta_group = 1, cluster_m = 1, cluster_n = 1;
  int scale_sets = 0; // sets of scale columns in tensor memory
  Grid grid = Grid::persistent;
  Store store = Store::direct;
  Epilogue epilogue = Epilogue::both;
  bool fused = false; // a Hopper row that decodes the activations too: one launch
};

const std::vector<Row>& rows();
const Row* find_row(const std::string& name);

// Of sm100 rows: the parts of the memory map of sm100.ptx, in bytes where nothing else is said.
constexpr int sm100_operand_bytes(int cta_group, int tile_n) {
  return 128 * 128 + 2 * tile_n * 128 / cta_group;
}
constexpr int sm100_scale_bytes = 3 * 2048;
constexpr int sm100_stage_bytes(int cta_group, int tile_n) {
  return sm100_operand_bytes(cta_group, tile_n) + sm100_scale_bytes;
}
constexpr int sm100_tile_ring(Grid grid) { return grid == Grid::launch_control ? 2 : 4; }
constexpr int sm100_queries(Grid grid) { return grid == Grid::launch_control ? 1 : 0; }
constexpr int sm100_slot_bytes(Grid grid) { return grid == Grid::stream_k ? 32 : 16; }
// Outputs of a CTA on their way to TMA.
constexpr int sm100_staging_bytes(int tile_n, Store store) {
  return store == Store::bulk ? 256 * tile_n : 0;
}
constexpr int sm100_exchange_bytes(int split_k) { return (split_k - 1) * 32768; }
// Biases of both products, of each epilogue warp's columns, in FP32.
constexpr int sm100_bias_bytes(int tile_n, Epilogue epilogue) {
  return 8 * 2 * 4 * tile_n / (epilogue == Epilogue::both ? 2 : 1);
}
// Dynamic shared memory, all of the above.
constexpr int sm100_shared_bytes(int cta_group, int split_k, int tile_n, int stages, int acc_stages,
                                 Grid grid, Store store, Epilogue epilogue) {
  const int ring = sm100_tile_ring(grid), queries = sm100_queries(grid);
  const int barriers = 2 * stages + 3 * acc_stages + 2 * (ring + queries) + split_k - 1;
  return stages * sm100_stage_bytes(cta_group, tile_n) + sm100_exchange_bytes(split_k) +
         sm100_staging_bytes(tile_n, store) + sm100_bias_bytes(tile_n, epilogue) +
         sm100_slot_bytes(grid) * ring + 16 * queries + 8 * barriers + 8;
}
// Workspace of a CTA of a STREAM_K row: PART_BYTES of sm100_config.inc.
constexpr int64_t sm100_part_bytes(int tile_n) { return 128 + 8 * 128 * int64_t{tile_n}; }
// Columns of tensor memory that an sm100 row uses; SCALE_COLUMNS of sm100_config.inc.
constexpr int sm100_scale_columns = 48;
constexpr int sm100_tmem_columns(int tile_n, int acc_stages, int scale_sets) {
  return acc_stages * 2 * tile_n + scale_sets * sm100_scale_columns;
}

// Bytes of dynamic shared memory of an sm90 row: the memory map of sm90.ptx.
constexpr int sm90_columns(int consumers) { return consumers == 3 ? 96 : 64; }
constexpr int sm90_scale_blocks(int columns) { return 128 % columns == 0 ? 1 : 2; }
constexpr int sm90_stage_bytes(int tokens, int columns) {
  return tokens * 256 + columns * 128 + sm90_scale_blocks(columns) * 2048;
}
constexpr int sm90_shared_bytes(int tokens, int stages, int columns) {
  return stages * sm90_stage_bytes(tokens, columns) + columns / 32 * 2048 + 16 * stages + 32;
}
Image sm90_decode_image();
// The same of an sm90_small row: the memory map of sm90_small.ptx.
constexpr int sm90_small_mma_columns(int tokens) { return tokens < 8 ? 8 : tokens; }
constexpr int sm90_small_decoders(int tokens) {
  return tokens == 1 ? 1 : sm90_small_mma_columns(tokens) / 4;
}
constexpr int sm90_small_token_stages(int tokens) { return tokens == 1 ? 8 : 4; }
constexpr int sm90_small_token_bytes(int tokens) {
  return tokens == 1 ? 544 : sm90_small_mma_columns(tokens) * 512;
}
constexpr int sm90_small_stage_bytes(int columns) { return columns * 288; }
constexpr int sm90_small_shared_bytes(int tokens, int columns, int stages) {
  return stages * (sm90_small_stage_bytes(columns) + 16) +
         sm90_small_token_stages(tokens) * (sm90_small_token_bytes(tokens) + 16) +
         sm90_small_mma_columns(tokens) * columns * 32 + 8;
}
constexpr int sm90_small_threads(int tokens, int columns) {
  return 32 + 32 * sm90_small_decoders(tokens) + 8 * columns;
}

// ---- choice of a row ----------------------------------------------------------------------------

struct Problem {
  int64_t m, n, k, l;
  wl_dtype d_type;
  bool whole_sectors = true; // every row of D starts on 32 bytes
};
Problem problem_of(const wl_dual_gemm_args& args);

// What a row would do with a problem, in SM clocks; see the models at sm100_cost and sm90_cost.
struct Cost {
  int64_t tiles, waves; // tiles of a cluster; waves: tiles of the busiest cluster, rounded up
  int64_t clusters;     // that are launched
  double loop_clocks;   // main loops of the busiest cluster
  double tile_clocks;   // main loop of one tile
  double epilogue_clocks;
  double memory_clocks; // floor: every byte of the problem once through DRAM
  double total;
};
Cost cost(const Row& row, const Problem& problem, const DeviceLimits& device);
Cost sm100_cost(const Row& row, const Problem& problem, const DeviceLimits& device);
Cost sm90_cost(const Row& row, const Problem& problem, const DeviceLimits& device);
Cost sm90_small_cost(const Row& row, const Problem& problem, const DeviceLimits& device);

// Clusters of `size` CTAs that are taken to be resident at once: what the driver said, at most the
// estimate from the number of SMs.
int64_t resident_clusters(int size, const DeviceLimits& device);
int64_t most_resident_clusters(int size, const DeviceLimits& device);

// K tiles of all tiles of an sm100 row, and the fewest that a cluster of a STREAM_K row takes.
int64_t sm100_all_k_tiles(const Row& row, const Problem& problem);
constexpr int64_t sm100_least_share = 4;
// Clusters that a plan of an sm100 row launches.
int64_t sm100_clusters(const Row& row, const Problem& problem, const DeviceLimits& device);

// Bytes that TMA reads from L2 for each operand over a whole problem, and that arrive in shared
// memory: a multicast box is read once and arrives once in each CTA. Boxes count whole, parts
// beyond the tensors included. Zero for rows of other families.
struct Traffic {
  int64_t a = 0, b = 0, sfa = 0, sfb = 0;
  int64_t delivered = 0;
  int64_t total() const { return a + b + sfa + sfb; }
};
Traffic traffic(const Row& row, const Problem& problem);
// Every byte of A, B1, B2 and their scales once.
int64_t least_traffic(const Problem& problem);

const char* dtype_name(wl_dtype type); // "WL_F16"

// Whether the row's kernel runs on the device and makes the output type; `reason` says why not.
bool can_run(const Row& row, wl_dtype d_type, const DeviceLimits& device, std::string* reason);
// The same, and whether it can count the problem's work.
bool can_run(const Row& row, const Problem& problem, const DeviceLimits& device,
             std::string* reason);

// The runnable row of the lowest cost, the first in the table among equals; null when none runs.
const Row* choose_row(const Problem& problem, const DeviceLimits& device);

// The rows of the problem's output type, best first, those that cannot run last.
std::vector<wl_dual_gemm_config> candidates(const Problem& problem, const DeviceLimits& device);

// ---- constraint table ---------------------------------------------------------------------------

struct Subject {
  const wl_dual_gemm_args& args;
  const DeviceLimits& device;
  const wl_context* context = nullptr; // null: pointers stand for no memory
};
const RuleTable<Subject>& rules();
// What the arguments point to.
std::vector<Extent> operands(const wl_dual_gemm_args& args);

// ldd and batch_stride_d with their defaults filled in; 0 when the sizes are not positive or do not
// fit.
int64_t effective_ldd(const wl_dual_gemm_args& args);
int64_t effective_batch_stride(const wl_dual_gemm_args& args);

// ---- plans --------------------------------------------------------------------------------------

// What every product's parameter block takes from the arguments as it is.
template <class Params>
void fill_problem(const wl_dual_gemm_args& args, Params* params) {
  params->d = address_of(args.d);
  params->alpha1 = address_of(args.alpha1);
  params->alpha2 = address_of(args.alpha2);
  params->ldd = static_cast<uint64_t>(effective_ldd(args));
  params->batch_stride_d = static_cast<uint64_t>(effective_batch_stride(args));
  params->m = static_cast<uint32_t>(args.m);
  params->n = static_cast<uint32_t>(args.n);
  params->k = static_cast<uint32_t>(args.k);
}

// Loads the row's kernels, builds tensor maps and launch. The context is current, the arguments are
// checked.
wl_status make_sm90_plan(wl_context* context, const wl_dual_gemm_args& args, const Row& row,
                         wl_plan** plan);
wl_status make_sm90_small_plan(wl_context* context, const wl_dual_gemm_args& args, const Row& row,
                               wl_plan** plan);

// What DIVIDE of ptx/regs.inc divides by `count` with.
inline uint32_t reciprocal(uint32_t count) { return count ? UINT32_MAX / count : 0; }

// Tensor maps that both families use. A map of scales: an atom of 512 bytes is the inner dimension,
// then `box_atoms` atoms along K, `box_blocks` blocks of 128 rows, batch entries. `box_lines` of an
// atom's 32 lines come together.
wl_status scale_map(const wl_context& context, const char* name, const void* address, int64_t rows,
                    const wl_dual_gemm_args& args, int box_atoms, cuapi::CUtensorMap* map,
                    int box_blocks = 1, int box_lines = 32);

// What every plan reports of its row, kernel and launch.
void fill_info(const Row& row, const Kernel& kernel, const LaunchConfig& config,
               wl_plan_info* info);

} // namespace warpline::dual_gemm
