// Problems of wl_norm_linear. Values are such that every step ahead of the activation is exact: the
// mean square of a row's distances from its mean is that of one step, eps is three squares of that
// step, and factors have few bits.
#include "tests/problems/norm_linear.hpp"

#include "kernels/norm_linear/norm_linear.hpp"
#include "tests/problems/products.hpp"
#include "tests/reference/elements.hpp"
#include "tests/reference/linear.hpp"
#include "tests/reference/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wltest::problems {

namespace {

using warpline::norm_linear::Config;
using warpline::norm_linear::End;

OutputType output_of(wl_dtype type) { return type == WL_F16 ? OutputType::f16 : OutputType::bf16; }

// Rows of `step` above and below a mean, which is 0 for RMSNorm, half of the numbers each, or of
// eight numbers one two steps above, one two below, the others at the mean, or one quarter of the
// row two steps above and below and the others at the mean; some rows are zeros.
Matrix balanced_rows(int64_t m, int64_t k, OutputType type, bool with_mean, double step,
                     uint64_t seed) {
  const Random random(seed, 84);
  Matrix x{m, k, 1, type, std::vector<uint16_t>(static_cast<size_t>(m * k))};
  for (int64_t row = 0; row < m; ++row) {
    const auto at = static_cast<uint64_t>(row * (k + 2));
    const double mean = with_mean ? step * (static_cast<double>(random.below(at, 65)) - 32) : 0;
    const bool zeros = random.below(at + 1, 16) == 0, few = row % 3 == 1, quarter = row % 3 == 2;
    const auto loud = static_cast<int64_t>(random.below(at + 2 + static_cast<uint64_t>(k) - 1, 4));
    uint16_t* codes = &x.codes[static_cast<size_t>(row * k)];
    for (int64_t i = 0; i < k; i += few ? 8 : 2) {
      const uint64_t drawn = random.below(at + 2 + static_cast<uint64_t>(i), 56);
      int64_t above = i + static_cast<int64_t>(drawn % 2), below = 2 * i + 1 - above;
      if (few) {
        std::fill_n(&codes[i], 8, encode_output(type, zeros ? 0 : mean));
        above = i + static_cast<int64_t>(drawn / 7);
        below = i + static_cast<int64_t>((drawn / 7 + 1 + drawn % 7) % 8);
      }
      const double steps = few ? 2 : !quarter ? 1 : 4 * i / k == loud ? 2 : 0;
      codes[above] = encode_output(type, zeros ? 0 : mean + steps * step);
      codes[below] = encode_output(type, zeros ? 0 : mean - steps * step);
    }
  }
  return x;
}

// Of a list of values, in `type`.
struct List {
  Bytes bytes;
  std::vector<float> values;
};
List draw_list(int64_t count, wl_dtype type, const std::vector<double>& of, uint64_t seed) {
  const Random random(seed, 85);
  List list;
  for (int64_t i = 0; i < count; ++i) {
    const double value = of[random.below(static_cast<uint64_t>(i), of.size())];
    list.values.push_back(static_cast<float>(value));
    const Bytes wide = bytes_of(static_cast<float>(value));
    const uint16_t code = type == WL_F32 ? 0 : encode_output(output_of(type), value);
    const Bytes narrow = {static_cast<uint8_t>(code), static_cast<uint8_t>(code >> 8)};
    const Bytes& bytes = type == WL_F32 ? wide : narrow;
    list.bytes.insert(list.bytes.end(), bytes.begin(), bytes.end());
  }
  return list;
}

Bytes bytes_of_codes(const std::vector<uint16_t>& codes) {
  Bytes bytes(2 * codes.size());
  std::memcpy(bytes.data(), codes.data(), bytes.size());
  return bytes;
}

// Dense rows at a pitch, with NaN between them; which bytes are rows'.
Bytes at_pitch(const Bytes& rows, int64_t m, size_t row_bytes, size_t pitch_bytes,
               std::vector<bool>* written = nullptr) {
  Bytes image(static_cast<size_t>(m - 1) * pitch_bytes + row_bytes, 0xFF);
  if (written != nullptr) written->assign(image.size(), false);
  for (size_t row = 0; row < static_cast<size_t>(m); ++row) {
    std::memcpy(&image[row * pitch_bytes], &rows[row * row_bytes], row_bytes);
    if (written != nullptr)
      std::fill_n(written->begin() + static_cast<std::ptrdiff_t>(row * pitch_bytes), row_bytes,
                  true);
  }
  return image;
}

// The fewest values of rows that the library takes a kernel for, whatever M is.
int64_t shortest_row(const Config& config) {
  int64_t shortest = 64;
  for (const Config& other : warpline::norm_linear::configs()) {
    if (&other == &config) break;
    if (other.end == config.end && other.x_type == config.x_type && other.norm == config.norm &&
        std::string(other.target) == config.target)
      shortest = 512 * other.parts + 64;
  }
  return shortest;
}

Problem make(const Configuration& c, Draw& draw, Values wanted) {
  const bool filled = wanted == Values::all;
  const auto& table = warpline::norm_linear::configs();
  const Config& config = *std::find_if(table.begin(), table.end(),
                                       [&](const Config& entry) { return c.name == entry.name; });
  const bool folded = config.end == End::rstd, layer = config.norm == WL_NORM_LAYER;
  const OutputType type = output_of(c.type);
  Problem p;
  const auto below = [&](const char* name, uint64_t bound) {
    return static_cast<int64_t>(draw.below(name, bound));
  };
  const bool nvfp4 =
      !folded && draw.pick<const char*>("weights", {"wide", "nvfp4", "wide"})[0] == 'n';
  const int64_t shortest = shortest_row(config);
  const bool heavy = shortest > 4096; // products behind it would take long
  // So long a K that gammas and betas are fetched for each row: of few rows.
  const bool longest = (draw.index() == 6 || draw.index() == 7) && !folded && config.parts == 0;
  const int64_t least_m = config.parts == 2 ? 16 * c.sms + 1 : 1;
  const int64_t m = draw.note("m", least_m + below("m", longest                 ? 3
                                                        : heavy                 ? 20
                                                        : draw.index() % 3 == 0 ? 300
                                                                                : 40));
  const int64_t n = draw.note("n", 8 * (1 + below("n", longest ? 2 : heavy ? 6 : 40)));
  uint64_t choices = draw.index() % 4 == 3 && !nvfp4 ? 40 : 9;
  int64_t least_k = shortest + (longest ? 64 * 128 : 0);
  if (config.parts != 0) {
    // Mostly rows of which some lanes hold the last part.
    if (draw.pick("last part", {1, 0, 1}) != 0)
      least_k = std::max(least_k, 512 * int64_t{config.parts} - 448);
    choices = std::min(choices, static_cast<uint64_t>((512 * config.parts - least_k) / 64 + 1));
  }
  const int64_t k = draw.note("k", least_k + 64 * below("k", choices));
  draw.note("struct_size", sizeof(wl_norm_linear_args));
  draw.note("x_type", static_cast<int>(c.type));
  draw.note("norm", static_cast<int>(config.norm));
  draw.note("form", folded ? 1 : 0);
  const wl_operand same = c.type == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  const wl_operand w_type = draw.note("w_type", nvfp4 ? WL_OPERAND_NVFP4 : same);
  const wl_sf_layout sf_layout = draw_sf_layout(c, {w_type, w_type}, draw);
  const wl_dtype d_type =
      draw.note("d_type", nvfp4 || draw.pick("d wide", {0, 1, 0}) == 0 ? c.type : WL_F32);
  const size_t element = d_type == WL_F32 ? 4 : 2;
  draw_way(draw, &p);
  const int64_t rows_planned =
      draw_planned_rows({m, n, k, 1}, {"w", "sfw", "gamma", "beta"}, draw, &p);
  const Activations activations =
      draw_activations(runs_differ(rows_planned, p), draw.index(), draw);
  p.exponentials = activations.exponentials();
  const double step = draw.pick("step", {1.0f, 0.5f, 4.0f});
  const float eps = draw.note("eps", static_cast<float>(3 * step * step));

  const auto stride = [&](const char* field, int64_t columns, bool dense) {
    const int64_t more = draw.pick<int64_t>(field, {0, -1, 8, 24});
    return draw.note(field, more == 0 ? 0 : more == -1 || dense ? columns : columns + more);
  };
  const int64_t ldx = stride("ldx", k, folded), ldr = stride("ldr", k, folded),
                ldd = stride("ldd", n, false);
  const auto pitch = [](int64_t ld, int64_t columns) {
    return static_cast<size_t>(ld == 0 ? columns : ld);
  };
  // A product reads its A as a whole.
  const std::string kept = draw.pick<const char*>(
      "residual is", {"null", "in place", folded ? "apart" : "not kept", "apart"});
  const bool with_residual = kept != "null", in_place = kept == "in place";

  Norm norm;
  norm.kind = layer ? Norm::Kind::layer : Norm::Kind::rms;
  norm.eps = eps;
  const wl_dtype gamma_type =
      draw.note("gamma_type", draw.pick("gammas", {0, 1}) == 0 && !longest ? WL_F32 : c.type);
  for (const char* name : {"gamma", "beta"}) {
    const bool is_gamma = name[0] == 'g';
    if (folded || (!is_gamma && !layer) ||
        (draw.pick<const char*>(name + std::string(" is"), {"there", "null", "there"})[0] == 'n' &&
         !longest)) {
      draw.note<std::string>(name, "null");
      continue;
    }
    Input input{name, draw_alignment(draw, name), {}, ""};
    // With the last of beta's a number of 1 becomes one that X's type rounds up.
    const double rounded_up = c.type == WL_F16 ? 0x1.8p-11 : 0x1.8p-8;
    // One of gamma's has all digits of BF16.
    const List list = draw_list(filled ? k : 0, gamma_type,
                                is_gamma ? std::vector<double>{0.5, 1, -1, 2, 0x1.02p0}
                                         : std::vector<double>{0, 0.5, -0.5, 1, rounded_up},
                                draw.seed_for(name));
    (is_gamma ? norm.gamma : norm.beta) = list.values;
    input.runs.push_back(list.bytes);
    p.inputs.push_back(std::move(input));
  }
  const Factor alpha = draw_alpha(draw, "alpha", 0.0625f, 1e20f);
  alpha.add_to("alpha", &p.inputs);
  const BiasType bias = draw_bias_type(draw, false);
  const List biases = bias.given && filled
                          ? draw_list(n, bias.type, {0, 0.5, -2, 1.25}, draw.seed_for("bias"))
                          : List{};
  if (bias.given) p.inputs.push_back({"bias", draw_alignment(draw, "bias"), {biases.bytes}, ""});
  float a_scale = 1;
  if (nvfp4) {
    a_scale = draw.pick("a_scale value", {0.25f, 1.0f, 0.0625f});
    p.inputs.push_back({"a_scale", draw_float_alignment(draw, "a_scale"), {bytes_of(a_scale)}, ""});
  } else {
    draw.note<std::string>("a_scale", "null");
  }

  // Weights, the same in both runs.
  Operand w{n, k, 1, {}, {}, w_type};
  Input weights{"w", draw_alignment(draw, "w"), {}, ""}, scales{"sfw", 0, {}, ""};
  if (nvfp4) scales.misalignment = draw_alignment(draw, "sfw");
  if (filled && nvfp4) {
    w = draw_operand(n, k, 1, 0x30, draw.seed_for("w"), 8);
    scales.runs.push_back(scale_bytes(w, 0x7F, sf_layout));
  } else if (filled) {
    const List list = draw_list(n * k, c.type, {0, 1, -1, 0.5, -2, 3}, draw.seed_for("w"));
    w.values = list.bytes;
  }
  weights.runs.push_back(w.values);

  Input x{"x", draw_alignment(draw, "x"), {}, ""};
  Input residual{"residual", draw_alignment(draw, "residual"), {}, ""};
  Output sum{"sum", draw_alignment(draw, "sum"), {}, {}, 0}, d = draw_d(d_type, draw);
  for (int run = 0; run < 2 && filled; ++run) {
    const uint64_t seed = draw.seed_for("operands") + static_cast<uint64_t>(run);
    Matrix rows = balanced_rows(m, k, type, layer, step, seed);
    if (with_residual) {
      // X is what is left of the rows, whole steps as they are.
      Matrix other = balanced_rows(m, k, type, true, step, seed + 1000), left = rows;
      for (size_t i = 0; i < rows.codes.size(); ++i)
        left.codes[i] = encode_output(type, decode_output(type, rows.codes[i]) -
                                                decode_output(type, other.codes[i]));
      const size_t row_bytes = static_cast<size_t>(2 * k), wide = 2 * pitch(ldr, k);
      residual.runs.push_back(at_pitch(bytes_of_codes(other.codes), m, row_bytes, wide));
      sum.before.push_back(residual.runs.back());
      sum.runs.push_back(
          at_pitch(bytes_of_codes(add(left, other).codes), m, row_bytes, wide, &sum.written));
      rows = add(left, other);
      x.runs.push_back(at_pitch(bytes_of_codes(left.codes), m, row_bytes, 2 * pitch(ldx, k)));
    } else {
      x.runs.push_back(
          at_pitch(bytes_of_codes(rows.codes), m, static_cast<size_t>(2 * k), 2 * pitch(ldx, k)));
    }
    wltest::Problem product{m, n, k, 1, {}, w, {}, 1, 1};
    LinearOperands operands{activations.runs[run], alpha.runs[run], {}, biases.values, {}};
    if (nvfp4) {
      product.a = quantize(rows, norm, a_scale);
    } else {
      product.a = {m, k, 1, {}, {}, same};
      product.a.values = bytes_of_codes(folded ? rows.codes : normalised_rows(rows, norm).codes);
    }
    if (folded) {
      std::vector<float> row(static_cast<size_t>(k));
      for (int64_t i = 0; i < m; ++i) {
        for (size_t j = 0; j < row.size(); ++j)
          row[j] =
              static_cast<float>(decode_output(type, rows.codes[static_cast<size_t>(i * k) + j]));
        operands.row.push_back(statistics(row.data(), k, norm).rstd);
      }
    }
    const std::vector<float> out = linear_replayed(accumulate(product, 1), operands);
    d.runs.push_back(at_pitch(rounded(out, d_type), m, element * static_cast<size_t>(n),
                              element * pitch(ldd, n), &d.written));
  }
  p.inputs.push_back(std::move(x));
  p.inputs.push_back(std::move(weights));
  if (nvfp4) p.inputs.push_back(std::move(scales));
  if (with_residual && !in_place) p.inputs.push_back(std::move(residual));
  p.outputs.push_back(std::move(d));
  if (kept == "apart") sum.before.clear();
  if (kept == "apart" || in_place) p.outputs.push_back(std::move(sum));

  const uint32_t flags = draw.pick<uint32_t>("flags", {0, WL_GRAPH_LAUNCH});
  const bool forced = draw.pick<const char*>("config", {"null", "set"})[0] == 's';
  if (in_place) p.in_a_row = 1;
  const bool b200 = c.profile == "b200";
  std::string product =
      nvfp4  ? b200 ? "gemm_sm100_n64_" : "gemm_sm90_t64_"
      : b200 ? "gemm_sm100_pair_n64_h16_"
             : (c.type == WL_F16 ? "gemm_sm90_f16_t64c64_" : "gemm_sm90_bf16_t64c64_");
  // Which takes the factors later than the rows.
  if (!b200 && folded && d_type != WL_F32 && draw.pick("tiles in turns", {1, 0}) == 1)
    product = c.type == WL_F16 ? "gemm_sm90_f16_t128c176_pair_pingpong_"
                               : "gemm_sm90_bf16_t128c192_pair_pingpong_";
  const std::string name = product + (d_type == WL_F16    ? "f16"
                                      : d_type == WL_BF16 ? "bf16"
                                                          : "f32");
  const auto args_of = [=, type = c.type](const Addresses& at, int run) {
    wl_norm_linear_args args{};
    args.struct_size = sizeof args;
    args.m = m, args.n = n, args.k = k;
    args.x = at.at("x"), args.x_type = type, args.ldx = ldx;
    args.norm = config.norm, args.form = folded ? WL_NORM_FOLDED : WL_NORM_PLAIN;
    args.eps = eps, args.gamma_type = gamma_type;
    args.gamma = at.at("gamma"), args.beta = at.at("beta");
    args.residual = at.at(in_place ? "sum" : "residual"), args.ldr = ldr;
    args.sum = at.at("sum");
    args.w = at.at("w"), args.w_type = w_type, args.sfw = at.at("sfw"), args.sf_layout = sf_layout;
    args.a_scale = static_cast<const float*>(at.at("a_scale"));
    args.alpha = static_cast<const float*>(at.at("alpha"));
    args.bias = at.at("bias"), args.bias_type = bias.said;
    args.activation = activations.runs[run];
    args.d = at.at("d"), args.d_type = d_type, args.ldd = ldd;
    args.config = forced ? name.c_str() : nullptr;
    args.flags = flags;
    return args;
  };
  set_calls(rows_planned, args_of, wl_norm_linear_plan, wl_norm_linear_run, &p);
  return p;
}

} // namespace

Operation norm_linear() {
  Operation op{"norm_linear", "norm_linear", "wl_norm_linear_args", {}, make};
  for (const Config& config : warpline::norm_linear::configs()) {
    Configuration c;
    c.name = config.name;
    c.kernels = {config.name};
    c.profile = std::string(config.target) == "sm_100f" ? "b200" : "h200";
    c.type = config.x_type;
    c.sms = 4;
    const wl_operand same = c.type == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
    c.types = {{same, same}};
    if (config.end == End::rows) c.types.push_back({WL_OPERAND_NVFP4, WL_OPERAND_NVFP4});
    c.problems = first_problems(12);
    op.configurations.push_back(c);
  }
  return op;
}

} // namespace wltest::problems
