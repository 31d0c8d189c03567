#include "tests/support/quantize_run.hpp"

#include "tests/reference/dual_gemm.hpp"
#include "tests/support/device_buffer.hpp"

#include <cstring>
#include <sstream>

namespace wltest {

std::string describe(const QuantizeCase& c) {
  std::ostringstream s;
  s << "m " << c.m << " k " << c.k << " l " << c.l << " " << name_of(c.type) << " d_scale "
    << c.d_scale << " row gap " << c.row_gap << " entry gap " << c.entry_gap
    << (c.chained ? " chained" : "") << " config " << (c.config.empty() ? "auto" : c.config)
    << " norm " << static_cast<int>(c.norm) << " seed " << c.seed;
  return s.str();
}

namespace {

// Plans of one case, released together.
struct Plans {
  std::vector<wl_plan*> all;
  ~Plans() {
    for (wl_plan* plan : all) wl_plan_destroy(plan);
  }
};

} // namespace

QuantizeResult run_quantize(wl_context* context, const QuantizeCase& c) {
  QuantizeResult r;
  const bool normalises = c.norm != WL_NORM_NONE;
  const Matrix x = normalises ? random_matrix(c.m, c.k, c.l, c.type, c.seed)
                              : make_matrix(c.m, c.k, c.l, c.type, c.seed);
  const Matrix added = random_matrix(c.m, c.k, c.l, c.type, c.seed + 1);
  const int64_t ldx = c.k + c.row_gap, batch_stride = c.m * ldx + c.entry_gap;
  // A kernel that reads between the rows finds a magnitude that changes its block's scale.
  const uint16_t largest = c.type == OutputType::f16 ? 0x7BFF : 0x7F7F;
  std::vector<uint16_t> image(static_cast<size_t>(c.l * batch_stride), largest);
  for (int64_t row = 0; row < c.l * c.m; ++row)
    std::copy_n(x.codes.begin() + row * c.k, c.k,
                image.begin() + row / c.m * batch_stride + row % c.m * ldx);
  const DeviceBuffer input(context, image), factor(context, std::vector<float>{c.d_scale});
  const GuardedOperand d(context, c.m, c.k, c.l, !c.unwritten),
      second(context, c.m, c.k / 4, c.l, !c.unwritten);

  wl_quantize_args args{};
  args.struct_size = sizeof args;
  args.m = c.m;
  args.k = c.k;
  args.l = c.l;
  args.x = input.pointer;
  args.x_type = c.type == OutputType::f16 ? WL_F16 : WL_BF16;
  args.ldx = c.row_gap != 0 ? ldx : 0;
  args.batch_stride_x = c.entry_gap != 0 ? batch_stride : 0;
  args.d = d.d();
  args.sfd = d.sfd();
  args.sf_layout = WL_SF_128x4;
  args.d_scale = c.d_scale == 1 ? nullptr : static_cast<const float*>(factor.pointer);
  args.config = c.config.empty() ? nullptr : c.config.c_str();
  const DeviceBuffer sums(context, added.codes);
  args.norm = c.norm;
  args.eps = 1e-5f;
  if (normalises) args.residual = args.sum = sums.pointer;
  Norm norm;
  norm.kind = c.norm == WL_NORM_RMS ? Norm::Kind::rms : Norm::Kind::layer;
  norm.eps = args.eps;
  for (int64_t i = 0; c.gammas && i < c.k; ++i) {
    norm.gamma.push_back(0.5f + static_cast<float>(i % 7) / 8);
    if (c.norm == WL_NORM_LAYER) norm.beta.push_back(static_cast<float>(i % 5) / 4);
  }
  const DeviceBuffer gamma(context, norm.gamma), beta(context, norm.beta);
  args.gamma_type = c.gammas ? WL_F32 : args.gamma_type;
  if (!norm.gamma.empty()) args.gamma = gamma.pointer;
  if (!norm.beta.empty()) args.beta = beta.pointer;
  const auto failed = [&](wl_status status) {
    r.status = status;
    if (status != WL_SUCCESS) r.message = wl_last_error();
    return status != WL_SUCCESS;
  };
  Plans plans;
  if (failed(wl_quantize_plan(context, &args, &plans.all.emplace_back()))) return r;
  r.info.struct_size = sizeof r.info;
  wl_plan_get_info(plans.all[0], &r.info);
  if (c.chained) {
    args.k = c.k / 4;
    args.x = d.d();
    args.ldx = args.batch_stride_x = 0;
    args.d = second.d();
    args.sfd = second.sfd();
    args.norm = WL_NORM_NONE;
    args.residual = args.sum = nullptr;
    args.gamma = args.beta = nullptr;
    if (normalises) args.config = nullptr;
    if (failed(wl_quantize_plan(context, &args, &plans.all.emplace_back()))) return r;
  }
  if (c.ahead) c.ahead({{input.pointer, 2 * image.size()}, {sums.pointer, 2 * added.codes.size()}});
  for (const wl_plan* plan : plans.all)
    if (failed(wl_plan_run(plan, nullptr, 0, nullptr))) return r;
  if (failed(wl_stream_synchronize(context, nullptr))) return r;

  std::vector<uint16_t> after(image.size());
  wl_download(context, after.data(), input.pointer, after.size() * sizeof(uint16_t));
  r.guards_intact = after == image;
  r.d = d.read(&r.guards_intact);
  if (normalises) {
    const Matrix sum = add(x, added);
    std::vector<uint16_t> found(sum.codes.size());
    wl_download(context, found.data(), sums.pointer, found.size() * sizeof(uint16_t));
    r.guards_intact = r.guards_intact && found == sum.codes;
    r.expected = quantize(sum, norm, c.d_scale);
  } else {
    r.expected = quantize(x, c.d_scale);
  }
  r.unequal = count_unequal(r.d, r.expected);
  if (!c.chained) return r;
  Matrix bytes{c.m, c.k / 4, c.l, c.type, std::vector<uint16_t>(r.expected.values.size() / 2)};
  std::memcpy(bytes.codes.data(), r.expected.values.data(), r.expected.values.size());
  r.unequal += count_unequal(second.read(&r.guards_intact), quantize(bytes, c.d_scale));
  return r;
}

} // namespace wltest
