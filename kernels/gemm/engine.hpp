// The engine's host side: what a configuration costs, which one to take, and plans. An operation
// brings its table of configurations and a Problem; nothing here knows which operation it is.
#pragma once

#include "kernels/gemm/config.hpp"
#include "kernels/gemm/problem.hpp"
#include "runtime/src/context.hpp"
#include "runtime/src/cuda_api.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/tensor_map.hpp"

#include <bit>
#include <memory>
#include <string>
#include <vector>

namespace warpline::gemm {

using Table = std::vector<Config>;

// ---- costs --------------------------------------------------------------------------------------

// What a configuration would do with a problem, in SM clocks; see the models at sm100_cost and
// sm90_cost.
struct Cost {
  int64_t tiles, waves; // tiles of a cluster; waves: tiles of the busiest cluster, rounded up
  int64_t clusters;     // that are launched
  double loop_clocks;   // main loops of the busiest cluster
  double tile_clocks;   // main loop of one tile
  double epilogue_clocks;
  double memory_clocks; // floor: every byte of the problem once through DRAM
  double total;
};
Cost cost(const Config& config, const Problem& problem, const DeviceLimits& device);
Cost sm100_cost(const Config& config, const Problem& problem, const DeviceLimits& device);

// Clusters of `size` CTAs that are taken to be resident at once: what the driver said, at most the
// estimate from the number of SMs.
int64_t resident_clusters(int size, const DeviceLimits& device);
int64_t most_resident_clusters(int size, const DeviceLimits& device);

// K tiles of all tiles of an sm100 configuration, and the fewest that a cluster of a STREAM_K one
// takes.
int64_t sm100_all_k_tiles(const Config& config, const Problem& problem);
constexpr int64_t sm100_least_share = 4;
// Clusters that a plan of an sm100 configuration launches.
int64_t sm100_clusters(const Config& config, const Problem& problem, const DeviceLimits& device);

// Bytes that TMA reads from L2 for each operand over a whole problem, and that arrive in shared
// memory: a multicast box is read once and arrives once in each CTA. Boxes count whole, parts
// beyond the tensors included. Zero for configurations of other families.
struct Traffic {
  int64_t a = 0, b = 0, sfa = 0, sfb = 0;
  int64_t delivered = 0;
  int64_t total() const { return a + b + sfa + sfb; }
};
Traffic traffic(const Config& config, const Problem& problem);
// Every byte of A, of the tensors of B and of their scales once.
int64_t least_traffic(const Problem& problem, int b_tensors = 2);

// ---- choice -------------------------------------------------------------------------------------

const char* dtype_name(wl_dtype type); // "WL_F16"

// Of groups nobody knows how rows spread over them: taken is that each row goes to any group, so
// that a group has M / E rows on average and e^-(M / E) of the groups have none.
struct Spread {
  double groups; // that have rows
  double tiles;  // row tiles of all groups
};
Spread spread(const Problem& problem, int tile_rows);

// Whether the configuration's kernel runs on the device, takes the operands' types and makes the
// output's; `reason` says why not.
bool can_run(const Config& config, const Types& types, wl_dtype d_type, const DeviceLimits& device,
             std::string* reason);
// The same, and whether it can count the problem's work.
bool can_run(const Config& config, const Problem& problem, const DeviceLimits& device,
             std::string* reason);

// Whether the library may take the configuration by itself: sums of fewer bits are asked for.
bool may_choose(const Config& config, const Problem& problem);

// The runnable configuration of the lowest cost that it may take, the first in the table among
// equals; null when none runs.
const Config* choose(const Table& table, const Problem& problem, const DeviceLimits& device);

// The configurations of the problem's types, best first, those that cannot run last.
std::vector<wl_dual_gemm_config> candidates(const Table& table, const Problem& problem,
                                            const DeviceLimits& device);

// ---- tables -------------------------------------------------------------------------------------

// An entry of a table, of the columns of configs.def; `b_tensors` is the form's.
inline Config sm100_config(const char* name, Image (*image)(), int b_tensors, wl_dtype out,
                           Store store, Epilogue epilogue, int cta_group, int cluster_m,
                           int cluster_n, int split, int tile_n, int stages, int acc_stages,
                           int scale_sets, Grid grid, int group_m) {
  Config c{};
  c.name = name, c.target = "sm_100f", c.image = image;
  c.family = Family::sm100, c.d_type = out, c.b_tensors = b_tensors;
  c.tile_m = 128 * cta_group, c.tile_n = tile_n, c.tile_k = 256;
  c.stages = stages, c.acc_stages = acc_stages, c.group_m = group_m;
  c.cluster[0] = cluster_m * cluster_n * split, c.cluster[1] = c.cluster[2] = 1;
  c.threads = 384;
  c.split_k = split, c.cta_group = cta_group, c.cluster_m = cluster_m, c.cluster_n = cluster_n;
  c.scale_sets = scale_sets, c.grid = grid, c.store = store, c.epilogue = epilogue;
  c.shared_bytes = sm100_shared_bytes(c);
  return c;
}

// Swapped: 128 columns of one product, up to 64 rows.
inline Config sm100_swapped_config(const char* name, Image (*image)(), int b_tensors, wl_dtype out,
                                   int split, int stages, int group_m) {
  Config c{};
  c.name = name, c.target = "sm_100f", c.image = image;
  c.family = Family::sm100, c.d_type = out, c.b_tensors = b_tensors, c.swapped = true;
  c.tile_m = 64, c.tile_n = 128, c.tile_k = 256;
  c.stages = c.scale_sets = stages, c.acc_stages = split == 1 ? 2 : 1, c.group_m = group_m;
  c.cluster[0] = split, c.cluster[1] = c.cluster[2] = 1;
  c.threads = 384;
  c.split_k = split, c.grid = split == 1 ? Grid::persistent : Grid::one_tile;
  c.shared_bytes = sm100_shared_bytes(c);
  return c;
}

// Operands without block scales.
inline Config sm100_plain_config(const char* name, Image (*image)(), int b_tensors, wl_dtype out,
                                 Kind kind, int cta_group, int split, int tile_n, int stages,
                                 int acc_stages, Grid grid, int group_m) {
  Config c = sm100_config(name, image, b_tensors, out, Store::direct, Epilogue::both, cta_group,
                          cta_group, 1, split, tile_n, stages, acc_stages, 0, grid, group_m);
  c.kind = kind;
  c.tile_k = kind == Kind::tf32 ? 32 : kind == Kind::h16 ? 64 : 128;
  const auto takes = [&](uint32_t types, bool one_type) {
    c.a_types = c.b_types = types, c.one_type = one_type;
  };
  if (kind == Kind::h16) takes(bit(WL_OPERAND_F16) | bit(WL_OPERAND_BF16), true);
  c.decodes_b = kind == Kind::h16;
  if (kind == Kind::f8) takes(bit(WL_OPERAND_E4M3) | bit(WL_OPERAND_E5M2), false);
  if (kind == Kind::tf32) takes(bit(WL_OPERAND_TF32), true);
  if (kind == Kind::i8) takes(bit(WL_OPERAND_INT8), true), c.target = "sm_100a";
  c.column_factors = b_tensors == 1 && (kind == Kind::f8 || kind == Kind::i8);
  c.shared_bytes = sm100_shared_bytes(c);
  return c;
}

// Operands of the types of 32 to a scale.
inline Config sm100_mx_config(const char* name, Image (*image)(), int b_tensors, wl_dtype out,
                              int cta_group, int tile_n, int stages, int acc_stages, Grid grid,
                              int group_m) {
  Config c = sm100_config(name, image, b_tensors, out, Store::direct, Epilogue::both, cta_group,
                          cta_group, 1, 1, tile_n, stages, acc_stages, stages, grid, group_m);
  c.kind = Kind::mx, c.tile_k = 128;
  c.a_types = c.b_types = bit(WL_OPERAND_MXFP8_E4M3) | bit(WL_OPERAND_MXFP8_E5M2) |
                          bit(WL_OPERAND_MXFP6_E2M3) | bit(WL_OPERAND_MXFP6_E3M2) |
                          bit(WL_OPERAND_MXFP4);
  c.shared_bytes = sm100_shared_bytes(c);
  return c;
}

// Of groups of rows.
inline Config sm100_grouped(Config config) {
  config.grouped = true;
  config.decodes_b = config.column_factors = false;
  config.shared_bytes = sm100_shared_bytes(config);
  return config;
}

// ---- plans --------------------------------------------------------------------------------------

// The configuration of the name `forced`, or the chosen one where that is null. The context is
// current, the problem is checked.
wl_status take(wl_context* context, const Table& table, const Problem& problem, const char* forced,
               const Config** taken);

// What a plan keeps of its product, for runs with other operands.
struct PlannedProduct : PlannedProblem {
  PlannedProduct(const Problem& problem_, const Config& config_)
      : problem(problem_), config(&config_) {}
  // `other` differs from `problem` in operands, strides, bias type and activation, and may have
  // fewer rows. Allocates nothing. Called as wl_plan::run.
  virtual wl_status run(const wl_plan& plan, const Problem& other, void* workspace,
                        wl_stream stream) const = 0;

  const Problem problem;
  const Config* const config;
};

// With the plan's own operands, of a product that enqueues other kernels first.
struct RunProduct final : OwnRun {
  RunProduct(const wl_plan& plan_, const PlannedProduct& product_)
      : plan(plan_), product(product_) {}
  wl_status run(void* workspace, wl_stream stream) const override {
    return product.run(plan, product.problem, workspace, stream);
  }
  const wl_plan& plan;
  const PlannedProduct& product;
};
// A plan whose Product, derived from PlannedProduct, makes its parts: `make`(context, plan).
template <class Product>
wl_status plan_with_kernels_ahead(wl_context* context, const Problem& problem, const Config& config,
                                  wl_plan** plan) {
  auto made = std::make_unique<wl_plan>(context);
  auto product = std::make_unique<Product>(problem, config);
  WL_TRY(product->make(context, made.get()));
  made->own_run = std::make_unique<RunProduct>(*made, *product);
  made->problem = std::move(product);
  *plan = made.release();
  return WL_SUCCESS;
}

// Loads the kernels, builds tensor maps and launches, by the configuration's family.
wl_status make_product_plan(wl_context* context, const Problem& problem, const Config& config,
                            wl_plan** plan);
wl_status make_sm100_plan(wl_context* context, const Problem& problem, const Config& config,
                          wl_plan** plan);
// Of Config::decodes_ahead: the weights become A's type in the workspace, then the product.
wl_status make_decoding_plan(wl_context* context, const Problem& problem, const Config& config,
                             wl_plan** plan);
// Of plain_sfa or plain_sfb, on Hopper: the scales become atoms in the workspace, then the product.
wl_status make_packing_plan(wl_context* context, const Problem& problem, const Config& config,
                            wl_plan** plan);
// The product's own problem there; its weights are decoded from `weights` on, one tensor behind the
// other.
Problem decoded_problem(const Problem& problem, const void* weights, int b_tensors);

// What the driver says of resident clusters of an sm100 configuration, into `device` and for later
// plans.
wl_status learn_resident_clusters(wl_context* context, const Config& config, DeviceLimits* device);

// What every product's parameter block takes from the problem as it is.
template <class Params>
void fill_problem(const Problem& problem, Params* params) {
  const Operands& o = problem.operands;
  if constexpr (requires { params->d; }) { // else a tensor map has it
    params->d = address_of(o.d);
    params->ldd = static_cast<uint64_t>(problem.ldd);
    params->batch_stride_d = static_cast<uint64_t>(problem.batch_stride_d);
    params->ldr = static_cast<uint64_t>(problem.ldr);
    params->batch_stride_r = static_cast<uint64_t>(problem.batch_stride_r);
  }
  params->alpha1 = address_of(o.alpha[0]);
  params->bias1 = address_of(o.bias[0]);
  if constexpr (requires { params->alpha2; }) { // a second product
    params->alpha2 = address_of(o.alpha[1]);
    params->bias2 = address_of(o.bias[1]);
    params->limit = problem.activation.limit;
    params->up_limit = problem.activation.up_limit;
    params->up_offset = problem.activation.up_offset;
  }
  params->row_scales = address_of(o.row);
  params->residual = address_of(o.residual);
  params->m = static_cast<uint32_t>(problem.m);
  params->n = static_cast<uint32_t>(problem.n);
  params->k = static_cast<uint32_t>(problem.k);
  params->bias_type = static_cast<uint32_t>(problem.bias_type);
  params->activation = problem.activation.kind;
  params->c0 = problem.activation.c0;
  params->c1 = problem.activation.c1;
}

// What groups_params.def asks for, and what differs where there are groups: D has no entries.
template <class Params>
void fill_groups(const Problem& problem, Params* params) {
  const Groups& g = problem.groups;
  if constexpr (requires { params->batch_stride_d; })
    params->batch_stride_d = params->batch_stride_r = 0;
  params->group_ends = address_of(g.ends != nullptr ? g.ends : g.sizes);
  params->group_tiles = address_of(g.sf_tiles);
  params->group_rows = address_of(g.rows);
  params->group_status = address_of(g.status);
  params->groups = static_cast<uint32_t>(g.count);
  params->group_stride = g.sizes != nullptr ? static_cast<uint32_t>(g.row_stride) : 0;
  params->group_step = std::bit_floor(params->groups);
  params->last_a_row = static_cast<uint32_t>(g.rows_of_a(problem.m) - 1);
  params->last_tile = static_cast<uint32_t>(g.sf_tile_count - 1);
  params->bias_stride = static_cast<uint32_t>(g.bias_stride);
}

// Likewise routes_params.def.
template <class Params>
void fill_routes(const Problem& problem, Params* params) {
  const Groups& g = problem.groups;
  params->batch_stride_d = params->batch_stride_r = 0;
  params->ids = address_of(g.ids);
  params->positions = address_of(g.positions);
  params->matrices = static_cast<uint32_t>(g.count);
  params->first_id = static_cast<uint32_t>(g.first_id);
  params->rows_each = static_cast<uint32_t>(g.rows_each);
  params->bias_stride = static_cast<uint32_t>(g.bias_stride);
  params->a_scale = address_of(g.a_scale);
}

// Likewise sums_params.def.
template <class Params>
void fill_sums(const Problem& problem, Params* params) {
  const Groups::Sum& sum = problem.groups.sum;
  params->weights = address_of(sum.weights);
  params->addend = address_of(sum.addend);
  params->y = address_of(sum.y);
  params->ld_addend = static_cast<uint64_t>(sum.ld_addend);
  params->ldy = static_cast<uint64_t>(sum.ldy);
  params->y_type = static_cast<uint32_t>(sum.y_type);
}

// What DIVIDE of ptx/regs.inc divides by `count` with.
inline uint32_t reciprocal(uint32_t count) { return count ? UINT32_MAX / count : 0; }

// A tensor map of scales of `rows` rows: an atom of 512 bytes is the inner dimension, then
// `box_atoms` atoms along K, `box_blocks` blocks of 128 rows, batch entries. `box_lines` of an
// atom's 32 lines come together. `entry_stride`: bytes from entry to entry, 0 = dense.
wl_status scale_map(const wl_context& context, const char* name, const void* address, int64_t rows,
                    int64_t k, int64_t l, int box_atoms, cuapi::CUtensorMap* map,
                    int box_blocks = 1, int box_lines = 32, int64_t entry_stride = 0);

// Whether B and its scales lie alike but for where they start: groups of a run may lie at other
// strides than the plan's, entries of a batch may not.
inline bool same_strides(const Problem& one, const Problem& other) {
  return one.b_stride() == other.b_stride() && one.sfb_stride() == other.sfb_stride();
}

// A block whose maps are of the weights `from`, for those of `to`.
template <class Params>
wl_status move_weight_maps(const wl_context& context, const Operands& from, const Operands& to,
                           int b_tensors, Params* params) {
  cuapi::CUtensorMap* const maps[2][2] = {{&params->map_b1, &params->map_sfb1},
                                          {&params->map_b2, &params->map_sfb2}};
  for (int i = 0; i < b_tensors; ++i) {
    if (from.b[i] != to.b[i]) WL_TRY(move_tensor_map(context, to.b[i], maps[i][0]));
    if (from.sfb[i] != to.sfb[i]) WL_TRY(move_tensor_map(context, to.sfb[i], maps[i][1]));
  }
  return WL_SUCCESS;
}

// What every plan reports of its configuration, kernel and launch.
void fill_info(const Config& config, const Kernel& kernel, const LaunchConfig& launch,
               wl_plan_info* info);

} // namespace warpline::gemm
