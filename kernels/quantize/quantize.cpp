// wl_quantize_check, wl_quantize_plan and wl_quantize_run: configurations, shares of the work,
// launch.
#include "kernels/quantize/quantize.hpp"

#include "kernels/norm/rows.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/operation.hpp"

#include <algorithm>
#include <cinttypes>
#include <memory>

#define SM100_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_NORM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_HELD_NORM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NORM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_UNITS_NORM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/quantize/configs.def"

namespace warpline::quantize {

namespace {

constexpr wl_dtype F16 = WL_F16;
constexpr wl_dtype BF16 = WL_BF16;
constexpr wl_norm NONE = WL_NORM_NONE;
constexpr wl_norm RMS = WL_NORM_RMS;
constexpr wl_norm LAYER = WL_NORM_LAYER;

constexpr int most_warps = 8;   // of a CTA: .maxntid
constexpr int ctas_an_sm = 5;   // .minnctapersm
constexpr int group_rows = 8;   // that a warp works on at once
constexpr int atom_values = 64; // of a row, in a unit

// From how many rows on units are the faster way, of an SM of an H200: of RMSNorm from so many
// values on (M 1300 at K 7168, 2100 at 4096), and not at all of rows that keep a team of three
// warps waiting; of LayerNorm, whose other kernel reads shared memory three times, from six rows
// on.
constexpr int64_t values_for_units = 68000, least_in_units = 3072, rows_for_units = 6;

bool are_many(const wl_quantize_args& args, const DeviceLimits& device) {
  const int64_t rows = args.m * args.l, sms = std::max(device.sm_count, 1);
  if (args.norm == WL_NORM_LAYER) return rows >= rows_for_units * sms;
  return args.k >= least_in_units && rows * args.k >= values_for_units * sms;
}

// The parameter block of the contract in quantize.inc.
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/quantize/quantize_params.def"
};

void log_args(const wl_quantize_args& args) {
  WL_LOG(log_arguments,
         "M %" PRId64 ", K %" PRId64 ", L %" PRId64 ", X %p, x_type %d, ldx %" PRId64
         ", batch_stride_x %" PRId64 ", D %p, SFD %p, d_scale %p, flags 0x%x, norm %d, eps %g"
         ", gamma_type %d, gamma %p, beta %p, residual %p, ldr %" PRId64 ", batch_stride_r %" PRId64
         ", sum %p, config %s",
         args.m, args.k, args.l, args.x, static_cast<int>(args.x_type), args.ldx,
         args.batch_stride_x, args.d, args.sfd, static_cast<const void*>(args.d_scale), args.flags,
         static_cast<int>(args.norm), static_cast<double>(args.eps),
         static_cast<int>(args.gamma_type), args.gamma, args.beta, args.residual, args.ldr,
         args.batch_stride_r, args.sum, args.config != nullptr ? args.config : "(chosen)");
}

wl_status check(wl_context* context, const wl_quantize_args* args) {
  return check_args(context, args, "wl_quantize_args", rules(), log_args);
}

Params params_of(const wl_quantize_args& args, const Work& work) {
  Params params{};
  params.x = address_of(args.x);
  params.d = address_of(args.d);
  params.sfd = address_of(args.sfd);
  params.d_scale = address_of(args.d_scale);
  params.ldx = static_cast<uint64_t>(strided_x(args).row_stride());
  params.batch_stride_x = static_cast<uint64_t>(strided_x(args).entry_stride());
  params.m = static_cast<uint32_t>(args.m);
  params.l = static_cast<uint32_t>(args.l);
  params.atoms = static_cast<uint32_t>(work.atoms);
  params.groups = static_cast<uint32_t>(work.groups);
  params.two_atoms = work.two_atoms ? 1 : 0;
  params.step_units = work.step_units;
  params.step_groups = work.step_groups;
  params.step_entries = work.step_entries;
  return params;
}

norm::Params params_of(const wl_quantize_args& args, const norm::Work& work) {
  const Strided x = strided_x(args), r = strided_r(args);
  norm::Rows rows;
  rows.m = args.m, rows.k = args.k, rows.l = args.l;
  rows.x = args.x, rows.ldx = x.row_stride(), rows.batch_stride_x = x.entry_stride();
  rows.residual = args.residual, rows.sum = args.sum;
  rows.ldr = r.row_stride(), rows.batch_stride_r = r.entry_stride();
  rows.gamma = args.gamma, rows.beta = args.beta, rows.gamma_type = args.gamma_type;
  rows.eps = args.eps;
  rows.d = args.d, rows.sfd = args.sfd, rows.d_scale = args.d_scale;
  return norm::params_of(rows, work);
}

class Planned final : public PlannedArgs<wl_quantize_args> {
public:
  Planned(const wl_quantize_args& of, const Config& config) : PlannedArgs(of), config_(config) {}

  wl_status run(const wl_plan& plan, const wl_quantize_args& of, void*,
                wl_stream stream) const override {
    const DeviceLimits& device = plan.context->limits;
    if (config_.norm == WL_NORM_NONE) {
      const Work work = share_out(of.m, of.k, of.l, device);
      return run(plan, params_of(of, work), work.launch, stream);
    }
    const norm::Work work = share_out_rows(of, config_, device);
    return run(plan, params_of(of, work), work.launch, stream);
  }

private:
  template <class Block>
  static wl_status run(const wl_plan& plan, const Block& block, const LaunchConfig& launch,
                       wl_stream stream) {
    const wl_plan::Instead instead[] = {{&block, &launch}};
    return plan.run(nullptr, stream, instead);
  }

  const Config& config_;
};

wl_status add_plain(wl_context* context, const wl_quantize_args& args, const Config& config,
                    wl_plan* plan) {
  KernelNeeds needs;
  using Block = Params;
  needs.params = {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/quantize/quantize_params.def"
  };
  const Kernel* kernel = nullptr;
  WL_TRY(load_kernel(*context, config.image(), needs, &kernel));
  const Work work = share_out(args.m, args.k, args.l, context->limits);
  WL_TRY(plan->add(*kernel, work.launch, params_of(args, work)));

  report_launch(config.name, *kernel, work.launch, &plan->info);
  plan->info.tile_m = group_rows;
  plan->info.tile_k = atom_values;
  return WL_SUCCESS;
}

wl_status add_normalising(wl_context* context, const wl_quantize_args& args, const Config& config,
                          wl_plan* plan) {
  const norm::Work work = share_out_rows(args, config, context->limits);
  const Kernel* kernel = nullptr;
  WL_TRY(norm::load(*context, config.image(), &kernel));
  WL_TRY(plan->add(*kernel, work.launch, params_of(args, work)));

  report_launch(config.name, *kernel, work.launch, &plan->info);
  plan->info.tile_m = static_cast<int>(work.teams);
  plan->info.tile_k = static_cast<int>(args.k);
  plan->info.stages = static_cast<int>(work.slots);
  return WL_SUCCESS;
}

wl_status make_plan(wl_context* context, const wl_quantize_args& args, wl_plan** plan) {
  const Config* config =
      args.config != nullptr ? find_config(configs(), args.config) : chosen(args, context->limits);
  if (config == nullptr)
    return fail(WL_ERROR_NOT_SUPPORTED, "no configuration reads x_type %d on %s",
                static_cast<int>(args.x_type), context->limits.name.c_str());
  auto made = std::make_unique<wl_plan>(context);
  WL_TRY((config->norm == WL_NORM_NONE ? add_plain : add_normalising)(context, args, *config,
                                                                      made.get()));
  made->problem = std::make_unique<Planned>(args, *config);
  *plan = made.release();
  return WL_SUCCESS;
}

void compare_with_plan(const wl_quantize_args& planned, const wl_quantize_args& args,
                       const PlanRules& rules) {
  rules.rows(args.m, planned.m);
  rules.equal("plan_k", "K", args.k, planned.k);
  rules.equal("plan_l", "L", args.l, planned.l);
  rules.equal("plan_x_type", "x_type", args.x_type, planned.x_type);
  rules.equal("plan_norm", "norm", args.norm, planned.norm);
}

} // namespace

const std::vector<Config>& configs() {
#define CONFIG(name, target, in, norm, held, units)                                                \
  {#name, target, in, norm, held, units, [] { return WL_IMAGE(name); }},
#define SM100_CONFIG(name, in) CONFIG(name, "sm_100f", in, NONE, false, false)
#define SM100_NORM_CONFIG(name, in, norm) CONFIG(name, "sm_100f", in, norm, false, false)
#define SM90_CONFIG(name, in) CONFIG(name, "sm_90a", in, NONE, false, false)
#define SM90_HELD_NORM_CONFIG(name, in, norm) CONFIG(name, "sm_90a", in, norm, true, false)
#define SM90_UNITS_NORM_CONFIG(name, in, norm) CONFIG(name, "sm_90a", in, norm, true, true)
#define SM90_NORM_CONFIG(name, in, norm) CONFIG(name, "sm_90a", in, norm, false, false)
  static const std::vector<Config> table = {
#include "kernels/quantize/configs.def"
  };
#undef CONFIG
  return table;
}

bool can_run(const Config& config, const wl_quantize_args& args, const DeviceLimits& device,
             std::string* reason) {
  std::string why = target_mismatch(config, device);
  if (why.empty() && config.x_type != args.x_type)
    why = format("it reads %s", config.x_type == WL_F16 ? "WL_F16" : "WL_BF16");
  if (why.empty() && config.norm != args.norm)
    why = format("its norm is %s", config.norm == NONE  ? "WL_NORM_NONE"
                                   : config.norm == RMS ? "WL_NORM_RMS"
                                                        : "WL_NORM_LAYER");
  if (why.empty() && config.held && (args.k < norm::least_held || args.k > norm::most_held))
    why = format("it takes rows of %" PRId64 " to %" PRId64 " values", norm::least_held,
                 norm::most_held);
  if (reason != nullptr) *reason = why;
  return why.empty();
}

// Where rows are held in registers, that is the faster way; in units, where they are many.
const Config* chosen(const wl_quantize_args& args, const DeviceLimits& device) {
  const bool many = are_many(args, device);
  const Config* first = nullptr;
  for (const Config& config : configs()) {
    if (!can_run(config, args, device, nullptr)) continue;
    if (config.units && many) return &config;
    if (!config.units && first == nullptr) first = &config;
  }
  return first;
}

norm::Work share_out_rows(const wl_quantize_args& args, const Config& config,
                          const DeviceLimits& device) {
  const bool residual = args.residual != nullptr;
  if (config.units)
    return norm::share_out_units(args.m, args.k, args.l, residual, args.norm, device);
  return config.held ? norm::share_out_held(args.m, args.k, args.l, residual, device)
                     : norm::share_out(args.m, args.k, args.l, residual,
                                       norm::tables(args.norm, args.gamma, args.beta), device);
}

// Few units are spread over the SMs, a warp each, before CTAs get more warps; then as many CTAs as
// are resident at once: what starts behind this kernel can start when all of them run. Two atoms a
// unit halve what finding it takes, where as many warps stay busy.
Work share_out(int64_t m, int64_t k, int64_t l, const DeviceLimits& device) {
  Work work{};
  work.groups = m / 128 * 16 + (std::min<int64_t>(m % 128, 32) + 1) / 2;
  work.atoms = k / atom_values;
  const int64_t sms = std::max(device.sm_count, 1);
  work.two_atoms = work.groups * work.atoms * l >= 2 * sms * ctas_an_sm * most_warps;
  work.row_units = work.two_atoms ? divide_up(work.atoms, 2) : work.atoms;
  work.units = work.groups * work.row_units * l;
  const int64_t warps = std::clamp<int64_t>(divide_up(work.units, sms), 1, most_warps);
  const int64_t ctas = std::min(divide_up(work.units, warps), sms * ctas_an_sm);
  work.launch.grid[0] = static_cast<unsigned>(ctas);
  work.launch.block[0] = static_cast<unsigned>(32 * warps);
  work.launch.programmatic_dependent = true;
  const int64_t step = ctas * warps;
  work.step_units = static_cast<uint32_t>(step % work.row_units);
  work.step_groups = static_cast<uint32_t>(step / work.row_units % work.groups);
  work.step_entries = static_cast<uint32_t>(step / work.row_units / work.groups);
  return work;
}

} // namespace warpline::quantize

wl_status wl_quantize_check(wl_context* context, const wl_quantize_args* args) {
  return warpline::api("wl_quantize_check",
                       [&] { return warpline::quantize::check(context, args); });
}

wl_status wl_quantize_plan(wl_context* context, const wl_quantize_args* args, wl_plan** plan) {
  return warpline::api("wl_quantize_plan", [&] {
    return warpline::plan_args(context, args, plan, warpline::quantize::check,
                               warpline::quantize::make_plan, warpline::quantize::operands);
  });
}

wl_status wl_quantize_run(const wl_plan* plan, const wl_quantize_args* args, void* workspace,
                          size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_quantize_run", [&] {
    using namespace warpline::quantize;
    return warpline::run_args(plan, args, "wl_quantize_args", rules(), log_args, compare_with_plan,
                              operands, workspace, workspace_bytes, stream);
  });
}
