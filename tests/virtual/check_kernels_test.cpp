// The shipped kernels under all checkers and advice: not a word. More seeds: build/tests/mutation
// --baseline 32.
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <string>

using namespace wltest;

TEST_CASE("checks: shipped sm_100 kernels are silent", "[virtual]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_checks("all,advice"));
  size_t i = 0; // lazy and eager by turns
  for (const char* config : {"n128", "n64", "2x1_n128", "pair_n128", "pair_2x2_n64", "n64_clc",
                             "pair_n64_split2", "pair_4x1_n64", "pair_4x2_n128", "n64_copiesfirst",
                             "pair_n64_stream", "pair_n128_stream", "pair_n128_tma"})
    for (const char* schedule : {i++ % 2 == 0 ? "lazy" : "eager", "random:1"}) {
      DualGemmCase c;
      // Clusters of 512 rows: an MMA of 256 has none of these 200.
      c.m = std::string(config).find("_4x") == std::string::npos ? 300 : 200;
      c.n = 136;
      c.k = 2240; // more K tiles than any configuration has stages, and some over
      c.seed = 3;
      c.config = std::string("dual_gemm_sm100_") + config + "_f16";
      INFO(describe(c) << ", schedule " << schedule);
      REQUIRE(set_schedule(schedule));
      DualGemmResult r = run_dual_gemm(context, c);
      INFO(r.message << "\n" << virtual_report());
      CHECK(r.status == WL_SUCCESS);
      CHECK(r.exact.unequal == 0);
    }
  REQUIRE(set_checks("off"));
}
