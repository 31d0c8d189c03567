// The frame of the entry points that run a product's plan with operands of the run's own,
// wl_<op>_run: the rules of the arguments and what ties them to the plan, then the plan's kernels.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/operation.hpp"

#include <functional>

namespace warpline::gemm {

// What `problem` must have in common with the one that the plan was made for.
inline void compare_with_plan(const Problem& planned, const Problem& problem,
                              std::vector<Violation>* violations) {
  const PlanRules rules(violations);
  rules.rows(problem.m, planned.m);
  rules.equal("plan_n", "N", problem.n, planned.n);
  rules.equal("plan_k", "K", problem.k, planned.k);
  rules.equal("plan_l", "L", problem.l, planned.l);
  rules.equal("plan_d_type", "d_type", problem.d_type, planned.d_type);
  rules.equal("plan_a_type", "a_type", problem.types.a, planned.types.a);
  rules.equal("plan_b_type", "b_type", problem.types.b, planned.types.b);
  rules.equal("plan_a_layout", "a_layout", problem.types.a_layout, planned.types.a_layout);
  rules.equal("plan_b_layout", "b_layout", problem.types.b_layout, planned.types.b_layout);
  rules.equal("plan_sf_layout", "sf_layout", problem.plain_sfb, planned.plain_sfb);
  rules.equal("plan_count", "count", problem.groups.count, planned.groups.count);
  const int32_t* const rows = problem.groups.rows;
  const bool gathered = planned.groups.rows != nullptr;
  if ((rows != nullptr) != gathered)
    violations->push_back({{"plan_rows", "rows",
                            gathered ? "must not be null, as it was not for the plan"
                                     : "must be null, as it was for the plan",
                            RuleKind::pointer},
                           violated(format(" = %p", static_cast<const void*>(rows)))});
}

// `configs` is the operation's table: a plan of another operation has a configuration of another.
template <class Args, class Subject, class Log, class ProblemOf, class OperandsOf>
wl_status run_args(const wl_plan* plan, const Args* args, const char* type,
                   const RuleTable<Subject>& rules, const Table& configs, const Log& log,
                   const ProblemOf& problem_of, const OperandsOf& operands_of, void* workspace,
                   size_t workspace_bytes, wl_stream stream) {
  WL_TRY(check_plan(plan));
  const auto* planned = dynamic_cast<const PlannedProduct*>(plan->problem.get());
  const std::less<const Config*> before;
  if (planned == nullptr || before(planned->config, configs.data()) ||
      !before(planned->config, configs.data() + configs.size()))
    return other_plan(*plan, rules.operation());
  return run_checked(
      *plan, args, type, rules, log, planned->problem.flags,
      [&](const Args& own, std::vector<Violation>* violations) {
        compare_with_plan(planned->problem, problem_of(own), violations);
      },
      operands_of, workspace, workspace_bytes, stream,
      [&](const Args& own) { return planned->run(*plan, problem_of(own), workspace, stream); });
}

} // namespace warpline::gemm
