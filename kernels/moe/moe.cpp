// wl_moe_check, wl_moe_plan and wl_moe_run: the parts in a row, each reading what the one ahead
// left in the workspace.
#include "kernels/moe/moe.hpp"

#include "kernels/gemm/engine.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/operation.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <memory>
#include <utility>

namespace warpline::moe {

namespace {

// Where a plan's parts are made for. Any run moves them to a workspace.
constexpr uintptr_t no_place = 1 << 20;

constexpr size_t section_alignment = 256;

size_t put(size_t bytes, size_t* end) {
  const size_t at = *end;
  *end = (at + bytes + section_alignment - 1) / section_alignment * section_alignment;
  return at;
}

// Of the second product, for tokens of its MMAs that tiles do not have.
size_t zero_bytes_of(bool h_in_order) { return h_in_order ? gemm::sm90_group_zero_bytes : 0; }

size_t element_bytes(wl_dtype type) { return type == WL_F32 ? 4 : 2; }

void log_args(const wl_moe_args& args) {
  WL_LOG(log_arguments,
         "T %" PRId64 ", H %" PRId64 ", I %" PRId64 ", E %" PRId64 ", top_k %" PRId64
         ", first_expert %" PRId64 ", x %p, x_type %d, a_type %d, ids %p, weights %p, w_gate %p, "
         "w_up %p, w_down %p, shared %p, y %p, y_type %d, ldy %" PRId64
         ", gate %d, flags 0x%x, configs %s, %s",
         args.tokens, args.hidden, args.intermediate, args.experts, args.top_k, args.first_expert,
         args.x, static_cast<int>(args.x_type), static_cast<int>(args.a_type),
         static_cast<const void*>(args.ids), static_cast<const void*>(args.weights), args.w_gate,
         args.w_up, args.w_down, args.shared, args.y, static_cast<int>(args.y_type), args.ldy,
         static_cast<int>(args.gate), args.flags,
         args.config_up != nullptr ? args.config_up : "(chosen)",
         args.config_down != nullptr ? args.config_down : "(chosen)");
}

wl_status check(wl_context* context, const wl_moe_args* args) {
  return check_args(context, args, "wl_moe_args", rules(), log_args);
}

struct OwnedPlan {
  wl_plan* plan = nullptr;
  OwnedPlan() = default;
  OwnedPlan(const OwnedPlan&) = delete;
  OwnedPlan& operator=(const OwnedPlan&) = delete;
  ~OwnedPlan() { wl_plan_destroy(plan); }
};

// Bytes of DRAM a clock, as the models of the products have it, of what a copy reads and writes and
// the product reads again; and the launch.
double copy_clocks(const wl_moe_args& args) {
  const double row = 2.0 * static_cast<double>(args.hidden);
  return 2 * static_cast<double>(slots_of(args)) * row / 2400 + 3000;
}

// What rows without an order do without: clocks of its launch, and of the tables of groups ahead of
// both products. These take more with few rows than the model says, which knows no more than the
// mean of experts' rows: the mean of both routings of h200_moe.md, 3 to 5 tokens of Qwen3 and
// GPT-OSS and 8 of DeepSeek-V3.
constexpr double order_clocks = 15600, order_times = 1.1;

// Clocks that the sum's launch costs where both products take as long: on an H200 the sum in the
// product took 0.3 to 0.7 us less then, and is chosen up to 1.1 us more for the host, which has a
// launch less.
constexpr double sum_clocks = 2000;

// Tokens are quantised by a launch of their own.
bool quantises(const wl_moe_args& args, Tokens as) {
  return as == Tokens::quantised || (as == Tokens::counted && quantised(args));
}
// The first product gathers tokens.
bool gathers(const DeviceLimits& device, Tokens as) {
  return as == Tokens::gathered || as == Tokens::counted ||
         (as == Tokens::quantised && own_order(device));
}

// Both products by the model; infinity where one of them has no configuration.
double product_clocks(const wl_moe_args& args, const DeviceLimits& device, Tokens as) {
  const Parts parts = parts_of(args, device, as, nullptr);
  double clocks = 0;
  for (const auto& [table, problem] : {std::pair{&up_configs(), up_problem(parts)},
                                       std::pair{&down_configs(), down_problem(parts)}}) {
    const gemm::Config* const config = gemm::choose(*table, problem, device);
    if (config == nullptr) return HUGE_VAL;
    clocks += gemm::cost(*config, problem, device).total;
  }
  return clocks;
}

// Whether both products may count the rows of experts, the first one being `up`.
bool counts(const wl_moe_args& args, const DeviceLimits& device, const gemm::Config& up) {
  if (!up.counts() || args.sf_layout != WL_SF_128x4 || slots_of(args) > gemm::Groups::most_counted)
    return false;
  const gemm::Problem down = down_problem(parts_of(args, device, asked_for(args), nullptr));
  const gemm::Config* const config = args.config_down != nullptr
                                         ? find_config(down_configs(), args.config_down)
                                         : gemm::choose(down_configs(), down, device);
  return config != nullptr && config->counts();
}

// How tokens come to the first product where there is an order, and its configuration: what takes
// least by the model.
wl_status choose_ordered_up(wl_context* context, const wl_moe_args& args, Tokens* as,
                            const gemm::Config** config) {
  const gemm::Table& table = up_configs();
  const DeviceLimits& device = context->limits;
  *as = !needs_no_order(args, device)   ? asked_for(args)
        : sums_in_product(args, device) ? Tokens::summed
                                        : Tokens::routed;
  const gemm::Problem dense = up_problem(parts_of(args, device, *as, nullptr));
  if (*as == Tokens::copied) {
    const gemm::Problem gathered = up_problem(parts_of(args, device, Tokens::gathered, nullptr));
    const gemm::Config* const one = args.config_up != nullptr
                                        ? find_config(table, args.config_up)
                                        : gemm::choose(table, gathered, device);
    const gemm::Config* const other =
        args.config_up != nullptr ? one : gemm::choose(table, dense, device);
    const bool gathers = one != nullptr && gemm::can_run(*one, gathered, device, nullptr);
    if (gathers &&
        (other == nullptr || gemm::cost(*one, gathered, device).total <=
                                 gemm::cost(*other, dense, device).total + copy_clocks(args))) {
      *as = Tokens::gathered;
      *config = one;
      return WL_SUCCESS;
    }
  }
  return gemm::take(context, table, dense, args.config_up, config);
}

wl_status choose_up(wl_context* context, const wl_moe_args& args, Tokens* as,
                    const gemm::Config** config) {
  WL_TRY(choose_ordered_up(context, args, as, config));
  if (counts(args, context->limits, **config)) *as = Tokens::counted;
  return WL_SUCCESS;
}

wl_status run_product(const wl_plan& plan, const gemm::Problem& problem, void* workspace,
                      wl_stream stream) {
  const auto& product = static_cast<const gemm::PlannedProduct&>(*plan.problem);
  return product.run(plan, problem, workspace, stream);
}

class PlannedMoe final : public PlannedArgs<wl_moe_args> {
public:
  using PlannedArgs::PlannedArgs;

  wl_status make(wl_context* context, const wl_moe_args& of, wl_plan* whole) {
    const gemm::Config* up = nullptr;
    WL_TRY(choose_up(context, of, &as_, &up));
    up_config_ = up;
    const gemm::Config* down = nullptr;
    WL_TRY(gemm::take(context, down_configs(),
                      down_problem(parts_with(of, context->limits, *up, nullptr)), of.config_down,
                      &down));
    h_in_order_ = up->orders_d() && down->takes_ordered() && of.sf_layout == WL_SF_128x4 &&
                  of.intermediate % 128 == 0;
    const Parts parts = parts_with(of, context->limits, *up, nullptr);
    if (!without_order(as_)) WL_TRY(make_part_plan(context, parts.order, &order_.plan));
    if (quantises(of, as_))
      WL_TRY(make_part_plan(context, parts.quantised, &tokens_.plan));
    else if (as_ == Tokens::copied)
      WL_TRY(make_part_plan(context, parts.copied, &tokens_.plan));
    WL_TRY(gemm::make_product_plan(context, up_problem(parts), *up, &up_.plan));
    WL_TRY(gemm::make_product_plan(context, down_problem(parts), *down, &down_.plan));
    if (as_ != Tokens::summed) WL_TRY(make_part_plan(context, parts.sum, &sum_.plan));

    // The product that most of the time goes to is what a plan tells of.
    wl_plan_info& info = whole->info;
    info = up_.plan->info;
    info.launches = 0, info.load_ms = 0, info.precompiled = 1;
    for (const OwnedPlan* part : {&order_, &tokens_, &up_, &down_, &sum_}) {
      if (part->plan == nullptr) continue;
      info.launches += part->plan->info.launches;
      info.load_ms += part->plan->info.load_ms;
      info.precompiled = info.precompiled && part->plan->info.precompiled;
    }
    // One product's own workspace is another's when it has ended.
    info.workspace_bytes =
        space_of(of, context->limits, as_, h_in_order_).products +
        std::max(up_.plan->info.workspace_bytes, down_.plan->info.workspace_bytes);
    return WL_SUCCESS;
  }

  // With the plan's configurations. Allocates nothing.
  wl_status run(const wl_plan& plan, const wl_moe_args& of, void* workspace,
                wl_stream stream) const override {
    const DeviceLimits& device = plan.context->limits;
    const Parts parts = parts_with(of, device, *up_config_, workspace);
    void* const own =
        static_cast<std::byte*>(workspace) + space_of(of, device, as_, h_in_order_).products;
    if (!without_order(as_)) WL_TRY(run_part(*order_.plan, parts.order, stream));
    if (quantises(of, as_))
      WL_TRY(run_part(*tokens_.plan, parts.quantised, stream));
    else if (as_ == Tokens::copied)
      WL_TRY(run_part(*tokens_.plan, parts.copied, stream));
    WL_TRY(run_product(*up_.plan, up_problem(parts), own, stream));
    WL_TRY(run_product(*down_.plan, down_problem(parts), own, stream));
    if (as_ == Tokens::summed) return WL_SUCCESS;
    return run_part(*sum_.plan, parts.sum, stream);
  }

private:
  Parts parts_with(const wl_moe_args& args, const DeviceLimits& device, const gemm::Config& up,
                   const void* workspace) const {
    Parts parts = parts_of(args, device, as_, workspace, h_in_order_);
    parts.down_knows_order = up.lets_next_start_late();
    parts.sum.known = parts.down_knows_order;
    return parts;
  }

  Tokens as_ = Tokens::quantised;
  const gemm::Config* up_config_ = nullptr;
  bool h_in_order_ = false;
  OwnedPlan order_, tokens_, up_, down_, sum_;
};

void compare_with_plan(const wl_moe_args& planned, const wl_moe_args& args,
                       const PlanRules& rules) {
  rules.at_most("plan_tokens", "T", "must be at most the tokens that the plan was made for",
                args.tokens, planned.tokens);
  rules.equal("plan_hidden", "H", args.hidden, planned.hidden);
  rules.equal("plan_intermediate", "I", args.intermediate, planned.intermediate);
  rules.equal("plan_experts", "E", args.experts, planned.experts);
  rules.equal("plan_top_k", "top_k", args.top_k, planned.top_k);
  rules.equal("plan_x_type", "x_type", args.x_type, planned.x_type);
  rules.equal("plan_a_type", "a_type", args.a_type, planned.a_type);
  rules.equal("plan_sf_layout", "sf_layout", args.sf_layout, planned.sf_layout);
  rules.equal("plan_y_type", "y_type", args.y_type, planned.y_type);
}

} // namespace

Space space_of(const wl_moe_args& args, const DeviceLimits& device, Tokens tokens,
               bool h_in_order) {
  const auto slots = static_cast<size_t>(slots_of(args));
  const auto hidden = static_cast<size_t>(args.hidden);
  const auto intermediate = static_cast<size_t>(args.intermediate);
  const auto tiles = static_cast<size_t>(scale_tiles(slots_of(args), args.experts));
  const wl_dtype h = h_type(args, device);
  Space space{};
  size_t end = 0;
  if (!without_order(tokens)) {
    space.group_ends = put(4 * static_cast<size_t>(args.experts), &end);
    space.rows = put(4 * slots, &end);
    space.cleared = put(zero_bytes_of(h_in_order) + 2 * 4, &end);
  }
  if (tokens != Tokens::summed) space.positions = put(4 * slots, &end);
  if (quantises(args, tokens)) {
    const bool own = own_order(device);
    const auto own_tiles = static_cast<size_t>(scale_tiles(args.tokens, 1));
    space.a = put((own ? static_cast<size_t>(args.tokens) : slots) * hidden / 2, &end);
    space.sfa = put((own ? own_tiles : tiles) * 128 * (hidden / 16), &end);
  }
  if (tokens == Tokens::copied) space.a = put(2 * slots * hidden, &end);
  const size_t h_bytes = h == WL_NVFP4 ? slots * intermediate / 2 : 2 * slots * intermediate;
  space.h = put(h_in_order ? static_cast<size_t>(gemm::sm90_image_bytes(
                                 slots_of(args), args.experts, args.intermediate))
                           : h_bytes,
                &end);
  if (h == WL_NVFP4) space.sfh = put(tiles * 128 * (intermediate / 16), &end);
  if (tokens != Tokens::summed)
    space.down = put(element_bytes(rows_type(args, device)) * slots * hidden, &end);
  space.products = end;
  return space;
}

Parts parts_of(const wl_moe_args& a, const DeviceLimits& device, Tokens as, const void* workspace,
               bool h_in_order) {
  const Space space = space_of(a, device, as, h_in_order);
  const uintptr_t base = workspace != nullptr ? reinterpret_cast<uintptr_t>(workspace) : no_place;
  const auto at = [&](size_t offset) { return reinterpret_cast<void*>(base + offset); };
  const wl_dtype h = h_type(a, device), rows = rows_type(a, device);
  Parts parts{};
  parts.routed = without_order(as), parts.summed = as == Tokens::summed;
  parts.counted = as == Tokens::counted, parts.h_in_order = h_in_order;
  parts.up_knows_weights = device.compute_major == 9 && !without_order(as);
  parts.up_knows_order = parts.up_knows_weights && (as == Tokens::copied || parts.counted);

  Permutation& order = parts.order;
  order.tokens = a.tokens, order.top_k = a.top_k;
  order.experts = a.experts, order.first = a.first_expert;
  order.ids = a.ids;
  order.group_ends = static_cast<int32_t*>(at(space.group_ends));
  order.rows = static_cast<int32_t*>(at(space.rows));
  order.positions = static_cast<int32_t*>(at(space.positions));
  order.zero_bytes = static_cast<int64_t>(zero_bytes_of(h_in_order));
  if (!without_order(as)) order.cleared = static_cast<uint32_t*>(at(space.cleared));

  Spreading& copied = parts.copied;
  copied.order = order;
  copied.columns = a.hidden;
  copied.x = a.x, copied.d = at(space.a);

  Quantisation& tokens = parts.quantised;
  tokens.order = order;
  tokens.k = a.hidden;
  tokens.x = a.x, tokens.x_type = a.x_type, tokens.ldx = a.hidden;
  tokens.d = at(space.a), tokens.sfd = at(space.sfa), tokens.d_scale = a.x_scale;

  wl_groups groups{};
  groups.count = static_cast<int32_t>(a.experts);
  groups.ends = order.group_ends;

  wl_dual_gemm_args& up = parts.up.gemm;
  parts.up.struct_size = sizeof parts.up;
  parts.up.groups = groups;
  parts.up.groups.b_stride_bytes = a.w_stride_bytes;
  parts.up.groups.sfb_stride_bytes = a.sf_stride_bytes;
  up.struct_size = sizeof up;
  up.m = slots_of(a), up.n = a.intermediate, up.k = a.hidden, up.l = 1;
  up.a = a.x;
  if (quantises(a, as)) up.a = tokens.d, up.sfa = tokens.sfd;
  if (as == Tokens::copied) up.a = copied.d;
  if (gathers(device, as)) parts.up.groups.rows = order.rows, parts.up.groups.a_rows = a.tokens;
  up.b1 = a.w_gate, up.b2 = a.w_up, up.sfb1 = a.sf_gate, up.sfb2 = a.sf_up;
  up.alpha1 = a.alpha_gate, up.alpha2 = a.alpha_up;
  up.bias1 = a.bias_gate, up.bias2 = a.bias_up, up.bias_type = a.bias_type;
  up.gate = a.gate, up.gate_limit = a.gate_limit;
  up.d = at(space.h), up.d_type = h;
  if (h == WL_NVFP4) up.sfd = at(space.sfh), up.d_scale = a.h_scale;
  up.a_type = a.a_type, up.b_type = WL_OPERAND_NVFP4;
  up.sf_layout = a.sf_layout;
  up.config = a.config_up;
  up.flags = a.flags & WL_STATIC_WEIGHTS;

  wl_gemm_args& down = parts.down.gemm;
  parts.down.struct_size = sizeof parts.down;
  parts.down.groups = groups;
  parts.down.groups.b_stride_bytes = a.w_down_stride_bytes;
  parts.down.groups.sfb_stride_bytes = a.sf_down_stride_bytes;
  down.struct_size = sizeof down;
  down.m = up.m, down.n = a.hidden, down.k = a.intermediate, down.l = 1;
  down.a = up.d, down.sfa = up.sfd;
  down.b = a.w_down, down.sfb = a.sf_down;
  down.alpha = a.alpha_down;
  down.bias = a.bias_down, down.bias_type = a.bias_type;
  down.d = at(space.down), down.d_type = rows;
  down.a_type = h == WL_NVFP4 ? WL_OPERAND_NVFP4 : h == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  down.b_type = WL_OPERAND_NVFP4;
  down.sf_layout = a.sf_layout;
  down.config = a.config_down;
  down.flags = up.flags;

  Combination& sum = parts.sum;
  sum.tokens = a.tokens, sum.top_k = a.top_k, sum.columns = a.hidden;
  sum.row_count = slots_of(a);
  sum.rows = down.d, sum.rows_type = rows;
  sum.positions = order.positions;
  sum.weights = a.weights;
  sum.addend = a.shared, sum.ld_addend = shared_of(a).row_stride();
  sum.y = a.y, sum.ldy = y_of(a).row_stride(), sum.y_type = a.y_type;
  return parts;
}

namespace {

// Pairs say which expert is theirs.
gemm::Problem of_pairs_if(const Parts& parts, gemm::Problem problem, int64_t rows_each,
                          int32_t* positions) {
  if (!parts.routed && !parts.counted) return problem;
  gemm::Groups& groups = problem.groups;
  groups.counted = parts.counted;
  groups.ends = nullptr;
  groups.ids = parts.order.ids;
  groups.first_id = parts.order.first;
  if (parts.routed) groups.rows_each = rows_each, groups.positions = positions;
  return problem;
}

} // namespace

gemm::Problem up_problem(const Parts& parts) {
  gemm::Problem problem =
      of_pairs_if(parts, grouped::problem_of(grouped::DualArgs(parts.up)), parts.order.top_k,
                  parts.summed ? nullptr : parts.order.positions);
  if (problem.groups.rows != nullptr)
    problem.groups.sf_tile_count = scale_tiles(parts.order.tokens, 1);
  if (parts.routed) problem.groups.a_scale = parts.quantised.d_scale;
  if (parts.up_knows_weights) problem.flags |= WL_STATIC_WEIGHTS;
  problem.groups.known = parts.up_knows_order;
  problem.groups.in_order = parts.h_in_order;
  if (parts.order.cleared != nullptr) problem.groups.next_tile = parts.order.next_tile_up();
  return problem;
}
gemm::Problem down_problem(const Parts& parts) {
  gemm::Problem problem =
      of_pairs_if(parts, grouped::problem_of(grouped::LinearArgs(parts.down)), 1, nullptr);
  if (parts.down_knows_order) problem.flags |= WL_STATIC_WEIGHTS;
  problem.groups.known = parts.down_knows_order;
  problem.groups.in_order = parts.h_in_order;
  if (parts.order.cleared != nullptr) problem.groups.next_tile = parts.order.next_tile_down();
  if (!parts.summed) return problem;
  const Combination& sum = parts.sum;
  gemm::Groups::Sum& own = problem.groups.sum;
  own.each = sum.top_k, own.weights = sum.weights;
  own.addend = sum.addend, own.ld_addend = sum.ld_addend;
  own.y = sum.y, own.ldy = sum.ldy, own.y_type = sum.y_type;
  return problem;
}

bool needs_no_order(const wl_moe_args& args, const DeviceLimits& device) {
  if (args.config_up != nullptr || args.config_down != nullptr) return false;
  // Pairs that want the same expert read and decode its weights each, and a plan does not know how
  // many will: an expert has a row of each token at most. On an H200 4 tokens of Qwen3, 32 pairs,
  // took 0.87 of the time of ordered ones with even routing and as long with a skewed one; 5 tokens
  // of GPT-OSS, 20 pairs, 0.96 and 1.18.
  return slots_of(args) * args.tokens <= 128 &&
         product_clocks(args, device, Tokens::routed) <
             product_clocks(args, device, asked_for(args)) * order_times + order_clocks;
}

bool sums_in_product(const wl_moe_args& args, const DeviceLimits& device) {
  const auto cost = [&](Tokens as) {
    const gemm::Problem problem = down_problem(parts_of(args, device, as, nullptr));
    const gemm::Config* const config = gemm::choose(down_configs(), problem, device);
    if (config != nullptr) return gemm::cost(*config, problem, device);
    gemm::Cost none{};
    none.total = HUGE_VAL;
    return none;
  };
  const gemm::Cost summed = cost(Tokens::summed), routed = cost(Tokens::routed);
  return summed.waves <= 2 && summed.total <= routed.total + sum_clocks;
}

Tokens asked_for(const wl_moe_args& args) {
  bool routed = false;
  for (const auto& [table, name] :
       {std::pair{&up_configs(), args.config_up}, std::pair{&down_configs(), args.config_down}}) {
    const gemm::Config* const config = name != nullptr ? find_config(*table, name) : nullptr;
    if (config != nullptr && config->summed) return Tokens::summed;
    if (config != nullptr && config->routed) routed = true;
  }
  if (routed) return Tokens::routed;
  return quantised(args) ? Tokens::quantised : Tokens::copied;
}

} // namespace warpline::moe

wl_status wl_moe_check(wl_context* context, const wl_moe_args* args) {
  return warpline::api("wl_moe_check", [&] { return warpline::moe::check(context, args); });
}

wl_status wl_moe_plan(wl_context* context, const wl_moe_args* args, wl_plan** plan) {
  return warpline::api("wl_moe_plan", [&] {
    return warpline::plan_args(context, args, plan, warpline::moe::check,
                               warpline::plan_of_parts<warpline::moe::PlannedMoe, wl_moe_args>,
                               warpline::moe::operands);
  });
}

wl_status wl_moe_run(const wl_plan* plan, const wl_moe_args* args, void* workspace,
                     size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_moe_run", [&] {
    return warpline::run_args(plan, args, "wl_moe_args", warpline::moe::rules(),
                              warpline::moe::log_args, warpline::moe::compare_with_plan,
                              warpline::moe::operands, workspace, workspace_bytes, stream);
  });
}
