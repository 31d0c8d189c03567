#include "tests/virtual/mutation/judge.hpp"

#include "runtime/src/configs.hpp"
#include "runtime/src/driver.hpp"
#include "tests/problems/products.hpp"
#include "tests/reference/quantize.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/dual_gemm_nvfp4_run.hpp"
#include "tests/support/ledger_names.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/quantize_run.hpp"
#include "tests/virtual/mutation/drawn.hpp"
#include "tests/virtual/mutation/rewrite.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace wltest {

// starve: a role, and consumer warps of every kind, lag behind. stagger: CTAs start late.
const std::vector<std::string> kSchedules = {
    "lazy",     "random:1", "eager",    "reverse",  "random:2", "random:3", "starve:2",
    "starve:4", "starve:5", "starve:6", "starve:7", "starve:8", "stagger:1"};

std::vector<std::string> hold_schedules(int seeds) {
  std::vector<std::string> schedules;
  for (int s = 1; s <= seeds; ++s) schedules.push_back("hold:" + std::to_string(s));
  return schedules;
}

std::string driver_path;

namespace {

const char* const kNoDriver = "no virtual GPU";

// "vgpu: races: order: write of ..." -> "races/order"; what has no such word ran into the limit of
// instructions.
std::string checker_of(const std::string& report) {
  size_t a = report.find("vgpu: ");
  if (a == std::string::npos) return "";
  size_t b = report.find(": ", a + 6);
  if (b == std::string::npos) return "";
  std::string checker = report.substr(a + 6, b - a - 6);
  if (checker.starts_with("the cluster ran ")) return "limit";
  if (checker == "races" || checker == "barriers" || checker == "definedness") {
    size_t c = report.find(": ", b + 2);
    if (c != std::string::npos && c - b < 24) checker += "/" + report.substr(b + 2, c - b - 2);
  }
  return checker;
}

// Types of A whose rows a configuration makes ready under the product in ways of their own; -1: the
// case's own.
std::vector<int> types_of_later(const std::string& name) {
  const warpline::gemm::Config* config = find_config(name.c_str());
  const bool both = config != nullptr && config->later && !config->grouped &&
                    (config->a_types & warpline::gemm::bit(WL_OPERAND_NVFP4)) != 0;
  return both ? std::vector<int>{-1, WL_OPERAND_F16} : std::vector<int>{-1};
}

// Whether D is right; `message` says why there is none.
bool right_values_of(wl_context* context, const DualGemmCase& problem, int a_type,
                     std::string& message) {
  DualGemmCase c = problem;
  if (a_type >= 0) c.a_type = a_type;
  if (!c.quantised) c.ahead = rewrite; // else the quantisers are
  c.alphas = c.bias1 != 0;
  const DualGemmResult r = run_dual_gemm(context, c);
  if (r.status != WL_SUCCESS) message = r.message;
  return r.guards_intact && r.bound.passed() && r.exact.unequal == 0;
}
bool right_values(wl_context* context, const Kernel&, const DualGemmCase& c, std::string& message) {
  const std::vector<int> types = types_of_later(c.config);
  return std::all_of(types.begin(), types.end(),
                     [&](int a_type) { return right_values_of(context, c, a_type, message); });
}

bool right_nvfp4(wl_context* context, const Kernel&, const DualGemmCase& c, std::string& message) {
  const Problem p = make_problem(c.m, c.n, c.k, c.l, c.kind, c.seed);
  const float d_scale = 0.25f;
  const GatedOperands operands = gated_operands(c, p);
  const Nvfp4Result r = run_dual_gemm_nvfp4(context, p, d_scale, c.config, c.unwritten, operands);
  if (r.status != WL_SUCCESS) {
    message = r.message;
    return false;
  }
  const Sums sums = accumulate(p);
  const Operand expected = quantized(gated_replayed(sums, operands), sums, d_scale);
  return r.guards_intact && r.d.scales == expected.scales && r.d.values == expected.values;
}

// `bare`: without factors and residual, which the short problem else has.
bool right_linear_of(wl_context* context, const Kernel& kernel, const DualGemmCase& c, int mn_major,
                     int a_type, std::string& message, bool bare = false, bool gelu = true) {
  const bool second = c.bias1 != 0 && !bare;
  // Biases with and without factors of columns, which the lanes wait for, too.
  const bool has_col = find_config(c.config)->column_factors;
  LinearCase of{c.m,
                c.n,
                c.k,
                c.l,
                kernel.d_type,
                c.config,
                c.seed,
                second || has_col,
                second && kernel.d_type != WL_NVFP4,
                second};
  of.col = second && has_col;
  of.mn_major = mn_major;
  of.a_type = a_type;
  of.gelu = gelu;
  const LinearRun linear(context, of);
  message = linear.message();
  wl_status status = message.empty() ? WL_SUCCESS : WL_ERROR_INVALID_ARGUMENT;
  std::vector<std::pair<void*, size_t>> memory = linear.memory();
  // A decoder lets its product start when the work ahead of both has ended: B needs no other wait.
  if (const auto* config = find_config(c.config);
      config->family == warpline::gemm::Family::sm90 && !config->direct)
    memory[1].second = 0;
  for (int i = 0; i < c.in_a_row && status == WL_SUCCESS; ++i) {
    rewrite(memory);
    status = linear.run(nullptr);
  }
  if (status == WL_SUCCESS) status = wl_stream_synchronize(context, nullptr);
  if (status != WL_SUCCESS && message.empty()) message = wl_last_error();
  return status == WL_SUCCESS && linear.check().empty();
}
// Each pair of layouts has a main loop of its own; of one tile clusters share sums in another way
// than of more of them than half of the clusters (sm90_scatter.inc).
bool right_linear(wl_context* context, const Kernel& kernel, const DualGemmCase& c,
                  std::string& message) {
  const warpline::gemm::Config* config = find_config(c.config);
  const std::vector<int> all = {2, 1, 3}, none = {0};
  for (const int mn_major : config->mn_major ? all : none)
    for (const int a_type : types_of_later(c.config))
      if (!right_linear_of(context, kernel, c, mn_major, a_type, message)) return false;
  // Outputs without activation, and those of a sigmoid, may have texts of their own
  // (sm90_store.inc).
  const auto has = [&](const char* label) { return kernel.text.find(label) != std::string::npos; };
  if (c.bias1 != 0 && has("other_outputs:") &&
      !right_linear_of(context, kernel, c, 0, -1, message, true, false))
    return false;
  if (c.bias1 != 0 && has("any_outputs:") &&
      !right_linear_of(context, kernel, c, 0, -1, message, true))
    return false;
  if (config->family != warpline::gemm::Family::sm90 ||
      config->grid != warpline::gemm::Grid::stream_k)
    return true;
  DualGemmCase tile = c;
  tile.m = 200;
  return right_linear_of(context, kernel, tile, 0, -1, message);
}

bool right_quantised(wl_context* context, const Kernel&, const DualGemmCase& c,
                     std::string& message) {
  QuantizeCase q;
  q.m = c.m;
  q.k = c.k;
  q.l = c.l;
  q.type = c.out;
  q.config = c.config;
  q.seed = c.seed;
  q.norm = c.config.find("_rms_") != std::string::npos     ? WL_NORM_RMS
           : c.config.find("_layer_") != std::string::npos ? WL_NORM_LAYER
                                                           : WL_NORM_NONE;
  q.chained = true;
  q.unwritten = c.unwritten;
  q.gammas = q.norm != WL_NORM_NONE;
  q.ahead = rewrite;
  const QuantizeResult r = run_quantize(context, q);
  if (r.status != WL_SUCCESS) message = r.message;
  return r.guards_intact && r.unequal == 0;
}

bool right_drawn_values(wl_context* context, const Kernel& kernel, const DualGemmCase& c,
                        std::string& message) {
  return right_drawn(context, kernel.name, c.seed, message);
}

// FACTORS_LATER of sm90_native.ptx.
bool takes_factors_later(const Kernel& kernel) {
  const warpline::gemm::Config* config = find_config(kernel.name.c_str());
  return kernel.run == Kernel::Run::linear && config->ping_pong &&
         warpline::gemm::format_of(config->first_types().a).bits == 16;
}

// Weights that are 1 on the diagonal: D is the normalised rows, or X times the factors of rows.
// A product's kernel is run behind the factors of rows that no residual is added to.
bool right_norm_linear(wl_context* context, const Kernel& kernel, const DualGemmCase& c,
                       std::string& message) {
  const auto named = [&](const char* part) { return kernel.name.find(part) != std::string::npos; };
  const bool product = kernel.run != Kernel::Run::norm_linear;
  const bool folding = named("_fold_"), factors = product || named("_rstd_");
  const Matrix x = random_matrix(c.m, c.k, 1, c.out, c.seed),
               added = random_matrix(c.m, c.k, 1, c.out, c.seed + 1);
  Matrix w{c.k, c.k, 1, c.out, std::vector<uint16_t>(static_cast<size_t>(c.k * c.k))};
  for (int64_t i = 0; i < c.k; ++i)
    w.codes[static_cast<size_t>(i * c.k + i)] = encode_output(c.out, 1);
  Norm norm;
  norm.kind = named("_rms_") || product ? Norm::Kind::rms : Norm::Kind::layer;
  norm.eps = 1e-5f;
  std::vector<float> gamma(static_cast<size_t>(c.k)), beta(gamma.size());
  for (size_t i = 0; i < gamma.size(); ++i)
    gamma[i] = 0.5f + static_cast<float>(i % 7) / 8, beta[i] = static_cast<float>(i % 5) / 4;
  const DeviceBuffer input(context, x.codes), sums(context, added.codes),
      weights(context, folding ? x.codes : w.codes), gammas(context, gamma), betas(context, beta),
      folded(context, x.codes), d(context, std::vector<float>(static_cast<size_t>(c.m * c.k), NAN)),
      folded_bias(context, std::vector<float>(static_cast<size_t>(c.m), NAN));
  wl_norm_linear_args args{};
  args.struct_size = sizeof args;
  args.m = c.m, args.n = c.k, args.k = c.k;
  args.x = input.pointer, args.x_type = c.out == OutputType::f16 ? WL_F16 : WL_BF16;
  args.norm = norm.kind == Norm::Kind::rms ? WL_NORM_RMS : WL_NORM_LAYER, args.eps = norm.eps;
  args.gamma_type = WL_F32;
  args.w = weights.pointer;
  args.w_type = c.out == OutputType::f16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  args.d = d.pointer, args.d_type = product ? args.x_type : WL_F32;
  if (!factors) {
    args.gamma = gammas.pointer, norm.gamma = gamma;
    if (norm.kind == Norm::Kind::layer) args.beta = betas.pointer, norm.beta = beta;
  }
  const auto failed = [&](wl_status status) {
    if (status != WL_SUCCESS) message = wl_last_error();
    return status != WL_SUCCESS;
  };
  if (folding) {
    args.n = c.m;
    // Twice: the second starts while the first ends.
    rewrite({{weights.pointer, 2 * x.codes.size()}, {gammas.pointer, 4 * gamma.size()}});
    const auto run = [&] {
      return wl_norm_linear_fold(context, &args, folded.pointer,
                                 static_cast<float*>(folded_bias.pointer), nullptr);
    };
    if (failed(run()) || failed(run()) || failed(wl_stream_synchronize(context, nullptr)))
      return false;
    const Folded expected = fold(x, norm, {});
    std::vector<uint16_t> found(x.codes.size());
    std::vector<float> bias(expected.bias.size());
    wl_download(context, found.data(), folded.pointer, 2 * found.size());
    wl_download(context, bias.data(), folded_bias.pointer, 4 * bias.size());
    return found == expected.w.codes && bias == expected.bias;
  }
  args.config = product ? kernel.name.c_str() : product_of(kernel);
  args.form = factors ? WL_NORM_FOLDED : WL_NORM_PLAIN;
  if (!product) args.residual = args.sum = sums.pointer;
  wl_plan* plan = nullptr;
  if (failed(wl_norm_linear_plan(context, &args, &plan))) return false;
  wl_plan_info info{};
  info.struct_size = sizeof info;
  wl_plan_get_info(plan, &info);
  const DeviceBuffer workspace(context, info.workspace_bytes);
  rewrite({{input.pointer, 2 * x.codes.size()},
           {sums.pointer, 2 * added.codes.size()},
           {gammas.pointer, 4 * gamma.size()},
           {betas.pointer, 4 * beta.size()}});
  const bool ran = !failed(wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr)) &&
                   !failed(wl_stream_synchronize(context, nullptr));
  wl_plan_destroy(plan);
  if (!ran) return false;
  const Matrix rows = product ? x : add(x, added), wide = normalised_rows(rows, norm);
  std::vector<uint16_t> sum(rows.codes.size());
  std::vector<float> found(sum.size()), row(static_cast<size_t>(c.k));
  wl_download(context, sum.data(), sums.pointer, 2 * sum.size());
  wl_download(context, found.data(), d.pointer, 4 * found.size());
  bool right = product || sum == rows.codes;
  if (product) {
    wl_download(context, sum.data(), d.pointer, 2 * sum.size());
    for (size_t i = 0; i < sum.size(); ++i)
      found[i] = static_cast<float>(decode_output(c.out, sum[i]));
  }
  for (size_t first = 0; first < sum.size(); first += row.size()) {
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<float>(decode_output(c.out, rows.codes[first + i]));
    const float rstd = statistics(row.data(), c.k, norm).rstd;
    for (size_t i = 0; i < row.size(); ++i)
      right =
          right &&
          found[first + i] ==
              (product
                   ? static_cast<float>(decode_output(c.out, encode_output(c.out, row[i] * rstd)))
               : factors ? row[i] * rstd
                         : static_cast<float>(decode_output(c.out, wide.codes[first + i])));
  }
  return right;
}

// In a child process. Returns what noticed something wrong, and when.
Verdict judge(const Kernel& kernel, const std::string& source, const std::string& check,
              const std::vector<std::string>& schedules, std::string* report_text) {
  // --driver: a copy that nobody rebuilds meanwhile.
  if (driver_path.empty()) {
    setenv("WARPLINE_DRIVER", ("virtual:" + kernel.profile).c_str(), 1);
  } else {
    setenv("WARPLINE_DRIVER", driver_path.c_str(), 1);
    setenv("VGPU_PROFILE", kernel.profile.c_str(), 1);
  }
  setenv("VGPU_STRICT", "1", 1); // errors end the launch
  int devices = 0;
  if (wl_device_count(&devices) != WL_SUCCESS) return {kNoDriver, wl_last_error()};
  using SetOption = int (*)(const char*, const char*);
  using Text = const char* (*)();
  auto set = reinterpret_cast<SetOption>(warpline::driver_symbol("vgpuSetOption"));
  auto report = reinterpret_cast<Text>(warpline::driver_symbol("vgpuReport"));
  auto option = [&](const char* key, const std::string& value) {
    if (set(key, value.c_str()) == 0) return;
    std::fprintf(stderr, "mutation: option %s = %s is refused\n", key, value.c_str());
    _exit(3);
  };
  option("report", "none");
  option("sms", std::to_string(kernel.sms));
  option("check", check);
  option("threads", "1");
  // Where clusters wait for each other's flags, or for rows that others decode, those that are held
  // back take long.
  const warpline::gemm::Config* config = find_config(kernel.name);
  const bool polls = polls_workspace(kernel.name) ||
                     (config != nullptr && (config->spread || config->helped || config->later));
  option("instruction_limit", polls ? "40000000" : "4000000");
  const Drawn drawn = drawn_for(kernel.name);
  const bool is_drawn = kernel.run == Kernel::Run::drawn;
  const Drawn layers = layers_with(kernel.name);
  // Drawn problems of Hopper's FP8 have the sums of its narrow accumulator.
  const bool narrow =
      drawn.configuration != nullptr && problems::adds_f8_on_hopper(*drawn.configuration);
  if (is_drawn && narrow) option("wgmma_accumulation", "hopper");
  option("define", kernel.names);
  if (!source.empty()) option("source", source);
  wl_context* context = nullptr;
  if (wl_context_create(0, &context) != WL_SUCCESS) return {kNoDriver, wl_last_error()};
  // The short problem, with biases, comes first because it is cheap; four schedules of each kind
  // are enough of it.
  std::vector<std::pair<int64_t, std::string>> runs;
  for (const std::string& schedule : schedules) {
    if (runs.empty() && kernel.short_k != kernel.problem.k)
      runs.emplace_back(kernel.short_k, schedule);
    runs.emplace_back(kernel.problem.k, schedule);
  }
  size_t plain = 0, hold = 0;
  for (const std::string& schedule : schedules)
    if ((schedule.starts_with("hold:") ? hold++ : plain++) < 4 && schedule != schedules[0] &&
        kernel.short_k != kernel.problem.k)
      runs.emplace_back(kernel.short_k, schedule);
  for (const auto& [k, schedule] : runs) {
    option("schedule", schedule);
    if (layers.operation != nullptr) option("check", check);
    std::string message;
    DualGemmCase c = kernel.problem;
    c.k = k;
    if (k == kernel.short_k) c.bias1 = c.bias2 = 0.25f;
    const auto right_run = kernel.run == Kernel::Run::dual_gemm         ? right_values
                           : kernel.run == Kernel::Run::dual_gemm_nvfp4 ? right_nvfp4
                           : kernel.run == Kernel::Run::linear          ? right_linear
                           : is_drawn                                   ? right_drawn_values
                           : kernel.run == Kernel::Run::norm_linear     ? right_norm_linear
                                                                        : right_quantised;
    bool right = right_run(context, kernel, c, message) &&
                 (!takes_factors_later(kernel) || right_norm_linear(context, kernel, c, message));
    if (right && layers.operation != nullptr) {
      option("check", without_ledger(check));
      right = right_layers(context, layers, c.seed, message);
    }
    // A product's other pairs of types, and rings that come round further, once.
    if (right && &schedule == &runs[0].second && !is_drawn && find_config(kernel.name) != nullptr) {
      if (narrow) option("wgmma_accumulation", "hopper");
      right = right_loops(context, drawn, c.seed, message);
      if (narrow) option("wgmma_accumulation", "exact");
    }
    *report_text = report();
    if (!message.empty()) {
      std::string by = checker_of(*report_text);
      if (by.empty()) {
        *report_text = message;
        by = "ptx";
      }
      return {by, schedule};
    }
    if (!right) return {"result", schedule};
  }
  return {};
}

} // namespace

std::string without_ledger(std::string checks) {
  const std::string ledger = ",ledger";
  if (const size_t at = checks.find(ledger); at != std::string::npos)
    checks.erase(at, ledger.size());
  return checks;
}

Child start(const Kernel& kernel, const std::string& text, const std::string& check,
            const std::vector<std::string>& schedules, size_t index) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::cout.flush();
  Child c;
  c.index = index;
  c.pipe = ends[0];
  c.pid = fork();
  if (c.pid == 0) {
    close(ends[0]);
    alarm(900); // the instruction limit ends endless loops long before
    std::string path;
    if (!text.empty()) {
      path = "/tmp/warpline_mutant_" + std::to_string(getpid()) + ".ptx";
      std::ofstream(path) << text;
    }
    std::string report;
    Verdict v = judge(kernel, path, check, schedules, &report);
    if (!path.empty()) unlink(path.c_str());
    std::string line = v.by + "\n" + v.schedule + "\n" + report;
    for (size_t done = 0; done < line.size();) {
      ssize_t n = write(ends[1], line.data() + done, line.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  return c;
}

Child take_ended(std::vector<Child>& running) {
  std::vector<pollfd> ends;
  for (const Child& c : running) ends.push_back({c.pipe, POLLIN, 0});
  while (poll(ends.data(), ends.size(), -1) < 0 && errno == EINTR) {
  }
  size_t i = 0;
  while (i + 1 < ends.size() && ends[i].revents == 0) ++i;
  const Child ended = running[i];
  running.erase(running.begin() + static_cast<ptrdiff_t>(i));
  return ended;
}

Outcome finish(Child& c) {
  char buffer[4096];
  while (ssize_t n = read(c.pipe, buffer, sizeof buffer)) {
    if (n < 0) break;
    c.output.append(buffer, static_cast<size_t>(n));
  }
  close(c.pipe);
  int status = 0;
  waitpid(c.pid, &status, 0);
  unlink(("/tmp/warpline_mutant_" + std::to_string(c.pid) + ".ptx").c_str());
  Outcome o;
  if (WIFSIGNALED(status)) {
    o.verdict.by = WTERMSIG(status) == SIGALRM ? "time" : "crash";
    return o;
  }
  size_t a = c.output.find('\n'), b = a == std::string::npos ? a : c.output.find('\n', a + 1);
  if (b == std::string::npos) {
    o.verdict.by = "crash";
    return o;
  }
  o.verdict.by = c.output.substr(0, a);
  o.verdict.schedule = c.output.substr(a + 1, b - a - 1);
  o.report = c.output.substr(b + 1);
  if (o.verdict.by == kNoDriver) { // says nothing about the mutant
    std::fprintf(stderr, "mutation: %s\n", o.verdict.schedule.c_str());
    std::exit(2);
  }
  return o;
}

} // namespace wltest
