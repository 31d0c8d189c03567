// The frames of an operation's entry points, wl_<op>_check, wl_<op>_plan and wl_<op>_run.
#pragma once

#include "runtime/src/plan.hpp"
#include "runtime/src/rules.hpp"

#include <cinttypes>
#include <memory>
#include <string>
#include <vector>

namespace warpline {

// The part of an operation's arguments that has its flags and configuration: the arguments
// themselves, or those of the product within.
template <class Args>
auto& product_part(Args& args) {
  if constexpr (requires { args.gemm; })
    return args.gemm;
  else
    return args;
}

// A subject is {arguments, device limits, context}; the context is current for the rules. `log`
// writes the arguments down before they are judged.
template <class Args, class Subject, class Log>
wl_status check_args(const wl_context* context, const Args* args, const char* type,
                     const RuleTable<Subject>& rules, const Log& log) {
  WL_TRY(check_context(context));
  if (args == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "args is null");
  WL_TRY(check_struct_size(type, args->struct_size, sizeof(Args)));
  log(*args);
  const ContextScope scope(*context);
  WL_TRY(scope.status());
  return rules.check(Subject{*args, context->limits, context});
}

// `make` runs with the context current and with checked arguments; *plan is null when it fails.
// `operands` lists what the arguments point to. Flags that concern every plan are seen to here.
template <class Args, class Check, class Make, class Operands>
wl_status plan_args(wl_context* context, const Args* args, wl_plan** plan, const Check& check,
                    const Make& make, const Operands& operands) {
  if (plan == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "plan is null");
  *plan = nullptr;
  WL_TRY(check(context, args));
  const ContextScope scope(*context);
  WL_TRY(scope.status());
  wl_plan* made = nullptr;
  WL_TRY(make(context, *args, &made));
  std::unique_ptr<wl_plan> owner(made);
  const auto touched = operands(*args);
  owner->operands.assign(touched.begin(), touched.end());
  if (made->own_run) made->kept = std::make_unique<KeptRun>(made->info.launches);
  if (product_part(*args).flags & WL_GRAPH_LAUNCH) WL_TRY(GraphRuns::make(*made, &made->graphs));
  *plan = owner.release();
  return WL_SUCCESS;
}

// Without the names of configurations, which are texts of the caller's and count for planning only.
template <class Args>
Args without_configs(Args args) {
  if constexpr (requires { args.config_up; })
    args.config_up = args.config_down = nullptr;
  else
    product_part(args).config = nullptr;
  return args;
}

// What a plan keeps to run with other operands.
template <class Args>
struct PlannedArgs : PlannedProblem {
  explicit PlannedArgs(const Args& of) : args(without_configs(of)) {}
  // `of` differs from `args` where wl_<op>_run lets it. Allocates nothing. Called as wl_plan::run.
  virtual wl_status run(const wl_plan& plan, const Args& of, void* workspace,
                        wl_stream stream) const = 0;

  const Args args;
};

// With the plan's own operands, where its kernels do not run by themselves. Both are the plan's.
template <class Args>
struct RunAsPlanned final : OwnRun {
  RunAsPlanned(const wl_plan& plan_, const PlannedArgs<Args>& planned_)
      : plan(plan_), planned(planned_) {}
  wl_status run(void* workspace, wl_stream stream) const override {
    return planned.run(plan, planned.args, workspace, stream);
  }
  const wl_plan& plan;
  const PlannedArgs<Args>& planned;
};

// A plan whose Planned, made of PlannedArgs, makes its parts: `make`(context, arguments, plan).
template <class Planned, class Args>
wl_status plan_of_parts(wl_context* context, const Args& args, wl_plan** plan) {
  auto made = std::make_unique<wl_plan>(context);
  auto planned = std::make_unique<Planned>(args);
  WL_TRY(planned->make(context, args, made.get()));
  made->own_run = std::make_unique<RunAsPlanned<Args>>(*made, *planned);
  made->problem = std::move(planned);
  *plan = made.release();
  return WL_SUCCESS;
}

// Notes what is not as the plan has it.
class PlanRules {
public:
  explicit PlanRules(std::vector<Violation>* violations) : violations_(violations) {}
  void equal(const char* id, const char* name, int64_t found, int64_t planned) const {
    note(found == planned, id, name, "must be that of the plan", found, planned);
  }
  void rows(int64_t found, int64_t planned) const {
    at_most("plan_m", "M", "must be at most the rows that the plan was made for", found, planned);
  }
  void at_most(const char* id, const char* name, const char* text, int64_t found,
               int64_t planned) const {
    note(found <= planned, id, name, text, found, planned);
  }

private:
  void note(bool holds, const char* id, const char* name, const char* text, int64_t found,
            int64_t planned) const {
    if (!holds)
      violations_->push_back({{id, name, text, RuleKind::range},
                              violated(format(" = %" PRId64, found), std::to_string(planned))});
  }
  std::vector<Violation>* violations_;
};

// The rules are those of the operation's check, and `compare`(arguments, violations) brings those
// that tie them to the plan, which has `planned_flags`. Configuration and flags are the plan's,
// those of `args` are not looked at. Allocates no device memory.
template <class Args, class Subject, class Log, class Compare, class OperandsOf, class Run>
wl_status run_checked(const wl_plan& plan, const Args* args, const char* type,
                      const RuleTable<Subject>& rules, const Log& log, uint32_t planned_flags,
                      const Compare& compare, const OperandsOf& operands_of, void* workspace,
                      size_t workspace_bytes, wl_stream stream, const Run& run) {
  if (args == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "args is null");
  WL_TRY(check_struct_size(type, args->struct_size, sizeof(Args)));
  Args own = without_configs(*args);
  product_part(own).flags = planned_flags;
  log(own);
  const wl_context& context = *plan.context;
  const ContextScope scope(context);
  WL_TRY(scope.status());
  // Frameworks come with the same few buffers again and again.
  static_assert(sizeof own % sizeof(uint64_t) == 0);
  const uint64_t space[] = {address_of(workspace), workspace_bytes};
  const uint64_t call = mark_of(space, sizeof space, mark_of(&own, sizeof own));
  if (!plan.known.has(call)) {
    std::vector<Violation> violations =
        rules.violations(Subject{own, context.limits, {&context, &plan.known}});
    compare(own, &violations);
    WL_TRY(report_violations(rules.operation(), violations));
    WL_TRY(check_workspace(plan, workspace, workspace_bytes, operands_of(own)));
    WL_TRY(check_workspace_memory(plan, workspace));
    plan.known.note(call);
  }
  WL_TRY(check_stream(context, stream));
  return run(own);
}

inline wl_status other_plan(const wl_plan& plan, const std::string& operation) {
  return fail(WL_ERROR_INVALID_ARGUMENT, "plan: it runs %s, must be a plan of %s_plan",
              plan.info.config, operation.c_str());
}

// Of an operation whose plans keep PlannedArgs: `compare`(planned, arguments, PlanRules).
template <class Args, class Subject, class Log, class Compare, class OperandsOf>
wl_status run_args(const wl_plan* plan, const Args* args, const char* type,
                   const RuleTable<Subject>& rules, const Log& log, const Compare& compare,
                   const OperandsOf& operands_of, void* workspace, size_t workspace_bytes,
                   wl_stream stream) {
  WL_TRY(check_plan(plan));
  const auto* planned = dynamic_cast<const PlannedArgs<Args>*>(plan->problem.get());
  if (planned == nullptr) return other_plan(*plan, rules.operation());
  return run_checked(
      *plan, args, type, rules, log, planned->args.flags,
      [&](const Args& own, std::vector<Violation>* violations) {
        compare(planned->args, own, PlanRules(violations));
      },
      operands_of, workspace, workspace_bytes, stream,
      [&](const Args& own) { return planned->run(*plan, own, workspace, stream); });
}

} // namespace warpline
