// What an sm100 configuration would cost and move. The choice rests on it; `warpline configs`
// prints it. The figures are the device's published and measured rates; none was timed on a B200.
#include "kernels/gemm/engine.hpp"

#include <algorithm>
#include <cmath>

namespace warpline::gemm {

namespace {

// Of groups, those that have rows, and how many.
int64_t some_groups(const Problem& p) {
  return std::max<int64_t>(std::llround(spread(p, 1).groups), 1);
}
int64_t rows_an_entry(const Problem& p) {
  return p.groups.count == 0 ? p.m : divide_up(p.m, some_groups(p));
}
// Rows of A and rows of B of all products that a CTA's tile has.
int64_t a_rows(const Config& config, const Problem& problem) {
  return config.swapped ? sm100_tokens(rows_an_entry(problem)) : 128;
}
// Of those a CTA gathers, by 16.
double gathered_rows(const Config& config, const Problem& problem) {
  const int64_t rows = divide_up(rows_an_entry(problem), config.cta_group);
  return static_cast<double>(std::min<int64_t>(divide_up(rows, 16) * 16, config.rows()));
}
int64_t b_rows(const Config& config) { return (config.swapped ? 1 : 2) * config.tile_n; }
// Bytes of K elements of a row without its scales.
int64_t row_bytes(wl_operand type, int64_t k) { return k * format_of(type).bits / 8; }
// Columns of tensor memory of a product.
int64_t product_columns(const Config& config, const Problem& problem) {
  return config.swapped ? sm100_tokens(rows_an_entry(problem)) : config.tile_n;
}

// How often L2 is read for SFB of a cluster's columns: multicast, or of MX types by each CTA.
int64_t sfb_copies(const Config& config) { return config.kind == Kind::mx ? config.cluster_m : 1; }

// Bytes of one K tile of one cluster, or of a half that shares K, read from L2 and arriving in one
// of its CTAs. Of a cluster inside the matrix.
struct KTile {
  int64_t a, b, sfa, sfb;             // from L2, the whole cluster
  int64_t a_in, b_in, sfa_in, sfb_in; // into one CTA
  bool a_multicast, b_multicast, sfb_multicast;
};

KTile k_tile(const Config& config, const Problem& problem) {
  const int64_t b_bytes = b_rows(config) * row_bytes(problem.types.b, config.tile_k);
  KTile t{};
  t.a_in = a_rows(config, problem) * row_bytes(problem.types.a, config.tile_k);
  t.a = config.cluster_m * t.a_in;
  t.sfa_in = sm100_sfa_bytes(config);
  t.sfa = config.cluster_m * t.sfa_in;
  t.b = config.cluster_n * b_bytes;
  t.b_in = b_bytes / config.cta_group;
  t.sfb_in = sm100_sfb_bytes(config);
  t.sfb = config.cluster_n * sfb_copies(config) * t.sfb_in;
  t.a_multicast = config.cluster_n > 1;
  t.b_multicast = config.cluster_m > config.cta_group;
  t.sfb_multicast = config.cluster_m > sfb_copies(config);
  return t;
}

// K tiles that a CTA walks through.
int64_t k_tiles(const Config& config, const Problem& p) {
  return divide_up(divide_up(p.k, config.tile_k), config.split_k);
}

// Row tiles of all entries, or groups.
int64_t row_tiles(const Problem& p, int64_t rows) {
  if (p.groups.count == 0) return p.l * divide_up(p.m, rows);
  return std::max<int64_t>(std::llround(spread(p, static_cast<int>(rows)).tiles), 1);
}
int64_t cluster_tiles(const Config& config, const Problem& p) {
  return row_tiles(p, int64_t{config.rows()} * config.cluster_m) *
         divide_up(p.n, config.columns() * config.cluster_n);
}

} // namespace

// A cluster lies inside a GPC. Where larger clusters fit is not published for a part: until the
// driver was asked, the model takes 8 GPCs of equal size, and clusters of 2, the size of a TPC,
// everywhere. No answer counts for more: choose_asking() rests on that.
int64_t most_resident_clusters(int size, const DeviceLimits& device) {
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t gpcs = size > 2 ? 8 : 1;
  return std::max<int64_t>(gpcs * (sms / gpcs / size), 1);
}

int64_t resident_clusters(int size, const DeviceLimits& device) {
  const int64_t most = most_resident_clusters(size, device);
  const int said = size <= DeviceLimits::largest_cluster ? device.resident_clusters[size] : 0;
  return said > 0 ? std::min<int64_t>(said, most) : most;
}

int64_t sm100_all_k_tiles(const Config& config, const Problem& p) {
  return cluster_tiles(config, p) * k_tiles(config, p);
}

int64_t sm100_clusters(const Config& config, const Problem& p, const DeviceLimits& device) {
  const int64_t tile_rows = int64_t{config.rows()} * config.cluster_m;
  const int64_t tiles = p.groups.count == 0
                            ? cluster_tiles(config, p)
                            : p.groups.most_tiles(p.m, tile_rows) *
                                  divide_up(p.n, config.columns() * config.cluster_n);
  const int64_t resident = resident_clusters(config.cluster[0], device);
  if (config.grid == Grid::persistent) return std::min(tiles, resident);
  if (config.grid != Grid::stream_k) return tiles;
  // Shares of K decide how sums are rounded: they rest on the number of SMs alone.
  return std::clamp<int64_t>(sm100_all_k_tiles(config, p) / sm100_least_share, 1,
                             most_resident_clusters(config.cluster[0], device));
}

Traffic traffic(const Config& config, const Problem& problem) {
  Traffic result;
  if (!config.blackwell()) return result;
  const Types types = config.multiplied(problem.types);
  // An MMA without rows or columns loads scales only.
  const int64_t mma_rows = int64_t{config.rows()} * config.cta_group;
  const int64_t ctas_m = divide_up(problem.m, mma_rows) * config.cta_group;
  const int64_t clusters_m = divide_up(problem.m, int64_t{config.rows()} * config.cluster_m);
  const int64_t tiles_n = divide_up(problem.n, config.columns());
  const int64_t clusters_n = divide_up(tiles_n, config.cluster_n);

  const int64_t loads = k_tiles(config, problem) * config.split_k * problem.l;
  result.a =
      loads * ctas_m * clusters_n * a_rows(config, problem) * row_bytes(types.a, config.tile_k);
  result.sfa = loads * clusters_m * config.cluster_m * clusters_n * sm100_sfa_bytes(config);
  result.b = loads * clusters_m * tiles_n * b_rows(config) * row_bytes(types.b, config.tile_k);
  result.sfb = loads * clusters_m * clusters_n * config.cluster_n * sfb_copies(config) *
               sm100_sfb_bytes(config);
  // A and SFA arrive in every CTA of a cluster's row; B once in each MMA, SFB in each CTA.
  result.delivered = (result.a + result.sfa) * config.cluster_n +
                     result.b * (config.cluster_m / config.cta_group) +
                     result.sfb * (config.cluster_m / sfb_copies(config));
  return result;
}

int64_t least_traffic(const Problem& p, int b_tensors) {
  const auto bytes = [&](wl_operand type) {
    const Format& f = format_of(type);
    return row_bytes(type, p.k) + (f.scale_block == 0 ? 0 : p.k / f.scale_block);
  };
  const int64_t matrices = p.groups.count == 0 ? p.l : some_groups(p);
  return p.l * p.m * bytes(p.types.a) + matrices * b_tensors * p.n * bytes(p.types.b);
}

// What an epilogue's stores cost beside its arithmetic; see below.
double store_clocks(const Config& config, const Problem& problem) {
  if (config.d_type == WL_NVFP4) return 0;
  if (config.store == Store::bulk) return 4.0 * config.tile_n + (problem.whole_sectors ? 0 : 128);
  return problem.whole_sectors ? 0 : 8.0 * static_cast<double>(product_columns(config, problem));
}

// The model, in SM clocks (1.85 GHz):
//   fill of one CTA's K tile: bytes for this CTA alone / 64 + multicast bytes / 45
//     (64 bytes a clock is an SM's port; multicast to 2 CTAs was measured at 45 a clock and SM)
//   L2: bytes that all resident clusters read for a K tile / 11000   (20 TB/s, the working value)
//   MMA: 2 * 128 * TILE_N / 64, whatever the type: 128 bytes of K are 256 multiply-adds of 16384 a
//     clock in FP4 (9 PFLOP/s dense over 148 SMs), 128 of 8192 in 8 bits, 64 of 4096, 32 of 2048
//     (MXFP4 in the 8-bit kind as 8 bits). Swapped, the weights are read from shared memory at 128
//     bytes a clock however few the tokens: 128
//   gathered rows of A: 5.4 a row, by 16, as many as a tile has on average: for 16 the thread that
//     asks for them has 33 instructions of machine code, which are taken for 86 clocks
//   a K tile takes the longest of these, and 20 more where the MMA warp waits for scale columns
//     (SCALE_SETS < STAGES)
//   epilogue: 16 a column (128 rows x ex2 and rcp at 16 a clock). With a second accumulator set it
//     runs under the main loop of the next tile: only the last one shows, and tiles come no faster
//     than epilogues. Halves that share K do half of it each, after 1500 clocks for the exchange of
//     their sums. Swapped: 16 a token (its 128 columns and, turned over, twice through shared
//     memory); the exchange takes 700, and a clock for 16 bytes that a CTA gets, as was measured of
//     the kernels for Hopper on an H200. With PING_PONG one warpgroup needs 20 a column, because
//     nothing runs beside its multiplications by product 2 and its stores; the two together keep
//     the pace of 16
//   stores of FP16 and BF16 add to both paces what does not hide: with BULK_STORE 4 a column
//     (128 rows x 2 bytes into and out of shared memory at 128 bytes a clock); where rows of D do
//     not start on 32 bytes half a clock for each sector written in part, which L2 must merge: all
//     sectors of 16-byte stores (8 a column), of TMA 2 a row of a tile, the ends of its two boxes
//     in every other row (128 a tile)
//   start of a CTA: 1500 (first bytes from DRAM, barriers, tensor memory), 400 more in a cluster of
//     several CTAs; for every wave with a cluster for each tile, else once
//   a query of launch control: 50 a wave (the scheduler warp asks while the tile before runs)
//   DRAM: every byte of the problem once / 4160   (7.7 TB/s)
//   waves = cluster tiles / resident clusters, rounded up
//   loops = waves * K tiles of a tile * clocks of a K tile
//   loops with STREAM_K = share * clocks of a K tile, where share = K tiles of all tiles /
//   clusters,
//     rounded up. Where shares are not whole tiles, two things come on top: 16 a column to write
//     sums for another cluster (128 rows x 2 x FP32 at 64 bytes a clock), which a second
//     accumulator set hides as it hides an epilogue, and 1000 + 16 a column to wait for the sums of
//     others and read them
//   weights that a launch ahead decodes: 9/16 of a byte read and 2 written of each, / 4160, and
//   1500
//     for its start; the product reads 2 bytes of each
//   total = max(DRAM, loops + epilogues) + starts. A STREAM_K configuration counts 5 % more: it
//   asks the
//     caller for a workspace, and what flags and sums through L2 cost is not known well enough to
//     decide a close choice
Cost sm100_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  if (config.decodes_ahead(problem.types)) {
    Cost both = sm100_cost(config, decoded_problem(problem, nullptr, 0), device);
    const double weights = static_cast<double>(config.b_tensors * problem.l * problem.n) *
                           static_cast<double>(problem.k);
    const double decoding = weights * (9.0 / 16 + 2) / 4160;
    both.memory_clocks += decoding;
    both.total += decoding + 1500;
    return both;
  }
  Cost result{};
  const KTile t = k_tile(config, problem);
  const int64_t resident = resident_clusters(config.cluster[0], device);
  result.tiles = cluster_tiles(config, problem);
  result.clusters = sm100_clusters(config, problem, device);
  const bool streams = config.grid == Grid::stream_k;
  const int64_t all_k_tiles = sm100_all_k_tiles(config, problem);
  const int64_t share = divide_up(all_k_tiles, result.clusters); // of a STREAM_K configuration
  result.waves =
      streams ? divide_up(share, k_tiles(config, problem)) : divide_up(result.tiles, resident);
  // Of a STREAM_K configuration: clusters that find no room start when others have ended.
  const auto rounds = static_cast<double>(streams ? divide_up(result.clusters, resident) : 1);

  double fill = 0;
  const auto add = [&](int64_t bytes, bool multicast) {
    fill += static_cast<double>(bytes) / (multicast ? 45 : 64);
  };
  add(t.a_in + t.sfa_in, t.a_multicast);
  add(t.b_in, t.b_multicast);
  add(t.sfb_in, t.sfb_multicast);
  const double l2 = static_cast<double>((t.a + t.b + t.sfa + t.sfb) * config.split_k *
                                        std::min(result.clusters, resident)) /
                    11000;
  const auto width = static_cast<double>(product_columns(config, problem));
  const double mma = (config.swapped ? 64 : 2 * width) * 128 / 64;
  const double lag = config.kind == Kind::nvfp4 && config.scale_sets < config.stages ? 20 : 0;
  const double gather = problem.groups.rows == nullptr ? 0 : 5.4 * gathered_rows(config, problem);
  const double k_tile_clocks = std::max({fill, l2, mma, gather}) + lag;
  result.tile_clocks = static_cast<double>(k_tiles(config, problem)) * k_tile_clocks;
  const double stores = store_clocks(config, problem);
  const double received = width * 128 * 4 * (config.split_k - 1) / config.split_k;
  const double exchange = config.split_k == 1 ? 0 : config.swapped ? 700 + received / 16 : 1500;
  const double pace = (16 * width + stores) / config.split_k + exchange;
  result.epilogue_clocks =
      config.epilogue == Epilogue::ping_pong ? 20.0 * config.tile_n + stores : pace;

  const double d_bytes = problem.d_type == WL_F32 ? 4 : problem.d_type == WL_NVFP4 ? 9.0 / 16 : 2;
  const double outputs = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                         static_cast<double>(problem.l);
  result.memory_clocks =
      (static_cast<double>(least_traffic(problem, config.b_tensors)) + d_bytes * outputs) / 4160;

  const double waves = static_cast<double>(result.waves);
  const double shown =
      config.acc_stages > 1
          ? result.epilogue_clocks + (waves - 1) * std::max(pace - result.tile_clocks, 0.0)
          : waves * result.epilogue_clocks;
  result.loop_clocks =
      streams ? rounds * static_cast<double>(share) * k_tile_clocks : waves * result.tile_clocks;
  if (streams && all_k_tiles % (result.clusters * k_tiles(config, problem)) != 0)
    result.loop_clocks +=
        (config.acc_stages > 1 ? 0 : 16.0 * config.tile_n) + 1000 + 16.0 * config.tile_n;
  const double start = 1500 + (config.cluster[0] > 1 ? 400 : 0);
  result.total = std::max(result.loop_clocks + shown, result.memory_clocks) +
                 (config.grid == Grid::one_tile ? waves * start : start) +
                 (config.grid == Grid::launch_control ? waves * 50 : 0);
  if (streams) result.total *= 1.05;
  return result;
}

} // namespace warpline::gemm
