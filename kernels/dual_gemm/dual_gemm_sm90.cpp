// The Hopper rows of the dual GEMM: cost, and a plan of two launches, the activations' decoder and
// the product, which starts under it (programmatic dependent launch).
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <memory>

namespace warpline::dual_gemm {

namespace {

// The parameter blocks of the contracts in sm90.ptx and sm90_decode.ptx.
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
};
struct DecodeParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_decode_params.def"
};

constexpr int max_decode_warps = 31; // and the warp that warms L2

// The decoder's launch: a CTA an SM, all with about as many warps. It asks for most of an SM's
// shared memory: blocks that share an SM would leave others idle.
constexpr int decode_shared_bytes = 120 * 1024;
LaunchConfig decode_launch(const wl_dual_gemm_args& args, const DeviceLimits& device) {
  const int64_t units = divide_up(args.m, 8) * divide_up(args.k, 128);
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t rounds = divide_up(units, sms * max_decode_warps);
  const int64_t warps = std::max<int64_t>(divide_up(units, sms * rounds), 4);
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(std::min(divide_up(units, warps), sms));
  config.grid[1] = static_cast<unsigned>(std::min<int64_t>(args.l, 65535));
  config.block[0] = static_cast<unsigned>(32 * (warps + 1));
  config.dynamic_shared_bytes = decode_shared_bytes;
  config.programmatic_dependent = true;
  return config;
}

std::vector<Param> param_layout() {
  using Block = Params;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_params.def"
  };
}
std::vector<Param> decode_param_layout() {
  using Block = DecodeParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_decode_params.def"
  };
}

// B1 or B2: [L, N, K/2] bytes; a box is a tile's columns and a stage's K.
wl_status weight_map(const wl_context& context, const char* name, const void* address,
                     const wl_dual_gemm_args& args, const Row& row, cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(args.k);
  TensorMapDesc desc;
  desc.name = name;
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  desc.rank = 3;
  desc.address = address;
  desc.dims[0] = k / 2;
  desc.dims[1] = static_cast<uint64_t>(args.n);
  desc.dims[2] = static_cast<uint64_t>(args.l);
  desc.strides[0] = k / 2;
  desc.strides[1] = static_cast<uint64_t>(args.n) * (k / 2);
  desc.box[0] = static_cast<uint32_t>(row.tile_k / 2);
  desc.box[1] = static_cast<uint32_t>(row.tile_n);
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

int cluster_rows(const Row& row) { return row.cluster[0] / row.split_k; }

} // namespace

// The model, in SM clocks, from measurements on an H200 at 1.75 GHz:
//   wgmma: 64 x N x 16 takes N / 2, at least 16; a consumer of 32 columns runs 8 of them a stage
//   decoding: 200 instructions of each warp a stage; a tenth of them shows under longer MMAs
//   DRAM bytes of the whole device: 2400
//   launches, first loads and the end of the last tile: 8000
//   a split's exchange: 700, and 12 a token of the tile (16 bytes a clock between two SMs)
//   outputs: 16 clocks a token of the part that a CTA ends
Cost sm90_cost(const Row& row, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const int64_t k_blocks = divide_up(divide_up(problem.k, row.tile_k), row.split_k);
  result.tiles = divide_up(problem.m, row.tile_m) *
                 divide_up(problem.n, row.tile_n * cluster_rows(row)) * problem.l;
  const int64_t clusters = std::max(device.sm_count / row.cluster[0], 1);
  result.waves = divide_up(result.tiles, clusters);
  result.clusters = result.tiles;

  const double consumers = row.tile_n / 32.0;
  const double mma = consumers * 8 * std::max(row.tile_m / 2.0, 16.0);
  const double decode = consumers * 200;
  result.tile_clocks =
      static_cast<double>(k_blocks) * (std::max(mma, decode) + std::min(mma, decode) / 10);
  // Without specialised warps loads, decoding and MMA hardly overlap.
  if (row.threads == 256) result.tile_clocks += static_cast<double>(k_blocks) * 1000;
  result.loop_clocks = static_cast<double>(result.waves) * result.tile_clocks;
  result.epilogue_clocks =
      16.0 * row.tile_m / row.split_k + (row.split_k > 1 ? 700 + 12.0 * row.tile_m : 0);
  const double entry_bytes =
      static_cast<double>(2 * problem.n) * static_cast<double>(problem.k) * 9 / 16 +
      static_cast<double>(problem.m) * static_cast<double>(problem.k) * 2;
  result.memory_clocks = entry_bytes * static_cast<double>(problem.l) / 2400;
  result.total = 8000 + std::max(static_cast<double>(result.waves) *
                                     (result.tile_clocks + result.epilogue_clocks),
                                 result.memory_clocks);
  return result;
}

wl_status make_sm90_plan(wl_context* context, const wl_dual_gemm_args& args, const Row& row,
                         wl_plan** plan) {
  auto made = std::make_unique<wl_plan>(context);
  KernelNeeds needs;
  needs.params = param_layout();
  needs.dynamic_shared_bytes = row.shared_bytes;
  const Kernel *kernel = nullptr, *decode_kernel = nullptr;
  WL_TRY(load_kernel(*context, row.image(), needs, &kernel));
  KernelNeeds decode_needs;
  decode_needs.params = decode_param_layout();
  decode_needs.dynamic_shared_bytes = decode_shared_bytes;
  WL_TRY(load_kernel(*context, sm90_decode_image(), decode_needs, &decode_kernel));

  Params params{};
  WL_TRY(weight_map(*context, "B1", args.b1, args, row, &params.map_b1));
  WL_TRY(weight_map(*context, "B2", args.b2, args, row, &params.map_b2));
  const int atoms = row.tile_k / 64;
  const int blocks = sm90_scale_blocks(row.tile_n);
  WL_TRY(scale_map(*context, "SFB1", args.sfb1, args.n, args.k, args.l, atoms, &params.map_sfb1,
                   blocks));
  WL_TRY(scale_map(*context, "SFB2", args.sfb2, args.n, args.k, args.l, atoms, &params.map_sfb2,
                   blocks));
  fill_args(args, &params);
  params.tiles_m = static_cast<uint32_t>(divide_up(args.m, row.tile_m));
  params.tiles_n = static_cast<uint32_t>(divide_up(args.n, row.tile_n * cluster_rows(row)));
  params.tiles = params.tiles_m * params.tiles_n * static_cast<uint32_t>(args.l);
  params.per_entry = reciprocal(params.tiles_m * params.tiles_n);
  params.per_group = reciprocal(params.tiles_n * static_cast<uint32_t>(row.group_m));
  params.per_last = reciprocal(params.tiles_m % static_cast<uint32_t>(row.group_m));
  // With one group of row tiles, weights are read once and need not stay in L2.
  params.policy_b = params.tiles_m == 1 ? ptx::cache_evict_first : ptx::cache_evict_normal;

  DecodeParams decode{};
  decode.a = address_of(args.a);
  decode.sfa = address_of(args.sfa);
  decode.m = params.m;
  decode.k = params.k;
  decode.l = static_cast<uint32_t>(args.l);
  decode.map_b1 = params.map_b1;
  decode.map_b2 = params.map_b2;
  decode.map_sfb1 = params.map_sfb1;
  decode.map_sfb2 = params.map_sfb2;
  decode.columns = static_cast<uint32_t>(row.tile_n);
  decode.tiles_n = static_cast<uint32_t>(divide_up(args.n, row.tile_n));
  decode.splits = static_cast<uint32_t>(row.split_k);
  decode.per_rows = reciprocal(static_cast<uint32_t>(divide_up(args.m, 8)));
  decode.per_tiles = reciprocal(decode.tiles_n);

  LaunchConfig config;
  const auto cluster = static_cast<unsigned>(row.cluster[0]);
  config.grid[0] = cluster;
  config.block[0] = static_cast<unsigned>(row.threads);
  std::copy(row.cluster, row.cluster + 3, config.cluster);
  config.dynamic_shared_bytes = static_cast<unsigned>(row.shared_bytes);
  config.programmatic_dependent = true;
  unsigned fitting =
      std::max(static_cast<unsigned>(std::max(context->limits.sm_count, 1)) / cluster, 1u);
  const auto said = static_cast<unsigned>(resident_clusters(*context, *kernel, config));
  if (cluster > 1 && said > 0) fitting = std::min(fitting, said);
  config.grid[0] *= row.split_k > 1 ? params.tiles : std::min(params.tiles, fitting);
  // The workspace is the activations, decoded.
  WL_TRY(made->add(*decode_kernel, decode_launch(args, context->limits), decode,
                   offsetof(DecodeParams, activations)));
  WL_TRY(made->add(*kernel, config, params, offsetof(Params, activations)));

  wl_plan_info& info = made->info;
  fill_info(row, *kernel, config, &info);
  info.workspace_bytes = static_cast<size_t>(args.l) * static_cast<size_t>(args.m) *
                         static_cast<size_t>(divide_up(args.k, row.tile_k)) * 256;

  *plan = made.release();
  return WL_SUCCESS;
}

} // namespace warpline::dual_gemm
