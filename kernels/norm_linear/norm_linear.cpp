// wl_norm_linear_check, wl_norm_linear_plan, wl_norm_linear_run and wl_norm_linear_fold.
#include "kernels/norm_linear/norm_linear.hpp"

#include "kernels/gemm/rules.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/norm/rows.hpp"
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/operation.hpp"

#include <algorithm>
#include <cinttypes>
#include <memory>

#define SM100_NORM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_FOLD_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_RSTD_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NORM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_FOLD_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/norm_linear/configs.def"

namespace warpline::norm_linear {

namespace {

using Args = wl_norm_linear_args;

constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16;
constexpr wl_norm RMS = WL_NORM_RMS, LAYER = WL_NORM_LAYER;
constexpr End ROWS = End::rows, RSTD = End::rstd;

// The parameter block of the contract in fold.inc.
struct FoldParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/norm_linear/fold_params.def"
};

void log_args(const Args& a) {
  WL_LOG(log_arguments,
         "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", X %p, x_type %d, ldx %" PRId64
         ", norm %d, form %d, eps %g, gamma_type %d, gamma %p, beta %p, residual %p, ldr %" PRId64
         ", sum %p, W %p, w_type %d, SFW %p, sf_layout %d, a_scale %p, alpha %p, bias %p"
         ", bias_type %d, activation %d, D %p, d_type %d, ldd %" PRId64 ", flags 0x%x, config %s",
         a.m, a.n, a.k, a.x, static_cast<int>(a.x_type), a.ldx, static_cast<int>(a.norm),
         static_cast<int>(a.form), static_cast<double>(a.eps), static_cast<int>(a.gamma_type),
         a.gamma, a.beta, a.residual, a.ldr, a.sum, a.w, static_cast<int>(a.w_type), a.sfw,
         static_cast<int>(a.sf_layout), static_cast<const void*>(a.a_scale),
         static_cast<const void*>(a.alpha), a.bias, static_cast<int>(a.bias_type),
         static_cast<int>(a.activation), a.d, static_cast<int>(a.d_type), a.ldd, a.flags,
         a.config != nullptr ? a.config : "(chosen)");
}

wl_status check(wl_context* context, const Args* args) {
  return check_args(context, args, "wl_norm_linear_args", rules(), log_args);
}

// Where the workspace holds what: rows, factors or codes from its start on; scales; the product's.
struct Space {
  size_t scales = 0, product = 0;
};
size_t up_to_256(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
Space space_of(const Args& a) {
  if (a.w_type == WL_OPERAND_NVFP4) {
    const size_t codes = up_to_256(gemm::operand_bytes(WL_OPERAND_NVFP4, a.m, a.k, 1));
    return {codes, codes + up_to_256(gemm::scale_bytes(WL_OPERAND_NVFP4, a.m, a.k, 1))};
  }
  const auto numbers = static_cast<uint64_t>(a.form == WL_NORM_FOLDED ? 2 * a.m : a.m * a.k);
  return {0, up_to_256(2 * numbers)};
}

wl_quantize_args quantisation_of(const Args& a) {
  wl_quantize_args quantised{};
  quantised.x_type = a.x_type;
  quantised.norm = a.norm;
  quantised.m = a.m, quantised.k = a.k, quantised.l = 1;
  quantised.gamma = a.gamma, quantised.beta = a.beta;
  quantised.residual = a.residual;
  return quantised;
}

// The kernel that reads X; `quantiser`: its configuration where it makes codes, `normaliser`: else.
const Image* norm_image(const Args& a, const DeviceLimits& device, Image* image,
                        const quantize::Config** quantiser, const Config** normaliser) {
  *quantiser = nullptr, *normaliser = nullptr;
  if (a.w_type == WL_OPERAND_NVFP4) {
    *quantiser = quantize::chosen(quantisation_of(a), device);
    return *quantiser == nullptr ? nullptr : (*image = (*quantiser)->image(), image);
  }
  const End end = a.form == WL_NORM_FOLDED ? End::rstd : End::rows;
  for (const Config& config : configs())
    if (target_runs_on(config.target, device.compute_major, device.compute_minor) &&
        config.x_type == a.x_type && config.norm == a.norm && config.end == end &&
        takes(config, a.m, a.k, device.sm_count))
      return *normaliser = &config, *image = config.image(), image;
  return nullptr;
}

// Of rstd.inc.
norm::Work rows_of_warps(int64_t m) {
  norm::Work work{};
  work.team_warps = work.teams = 1;
  work.launch.grid[0] = static_cast<unsigned>(divide_up(m, 8));
  work.launch.block[0] = 256;
  work.launch.programmatic_dependent = true;
  return work;
}

// The norm's kernel, then the product, whose A or row factors lie in the workspace.
class Planned final : public PlannedArgs<Args> {
public:
  using PlannedArgs::PlannedArgs;

  wl_status make(wl_context* context, const Args& of, wl_plan* whole) {
    Image image{};
    if (norm_image(args, context->limits, &image, &quantiser_, &normaliser_) == nullptr)
      return fail(WL_ERROR_NOT_SUPPORTED, "no kernel normalises x_type %d on %s",
                  static_cast<int>(args.x_type), context->limits.name.c_str());
    const Kernel* kernel = nullptr;
    WL_TRY(norm::load(*context, image, &kernel));
    const norm::Work work = share_out(args, context->limits);
    norm_ = std::make_unique<wl_plan>(context);
    WL_TRY(norm_->add(*kernel, work.launch, params_of(args, work, nullptr)));

    const gemm::Problem problem = problem_of(args);
    const gemm::Config* config = nullptr;
    WL_TRY(gemm::take(context, linear::configs(), problem, of.config, &config));
    wl_plan* product = nullptr;
    WL_TRY(gemm::make_product_plan(context, problem, *config, &product));
    product_.reset(product);

    whole->info = product->info;
    whole->info.launches += 1;
    whole->info.load_ms += kernel->load_ms;
    whole->info.precompiled = whole->info.precompiled && kernel->precompiled;
    whole->info.workspace_bytes = space_of(args).product + product->info.workspace_bytes;
    return WL_SUCCESS;
  }

  wl_status run(const wl_plan& plan, const Args& of, void* workspace,
                wl_stream stream) const override {
    auto* const bytes = static_cast<std::byte*>(workspace);
    const Space space = space_of(of);
    const norm::Work work = share_out(of, plan.context->limits);
    const norm::Params params = params_of(of, work, bytes);
    const wl_plan::Instead instead[] = {{&params, &work.launch}};
    WL_TRY(norm_->run(nullptr, stream, instead));
    gemm::Problem problem = problem_of(of);
    if (of.form == WL_NORM_FOLDED)
      problem.operands.row = reinterpret_cast<const float*>(bytes);
    else
      problem.operands.a = bytes;
    if (of.w_type == WL_OPERAND_NVFP4) problem.operands.sfa = bytes + space.scales;
    const auto& product = static_cast<const gemm::PlannedProduct&>(*product_->problem);
    return product.run(*product_, problem, bytes + space.product, stream);
  }

private:
  norm::Work share_out(const Args& of, const DeviceLimits& device) const {
    const bool residual = of.residual != nullptr;
    if (quantiser_ != nullptr)
      return quantize::share_out_rows(quantisation_of(of), *quantiser_, device);
    if (normaliser_->parts != 0) return rows_of_warps(of.m);
    return norm::share_out(of.m, of.k, 1, residual, norm::tables(of.norm, of.gamma, of.beta),
                           device);
  }

  static norm::Params params_of(const Args& of, const norm::Work& work, std::byte* workspace) {
    norm::Rows rows;
    rows.m = of.m, rows.k = of.k;
    rows.x = of.x, rows.ldx = strided_x(of).row_stride();
    rows.residual = of.residual, rows.sum = of.sum, rows.ldr = strided_r(of).row_stride();
    rows.gamma = of.gamma, rows.beta = of.beta, rows.gamma_type = of.gamma_type;
    rows.eps = of.eps, rows.d_scale = of.a_scale;
    rows.d = workspace;
    if (of.w_type == WL_OPERAND_NVFP4) rows.sfd = workspace + space_of(of).scales;
    return norm::params_of(rows, work);
  }

  const quantize::Config* quantiser_ = nullptr; // where the norm's kernel makes codes
  const Config* normaliser_ = nullptr;          // where it makes something else
  std::unique_ptr<wl_plan> norm_, product_;
};

void compare_with_plan(const Args& planned, const Args& args, const PlanRules& rules) {
  rules.rows(args.m, planned.m);
  rules.equal("plan_n", "N", args.n, planned.n);
  rules.equal("plan_k", "K", args.k, planned.k);
  rules.equal("plan_x_type", "x_type", args.x_type, planned.x_type);
  rules.equal("plan_norm", "norm", args.norm, planned.norm);
  rules.equal("plan_form", "form", args.form, planned.form);
  rules.equal("plan_w_type", "w_type", args.w_type, planned.w_type);
  if (args.w_type == WL_OPERAND_NVFP4)
    rules.equal("plan_sf_layout", "sf_layout", args.sf_layout, planned.sf_layout);
  rules.equal("plan_d_type", "d_type", args.d_type, planned.d_type);
}

// Of the arguments what folding reads.
wl_status check_fold(wl_context* context, const Args* args, const void* w_folded,
                     const float* bias_folded) {
  WL_TRY(check_context(context));
  if (args == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "args is null");
  WL_TRY(check_struct_size("wl_norm_linear_args", args->struct_size, sizeof(Args)));
  static const char* const ids[] = {
      "device",          "n_range",      "n_multiple",     "k_range",     "k_multiple",
      "x_type",          "w_type",       "folded_weights", "norm",        "gamma_type",
      "bias_type",       "w_null",       "w_aligned",      "w_reachable", "gamma_aligned",
      "gamma_reachable", "beta_aligned", "beta_reachable", "beta_layer",  "bias_aligned",
      "bias_reachable"};
  const ContextScope scope(*context);
  WL_TRY(scope.status());
  Args own = without_configs(*args);
  own.m = 1;
  own.form = WL_NORM_FOLDED;
  own.eps = 1;
  std::vector<Violation> violations;
  for (Violation& violation : rules().violations(Subject{own, context->limits, context}))
    if (std::find(std::begin(ids), std::end(ids), violation.rule.id) != std::end(ids))
      violations.push_back(std::move(violation));
  const auto judge = [&](const char* id, const char* name, const void* pointer, uint64_t bytes,
                         const void* same) {
    const auto note = [&](const char* text, RuleKind kind, const Verdict& verdict) {
      if (!verdict.holds) violations.push_back({{id, name, text, kind}, verdict});
    };
    const Extent extent{name, pointer, bytes};
    note("must not be null", RuleKind::pointer, not_null(pointer));
    note("must be 16-byte aligned", RuleKind::alignment, aligned(pointer, 16));
    note(reachable_text, RuleKind::memory, reachable(context, extent));
    for (const Extent& other : operands(own)) {
      const std::string other_name = other.name;
      const bool read = other_name == "W" || other_name == "gamma" || other_name == "beta" ||
                        other_name == "bias";
      if (read && (other.start != same || pointer != same))
        note("must overlap nothing that is read, unless it is W", RuleKind::overlap,
             disjoint(extent, other));
    }
  };
  const bool sized = args->n >= 8 && args->n <= gemm::largest_extent && args->k >= 64 &&
                     args->k <= norm::largest_row;
  const uint64_t count = sized ? static_cast<uint64_t>(args->n) : 0;
  const uint64_t w_bytes = 2 * count * static_cast<uint64_t>(sized ? args->k : 0);
  judge("w_folded", "w_folded", w_folded, w_bytes, args->w);
  judge("bias_folded", "bias_folded", bias_folded, 4 * count, nullptr);
  if (w_folded != nullptr && bias_folded != nullptr) {
    const Verdict apart = disjoint(Extent{"w_folded", w_folded, w_bytes},
                                   Extent{"bias_folded", bias_folded, 4 * count});
    if (!apart.holds)
      violations.push_back(
          {{"folded_apart", "w_folded", "must not overlap bias_folded", RuleKind::overlap}, apart});
  }
  return report_violations("wl_norm_linear_fold", violations);
}

wl_status fold(wl_context* context, const Args& args, void* w_folded, float* bias_folded,
               wl_stream stream) {
  const ContextScope scope(*context);
  WL_TRY(scope.status());
  WL_TRY(check_stream(*context, stream));
  const DeviceLimits& device = context->limits;
  const auto serves = [&](const Fold& entry) {
    return entry.type == args.x_type &&
           target_runs_on(entry.target, device.compute_major, device.compute_minor);
  };
  const auto found = std::find_if(folds().begin(), folds().end(), serves);
  if (found == folds().end())
    return fail(WL_ERROR_NOT_SUPPORTED, "no kernel folds on %s", device.name.c_str());
  KernelNeeds needs;
  using Block = FoldParams;
  needs.params = {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/norm_linear/fold_params.def"
  };
  const Kernel* kernel = nullptr;
  WL_TRY(load_kernel(*context, found->image(), needs, &kernel));
  FoldParams params{};
  params.w = address_of(args.w);
  params.gamma = address_of(args.gamma);
  params.beta = address_of(args.beta);
  params.bias = address_of(args.bias);
  params.folded = address_of(w_folded);
  params.folded_bias = address_of(bias_folded);
  params.n = static_cast<uint32_t>(args.n);
  params.k = static_cast<uint32_t>(args.k);
  params.centred = args.norm == WL_NORM_LAYER ? 1 : 0;
  params.wide_gamma = args.gamma_type == WL_F32 ? 1 : 0;
  params.bias_type = static_cast<uint32_t>(args.bias_type);
  LaunchConfig launch;
  const int64_t most = 8 * static_cast<int64_t>(std::max(device.sm_count, 1));
  launch.grid[0] = static_cast<unsigned>(std::min(divide_up(args.n, 8), most));
  launch.block[0] = 256;
  launch.programmatic_dependent = true;
  wl_plan once(context);
  WL_TRY(once.add(*kernel, launch, params));
  return once.run(nullptr, stream);
}

} // namespace

const std::vector<Config>& configs() {
#define SM100_NORM_CONFIG(name, in, norm, end)                                                     \
  {#name, "sm_100f", in, norm, end, 0, [] { return WL_IMAGE(name); }},
#define SM90_RSTD_CONFIG(name, in, norm, parts)                                                    \
  {#name, "sm_90a", in, norm, End::rstd, parts, [] { return WL_IMAGE(name); }},
#define SM90_NORM_CONFIG(name, in, norm, end)                                                      \
  {#name, "sm_90a", in, norm, end, 0, [] { return WL_IMAGE(name); }},
#define SM100_FOLD_CONFIG(...)
#define SM90_FOLD_CONFIG(...)
  static const std::vector<Config> table = {
#include "kernels/norm_linear/configs.def"
  };
  return table;
}

const std::vector<Fold>& folds() {
#define SM100_NORM_CONFIG(...)
#define SM90_RSTD_CONFIG(...)
#define SM90_NORM_CONFIG(...)
#define SM100_FOLD_CONFIG(name, in) {#name, "sm_100f", in, [] { return WL_IMAGE(name); }},
#define SM90_FOLD_CONFIG(name, in) {#name, "sm_90a", in, [] { return WL_IMAGE(name); }},
  static const std::vector<Fold> table = {
#include "kernels/norm_linear/configs.def"
  };
  return table;
}

// X, or the sums, stand for an A that a run has elsewhere.
gemm::Problem problem_of(const Args& a) {
  const bool nvfp4 = a.w_type == WL_OPERAND_NVFP4;
  wl_gemm_args g{};
  g.m = a.m, g.n = a.n, g.k = a.k, g.l = 1;
  g.a = a.residual != nullptr && a.sum != nullptr ? a.sum : a.x;
  g.b = a.w;
  g.sfa = nvfp4 ? a.x : nullptr;
  g.sfb = a.sfw;
  g.sf_layout = a.sf_layout;
  g.alpha = a.alpha;
  g.bias = a.bias, g.bias_type = a.bias_type;
  g.activation = a.activation;
  g.d = a.d, g.d_type = a.d_type, g.ldd = a.ldd;
  g.a_type = nvfp4 ? WL_OPERAND_NVFP4 : a.x_type == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  g.b_type = a.w_type;
  gemm::Problem problem = linear::problem_of(g);
  problem.plain_sfa = false; // A's are made in atoms
  // With a residual that grid makes A too.
  problem.factors_later = a.form == WL_NORM_FOLDED && a.residual == nullptr;
  return problem;
}

} // namespace warpline::norm_linear

wl_status wl_norm_linear_check(wl_context* context, const wl_norm_linear_args* args) {
  return warpline::api("wl_norm_linear_check",
                       [&] { return warpline::norm_linear::check(context, args); });
}

wl_status wl_norm_linear_plan(wl_context* context, const wl_norm_linear_args* args,
                              wl_plan** plan) {
  return warpline::api("wl_norm_linear_plan", [&] {
    return warpline::plan_args(
        context, args, plan, warpline::norm_linear::check,
        warpline::plan_of_parts<warpline::norm_linear::Planned, wl_norm_linear_args>,
        warpline::norm_linear::operands);
  });
}

wl_status wl_norm_linear_run(const wl_plan* plan, const wl_norm_linear_args* args, void* workspace,
                             size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_norm_linear_run", [&] {
    using namespace warpline::norm_linear;
    return warpline::run_args(plan, args, "wl_norm_linear_args", rules(), log_args,
                              compare_with_plan, operands, workspace, workspace_bytes, stream);
  });
}

wl_status wl_norm_linear_fold(wl_context* context, const wl_norm_linear_args* args, void* w_folded,
                              float* bias_folded, wl_stream stream) {
  using namespace warpline;
  return api("wl_norm_linear_fold", [&]() -> wl_status {
    WL_TRY(norm_linear::check_fold(context, args, w_folded, bias_folded));
    return norm_linear::fold(context, *args, w_folded, bias_folded, stream);
  });
}
