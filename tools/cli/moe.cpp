// warpline moe: a layer of experts of random tensors by wl_moe -> compared with a reference ->
// table and JSON.
#include "kernels/moe/moe.hpp"
#include "tests/reference/grouped.hpp"
#include "tests/reference/moe.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

namespace warpline::cli {
namespace {

struct Request : RunOptions {
  int64_t tokens = 64, hidden = 2048, intermediate = 768, experts = 128, top_k = 8, first = 0;
  std::string type = "bf16", a_type, out = "bf16", routing = "uniform", gate = "silu";
  bool shared = false, graph = false;
};

Options declare(Request& r) {
  Options o(
      "moe",
      "Runs a layer of experts with NVFP4 weights on random tensors and compares every output\n"
      "with a reference: sums of products in double, the gate as the kernels compute it.");
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
  o.flag("--graph", "the run is a launch of one CUDA graph", r.graph);
  declare_run(&o, &r);
  return o;
}

struct Tensors {
  wltest::Matrix x;
  std::vector<int32_t> ids;
  std::vector<float> weights, alpha[3];
  wltest::Operand w[3];
  std::vector<float> shared;
  std::vector<uint8_t> shared_bytes;
};

wl_moe_args sizes_only(const Request& r, const Device& device) {
  wl_moe_args a = {};
  a.struct_size = sizeof a;
  a.tokens = r.tokens, a.hidden = r.hidden, a.intermediate = r.intermediate;
  a.experts = r.experts, a.top_k = r.top_k, a.first_expert = r.first;
  a.x_type = r.type == "f16" ? WL_F16 : WL_BF16;
  const bool as_they_are = r.a_type.empty() ? device.info.compute_major == 9 : r.a_type != "nvfp4";
  const bool f16 = r.a_type.empty() ? r.type == "f16" : r.a_type == "f16";
  a.a_type = !as_they_are ? WL_OPERAND_NVFP4 : f16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  a.sf_layout = WL_SF_128x4;
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

double memory_needed(const Request& r, const Device& device) {
  const double weights = 3.0 * double(r.experts) * double(r.hidden) * double(r.intermediate);
  const double slots = double(r.tokens) * double(r.top_k);
  const double rows = slots * (double(r.hidden) + double(r.intermediate));
  const double tensors = weights * 9 / 16 + 2 * double(r.tokens) * double(r.hidden);
  // Of the reference: sums in double, and numbers of every row.
  return tensors + host_bytes(device, r, tensors + 4 * rows) + 24 * rows;
}

Tensors draw(const Request& r) {
  Tensors t;
  const auto type = r.type == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  t.x = wltest::random_matrix(r.tokens, r.hidden, 1, type, r.seed);
  const auto kind = wltest::InputKind::exact;
  wltest::Problem up =
      wltest::make_problem(1, r.intermediate, r.hidden, r.experts, kind, r.seed + 1);
  t.w[0] = std::move(up.b1), t.w[1] = std::move(up.b2);
  t.w[2] = wltest::make_problem(1, r.hidden, r.intermediate, r.experts, kind, r.seed + 2, 1).b1;
  const wltest::Random random(r.seed, 90);
  for (size_t i = 0; i < 3; ++i)
    for (int64_t e = 0; e < r.experts; ++e)
      t.alpha[i].push_back(
          static_cast<float>((0.5 + random.uniform(static_cast<uint64_t>(e) * 3 + i)) /
                             std::sqrt(static_cast<double>(i == 2 ? r.intermediate : r.hidden))));
  // Each token's experts differ, as a router's.
  const auto all = static_cast<uint64_t>(r.first + r.experts);
  const wltest::Random choice(r.seed, 91);
  for (int64_t token = 0; token < r.tokens; ++token) {
    std::vector<int32_t> of_token;
    for (uint64_t j = 0; of_token.size() < static_cast<size_t>(r.top_k); ++j) {
      const uint64_t at = static_cast<uint64_t>(token) * 4096 + j;
      auto id = static_cast<int32_t>(choice.below(at, all));
      if (r.routing == "skewed" && of_token.empty() && token % 2 == 0)
        id = static_cast<int32_t>(r.first);
      const bool fresh = std::find(of_token.begin(), of_token.end(), id) == of_token.end();
      if (fresh || j > 2000) of_token.push_back(id);
    }
    t.ids.insert(t.ids.end(), of_token.begin(), of_token.end());
    for (int64_t j = 0; j < r.top_k; ++j)
      t.weights.push_back(static_cast<float>(
          random.uniform(static_cast<uint64_t>(token * r.top_k + j) + (uint64_t{1} << 40)) * 2 /
          static_cast<double>(r.top_k)));
  }
  if (!r.shared) return t;
  for (int64_t i = 0; i < r.tokens * r.hidden; ++i)
    t.shared.push_back(
        static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i) + (uint64_t{1} << 41)) - 1));
  return t;
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

struct Outcome {
  wl_plan_info plan = {};
  double run_seconds = 0;
  std::vector<uint8_t> y;
};

Outcome run_on_device(wl_context* context, const Tensors& t, wl_moe_args args, float x_scale,
                      float h_scale) {
  Outcome outcome;
  const size_t bytes =
      static_cast<size_t>(args.tokens * args.hidden) * (args.y_type == WL_F32 ? 4 : 2);
  outcome.y.assign(bytes, 0xFF);
  const auto floats = [&](const std::vector<float>& v) {
    return DeviceMemory(context, v.data(), v.size() * sizeof(float));
  };
  const DeviceMemory x(context, t.x.codes.data(), t.x.codes.size() * 2),
      ids(context, t.ids.data(), t.ids.size() * 4),
      weights = floats(t.weights), w_gate(context, t.w[0].values), w_up(context, t.w[1].values),
      w_down(context, t.w[2].values), sf_gate(context, pack_scales(t.w[0])),
      sf_up(context, pack_scales(t.w[1])), sf_down(context, pack_scales(t.w[2])),
      alpha_gate = floats(t.alpha[0]), alpha_up = floats(t.alpha[1]),
      alpha_down = floats(t.alpha[2]), scales = floats({x_scale, h_scale}), y(context, outcome.y),
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
// terms that it is the sum of, and half a last place of its type and of its terms'.
struct Verdict {
  double worst = 0;
  int64_t wrong = 0;
};
Verdict compare(const Request& r, const wl_moe_args& a, const DeviceLimits& device,
                const Tensors& t, float x_scale, float h_scale, const std::vector<uint8_t>& y,
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
  const double place = r.out == "bf16" || rows_type == WL_BF16 ? 0x1p-8 : 0x1p-11;
  const std::vector<float> found = numbers_of(y, a.y_type);
  Verdict verdict;
  for (int64_t token = 0; token < a.tokens; ++token)
    for (int64_t column = 0; column < a.hidden; ++column) {
      const auto at = static_cast<size_t>(token * a.hidden + column);
      double sum = t.shared.empty() ? 0 : double{t.shared[at]}, size = std::fabs(sum);
      for (int64_t j = 0; j < a.top_k; ++j) {
        const auto slot = static_cast<size_t>(token * a.top_k + j);
        if (order.positions[slot] < 0) continue;
        const double term =
            t.weights[slot] * rows[static_cast<size_t>(order.positions[slot] * a.hidden + column)];
        sum += term, size += std::fabs(term);
      }
      const double error = std::fabs(found[at] - sum) / (1e-3 + (1e-3 + place) * size);
      const bool right = error <= 1;
      verdict.wrong += !right;
      if (!(error <= verdict.worst)) verdict.worst = std::isnan(error) ? INFINITY : error;
    }
  return verdict;
}

} // namespace

ExitStatus run_moe(const Arguments& arguments) {
  Request request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  if (!request.output.empty())
    throw Failure(exit_usage, "moe: --output: random tensors are compared and not written");
  request.verify = true;
  const Device device = prepare_run("moe", request);
  const Context context(device.ordinal);
  const wl_moe_args args = sizes_only(request, device);
  check_sizes(*context.get(), args);
  check_memory("moe", "tokens, hidden, intermediate, experts, top_k",
               memory_needed(request, device));

  std::optional<Progress> progress("making the tensors");
  Tensors tensors = draw(request);
  tensors.shared_bytes = wltest::rounded(tensors.shared, args.y_type);
  tensors.shared = numbers_of(tensors.shared_bytes, args.y_type);
  // The largest magnitude of a token is 1; of h about 8.
  const float x_scale = 1.0f / (6 * 448), h_scale = 8.0f / (6 * 448);
  if (args.a_type == WL_OPERAND_NVFP4)
    for (size_t i = 0; i < 2; ++i)
      for (float& alpha : tensors.alpha[i]) alpha *= x_scale;
  if (moe::h_type(args, context.get()->limits) == WL_NVFP4)
    for (float& alpha : tensors.alpha[2]) alpha *= h_scale;
  progress.emplace(std::string("running on ") + device.info.name);
  const Outcome outcome = with_virtual_report(
      device, [&] { return run_on_device(context.get(), tensors, args, x_scale, h_scale); });
  progress.emplace("comparing with the reference");
  const Verdict verdict = compare(request, args, context.get()->limits, tensors, x_scale, h_scale,
                                  outcome.y, &*progress);
  progress.reset();

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
  report.add("outputs wrong",
             format("%lld of %zu; the worst takes %.3f of what is allowed",
                    static_cast<long long>(verdict.wrong),
                    static_cast<size_t>(request.tokens * request.hidden), verdict.worst),
             "wrong", std::to_string(verdict.wrong));
  report.add("", "", "worst", json_number(verdict.worst));
  report_plan(report, device, outcome.plan, outcome.run_seconds);
  const std::string result = verdict.wrong == 0 ? "PASS" : "FAIL";
  report.add("", "", "result", json_string(result));
  print_report(report, request, result);
  return verdict.wrong == 0 ? exit_right : exit_wrong;
}

} // namespace warpline::cli
