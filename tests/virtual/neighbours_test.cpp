// Products of one launch behind a grid that writes their operands, weights among them, and ahead of
// one that does: what starts early has to wait for it, and what ends late is in its way.
#include "tests/problems/device.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tests/virtual/mutation/rewrite.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace wltest;

namespace {

void between(const problems::Regions& regions, problems::Side side) {
  std::vector<std::pair<void*, size_t>> written;
  for (const auto& [name, region] : regions) written.push_back(region);
  (side == problems::Side::ahead ? rewrite : rewrite_behind)(written);
}

// The configuration's first problem whose weights may be written by the grid ahead.
std::string run_between(wl_context* context, const problems::Operation& operation,
                        const problems::Configuration& configuration) {
  for (size_t i = 0; i < 100; ++i) {
    const problems::Problem drawn = problems::make_problem(operation, configuration, 20261129, i,
                                                           nullptr, problems::Values::none);
    if (drawn.static_weights || drawn.config != configuration.name) continue;
    const problems::Problem problem = problems::make_problem(operation, configuration, 20261129, i);
    if (!set_schedule(problem.schedule) || !set_checks("all")) return "options are refused";
    const std::string wrong = problems::run(context, problem, between);
    return wrong.empty() ? virtual_report() : problem.text + "\n" + wrong + "\n" + virtual_report();
  }
  return "no problem has weights that may be written";
}

} // namespace

TEST_CASE("products of one launch wait for the grid that writes their operands",
          "[virtual][plan]") {
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200-neighbours]"}, {}, 600);
  INFO(child.out << child.err);
  CHECK(child.status == 0);
  CHECK(child.out.find("1 passed") != std::string::npos);
}

TEST_CASE("products between neighbours on Hopper, in a process of their own",
          "[.h200-neighbours]") {
  wl_context* context = nullptr;
  int configurations = 0;
  for (const problems::Operation& operation : problems::operations()) {
    if (operation.folder != "linear" && operation.folder != "dual_gemm" &&
        operation.folder != "grouped")
      continue;
    for (const problems::Configuration& configuration : operation.configurations) {
      if (configuration.profile != "h200" || !problems::of_one_launch(configuration)) continue;
      if (context == nullptr) context = problems::open_device(configuration);
      set_option("sms", std::to_string(configuration.sms));
      set_option("wgmma_accumulation",
                 problems::adds_f8_on_hopper(configuration) ? "hopper" : "exact");
      INFO(configuration.name);
      REQUIRE(run_between(context, operation, configuration) == ""); // a fault ends the device
      ++configurations;
    }
  }
  CHECK(configurations > 0);
}
