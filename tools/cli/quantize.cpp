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
#include <memory>
#include <optional>
#include <utility>

namespace warpline::cli {
namespace {

struct QuantizeRequest : RunOptions {
  int64_t m = 256, k = 7168, l = 1;
  std::string type = "bf16";
  std::optional<float> d_scale, eps;
  std::string norm = "none", gamma, beta, residual;
};

// What stands for a tensor's name where there is no file.
constexpr char random_word[] = "random";

wl_norm norm_of(const QuantizeRequest& r) {
  return r.norm == "rms" ? WL_NORM_RMS : r.norm == "layer" ? WL_NORM_LAYER : WL_NORM_NONE;
}

// What a norm reads beside the matrix.
struct NormInputs {
  Numbers gamma, beta;
  std::optional<NamedMatrix> residual;
  wltest::Norm reference;
};

Options declare(QuantizeRequest& r) {
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
  o.choice("--norm", "of every row ahead of it (default none)", r.norm, {"none", "rms", "layer"});
  o.real("--eps", "of the norm (default 1e-6)", r.eps);
  o.text("--gamma", "NAME", "of the norm: tensor [K] of the input, or \"random\" without one",
         r.gamma);
  o.text("--beta", "NAME", "of --norm layer, likewise", r.beta);
  o.text("--residual", "NAME",
         "added to each matrix ahead of the norm, likewise; NAME_sum is written as well",
         r.residual);
  o.text("--input", "FILE",
         "safetensors: every F16 or BF16 tensor [rows, K] or [batch, rows, K] in it;\n"
         "NAME is written as NAME (U8), NAME_scale (F8_E4M3), NAME_tensor_scale (F32)",
         r.input);
  declare_run(&o, &r);
  return o;
}

std::vector<float> numbers_of(const wltest::Matrix& x) {
  std::vector<float> numbers;
  for (const uint16_t code : x.codes)
    numbers.push_back(static_cast<float>(wltest::decode_output(x.type, code)));
  return numbers;
}

// The largest magnitude gets the largest code under the largest scale. Infinities and NaNs have no
// say; a tensor of zeros or of the smallest numbers gets a scale that is still a normal number.
float scale_for(const std::vector<float>& x) {
  double largest = 0;
  for (const float value : x) {
    const double magnitude = std::fabs(double{value});
    if (std::isfinite(magnitude)) largest = std::fmax(largest, magnitude);
  }
  return largest == 0 ? 1.0f : std::fmax(static_cast<float>(largest / (6 * 448)), 0x1p-126f);
}

wl_quantize_args sizes_only(const wltest::Matrix& x, const QuantizeRequest& r) {
  wl_quantize_args args = {};
  args.struct_size = sizeof args;
  args.m = x.rows;
  args.k = x.k;
  args.l = x.l;
  args.x_type = x.type == wltest::OutputType::f16 ? WL_F16 : WL_BF16;
  args.sf_layout = WL_SF_128x4;
  args.config = r.config.empty() ? nullptr : r.config.c_str();
  args.norm = norm_of(r);
  if (args.norm != WL_NORM_NONE) args.eps = r.eps.value_or(1e-6f);
  return args;
}

// Refuses options of a norm that go with nothing.
void check_norm(const QuantizeRequest& r) {
  const auto refuse = [](const std::string& what) {
    throw Failure(exit_usage, "quantize: " + what);
  };
  const std::pair<const char*, bool> options[] = {{"--eps", r.eps.has_value()},
                                                  {"--gamma", !r.gamma.empty()},
                                                  {"--beta", !r.beta.empty()},
                                                  {"--residual", !r.residual.empty()}};
  for (const auto& [name, given] : options)
    if (given && r.norm == "none") refuse(std::string(name) + " needs --norm rms or --norm layer");
  if (!r.beta.empty() && r.norm != "layer") refuse("--beta needs --norm layer");
  if (r.eps && !(*r.eps > 0 && std::isfinite(*r.eps)))
    refuse(format("--eps = %g must be positive and finite", static_cast<double>(*r.eps)));
  for (const std::string* name : {&r.gamma, &r.beta, &r.residual})
    if (r.input.empty() && !name->empty() && *name != random_word)
      refuse("\"" + *name + "\" must be \"random\" without --input");
}

// Takes the residual out of the matrices.
NormInputs norm_inputs(const QuantizeRequest& r, const std::optional<SafetensorsFile>& file,
                       std::vector<NamedMatrix>* matrices) {
  NormInputs inputs;
  inputs.reference.kind = r.norm == "layer" ? wltest::Norm::Kind::layer : wltest::Norm::Kind::rms;
  inputs.reference.eps = r.eps.value_or(1e-6f);
  if (!r.residual.empty()) {
    if (file)
      inputs.residual = take_residual(r.input, r.residual, matrices);
    else
      inputs.residual = (*matrices)[0];
  }
  const auto numbers = [&](const std::string& name, uint64_t stream) {
    return name.empty() ? Numbers{}
           : file       ? read_numbers(*file, name, *matrices)
                  : random_numbers(WL_F32, static_cast<size_t>((*matrices)[0].x.k), r.seed, stream);
  };
  inputs.gamma = numbers(r.gamma, 82);
  inputs.beta = numbers(r.beta, 83);
  if (!r.gamma.empty() && !r.beta.empty() && inputs.gamma.type != inputs.beta.type)
    throw Failure(exit_usage, r.input + ": --gamma and --beta must be of one type");
  inputs.reference.gamma = values_of(inputs.gamma);
  inputs.reference.beta = values_of(inputs.beta);
  return inputs;
}

// Judges the sizes before anything of that size exists: the pointers stand for aligned arrays 2^58
// bytes apart, and the rules are asked without a context, which would look for memory there.
void check_sizes(const wl_context& context, const wltest::Matrix& sizes, const QuantizeRequest& r) {
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
double memory_needed(const std::vector<NamedMatrix>& matrices, const QuantizeRequest& r,
                     const Device& device) {
  double results = 0, most = 0;
  for (const NamedMatrix& matrix : matrices) {
    const wltest::Matrix& x = matrix.x;
    const double values = double(x.rows) * double(x.k) * double(x.l);
    const double codes = values / 2, packed = packed_bytes(x.rows, x.k, x.l);
    results += codes + values / 16;
    const double running = packed + host_bytes(device, r, 2 * values + codes + packed);
    const double comparing = r.verify ? codes + values / 16 : 0;
    const double added = r.residual.empty() ? 0 : 3 * 2 * values;
    most = std::max(most, added + 2 * values + std::max(running, comparing));
  }
  return results + most;
}

struct QuantizeOutcome {
  wl_plan_info plan = {};
  double run_seconds = 0;
  wltest::Operand d;
  std::vector<uint16_t> sum;
};

QuantizeOutcome run_on_device(wl_context* context, const wltest::Matrix& x,
                              const NormInputs& inputs, float d_scale, const QuantizeRequest& r) {
  QuantizeOutcome outcome;
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
  std::vector<std::unique_ptr<DeviceMemory>> more;
  const auto upload = [&](const void* bytes, size_t size) {
    return size == 0
               ? nullptr
               : more.emplace_back(std::make_unique<DeviceMemory>(context, bytes, size))->get();
  };
  args.gamma = upload(inputs.gamma.bytes.data(), inputs.gamma.bytes.size());
  args.beta = upload(inputs.beta.bytes.data(), inputs.beta.bytes.size());
  args.gamma_type = r.gamma.empty() ? inputs.beta.type : inputs.gamma.type;
  if (inputs.residual) {
    const std::vector<uint16_t>& codes = inputs.residual->x.codes;
    args.residual = args.sum = upload(codes.data(), codes.size() * sizeof(uint16_t));
  }
  const Plan plan(context, args, wl_quantize_plan);
  outcome.plan = plan.info();
  const auto start = std::chrono::steady_clock::now();
  require(wl_plan_run(plan.get(), nullptr, 0, nullptr));
  require(wl_stream_synchronize(context, nullptr));
  outcome.run_seconds = seconds_since(start);
  require(wl_download(context, q.values.data(), d.get(), q.values.size()));
  require(wl_download(context, scales.data(), sfd.get(), scales.size()));
  unpack_scales(scales, &q);
  if (inputs.residual) {
    outcome.sum.resize(x.codes.size());
    require(
        wl_download(context, outcome.sum.data(), args.sum, outcome.sum.size() * sizeof(uint16_t)));
  }
  return outcome;
}

// Of the whole matrix: root of mean square error over root of mean square, NaN and infinity left
// out.
double relative_error(const std::vector<float>& x, const wltest::Operand& q, float d_scale) {
  double error = 0, all = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
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
  QuantizeRequest request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  check_d_scale("quantize", request.d_scale);
  check_norm(request);
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
  const NormInputs inputs = norm_inputs(request, file, &matrices);
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
    NormInputs of_matrix = inputs;
    if (inputs.residual) {
      wltest::Matrix& residual = of_matrix.residual->x;
      if (file)
        read_codes(*file, &*of_matrix.residual);
      else
        residual = wltest::random_matrix(x.rows, x.k, x.l, x.type, request.seed + 3);
    }
    // The rows that become codes: X, or its sums with the residual.
    const wltest::Matrix rows = inputs.residual ? wltest::add(x, of_matrix.residual->x) : x;
    const bool normalises = norm_of(request) != WL_NORM_NONE;
    const std::vector<float> numbers =
        normalises ? wltest::normalised(rows, inputs.reference) : numbers_of(rows);
    const float d_scale = request.d_scale.value_or(scale_for(numbers));
    progress.emplace(std::string("running on ") + device.info.name);
    QuantizeOutcome outcome = with_virtual_report(
        device, [&] { return run_on_device(context.get(), x, of_matrix, d_scale, request); });
    progress.emplace("comparing with the reference");
    report.rule();
    const std::string of = results.empty() ? "" : format("_%zu", results.size());
    report.add("tensor",
               format("%s: m %lld, k %lld, l %lld, %s", shown_name(matrix.name).c_str(),
                      static_cast<long long>(x.rows), static_cast<long long>(x.k),
                      static_cast<long long>(x.l), name_of(x.type)),
               "tensor" + of, json_string(matrix.name));
    if (request.verify) {
      int64_t unequal =
          count_unequal(outcome.d, normalises ? wltest::quantize(rows, inputs.reference, d_scale)
                                              : wltest::quantize(rows, d_scale));
      if (inputs.residual)
        for (size_t i = 0; i < rows.codes.size(); ++i) unequal += outcome.sum[i] != rows.codes[i];
      report.add("codes wrong",
                 format("%lld of %zu, each judged with the scale of its block",
                        static_cast<long long>(unequal), x.codes.size()),
                 "wrong" + of, std::to_string(unequal));
      wrong += unequal;
    }
    const double error = relative_error(numbers, outcome.d, d_scale);
    report.add("rounding error",
               format("%.2f %% (root mean square): what 4 bits cost", 100 * error),
               "relative_error" + of, json_number(error));
    report.add("d_scale", format("%.9g", double{d_scale}), "d_scale" + of,
               json_number(double{d_scale}));
    if (results.empty()) report_plan(report, device, outcome.plan, outcome.run_seconds);
    results.push_back({matrix.name, matrix.batched, std::move(outcome.d), d_scale});
    if (inputs.residual) results.back().sum = {x.rows, x.k, x.l, x.type, std::move(outcome.sum)};
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
