// wl_OPERATION_list_configs: what every configuration would do with a problem, and why one wins.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/operation.hpp"
#include "runtime/src/rules.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>

namespace warpline::gemm {

// Only the rules of sizes, types and layouts apply: a list needs no tensors.
template <class Subject>
wl_status check_problem(const RuleTable<Subject>& rules, const Subject& subject) {
  static const char* const ids[] = {
      "m_range",         "n_range", "n_multiple", "k_range",  "k_multiple",    "type_k_range",
      "type_k_multiple", "l_range", "tiles",      "d_type",   "nvfp4_columns", "a_type",
      "b_type",          "types",   "l_one",      "count",    "group_tiles",   "row_stride",
      "sf_tile_count",   "a_rows",  "a_layout",   "b_layout", "mn_major_m"};
  std::vector<Violation> violations;
  for (Violation& violation : rules.violations(subject))
    if (std::find(std::begin(ids), std::end(ids), violation.rule.id) != std::end(ids))
      violations.push_back(std::move(violation));
  return report_violations(rules.operation(), violations);
}

template <class Args, class Subject, class ProblemOf>
wl_status list_configs(wl_context* context, const Args* args, const RuleTable<Subject>& rules,
                       const Table& table, const ProblemOf& problem_of,
                       wl_dual_gemm_config* configs, size_t config_size, int* count) {
  WL_TRY(check_context(context));
  if (args == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "args is null");
  if (count == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "count is null");
  WL_TRY(check_struct_size((rules.operation() + "_args").c_str(), args->struct_size, sizeof(Args)));
  WL_TRY(check_struct_size("wl_dual_gemm_config", config_size, sizeof(wl_dual_gemm_config)));
  if (*count < 0) return fail(WL_ERROR_INVALID_ARGUMENT, "count = %d must not be negative", *count);
  if (*count > 0 && configs == nullptr)
    return fail(WL_ERROR_INVALID_ARGUMENT, "configs is null, but count = %d", *count);
  const Args own = without_configs(*args);
  WL_TRY(check_problem(rules, Subject{own, context->limits}));

  const std::vector<wl_dual_gemm_config> list =
      candidates(table, problem_of(own), known_limits(*context));
  const int room = *count;
  *count = static_cast<int>(list.size());
  std::copy_n(list.begin(), std::min<size_t>(list.size(), static_cast<size_t>(room)), configs);
  return WL_SUCCESS;
}

} // namespace warpline::gemm
