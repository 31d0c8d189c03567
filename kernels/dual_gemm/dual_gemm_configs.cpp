// wl_dual_gemm_list_configs: what every row would do with a problem, and why one of them wins.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>

namespace warpline::dual_gemm {

namespace {

struct Candidate {
  const Row* row;
  bool runs;
  std::string reason;
  Cost cost;
  Traffic traffic;
};

std::string percent(double part, double whole) { return format("%.0f %%", 100 * part / whole); }

// The largest term of a row's time.
const char* bound(const Candidate& c) {
  return c.cost.loop_clocks > c.cost.memory_clocks ? "its main loops" : "DRAM";
}

// In words, why `c` is slower than `best` by the model; the first difference that explains it.
std::string against(const Candidate& c, const Candidate& best) {
  const std::string slower = format("%.1f %% slower: ", 100 * (c.cost.total / best.cost.total - 1));
  if (c.cost.waves > best.cost.waves)
    return slower + format("%lld waves against %lld", static_cast<long long>(c.cost.waves),
                           static_cast<long long>(best.cost.waves));
  if (best.row->grid == Grid::stream_k && c.cost.loop_clocks > best.cost.loop_clocks)
    return slower + format("main loops of %.0f clocks against %.0f with K tiles shared evenly",
                           c.cost.loop_clocks, best.cost.loop_clocks);
  if (c.cost.tile_clocks > best.cost.tile_clocks)
    return slower + format("a tile's main loop takes %.0f clocks against %.0f", c.cost.tile_clocks,
                           best.cost.tile_clocks);
  if (c.cost.epilogue_clocks > best.cost.epilogue_clocks)
    return slower + format("an epilogue takes %.0f clocks against %.0f", c.cost.epilogue_clocks,
                           best.cost.epilogue_clocks);
  if (c.cost.total > best.cost.total) return slower + "start and epilogue show more";
  return "equal by the model; the first in the table is taken";
}

std::string praise(const Candidate& best, const Candidate* second) {
  std::string text = format("least time by the model, bound by %s", bound(best));
  if (second != nullptr && second->cost.total > 0)
    text += format("; %s takes %s of it", second->row->name,
                   percent(second->cost.total, best.cost.total).c_str());
  return text;
}

wl_dual_gemm_config describe(const Candidate& c, const Problem& problem,
                             const DeviceLimits& device) {
  const Row& row = *c.row;
  wl_dual_gemm_config out{};
  copy_text(out.name, row.name);
  copy_text(out.target, row.target);
  out.runs = c.runs;
  out.tile_m = row.tile_m;
  out.tile_n = row.tile_n;
  out.tile_k = row.tile_k;
  out.cta_group = row.cta_group;
  out.cluster_m = row.decodes ? 1 : row.cluster_m;
  out.cluster_n = row.decodes ? row.cluster[0] / row.split_k : row.cluster_n;
  out.split_k = row.split_k;
  out.stages = row.stages;
  out.acc_stages = row.acc_stages;
  out.scheduler = row.grid == Grid::one_tile     ? WL_SCHEDULER_ONE_TILE
                  : row.grid == Grid::persistent ? WL_SCHEDULER_STATIC
                  : row.grid == Grid::stream_k   ? WL_SCHEDULER_STREAM_K
                                                 : WL_SCHEDULER_LAUNCH_CONTROL;
  out.shared_bytes = row.shared_bytes;
  if (!row.decodes)
    out.tmem_columns = sm100_tmem_columns(row.tile_n, row.acc_stages, row.scale_sets);
  out.tiles = c.cost.tiles;
  out.waves = c.cost.waves;
  out.ctas = std::min(c.cost.clusters, resident_clusters(row.cluster[0], device)) * row.cluster[0];
  out.a_bytes = c.traffic.a;
  out.b_bytes = c.traffic.b;
  out.sfa_bytes = c.traffic.sfa;
  out.sfb_bytes = c.traffic.sfb;
  out.delivered_bytes = c.traffic.delivered;
  out.least_bytes = least_traffic(problem);
  out.tile_clocks = c.cost.tile_clocks;
  out.epilogue_clocks = c.cost.epilogue_clocks;
  out.memory_clocks = c.cost.memory_clocks;
  out.total_clocks = c.cost.total;
  return out;
}

// Only the rules of the sizes and the type apply: a list needs no tensors.
wl_status check_problem(const wl_dual_gemm_args& args, const DeviceLimits& device) {
  static const char* const ids[] = {"m_range", "n_range",    "n_multiple",
                                    "k_range", "k_multiple", "l_range",
                                    "tiles",   "d_type",     "nvfp4_columns"};
  std::vector<Violation> violations;
  for (Violation& violation : rules().violations({args, device}))
    if (std::find(std::begin(ids), std::end(ids), violation.rule.id) != std::end(ids))
      violations.push_back(std::move(violation));
  return violations.empty() ? WL_SUCCESS : report_violations("wl_dual_gemm", violations);
}

wl_status list_configs(wl_context* context, const wl_dual_gemm_args* args,
                       wl_dual_gemm_config* configs, size_t config_size, int* count) {
  WL_TRY(check_context(context));
  if (args == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "args is null");
  if (count == nullptr) return fail(WL_ERROR_INVALID_ARGUMENT, "count is null");
  WL_TRY(check_struct_size("wl_dual_gemm_args", args->struct_size, sizeof(wl_dual_gemm_args)));
  WL_TRY(check_struct_size("wl_dual_gemm_config", config_size, sizeof(wl_dual_gemm_config)));
  if (*count < 0) return fail(WL_ERROR_INVALID_ARGUMENT, "count = %d must not be negative", *count);
  if (*count > 0 && configs == nullptr)
    return fail(WL_ERROR_INVALID_ARGUMENT, "configs is null, but count = %d", *count);
  WL_TRY(check_problem(*args, context->limits));

  const std::vector<wl_dual_gemm_config> list =
      candidates(problem_of(*args), known_limits(*context));
  const int room = *count;
  *count = static_cast<int>(list.size());
  std::copy_n(list.begin(), std::min<size_t>(list.size(), static_cast<size_t>(room)), configs);
  return WL_SUCCESS;
}

} // namespace

std::vector<wl_dual_gemm_config> candidates(const Problem& problem, const DeviceLimits& device) {
  std::vector<Candidate> all;
  for (const Row& row : rows()) {
    if (row.d_type != problem.d_type) continue;
    Candidate c{&row, false, "", cost(row, problem, device), traffic(row, problem)};
    c.runs = can_run(row, problem, device, &c.reason);
    all.push_back(std::move(c));
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& x, const Candidate& y) {
    return x.runs != y.runs ? x.runs : x.runs && x.cost.total < y.cost.total;
  });
  const Row* winner = choose_row(problem, device);
  std::vector<wl_dual_gemm_config> result;
  for (size_t i = 0; i < all.size(); ++i) {
    Candidate& c = all[i];
    if (c.row == winner)
      c.reason = praise(c, all.size() > 1 && all[1].runs ? &all[1] : nullptr);
    else if (c.runs)
      c.reason = against(c, all[0]);
    result.push_back(describe(c, problem, device));
    result.back().chosen = c.row == winner ? 1 : 0;
    copy_text(result.back().reason, c.reason.c_str());
  }
  return result;
}

} // namespace warpline::dual_gemm

wl_status wl_dual_gemm_list_configs(wl_context* context, const wl_dual_gemm_args* args,
                                    wl_dual_gemm_config* configs, size_t config_size, int* count) {
  return warpline::api("wl_dual_gemm_list_configs", [&] {
    return warpline::dual_gemm::list_configs(context, args, configs, config_size, count);
  });
}
