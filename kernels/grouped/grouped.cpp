// wl_grouped_gemm_* and wl_grouped_dual_gemm_*.
#include "kernels/grouped/grouped.hpp"

#include "kernels/gemm/list_configs.hpp"
#include "kernels/gemm/run.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/operation.hpp"
#include "runtime/src/status.hpp"

#include <cinttypes>

namespace warpline::grouped {

namespace {

void log_groups(const wl_groups& g) {
  WL_LOG(log_arguments,
         "count %d, ends %p, sizes %p, row_stride %" PRId64 ", sf_tiles %p, sf_tile_count %" PRId64
         ", rows %p, a_rows %" PRId64 ", b_stride_bytes %" PRId64 ", sfb_stride_bytes %" PRId64
         ", bias_stride %" PRId64 ", status %p",
         g.count, static_cast<const void*>(g.ends), static_cast<const void*>(g.sizes), g.row_stride,
         static_cast<const void*>(g.sf_tiles), g.sf_tile_count, static_cast<const void*>(g.rows),
         g.a_rows, g.b_stride_bytes, g.sfb_stride_bytes, g.bias_stride,
         static_cast<void*>(g.status));
}

void log_linear(const wl_grouped_gemm_args& args) {
  const wl_gemm_args& a = args.gemm;
  WL_LOG(log_arguments,
         "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", L %" PRId64 ", A %p, B %p, SFA %p, SFB %p, "
         "alpha %p, row %p, bias %p, bias_type %d, activation %d, residual %p, ldr %" PRId64
         ", D %p, d_type %d, ldd %" PRId64 ", flags 0x%x, a_type %d, b_type %d, config %s",
         a.m, a.n, a.k, a.l, a.a, a.b, a.sfa, a.sfb, static_cast<const void*>(a.alpha),
         static_cast<const void*>(a.row), a.bias, static_cast<int>(a.bias_type),
         static_cast<int>(a.activation), a.residual, a.ldr, a.d, static_cast<int>(a.d_type), a.ldd,
         a.flags, static_cast<int>(a.a_type), static_cast<int>(a.b_type),
         a.config != nullptr ? a.config : "(chosen)");
  log_groups(args.groups);
}

void log_dual(const wl_grouped_dual_gemm_args& args) {
  const wl_dual_gemm_args& a = args.gemm;
  WL_LOG(log_arguments,
         "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", L %" PRId64 ", A %p, B1 %p, B2 %p, SFA %p, "
         "SFB1 %p, SFB2 %p, alpha1 %p, alpha2 %p, bias1 %p, bias2 %p, bias_type %d, gate %d, "
         "gate_limit %g, D %p, d_type %d, ldd %" PRId64
         ", flags 0x%x, a_type %d, b_type %d, config %s",
         a.m, a.n, a.k, a.l, a.a, a.b1, a.b2, a.sfa, a.sfb1, a.sfb2,
         static_cast<const void*>(a.alpha1), static_cast<const void*>(a.alpha2), a.bias1, a.bias2,
         static_cast<int>(a.bias_type), static_cast<int>(a.gate), double{a.gate_limit}, a.d,
         static_cast<int>(a.d_type), a.ldd, a.flags, static_cast<int>(a.a_type),
         static_cast<int>(a.b_type), a.config != nullptr ? a.config : "(chosen)");
  log_groups(args.groups);
}

// What differs between the two forms.
struct Linear {
  using Args = wl_grouped_gemm_args;
  using View = LinearArgs;
  static constexpr const char* type = "wl_grouped_gemm_args";
  static const RuleTable<LinearSubject>& rules() { return linear_rules(); }
  static const gemm::Table& configs() { return linear_configs(); }
  static void log(const Args& args) { log_linear(args); }
};
struct Dual {
  using Args = wl_grouped_dual_gemm_args;
  using View = DualArgs;
  static constexpr const char* type = "wl_grouped_dual_gemm_args";
  static const RuleTable<DualSubject>& rules() { return dual_rules(); }
  static const gemm::Table& configs() { return dual_configs(); }
  static void log(const Args& args) { log_dual(args); }
};

template <class Form>
gemm::Problem to_problem(const typename Form::Args& args) {
  return problem_of(typename Form::View(args));
}
template <class Form>
std::vector<Extent> operands_of(const typename Form::Args& args) {
  return operands(args);
}
template <class Form>
wl_status check(wl_context* context, const typename Form::Args* args) {
  return check_args(context, args, Form::type, Form::rules(), Form::log);
}
template <class Form>
wl_status make_plan(wl_context* context, const typename Form::Args& args, wl_plan** plan) {
  const gemm::Problem problem = to_problem<Form>(args);
  const gemm::Config* config = nullptr;
  WL_TRY(gemm::take(context, Form::configs(), problem, args.gemm.config, &config));
  return gemm::make_product_plan(context, problem, *config, plan);
}
template <class Form>
wl_status plan(wl_context* context, const typename Form::Args* args, wl_plan** made) {
  return plan_args(context, args, made, check<Form>, make_plan<Form>, operands_of<Form>);
}
template <class Form>
wl_status run(const wl_plan* plan, const typename Form::Args* args, void* workspace,
              size_t workspace_bytes, wl_stream stream) {
  return gemm::run_args(plan, args, Form::type, Form::rules(), Form::configs(), Form::log,
                        to_problem<Form>, operands_of<Form>, workspace, workspace_bytes, stream);
}
template <class Form>
wl_status list(wl_context* context, const typename Form::Args* args, wl_dual_gemm_config* configs,
               size_t config_size, int* count) {
  return gemm::list_configs(context, args, Form::rules(), Form::configs(), to_problem<Form>,
                            configs, config_size, count);
}

} // namespace

} // namespace warpline::grouped

using warpline::grouped::Dual;
using warpline::grouped::Linear;

wl_status wl_grouped_gemm_check(wl_context* context, const wl_grouped_gemm_args* args) {
  return warpline::api("wl_grouped_gemm_check",
                       [&] { return warpline::grouped::check<Linear>(context, args); });
}
wl_status wl_grouped_gemm_plan(wl_context* context, const wl_grouped_gemm_args* args,
                               wl_plan** plan) {
  return warpline::api("wl_grouped_gemm_plan",
                       [&] { return warpline::grouped::plan<Linear>(context, args, plan); });
}
wl_status wl_grouped_gemm_run(const wl_plan* plan, const wl_grouped_gemm_args* args,
                              void* workspace, size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_grouped_gemm_run", [&] {
    return warpline::grouped::run<Linear>(plan, args, workspace, workspace_bytes, stream);
  });
}
wl_status wl_grouped_gemm_list_configs(wl_context* context, const wl_grouped_gemm_args* args,
                                       wl_dual_gemm_config* configs, size_t config_size,
                                       int* count) {
  return warpline::api("wl_grouped_gemm_list_configs", [&] {
    return warpline::grouped::list<Linear>(context, args, configs, config_size, count);
  });
}

wl_status wl_grouped_dual_gemm_check(wl_context* context, const wl_grouped_dual_gemm_args* args) {
  return warpline::api("wl_grouped_dual_gemm_check",
                       [&] { return warpline::grouped::check<Dual>(context, args); });
}
wl_status wl_grouped_dual_gemm_plan(wl_context* context, const wl_grouped_dual_gemm_args* args,
                                    wl_plan** plan) {
  return warpline::api("wl_grouped_dual_gemm_plan",
                       [&] { return warpline::grouped::plan<Dual>(context, args, plan); });
}
wl_status wl_grouped_dual_gemm_run(const wl_plan* plan, const wl_grouped_dual_gemm_args* args,
                                   void* workspace, size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_grouped_dual_gemm_run", [&] {
    return warpline::grouped::run<Dual>(plan, args, workspace, workspace_bytes, stream);
  });
}
wl_status wl_grouped_dual_gemm_list_configs(wl_context* context,
                                            const wl_grouped_dual_gemm_args* args,
                                            wl_dual_gemm_config* configs, size_t config_size,
                                            int* count) {
  return warpline::api("wl_grouped_dual_gemm_list_configs", [&] {
    return warpline::grouped::list<Dual>(context, args, configs, config_size, count);
  });
}
