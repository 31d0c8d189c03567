// Problems of wl_moe.
#include "tests/problems/moe.hpp"

#include "kernels/grouped/grouped.hpp"
#include "kernels/moe/moe.hpp"
#include "runtime/src/configs.hpp"
#include "tests/problems/moe_operands.hpp"
#include "tests/problems/products.hpp"
#include "tests/problems/telling.hpp"
#include "tests/reference/grouped.hpp"
#include "tests/reference/moe.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

namespace wltest::problems {

namespace {

Bytes bytes_of(const void* from, size_t bytes) {
  Bytes to(bytes);
  if (bytes != 0) std::memcpy(to.data(), from, bytes);
  return to;
}
template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  return bytes_of(numbers.data(), sizeof(T) * numbers.size());
}

std::vector<float> numbers_of(const Bytes& bytes, wl_dtype type) {
  const size_t element = type == WL_F32 ? 4 : 2;
  std::vector<float> numbers(bytes.size() / element);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (type == WL_F32) {
      std::memcpy(&numbers[i], &bytes[4 * i], 4);
      continue;
    }
    uint16_t code = 0;
    std::memcpy(&code, &bytes[2 * i], 2);
    numbers[i] = static_cast<float>(type == WL_F16 ? decode_f16(code) : decode_bf16(code));
  }
  return numbers;
}

wl_operand operand_of(wl_dtype type) {
  return type == WL_NVFP4 ? WL_OPERAND_NVFP4 : type == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
}

// What a run reads.
struct Run {
  std::vector<int32_t> ids;
  std::vector<float> weights, alpha[3];
  Matrix x;
  Operand w[3]; // gate, up, down of all experts
  Numbers bias[3], shared;
};

// The order of experts, and where each expert's rows of h are.
struct RowsOfExperts {
  ExpertOrder order;
  GroupTable table;
  std::vector<GroupRange> ranges;
};
RowsOfExperts rows_of_experts(const wl_moe_args& a, const Run& run) {
  RowsOfExperts of{order_experts(run.ids, a.top_k, a.experts, a.first_expert), {}, {}};
  of.table.count = a.experts;
  of.table.ends = of.order.ends;
  of.ranges = ranges_of(of.table, static_cast<int64_t>(run.ids.size()));
  return of;
}

// Y as the kernels compute it, step by step, [T, H] in y_type. With `tells` FP32 biases become such
// that the last place of what they are added to tells.
Bytes expected(const wl_moe_args& a, const warpline::DeviceLimits& device, const Gate& gate,
               float x_scale, float h_scale, bool tells, uint64_t seed, Run* run) {
  const RowsOfExperts of = rows_of_experts(a, *run);
  const auto slots = static_cast<int64_t>(run->ids.size());
  GroupTable gathered = of.table;
  // Rows of no expert are no rows.
  gathered.rows = of.order.rows;
  gathered.rows.resize(static_cast<size_t>(slots), 0);
  gathered.a_rows = a.tokens;

  wltest::Problem up{slots, a.intermediate, a.hidden, 1, {}, run->w[0], run->w[1], 1, 1};
  if (a.a_type == WL_OPERAND_NVFP4) {
    up.a = quantize(run->x, x_scale);
  } else {
    up.a = {a.tokens, a.hidden, 1, bytes_of(run->x.codes), {}, operand_of(a.x_type)};
  }
  const Sums up_sums = accumulate_groups(up, gathered, 1);
  const wl_dtype h_type = warpline::moe::h_type(a, device);
  const auto alpha = [&](size_t i, size_t g) {
    return run->alpha[i].empty() ? 1 : run->alpha[i][g];
  };
  const auto range = [&](size_t g, int64_t n) {
    return BiasedRows{of.ranges[g].first, of.ranges[g].end, g * static_cast<size_t>(n), 1, 1};
  };
  for (size_t g = 0; g < of.ranges.size() && tells && h_type != WL_NVFP4; ++g) {
    BiasedRows rows = range(g, a.intermediate);
    rows.alpha1 = alpha(0, g), rows.alpha2 = alpha(1, g);
    tell_by_biases(up_sums, rows, gate, h_type, seed + g, &run->bias[0], &run->bias[1]);
  }
  const std::vector<float> gated = grouped_gated_replayed(
      up_sums, of.ranges,
      {gate, run->alpha[0], run->alpha[1], run->bias[0].values, run->bias[1].values});

  wltest::Problem down{slots, a.hidden, a.intermediate, 1, {}, run->w[2], {}, 1, 1};
  if (h_type == WL_NVFP4)
    down.a = quantized(gated, up_sums, h_scale);
  else
    down.a = {slots, a.intermediate, 1, rounded(gated, h_type), {}, operand_of(h_type)};
  const Sums down_sums = accumulate_groups(down, of.table, 1);
  const wl_dtype rows_type = warpline::moe::rows_type(a, device);
  for (size_t g = 0; g < of.ranges.size() && tells && rows_type != WL_F32; ++g) {
    BiasedRows rows = range(g, a.hidden);
    rows.alpha1 = alpha(2, g);
    tell_by_bias(down_sums, rows, rows_type, seed + g, &run->bias[2]);
  }
  GroupedLinear linear;
  linear.alpha = run->alpha[2], linear.bias = run->bias[2].values;
  std::vector<float> products = numbers_of(
      rounded(grouped_linear_replayed(down_sums, of.ranges, linear), rows_type), rows_type);
  return rounded(
      combined(products, of.order.positions, run->weights, run->shared.values, a.top_k, a.hidden),
      a.y_type);
}

// The name of a configuration that makes it, `wanted` if it is one, "" where there is none.
std::string config_for(const warpline::gemm::Table& table, const std::string& profile,
                       wl_operand a_type, wl_dtype d_type, bool routed,
                       std::optional<warpline::gemm::Family> family, const std::string& wanted,
                       uint64_t draw) {
  const char* const target = profile == "b200" ? "sm_100f" : "sm_90a";
  std::vector<std::string> names;
  for (const warpline::gemm::Config& config : table)
    if (std::string(config.target) == target && config.d_type == d_type &&
        config.routed == routed && config.takes({a_type, WL_OPERAND_NVFP4}) &&
        (!family || config.family == *family))
      names.push_back(config.name);
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  return names.empty() ? "" : names[draw % names.size()];
}

void add_input(const char* name, bool given, size_t at, const Bytes (&runs)[2], bool filled,
               Draw& draw, Problem* p) {
  if (!given) {
    draw.note<std::string>(name, "null");
    return;
  }
  Input in{name, at, {}, ""};
  if (filled) in.runs = {runs[0], runs[1]};
  p->inputs.push_back(std::move(in));
}

Bytes at_stride(const Bytes& dense, int64_t count, size_t stride) {
  if (stride == 0 || dense.empty()) return dense;
  const size_t entry = dense.size() / static_cast<size_t>(count);
  Bytes image((static_cast<size_t>(count) - 1) * stride + entry, 0xFF);
  for (size_t e = 0; e < static_cast<size_t>(count); ++e)
    std::copy_n(&dense[e * entry], entry, &image[e * stride]);
  return image;
}

Problem make(const Configuration& c, Draw& draw, Values wanted) {
  const bool filled = wanted == Values::all;
  Problem p;
  p.exponentials = true;
  warpline::DeviceLimits device;
  device.compute_major = c.profile == "b200" ? 10 : 9;
  wl_moe_args a{};
  a.struct_size = draw.note("struct_size", sizeof a);
  a.experts = draw.pick<int64_t>("experts", {4, 1, 33, 8});
  a.top_k = draw.pick<int64_t>("top_k", {2, 1, 4});
  const bool summed = c.name.find("_sum_") != std::string::npos;
  if (summed) a.top_k = draw.pick<int64_t>("top_k", {2, 8, 1, 5});
  a.tokens = draw.pick<int64_t>("tokens", {5, 1, 40, 12});
  a.hidden = draw.pick<int64_t>("hidden", {128, 64, 320});
  a.intermediate = draw.pick<int64_t>("intermediate", {64, 192, 128});
  a.first_expert = draw.pick<int64_t>("first_expert", {0, 64});
  const bool of_down = c.name.find("_down_") != std::string::npos;
  // Of a product's K the second block of 256 is cut.
  if (of_down && a.intermediate == 192) a.intermediate = draw.note<int64_t>("intermediate", 320);
  if (a.experts == 33) a.hidden = draw.note<int64_t>("hidden", of_down ? 128 : 64);
  // Rows that say which expert is theirs: few.
  const bool of_layer = c.name.starts_with(layer_with);
  const bool small = of_layer && c.name.find("_small_") != std::string::npos;
  const bool in_order = of_layer && !small; // h, from one product to the other
  const bool routed = !c.kernels.empty() && !of_layer;
  const std::string product = of_layer ? c.kernels[0] : c.name;
  const int64_t most_tokens = warpline::gemm::Groups::most_routed / a.top_k;
  if (routed) a.tokens = draw.note("tokens", std::min(a.tokens, most_tokens));
  // Each of their rows has CTAs of its own: many rows of narrow matrices in one problem of six, in
  // which a lane finds the experts of two; else few, and fewest in those that all checks follow.
  const bool all_checks = draw.index() % all_sizes == 1;
  const bool many =
      draw.index() % 6 == 2 && !all_checks && c.name.find("split") == std::string::npos;
  if (routed && !many)
    a.tokens =
        draw.note("tokens", std::clamp<int64_t>((all_checks ? 6 : 12) / a.top_k, 1, a.tokens));
  if (routed && a.tokens * a.top_k > 12) {
    a.hidden = draw.note("hidden", std::min<int64_t>(a.hidden, 128));
    a.intermediate = draw.note("intermediate", std::min<int64_t>(a.intermediate, 64));
  }
  // A long K, where stages come round. Of down the other half of a tile's columns is stored, too,
  // and the product ahead has many columns: of two rows.
  // Once beyond 32 blocks of 256, where a stride of one more passes what a thread brings.
  const bool longer = routed && draw.index() == 7 && !summed;
  if (routed && draw.index() % 3 == 1) {
    a.experts = draw.note<int64_t>("experts", 2);
    const int64_t rows = all_checks || of_down ? 2 : 3;
    a.top_k = std::min(a.top_k, rows);
    a.tokens = std::clamp<int64_t>(rows / a.top_k, 1, a.tokens);
    if (all_checks && of_down) a.tokens = 1;
    if (longer) a.tokens = a.top_k = 1;
    const int64_t k = longer ? 8256 : summed ? 2112 : 1344;
    draw.note("tokens", a.tokens), draw.note("top_k", a.top_k);
    a.hidden = draw.note<int64_t>("hidden", !of_down ? k : longer ? 64 : 192);
    a.intermediate = draw.note<int64_t>("intermediate", of_down ? k : 64);
  }
  // CTAs that share the K of several tiles each: a row of 44 tiles of gate and up, three for all
  // clusters but one, of K in blocks of an odd number for each, and of a block, which one CTA has.
  const warpline::gemm::Config* const own =
      warpline::find_config(warpline::moe::up_configs(), c.name);
  const bool tiles = own != nullptr && own->keeps_sums() && draw.index() % 6 % 5 == 0;
  if (tiles) {
    a.top_k = draw.note<int64_t>("top_k", 1), a.tokens = draw.note<int64_t>("tokens", 1);
    a.hidden = draw.note<int64_t>("hidden", draw.index() % 6 == 0 ? 1344 : 64);
    a.intermediate = draw.note<int64_t>("intermediate", 1408);
  }
  // Products that count experts' rows, and of more than 64 pairs, so that experts have tiles of
  // more than 8 rows: a third of six problems, which is what a kernel may be given, has both.
  const bool counted = small && draw.index() < 6;
  if (counted && draw.index() >= 3)
    a.tokens =
        draw.note("tokens", 64 / a.top_k + 1 + static_cast<int64_t>(draw.below("more tokens", 9)));
  // Once more pairs and experts than a CTA has threads.
  if (small && draw.index() == 4) {
    a.tokens = draw.note("tokens", a.tokens + 360 / a.top_k);
    a.experts = draw.note<int64_t>("experts", 400);
    a.hidden = draw.note<int64_t>("hidden", of_down ? 128 : 64);
    a.intermediate = draw.note<int64_t>("intermediate", of_down ? 320 : 64);
  }
  // Full tiles, and tiles of fewer rows; once h has half of a block of 128, and comes to its order
  // behind the first product.
  if (in_order) {
    a.tokens =
        draw.note("tokens", std::vector<int64_t>{150, 9, 330, 70, 40, 300}[draw.index() % 6]);
    a.experts = draw.note<int64_t>("experts", draw.index() % 6 == 3 ? 33 : 1 + draw.index() % 4);
    a.top_k = std::min<int64_t>(a.top_k, 2);
    if (a.tokens > 100) a.top_k = 1;
    draw.note("top_k", a.top_k);
    a.intermediate = draw.pick<int64_t>("intermediate", {256, 128, 192, 384});
    a.hidden = draw.note<int64_t>("hidden", draw.index() % 3 == 0 ? 192 : 128);
  }
  a.x_type = c.type;
  a.a_type = c.types[0].a;
  draw.note("x_type", static_cast<int>(a.x_type));
  draw.note("a_type", static_cast<int>(a.a_type));
  a.sf_layout = draw_sf_layout(c, {a.a_type, WL_OPERAND_NVFP4}, draw);
  if (counted || in_order) a.sf_layout = draw.note("sf_layout", WL_SF_128x4);
  a.y_type = static_cast<wl_dtype>(draw.pick("y_type", {0, 1, 3}));
  if ((routed || of_layer) && a.x_type == WL_F16 &&
      (a.y_type == WL_BF16) != (c.rows_type == WL_BF16))
    a.y_type = draw.note("y_type", c.rows_type);
  const wl_dtype h_type = warpline::moe::h_type(a, device);
  const wl_dtype rows_type = warpline::moe::rows_type(a, device);
  std::string kind = draw_kind_of_ids(draw);
  // A kernel that says which expert is a row's has few problems: none without a row.
  if ((routed || counted) && kind == "none") kind = "of other devices";
  // Of one or two experts those would be none or few.
  if (routed && kind == "of other devices" && a.experts < 4) kind = "hostile";
  if (routed && many) kind = "hostile"; // a second one of a lane is the first beyond
  if (longer || tiles) kind = "any";    // of its one row
  draw.note("ids", kind);

  const auto dense = [&](int64_t rows, int64_t k) { return rows * (k / 2); };
  const auto scales = [&](int64_t rows, int64_t k) {
    return static_cast<int64_t>(wl_sf_bytes(a.sf_layout, rows, k));
  };
  const auto stride = [&](const char* name, int64_t entry) {
    const int64_t more = draw.pick<int64_t>(std::string("gap of ") + name, {0, 16, 48});
    return draw.note(name, more == 0 ? 0 : entry + more);
  };
  a.w_stride_bytes = stride("w_stride_bytes", dense(a.intermediate, a.hidden));
  a.sf_stride_bytes = stride("sf_stride_bytes", scales(a.intermediate, a.hidden));
  a.w_down_stride_bytes = stride("w_down_stride_bytes", dense(a.hidden, a.intermediate));
  a.sf_down_stride_bytes = stride("sf_down_stride_bytes", scales(a.hidden, a.intermediate));

  draw_product_way({a.tokens * a.top_k * (routed ? 8 : 1), a.intermediate, a.hidden, 1}, draw, &p);
  const int64_t wanted_rows =
      draw_planned_rows({a.tokens, a.hidden, 64, 1},
                        {"w_gate", "w_up", "w_down", "sf_gate", "sf_up", "sf_down"}, draw, &p);
  const int64_t planned = routed ? std::min(wanted_rows, most_tokens) : wanted_rows;
  const auto gates = draw_gates(runs_differ(planned, p), draw);
  const BiasType bias_type = draw_bias_type(draw, false);
  a.bias_type = bias_type.said;
  const char* const bias_names[] = {"bias_gate", "bias_up", "bias_down"};
  const char* const alpha_names[] = {"alpha_gate", "alpha_up", "alpha_down"};
  const char* const weight_names[] = {"w_gate", "w_up", "w_down"};
  const char* const scale_names[] = {"sf_gate", "sf_up", "sf_down"};
  bool has_bias[3], has_alpha[3];
  for (size_t i = 0; i < 3; ++i) {
    has_bias[i] =
        bias_type.given && draw.pick<int>(std::string("with ") + bias_names[i], {1, 0, 1}) != 0;
    has_alpha[i] = draw.pick<int>(std::string("with ") + alpha_names[i], {1, 0, 1}) != 0;
  }
  // FP32's last place is told by biases of all products.
  const bool tells = routed && bias_type.given && bias_type.type == WL_F32;
  // Tokens with the largest scales, of which factors make what FP16 holds.
  const bool loud = a.a_type == WL_OPERAND_NVFP4 && routed && draw.index() % 2 == 0;
  for (size_t i = 0; i < 3; ++i) {
    if (tells) has_bias[i] = draw.note(std::string("with ") + bias_names[i], 1) != 0;
    // What is read of an expert beyond the last tells.
    if (routed && many) has_alpha[i] = draw.note(std::string("with ") + alpha_names[i], 1) != 0;
    if (loud && i != 2) has_alpha[i] = draw.note(std::string("with ") + alpha_names[i], 1) != 0;
  }
  const bool weighted = draw.pick("with weights", {1, 1, 0}) != 0;
  const std::string shared = draw.pick<const char*>("shared of", {"null", "apart", "in place"});
  const bool in_place = shared == "in place", apart = shared == "apart";
  const auto ld = [&](const char* name) {
    const int64_t gap = draw.pick<int64_t>(std::string("gap of ") + name, {0, 8, -1, 24});
    return draw.note(name, gap == -1 ? a.hidden : gap == 0 ? 0 : a.hidden + gap);
  };
  a.ldy = ld("ldy");
  a.ld_shared = in_place ? draw.note("ld_shared", a.ldy) : ld("ld_shared");
  const Sizes sizes{a.tokens, a.hidden, 64, 1};
  const size_t element = a.y_type == WL_F32 ? 4 : 2;
  const Layout of_y{sizes, element, a.ldy, 0}, of_shared{sizes, element, a.ld_shared, 0};
  const Factor x_scale =
      a.a_type == WL_OPERAND_NVFP4
          ? Factor{true, draw_float_alignment(draw, "x_scale"), {0.3125f, 0.375f}}
          : Factor{};
  if (!x_scale.given) draw.note<std::string>("x_scale", "null");
  const bool scaled_h = h_type == WL_NVFP4 && draw.pick("with h_scale", {1, 0}) != 0;
  const Factor h_scale =
      scaled_h ? Factor{true, draw_float_alignment(draw, "h_scale"), {0.013f, 3.0f}} : Factor{};
  if (!scaled_h) draw.note<std::string>("h_scale", "null");
  const uint8_t padding = draw.pick<uint8_t>("padding", {0x7F, 0xFF, 0x38});
  std::optional<warpline::gemm::Family> family;
  if (small) family = warpline::gemm::Family::sm90_small;
  if (in_order) family = warpline::gemm::Family::sm90;
  const bool forced = draw.pick("configs", {0, 1}) != 0 || routed || of_layer;
  // The kernel beside the one that is tried: any in some problems, else the first, whose clusters
  // are the smallest.
  const auto other = [&](const char* of) {
    return routed && draw.index() % 4 != 3 ? 0 : draw.below(of, 1000);
  };
  const std::string up = !forced ? ""
                                 : config_for(warpline::moe::up_configs(), c.profile, a.a_type,
                                              h_type, routed, family, product, other("up"));
  const std::string down =
      !forced ? ""
              : config_for(warpline::moe::down_configs(), c.profile, operand_of(h_type), rows_type,
                           routed, family, product, other("down"));
  p.config = up;
  draw.note<std::string>("config_up", up.empty() ? "null" : up);
  draw.note<std::string>("config_down", down.empty() ? "null" : down);

  // A row of h with a NaN or an infinity has no other outputs: of every other expert.
  const bool all_rows = draw.pick("rows of weights", {0, 0, 0, 1}) != 0 && !of_down;
  const OutputType x_type = a.x_type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  const size_t slots = static_cast<size_t>(a.tokens * a.top_k);
  Run runs[2];
  Bytes outs[2];
  for (uint64_t r = 0; r < 2 && filled; ++r) {
    Run& run = runs[r];
    const uint64_t seed = (draw.seed_for("operands") + r) * 16;
    run.ids = draw_ids(kind, static_cast<int64_t>(slots), a.experts, a.first_expert, seed);
    if (weighted) run.weights = draw_numbers(slots, WL_F32, 1, seed + 1).values;
    run.x = a.a_type == WL_OPERAND_NVFP4
                ? draw_quantised_x(a.tokens, a.hidden, x_type, x_scale.runs[r], loud, seed + 2)
                : draw_x(a.tokens, a.hidden, x_type, seed + 2);
    for (uint64_t i = 0; i < 2; ++i) {
      const auto weights = [&](Rows rows) {
        return draw_operand(a.intermediate, a.hidden, a.experts, fitting_b + 8, seed + 3 + i, 8,
                            rows);
      };
      run.w[i] = weights(Rows::finite);
      if (!all_rows) continue;
      const Bytes all = weights(Rows::all).scales;
      const size_t entry = all.size() / static_cast<size_t>(a.experts);
      for (size_t e = 1; e < static_cast<size_t>(a.experts); e += 2)
        std::copy_n(&all[e * entry], entry, &run.w[i].scales[e * entry]);
    }
    const bool quiets = routed && of_down;
    run.w[2] = one_hot(a.hidden, a.intermediate, a.experts, seed + 5, quiets ? &seed : nullptr);
    for (size_t i = 0; i < 3; ++i) {
      const Random random(seed + 6 + i, 3);
      for (int64_t e = 0; e < a.experts && has_alpha[i]; ++e)
        run.alpha[i].push_back(static_cast<float>(
            (2 * random.uniform(static_cast<uint64_t>(e)) - 0.75) * (loud && i != 2 ? 0x1p-8 : 1)));
      const int64_t n = i == 2 ? a.hidden : a.intermediate;
      if (has_bias[i])
        run.bias[i] =
            draw_numbers(static_cast<size_t>(a.experts * n), bias_type.type, 1, seed + 9 + i);
      if (i != 2) make_finite(&run.bias[i], bias_type.type);
    }
    if (quiets) make_quiet(&run.w[0], &run.bias[0], bias_type.type, seed);
    if (in_place || apart)
      run.shared = draw_numbers(static_cast<size_t>(a.tokens * a.hidden), a.y_type, 4, seed + 12);
    outs[r] = expected(a, device, gates[r], x_scale.runs[r], h_scale.runs[r], tells, seed, &run);
  }
  const auto both = [&](const auto& of) {
    Bytes result[2];
    if (filled) result[0] = of(runs[0]), result[1] = of(runs[1]);
    return std::pair{result[0], result[1]};
  };
  const auto add = [&](const char* name, bool given, size_t at, const auto& of) {
    const auto [first, second] = both(of);
    add_input(name, given, at, {first, second}, filled, draw, &p);
  };
  add("x", true, draw_alignment(draw, "x"), [](const Run& r) { return bytes_of(r.x.codes); });
  add("ids", true, draw_float_alignment(draw, "ids"), [](const Run& r) { return bytes_of(r.ids); });
  add("weights", weighted, draw_float_alignment(draw, "weights"),
      [](const Run& r) { return bytes_of(r.weights); });
  for (size_t i = 0; i < 3; ++i) {
    const auto w_stride = static_cast<size_t>(i == 2 ? a.w_down_stride_bytes : a.w_stride_bytes);
    const auto sf_stride = static_cast<size_t>(i == 2 ? a.sf_down_stride_bytes : a.sf_stride_bytes);
    add(weight_names[i], true, draw_alignment(draw, weight_names[i]),
        [&](const Run& r) { return at_stride(r.w[i].values, a.experts, w_stride); });
    add(scale_names[i], true, draw_alignment(draw, scale_names[i]), [&](const Run& r) {
      return at_stride(scale_bytes(r.w[i], padding, a.sf_layout), a.experts, sf_stride);
    });
    add(alpha_names[i], has_alpha[i], draw_float_alignment(draw, alpha_names[i]),
        [&](const Run& r) { return bytes_of(r.alpha[i]); });
    add(bias_names[i], has_bias[i], draw_alignment(draw, bias_names[i]),
        [&](const Run& r) { return r.bias[i].bytes; });
  }
  x_scale.add_to("x_scale", &p.inputs);
  h_scale.add_to("h_scale", &p.inputs);

  Output y = draw_d(a.y_type, draw);
  y.name = "y";
  draw.note("y", y.misalignment);
  Input added{"shared", draw_alignment(draw, "shared"), {}, ""};
  if (!apart) draw.note<std::string>("shared", in_place ? "16" : "null");
  for (size_t r = 0; r < 2 && filled; ++r) {
    Bytes image(of_y.bytes());
    y.written.assign(image.size(), false);
    of_y.place(outs[r].data(), &image, &y.written);
    y.runs.push_back(std::move(image));
    if (!in_place && !apart) continue;
    Bytes read((in_place ? of_y : of_shared).bytes(), 0xFF);
    (in_place ? of_y : of_shared).place(runs[r].shared.bytes.data(), &read);
    (in_place ? y.before : added.runs).push_back(std::move(read));
  }
  if (apart) p.inputs.push_back(std::move(added));
  p.outputs.push_back(std::move(y));

  a.flags = draw.pick<uint32_t>(
      "flags", {0, WL_STATIC_WEIGHTS, WL_GRAPH_LAUNCH, WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH});
  p.static_weights = (a.flags & WL_STATIC_WEIGHTS) != 0;
  if (in_place) p.in_a_row = 1; // a second one would add to the first one's sums
  const auto args_of = [=](const Addresses& addresses, int run) {
    const auto at = [&](const char* name) { return addresses.at(name); };
    const auto floats = [&](const char* name) { return static_cast<const float*>(at(name)); };
    wl_moe_args args = a;
    const Gate& gate = gates[static_cast<size_t>(run)];
    args.gate = gate.kind, args.gate_limit = gate.limit;
    args.x = at("x"), args.ids = static_cast<const int32_t*>(at("ids"));
    args.weights = floats("weights");
    args.w_gate = at("w_gate"), args.w_up = at("w_up"), args.w_down = at("w_down");
    args.sf_gate = at("sf_gate"), args.sf_up = at("sf_up"), args.sf_down = at("sf_down");
    args.alpha_gate = floats("alpha_gate"), args.alpha_up = floats("alpha_up");
    args.alpha_down = floats("alpha_down");
    args.bias_gate = at("bias_gate"), args.bias_up = at("bias_up");
    args.bias_down = at("bias_down");
    args.x_scale = floats("x_scale"), args.h_scale = floats("h_scale");
    args.shared = in_place ? at("y") : at("shared");
    args.y = at("y");
    args.config_up = up.empty() ? nullptr : up.c_str();
    args.config_down = down.empty() ? nullptr : down.c_str();
    return args;
  };
  p.plan = [=](wl_context* context, const Addresses& at, wl_plan** plan) {
    wl_moe_args args = args_of(at, 0);
    if (planned != 0) {
      args.tokens = planned;
      args.ldy = args.ld_shared = 0;
      args.shared = nullptr;
      args.gate = args.gate == WL_GATE_SILU ? WL_GATE_GELU_TANH : WL_GATE_SILU;
      args.gate_limit = 0;
    }
    return wl_moe_plan(context, &args, plan);
  };
  if (planned != 0)
    p.run_with = [=](int run, const wl_plan* plan, const Addresses& at, void* workspace,
                     size_t bytes, wl_stream stream) {
      wl_moe_args args = args_of(at, run);
      args.config_up = args.config_down = "the plan's";
      args.flags = ~0u;
      return wl_moe_run(plan, &args, workspace, bytes, stream);
    };
  return p;
}

} // namespace

Operation moe() {
  Operation op{"moe", "moe", "wl_moe_args", {}, make};
  const struct {
    const char *name, *profile;
    wl_dtype x_type;
    wl_operand a_type;
  } kinds[] = {{"moe_sm100_f16", "b200", WL_F16, WL_OPERAND_NVFP4},
               {"moe_sm100_bf16", "b200", WL_BF16, WL_OPERAND_NVFP4},
               {"moe_sm90_nvfp4_f16", "h200", WL_F16, WL_OPERAND_NVFP4},
               {"moe_sm90_nvfp4_bf16", "h200", WL_BF16, WL_OPERAND_NVFP4},
               {"moe_sm90_f16", "h200", WL_F16, WL_OPERAND_F16},
               {"moe_sm90_bf16", "h200", WL_BF16, WL_OPERAND_BF16}};
  for (const auto& kind : kinds) {
    Configuration c;
    c.name = kind.name, c.profile = kind.profile;
    c.type = kind.x_type;
    c.types = {{kind.a_type, WL_OPERAND_NVFP4}};
    c.sms = 4;
    c.problems = first_problems(10);
    op.configurations.push_back(c);
  }
  for (const auto* table : {&warpline::moe::up_configs(), &warpline::moe::down_configs()})
    for (const warpline::gemm::Config& config : *table) {
      const bool small = config.family == warpline::gemm::Family::sm90_small;
      const bool in_order = config.orders_d() || config.takes_ordered();
      // h is in 16 bits, of the tokens' type.
      const bool nvfp4 = config.takes({WL_OPERAND_NVFP4});
      const bool of_layers = small && config.grouped &&
                             (config.b_tensors == 1 ? !nvfp4
                                                    : nvfp4 || config.takes({WL_OPERAND_F16}) ==
                                                                   (config.d_type == WL_F16));
      if (!config.routed && !of_layers && !in_order) continue;
      Configuration c;
      c.name = (config.routed ? "" : layer_with) + std::string(config.name), c.profile = "h200";
      c.kernels = {config.name};
      c.types = {config.first_types()};
      if (config.takes_ordered() && nvfp4) c.types[0].a = WL_OPERAND_F16;
      // h is of the tokens' type.
      c.type = config.b_tensors == 2            ? config.d_type
               : c.types[0].a == WL_OPERAND_F16 ? WL_F16
                                                : WL_BF16;
      c.rows_type = config.b_tensors == 1 ? config.d_type : c.type;
      c.sms = config.keeps_sums() ? 10 : 4;
      c.problems = first_problems(6);
      op.configurations.push_back(c);
    }
  return op;
}

} // namespace wltest::problems
