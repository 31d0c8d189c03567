// What every configuration of a table would do with a problem, and why one of them wins.
#include "kernels/gemm/engine.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>

namespace warpline::gemm {

namespace {

struct Candidate {
  const Config* config;
  bool runs;
  std::string reason;
  Cost cost;
  Traffic traffic;
};

std::string percent(double part, double whole) { return format("%.0f %%", 100 * part / whole); }

// The largest term of a configuration's time.
const char* bound(const Candidate& c) {
  return c.cost.loop_clocks > c.cost.memory_clocks ? "its main loops" : "DRAM";
}

// In words, why `c` is slower than `best` by the model; the first difference that explains it.
std::string against(const Candidate& c, const Candidate& best) {
  const std::string slower = format("%.1f %% slower: ", 100 * (c.cost.total / best.cost.total - 1));
  if (c.cost.waves > best.cost.waves)
    return slower + format("%lld waves against %lld", static_cast<long long>(c.cost.waves),
                           static_cast<long long>(best.cost.waves));
  if (best.config->grid == Grid::stream_k && c.cost.loop_clocks > best.cost.loop_clocks)
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
    text += format("; %s takes %s of it", second->config->name,
                   percent(second->cost.total, best.cost.total).c_str());
  return text;
}

wl_dual_gemm_config describe(const Candidate& c, const Problem& problem,
                             const DeviceLimits& device) {
  const Config& config = *c.config;
  wl_dual_gemm_config out{};
  copy_text(out.name, config.name);
  copy_text(out.target, config.target);
  out.runs = c.runs;
  out.tile_m = config.tile_m;
  out.tile_n = config.tile_n;
  out.tile_k = config.tile_k;
  out.cta_group = config.cta_group;
  out.cluster_m = config.blackwell() ? config.cluster_m : 1;
  out.cluster_n = config.blackwell() ? config.cluster_n
                                     : config.cluster[0] / (config.spread ? 1 : config.split_k);
  out.split_k = config.split_k;
  out.stages = config.stages;
  out.acc_stages = config.acc_stages;
  out.scheduler = config.grid == Grid::one_tile     ? WL_SCHEDULER_ONE_TILE
                  : config.grid == Grid::persistent ? WL_SCHEDULER_STATIC
                  : config.grid == Grid::stream_k   ? WL_SCHEDULER_STREAM_K
                                                    : WL_SCHEDULER_LAUNCH_CONTROL;
  out.shared_bytes = config.shared_bytes;
  if (config.blackwell()) out.tmem_columns = sm100_tmem_columns(config, config.scale_sets);
  out.tiles = c.cost.tiles;
  out.waves = c.cost.waves;
  out.ctas =
      std::min(c.cost.clusters, resident_clusters(config.cluster[0], device)) * config.cluster[0];
  out.a_bytes = c.traffic.a;
  out.b_bytes = c.traffic.b;
  out.sfa_bytes = c.traffic.sfa;
  out.sfb_bytes = c.traffic.sfb;
  out.delivered_bytes = c.traffic.delivered;
  out.least_bytes = least_traffic(problem, config.b_tensors);
  out.tile_clocks = c.cost.tile_clocks;
  out.epilogue_clocks = c.cost.epilogue_clocks;
  out.memory_clocks = c.cost.memory_clocks;
  out.total_clocks = c.cost.total;
  return out;
}

} // namespace

std::vector<wl_dual_gemm_config> candidates(const Table& table, const Problem& problem,
                                            const DeviceLimits& device) {
  std::vector<Candidate> all;
  for (const Config& config : table) {
    if (config.d_type != problem.d_type || !config.takes(problem.types)) continue;
    Candidate c{&config, false, "", cost(config, problem, device), traffic(config, problem)};
    c.runs = can_run(config, problem, device, &c.reason);
    all.push_back(std::move(c));
  }
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& x, const Candidate& y) {
    if (x.runs != y.runs || !x.runs) return x.runs && !y.runs;
    const bool asked_x = may_choose(*x.config, problem), asked_y = may_choose(*y.config, problem);
    return asked_x != asked_y ? asked_x : x.cost.total < y.cost.total;
  });
  const Config* winner = choose(table, problem, device);
  std::vector<wl_dual_gemm_config> result;
  for (size_t i = 0; i < all.size(); ++i) {
    Candidate& c = all[i];
    if (c.config == winner)
      c.reason =
          praise(c, all.size() > 1 && all[1].runs && may_choose(*all[1].config, problem) ? &all[1]
                                                                                         : nullptr);
    else if (c.runs && !may_choose(*c.config, problem))
      c.reason = "sums of 14 bits are for WL_FAST_ACCUMULATION or a forced configuration";
    else if (c.runs)
      c.reason = against(c, all[0]);
    result.push_back(describe(c, problem, device));
    result.back().chosen = c.config == winner ? 1 : 0;
    copy_text(result.back().reason, c.reason.c_str());
  }
  return result;
}

} // namespace warpline::gemm
