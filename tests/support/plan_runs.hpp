// A plan of a PlanProblem, its workspaces and its runs. Inside a test case.
#pragma once

#include "tests/support/plan_problem.hpp"

#include <cstdint>
#include <vector>

namespace wltest {

class PlanRuns {
public:
  explicit PlanRuns(const PlanProblem& problem, const char* config = nullptr, uint32_t flags = 0)
      : problem_(problem) {
    wl_dual_gemm_args args = problem.args;
    args.config = config;
    args.flags = flags;
    REQUIRE(wl_dual_gemm_plan(problem.context, &args, &plan) == WL_SUCCESS);
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  }
  ~PlanRuns() {
    wl_plan_destroy(plan);
    for (void* space : spaces_) wl_free(problem_.context, space);
  }
  PlanRuns(const PlanRuns&) = delete;
  PlanRuns& operator=(const PlanRuns&) = delete;

  void* workspace() {
    if (info.workspace_bytes == 0) return nullptr;
    spaces_.push_back(nullptr);
    REQUIRE(wl_malloc(problem_.context, info.workspace_bytes, &spaces_.back()) == WL_SUCCESS);
    return spaces_.back();
  }
  wl_status run(void* space, wl_stream stream) const {
    return wl_plan_run(plan, space, info.workspace_bytes, stream);
  }
  void poison() const {
    const std::vector<uint8_t> bytes(problem_.result().size(), 0xFF);
    REQUIRE(wl_upload(problem_.context, problem_.args.d, bytes.data(), bytes.size()) == WL_SUCCESS);
  }
  // D is poisoned before.
  std::vector<uint8_t> result(void* space, wl_stream stream) const {
    poison();
    CHECK(run(space, stream) == WL_SUCCESS);
    CHECK(wl_stream_synchronize(problem_.context, stream) == WL_SUCCESS);
    return problem_.result();
  }

  wl_plan* plan = nullptr;
  wl_plan_info info{};

private:
  const PlanProblem& problem_;
  std::vector<void*> spaces_;
};

} // namespace wltest
