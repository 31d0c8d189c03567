// What stands around the products of a mixture of experts on a real GPU: the problems of
// tests/problems, bit for bit. Whole layers have gates, whose ex2 and rcp may differ from the
// replay's in their last place: tools/bench/compare_moe.py compares them with FP64.
#include "kernels/moe/parts.hpp"
#include "tests/problems/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"

#include <string>

using namespace wltest;

TEST_CASE("the parts of a layer of experts, bit for bit", "[hardware][moe]") {
  const auto runs = [](const char* target, const warpline::DeviceLimits& device) {
    return warpline::target_runs_on(target, device.compute_major, device.compute_minor);
  };
  HardwareContext device([&](const warpline::DeviceLimits& found) {
    for (const warpline::moe::Config& config : warpline::moe::configs())
      if (runs(config.target, found)) return true;
    return false;
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  constexpr uint64_t seed = 20261123;
  size_t ran = 0;
  for (const problems::Operation& operation : problems::operations()) {
    if (operation.folder != "moe" || !operation.args.empty()) continue;
    for (const problems::Configuration& c : operation.configurations) {
      const char* const target = c.profile == "b200" ? "sm_100f" : "sm_90a";
      if (!runs(target, device.context->limits)) continue;
      for (size_t index = 0; index < 4 * c.problems.size(); ++index) {
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
