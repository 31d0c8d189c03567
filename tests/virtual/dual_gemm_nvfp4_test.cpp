// NVFP4 output of the dual GEMM on the virtual B200: values and scales bit for bit, and D as the A
// of a second dual GEMM.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_nvfp4_run.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace wltest;

TEST_CASE("NVFP4 output: values and scales, bit for bit", "[virtual]") {
  std::vector<std::string> configs;
  for (const warpline::dual_gemm::Config& config : warpline::dual_gemm::configs())
    if (config.d_type == WL_NVFP4) configs.push_back(config.name);
  REQUIRE(configs.size() >= 7);
  const char* const schedules[] = {"lazy", "eager", "random:1", "random:2", "random:3"};
  const int64_t ms[] = {1, 127, 129, 256, 300}, ns[] = {64, 128, 192, 320},
                ks[] = {64, 192, 256, 1472};
  const float scales[] = {1, 0.25f, 3, 0.0078125f};
  size_t i = 0;
  for (const std::string& config : configs)
    for (const char* schedule : schedules) {
      const int64_t m = ms[(3 * i + i / 5) % 5], n = ns[(i + i / 4) % 4], k = ks[(i + i / 3) % 4];
      const InputKind kind = i % 3 == 2 ? InputKind::one_hot : InputKind::exact;
      const Problem p = make_problem(m, n, k, i % 4 == 1 ? 3 : 1, kind, 900 + i);
      const float d_scale = scales[i % 4];
      INFO(config << ", schedule " << schedule << ", m " << m << " n " << n << " k " << k << " l "
                  << p.l << ", d_scale " << d_scale << ", seed " << 900 + i);
      wl_context* context = virtual_context("b200");
      REQUIRE(set_schedule(schedule));
      const Nvfp4Result r = run_dual_gemm_nvfp4(context, p, d_scale, config);
      INFO(r.message);
      REQUIRE(r.status == WL_SUCCESS);
      CHECK(r.guards_intact);
      const Operand expected = quantized_replayed(accumulate(p), p.alpha1, p.alpha2, d_scale);
      CHECK(r.d.scales == expected.scales);
      CHECK(r.d.values == expected.values);
      ++i;
    }
}

TEST_CASE("NVFP4 output: NaN scales, infinite alphas and overflow, bit for bit", "[virtual]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const struct {
    float alpha1, alpha2, d_scale;
    // The gate stays above -87, where silu in FP32 becomes 0 and an infinity beside it NaN.
  } cases[] = {{1, 1, 1},          {inf, 1, 1},         {-inf, 1, 0.5f},       {0x1p-6f, inf, 1},
               {0x1p-6f, -inf, 1}, {0x1p-6f, 1e30f, 1}, {std::nanf(""), 1, 2}, {1, 1, 0x1p-126f}};
  size_t i = 0;
  for (const warpline::dual_gemm::Config& config : warpline::dual_gemm::configs()) {
    if (config.d_type != WL_NVFP4) continue;
    for (const auto& c : cases) {
      Problem p = make_problem(130, 128, 256, 1, InputKind::exact, 950 + i);
      p.alpha1 = c.alpha1;
      p.alpha2 = c.alpha2;
      p.a.scales[7 * 16 + 3] = nan_padding; // row 7 of D: NaN everywhere
      p.b1.scales[21 * 16] = nan_padding;   // column 21, one of its block
      p.b2.scales[100 * 16 + 15] = 0x80 | nan_padding;
      INFO(config.name << ", alphas " << c.alpha1 << ", " << c.alpha2 << ", d_scale " << c.d_scale
                       << ", seed " << 950 + i);
      wl_context* context = virtual_context("b200");
      REQUIRE(set_schedule(i % 2 == 0 ? "lazy" : "random:4"));
      const Nvfp4Result r = run_dual_gemm_nvfp4(context, p, c.d_scale, config.name);
      INFO(r.message);
      REQUIRE(r.status == WL_SUCCESS);
      const Sums sums = accumulate(p);
      const Operand expected = quantized_replayed(sums, p.alpha1, p.alpha2, c.d_scale);
      CHECK(r.d.scales == expected.scales);
      CHECK(r.d.values == expected.values);
      // A row of NaNs: no number gives its blocks a scale, and every code is that of 6.
      for (size_t k = 0; k < 128; ++k)
        CHECK(nibble(r.d.values.data(), static_cast<int64_t>(7 * 128 + k)) == 7);
      for (size_t block = 0; block < 8; ++block) CHECK(r.d.scales[7 * 8 + block] == 0);
      const Comparison judged = compare_nvfp4(sums, gated(sums, double{p.alpha1}, double{p.alpha2}),
                                              r.d, double{c.d_scale});
      INFO(describe(judged));
      CHECK(judged.passed());
      CHECK(judged.special >= 128 + 2 * 129);
      ++i;
    }
  }
}

TEST_CASE("NVFP4 output is the A of the next product", "[virtual]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule("lazy"));
  const Problem first = make_problem(200, 256, 512, 1, InputKind::public_problem, 4);
  const Nvfp4Result r = run_dual_gemm_nvfp4(context, first, 0.5f, "");
  INFO(r.message);
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.config.find("_nvfp4") != std::string::npos);
  // What the first product lost by rounding: E2M1 steps are 1 between 2 and 4 and 2 between 4 and
  // 6, of at most 6 times the scale, so half a step is 1/6 of the block's largest magnitude; the
  // scale's own rounding, 1/16, adds to it.
  const Sums sums = accumulate(first);
  const std::vector<double> exact = gated(sums, first.alpha1, first.alpha2);
  double worst = 0;
  for (size_t block = 0; block < r.d.scales.size(); ++block) {
    double largest = 0, error = 0;
    for (size_t i = 0; i < 16; ++i) {
      const size_t at = 16 * block + i;
      const double got = decode_e2m1(nibble(r.d.values.data(), static_cast<int64_t>(at))) *
                         decode_ue4m3(r.d.scales[block]) * 0.5;
      largest = std::max(largest, std::fabs(exact[at]));
      error = std::max(error, std::fabs(got - exact[at]));
    }
    if (largest > 0.5) worst = std::max(worst, error / largest);
  }
  CHECK(worst < 1.0 / 6 + 1.0 / 16);

  Problem second = make_problem(200, 128, 256, 1, InputKind::exact, 5);
  second.a = r.d;
  second.alpha1 = second.alpha2 = 0.5f / 64;
  const Nvfp4Result next = run_dual_gemm_nvfp4(context, second, 1, "");
  INFO(next.message);
  REQUIRE(next.status == WL_SUCCESS);
  const Operand expected = quantized_replayed(accumulate(second), second.alpha1, second.alpha2, 1);
  size_t unequal = 0;
  for (size_t i = 0; i < expected.values.size(); ++i)
    unequal += expected.values[i] != next.d.values[i];
  // FP32 sums of these scales may round: single codes next to a tie may differ.
  CHECK(unequal <= expected.values.size() / 100);
}
