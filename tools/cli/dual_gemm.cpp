// warpline dual-gemm: inputs -> check -> plan -> run -> every output compared -> table and JSON.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/run.hpp"
#include "tools/cli/safetensors.hpp"
#include "tools/cli/stats.hpp"
#include "tools/stamps/session.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace warpline::cli {
namespace {

struct Request : RunOptions {
  int64_t m = 256, n = 4096, k = 7168, l = 1;
  std::string out = "f16";
  std::optional<float> alpha1, alpha2, d_scale;
  bool stats = false, stamps = false;

  bool quantised() const { return out == "nvfp4"; }
  wltest::OutputType type() const { // of outputs of 16 bits
    return out == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  }
};

// Sizes have wide limits here: the library's own check knows the rules and words the message.
Options declare(Request& r) {
  Options o(
      "dual-gemm",
      "Runs D = silu(alpha1 A.B1^T) * (alpha2 A.B2^T) with A [M,K], B1 and B2 [N,K] in NVFP4,\n"
      "and compares every output with a double-precision reference.");
  const int64_t most = INT64_MAX;
  o.integer("-m", "rows of A and D (default 256)", r.m, -most, most);
  o.integer("-n", "rows of B1 and B2, columns of D, a multiple of 8 (default 4096)", r.n, -most,
            most);
  o.integer("-k", "values in a row, a multiple of 64 (default 7168)", r.k, -most, most);
  o.integer("-l", "batch (default 1)", r.l, -most, most);
  o.choice("--out", "type of D (default f16)", r.out, {"f16", "bf16", "nvfp4"});
  o.real("--d-scale", "FP32 scale of D, --out nvfp4 (default 1)", r.d_scale);
  o.real("--alpha1", "FP32 scale of the first product (default 1, or the input file's)", r.alpha1);
  o.real("--alpha2", "FP32 scale of the second product", r.alpha2);
  o.text("--trace", "PREFIX",
         "write the timeline of the first cluster, PREFIX.KERNEL.json and .svg, into a\n"
         "folder that is created where it is missing; on a GPU from stamps in the\n"
         "kernel, and of a second run: the first warms up",
         r.trace);
  o.flag("--stamps", "virtual GPU: --trace from stamps too, not from the emulator's events",
         r.stamps);
  o.flag("--stats", "virtual GPU: count what moved, by operand, and what was issued", r.stats);
  o.text("--input", "FILE",
         "safetensors with a, b1, b2 (U8 or F4, [rows, K/2]), a_scale, b1_scale,\n"
         "b2_scale (F8_E4M3, [rows, K/16]) and optional alpha1, alpha2 and\n"
         "a_tensor_scale, b1_tensor_scale, b2_tensor_scale (F32), as quantize writes",
         r.input);
  declare_run(&o, &r);
  return o;
}

wl_dual_gemm_args sizes_only(const Request& r) {
  wl_dual_gemm_args args = {};
  args.struct_size = sizeof args;
  args.m = r.m;
  args.n = r.n;
  args.k = r.k;
  args.l = r.l;
  args.sf_layout = WL_SF_128x4;
  args.d_type = r.quantised() ? WL_NVFP4 : r.type() == wltest::OutputType::f16 ? WL_F16 : WL_BF16;
  args.config = r.config.empty() ? nullptr : r.config.c_str();
  return args;
}

// Judges the sizes before anything of that size exists: the pointers stand for aligned arrays 2^58
// bytes apart, and the rules are asked without a context, which would look for memory there.
void check_sizes(const wl_context& context, const Request& r) {
  wl_dual_gemm_args args = sizes_only(r);
  auto far_apart = [](uint64_t i) { return reinterpret_cast<void*>(i << 58); };
  args.a = far_apart(1);
  args.b1 = far_apart(2);
  args.b2 = far_apart(3);
  args.sfa = far_apart(4);
  args.sfb1 = far_apart(5);
  args.sfb2 = far_apart(6);
  args.d = far_apart(7);
  args.sfd = far_apart(8);
  require(api("wl_dual_gemm_check", [&] {
    return dual_gemm::rules().check({args, context.limits});
  }));
}

// While operands and D are on the device, or while they are compared, whichever takes more.
double memory_needed(const Request& r, const Device& device) {
  const double m = double(r.m), n = double(r.n), k = double(r.k), l = double(r.l);
  const double values = l * (m + 2 * n) * k / 2, scales = values / 8, outputs = l * m * n;
  const double of_a = packed_bytes(r.m, r.k, r.l), of_b = packed_bytes(r.n, r.k, r.l);
  const double d = r.quantised() ? outputs / 2 + packed_bytes(r.m, r.n, r.l) : 2 * outputs;
  const double running =
      std::max(of_a, of_b) + d + host_bytes(device, r, values + of_a + 2 * of_b + d);
  const double comparing = d + (r.verify ? (8 + 8 + 8 + 2) * outputs : 0);
  return values + scales + std::max(running, comparing);
}

struct Outcome {
  wl_plan_info plan = {};
  double run_seconds = 0;
  std::vector<uint16_t> d;
  wltest::Operand quantised; // D with --out nvfp4
  Counted counted;           // for stats
};

Outcome run_on_device(wl_context* context, const Device& device, const Request& r,
                      const wltest::Problem& problem) {
  std::optional<Progress> progress("sending the inputs");
  const DeviceMemory a(context, problem.a.values), b1(context, problem.b1.values),
      b2(context, problem.b2.values), sfa(context, pack_scales(problem.a)),
      sfb1(context, pack_scales(problem.b1)), sfb2(context, pack_scales(problem.b2));
  const std::vector<float> alphas = {problem.alpha1, problem.alpha2, r.d_scale.value_or(1)};
  const DeviceMemory alpha1(context, &alphas[0], sizeof(float)),
      alpha2(context, &alphas[1], sizeof(float)), d_scale(context, &alphas[2], sizeof(float));
  Outcome outcome;
  // 0xFFFF is a NaN in FP16 and BF16, 0xFF in E4M3: an output that the kernel leaves out cannot
  // pass.
  const size_t outputs = static_cast<size_t>(problem.l * problem.m * problem.n);
  outcome.d.assign(r.quantised() ? outputs / 4 : outputs, 0xFFFF);
  const size_t d_bytes = outcome.d.size() * sizeof(uint16_t);
  const DeviceMemory d(context, outcome.d.data(), d_bytes);
  const size_t sfd_entry = r.quantised() ? wl_sf_bytes(WL_SF_128x4, problem.m, problem.n) : 0;
  std::vector<uint8_t> scales(sfd_entry * static_cast<size_t>(problem.l), 0xFF);
  const DeviceMemory sfd(context, scales);

  wl_dual_gemm_args args = sizes_only(r);
  args.a = a.get();
  args.b1 = b1.get();
  args.b2 = b2.get();
  args.sfa = sfa.get();
  args.sfb1 = sfb1.get();
  args.sfb2 = sfb2.get();
  args.alpha1 = static_cast<const float*>(alpha1.get());
  args.alpha2 = static_cast<const float*>(alpha2.get());
  args.d = d.get();
  if (r.quantised()) {
    args.sfd = sfd.get();
    args.d_scale = static_cast<const float*>(d_scale.get());
  }
  std::optional<stamps::Session> session;
  if (r.stamps) session.emplace(context);
  progress.emplace("loading the kernel");
  const Plan plan(context, args, wl_dual_gemm_plan);
  outcome.plan = plan.info();
  const DeviceMemory workspace(context, outcome.plan.workspace_bytes);
  {
    progress.emplace(std::string("running on ") + device.info.name);
    if (session) {
      require(wl_plan_run(plan.get(), workspace.get(), outcome.plan.workspace_bytes, nullptr));
      require(wl_stream_synchronize(context, nullptr));
      session->clear();
    }
    if (r.stats) start_counting();
    const auto start = std::chrono::steady_clock::now();
    require(wl_plan_run(plan.get(), workspace.get(), outcome.plan.workspace_bytes, nullptr));
    require(wl_stream_synchronize(context, nullptr));
    outcome.run_seconds = seconds_since(start);
    if (r.stats) outcome.counted.json = virtual_stats();
    progress.reset();
  }
  if (session) {
    const std::string wrong = session->write(r.trace);
    if (!wrong.empty()) throw Failure(exit_device, "dual-gemm: --trace: " + wrong);
  }
  outcome.counted.tensors = {{"A", args.a},     {"B1", args.b1},     {"B2", args.b2},
                             {"SFA", args.sfa}, {"SFB1", args.sfb1}, {"SFB2", args.sfb2}};
  require(wl_download(context, outcome.d.data(), d.get(), d_bytes));
  if (!r.quantised()) return outcome;
  require(wl_download(context, scales.data(), sfd.get(), scales.size()));
  wltest::Operand& q = outcome.quantised;
  q = {problem.m, problem.n, problem.l, {}, {}};
  q.values.resize(d_bytes);
  std::memcpy(q.values.data(), outcome.d.data(), d_bytes);
  unpack_scales(scales, &q);
  return outcome;
}

struct Verdict {
  wltest::Comparison comparison;
  int64_t unequal = 0; // to the replay
  double seconds = 0;
};

Verdict verify(const wltest::Problem& problem, const Outcome& outcome, const Request& r) {
  Progress progress("comparing with the reference");
  Verdict verdict;
  const wltest::Sums sums =
      wltest::accumulate(problem, 0, [&](double fraction) { progress.fraction(fraction); });
  const int64_t stride = problem.m * problem.n;
  const std::vector<double> reference = gated(sums, problem.alpha1, problem.alpha2);
  if (r.quantised()) {
    const float scale = r.d_scale.value_or(1);
    verdict.comparison = wltest::compare_nvfp4(sums, reference, outcome.quantised, double{scale});
    verdict.unequal = wltest::count_unequal(
        outcome.quantised, quantized_replayed(sums, problem.alpha1, problem.alpha2, scale));
  } else {
    const auto type = r.type();
    verdict.comparison =
        wltest::compare(sums, reference, outcome.d.data(), problem.n, stride, type);
    verdict.unequal =
        wltest::compare_exact(sums, gated_replayed(sums, problem.alpha1, problem.alpha2, type),
                              outcome.d.data(), problem.n, stride, type)
            .unequal;
  }
  verdict.seconds = progress.seconds();
  return verdict;
}

std::string coordinate_json(double value, const wltest::Coordinate& at) {
  return "{\"value\": " + json_number(value) +
         ", \"at\": " + json_list({at.entry, at.row, at.column}) + "}";
}

void report_run(Report& report, const Device& device, const Request& r, const wltest::Problem& p,
                const Outcome& outcome) {
  report_device(report, device);
  report.add("problem",
             format("m %lld, n %lld, k %lld, l %lld", static_cast<long long>(p.m),
                    static_cast<long long>(p.n), static_cast<long long>(p.k),
                    static_cast<long long>(p.l)),
             "problem", json_list({p.m, p.n, p.k, p.l}));
  report_inputs(report, r);
  report.add("alpha1, alpha2", format("%.9g, %.9g", double{p.alpha1}, double{p.alpha2}), "alpha",
             "[" + json_number(double{p.alpha1}) + "," + json_number(double{p.alpha2}) + "]");
  report.add_text("output type", "out", r.out);
  report_schedule(report, device, r);
  report_plan(report, device, outcome.plan, outcome.run_seconds);
}

// What an output may differ by.
const char* bound_text(const Request& r) {
  return r.out == "f16"    ? "1e-3 + 1e-3 |reference|"
         : r.out == "bf16" ? "1e-3 + 1e-3 |reference| + half a last place of BF16"
                           : "codes of the reference, moved by at most 1e-3 + 1e-3 |reference|";
}

void report_verdict(Report& report, const Verdict& verdict, const Request& r) {
  const wltest::Comparison& c = verdict.comparison;
  report.rule();
  // A code is right or wrong and leaves no margin.
  if (!r.quantised())
    report.add("largest error",
               std::isfinite(c.worst_use)
                   ? format("%.1f %% of what is allowed, at (%s): got %.8g, reference %.8g",
                            100 * c.worst_use, describe(c.worst_use_at).c_str(), c.worst_out,
                            c.worst_reference)
                   : "beyond any bound: NaN or infinity in the wrong place",
               "margin", json_number(c.margin()));
  report.add(r.quantised() ? "codes wrong" : "outputs wrong",
             format("%lld of %lld", static_cast<long long>(c.bad), static_cast<long long>(c.count)),
             "wrong", std::to_string(c.bad));
  if (!c.passed())
    report.add("first wrong",
               format("(%s): got %.8g, reference %.8g", describe(c.first_bad).c_str(),
                      c.first_bad_out, c.first_bad_reference),
               "first_wrong", coordinate_json(c.first_bad_out, c.first_bad));
  report.add("allowed", bound_text(r), "", "");
  if (c.special > 0)
    report.add("not finite",
               format("%lld outputs are NaN or infinite in the reference",
                      static_cast<long long>(c.special)),
               "", "");
  report.add("", "", "not_finite", std::to_string(c.special));
  report.add("", "", "outputs", std::to_string(c.count));
  report.add("", "", "worst_absolute", coordinate_json(c.worst_absolute, c.worst_absolute_at));
  report.add("", "", "worst_relative", coordinate_json(c.worst_relative, c.worst_relative_at));
  const int64_t same = c.count - verdict.unequal;
  report.add("same bits as replay",
             format("%lld of %lld (FP32 epilogue replayed on exact sums)",
                    static_cast<long long>(same), static_cast<long long>(c.count)),
             "same_bits", std::to_string(same));
  report.add("reference time", duration_text(verdict.seconds), "verify_ms",
             json_number(verdict.seconds * 1e3));
}

} // namespace

ExitStatus run_dual_gemm(const Arguments& arguments) {
  Request request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  FileProblem file;
  if (!request.input.empty()) {
    refuse_with_input("dual-gemm", options, {"-m", "-n", "-k", "-l", "--seed"});
    file = read_problem(request.input);
    if (!file.unused.empty())
      std::fprintf(stderr, "warpline: %s: not used: %s\n", request.input.c_str(),
                   shown_names(file.unused).c_str());
    request.m = file.problem.m;
    request.n = file.problem.n;
    request.k = file.problem.k;
    request.l = file.problem.l;
  } else
    request.verify = true;
  if (request.d_scale && !request.quantised())
    throw Failure(exit_usage, "dual-gemm: --d-scale is for --out nvfp4, --out is " + request.out);
  if (request.d_scale && !(*request.d_scale > 0))
    throw Failure(exit_usage, "dual-gemm: --d-scale must be positive");

  const Device device = prepare_run("dual-gemm", request);
  if (request.stamps && request.trace.empty())
    throw Failure(exit_usage, "dual-gemm: --stamps needs --trace PREFIX, where the timeline goes");
  if (!request.trace.empty()) {
    if (!device.info.is_virtual) request.stamps = true;
    if (!request.stamps) set_virtual_option("trace", request.trace);
  }
  if (request.stats && !device.info.is_virtual)
    throw Failure(exit_usage, "dual-gemm: --stats counts on the virtual GPU, the device is " +
                                  std::string(device.info.name));
  const Context context(device.ordinal);
  check_sizes(*context.get(), request);
  check_memory("dual-gemm", "m, n, k, l", memory_needed(request, device));
  wltest::Problem& problem = file.problem;
  if (request.input.empty()) {
    const Progress progress("making the inputs");
    problem = wltest::make_problem(request.m, request.n, request.k, request.l,
                                   wltest::InputKind::public_problem, request.seed);
  }
  problem.alpha1 = request.alpha1.value_or(problem.alpha1);
  problem.alpha2 = request.alpha2.value_or(problem.alpha2);

  if (!request.trace.empty()) create_folder_of(request.trace);
  const Outcome outcome = with_virtual_report(
      device, [&] { return run_on_device(context.get(), device, request, problem); });

  Report report;
  report_version(report, "dual-gemm");
  report_run(report, device, request, problem, outcome);
  if (request.stats)
    report_stats(report, context.get(), sizes_only(request), outcome.plan.config, outcome.counted);
  std::string result = "DONE, not verified (--verify compares with the reference)";
  ExitStatus status = exit_right;
  if (request.verify) {
    const Verdict verdict = verify(problem, outcome, request);
    report_verdict(report, verdict, request);
    status = verdict.comparison.passed() ? exit_right : exit_wrong;
    result = status == exit_right ? "PASS" : "FAIL";
  }
  report.add("", "", "result", json_string(request.verify ? result : "NOT VERIFIED"));
  if (!request.output.empty() && status == exit_right) {
    const bool batched = file.batched || problem.l > 1;
    if (request.quantised())
      write_result(request.output, batched, outcome.quantised, request.d_scale.value_or(1));
    else
      write_result(request.output, problem, batched, request.type(), outcome.d);
    report.add_text("written", "output", request.output);
  } else if (!request.output.empty()) {
    report.add("written", "nothing: the results are wrong", "", "");
  }
  print_report(report, request, result);
  return status;
}

} // namespace warpline::cli
