// warpline gemm: inputs -> check -> plan -> run -> every output compared -> table and JSON.
#include "kernels/linear/linear.hpp"
#include "runtime/src/strided.hpp"
#include "tests/reference/linear.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/gemm_files.hpp"
#include "tools/cli/image.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/product.hpp"

#include <algorithm>
#include <cstdio>

namespace warpline::cli {
namespace {

// In the order of wl_layout.
const std::vector<std::string> layouts = {"k", "mn"};
wl_layout layout_of(const std::string& name) {
  return name == layouts[0] ? WL_K_MAJOR : WL_MN_MAJOR;
}

struct GemmRequest : ProductRequest {
  std::optional<float> alpha;
  std::string act = "none", bias;
  std::string a_layout = "k", b_layout = "k";
  bool row = false, col = false, residual = false, in_place = false, fast = false;
  int64_t ldd = 0, batch_stride_d = 0, ldr = 0, batch_stride_r = 0;

  wl_activation activation() const {
    return static_cast<wl_activation>(std::find(activations.begin(), activations.end(), act) -
                                      activations.begin());
  }
};

Options declare(GemmRequest& r) {
  Options o(
      "gemm",
      "Runs D = act(row * col * alpha * A.B^T + bias) + residual with A [M,K] and B [N,K] in\n"
      "NVFP4 or another type, and compares every output with a double-precision reference. row\n"
      "is a factor for each row of D, col one for each column, bias a number for each column;\n"
      "these and the residual are optional.");
  declare_sizes(&o, &r, "rows of B", {"f16", "bf16", "f32", "nvfp4"});
  o.choice("--a-type", "type of A (default nvfp4)", r.a_type, operand_names);
  o.choice("--b-type", "type of B (default A's); the device says which pairs it multiplies",
           r.b_type, operand_names);
  o.choice("--a-layout",
           "what of A is contiguous: k (default) or mn, its rows (WL_MN_MAJOR; FP16 and BF16\n"
           "on Hopper)",
           r.a_layout, layouts);
  o.choice("--b-layout", "likewise of B", r.b_layout, layouts);
  o.choice("--act", "activation (default none)", r.act, activations);
  o.real("--alpha",
         "FP32 scale of the product (default 1, or the input file's; 2^-6 for each\n"
         "random operand of INT8)",
         r.alpha);
  o.choice("--bias", "a random bias of this type for each column of D", r.bias,
           {"f32", "f16", "bf16"});
  o.flag("--row", "a random factor for each row of D", r.row);
  o.flag("--col", "a random factor for each column of D; of FP8 and INT8", r.col);
  o.flag("--fast-accumulation",
         "FP8 on Hopper: sums of the tensor core's 14 bits (WL_FAST_ACCUMULATION)", r.fast);
  o.flag("--residual", "a random residual, of D's type; none with --out nvfp4", r.residual);
  o.flag("--in-place", "D is written over the residual", r.in_place);
  const int64_t most = INT64_MAX;
  o.integer("--ldd", "elements from row to row of D (default N)", r.ldd, -most, most);
  o.integer("--batch-stride-d", "from entry to entry (default M * ldd)", r.batch_stride_d, -most,
            most);
  o.integer("--ldr", "elements from row to row of the residual (default N, or D's in place)", r.ldr,
            -most, most);
  o.integer("--batch-stride-r", "from entry to entry (default M * ldr, or D's in place)",
            r.batch_stride_r, -most, most);
  declare_scales(&o, &r, "A and B");
  declare_counting(&o, &r);
  o.text("--input", "FILE",
         "safetensors with a, b (U8 or F4, [rows, K/2]), a_scale, b_scale (F8_E4M3,\n"
         "[rows, K/16]), or of other types, without scales (F16, BF16, F32 as tf32,\n"
         "F8_E4M3, F8_E5M2 or I8, [rows, K]), and optional alpha, a_tensor_scale,\n"
         "b_tensor_scale (F32), bias (F32, F16 or BF16, [N]), row (F32, [M]),\n"
         "col (F32, [N]), residual (D's type, [M, N])",
         r.input);
  declare_run(&o, &r);
  return o;
}

Strided layout_of_d(const GemmRequest& r) {
  return {r.m, r.n, r.l, r.ldd, r.batch_stride_d, r.m > 0 && r.n > 0 && r.l > 0};
}
Strided layout_of_residual(const GemmRequest& r) {
  return {r.m, r.n, r.l, r.ldr, r.batch_stride_r, r.m > 0 && r.n > 0 && r.l > 0};
}

wl_gemm_args sizes_only(const GemmRequest& r) {
  auto args = sizes_of<wl_gemm_args>(r);
  args.activation = r.activation();
  args.a_layout = layout_of(r.a_layout);
  args.b_layout = layout_of(r.b_layout);
  if (r.fast) args.flags |= WL_FAST_ACCUMULATION;
  args.ldr = r.ldr;
  args.batch_stride_r = r.batch_stride_r;
  args.ldd = r.ldd;
  args.batch_stride_d = r.batch_stride_d;
  return args;
}

// The rules are asked without a context, which would look for memory behind the pointers.
void check_sizes(const wl_context& context, const GemmRequest& r) {
  wl_gemm_args args = sizes_only(r);
  args.a = far_apart(1);
  args.b = far_apart(2);
  args.sfa = scales_far_apart(3, args.a_type);
  args.sfb = scales_far_apart(4, args.b_type);
  args.d = far_apart(5);
  args.sfd = far_apart(6);
  if (r.row) args.row = static_cast<const float*>(far_apart(7));
  if (r.col) args.col = static_cast<const float*>(far_apart(10));
  if (!r.bias.empty()) args.bias = far_apart(8);
  args.bias_type = dtype_of(r.bias.empty() ? "f32" : r.bias);
  if (r.residual) args.residual = r.in_place ? args.d : far_apart(9);
  require(api("wl_gemm_check", [&] { return linear::rules().check({args, context.limits}); }));
}

// While operands and D are on the device, or while they are compared, whichever takes more.
double memory_needed(const GemmRequest& r, const Device& device) {
  const OperandBytes a = bytes_of(r, r.a_type, r.m), b = bytes_of(r, r.b_type, r.n);
  const double values = a.values + b.values, scales = a.scales + b.scales,
               outputs = double(r.l) * double(r.m) * double(r.n);
  const auto element = double(element_bytes(r.d_type()));
  const double d = r.quantised() ? outputs / 2 + packed_bytes(r.m, r.n, r.l)
                                 : element * double(layout_of_d(r).extent());
  const double dense_residual = r.residual ? element * outputs : 0;
  const double residual =
      r.residual && !r.in_place ? element * double(layout_of_residual(r).extent()) : 0;
  const double running = std::max({a.packed, b.packed, residual}) + d +
                         host_bytes(device, r, values + a.packed + b.packed + d + residual);
  const double comparing = d + element * outputs + (r.verify ? (8 + 8 + 4) * outputs : 0) +
                           (r.verify && r.residual ? 4 * outputs : 0);
  return values + scales + dense_residual + std::max({running, comparing, a.drawn + b.drawn});
}

Outcome run_on_device(wl_context* context, const Device& device, const GemmRequest& r,
                      const GemmProblem& problem) {
  std::optional<Progress> progress("sending the inputs");
  const wltest::Problem& p = problem.product;
  const DeviceMemory a(context, stored(p.a, layout_of(r.a_layout))),
      b(context, stored(p.b1, layout_of(r.b_layout))),
      sfa(context, scales_of(layout_of_scales(r), p.a)),
      sfb(context, scales_of(layout_of_scales(r), p.b1)), row(context, problem.row.bytes),
      col(context, problem.col.bytes), bias(context, problem.bias.bytes);
  const float factors[] = {p.alpha1, r.d_scale.value_or(1)};
  const DeviceMemory alpha(context, &factors[0], sizeof(float)),
      d_scale(context, &factors[1], sizeof(float));
  const Image of_d{layout_of_d(r), element_bytes(r.d_type())},
      of_residual{layout_of_residual(r), element_bytes(r.d_type())};
  const std::vector<uint8_t> none;
  const bool apart = r.residual && !r.in_place;
  const DeviceMemory residual(context, apart ? of_residual.placed(problem.residual.bytes) : none);
  const size_t sfd_entry = r.quantised() ? wl_sf_bytes(WL_SF_128x4, p.m, p.n) : 0;
  const OutputMemory out(context,
                         r.quantised()
                             ? std::vector<uint8_t>(static_cast<size_t>(p.l * p.m * p.n / 2), 0xFF)
                             : of_d.placed(r.in_place ? problem.residual.bytes : none),
                         sfd_entry * static_cast<size_t>(p.l));

  wl_gemm_args args = sizes_only(r);
  args.a = a.get();
  args.b = b.get();
  args.sfa = sfa.get();
  args.sfb = sfb.get();
  args.alpha = static_cast<const float*>(alpha.get());
  args.row = static_cast<const float*>(row.get());
  args.col = static_cast<const float*>(col.get());
  args.bias = bias.get();
  args.bias_type = problem.bias.type;
  args.residual = r.in_place ? out.d.get() : residual.get();
  args.d = out.d.get();
  if (r.quantised()) {
    args.sfd = out.sfd.get();
    args.d_scale = static_cast<const float*>(d_scale.get());
  }
  progress.reset();
  Outcome outcome{ProductRunner("gemm", context, device, r).run(args, wl_gemm_plan), {}, 0, {}};
  outcome.counted.tensors = {{"A", args.a}, {"B", args.b}, {"SFA", args.sfa}, {"SFB", args.sfb}};
  if (r.quantised())
    outcome.quantised = out.read_operand(p.m, p.n, p.l);
  else
    outcome.d = of_d.gathered(out.read_d(), &outcome.strayed);
  return outcome;
}

Verdict verify(const GemmProblem& problem, const Outcome& outcome, const GemmRequest& r) {
  const wltest::LinearOperands operands{
      r.activation(),          problem.product.alpha1,      values_of(problem.row),
      values_of(problem.bias), values_of(problem.residual), values_of(problem.col)};
  return judge(
      r, problem.product, outcome,
      [&](const wltest::Sums& sums) { return wltest::linear(sums, operands); },
      [&](const wltest::Sums& sums) { return wltest::linear_replayed(sums, operands); });
}

void report_epilogue(Report& report, const GemmRequest& r) {
  std::string text = r.act;
  if (!r.bias.empty()) text += ", bias in " + r.bias;
  if (r.row) text += ", factors of rows";
  if (r.col) text += ", factors of columns";
  const std::string residual = r.in_place ? "in place" : "apart";
  if (r.residual) text += ", residual " + residual;
  report.add("epilogue", text, "act", json_string(r.act));
  report.add("", "", "bias", r.bias.empty() ? "null" : json_string(r.bias));
  report.add("", "", "row", r.row ? "true" : "false");
  report.add("", "", "col", r.col ? "true" : "false");
  report.add("", "", "residual", r.residual ? json_string(residual) : "null");
}

void report_strides(Report& report, const GemmRequest& r) {
  const auto add = [&](const std::string& of, const char* ld, const char* stride,
                       const Strided& layout, bool named) {
    report.add(named ? "strides of " + of : "",
               format("rows %lld, entries %lld elements",
                      static_cast<long long>(layout.row_stride()),
                      static_cast<long long>(layout.entry_stride())),
               ld, std::to_string(layout.row_stride()));
    report.add("", "", stride, std::to_string(layout.entry_stride()));
  };
  add("D", "ldd", "batch_stride_d", layout_of_d(r), r.ldd != 0 || r.batch_stride_d != 0);
  if (r.residual)
    add("the residual", "ldr", "batch_stride_r", layout_of_residual(r),
        r.ldr != 0 || r.batch_stride_r != 0);
}

void report_run(Report& report, const Device& device, const GemmRequest& r, const GemmProblem& p,
                const Outcome& outcome) {
  report_device(report, device);
  report_problem(report, r);
  report_inputs(report, r);
  report.add("alpha", format("%.9g", double{p.product.alpha1}), "alpha",
             json_number(double{p.product.alpha1}));
  report_epilogue(report, r);
  report_strides(report, r);
  report.add_text("output type", "out", r.out);
  report_schedule(report, device, r);
  report_plan(report, device, outcome.plan, outcome.seconds);
}

// Takes from the file what the options would say of a random problem.
GemmFile read_input(const Options& options, GemmRequest* r) {
  refuse_with_input("gemm", options,
                    {"-m", "-n", "-k", "-l", "--a-type", "--b-type", "--seed", "--bias", "--row",
                     "--col", "--residual"});
  GemmFile file = read_gemm_problem(r->input);
  const GemmProblem& p = file.problem;
  take_sizes(r, p.product, file.unused);
  if (!options.given("--out")) r->out = default_out(r->a_type);
  if (p.bias.given()) r->bias = name_of(p.bias.type);
  r->row = p.row.given();
  r->col = p.col.given();
  r->residual = p.residual.given();
  if (r->residual && !options.given("--out")) r->out = name_of(p.residual.type);
  if (r->residual && !r->quantised() && p.residual.type != r->d_type())
    throw Failure(exit_usage, r->input + ": tensor \"residual\" is " + file_dtype(p.residual.type) +
                                  ", --out is " + r->out + ": the residual has D's type");
  return file;
}

void check_residual(const Options& options, GemmRequest* r) {
  if (r->residual && r->quantised())
    throw Failure(exit_usage, "gemm: --out is nvfp4, must be f16, bf16 or f32 with a residual");
  if (!r->residual)
    for (const char* name : {"--in-place", "--ldr", "--batch-stride-r"})
      if (options.given(name))
        throw Failure(exit_usage, std::string("gemm: ") + name +
                                      " needs a residual: --residual, or one in the input file");
  if (!r->in_place) return;
  if (!options.given("--ldr")) r->ldr = r->ldd;
  if (!options.given("--batch-stride-r")) r->batch_stride_r = r->batch_stride_d;
}

} // namespace

ExitStatus run_gemm(const Arguments& arguments) {
  GemmRequest request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  GemmFile file;
  if (!request.input.empty())
    file = read_input(options, &request);
  else {
    request.verify = true;
    if (!options.given("--b-type")) request.b_type = request.a_type;
    if (!options.given("--out")) request.out = default_out(request.a_type);
  }
  check_residual(options, &request);
  const Device device = prepare_product("gemm", &request);
  const Context context(device.ordinal);
  check_sizes(*context.get(), request);
  check_memory("gemm", "m, n, k, l and strides", memory_needed(request, device));
  GemmProblem& problem = file.problem;
  if (request.input.empty()) {
    const Progress progress("making the inputs");
    problem = make_gemm_problem(
        request.m, request.n, request.k, request.l,
        {request.bias, request.row, request.residual ? request.out : "", request.col}, request.seed,
        {operand_of(request.a_type), operand_of(request.b_type)});
  }
  problem.product.alpha1 = request.alpha.value_or(problem.product.alpha1);

  if (!request.trace.empty()) create_folder_of(request.trace);
  const Outcome outcome = with_virtual_report(
      device, [&] { return run_on_device(context.get(), device, request, problem); });

  Report report;
  report_version(report, "gemm");
  report_run(report, device, request, problem, outcome);
  if (request.stats)
    report_stats(report, list_configs(context.get(), sizes_only(request), wl_gemm_list_configs),
                 outcome.plan.config, outcome.counted);
  std::optional<Verdict> verdict;
  if (request.verify) verdict = verify(problem, outcome, request);
  const End end = conclude(report, request, verdict, [&] {
    write_outcome("gemm", request, file.batched || request.l > 1, outcome);
  });
  print_report(report, request, end.result);
  return end.status;
}

} // namespace warpline::cli
