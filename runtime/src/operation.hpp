// The frames of an operation's entry points, wl_<op>_check and wl_<op>_plan.
#pragma once

#include "runtime/src/plan.hpp"
#include "runtime/src/rules.hpp"

#include <memory>

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
  if (product_part(*args).flags & WL_GRAPH_LAUNCH) WL_TRY(GraphRuns::make(*made, &made->graphs));
  *plan = owner.release();
  return WL_SUCCESS;
}

} // namespace warpline
