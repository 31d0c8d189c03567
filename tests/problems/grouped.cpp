// Problems of wl_grouped_gemm and wl_grouped_dual_gemm.
#include "tests/problems/grouped.hpp"

#include "kernels/gemm/rules.hpp"
#include "kernels/grouped/grouped.hpp"
#include "tests/problems/group_tables.hpp"
#include "tests/problems/telling.hpp"
#include "tests/reference/grouped.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace wltest::problems {

namespace {

// In rows of A that are no group's, NaN, where the type has one.
void spoil_other_rows(const GroupTable& t, int64_t m, Operand* a) {
  if (warpline::gemm::has_scales(a->type)) return;
  std::vector<bool> used(static_cast<size_t>(a->rows));
  for (const GroupRange& range : ranges_of(t, m))
    for (int64_t i = range.first; i < range.end; ++i)
      used[static_cast<size_t>(row_of_a(t, i))] = true;
  for (size_t row = 0; row < used.size(); ++row)
    if (!used[row])
      std::fill_n(a->values.begin() + static_cast<std::ptrdiff_t>(row * a->row_bytes()),
                  a->row_bytes(), uint8_t{0xFF});
}

Bytes bytes_of(const std::vector<int32_t>& numbers) {
  Bytes bytes(4 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// Entries of `entry` bytes at a stride, 0xFF between them.
Bytes spaced(const Bytes& dense, int64_t count, int64_t gap) {
  const size_t entry = dense.size() / static_cast<size_t>(count);
  Bytes all((entry + static_cast<size_t>(gap)) * static_cast<size_t>(count) -
                static_cast<size_t>(gap),
            0xFF);
  for (size_t g = 0; g < static_cast<size_t>(count); ++g)
    std::copy_n(dense.begin() + static_cast<std::ptrdiff_t>(g * entry), entry,
                all.begin() + static_cast<std::ptrdiff_t>(g * (entry + static_cast<size_t>(gap))));
  return all;
}

// A factor for each group: 0 in some problems' first, of any sign.
std::vector<float> draw_factors(int64_t count, float fitting, uint64_t seed) {
  const Random random(seed, 22);
  std::vector<float> factors;
  for (int64_t g = 0; g < count; ++g) {
    const auto at = static_cast<uint64_t>(g);
    const float value = fitting * (0.7f + static_cast<float>(random.uniform(at)));
    const uint64_t kind = random.below(5000 + at, 16);
    factors.push_back(kind == 0 ? 0.0f : kind % 2 == 0 ? -value : value);
  }
  return factors;
}
Bytes bytes_of(const std::vector<float>& numbers) {
  Bytes bytes(4 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

void keep_small(Numbers* numbers) {
  for (size_t i = 0; i < numbers->values.size(); ++i) {
    float& value = numbers->values[i];
    const float size = std::fabs(value);
    if (std::isnan(size) || size == 0 || (size >= 0x1p-20f && size <= 0x1p10f)) continue;
    value = 1;
    std::memcpy(&numbers->bytes[4 * i], &value, 4);
  }
}

// Of kernels that take several, the types of A whose later rows are made ready under the product.
Configuration made_later(const Configuration& c, const Draw& draw) {
  Configuration later = c;
  const auto of_nvfp4 = [](const warpline::gemm::Types& t) { return t.a == WL_OPERAND_NVFP4; };
  if (has_later_groups(c, draw) && std::any_of(c.types.begin(), c.types.end(), of_nvfp4))
    std::erase_if(later.types, [&](const auto& t) { return !of_nvfp4(t); });
  return later;
}

template <bool dual>
Problem make(const Configuration& c, Draw& draw, Values wanted) {
  using Args = std::conditional_t<dual, wl_grouped_dual_gemm_args, wl_grouped_gemm_args>;
  constexpr size_t products = dual ? 2 : 1;
  const bool filled = wanted == Values::all;
  Problem p;
  const warpline::gemm::Types types = draw_types(made_later(c, draw), draw);
  const bool scaled_a = warpline::gemm::has_scales(types.a), nvfp4 = c.type == WL_NVFP4;
  const bool scaled_b = warpline::gemm::has_scales(types.b);
  GroupSizes s = draw_groups(c, types.b, draw);
  s.tile_count = (s.m + 127) / 128 + 2 * s.count + 3;
  // Of D's scales two would be written to one place.
  s.most_spoilt = nvfp4 ? 128 : INT64_MAX;
  draw.note("sf_tile_count", s.has_tiles ? s.tile_count : 0);
  const size_t element = c.type == WL_F32 ? 4 : 2;
  draw.note("d_type", static_cast<int>(c.type));
  draw.note("struct_size", sizeof(Args));
  const wl_sf_layout sf_layout = draw_sf_layout(c, types, draw);
  p.config = draw_config(c, draw);
  std::string kind = draw.pick<const char*>(
      "sizes of groups", {"sides", "skew", "one", "ends empty", "few", "none", "sides"});
  if (is_first(draw) || draw.index() >= first_of_tiles)
    kind = draw.note<std::string>("sizes of groups", "narrow");
  if (is_of_rings(draw)) kind = draw.note<std::string>("sizes of groups", "whole");
  // Rows that are decoded under the product, of several groups.
  if (has_later_groups(c, draw)) kind = draw.note<std::string>("sizes of groups", "long");
  // What is wrong with a table shows in rows that are still left to the groups behind it.
  if (s.hostile && s.count > 20) kind = draw.note<std::string>("sizes of groups", "few");

  const char* const alpha_names[] = {dual ? "alpha1" : "alpha", "alpha2"};
  const char* const bias_names[] = {dual ? "bias1" : "bias", "bias2"};
  const char* const b_names[] = {dual ? "b1" : "b", "b2"};
  const char* const sfb_names[] = {dual ? "sfb1" : "sfb", "sfb2"};
  bool has_alpha[2] = {}, has_bias[2] = {};
  const int binades = static_cast<int>(draw.below("alpha scales", 6));
  // Quotients that lie on ties between two codes, or one place beside them.
  const bool ties = nvfp4 && !dual && scaled_a && scaled_b && draw.index() % all_sizes == 2;
  if (ties) draw.note<std::string>("values", "ties");
  const BiasType bias = draw_bias_type(draw, ties);
  for (size_t i = 0; i < products; ++i) {
    has_alpha[i] = draw.pick(alpha_names[i] + std::string(" given"), {1, 0, 1}) != 0 || ties;
    has_bias[i] = bias.given && (products == 1 || draw.below(bias_names[i], 3) != 0);
  }
  const uint8_t padding = draw.pick<uint8_t>("padding", {0x7F, 0xFF, 0x38});
  const uint32_t flags = draw_product_way({s.m + s.count * c.rows, s.n, s.k, 1}, draw, &p);
  std::set<std::string> weights;
  for (size_t i = 0; i < products; ++i) {
    weights.insert(b_names[i]);
    if (scaled_b) weights.insert(sfb_names[i]);
  }
  const int64_t planned = draw_planned_rows({s.m, s.n, s.k, 1}, weights, draw, &p);
  const bool differ = runs_differ(planned, p);
  const Activations activations = draw_activations(differ, draw.index(), draw);
  const auto gates = draw_gates(differ, draw);
  p.exponentials = dual || activations.exponentials();
  const bool has_row = !dual && draw.pick("with row", {1, 0, 1}) != 0 && !ties && !is_bare(draw);
  // Its barriers would order the outputs of whole tiles behind each other.
  const bool no_residual = dual || nvfp4 || has_later_groups(c, draw) || is_bare(draw);
  const std::string residual =
      no_residual         ? "null"
      : is_of_rings(draw) ? draw.index() == of_rings ? "apart" : "null"
                          : draw.pick<const char*>("residual of", {"apart", "in place", "null"});
  // Where runs may differ and the first one has none, the second one has.
  const bool only_second = residual == "null" && differ && !no_residual && !is_of_rings(draw);
  const bool in_place = residual == "in place", apart = residual == "apart" || only_second;
  const Sizes one_entry{s.m, s.n, s.k, 1};
  const Layout layout = nvfp4 ? draw_dense_layout(one_entry, draw)
                              : draw_layout(one_entry, element, "ldd", "batch_stride_d", "D", draw);
  Factor d_scale = nvfp4 ? draw_d_scale(draw) : Factor{};
  if (ties && d_scale.given) d_scale.runs[0] = d_scale.runs[1] = draw.note("d_scale value", 0.25f);
  Layout of_residual = layout;
  if (apart)
    of_residual = draw_layout(one_entry, element, "ldr", "batch_stride_r", "the residual", draw);
  if (!in_place && !apart) of_residual.ld = -3, of_residual.batch_stride = 7;
  if (!dual) {
    draw.note("ldr", of_residual.ld);
    draw.note("batch_stride_r", of_residual.batch_stride);
  }

  // Operands of both runs, which have other groups.
  GroupTable tables[2];
  wltest::Problem problems[2];
  std::vector<float> alphas[2][2];
  Numbers biases[2][2], rows[2], residuals[2];
  const bool cancels = (in_place || apart) && element == 2;
  const bool tells = dual && !nvfp4 && has_bias[0] && has_bias[1] && bias.type == WL_F32;
  std::vector<GroupRange> ranges[2];
  Sums sums[2];
  uint32_t wrong[2] = {};
  for (size_t run = 0; run < 2 && filled; ++run) {
    const uint64_t seed = (draw.seed_for("operands") + run) * 16;
    tables[run] = table_of(s, c.rows, kind, run, seed);
    wltest::Problem& q = problems[run];
    q = {s.m, s.n, s.k, 1, {}, {}, {}, 1, 1};
    const bool all_bits = adds_f8_on_hopper(c);
    q.a = retyped(draw_operand(s.gathers ? s.a_rows : s.m, s.blocked_k(), 1, base_a, seed), types.a,
                  s.k, seed, all_bits);
    spoil_other_rows(tables[run], s.m, &q.a);
    if (scaled_a && !s.gathers) share_last_tile(tables[run], s.m, &q.a);
    for (size_t i = 0; i < products; ++i) {
      const auto base = static_cast<uint8_t>(fitting_b + (has_alpha[i] ? 8 * binades : 0));
      (i == 0 ? q.b1 : q.b2) =
          retyped(draw_operand(s.n, s.blocked_k(), s.count, base, seed + 1 + i), types.b, s.k,
                  seed + 1 + i, all_bits);
      if (has_alpha[i])
        alphas[i][run] = draw_factors(s.count, std::ldexp(1.0f, -binades), seed + 3 + i);
      if (ties)
        for (float& alpha : alphas[i][run]) alpha = run == 0 ? 17.0f / 16 : 19.0f / 16;
      if (ties) make_one_hot(&q.a, seed), make_powers(&q.b1, {3, 5, 7, 5}, seed);
      if (has_bias[i])
        biases[i][run] =
            draw_numbers(static_cast<size_t>(s.count * s.n), bias.type, 3, seed + 5 + i);
    }
    if (has_row) {
      rows[run] = draw_numbers(static_cast<size_t>(s.m), WL_F32, 2, seed + 7);
      keep_small(&rows[run]);
    }
    if (in_place || apart)
      residuals[run] = draw_numbers(static_cast<size_t>(s.m * s.n), c.type, 4, seed + 8);
    ranges[run] = ranges_of(tables[run], s.m, &wrong[run]);
    sums[run] = accumulate_groups(
        q, tables[run], 1, {}, [&](const wltest::Problem& of) { return sums_of(c, p.config, of); });
    if (run == 1 && cancels)
      cancel(
          grouped_linear_replayed(
              sums[run], ranges[run],
              {activations.runs[run], alphas[0][run], rows[run].values, biases[0][run].values, {}}),
          c.type, &residuals[run]);
    for (size_t g = 0; g < ranges[run].size() && tells; ++g)
      tell_by_biases(sums[run],
                     {ranges[run][g].first, ranges[run][g].end, g * static_cast<size_t>(s.n),
                      has_alpha[0] ? alphas[0][run][g] : 1, has_alpha[1] ? alphas[1][run][g] : 1},
                     gates[run], c.type, seed + g, &biases[0][run], &biases[1][run]);
  }
  const auto add = [&](const char* name, size_t misalignment, const auto& bytes) {
    Input in{name, misalignment, {}, ""};
    for (size_t run = 0; run < 2 && filled; ++run) in.runs.push_back(bytes(run));
    p.inputs.push_back(std::move(in));
  };
  add("a", draw_alignment(draw, "a"), [&](size_t run) { return problems[run].a.values; });
  if (scaled_a)
    add("sfa", draw_alignment(draw, "sfa"), [&](size_t run) {
      if (s.gathers) return scale_bytes(problems[run].a, padding);
      return packed_group_scales(tables[run], s.m, s.k, problems[run].a.scales, padding);
    });
  else
    draw.note<std::string>("sfa", "null");
  for (size_t i = 0; i < products; ++i) {
    const auto b_of = [&](size_t run) -> const Operand& {
      return i == 0 ? problems[run].b1 : problems[run].b2;
    };
    add(b_names[i], draw_alignment(draw, b_names[i]),
        [&](size_t run) { return spaced(b_of(run).values, s.count, s.b_gap); });
    if (scaled_b)
      add(sfb_names[i], draw_alignment(draw, sfb_names[i]), [&](size_t run) {
        return spaced(scale_bytes(b_of(run), padding, sf_layout), s.count, s.sfb_gap);
      });
    else
      draw.note<std::string>(sfb_names[i], "null");
    if (has_alpha[i])
      add(alpha_names[i], draw_float_alignment(draw, alpha_names[i]),
          [&](size_t run) { return bytes_of(alphas[i][run]); });
    else
      draw.note<std::string>(alpha_names[i], "null");
    if (has_bias[i])
      add(bias_names[i], draw_alignment(draw, bias_names[i]), [&](size_t run) {
        const auto wide = static_cast<int64_t>(bias.type == WL_F32 ? 4 : 2);
        return spaced(biases[i][run].bytes, s.count, s.bias_gap * wide);
      });
    else
      draw.note<std::string>(bias_names[i], "null");
  }
  if (has_row)
    add("row", draw_float_alignment(draw, "row"), [&](size_t run) { return rows[run].bytes; });
  else if (!dual)
    draw.note<std::string>("row", "null");
  if (nvfp4)
    d_scale.add_to("d_scale", &p.inputs);
  else
    draw.note<std::string>("d_scale", "null");
  const auto add_table = [&](const char* name, bool given, const auto& numbers) {
    if (given)
      add(name, draw.pick<size_t>(name, {4, 12, 0, 20}),
          [&](size_t run) { return bytes_of(numbers(tables[run])); });
    else
      draw.note<std::string>(name, "null");
  };
  add_table("ends", !s.masked, [](const GroupTable& t) { return t.ends; });
  add_table("sizes", s.masked, [](const GroupTable& t) { return t.sizes; });
  add_table("sf_tiles", s.has_tiles, [](const GroupTable& t) { return t.sf_tiles; });
  add_table("rows", s.gathers, [](const GroupTable& t) { return t.rows; });

  // Outputs.
  Output d = draw_d(c.type, draw), sfd{"sfd", nvfp4 ? draw_alignment(draw, "sfd") : 0, {}, {}};
  Input added{"residual", apart ? draw_alignment(draw, "residual") : d.misalignment, {}, ""};
  Output status{"status", s.has_status ? draw_float_alignment(draw, "status") : 0, {}, {}};
  if (!s.has_status) draw.note<std::string>("status", "null");
  for (size_t run = 0; run < 2 && filled; ++run) {
    std::vector<float> out;
    if constexpr (dual)
      out = grouped_gated_replayed(sums[run], ranges[run],
                                   {gates[run], alphas[0][run], alphas[1][run],
                                    biases[0][run].values, biases[1][run].values});
    else
      out = grouped_linear_replayed(
          sums[run], ranges[run],
          {activations.runs[run], alphas[0][run], rows[run].values, biases[0][run].values,
           only_second && run == 0 ? std::vector<float>{} : residuals[run].values});
    const Operand blocks =
        nvfp4 ? quantized(out, sums[run], d_scale.runs[run]) : Operand{s.m, s.n, 1, {}, {}};
    Bytes image(nvfp4 ? blocks.values.size() : layout.bytes());
    std::vector<bool> written(image.size(), false);
    const Bytes codes = nvfp4 ? blocks.values : rounded(out, c.type);
    Bytes slack, slack_codes;
    if (activations.exponentials() && (in_place || apart)) {
      slack.resize(image.size());
      slack_codes = slack_of(
          grouped_linear_replayed(
              sums[run], ranges[run],
              {activations.runs[run], alphas[0][run], rows[run].values, biases[0][run].values, {}}),
          c.type);
    }
    const size_t row_bytes = codes.size() / static_cast<size_t>(s.m);
    const size_t pitch = nvfp4 ? row_bytes : element * static_cast<size_t>(layout.pitch());
    for (const GroupRange& range : ranges[run])
      for (int64_t row = range.first; row < range.end; ++row) {
        const size_t at = static_cast<size_t>(row) * pitch;
        std::memcpy(&image[at], &codes[static_cast<size_t>(row) * row_bytes], row_bytes);
        if (!slack.empty())
          std::memcpy(&slack[at], &slack_codes[static_cast<size_t>(row) * row_bytes], row_bytes);
        std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(at), row_bytes, true);
      }
    d.runs.push_back(std::move(image));
    if (!slack.empty()) d.slack.push_back(std::move(slack));
    d.written_by.push_back(std::move(written));
    if (nvfp4) {
      const auto pack = [&](const Bytes& scales, uint8_t padding) {
        return packed_group_scales(tables[run], s.m, s.n, scales, padding);
      };
      const Bytes one = pack(blocks.scales, 0), other = pack(blocks.scales, 1);
      if (p.exponentials)
        p.blocks.push_back({out, d_scale.runs[run], places_of_scales(blocks.scales.size(), pack)});
      std::vector<bool> scales(one.size());
      for (size_t i = 0; i < one.size(); ++i) scales[i] = one[i] == other[i];
      sfd.runs.push_back(one);
      sfd.written_by.push_back(std::move(scales));
    }
    // What was there before stays.
    const uint32_t before = 0x80000010u, after = before | wrong[run];
    Bytes first(4), last(4);
    std::memcpy(first.data(), &before, 4), std::memcpy(last.data(), &after, 4);
    status.before.push_back(first), status.runs.push_back(last);
    if (!in_place && !apart) continue;
    Bytes read(of_residual.bytes(), 0xFF);
    of_residual.place(residuals[run].bytes.data(), &read);
    (in_place ? d.before : added.runs).push_back(std::move(read));
  }
  status.written.assign(4, true);
  if (apart) p.inputs.push_back(std::move(added));
  p.outputs.push_back(std::move(d));
  if (nvfp4) p.outputs.push_back(std::move(sfd));
  if (s.has_status) p.outputs.push_back(std::move(status));

  if (in_place) p.in_a_row = 1;
  const auto args_of = [=, type = c.type, config = p.config](const Addresses& addresses, int run) {
    const auto at = [&](const char* name) { return addresses.at(name); };
    const auto floats = [&](const char* name) { return static_cast<const float*>(at(name)); };
    const auto integers = [&](const char* name) { return static_cast<const int32_t*>(at(name)); };
    Args args{};
    args.struct_size = sizeof args;
    auto& g = args.gemm;
    g.m = s.m, g.n = s.n, g.k = s.k, g.l = 1;
    g.a = at("a"), g.sfa = at("sfa");
    if constexpr (dual) {
      g.b1 = at("b1"), g.b2 = at("b2"), g.sfb1 = at("sfb1"), g.sfb2 = at("sfb2");
      g.alpha1 = floats("alpha1"), g.alpha2 = floats("alpha2");
      g.bias1 = at("bias1"), g.bias2 = at("bias2");
      g.gate = gates[run].kind, g.gate_limit = gates[run].limit;
    } else {
      g.b = at("b"), g.sfb = at("sfb"), g.alpha = floats("alpha"), g.row = floats("row");
      g.bias = at("bias"), g.activation = activations.runs[run];
      g.residual = in_place ? at("d") : only_second && run == 0 ? nullptr : at("residual");
      g.ldr = of_residual.ld, g.batch_stride_r = of_residual.batch_stride;
    }
    g.bias_type = bias.said;
    g.d = at("d"), g.d_type = type;
    g.sfd = at("sfd"), g.d_scale = floats("d_scale");
    g.ldd = layout.ld, g.batch_stride_d = layout.batch_stride;
    g.config = config.empty() ? nullptr : config.c_str();
    g.flags = flags;
    g.a_type = types.a, g.b_type = types.b;
    g.sf_layout = sf_layout;
    wl_groups& t = args.groups;
    t.count = static_cast<int32_t>(s.count);
    t.ends = integers("ends"), t.sizes = integers("sizes"), t.row_stride = s.row_stride;
    t.sf_tiles = integers("sf_tiles"), t.sf_tile_count = s.has_tiles ? s.tile_count : 0;
    t.rows = integers("rows"), t.a_rows = s.a_rows;
    const int64_t entry = warpline::gemm::entry_bytes(types.b, s.n, s.k);
    t.b_stride_bytes = s.b_gap != 0 ? entry + s.b_gap : 0;
    t.sfb_stride_bytes = s.sfb_gap != 0 && scaled_b
                             ? static_cast<int64_t>(wl_sf_bytes(sf_layout, s.n, s.k)) + s.sfb_gap
                             : 0;
    t.bias_stride = s.bias_gap != 0 ? s.n + s.bias_gap : 0;
    t.status = static_cast<uint32_t*>(at("status"));
    return args;
  };
  p.plan = [=](wl_context* context, const Addresses& at, wl_plan** made) {
    Args args = args_of(at, 0);
    if (planned != 0) {
      args.gemm.m = planned;
      args.gemm.ldd = args.gemm.batch_stride_d = 0;
      // A run's groups may lie at other strides.
      args.groups.b_stride_bytes = args.groups.sfb_stride_bytes = args.groups.bias_stride = 0;
      if constexpr (!dual) args.gemm.ldr = args.gemm.batch_stride_r = 0;
      other_epilogue(&args.gemm);
    }
    if constexpr (dual)
      return wl_grouped_dual_gemm_plan(context, &args, made);
    else
      return wl_grouped_gemm_plan(context, &args, made);
  };
  if (planned == 0) return p;
  p.run_with = [=](int run, const wl_plan* made, const Addresses& at, void* workspace, size_t bytes,
                   wl_stream stream) {
    Args args = args_of(at, run);
    args.gemm.config = "the plan's";
    args.gemm.flags = ~0u;
    if constexpr (dual)
      return wl_grouped_dual_gemm_run(made, &args, workspace, bytes, stream);
    else
      return wl_grouped_gemm_run(made, &args, workspace, bytes, stream);
  };
  return p;
}

std::vector<Configuration> configurations_of(const warpline::gemm::Table& table) {
  std::vector<Configuration> all;
  for (const warpline::gemm::Config& config : table)
    all.push_back(configuration_of(config, "grouped_sm90_decode", "grouped_sm90_permute"));
  return all;
}

} // namespace

Operation grouped_linear() {
  return {"grouped_gemm", "grouped", "wl_grouped_gemm_args",
          configurations_of(warpline::grouped::linear_configs()), make<false>};
}

Operation grouped_dual() {
  return {"grouped_dual_gemm", "grouped", "wl_grouped_dual_gemm_args",
          configurations_of(warpline::grouped::dual_configs()), make<true>};
}

} // namespace wltest::problems
