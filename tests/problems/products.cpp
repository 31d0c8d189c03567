#include "tests/problems/products.hpp"

#include "kernels/gemm/sm90_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>

namespace wltest::problems {

using warpline::gemm::bit;
using warpline::gemm::Config;
using warpline::gemm::format_of;
using warpline::gemm::Grid;
using warpline::gemm::has_scales;
using warpline::gemm::Types;

Sums sums_of(const Configuration& c, const std::string& config, const wltest::Problem& problem) {
  if (!adds_f8_on_hopper(c)) return accumulate(problem, 1);
  return accumulate_hopper_f8(problem, {config.empty() || !c.fast_sums}, 1);
}

bool has_whole_k(const Draw& draw) { return draw.index() / 2 == first_of_tiles / 2 + 1; }
bool is_first(const Draw& draw) { return draw.index() % all_sizes == 0; }
bool is_small(const Draw& draw) {
  return draw.index() < first_of_loops &&
         (draw.index() % all_sizes == 2 || draw.index() % all_sizes == 3);
}
bool chooses_config(const Draw& draw) {
  return draw.index() < first_of_tiles && draw.index() % all_sizes == 3;
}
bool is_of_loops(const Draw& draw) {
  return first_of_loops <= draw.index() && draw.index() < of_rings;
}
bool is_of_rings(const Draw& draw) {
  return of_rings <= draw.index() && draw.index() < first_of_bare;
}
bool is_of_whole_tiles(const Draw& draw) { return draw.index() == of_whole_tiles; }
bool is_fitted(const Draw& draw) { return draw.index() >= first_of_fitted; }
bool is_bare(const Draw& draw) {
  if (is_fitted(draw)) return draw.index() % 2 != 0;
  return draw.index() >= first_of_loops + all_loops / 2 && draw.index() != of_rings;
}
int64_t k_of_loops(const Configuration& c, const Draw& draw) {
  const int64_t beyond = draw.index() < first_of_loops + all_loops / 2 ? 1 : 2;
  return (std::max(c.depth, c.turn) + beyond * c.tile_k) * (c.shares_k ? 10 : 1);
}
int64_t clusters_of(const Configuration& c) {
  const int64_t ctas = c.rows / c.cta_rows * std::max<int64_t>(c.columns / c.cta_columns, 1);
  return std::max<int64_t>(c.sms / ctas, 1);
}
int64_t tiles_of_rings(const Configuration& c) { return 5 * clusters_of(c) + 1; }

Configuration configuration_of(const Config& config, const char* decoder, const char* permuter) {
  Configuration c;
  c.name = config.name;
  c.kernels = {config.name};
  c.type = config.d_type;
  for (int a = WL_OPERAND_NVFP4; a <= WL_OPERAND_MXFP4; ++a)
    for (int b = WL_OPERAND_NVFP4; b <= WL_OPERAND_MXFP4; ++b)
      for (const auto& [a_layout, b_layout] : {std::pair{WL_K_MAJOR, WL_K_MAJOR},
                                               {WL_MN_MAJOR, WL_MN_MAJOR},
                                               {WL_MN_MAJOR, WL_K_MAJOR},
                                               {WL_K_MAJOR, WL_MN_MAJOR}}) {
        const Types pair{static_cast<wl_operand>(a), static_cast<wl_operand>(b), a_layout,
                         b_layout};
        if (config.takes(pair)) c.types.push_back(pair);
      }
  c.problems = first_problems(all_sizes);
  c.tile_k = config.tile_k;
  c.group = config.group_m;
  c.fast_sums = config.fast_sums;
  c.column_factors = config.column_factors;
  c.later = config.later;
  c.cta_columns = config.columns();
  // Where D is FP16 one cluster makes as many tiles as may be, else several share them.
  const bool of_many = config.d_type != WL_F16;
  if (config.family == warpline::gemm::Family::sm100) {
    const int ctas = config.cluster[0];
    c.profile = "b200";
    if (config.decodes_b) c.kernels.push_back("gemm_sm100_decode");
    c.shares_k = config.grid == Grid::stream_k;
    c.sms = c.shares_k ? 10 * ctas : of_many ? 2 * ctas : ctas;
    c.rows = config.rows() * config.cluster_m;
    c.columns = config.columns() * config.cluster_n;
    c.cta_rows = config.rows();
    c.depth = c.turn = config.stages * config.tile_k * config.split_k;
    // 10 clusters share 3 times 15 tiles of K: 5 of them have one more than the others, and ranges
    // end where a count that is wrong by one finds another number of parts.
    c.long_k = c.shares_k ? 14 * config.tile_k : 2 * c.depth;
    return c;
  }
  c.profile = "h200";
  if ((config.b_types & bit(WL_OPERAND_NVFP4)) != 0) c.kernels.push_back("gemm_sm90_pack");
  c.shares_k = config.grid == Grid::stream_k;
  c.sms = c.shares_k ? 10 * config.cluster[0] : of_many ? 3 * config.cluster[0] : 2;
  // The CTAs of all tiles are on the device at once.
  if (config.spread) c.most_tiles = 6, c.sms = 132, c.group = 1;
  // Helpers that wait for nobody, but are waited for, by up to four tiles each.
  if (config.helped) c.most_tiles = 6, c.sms = 6, c.group = 1, c.one_row = true;
  c.rows = c.cta_rows = config.tile_m;
  c.columns = config.columns() * config.cluster[0] / (config.spread ? 1 : config.split_k);
  if (config.turned) c.rows = config.tile_m * config.cluster[0], c.columns = config.columns();
  c.depth = c.turn = config.stages * config.tile_k * config.split_k;
  // Of two rings the longer comes round twice.
  if (warpline::gemm::sm90_plane_ring(config.tile_m))
    c.depth = c.turn = warpline::gemm::sm90_planes * config.tile_k;
  c.long_k = c.shares_k ? 14 * config.tile_k : 2 * c.depth;
  if (warpline::gemm::fits_rows(config)) {
    for (int64_t tokens = c.rows / 2 + 16; tokens < c.rows; tokens += 16)
      if (tokens == warpline::gemm::sm90_rows_of_mmas(config, tokens)) c.fitted.push_back(tokens);
    const int clusters = c.shares_k ? 2 : c.sms / config.cluster[0];
    c.fitting_columns = clusters * c.columns;
    c.has_whole_tiles = config.fitted;
  }
  // CTAs that wait for each other's flags in memory: stages come round once.
  if (config.spread) c.long_k = c.depth + config.tile_k * config.split_k;
  // So many blocks that a helper's stages come round as well.
  if (config.helped) c.long_k = 24 * config.tile_k + c.depth / 2;
  // What a storer does ahead of its first two tiles it does here for tiles of every group.
  if (config.family == warpline::gemm::Family::sm90_native && config.tile_m == 16 &&
      config.b_tensors == 1 && !config.grouped && !c.shares_k)
    c.sms = 40;
  if (config.family == warpline::gemm::Family::sm90_native || config.direct) return c;
  if (!config.fused()) {
    const uint32_t nvfp4 = bit(WL_OPERAND_NVFP4);
    if ((config.a_types & nvfp4) != 0) c.kernels.push_back(decoder);
    if ((config.a_types & ~nvfp4) != 0) c.kernels.push_back(permuter);
    return c;
  }
  // It loads ahead of the work before it only where all its CTAs are on the device at once.
  if (config.family == warpline::gemm::Family::sm90_stream) {
    c.sms = 12;
    return c;
  }
  c.copies = config.tile_m == 1 ? 8 : (config.a_types & bit(WL_OPERAND_NVFP4)) != 0 ? 4 : 2;
  c.sharers = config.split_k;
  // Stages of activations, which have loops of their own: as often as there are of them, and more.
  const int stages =
      warpline::gemm::sm90_small_token_stages(config.tile_m, config.decoders, config.grouped);
  c.turn = (stages + 1) * std::max(stages, 4) * config.tile_k * config.split_k;
  return c;
}

namespace {
// Rows beyond the first 1024 that the launch ahead does not decode, which are in NVFP4.
bool has_later_rows(const Configuration& c, const Draw& draw) {
  const auto nvfp4 = [](const Types& types) { return types.a == WL_OPERAND_NVFP4; };
  return c.later && draw.index() == 5 && std::any_of(c.types.begin(), c.types.end(), nvfp4);
}
} // namespace

Types draw_types(const Configuration& c, Draw& draw) {
  // In turn, from any of them on. Of up to four pairs tiles without edges see all, those with edges
  // one that problems 2, 9 and 16 do not.
  size_t turn = draw.index();
  if (turn >= first_of_tiles && c.types.size() <= 4)
    turn = turn >= first_of_loops             ? turn - first_of_loops
           : (turn - first_of_tiles) % 2 == 1 ? 3
                                              : (turn - first_of_tiles) / 2;
  turn += draw.pick<size_t>("first pair", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0);
  while (has_later_rows(c, draw) && c.types[turn % c.types.size()].a != WL_OPERAND_NVFP4) ++turn;
  const Types types = c.types[turn % c.types.size()];
  draw.note("a_type", static_cast<int>(types.a));
  draw.note("b_type", static_cast<int>(types.b));
  draw.note("a_layout", static_cast<int>(types.a_layout));
  draw.note("b_layout", static_cast<int>(types.b_layout));
  return types;
}

bool has_large_integers(const Types& types, const Sizes& sizes) {
  return types.a == WL_OPERAND_INT8 && types.b == WL_OPERAND_INT8 && sizes.k >= large_integers;
}

// In the order in which they tell most for their time.
Sizes draw_sizes(const Configuration& c, const Types& types, Draw& draw) {
  const auto below = [&](const char* name, int64_t bound) {
    return static_cast<int64_t>(
        draw.below(name, static_cast<uint64_t>(std::max<int64_t>(bound, 1))));
  };
  const int64_t step = c.type == WL_NVFP4 ? 64 : 8; // of N
  Sizes s{1, step, 64, 1};
  // Pairs of types have main loops of their own, which come round, with stages in turns of two.
  const int64_t round =
      c.types.size() > 2 && !has_scales(types.b) ? (2 + below("round", 2)) * c.tile_k : 0;
  // So many that a group's tiles are no power of two; of large tiles in longer lists.
  const int64_t columns_of_tiles = c.rows * c.columns <= 8192 || draw.index() >= all_sizes ? 3 : 2;
  if (draw.index() >= first_of_tiles) {
    draw.note<std::string>("sizes", is_fitted(draw)                ? "tiles of fewer rows"
                                    : draw.index() < first_of_bare ? "tiles of little K"
                                                                   : "bare products");
    s = {c.rows, c.columns, 64 * (1 + below("k", 3)) + round, 1};
    if (round == 0 && has_whole_k(draw)) s.k = std::max<int64_t>(c.tile_k, 64);
    // All that share K have some, and their stages come round.
    if (draw.index() == first_of_bare) s.k += c.depth;
    if (is_fitted(draw)) {
      const int64_t tiles = 2 - static_cast<int64_t>(draw.index() % 2);
      const size_t of_tokens = draw.index() - first_of_fitted;
      const bool known = of_tokens < c.fitted.size(); // else a number that no list has
      s.m = tiles * (known ? c.fitted[of_tokens] : c.rows) -
            below("m", std::min<int64_t>(16, c.rows) * tiles);
      s.n = known ? c.fitting_columns : c.columns, s.k += c.depth;
      // Clusters go on to another tile before the stages come round.
      if (c.has_whole_tiles && is_of_whole_tiles(draw)) s.n = 2 * c.fitting_columns, s.k -= c.depth;
      // Clusters that share K go on from a whole tile to most of another.
      if (c.shares_k && of_tokens == 0) s.n = (2 * clusters_of(c) - 1) * c.columns;
    } else if (is_of_rings(draw)) {
      s.n = tiles_of_rings(c) * c.columns;
    } else if (is_of_loops(draw)) {
      s.k = k_of_loops(c, draw);
      s.n = 2 * c.columns;
    } else if (draw.index() % 2 == 1 || draw.index() >= first_of_bare) {
      // Beyond the first tile a few rows, nearly a tile, or so many that a warp's 32 rows are all
      // there, or all and one more.
      const size_t edge = (draw.index() - first_of_tiles) / 2 % 3;
      const int64_t few = std::min<int64_t>(c.rows, 8);
      const int64_t rows =
          edge < 2 ? 1 + below("m", few)
                   : std::min(c.rows, 32 * below("m", c.rows / 32) + 1 + 31 * below("warp", 2));
      s.m += edge == 1 ? c.rows + 1 - rows : rows;
      s.n += step * (1 + below("n", c.columns / step - 1));
    }
  } else
    switch (draw.index() % all_sizes) {
    case 0: // an edge in every direction, and stages a second time
      draw.note<std::string>("sizes", "beyond tiles");
      s.m = c.rows + 1 + (below("one row", 2) == 0 ? 0 : below("m", c.rows / 2));
      s.n = c.columns + step * (1 + below("n", c.columns / step - 1));
      s.n = (s.n + 15) / 16 * 16;
      s.k = c.depth + c.tile_k + 64 * (1 + below("k", c.tile_k / 64));
      s.l = c.rows * c.columns <= 4096 ? 2 : 1;
      break;
    case 1: // one tile of a long K: where clusters share K, all of them share this tile
      draw.note<std::string>("sizes", "one tile");
      s.m = 1 + below("m", c.rows);
      s.n = step * (1 + below("n", c.columns / step));
      s.k = c.long_k + 64 * (1 + below("k", c.tile_k / 64));
      // The end of K, within a block, is the second copy's or the last one's; of two the first
      // one's.
      if (c.copies != 0) {
        const bool last = draw.index() >= all_sizes;
        const int64_t blocks = c.copies + (!last ? 2 : c.copies > 2 ? c.copies : 3);
        s.k = c.sharers * blocks * c.tile_k - 64 * (1 + below("k", c.tile_k / 64 - 1));
      }
      if (c.shares_k) s.n += 2 * c.columns;
      break;
    case 2: // less than a tile
      draw.note<std::string>("sizes", "small");
      // Once a few rows of a larger tile.
      s.m = 1 + below("m", draw.index() == 9 && c.rows > 8 ? 8 : std::min<int64_t>(40, 8 * c.rows));
      // Of the smallest ones beyond a block of scales.
      if (draw.index() == 9 && c.rows <= 8) s.m += 128;
      // In longer lists also any number of blocks of K, where loops are unrolled, so many that
      // clusters share them and sums of INT8 pass FP32's digits; or more than one block of scales
      // along N, and an entry behind whole pairs of blocks of K.
      s.n = step * (1 + below("n", 4));
      s.k = 64 * (1 + below("k", 3)) + round;
      s.l = 1 + below("l", 4);
      if (draw.index() >= all_sizes && draw.index() / all_sizes % 2 == 1) {
        const int64_t least = types.a == WL_OPERAND_INT8 ? 18 : c.shares_k ? 13 : 1;
        s.k = 64 * (least + below("k", 25 - least)), s.l = 1;
        if (s.m > 128) s.n = step, s.k = 64 * (1 + below("k", 4)), s.l = 2;
      } else if (draw.index() >= all_sizes) {
        // Of large tiles three, of which a second entry's number is not told by bits.
        s.n = c.rows * c.columns > 8192 ? 2 * c.columns + step * (1 + below("n", c.columns / step))
                                        : step * (1 + below("n", 256 / step));
        s.k = 128 + round, s.l = 2;
      }
      break;
    case 3:
      draw.note<std::string>("sizes", "any");
      s.m = 1 + below("m", 200);
      s.n = step * (1 + below("n", 200 / step));
      s.k = 64 * (1 + below("k", 8));
      s.l = 1 + below("l", 2);
      break;
    case 4: // whole tiles, a whole group of them
      draw.note<std::string>("sizes", "whole groups");
      s.m = c.rows * c.group;
      s.n = columns_of_tiles * c.columns;
      if (s.m < 16) s.m = 16;
      s.k = c.tile_k;
      break;
    case 5: // a whole group and a part of one
      draw.note<std::string>("sizes", "part of a group");
      // Of a cluster along M or N, whole CTAs that have nothing to do.
      // Of small tiles, more than two groups.
      // Of the last one so many rows that the tiles of a whole one are no multiple of them.
      s.m = c.rows * (8 <= c.rows && c.rows <= 32
                          ? 2 * c.group + (draw.index() == 5 ? 4 : below("m", 2))
                          : c.group + below("m", 2)) +
            (c.rows > c.cta_rows ? c.cta_rows : 1 + below("rest", c.rows - 1));
      s.n = columns_of_tiles * c.columns - (c.columns > c.cta_columns ? c.cta_columns : step);
      s.k = has_later_rows(c, draw) ? 192 : 64;
      s.l = c.rows <= 32 && draw.index() >= all_sizes ? 2 : 1;
      break;
    default: { // whole tiles and whole turns of the stages; three tiles in one of the directions
      draw.note<std::string>("sizes", "whole tiles");
      const bool high = below("m", 2) == 0;
      s.m = c.rows * (high ? 3 : 1);
      s.n = c.columns * (high ? 1 : 3);
      s.k = c.turn;
      // Once as much as the copies of a loop have taken ahead of it.
      if (c.copies != 0 && draw.index() >= all_sizes) s.k = c.sharers * c.copies * c.tile_k;
      s.l = c.rows * c.columns <= 4096 ? 2 : 1;
      if (c.turn != c.depth) s.m = c.rows, s.n = c.columns, s.l = 1;
      if (32 <= c.rows && c.rows < 128) s.m = 128, s.n = c.columns; // whole blocks of scales
      // Clusters that share K turn their stages within one tile: once and a half, or twice as well.
      if (c.shares_k) {
        const int64_t turns = draw.index() < all_sizes ? 1 : 2;
        s.m = c.rows, s.n = c.columns, s.l = 1;
        s.k = 10 * turns * c.depth + 15 * c.tile_k;
      }
    }
    }
  s.n = (s.n + step - 1) / step * step;
  const int64_t tiles = (s.m + c.rows - 1) / c.rows * ((s.n + c.columns - 1) / c.columns);
  s.l = std::clamp<int64_t>(c.most_tiles / tiles, 1, s.l);
  if (c.one_row) s.most_m = c.rows, s.m = 1 + (s.m - 1) % c.rows, s.l = 1;
  // K is at least a unit, and no whole 128 bytes where sizes have edges.
  const auto unit_of = [](wl_operand type, wl_layout layout) {
    return layout == WL_MN_MAJOR ? 1 : format_of(type).k_unit;
  };
  const int64_t unit = std::max(unit_of(types.a, types.a_layout), unit_of(types.b, types.b_layout));
  if (types.a_layout == WL_MN_MAJOR) s.m = (s.m + 7) / 8 * 8;
  if (draw.index() % all_sizes < 4 && !has_whole_k(draw))
    s.k -= unit * below("rest of K", 64 / unit);
  s.k = (s.k + unit - 1) / unit * unit;
  draw.note("m", s.m);
  draw.note("n", s.n);
  draw.note("k", s.k);
  draw.note("l", s.l);
  return s;
}

std::string draw_config(const Configuration& c, Draw& draw) {
  draw.note<std::string>("config", chooses_config(draw) ? "null" : c.name);
  return chooses_config(draw) ? "" : c.name;
}

void Factor::add_to(const std::string& name, std::vector<Input>* inputs) const {
  if (given) inputs->push_back({name, misalignment, {bytes_of(runs[0]), bytes_of(runs[1])}, ""});
}

Factor draw_alpha(Draw& draw, const std::string& name, float fitting, float huge, bool large) {
  const std::string kind =
      large            ? draw.pick<const char*>(name + " of large sums", {"fitting", "negative"})
      : is_small(draw) ? draw.pick<const char*>(name + " of a small problem",
                                                {"null", "zero", "huge", "tiny", "negative"})
                       : draw.pick<const char*>(name + " kind", {"fitting", "null", "negative"});
  Factor f;
  f.given = kind != "null";
  if (!f.given) {
    draw.note<std::string>(name, "null");
    return f;
  }
  f.misalignment = draw_float_alignment(draw, name);
  // With as many digits as FP32 has.
  const float value = kind == "fitting"    ? fitting * 1.2345679f
                      : kind == "negative" ? -fitting * 1.5432099f
                      : kind == "zero"     ? 0.0f
                      : kind == "huge"     ? huge
                                           : 3e-39f;
  // Under 0, a huge and a tiny one most outputs are alike: in the second run they tell.
  const bool alike = kind == "zero" || kind == "huge" || kind == "tiny";
  f.runs[0] = value;
  f.runs[1] = (alike ? fitting : value) * 0.7654321f;
  return f;
}

Factor draw_d_scale(Draw& draw) {
  Factor f;
  const float value = draw.pick("d_scale value", {1.0f, 0.25f, 0.013f, 3.0f, 1e4f, 0x1p-120f});
  f.given = value != 1 || draw.below("d_scale", 2) != 0;
  if (!f.given) {
    draw.note<std::string>("d_scale", "null");
    return f;
  }
  f.misalignment = draw_float_alignment(draw, "d_scale");
  f.runs[0] = value;
  f.runs[1] = value * 1.5f;
  return f;
}

Numbers same_numbers(size_t count, wl_dtype type, float value) {
  const size_t element = type == WL_F32 ? 4 : 2;
  Numbers n{Bytes(count * element), std::vector<float>(count, value)};
  const uint32_t code = type == WL_F16    ? encode_f16(double{value})
                        : type == WL_BF16 ? encode_bf16(double{value})
                                          : std::bit_cast<uint32_t>(value);
  for (size_t i = 0; i < count; ++i) std::memcpy(&n.bytes[i * element], &code, element);
  return n;
}

Numbers draw_numbers(size_t count, wl_dtype type, double magnitude, uint64_t seed) {
  const Random values(seed, 0), kinds(seed, 1);
  const size_t element = type == WL_F32 ? 4 : 2;
  Numbers n{Bytes(count * element), std::vector<float>(count)};
  for (size_t i = 0; i < count; ++i) {
    const uint64_t kind = kinds.below(i, 64);
    double value = magnitude * (2 * values.uniform(i) - 1);
    if (kind == 0) value = -0.0;
    if (kind == 1) value *= 1000;
    uint32_t code = kind == 2         ? static_cast<uint32_t>(values.bits(i))
                    : type == WL_F16  ? encode_f16(value)
                    : type == WL_BF16 ? encode_bf16(value)
                                      : std::bit_cast<uint32_t>(static_cast<float>(value));
    if (type != WL_F32) code &= 0xFFFF;
    std::memcpy(&n.bytes[i * element], &code, element);
    n.values[i] = type == WL_F32   ? std::bit_cast<float>(code)
                  : type == WL_F16 ? static_cast<float>(decode_f16(static_cast<uint16_t>(code)))
                                   : std::bit_cast<float>(code << 16);
  }
  return n;
}

void add_numbers(const char* name, size_t misalignment, const Numbers& first, const Numbers& second,
                 bool filled, Problem* problem) {
  Input in{name, misalignment, {}, ""};
  if (filled) in.runs = {first.bytes, second.bytes};
  problem->inputs.push_back(std::move(in));
}

BiasType draw_bias_type(Draw& draw, bool none) {
  const std::string of = draw.pick<const char*>("bias of", {"f32", "f16", "bf16", "null"});
  BiasType bias{of[0] != 'n' && !none, WL_F32, WL_F32};
  bias.type = of == "f16" ? WL_F16 : of == "bf16" ? WL_BF16 : WL_F32;
  const int said = bias.given ? static_cast<int>(bias.type) : 9;
  bias.said = static_cast<wl_dtype>(draw.note("bias_type", said));
  return bias;
}

void make_one_hot(Operand* a, uint64_t seed) {
  a->values.assign(a->values.size(), 0);
  a->scales.assign(a->scales.size(), 0x38);
  const Random random(seed, 9);
  for (int64_t row = 0; row < a->l * a->rows; ++row)
    a->values[static_cast<size_t>(row * (a->k / 2)) + random.below(row, a->k / 2)] = 0x02;
}

void make_powers(Operand* b, const uint8_t (&code)[4], uint64_t seed) {
  const Random random(seed, 9);
  for (uint8_t& pair : b->values)
    pair = static_cast<uint8_t>(code[pair & 3] | code[pair >> 4 & 3] << 4);
  for (size_t i = 0; i < b->scales.size(); ++i)
    b->scales[i] = static_cast<uint8_t>(0x38 + 8 * random.below(i, 2));
}

Operand first_rows(const Operand& from, int64_t rows) {
  Operand to = from;
  to.rows = rows;
  to.values.resize(static_cast<size_t>(rows) * from.row_bytes());
  to.scales.resize(from.scales.size() / static_cast<size_t>(from.rows) * static_cast<size_t>(rows));
  return to;
}

wl_sf_layout draw_sf_layout(const Configuration& c, const warpline::gemm::Types& types,
                            Draw& draw) {
  const bool plain = c.profile == "h200" && (has_scales(types.a) || has_scales(types.b));
  if (!plain) return static_cast<wl_sf_layout>(draw.note("sf_layout", 0));
  return static_cast<wl_sf_layout>(draw.pick("sf_layout", {0, 0, 1, 0}));
}

void add_operand(const char* values, const char* scales, wl_operand type, wl_sf_layout layout,
                 const Operand (&runs)[2], uint8_t padding, bool filled, Draw& draw,
                 Problem* problem) {
  Input in{values, draw_alignment(draw, values), {}, ""};
  if (warpline::gemm::unpacked(type))
    in.misalignment = draw.note(values, in.misalignment & ~size_t{31});
  Input sf{scales, draw_alignment(draw, scales), {}, ""};
  for (const Operand& operand : runs) {
    if (!filled) break;
    in.runs.push_back(operand.values);
    if (has_scales(type)) sf.runs.push_back(scale_bytes(operand, padding, layout));
  }
  problem->inputs.push_back(std::move(in));
  if (has_scales(type))
    problem->inputs.push_back(std::move(sf));
  else
    draw.note<std::string>(scales, "null");
}

void lie_within(const std::string& name, const std::string& other, Problem* problem) {
  for (Input& in : problem->inputs)
    if (in.name == name) in.within = other;
}

Output draw_d(wl_dtype type, Draw& draw) {
  Output d{"d", draw_alignment(draw, "d"), {}, {}};
  if (is_first(draw)) d.misalignment = draw.note<size_t>("d", d.misalignment | 16);
  d.infinity = type == WL_F16 ? 0x7C00 : type == WL_BF16 ? 0x7F80 : type == WL_F32 ? 0x7F800000 : 0;
  d.element = type == WL_F32 ? 4 : 2;
  return d;
}

size_t Layout::bytes() const {
  return element * static_cast<size_t>((sizes.l - 1) * entry() + (sizes.m - 1) * pitch() + sizes.n);
}

void Layout::place(const void* from, Bytes* image, std::vector<bool>* written) const {
  const size_t row_bytes = element * static_cast<size_t>(sizes.n);
  for (int64_t row = 0; row < sizes.l * sizes.m; ++row) {
    const size_t at =
        element * static_cast<size_t>(row / sizes.m * entry() + row % sizes.m * pitch());
    std::memcpy(&(*image)[at],
                static_cast<const uint8_t*>(from) + row_bytes * static_cast<size_t>(row),
                row_bytes);
    if (written != nullptr)
      std::fill_n(written->begin() + static_cast<std::ptrdiff_t>(at), row_bytes, true);
  }
}

Layout draw_layout(const Sizes& s, size_t element, const char* ld, const char* stride,
                   const std::string& tensor, Draw& draw) {
  Layout layout{s, element};
  const bool of_d = tensor == "D";
  const int64_t gap = draw.pick<int64_t>(of_d ? "gap" : "gap of " + tensor, {0, 8, 16, 24, -1});
  // In the first problem rows start on 32 bytes as far as the strides say, and D does not.
  const int64_t whole = is_first(draw) ? 16 : 8;
  layout.ld = draw.note(ld, gap == -1 ? s.n : gap == 0 ? 0 : s.n + gap / whole * whole);
  const int64_t pitch = layout.pitch();
  const std::string entries =
      draw.pick<const char*>("entries of " + tensor, {"default", "apart", "dense", "interlocked"});
  layout.batch_stride = draw.note(stride, entries == "default" ? 0
                                          : entries == "apart" ? s.m * pitch + 5 * whole
                                          : entries == "dense" ? s.m * pitch
                                                               : (s.m - 1) * pitch + s.n);
  return layout;
}

Layout draw_dense_layout(const Sizes& s, Draw& draw) {
  Layout layout{s};
  layout.ld = draw.pick<int64_t>("ldd", {0, s.n});
  layout.batch_stride = draw.pick<int64_t>("batch_stride_d", {0, s.m * s.n});
  return layout;
}

uint32_t draw_product_way(const Sizes& s, Draw& draw, Problem* problem) {
  uint32_t flags = draw.pick<uint32_t>(
      "flags", {0, WL_STATIC_WEIGHTS, WL_GRAPH_LAUNCH | WL_FAST_ACCUMULATION,
                WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH, WL_GRAPH_LAUNCH, WL_FAST_ACCUMULATION});
  // Half of the loops start with weights that no grid ahead writes.
  if (first_of_loops <= draw.index() && draw.index() < first_of_loops + all_loops / 2)
    flags = draw.note("flags", flags | WL_STATIC_WEIGHTS);
  // Kernels that share problems with others each have one of several tiles: whose weights may be
  // another grid's.
  if (draw.index() >= first_of_tiles)
    flags = draw.note("flags", flags & ~uint32_t{WL_STATIC_WEIGHTS});
  problem->static_weights = (flags & WL_STATIC_WEIGHTS) != 0;
  draw_way(draw, problem, s.m * s.n * s.k * s.l);
  if (draw.index() % all_sizes == 1) {
    // Clusters that share the tile lag behind each other, whatever they do not wait for; and the
    // checkers follow what they tell each other. A graph launches with the same arguments again.
    problem->runs = 2;
    problem->way = Way::captured;
    draw.note<std::string>("way", "captured graph");
    problem->schedule = draw.note("schedule", "hold:" + std::to_string(1 + draw.below("hold", 3)));
    problem->checks = draw.note<std::string>("checks", "all");
  }
  return flags;
}

Activations draw_activations(bool differ, size_t turn, Draw& draw) {
  const int drawn = draw.pick("activation", {0, 1, 2, 3, 4, 5}, turn);
  const bool has_none = is_of_rings(draw) || draw.index() == first_of_bare;
  const int bare = has_none                ? WL_ACTIVATION_NONE
                   : draw.index() % 2 != 0 ? WL_ACTIVATION_SILU
                                           : WL_ACTIVATION_GELU_TANH;
  const int first = is_bare(draw)             ? draw.note("activation", bare)
                    : is_of_whole_tiles(draw) ? draw.note<int>("activation", WL_ACTIVATION_RELU)
                                              : drawn;
  // Of those without an exponential, which a card computes bit for bit, another of them.
  const int other = first / 3 * 3 + (first + 1) % 3;
  const int second = draw.note("activation of the second run", differ ? other : first);
  return {static_cast<wl_activation>(first), static_cast<wl_activation>(second)};
}

Bytes slack_of(std::vector<float> activated, wl_dtype type) {
  for (float& value : activated) value = std::fabs(value) * exponentials_change;
  return rounded(activated, type);
}

Gate other_gate(const Gate& gate, Draw& draw) {
  const wl_gate kind = gate.kind == WL_GATE_SILU      ? WL_GATE_GELU_TANH
                       : gate.kind == WL_GATE_CLAMPED ? WL_GATE_SILU
                                                      : WL_GATE_CLAMPED;
  const float limit = kind == WL_GATE_CLAMPED || gate.limit == 0 ? 0.75f : 0;
  draw.note("gate of the second run", static_cast<int>(kind));
  draw.note("gate_limit of the second run", limit);
  return {kind, limit};
}

std::array<Gate, 2> draw_gates(bool differ, Draw& draw) {
  const auto kind = static_cast<wl_gate>(draw.note("gate", draw.pick("gate", {0, 1, 2})));
  const float drawn = draw.pick("limit", {0.0f, 0.75f});
  const Gate first{kind, draw.note("gate_limit", kind == WL_GATE_CLAMPED ? 7.0f : drawn)};
  return {first, differ ? other_gate(first, draw) : first};
}

int64_t draw_planned_rows(const Sizes& s, const std::set<std::string>& weights, Draw& draw,
                          Problem* problem) {
  const std::string whose =
      draw.pick<const char*>("operands of", {"the run", "the plan", "the run, weights the plan's"});
  if (whose == "the plan") return 0;
  if (whose != "the run") problem->planned = weights;
  const int64_t more = draw.pick<int64_t>("rows more in the plan", {1, 0, s.m});
  return s.m + draw.note("rows more in the plan", std::min({more, s.m, s.most_m - s.m}));
}

} // namespace wltest::problems
