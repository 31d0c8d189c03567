// wl_gemm_check, wl_gemm_plan and wl_gemm_list_configs.
#include "kernels/linear/linear.hpp"

#include "kernels/gemm/list_configs.hpp"
#include "kernels/gemm/run.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/operation.hpp"
#include "runtime/src/status.hpp"

#include <cinttypes>

namespace warpline::linear {

namespace {

void log_args(const wl_gemm_args& args) {
  WL_LOG(log_arguments,
         "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", L %" PRId64 ", A %p, B %p, SFA %p, SFB %p, "
         "alpha %p, row %p, col %p, bias %p, bias_type %d, activation %d, residual %p, ldr %" PRId64
         ", batch_stride_r %" PRId64 ", D %p, d_type %d, ldd %" PRId64 ", batch_stride_d %" PRId64
         ", flags 0x%x, a_type %d, b_type %d, a_layout %d, b_layout %d, config %s",
         args.m, args.n, args.k, args.l, args.a, args.b, args.sfa, args.sfb,
         static_cast<const void*>(args.alpha), static_cast<const void*>(args.row),
         static_cast<const void*>(args.col), args.bias, static_cast<int>(args.bias_type),
         static_cast<int>(args.activation), args.residual, args.ldr, args.batch_stride_r, args.d,
         static_cast<int>(args.d_type), args.ldd, args.batch_stride_d, args.flags,
         static_cast<int>(args.a_type), static_cast<int>(args.b_type),
         static_cast<int>(args.a_layout), static_cast<int>(args.b_layout),
         args.config != nullptr ? args.config : "(chosen)");
}

wl_status check(wl_context* context, const wl_gemm_args* args) {
  return check_args(context, args, "wl_gemm_args", rules(), log_args);
}

wl_status make_plan(wl_context* context, const wl_gemm_args& args, wl_plan** plan) {
  const gemm::Problem problem = problem_of(args);
  const gemm::Config* config = nullptr;
  WL_TRY(gemm::take(context, configs(), problem, args.config, &config));
  return gemm::make_product_plan(context, problem, *config, plan);
}

} // namespace

} // namespace warpline::linear

wl_status wl_gemm_check(wl_context* context, const wl_gemm_args* args) {
  return warpline::api("wl_gemm_check", [&] { return warpline::linear::check(context, args); });
}

wl_status wl_gemm_plan(wl_context* context, const wl_gemm_args* args, wl_plan** plan) {
  return warpline::api("wl_gemm_plan", [&] {
    return warpline::plan_args(context, args, plan, warpline::linear::check,
                               warpline::linear::make_plan, warpline::linear::operands);
  });
}

wl_status wl_gemm_run(const wl_plan* plan, const wl_gemm_args* args, void* workspace,
                      size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_gemm_run", [&] {
    using namespace warpline::linear;
    return warpline::gemm::run_args(plan, args, "wl_gemm_args", rules(), configs(), log_args,
                                    problem_of, operands, workspace, workspace_bytes, stream);
  });
}

wl_status wl_gemm_list_configs(wl_context* context, const wl_gemm_args* args,
                               wl_dual_gemm_config* configs, size_t config_size, int* count) {
  using namespace warpline;
  return api("wl_gemm_list_configs", [&] {
    return gemm::list_configs(context, args, linear::rules(), linear::configs(), linear::problem_of,
                              configs, config_size, count);
  });
}
