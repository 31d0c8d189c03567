// wl_grouped_gemm on a real GPU: the problems of tests/problems, as linear_test.cpp runs those of
// wl_gemm. All of wl_grouped_dual_gemm have exponentials and are left to the virtual GPU.
#include "kernels/grouped/grouped.hpp"
#include "tests/problems/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"

#include <algorithm>
#include <string>

using namespace wltest;

TEST_CASE("wl_grouped_gemm bit for bit", "[hardware][grouped]") {
  const auto& table = warpline::grouped::linear_configs();
  HardwareContext device([&](const warpline::DeviceLimits& found) {
    return std::any_of(table.begin(), table.end(), [&](const auto& config) {
      return warpline::gemm::can_run(config, config.first_types(), config.d_type, found, nullptr);
    });
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  constexpr uint64_t seed = 20261123;
  constexpr size_t problems_of_each = 16;
  size_t ran = 0;
  for (const problems::Operation& operation : problems::operations()) {
    if (operation.args != "wl_grouped_gemm_args") continue;
    for (const problems::Configuration& c : operation.configurations) {
      const auto config = std::find_if(table.begin(), table.end(),
                                       [&](const auto& entry) { return c.name == entry.name; });
      REQUIRE(config != table.end());
      if (!warpline::gemm::can_run(*config, config->first_types(), config->d_type,
                                   device.context->limits, nullptr))
        continue;
      for (size_t index = 0; index < problems_of_each; ++index) {
        const problems::Problem drawn =
            problems::make_problem(operation, c, seed, index, nullptr, problems::Values::none);
        const auto has = [&](const char* text) {
          return drawn.text.find(text) != std::string::npos;
        };
        if (!has("activation 0,") && !has("activation 1,") && !has("activation 2,")) continue;
        const problems::Problem problem = problems::make_problem(operation, c, seed, index);
        INFO(c.name << ", seed " << seed << ", problem " << index << ": " << problem.text);
        CHECK(problems::run(device.context, problem) == "");
        ++ran;
      }
    }
  }
  INFO(ran << " problems");
  CHECK(ran > 50);
}
