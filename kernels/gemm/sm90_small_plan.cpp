// Configurations of sm90_small.ptx and sm90_stream.ptx, for few tokens: cost, and a plan of one
// launch.
#include "kernels/gemm/sm90_plan.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>

namespace warpline::gemm {

namespace {

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

// Columns of each 32 that are a tile's.
int tile_lines(const Config& config) { return config.columns() / 4; }

// Tiles that hold a column below N: of a block of less than 128 the first 32 columns decide.
int64_t tiles_n(const Config& config, int64_t n) {
  const int64_t blocks = n / ptx::scale_atom_rows, rest = n % ptx::scale_atom_rows;
  const int lines = tile_lines(config);
  return blocks * (32 / lines) + divide_up(std::min<int64_t>(rest, 32), lines);
}

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

// Of an entry; of rows with a matrix each, of a row.
int64_t row_tiles(const Problem& problem, const Config& config) {
  return config.routed ? 1 : divide_up(problem.m, config.tile_m);
}
int64_t entries(const Problem& problem, const Config& config) {
  return config.routed ? problem.m : problem.l;
}

// ---- rows that say which matrix is theirs

// CTAs that an SM holds by the models below; of one tensor registers have room for one more.
int routed_resident(const Config& config) {
  return sm90_small_ctas(config.tile_n, config.decoders) + 1;
}
int64_t cluster_size(const Problem& problem, const Config& config) {
  return config.summed ? std::max<int64_t>(problem.groups.sum.each, 1) : config.cluster[0];
}
// Clusters, where each CTA makes `each` tiles of columns one behind the other.
int64_t routed_clusters(const Problem& problem, const Config& config, int64_t each) {
  const int64_t rows = config.summed ? problem.m / cluster_size(problem, config) : problem.m;
  return divide_up(tiles_n(config, problem.n), each) * rows;
}
// Tiles of columns that a cluster makes, a CTA alone or those that share K. A tile whose K does not
// fill the stages leaves little under way, and CTAs that follow others start anew: where one wave
// does not hold all of them, three (H200, Qwen3's down product of 2 tokens: 18.0 us a layer, of 2
// and 4 tiles 18.4 and 19.3, of one 20.1). Otherwise as few as fill one wave about evenly (of 4
// tokens, gate and up: two 31.0, one 31.8; of 3 tokens, which they do not fill so, 28.1 and 26.8).
// Three by two CTAs are one and a half for each (of 3 tokens 25.0), where an SM gets all CTAs that
// it holds: with two of three 2 tokens took 18.5, with one tile for each CTA 17.9.
int64_t tiles_each(const Problem& problem, const Config& config, const DeviceLimits& device) {
  if (!config.goes_on()) return 1;
  const int64_t size = cluster_size(problem, config);
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t held = held_clusters(device, size, routed_resident(config));
  const int64_t all = routed_clusters(problem, config, 1);
  if (all <= held) return 1;
  if (divide_up(problem.k, config.tile_k) < config.stages) return most_tiles_each;
  const auto even = static_cast<double>(all * size) / static_cast<double>(sms);
  for (int64_t each = config.keeps_sums() ? 3 : 2; each <= most_tiles_each; ++each) {
    const int64_t clusters = routed_clusters(problem, config, each);
    const auto fullest = static_cast<double>(each * divide_up(clusters * size, sms));
    const bool full = divide_up(clusters * size, sms) == routed_resident(config);
    if (clusters <= held && fullest <= 1.1 * even && (full || !config.keeps_sums())) return each;
  }
  return 1;
}

// ---- all

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

// The models, in SM clocks, from measurements on an H200 at 1.75 GHz. DRAM bytes of the whole
// device: 2400.
//
// Of two tensors: a full SM takes 700 clocks and 18 for each token for 256 k of 128 columns of
// weights, both products counted; the tokens' part, decoding them, is for each CTA of two that it
// holds. Launch, first loads and the end of the last tile: 5000; the sum over splits: 1000.
//
// Of one: for 256 k of 32 columns a CTA takes 190 clocks and 8 for each token of an SM that is
// busy, and by itself, on an H100 at the same clock, at least 327 and 4.3 for each token, 9 % more
// where warps decode or consume twice as much, which takes a busy SM 6 % longer from the second
// wave on. Launch: 2380, of clusters of 4 320 more; first loads and sums of each wave: 1720. Of
// clusters of 4 an H200 holds 30 for each CTA that fits an SM: its GPCs have 16 or 18 SMs.
//
// Of rows that say which matrix is theirs, fitted to layers of 1 to 8 tokens: for 256 k of 32 rows
// of weights an SM takes 254 clocks, of two tensors twice that for as many of each; a CTA by itself
// at least 750, and 560; 900 for each CTA of an SM, its start and its outputs; launch and first
// loads 2800.
//
// Of groups CTAs go on from tile to tile: an SM takes 84 clocks and 16.5 a token for 256 k of 32
// rows of weights, of two tensors 110 and 14, and 250 and 16 a column for a tile's sums and
// outputs. Tiles of 16 tokens with up to 8 take what those of 8 do. Rows are spread as `spread`
// says where groups have more than a tile; where they have less some are larger than others:
// between even and skewed routing (64 tokens, 8 of 128 experts, the n-th 1 / n as often) a share of
// groups that grows with the square of the mean has a second tile. Launch, first loads and the end
// of the last tile: 4000. Products of layers of Qwen3, DeepSeek-V3 and GPT-OSS of 24 to 1536 tokens
// took 0.87 to 1.1 of it, the mean of both routings (H200, h200_moe.md).
namespace {

// Tiles of all rows.
double uneven_tiles(const Problem& problem, int tile_rows) {
  const Spread s = spread(problem, tile_rows);
  const double tiles_each = static_cast<double>(problem.m) / problem.groups.count / tile_rows;
  return s.tiles + (tiles_each < 1 ? problem.groups.count * (tiles_each * tiles_each / 2 -
                                                             std::max(0.0, tiles_each - 0.5))
                                   : 0);
}

Cost grouped_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const Spread s = spread(problem, config.tile_m);
  const double sms = std::max(device.sm_count, 1), columns = static_cast<double>(problem.n);
  const double row_tiles = uneven_tiles(problem, config.tile_m);
  const double tiles = row_tiles * static_cast<double>(tiles_n(config, problem.n));
  const int resident = sm90_small_ctas(config.tile_n, config.decoders);
  const auto k_blocks = static_cast<double>(divide_up(problem.k, config.tile_k));
  result.tiles = static_cast<int64_t>(std::ceil(tiles));
  result.clusters = std::min(result.tiles, int64_t{resident} * device.sm_count);
  result.waves = divide_up(result.tiles, std::max<int64_t>(result.clusters, 1));
  double tokens = config.tile_m;
  if (config.tile_m == 16) tokens = 8 + 8 * std::min(1.0, uneven_tiles(problem, 8) / row_tiles - 1);
  const double busy =
      (config.b_tensors == 1 ? 84 + 16.5 * tokens : 110 + 14 * tokens) * config.tile_n / 16;
  result.epilogue_clocks = 250 + 16.0 * config.tile_n;
  result.tile_clocks = k_blocks * std::max(busy, 590 + 13.0 * tokens);
  result.loop_clocks =
      std::max(tiles / sms * (k_blocks * busy + result.epilogue_clocks),
               static_cast<double>(result.waves) * (result.tile_clocks + result.epilogue_clocks));
  result.memory_clocks =
      s.groups * config.b_tensors * columns * static_cast<double>(problem.k) * 9 / 16 / 2400;
  result.total = 4000 + std::max(result.loop_clocks, result.memory_clocks);
  return result;
}

Cost routed_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const int64_t sms = std::max(device.sm_count, 1), size = cluster_size(problem, config);
  const int64_t each = tiles_each(problem, config, device);
  const int resident = routed_resident(config);
  const int64_t held = std::max<int64_t>(held_clusters(device, size, resident), 1);
  const int64_t clusters = routed_clusters(problem, config, each);
  result.tiles = tiles_n(config, problem.n) * problem.m;
  result.clusters = clusters;
  result.waves = divide_up(clusters, held);
  const auto blocks =
      static_cast<double>(each * divide_up(divide_up(problem.k, config.tile_k), config.split_k));
  const double busy = config.b_tensors == 1 ? 254 : 508, alone = config.b_tensors == 1 ? 750 : 560;
  result.epilogue_clocks = 900;
  result.tile_clocks = blocks * alone;
  // CTAs of the fullest SM.
  const auto most_of = [&](int64_t of) {
    int64_t most = divide_up(of * size, sms);
    while (most < resident && held_clusters(device, size, most) < of) ++most;
    return static_cast<double>(std::min<int64_t>(most, resident));
  };
  const auto wave = [&](int64_t of) {
    if (of == 0) return 0.0;
    return std::max(most_of(of) * (blocks * busy + result.epilogue_clocks),
                    result.tile_clocks + result.epilogue_clocks);
  };
  const int64_t full = clusters / held;
  result.loop_clocks = static_cast<double>(full) * wave(held) + wave(clusters % held);
  result.memory_clocks = static_cast<double>(config.b_tensors * problem.n * problem.m) *
                         static_cast<double>(problem.k) * 9 / 16 / 2400;
  // The fullest SM is waited for: it takes more than an even share of the bytes.
  if (result.waves == 1)
    result.memory_clocks *= std::clamp(most_of(clusters) * static_cast<double>(sms) /
                                           static_cast<double>(clusters * size),
                                       1.0, 2.0);
  result.total = 2800 + std::max(result.loop_clocks, result.memory_clocks);
  return result;
}

} // namespace

Cost sm90_small_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  if (config.grouped) return grouped_cost(config, problem, device);
  if (config.routed) return routed_cost(config, problem, device);
  Cost result{};
  const int64_t tiles_m = row_tiles(problem, config), l = problem.l;
  const bool one = config.b_tensors == 1;
  const int64_t sms = std::max(device.sm_count, 1), size = config.cluster[0];
  const int resident = sm90_small_ctas(config.tile_n, config.decoders);
  result.tiles = result.clusters = tiles_m * tiles_n(config, problem.n) * l;
  const int64_t clusters = one ? held_clusters(device, size, resident) : resident * sms / size;
  result.waves = divide_up(result.clusters, std::max<int64_t>(clusters, 1));
  const int64_t k_blocks = divide_up(divide_up(problem.k, config.tile_k), config.split_k);
  result.memory_clocks = static_cast<double>(config.b_tensors * problem.n * tiles_m * l) *
                         static_cast<double>(problem.k) * 9 / 16 / 2400;
  if (one) {
    const bool dense = config.tile_m == 16 && config.decoders == 2;
    const bool twice = config.tile_n == 32 || dense;
    const double tokens = config.tile_m, more = dense && result.waves > 1 ? 1.06 : 1;
    const double busy = (190 + 8 * tokens) * config.tile_n / 16 * more;
    const double alone = (327 + 4.3 * tokens) * (twice ? 1.09 : 1);
    result.tile_clocks = static_cast<double>(k_blocks) * std::max(alone, busy);
    result.epilogue_clocks = 1720;
    // CTAs of a last wave crowd into the first SMs that are free.
    const int64_t at_once = result.waves > 1 ? clusters * size : result.clusters * size;
    const auto an_sm = static_cast<double>(divide_up(at_once, sms));
    const auto waves = static_cast<double>(result.waves);
    result.loop_clocks = waves * static_cast<double>(k_blocks) * std::max(alone, an_sm * busy);
    result.total = 2380 + (size == 4 ? 320 : 0) + waves * result.epilogue_clocks +
                   std::max(result.loop_clocks, result.memory_clocks);
    // H200, 16 x 4096 x 14336: 14.7 us, t16c32_split 13.4.
    if (tokens == 16 && problem.k > 12288) result.total *= 1.06;
    // 32 x 2880 x 2880: 6.0 us, with A in BF16 7.4; t32c32_split 5.7 and 5.8.
    if (tiles_m > 1) result.total *= (config.a_types & bit(WL_OPERAND_BF16)) != 0 ? 1.32 : 1.09;
    return result;
  }
  // Of a full SM.
  const auto an_sm = static_cast<double>(resident);
  result.tile_clocks = static_cast<double>(k_blocks) *
                       (700 * an_sm * config.tile_n / 64.0 + 9 * an_sm * config.tile_m);
  result.loop_clocks = static_cast<double>(result.waves) * result.tile_clocks;
  result.epilogue_clocks = 1000;
  result.total = 5000 + std::max(static_cast<double>(result.waves) *
                                     (result.tile_clocks + result.epilogue_clocks),
                                 result.memory_clocks);
  return result;
}

// In SM clocks, from the same H200: 256 k of 64 rows of weights take a CTA 535 clocks and 6 a token
// by itself, and an SM 415 and 11.4 for each that it has. Launch, first loads and the end of the
// last tile: 2800 and 100 a token; each wave behind the first one: 1000 and 310 a token. With NVFP4
// activations, from an H100: 398 and 23.8, 405 and 20.8, 3940 and 20, 1850 and 78. Tiles of 16
// tokens take longer with up to 8 than with 16.
Cost sm90_stream_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const int64_t tiles = divide_up(problem.m, config.tile_m) * tiles_n(config, problem.n);
  result.tiles = result.clusters = tiles * problem.l;
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t clusters = config.ctas * (sms / config.cluster[0]);
  result.waves = divide_up(result.tiles, std::max<int64_t>(clusters, 1));
  const auto k_blocks =
      static_cast<double>(divide_up(divide_up(problem.k, config.tile_k), config.split_k));
  // Of more than one wave an SM gets as many CTAs of the last one as it holds, or none.
  const auto an_sm =
      static_cast<double>(result.waves > 1 ? result.waves * config.ctas
                                           : divide_up(result.tiles * config.split_k, sms));
  const bool nvfp4 = (config.a_types & bit(WL_OPERAND_NVFP4)) != 0;
  const double tokens = config.tile_m;
  result.tile_clocks = k_blocks * (nvfp4 ? 398 + 23.8 * tokens : 535 + 6 * tokens);
  const double busy = nvfp4 ? 405 + 20.8 * tokens : 415 + 11.4 * tokens;
  result.loop_clocks = std::max(result.tile_clocks, k_blocks * busy * an_sm);
  result.memory_clocks = static_cast<double>(config.b_tensors * problem.n * problem.l) *
                         static_cast<double>(divide_up(problem.m, config.tile_m) * problem.k) * 9 /
                         16 / 2400;
  result.epilogue_clocks = nvfp4 ? 1850 + 78 * tokens : 1000 + 310 * tokens;
  result.total = (nvfp4 ? 3940 + 20 * tokens : 2800 + 100 * tokens) +
                 std::max(result.loop_clocks, result.memory_clocks) +
                 static_cast<double>(result.waves - 1) * result.epilogue_clocks;
  if (config.tile_m == 16 && problem.m <= 8) result.total *= nvfp4 ? 1.04 : 1.1;
  return result;
}

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
