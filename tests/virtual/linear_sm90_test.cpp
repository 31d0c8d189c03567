// Hopper's products: one behind the other in a stream, where the first one's output is the second
// one's operand, and at the ends of A and B. A process holds one virtual GPU, and this binary's is
// a B200: the cases run in children.
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

TEST_CASE("Hopper's tiles at the ends of A and B, by a child", "[virtual]") {
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200ends]"}, {}, 300);
  INFO(child.out << child.err);
  CHECK(child.status == 0);
}

// Rows and columns of the last tile: one, all but one of a 64, a 64 more or less one, and none for
// the last CTAs of a cluster.
TEST_CASE("Hopper's tiles at the ends of A and B", "[.h200ends]") {
  wl_context* context = virtual_context("h200");
  REQUIRE(set_checks("all"));
  struct Tile {
    const char* config;
    int64_t rows, columns;
  };
  const Tile tiles[] = {{"gemm_sm90_f16_t16c64_f16", 16, 64},
                        {"gemm_sm90_f16_t64c48_f16", 64, 48},
                        {"gemm_sm90_f16_t64c96_pair_f16", 64, 96},
                        {"gemm_sm90_f16_t128_f16", 128, 128},
                        {"gemm_sm90_f16_t64c64_stream_f16", 64, 64},
                        {"gemm_sm90_f16_t128c192_f16", 128, 192},
                        {"gemm_sm90_f16_t128c192_split_f16", 128, 192},
                        {"gemm_sm90_f16_t128c192_pair_pingpong_f16", 128, 192},
                        {"gemm_sm90_f16_t256_pair_f16", 256, 128}};
  const int64_t ends[][2] = {{1, 8},    {15, 56},   {63, 64},  {64, 72},
                             {65, 120}, {127, 128}, {129, 136}};
  uint64_t seed = 170;
  for (const Tile& tile : tiles)
    for (const int64_t whole : {0, 2})
      for (const auto& [rows, columns] : ends) {
        if (rows >= tile.rows || columns >= tile.columns) continue;
        const int64_t m = whole * tile.rows + rows, n = whole * tile.columns + columns;
        INFO(tile.config << ", M " << m << ", N " << n << ", seed " << seed);
        const LinearRun run(context, {m, n, 136, 1, WL_F16, tile.config, seed++});
        REQUIRE(run.message() == "");
        REQUIRE(set_schedule(seed % 2 == 0 ? "lazy" : "random:3"));
        REQUIRE(run.run(nullptr) == WL_SUCCESS);
        const wl_status status = wl_stream_synchronize(context, nullptr);
        INFO(virtual_report());
        REQUIRE(status == WL_SUCCESS);
        CHECK(run.check() == "");
      }
  REQUIRE(set_checks("off"));
}
