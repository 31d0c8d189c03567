#include "tools/cli/product.hpp"

#include "kernels/gemm/rules.hpp"
#include "tests/reference/linear.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/product_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace warpline::cli {

wl_dtype dtype_of(const std::string& name) {
  return name == "f16" ? WL_F16 : name == "bf16" ? WL_BF16 : name == "f32" ? WL_F32 : WL_NVFP4;
}

const char* name_of(wl_dtype type) {
  return type == WL_F16 ? "f16" : type == WL_BF16 ? "bf16" : type == WL_F32 ? "f32" : "nvfp4";
}

const std::vector<std::string> operand_names = {
    "nvfp4", "f16",        "bf16",       "tf32",       "e4m3",       "e5m2",
    "int8",  "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4"};

wl_operand operand_of(const std::string& name) {
  return static_cast<wl_operand>(std::find(operand_names.begin(), operand_names.end(), name) -
                                 operand_names.begin());
}

const std::string& name_of(wl_operand type) { return operand_names[static_cast<size_t>(type)]; }

std::string operands_text(const std::string& a_type, const std::string& b_type) {
  return "A " + a_type + ", B " + b_type;
}

std::string default_out(const std::string& a_type) {
  return a_type == "bf16" ? "bf16" : a_type == "tf32" ? "f32" : "f16";
}

size_t element_bytes(wl_dtype type) { return type == WL_F32 ? 4 : 2; }

wl_dtype ProductRequest::d_type() const { return dtype_of(out); }

// Sizes have wide limits here: the library's own check knows the rules and words the message.
void declare_sizes(Options* options, ProductRequest* r, const std::string& rows_of_b,
                   const std::vector<std::string>& out) {
  const int64_t most = INT64_MAX;
  options->integer("-m", "rows of A and D (default 256)", r->m, -most, most);
  options->integer("-n", rows_of_b + ", columns of D, a multiple of 8 (default 4096)", r->n, -most,
                   most);
  options->integer("-k", "values in a row, of NVFP4 a multiple of 64 (default 7168)", r->k, -most,
                   most);
  options->integer("-l", "batch, with groups 1 (default 1)", r->l, -most, most);
  options->choice("--out", out_help, r->out, out);
  if (std::find(out.begin(), out.end(), "nvfp4") != out.end())
    options->real("--d-scale", "FP32 scale of D, --out nvfp4 (default 1)", r->d_scale);
}

void declare_counting(Options* options, ProductRequest* r) {
  options->text("--trace", "PREFIX",
                "write the timeline of the first cluster, PREFIX.KERNEL.json and .svg, into a\n"
                "folder that is created where it is missing; on a GPU from stamps in the\n"
                "kernel, and of a second run: the first warms up",
                r->trace);
  options->flag("--stamps", "virtual GPU: --trace from stamps too, not from the emulator's events",
                r->stamps);
  options->flag("--stats", "virtual GPU: count what moved, by operand, and what was issued",
                r->stats);
}

void take_sizes(ProductRequest* r, const wltest::Problem& of_file,
                const std::vector<std::string>& unused) {
  if (!unused.empty())
    std::fprintf(stderr, "warpline: %s: not used: %s\n", r->input.c_str(),
                 shown_names(unused).c_str());
  r->m = of_file.m;
  r->n = of_file.n;
  r->k = of_file.k;
  r->l = of_file.l;
  r->a_type = name_of(of_file.a.type);
  r->b_type = name_of(of_file.b1.type);
}

OperandBytes bytes_of(const ProductRequest& r, const std::string& type, int64_t rows) {
  const wl_operand operand = operand_of(type);
  const gemm::Format& format = gemm::format_of(operand);
  const double elements = double(r.l) * double(rows) * double(r.k);
  const bool nvfp4 = operand == WL_OPERAND_NVFP4;
  return {elements * format.bits / 8, format.scale_block == 0 ? 0 : elements / format.scale_block,
          double(gemm::scale_bytes(operand, rows, r.k, r.l)),
          nvfp4 || !r.input.empty() ? 0 : elements * 9 / 16};
}

Device prepare_product(const std::string& command, ProductRequest* r) {
  if (r->d_scale && !r->quantised())
    throw Failure(exit_usage, command + ": --d-scale is for --out nvfp4, --out is " + r->out);
  check_d_scale(command, r->d_scale);
  const Device device = prepare_run(command, *r);
  if (r->stamps && r->trace.empty())
    throw Failure(exit_usage, command + ": --stamps needs --trace PREFIX, where the timeline goes");
  if (!r->trace.empty()) {
    if (!device.info.is_virtual) r->stamps = true;
    if (!r->stamps) set_virtual_option("trace", r->trace);
  }
  if (r->stats && !device.info.is_virtual)
    throw Failure(exit_usage, command + ": --stats counts on the virtual GPU, the device is " +
                                  std::string(device.info.name));
  return device;
}

OutputMemory::OutputMemory(wl_context* context, const std::vector<uint8_t>& of_d,
                           size_t scale_bytes)
    : d(context, of_d), sfd(context, std::vector<uint8_t>(scale_bytes, 0xFF)), context_(context),
      d_bytes_(of_d.size()), scale_bytes_(scale_bytes) {}

std::vector<uint8_t> OutputMemory::read_d() const {
  std::vector<uint8_t> bytes(d_bytes_);
  require(wl_download(context_, bytes.data(), d.get(), bytes.size()));
  return bytes;
}

wltest::Operand OutputMemory::read_operand(int64_t m, int64_t n, int64_t l) const {
  std::vector<uint8_t> scales(scale_bytes_);
  require(wl_download(context_, scales.data(), sfd.get(), scales.size()));
  wltest::Operand q{m, n, l, read_d(), {}};
  unpack_scales(scales, &q);
  return q;
}

ProductRunner::ProductRunner(const std::string& command, wl_context* context, const Device& device,
                             const ProductRequest& r)
    : command_(command), context_(context), device_(device), request_(r) {
  if (r.stamps) session_ = std::make_unique<stamps::Session>(context);
}

ProductRun ProductRunner::run(const Plan& plan) {
  ProductRun result;
  result.plan = plan.info();
  const size_t bytes = result.plan.workspace_bytes;
  // A flag is down whatever memory holds; the checks of the virtual GPU know only that it is
  // unwritten.
  const std::vector<uint8_t> down(device_.info.is_virtual ? bytes + 1 : 0, 0xFF);
  const DeviceMemory workspace =
      device_.info.is_virtual ? DeviceMemory(context_, down) : DeviceMemory(context_, bytes);
  const auto run_once = [&] {
    require(wl_plan_run(plan.get(), workspace.get(), bytes, nullptr));
    require(wl_stream_synchronize(context_, nullptr));
  };
  {
    const Progress progress(std::string("running on ") + device_.info.name);
    if (session_) {
      run_once();
      session_->clear();
    }
    if (request_.stats) start_counting();
    const auto start = std::chrono::steady_clock::now();
    run_once();
    result.seconds = seconds_since(start);
    if (request_.stats)
      result.counted = {virtual_stats(), {}, workspace.get(), result.plan.workspace_bytes};
  }
  if (session_) {
    const std::string wrong = session_->write(request_.trace);
    if (!wrong.empty()) throw Failure(exit_device, command_ + ": --trace: " + wrong);
  }
  return result;
}

bool cuts_sums(const wltest::Problem& problem, const ProductRun& run) {
  const bool is_f8 = problem.a.type == WL_OPERAND_E4M3 || problem.a.type == WL_OPERAND_E5M2;
  return is_f8 && std::string(run.plan.config).find("_sm90_") != std::string::npos;
}

std::vector<double> differences(std::vector<double> one, const std::vector<double>& other) {
  for (size_t i = 0; i < one.size(); ++i) {
    one[i] = std::fabs(one[i] - other[i]);
    if (!std::isfinite(one[i])) one[i] = 0;
  }
  return one;
}

void judge_sums(const Compared& of, std::vector<double> more, Verdict* verdict) {
  verdict->comparison = of.compare(more);
  const int64_t beyond = verdict->comparison.bad;
  if (beyond == 0) return;
  const wltest::Sums lost = of.lost();
  const std::vector<double> wanted = of.reference(of.sums);
  std::vector<double> farthest(wanted.size());
  for (const double side1 : {-1, 1})
    for (const double side2 : {-1, 1}) {
      wltest::Sums moved = of.sums;
      for (size_t i = 0; i < lost.acc1.size(); ++i) moved.acc1[i] += side1 * lost.acc1[i];
      for (size_t i = 0; i < lost.acc2.size(); ++i) moved.acc2[i] += side2 * lost.acc2[i];
      const std::vector<double> by = differences(of.reference(moved), wanted);
      for (size_t i = 0; i < by.size(); ++i) farthest[i] = std::max(farthest[i], by[i]);
    }
  more.resize(farthest.size());
  for (size_t i = 0; i < more.size(); ++i) more[i] += farthest[i];
  verdict->comparison = of.compare(more);
  verdict->by_sums = beyond - verdict->comparison.bad;
}

Verdict judge(const ProductRequest& r, const wltest::Problem& problem, const Outcome& outcome,
              const std::function<std::vector<double>(const wltest::Sums&)>& reference,
              const std::function<std::vector<float>(const wltest::Sums&)>& replay) {
  Progress progress("comparing with the reference");
  Verdict verdict;
  verdict.strayed = outcome.strayed;
  verdict.cuts_sums = cuts_sums(problem, outcome);
  const wltest::Sums sums =
      wltest::accumulate(problem, 0, [&](double fraction) { progress.fraction(fraction); });
  const float scale = r.d_scale.value_or(1);
  {
    const std::vector<double> wanted = reference(sums);
    std::vector<double> more;
    if (verdict.cuts_sums) {
      const bool promoted = std::string(outcome.plan.config).find("f8fast") == std::string::npos;
      more = differences(
          reference(wltest::accumulate_hopper_f8(
              problem, {promoted}, 0, [&](double fraction) { progress.fraction(fraction); })),
          wanted);
    }
    const void* d = outcome.d.data();
    const int64_t n = problem.n, entry = problem.m * problem.n;
    const auto type = r.out == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
    if (r.quantised())
      verdict.comparison = wltest::compare_nvfp4(sums, wanted, outcome.quantised, double{scale});
    else
      judge_sums({sums, reference, [&] { return wltest::most_lost(problem); },
                  [&](const std::vector<double>& allowed) {
                    return r.d_type() == WL_F32
                               ? wltest::compare(sums, wanted, static_cast<const float*>(d), n,
                                                 entry, allowed)
                               : wltest::compare(sums, wanted, static_cast<const uint16_t*>(d), n,
                                                 entry, type, allowed);
                  }},
                 std::move(more), &verdict);
  }
  const std::vector<float> replayed = replay(sums);
  verdict.unequal =
      r.quantised()
          ? wltest::count_unequal(outcome.quantised, wltest::quantized(replayed, sums, scale))
          : wltest::count_unequal(outcome.d, wltest::rounded(replayed, r.d_type()), r.d_type());
  verdict.seconds = progress.seconds();
  return verdict;
}

namespace {

std::string coordinate_json(double value, const wltest::Coordinate& at) {
  return "{\"value\": " + json_number(value) +
         ", \"at\": " + json_list({at.entry, at.row, at.column}) + "}";
}

// What an output may differ by.
const char* bound_text(wl_dtype type) {
  return type == WL_BF16    ? "1e-3 + 1e-3 |reference| + half a last place of BF16"
         : type == WL_NVFP4 ? "codes of the reference, moved by at most 1e-3 + 1e-3 |reference|"
                            : "1e-3 + 1e-3 |reference|";
}

} // namespace

void report_problem(Report& report, const ProductRequest& r) {
  report.add("problem",
             format("m %lld, n %lld, k %lld, l %lld", static_cast<long long>(r.m),
                    static_cast<long long>(r.n), static_cast<long long>(r.k),
                    static_cast<long long>(r.l)),
             "problem", json_list({r.m, r.n, r.k, r.l}));
  report.add("operand types", operands_text(r.a_type, r.b_type), "a_type", json_string(r.a_type));
  report.add("", "", "b_type", json_string(r.b_type));
}

void report_verdict(Report& report, const Verdict& verdict, const ProductRequest& r) {
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
  if (verdict.strayed > 0)
    report.add_integer("bytes written between rows of D", "strayed", verdict.strayed);
  report.add("allowed",
             std::string(bound_text(r.d_type())) +
                 (verdict.cuts_sums ? " + what Hopper's sums of FP8 lose" : "") +
                 (verdict.by_sums > 0 ? " + what FP32 sums lose" : ""),
             "", "");
  if (verdict.by_sums > 0)
    report.add("right by their sums",
               format("%lld outputs, beyond the bound by no more than FP32 sums of K %lld lose",
                      static_cast<long long>(verdict.by_sums), static_cast<long long>(r.k)),
               "", "");
  report.add("", "", "right_by_sums", std::to_string(verdict.by_sums));
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

End conclude(Report& report, const ProductRequest& r, const std::optional<Verdict>& verdict,
             const std::function<void()>& write) {
  End end{exit_right, "DONE, not verified (--verify compares with the reference)"};
  if (verdict) {
    report_verdict(report, *verdict, r);
    end = verdict->passed() ? End{exit_right, "PASS"} : End{exit_wrong, "FAIL"};
  }
  report.add("", "", "result", json_string(verdict ? end.result : "NOT VERIFIED"));
  if (!r.output.empty() && end.status == exit_right) {
    write();
    report.add_text("written", "output", r.output);
  } else if (!r.output.empty()) {
    report.add("written", "nothing: the results are wrong", "", "");
  }
  return end;
}

void write_outcome(const std::string& command, const ProductRequest& r, bool batched,
                   const Outcome& outcome) {
  if (r.quantised())
    write_d(r.output, command, batched, outcome.quantised, r.d_scale.value_or(1));
  else
    write_d(r.output, command, r.d_type(), matrix_shape(batched, r.l, r.m, r.n), outcome.d.data(),
            outcome.d.size());
}

} // namespace warpline::cli
