// Rows that Hopper's products of NVFP4 weights share out to tiles: sm90_rows.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/linear/linear.hpp"
#include "tests/problems/products.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/device_limits.hpp"
#include "tests/support/temporary.hpp"

#include <algorithm>
#include <regex>
#include <set>

using namespace warpline;

namespace {

std::vector<const gemm::Config*> fitting() {
  std::vector<const gemm::Config*> all;
  const auto add = [&](const auto& configs) {
    for (const gemm::Config& config : configs)
      if (gemm::fits_rows(config)) all.push_back(&config);
  };
  add(linear::configs());
  add(dual_gemm::configs());
  return all;
}

const gemm::Config* config_of(const std::string& name) {
  const std::vector<const gemm::Config*> all = fitting();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto* one) { return one->name == name; });
  return found == all.end() ? nullptr : *found;
}

gemm::Sm90Rows rows_of(const gemm::Config& config, int64_t m, int64_t n, int64_t k, int sms) {
  gemm::Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  DeviceLimits device = wltest::h200_limits();
  device.sm_count = sms;
  return gemm::sm90_rows(config, problem, device);
}

} // namespace

TEST_CASE("tiles hold all rows, and no tile is without any", "[host][linear]") {
  size_t checked = 0;
  for (const gemm::Config* config : fitting()) {
    INFO(config->name);
    for (const int sms : {1, 3, 132})
      for (const int64_t n : {8, 4096, 28672})
        for (int64_t m = 1; m <= 2100; m += m < 600 ? 1 : 37) {
          const gemm::Sm90Rows rows = rows_of(*config, m, n, 4096, sms);
          const bool all = rows.tiles * rows.each >= m && (rows.tiles - 1) * rows.each < m;
          const bool of_mmas = gemm::sm90_rows_of_mmas(*config, rows.each) == rows.each;
          // A CTA's share of a tile's box is whole groups of 8 rows.
          const bool whole = rows.each % (8 * gemm::cluster_rows(*config)) == 0;
          ++checked;
          if (all && of_mmas && whole && rows.each <= config->tile_m) continue;
          FAIL("m " << m << ", n " << n << ", SMs " << sms << ": " << rows.tiles << " tiles of "
                    << rows.each);
        }
  }
  CHECK(checked > 0);
}

// On an H200 136 rows of a dual GEMM of 4096 x 7168 took 59 us in a tile of 256, 28 in one of 144;
// 1280 x 2560 x 8192 111 us in tiles of 256, 74 in more tiles of fewer rows.
TEST_CASE("rows are shared out evenly, to more tiles where clusters have less to do then",
          "[host][linear]") {
  const gemm::Config* of_256 = config_of("gemm_sm90_t256_fitted_f16");
  const gemm::Config* of_128 = config_of("gemm_sm90_t128_fitted_f16");
  const auto is = [](const gemm::Sm90Rows& rows, int64_t tiles, int64_t each) {
    CHECK(rows.tiles == tiles);
    CHECK(rows.each == each);
  };
  is(rows_of(*of_256, 136, 28672, 4096, 132), 1, 144);
  is(rows_of(*of_256, 272, 28672, 4096, 132), 2, 144);
  is(rows_of(*of_256, 256, 28672, 4096, 132), 1, 256);
  is(rows_of(*of_256, 4096, 28672, 4096, 132), 16, 256);
  is(rows_of(*of_256, 1280, 2560, 8192, 132), 6, 224);
  is(rows_of(*of_128, 72, 6144, 4096, 132), 1, 80);
  is(rows_of(*of_128, 192, 6144, 4096, 132), 2, 96);
  is(rows_of(*of_128, 224, 6144, 4096, 132), 2, 128);
}

TEST_CASE("kernels have MMAs of the tokens that the host shares rows out for", "[host][linear]") {
  const std::regex mma("wgmma\\.mma_async\\.sync\\.aligned\\.m64n([0-9]+)k16");
  size_t fit = 0, whole = 0;
  const auto check = [&](const auto& configs) {
    for (const gemm::Config& config : configs) {
      if (config.family != gemm::Family::sm90 || config.grouped) continue;
      std::set<int64_t> of_host, of_kernel;
      for (int64_t rows = 1; rows <= config.tile_m; ++rows)
        of_host.insert(gemm::sm90_rows_of_mmas(config, rows));
      const std::string text =
          wltest::read_text(wltest::build_file("ptx/" + std::string(config.name) + ".ptx"));
      for (std::sregex_iterator at(text.begin(), text.end(), mma), end; at != end; ++at)
        of_kernel.insert(std::stoll((*at)[1]));
      INFO(config.name);
      CHECK(of_host == of_kernel);
      const bool reads = text.find("[tile_rows]") != std::string::npos;
      CHECK(reads == gemm::fits_rows(config));
      ++(reads ? fit : whole);
    }
  };
  check(linear::configs());
  check(dual_gemm::configs());
  CHECK(fit > 0);
  CHECK(whole > 0);
}

TEST_CASE("drawn problems have every number of tokens that MMAs may have", "[host][problems]") {
  size_t problems = 0;
  for (const auto& operation : wltest::problems::operations())
    for (const auto& c : operation.configurations) {
      if (c.fitted.empty()) continue;
      const gemm::Config* const config = config_of(c.name);
      REQUIRE(config != nullptr);
      CHECK(c.fitted.size() == (config->tile_m == 256 ? 7 : 2));
      for (size_t i = 0; i < c.fitted.size(); ++i)
        for (const uint64_t seed : {1, 2, 3, 4, 5}) {
          wltest::problems::Draw draw(seed, c.name, wltest::problems::first_of_fitted + i);
          const auto types = draw_types(c, draw);
          const auto sizes = draw_sizes(c, types, draw);
          INFO(c.name << ": " << draw.text());
          CHECK(rows_of(*config, sizes.m, sizes.n, sizes.k, c.sms).each == c.fitted[i]);
          ++problems;
        }
    }
  CHECK(problems > 0);
}
