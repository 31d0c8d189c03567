#include "kernels/norm/rows.hpp"

#include "runtime/src/context.hpp"

#include <algorithm>
#include <bit>

namespace warpline::norm {

namespace {

// Of rows.inc.
constexpr int64_t norm_warps = 16, most_slots = 32, totals_at = 1024;

constexpr int64_t least_team = 4, most_in_tables = 8192;

// Of held.inc: TOTALS, TEAM_TOTALS, bytes of gamma; warps beside the loader's; teams with two named
// barriers each.
constexpr int64_t held_totals_at = 2560, team_totals = 2048, gamma_bytes = 32768, held_warps = 31,
                  held_teams = 7;

// Of held_units.inc: TOTALS; warps; teams with two named barriers each; bytes on their way to an
// SM, of which more came no sooner on an H200.
constexpr int64_t unit_totals_at = 512, unit_warps = 32, unit_teams = 8,
                  bytes_on_their_way = 8 * 2 * 7168;

// Rows are shared out over the grid, and the grid over the device.
void share_rows(int64_t m, int64_t ctas, int64_t bytes_in_slots, int64_t threads, Work* work) {
  work->launch.grid[0] = static_cast<unsigned>(ctas);
  work->launch.block[0] = static_cast<unsigned>(threads);
  work->launch.dynamic_shared_bytes = static_cast<unsigned>(work->slots_at + bytes_in_slots);
  work->launch.programmatic_dependent = true;
  work->step_rows = static_cast<uint32_t>(ctas % m);
  work->step_entries = static_cast<uint32_t>(ctas / m);
}

} // namespace

// As many teams as there are rows for, of at least four warps, of more where rows are few; and
// slots for half as many rows again, which come while the teams work. Gamma and beta lie in shared
// memory where that leaves room for rows: on an H200 reading them elsewhere for every row took a
// third of the time.
Work share_out(int64_t m, int64_t k, int64_t l, bool residual, int tables,
               const DeviceLimits& device) {
  Work work{};
  const int64_t sms = std::max(device.sm_count, 1), rows = m * l;
  const int64_t ctas = std::min(rows, sms), rows_each = divide_up(rows, ctas);
  const int64_t slot_bytes = 2 * k * (residual ? 2 : 1), team_bytes = k / 2;
  const int64_t number_bytes = k <= most_in_tables ? 4 * k * tables : 0;
  const int64_t warps_of_use =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(divide_up(k, 512))));
  const auto fit = [&](int64_t teams) {
    const int64_t at = (totals_at + teams * team_bytes + 127) / 128 * 128 + number_bytes;
    return std::min((device.shared_bytes_per_block - at) / slot_bytes, most_slots);
  };
  work.team_warps = std::min(least_team, warps_of_use);
  for (; 2 * work.team_warps <= norm_warps && work.team_warps < warps_of_use;
       work.team_warps *= 2) {
    const int64_t teams = norm_warps / work.team_warps;
    if (teams <= rows_each && 2 * fit(teams) >= 3 * teams) break;
  }
  work.teams = std::min(norm_warps / work.team_warps, rows_each);
  while (work.teams > 1 && fit(work.teams) < work.teams) --work.teams;
  work.slots = std::min(fit(work.teams), std::max(rows_each, work.teams));
  work.slots_at = (totals_at + work.teams * team_bytes + 127) / 128 * 128;
  work.numbers_at = number_bytes != 0 ? work.slots_at : 0;
  work.slots_at += number_bytes;
  share_rows(m, ctas, work.slots * slot_bytes, 32 * (norm_warps + 1), &work);
  return work;
}

Work share_out_held(int64_t m, int64_t k, int64_t l, bool residual, const DeviceLimits& device) {
  Work work{};
  const int64_t rows = m * l, ctas = std::min<int64_t>(rows, std::max(device.sm_count, 1));
  const int64_t slot_bytes = 2 * k * (residual ? 2 : 1), rows_each = divide_up(rows, ctas);
  work.team_warps = divide_up(k, 1024);
  work.teams = std::min({held_warps / work.team_warps, held_teams, rows_each});
  const auto slots = [&] { return (device.shared_bytes_per_block - work.slots_at) / slot_bytes; };
  for (;; --work.teams) { // a slot for each, at least
    work.numbers_at = held_totals_at + work.teams * team_totals;
    work.slots_at = work.numbers_at + gamma_bytes;
    if (slots() >= work.teams || work.teams == 1) break;
  }
  work.slots = std::min({slots(), most_slots, std::max(rows_each, work.teams)});
  share_rows(m, ctas, work.slots * slot_bytes, 32 * (work.teams * work.team_warps + 1), &work);
  return work;
}

Work share_out_units(int64_t m, int64_t k, int64_t l, bool residual, wl_norm norm,
                     const DeviceLimits& device) {
  Work work{};
  const int64_t rows = m * l, units = divide_up(rows, unit);
  const int64_t ctas = std::min<int64_t>(units, std::max(device.sm_count, 1));
  const int64_t slot_bytes = 2 * k * (residual ? 2 : 1);
  work.team_warps = divide_up(k, 1024);
  work.teams = std::min({unit_warps / work.team_warps, unit_teams, divide_up(units, ctas)});
  const auto slots = [&] { // of a team
    return (device.shared_bytes_per_block - work.slots_at) / slot_bytes / work.teams;
  };
  for (;; --work.teams) {
    work.numbers_at = unit_totals_at + work.teams * team_totals;
    work.slots_at = work.numbers_at + (norm == WL_NORM_LAYER ? 2 : 1) * gamma_bytes;
    if (slots() >= 1 || work.teams == 1) break;
  }
  const int64_t of_use = std::max<int64_t>(2, bytes_on_their_way / slot_bytes / work.teams);
  const int64_t most_rows = unit * divide_up(units, ctas * work.teams);
  work.slots = std::min({slots(), of_use, most_rows, rows});
  share_rows(m, ctas, work.slots * work.teams * slot_bytes, 32 * work.teams * work.team_warps,
             &work);
  return work;
}

Params params_of(const Rows& rows, const Work& work) {
  Params params{};
  params.x = address_of(rows.x);
  params.residual = address_of(rows.residual);
  params.sum = address_of(rows.sum);
  params.gamma = address_of(rows.gamma);
  params.beta = address_of(rows.beta);
  params.d = address_of(rows.d);
  params.sfd = address_of(rows.sfd);
  params.d_scale = address_of(rows.d_scale);
  params.ldx = static_cast<uint64_t>(rows.ldx);
  params.batch_stride_x = static_cast<uint64_t>(rows.batch_stride_x);
  params.ldr = static_cast<uint64_t>(rows.ldr);
  params.batch_stride_r = static_cast<uint64_t>(rows.batch_stride_r);
  params.m = static_cast<uint32_t>(rows.m);
  params.k = static_cast<uint32_t>(rows.k);
  params.l = static_cast<uint32_t>(rows.l);
  params.eps = rows.eps;
  params.wide_gamma = rows.gamma_type == WL_F32 ? 1 : 0;
  params.step_rows = work.step_rows;
  params.step_entries = work.step_entries;
  params.team_shift =
      static_cast<uint32_t>(std::countr_zero(static_cast<uint64_t>(work.team_warps)));
  params.teams = static_cast<uint32_t>(work.teams);
  params.slots = static_cast<uint32_t>(work.slots);
  params.fulls = static_cast<uint32_t>(divide_up(work.slots, work.teams) * work.teams);
  params.numbers_at = static_cast<uint32_t>(work.numbers_at);
  params.slots_at = static_cast<uint32_t>(work.slots_at);
  return params;
}

wl_status load(wl_context& context, const Image& image, const Kernel** kernel) {
  KernelNeeds needs;
  using Block = Params;
  needs.params = {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/norm/rows_params.def"
  };
  // A kernel is loaded once: with all that any plan may ask for.
  needs.dynamic_shared_bytes = context.limits.shared_bytes_per_block;
  return load_kernel(context, image, needs, kernel);
}

} // namespace warpline::norm
