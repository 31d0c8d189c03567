// The dual GEMM's kernels on a real GPU: every configuration that the device can run, at the edges
// of its tiles, with guards around D and NaN in the padding; sums that are exact in FP32 bit for
// bit; repeated runs bit-identical.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/gpu.hpp"

#include <cstdio>
#include <string>
#include <vector>

using namespace wltest;
using warpline::dual_gemm::Config;

namespace {

const std::vector<int64_t> kM = {1, 2, 7, 8, 9, 16, 33, 64, 65, 127, 128, 129, 255, 256, 257, 520};
const std::vector<int64_t> kN = {8, 24, 56, 64, 72, 96, 104, 136, 264, 392};
const std::vector<int64_t> kK = {64, 128, 192, 256, 320, 448, 1472};

std::vector<const Config*> configs_of(const warpline::DeviceLimits& limits) {
  std::vector<const Config*> configs;
  for (const Config& config : warpline::dual_gemm::configs())
    if (warpline::dual_gemm::can_run(config, {}, config.d_type, limits, nullptr))
      configs.push_back(&config);
  return configs;
}

// The real GPU and the rows that it runs.
struct Device : HardwareContext {
  std::vector<const Config*> configs;
  Device() : HardwareContext([](const auto& limits) { return !configs_of(limits).empty(); }) {
    if (reason.empty()) configs = configs_of(context->limits);
  }
};

DualGemmCase case_of(const Config& config, int64_t m, int64_t n, int64_t k, int64_t l,
                     uint64_t seed) {
  DualGemmCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.l = l;
  c.out = config.d_type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  c.config = config.name;
  c.seed = seed;
  return c;
}

// The i-th gate and biases.
void give_gate(DualGemmCase* c, size_t i, float limit, float unit) {
  static constexpr wl_dtype types[] = {WL_F32, WL_F16, WL_BF16};
  const Gate gates[] = {{WL_GATE_CLAMPED, limit},
                        {WL_GATE_GELU_TANH, 0},
                        {WL_GATE_SILU, 0},
                        {WL_GATE_GELU_TANH, limit},
                        {WL_GATE_SILU, limit}};
  c->gate = gates[i % 5];
  c->bias_type = types[i / 5 % 3];
  c->bias1 = i % 4 != 3 ? unit : 0;
  c->bias2 = i % 4 != 2 ? 0.0625f : 0;
}

void expect_right(wl_context* context, const DualGemmCase& c, int64_t* unequal = nullptr) {
  INFO(describe(c));
  const DualGemmResult r = run_dual_gemm(context, c);
  INFO(r.message);
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.guards_intact);
  CHECK(r.runs_agree);
  INFO(describe(r.bound));
  CHECK(r.bound.passed());
  INFO(describe(r.exact));
  if (unequal != nullptr)
    *unequal += r.exact.unequal;
  else
    CHECK(r.exact.unequal == 0);
}

} // namespace

TEST_CASE("every configuration at its edges, within the bound", "[hardware][dual_gemm]") {
  Device device;
  if (!device.reason.empty()) WL_SKIP(device.reason);
  const InputKind kinds[] = {InputKind::public_problem, InputKind::full_range, InputKind::exact,
                             InputKind::extremes, InputKind::one_hot};
  size_t i = 0;
  int64_t unequal = 0;
  for (const Config* config : device.configs)
    for (size_t s = 0; s < kM.size(); ++s, ++i) {
      DualGemmCase c = case_of(*config, kM[s], kN[(3 * i + s) % kN.size()], kK[(i + s) % kK.size()],
                               i % 5 == 2 ? 3 : 1, 9000 + i);
      c.kind = kinds[i % 5];
      c.ldd = i % 3 == 0 ? c.n + 24 : 0;
      c.entry_gap = i % 4 == 0 ? 40 : 0;
      c.alphas = i % 2 == 0;
      if (i % 2 == 1) give_gate(&c, i / 2, 1, 0.0625f);
      expect_right(device.context, c, &unequal);
    }
  std::printf("%zu cases; outputs that differ from the FP32 replay in bits: %lld\n", i,
              static_cast<long long>(unequal));
}

// alpha1 = 2^20 makes silu(x) = x or -0 exactly, whatever the last place of ex2 and rcp, and the
// inputs' FP32 sums are exact in any order: every bit of D is determined. So it is with biases that
// are multiples of 256, of every gate, and under a limit of 128.
TEST_CASE("every configuration bit for bit where the arithmetic is exact",
          "[hardware][dual_gemm]") {
  Device device;
  if (!device.reason.empty()) WL_SKIP(device.reason);
  size_t i = 0;
  for (const Config* config : device.configs)
    for (size_t s = 0; s < 6; ++s, ++i) {
      DualGemmCase c = case_of(*config, kM[(7 * i + s) % kM.size()], kN[(i + 3 * s) % kN.size()],
                               kK[(2 * i + s) % kK.size()], s == 4 ? 2 : 1, 400 + i);
      c.alpha1 = 1048576.0f;
      c.alpha2 = 1.0f / 268435456.0f;
      if (s > 0) give_gate(&c, 5 * i + s, 128, 256);
      expect_right(device.context, c);
    }
}

TEST_CASE("200 fresh inputs, each bit-identical over three runs", "[hardware][dual_gemm]") {
  Device device;
  if (!device.reason.empty()) WL_SKIP(device.reason);
  int64_t unequal = 0;
  for (size_t i = 0; i < 200; ++i) {
    const Config& config = *device.configs[i % device.configs.size()];
    DualGemmCase c = case_of(config, i % 3 == 0 ? 256 : config.tile_m, 384, 1472, 1, 70000 + i);
    c.kind = InputKind::public_problem;
    c.runs = 3;
    expect_right(device.context, c, &unequal);
  }
}

TEST_CASE("the flagship shape, 20 runs", "[hardware][dual_gemm]") {
  Device device;
  if (!device.reason.empty()) WL_SKIP(device.reason);
  DualGemmCase c;
  c.m = 256;
  c.n = 4096;
  c.k = 7168;
  c.kind = InputKind::public_problem;
  c.runs = 20;
  int64_t unequal = 0;
  expect_right(device.context, c, &unequal);
}
