// Problems of the dual GEMM.
#include "tests/problems/dual_gemm.hpp"

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/problems/edges.hpp"
#include "tests/problems/telling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wltest::problems {

namespace {

using warpline::dual_gemm::Config;

// Outputs alpha1 * b1 * alpha2 * b2 without a sum: silu leaves what is 18 and more as it is. Here
// the last place of every step tells. In the first run, with an alpha2 of 17 * 2^-10, the scales of
// D lie halfway between two E4M3 numbers; in the second, with 5 * 2^-6, scales are E4M3 numbers q
// and many values 7 * 2^i q * 5, halfway between two E2M1 numbers: what 5, a factor of d_scale,
// leaves of its inverse decides which.
void make_ties(wltest::Problem* q, int run, uint64_t seed) {
  make_one_hot(&q->a, seed);
  // Magnitudes of B1 are 3 * 2^i, those of B2 2^i.
  make_powers(&q->b1, {3, 5, 7, 5}, seed);
  make_powers(&q->b2, {1, 2, 4, 6}, seed);
  if (run == 0) return;
  const Random random(seed, 10);
  const auto blocks = static_cast<size_t>(q->k / 16);
  for (size_t i = 0; i < q->b1.scales.size(); ++i) {
    const size_t column = i / blocks;
    const bool greatest = column % 16 == seed % 16; // of D's block: 6 q
    q->b1.scales[i] = static_cast<uint8_t>(greatest ? 0x38 : 0x36 + 8 * random.below(i, 3));
    q->b2.scales[i] =
        static_cast<uint8_t>(0x38 + random.below(column / 16 * blocks + i % blocks, 8));
    std::fill_n(&q->b1.values[8 * i], 8, greatest ? 0x77 : 0x22);
    std::fill_n(&q->b2.values[8 * i], 8, 0x22);
  }
}

// Sums are of the order of 1, so that a small limit cuts off many of them.
Gate draw_gate(Draw& draw, bool plain, bool codes) {
  struct Kind {
    const char* text;
    wl_gate gate;
    bool limited;
  };
  static constexpr Kind kinds[] = {{"silu", WL_GATE_SILU, false},
                                   {"gelu_tanh", WL_GATE_GELU_TANH, false},
                                   {"silu, limited", WL_GATE_SILU, true},
                                   {"gelu_tanh, limited", WL_GATE_GELU_TANH, true},
                                   {"clamped", WL_GATE_CLAMPED, true}};
  // Problems with edges see each way of computing a gate, and numbers of many digits.
  const size_t index = draw.index() % all_sizes;
  const int drawn = index == 4   ? 0
                    : index == 6 ? draw.pick("kind of gate", {1, 3})
                    : index == 0 ? (codes ? draw.pick("kind of gate", {4, 2}) : 4)
                                 : draw.pick("kind of gate", {0, 1, 2, 4, 0, 3, 4});
  const Kind& kind = kinds[plain ? 0 : drawn];
  const float infinity = std::numeric_limits<float>::infinity();
  const float limit =
      index % 2 == 0 && !plain ? 7 : draw.pick("limit", {0.75f, 7.0f, infinity, 0.75f});
  draw.note<std::string>("kind of gate", kind.text);
  return {draw.note("gate", kind.gate), draw.note("gate_limit", kind.limited ? limit : 0)};
}

Problem make(const Configuration& c, Draw& draw, Values wanted) {
  const bool filled = wanted == Values::all;
  Problem p;
  p.exponentials = true;
  const warpline::gemm::Types types = draw_types(c, draw);
  const bool codes = types.a == WL_OPERAND_NVFP4; // of A, that digits can be written with
  const Sizes s = draw_sizes(c, types, draw);
  const bool nvfp4 = c.type == WL_NVFP4;
  draw.note("d_type", static_cast<int>(c.type));
  draw.note("struct_size", sizeof(wl_dual_gemm_args));
  const wl_sf_layout sf_layout = draw_sf_layout(c, types, draw);
  p.config = draw_config(c, draw);
  uint32_t flags = draw_product_way(s, draw, &p);
  // The library may take either kind of sums then.
  if (p.config.empty() && adds_f8_on_hopper(c))
    flags = draw.note("flags", flags & ~uint32_t{WL_FAST_ACCUMULATION});
  const int64_t planned = draw_planned_rows(s, {"b1", "sfb1", "b2", "sfb2"}, draw, &p);

  // Operands. The scales of B tell how large sums are; an alpha that is null leaves them so.
  const bool large = has_large_integers(types, s);
  Factor alpha[2];
  uint8_t base_b[2];
  for (int product = 0; product < 2; ++product) {
    const std::string name = product == 0 ? "alpha1" : "alpha2";
    const int binades = static_cast<int>(draw.below(name + " scales", 6));
    alpha[product] =
        draw_alpha(draw, name, std::ldexp(1.0f, -binades - (large ? 20 : 0)), 1e34f, large);
    base_b[product] = static_cast<uint8_t>(fitting_b + (alpha[product].given ? 8 * binades : 0));
  }
  const bool ties = nvfp4 && draw.index() % all_sizes == 2;
  if (ties) {
    draw.note<std::string>("values", "ties");
    alpha[0] = {true, 4, {64, 64}};
    alpha[1] = {true, 8, {17.0f / 1024, 5.0f / 64}};
  }
  const bool edges =
      draw.index() % all_sizes % 2 == 0 && !is_small(draw) && s.k >= edges_k && codes;
  if (edges) draw.note<std::string>("values", "edges");
  const Gate first_gate = draw_gate(draw, ties, codes);
  const Gate gates[] = {first_gate, runs_differ(planned, p) && !ties ? other_gate(first_gate, draw)
                                                                     : first_gate};
  BiasType bias = draw_bias_type(draw, ties);
  std::string biased = draw.pick<const char*>("biases", {"both", "the first", "the second"});
  // Where edges do not show each way of computing a gate, biases do.
  const size_t turn = draw.index() % all_sizes;
  if (!nvfp4 && !edges && (turn == 0 || turn == 4 || turn == 6 || large)) {
    bias = {true, WL_F32, draw.note("bias_type", WL_F32)};
    biased = draw.note<std::string>("biases", "both");
  }
  const bool has_bias[2] = {bias.given && biased != "the second",
                            bias.given && biased != "the first"};
  Numbers biases[2][2]; // of a product, of a run
  const uint8_t padding = draw.pick<uint8_t>("padding", {0x7F, 0xFF, 0x38});
  const std::string alias =
      is_small(draw) && !ties
          ? draw.pick<const char*>("shared memory", {"B2 is B1", "none", "B1 is in A", "alphas"})
          : "none";
  Factor d_scale = nvfp4 ? draw_d_scale(draw) : Factor{};
  if (ties) {
    d_scale.given = true;
    d_scale.runs[0] = draw.note("d_scale value", 0.25f), d_scale.runs[1] = 1.25f;
  }
  const bool in_a = alias == "B1 is in A" && s.l == 1 && s.n <= s.m && types.a == types.b;
  wltest::Problem problems[2];
  Sums sums[2];
  for (int run = 0; run < 2 && filled; ++run) {
    wltest::Problem& q = problems[run];
    q = {s.m, s.n, s.k, s.l, {}, {}, {}, 1, 1};
    const uint64_t seed = draw.seed_for("operands") + static_cast<uint64_t>(run);
    const uint64_t codes_of_scales = s.k > long_sums ? 8 : 24;
    q.a = draw_operand(s.m, s.blocked_k(), s.l, base_a, seed * 4, codes_of_scales);
    q.b1 = draw_operand(s.n, s.blocked_k(), s.l, base_b[0], seed * 4 + 1, codes_of_scales);
    q.b2 = draw_operand(s.n, s.blocked_k(), s.l, base_b[1], seed * 4 + 2, codes_of_scales);
    if (ties) make_ties(&q, run, seed);
    const bool all_bits = large || (adds_f8_on_hopper(c) && !p.config.empty());
    q.a = retyped(q.a, types.a, s.k, seed * 4, all_bits);
    q.b1 = retyped(q.b1, types.b, s.k, seed * 4 + 1, all_bits);
    q.b2 = retyped(q.b2, types.b, s.k, seed * 4 + 2, all_bits);
    if (alias == "B2 is B1") q.b2 = q.b1;
    if (in_a) q.b1 = first_rows(q.a, s.n);
    if (alias == "alphas" && alpha[0].given && alpha[1].given)
      alpha[1].runs[run] = alpha[0].runs[run];
    q.alpha1 = alpha[0].runs[run];
    q.alpha2 = alpha[1].runs[run];
    EdgeFactors factors{gates[run], q.alpha1, q.alpha2, -0.0f, -0.0f, c.type, d_scale.runs[run]};
    for (size_t product = 0; product < 2; ++product) {
      if (!has_bias[product]) continue;
      const auto columns = static_cast<size_t>(s.n);
      const float value = product == 0 ? 0.375f : -0.625f;
      biases[product][run] = edges && run == 1
                                 ? same_numbers(columns, bias.type, value)
                                 : draw_numbers(columns, bias.type, 3, ~(seed * 4 + product));
      (product == 0 ? factors.bias1 : factors.bias2) = value;
    }
    // Where a register holds some rows of many columns, columns differ, and the other way round.
    if (edges && run == 1) make_edges(&q, factors, c.profile == "h200", seed);
    sums[run] = sums_of(c, p.config, q);
    if (!nvfp4 && !edges && has_bias[0] && has_bias[1] && bias.type == WL_F32)
      tell_by_biases(sums[run], {0, s.l * s.m, 0, q.alpha1, q.alpha2}, gates[run], c.type, seed,
                     &biases[0][run], &biases[1][run]);
  }
  add_operand("a", "sfa", types.a, sf_layout, {problems[0].a, problems[1].a}, padding, filled, draw,
              &p);
  add_operand("b1", "sfb1", types.b, sf_layout, {problems[0].b1, problems[1].b1}, padding, filled,
              draw, &p);
  if (in_a) lie_within("b1", "a", &p), lie_within("sfb1", "sfa", &p);
  add_operand("b2", "sfb2", types.b, sf_layout, {problems[0].b2, problems[1].b2}, padding, filled,
              draw, &p);
  if (alias == "B2 is B1") lie_within("b2", "b1", &p), lie_within("sfb2", "sfb1", &p);
  alpha[0].add_to("alpha1", &p.inputs);
  alpha[1].add_to("alpha2", &p.inputs);
  if (alias == "alphas" && alpha[0].given && alpha[1].given) p.inputs.back().within = "alpha1";

  for (size_t product = 0; product < 2; ++product) {
    const char* const name = product == 0 ? "bias1" : "bias2";
    if (has_bias[product])
      add_numbers(name, draw_alignment(draw, name), biases[product][0], biases[product][1], filled,
                  &p);
    else
      draw.note<std::string>(name, "null");
  }

  // Outputs.
  const Layout layout =
      nvfp4 ? draw_dense_layout(s, draw) : draw_layout(s, 2, "ldd", "batch_stride_d", "D", draw);
  d_scale.add_to("d_scale", &p.inputs);
  Output d = draw_d(c.type, draw), sfd{"sfd", 0, {}, {}};
  if (nvfp4) sfd.misalignment = draw_alignment(draw, "sfd");
  for (int run = 0; run < 2 && filled; ++run) {
    const wltest::Problem& q = problems[run];
    const std::vector<float> out = gated_replayed(
        sums[run], {gates[run], q.alpha1, q.alpha2, biases[0][run].values, biases[1][run].values});
    if (nvfp4) {
      const Operand blocks = quantized(out, sums[run], d_scale.runs[run]);
      d.runs.push_back(blocks.values);
      expect_scales(blocks, &sfd);
      p.blocks.push_back(made_blocks(out, blocks, d_scale.runs[run]));
      continue;
    }
    Bytes image(layout.bytes());
    d.written.assign(image.size(), false);
    layout.place(rounded(out, c.type).data(), &image, &d.written);
    d.runs.push_back(std::move(image));
  }
  if (nvfp4 && filled) d.written.assign(d.runs[0].size(), true);
  p.outputs.push_back(std::move(d));
  if (nvfp4) p.outputs.push_back(std::move(sfd));

  const auto args_of = [=, type = c.type, config = p.config](const Addresses& addresses, int run) {
    const auto at = [&](const char* name) { return addresses.at(name); };
    wl_dual_gemm_args args{};
    args.struct_size = sizeof args;
    args.m = s.m, args.n = s.n, args.k = s.k, args.l = s.l;
    args.a = at("a"), args.b1 = at("b1"), args.b2 = at("b2");
    args.sfa = at("sfa"), args.sfb1 = at("sfb1"), args.sfb2 = at("sfb2");
    args.sf_layout = sf_layout;
    args.alpha1 = static_cast<const float*>(at("alpha1"));
    args.alpha2 = static_cast<const float*>(at("alpha2"));
    args.d = at("d"), args.d_type = type;
    args.ldd = layout.ld, args.batch_stride_d = layout.batch_stride;
    args.config = config.empty() ? nullptr : config.c_str();
    args.sfd = at("sfd");
    args.d_scale = static_cast<const float*>(at("d_scale"));
    args.flags = flags;
    args.a_type = types.a, args.b_type = types.b;
    args.bias1 = at("bias1"), args.bias2 = at("bias2"), args.bias_type = bias.said;
    args.gate = gates[run].kind, args.gate_limit = gates[run].limit;
    return args;
  };
  set_calls(planned, args_of, wl_dual_gemm_plan, wl_dual_gemm_run, &p);
  return p;
}

} // namespace

Operation dual_gemm() {
  Operation op{"dual_gemm", "dual_gemm", "wl_dual_gemm_args", {}, make};
  for (const Config& config : warpline::dual_gemm::configs())
    op.configurations.push_back(
        configuration_of(config, "dual_gemm_sm90_decode", "dual_gemm_sm90_permute"));
  return op;
}

} // namespace wltest::problems
