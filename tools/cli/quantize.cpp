// warpline quantize: FP16 or BF16 matrices -> NVFP4 by the library -> every code compared -> table,
// JSON, and a file that dual-gemm reads.
#include "kernels/quantize/quantize.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/quantize.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/quantize_files.hpp"
#include "tools/cli/run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace warpline::cli {
namespace {

struct Request : RunOptions {
  int64_t m = 256, k = 7168, l = 1;
  std::string type = "bf16";
  std::optional<float> d_scale;
};

Options declare(Request& r) {
  Options o("quantize",
            "Quantises matrices of FP16 or BF16 to NVFP4, as warpline dual-gemm and gemm read\n"
            "them, and compares every code and scale with a reference.");
  const int64_t most = INT64_MAX;
  o.integer("-m", "rows of a random matrix (default 256)", r.m, -most, most);
  o.integer("-k", "values in a row, a multiple of 64 (default 7168)", r.k, -most, most);
  o.integer("-l", "batch (default 1)", r.l, -most, most);
  o.choice("--type", "of the random matrix (default bf16)", r.type, {"f16", "bf16"});
  o.real("--d-scale", "FP32 scale of each result (default: largest magnitude / (6 * 448))",
         r.d_scale);
  o.text("--input", "FILE",
         "safetensors: every F16 or BF16 tensor [rows, K] or [batch, rows, K] in it;\n"
         "NAME is written as NAME (U8), NAME_scale (F8_E4M3), NAME_tensor_scale (F32)",
         r.input);
  declare_run(&o, &r);
  return o;
}

// The largest magnitude gets the largest code under the largest scale. Infinities and NaNs have no
// say; a tensor of zeros or of the smallest numbers gets a scale that is still a normal number.
float scale_for(const wltest::Matrix& x) {
  double largest = 0;
  for (const uint16_t code : x.codes) {
    const double magnitude = std::fabs(wltest::decode_output(x.type, code));
    if (std::isfinite(magnitude)) largest = std::fmax(largest, magnitude);
  }
  return largest == 0 ? 1.0f : std::fmax(static_cast<float>(largest / (6 * 448)), 0x1p-126f);
}

wl_quantize_args sizes_only(const wltest::Matrix& x, const Request& r) {
  wl_quantize_args args = {};
  args.struct_size = sizeof args;
  args.m = x.rows;
  args.k = x.k;
  args.l = x.l;
  args.x_type = x.type == wltest::OutputType::f16 ? WL_F16 : WL_BF16;
  args.sf_layout = WL_SF_128x4;
  args.config = r.config.empty() ? nullptr : r.config.c_str();
  return args;
}

// Judges the sizes before anything of that size exists: the pointers stand for aligned arrays 2^58
// bytes apart, and the rules are asked without a context, which would look for memory there.
void check_sizes(const wl_context& context, const wltest::Matrix& sizes, const Request& r) {
  wl_quantize_args args = sizes_only(sizes, r);
  auto far_apart = [](uint64_t i) { return reinterpret_cast<void*>(i << 58); };
  args.x = far_apart(1);
  args.d = far_apart(2);
  args.sfd = far_apart(3);
  require(api("wl_quantize_check", [&] {
    return quantize::rules().check({args, context.limits});
  }));
}

// All results, and of the largest matrix what is on the device or compared.
double memory_needed(const std::vector<NamedMatrix>& matrices, const Request& r,
                     const Device& device) {
  double results = 0, most = 0;
  for (const NamedMatrix& matrix : matrices) {
    const wltest::Matrix& x = matrix.x;
    const double values = double(x.rows) * double(x.k) * double(x.l);
    const double codes = values / 2, packed = packed_bytes(x.rows, x.k, x.l);
    results += codes + values / 16;
    const double running = packed + host_bytes(device, r, 2 * values + codes + packed);
    const double comparing = r.verify ? codes + values / 16 : 0;
    most = std::max(most, 2 * values + std::max(running, comparing));
  }
  return results + most;
}

struct Outcome {
  wl_plan_info plan = {};
  double run_seconds = 0;
  wltest::Operand d;
};

Outcome run_on_device(wl_context* context, const wltest::Matrix& x, float d_scale,
                      const Request& r) {
  Outcome outcome;
  wltest::Operand& q = outcome.d;
  // 0xFF is a NaN in E4M3: a scale that the kernel leaves out cannot pass.
  q = {x.rows, x.k, x.l, std::vector<uint8_t>(x.codes.size() / 2, 0xFF), {}};
  std::vector<uint8_t> scales(wl_sf_bytes(WL_SF_128x4, x.rows, x.k) * static_cast<size_t>(x.l),
                              0xFF);
  const DeviceMemory input(context, x.codes.data(), x.codes.size() * sizeof(uint16_t)),
      d(context, q.values), sfd(context, scales), factor(context, &d_scale, sizeof d_scale);
  wl_quantize_args args = sizes_only(x, r);
  args.x = input.get();
  args.d = d.get();
  args.sfd = sfd.get();
  args.d_scale = static_cast<const float*>(factor.get());
  const Plan plan(context, args, wl_quantize_plan);
  outcome.plan = plan.info();
  const auto start = std::chrono::steady_clock::now();
  require(wl_plan_run(plan.get(), nullptr, 0, nullptr));
  require(wl_stream_synchronize(context, nullptr));
  outcome.run_seconds = seconds_since(start);
  require(wl_download(context, q.values.data(), d.get(), q.values.size()));
  require(wl_download(context, scales.data(), sfd.get(), scales.size()));
  unpack_scales(scales, &q);
  return outcome;
}

// Of the whole matrix: root of mean square error over root of mean square, NaN and infinity left
// out.
double relative_error(const wltest::Matrix& x, const wltest::Operand& q, float d_scale) {
  double error = 0, all = 0;
  for (size_t i = 0; i < x.codes.size(); ++i) {
    const double value = wltest::decode_output(x.type, x.codes[i]);
    if (!std::isfinite(value)) continue;
    const double found =
        wltest::decode_e2m1(wltest::nibble(q.values.data(), static_cast<int64_t>(i))) *
        wltest::decode_ue4m3(q.scales[i / 16]) * double{d_scale};
    error += (found - value) * (found - value);
    all += value * value;
  }
  return all == 0 ? 0 : std::sqrt(error / all);
}

} // namespace

ExitStatus run_quantize(const Arguments& arguments) {
  Request request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  check_d_scale("quantize", request.d_scale);
  if (request.input.empty())
    request.verify = true;
  else
    refuse_with_input("quantize", options, {"-m", "-k", "-l", "--type", "--seed"});
  std::optional<SafetensorsFile> file;
  std::vector<NamedMatrix> matrices;
  if (!request.input.empty()) {
    matrices = list_matrices(file.emplace(request.input));
    if (!request.output.empty()) check_names(request.input, matrices);
  } else {
    const auto type = request.type == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
    matrices.push_back({"a", request.l > 1, {request.m, request.k, request.l, type, {}}});
  }
  const Device device = prepare_run("quantize", request);
  const Context context(device.ordinal);
  for (const NamedMatrix& matrix : matrices) check_sizes(*context.get(), matrix.x, request);
  check_memory("quantize", file ? "the matrices of " + request.input : "m, k, l",
               memory_needed(matrices, request, device));

  Report report;
  report_version(report, "quantize");
  report_device(report, device);
  report_inputs(report, request);
  report_schedule(report, device, request);
  std::vector<QuantizedMatrix> results;
  int64_t wrong = 0;
  for (NamedMatrix& matrix : matrices) {
    std::optional<Progress> progress("making the matrix");
    wltest::Matrix& x = matrix.x;
    if (file)
      read_codes(*file, &matrix);
    else
      x = wltest::random_matrix(x.rows, x.k, x.l, x.type, request.seed);
    const float d_scale = request.d_scale.value_or(scale_for(x));
    progress.emplace(std::string("running on ") + device.info.name);
    Outcome outcome = with_virtual_report(
        device, [&] { return run_on_device(context.get(), x, d_scale, request); });
    progress.emplace("comparing with the reference");
    report.rule();
    const std::string of = results.empty() ? "" : format("_%zu", results.size());
    report.add("tensor",
               format("%s: m %lld, k %lld, l %lld, %s", shown_name(matrix.name).c_str(),
                      static_cast<long long>(x.rows), static_cast<long long>(x.k),
                      static_cast<long long>(x.l), name_of(x.type)),
               "tensor" + of, json_string(matrix.name));
    if (request.verify) {
      const int64_t unequal = count_unequal(outcome.d, wltest::quantize(x, d_scale));
      report.add("codes wrong",
                 format("%lld of %zu, each judged with the scale of its block",
                        static_cast<long long>(unequal), x.codes.size()),
                 "wrong" + of, std::to_string(unequal));
      wrong += unequal;
    }
    const double error = relative_error(x, outcome.d, d_scale);
    report.add("rounding error",
               format("%.2f %% (root mean square): what 4 bits cost", 100 * error),
               "relative_error" + of, json_number(error));
    report.add("d_scale", format("%.9g", double{d_scale}), "d_scale" + of,
               json_number(double{d_scale}));
    if (results.empty()) report_plan(report, device, outcome.plan, outcome.run_seconds);
    results.push_back({matrix.name, matrix.batched, std::move(outcome.d), d_scale});
    x.codes = {};
  }
  const ExitStatus status = wrong == 0 ? exit_right : exit_wrong;
  const std::string result = !request.verify
                                 ? "DONE, not verified (--verify compares with the reference)"
                             : wrong == 0 ? "PASS"
                                          : "FAIL";
  report.add("", "", "result", json_string(request.verify ? result : "NOT VERIFIED"));
  if (!request.output.empty() && status == exit_right) {
    write_quantized(request.output, results);
    report.add_text("written", "output", request.output);
  } else if (!request.output.empty()) {
    report.add("written", "nothing: the results are wrong", "", "");
  }
  print_report(report, request, result);
  return status;
}

} // namespace warpline::cli
