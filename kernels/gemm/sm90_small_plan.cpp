// Configurations of sm90_small.ptx and sm90_stream.ptx, for few tokens: a plan of one launch.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/gemm/sm90_small_tiles.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstddef>
#include <cstring>
#include <memory>

namespace warpline::gemm {

namespace {

using namespace sm90_small;

// The parameter block of the contract in sm90_small.ptx: of groups, of rows that say which matrix
// is theirs, and of sm90_stream.ptx. All begin as the block of one product does.
#define GROUPED 1
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_small_params.def"
};
std::vector<Param> grouped_layout() {
  using Block = Params;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_small_params.def"
  };
}
#undef GROUPED
#define ROUTED 1
struct RoutedParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_small_params.def"
};
std::vector<Param> routed_layout() {
  using Block = RoutedParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_small_params.def"
  };
}
#define SUMMED 1
struct SummedParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_small_params.def"
};
std::vector<Param> summed_layout() {
  using Block = SummedParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_small_params.def"
  };
}
#undef SUMMED
#undef ROUTED
#define STREAMED 1
struct StreamParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_small_params.def"
};
std::vector<Param> stream_layout() {
  using Block = StreamParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_small_params.def"
  };
}
#undef STREAMED
constexpr size_t common_bytes = offsetof(Params, up_offset) + sizeof(float);
static_assert(offsetof(RoutedParams, up_offset) == offsetof(Params, up_offset));
static_assert(offsetof(SummedParams, up_offset) == offsetof(Params, up_offset));
static_assert(offsetof(StreamParams, up_offset) == offsetof(Params, up_offset));
std::vector<Param> param_layout() {
  using Block = Params;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_small_params.def"
  };
}

// Lines of an atom of scales that a box takes: 8 columns of each 32 in a block of 128.
constexpr int box_lines = 8;

// B1 or B2: bytes of K, 8 columns, groups of 8 columns, batch entries. A box is every fourth group
// of 16.
wl_status lines_map(const wl_context& context, const char* name, const void* address,
                    const Problem& problem, const Config& config, cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(problem.k);
  const auto n = static_cast<uint64_t>(problem.n);
  TensorMapDesc desc;
  desc.name = name;
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  desc.rank = 4;
  desc.address = address;
  desc.dims[0] = k / 2;
  desc.dims[1] = box_lines;
  desc.dims[2] = n / box_lines;
  desc.dims[3] = static_cast<uint64_t>(problem.b_entries());
  desc.strides[0] = k / 2;
  desc.strides[1] = box_lines * (k / 2);
  desc.strides[2] = static_cast<uint64_t>(problem.b_stride());
  desc.box[0] = static_cast<uint32_t>(config.tile_k / 2);
  desc.box[1] = box_lines;
  desc.box[2] = 16;
  desc.element_strides[2] = 4;
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

int64_t ctas_an_entry(const Problem& problem, const Config& config, int64_t each) {
  return row_tiles(problem, config) * divide_up(tiles_n(config, problem.n), each) *
         config.cluster[0];
}
int64_t ctas(const Problem& problem, const Config& config, int64_t each) {
  return ctas_an_entry(problem, config, each) * entries(problem, config);
}

wl_status fill_maps(const wl_context& context, const Problem& problem, const Config& config,
                    Params* params) {
  const Operands& o = problem.operands;
  const bool two = config.b_tensors == 2;
  const auto scales = [&](const char* name, const void* address, cuapi::CUtensorMap* map) {
    return scale_map(context, name, address, problem.n, problem.k, problem.b_entries(),
                     config.tile_k / 64, map, 1, box_lines, problem.sfb_stride());
  };
  WL_TRY(lines_map(context, two ? "B1" : "B", o.b[0], problem, config, &params->map_b1));
  WL_TRY(scales(two ? "SFB1" : "SFB", o.sfb[0], &params->map_sfb1));
  if (!two) return WL_SUCCESS;
  WL_TRY(lines_map(context, "B2", o.b[1], problem, config, &params->map_b2));
  return scales("SFB2", o.sfb[1], &params->map_sfb2);
}

// Of groups, as many as are resident at once, at most one for each tile that there may be.
int64_t grouped_ctas(const wl_context& context, const Problem& problem, const Config& config) {
  const int64_t tiles =
      problem.groups.most_tiles(problem.m, config.tile_m) * tiles_n(config, problem.n);
  const int64_t resident = std::max(context.limits.sm_count, 1) *
                           int64_t{sm90_small_ctas(config.tile_n, config.decoders)};
  return std::min(tiles, resident);
}

// Parameters of the problem, whose operands and rows may be those of a run: allocates nothing.
// `mapped` has the weights and strides that the block's maps describe already, null: none.
wl_status fill_params(const wl_context& context, const Problem& problem, const Config& config,
                      const Problem* mapped, Params* params) {
  const Operands& o = problem.operands;
  if (mapped == nullptr || !same_strides(*mapped, problem))
    WL_TRY(fill_maps(context, problem, config, params));
  else
    WL_TRY(move_weight_maps(context, mapped->operands, o, config.b_tensors, params));
  fill_problem(problem, params);
  params->a = address_of(o.a);
  params->sfa = address_of(o.sfa);
  params->tiles_m = static_cast<uint32_t>(row_tiles(problem, config));
  params->tiles_n = static_cast<uint32_t>(
      divide_up(tiles_n(config, problem.n), tiles_each(problem, config, context.limits)));
  params->per_column = reciprocal(params->tiles_m);
  params->per_entry = reciprocal(params->tiles_n);
  params->static_weights = (problem.flags & WL_STATIC_WEIGHTS) != 0 ? 1 : 0;
  if (config.grouped) {
    fill_groups(problem, params);
    const Groups& groups = problem.groups;
    if (groups.counted) {
      params->ids = address_of(groups.ids);
      params->first_id = static_cast<uint32_t>(groups.first_id);
    }
    params->next_tile = address_of(groups.next_tile);
    params->known_groups = problem.groups.known ? params->static_weights : 0;
  }
  // With one row tile, weights are read once and need not stay in L2.
  const bool once =
      config.grouped ? problem.m <= problem.groups.count * config.tile_m / 2 : params->tiles_m == 1;
  params->policy_b = once ? ptx::cache_evict_first : ptx::cache_evict_normal;
  return WL_SUCCESS;
}

// What the driver says of a plan's kernel, whose clusters have one size: clusters that the device
// holds at once where shared memory lets an SM hold so many CTAs, of_share[0] with the
// configuration's own; -1: not asked yet.
struct HeldClusters {
  const Kernel* kernel = nullptr;
  mutable std::atomic<int> of_share[largest_share + 1];

  explicit HeldClusters(const Kernel& of) : kernel(&of) {
    for (std::atomic<int>& one : of_share) one.store(-1, std::memory_order_relaxed);
  }
  int64_t operator()(const wl_context& context, LaunchConfig launch, unsigned bytes,
                     int64_t share) const {
    const int64_t size = launch.cluster[0];
    const int64_t estimate = share == 0 ? INT64_MAX : held_clusters(context.limits, size, share);
    if (size <= 2) return estimate;
    int said = of_share[share].load(std::memory_order_relaxed);
    if (said < 0) {
      launch.dynamic_shared_bytes = bytes;
      said = ask_resident_clusters(context, *kernel, launch);
      of_share[share].store(said, std::memory_order_relaxed);
    }
    return said != 0 ? said : estimate;
  }
};

LaunchConfig launch_of(const wl_context& context, const HeldClusters& held, const Problem& problem,
                       const Config& config) {
  const int64_t each = tiles_each(problem, config, context.limits);
  LaunchConfig launch;
  launch.grid[0] = static_cast<unsigned>(config.grouped ? grouped_ctas(context, problem, config)
                                                        : ctas(problem, config, each));
  launch.block[0] = static_cast<unsigned>(config.threads);
  std::copy(config.cluster, config.cluster + 3, launch.cluster);
  if (config.summed) launch.cluster[0] = static_cast<unsigned>(problem.groups.sum.each);
  launch.dynamic_shared_bytes = static_cast<unsigned>(config.shared_bytes);
  launch.programmatic_dependent = true;
  launch.stores_to_cluster = !config.grouped;
  share_sms(context.limits, &launch,
            [&](unsigned bytes, int64_t share) { return held(context, launch, bytes, share); });
  return launch;
}

template <class Of>
void fill_routed(const wl_context& context, const Problem& problem, const Config& config,
                 const Params& params, Of* routed) {
  std::memcpy(routed, &params, common_bytes);
  fill_routes(problem, routed);
  routed->column_tiles = static_cast<uint32_t>(tiles_n(config, problem.n));
  routed->tiles_each = static_cast<uint32_t>(tiles_each(problem, config, context.limits));
}
RoutedParams routed_params(const wl_context& context, const Problem& problem, const Config& config,
                           const Params& params) {
  RoutedParams routed;
  fill_routed(context, problem, config, params, &routed);
  return routed;
}
SummedParams summed_params(const wl_context& context, const Problem& problem, const Config& config,
                           const Params& params) {
  SummedParams summed;
  fill_routed(context, problem, config, params, &summed);
  fill_sums(problem, &summed);
  return summed;
}

// A, a tile's tokens and a stage's K in a box. 16 bits: 64 of K, rows, blocks of 64 of K, batch
// entries; NVFP4: bytes of K, rows, batch entries.
wl_status stream_params(const wl_context& context, const Problem& problem, const Config& config,
                        const Params& params, StreamParams* stream) {
  std::memcpy(stream, &params, common_bytes);
  // Where there is more than a CTA an SM, weights ahead of the wait take longer (H200, 16 tokens:
  // 256 CTAs 13.2 us, 12.4 without; 90 CTAs 4.1 and 4.2).
  if (ctas(problem, config, 1) > std::max(context.limits.sm_count, 1)) stream->static_weights = 0;
  const auto k = static_cast<uint64_t>(problem.k), m = static_cast<uint64_t>(problem.m);
  TensorMapDesc desc;
  desc.name = "A";
  desc.address = problem.operands.a;
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  desc.box[1] = static_cast<uint32_t>(config.tile_m);
  desc.dims[1] = m;
  if (problem.types.a == WL_OPERAND_NVFP4) {
    desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
    desc.rank = 3;
    desc.dims[0] = k / 2;
    desc.dims[2] = static_cast<uint64_t>(problem.l);
    desc.strides[0] = k / 2;
    desc.strides[1] = m * (k / 2);
    desc.box[0] = static_cast<uint32_t>(config.tile_k / 2);
    WL_TRY(scale_map(context, "SFA", problem.operands.sfa, problem.m, problem.k, problem.l,
                     config.tile_k / 64, &stream->map_sfa, 1, config.tile_m));
    return make_tensor_map(context, desc, &stream->map_a);
  }
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT16;
  desc.rank = 4;
  desc.dims[0] = 64;
  desc.dims[2] = k / 64;
  desc.dims[3] = static_cast<uint64_t>(problem.l);
  desc.strides[0] = 2 * k;
  desc.strides[1] = 128;
  desc.strides[2] = m * 2 * k;
  desc.box[0] = 64;
  desc.box[2] = 4;
  return make_tensor_map(context, desc, &stream->map_a);
}

class Sm90SmallProduct final : public PlannedProduct {
public:
  Sm90SmallProduct(const Problem& problem_, const Config& config_, const Kernel& kernel)
      : PlannedProduct(problem_, config_), held(kernel) {}

  Params params{};
  HeldClusters held;

  wl_status run(const wl_plan& plan, const Problem& other, void* workspace,
                wl_stream stream) const override {
    Params own = params;
    WL_TRY(fill_params(*plan.context, other, *config, &problem, &own));
    const LaunchConfig launch = launch_of(*plan.context, held, other, *config);
    if (config->summed) {
      const SummedParams summed = summed_params(*plan.context, other, *config, own);
      const wl_plan::Instead instead[] = {{&summed, &launch}};
      return plan.run(workspace, stream, instead);
    }
    if (config->routed) {
      const RoutedParams routed = routed_params(*plan.context, other, *config, own);
      const wl_plan::Instead instead[] = {{&routed, &launch}};
      return plan.run(workspace, stream, instead);
    }
    if (config->family == Family::sm90_stream) {
      StreamParams streamed{};
      WL_TRY(stream_params(*plan.context, other, *config, own, &streamed));
      const wl_plan::Instead instead[] = {{&streamed, &launch}};
      return plan.run(workspace, stream, instead);
    }
    const wl_plan::Instead instead[] = {{&own, &launch}};
    return plan.run(workspace, stream, instead);
  }
};

} // namespace

wl_status make_sm90_small_plan(wl_context* context, const Problem& problem, const Config& config,
                               wl_plan** plan) {
  const int64_t tiles = tiles_each(problem, config, context->limits);
  const int64_t each = ctas_an_entry(problem, config, tiles), l = entries(problem, config);
  if (!config.grouped && each > context->limits.max_grid[0] / l)
    return fail(WL_ERROR_NOT_SUPPORTED,
                "config = \"%s\" would launch %" PRId64 " x %" PRId64
                " CTAs; must be at most %d: take a configuration of larger tiles, or none",
                config.name, each, l, context->limits.max_grid[0]);

  auto made = std::make_unique<wl_plan>(context);
  KernelNeeds needs;
  const bool streams = config.family == Family::sm90_stream;
  needs.params = config.grouped  ? grouped_layout()
                 : config.summed ? summed_layout()
                 : config.routed ? routed_layout()
                 : streams       ? stream_layout()
                                 : param_layout();
  needs.dynamic_shared_bytes = most_shared_bytes(context->limits, config);
  const Kernel* kernel = nullptr;
  WL_TRY(load_kernel(*context, config.image(), needs, &kernel));
  auto product = std::make_unique<Sm90SmallProduct>(problem, config, *kernel);
  WL_TRY(fill_params(*context, problem, config, nullptr, &product->params));
  const LaunchConfig launch = launch_of(*context, product->held, problem, config);
  StreamParams stream{};
  if (streams) WL_TRY(stream_params(*context, problem, config, product->params, &stream));
  if (config.summed)
    WL_TRY(made->add(*kernel, launch, summed_params(*context, problem, config, product->params)));
  else if (config.routed)
    WL_TRY(made->add(*kernel, launch, routed_params(*context, problem, config, product->params)));
  else if (streams)
    WL_TRY(made->add(*kernel, launch, stream));
  else
    WL_TRY(made->add(*kernel, launch, product->params));
  fill_info(config, *kernel, launch, &made->info);
  made->problem = std::move(product);
  *plan = made.release();
  return WL_SUCCESS;
}

} // namespace warpline::gemm
