// What configurations of sm90_small.ptx and sm90_stream.ptx cost, by the model.
#include "kernels/gemm/sm90_small_tiles.hpp"

#include <algorithm>
#include <cmath>

namespace warpline::gemm {

using namespace sm90_small;

int64_t sm90_small::routed_clusters(const Problem& problem, const Config& config, int64_t each) {
  const int64_t rows = config.summed ? problem.m / cluster_size(problem, config) : problem.m;
  return divide_up(tiles_n(config, problem.n), each) * rows;
}

// Tiles of columns that a cluster makes, a CTA alone or those that share K. A tile whose K does not
// fill the stages leaves little under way, and CTAs that follow others start anew: where one wave
// does not hold all of them, three (H200, Qwen3's down product of 2 tokens: 18.0 us a layer, of 2
// and 4 tiles 18.4 and 19.3, of one 20.1). Otherwise as few as fill one wave about evenly (of 4
// tokens, gate and up: two 31.0, one 31.8; of 3 tokens, which they do not fill so, 28.1 and 26.8).
// Three by two CTAs are one and a half for each (of 3 tokens 25.0), where an SM gets all CTAs that
// it holds: with two of three 2 tokens took 18.5, with one tile for each CTA 17.9.
int64_t sm90_small::tiles_each(const Problem& problem, const Config& config,
                               const DeviceLimits& device) {
  if (!config.goes_on()) return 1;
  const int64_t size = cluster_size(problem, config);
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t held = held_clusters(device, size, routed_resident(config));
  const int64_t all = routed_clusters(problem, config, 1);
  if (all <= held) return 1;
  if (divide_up(problem.k, config.tile_k) < config.stages) return most_tiles_each;
  const auto even = static_cast<double>(all * size) / static_cast<double>(sms);
  for (int64_t each = 2; each <= most_tiles_each; ++each) {
    if (config.keeps_sums() && each == 2) continue;
    const int64_t clusters = routed_clusters(problem, config, each);
    const auto fullest = static_cast<double>(each * divide_up(clusters * size, sms));
    const bool full = divide_up(clusters * size, sms) == routed_resident(config);
    if (clusters <= held && fullest <= 1.1 * even && (full || !config.keeps_sums())) return each;
  }
  return 1;
}

// The models, in SM clocks, from measurements on an H200 at 1.75 GHz. DRAM bytes of the whole
// device: 2400.
//
// Of two tensors: `Turns`.
//
// Of one: for 256 k of 32 columns a CTA takes 190 clocks and 8 for each token of an SM that is
// busy, and by itself, on an H100 at the same clock, at least 327 and 4.3 for each token, 9 % more
// where warps decode or consume twice as much, which takes a busy SM 6 % longer from the second
// wave on. Launch: 2380, of clusters of 4 320 more; first loads and sums of each wave: 1720. Of
// clusters of 4 an H200 holds 30 for each CTA that fits an SM: its GPCs have 16 or 18 SMs.
// Tokens in BF16 take 10 % more, 16 of them 24, which
// was found, as what follows `dense`, from 690 products of 1 to 64 rows.
//
// Of rows that say which matrix is theirs, fitted to layers of 1 to 8 tokens: for 256 k of 32 rows
// of weights an SM takes 254 clocks, of two tensors twice that for as many of each; a CTA by itself
// at least 750, and 560; 900 for each CTA of an SM, its start and its outputs; launch and first
// loads 2800.
//
// Of groups CTAs go on from tile to tile: an SM takes 84 clocks and 16.5 a token for 256 k of 32
// rows of weights, of two tensors 110 and 14, and 250 and 16 a column for a tile's sums and
// outputs. Tiles of 16 tokens with up to 8 take what those of 8 do. Rows are spread as `spread`
// says where groups have more than a tile; where they have less some are larger than others:
// between even and skewed routing (64 tokens, 8 of 128 experts, the n-th 1 / n as often) a share of
// groups that grows with the square of the mean has a second tile. Launch, first loads and the end
// of the last tile: 4000. Products of layers of Qwen3, DeepSeek-V3 and GPT-OSS of 24 to 1536 tokens
// took 0.87 to 1.1 of it, the mean of both routings (H200, h200_moe.md).
namespace {

// Tiles of all rows.
double uneven_tiles(const Problem& problem, int tile_rows) {
  const Spread s = spread(problem, tile_rows);
  const double tiles_each = static_cast<double>(problem.m) / problem.groups.count / tile_rows;
  return s.tiles + (tiles_each < 1 ? problem.groups.count * (tiles_each * tiles_each / 2 -
                                                             std::max(0.0, tiles_each - 0.5))
                                   : 0);
}

Cost grouped_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const Spread s = spread(problem, config.tile_m);
  const double sms = std::max(device.sm_count, 1), columns = static_cast<double>(problem.n);
  const double row_tiles = uneven_tiles(problem, config.tile_m);
  const double tiles = row_tiles * static_cast<double>(tiles_n(config, problem.n));
  const int resident = sm90_small_ctas(config.tile_n, config.decoders);
  const auto k_blocks = static_cast<double>(divide_up(problem.k, config.tile_k));
  result.tiles = static_cast<int64_t>(std::ceil(tiles));
  result.clusters = std::min(result.tiles, int64_t{resident} * device.sm_count);
  result.waves = divide_up(result.tiles, std::max<int64_t>(result.clusters, 1));
  double tokens = config.tile_m;
  if (config.tile_m == 16) tokens = 8 + 8 * std::min(1.0, uneven_tiles(problem, 8) / row_tiles - 1);
  const double busy =
      (config.b_tensors == 1 ? 84 + 16.5 * tokens : 110 + 14 * tokens) * config.tile_n / 16;
  result.epilogue_clocks = 250 + 16.0 * config.tile_n;
  result.tile_clocks = k_blocks * std::max(busy, 590 + 13.0 * tokens);
  result.loop_clocks =
      std::max(tiles / sms * (k_blocks * busy + result.epilogue_clocks),
               static_cast<double>(result.waves) * (result.tile_clocks + result.epilogue_clocks));
  result.memory_clocks =
      s.groups * config.b_tensors * columns * static_cast<double>(problem.k) * 9 / 16 / 2400;
  result.total = 4000 + std::max(result.loop_clocks, result.memory_clocks);
  return result;
}

Cost routed_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const int64_t sms = std::max(device.sm_count, 1), size = cluster_size(problem, config);
  const int64_t each = tiles_each(problem, config, device);
  const int resident = routed_resident(config);
  const int64_t held = std::max<int64_t>(held_clusters(device, size, resident), 1);
  const int64_t clusters = routed_clusters(problem, config, each);
  result.tiles = tiles_n(config, problem.n) * problem.m;
  result.clusters = clusters;
  result.waves = divide_up(clusters, held);
  const auto blocks =
      static_cast<double>(each * divide_up(divide_up(problem.k, config.tile_k), config.split_k));
  const double busy = config.b_tensors == 1 ? 254 : 508, alone = config.b_tensors == 1 ? 750 : 560;
  result.epilogue_clocks = 900;
  result.tile_clocks = blocks * alone;
  // CTAs of the fullest SM.
  const auto most_of = [&](int64_t of) {
    int64_t most = divide_up(of * size, sms);
    while (most < resident && held_clusters(device, size, most) < of) ++most;
    return static_cast<double>(std::min<int64_t>(most, resident));
  };
  const auto wave = [&](int64_t of) {
    if (of == 0) return 0.0;
    return std::max(most_of(of) * (blocks * busy + result.epilogue_clocks),
                    result.tile_clocks + result.epilogue_clocks);
  };
  const int64_t full = clusters / held;
  result.loop_clocks = static_cast<double>(full) * wave(held) + wave(clusters % held);
  result.memory_clocks = static_cast<double>(config.b_tensors * problem.n * problem.m) *
                         static_cast<double>(problem.k) * 9 / 16 / 2400;
  // The fullest SM is waited for: it takes more than an even share of the bytes.
  if (result.waves == 1)
    result.memory_clocks *= std::clamp(most_of(clusters) * static_cast<double>(sms) /
                                           static_cast<double>(clusters * size),
                                       1.0, 2.0);
  result.total = 2800 + std::max(result.loop_clocks, result.memory_clocks);
  return result;
}

// Clusters that take as long as the last wave: where it has a CTA for more than 6 of 7 SMs, its
// CTAs crowd into those that are free first, else they are spread evenly (H200).
int64_t crowded(int64_t clusters, int64_t held, int64_t size, int64_t sms) {
  const int64_t last = clusters % held;
  return clusters > held && 7 * last * size > 6 * sms ? held : last;
}

// Of two tensors, from 247 timings of 1 to 16 rows (H200): a launch, a wave behind the first one,
// and a block of K of a CTA that shares its SM and of one that has it alone.
struct Turns {
  double launch, wave, busy, alone;
};

void turns_cost(const Turns& t, int64_t held, int64_t size, int64_t k_blocks, int64_t sms,
                Cost* result) {
  const auto k = static_cast<double>(k_blocks);
  const auto of_wave = [&](int64_t of) {
    const auto an_sm = static_cast<double>(divide_up(of * size, sms));
    return of == 0 ? 0 : an_sm > 1 ? k * an_sm * t.busy : k * t.alone;
  };
  result->tile_clocks = k * t.alone;
  // Of a short K a wave hides less of the next one's start.
  result->epilogue_clocks = t.wave + std::max(4000 - 500 * k, 0.0);
  result->loop_clocks = static_cast<double>(result->clusters / held) * of_wave(held) +
                        of_wave(result->clusters % held);
  result->total = t.launch + static_cast<double>(result->waves - 1) * result->epilogue_clocks +
                  std::max(result->loop_clocks, result->memory_clocks);
}

} // namespace

Cost sm90_small_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  if (config.grouped) return grouped_cost(config, problem, device);
  if (config.routed) return routed_cost(config, problem, device);
  Cost result{};
  const int64_t tiles_m = row_tiles(problem, config), l = problem.l;
  const bool one = config.b_tensors == 1;
  const int64_t sms = std::max(device.sm_count, 1), size = config.cluster[0];
  const int resident = sm90_small_ctas(config.tile_n, config.decoders);
  result.tiles = result.clusters = tiles_m * tiles_n(config, problem.n) * l;
  const int64_t held = one ? held_clusters(device, size, resident) : resident * sms / size;
  const int64_t clusters = std::max<int64_t>(held, 1);
  result.waves = divide_up(result.clusters, clusters);
  const int64_t k_blocks = divide_up(divide_up(problem.k, config.tile_k), config.split_k);
  result.memory_clocks = static_cast<double>(config.b_tensors * problem.n * tiles_m * l) *
                         static_cast<double>(problem.k) * 9 / 16 / 2400;
  if (one) {
    const bool dense = config.tile_m == 16 && config.decoders == 2;
    const bool twice = config.tile_n == 32 || dense;
    const double tokens = config.tile_m, more = dense && result.waves > 1 ? 1.06 : 1;
    const double busy = (190 + 8 * tokens) * config.tile_n / 16 * more;
    const double alone = (327 + 4.3 * tokens) * (twice ? 1.09 : 1);
    result.tile_clocks = static_cast<double>(k_blocks) * std::max(alone, busy);
    result.epilogue_clocks = 1720;
    const auto waves = static_cast<double>(result.waves);
    const auto of_wave = [&](int64_t of) {
      const auto an_sm = static_cast<double>(divide_up(of * size, sms));
      return of == 0 ? 0 : static_cast<double>(k_blocks) * std::max(alone, an_sm * busy);
    };
    result.loop_clocks = static_cast<double>(result.clusters / clusters) * of_wave(clusters) +
                         of_wave(result.clusters % clusters);
    result.total = 2380 + (size == 4 ? 320 : 0) + waves * result.epilogue_clocks +
                   std::max(result.loop_clocks, result.memory_clocks);
    // H200, 16 x 4096 x 14336: 14.7 us, t16c32_split 13.4.
    if (tokens == 16 && problem.k > 12288) result.total *= 1.06;
    // 32 x 2880 x 2880: 6.0 us, with A in BF16 7.4; t32c32_split 5.7 and 5.8.
    const bool bf16 = (config.a_types & bit(WL_OPERAND_BF16)) != 0;
    if (tiles_m > 1)
      result.total *= bf16 ? 1.32 : 1.09;
    else if (bf16)
      result.total *= config.tile_m == 16 && config.tile_n == 16 ? 1.24
                      : config.tile_n == 16 || problem.k < 12288 ? 1.1
                                                                 : 1;
    if (dense) result.total *= config.split_k == 1 ? 1.09 : 1.06;
    // Of four splits one whose last block is not whole takes longer: 8 x 2880 x 2880 4.7 us, two
    // splits 3.9.
    if (size == 4 && problem.k % config.tile_k != 0) result.total += 1000;
    return result;
  }
  const bool bf16 = (config.a_types & bit(WL_OPERAND_BF16)) != 0;
  const bool nvfp4 = (config.a_types & bit(WL_OPERAND_NVFP4)) != 0;
  const Turns turns = config.tile_m == 16 ? Turns{2820, 900, 670, 770}
                      : nvfp4             ? Turns{2790, 1380, 569, 667}
                      : bf16              ? Turns{3410, 2920, 556, 659}
                                          : Turns{3310, 2880, 533, 603};
  turns_cost(turns, clusters, size, k_blocks, sms, &result);
  if (problem.m > 16) result.total *= config.tile_m == 16 ? 1.3 : 1.1;
  return result;
}

// In SM clocks, from the same H200: 256 k of 64 rows of weights take a CTA 535 clocks and 6 a token
// by itself, and an SM 415 and 11.4 for each that it has. Launch, first loads and the end of the
// last tile: 2800 and 100 a token; each wave behind the first one: 1000 and 310 a token. With NVFP4
// activations, from an H100: 398 and 23.8, 405 and 20.8, 3940 and 20, 1850 and 78. Tiles of 16
// tokens take longer with up to 8 than with 16, BF16 5 % longer, and K of 16 bits that is not
// shared 3. Of two tensors: `Turns`.
Cost sm90_stream_cost(const Config& config, const Problem& problem, const DeviceLimits& device) {
  Cost result{};
  const int64_t tiles = divide_up(problem.m, config.tile_m) * tiles_n(config, problem.n);
  result.tiles = result.clusters = tiles * problem.l;
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t clusters = std::max<int64_t>(config.ctas * (sms / config.cluster[0]), 1);
  result.waves = divide_up(result.tiles, clusters);
  const auto k_blocks =
      static_cast<double>(divide_up(divide_up(problem.k, config.tile_k), config.split_k));
  const bool nvfp4 = (config.a_types & bit(WL_OPERAND_NVFP4)) != 0;
  const double tokens = config.tile_m;
  const bool bf16 = (config.a_types & bit(WL_OPERAND_BF16)) != 0;
  result.memory_clocks = static_cast<double>(config.b_tensors * problem.n * problem.l) *
                         static_cast<double>(divide_up(problem.m, config.tile_m) * problem.k) * 9 /
                         16 / 2400;
  if (config.b_tensors == 2 && !nvfp4 && problem.m <= config.tile_m) {
    turns_cost(bf16 ? Turns{2660, 1300, 756, 864} : Turns{2650, 1600, 705, 820}, clusters,
               config.split_k, static_cast<int64_t>(k_blocks), sms, &result);
    if (problem.m <= 8) result.total *= 1.06;
    return result;
  }
  result.tile_clocks = k_blocks * (nvfp4 ? 398 + 23.8 * tokens : 535 + 6 * tokens);
  const double busy = nvfp4 ? 405 + 20.8 * tokens : 415 + 11.4 * tokens;
  const auto of_wave = [&](int64_t of) {
    const auto an_sm = static_cast<double>(divide_up(of * config.split_k, sms));
    return of == 0 ? 0 : std::max(result.tile_clocks, k_blocks * busy * an_sm);
  };
  result.loop_clocks = static_cast<double>(result.tiles / clusters) * of_wave(clusters) +
                       of_wave(crowded(result.tiles, clusters, config.split_k, sms));
  result.epilogue_clocks = nvfp4 ? 1850 + 78 * tokens : 1000 + 310 * tokens;
  result.total = (nvfp4 ? 3940 + 20 * tokens : 2800 + 100 * tokens) +
                 std::max(result.loop_clocks, result.memory_clocks) +
                 static_cast<double>(result.waves - 1) * result.epilogue_clocks;
  if (config.tile_m == 16 && problem.m <= 8) result.total *= nvfp4 ? 1.04 : 1.1;
  if (bf16) result.total *= 1.05;
  if (config.split_k == 1 && !nvfp4) result.total *= 1.03;
  return result;
}

} // namespace warpline::gemm
