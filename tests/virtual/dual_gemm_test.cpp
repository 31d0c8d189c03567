// The shipped dual GEMM kernels on the virtual B200 and B300, through the C ABI: every edge of the
// tiles in M, N and K, batches, both outputs, all configurations, all schedules.
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <string>
#include <vector>

using namespace wltest;

namespace {

const std::vector<std::string> kSchedules = {"eager", "lazy", "random:1", "random:2", "random:3"};
const std::vector<std::string> kRows = {"n128", "n64"};

std::string config(size_t i, OutputType out) {
  return "dual_gemm_sm100_" + kRows[i % kRows.size()] + (out == OutputType::f16 ? "_f16" : "_bf16");
}

void expect_exact(const DualGemmCase& c, const std::string& schedule) {
  INFO(describe(c) << ", schedule " << schedule);
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule(schedule));
  DualGemmResult r = run_dual_gemm(context, c);
  INFO(r.message);
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.guards_intact);
  CHECK(r.runs_agree);
  INFO(describe(r.bound));
  CHECK(r.bound.passed());
  INFO(describe(r.exact));
  CHECK(r.exact.unequal == 0);
}

} // namespace

TEST_CASE("dual GEMM at every edge of M, N and K", "[virtual]") {
  size_t i = 0;
  for (int64_t m : {1, 127, 128, 129, 300})
    for (int64_t n : {8, 120, 128, 136, 384})
      for (int64_t k : {64, 192, 256, 7168}) {
        DualGemmCase c;
        c.m = m;
        c.n = n;
        c.k = k;
        c.l = i % 4 == 3 ? 3 : 1;
        if (k == 7168 && c.l == 3 && m * n > 20000) c.l = 1;
        c.out = i % 2 ? OutputType::bf16 : OutputType::f16;
        c.config = config(i / 2, c.out);
        c.seed = 1000 + i;
        c.ldd = i % 3 == 0 ? n + 24 : 0;
        c.entry_gap = i % 5 == 0 ? 40 : 0;
        expect_exact(c, kSchedules[i % kSchedules.size()]);
        ++i;
      }
}

TEST_CASE("dual GEMM: every configuration under every schedule", "[virtual]") {
  for (const std::string& schedule : kSchedules)
    for (size_t r = 0; r < kRows.size(); ++r)
      for (OutputType out : {OutputType::f16, OutputType::bf16}) {
        DualGemmCase c;
        c.m = 300;
        c.n = 264;
        c.k = 1472;
        c.l = 2;
        c.out = out;
        c.config = config(r, out);
        c.seed = 77 + r;
        c.runs = 2;
        expect_exact(c, schedule);
      }
}

TEST_CASE("dual GEMM: more tiles than the device has SMs", "[virtual]") {
  for (size_t r = 0; r < kRows.size(); ++r) {
    DualGemmCase c;
    c.m = 1500; // 12 row tiles: a whole group of 8 and a rest of 4
    c.n = 2056;
    c.k = 320;
    c.config = config(r, c.out);
    c.seed = 5 + r;
    expect_exact(c, r ? "random:9" : "lazy");
  }
}

TEST_CASE("dual GEMM: alphas come from device memory", "[virtual]") {
  const float values[][2] = {{1, 1}, {0.25f, -2}, {-1.5f, 0.125f}, {1e-3f, 512}};
  for (auto& v : values) {
    DualGemmCase c;
    c.m = 130;
    c.n = 72;
    c.k = 256;
    c.alphas = true;
    c.alpha1 = v[0];
    c.alpha2 = v[1];
    c.out = OutputType::bf16;
    expect_exact(c, "lazy");
  }
}

TEST_CASE("dual GEMM: kinds of inputs", "[virtual]") {
  for (InputKind kind :
       {InputKind::public_problem, InputKind::full_range, InputKind::one_hot, InputKind::extremes})
    for (OutputType out : {OutputType::f16, OutputType::bf16}) {
      DualGemmCase c;
      c.kind = kind;
      c.m = 200;
      c.n = 136;
      c.k = 1088;
      c.out = out;
      c.seed = 31;
      INFO(describe(c));
      wl_context* context = virtual_context("b200");
      REQUIRE(set_schedule("lazy"));
      DualGemmResult r = run_dual_gemm(context, c);
      INFO(r.message);
      REQUIRE(r.status == WL_SUCCESS);
      CHECK(r.guards_intact);
      INFO(describe(r.bound));
      CHECK(r.bound.passed());
    }
}
