// Every Hopper configuration of wl_gemm on the virtual H200, through the engine's plans: all
// activations, types of bias, row factors, residuals, in place and not, strides, batches, edges of
// M, N and K, under every schedule, against the double reference and the FP32 replay bit for bit.
// And the dual GEMM's biases and gates, of which its kernels know beside silu. A process holds one
// virtual GPU, and this binary's is a B200: the cases run in children.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/linear/linear.hpp"
#include "runtime/src/plan.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#define SM90_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SMALL_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STREAM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/dual_gemm/configs.def"

using namespace wltest;
using warpline::gemm::Config;
using warpline::gemm::Family;

namespace {

constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16, NVFP4 = WL_NVFP4;

std::vector<Config> linear_configs() {
  std::vector<Config> result;
  for (const Config& config : warpline::linear::configs())
    if (config.decodes()) result.push_back(config);
  return result;
}

const std::vector<Config>& gated_configs() {
  static const std::vector<Config> table = {
#define SM90_CONFIG(name, ...)                                                                     \
  warpline::gemm::sm90_config(                                                                     \
      #name, [] { return WL_IMAGE(name); }, 2, Family::sm90, __VA_ARGS__),
#define SM90_SMALL_CONFIG(name, ...)                                                               \
  warpline::gemm::sm90_small_config(                                                               \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#define SM90_STREAM_CONFIG(name, ...)                                                              \
  warpline::gemm::sm90_stream_config(                                                              \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#include "kernels/dual_gemm/configs.def"
  };
  return table;
}

// A tensor of any of the output types, as doubles and as the device holds it.
size_t bytes_of(wl_dtype type) { return type == WL_F32 ? 4 : 2; }
uint32_t encoded(wl_dtype type, double value) {
  if (type == WL_F32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return encode_output(type == WL_F16 ? OutputType::f16 : OutputType::bf16, value);
}
double decoded(wl_dtype type, uint32_t code) {
  if (type == WL_F32) return std::bit_cast<float>(code);
  return decode_output(type == WL_F16 ? OutputType::f16 : OutputType::bf16,
                       static_cast<uint16_t>(code));
}
uint32_t element(wl_dtype type, const std::vector<uint8_t>& bytes, size_t index) {
  uint32_t code = 0;
  std::memcpy(&code, bytes.data() + index * bytes_of(type), bytes_of(type));
  return code;
}
void put(wl_dtype type, std::vector<uint8_t>* bytes, size_t index, uint32_t code) {
  std::memcpy(bytes->data() + index * bytes_of(type), &code, bytes_of(type));
}

enum class Residual { none, other, in_place };

struct Case {
  const Config* config = nullptr;
  wl_operand a_type = WL_OPERAND_NVFP4;
  int64_t m = 1, n = 8, k = 64, l = 1;
  wl_activation activation = WL_ACTIVATION_NONE; // of a linear layer
  Gate gate;                                     // of two products
  int bias = -1;                                 // wl_dtype, -1: none
  bool row = false, alpha = false;
  Residual residual = Residual::none;
  int64_t pad = 0, gap = 0; // elements that rows and entries of D are apart beyond the least
  uint64_t seed = 1;
  std::string schedule = "lazy";
};

std::string describe(const Case& c) {
  std::ostringstream s;
  s << c.config->name << " a_type " << c.a_type << " m " << c.m << " n " << c.n << " k " << c.k
    << " l " << c.l << " activation " << c.activation << " gate " << c.gate.kind << ", "
    << c.gate.limit << " bias " << c.bias << " row " << c.row << " alpha " << c.alpha
    << " residual " << static_cast<int>(c.residual) << " pad " << c.pad << " gap " << c.gap
    << " seed " << c.seed << " " << c.schedule;
  return s.str();
}

struct Outcome {
  int64_t bad = 0, unequal = 0, touched = 0; // touched: beyond D's rows and columns
  std::string first;
};

// Runs the case and compares.
Outcome run(const Case& c) {
  wl_context* context = virtual_context("h200");
  REQUIRE(set_schedule(c.schedule));
  const bool two = c.config->b_tensors == 2;
  const wl_dtype type = c.config->d_type;
  wltest::Problem p = make_problem(c.m, c.n, c.k, c.l, InputKind::exact, c.seed);
  p.a = in_type(p.a, c.a_type);
  const Sums sums = accumulate(p);
  const Random random(c.seed, 77);
  uint64_t draw = 0;
  const auto number = [&] { return std::ldexp(std::floor(random.uniform(draw++) * 64) - 32, -4); };

  DeviceBuffer a(context, p.a.values), b1(context, p.b1.values), b2(context, p.b2.values);
  ScaleBuffer sfa(context, p.a, true), sfb1(context, p.b1, true), sfb2(context, p.b2, true);
  const float alphas[2] = {c.alpha ? 0.375f : 1, c.alpha ? -1.25f : 1};
  DeviceBuffer alpha(context, alphas, sizeof alphas);
  std::vector<float> rows(static_cast<size_t>(c.l * c.m), 1);
  for (float& x : rows)
    if (c.row) x = static_cast<float>(number() + 0.03);
  DeviceBuffer row(context, rows);
  // Biases as they are rounded; every column's differs.
  const auto bias_type = static_cast<wl_dtype>(c.bias < 0 ? WL_F32 : c.bias);
  std::vector<float> bias[2];
  std::vector<uint8_t> bias_bytes[2];
  for (int i = 0; i < 2; ++i) {
    bias_bytes[i].resize(static_cast<size_t>(c.n) * bytes_of(bias_type));
    for (int64_t n = 0; n < c.n; ++n) {
      const uint32_t code = encoded(bias_type, number() + 0.01);
      put(bias_type, &bias_bytes[i], static_cast<size_t>(n), code);
      bias[i].push_back(c.bias < 0 ? -0.0f : static_cast<float>(decoded(bias_type, code)));
    }
  }
  DeviceBuffer bias1(context, bias_bytes[0]), bias2(context, bias_bytes[1]);

  const int64_t ldd = c.n + c.pad, stride = c.m * ldd + c.gap;
  // Another residual has other strides.
  const bool apart = c.residual == Residual::other;
  const int64_t ldr = apart ? c.n + 16 : ldd, stride_r = apart ? c.m * ldr + 8 : stride;
  constexpr size_t guard = 64;
  std::vector<uint8_t> before((static_cast<size_t>(c.l * stride) + 2 * guard) * bytes_of(type),
                              0x7F);
  std::vector<uint8_t> residual_bytes(static_cast<size_t>(c.l * stride_r) * bytes_of(type), 0x7F);
  for (int64_t l = 0; l < c.l; ++l)
    for (int64_t m = 0; m < c.m; ++m)
      for (int64_t n = 0; n < c.n; ++n) {
        const uint32_t code = encoded(type, number());
        const auto at = static_cast<size_t>(l * stride_r + m * ldr + n);
        put(type, &residual_bytes, at, code);
        if (c.residual == Residual::in_place) put(type, &before, at + guard, code);
      }
  DeviceBuffer residual(context, residual_bytes), d(context, before);

  warpline::gemm::Problem problem;
  problem.m = c.m, problem.n = c.n, problem.k = c.k, problem.l = c.l;
  problem.d_type = type;
  problem.ldd = ldd, problem.batch_stride_d = stride;
  problem.ldr = ldr, problem.batch_stride_r = stride_r;
  problem.bias_type = bias_type;
  auto& o = problem.operands;
  problem.types.a = c.a_type;
  o.a = a.pointer, o.sfa = sfa.pointer;
  o.b[0] = b1.pointer, o.sfb[0] = sfb1.pointer;
  if (two) o.b[1] = b2.pointer, o.sfb[1] = sfb2.pointer;
  if (c.alpha) o.alpha[0] = static_cast<float*>(alpha.pointer), o.alpha[1] = o.alpha[0] + 1;
  if (c.bias >= 0) o.bias[0] = bias1.pointer, o.bias[1] = two ? bias2.pointer : nullptr;
  if (c.row) o.row = static_cast<float*>(row.pointer);
  o.d = d.at(guard * bytes_of(type));
  if (c.residual == Residual::other) o.residual = residual.pointer;
  if (c.residual == Residual::in_place) o.residual = o.d;
  problem.activation = two ? warpline::gemm::gate_of(c.gate.kind, c.gate.limit)
                           : warpline::gemm::activation_of(c.activation);

  wl_plan* plan = nullptr;
  {
    warpline::ContextScope scope(*context);
    const bool small = c.config->fused();
    const wl_status made =
        small ? warpline::gemm::make_sm90_small_plan(context, problem, *c.config, &plan)
              : warpline::gemm::make_sm90_plan(context, problem, *c.config, &plan);
    INFO(wl_last_error());
    REQUIRE(made == WL_SUCCESS);
  }
  const std::vector<uint8_t> junk(plan->info.workspace_bytes + 16, 0xFF);
  DeviceBuffer workspace(context, junk);
  const wl_status ran = wl_plan_run(plan, workspace.pointer, plan->info.workspace_bytes, nullptr);
  INFO(wl_last_error());
  REQUIRE(ran == WL_SUCCESS);
  const wl_status ended = wl_stream_synchronize(context, nullptr);
  INFO(wl_last_error() << "\n" << virtual_report());
  REQUIRE(ended == WL_SUCCESS);
  wl_plan_destroy(plan);
  const std::vector<uint8_t> after = d.read(before.size());

  Outcome result;
  for (size_t i = 0; i < before.size() / bytes_of(type); ++i) {
    const int64_t at = static_cast<int64_t>(i) - static_cast<int64_t>(guard);
    const int64_t l = at / stride, m = at % stride / ldd, n = at % stride % ldd;
    const uint32_t out = element(type, after, i);
    if (at < 0 || l >= c.l || m >= c.m || n >= c.n) {
      result.touched += out != element(type, before, i);
      continue;
    }
    const auto index = static_cast<size_t>((l * c.m + m) * c.n + n);
    double reference;
    float replayed;
    if (two) {
      const GatedInputs in{sums.acc1[index],
                           sums.acc2[index],
                           alphas[0],
                           alphas[1],
                           bias[0][static_cast<size_t>(n)],
                           bias[1][static_cast<size_t>(n)]};
      reference = gated(c.gate, in);
      replayed = gated_replayed(c.gate, in);
    } else {
      const auto kept = static_cast<float>(decoded(
          type, element(type, residual_bytes, static_cast<size_t>(l * stride_r + m * ldr + n))));
      const LinearInputs in{sums.acc1[index],
                            alphas[0],
                            rows[static_cast<size_t>(l * c.m + m)],
                            bias[0][static_cast<size_t>(n)],
                            c.residual == Residual::none ? nullptr : &kept,
                            1};
      reference = linear(c.activation, in);
      replayed = linear_replayed(c.activation, in);
    }
    const double value = decoded(type, out);
    const double bound =
        1e-3 + 1e-3 * std::fabs(reference) + (type == WL_BF16 ? std::fabs(reference) / 256 : 0);
    const bool overflows = type == WL_F16 && std::fabs(reference) > 65000;
    const bool bad = !overflows && !(std::fabs(value - reference) <= bound);
    const bool unequal = out != encoded(type, replayed);
    if ((bad || unequal) && result.first.empty()) {
      std::ostringstream s;
      s << "l " << l << " m " << m << " n " << n << ": " << value << ", reference " << reference
        << ", replayed " << replayed << ", sum " << sums.acc1[index];
      result.first = s.str();
    }
    result.bad += bad;
    result.unequal += unequal;
  }
  return result;
}

void check(const Case& c) {
  INFO(describe(c));
  const Outcome r = run(c);
  INFO(r.first);
  CHECK(r.bad == 0);
  CHECK(r.unequal == 0);
  CHECK(r.touched == 0);
}

const std::vector<std::string> kSchedules = {"lazy", "random:1", "eager", "random:2"};
const std::vector<int64_t> kM = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 129, 257, 520};
const std::vector<int64_t> kN = {8, 72, 136, 264, 64, 200, 392, 2880};
const std::vector<int64_t> kK = {64, 128, 192, 256, 320, 1472, 576};

// The i-th case of a configuration: what the contract allows, in strides without common factors.
Case drawn(const Config& config, size_t i) {
  const Random random(i, 4711);
  Case c;
  c.config = &config;
  const auto pick = [&](uint64_t what, size_t count) { return random.below(what, count); };
  std::vector<wl_operand> taken;
  for (const wl_operand type : {WL_OPERAND_NVFP4, WL_OPERAND_F16, WL_OPERAND_BF16})
    if (config.takes({type, WL_OPERAND_NVFP4})) taken.push_back(type);
  c.a_type = taken[pick(12, taken.size())];
  c.m = kM[pick(0, kM.size())];
  c.n = kN[pick(1, kN.size())];
  c.k = kK[pick(2, kK.size())];
  c.l = pick(3, 4) == 0 ? 2 : 1;
  if (c.n == 2880 && c.m > 65) c.m = 65;
  if (c.m * c.n * c.l > 20000 && c.k > 320) c.k = 320;
  if (config.fused() && c.m > 33) c.m = c.m % 34 + 1;
  c.activation = static_cast<wl_activation>(pick(4, 6));
  const int types[] = {-1, WL_F32, WL_F16, WL_BF16};
  c.bias = types[pick(5, 4)];
  c.row = pick(6, 2) == 0;
  c.alpha = pick(7, 2) == 0;
  c.residual = static_cast<Residual>(pick(8, 3));
  c.pad = pick(9, 2) == 0 ? 8 : 0;
  c.gap = pick(10, 2) == 0 ? 24 : 0;
  c.seed = 100 + i;
  c.schedule = kSchedules[pick(11, kSchedules.size())];
  return c;
}

// More rounds draw more cases; the problems of tests/problems draw others over the same contract,
// for each configuration: without rounds a third of them run here.
size_t rounds() {
  const char* text = std::getenv("WARPLINE_LINEAR_ROUNDS");
  return text != nullptr ? static_cast<size_t>(std::atoi(text)) : 0;
}

} // namespace

TEST_CASE("Hopper configurations of the linear form", "[virtual]") {
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200linear]"}, {}, 300);
  INFO(child.out << child.err);
  CHECK(child.status == 0);
}

TEST_CASE("Hopper's linear form in a process of its own", "[.h200linear]") {
  virtual_context("h200");
  const std::vector<Config> configs = linear_configs();
  const size_t step = rounds() == 0 ? 3 : 1;
  const size_t count = step == 1 ? rounds() * configs.size() : configs.size();
  for (size_t i = 0; i < count; i += step) {
    REQUIRE(set_checks(i % 5 == 0 ? "all" : "off"));
    check(drawn(configs[i % configs.size()], i));
  }
  REQUIRE(set_checks("off"));
}

// What the first kernel's threads store, the second one's loaders read by TMA, while the next turn
// of the first may write it again.
TEST_CASE("Hopper's products of each other's outputs", "[.h200linear]") {
  wl_context* context = virtual_context("h200");
  REQUIRE(set_checks("all,advice"));
  const std::string configs[][2] = {{"gemm_sm90_t32_f16", "gemm_sm90_f16_t64c64_f16"},
                                    {"gemm_sm90_small_t8_f16", "gemm_sm90_f16_t256_pair_f16"},
                                    {"gemm_sm90_t64_f16", "gemm_sm90_direct_af16_t256_f16"},
                                    {"gemm_sm90_t64_f16", "gemm_sm90_t32_f16"},
                                    {"gemm_sm90_f16_t64_f16", "gemm_sm90_f16_t64_f16"}};
  uint64_t seed = 90;
  for (const auto& [first_config, second_config] : configs)
    for (const char* schedule : {"lazy", "eager", "random:5", "hold:1"}) {
      INFO(first_config << ", " << second_config << ", schedule " << schedule << ", seed " << seed);
      REQUIRE(set_schedule(schedule));
      const LinearRun first(context, {66, 256, 192, 1, WL_F16, first_config, seed++});
      const LinearRun second(context, {66, 136, 256, 1, WL_F16, second_config, seed++}, &first);
      REQUIRE(first.message() == "");
      REQUIRE(second.message() == "");
      for (int turn = 0; turn < 2; ++turn) {
        REQUIRE(first.run(nullptr) == WL_SUCCESS);
        REQUIRE(second.run(nullptr) == WL_SUCCESS);
      }
      const wl_status status = wl_stream_synchronize(context, nullptr);
      INFO(virtual_report());
      REQUIRE(status == WL_SUCCESS);
      CHECK(first.check() == "");
      const std::vector<uint8_t> behind = second.bytes();
      REQUIRE(second.run(nullptr) == WL_SUCCESS);
      REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
      CHECK(second.bytes() == behind);
    }
  REQUIRE(set_checks("off"));
}

TEST_CASE("biases and gates of the gated form in a process of their own", "[.h200linear]") {
  virtual_context("h200");
  size_t i = 0;
  for (size_t round = 0; round < rounds(); ++round)
    for (const Config& config : gated_configs()) {
      Case c = drawn(config, 1000 + i);
      c.row = false;
      c.residual = Residual::none;
      // Sums reach the small limits.
      const Gate gates[] = {{}, {WL_GATE_GELU_TANH, 0}, {WL_GATE_CLAMPED, 1.5f}, {WL_GATE_SILU, 1}};
      c.gate = gates[i % 4];
      REQUIRE(set_checks(i % 5 == 0 ? "all" : "off"));
      check(c);
      ++i;
    }
  REQUIRE(set_checks("off"));
}
