// Plans of the Blackwell kernels: tensor maps, parameters, launch.
#include "kernels/gemm/engine.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace warpline::gemm {

namespace {

// The parameter block of the contract in sm100.ptx; offsets are compared with the loaded kernel.
#define RUNTIME_TYPES
#define COLUMN_FACTORS 1
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm100_params.def"
};

std::vector<Param> param_layout(bool runtime_types, bool column_factors) {
  using Block = Params;
  if (column_factors)
    return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_params.def"
    };
#undef COLUMN_FACTORS
  if (runtime_types)
    return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_params.def"
    };
#undef RUNTIME_TYPES
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_params.def"
  };
}

// Of groups: what all kernels have, then the groups.
#define GROUPED 1
struct GroupedParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm100_params.def"
};
constexpr size_t common_bytes = offsetof(Params, operand_types);
static_assert(offsetof(GroupedParams, up_offset) == offsetof(Params, up_offset));

std::vector<Param> grouped_param_layout() {
  using Block = GroupedParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_params.def"
  };
}
// Where types are arguments.
#define RUNTIME_TYPES
struct TypedGroupedParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm100_params.def"
};
constexpr size_t typed_bytes = offsetof(Params, b_row_bytes) + sizeof(Params::b_row_bytes);
static_assert(offsetof(TypedGroupedParams, b_row_bytes) == offsetof(Params, b_row_bytes));

std::vector<Param> typed_grouped_param_layout() {
  using Block = TypedGroupedParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_params.def"
  };
}
#undef RUNTIME_TYPES
#undef GROUPED

cuapi::CUtensorMapDataType map_type(wl_operand type) {
  switch (type) {
  case WL_OPERAND_NVFP4:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  case WL_OPERAND_F16:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case WL_OPERAND_BF16:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case WL_OPERAND_TF32: // as it is: the tensor core leaves out the lower bits
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case WL_OPERAND_MXFP6_E2M3: // unpacked on the way: a byte of shared memory an element
  case WL_OPERAND_MXFP6_E3M2:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  case WL_OPERAND_MXFP4:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
  default:
    return cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

// The type's code in an instruction descriptor of its kind of MMA.
uint32_t type_code(wl_operand type) {
  switch (type) {
  case WL_OPERAND_BF16:
    return static_cast<uint32_t>(ptx::DenseType::bf16);
  case WL_OPERAND_TF32:
    return static_cast<uint32_t>(ptx::DenseType::tf32);
  case WL_OPERAND_E5M2:
  case WL_OPERAND_MXFP8_E5M2:
    return static_cast<uint32_t>(ptx::Fp8Type::e5m2);
  case WL_OPERAND_MXFP6_E2M3:
    return static_cast<uint32_t>(ptx::Fp8Type::e2m3);
  case WL_OPERAND_MXFP6_E3M2:
    return static_cast<uint32_t>(ptx::Fp8Type::e3m2);
  case WL_OPERAND_MXFP4:
    return static_cast<uint32_t>(ptx::Fp8Type::e2m1);
  case WL_OPERAND_INT8:
    return 1; // signed
  default:
    return 0; // FP16, E4M3
  }
}

// Elements of K of NVFP4 that have as many scale atoms: the layout's unit.
int64_t k_of_scales(wl_operand type, int64_t k) {
  return divide_up(k, 4 * format_of(type).scale_block) * 64;
}

// A, B1 or B2: [entries, rows, K]; a box is a K tile of tile_rows rows of one of the entries, which
// lie entry_stride bytes apart, 0 = dense.
wl_status operand_map(const wl_context& context, const char* name, const void* address,
                      wl_operand type, int64_t rows, int64_t entries, int64_t entry_stride,
                      const Problem& problem, const Config& config, int tile_rows,
                      cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(problem.k);
  const uint64_t row_bytes = k * static_cast<uint64_t>(format_of(type).bits) / 8;
  TensorMapDesc desc;
  desc.name = name;
  desc.type = map_type(type);
  desc.rank = 3;
  desc.address = address;
  desc.dims[0] = k;
  desc.dims[1] = static_cast<uint64_t>(rows);
  desc.dims[2] = static_cast<uint64_t>(entries);
  desc.strides[0] = row_bytes;
  desc.strides[1] = entry_stride != 0 ? static_cast<uint64_t>(entry_stride)
                                      : static_cast<uint64_t>(rows) * row_bytes;
  desc.box[0] = static_cast<uint32_t>(config.tile_k);
  desc.box[1] = static_cast<uint32_t>(tile_rows);
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  return make_tensor_map(context, desc, map);
}

// Rows of A that are gathered, a K tile of each: bytes, of which a box is one row.
wl_status gathered_map(const wl_context& context, const Problem& problem, const Config& config,
                       cuapi::CUtensorMap* map) {
  TensorMapDesc desc;
  desc.name = "A";
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  desc.rank = 2;
  desc.address = problem.operands.a;
  const int bits = format_of(problem.types.a).bits;
  desc.dims[0] = static_cast<uint64_t>(problem.k * bits / 8);
  desc.dims[1] = static_cast<uint64_t>(problem.groups.a_rows);
  desc.strides[0] = desc.dims[0];
  desc.box[0] = static_cast<uint32_t>(config.tile_k * bits / 8);
  desc.box[1] = 1;
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

// D of a BULK configuration: [L, M, N] with its strides; a box is what an epilogue warp makes, 32
// rows of half a tile's columns. What lies beyond M or N is not written.
wl_status output_map(const wl_context& context, const Problem& problem, const Config& config,
                     cuapi::CUtensorMap* map) {
  TensorMapDesc desc;
  desc.name = "D";
  desc.type = problem.d_type == WL_F16 ? cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                       : cuapi::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  desc.rank = 3;
  desc.address = problem.operands.d;
  desc.dims[0] = static_cast<uint64_t>(problem.n);
  desc.dims[1] = static_cast<uint64_t>(problem.m);
  desc.dims[2] = static_cast<uint64_t>(problem.l);
  desc.strides[0] = 2 * static_cast<uint64_t>(problem.ldd);
  desc.strides[1] = 2 * static_cast<uint64_t>(problem.batch_stride_d);
  desc.box[0] = static_cast<uint32_t>(config.tile_n / 2);
  desc.box[1] = 32;
  desc.swizzle =
      config.tile_n == 128 ? cuapi::CU_TENSOR_MAP_SWIZZLE_128B : cuapi::CU_TENSOR_MAP_SWIZZLE_64B;
  return make_tensor_map(context, desc, map);
}

wl_status fill_weight_maps(const wl_context& context, const Problem& problem, const Config& config,
                           Params* params) {
  const Operands& o = problem.operands;
  const bool two = config.b_tensors == 2;
  const wl_operand type = problem.types.b;
  // One MMA makes both products of rows of B1 and B2 that lie one behind the other: of a pair each
  // CTA has all those of one tensor.
  const int b_rows = two && config.one_mma()
                         ? config.tile_n
                         : (config.one_mma() ? config.columns() : config.tile_n) / config.cluster_m;
  // Of MX types each CTA loads all scales of its tile, an atom for each 128 columns.
  const bool mx = config.kind == Kind::mx;
  const int atoms = mx ? 1 : config.tile_k / 64 / config.cluster_m;
  const int blocks = mx ? config.columns() / 128 : 1;
  const int64_t entries = problem.b_entries();
  const int64_t stride = problem.groups.count != 0 ? problem.groups.b_stride : 0;
  const int64_t scale_stride = problem.groups.count != 0 ? problem.groups.sfb_stride : 0;
  WL_TRY(operand_map(context, two ? "B1" : "B", o.b[0], type, problem.n, entries, stride, problem,
                     config, b_rows, &params->map_b1));
  if (two)
    WL_TRY(operand_map(context, "B2", o.b[1], type, problem.n, entries, stride, problem, config,
                       b_rows, &params->map_b2));
  if (!has_scales(type)) return WL_SUCCESS;
  const int64_t k = k_of_scales(type, problem.k);
  WL_TRY(scale_map(context, two ? "SFB1" : "SFB", o.sfb[0], problem.n, k, entries, atoms,
                   &params->map_sfb1, blocks, 32, scale_stride));
  if (!two) return WL_SUCCESS;
  return scale_map(context, "SFB2", o.sfb[1], problem.n, k, entries, atoms, &params->map_sfb2,
                   blocks, 32, scale_stride);
}

// `mapped` has the weights that the block's maps describe already, null: none.
wl_status fill_params(const wl_context& context, const Problem& problem, const Config& config,
                      const Problem* mapped, Params* params) {
  const Operands& o = problem.operands;
  // Boxes are the slices that CTAs of a cluster load for each other: the CLUSTER table of
  // sm100.ptx.
  if (mapped == nullptr || !same_strides(*mapped, problem))
    WL_TRY(fill_weight_maps(context, problem, config, params));
  else
    WL_TRY(move_weight_maps(context, mapped->operands, o, config.b_tensors, params));
  const int a_rows = static_cast<int>(sm100_box_rows(config, problem.m));
  const Types& types = problem.types;
  const bool gathers = problem.groups.rows != nullptr;
  if (gathers)
    WL_TRY(gathered_map(context, problem, config, &params->map_a));
  else
    WL_TRY(operand_map(context, "A", o.a, types.a, problem.m, problem.l, 0, problem, config, a_rows,
                       &params->map_a));
  const int64_t scaled_rows =
      problem.groups.count != 0 ? 128 * problem.groups.sf_tile_count : problem.m;
  if (has_scales(types.a) && !gathers)
    WL_TRY(scale_map(context, "SFA", o.sfa, scaled_rows, k_of_scales(types.a, problem.k), problem.l,
                     config.kind == Kind::mx ? 1 : config.tile_k / 64 / config.cluster_n,
                     &params->map_sfa));
  params->a_row_bytes = static_cast<uint32_t>(128 * format_of(types.a).bits / 8);
  params->b_row_bytes = static_cast<uint32_t>(128 * format_of(types.b).bits / 8);
  params->operand_types = type_code(types.a) << 7 | type_code(types.b) << 10;
  if (config.store == Store::bulk) WL_TRY(output_map(context, problem, config, &params->map_d));

  fill_problem(problem, params);
  params->sfd = address_of(o.sfd);
  params->d_scale = address_of(o.d_scale);
  params->column_scales = address_of(o.column);
  const int64_t tile_rows = int64_t{config.rows()} * config.cluster_m;
  params->tiles_m = static_cast<uint32_t>(divide_up(problem.m, tile_rows));
  params->tiles_n =
      static_cast<uint32_t>(divide_up(problem.n, config.columns() * config.cluster_n));
  params->tiles = params->tiles_m * params->tiles_n * static_cast<uint32_t>(problem.l);
  // With one group of row tiles, weights are read once and need not stay in L2.
  params->policy_a = ptx::cache_evict_normal;
  params->policy_b = params->tiles_m <= static_cast<uint32_t>(config.group_m)
                         ? ptx::cache_evict_first
                         : ptx::cache_evict_normal;
  if (problem.groups.count == 0) return WL_SUCCESS;
  // The weights of a group with one row tile are read once.
  params->policy_b = problem.m <= tile_rows * problem.groups.count ? ptx::cache_evict_first
                                                                   : ptx::cache_evict_normal;
  return WL_SUCCESS;
}

// A launch of one cluster.
LaunchConfig cluster_launch(const Config& config) {
  LaunchConfig launch;
  launch.grid[0] = static_cast<unsigned>(config.cluster[0]);
  launch.block[0] = static_cast<unsigned>(config.threads);
  std::copy(config.cluster, config.cluster + 3, launch.cluster);
  launch.dynamic_shared_bytes = static_cast<unsigned>(config.shared_bytes);
  launch.programmatic_dependent = config.waits_behind_start();
  return launch;
}

wl_status load(wl_context* context, const Config& config, const Kernel** kernel) {
  KernelNeeds needs;
  const bool typed = config.kind != Kind::nvfp4;
  needs.params = !config.grouped ? param_layout(typed, config.column_factors)
                 : typed         ? typed_grouped_param_layout()
                                 : grouped_param_layout();
  needs.dynamic_shared_bytes = config.shared_bytes;
  return load_kernel(*context, config.image(), needs, kernel);
}

} // namespace

// A CTA of any sm100 configuration fills an SM, so the answer holds for all that have clusters of
// the size.
wl_status learn_resident_clusters(wl_context* context, const Config& config, DeviceLimits* device) {
  const Kernel* kernel = nullptr;
  WL_TRY(load(context, config, &kernel));
  const int size = config.cluster[0];
  if (size < 2 || size > DeviceLimits::largest_cluster) return WL_SUCCESS;
  const int said = warpline::resident_clusters(*context, *kernel, cluster_launch(config));
  device->resident_clusters[size] = said;
  context->resident_clusters[size].store(said, std::memory_order_relaxed);
  return WL_SUCCESS;
}

namespace {

class Sm100Product final : public PlannedProduct {
public:
  Sm100Product(const Problem& problem_, const Config& config_, const DeviceLimits& device)
      : PlannedProduct(problem_, config_), device_(device) {}

  struct Work {
    Params params{};
    GroupedParams grouped{};
    TypedGroupedParams typed_grouped{};
    LaunchConfig launch;
  };
  Work work;

  wl_status fill(const wl_context& context, const Problem& of, const Problem* mapped,
                 Work* filled) const {
    Params& params = filled->params;
    WL_TRY(fill_params(context, of, *config, mapped, &params));
    if (config->grouped) {
      const auto add_groups = [&](auto* grouped, size_t bytes) {
        std::memcpy(static_cast<void*>(grouped), &params, bytes);
        fill_groups(of, grouped);
        grouped->scales_of_a = address_of(of.operands.sfa);
      };
      if (config->kind == Kind::nvfp4)
        add_groups(&filled->grouped, common_bytes);
      else
        add_groups(&filled->typed_grouped, typed_bytes);
    }
    filled->launch = cluster_launch(*config);
    const int64_t clusters = sm100_clusters(*config, of, device_);
    filled->launch.grid[0] *= static_cast<unsigned>(clusters);
    if (config->grid == Grid::stream_k) {
      const int64_t k_tiles = sm100_all_k_tiles(*config, of);
      params.k_share = static_cast<uint32_t>(k_tiles / clusters);
      params.k_extra = static_cast<uint32_t>(k_tiles % clusters);
    }
    return WL_SUCCESS;
  }

  wl_status run(const wl_plan& plan, const Problem& other, void* workspace,
                wl_stream stream) const override {
    Work own = work;
    WL_TRY(fill(*plan.context, other, &problem, &own));
    const void* const block = !config->grouped              ? static_cast<const void*>(&own.params)
                              : config->kind == Kind::nvfp4 ? static_cast<const void*>(&own.grouped)
                                                            : &own.typed_grouped;
    const wl_plan::Instead instead[] = {{block, &own.launch}};
    return plan.run(workspace, stream, instead);
  }

private:
  DeviceLimits device_; // as the plan knew it: workspaces are for so many clusters
};

} // namespace

wl_status make_sm100_plan(wl_context* context, const Problem& problem, const Config& config,
                          wl_plan** plan) {
  auto made = std::make_unique<wl_plan>(context);
  DeviceLimits device = known_limits(*context);
  WL_TRY(learn_resident_clusters(context, config, &device));
  const Kernel* kernel = nullptr;
  WL_TRY(load(context, config, &kernel));
  auto product = std::make_unique<Sm100Product>(problem, config, device);
  WL_TRY(product->fill(*context, problem, nullptr, &product->work));
  const LaunchConfig& launch = product->work.launch;
  if (config.grouped && config.kind == Kind::nvfp4)
    WL_TRY(made->add(*kernel, launch, product->work.grouped));
  else if (config.grouped)
    WL_TRY(made->add(*kernel, launch, product->work.typed_grouped));
  else
    WL_TRY(made->add(*kernel, launch, product->work.params, offsetof(Params, workspace),
                     offsetof(Params, flag_up)));

  wl_plan_info& info = made->info;
  fill_info(config, *kernel, launch, &info);
  if (config.grid == Grid::stream_k)
    info.workspace_bytes = launch.grid[0] * static_cast<size_t>(sm100_part_bytes(config.tile_n));

  made->problem = std::move(product);
  *plan = made.release();
  return WL_SUCCESS;
}

// SFA, SFB1 or SFB2: an atom of 512 bytes is the inner dimension, as 256 16-bit elements because a
// box has at most 256 of them; then atoms along K, blocks of 128 rows, batch entries.
wl_status scale_map(const wl_context& context, const char* name, const void* address, int64_t rows,
                    int64_t k, int64_t l, int box_atoms, cuapi::CUtensorMap* map, int box_blocks,
                    int box_lines, int64_t entry_stride) {
  const auto atoms = static_cast<uint64_t>(k) / 64;
  const auto blocks =
      (static_cast<uint64_t>(rows) + ptx::scale_atom_rows - 1) / ptx::scale_atom_rows;
  TensorMapDesc desc;
  desc.name = name;
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT16;
  desc.rank = 4;
  desc.address = address;
  desc.dims[0] = ptx::scale_atom_bytes / 2;
  desc.dims[1] = atoms;
  desc.dims[2] = blocks;
  desc.dims[3] = static_cast<uint64_t>(l);
  desc.strides[0] = ptx::scale_atom_bytes;
  desc.strides[1] = atoms * ptx::scale_atom_bytes;
  desc.strides[2] = entry_stride != 0 ? static_cast<uint64_t>(entry_stride)
                                      : blocks * atoms * ptx::scale_atom_bytes;
  desc.box[0] = static_cast<uint32_t>(box_lines * (ptx::scale_atom_bytes / 32 / 2));
  desc.box[1] = static_cast<uint32_t>(box_atoms);
  desc.box[2] = static_cast<uint32_t>(box_blocks);
  desc.l2_promotion = box_lines == 32 ? cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                      : cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

void fill_info(const Config& config, const Kernel& kernel, const LaunchConfig& launch,
               wl_plan_info* info) {
  report_launch(config.name, kernel, launch, info);
  info->tile_m = config.tile_m;
  info->tile_n = config.tile_n;
  info->tile_k = config.tile_k;
  info->stages = config.stages;
}

} // namespace warpline::gemm
