// Contexts on two GPUs of one process: they work side by side, and what belongs to one is refused
// by the other before anything faults.
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/plan_runs.hpp"
#include "tests/support/unreachable_run.hpp"

#include <thread>

using namespace wltest;

namespace {

// Contexts on devices 0 and 1.
struct TwoGpus {
  static bool has_rows(const warpline::DeviceLimits& limits) {
    return limits.compute_major == 9 || limits.compute_major == 10;
  }
  HardwareContext first{has_rows, 0}, second{has_rows, 1};
  std::string reason() const { return first.reason.empty() ? second.reason : first.reason; }
  wl_context* context(size_t i) const { return i == 0 ? first.context : second.context; }
};

#define NEEDS_TWO_GPUS(gpus)                                                                       \
  const TwoGpus gpus;                                                                              \
  if (!gpus.reason().empty()) WL_SKIP(gpus.reason())

DualGemmCase repeated_case() {
  DualGemmCase c;
  c.m = 130, c.n = 200, c.k = 512, c.l = 2;
  c.alpha1 = 0.5f, c.alpha2 = 2;
  c.runs = 20;
  return c;
}

} // namespace

TEST_CASE("two GPUs work on one problem at the same time, with the same right bits",
          "[hardware][dual_gemm][two_gpus]") {
  NEEDS_TWO_GPUS(gpus);
  const PlanProblem problems[2] = {PlanProblem(gpus.context(0)), PlanProblem(gpus.context(1))};
  PlanRuns plans[2] = {PlanRuns(problems[0]), PlanRuns(problems[1])};
  void* const spaces[2] = {plans[0].workspace(), plans[1].workspace()};
  CHECK(plans[0].info.config == std::string(plans[1].info.config));

  DualGemmResult results[2];
  wl_status runs[2] = {WL_ERROR_INTERNAL, WL_ERROR_INTERNAL};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      results[i] = run_dual_gemm(gpus.context(i), repeated_case());
      runs[i] = WL_SUCCESS;
      for (int run = 0; run < 100 && runs[i] == WL_SUCCESS; ++run)
        runs[i] = plans[i].run(spaces[i], nullptr);
      if (runs[i] == WL_SUCCESS) runs[i] = wl_stream_synchronize(gpus.context(i), nullptr);
    });
  for (std::thread& thread : threads) thread.join();

  for (size_t i = 0; i < 2; ++i) {
    INFO("device " << i << " " << results[i].message);
    CHECK(runs[i] == WL_SUCCESS);
    REQUIRE(results[i].status == WL_SUCCESS);
    CHECK(results[i].guards_intact);
    CHECK(results[i].runs_agree);
    CHECK(results[i].bound.passed());
  }
  // The last place of ex2 and rcp is not the replay's, but every card's alike.
  CHECK(results[0].exact.unequal == results[1].exact.unequal);
  CHECK(problems[0].result() == problems[1].result());
}

TEST_CASE("one thread serves two GPUs in turn, and its current context stays",
          "[hardware][dual_gemm][two_gpus]") {
  NEEDS_TWO_GPUS(gpus);
  const warpline::ContextScope scope(*gpus.context(0));
  REQUIRE(scope.status() == WL_SUCCESS);
  const PlanProblem first(gpus.context(0)), second(gpus.context(1));
  PlanRuns on_first(first), on_second(second);
  CHECK(on_first.result(on_first.workspace(), nullptr) ==
        on_second.result(on_second.workspace(), nullptr));
  cuapi::CUcontext current = nullptr;
  REQUIRE(gpus.context(0)->driver->cu.CtxGetCurrent(&current) == cuapi::CUDA_SUCCESS);
  CHECK(current == gpus.context(0)->handle);
}

TEST_CASE("a plan refuses a stream of another GPU", "[hardware][runtime][two_gpus]") {
  NEEDS_TWO_GPUS(gpus);
  const PlanProblem problem(gpus.context(0));
  PlanRuns plan(problem);
  void* const space = plan.workspace();
  const std::vector<uint8_t> expected = plan.result(space, nullptr);
  wl_stream stream = nullptr;
  REQUIRE(wl_stream_create(gpus.context(1), &stream) == WL_SUCCESS);
  plan.poison();
  const std::vector<uint8_t> poison = problem.result();
  CHECK(plan.run(space, stream) == WL_ERROR_WRONG_DEVICE);
  CHECK_THAT(std::string(wl_last_error()),
             ContainsSubstring("wl_plan_run: stream = ") &&
                 ContainsSubstring("belongs to another context, must be one of device 0's primary "
                                   "context"));
  CHECK(wl_stream_synchronize(gpus.context(0), nullptr) == WL_SUCCESS);
  CHECK(problem.result() == poison);
  CHECK(wl_stream_destroy(gpus.context(1), stream) == WL_SUCCESS);
  CHECK(plan.result(space, nullptr) == expected);
}

TEST_CASE("operands of another GPU need peer access", "[hardware][runtime][two_gpus]") {
  NEEDS_TWO_GPUS(gpus);
  const PlanProblem here(gpus.context(0)), there(gpus.context(1));
  PlanRuns plan(here);
  void* const space = plan.workspace();
  const std::vector<uint8_t> expected = plan.result(space, nullptr);

  const OperandChecks operands(gpus.context(0));
  operands.check(const_cast<void*>(there.args.a), true, "is memory of device 1,");
  CHECK(plan.result(space, nullptr) == expected);

  const warpline::ContextScope scope(*gpus.context(0));
  const auto can_access =
      reinterpret_cast<cuapi::CUresult (*)(int*, cuapi::CUdevice, cuapi::CUdevice)>(
          gpus.context(0)->driver->symbol("cuDeviceCanAccessPeer"));
  const auto enable = reinterpret_cast<cuapi::CUresult (*)(cuapi::CUcontext, unsigned)>(
      gpus.context(0)->driver->symbol("cuCtxEnablePeerAccess"));
  const auto disable = reinterpret_cast<cuapi::CUresult (*)(cuapi::CUcontext)>(
      gpus.context(0)->driver->symbol("cuCtxDisablePeerAccess"));
  REQUIRE((can_access && enable && disable));
  int can = 0;
  REQUIRE(can_access(&can, gpus.context(0)->device, gpus.context(1)->device) ==
          cuapi::CUDA_SUCCESS);
  if (!can) WL_SKIP("the GPUs cannot be peers");
  REQUIRE(enable(gpus.context(1)->handle, 0) == cuapi::CUDA_SUCCESS);
  wl_dual_gemm_args mixed = here.args; // the weights lie on the other GPU
  mixed.b1 = there.args.b1, mixed.sfb1 = there.args.sfb1;
  wl_plan* across = nullptr;
  CHECK(wl_dual_gemm_plan(gpus.context(0), &mixed, &across) == WL_SUCCESS);
  if (across != nullptr) {
    plan.poison();
    CHECK(wl_plan_run(across, space, plan.info.workspace_bytes, nullptr) == WL_SUCCESS);
    CHECK(here.result() == expected);
  }
  wl_plan_destroy(across);
  REQUIRE(disable(gpus.context(1)->handle) == cuapi::CUDA_SUCCESS);
  operands.check(const_cast<void*>(there.args.a), true, "is memory of device 1,");
}

TEST_CASE("host and freed memory are refused on a second GPU", "[hardware][runtime][two_gpus]") {
  NEEDS_TWO_GPUS(gpus);
  check_unreachable(gpus.context(1));
}
