// warpline dual-gemm: inputs -> check -> plan -> run -> every output compared -> table and JSON.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/reference/linear.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/product.hpp"

#include <algorithm>
#include <cstdio>

namespace warpline::cli {
namespace {

struct DualGemmRequest : ProductRequest {
  std::optional<float> alpha1, alpha2, gate_limit;
  std::string gate = "silu", bias;

  wltest::Gate gate_of() const {
    const auto kind =
        static_cast<wl_gate>(std::find(gates.begin(), gates.end(), gate) - gates.begin());
    return {kind, gate_limit.value_or(kind == WL_GATE_CLAMPED ? 7.0f : 0.0f)};
  }
};

Options declare(DualGemmRequest& r) {
  Options o(
      "dual-gemm",
      "Runs D = gate(alpha1 A.B1^T + bias1, alpha2 A.B2^T + bias2) with A [M,K], B1 and B2\n"
      "[N,K] in NVFP4 or other types, and compares every output with a double-precision "
      "reference.\n"
      "Biases are optional. gate(x, y) is silu(x) y, or gelu(x) y, or x sigmoid(1.702 x) (y + 1).");
  declare_sizes(&o, &r, "rows of B1 and B2", {"f16", "bf16", "nvfp4"});
  o.choice("--a-type", "type of A (default nvfp4)", r.a_type, operand_names);
  o.choice("--b-type",
           "type of B1 and B2 (default nvfp4); the device says which pairs it multiplies", r.b_type,
           operand_names);
  o.real("--alpha1", "FP32 scale of the first product (default 1, or the input file's)", r.alpha1);
  o.real("--alpha2", "FP32 scale of the second product", r.alpha2);
  o.choice("--bias", "random biases of this type, a number for each column of D", r.bias,
           {"f32", "f16", "bf16"});
  o.choice("--gate", "default silu", r.gate, gates);
  o.real("--gate-limit", "x is at most this, y from its negative to it (default none; clamped: 7)",
         r.gate_limit);
  declare_scales(&o, &r, "A and B");
  declare_counting(&o, &r);
  o.text("--input", "FILE",
         "safetensors with a, b1, b2 (U8 or F4, [rows, K/2]), a_scale, b1_scale,\n"
         "b2_scale (F8_E4M3, [rows, K/16]), or of other types, without scales (F16, BF16,\n"
         "F32 as tf32, F8_E4M3, F8_E5M2 or I8, [rows, K]), and optional alpha1, alpha2 and\n"
         "a_tensor_scale, "
         "b1_tensor_scale,\n"
         "b2_tensor_scale (F32), as quantize writes, bias1, bias2 (F32, F16 or BF16, [N])",
         r.input);
  declare_run(&o, &r);
  return o;
}

wl_dual_gemm_args sizes_only(const DualGemmRequest& r) {
  auto args = sizes_of<wl_dual_gemm_args>(r);
  args.gate = r.gate_of().kind;
  args.gate_limit = r.gate_of().limit;
  return args;
}

// The rules are asked without a context, which would look for memory behind the pointers.
void check_sizes(const wl_context& context, const DualGemmRequest& r) {
  wl_dual_gemm_args args = sizes_only(r);
  args.a = far_apart(1);
  args.b1 = far_apart(2);
  args.b2 = far_apart(3);
  args.sfa = scales_far_apart(4, args.a_type);
  args.sfb1 = scales_far_apart(5, args.b_type);
  args.sfb2 = scales_far_apart(6, args.b_type);
  args.d = far_apart(7);
  args.sfd = far_apart(8);
  if (!r.bias.empty()) args.bias1 = far_apart(9), args.bias2 = far_apart(10);
  args.bias_type = dtype_of(r.bias.empty() ? "f32" : r.bias);
  require(api("wl_dual_gemm_check", [&] {
    return dual_gemm::rules().check({args, context.limits});
  }));
}

// While operands and D are on the device, or while they are compared, whichever takes more.
double memory_needed(const DualGemmRequest& r, const Device& device) {
  const OperandBytes a = bytes_of(r, r.a_type, r.m), b = bytes_of(r, r.b_type, r.n);
  const double values = a.values + 2 * b.values, scales = a.scales + 2 * b.scales,
               outputs = double(r.l) * double(r.m) * double(r.n);
  const double d = r.quantised() ? outputs / 2 + packed_bytes(r.m, r.n, r.l) : 2 * outputs;
  const double running = std::max(a.packed, b.packed) + d +
                         host_bytes(device, r, values + a.packed + 2 * b.packed + d);
  const double comparing = d + (r.verify ? (8 + 8 + 8) * outputs : 0);
  return values + scales + std::max({running, comparing, a.drawn});
}

Outcome run_on_device(wl_context* context, const Device& device, const DualGemmRequest& r,
                      const DualGemmProblem& operands) {
  std::optional<Progress> progress("sending the inputs");
  const wltest::Problem& problem = operands.product;
  const DeviceMemory a(context, problem.a.values), b1(context, problem.b1.values),
      b2(context, problem.b2.values), sfa(context, scales_of(layout_of_scales(r), problem.a)),
      sfb1(context, scales_of(layout_of_scales(r), problem.b1)),
      sfb2(context, scales_of(layout_of_scales(r), problem.b2)),
      bias1(context, operands.bias1.bytes), bias2(context, operands.bias2.bytes);
  const std::vector<float> alphas = {problem.alpha1, problem.alpha2, r.d_scale.value_or(1)};
  const DeviceMemory alpha1(context, &alphas[0], sizeof(float)),
      alpha2(context, &alphas[1], sizeof(float)), d_scale(context, &alphas[2], sizeof(float));
  const auto outputs = static_cast<size_t>(problem.l * problem.m * problem.n);
  const size_t sfd_entry = r.quantised() ? wl_sf_bytes(WL_SF_128x4, problem.m, problem.n) : 0;
  const OutputMemory out(context,
                         std::vector<uint8_t>(r.quantised() ? outputs / 2 : 2 * outputs, 0xFF),
                         sfd_entry * static_cast<size_t>(problem.l));

  wl_dual_gemm_args args = sizes_only(r);
  args.a = a.get();
  args.b1 = b1.get();
  args.b2 = b2.get();
  args.sfa = sfa.get();
  args.sfb1 = sfb1.get();
  args.sfb2 = sfb2.get();
  args.alpha1 = static_cast<const float*>(alpha1.get());
  args.alpha2 = static_cast<const float*>(alpha2.get());
  args.bias1 = bias1.get();
  args.bias2 = bias2.get();
  args.bias_type = dtype_of(r.bias.empty() ? "f32" : r.bias);
  args.d = out.d.get();
  if (r.quantised()) {
    args.sfd = out.sfd.get();
    args.d_scale = static_cast<const float*>(d_scale.get());
  }
  progress.reset();
  Outcome outcome{
      ProductRunner("dual-gemm", context, device, r).run(args, wl_dual_gemm_plan), {}, 0, {}};
  outcome.counted.tensors = {{"A", args.a},     {"B1", args.b1},     {"B2", args.b2},
                             {"SFA", args.sfa}, {"SFB1", args.sfb1}, {"SFB2", args.sfb2}};
  if (r.quantised())
    outcome.quantised = out.read_operand(problem.m, problem.n, problem.l);
  else
    outcome.d = out.read_d();
  return outcome;
}

Verdict verify(const DualGemmProblem& problem, const Outcome& outcome, const DualGemmRequest& r) {
  const wltest::Problem& p = problem.product;
  const wltest::GatedOperands operands{r.gate_of(), p.alpha1, p.alpha2, values_of(problem.bias1),
                                       values_of(problem.bias2)};
  return judge(
      r, p, outcome, [&](const wltest::Sums& sums) { return wltest::gated(sums, operands); },
      [&](const wltest::Sums& sums) { return wltest::gated_replayed(sums, operands); });
}

void report_gate(Report& report, const DualGemmRequest& r) {
  const float limit = r.gate_of().limit;
  std::string text = r.gate;
  if (limit != 0) text += format(", limit %.9g", double{limit});
  if (!r.bias.empty()) text += ", biases in " + r.bias;
  report.add("gate", text, "gate", json_string(r.gate));
  report.add("", "", "gate_limit", limit != 0 ? json_number(double{limit}) : "null");
  report.add("", "", "bias", r.bias.empty() ? "null" : json_string(r.bias));
}

void report_run(Report& report, const Device& device, const DualGemmRequest& r,
                const wltest::Problem& p, const Outcome& outcome) {
  report_device(report, device);
  report_problem(report, r);
  report_inputs(report, r);
  report.add("alpha1, alpha2", format("%.9g, %.9g", double{p.alpha1}, double{p.alpha2}), "alpha",
             "[" + json_number(double{p.alpha1}) + "," + json_number(double{p.alpha2}) + "]");
  report_gate(report, r);
  report.add_text("output type", "out", r.out);
  report_schedule(report, device, r);
  report_plan(report, device, outcome.plan, outcome.seconds);
}

} // namespace

ExitStatus run_dual_gemm(const Arguments& arguments) {
  DualGemmRequest request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  DualGemmFile file;
  DualGemmProblem& operands = file.problem;
  wltest::Problem& problem = operands.product;
  if (!request.input.empty()) {
    refuse_with_input("dual-gemm", options,
                      {"-m", "-n", "-k", "-l", "--a-type", "--b-type", "--seed", "--bias"});
    file = read_dual_gemm_problem(request.input);
    take_sizes(&request, problem, file.unused);
    for (const Numbers* bias : {&operands.bias1, &operands.bias2})
      if (bias->given()) request.bias = name_of(bias->type);
  } else
    request.verify = true;
  if (!options.given("--out")) request.out = request.a_type == "bf16" ? "bf16" : "f16";
  const Device device = prepare_product("dual-gemm", &request);
  const Context context(device.ordinal);
  check_sizes(*context.get(), request);
  check_memory("dual-gemm", "m, n, k, l", memory_needed(request, device));
  if (request.input.empty()) {
    const Progress progress("making the inputs");
    operands = make_dual_gemm_problem(request.m, request.n, request.k, request.l, request.bias,
                                      request.seed, operand_of(request.a_type),
                                      operand_of(request.b_type));
  }
  problem.alpha1 = request.alpha1.value_or(problem.alpha1);
  problem.alpha2 = request.alpha2.value_or(problem.alpha2);

  if (!request.trace.empty()) create_folder_of(request.trace);
  const Outcome outcome = with_virtual_report(
      device, [&] { return run_on_device(context.get(), device, request, operands); });

  Report report;
  report_version(report, "dual-gemm");
  report_run(report, device, request, problem, outcome);
  if (request.stats)
    report_stats(report,
                 list_configs(context.get(), sizes_only(request), wl_dual_gemm_list_configs),
                 outcome.plan.config, outcome.counted);
  std::optional<Verdict> verdict;
  if (request.verify) verdict = verify(operands, outcome, request);
  const End end = conclude(report, request, verdict, [&] {
    write_outcome("dual-gemm", request, file.batched || request.l > 1, outcome);
  });
  print_report(report, request, end.result);
  return end.status;
}

} // namespace warpline::cli
