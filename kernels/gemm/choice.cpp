// Which configuration of a table takes a problem.
#include "kernels/gemm/engine.hpp"
#include "kernels/gemm/sm90_plan.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warpline::gemm {

// The last tile of a group that has several is half full on average.
Spread spread(const Problem& problem, int tile_rows) {
  const double groups = problem.groups.count, tile = tile_rows;
  const double mean = static_cast<double>(problem.m) / groups;
  const double some = 1 - std::exp(-mean);
  return {groups * some, groups * (some + std::max(0.0, mean / tile - 0.5))};
}

const char* dtype_name(wl_dtype type) {
  switch (type) {
  case WL_F16:
    return "WL_F16";
  case WL_BF16:
    return "WL_BF16";
  case WL_NVFP4:
    return "WL_NVFP4";
  default:
    return "WL_F32";
  }
}

bool can_run(const Config& config, const Types& types, wl_dtype d_type, const DeviceLimits& device,
             std::string* reason) {
  if (reason == nullptr) // no texts that nobody reads
    return config.takes(types) && config.d_type == d_type &&
           config.cluster[0] <= device.max_cluster &&
           config.shared_bytes <= device.shared_bytes_per_block &&
           target_runs_on(config.target, device.compute_major, device.compute_minor);
  std::string why = target_mismatch(config, device);
  if (why.empty() && !config.takes(types)) why = "it multiplies other types";
  if (why.empty() && config.d_type != d_type)
    why = format("it writes %s", dtype_name(config.d_type));
  if (why.empty() && config.cluster[0] > device.max_cluster)
    why = format("its cluster of %d CTAs is larger than the device's limit of %d",
                 config.cluster[0], device.max_cluster);
  if (why.empty() && config.shared_bytes > device.shared_bytes_per_block)
    why = format("it needs %d bytes of shared memory, the device has %d", config.shared_bytes,
                 device.shared_bytes_per_block);
  *reason = why;
  return why.empty();
}

bool can_run(const Config& config, const Problem& problem, const DeviceLimits& device,
             std::string* reason) {
  if (!can_run(config, problem.types, problem.d_type, device, reason)) return false;
  if (problem.operands.column != nullptr && !config.column_factors) {
    if (reason != nullptr) *reason = "it takes no factors of columns";
    return false;
  }
  if (config.routed != problem.groups.routed()) {
    if (reason != nullptr)
      *reason = config.routed ? "it multiplies rows that say with which matrix"
                              : "it multiplies rows in the order of their matrices";
    return false;
  }
  if (problem.groups.counted && !config.counts()) {
    if (reason != nullptr) *reason = "it counts no rows of matrices";
    return false;
  }
  if (problem.groups.counted && problem.m > Groups::most_counted) {
    if (reason != nullptr) *reason = "it counts at most 1024 rows";
    return false;
  }
  if (problem.groups.in_order && !config.orders_d() && !config.takes_ordered()) {
    if (reason != nullptr) *reason = "it multiplies rows as they lie";
    return false;
  }
  if (config.summed != (problem.groups.sum.each != 0)) {
    if (reason != nullptr)
      *reason = config.summed ? "it adds up a token's rows" : "it leaves rows as they are";
    return false;
  }
  if (config.summed && problem.groups.sum.each > Groups::Sum::most) {
    if (reason != nullptr) *reason = "it adds up at most 8 rows of a token";
    return false;
  }
  if (config.routed && problem.m > Groups::most_routed) {
    if (reason != nullptr) *reason = "it multiplies at most 64 rows";
    return false;
  }
  if (config.spread) {
    const int64_t ctas = sm90_spread_ctas(config, problem), sms = std::max(device.sm_count, 1);
    if (ctas <= sms) return true;
    if (reason != nullptr)
      *reason = format("its CTAs wait for each other: %lld of this problem, the device holds %lld",
                       static_cast<long long>(ctas), static_cast<long long>(sms));
    return false;
  }
  if (config.helped && (problem.m > config.tile_m || problem.l > 1)) {
    if (reason != nullptr)
      *reason = format("it multiplies at most %d rows of one entry", config.tile_m);
    return false;
  }
  if (config.grid != Grid::stream_k) return true;
  const int64_t k_tiles = config.family == Family::sm90_native ? sm90_native_stages(config, problem)
                          : config.family == Family::sm90      ? sm90_all_stages(config, problem)
                                                               : sm100_all_k_tiles(config, problem);
  const int64_t limit = int64_t{1} << 31;
  if (k_tiles < limit) return true;
  if (reason != nullptr)
    *reason = format("its clusters share fewer than 2^31 K tiles of %d, the problem has %lld",
                     config.tile_k, static_cast<long long>(k_tiles));
  return false;
}

Cost cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  switch (config.family) {
  case Family::sm100:
    return sm100_cost(config, problem, device);
  case Family::sm90_native:
    return sm90_native_cost(config, problem, device);
  case Family::sm90_small:
    return sm90_small_cost(config, problem, device);
  case Family::sm90_stream:
    return sm90_stream_cost(config, problem, device);
  default:
    return sm90_cost(config, problem, device);
  }
}

bool may_choose(const Config& config, const Problem& problem) {
  return !config.fast_sums || (problem.flags & WL_FAST_ACCUMULATION) != 0;
}

const Config* choose(const Table& table, const Problem& problem, const DeviceLimits& device) {
  const Config* best = nullptr;
  double best_total = 0;
  for (const Config& config : table) {
    if (!can_run(config, problem, device, nullptr) || !may_choose(config, problem)) continue;
    const double total = cost(config, problem, device).total;
    if (best == nullptr || total < best_total) {
      best = &config;
      best_total = total;
    }
  }
  return best;
}

namespace {

// The driver answers for a loaded kernel only, so the first choice rests on an estimate. That is
// never below the answer: a configuration that is still the best with its answer known is the best
// with all answers known, whatever plans were made before.
wl_status choose_asking(wl_context* context, const Table& table, const Problem& problem,
                        DeviceLimits* device, const Config** chosen) {
  for (;;) {
    const Config* config = *chosen = choose(table, problem, *device);
    if (config == nullptr || !config->blackwell()) return WL_SUCCESS;
    const int size = config->cluster[0];
    const int64_t estimate = resident_clusters(size, *device);
    if (device->resident_clusters[size] != 0) return WL_SUCCESS;
    WL_TRY(learn_resident_clusters(context, *config, device));
    if (resident_clusters(size, *device) == estimate) return WL_SUCCESS;
  }
}

} // namespace

wl_status take(wl_context* context, const Table& table, const Problem& problem, const char* forced,
               const Config** taken) {
  DeviceLimits device = known_limits(*context);
  if (forced != nullptr)
    *taken = find_config(table, forced);
  else
    WL_TRY(choose_asking(context, table, problem, &device, taken));
  if (*taken != nullptr) return WL_SUCCESS;
  std::vector<std::pair<std::string, int>> counts; // of configurations, by reason
  std::string reason, reasons;
  for (const Config& candidate : table) {
    if (can_run(candidate, problem, context->limits, &reason)) continue;
    const auto same = [&](const auto& entry) { return entry.first == reason; };
    const auto found = std::find_if(counts.begin(), counts.end(), same);
    if (found == counts.end())
      counts.emplace_back(reason, 1);
    else
      ++found->second;
  }
  for (const auto& [why, count] : counts)
    reasons += (reasons.empty() ? "" : "; ") + std::to_string(count) + " configurations: " + why;
  const std::string of = problem.types == Types{} ? "" : " of " + name_of(problem.types);
  return fail(WL_ERROR_NOT_SUPPORTED, "no configuration makes %s%s on %s: %s",
              dtype_name(problem.d_type), of.c_str(), context->limits.name.c_str(),
              reasons.c_str());
}

wl_status make_product_plan(wl_context* context, const Problem& problem, const Config& config,
                            wl_plan** plan) {
  if (problem.plain_sfa || problem.plain_sfb)
    return make_packing_plan(context, problem, config, plan);
  if (config.decodes_ahead(problem.types))
    return make_decoding_plan(context, problem, config, plan);
  switch (config.family) {
  case Family::sm100:
    return make_sm100_plan(context, problem, config, plan);
  case Family::sm90_native:
    return make_sm90_native_plan(context, problem, config, plan);
  case Family::sm90_small:
  case Family::sm90_stream:
    return make_sm90_small_plan(context, problem, config, plan);
  default:
    return make_sm90_plan(context, problem, config, plan);
  }
}

} // namespace warpline::gemm
