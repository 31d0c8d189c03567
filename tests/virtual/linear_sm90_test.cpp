// Hopper's products one behind the other in a stream, where the first one's output is the second
// one's operand. A process holds one virtual GPU, and this binary's is a B200: the case runs in a
// child.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <string>
#include <vector>

using namespace wltest;

TEST_CASE("Hopper's products of each other's outputs, by a child", "[virtual]") {
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200linear]"}, {}, 300);
  INFO(child.out << child.err);
  CHECK(child.status == 0);
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
