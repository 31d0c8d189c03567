// Problems of the dual GEMM.
#include "tests/problems/dual_gemm.hpp"

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/problems/nvfp4.hpp"
#include "tests/reference/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace wltest::problems {

namespace {

using warpline::dual_gemm::Grid;
using warpline::dual_gemm::Row;

// Kinds of sizes; the first of them take little time and tell most.
constexpr size_t all_sizes = 7, few_outputs = 4;

Configuration configuration_of(const Row& row) {
  Configuration c;
  c.name = row.name;
  c.kernels = {row.name};
  c.type = row.d_type;
  // Kernels of BF16 outputs have the text of those of FP16 outputs but for the last conversion.
  c.problems = row.d_type == WL_BF16 ? few_outputs : all_sizes;
  c.tile_k = row.tile_k;
  c.group = row.group_m;
  if (std::string(row.target) == "sm_100f") {
    const int ctas = row.cluster[0];
    c.profile = "b200";
    c.sms = row.grid == Grid::stream_k ? 3 * ctas : ctas;
    c.rows = 128 * row.cluster_m;
    c.columns = row.tile_n * row.cluster_n;
    c.depth = row.stages * row.tile_k * row.split_k;
    return c;
  }
  c.profile = "h200";
  c.sms = 2;
  c.rows = row.tile_m;
  c.columns = row.tile_n * row.cluster[0] / row.split_k;
  c.depth = row.stages * row.tile_k * row.split_k;
  if (!row.fused()) c.kernels.push_back("dual_gemm_sm90_decode");
  return c;
}

struct Sizes {
  int64_t m, n, k, l;
};

// In the order in which they tell most for their time.
Sizes draw_sizes(const Configuration& c, Draw& draw) {
  const auto below = [&](const char* name, int64_t bound) {
    return static_cast<int64_t>(
        draw.below(name, static_cast<uint64_t>(std::max<int64_t>(bound, 1))));
  };
  const int64_t step = c.type == WL_NVFP4 ? 64 : 8; // of N
  Sizes s{1, step, 64, 1};
  switch (draw.index() % all_sizes) {
  case 0: // an edge in every direction, and stages a second time
    draw.note<std::string>("sizes", "beyond tiles");
    s.m = c.rows + 1 + below("m", c.rows / 2);
    s.n = c.columns + step * (1 + below("n", c.columns / step - 1));
    s.n = (s.n + 15) / 16 * 16;
    s.k = c.depth + c.tile_k + 64 * (1 + below("k", c.tile_k / 64));
    s.l = c.rows * c.columns <= 16384 ? 2 : 1;
    break;
  case 1: // one tile of a long K: where clusters share K, all of them share this tile
    draw.note<std::string>("sizes", "one tile");
    s.m = 1 + below("m", c.rows);
    s.n = step * (1 + below("n", c.columns / step));
    s.k = 2 * c.depth + 64 * (1 + below("k", 8));
    break;
  case 2: // less than a tile
    draw.note<std::string>("sizes", "small");
    s.m = 1 + below("m", 40);
    s.n = step * (1 + below("n", 4));
    s.k = 64 * (1 + below("k", 3));
    s.l = 1 + below("l", 5);
    break;
  case 3:
    draw.note<std::string>("sizes", "any");
    s.m = 1 + below("m", 200);
    s.n = step * (1 + below("n", 200 / step));
    s.k = 64 * (1 + below("k", 16));
    s.l = 1 + below("l", 3);
    break;
  case 4: // whole tiles, a whole group of them
    draw.note<std::string>("sizes", "whole groups");
    s.m = c.rows * c.group;
    s.n = 3 * c.columns;
    s.k = c.tile_k;
    break;
  case 5: // a whole group and a part of one
    draw.note<std::string>("sizes", "part of a group");
    s.m = c.rows * (c.group + below("m", 2)) + 1 + below("rest", c.rows - 1);
    s.n = 2 * c.columns - step;
    s.k = 64;
    s.l = c.rows <= 64 ? 2 : 1;
    break;
  default: // whole tiles and whole turns of the stages
    draw.note<std::string>("sizes", "whole tiles");
    s.m = c.rows * (1 + below("m", 2));
    s.n = c.columns * (1 + below("n", 3));
    s.k = c.depth;
    s.l = c.rows * c.columns <= 16384 ? 3 : 1;
  }
  s.n = (s.n + step - 1) / step * step;
  draw.note("m", s.m);
  draw.note("n", s.n);
  draw.note("k", s.k);
  draw.note("l", s.l);
  return s;
}

// A factor in device memory, another in each run; null stands for 1.
struct Factor {
  bool given = false;
  size_t misalignment = 0;
  float runs[2] = {1, 1};
  void add_to(const std::string& name, std::vector<Input>* inputs) const {
    if (given) inputs->push_back({name, misalignment, {bytes_of(runs[0]), bytes_of(runs[1])}, ""});
  }
};

bool is_first(const Draw& draw) { return draw.index() % all_sizes == 0; }

// Problems of few outputs, for values under which most outputs are alike.
bool is_small(const Draw& draw) {
  return draw.index() % all_sizes == 2 || draw.index() % all_sizes == 3;
}

// `fitting` brings sums to the order of 1.
Factor draw_alpha(Draw& draw, const std::string& name, float fitting) {
  const std::string kind =
      is_small(draw) ? draw.pick<const char*>(name + " of a small problem",
                                              {"null", "zero", "huge", "tiny", "negative"})
                     : draw.pick<const char*>(name + " kind", {"fitting", "null", "negative"});
  Factor f;
  f.given = kind != "null";
  if (!f.given) {
    draw.note<std::string>(name, "null");
    return f;
  }
  f.misalignment = draw_float_alignment(draw, name);
  const float value = kind == "fitting"    ? fitting * 1.25f
                      : kind == "negative" ? -fitting * 1.5f
                      : kind == "zero"     ? 0.0f
                      : kind == "huge"     ? 1e30f
                                           : 3e-39f;
  f.runs[0] = value;
  f.runs[1] = value * 0.75f;
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

// Scales of A and of B, whose product brings sums over K to the order of 1 without an alpha.
constexpr uint8_t base_a = 0x18;
constexpr uint8_t fitting_b = 0x08;

// Outputs alpha1 * b1 * alpha2 * b2 without a sum: silu leaves what is 16 and more as it is. With
// an alpha2 of 17 or 19 sixteenths the scales of many blocks of D lie between two E4M3 numbers,
// where the last place of every step tells.
void make_ties(wltest::Problem* q, uint64_t seed) {
  q->a.values.assign(q->a.values.size(), 0);
  q->a.scales.assign(q->a.scales.size(), 0x38);
  const Random random(seed, 9);
  for (int64_t row = 0; row < q->l * q->m; ++row)
    q->a.values[static_cast<size_t>(row * (q->k / 2)) + random.below(row, q->k / 2)] = 0x02;
  // Magnitudes of B1 are 3 * 2^i, those of B2 2^i.
  const uint8_t codes[2][4] = {{3, 5, 7, 5}, {1, 2, 4, 6}};
  for (int product = 0; product < 2; ++product) {
    Operand& b = product == 0 ? q->b1 : q->b2;
    const uint8_t* code = codes[product];
    for (uint8_t& pair : b.values)
      pair = static_cast<uint8_t>(code[pair & 3] | code[pair >> 4 & 3] << 4);
    for (size_t i = 0; i < b.scales.size(); ++i)
      b.scales[i] = static_cast<uint8_t>(0x38 + 8 * random.below(i, 2));
  }
}

Problem make(const Configuration& c, Draw& draw, Values wanted) {
  const bool filled = wanted == Values::all;
  Problem p;
  const Sizes s = draw_sizes(c, draw);
  const bool nvfp4 = c.type == WL_NVFP4;
  draw.note("d_type", static_cast<int>(c.type));
  draw.note("struct_size", sizeof(wl_dual_gemm_args));
  draw.note("sf_layout", static_cast<int>(WL_SF_128x4));
  const bool chosen = draw.index() % all_sizes == 3;
  draw.note<std::string>("config", chosen ? "null" : c.name);
  p.config = chosen ? "" : c.name;

  // Operands. The scales of B tell how large sums are; an alpha that is null leaves them so.
  Factor alpha[2];
  uint8_t base_b[2];
  for (int product = 0; product < 2; ++product) {
    const std::string name = product == 0 ? "alpha1" : "alpha2";
    const int binades = static_cast<int>(draw.below(name + " scales", 6));
    alpha[product] = draw_alpha(draw, name, std::ldexp(1.0f, -binades));
    base_b[product] = static_cast<uint8_t>(fitting_b + (alpha[product].given ? 8 * binades : 0));
  }
  const bool ties = nvfp4 && draw.index() % all_sizes == 2;
  if (ties) {
    draw.note<std::string>("values", "ties");
    alpha[0] = {true, 4, {64, 64}};
    alpha[1] = {true, 8, {17.0f / 1024, 19.0f / 1024}};
  }
  const uint8_t padding = draw.pick<uint8_t>("padding", {0x7F, 0xFF, 0x38});
  const std::string alias =
      is_small(draw) && !ties
          ? draw.pick<const char*>("shared memory", {"B2 is B1", "none", "B1 is in A", "alphas"})
          : "none";
  wltest::Problem problems[2];
  for (int run = 0; run < 2 && filled; ++run) {
    wltest::Problem& q = problems[run];
    q = {s.m, s.n, s.k, s.l, {}, {}, {}, 1, 1};
    const uint64_t seed = draw.seed_for("operands") + static_cast<uint64_t>(run);
    q.a = draw_operand(s.m, s.k, s.l, base_a, seed * 4);
    q.b1 = draw_operand(s.n, s.k, s.l, base_b[0], seed * 4 + 1);
    q.b2 = draw_operand(s.n, s.k, s.l, base_b[1], seed * 4 + 2);
    if (ties) make_ties(&q, seed);
    if (alias == "B2 is B1") q.b2 = q.b1;
    if (alias == "B1 is in A" && s.l == 1 && s.n <= s.m) {
      q.b1.values.assign(q.a.values.begin(), q.a.values.begin() + s.n * (s.k / 2));
      q.b1.scales.assign(q.a.scales.begin(), q.a.scales.begin() + s.n * (s.k / 16));
    }
    if (alias == "alphas" && alpha[0].given && alpha[1].given)
      alpha[1].runs[run] = alpha[0].runs[run];
    q.alpha1 = alpha[0].runs[run];
    q.alpha2 = alpha[1].runs[run];
  }
  const auto add_operand = [&](const char* values, const char* scales,
                               Operand wltest::Problem::*operand, bool within,
                               const std::string& of_values, const std::string& of_scales) {
    Input in{values, draw_alignment(draw, values), {}, within ? of_values : ""};
    Input sf{scales, draw_alignment(draw, scales), {}, within ? of_scales : ""};
    for (const wltest::Problem& q : problems) {
      if (!filled) break;
      in.runs.push_back((q.*operand).values);
      sf.runs.push_back(scale_bytes(q.*operand, padding));
    }
    p.inputs.push_back(std::move(in));
    p.inputs.push_back(std::move(sf));
  };
  add_operand("a", "sfa", &wltest::Problem::a, false, "", "");
  add_operand("b1", "sfb1", &wltest::Problem::b1, alias == "B1 is in A" && s.l == 1 && s.n <= s.m,
              "a", "sfa");
  add_operand("b2", "sfb2", &wltest::Problem::b2, alias == "B2 is B1", "b1", "sfb1");
  alpha[0].add_to("alpha1", &p.inputs);
  alpha[1].add_to("alpha2", &p.inputs);
  if (alias == "alphas" && alpha[0].given && alpha[1].given) p.inputs.back().within = "alpha1";

  // Outputs.
  int64_t ldd = 0, batch_stride = 0;
  if (!nvfp4) {
    const int64_t gap = draw.pick<int64_t>("gap", {0, 8, 16, 24, -1});
    // In the first problem rows start on 32 bytes as far as the strides say, and D does not.
    const int64_t whole = is_first(draw) ? 16 : 8;
    ldd = draw.note("ldd", gap == -1 ? s.n : gap == 0 ? 0 : s.n + gap / whole * whole);
    const int64_t pitch = ldd == 0 ? s.n : ldd;
    const std::string stride =
        draw.pick<const char*>("entries of D", {"default", "apart", "dense", "interlocked"});
    batch_stride = draw.note("batch_stride_d", stride == "default" ? 0
                                               : stride == "apart" ? s.m * pitch + 5 * whole
                                               : stride == "dense" ? s.m * pitch
                                                                   : (s.m - 1) * pitch + s.n);
  } else {
    ldd = draw.pick<int64_t>("ldd", {0, s.n});
    batch_stride = draw.pick<int64_t>("batch_stride_d", {0, s.m * s.n});
  }
  Factor d_scale = nvfp4 ? draw_d_scale(draw) : Factor{};
  if (ties && d_scale.given) d_scale.runs[0] = d_scale.runs[1] = draw.note("d_scale value", 0.25f);
  d_scale.add_to("d_scale", &p.inputs);
  Output d{"d", draw_alignment(draw, "d"), {}, {}, 0}, sfd{"sfd", 0, {}, {}, 0};
  if (is_first(draw)) d.misalignment = draw.note<size_t>("d", d.misalignment | 16);
  if (nvfp4) sfd.misalignment = draw_alignment(draw, "sfd");
  const int64_t pitch = ldd == 0 ? s.n : ldd;
  const int64_t entry = batch_stride == 0 ? s.m * pitch : batch_stride;
  for (int run = 0; run < 2 && filled; ++run) {
    const wltest::Problem& q = problems[run];
    const Sums sums = accumulate(q, 1);
    if (nvfp4) {
      const Operand out = quantized_replayed(sums, q.alpha1, q.alpha2, d_scale.runs[run]);
      d.runs.push_back(out.values);
      expect_scales(out, &sfd);
      continue;
    }
    const OutputType type = c.type == WL_F16 ? OutputType::f16 : OutputType::bf16;
    const std::vector<uint16_t> out = gated_replayed(sums, q.alpha1, q.alpha2, type);
    Bytes image(static_cast<size_t>(2 * ((s.l - 1) * entry + (s.m - 1) * pitch + s.n)));
    d.written.assign(image.size(), false);
    for (int64_t row = 0; row < s.l * s.m; ++row) {
      const int64_t at = 2 * (row / s.m * entry + row % s.m * pitch);
      std::memcpy(&image[static_cast<size_t>(at)], &out[static_cast<size_t>(row * s.n)],
                  static_cast<size_t>(2 * s.n));
      std::fill_n(d.written.begin() + at, 2 * s.n, true);
    }
    d.runs.push_back(std::move(image));
    d.infinity = c.type == WL_F16 ? 0x7C00 : 0x7F80;
  }
  if (nvfp4 && filled) d.written.assign(d.runs[0].size(), true);
  p.outputs.push_back(std::move(d));
  if (nvfp4) p.outputs.push_back(std::move(sfd));

  const uint32_t flags = draw.pick<uint32_t>(
      "flags", {0, WL_STATIC_WEIGHTS, WL_GRAPH_LAUNCH, WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH});
  draw_way(draw, &p);
  if (draw.index() % all_sizes == 1) {
    // Clusters that share the tile lag behind each other, whatever they do not wait for; and the
    // checkers follow what they tell each other.
    p.runs = 3;
    p.schedule = draw.note("schedule", "hold:" + std::to_string(1 + draw.below("hold", 3)));
    p.checks = draw.note<std::string>("checks", "all");
  }
  p.plan = [=, type = c.type, config = p.config](
               wl_context* context, const std::map<std::string, void*>& addresses, wl_plan** plan) {
    const auto at = [&](const char* name) {
      const auto found = addresses.find(name);
      return found == addresses.end() ? nullptr : found->second;
    };
    wl_dual_gemm_args args{};
    args.struct_size = sizeof args;
    args.m = s.m, args.n = s.n, args.k = s.k, args.l = s.l;
    args.a = at("a"), args.b1 = at("b1"), args.b2 = at("b2");
    args.sfa = at("sfa"), args.sfb1 = at("sfb1"), args.sfb2 = at("sfb2");
    args.sf_layout = WL_SF_128x4;
    args.alpha1 = static_cast<const float*>(at("alpha1"));
    args.alpha2 = static_cast<const float*>(at("alpha2"));
    args.d = at("d"), args.d_type = type;
    args.ldd = ldd, args.batch_stride_d = batch_stride;
    args.config = config.empty() ? nullptr : config.c_str();
    args.sfd = at("sfd");
    args.d_scale = static_cast<const float*>(at("d_scale"));
    args.flags = flags;
    return wl_dual_gemm_plan(context, &args, plan);
  };
  return p;
}

} // namespace

Operation dual_gemm() {
  Operation op{"dual_gemm", "wl_dual_gemm_args", {}, make};
  for (const Row& row : warpline::dual_gemm::rows())
    op.configurations.push_back(configuration_of(row));
  return op;
}

} // namespace wltest::problems
