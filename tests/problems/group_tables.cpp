#include "tests/problems/group_tables.hpp"

#include "kernels/gemm/rules.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace wltest::problems {

namespace {

int64_t below(Draw& draw, const char* name, int64_t bound) {
  return static_cast<int64_t>(draw.below(name, static_cast<uint64_t>(std::max<int64_t>(bound, 1))));
}
bool is_plane_ring(int64_t tile) { return warpline::gemm::sm90_plane_ring(static_cast<int>(tile)); }

} // namespace

bool has_later_groups(const Configuration& c, const Draw& draw) {
  return c.later && draw.index() == all_sizes;
}

GroupSizes draw_groups(const Configuration& c, wl_operand type, Draw& draw) {
  GroupSizes s{};
  const int64_t step = c.type == WL_NVFP4 ? 64 : 8;
  const bool of_tiles = draw.index() >= first_of_tiles;
  const size_t index = of_tiles ? all_sizes : draw.index() % all_sizes;
  // As models have them in longer lists; else as many as pass warps' counting once, and columns of
  // a slice of a model.
  const bool whole = draw.index() >= all_sizes;
  s.count = (whole ? std::array<int64_t, all_sizes + 1>{3, 1, 128, 5, 17, 256, 512, 3}
                   : std::array<int64_t, all_sizes + 1>{3, 1, 40, 5, 17, 68, 260, 3})[index];
  const bool many = s.count > 20;
  s.n = step * (1 + below(draw, "n", many ? 2 : 2 * c.columns / step));
  s.k = many ? 64 * (1 + below(draw, "k", 2)) : 64 * (1 + below(draw, "k", 5 * c.depth / 256));
  // Pairs of types have main loops of their own, which come round, with stages in turns of two.
  const int64_t round = c.types.size() > 2 && !warpline::gemm::has_scales(type)
                            ? (2 + below(draw, "round", 2)) * c.tile_k
                            : 0;
  // Of 128 groups more than the 16 columns that are stored together.
  if (s.count == 128) s.k += round;
  if (s.count == 128 && step == 8) s.n += 16;
  const bool as_models = s.count == 5;
  if (as_models)
    s.n = draw.pick<int64_t>("n of a model", {whole ? 768 : 384, whole ? 2880 : 320, 64});
  if (as_models) s.k = 64 * (1 + below(draw, "k of a model", 2));
  if (index == 0) s.k += 64; // more than a step of K in the loops of narrow tiles
  // Where a kernel of other operands has them stages come round behind a narrow tile, too.
  if (draw.index() == 0 && !warpline::gemm::has_scales(c.types[0].b))
    s.k = c.turn + 64, s.n = draw.note("n", c.columns + step);
  if (index == 1) s.k = c.turn + 64; // stages and all loops come round
  if (of_tiles) {
    s.k = 64 * (1 + below(draw, "k", 3)) + round;
    if (round == 0 && has_whole_k(draw)) s.k = std::max<int64_t>(c.tile_k, 64);
    if (is_of_loops(draw)) s.k = k_of_loops(c, draw);
    if (draw.index() == first_of_bare) s.k += c.depth;
    s.n = c.columns < 128 ? 128 + c.columns : c.columns;
    if (draw.index() % 2 == 1) s.n += step;
    if (is_of_rings(draw)) s.n = (tiles_of_rings(c) / 3 + 1) * c.columns;
  }
  const int64_t k_step = 128 / warpline::gemm::format_of(type).bits;
  if (!warpline::gemm::has_scales(type) && !has_whole_k(draw))
    s.k -= k_step * below(draw, "k less", 64 / k_step);
  // Groups close to each other, so that rows of several are decoded under the product.
  const bool later = has_later_groups(c, draw);
  // Few units, so that warps decode either of two parts of a tile's rows; tiles for stages to come
  // round behind one of few rows.
  if (later) s.k = 320, s.n = 4 * c.columns;
  s.masked = draw.pick("table", {0, 1, 0}) != 0 && !of_tiles && !later;
  s.gathers = draw.pick("with rows", {0, 1}) != 0;
  if (is_of_rings(draw)) s.gathers = draw.index() == of_rings + 1;
  s.gathers = s.gathers && !later;
  if (is_of_rings(draw) && s.gathers) s.k = c.turn + 64; // gathered stages come round, too
  // Of longer lists, the last with the most groups, too.
  s.hostile = (draw.pick("hostile", {0, 0, 1, 0}) != 0 && index != 0 && !of_tiles && !later) ||
              draw.index() == 2 * all_sizes - 1;
  // In any case one of ends, of more groups than a warp has lanes, one of sizes, and one whose
  // tiles of scales are wrong.
  const bool of_tiles_of_scales = draw.index() == 4;
  const bool of_sizes = draw.index() == 3;
  if (draw.index() == 2 || of_sizes || of_tiles_of_scales) s.hostile = true, s.masked = of_sizes;
  draw.note("table", static_cast<int>(s.masked));
  draw.note("hostile", static_cast<int>(s.hostile));
  // Where it tells what is wrong; of rows that are gathered and wrong also where nobody asks.
  s.has_status = draw.pick("with status", {1, 0, 1}) != 0 ||
                 (s.hostile && (of_sizes || !(s.gathers && draw.index() % 2 == 1)));
  draw.note("with status", static_cast<int>(s.has_status));
  // Where nothing has scales, too: then they mean nothing.
  s.has_tiles = draw.pick("with sf_tiles", {0, 1}) != 0 || of_tiles_of_scales;
  draw.note("with sf_tiles", static_cast<int>(s.has_tiles));
  const uint64_t of = draw.below("wrong in the first run", 4);
  s.first = of_tiles_of_scales || (s.has_tiles && of == 0) ? GroupSizes::Fault::tiles
            : s.gathers && of == 1                         ? GroupSizes::Fault::rows
                                                           : GroupSizes::Fault::table;
  s.b_gap = 16 * draw.pick("gap of B", {0, 1, 5});
  s.sfb_gap = 16 * draw.pick("gap of SFB", {0, 3});
  s.bias_gap = 8 * draw.pick("gap of biases", {0, 2});
  const int64_t tile = c.rows;
  const int64_t drawn = 2 * tile + below(draw, "m", 3 * tile) + 130;
  // Behind two groups of 128 rows whole tiles; of tiles that may touch three times 256 rows of the
  // image one that does.
  const int64_t long_rows = is_plane_ring(tile) ? 2 * 112 + 256 + 288 : 3 * tile + 256;
  const int64_t most = as_models ? tile + 130 : later ? long_rows : drawn;
  const int64_t rows = many ? s.count * 2 : most;
  s.row_stride = s.masked ? 1 + below(draw, "row_stride", 2 * rows / s.count) : 0;
  s.m = s.masked ? s.count * s.row_stride + below(draw, "rows behind", 9) : rows;
  s.a_rows = s.gathers ? 1 + below(draw, "a_rows", s.m) : 0;
  for (const auto& [name, value] : {std::pair{"m", s.m},
                                    {"n", s.n},
                                    {"k", s.k},
                                    {"l", int64_t{1}},
                                    {"count", s.count},
                                    {"row_stride", s.row_stride},
                                    {"a_rows", s.a_rows}})
    draw.note(name, value);
  return s;
}

namespace {

// Rows that m is cut into: none at all, all in one, the first and the last none, around the sides
// of tiles, half of all in one, narrow tiles, whole tiles, all that is left in the last.
std::vector<int64_t> draw_rows(const GroupSizes& s, int64_t tile, const std::string& kind,
                               uint64_t seed) {
  const Random random(seed, 20);
  std::vector<int64_t> rows(static_cast<size_t>(s.count));
  int64_t left = s.masked ? INT64_MAX : s.m - static_cast<int64_t>(random.below(1, 5));
  const auto take = [&](size_t g, int64_t wanted) {
    wanted = std::clamp<int64_t>(wanted, 0, std::max<int64_t>(left, 0));
    if (s.masked) wanted = std::min(wanted, s.row_stride);
    rows[g] = wanted;
    left -= wanted;
  };
  const auto some = static_cast<size_t>(random.below(2, static_cast<uint64_t>(s.count)));
  if (kind == "none") return rows;
  if (kind == "one") {
    take(some, s.m);
    return rows;
  }
  if (kind == "whole") {
    for (size_t g = 0; g < rows.size(); ++g) take(g, tile);
    return rows;
  }
  if (kind == "long") { // a tile begins with the first 256 rows that are decoded under the product
    const int64_t ahead = is_plane_ring(tile) ? 112 : 128;
    for (size_t g = 0; g < rows.size(); ++g) take(g, g + 1 == rows.size() ? s.m : ahead);
    return rows;
  }
  if (kind == "narrow") { // a last tile of up to a half, a quarter and all of its rows
    const int64_t least[] = {tile / 4 + 1, 1, tile / 2 + 1},
                  more[] = {tile / 4, tile / 4, tile / 2};
    for (size_t g = 0; g < rows.size(); ++g)
      take(g,
           least[g % 3] + static_cast<int64_t>(random.below(
                              100 + g, static_cast<uint64_t>(std::max<int64_t>(more[g % 3], 1)))));
    return rows;
  }
  if (kind == "skew") take(some, s.m / 2);
  // Of the last tile's rows a quarter and a half are sides too.
  std::vector<int64_t> sides = {1,
                                tile - 1,
                                tile,
                                tile + 1,
                                tile / 4,
                                tile / 4 + 1,
                                tile / 2,
                                tile / 2 + 1,
                                tile + tile / 2,
                                2 * tile,
                                127,
                                128,
                                129,
                                0,
                                2,
                                3 * tile + 1};
  // Tiles of 256 rows and one of up to 288, of MMAs of as many tokens as it has, about.
  if (is_plane_ring(tile))
    sides = {1,   287, 288, 289, 80,  81,  128, 129, 144, 145, 208, 209,
             256, 257, 544, 545, 432, 400, 576, 833, 0,   2,   127, 350};
  for (size_t g = 0; g < rows.size(); ++g) {
    if (kind == "skew" && g == some) continue;
    const bool end = g == 0 || g + 1 == rows.size();
    if (kind == "ends empty" && end && rows.size() > 1) continue;
    const uint64_t drawn = random.below(100 + g, 64);
    // Each group with rows has tiles of its own: of very many groups a quarter.
    if (kind == "few" && s.count > 20 && drawn >= 16) continue;
    take(g, kind == "sides" ? sides[drawn % sides.size()] : static_cast<int64_t>(drawn % 5));
  }
  // The last group's reach the end of the tensors, if not many are left.
  int64_t all = 0;
  for (const int64_t r : rows) all += r;
  if (!s.masked && kind != "ends empty" && s.m - all <= tile) rows.back() += s.m - all;
  return rows;
}

// The number of the first tile of one group becomes wrong, in one of the ways, of one with several
// tiles where there is one. None of them is one of the tensor's then.
void spoil_tile(const std::vector<GroupRange>& ranges, const GroupSizes& s, uint64_t way,
                GroupTable* t) {
  const auto first_beyond = [&](int64_t rows) {
    return std::find_if(ranges.begin(), ranges.end(), [&](const GroupRange& range) {
      return range.rows() > rows && range.rows() <= s.most_spoilt;
    });
  };
  auto found = first_beyond(128);
  // The largest number, of which the next overflows, of every other one with several.
  if (found != ranges.end() && way % 2 == 0) way = 0;
  if (found == ranges.end()) found = first_beyond(0);
  if (found == ranges.end()) return;
  const auto below_0 = static_cast<int32_t>((found->rows() + 127) / 128);
  // 2^25 tiles are 2^32 rows.
  const int32_t wrong[] = {INT32_MAX, -below_0, static_cast<int32_t>(s.tile_count), 1 << 25,
                           INT32_MIN};
  if (way < std::size(wrong)) t->sf_tiles[static_cast<size_t>(found - ranges.begin())] = wrong[way];
}

// One end becomes 1 less than the one ahead, which is a group's with rows, or than the 0 ahead of
// the first. Where a lane of a warp has a group, often of the second or of the first one of the
// next round.
void spoil_one_end(const Random& random, std::vector<int32_t>* ends) {
  std::vector<size_t> any = {0}, chosen;
  for (size_t g = 1; g < ends->size(); ++g) {
    if ((*ends)[g - 1] <= (g > 1 ? (*ends)[g - 2] : 0)) continue;
    any.push_back(g);
    if (g % 32 < 2) chosen.push_back(g);
  }
  const bool of_chosen = !chosen.empty() && random.below(22, 4) != 0;
  const std::vector<size_t>& from = of_chosen ? chosen : any;
  const size_t g = from[random.below(23, from.size())];
  (*ends)[g] = (g == 0 ? 0 : (*ends)[g - 1]) - 1;
}

// Up to three numbers become wrong.
void spoil_some(const Random& random, int64_t m, std::vector<int32_t>* numbers) {
  const int32_t wrong[] = {-1, INT32_MIN, INT32_MAX, static_cast<int32_t>(m + 1), 0, 1};
  for (uint64_t i = 0; i < 3; ++i)
    (*numbers)[random.below(i, numbers->size())] = wrong[random.below(10 + i, std::size(wrong))];
  // Ends behind the first decrease, or behind one beyond M, however far behind it.
  if (numbers->size() > 16 && random.below(21, 2) == 0) (*numbers)[0] = static_cast<int32_t>(m);
  if (numbers->size() > 256) (*numbers)[random.below(20, 64)] = INT32_MAX;
}

} // namespace

GroupTable table_of(const GroupSizes& s, int64_t tile, const std::string& kind, size_t run,
                    uint64_t seed) {
  GroupTable t;
  t.count = s.count;
  t.row_stride = s.row_stride;
  const Random random(seed, 21);
  const std::vector<int64_t> rows = draw_rows(s, tile, kind, seed);
  int64_t end = 0;
  for (const int64_t r : rows) {
    end += r;
    (s.masked ? t.sizes : t.ends).push_back(static_cast<int32_t>(s.masked ? r : end));
  }
  using Fault = GroupSizes::Fault;
  const auto is_wrong = [&](Fault fault) { return s.hostile && (run != 0 || s.first == fault); };
  if (is_wrong(Fault::table)) {
    if (s.masked && run == 0)
      t.sizes[random.below(23, t.sizes.size())] = random.below(22, 2) == 0 ? -1 : INT32_MIN;
    else if (s.masked && random.below(22, 2) == 0)
      t.sizes[random.below(23, t.sizes.size())] = static_cast<int32_t>(s.row_stride + 1);
    else if (run == 0)
      spoil_one_end(random, &t.ends);
    else
      spoil_some(random, s.m, s.masked ? &t.sizes : &t.ends);
  }
  const std::vector<GroupRange> ranges = ranges_of(t, s.m);
  if (s.gathers) {
    t.a_rows = s.a_rows;
    // Where there are wrong rows, one of the largest group in the first run.
    const auto found = std::max_element(
        ranges.begin(), ranges.end(),
        [](const GroupRange& x, const GroupRange& y) { return x.rows() < y.rows(); });
    // The first or the last of four, or of what a lane gathers of every 32 rows.
    constexpr int64_t places[] = {0, 3, 32, 67, 98};
    int64_t only = -1;
    for (const int64_t place : places)
      if (run == 0 && found != ranges.end() && place < found->rows() &&
          (only < 0 || random.below(34 + static_cast<uint64_t>(place), 2) == 0))
        only = found->first + place;
    for (int64_t i = 0; i < s.m; ++i) {
      int64_t row = static_cast<int64_t>(
          random.below(1000 + static_cast<uint64_t>(i), static_cast<uint64_t>(s.a_rows)));
      if (is_wrong(Fault::rows) && (only >= 0 ? i == only : i % 7 == 3))
        row = i % 2 == 0 ? -5 : s.a_rows + i;
      t.rows.push_back(static_cast<int32_t>(row));
    }
  }
  if (s.has_tiles) {
    // Groups in another order, with tiles between them.
    t.sf_tile_count = s.tile_count;
    auto at = static_cast<int32_t>(random.below(33, 2));
    t.sf_tiles.resize(static_cast<size_t>(s.count));
    for (size_t g = t.sf_tiles.size(); g-- > 0;) {
      t.sf_tiles[g] = at;
      at += static_cast<int32_t>((ranges[g].rows() + 127) / 128);
      // Of a group without rows the number means nothing.
      if (s.hostile && ranges[g].rows() == 0) t.sf_tiles[g] = g % 2 == 0 ? INT32_MAX : -3;
    }
    // The last tile, which is no other group's, is that of one of a wrong number.
    // Below 0 in the first run, one of the other ways or none in the second.
    if (is_wrong(Fault::tiles)) spoil_tile(ranges, s, run == 0 ? 1 : random.below(30, 6), &t);
  }
  return t;
}

void share_last_tile(const GroupTable& t, int64_t m, Operand* a) {
  const std::vector<GroupRange> ranges = ranges_of(t, m);
  const auto row_scales = static_cast<std::ptrdiff_t>(a->scales.size()) / a->rows;
  for (size_t g = 0; g < t.sf_tiles.size(); ++g) {
    if (t.sf_tiles[g] >= 0 && t.sf_tiles[g] < t.sf_tile_count) continue;
    for (int64_t row = ranges[g].first + 128; row < ranges[g].end; ++row)
      std::copy_n(a->scales.begin() + (row - 128) * row_scales, row_scales,
                  a->scales.begin() + row * row_scales);
  }
}

} // namespace wltest::problems
