// warpline moe: a layer of experts, random or of a file, by wl_moe -> compared with a reference ->
// table and JSON.
#include "kernels/moe/moe.hpp"
#include "tests/reference/grouped.hpp"
#include "tests/reference/moe.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/moe_files.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

namespace warpline::cli {
namespace {

struct MoeRequest : RunOptions, LayerSizes {
  std::string a_type, out = "bf16", routing = "uniform", gate = "silu", layer;
  bool shared = false, graph = false;
};

Options declare(MoeRequest& r) {
  Options o(
      "moe",
      "Runs a layer of experts with NVFP4 weights, of random tensors or of a file's, and compares\n"
      "every output with a reference: sums of products in double, the gate as the kernels compute\n"
      "it. --config is that of the first product, of gate and up.");
  const int64_t most = INT64_MAX;
  o.integer("--tokens", "default 64", r.tokens, -most, most);
  o.integer("--hidden", "a token's numbers, a multiple of 64 (default 2048)", r.hidden, -most,
            most);
  o.integer("--intermediate", "an expert's, a multiple of 64 (default 768)", r.intermediate, -most,
            most);
  o.integer("--experts", "on this device (default 128)", r.experts, -most, most);
  o.integer("--top-k", "experts of a token (default 8)", r.top_k, -most, most);
  o.integer("--first-expert", "id of the first one here; ids are drawn from 0 on (default 0)",
            r.first, -most, most);
  o.choice("--type", "of tokens (default bf16)", r.type, {"f16", "bf16"});
  o.choice("--a-type", "what they are multiplied as (default: as they are on Hopper, else nvfp4)",
           r.a_type, {"", "nvfp4", "f16", "bf16"});
  o.choice("--out", "type of the result (default bf16)", r.out, {"f16", "bf16", "f32"});
  o.choice("--routing",
           "how tokens choose experts (default uniform); skewed: half of all choose one", r.routing,
           {"uniform", "skewed"});
  o.choice("--gate", "default silu", r.gate, {"silu", "gelu_tanh", "clamped"});
  o.flag("--shared", "a shared expert's output is added", r.shared);
  declare_scales(&o, &r, "the weights");
  o.flag("--graph", "the run is a launch of one CUDA graph", r.graph);
  o.text("--input", "FILE",
         "safetensors with experts.E.gate_proj.weight (U8 or F4, [I, H/2]), up_proj,\n"
         "down_proj (or w1, w3, w2), their weight_scale (F8_E4M3) and, where there are,\n"
         "weight_scale_2 and input_scale (F32); or gate_proj ... of all experts, [E, I, H/2].\n"
         "Of tokens, where there are: x (F16 or BF16, [T, H]), ids (I32 or I64, [T, top_k]),\n"
         "weights (F32, likewise); random ones else",
         r.input);
  o.text("--layer", "PREFIX",
         "what stands ahead of experts in the file's names, as model.layers.0.mlp", r.layer);
  declare_run(&o, &r);
  return o;
}

wl_moe_args sizes_only(const MoeRequest& r, const Device& device) {
  wl_moe_args a = {};
  a.struct_size = sizeof a;
  a.tokens = r.tokens, a.hidden = r.hidden, a.intermediate = r.intermediate;
  a.experts = r.experts, a.top_k = r.top_k, a.first_expert = r.first;
  a.x_type = r.type == "f16" ? WL_F16 : WL_BF16;
  const bool as_they_are = r.a_type.empty() ? device.info.compute_major == 9 : r.a_type != "nvfp4";
  const bool f16 = r.a_type.empty() ? r.type == "f16" : r.a_type == "f16";
  a.a_type = !as_they_are ? WL_OPERAND_NVFP4 : f16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  a.sf_layout = layout_of_scales(r);
  a.y_type = r.out == "f16" ? WL_F16 : r.out == "bf16" ? WL_BF16 : WL_F32;
  a.gate = r.gate == "silu"      ? WL_GATE_SILU
           : r.gate == "clamped" ? WL_GATE_CLAMPED
                                 : WL_GATE_GELU_TANH;
  a.gate_limit = a.gate == WL_GATE_CLAMPED ? 7 : 0;
  a.flags = r.graph ? WL_GRAPH_LAUNCH : 0;
  a.config_up = r.config.empty() ? nullptr : r.config.c_str();
  return a;
}

// Judges the sizes before anything of that size exists; see quantize.cpp.
void check_sizes(const wl_context& context, wl_moe_args args) {
  uint64_t next = 0;
  const auto far_apart = [&] { return reinterpret_cast<void*>(++next << 56); };
  args.x = far_apart(), args.ids = static_cast<const int32_t*>(far_apart());
  for (const void** w :
       {&args.w_gate, &args.w_up, &args.w_down, &args.sf_gate, &args.sf_up, &args.sf_down})
    *w = far_apart();
  args.y = far_apart();
  require(api("wl_moe_check", [&] { return moe::rules().check({args, context.limits}); }));
}

double memory_needed(const MoeRequest& r, const Device& device) {
  const double weights = 3.0 * double(r.experts) * double(r.hidden) * double(r.intermediate);
  const double slots = double(r.tokens) * double(r.top_k);
  const double rows = slots * (double(r.hidden) + double(r.intermediate));
  const double tensors = weights * 9 / 16 + 2 * double(r.tokens) * double(r.hidden);
  // Of the reference: sums in double, and numbers of every row.
  return tensors + host_bytes(device, r, tensors + 4 * rows) + 24 * rows;
}

std::vector<float> random_shared(const MoeRequest& r) {
  const wltest::Random random(r.seed, 90);
  std::vector<float> shared;
  for (int64_t i = 0; i < r.tokens * r.hidden; ++i)
    shared.push_back(
        static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i) + (uint64_t{1} << 41)) - 1));
  return shared;
}

std::vector<float> numbers_of(const std::vector<uint8_t>& bytes, wl_dtype type) {
  std::vector<float> numbers(bytes.size() / (type == WL_F32 ? 4 : 2));
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint16_t code = 0;
    if (type == WL_F32)
      std::memcpy(&numbers[i], &bytes[4 * i], 4);
    else
      std::memcpy(&code, &bytes[2 * i], 2),
          numbers[i] = static_cast<float>(type == WL_F16 ? wltest::decode_f16(code)
                                                         : wltest::decode_bf16(code));
  }
  return numbers;
}

// The largest magnitude, 1 where all are zero.
float largest(const wltest::Matrix& x) {
  double most = 0;
  for (const uint16_t code : x.codes)
    most = std::max(most, std::fabs(wltest::decode_output(x.type, code)));
  return most > 0 && std::isfinite(most) ? static_cast<float>(most) : 1;
}

struct MoeOutcome {
  wl_plan_info plan = {};
  double run_seconds = 0;
  std::vector<uint8_t> y;
};

MoeOutcome run_on_device(wl_context* context, const LayerTensors& t, wl_moe_args args,
                         float x_scale, float h_scale) {
  MoeOutcome outcome;
  const size_t bytes =
      static_cast<size_t>(args.tokens * args.hidden) * (args.y_type == WL_F32 ? 4 : 2);
  outcome.y.assign(bytes, 0xFF);
  const auto floats = [&](const std::vector<float>& v) {
    return DeviceMemory(context, v.data(), v.size() * sizeof(float));
  };
  const DeviceMemory x(context, t.x.codes.data(), t.x.codes.size() * 2),
      ids(context, t.ids.data(), t.ids.size() * 4),
      weights = floats(t.weights), w_gate(context, t.w[0].values), w_up(context, t.w[1].values),
      w_down(context, t.w[2].values), sf_gate(context, scales_of(args.sf_layout, t.w[0])),
      sf_up(context, scales_of(args.sf_layout, t.w[1])),
      sf_down(context, scales_of(args.sf_layout, t.w[2])), alpha_gate = floats(t.alpha[0]),
      alpha_up = floats(t.alpha[1]), alpha_down = floats(t.alpha[2]),
      scales = floats({x_scale, h_scale}), y(context, outcome.y),
      shared(context, t.shared_bytes.data(), t.shared_bytes.size());
  const auto f = [](const DeviceMemory& m) { return static_cast<const float*>(m.get()); };
  args.x = x.get(), args.ids = static_cast<const int32_t*>(ids.get()), args.weights = f(weights);
  args.w_gate = w_gate.get(), args.w_up = w_up.get(), args.w_down = w_down.get();
  args.sf_gate = sf_gate.get(), args.sf_up = sf_up.get(), args.sf_down = sf_down.get();
  args.alpha_gate = f(alpha_gate), args.alpha_up = f(alpha_up), args.alpha_down = f(alpha_down);
  args.x_scale = f(scales), args.h_scale = f(scales) + 1;
  args.shared = t.shared.empty() ? nullptr : shared.get();
  args.y = y.get();
  const Plan plan(context, args, wl_moe_plan);
  outcome.plan = plan.info();
  const DeviceMemory workspace(context, outcome.plan.workspace_bytes);
  const auto start = std::chrono::steady_clock::now();
  require(wl_plan_run(plan.get(), workspace.get(), outcome.plan.workspace_bytes, nullptr));
  require(wl_stream_synchronize(context, nullptr));
  outcome.run_seconds = seconds_since(start);
  require(wl_download(context, outcome.y.data(), y.get(), bytes));
  return outcome;
}

// The worst error of an output, in units of what is allowed: 1e-3, as much of the sizes of the
// terms that it is the sum of, half a last place of each of them and of the sum.
struct MoeVerdict {
  double worst = 0;
  int64_t wrong = 0;
};
MoeVerdict compare(const wl_moe_args& a, const DeviceLimits& device, const LayerTensors& t,
                   float x_scale, float h_scale, const std::vector<uint8_t>& y,
                   Progress* progress) {
  const wltest::ExpertOrder order =
      wltest::order_experts(t.ids, a.top_k, a.experts, a.first_expert);
  const auto slots = static_cast<int64_t>(t.ids.size());
  wltest::GroupTable dense;
  dense.count = a.experts;
  dense.ends = order.ends;
  wltest::GroupTable table = dense;
  table.rows = order.rows;
  table.rows.resize(static_cast<size_t>(slots), 0);
  table.a_rows = a.tokens;
  const std::vector<wltest::GroupRange> ranges = wltest::ranges_of(table, slots);
  wltest::Problem up{slots, a.intermediate, a.hidden, 1, {}, t.w[0], t.w[1], 1, 1};
  if (a.a_type == WL_OPERAND_NVFP4) {
    up.a = wltest::quantize(t.x, x_scale);
  } else {
    std::vector<uint8_t> bytes(t.x.codes.size() * 2);
    std::memcpy(bytes.data(), t.x.codes.data(), bytes.size());
    up.a = {a.tokens, a.hidden, 1, std::move(bytes), {}, a.a_type};
  }
  const wltest::Sums sums = wltest::accumulate_groups(
      up, table, 0, [&](double fraction) { progress->fraction(fraction * 0.6); });
  const std::vector<float> gated = wltest::grouped_gated_replayed(
      sums, ranges, {{a.gate, a.gate_limit}, t.alpha[0], t.alpha[1], {}, {}});
  const wl_dtype h = moe::h_type(a, device), rows_type = moe::rows_type(a, device);
  wltest::Problem down{slots, a.hidden, a.intermediate, 1, {}, t.w[2], {}, 1, 1};
  if (h == WL_NVFP4)
    down.a = wltest::quantized(gated, sums, h_scale);
  else
    down.a = {slots, a.intermediate,
              1,     wltest::rounded(gated, h),
              {},    h == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16};
  const wltest::Sums products = wltest::accumulate_groups(
      down, dense, 0, [&](double fraction) { progress->fraction(0.6 + fraction * 0.4); });
  const std::vector<double> rows =
      wltest::grouped_linear(products, ranges, {WL_ACTIVATION_NONE, t.alpha[2], {}, {}, {}});
  // Half a last place, relative.
  const auto half_place = [](wl_dtype type) {
    return type == WL_BF16 ? 0x1p-8 : type == WL_F16 ? 0x1p-11 : 0x1p-24;
  };
  const double of_term = 1e-3 + half_place(rows_type), of_sum = half_place(a.y_type);
  const std::vector<float> found = numbers_of(y, a.y_type);
  MoeVerdict verdict;
  for (int64_t token = 0; token < a.tokens; ++token)
    for (int64_t column = 0; column < a.hidden; ++column) {
      const auto at = static_cast<size_t>(token * a.hidden + column);
      double sum = t.shared.empty() ? 0 : double{t.shared[at]}, size = std::fabs(sum);
      for (int64_t j = 0; j < a.top_k; ++j) {
        const auto slot = static_cast<size_t>(token * a.top_k + j);
        if (order.positions[slot] < 0) continue;
        const double term = (t.weights.empty() ? 1.0 : double{t.weights[slot]}) *
                            rows[static_cast<size_t>(order.positions[slot] * a.hidden + column)];
        sum += term, size += std::fabs(term);
      }
      const double error =
          std::fabs(found[at] - sum) / (1e-3 + of_term * size + of_sum * std::fabs(sum));
      const bool right = error <= 1;
      verdict.wrong += !right;
      if (!(error <= verdict.worst)) verdict.worst = std::isnan(error) ? INFINITY : error;
    }
  return verdict;
}

} // namespace

ExitStatus run_moe(const Arguments& arguments) {
  MoeRequest request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  LayerTensors tensors;
  std::optional<Progress> progress;
  if (request.input.empty()) {
    if (options.given("--layer"))
      throw Failure(exit_usage, "moe: --layer is for names of a file: --input");
    request.verify = true;
  } else {
    refuse_with_input("moe", options, {"--hidden", "--intermediate", "--experts"});
    progress.emplace("reading " + request.input);
    tensors = read_layer(request.input, request.layer, &request,
                         [&](double fraction) { progress->fraction(fraction); });
    progress.reset();
    if (!tensors.x.codes.empty()) refuse_with_input("moe", options, {"--tokens", "--type"});
    if (!tensors.ids.empty())
      refuse_with_input("moe", options, {"--tokens", "--top-k", "--routing"});
  }
  request.skewed = request.routing == "skewed";
  const Device device = prepare_run("moe", request);
  const Context context(device.ordinal);
  const wl_moe_args args = sizes_only(request, device);
  check_sizes(*context.get(), args);
  check_memory("moe", "tokens, hidden, intermediate, experts, top_k",
               memory_needed(request, device));
  const bool h_nvfp4 = moe::h_type(args, context.get()->limits) == WL_NVFP4;
  if (h_nvfp4 && !tensors.w[2].values.empty() && !tensors.input_scale[1])
    throw Failure(exit_usage, request.input + ": has no input_scale of down_proj (or w2), the "
                                              "scale of what is multiplied with it in NVFP4");

  progress.emplace("making the tensors");
  draw_layer(request, request.seed, &tensors);
  if (request.shared) tensors.shared = random_shared(request);
  tensors.shared_bytes = wltest::rounded(tensors.shared, args.y_type);
  tensors.shared = numbers_of(tensors.shared_bytes, args.y_type);
  // Random: the largest magnitude of a token is 1; of h about 8.
  constexpr float largest_code = 6 * 448;
  const float x_scale = tensors.input_scale[0].value_or(largest(tensors.x) / largest_code),
              h_scale = tensors.input_scale[1].value_or(8 / largest_code);
  if (args.a_type == WL_OPERAND_NVFP4)
    for (size_t i = 0; i < 2; ++i)
      for (float& alpha : tensors.alpha[i]) alpha *= x_scale;
  if (h_nvfp4)
    for (float& alpha : tensors.alpha[2]) alpha *= h_scale;
  progress.emplace(std::string("running on ") + device.info.name);
  const MoeOutcome outcome = with_virtual_report(
      device, [&] { return run_on_device(context.get(), tensors, args, x_scale, h_scale); });
  std::optional<MoeVerdict> verdict;
  if (request.verify) {
    progress.emplace("comparing with the reference");
    verdict =
        compare(args, context.get()->limits, tensors, x_scale, h_scale, outcome.y, &*progress);
  }
  progress.reset();
  const bool wrong = verdict && verdict->wrong != 0;

  Report report;
  report_version(report, "moe");
  report_device(report, device);
  report_inputs(report, request);
  report_schedule(report, device, request);
  report.rule();
  report.add("layer",
             format("%lld tokens of %lld, %lld experts of %lld, %lld each, %s, as %s",
                    static_cast<long long>(request.tokens), static_cast<long long>(request.hidden),
                    static_cast<long long>(request.experts),
                    static_cast<long long>(request.intermediate),
                    static_cast<long long>(request.top_k), request.type.c_str(),
                    args.a_type == WL_OPERAND_NVFP4 ? "NVFP4" : "they are"),
             "", "");
  if (verdict) {
    report.add("outputs wrong",
               format("%lld of %zu; the worst takes %.3f of what is allowed",
                      static_cast<long long>(verdict->wrong),
                      static_cast<size_t>(request.tokens * request.hidden), verdict->worst),
               "wrong", std::to_string(verdict->wrong));
    report.add("", "", "worst", json_number(verdict->worst));
  }
  report_plan(report, device, outcome.plan, outcome.run_seconds);
  if (!request.output.empty() && !wrong) {
    write_safetensors(
        request.output,
        {{"y", file_dtype(args.y_type), matrix_shape(false, 1, args.tokens, args.hidden),
          outcome.y.data(), outcome.y.size()}},
        {{"producer", "warpline moe"}});
    report.add_text("written", "output", request.output);
  } else if (!request.output.empty()) {
    report.add("written", "nothing: the results are wrong", "", "");
  }
  const std::string result = wrong ? "FAIL"
                             : verdict
                                 ? "PASS"
                                 : "DONE, not verified (--verify compares with the reference)";
  report.add("", "", "result", json_string(verdict ? result : "NOT VERIFIED"));
  print_report(report, request, result);
  return wrong ? exit_wrong : exit_right;
}

} // namespace warpline::cli
