// Problems of the quantiser.
#include "tests/problems/quantize.hpp"

#include "kernels/quantize/quantize.hpp"
#include "tests/problems/nvfp4.hpp"
#include "tests/reference/quantize.hpp"

#include <algorithm>
#include <cstring>

namespace wltest::problems {

namespace {

using warpline::quantize::Config;

Problem make(const Configuration& c, Draw& draw, Values wanted) {
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
    m = 128 * (1 + below("m", 2)), k = 64 * (1 + below("k", 20)), l = 2;
    break;
  case 3: // the group's two rows, and those 32 below
    m = 31 + below("m", 4), k = 64 * (1 + below("k", 3)), l = 1 + below("l", 3);
    break;
  case 4:
    m = 97 + below("m", 33), k = 64 * (1 + below("k", 3)), l = 2;
    break;
  default:
    m = 1 + below("m", 400), k = 64 * (1 + below("k", 30));
  }
  draw.note("m", m);
  draw.note("k", k);
  draw.note("l", l);
  draw.note("struct_size", sizeof(wl_quantize_args));
  draw.note("sf_layout", static_cast<int>(WL_SF_128x4));
  draw.note("x_type", static_cast<int>(c.type));
  p.config = c.name;
  const bool chosen = draw.pick<const char*>("config", {"null", "forced"})[0] == 'n';

  int64_t ldx = draw.pick<int64_t>("ldx", {0, 8, -1, 24});
  ldx = draw.note("ldx", ldx == -1 ? k : ldx == 0 ? 0 : k + ldx);
  const int64_t pitch = ldx == 0 ? k : ldx;
  const std::string stride =
      draw.pick<const char*>("entries of X", {"default", "apart", "dense", "interlocked"});
  const int64_t batch_stride =
      draw.note("batch_stride_x", stride == "default" ? 0
                                  : stride == "apart" ? m * pitch + 40
                                  : stride == "dense" ? m * pitch
                                                      : (m - 1) * pitch + k);
  const int64_t entry = batch_stride == 0 ? m * pitch : batch_stride;

  const float value =
      draw.pick("d_scale value", {1.0f, 0.25f, 0.013f, 3.0f, 1e4f, 0x1p-126f, 0x1p+126f});
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
    // What lies between the rows has a magnitude that changes a block's scale.
    const std::vector<uint16_t> between(static_cast<size_t>((l - 1) * entry + (m - 1) * pitch + k),
                                        type == OutputType::f16 ? 0x7BFF : 0x7F7F);
    Bytes image(between.size() * 2);
    std::memcpy(image.data(), between.data(), image.size());
    for (int64_t row = 0; row < l * m; ++row)
      std::memcpy(&image[static_cast<size_t>(2 * (row / m * entry + row % m * pitch))],
                  &values.codes[static_cast<size_t>(row * k)], static_cast<size_t>(2 * k));
    x.runs.push_back(std::move(image));
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
  p.plan = [=, type = c.type, config = c.name](wl_context* context, const Addresses& addresses,
                                               wl_plan** plan) {
    wl_quantize_args args{};
    args.struct_size = sizeof args;
    args.m = m, args.k = k, args.l = l;
    args.x = addresses.at("x"), args.x_type = type;
    args.ldx = ldx, args.batch_stride_x = batch_stride;
    args.d = addresses.at("d"), args.sfd = addresses.at("sfd");
    args.sf_layout = WL_SF_128x4;
    args.d_scale = given ? static_cast<const float*>(addresses.at("d_scale")) : nullptr;
    args.config = chosen ? nullptr : config.c_str();
    args.flags = flags;
    return wl_quantize_plan(context, &args, plan);
  };
  return p;
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
    c.problems = 12;
    op.configurations.push_back(c);
  }
  return op;
}

} // namespace wltest::problems
