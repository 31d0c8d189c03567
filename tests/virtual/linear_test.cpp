// wl_gemm on the virtual GPUs, beside the problems of tests/problems: one behind the other, of what
// the one before wrote.
#include "kernels/linear/linear.hpp"
#include "tests/support/captured_graph.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <string>

using namespace wltest;

namespace {

void expect_right(const LinearRun& run) {
  INFO(virtual_report());
  CHECK(run.check() == "");
}

} // namespace

// The second kernel reads by TMA what the first one wrote with ordinary stores.
TEST_CASE("a GEMM's NVFP4 output is the A of a GEMM behind it", "[virtual][linear]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_checks("all,advice"));
  const std::string configs[][2] = {
      {"", ""},
      {"gemm_sm100_n64_nvfp4", "gemm_sm100_pair_n64_clc_f16"},
      {"gemm_sm100_pair_n64_stream_nvfp4", "gemm_sm100_n128_f16"},
      {"gemm_sm100_pair_n128_nvfp4", "gemm_sm100_pair_n64_split2_f16"}};
  uint64_t seed = 60;
  for (const auto& [first_config, second_config] : configs)
    for (const char* schedule : {"lazy", "eager", "random:5", "hold:1"}) {
      INFO(first_config << ", " << second_config << ", schedule " << schedule << ", seed " << seed);
      REQUIRE(set_schedule(schedule));
      const LinearRun first(context, {130, 320, 192, 2, WL_NVFP4, first_config, seed++});
      const LinearRun second(context, {130, 136, 320, 2, WL_F16, second_config, seed++}, &first);
      REQUIRE(first.message() == "");
      REQUIRE(second.message() == "");
      for (int turn = 0; turn < 2; ++turn) { // the second time D is read while it is overwritten
        REQUIRE(first.run(nullptr) == WL_SUCCESS);
        REQUIRE(second.run(nullptr) == WL_SUCCESS);
      }
      REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
      expect_right(first);
      expect_right(second);
    }
  REQUIRE(set_checks("off"));
}

TEST_CASE("GEMMs of each other's outputs in a graph", "[virtual][linear]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule("random:6"));
  const LinearRun first(context, {40, 128, 192, 1, WL_NVFP4, "", 70});
  const LinearRun second(context, {40, 64, 128, 1, WL_NVFP4, "", 71}, &first);
  const LinearRun third(context, {40, 72, 64, 1, WL_F32, "", 72}, &second);
  CapturedGraph graph(context);
  REQUIRE(graph.capture([&](wl_stream stream) {
    for (const LinearRun* run : {&first, &second, &third})
      if (const wl_status status = run->run(stream); status != WL_SUCCESS) return status;
    return WL_SUCCESS;
  }) == WL_SUCCESS);
  REQUIRE(graph.launch() == WL_SUCCESS);
  expect_right(first);
  expect_right(second);
  expect_right(third);
}

// Columns of a tile's both halves and of the next tile, of which some lie beyond N.
TEST_CASE("factors of columns on Blackwell, in every configuration that takes them",
          "[virtual][linear]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_checks("all,advice"));
  const std::string schedules[] = {"lazy", "random:7", "eager", "hold:2"};
  uint64_t seed = 400;
  int configurations = 0;
  for (const warpline::gemm::Config& config : warpline::linear::configs()) {
    if (!config.blackwell() || !config.column_factors) continue;
    ++configurations;
    for (const bool row : {false, true}) {
      LinearCase c{150, 376, 208, 2, config.d_type, config.name, seed};
      c.col = true, c.row = row, c.bias = seed % 3 != 0;
      const std::string& schedule = schedules[seed++ % 4];
      INFO(c.config << ", row " << row << ", bias " << c.bias << ", schedule " << schedule
                    << ", seed " << c.seed);
      REQUIRE(set_schedule(schedule));
      const LinearRun run(context, c);
      REQUIRE(run.message() == "");
      REQUIRE(run.run(nullptr) == WL_SUCCESS);
      REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
      expect_right(run);
    }
  }
  CHECK(configurations == 18);
  REQUIRE(set_checks("off"));
}
