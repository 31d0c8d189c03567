// The Hopper rows for few tokens: cost, and a plan of one launch.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <cinttypes>
#include <memory>

namespace warpline::dual_gemm {

namespace {

// The parameter block of the contract in sm90_small.ptx.
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_small_params.def"
};

std::vector<Param> param_layout() {
  using Block = Params;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_small_params.def"
  };
}

// Lines of an atom of scales that a tile takes: 8 columns of each 32 in a block of 128.
constexpr int lines = 8;

// Tiles that hold a column below N: of a block of less than 128 the first 32 columns decide.
int64_t tiles_n(int64_t n) {
  const int64_t blocks = n / ptx::scale_atom_rows, rest = n % ptx::scale_atom_rows;
  return blocks * (32 / lines) + divide_up(std::min<int64_t>(rest, 32), lines);
}

// B1 or B2: bytes of K, 8 columns, groups of 8 columns, batch entries. A box is every fourth group
// of 16.
wl_status lines_map(const wl_context& context, const char* name, const void* address,
                    const wl_dual_gemm_args& args, const Row& row, cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(args.k);
  const auto n = static_cast<uint64_t>(args.n);
  TensorMapDesc desc;
  desc.name = name;
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  desc.rank = 4;
  desc.address = address;
  desc.dims[0] = k / 2;
  desc.dims[1] = lines;
  desc.dims[2] = n / lines;
  desc.dims[3] = static_cast<uint64_t>(args.l);
  desc.strides[0] = k / 2;
  desc.strides[1] = lines * (k / 2);
  desc.strides[2] = n * (k / 2);
  desc.box[0] = static_cast<uint32_t>(row.tile_k / 2);
  desc.box[1] = lines;
  desc.box[2] = 16;
  desc.element_strides[2] = 4;
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

} // namespace

// The model, in SM clocks, from measurements on an H200 at 1.75 GHz:
//   two CTAs of 32 columns an SM each take 700 clocks and 18 for each token for a block of 256 k
//   DRAM bytes of the whole device: 2400
//   launch, first loads and the end of the last tile: 5000; the sum over splits: 1000
Cost sm90_small_cost(const Row& row, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const int64_t row_tiles = divide_up(problem.m, row.tile_m);
  result.tiles = row_tiles * tiles_n(problem.n) * problem.l;
  const int64_t clusters = std::max(2 * device.sm_count / row.cluster[0], 1);
  result.waves = divide_up(result.tiles, clusters);
  const int64_t k_blocks = divide_up(divide_up(problem.k, row.tile_k), row.split_k);
  result.tile_clocks = static_cast<double>(k_blocks) * (700 + 18 * row.tile_m);
  result.epilogue_clocks = 1000;
  result.memory_clocks = static_cast<double>(2 * problem.n * row_tiles * problem.l) *
                         static_cast<double>(problem.k) * 9 / 16 / 2400;
  result.total = 5000 + std::max(static_cast<double>(result.waves) *
                                     (result.tile_clocks + result.epilogue_clocks),
                                 result.memory_clocks);
  return result;
}

wl_status make_sm90_small_plan(wl_context* context, const wl_dual_gemm_args& args, const Row& row,
                               wl_plan** plan) {
  const int64_t tiles = divide_up(args.m, row.tile_m) * tiles_n(args.n);
  const int64_t ctas_an_entry = tiles * row.cluster[0];
  if (ctas_an_entry > context->limits.max_grid[0] / args.l)
    return fail(WL_ERROR_NOT_SUPPORTED,
                "config = \"%s\" would launch %" PRId64 " x %" PRId64
                " CTAs; must be at most %d: take a row of larger tiles, or none",
                row.name, ctas_an_entry, args.l, context->limits.max_grid[0]);

  auto made = std::make_unique<wl_plan>(context);
  KernelNeeds needs;
  needs.params = param_layout();
  needs.dynamic_shared_bytes = row.shared_bytes;
  const Kernel* kernel = nullptr;
  WL_TRY(load_kernel(*context, row.image(), needs, &kernel));

  Params params{};
  const int atoms = row.tile_k / 64;
  WL_TRY(lines_map(*context, "B1", args.b1, args, row, &params.map_b1));
  WL_TRY(lines_map(*context, "B2", args.b2, args, row, &params.map_b2));
  WL_TRY(scale_map(*context, "SFB1", args.sfb1, args.n, args.k, args.l, atoms, &params.map_sfb1, 1,
                   lines));
  WL_TRY(scale_map(*context, "SFB2", args.sfb2, args.n, args.k, args.l, atoms, &params.map_sfb2, 1,
                   lines));
  params.a = address_of(args.a);
  params.sfa = address_of(args.sfa);
  fill_args(args, &params);
  params.tiles_m = static_cast<uint32_t>(divide_up(args.m, row.tile_m));
  params.tiles_n = static_cast<uint32_t>(tiles_n(args.n));
  params.per_column = reciprocal(params.tiles_m);
  params.per_entry = reciprocal(params.tiles_n);
  params.static_weights = (args.flags & WL_STATIC_WEIGHTS) != 0 ? 1 : 0;
  // With one row tile, weights are read once and need not stay in L2.
  params.policy_b = params.tiles_m == 1 ? ptx::cache_evict_first : ptx::cache_evict_normal;

  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(ctas_an_entry * args.l);
  config.block[0] = static_cast<unsigned>(row.threads);
  std::copy(row.cluster, row.cluster + 3, config.cluster);
  config.dynamic_shared_bytes = static_cast<unsigned>(row.shared_bytes);
  config.programmatic_dependent = true;
  WL_TRY(made->add(*kernel, config, params));

  fill_info(row, *kernel, config, &made->info);
  *plan = made.release();
  return WL_SUCCESS;
}

} // namespace warpline::dual_gemm
