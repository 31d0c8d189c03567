// The frame of the entry points that run a product's plan with operands of the run's own,
// wl_<op>_run: the rules of the arguments and what ties them to the plan, then the plan's kernels.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/operation.hpp"

#include <cinttypes>
#include <functional>

namespace warpline::gemm {

// What `problem` must have in common with the one that the plan was made for.
inline void compare_with_plan(const Problem& planned, const Problem& problem,
                              std::vector<Violation>* violations) {
  const auto equal = [&](const char* id, const char* name, int64_t found, int64_t planned_value) {
    if (found != planned_value)
      violations->push_back(
          {{id, name, "must be that of the plan", RuleKind::range},
           violated(format(" = %" PRId64, found), std::to_string(planned_value))});
  };
  if (problem.m > planned.m)
    violations->push_back(
        {{"plan_m", "M", "must be at most the rows that the plan was made for", RuleKind::range},
         violated(format(" = %" PRId64, problem.m), std::to_string(planned.m))});
  equal("plan_n", "N", problem.n, planned.n);
  equal("plan_k", "K", problem.k, planned.k);
  equal("plan_l", "L", problem.l, planned.l);
  equal("plan_d_type", "d_type", problem.d_type, planned.d_type);
  equal("plan_a_type", "a_type", problem.types.a, planned.types.a);
  equal("plan_b_type", "b_type", problem.types.b, planned.types.b);
  equal("plan_count", "count", problem.groups.count, planned.groups.count);
  const auto gathers = [](const Problem& p) { return p.groups.rows != nullptr; };
  if (gathers(problem) != gathers(planned))
    violations->push_back(
        {{"plan_rows", "rows", "must be null where it was for the plan, and only there",
          RuleKind::pointer},
         violated(format(" = %p", static_cast<const void*>(problem.groups.rows)))});
}

// `configs` is the operation's table: a plan of another operation has a configuration of another.
// The rules are those of the operation's check; the configuration is the plan's, so args->config
// and args->flags are not looked at. Allocates nothing when all is well.
template <class Args, class Subject, class Log, class ProblemOf, class OperandsOf>
wl_status run_args(const wl_plan* plan, const Args* args, const char* type,
                   const RuleTable<Subject>& rules, const Table& configs, const Log& log,
                   const ProblemOf& problem_of, const OperandsOf& operands_of, void* workspace,
                   size_t workspace_bytes, wl_stream stream) {
  WL_TRY(check_plan(plan));
  if (args == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "args is null");
  WL_TRY(check_struct_size(type, args->struct_size, sizeof(Args)));
  const auto* planned = dynamic_cast<const PlannedProduct*>(plan->problem.get());
  const std::less<const Config*> before;
  if (planned == nullptr || before(planned->config, configs.data()) ||
      !before(planned->config, configs.data() + configs.size()))
    return fail(WL_ERROR_INVALID_ARGUMENT, "plan: it runs %s, must be a plan of %s_plan",
                plan->info.config, rules.operation().c_str());
  log(*args);
  const wl_context& context = *plan->context;
  const ContextScope scope(context);
  WL_TRY(scope.status());
  Args own = *args;
  product_part(own).config = nullptr;
  product_part(own).flags = planned->problem.flags;
  const Problem problem = problem_of(own);
  // Frameworks come with the same few buffers again and again.
  static_assert(sizeof own % sizeof(uint64_t) == 0);
  const uint64_t space[] = {address_of(workspace), workspace_bytes};
  const uint64_t call = mark_of(space, sizeof space, mark_of(&own, sizeof own));
  if (!plan->known.has(call)) {
    std::vector<Violation> violations =
        rules.violations(Subject{own, context.limits, {&context, &plan->known}});
    compare_with_plan(planned->problem, problem, &violations);
    WL_TRY(report_violations(rules.operation(), violations));
    WL_TRY(check_workspace(*plan, workspace, workspace_bytes, operands_of(own)));
    WL_TRY(check_workspace_memory(*plan, workspace));
    plan->known.note(call);
  }
  WL_TRY(check_stream(context, stream));
  return planned->run(*plan, problem, workspace, stream);
}

} // namespace warpline::gemm
