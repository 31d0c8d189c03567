#include "tests/support/dual_gemm_nvfp4_run.hpp"

#include "tests/support/device_buffer.hpp"
#include "tests/support/dual_gemm_run.hpp"

#include <vector>

namespace wltest {

Nvfp4Result run_dual_gemm_nvfp4(wl_context* context, const Problem& p, float d_scale,
                                const std::string& config, bool unwritten,
                                const GatedOperands& operands) {
  Nvfp4Result r;
  const DeviceBuffer a(context, p.a.values), b1(context, p.b1.values), b2(context, p.b2.values);
  const ScaleBuffer sfa(context, p.a, !unwritten), sfb1(context, p.b1, !unwritten),
      sfb2(context, p.b2, !unwritten);
  const DeviceBuffer factor(context, std::vector<float>{p.alpha1, p.alpha2, d_scale});
  const DeviceBuffer bias1(context, operands.bias1), bias2(context, operands.bias2);
  const GuardedOperand d(context, p.m, p.n, p.l, !unwritten);

  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.l = p.l;
  args.a = a.pointer;
  args.b1 = b1.pointer;
  args.b2 = b2.pointer;
  args.sfa = sfa.pointer;
  args.sfb1 = sfb1.pointer;
  args.sfb2 = sfb2.pointer;
  args.alpha1 = reinterpret_cast<float*>(factor.at(0));
  args.alpha2 = reinterpret_cast<float*>(factor.at(4));
  args.d_scale = d_scale == 1 ? nullptr : reinterpret_cast<float*>(factor.at(8));
  if (!operands.bias1.empty()) args.bias1 = bias1.pointer;
  if (!operands.bias2.empty()) args.bias2 = bias2.pointer;
  args.bias_type = WL_F32;
  args.gate = operands.gate.kind;
  args.gate_limit = operands.gate.limit;
  args.d = d.d();
  args.sfd = d.sfd();
  args.d_type = WL_NVFP4;
  args.config = config.empty() ? nullptr : config.c_str();
  wl_plan* plan = nullptr;
  const auto failed = [&](wl_status status) {
    r.status = status;
    if (status != WL_SUCCESS) r.message = wl_last_error();
    return status != WL_SUCCESS;
  };
  if (failed(wl_dual_gemm_plan(context, &args, &plan))) return r;
  wl_plan_info info{};
  info.struct_size = sizeof info;
  wl_plan_get_info(plan, &info);
  r.config = info.config;
  const std::vector<uint8_t> junk(info.workspace_bytes, 0xA5);
  const DeviceBuffer workspace(context, junk.size());
  if (!unwritten || polls_workspace(r.config))
    wl_upload(context, workspace.pointer, junk.data(), junk.size());
  const bool bad = failed(wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr)) ||
                   failed(wl_stream_synchronize(context, nullptr));
  wl_plan_destroy(plan);
  if (bad) return r;

  r.d = d.read(&r.guards_intact);
  return r;
}

} // namespace wltest
