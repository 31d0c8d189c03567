// Clusters of Hopper's NVFP4 kernels that share the K of tiles: sm90_ranges.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/linear/linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_limits.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace warpline;

namespace {

gemm::Problem problem_of(int64_t m, int64_t n, int64_t k, const gemm::Config& config) {
  gemm::Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.types = config.first_types();
  problem.d_type = config.d_type;
  return problem;
}

std::vector<const gemm::Config*> streaming() {
  std::vector<const gemm::Config*> all;
  for (const auto* table : {&linear::configs(), &dual_gemm::configs()})
    for (const gemm::Config& config : *table)
      if (config.family == gemm::Family::sm90 && config.grid == gemm::Grid::stream_k)
        all.push_back(&config);
  return all;
}

} // namespace

TEST_CASE("ranges of K have each stage of each tile once", "[host][linear]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  REQUIRE(streaming().size() == 6);
  size_t sharing = 0, idle = 0, uneven = 0, shorter = 0, of_some_tiles = 0;
  for (const gemm::Config* config : streaming())
    for (int i = 0; i < 500; ++i) {
      const gemm::Problem problem =
          problem_of(draw(1, 6000), 8 * draw(1, 1500), 64 * draw(1, 300), *config);
      const int64_t resident = i % 3 == 0 ? draw(1, 15) : 66;
      const gemm::Sm90Ranges r = gemm::sm90_ranges(*config, problem, resident);
      INFO(config->name << " " << problem.m << " " << problem.n << " " << problem.k << " on "
                        << resident << " clusters: " << r.clusters << " " << r.whole << " "
                        << r.share << " " << r.extra);
      const int64_t k_blocks = (problem.k + 127) / 128;
      const int64_t all = gemm::sm90_all_stages(*config, problem);
      REQUIRE(r.clusters >= 1);
      REQUIRE(r.clusters <= resident);
      REQUIRE(r.whole % k_blocks == 0);
      REQUIRE(r.whole <= all);
      // What sm90_ranges.inc makes of it.
      std::vector<int> taken(static_cast<size_t>(all));
      for (int64_t cluster = 0; cluster < r.clusters; ++cluster) {
        for (int64_t tile = cluster; tile * k_blocks < r.whole; tile += r.clusters)
          for (int64_t stage = 0; stage < k_blocks; ++stage)
            ++taken[static_cast<size_t>(tile * k_blocks + stage)];
        const int64_t range = r.clusters - 1 - cluster;
        const int64_t start = r.whole + range / r.parts * r.span, part = range % r.parts;
        const int64_t first = start + part * r.share + std::min(part, r.extra);
        const int64_t end =
            std::min({first + r.share + (part < r.extra ? 1 : 0), start + r.span, all});
        for (int64_t stage = first; stage < end; ++stage) ++taken[static_cast<size_t>(stage)];
        if (r.whole < all && first >= end) ++idle;
      }
      REQUIRE(std::all_of(taken.begin(), taken.end(), [](int times) { return times == 1; }));
      sharing += r.whole < all ? 1 : 0, uneven += r.extra != 0 ? 1 : 0;
      if (r.whole == all) continue;
      CHECK(r.share <= k_blocks);
      shorter += r.extra == 0 && r.span % r.share != 0 ? 1 : 0;
      of_some_tiles += r.extra == 0 && r.span > k_blocks ? 1 : 0;
      // Parts of single tiles alone, where activations are decoded in the order of whole tiles.
      if (config->later && resident == 66)
        CHECK((r.extra == 0 && r.share < k_blocks && r.span == k_blocks));
    }
  CHECK(sharing > 100);
  CHECK(idle > 0);
  CHECK(uneven > 0);
  CHECK(shorter > 0);
  CHECK(of_some_tiles > 0);
}

// On an H200, of 66 clusters: behind whole tiles, and with fewer tiles than clusters.
TEST_CASE("what tools/sanitize.sh runs shares tiles", "[host][linear]") {
  for (const gemm::Config* config : streaming()) {
    const int64_t n = config->b_tensors == 1 ? 2040 : 1016;
    const gemm::Sm90Ranges behind =
        gemm::sm90_ranges(*config, problem_of(2100, n, 2048, *config), 66);
    CHECK(behind.whole == 66 * 16);
    CHECK(behind.share == 4);
    const gemm::Sm90Ranges few = gemm::sm90_ranges(*config, problem_of(500, n, 2048, *config), 66);
    CHECK(few.whole == 0);
    CHECK(few.share == 4);
  }
}

// 4096 x 1280 x 8192 took an H100 179 us with FP16 activations where clusters had 1.2 whole tiles
// each, and 122 where they share the last ones; 1024 x 4096 x 4096 is one wave.
TEST_CASE("clusters share K where whole tiles leave most of them idle", "[host][linear]") {
  const auto chosen = [](wl_operand a, wl_dtype d, int64_t m, int64_t n, int64_t k) {
    gemm::Problem problem;
    problem.m = m, problem.n = n, problem.k = k;
    problem.types = {a, WL_OPERAND_NVFP4};
    problem.d_type = d;
    const gemm::Config* config = gemm::choose(linear::configs(), problem, wltest::h200_limits());
    return std::string(config == nullptr ? "" : config->name);
  };
  CHECK(chosen(WL_OPERAND_F16, WL_F16, 4096, 1280, 8192) ==
        "gemm_sm90_direct_af16_t256_stream_k_f16");
  CHECK(chosen(WL_OPERAND_BF16, WL_BF16, 4096, 1280, 8192) ==
        "gemm_sm90_direct_abf16_t256_stream_k_bf16");
  CHECK(chosen(WL_OPERAND_F16, WL_F16, 1024, 4096, 4096) == "gemm_sm90_direct_af16_t256_f16");
  CHECK(chosen(WL_OPERAND_NVFP4, WL_F16, 1024, 4096, 4096) == "gemm_sm90_t256_f16");
  // An H200: 2048 x 3584 x 18944 399 us in tiles of 240, 403 with shared tiles; 1536 x 4096 x 14336
  // 239 in tiles of 192, 316 with shared ones.
  CHECK(chosen(WL_OPERAND_NVFP4, WL_F16, 2048, 3584, 18944) == "gemm_sm90_t256_fitted_f16");
  CHECK(chosen(WL_OPERAND_NVFP4, WL_F16, 1536, 4096, 14336) == "gemm_sm90_t256_fitted_f16");
  // Few tiles: 43 us where two clusters share each, 37 where three do.
  CHECK(chosen(WL_OPERAND_F16, WL_F16, 1024, 1280, 8192) ==
        "gemm_sm90_direct_af16_t256_stream_k_f16");
}

TEST_CASE("clusters share fewer than 2^31 stages of K on Hopper", "[host][linear]") {
  for (const gemm::Config* config : streaming()) {
    gemm::Problem problem = problem_of(256, 256 / config->b_tensors, 64, *config);
    std::string reason;
    problem.l = (int64_t{1} << 31) - 1;
    CHECK(gemm::can_run(*config, problem, wltest::h200_limits(), &reason));
    problem.l = int64_t{1} << 31;
    CHECK_FALSE(gemm::can_run(*config, problem, wltest::h200_limits(), &reason));
    CHECK(reason.find("2^31") != std::string::npos);
  }
}
