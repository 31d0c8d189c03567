// Problems of the quantiser.
#include "tests/problems/quantize.hpp"

#include "kernels/norm/rows.hpp"
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/configs.hpp"
#include "tests/problems/nvfp4.hpp"
#include "tests/problems/telling.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wltest::problems {

namespace {

using warpline::quantize::Config;

// Strides of a tensor of 16-bit numbers as a caller gives them, and as they are.
struct Layout {
  int64_t ld, batch_stride, pitch, entry;
};
Layout draw_layout(Draw& draw, const char* ld_field, const char* stride_field, const char* entries,
                   int64_t m, int64_t k) {
  Layout layout{};
  layout.ld = draw.pick<int64_t>(ld_field, {0, 8, -1, 24});
  layout.ld = draw.note(ld_field, layout.ld == -1 ? k : layout.ld == 0 ? 0 : k + layout.ld);
  layout.pitch = layout.ld == 0 ? k : layout.ld;
  const std::string stride =
      draw.pick<const char*>(entries, {"default", "apart", "dense", "interlocked"});
  layout.batch_stride = draw.note(stride_field, stride == "default" ? 0
                                                : stride == "apart" ? m * layout.pitch + 40
                                                : stride == "dense" ? m * layout.pitch
                                                                    : (m - 1) * layout.pitch + k);
  layout.entry = layout.batch_stride == 0 ? m * layout.pitch : layout.batch_stride;
  return layout;
}

// The bytes of a matrix at these strides. What lies between the rows has a magnitude that changes
// a block's scale.
Bytes at_strides(const Matrix& x, const Layout& layout) {
  const std::vector<uint16_t> between(
      static_cast<size_t>((x.l - 1) * layout.entry + (x.rows - 1) * layout.pitch + x.k),
      x.type == OutputType::f16 ? 0x7BFF : 0x7F7F);
  Bytes image(between.size() * 2);
  std::memcpy(image.data(), between.data(), image.size());
  for (int64_t row = 0; row < x.l * x.rows; ++row)
    std::memcpy(&image[static_cast<size_t>(
                    2 * (row / x.rows * layout.entry + row % x.rows * layout.pitch))],
                &x.codes[static_cast<size_t>(row * x.k)], static_cast<size_t>(2 * x.k));
  return image;
}

Problem make_plain(const Configuration& c, Draw& draw, Values wanted) {
  Problem p;
  const auto below = [&](const char* name, uint64_t bound) {
    return static_cast<int64_t>(draw.below(name, bound));
  };
  int64_t m = 1, k = 64, l = 1;
  switch (draw.index() % 6) {
  case 0: // every warp of the device takes several units, through atoms, groups and entries
    m = 150 + below("m", 100), k = 64 * (5 + 2 * below("k", 4)), l = 3;
    break;
  case 1:
    m = 1 + below("m", 3), k = 64, l = 100 + below("l", 100);
    break;
  case 2: // whole groups of rows
    m = 128 * (1 + below("m", 2)), k = 64 * (1 + below("k", 8)), l = 2;
    break;
  case 3: // the group's two rows, and those 32 below
    m = 31 + below("m", 4), k = 64 * (1 + below("k", 3)), l = 1 + below("l", 3);
    break;
  case 4:
    m = 97 + below("m", 33), k = 64 * (1 + below("k", 3)), l = 2;
    break;
  default:
    m = 1 + below("m", 200), k = 64 * (1 + below("k", 20));
  }
  draw.note("m", m);
  draw.note("k", k);
  draw.note("l", l);
  draw.note("struct_size", sizeof(wl_quantize_args));
  draw.note("sf_layout", static_cast<int>(WL_SF_128x4));
  draw.note("x_type", static_cast<int>(c.type));
  draw.note("norm", static_cast<int>(WL_NORM_NONE));
  p.config = c.name;
  const bool chosen = draw.pick<const char*>("config", {"null", "forced"})[0] == 'n';

  const Layout layout = draw_layout(draw, "ldx", "batch_stride_x", "entries of X", m, k);

  const float value =
      draw.pick("d_scale value", {1.0f, 0.3125f, 0.013f, 3.0f, 1e4f, 0x1p-126f, 0x1p+126f});
  const bool given = value != 1 || draw.below("d_scale", 2) != 0;
  const float d_scale[2] = {value, given ? value * 1.5f : 1};
  if (given)
    p.inputs.push_back({"d_scale",
                        draw_float_alignment(draw, "d_scale"),
                        {bytes_of(d_scale[0]), bytes_of(d_scale[1])},
                        ""});
  else
    draw.note<std::string>("d_scale", "null");

  const OutputType type = c.type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  Input x{"x", draw_alignment(draw, "x"), {}, ""};
  Output d{"d", draw_alignment(draw, "d"), {}, {}, 0};
  Output sfd{"sfd", draw_alignment(draw, "sfd"), {}, {}, 0};
  for (int run = 0; run < 2 && wanted == Values::all; ++run) {
    Matrix values =
        make_matrix(m, k, l, type, draw.seed_for("operands") + static_cast<uint64_t>(run));
    // Blocks of NaN alone.
    for (size_t i = 0; i < values.codes.size(); i += 16 * 29)
      std::fill_n(&values.codes[i], 16, uint16_t{0x7FFF});
    tell_by_ties(d_scale[run], draw.seed_for("ties"), &values);
    x.runs.push_back(at_strides(values, layout));
    const Operand out = quantize(values, d_scale[run]);
    d.runs.push_back(out.values);
    expect_scales(out, &sfd);
  }
  if (wanted == Values::all) d.written.assign(d.runs[0].size(), true);
  p.inputs.push_back(std::move(x));
  p.outputs.push_back(std::move(d));
  p.outputs.push_back(std::move(sfd));

  const uint32_t flags = draw.pick<uint32_t>("flags", {0, WL_GRAPH_LAUNCH});
  draw_way(draw, &p);
  const int64_t rows = draw_planned_rows({m, 1, k, l}, {}, draw, &p);
  const auto args_of = [=, type = c.type, config = c.name](const Addresses& addresses) {
    wl_quantize_args args{};
    args.struct_size = sizeof args;
    args.m = m, args.k = k, args.l = l;
    args.x = addresses.at("x"), args.x_type = type;
    args.ldx = layout.ld, args.batch_stride_x = layout.batch_stride;
    args.d = addresses.at("d"), args.sfd = addresses.at("sfd");
    args.sf_layout = WL_SF_128x4;
    args.d_scale = given ? static_cast<const float*>(addresses.at("d_scale")) : nullptr;
    args.config = chosen ? nullptr : config.c_str();
    args.flags = flags;
    return args;
  };
  set_calls(rows, args_of, wl_quantize_plan, wl_quantize_run, &p);
  return p;
}

// Rows of many kinds: around a mean of their own, which may be far larger than what they vary by;
// blocks of every kind, NaN and infinity among them; constants; zeros; magnitudes whose squares
// add up to no number.
Matrix draw_rows(int64_t m, int64_t k, int64_t l, OutputType type, uint64_t seed) {
  const Random random(seed, 79);
  const Matrix any = make_matrix(m, k, l, type, seed);
  Matrix x{m, k, l, type, std::vector<uint16_t>(any.codes.size())};
  for (int64_t row = 0; row < m * l; ++row) {
    const auto at = static_cast<uint64_t>(row * (k + 8));
    const uint64_t kind = random.below(at, 16);
    const double mean = kind < 8 ? 0
                                 : std::ldexp(2 * random.uniform(at + 1) - 1,
                                              static_cast<int>(random.below(at + 2, 14)) - 4);
    const double spread =
        kind == 13 ? 0 : std::ldexp(1.0, static_cast<int>(random.below(at + 3, 12)) - 6);
    for (int64_t i = 0; i < k; ++i) {
      uint16_t& code = x.codes[static_cast<size_t>(row * k + i)];
      const double unit = 2 * random.uniform(at + 8 + static_cast<uint64_t>(i)) - 1;
      if (kind == 14)
        code = any.codes[static_cast<size_t>(row * k + i)];
      else if (kind == 15)
        code = encode_output(type, type == OutputType::f16 ? 6e4 * unit : 1e25 * unit);
      else
        code = encode_output(type, mean + spread * unit);
    }
    // Of a row with a NaN no other value is left: blocks of NaN alone.
    if (row == 2)
      x.codes[static_cast<size_t>(row * k) + random.below(at + 4, static_cast<uint64_t>(k))] =
          0x7FFF;
  }
  return x;
}

// Gamma or beta: what the kernel reads, and as numbers.
struct Numbers {
  Bytes bytes;
  std::vector<float> values;
};
Numbers draw_numbers(int64_t k, wl_dtype type, uint64_t seed) {
  Numbers numbers;
  const Random random(seed, 80);
  for (int64_t i = 0; i < k; ++i) {
    double value = 3 * random.uniform(static_cast<uint64_t>(i)) - 1;
    if (type != WL_F32) {
      const OutputType as = type == WL_F16 ? OutputType::f16 : OutputType::bf16;
      const uint16_t code = encode_output(as, value);
      value = decode_output(as, code);
      numbers.bytes.push_back(static_cast<uint8_t>(code));
      numbers.bytes.push_back(static_cast<uint8_t>(code >> 8));
    } else {
      const Bytes bytes = bytes_of(static_cast<float>(value));
      numbers.bytes.insert(numbers.bytes.end(), bytes.begin(), bytes.end());
    }
    numbers.values.push_back(static_cast<float>(value));
  }
  return numbers;
}

// Of 16 bits: blocks of NaN alone, and such beside them, and where a lane has its next ones, whose
// numbers are too large for the fast way of quantising.
void spoil_blocks(OutputType type, Numbers* numbers) {
  const auto set = [&](size_t block, double value) {
    for (size_t i = 16 * block; i < std::min(16 * block + 16, numbers->values.size()); ++i) {
      const uint16_t code = std::isnan(value) ? 0x7FFF : encode_output(type, value);
      numbers->values[i] = static_cast<float>(decode_output(type, code));
      std::memcpy(&numbers->bytes[2 * i], &code, 2);
    }
  };
  for (size_t block = 5; 16 * block < numbers->values.size(); block += 29) {
    set(block, NAN);
    for (const size_t beside : {block + 1, block + 32}) set(beside, 60000);
  }
}

Problem make_normalising(const Configuration& c, const Config& config, Draw& draw, Values wanted) {
  Problem p;
  const wl_norm norm = config.norm;
  const auto below = [&](const char* name, uint64_t bound) {
    return static_cast<int64_t>(draw.below(name, bound));
  };
  const bool with_residual = draw.pick<const char*>("with", {"residual", "none"})[0] == 'r';
  int64_t m = 1, k = 64, l = 1;
  switch (draw.index() % 8) {
  case 0: // more rows than slots, of one warp each
    m = 20 + below("m", 30), k = 64 * (1 + below("k", 8)), l = 2;
    break;
  case 1: // one row, of all warps
    m = 1, k = 64 * (120 + below("k", 60));
    break;
  case 2:
    m = 1 + below("m", 3), k = 64 * (20 + below("k", 100)), l = 1 + below("l", 3);
    break;
  case 3: // few slots
    m = 5 + below("m", 6), k = 64 * (200 + below("k", 57));
    break;
  case 4:
    m = 1 + below("m", 2), k = 64 * (500 + below("k", 13));
    break;
  case 5:
    m = 128 - below("m", 4), k = 64 * (1 + below("k", 3)), l = 2;
    if (!config.units && below("beyond an atom", 2) == 0) m = 97 + below("m", 33);
    break;
  case 6:
    m = 10 + below("m", 8), k = 7168;
    break;
  default:
    m = 1 + below("m", 60), k = 64 * (1 + below("k", 20));
  }
  // Rows whose scales go together, whole units of them or not, and those behind them.
  if (config.units && draw.index() % 8 == 5) m += 22;
  if (config.units && draw.index() % 8 == 7)
    m = 128 + 8 * below("m in 8s", 9), k = 64 * (1 + below("k", 6)), l = 2;
  // Once more than one atom of them.
  if (config.units && draw.index() == 7) m += 128, l = 1;
  // Of many rows, shorter ones.
  const int64_t longest = l * m > 80 ? warpline::norm::least_held + 512 : warpline::norm::most_held;
  if (config.held && (k < warpline::norm::least_held || k > longest))
    k = warpline::norm::least_held +
        64 * below("k in 64s", (longest - warpline::norm::least_held) / 64 + 1);
  draw.note("m", m);
  draw.note("k", k);
  draw.note("l", l);
  draw.note("norm", static_cast<int>(norm));
  p.config = c.name;
  wl_quantize_args shape{};
  shape.k = k, shape.l = l, shape.x_type = c.type, shape.norm = norm;
  warpline::DeviceLimits device;
  device.compute_major = c.profile == std::string("h200") ? 9 : 10;
  device.sm_count = c.sms;
  const auto is_choice = [&](int64_t of_rows) {
    shape.m = of_rows;
    return warpline::quantize::chosen(shape, device) == &config;
  };
  bool chosen = draw.pick<const char*>("config", {"null", "forced"})[0] == 'n' && is_choice(m) &&
                draw.index() % 8 != 5;
  if (chosen && config.held) p.config.clear(); // another device takes another one
  const float eps = draw.pick("eps", {1e-6f, 1e-5f, 0.25f, 0x1p-126f});
  const float d_scale = draw.pick("d_scale value", {1.0f, 0.25f, 0.013f, 3.0f, 0x1p-20f});
  const Layout layout = draw_layout(draw, "ldx", "batch_stride_x", "entries of X", m, k),
               of_residual = draw_layout(draw, "ldr", "batch_stride_r", "entries of R", m, k);
  const OutputType type = c.type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  const wl_dtype gamma_type =
      draw.note("gamma_type", draw.pick("gammas", {0, 1}) == 0 ? WL_F32 : c.type);

  const bool given = d_scale != 1;
  if (given)
    p.inputs.push_back({"d_scale", draw_float_alignment(draw, "d_scale"), {bytes_of(d_scale)}, ""});
  Norm of_rows;
  of_rows.kind = norm == WL_NORM_RMS ? Norm::Kind::rms : Norm::Kind::layer;
  of_rows.eps = eps;
  for (const char* name : {"gamma", "beta"}) {
    if (name[0] == 'b' && norm == WL_NORM_RMS) continue;
    if (draw.pick<const char*>(name + std::string(" is"), {"there", "null", "there"})[0] == 'n') {
      draw.note<std::string>(name, "null");
      continue;
    }
    Input input{name, draw_alignment(draw, name), {}, ""};
    if (wanted == Values::all) {
      Numbers numbers = draw_numbers(k, gamma_type, draw.seed_for(name));
      if (name[0] == 'g' && gamma_type != WL_F32) spoil_blocks(type, &numbers);
      (name[0] == 'g' ? of_rows.gamma : of_rows.beta) = std::move(numbers.values);
      input.runs.push_back(std::move(numbers.bytes));
    }
    p.inputs.push_back(std::move(input));
  }

  Input x{"x", draw_alignment(draw, "x"), {}, ""};
  const std::string kept =
      with_residual ? draw.pick<const char*>("sums", {"nowhere", "apart", "in place"}) : "nowhere";
  Input residual{"residual", draw_alignment(draw, "residual"), {}, ""};
  Output sum{"sum", draw_alignment(draw, "sum"), {}, {}, 0};
  sum.infinity = type == OutputType::f16 ? 0x7C00 : 0x7F80;
  Output d{"d", draw_alignment(draw, "d"), {}, {}, 0};
  Output sfd{"sfd", draw_alignment(draw, "sfd"), {}, {}, 0};
  for (int run = 0; run < 2 && wanted == Values::all; ++run) {
    const uint64_t seed = draw.seed_for("operands") + static_cast<uint64_t>(run);
    Matrix values = draw_rows(m, k, l, type, seed);
    x.runs.push_back(at_strides(values, layout));
    if (with_residual) {
      const Matrix other = draw_rows(m, k, l, type, seed + 1000);
      const Bytes image = at_strides(other, of_residual);
      values = add(values, other);
      residual.runs.push_back(image);
      sum.before.push_back(image);
      sum.runs.push_back(at_strides(values, of_residual));
      sum.written.assign(image.size(), false);
      for (int64_t row = 0; row < l * m; ++row)
        std::fill_n(sum.written.begin() +
                        2 * (row / m * of_residual.entry + row % m * of_residual.pitch),
                    2 * k, true);
    }
    if (run == 0 && gamma_type == WL_F32) {
      tell_by_codes(values, d_scale, seed, &of_rows);
      for (Input& in : p.inputs)
        if (in.name == "gamma" || in.name == "beta")
          std::memcpy(in.runs[0].data(), (in.name == "beta" ? of_rows.beta : of_rows.gamma).data(),
                      in.runs[0].size());
    }
    const Operand out = quantize(values, of_rows, d_scale);
    d.runs.push_back(out.values);
    expect_scales(out, &sfd);
  }
  if (wanted == Values::all) d.written.assign(d.runs[0].size(), true);
  p.inputs.push_back(std::move(x));
  if (with_residual && kept != "in place") p.inputs.push_back(std::move(residual));
  p.outputs.push_back(std::move(d));
  p.outputs.push_back(std::move(sfd));
  if (kept == "apart") sum.before.clear();
  if (kept != "nowhere") p.outputs.push_back(std::move(sum));

  draw_way(draw, &p);
  if (kept == "in place") p.in_a_row = 1;
  const int64_t rows = draw_planned_rows({m, 1, k, l}, {"gamma", "beta"}, draw, &p);
  if (rows != 0) chosen = chosen && is_choice(rows);
  const auto args_of = [=, type = c.type, config = c.name](const Addresses& addresses) {
    wl_quantize_args args{};
    args.struct_size = sizeof args;
    args.m = m, args.k = k, args.l = l;
    args.x = addresses.at("x"), args.x_type = type;
    args.ldx = layout.ld, args.batch_stride_x = layout.batch_stride;
    args.d = addresses.at("d"), args.sfd = addresses.at("sfd");
    args.d_scale = given ? static_cast<const float*>(addresses.at("d_scale")) : nullptr;
    args.config = chosen ? nullptr : config.c_str();
    args.norm = norm, args.eps = eps;
    args.gamma = addresses.at("gamma"), args.beta = addresses.at("beta");
    args.gamma_type = gamma_type;
    args.residual = addresses.at(kept == "in place" ? "sum" : "residual");
    args.ldr = of_residual.ld, args.batch_stride_r = of_residual.batch_stride;
    args.sum = addresses.at("sum");
    return args;
  };
  set_calls(rows, args_of, wl_quantize_plan, wl_quantize_run, &p);
  return p;
}

Problem make(const Configuration& c, Draw& draw, Values wanted) {
  const Config& config = *warpline::find_config(warpline::quantize::configs(), c.name);
  return config.norm == WL_NORM_NONE ? make_plain(c, draw, wanted)
                                     : make_normalising(c, config, draw, wanted);
}

} // namespace

Operation quantize() {
  Operation op{"quantize", "quantize", "wl_quantize_args", {}, make};
  for (const Config& config : warpline::quantize::configs()) {
    Configuration c;
    c.name = config.name;
    c.kernels = {config.name};
    c.profile = std::string(config.target) == "sm_100f" ? "b200" : "h200";
    c.type = config.x_type;
    if (config.held) c.sms = 2;
    c.problems = first_problems(config.norm == WL_NORM_NONE ? 12 : 16);
    op.configurations.push_back(c);
  }
  return op;
}

} // namespace wltest::problems
