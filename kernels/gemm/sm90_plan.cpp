// Configurations of sm90.ptx and sm90_double_buffered.ptx: a plan of two launches, what brings
// activations to the product's order, decoded where they are NVFP4, and the product, which starts
// under it (programmatic dependent launch). Or of one, for activations as they lie, or that a
// product ahead has left in that order.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/gemm/sm90_plan_params.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

// They serve every operation and stand in the dual GEMM's table.
WL_EMBEDDED_PTX(dual_gemm_sm90_decode);
WL_EMBEDDED_PTX(dual_gemm_sm90_permute);
// And those of groups in theirs.
WL_EMBEDDED_PTX(grouped_sm90_decode);
WL_EMBEDDED_PTX(grouped_sm90_permute);

namespace warpline::gemm {

namespace {

using namespace sm90;

constexpr int max_decode_warps = 31; // and the warp that warms L2
// An SM's, where the product makes the rest ready: with fewer tiles wait, and more take longer than
// they save. Of two tensors one warp decodes under the product, which takes it longer (H100).
constexpr int later_ahead_warps = 12, later_ahead_warps_of_two = 24;

// The decoder asks for most of an SM's shared memory: blocks that share an SM would leave others
// idle.
constexpr int decode_shared_bytes = 120 * 1024;
// Tiles and splits whose first weights one of its blocks asks for: with more of them the grid ends
// when the last is asked for, not when its rows are decoded (H200, 24576 x 1536 of 17 rows: 10.7
// us, with 11 a block 12.2).
constexpr int64_t warmed_by_block = 2;
// Of groups: 8 warps' rows and the table.
constexpr int grouped_decode_warps = 8, grouped_decode_ctas = 4; // an SM
constexpr int grouped_decode_shared_bytes = grouped_decode_warps * 2048 + sm90_group_table_bytes;

// B1 or B2: [L, N, K/2] bytes; a box is a tile's columns (sm90_in_order.inc) and a stage's K.
wl_status weight_map(const wl_context& context, const char* name, const void* address,
                     const Problem& problem, const Config& config, cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(problem.k);
  TensorMapDesc desc;
  desc.name = name;
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  desc.rank = 3;
  desc.address = address;
  desc.dims[0] = k / 2;
  desc.dims[1] = static_cast<uint64_t>(problem.n);
  desc.dims[2] = static_cast<uint64_t>(problem.b_entries());
  desc.strides[0] = k / 2;
  desc.strides[1] = static_cast<uint64_t>(problem.b_stride());
  desc.box[0] = static_cast<uint32_t>(config.tile_k / 2);
  desc.box[1] = static_cast<uint32_t>(config.columns());
  if (config.orders_d()) {
    // Rows of a block of 32, blocks, matrices; or all rows in one block.
    const bool in_order = problem.groups.in_order;
    const uint64_t block = in_order ? 32 : desc.dims[1];
    desc.rank = 4;
    desc.dims[3] = desc.dims[2], desc.strides[2] = desc.strides[1];
    desc.dims[2] = desc.dims[1] / block, desc.strides[1] = desc.strides[0] * block;
    desc.dims[1] = block;
    desc.box[2] = in_order ? 4 : 1;
    desc.box[1] /= desc.box[2];
  }
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

// A: [L, M, K] of 16 bits; a box is a CTA's share of a tile's tokens and 128 bytes of K.
wl_status activation_map(const wl_context& context, const Problem& problem, const Config& config,
                         int64_t tile_rows, cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(problem.k);
  TensorMapDesc desc;
  desc.name = "A";
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT16;
  desc.rank = 3;
  desc.address = problem.operands.a;
  desc.dims[0] = k;
  desc.dims[1] = static_cast<uint64_t>(problem.m);
  desc.dims[2] = static_cast<uint64_t>(problem.l);
  desc.strides[0] = 2 * k;
  desc.strides[1] = static_cast<uint64_t>(problem.m) * 2 * k;
  desc.box[0] = 64;
  desc.box[1] = static_cast<uint32_t>(tile_rows / cluster_rows(config));
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

// What a run of the problem takes beside the kernels: parameters and grids. A direct configuration
// has `direct` for a copy of `product` and more, and no `decode`.
struct Work {
  Params product{};
  DirectParams direct{};
  SpreadParams spread{};
  HelpedParams helped{};
  LaterParams later{};
  StreamParams stream{};
  DirectStreamParams direct_stream{};
  DecodeParams decode{};
  LaunchConfig launch, decode_launch;
  size_t workspace_bytes = 0;
};

wl_status fill_maps(const wl_context& context, const Problem& problem, const Config& config,
                    Params* params) {
  const Operands& o = problem.operands;
  const bool two = config.b_tensors == 2;
  const auto scales = [&](const char* name, const void* address, cuapi::CUtensorMap* map) {
    return scale_map(context, name, address, problem.n, problem.k, problem.b_entries(),
                     config.tile_k / 64, map, sm90_scale_blocks(config.tile_n), 32,
                     problem.sfb_stride());
  };
  WL_TRY(weight_map(context, two ? "B1" : "B", o.b[0], problem, config, &params->map_b1));
  WL_TRY(scales(two ? "SFB1" : "SFB", o.sfb[0], &params->map_sfb1));
  if (!two) return WL_SUCCESS;
  WL_TRY(weight_map(context, "B2", o.b[1], problem, config, &params->map_b2));
  return scales("SFB2", o.sfb[1], &params->map_sfb2);
}

void fill_product(const Problem& problem, const Config& config, const Sm90Rows& rows,
                  int64_t resident, Params* params) {
  fill_problem(problem, params);
  params->tiles_m = static_cast<uint32_t>(rows.tiles);
  params->tile_rows = static_cast<uint32_t>(rows.each);
  params->tiles_n =
      static_cast<uint32_t>(divide_up(problem.n, config.columns() * cluster_rows(config)));
  params->tiles = params->tiles_m * params->tiles_n * static_cast<uint32_t>(problem.l);
  params->per_entry = reciprocal(params->tiles_m * params->tiles_n);
  // As many rows as with whole tiles. Where others are made ready under the product, more, so that
  // the first tiles of all clusters are of rows that are made ready together.
  const int64_t whole = config.group_m * int64_t{config.tile_m};
  int64_t together = (whole + rows.each / 2) / rows.each;
  if (config.later && fits_rows(config))
    together = std::max(together, std::min(rows.tiles, divide_up(resident, params->tiles_n)));
  params->group_m = static_cast<uint32_t>(together);
  params->per_group = reciprocal(params->tiles_n * params->group_m);
  params->per_last = reciprocal(params->tiles_m % params->group_m);
  params->more_per_last = reciprocal(params->group_m) - params->per_last;
  params->unscale = problem.types.a == WL_OPERAND_NVFP4 ? 0x1p14f : 0x1p7f;
  // With one group of row tiles, weights are read once and need not stay in L2.
  params->policy_b = params->tiles_m == 1 ? ptx::cache_evict_first : ptx::cache_evict_normal;
  if (!config.grouped) return;
  const Groups& g = problem.groups;
  params->tiles = static_cast<uint32_t>(g.most_tiles(problem.m, sm90_group_rows(config.tile_m))) *
                  params->tiles_n;
  params->per_entry = reciprocal(params->tiles_n);
  params->policy_b =
      problem.m <= g.count * config.tile_m / 2 ? ptx::cache_evict_first : ptx::cache_evict_normal;
}

void fill_decode(const Problem& problem, const Config& config, const Params& product,
                 DecodeParams* decode) {
  decode->a = address_of(problem.operands.a);
  decode->sfa = address_of(problem.operands.sfa);
  decode->m = product.m;
  decode->k = product.k;
  decode->l = static_cast<uint32_t>(problem.l);
  decode->map_b1 = product.map_b1;
  decode->map_b2 = product.map_b2;
  decode->map_sfb1 = product.map_sfb1;
  decode->map_sfb2 = product.map_sfb2;
  decode->one_tensor = config.b_tensors == 1 ? 1 : 0;
  decode->columns = static_cast<uint32_t>(config.columns());
  decode->tiles_n = static_cast<uint32_t>(divide_up(problem.n, config.columns()));
  decode->splits = static_cast<uint32_t>(config.split_k);
  decode->per_rows = reciprocal(static_cast<uint32_t>(divide_up(problem.m, 8)));
  decode->ahead_rows = product.m;
  decode->ahead_blocks = static_cast<uint32_t>(divide_up(problem.k, config.tile_k));
  decode->counters = 0; // a run of fewer rows may have none where its plan has
  decode->per_tiles = reciprocal(decode->tiles_n);
}

// One cluster.
LaunchConfig cluster_launch(const Config& config) {
  LaunchConfig launch;
  launch.grid[0] = static_cast<unsigned>(config.cluster[0]);
  launch.block[0] = static_cast<unsigned>(config.threads);
  std::copy(config.cluster, config.cluster + 3, launch.cluster);
  launch.dynamic_shared_bytes = static_cast<unsigned>(config.shared_bytes);
  launch.programmatic_dependent = true;
  return launch;
}

// A CTA an SM, all with about as many warps; some have no rows where first weights of `warmed`
// tiles and splits, which are of the first entry alone, want more CTAs than rows do.
LaunchConfig decode_launch(int64_t rows, int64_t blocks, int64_t l, int64_t warmed, int64_t sms) {
  const int64_t units = divide_up(rows, 8) * blocks;
  const int64_t rounds = divide_up(units, sms * max_decode_warps);
  const int64_t warps = std::max<int64_t>(divide_up(units, sms * rounds), 4);
  LaunchConfig launch;
  const int64_t askers = l == 1 ? divide_up(warmed, warmed_by_block) : 1;
  const int64_t ctas = std::max(divide_up(units, warps), askers);
  launch.grid[0] = static_cast<unsigned>(std::min(ctas, sms));
  launch.grid[1] = static_cast<unsigned>(std::min<int64_t>(l, 65535));
  launch.block[0] = static_cast<unsigned>(32 * (warps + 1));
  launch.dynamic_shared_bytes = decode_shared_bytes;
  launch.programmatic_dependent = true;
  return launch;
}

int64_t warmed(const DecodeParams& decode) { return int64_t{decode.tiles_n} * decode.splits; }

// Whether the product takes long enough over rows to make others ready meanwhile: it has at least
// `columns`, of both tensors of B. Devices of few SMs, as tests have, do it always.
bool later_pays(const Problem& problem, const Config& config, int64_t sms, int64_t columns) {
  return sms < 16 || problem.n * config.b_tensors >= columns;
}

// The launch ahead makes ready what some of its warps do at once, of the first rows; the product
// the rest.
void fill_later(const Problem& problem, const Config& config, int64_t sms, Work* work) {
  LaterParams& later = work->later;
  std::memcpy(&later, &work->product, params_bytes);
  later.later_first = UINT32_MAX;
  const bool nvfp4 = problem.types.a == WL_OPERAND_NVFP4;
  const int64_t blocks = divide_up(problem.k, config.tile_k);
  const int64_t counted = int64_t{work->product.group_m} * work->product.tile_rows;
  later.pair_rows = static_cast<uint32_t>(counted);
  later.per_jobs = reciprocal(later.pair_rows / 8);
  const int64_t quads = divide_up(blocks, sm90_later_blocks);
  const int64_t pairs = divide_up(problem.m, counted) * quads;
  const int64_t rows = std::min(problem.m, counted);
  // Where the first tiles' columns leave SMs for tiles of later rows, those begin at once.
  const int64_t together = work->product.tiles_n * cluster_rows(config) * work->product.group_m;
  const int warps = problem.m > counted && together < sms ? max_decode_warps
                    : nvfp4 && config.b_tensors == 2      ? later_ahead_warps_of_two
                                                          : later_ahead_warps;
  const int64_t at_once = sms * warps / (divide_up(rows, 8) * sm90_later_blocks);
  const int64_t ahead = std::min(std::max<int64_t>(at_once, 1), quads);
  if (!later_pays(problem, config, sms, sm90_later_columns) || problem.l > 1 || ahead == pairs)
    return;
  later.a = address_of(problem.operands.a);
  later.sfa = nvfp4 ? address_of(problem.operands.sfa) : 0;
  later.decoded_at = work->workspace_bytes;
  later.later_first = static_cast<uint32_t>(ahead);
  later.per_blocks = reciprocal(static_cast<uint32_t>(quads));
  DecodeParams& decode = work->decode;
  decode.ahead_rows = static_cast<uint32_t>(rows);
  const int64_t ahead_blocks = std::min(ahead * sm90_later_blocks, blocks);
  decode.ahead_blocks = static_cast<uint32_t>(ahead_blocks);
  decode.per_rows = reciprocal(static_cast<uint32_t>(divide_up(rows, 8)));
  decode.counters = static_cast<uint32_t>(pairs);
  decode.decoded_at = later.decoded_at;
  work->decode_launch = decode_launch(rows, ahead_blocks, 1, warmed(decode), sms);
  work->workspace_bytes += static_cast<size_t>(pairs) * 4;
}

// A product whose A is in order already.
bool in_one_launch(const Problem& problem, const Config& config) {
  return config.direct || (problem.groups.in_order && config.takes_ordered());
}

// The product's own block, and the launch that makes its image, if there is one.
void fill_grouped(const wl_context& context, const Problem& problem, const Config& config,
                  Work* work) {
  DecodeParams& decode = work->decode;
  LaterParams& later = work->later;
  std::memcpy(&later, &work->product, params_bytes);
  fill_groups(problem, &later);
  later.later_first = UINT32_MAX;
  if (config.orders_d() && problem.groups.in_order) {
    later.in_order = 1;
    later.ldd = 64;
    later.batch_stride_d =
        static_cast<uint64_t>(64 * sm90_image_rows(problem.m, problem.groups.count));
  }
  if (in_one_launch(problem, config)) {
    later.activations = address_of(problem.operands.a);
    later.decoded_at = address_of(problem.groups.next_tile + 1) - later.activations;
    return;
  }
  const int64_t blocks = divide_up(problem.k, config.tile_k);
  decode.tiles_n = static_cast<uint32_t>(blocks);
  decode.per_tiles = reciprocal(decode.tiles_n);
  fill_groups(problem, &decode);
  const int64_t units = problem.groups.most_tiles(problem.m, 8) * blocks;
  const int64_t resident = int64_t{grouped_decode_ctas} * std::max(context.limits.sm_count, 1);
  LaunchConfig launch;
  launch.grid[0] =
      static_cast<unsigned>(std::min(divide_up(units, grouped_decode_warps), resident));
  launch.block[0] = 32 * grouped_decode_warps;
  launch.dynamic_shared_bytes = grouped_decode_shared_bytes;
  launch.programmatic_dependent = true;
  work->decode_launch = launch;
  const int64_t rows = sm90_image_rows(problem.m, problem.groups.count);
  work->workspace_bytes =
      static_cast<size_t>(sm90_image_bytes(problem.m, problem.groups.count, problem.k));
  decode.ahead_rows = UINT32_MAX;
  // Zeros for tokens that a tile does not have, of 64 none, and the word that counts tiles stand
  // ahead of the words that count jobs.
  const int zero_bytes = config.tile_m == 64 ? 0 : sm90_group_zero_bytes;
  decode.decoded_at = work->workspace_bytes;
  decode.counters = static_cast<uint32_t>(zero_bytes / 4 + 1);
  work->workspace_bytes += static_cast<size_t>(zero_bytes + 4);
  later.decoded_at = work->workspace_bytes;
  // Ahead: what its warps decode at once, of all K.
  const int64_t chunks = divide_up(rows, sm90_group_later_rows);
  const int64_t ahead =
      std::max<int64_t>(resident * grouped_decode_warps / (sm90_group_later_rows / 8 * blocks), 1);
  // H200, Qwen3's up product: 640 columns take 7 % longer, 768 as long, 1024 7 % less.
  if (!later_pays(problem, config, context.limits.sm_count, 768) || ahead >= chunks) return;
  // FP16 rows of groups all come to their order ahead.
  if (problem.types.a == WL_OPERAND_F16) return;
  // H100, 16 bits: 2.1 times as many rows as ahead take 3 % longer, 3 times 1 % less, 4 times 6 %.
  const bool few = problem.types.a != WL_OPERAND_NVFP4 && 2 * chunks < 5 * ahead;
  if (few && context.limits.sm_count >= 16) return;
  const int64_t quads = divide_up(blocks, sm90_later_blocks);
  later.a = address_of(problem.operands.a);
  later.sfa = address_of(problem.operands.sfa);
  later.later_first = static_cast<uint32_t>(ahead);
  later.per_blocks = reciprocal(static_cast<uint32_t>(quads));
  decode.ahead_rows = static_cast<uint32_t>(ahead * sm90_group_later_rows);
  decode.counters += static_cast<uint32_t>(chunks * quads);
  work->workspace_bytes += static_cast<size_t>(chunks * quads) * 4;
}

// The ranges of a STREAM_K configuration's clusters, whose parts of sums lie behind what the
// workspace has so far: room for all that the device holds, as a run of fewer rows may have more
// clusters than its plan, which shares nothing.
template <class Block>
void fill_ranges(const Config& config, const Sm90Ranges& ranges, int64_t resident, Work* work,
                 Block* params) {
  params->sums_at = work->workspace_bytes = divide_up(work->workspace_bytes, size_t{128}) * 128;
  params->k_whole = static_cast<uint32_t>(ranges.whole);
  params->k_share = static_cast<uint32_t>(ranges.share);
  params->k_extra = static_cast<uint32_t>(ranges.extra);
  params->k_parts = static_cast<uint32_t>(ranges.parts);
  params->per_parts = reciprocal(params->k_parts);
  params->k_span = static_cast<uint32_t>(ranges.span);
  work->workspace_bytes += static_cast<size_t>(
      config.cluster[0] * resident *
      sm90_part_bytes(config.tile_m, 2 * config.tile_n,
                      sm90_part_flags(config.store))); // columns of both products
}

// Parameters and launches of the problem, whose operands and rows may be those of a run: allocates
// nothing. `resident` is the clusters that the device holds at once; `mapped` has the weights that
// the work's maps describe already, null: none.
wl_status fill_work(const wl_context& context, const Problem& problem, const Config& config,
                    int64_t resident, const Problem* mapped, Work* work) {
  if (mapped == nullptr || !same_strides(*mapped, problem))
    WL_TRY(fill_maps(context, problem, config, &work->product));
  else
    WL_TRY(move_weight_maps(context, mapped->operands, problem.operands, config.b_tensors,
                            &work->product));
  const Sm90Rows rows = sm90_rows(config, problem, context.limits);
  fill_product(problem, config, rows, resident, &work->product);
  fill_decode(problem, config, work->product, &work->decode);
  work->launch = cluster_launch(config);
  work->workspace_bytes = 0; // a run's begins as its plan's
  const int64_t tiles = work->product.tiles;
  const bool one_tile = config.split_k > 1 || config.ctas > 1 || in_turn(config);
  work->launch.grid[0] *= static_cast<unsigned>(one_tile ? tiles : std::min(tiles, resident));
  if (config.spread) work->launch.grid[0] *= static_cast<unsigned>(config.split_k);
  const bool streams = config.grid == Grid::stream_k;
  const Sm90Ranges ranges = streams ? sm90_ranges(config, problem, resident) : Sm90Ranges{};
  if (streams) work->launch.grid[0] = static_cast<unsigned>(config.cluster[0] * ranges.clusters);
  share_sms(context.limits, &work->launch);
  if (config.direct) {
    std::memcpy(&work->direct.map_b1, &work->product, params_bytes);
    work->direct.static_weights = (problem.flags & WL_STATIC_WEIGHTS) != 0 ? 1 : 0;
    WL_TRY(activation_map(context, problem, config, rows.each, &work->direct.map_a));
    if (!streams) return WL_SUCCESS;
    std::memcpy(&work->direct_stream, &work->direct,
                offsetof(DirectParams, static_weights) + sizeof(uint32_t));
    fill_ranges(config, ranges, resident, work, &work->direct_stream);
    return WL_SUCCESS;
  }
  if (config.grouped) {
    fill_grouped(context, problem, config, work);
    return WL_SUCCESS;
  }
  const int64_t sms = std::max(context.limits.sm_count, 1);
  work->decode_launch = decode_launch(problem.m, divide_up(problem.k, config.tile_k), problem.l,
                                      warmed(work->decode), sms);
  // The activations, decoded.
  work->workspace_bytes = static_cast<size_t>(problem.l) * static_cast<size_t>(problem.m) *
                          static_cast<size_t>(divide_up(problem.k, config.tile_k)) * 256;
  if (config.later) fill_later(problem, config, sms, work);
  if (streams) {
    StreamParams& stream = work->stream;
    std::memcpy(&stream, &work->product, params_bytes);
    const LaterParams& later = work->later;
    stream.a = later.a, stream.sfa = later.sfa, stream.decoded_at = later.decoded_at;
    stream.later_first = later.later_first, stream.per_blocks = later.per_blocks;
    stream.pair_rows = later.pair_rows, stream.per_jobs = later.per_jobs;
    fill_ranges(config, ranges, resident, work, &stream);
  }
  if (config.spread) {
    std::memcpy(&work->spread, &work->product, params_bytes);
    work->spread.sums_at = work->workspace_bytes;
    work->workspace_bytes += static_cast<size_t>(
        tiles * sm90_spread_bytes(config.tile_m, config.tile_n, config.split_k));
  }
  if (config.helped) {
    const Sm90Help help =
        sm90_help(config, tiles, divide_up(problem.k, config.tile_k), context.limits);
    work->launch.grid[0] += static_cast<unsigned>(help.helpers);
    std::memcpy(&work->helped, &work->product, params_bytes);
    work->helped.own_blocks = static_cast<uint32_t>(help.own_blocks);
    work->helped.sums_at = work->workspace_bytes;
    work->workspace_bytes +=
        static_cast<size_t>(tiles * sm90_given_bytes(config.tile_m, config.tile_n));
  }
  return WL_SUCCESS;
}

struct Kernels {
  const Kernel *product = nullptr, *decode = nullptr;
};

wl_status load(wl_context* context, const Problem& problem, const Config& config,
               Kernels* kernels) {
  KernelNeeds needs;
  const bool streams = config.grid == Grid::stream_k;
  needs.params = streams         ? stream_param_layout(config.direct)
                 : config.direct ? direct_param_layout()
                 : config.spread ? spread_param_layout()
                 : config.helped ? helped_param_layout()
                 : config.later  ? later_param_layout(config.grouped)
                                 : param_layout();
  needs.dynamic_shared_bytes = most_shared_bytes(context->limits, config);
  WL_TRY(load_kernel(*context, config.image(), needs, &kernels->product));
  if (in_one_launch(problem, config)) return WL_SUCCESS;
  KernelNeeds decode_needs;
  decode_needs.params = decode_param_layout(config.grouped);
  decode_needs.dynamic_shared_bytes =
      config.grouped ? grouped_decode_shared_bytes : decode_shared_bytes;
  const bool nvfp4 = problem.types.a == WL_OPERAND_NVFP4;
  const Image of_groups = nvfp4 ? WL_IMAGE(grouped_sm90_decode) : WL_IMAGE(grouped_sm90_permute);
  const Image plain = nvfp4 ? WL_IMAGE(dual_gemm_sm90_decode) : WL_IMAGE(dual_gemm_sm90_permute);
  const Image image = config.grouped ? of_groups : plain;
  return load_kernel(*context, image, decode_needs, &kernels->decode);
}

// Clusters of the kernel that the device holds at once.
int64_t resident_clusters(const wl_context& context, const Config& config, const Kernel& kernel) {
  const int64_t estimate =
      std::max<int64_t>(std::max(context.limits.sm_count, 1) / config.cluster[0], 1);
  if (config.cluster[0] == 1) return estimate;
  const int said = warpline::resident_clusters(context, kernel, cluster_launch(config));
  return said > 0 ? std::min<int64_t>(said, estimate) : estimate;
}

class Sm90Product final : public PlannedProduct {
public:
  Sm90Product(const Problem& problem_, const Config& config_, int64_t resident)
      : PlannedProduct(problem_, config_), resident_(resident) {}

  Work work;

  wl_status fill(const wl_context& context) {
    return fill_work(context, problem, *config, resident_, nullptr, &work);
  }
  wl_status run(const wl_plan& plan, const Problem& other, void* workspace,
                wl_stream stream) const override {
    Work own = work;
    WL_TRY(fill_work(*plan.context, other, *config, resident_, &problem, &own));
    const bool streams = config->grid == Grid::stream_k;
    if (config->direct) {
      const wl_plan::Instead instead[] = {
          {streams ? static_cast<const void*>(&own.direct_stream) : &own.direct, &own.launch}};
      return plan.run(workspace, stream, instead);
    }
    if (in_one_launch(other, *config)) {
      const wl_plan::Instead instead[] = {{&own.later, &own.launch}};
      return plan.run(workspace, stream, instead);
    }
    const wl_plan::Instead instead[] = {{&own.decode, &own.decode_launch},
                                        {streams          ? static_cast<const void*>(&own.stream)
                                         : config->spread ? static_cast<const void*>(&own.spread)
                                         : config->helped ? static_cast<const void*>(&own.helped)
                                         : config->later  ? static_cast<const void*>(&own.later)
                                                          : &own.product,
                                         &own.launch}};
    return plan.run(workspace, stream, instead);
  }

private:
  int64_t resident_;
};

} // namespace

wl_status make_sm90_plan(wl_context* context, const Problem& problem, const Config& config,
                         wl_plan** plan) {
  auto made = std::make_unique<wl_plan>(context);
  Kernels kernels;
  WL_TRY(load(context, problem, config, &kernels));
  auto product = std::make_unique<Sm90Product>(
      problem, config, resident_clusters(*context, config, *kernels.product));
  WL_TRY(product->fill(*context));
  const Work& work = product->work;
  const bool streams = config.grid == Grid::stream_k;
  if (config.direct && streams) {
    WL_TRY(made->add(*kernels.product, work.launch, work.direct_stream,
                     offsetof(DirectStreamParams, activations),
                     offsetof(DirectStreamParams, flag_up)));
  } else if (config.direct) {
    WL_TRY(made->add(*kernels.product, work.launch, work.direct));
  } else if (in_one_launch(problem, config)) {
    WL_TRY(made->add(*kernels.product, work.launch, work.later));
  } else {
    WL_TRY(made->add(*kernels.decode, work.decode_launch, work.decode,
                     offsetof(DecodeParams, activations)));
    if (streams)
      WL_TRY(made->add(*kernels.product, work.launch, work.stream,
                       offsetof(StreamParams, activations), offsetof(StreamParams, flag_up)));
    else if (config.spread)
      WL_TRY(made->add(*kernels.product, work.launch, work.spread,
                       offsetof(SpreadParams, activations), offsetof(SpreadParams, flag_up)));
    else if (config.helped)
      WL_TRY(made->add(*kernels.product, work.launch, work.helped,
                       offsetof(HelpedParams, activations), offsetof(HelpedParams, flag_up)));
    else if (config.later)
      WL_TRY(
          made->add(*kernels.product, work.launch, work.later, offsetof(LaterParams, activations)));
    else
      WL_TRY(made->add(*kernels.product, work.launch, work.product, offsetof(Params, activations)));
  }
  fill_info(config, *kernels.product, work.launch, &made->info);
  made->info.workspace_bytes = work.workspace_bytes;
  made->problem = std::move(product);
  *plan = made.release();
  return WL_SUCCESS;
}

} // namespace warpline::gemm
