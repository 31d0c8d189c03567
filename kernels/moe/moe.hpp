// wl_moe: the rules of its arguments and the work of its parts. The public contract is in
// warpline.h.
#pragma once

#include "kernels/grouped/grouped.hpp"
#include "kernels/moe/parts.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"
#include "runtime/src/strided.hpp"

#include <vector>

namespace warpline::moe {

constexpr int64_t most_local_experts = 512; // groups of a product
constexpr int64_t largest_width = int64_t{1} << 20;

struct Subject {
  const wl_moe_args& args;
  const DeviceLimits& device;
  ContextMemory context{};
};
const RuleTable<Subject>& rules();

// What the arguments point to.
std::vector<Extent> operands(const wl_moe_args& args);

// Tokens, H, I, E and top_k are in their ranges, and so many slots are.
bool sized(const wl_moe_args& args);
inline int64_t slots_of(const wl_moe_args& args) { return args.tokens * args.top_k; }
Strided y_of(const wl_moe_args& args);
Strided shared_of(const wl_moe_args& args);

bool quantised(const wl_moe_args& args); // tokens are multiplied as NVFP4
// What h is on the device.
wl_dtype h_type(const wl_moe_args& args, const DeviceLimits& device);
wl_dtype rows_type(const wl_moe_args& args, const DeviceLimits& device);

// How tokens come to the first product: as NVFP4, in the order of experts or their own_order; in 16
// bits, copied into the order of experts; or the product gathers them, which not every
// configuration can. Routed: there is no order; few rows, a token's one behind the other, say which
// expert is theirs, and the first product quantises what is to be NVFP4. Summed: as routed, and the
// second product adds up a token's rows. Counted: as gathered, each product counts the rows of
// experts by itself, so that it need not wait for the order, and tokens are quantised in their own
// order if they are to be.
enum class Tokens { quantised, copied, gathered, routed, summed, counted };
// Rows stand in no order.
inline bool without_order(Tokens tokens) {
  return tokens == Tokens::routed || tokens == Tokens::summed;
}
// What the arguments ask for where the choice is not the plan's: of names of configurations.
Tokens asked_for(const wl_moe_args& args);

// Whether the library chooses Tokens::routed or Tokens::summed: what takes least by the model.
bool needs_no_order(const wl_moe_args& args, const DeviceLimits& device);
// And which: the sum is the second product's where its CTAs fit in two waves and it would take no
// longer.
bool sums_in_product(const wl_moe_args& args, const DeviceLimits& device);

// What config_up and config_down name.
const gemm::Table& up_configs();
const gemm::Table& down_configs();

// Where the parts leave what the next ones read: bytes from the start of the workspace.
struct Space {
  size_t group_ends, rows, positions; // of the order
  size_t cleared;                     // zeros of the second product, numbers of tiles
  size_t a, sfa;                      // tokens that are quantised, or copied into it
  size_t h, sfh, down;                // h and rows of the down products
  size_t products;                    // the products' own
};
// With h_in_order h comes to the second product's order in the first, gemm::Groups::in_order.
Space space_of(const wl_moe_args& args, const DeviceLimits& device, Tokens tokens,
               bool h_in_order = false);

// The parts, of operands in a workspace at `workspace`. A plan is made for a place that is none.
struct Parts {
  bool routed = false, summed = false, counted = false, h_in_order = false;
  // When this product starts, all work ahead of the layer has ended, and the order's CTAs have
  // waited for that work before they let another grid start.
  bool up_knows_weights = false;
  // And grids that may still run write nothing of the order that is read ahead of a wait. Of up: a
  // part stands between, all of whose CTAs wait for the order before they let up start; or up makes
  // it. Of down: up waits so itself, which its configuration decides.
  bool up_knows_order = false, down_knows_order = false;
  Permutation order;
  Quantisation quantised;
  Spreading copied;
  wl_grouped_dual_gemm_args up;
  wl_grouped_gemm_args down;
  Combination sum;
};
Parts parts_of(const wl_moe_args& args, const DeviceLimits& device, Tokens tokens,
               const void* workspace, bool h_in_order = false);
gemm::Problem up_problem(const Parts& parts);
gemm::Problem down_problem(const Parts& parts);

} // namespace warpline::moe
