// What configurations of sm90.ptx and sm90_double_buffered.ptx cost, by the model.
#include "kernels/gemm/sm90_plan.hpp"

#include <algorithm>
#include <cmath>

namespace warpline::gemm {

// The model, in SM clocks, from measurements of the dual GEMM on an H200 at 1.75 GHz:
//   wgmma: 64 x N x 16 takes N / 2, at least 16; a consumer of 32 columns runs 8 of them a stage
//   decoding: 200 instructions of each warp a stage; a tenth of them shows under longer MMAs, of up
//   to 64 tokens without a second set of consumers, or in more than one wave, four tenths
//   DRAM bytes of the whole device: 2400
//   launches, first loads and the end of the last tile: 8000
//   the exchange of SPLIT_K CTAs: 700, and 24 a token for what a CTA sends of its sums (16 bytes a
//   clock between two SMs); through the workspace 2500 more
//   outputs: 16 clocks a token of the part that a CTA ends, for each product that makes some; of
//   tiles of 256 tokens in sectors 12 (H100)
// Of the 8000, 4000 are paid for each tile that a cluster of its own makes; of one tensor other
// clusters do not pay them; with 128 tokens the first activations come ahead of most weights, which
// takes 400 less, 700 with splits, 900 with three consumers. Two CTAs an SM take turns.
// A in 16 bits (H100): a launch ahead that orders it takes 0.0023 an element more; one launch 1700
// less, and a stage 84 more for each 32 columns, of 64 columns 134, 95 where K is split, in BF16
// 125, of 256 tokens 70 in all (H200), 100 of splits, 60 of two tensors. Splits of 256 tokens pay
// 1500 of the 4000 in one wave. In BF16 a stage of 64 or 128 tokens takes 18 more for each 32
// columns where K is not split (H200). With fewer tokens a tile a stage takes less, but not as much
// less as its MMAs: of what those save 13 % of 256 tokens, 25 of 128, 15 of three consumers are
// lost again, and half in one launch (H200, 873 problems of 72 to 4096 rows). Four consumers of the
// same 32 columns: a stage takes 240 and 2.3 a token; instead of those 4000 a tile takes 700 to
// 2000 where its K is split, the less the fewer CTAs there are, of 16 tokens always 2000; else 500,
// in more than one wave 2000. Where helpers have some of a tile's K it takes 1500 more.
//
// Of groups CTAs go on from tile to tile; the first of two launches takes 3000 and 4 bytes an
// element of A through L2. Rows are spread as `spread` says. 128 of K of 128 rows of weights take
// 525 clocks and 4.5 a token in tiles of 64, of which a group's last one takes MMAs of all, half or
// a quarter: of 18 rows more than a group has on average, where those are fewer than 44 of the 64,
// the mean of rows that are equally likely. A tile takes 500 besides (H200, layers of 12 to 1536
// tokens, h200_moe.md). Tiles of 144 have as many rows as each other, and MMAs of 80, 128 or 144:
// 560 and 5.4. Tiles of 288 rows (H100): 450 clocks and 7.7 a token; a group has one of up to 288
// rows behind those of 256. With 256 rows a group products of one tensor take 6 % less than with
// tiles of 144 where groups are alike, and as long where they are not; of two tensors 4 % less and
// 2 more, with NVFP4 tokens 3 and 2 (H200): these are left to tiles of 144.
namespace {

Cost grouped_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  Spread s = spread(problem, config.tile_m);
  const bool planes = sm90_plane_ring(config.tile_m);
  const double mean = static_cast<double>(problem.m) / problem.groups.count;
  if (planes) s.tiles = s.groups * std::max(1.0, (mean - 32) / 256 + 0.25);
  const auto k_blocks = static_cast<double>(divide_up(problem.k, config.tile_k));
  const double tiles = s.tiles * static_cast<double>(divide_up(problem.n, config.columns()));
  result.tiles = static_cast<int64_t>(std::ceil(tiles));
  result.clusters = std::min<int64_t>(result.tiles, device.sm_count);
  const int64_t units = result.tiles * (config.spread ? config.split_k : 1);
  result.waves = divide_up(units, std::max<int64_t>(result.clusters, 1));
  const double of_tile = static_cast<double>(problem.m) / s.tiles;
  if (planes) {
    const double rows = std::clamp(of_tile + 20, 80.0, 288.0);
    const bool left = config.b_tensors == 2 && problem.types.a == WL_OPERAND_NVFP4 && mean < 384;
    result.tile_clocks = k_blocks * (450 + 7.7 * rows) * (left ? 1.15 : 1);
    result.epilogue_clocks = (config.b_tensors == 1 ? 14 : 16) * 256;
  } else if (sm90_even_tiles(config.tile_m)) {
    result.tile_clocks = k_blocks * (560 + 5.4 * std::clamp(of_tile + 12, 80.0, 144.0));
    result.epilogue_clocks = 16 * 144;
  } else {
    const double spared = std::clamp(1 - (mean + 18) / 64, 0.3125, 0.75) * s.groups / s.tiles;
    const double rows = config.tile_m * (1 - spared);
    result.tile_clocks = k_blocks * (525 + 4.5 * rows);
    result.epilogue_clocks = 16 * (3 - config.b_tensors) * rows + 500;
  }
  result.loop_clocks = std::max(tiles / std::max(device.sm_count, 1), 1.0) *
                       (result.tile_clocks + result.epilogue_clocks);
  result.memory_clocks = (s.groups * config.b_tensors * static_cast<double>(problem.n) * 9 / 16 +
                          static_cast<double>(problem.m) * 2) *
                         static_cast<double>(problem.k) / 2400;
  const auto elements = static_cast<double>(problem.m) * static_cast<double>(problem.k);
  const double ahead = 3000 + elements * 4 / 2400;
  result.total = 6000 + ahead + std::max(result.loop_clocks, result.memory_clocks);
  return result;
}

// Clocks of a stage of tiles of `rows`: MMAs, and what of the decoding shows beside them.
double stage_clocks(const Config& config, int64_t rows, bool shows_more) {
  const double consumers = config.tile_n / 32.0;
  const double mma = consumers * 8 * std::max(static_cast<double>(rows) / 2, 16.0);
  const double decode = consumers * 200;
  const bool bf16 = config.a_types == bit(WL_OPERAND_BF16) && config.tile_m >= 48;
  const bool split = config.split_k > 1;
  double more = bf16 && config.tile_m < 256 && !split ? 18 * consumers : 0;
  if (config.direct && config.tile_m == 256) more += config.b_tensors == 2 ? 60 : split ? 100 : 70;
  // Of fewer tokens more of the decoding shows.
  const double fewer = consumers * 4 * static_cast<double>(config.tile_m - rows);
  const double of_128 = consumers == 3 ? 0.15 : split ? 0.25 : 0.55;
  more += fewer * (config.tile_m == 128 ? of_128 : config.direct ? 0.5 : 0.13);
  if (bf16 && split && consumers == 3 && rows < 128) more += 45 * config.b_tensors;
  if (config.tile_m == 48) more += consumers == 3 ? 75 : 40;
  if (config.tile_m == 96) more += 127;
  if (config.direct && config.tile_m < 256)
    more += (bf16 ? 125.0 : consumers == 3 ? 84.0 : split ? 95.0 : 134.0) * consumers;
  return std::max(mma, decode) + std::min(mma, decode) * (shows_more ? 0.4 : 0.1) + more;
}
// Of four consumers of the same 32 columns, which take stages in turn.
double in_turn_clocks(const Config& config) { return 240 + 2.3 * config.tile_m; }
// WEIGHTS_FIRST of sm90_kinds.inc: the first activations do not wait for weights of later stages.
bool weights_first(const Config& config) {
  return config.family == Family::sm90 && !config.direct &&
         (config.tile_m == 96 || config.tile_m == 128);
}
// Clusters that the device holds at once; of 4 CTAs an H200 30, as its GPCs have 16 or 18 SMs.
int64_t clusters_at_once(const Config& config, const DeviceLimits& device) {
  const int64_t size = config.cluster[0];
  const int64_t clusters = size == 4 ? device.sm_count * 10 / 44 : device.sm_count / size;
  return std::max<int64_t>(config.ctas * clusters, 1);
}
int64_t k_blocks_of(const Config& config, const Problem& problem) {
  return divide_up(divide_up(problem.k, config.tile_k), config.split_k);
}
int64_t tiles_of_columns(const Config& config, const Problem& problem) {
  return divide_up(problem.n, config.columns() * cluster_rows(config)) * problem.l;
}
// Of STREAM_K configurations.
int64_t tiles_of(const Config& config, const Problem& problem) {
  return divide_up(problem.m, config.tile_m) * tiles_of_columns(config, problem);
}
// Outputs of a tile of `rows`; of splits the first has all of its part.
double output_clocks(const Config& config, int64_t rows) {
  const double of_token = config.store == Store::sectors && config.tile_m == 256 ? 12.0 : 16.0;
  const int64_t ended = config.split_k > 1 ? config.tile_m / config.split_k : rows;
  return of_token * (3 - config.b_tensors) * static_cast<double>(ended);
}
// What it costs that clusters share tiles, `share` stages each: sums are given away and taken, in
// sectors by all that share a tile, each some of its tokens, else by the first of them. In parts of
// tiles clusters with the same operands read them together; else the others of a cluster's stages
// are read at another time than its neighbours' (H100).
double sharing_clocks(const Config& config, const Problem& problem, int64_t share, bool of_one_tile,
                      bool parts, bool behind_whole) {
  const int64_t k_blocks = divide_up(problem.k, config.tile_k);
  const auto sharers = static_cast<double>(divide_up(k_blocks, share));
  // Parts that begin within K wait for what is decoded under the product, of later rows longer;
  // with fewer than 5120 columns decoding is as slow as whole tiles (H100, 1536 x 4096 x 14336: 347
  // us, without sharing 239).
  const bool decodes = config.later && problem.n * config.b_tensors >= sm90_later_columns;
  const bool slowly = problem.n * config.b_tensors < 5120;
  const double waits = problem.m <= config.group_m * config.tile_m ? 100 : slowly ? 1000 : 140;
  const double later = decodes ? waits * static_cast<double>(k_blocks) : config.later ? 3500 : 0;
  if (of_one_tile && config.store == Store::sectors) return 7500 + 1150 * sharers + later;
  const double each = 1950 * sharers + later;
  if (of_one_tile) return 6500 + each;
  return (behind_whole ? 10000 : 9000) + each + (parts ? 0 : 350.0 * static_cast<double>(share));
}
// What the parts of the model say too much of, by kinds of configurations: starts and ends overlap
// (H200, 2530 products of 1 to 1024 rows; launches ahead that have ended before first loads come).
// `busy`: the share of the SMs that have a CTA.
double overlap_clocks(const Config& config, const Problem& problem, double busy) {
  const bool rows = problem.m > config.tile_m, bf16 = config.a_types == bit(WL_OPERAND_BF16);
  const bool split = config.split_k > 1;
  if (config.b_tensors == 2) {
    if (!split || config.tile_n != 64) return 0;
    return config.tile_m == 128 ? 1800 : config.direct ? 800 : 0;
  }
  if (in_turn(config)) {
    if (!split) return bf16 ? 400 : 900;
    return config.tile_m < 32 ? 0 : bf16 ? 1200 : 2000 * busy;
  }
  if (config.ctas == 3) return rows ? 2500 : 1300;
  if (config.tile_n == 96) return split ? 1200 : rows && config.tile_m <= 64 ? 3000 : 0;
  if (config.split_k == 4) return 1400;
  if (config.tile_m == 128) return !split ? 0 : config.direct && problem.m > 256 ? 1500 : 3300;
  if (config.tile_m == 256) return split ? 1200 : 0;
  if (config.ctas == 2) return rows ? 2000 : 500;
  return config.tile_m <= 64 && !bf16 ? 1000 : 0;
}
} // namespace

// As few tiles as hold the rows, or more, where clusters have less to do with those.
Sm90Rows sm90_rows(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Sm90Rows best{};
  double least = 0;
  const int64_t columns = tiles_of_columns(config, problem);
  const int64_t clusters = clusters_at_once(config, device);
  const bool chooses = config.tile_m == 256 && fits_rows(config) && config.grid != Grid::stream_k;
  for (int64_t most = config.tile_m; most > config.tile_m / 2; most -= 16) {
    const int64_t tiles = divide_up(problem.m, most);
    if (tiles == best.tiles) continue;
    const int64_t rows = sm90_rows_of_mmas(config, divide_up(problem.m, tiles));
    const double clocks =
        static_cast<double>(divide_up(tiles * columns, clusters)) *
        (static_cast<double>(k_blocks_of(config, problem)) * stage_clocks(config, rows, false) +
         output_clocks(config, rows));
    if (best.tiles == 0 || clocks < least) best = {tiles, rows}, least = clocks;
    if (!chooses) break;
  }
  return best;
}

// Whole tiles as long as all clusters have one. Of the others a few clusters share each tile, or
// some tiles, or all clusters have as many stages.
Sm90Ranges sm90_ranges(const Config& config, const Problem& problem, int64_t resident) {
  const int64_t k_blocks = divide_up(problem.k, config.tile_k), tiles = tiles_of(config, problem);
  const int64_t rows =
      sm90_rows_of_mmas(config, divide_up(problem.m, divide_up(problem.m, config.tile_m)));
  const double of_stage = stage_clocks(config, rows, false);
  Sm90Ranges best{std::min(tiles, resident), tiles * k_blocks, 0, 0, 1, k_blocks, 0};
  best.clocks = static_cast<double>(divide_up(tiles, resident) * k_blocks) * of_stage;
  // Devices of few SMs, as tests have, share always, and in parts where that is possible.
  const bool few = resident < 16;
  bool found = false;
  const auto consider = [&](bool parts, Sm90Ranges r) {
    r.clusters = resident, r.whole = tiles / resident * resident * k_blocks;
    const int64_t longest = r.whole / resident + r.share + (r.extra != 0 ? 1 : 0);
    const bool of_one_tile = parts && r.span == k_blocks;
    r.clocks =
        static_cast<double>(longest) * of_stage +
        (few ? 0 : sharing_clocks(config, problem, r.share, of_one_tile, parts, r.whole > 0));
    if (r.clocks < best.clocks || (few && !found)) best = r, found = true;
  };
  const int64_t shared = tiles % resident, all = shared * k_blocks;
  if (shared == 0) return best;
  for (const bool alone : {true, false})
    for (int64_t parts : {6, 5, 4, 3, 2}) {
      // The fewest tiles that so many clusters share, so that there are enough clusters.
      const int64_t together = divide_up(shared * parts, resident);
      const int64_t span = together * k_blocks, share = divide_up(span, parts);
      if ((together == 1) != alone || together % parts == 0) continue;
      // Activations that are decoded under the product come in the order of whole tiles' stages.
      if (!alone && (parts > 4 || config.later)) continue;
      const int64_t used = divide_up(span, share); // fewer than `parts` where K is short
      const int64_t of_rest = divide_up(shared % together * k_blocks, share);
      if (used < 2 || shared / together * used + of_rest > resident) continue;
      consider(true, {0, 0, share, 0, used, span, 0});
    }
  if (few ? found : config.later) return best;
  if (all >= resident && all % resident + all / resident % k_blocks != 0)
    consider(false, {0, 0, all / resident, all % resident, resident, 2 * all, 0});
  return best;
}

int64_t sm90_all_stages(const Config& config, const Problem& problem) {
  return tiles_of(config, problem) * divide_up(problem.k, config.tile_k);
}

// A block takes a helper longer than it takes a tile's own CTA, whose sets have the blocks in turn,
// but all of its sets have theirs meanwhile, and the more of them have tiles, the longer; its sums
// take 3500 clocks to come. Found by the fastest of some parts of K of 4608 to 6400 columns (H200).
Sm90Help sm90_help(const Config& config, int64_t tiles, int64_t k_blocks,
                   const DeviceLimits& device) {
  constexpr int64_t sets = 4;
  const int64_t free = std::max(device.sm_count - tiles, divide_up(tiles, sets));
  Sm90Help help{std::min(free, tiles), 0, 0};
  const int64_t each = divide_up(tiles, help.helpers);
  const double own = in_turn_clocks(config);
  const double given = (config.tile_m == 32   ? 710.0
                        : config.tile_m == 48 ? 1060.0
                                              : 1160.0) *
                       (each == 4   ? 1.4
                        : each == 3 ? 1.13
                                    : 1.0);
  const double of_own = (static_cast<double>(k_blocks) * given + 3500) / (own + given);
  help.own_blocks = std::clamp<int64_t>(std::llround(of_own), 1, k_blocks);
  help.clocks = std::max(own * static_cast<double>(help.own_blocks),
                         given * static_cast<double>(k_blocks - help.own_blocks) + 3500);
  return help;
}

int64_t sm90_spread_ctas(const Config& config, const Problem& problem) {
  return divide_up(problem.m, config.tile_m) * divide_up(problem.n, config.columns()) * problem.l *
         config.split_k;
}

Cost sm90_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  if (config.grouped) return grouped_cost(config, problem, device);
  Cost result{};
  const int64_t k_blocks = k_blocks_of(config, problem);
  const Sm90Rows rows = sm90_rows(config, problem, device);
  result.tiles = rows.tiles * tiles_of_columns(config, problem);
  const Sm90Help help =
      config.helped ? sm90_help(config, result.tiles, k_blocks, device) : Sm90Help{};
  const int64_t units = result.tiles * (config.spread ? config.split_k : 1) + help.helpers;
  result.waves = divide_up(units, clusters_at_once(config, device));
  result.clusters = units;

  const bool few = config.split_k == 1 && config.tile_m <= 64;
  const bool again = config.tile_m <= 64 && result.waves > 1;
  const int64_t sms = std::max(device.sm_count, 1);
  result.tile_clocks =
      static_cast<double>(k_blocks) * stage_clocks(config, rows.each, few || again);
  // H100: weights come twice as often as with tiles of 256 tokens, and of so much K from DRAM.
  const bool much = problem.k > 12288 && problem.m >= 1024;
  if (config.tile_m == 128 && config.b_tensors == 1 && config.split_k == 1 && much)
    result.tile_clocks *= 1.08;
  // A second loop, for fewer rows, costs whole tiles as much (H200).
  if (config.tile_m >= 128 && !fits_rows(config) && fitted_apart(config) && config.tile_n == 64)
    result.tile_clocks *= config.tile_m == 128 ? 0.984 : 0.994;
  // Of two sets of consumers blocks beyond the first 20 take longer (H200).
  if (config.tile_n == 64 && config.threads == 640)
    result.tile_clocks += static_cast<double>(std::max<int64_t>(k_blocks - 20, 0)) *
                          (config.tile_m == 32 && config.b_tensors == 1 ? 70 : 114);
  // Without specialised warps loads, decoding and MMA hardly overlap.
  if (config.family == Family::sm90_double_buffered)
    result.tile_clocks += static_cast<double>(k_blocks) * 1000;
  if (in_turn(config)) result.tile_clocks = static_cast<double>(k_blocks) * in_turn_clocks(config);
  if (config.helped) result.tile_clocks = 1500 + help.clocks;
  // Of two CTAs an SM, or three, which take turns; one of three that is alone waits for its loads.
  auto turns = static_cast<double>(config.ctas == 1 ? result.waves : divide_up(units, sms));
  if (config.ctas == 3) {
    const bool bf16 = problem.types.a == WL_OPERAND_BF16;
    result.tile_clocks =
        static_cast<double>(k_blocks) * (248 + 3.15 * config.tile_m + (bf16 ? 12 : 0));
    const int64_t ctas = units * config.split_k, last = ctas % (3 * sms);
    turns = static_cast<double>(3 * (ctas / (3 * sms))) +
            (last == 0 ? 0 : std::max(static_cast<double>(divide_up(last, sms)), 2.4));
  }
  result.loop_clocks = turns * result.tile_clocks;
  const double sent = 1.0 - 1.0 / config.split_k;
  const bool own = config.split_k > 1 || few; // clusters that make one tile
  double start = config.b_tensors == 1 || own ? 4000 : 8000;
  if (weights_first(config)) start -= config.tile_n == 96 ? 900 : config.split_k > 1 ? 700 : 400;
  if (config.direct)
    start -= 1700;
  else if (problem.types.a != WL_OPERAND_NVFP4)
    start += 0.0023 * static_cast<double>(problem.m * problem.l) * static_cast<double>(problem.k);
  result.epilogue_clocks = output_clocks(config, rows.each);
  if (config.split_k > 1) result.epilogue_clocks += 700 + 24.0 * sent * config.tile_m;
  if (config.spread) result.epilogue_clocks += 2500;
  if (config.ctas == 3) {
    // In more than one wave a short K takes longer (H200).
    const double late = 9000 - 700 * static_cast<double>(k_blocks);
    if (units * config.split_k > 3 * sms) result.epilogue_clocks += std::max(late, 0.0);
    result.epilogue_clocks += problem.m > config.tile_m ? 2000 : -500;
  }
  // Where an SM has only two of three CTAs, or one, others were faster.
  if (own && !in_turn(config) && (config.ctas < 3 || turns < 3))
    result.epilogue_clocks += config.tile_m == 256 && result.waves == 1 ? 1500 : 4000;
  const double busy =
      std::min(static_cast<double>(result.tiles * config.split_k) / static_cast<double>(sms), 1.0);
  if (in_turn(config)) {
    if (config.split_k == 1)
      result.epilogue_clocks += result.waves == 1 ? 500 : 2000;
    else
      result.epilogue_clocks += config.tile_m < 32 ? 2000 : 700 + 1300 * busy * busy;
  }
  const double entry_bytes =
      static_cast<double>(config.b_tensors * problem.n) * static_cast<double>(problem.k) * 9 / 16 +
      static_cast<double>(problem.m) * static_cast<double>(problem.k) * 2;
  result.memory_clocks = entry_bytes * static_cast<double>(problem.l) / 2400;
  start -= overlap_clocks(config, problem, busy);
  result.total = start + std::max(result.loop_clocks +
                                      static_cast<double>(result.waves) * result.epilogue_clocks,
                                  result.memory_clocks);
  // Of two tensors CTAs that take turns hide less of each other (H200).
  if (config.b_tensors == 2 && config.ctas == 2 && config.tile_m <= 48)
    result.total *= config.tile_m == 48                      ? 1.02
                    : config.a_types == bit(WL_OPERAND_BF16) ? 1.1
                                                             : 1.05;
  if (config.grid == Grid::stream_k) {
    const Sm90Ranges r = sm90_ranges(config, problem, clusters_at_once(config, device));
    result.clusters = r.clusters, result.loop_clocks = r.clocks;
    result.waves = divide_up(r.whole, r.clusters * k_blocks) + (r.share > 0 ? 1 : 0);
    result.total =
        start + std::max(r.clocks + static_cast<double>(result.waves) * result.epilogue_clocks,
                         result.memory_clocks);
  }
  return result;
}

} // namespace warpline::gemm
