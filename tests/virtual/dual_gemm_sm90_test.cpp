// Every Hopper configuration of the dual GEMM on the virtual H200: decoder, wgmma kernel, splits,
// clusters, under eager, lazy and random schedules. A process holds one virtual GPU, and this
// binary's is a B200: the cases run in a child of their own.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <string>
#include <vector>

using namespace wltest;
using warpline::dual_gemm::Config;

namespace {

const std::vector<std::string> kSchedules = {"lazy", "random:1", "eager", "random:2", "random:3"};
const std::vector<int64_t> kM = {1, 7, 9, 64, 129, 257};
const std::vector<int64_t> kN = {8, 72, 96, 136, 264};
const std::vector<int64_t> kK = {64, 192, 256, 1472};

std::vector<const Config*> hopper_configs() {
  std::vector<const Config*> result;
  for (const Config& config : warpline::dual_gemm::configs())
    if (std::string(config.target) == "sm_90a") result.push_back(&config);
  return result;
}

} // namespace

TEST_CASE("every Hopper configuration at its edges", "[virtual]") {
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200]"}, {}, 300);
  INFO(child.out << child.err);
  CHECK(child.status == 0);
}

TEST_CASE("Hopper configurations in a process of their own", "[.h200]") {
  size_t i = 0;
  for (const Config* config : hopper_configs())
    for (size_t s = 0; s < 2; ++s, ++i) {
      DualGemmCase c;
      c.m = kM[(5 * i + s) % kM.size()];
      c.n = kN[(2 * i + s) % kN.size()];
      c.k = kK[(i + s) % kK.size()];
      if (c.m * c.n > 10000 && c.k > 256) c.k = 320;
      c.l = i % 7 == 3 ? 2 : 1;
      c.out = config->d_type == WL_F16 ? OutputType::f16 : OutputType::bf16;
      c.config = config->name;
      c.seed = 5000 + i;
      c.ldd = i % 3 == 0 ? c.n + 24 : 0;
      c.entry_gap = i % 5 == 0 ? 40 : 0;
      const std::string& schedule = kSchedules[(i + s) % kSchedules.size()];
      INFO(describe(c) << ", schedule " << schedule);
      wl_context* context = virtual_context("h200");
      REQUIRE(set_schedule(schedule));
      const DualGemmResult r = run_dual_gemm(context, c);
      INFO(r.message);
      REQUIRE(r.status == WL_SUCCESS);
      CHECK(r.guards_intact);
      INFO(describe(r.bound));
      CHECK(r.bound.passed());
      INFO(describe(r.exact));
      CHECK(r.exact.unequal == 0);
    }
}
