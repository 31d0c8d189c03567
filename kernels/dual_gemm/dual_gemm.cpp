// wl_dual_gemm_check and wl_dual_gemm_plan: rules, row, tensor maps, launch.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "ptx/layouts.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/operation.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/tensor_map.hpp"

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <utility>
#include <vector>

namespace warpline::dual_gemm {

namespace {

// The parameter block of the contract in sm100.ptx; offsets are compared with the loaded kernel.
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm100_params.def"
};

std::vector<Param> param_layout() {
  using Block = Params;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_params.def"
  };
}

// A, B1 or B2: [L, rows, K/2] bytes; a box is a K tile of tile_rows rows, one batch entry.
wl_status operand_map(const wl_context& context, const char* name, const void* address,
                      int64_t rows, const wl_dual_gemm_args& args, const Row& row, int tile_rows,
                      cuapi::CUtensorMap* map) {
  const auto k = static_cast<uint64_t>(args.k);
  TensorMapDesc desc;
  desc.name = name;
  desc.type = cuapi::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  desc.rank = 3;
  desc.address = address;
  desc.dims[0] = k;
  desc.dims[1] = static_cast<uint64_t>(rows);
  desc.dims[2] = static_cast<uint64_t>(args.l);
  desc.strides[0] = k / 2;
  desc.strides[1] = static_cast<uint64_t>(rows) * (k / 2);
  desc.box[0] = static_cast<uint32_t>(row.tile_k);
  desc.box[1] = static_cast<uint32_t>(tile_rows);
  desc.swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_128B;
  desc.l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  return make_tensor_map(context, desc, map);
}

// D of a BULK row: [L, M, N] with its strides; a box is what an epilogue warp makes, 32 rows of
// half a tile's columns. What lies beyond M or N is not written.
wl_status output_map(const wl_context& context, const wl_dual_gemm_args& args, const Row& row,
                     cuapi::CUtensorMap* map) {
  TensorMapDesc desc;
  desc.name = "D";
  desc.type = args.d_type == WL_F16 ? cuapi::CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                    : cuapi::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  desc.rank = 3;
  desc.address = args.d;
  desc.dims[0] = static_cast<uint64_t>(args.n);
  desc.dims[1] = static_cast<uint64_t>(args.m);
  desc.dims[2] = static_cast<uint64_t>(args.l);
  desc.strides[0] = 2 * static_cast<uint64_t>(effective_ldd(args));
  desc.strides[1] = 2 * static_cast<uint64_t>(effective_batch_stride(args));
  desc.box[0] = static_cast<uint32_t>(row.tile_n / 2);
  desc.box[1] = 32;
  desc.swizzle =
      row.tile_n == 128 ? cuapi::CU_TENSOR_MAP_SWIZZLE_128B : cuapi::CU_TENSOR_MAP_SWIZZLE_64B;
  return make_tensor_map(context, desc, map);
}

wl_status fill_params(const wl_context& context, const wl_dual_gemm_args& args, const Row& row,
                      Params* params) {
  // Boxes are the slices that CTAs of a cluster load for each other: the CLUSTER table of
  // sm100.ptx.
  const int a_rows = 128 / row.cluster_n, b_rows = row.tile_n / row.cluster_m;
  WL_TRY(operand_map(context, "A", args.a, args.m, args, row, a_rows, &params->map_a));
  WL_TRY(operand_map(context, "B1", args.b1, args.n, args, row, b_rows, &params->map_b1));
  WL_TRY(operand_map(context, "B2", args.b2, args.n, args, row, b_rows, &params->map_b2));
  const int sfa_atoms = row.tile_k / 64 / row.cluster_n,
            sfb_atoms = row.tile_k / 64 / row.cluster_m;
  WL_TRY(scale_map(context, "SFA", args.sfa, args.m, args, sfa_atoms, &params->map_sfa));
  WL_TRY(scale_map(context, "SFB1", args.sfb1, args.n, args, sfb_atoms, &params->map_sfb1));
  WL_TRY(scale_map(context, "SFB2", args.sfb2, args.n, args, sfb_atoms, &params->map_sfb2));

  if (row.store == Store::bulk) WL_TRY(output_map(context, args, row, &params->map_d));

  fill_problem(args, params);
  params->sfd = address_of(args.sfd);
  params->d_scale = address_of(args.d_scale);
  params->tiles_m = static_cast<uint32_t>(divide_up(args.m, 128 * row.cluster_m));
  params->tiles_n = static_cast<uint32_t>(divide_up(args.n, row.tile_n * row.cluster_n));
  params->tiles = params->tiles_m * params->tiles_n * static_cast<uint32_t>(args.l);
  // With one group of row tiles, weights are read once and need not stay in L2.
  params->policy_a = ptx::cache_evict_normal;
  params->policy_b = params->tiles_m <= static_cast<uint32_t>(row.group_m)
                         ? ptx::cache_evict_first
                         : ptx::cache_evict_normal;
  return WL_SUCCESS;
}

void log_args(const wl_dual_gemm_args& args) {
  WL_LOG(log_arguments,
         "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", L %" PRId64 ", A %p, B1 %p, B2 %p, SFA %p, "
         "SFB1 %p, SFB2 %p, alpha1 %p, alpha2 %p, D %p, d_type %d, ldd %" PRId64
         ", batch_stride_d %" PRId64 ", flags 0x%x, config %s",
         args.m, args.n, args.k, args.l, args.a, args.b1, args.b2, args.sfa, args.sfb1, args.sfb2,
         static_cast<const void*>(args.alpha1), static_cast<const void*>(args.alpha2), args.d,
         static_cast<int>(args.d_type), args.ldd, args.batch_stride_d, args.flags,
         args.config != nullptr ? args.config : "(chosen)");
}

wl_status check(wl_context* context, const wl_dual_gemm_args* args) {
  return check_args(context, args, "wl_dual_gemm_args", rules(), log_args);
}

// A launch of one cluster.
LaunchConfig cluster_launch(const Row& row) {
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(row.cluster[0]);
  config.block[0] = static_cast<unsigned>(row.threads);
  std::copy(row.cluster, row.cluster + 3, config.cluster);
  config.dynamic_shared_bytes = static_cast<unsigned>(row.shared_bytes);
  return config;
}

wl_status load_row(wl_context* context, const Row& row, const Kernel** kernel) {
  KernelNeeds needs;
  needs.params = param_layout();
  needs.dynamic_shared_bytes = row.shared_bytes;
  return load_kernel(*context, row.image(), needs, kernel);
}

// What the driver says of the row's clusters, into `device` and for later plans: a CTA of any sm100
// row fills an SM, so it holds for all rows with clusters of the size.
void learn_resident_clusters(wl_context* context, const Row& row, const Kernel& kernel,
                             DeviceLimits* device) {
  const int size = row.cluster[0];
  if (size < 2 || size > DeviceLimits::largest_cluster) return;
  const int said = resident_clusters(*context, kernel, cluster_launch(row));
  device->resident_clusters[size] = said;
  context->resident_clusters[size].store(said, std::memory_order_relaxed);
}

// The driver answers for a loaded kernel only, so the first choice rests on an estimate. That is
// never below the answer: a row that is still the best with its answer known is the best with all
// answers known, whatever plans were made before.
wl_status choose_asking(wl_context* context, const Problem& problem, DeviceLimits* device,
                        const Row** chosen) {
  for (;;) {
    const Row* row = *chosen = choose_row(problem, *device);
    if (row == nullptr || row->decodes) return WL_SUCCESS;
    const int64_t estimate = resident_clusters(row->cluster[0], *device);
    if (device->resident_clusters[row->cluster[0]] != 0) return WL_SUCCESS;
    const Kernel* kernel = nullptr;
    WL_TRY(load_row(context, *row, &kernel));
    learn_resident_clusters(context, *row, *kernel, device);
    if (resident_clusters(row->cluster[0], *device) == estimate) return WL_SUCCESS;
  }
}

wl_status make_plan(wl_context* context, const wl_dual_gemm_args& args, wl_plan** plan) {
  DeviceLimits device = known_limits(*context);
  const Problem problem = problem_of(args);
  const Row* row = nullptr;
  if (args.config != nullptr)
    row = find_row(args.config);
  else
    WL_TRY(choose_asking(context, problem, &device, &row));
  if (row == nullptr) {
    std::vector<std::pair<std::string, int>> counts; // of rows, by reason
    std::string reason, reasons;
    for (const Row& candidate : rows()) {
      if (can_run(candidate, args.d_type, context->limits, &reason)) continue;
      const auto same = [&](const auto& entry) { return entry.first == reason; };
      const auto found = std::find_if(counts.begin(), counts.end(), same);
      if (found == counts.end())
        counts.emplace_back(reason, 1);
      else
        ++found->second;
    }
    for (const auto& [why, count] : counts)
      reasons += (reasons.empty() ? "" : "; ") + std::to_string(count) + " rows: " + why;
    return fail(WL_ERROR_NOT_SUPPORTED, "no configuration makes %s on %s: %s",
                dtype_name(args.d_type), context->limits.name.c_str(), reasons.c_str());
  }

  if (row->fused) return make_sm90_small_plan(context, args, *row, plan);
  if (row->decodes) return make_sm90_plan(context, args, *row, plan);

  auto made = std::make_unique<wl_plan>(context);
  const Kernel* kernel = nullptr;
  WL_TRY(load_row(context, *row, &kernel));
  learn_resident_clusters(context, *row, *kernel, &device);
  Params params{};
  WL_TRY(fill_params(*context, args, *row, &params));

  LaunchConfig config = cluster_launch(*row);
  const int64_t clusters = sm100_clusters(*row, problem, device);
  config.grid[0] *= static_cast<unsigned>(clusters);
  if (row->grid == Grid::stream_k) {
    const int64_t k_tiles = sm100_all_k_tiles(*row, problem);
    params.k_share = static_cast<uint32_t>(k_tiles / clusters);
    params.k_extra = static_cast<uint32_t>(k_tiles % clusters);
  }
  WL_TRY(
      made->add(*kernel, config, params, offsetof(Params, workspace), offsetof(Params, flag_up)));

  wl_plan_info& info = made->info;
  fill_info(*row, *kernel, config, &info);
  if (row->grid == Grid::stream_k)
    info.workspace_bytes = config.grid[0] * static_cast<size_t>(sm100_part_bytes(row->tile_n));

  *plan = made.release();
  return WL_SUCCESS;
}

} // namespace

// SFA, SFB1 or SFB2: an atom of 512 bytes is the inner dimension, as 256 16-bit elements because a
// box has at most 256 of them; then atoms along K, blocks of 128 rows, batch entries.
wl_status scale_map(const wl_context& context, const char* name, const void* address, int64_t rows,
                    const wl_dual_gemm_args& args, int box_atoms, cuapi::CUtensorMap* map,
                    int box_blocks, int box_lines) {
  const auto atoms = static_cast<uint64_t>(args.k) / 64;
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
  desc.dims[3] = static_cast<uint64_t>(args.l);
  desc.strides[0] = ptx::scale_atom_bytes;
  desc.strides[1] = atoms * ptx::scale_atom_bytes;
  desc.strides[2] = blocks * atoms * ptx::scale_atom_bytes;
  desc.box[0] = static_cast<uint32_t>(box_lines * (ptx::scale_atom_bytes / 32 / 2));
  desc.box[1] = static_cast<uint32_t>(box_atoms);
  desc.box[2] = static_cast<uint32_t>(box_blocks);
  desc.l2_promotion = box_lines == 32 ? cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                      : cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return make_tensor_map(context, desc, map);
}

void fill_info(const Row& row, const Kernel& kernel, const LaunchConfig& config,
               wl_plan_info* info) {
  report_launch(row.name, kernel, config, info);
  info->tile_m = row.tile_m;
  info->tile_n = row.tile_n;
  info->tile_k = row.tile_k;
  info->stages = row.stages;
}

} // namespace warpline::dual_gemm

wl_status wl_dual_gemm_check(wl_context* context, const wl_dual_gemm_args* args) {
  return warpline::api("wl_dual_gemm_check",
                       [&] { return warpline::dual_gemm::check(context, args); });
}

wl_status wl_dual_gemm_plan(wl_context* context, const wl_dual_gemm_args* args, wl_plan** plan) {
  return warpline::api("wl_dual_gemm_plan", [&] {
    return warpline::plan_args(context, args, plan, warpline::dual_gemm::check,
                               warpline::dual_gemm::make_plan, warpline::dual_gemm::operands);
  });
}
