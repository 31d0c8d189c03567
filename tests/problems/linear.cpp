// Problems of wl_gemm.
#include "tests/problems/linear.hpp"

#include "kernels/linear/linear.hpp"
#include "tests/problems/telling.hpp"

#include <cmath>
#include <cstring>

namespace wltest::problems {

namespace {

// Hopper's kernels multiply alpha by 2^14 before the row's factor comes in, so that a factor within
// 2^14 of FP32's largest number overflows there, as the product with a huge alpha does, and a
// product that FP32 holds as a subnormal number keeps more places. Factors beyond 2^10 and below
// `least` become 1.
void keep_within_hopper(Numbers* row, float least) {
  for (size_t i = 0; i < row->values.size(); ++i) {
    float& value = row->values[i];
    const float size = std::fabs(value);
    if (size == 0 || (size >= least && size <= 0x1p10f) || std::isnan(size)) continue;
    value = 1;
    std::memcpy(&row->bytes[4 * i], &value, 4);
  }
}

// What the call reads beside A and B, in one run.
struct Beside {
  float alpha = 1, d_scale = 1;
  Numbers row, col, bias, residual; // empty: null
};

Problem make(const Configuration& c, Draw& draw, Values wanted) {
  const bool filled = wanted == Values::all;
  Problem p;
  const warpline::gemm::Types types = draw_types(c, draw);
  const Sizes s = draw_sizes(c, types, draw);
  const bool nvfp4 = c.type == WL_NVFP4;
  const size_t element = c.type == WL_F32 ? 4 : 2;
  draw.note("d_type", static_cast<int>(c.type));
  draw.note("struct_size", sizeof(wl_gemm_args));
  const wl_sf_layout sf_layout = draw_sf_layout(c, types, draw);
  p.config = draw_config(c, draw);
  uint32_t flags = draw_product_way(s, draw, &p);
  const int64_t planned = draw_planned_rows(s, {"b", "sfb"}, draw, &p);
  const bool differ = runs_differ(planned, p);
  // The library may take either kind of sums then.
  if (p.config.empty() && adds_f8_on_hopper(c))
    flags = draw.note("flags", flags & ~uint32_t{WL_FAST_ACCUMULATION});

  // Operands. The scales of B tell how large sums are; an alpha that is null leaves them so.
  const int binades = static_cast<int>(draw.below("alpha scales", 6));
  const bool large = has_large_integers(types, s);
  Factor alpha =
      draw_alpha(draw, "alpha", std::ldexp(1.0f, -binades - (large ? 20 : 0)), 1e30f, large);
  const auto base_b = static_cast<uint8_t>(fitting_b + (alpha.given ? 8 * binades : 0));
  const bool ties = nvfp4 && draw.index() % all_sizes == 2;
  if (ties) {
    draw.note<std::string>("values", "ties");
    alpha = {true, 4, {17.0f / 16, 19.0f / 16}};
  }
  const uint8_t padding = draw.pick<uint8_t>("padding", {0x7F, 0xFF, 0x38});
  // A row of A times itself is a sum of squares, which FP32 may not hold; D in FP32 would show it.
  const bool in_a = is_small(draw) && !ties && types.a == types.b && !types.mn_major() &&
                    c.type != WL_F32 && s.l == 1 && s.n <= s.m && draw.below("B is in A", 2) == 0;
  if (in_a) draw.note<std::string>("shared memory", "B is in A");

  // What stands beside the product. Types and strides of what is not there mean nothing.
  // The last problem has that of the one whose configuration the library chooses.
  const bool as_chosen = draw.index() % all_sizes == 6 && draw.index() < first_of_tiles;
  const size_t turn = as_chosen ? draw.index() - 3 : draw.index();
  const Activations activations = draw_activations(differ, turn, draw);
  p.exponentials = activations.exponentials();
  const BiasType bias = draw_bias_type(draw, ties);
  // Of subnormal factors FP32 keeps fewer places than a kernel that multiplies them by 2^14 first:
  // outputs of FP32's exponents show it where a row's factor comes in between.
  const bool subnormal = std::fpclassify(alpha.runs[0]) == FP_SUBNORMAL;
  const bool tells = subnormal && c.profile == "h200" && (c.type == WL_F32 || c.type == WL_BF16);
  const bool has_row = draw.pick("with row", {1, 0, 1}) != 0 && !ties && !tells && !is_bare(draw);
  const bool has_col = draw.pick("with col", {0, 1, 1}) != 0 && c.column_factors;
  const std::string residual =
      nvfp4 || is_bare(draw) || is_of_whole_tiles(draw) ? "null"
      : is_of_rings(draw) ? draw.index() == of_rings ? "apart" : "null"
                          : draw.pick<const char*>("residual of", {"apart", "in place", "null",
                                                                   "apart, as D", "in place"});
  // Where runs may differ and the first one has none, the second one has.
  const bool only_second = residual == "null" && differ && !nvfp4 && !is_of_rings(draw) &&
                           !is_bare(draw) && !is_of_whole_tiles(draw);
  const bool in_place = residual == "in place", apart = residual[0] == 'a' || only_second;

  const Layout layout = nvfp4 ? draw_dense_layout(s, draw)
                              : draw_layout(s, element, "ldd", "batch_stride_d", "D", draw);
  Layout of_residual = layout;
  if (residual == "apart" || only_second)
    of_residual = draw_layout(s, element, "ldr", "batch_stride_r", "the residual", draw);
  if (in_place && draw.below("strides", 2) == 0) // the same ones, said otherwise
    of_residual.ld = layout.pitch(), of_residual.batch_stride = layout.entry();
  if (residual == "null" && !only_second) of_residual.ld = -3, of_residual.batch_stride = 7;
  draw.note("ldr", of_residual.ld);
  draw.note("batch_stride_r", of_residual.batch_stride);

  Factor d_scale = nvfp4 ? draw_d_scale(draw) : Factor{};
  if (ties && d_scale.given) d_scale.runs[0] = d_scale.runs[1] = draw.note("d_scale value", 0.25f);

  const bool cancels = (in_place || apart) && element == 2;
  wltest::Problem problems[2];
  Beside beside[2];
  for (int run = 0; run < 2 && filled; ++run) {
    wltest::Problem& q = problems[run];
    q = {s.m, s.n, s.k, s.l, {}, {}, {}, 1, 1};
    const uint64_t seed = (draw.seed_for("operands") + static_cast<uint64_t>(run)) * 8;
    // Scales of one binade where FP32's last place tells: sums of a long K then stay within 2^24
    // of their unit, which a tensor core adds exactly in any order.
    const uint64_t codes = c.type == WL_F32 || (run == 1 && cancels) || s.k > long_sums ? 8 : 24;
    q.a = draw_operand(s.m, s.blocked_k(), s.l, base_a, seed, codes);
    q.b1 = draw_operand(s.n, s.blocked_k(), s.l, base_b, seed + 1, codes);
    if (ties) make_one_hot(&q.a, seed), make_powers(&q.b1, {3, 5, 7, 5}, seed);
    // Ranges of K whose sums are not exact make others than all of K.
    const bool all_bits = large || (adds_f8_on_hopper(c) && !c.shares_k && !p.config.empty());
    q.a = retyped(q.a, types.a, s.k, seed, all_bits);
    q.b1 = retyped(q.b1, types.b, s.k, seed + 1, all_bits);
    if (in_a) q.b1 = first_rows(q.a, s.n);
    Beside& other = beside[run];
    other.alpha = alpha.runs[run], other.d_scale = d_scale.runs[run];
    const auto rows = static_cast<size_t>(s.l * s.m), columns = static_cast<size_t>(s.n);
    if (has_row) other.row = draw_numbers(rows, WL_F32, 2, seed + 2);
    // Of NVFP4 sums are too small to show what a subnormal product has lost.
    const bool large_sums = types.a != WL_OPERAND_NVFP4;
    if (has_row && c.profile == "h200") {
      keep_within_hopper(&other.row, large_sums ? 0x1p-20f : 0x1p-100f);
      if (large_sums && std::fabs(alpha.runs[run]) < 0x1p-100f) alpha.runs[run] *= 0x1p27f;
      other.alpha = alpha.runs[run];
    }
    if (has_col) other.col = draw_numbers(columns, WL_F32, 2, seed + 5);
    if (bias.given) other.bias = draw_numbers(columns, bias.type, 3, seed + 3);
    if (in_place || apart) other.residual = draw_numbers(rows * columns, c.type, 4, seed + 4);
  }
  const auto in_memory = [](Operand operand, wl_layout layout) {
    operand.values = stored(operand, layout);
    return operand;
  };
  add_operand("a", "sfa", types.a, sf_layout,
              {in_memory(problems[0].a, types.a_layout), in_memory(problems[1].a, types.a_layout)},
              padding, filled, draw, &p);
  add_operand(
      "b", "sfb", types.b, sf_layout,
      {in_memory(problems[0].b1, types.b_layout), in_memory(problems[1].b1, types.b_layout)},
      padding, filled, draw, &p);
  if (in_a) lie_within("b", "a", &p), lie_within("sfb", "sfa", &p);
  alpha.add_to("alpha", &p.inputs);
  if (has_row)
    add_numbers("row", draw_float_alignment(draw, "row"), beside[0].row, beside[1].row, filled, &p);
  else
    draw.note<std::string>("row", "null");
  if (has_col)
    add_numbers("col", draw_float_alignment(draw, "col"), beside[0].col, beside[1].col, filled, &p);
  else
    draw.note<std::string>("col", "null");
  if (bias.given)
    add_numbers("bias", draw_alignment(draw, "bias"), beside[0].bias, beside[1].bias, filled, &p);
  d_scale.add_to("d_scale", &p.inputs);

  // Outputs, and the residual, which may be what D was before.
  Output d = draw_d(c.type, draw), sfd{"sfd", 0, {}, {}};
  if (nvfp4) sfd.misalignment = draw_alignment(draw, "sfd");
  Input added{"residual", apart ? draw_alignment(draw, "residual") : d.misalignment, {}, ""};
  for (int run = 0; run < 2 && filled; ++run) {
    Beside& other = beside[run];
    const Sums sums = sums_of(c, p.config, problems[run]);
    LinearOperands operands{activations.runs[run], other.alpha, other.row.values,
                            other.bias.values,     {},          other.col.values};
    if (run == 1 && cancels) cancel(linear_replayed(sums, operands), c.type, &other.residual);
    if (p.exponentials && (in_place || apart)) {
      Bytes slack(layout.bytes());
      layout.place(slack_of(linear_replayed(sums, operands), c.type).data(), &slack);
      d.slack.push_back(std::move(slack));
    }
    if (run == 1 || !only_second) operands.residual = other.residual.values;
    const std::vector<float> out = linear_replayed(sums, operands);
    if (nvfp4) {
      const Operand blocks = quantized(out, sums, other.d_scale);
      d.runs.push_back(blocks.values);
      d.written.assign(d.runs[0].size(), true);
      expect_scales(blocks, &sfd);
      if (p.exponentials) p.blocks.push_back(made_blocks(out, blocks, other.d_scale));
      continue;
    }
    Bytes image(layout.bytes());
    d.written.assign(image.size(), false);
    layout.place(rounded(out, c.type).data(), &image, &d.written);
    d.runs.push_back(std::move(image));
    if (!in_place && !apart) continue;
    Bytes read(of_residual.bytes(), 0xFF); // NaN between the rows
    of_residual.place(other.residual.bytes.data(), &read);
    (in_place ? d.before : added.runs).push_back(std::move(read));
  }
  if (apart) p.inputs.push_back(std::move(added));
  p.outputs.push_back(std::move(d));
  if (nvfp4) p.outputs.push_back(std::move(sfd));

  if (in_place) p.in_a_row = 1; // a second one would add to the first one's outputs
  const int64_t rows = types.a_layout == WL_MN_MAJOR ? (planned + 7) / 8 * 8 : planned;
  const auto args_of = [=, type = c.type, config = p.config](const Addresses& addresses, int run) {
    const auto at = [&](const char* name) { return addresses.at(name); };
    wl_gemm_args args{};
    args.struct_size = sizeof args;
    args.m = s.m, args.n = s.n, args.k = s.k, args.l = s.l;
    args.a = at("a"), args.b = at("b"), args.sfa = at("sfa"), args.sfb = at("sfb");
    args.sf_layout = sf_layout;
    args.alpha = static_cast<const float*>(at("alpha"));
    args.row = static_cast<const float*>(at("row"));
    args.col = static_cast<const float*>(at("col"));
    args.bias = at("bias"), args.bias_type = bias.said;
    args.activation = activations.runs[run];
    args.residual = in_place ? at("d") : only_second && run == 0 ? nullptr : at("residual");
    args.ldr = of_residual.ld, args.batch_stride_r = of_residual.batch_stride;
    args.d = at("d"), args.d_type = type;
    args.ldd = layout.ld, args.batch_stride_d = layout.batch_stride;
    args.config = config.empty() ? nullptr : config.c_str();
    args.sfd = at("sfd");
    args.d_scale = static_cast<const float*>(at("d_scale"));
    args.flags = flags;
    args.a_type = types.a, args.b_type = types.b;
    args.a_layout = types.a_layout, args.b_layout = types.b_layout;
    return args;
  };
  set_calls(rows, args_of, wl_gemm_plan, wl_gemm_run, &p);
  return p;
}

} // namespace

Operation linear() {
  Operation op{"gemm", "linear", "wl_gemm_args", {}, make};
  for (const warpline::gemm::Config& config : warpline::linear::configs())
    op.configurations.push_back(
        configuration_of(config, "dual_gemm_sm90_decode", "dual_gemm_sm90_permute"));
  return op;
}

} // namespace wltest::problems
