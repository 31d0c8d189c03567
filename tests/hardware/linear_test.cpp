// wl_gemm on a real GPU: the problems of tests/problems, drawn over its whole contract, with new
// operands in each run and guards around the outputs. Outputs without exponentials are compared bit
// for bit; ex2 and rcp of the hardware may differ from the replay's in their last place, so
// problems with them are left to the virtual GPU.
#include "kernels/linear/linear.hpp"
#include "tests/problems/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"

#include <algorithm>
#include <string>

using namespace wltest;

namespace {

// The problems of all configurations that run here, or those of operands as they are alone.
void run_problems(bool native) {
  HardwareContext device([native](const warpline::DeviceLimits& found) {
    for (const warpline::gemm::Config& config : warpline::linear::configs())
      if (warpline::gemm::can_run(config, config.first_types(), config.d_type, found, nullptr) &&
          (config.family == warpline::gemm::Family::sm90_native) == native)
        return true;
    return false;
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  constexpr uint64_t seed = 20261122;
  constexpr size_t problems_of_each = 16;
  size_t ran = 0;
  for (const problems::Operation& operation : problems::operations()) {
    if (operation.args != "wl_gemm_args") continue;
    for (const problems::Configuration& c : operation.configurations) {
      const auto& table = warpline::linear::configs();
      const auto config = std::find_if(table.begin(), table.end(),
                                       [&](const auto& entry) { return c.name == entry.name; });
      REQUIRE(config != table.end());
      if (!warpline::gemm::can_run(*config, config->first_types(), config->d_type,
                                   device.context->limits, nullptr) ||
          (config->family == warpline::gemm::Family::sm90_native) != native)
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

} // namespace

TEST_CASE("wl_gemm bit for bit", "[hardware][linear]") { run_problems(false); }

TEST_CASE("wl_gemm of operands as they are, bit for bit", "[hardware][linear][native]") {
  run_problems(true);
}
