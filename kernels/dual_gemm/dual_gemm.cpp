// wl_dual_gemm_check, wl_dual_gemm_plan and wl_dual_gemm_list_configs.
#include "kernels/dual_gemm/dual_gemm.hpp"

#include "kernels/gemm/list_configs.hpp"
#include "kernels/gemm/run.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/operation.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"

#include <cinttypes>

namespace warpline::dual_gemm {

namespace {

void log_args(const wl_dual_gemm_args& args) {
  WL_LOG(log_arguments,
         "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", L %" PRId64 ", A %p, B1 %p, B2 %p, SFA %p, "
         "SFB1 %p, SFB2 %p, alpha1 %p, alpha2 %p, D %p, d_type %d, ldd %" PRId64
         ", batch_stride_d %" PRId64 ", flags 0x%x, bias1 %p, bias2 %p, bias_type %d, gate %d, "
         "gate_limit %g, a_type %d, b_type %d, config %s",
         args.m, args.n, args.k, args.l, args.a, args.b1, args.b2, args.sfa, args.sfb1, args.sfb2,
         static_cast<const void*>(args.alpha1), static_cast<const void*>(args.alpha2), args.d,
         static_cast<int>(args.d_type), args.ldd, args.batch_stride_d, args.flags, args.bias1,
         args.bias2, static_cast<int>(args.bias_type), static_cast<int>(args.gate),
         double{args.gate_limit}, static_cast<int>(args.a_type), static_cast<int>(args.b_type),
         args.config != nullptr ? args.config : "(chosen)");
}

wl_status check(wl_context* context, const wl_dual_gemm_args* args) {
  return check_args(context, args, "wl_dual_gemm_args", rules(), log_args);
}

wl_status make_plan(wl_context* context, const wl_dual_gemm_args& args, wl_plan** plan) {
  const Problem problem = problem_of(args);
  const Config* config = nullptr;
  WL_TRY(take(context, configs(), problem, args.config, &config));
  return make_product_plan(context, problem, *config, plan);
}

} // namespace

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

wl_status wl_dual_gemm_run(const wl_plan* plan, const wl_dual_gemm_args* args, void* workspace,
                           size_t workspace_bytes, wl_stream stream) {
  return warpline::api("wl_dual_gemm_run", [&] {
    using namespace warpline::dual_gemm;
    return warpline::gemm::run_args(plan, args, "wl_dual_gemm_args", rules(), configs(), log_args,
                                    problem_of, operands, workspace, workspace_bytes, stream);
  });
}

wl_status wl_dual_gemm_list_configs(wl_context* context, const wl_dual_gemm_args* args,
                                    wl_dual_gemm_config* configs, size_t config_size, int* count) {
  using namespace warpline;
  return api("wl_dual_gemm_list_configs", [&] {
    return gemm::list_configs(context, args, dual_gemm::rules(), dual_gemm::configs(),
                              dual_gemm::problem_of, configs, config_size, count);
  });
}
