// warpline norm-linear: a random layer -> check -> plan -> run -> every output compared with a
// reference of the same steps, and with the definition in double -> table and JSON.
#include "kernels/norm_linear/norm_linear.hpp"
#include "tests/reference/linear.hpp"
#include "tests/reference/quantize.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/product.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace warpline::cli {
namespace {

struct NormLinearRequest : RunOptions {
  int64_t m = 256, n = 4096, k = 1024;
  std::string type = "bf16", weights = "same", out = "same", norm = "layer", form = "plain",
              act = "none";
  std::optional<float> eps, mean;
  bool bias = false, residual = false;

  bool layer() const { return norm == "layer"; }
  bool folded() const { return form == "folded"; }
  bool nvfp4() const { return weights == "nvfp4"; }
  wl_dtype x_type() const { return type == "f16" ? WL_F16 : WL_BF16; }
  wltest::OutputType output_type() const {
    return type == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  }
  wl_operand same() const { return type == "f16" ? WL_OPERAND_F16 : WL_OPERAND_BF16; }
  wl_activation activation() const {
    return static_cast<wl_activation>(std::find(activations.begin(), activations.end(), act) -
                                      activations.begin());
  }
};

Options declare(NormLinearRequest& r) {
  Options o("norm-linear",
            "Runs D = act(norm(X) . W^T + bias) on random numbers in one plan, and compares every\n"
            "output with a reference of the same steps; the error beside the definition in double\n"
            "precision is printed.");
  const int64_t most = INT64_MAX;
  o.integer("-m", "rows of X (default 256)", r.m, -most, most);
  o.integer("-n", "rows of W (default 4096)", r.n, -most, most);
  o.integer("-k", "the common extent, a multiple of 64 (default 1024)", r.k, -most, most);
  o.choice("--type", "of X (default bf16)", r.type, {"f16", "bf16"});
  o.choice("--weights", "type of W (default same: X's)", r.weights, {"same", "nvfp4"});
  o.choice("--out", "type of D (default same: X's)", r.out, {"same", "f32"});
  o.choice("--norm", "default layer", r.norm, {"rms", "layer"});
  o.choice("--form", "default plain", r.form, {"plain", "folded"});
  o.real("--eps", "of the norm (default 1e-5)", r.eps);
  o.real("--mean", "of the rows of X, which vary by about 0.6 (default 0)", r.mean);
  o.choice("--act", "activation (default none)", r.act, activations);
  o.flag("--bias", "a random bias for each column of D", r.bias);
  o.flag("--residual", "a random residual is added to X first", r.residual);
  declare_scales(&o, &r, "NVFP4 weights");
  declare_run(&o, &r);
  return o;
}

wl_norm_linear_args sizes_only(const NormLinearRequest& r) {
  wl_norm_linear_args args{};
  args.struct_size = sizeof args;
  args.m = r.m, args.n = r.n, args.k = r.k;
  args.x_type = r.x_type();
  args.norm = r.layer() ? WL_NORM_LAYER : WL_NORM_RMS;
  args.form = r.folded() ? WL_NORM_FOLDED : WL_NORM_PLAIN;
  args.eps = r.eps.value_or(1e-5f);
  args.gamma_type = WL_F32;
  args.w_type = r.nvfp4() ? WL_OPERAND_NVFP4 : r.same();
  args.sf_layout = layout_of_scales(r);
  args.bias_type = WL_F32;
  args.activation = r.activation();
  args.d_type = r.out == "f32" ? WL_F32 : r.x_type();
  args.config = r.config.empty() ? nullptr : r.config.c_str();
  return args;
}

void check_sizes(const wl_context& context, const NormLinearRequest& r) {
  wl_norm_linear_args args = sizes_only(r);
  args.x = far_apart(1), args.w = far_apart(2), args.d = far_apart(3);
  args.sfw = r.nvfp4() ? far_apart(4) : nullptr;
  if (r.residual) args.residual = args.sum = far_apart(5);
  require(api("wl_norm_linear_check", [&] {
    return norm_linear::rules().check({args, context.limits});
  }));
}

// A layer's numbers; `w` as the product reads them, folded where the form wants it.
struct Layer {
  wltest::Matrix x, residual;
  wltest::Norm norm;
  wltest::Operand w;
  std::vector<float> bias;
  float a_scale = 1;
};

std::vector<uint8_t> bytes_of(const std::vector<uint16_t>& codes) {
  std::vector<uint8_t> bytes(2 * codes.size());
  std::memcpy(bytes.data(), codes.data(), bytes.size());
  return bytes;
}

Layer make_layer(const NormLinearRequest& r) {
  Layer layer;
  layer.x = wltest::random_matrix(r.m, r.k, 1, r.output_type(), r.seed);
  for (uint16_t& code : layer.x.codes)
    code = wltest::encode_output(r.output_type(), wltest::decode_output(r.output_type(), code) +
                                                      static_cast<double>(r.mean.value_or(0)));
  if (r.residual) layer.residual = wltest::random_matrix(r.m, r.k, 1, r.output_type(), r.seed + 1);
  layer.norm.kind = r.layer() ? wltest::Norm::Kind::layer : wltest::Norm::Kind::rms;
  layer.norm.eps = r.eps.value_or(1e-5f);
  const wltest::Random random(r.seed, 92);
  uint64_t at = 0;
  const auto draw = [&](int64_t count, double least) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(static_cast<float>(least + random.uniform(at++)));
    return numbers;
  };
  layer.norm.gamma = draw(r.k, 0.5);
  if (r.layer()) layer.norm.beta = draw(r.k, -0.5);
  if (r.bias) layer.bias = draw(r.n, -0.5);
  wltest::Matrix w = wltest::random_matrix(r.n, r.k, 1, r.output_type(), r.seed + 2);
  const double shrink = 1 / std::sqrt(static_cast<double>(r.k));
  for (uint16_t& code : w.codes)
    code = wltest::encode_output(r.output_type(),
                                 wltest::decode_output(r.output_type(), code) * shrink);
  if (r.nvfp4()) {
    // The largest normalised numbers are about 4, the weights' is 1 / sqrt(K).
    layer.a_scale = 4.0f / (6 * 448);
    layer.w = wltest::quantize(w, static_cast<float>(shrink / (6 * 448)));
  } else {
    layer.w = {r.n, r.k, 1, bytes_of(w.codes), {}, r.same()};
  }
  return layer;
}

float alpha_of(const NormLinearRequest& r, const Layer& layer) {
  if (!r.nvfp4()) return 1;
  return layer.a_scale * static_cast<float>(1 / std::sqrt(static_cast<double>(r.k)) / (6 * 448));
}

struct LayerOutcome {
  wl_plan_info plan{};
  double seconds = 0;
  std::vector<uint8_t> d, w; // W as it was multiplied
  std::vector<float> bias;   // likewise
  std::vector<uint16_t> sum;
};

LayerOutcome run_on_device(wl_context* context, const NormLinearRequest& r, const Layer& layer) {
  LayerOutcome outcome;
  wl_norm_linear_args args = sizes_only(r);
  const auto upload = [&](const auto& numbers) {
    return std::make_unique<DeviceMemory>(context, numbers.data(),
                                          numbers.size() * sizeof(numbers[0]));
  };
  const float alpha = alpha_of(r, layer);
  const auto x = upload(layer.x.codes), gamma = upload(layer.norm.gamma),
             w = upload(layer.w.values), factors = upload(std::vector<float>{alpha, 0, 0, 0}),
             a_scale = upload(std::vector<float>{layer.a_scale, 0, 0, 0}),
             bias = upload(layer.bias.empty() ? std::vector<float>(static_cast<size_t>(r.n))
                                              : layer.bias);
  const auto folded_bias = upload(std::vector<float>(static_cast<size_t>(r.n)));
  const auto beta = r.layer() ? upload(layer.norm.beta) : nullptr,
             residual = r.residual ? upload(layer.residual.codes) : nullptr,
             sfw = r.nvfp4() ? upload(scales_of(args.sf_layout, layer.w)) : nullptr;
  const size_t element = args.d_type == WL_F32 ? 4 : 2;
  outcome.d.assign(static_cast<size_t>(r.m * r.n) * element, 0xFF);
  const auto d = upload(outcome.d);
  args.x = x->get(), args.w = w->get(), args.d = d->get();
  args.gamma = gamma->get();
  if (beta) args.beta = beta->get();
  if (residual) args.residual = args.sum = residual->get();
  if (r.nvfp4()) {
    args.sfw = sfw->get();
    args.a_scale = static_cast<const float*>(a_scale->get());
    args.alpha = static_cast<const float*>(factors->get());
  }
  if (r.bias) args.bias = bias->get();
  outcome.bias = layer.bias;
  outcome.w = layer.w.values;
  if (r.folded()) {
    auto* const folded = static_cast<float*>(folded_bias->get());
    require(wl_norm_linear_fold(context, &args, w->get(), folded, nullptr));
    args.gamma = args.beta = nullptr;
    args.bias = folded;
    outcome.bias.resize(static_cast<size_t>(r.n));
    require(wl_download(context, outcome.bias.data(), folded, 4 * outcome.bias.size()));
    require(wl_download(context, outcome.w.data(), w->get(), outcome.w.size()));
  }
  const Plan plan(context, args, wl_norm_linear_plan);
  outcome.plan = plan.info();
  const std::vector<uint8_t> nothing(outcome.plan.workspace_bytes + 1, 0xFF);
  const auto workspace = upload(nothing);
  const auto start = std::chrono::steady_clock::now();
  require(wl_plan_run(plan.get(), workspace->get(), outcome.plan.workspace_bytes, nullptr));
  require(wl_stream_synchronize(context, nullptr));
  outcome.seconds = seconds_since(start);
  require(wl_download(context, outcome.d.data(), d->get(), outcome.d.size()));
  if (residual) {
    outcome.sum.resize(layer.x.codes.size());
    require(wl_download(context, outcome.sum.data(), args.sum, 2 * outcome.sum.size()));
  }
  return outcome;
}

double number_at(const std::vector<uint8_t>& d, wl_dtype type, size_t i) {
  uint16_t code = 0;
  float value = 0;
  if (type == WL_F32) {
    std::memcpy(&value, &d[4 * i], 4);
    return double{value};
  }
  std::memcpy(&code, &d[2 * i], 2);
  return type == WL_F16 ? wltest::decode_f16(code) : wltest::decode_bf16(code);
}

struct Judgement {
  int64_t wrong = 0;
  double margin = 1;   // of the bound, what is left
  double relative = 0; // error beside the definition, root of mean squares
};

Judgement judge(const NormLinearRequest& r, const Layer& layer, const LayerOutcome& outcome) {
  Judgement judgement;
  const wltest::Matrix rows = r.residual ? wltest::add(layer.x, layer.residual) : layer.x;
  for (size_t i = 0; i < outcome.sum.size(); ++i)
    judgement.wrong += outcome.sum[i] != rows.codes[i];
  wltest::Problem product{r.m, r.n, r.k, 1, {}, layer.w, {}, 1, 1};
  product.b1.values = outcome.w;
  wltest::LinearOperands operands{r.activation(), alpha_of(r, layer), {}, outcome.bias, {}};
  if (r.nvfp4()) {
    product.a = wltest::quantize(rows, layer.norm, layer.a_scale);
  } else {
    product.a = {r.m, r.k, 1, {}, {}, r.same()};
    product.a.values =
        bytes_of(r.folded() ? rows.codes : wltest::normalised_rows(rows, layer.norm).codes);
  }
  std::vector<float> row(static_cast<size_t>(r.k));
  for (int64_t i = 0; r.folded() && i < r.m; ++i) {
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = static_cast<float>(
          wltest::decode_output(rows.type, rows.codes[static_cast<size_t>(i * r.k) + j]));
    operands.row.push_back(wltest::statistics(row.data(), r.k, layer.norm).rstd);
  }
  const wl_dtype type = sizes_only(r).d_type;
  const std::vector<double> steps = wltest::linear(wltest::accumulate(product), operands);
  for (size_t i = 0; i < steps.size(); ++i) {
    const double found = number_at(outcome.d, type, i);
    const double bound = wltest::error_bound(r.output_type(), steps[i]);
    const double use = std::fabs(found - steps[i]) / bound;
    judgement.wrong += !(use <= 1);
    judgement.margin = std::min(judgement.margin, 1 - use);
  }
  // The definition: nothing is rounded between X and D.
  std::vector<double> wide(rows.codes.size());
  for (size_t first = 0; first < wide.size(); first += row.size()) {
    double sum = 0, squares = 0;
    for (size_t j = 0; j < row.size(); ++j)
      sum += wide[first + j] = wltest::decode_output(rows.type, rows.codes[first + j]);
    const double mean = r.layer() ? sum / static_cast<double>(r.k) : 0;
    for (size_t j = 0; j < row.size(); ++j)
      squares += (wide[first + j] - mean) * (wide[first + j] - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(r.k) + double{layer.norm.eps});
    for (size_t j = 0; j < row.size(); ++j) {
      const double beta = r.layer() ? double{layer.norm.beta[j]} : 0.0;
      double& value = wide[first + j];
      value = (value - mean) * rstd * double{layer.norm.gamma[j]} + beta;
    }
  }
  double error = 0, all = 0;
  const double w_scale = r.nvfp4() ? double{alpha_of(r, layer)} / double{layer.a_scale} : 1;
  std::vector<double> weights(static_cast<size_t>(r.k));
  for (int64_t column = 0; column < r.n; ++column) {
    for (size_t j = 0; j < weights.size(); ++j) {
      const size_t at = static_cast<size_t>(column * r.k) + j;
      uint16_t code = 0;
      if (r.nvfp4()) {
        weights[j] =
            w_scale * wltest::decode_ue4m3(layer.w.scales[at / 16]) *
            wltest::decode_e2m1(wltest::nibble(layer.w.values.data(), static_cast<int64_t>(at)));
      } else {
        std::memcpy(&code, &layer.w.values[2 * at], 2);
        weights[j] = wltest::decode_output(r.output_type(), code);
      }
    }
    const double bias = layer.bias.empty() ? 0 : double{layer.bias[static_cast<size_t>(column)]};
    for (int64_t i = 0; i < r.m; ++i) {
      double acc = 0;
      const double* values = &wide[static_cast<size_t>(i * r.k)];
      for (size_t j = 0; j < weights.size(); ++j) acc += values[j] * weights[j];
      const double right = wltest::activated(r.activation(), acc + bias);
      const double found = number_at(outcome.d, type, static_cast<size_t>(i * r.n + column));
      error += (found - right) * (found - right);
      all += right * right;
    }
  }
  judgement.relative = all == 0 ? 0 : std::sqrt(error / all);
  return judgement;
}

} // namespace

ExitStatus run_norm_linear(const Arguments& arguments) {
  NormLinearRequest r;
  Options options = declare(r);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  if (!r.output.empty())
    throw Failure(exit_usage, "norm-linear: --output is not taken: its layer is random");
  r.verify = true;
  const Device device = prepare_run("norm-linear", r);
  const Context context(device.ordinal);
  check_sizes(*context.get(), r);
  const double values = double(r.m) * double(r.k), weights = double(r.n) * double(r.k),
               outputs = double(r.m) * double(r.n);
  check_memory("norm-linear", "m, n, k",
               24 * values + 4 * weights + 24 * outputs +
                   host_bytes(device, r, 6 * values + 2 * weights + 4 * outputs));
  Report report;
  report_version(report, "norm-linear");
  report_device(report, device);
  report_inputs(report, r);
  report_schedule(report, device, r);
  std::optional<Progress> progress("making the layer");
  const Layer layer = make_layer(r);
  progress.emplace(std::string("running on ") + device.info.name);
  const LayerOutcome outcome =
      with_virtual_report(device, [&] { return run_on_device(context.get(), r, layer); });
  progress.emplace("comparing with the reference");
  const Judgement judgement = judge(r, layer, outcome);
  progress.reset();
  report.add("problem",
             format("m %lld, n %lld, k %lld, %s, %s, %s", static_cast<long long>(r.m),
                    static_cast<long long>(r.n), static_cast<long long>(r.k), r.type.c_str(),
                    r.norm.c_str(), r.form.c_str()),
             "", "");
  report_plan(report, device, outcome.plan, outcome.seconds);
  report.rule();
  report.add("outputs wrong",
             format("%lld of %lld beyond the bound, %.0f %% of it left",
                    static_cast<long long>(judgement.wrong), static_cast<long long>(r.m * r.n),
                    100 * judgement.margin),
             "wrong", std::to_string(judgement.wrong));
  report.add("rounding error",
             format("%.4f %% beside the definition in double (root mean square)",
                    100 * judgement.relative),
             "relative_error", json_number(judgement.relative));
  const bool right = judgement.wrong == 0;
  const std::string result = right ? "PASS" : "FAIL";
  report.add("", "", "result", json_string(result));
  print_report(report, r, result);
  return right ? exit_right : exit_wrong;
}

} // namespace warpline::cli
