// Configurations of sm90_native.ptx: cost, and a plan of one launch.
#include "kernels/gemm/sm90_plan.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace warpline::gemm {

namespace {

// The parameter block of the contract in sm90_native.ptx.
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_native_params.def"
};

// With B_TENSORS 2.
#define B_TENSORS 2
struct DualParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_native_params.def"
};
template <class Block>
std::vector<Param> param_layout();
template <>
std::vector<Param> param_layout<DualParams>() {
  using Block = DualParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_native_params.def"
  };
}
// Of groups.
#define GROUPED 1
struct GroupedDualParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_native_params.def"
};
template <>
std::vector<Param> param_layout<GroupedDualParams>() {
  using Block = GroupedDualParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_native_params.def"
  };
}
#undef B_TENSORS
struct GroupedParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_native_params.def"
};
template <>
std::vector<Param> param_layout<GroupedParams>() {
  using Block = GroupedParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_native_params.def"
  };
}
#undef GROUPED
template <>
std::vector<Param> param_layout<Params>() {
  using Block = Params;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_native_params.def"
  };
}

// Rows and columns of D that a cluster's CTAs make of tiles side by side.
int64_t rows_of_cluster(const Config& config) {
  return int64_t{config.tile_m} * (config.turned ? cluster_rows(config) : 1);
}
int64_t columns_of_cluster(const Config& config) {
  return int64_t{config.columns()} * (config.turned ? 1 : cluster_rows(config));
}

// The fewest stages that a cluster of a STREAM_K configuration takes: a third of a tile, for what
// an H200 was timed with, and no fewer than 4.
int64_t least_share(const Config& config, const Problem& problem) {
  return std::max<int64_t>(divide_up(problem.k, config.tile_k) / 3, 4);
}

// CUTS_BOXES of sm90_native_config.inc.
bool cuts_boxes(const Config& config) { return !config.grouped && !config.mn_major; }

// Rows of an operand, and how tiles take them: CTAs share a tile's, or MMAs have 64 each.
struct Rows {
  int64_t all;
  int tile, sharers;
  bool of_mmas, cut;
  // Of a tile that the first map is for: all there are where they make one tile.
  int whole() const {
    const bool one = cut && all < tile && sharers == 1 && (!of_mmas || all > tile - 64);
    return one ? static_cast<int>(all) : tile;
  }
  // Of a box of it, and of the last tile, which may have fewer: sm90_native_cut.inc.
  int box() const { return whole() / sharers; }
  int last_box() const {
    const auto left = static_cast<int>(all % tile);
    if (!cut || left == 0 || all == whole()) return box();
    const int parts = of_mmas ? (left + 63) / 64 : sharers;
    return parts == 1 ? left : 8 * ((left + 8 * parts - 1) / (8 * parts));
  }
};
Rows rows_of_a(const Config& config, const Problem& problem) {
  return {problem.groups.rows_of_a(problem.m), config.tile_m,
          config.turned ? 1 : cluster_rows(config), config.turned, cuts_boxes(config)};
}
Rows rows_of_b(const Config& config, const Problem& problem) {
  return {problem.n, config.columns(), config.turned ? cluster_rows(config) : 1, !config.turned,
          cuts_boxes(config)};
}

// That a plan launches, `resident` being all that fit.
int64_t clusters_of(const Config& config, const Problem& problem, int64_t resident) {
  const int64_t rows_of_tiles = config.grouped ? problem.groups.most_tiles(problem.m, config.tile_m)
                                               : divide_up(problem.m, rows_of_cluster(config));
  const int64_t tiles =
      rows_of_tiles * divide_up(problem.n, columns_of_cluster(config)) * problem.l;
  if (config.grid == Grid::one_tile) return tiles;
  if (config.grid != Grid::stream_k) return std::min(tiles, resident);
  return std::clamp<int64_t>(sm90_native_stages(config, problem) / least_share(config, problem), 1,
                             resident);
}

cuapi::CUtensorMapDataType map_type(wl_operand type) {
  switch (type) {
  case WL_OPERAND_F16:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case WL_OPERAND_BF16:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case WL_OPERAND_TF32:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  default:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

// A or B: [L, rows, K]; a box is 128 bytes of K of `box_rows` rows. MN-major: [L, K, rows], a box
// is 128 bytes of rows of a stage's K. `entries` of L, `stride` bytes apart, 0: without gaps.
wl_status operand_map(const wl_context& context, const char* name, const void* address,
                      wl_operand type, wl_layout layout, int64_t rows, const Problem& problem,
                      const Config& config, int box_rows, int64_t entries, int64_t stride,
                      cuapi::CUtensorMap* map) {
  const bool mn_major = layout == WL_MN_MAJOR;
  const int64_t contiguous = mn_major ? rows : problem.k, others = mn_major ? problem.k : rows;
  const auto row_bytes = static_cast<uint64_t>(contiguous * format_of(type).bits / 8);
  TensorMapDesc desc;
  desc.name = name;
  desc.type = map_type(type);
  desc.rank = 3;
  desc.address = address;
  desc.dims[0] = static_cast<uint64_t>(contiguous);
  desc.dims[1] = static_cast<uint64_t>(others);
  desc.dims[2] = static_cast<uint64_t>(entries);
  desc.strides[0] = row_bytes;
  desc.strides[1] =
      stride != 0 ? static_cast<uint64_t>(stride) : static_cast<uint64_t>(others) * row_bytes;
  desc.box[0] = static_cast<uint32_t>(config.tile_k);
  desc.box[1] = static_cast<uint32_t>(mn_major ? config.tile_k : box_rows);
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  return make_tensor_map(context, desc, map);
}

// D or the residual: [L, M, N] at its strides; a box is 128 bytes of a piece's rows, or of one.
// What lies beyond M or N is not written.
wl_status output_map(const wl_context& context, const char* name, const void* address,
                     const Problem& problem, const Config& config, int64_t ld, int64_t batch_stride,
                     cuapi::CUtensorMap* map, bool of_row = false) {
  const bool wide = problem.d_type == WL_F32;
  const uint64_t element = wide ? 4 : 2;
  TensorMapDesc desc;
  desc.name = name;
  desc.type = wide                       ? cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT32
              : problem.d_type == WL_F16 ? cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                         : cuapi::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  desc.rank = 3;
  desc.address = address;
  desc.dims[0] = static_cast<uint64_t>(problem.n);
  desc.dims[1] = static_cast<uint64_t>(problem.m);
  desc.dims[2] = static_cast<uint64_t>(problem.l);
  desc.strides[0] = element * static_cast<uint64_t>(ld);
  desc.strides[1] = element * static_cast<uint64_t>(batch_stride);
  desc.box[0] = static_cast<uint32_t>(128 / element);
  if (config.turned) {
    desc.box[0] = static_cast<uint32_t>(sm90_turned_piece_columns(config.columns()));
    desc.box[1] = 64;
    return make_tensor_map(context, desc, map);
  }
  if (!of_row)
    desc.box[1] = static_cast<uint32_t>(
        sm90_native_piece_tokens(config.tile_m / config.split_k, problem.d_type));
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  return make_tensor_map(context, desc, map);
}

// Of an operand: what whole tiles load by, and, unless null, what the last one does.
struct Maps {
  cuapi::CUtensorMap *whole, *last = nullptr;
};
template <class Params>
Maps maps_of_a(Params* params) {
  if constexpr (requires { params->map_a_last; }) return {&params->map_a, &params->map_a_last};
  return {&params->map_a};
}
template <class Params>
Maps maps_of_b(Params* params) {
  if constexpr (requires { params->map_b_last; }) return {&params->map_b, &params->map_b_last};
  return {&params->map_b};
}
template <class Params>
Maps maps_of_b2(Params* params) {
  if constexpr (requires { params->map_b2_last; }) return {&params->map_b2, &params->map_b2_last};
  return {&params->map_b2};
}

// Parameters of the problem, whose operands and rows may be those of a run: allocates nothing.
template <class Params>
wl_status fill_params(const wl_context& context, const Problem& problem, const Config& config,
                      int64_t clusters, Params* params) {
  const Operands& o = problem.operands;
  const Types& types = problem.types;
  const auto map_of = [&](const char* name, const void* address, wl_operand type, wl_layout layout,
                          const Rows& of, int64_t entries, int64_t stride, Maps maps) {
    WL_TRY(operand_map(context, name, address, type, layout, of.all, problem, config, of.box(),
                       entries, stride, maps.whole));
    if (maps.last == nullptr) return WL_SUCCESS;
    if (of.last_box() == of.box()) {
      *maps.last = *maps.whole;
      return WL_SUCCESS;
    }
    return operand_map(context, name, address, type, layout, of.all, problem, config, of.last_box(),
                       entries, stride, maps.last);
  };
  // Turned, the kernel's A is B.
  const bool turned = config.turned;
  const Rows of_a = rows_of_a(config, problem), of_b = rows_of_b(config, problem);
  WL_TRY(map_of("A", o.a, types.a, types.a_layout, of_a, problem.l, 0,
                turned ? maps_of_b(params) : maps_of_a(params)));
  WL_TRY(map_of("B", o.b[0], types.b, types.b_layout, of_b, problem.b_entries(), problem.b_stride(),
                turned ? maps_of_a(params) : maps_of_b(params)));
  if constexpr (requires { params->map_b2; })
    WL_TRY(map_of("B2", o.b[1], types.b, types.b_layout, of_b, problem.b_entries(),
                  problem.b_stride(), maps_of_b2(params)));
  if constexpr (requires { params->rows_of_a; }) {
    params->rows_of_a = static_cast<uint32_t>((turned ? of_b : of_a).whole());
    params->rows_of_b = static_cast<uint32_t>((turned ? of_a : of_b).whole());
  }
  WL_TRY(output_map(context, "D", o.d, problem, config, problem.ldd, problem.batch_stride_d,
                    &params->map_d));
  if (o.residual != nullptr)
    WL_TRY(output_map(context, "the residual", o.residual, problem, config, problem.ldr,
                      problem.batch_stride_r, &params->map_r));
  else
    params->map_r = params->map_d;
  if constexpr (requires { params->map_d_row; }) {
    WL_TRY(output_map(context, "D", o.d, problem, config, problem.ldd, problem.batch_stride_d,
                      &params->map_d_row, true));
    params->map_r_row = params->map_d_row;
    if (o.residual != nullptr)
      WL_TRY(output_map(context, "the residual", o.residual, problem, config, problem.ldr,
                        problem.batch_stride_r, &params->map_r_row, true));
    fill_groups(problem, params);
    params->address_of_a = address_of(o.a);
  }
  fill_problem(problem, params);
  params->column_scales = address_of(o.column);
  const bool other_a = config.mn_major ? types.a_layout == WL_MN_MAJOR : types.a == WL_OPERAND_E5M2;
  const bool other_b = config.mn_major ? types.b_layout == WL_MN_MAJOR : types.b == WL_OPERAND_E5M2;
  params->operand_types = (other_a ? 1 : 0) + (other_b ? 2 : 0);
  if (turned) params->operand_types = (other_b ? 1 : 0) + (other_a ? 2 : 0);
  if (problem.factors_later && config.ping_pong && format_of(types.a).bits == 16)
    params->operand_types = 4;
  params->tiles_m = static_cast<uint32_t>(divide_up(problem.m, rows_of_cluster(config)));
  params->tiles_n = static_cast<uint32_t>(divide_up(problem.n, columns_of_cluster(config)));
  if (config.turned) std::swap(params->tiles_m, params->tiles_n);
  params->tiles = params->tiles_m * params->tiles_n * static_cast<uint32_t>(problem.l);
  params->per_entry = reciprocal((config.grouped ? 1 : params->tiles_m) * params->tiles_n);
  params->per_group = reciprocal(params->tiles_n * static_cast<uint32_t>(config.group_m));
  params->per_last = reciprocal(params->tiles_m % static_cast<uint32_t>(config.group_m));
  if (config.grid == Grid::stream_k) {
    const auto all = static_cast<uint32_t>(sm90_native_stages(config, problem));
    params->k_share = all / static_cast<uint32_t>(clusters);
    params->k_extra = all % static_cast<uint32_t>(clusters);
  }
  // What is read once need not stay in L2.
  const bool b_once =
      config.grouped ? problem.m <= problem.groups.count * config.tile_m / 2 : params->tiles_m == 1;
  params->policy_a = params->tiles_n == 1 ? ptx::cache_evict_first : ptx::cache_evict_normal;
  params->policy_b = b_once ? ptx::cache_evict_first : ptx::cache_evict_normal;
  return WL_SUCCESS;
}

LaunchConfig launch_of(const Config& config, int64_t clusters) {
  LaunchConfig launch;
  launch.grid[0] = static_cast<unsigned>(clusters * config.cluster[0]);
  launch.block[0] = static_cast<unsigned>(config.threads);
  std::copy(config.cluster, config.cluster + 3, launch.cluster);
  launch.dynamic_shared_bytes = static_cast<unsigned>(config.shared_bytes);
  launch.programmatic_dependent = true;
  return launch;
}

// Clusters of the kernel that the device holds at once.
int64_t resident(const wl_context& context, const Config& config, const Kernel& kernel) {
  const int64_t estimate =
      std::max<int64_t>(std::max(context.limits.sm_count, 1) / config.cluster[0], 1);
  if (config.cluster[0] == 1) return estimate;
  const int said = warpline::resident_clusters(context, kernel, launch_of(config, 1));
  return said > 0 ? std::min<int64_t>(said, estimate) : estimate;
}

template <class Params>
class Sm90NativeProduct final : public PlannedProduct {
public:
  Sm90NativeProduct(const Problem& problem_, const Config& config_, int64_t resident_clusters)
      : PlannedProduct(problem_, config_), resident_(resident_clusters) {}

  Params params{};

  int64_t clusters(const Problem& of) const { return clusters_of(*config, of, resident_); }
  wl_status run(const wl_plan& plan, const Problem& other, void* workspace,
                wl_stream stream) const override {
    Params own{};
    WL_TRY(fill_params(*plan.context, other, *config, clusters(other), &own));
    const LaunchConfig launch = launch_of(*config, clusters(other));
    const wl_plan::Instead instead[] = {{&own, &launch}};
    return plan.run(workspace, stream, instead);
  }

private:
  int64_t resident_;
};

} // namespace

// The model, in SM clocks, from measurements on an H200 at 1.75 GHz:
//   128 bytes of K of a tile of 128 columns: 240 and 3.1 a token, or 125 and 4 where MMAs bound it;
//     of 64 columns half of it and 60, of 192 1.37 times that, half as much again with SPLIT_K; of
//     turned tiles of 128 rows 205 and 3.1 a column, or 110 and 4, of 64 rows half of it, 60 more
//     where a pair shares, of consumers that take turns 76 and 4; without a pair and with more than
//     one row of tiles, L2 gives an SM 40 bytes a clock (an H100, 2026-11-26: 256 x 2880 x 2880 in
//     FP8 by 64 x 48, 12.1 us); no less than 2250 from a load to
//     its end, 2000 where rows of tiles share B, by the stages; of an MN-major operand 3 more
//     for each row of a box of A beyond M
//   a cluster that shares loads: 1000 to start, and a 66th less for them
//   DRAM bytes of the whole device: 2200, in a single wave of whole tiles whose CTAs share no rows
//     of B 1900, with STREAM_K 2400; of up to 64 tokens and tiles of up to 64 columns 2400 in one
//     wave, 41 for two SMs that have a CTA each, of fewer CTAs 32 for one, 36 with more than 8
//     stages; in more waves 1500 and 900 times what part of them is full, and 300 clocks a wave
//   SPLIT_K: 1000 to meet, of three consumers 4000, and half of a tile's sums at 16 bytes a clock
//   launch, first loads and the last tile's end: 4400; a tile's form: 6 a token, with ex2 and rcp
//     22; of consumers that take turns 24 and 60 of the last tile alone
//   STREAM_K: a stage takes 1.6 times as long: clusters with the same rows or columns do not read
//     them at the same time; 1000 and 48 bytes of sums a clock to the workspace, 1200 and 56 bytes
//     a clock for each part from it
int64_t sm90_native_stages(const Config& config, const Problem& problem) {
  return divide_up(problem.m, rows_of_cluster(config)) *
         divide_up(problem.n, columns_of_cluster(config)) * problem.l *
         divide_up(problem.k, config.tile_k);
}

namespace {

// 128 bytes of K of a tile.
double stage_clocks(const Config& config) {
  if (config.turned) {
    const double columns = config.columns();
    const double whole = std::max(205 + 3.1 * columns, 4.0 * columns + 110);
    if (config.ping_pong) return 4.0 * columns + 76;
    return config.tile_m > 64 ? whole : whole / 2 + (cluster_rows(config) > 1 ? 60 : 0);
  }
  const double tokens = config.tile_m;
  // Two tensors' rows of B are as many bytes more as 128 tokens, and twice the MMAs.
  const double whole = config.b_tensors == 2
                           ? std::max(240 + 3.1 * (tokens + 128), 8.0 * tokens + 125)
                           : std::max(240 + 3.1 * tokens, 4.0 * tokens + 125);
  if (config.columns() == 64) return whole / 2 + 60;
  if (config.columns() == 192) return (config.split_k > 1 ? 1.5 : 1.37) * whole;
  return cluster_rows(config) > 1 ? (config.b_tensors == 2 ? 1.01 : 0.985) * whole : whole;
}

// DRAM's time where one row of tiles has all tokens, up to 64, and a tile up to 64 columns.
double few_tokens_clocks(const Config& config, double bytes, int64_t tiles, int64_t waves,
                         const DeviceLimits& device) {
  if (config.split_k > 1) return bytes / (waves > 1 ? 2200 : 2400);
  const auto sms = static_cast<double>(std::max(device.sm_count, 1));
  const auto all = static_cast<double>(tiles);
  const auto full = all / (static_cast<double>(waves) * sms);
  if (waves > 1) return bytes / (1500 + 900 * full) + 300 * static_cast<double>(waves);
  const double of_cta = bytes / all;
  const double own = all > sms / 2 ? 2 * of_cta / 41 : of_cta / (config.stages > 8 ? 36 : 32);
  return std::max(bytes / 2400, own);
}

// Rows are spread as `spread` says; a group's last tile takes MMAs of all, half or a quarter of its
// tokens, all of its rows equally likely; of FP8 always of all. Rows that are gathered take 11.4
// each of a stage, as an H200 took with 128.
Cost grouped_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const Spread s = spread(problem, config.tile_m);
  const auto k_blocks = static_cast<double>(divide_up(problem.k, config.tile_k));
  const int rows = cluster_rows(config);
  const double tiles = s.tiles * static_cast<double>(divide_up(problem.n, config.columns() * rows));
  const int64_t clusters = std::max<int64_t>(device.sm_count / config.cluster[0], 1);
  result.tiles = static_cast<int64_t>(std::ceil(tiles));
  result.clusters = std::min(result.tiles, clusters);
  result.waves = divide_up(result.tiles, std::max<int64_t>(result.clusters, 1));
  const bool narrows = config.tile_m == 128 && format_of(problem.types.a).bits == 16;
  const double spared = narrows ? 0.3125 * s.groups / s.tiles : 0;
  const double gather =
      problem.groups.rows == nullptr
          ? 0
          : 11.4 * std::min<double>(config.tile_m, static_cast<double>(problem.m) / s.tiles);
  const double stage = std::max(stage_clocks(config) * (1 - spared), gather);
  result.tile_clocks = k_blocks * std::max(stage, 2000.0 / config.stages);
  result.epilogue_clocks = 6.0 * config.b_tensors * config.tile_m;
  result.loop_clocks = std::max(tiles / static_cast<double>(clusters), 1.0) *
                       (result.tile_clocks + result.epilogue_clocks);
  const auto row_bytes = static_cast<double>(problem.k * format_of(problem.types.a).bits / 8);
  result.memory_clocks = (s.groups * config.b_tensors * static_cast<double>(problem.n) +
                          static_cast<double>(problem.m)) *
                         row_bytes / 2200;
  result.total = 6000 + std::max(result.loop_clocks, result.memory_clocks);
  return result;
}

} // namespace

Cost sm90_native_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  if (config.grouped) return grouped_cost(config, problem, device);
  Cost result{};
  const int64_t k_blocks = divide_up(problem.k, config.tile_k), rows = cluster_rows(config);
  const int64_t stages = sm90_native_stages(config, problem);
  result.tiles = stages / k_blocks;
  const int64_t clusters = std::max<int64_t>(device.sm_count / config.cluster[0], 1);
  result.waves = divide_up(result.tiles, clusters);
  result.clusters = clusters_of(config, problem, clusters);
  const double tokens = config.turned ? config.columns() : config.tile_m;
  const bool dual = config.b_tensors == 2;
  // FP8 whose sums are added in FP32: what adds them is not all hidden.
  const bool promotes = !config.fast_sums && (config.a_types & bit(WL_OPERAND_E4M3)) != 0;
  double stage = stage_clocks(config) * (promotes ? 1.03 : 1);
  if (config.turned && config.tile_m == 64 && rows == 1 && problem.m > config.tile_m)
    stage = std::max(stage, 128.0 * (config.tile_m + config.columns()) / 40);
  const double latency = problem.m > config.tile_m ? 2000 : 2250;
  const int64_t own_blocks = divide_up(k_blocks, config.split_k);
  result.tile_clocks = static_cast<double>(own_blocks) * std::max(stage, latency / config.stages);
  const bool activates = problem.activation.kind >= WL_ACTIVATION_SILU; // ex2 and rcp
  const double each = dual ? 12 : config.ping_pong ? (activates ? 60 : 24) : (activates ? 22 : 6);
  result.epilogue_clocks = each * tokens / config.split_k;
  result.loop_clocks = static_cast<double>(result.waves) * result.tile_clocks;
  double beyond = static_cast<double>(result.waves * own_blocks), shared_clocks = 0;
  // Half of a tile's sums each way, 16 bytes a clock, and the meeting.
  if (config.split_k > 1)
    shared_clocks = static_cast<double>(result.waves) * ((config.columns() == 192 ? 4000 : 1000) +
                                                         4 * tokens * config.columns() / 2 / 16);
  const bool streams = config.grid == Grid::stream_k;
  if (streams) {
    const int64_t share = divide_up(stages, result.clusters);
    beyond = static_cast<double>(share);
    result.loop_clocks = 1.6 * beyond * result.tile_clocks / static_cast<double>(k_blocks);
    const double part = 4 * tokens * config.columns();
    const int64_t parts = share % k_blocks == 0 ? 0 : divide_up(k_blocks, share);
    if (parts > 0)
      shared_clocks = 1000 + part / 48 + static_cast<double>(parts) * (1200 + part / 56);
  }
  beyond *= cuts_boxes(config)
                ? 0
                : 3 * static_cast<double>(std::max<int64_t>(config.tile_m - problem.m, 0));
  const auto row_bytes = static_cast<double>(problem.k * format_of(problem.types.a).bits / 8);
  const double bytes =
      static_cast<double>((problem.m + (dual ? 2 : 1) * problem.n) * problem.l) * row_bytes;
  const bool shares = config.split_k > 1 || result.waves > 1 ||
                      (config.turned && rows > 1 && problem.m > config.tile_m);
  result.memory_clocks = bytes / (streams ? 2400 : shares ? 2200 : 1900);
  if (!streams && problem.m <= std::min(config.tile_m, 64) && config.columns() <= 64)
    result.memory_clocks = few_tokens_clocks(config, bytes, result.tiles, result.waves, device);
  // The last wave of one row of tiles, whose SMs have DRAM to themselves.
  if (dual && result.waves > 1 && problem.m <= config.tile_m) {
    const int64_t last = result.tiles - (result.waves - 1) * clusters;
    const double of_tile = bytes / static_cast<double>(result.tiles);
    result.memory_clocks =
        of_tile * static_cast<double>(result.tiles - last) / 2200 +
        std::max(of_tile * static_cast<double>(last) / 2200, of_tile / (34.0 * config.cluster[0]));
  }
  const double work =
      result.loop_clocks +
      (config.ping_pong ? 1 : static_cast<double>(result.waves)) * result.epilogue_clocks;
  // Of configurations that DRAM bounds the one with the shorter loop hides more.
  result.total = 4400 + (rows > 1 ? 1000 : 0) + shared_clocks + beyond +
                 std::max(work, result.memory_clocks) + 0.05 * work;
  return result;
}

namespace {

template <class Params>
wl_status make_plan(wl_context* context, const Problem& problem, const Config& config,
                    wl_plan** plan) {
  auto made = std::make_unique<wl_plan>(context);
  KernelNeeds needs;
  needs.params = param_layout<Params>();
  needs.dynamic_shared_bytes = config.shared_bytes;
  const Kernel* kernel = nullptr;
  WL_TRY(load_kernel(*context, config.image(), needs, &kernel));
  auto product = std::make_unique<Sm90NativeProduct<Params>>(problem, config,
                                                             resident(*context, config, *kernel));
  const int64_t clusters = product->clusters(problem);
  WL_TRY(fill_params(*context, problem, config, clusters, &product->params));
  const LaunchConfig launch = launch_of(config, clusters);
  fill_info(config, *kernel, launch, &made->info);
  if (config.grid == Grid::stream_k) {
    WL_TRY(made->add(*kernel, launch, product->params, offsetof(Params, workspace),
                     offsetof(Params, flag_up)));
    made->info.workspace_bytes =
        launch.grid[0] * static_cast<size_t>(sm90_part_bytes(config.tile_m, config.columns()));
  } else {
    WL_TRY(made->add(*kernel, launch, product->params));
  }
  made->problem = std::move(product);
  *plan = made.release();
  return WL_SUCCESS;
}

} // namespace

wl_status make_sm90_native_plan(wl_context* context, const Problem& problem, const Config& config,
                                wl_plan** plan) {
  if (config.grouped)
    return (config.b_tensors == 2 ? make_plan<GroupedDualParams>
                                  : make_plan<GroupedParams>)(context, problem, config, plan);
  return (config.b_tensors == 2 ? make_plan<DualParams> : make_plan<Params>)(context, problem,
                                                                             config, plan);
}

} // namespace warpline::gemm
