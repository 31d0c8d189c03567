#include "tests/support/dual_gemm_nvfp4_run.hpp"

#include <algorithm>
#include <vector>

namespace wltest {

namespace {

constexpr size_t kGuard = 256; // bytes around D and SFD
constexpr uint8_t kFill = 0xA5;

// Device memory for the scope's life.
struct Buffer {
  wl_context* context;
  void* pointer = nullptr;
  Buffer(wl_context* c, const std::vector<uint8_t>& data) : context(c) {
    wl_malloc(c, std::max<size_t>(data.size(), 16), &pointer);
    wl_upload(c, pointer, data.data(), data.size());
  }
  ~Buffer() { wl_free(context, pointer); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint8_t* at(size_t offset) const { return static_cast<uint8_t*>(pointer) + offset; }
  std::vector<uint8_t> read(size_t bytes) const {
    std::vector<uint8_t> data(bytes);
    wl_download(context, data.data(), pointer, bytes);
    return data;
  }
};

std::vector<uint8_t> packed(const Operand& o) {
  const size_t each = wl_sf_bytes(WL_SF_128x4, o.rows, o.k);
  std::vector<uint8_t> out(each * static_cast<size_t>(o.l));
  for (int64_t e = 0; e < o.l; ++e)
    wl_sf_pack(WL_SF_128x4, o.rows, o.k, o.scales.data() + e * o.rows * (o.k / 16),
               out.data() + static_cast<size_t>(e) * each, nan_padding);
  return out;
}

} // namespace

Nvfp4Result run_dual_gemm_nvfp4(wl_context* context, const Problem& p, float d_scale,
                                const std::string& config) {
  Nvfp4Result r;
  const Buffer a(context, p.a.values), b1(context, p.b1.values), b2(context, p.b2.values);
  const Buffer sfa(context, packed(p.a)), sfb1(context, packed(p.b1)), sfb2(context, packed(p.b2));
  const float factors[3] = {p.alpha1, p.alpha2, d_scale};
  std::vector<uint8_t> factor_bytes(sizeof factors);
  std::copy_n(reinterpret_cast<const uint8_t*>(factors), sizeof factors, factor_bytes.data());
  const Buffer factor(context, factor_bytes);
  const size_t d_bytes = static_cast<size_t>(p.l * p.m * p.n / 2);
  const size_t sf_entry = wl_sf_bytes(WL_SF_128x4, p.m, p.n);
  const size_t sf_bytes = sf_entry * static_cast<size_t>(p.l);
  const Buffer d(context, std::vector<uint8_t>(d_bytes + 2 * kGuard, kFill));
  const Buffer sfd(context, std::vector<uint8_t>(sf_bytes + 2 * kGuard, kFill));

  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.l = p.l;
  args.a = a.pointer;
  args.b1 = b1.pointer;
  args.b2 = b2.pointer;
  args.sfa = sfa.pointer;
  args.sfb1 = sfb1.pointer;
  args.sfb2 = sfb2.pointer;
  args.alpha1 = reinterpret_cast<float*>(factor.at(0));
  args.alpha2 = reinterpret_cast<float*>(factor.at(4));
  args.d_scale = d_scale == 1 ? nullptr : reinterpret_cast<float*>(factor.at(8));
  args.d = d.at(kGuard);
  args.sfd = sfd.at(kGuard);
  args.d_type = WL_NVFP4;
  args.config = config.empty() ? nullptr : config.c_str();
  wl_plan* plan = nullptr;
  const auto failed = [&](wl_status status) {
    r.status = status;
    if (status != WL_SUCCESS) r.message = wl_last_error();
    return status != WL_SUCCESS;
  };
  if (failed(wl_dual_gemm_plan(context, &args, &plan))) return r;
  wl_plan_info info{};
  info.struct_size = sizeof info;
  wl_plan_get_info(plan, &info);
  r.config = info.config;
  const Buffer workspace(context, std::vector<uint8_t>(info.workspace_bytes, kFill));
  const bool bad = failed(wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr)) ||
                   failed(wl_stream_synchronize(context, nullptr));
  wl_plan_destroy(plan);
  if (bad) return r;

  const std::vector<uint8_t> d_image = d.read(d_bytes + 2 * kGuard);
  const std::vector<uint8_t> sf_image = sfd.read(sf_bytes + 2 * kGuard);
  for (const std::vector<uint8_t>* image : {&d_image, &sf_image})
    for (size_t i = 0; i < kGuard; ++i)
      r.guards_intact &= (*image)[i] == kFill && (*image)[image->size() - 1 - i] == kFill;
  r.d = {p.m, p.n, p.l, {}, {}};
  r.d.values.assign(d_image.begin() + kGuard, d_image.end() - kGuard);
  r.d.scales.resize(static_cast<size_t>(p.l * p.m * (p.n / 16)));
  for (int64_t e = 0; e < p.l; ++e) {
    const uint8_t* entry = sf_image.data() + kGuard + static_cast<size_t>(e) * sf_entry;
    wl_sf_unpack(WL_SF_128x4, p.m, p.n, entry, r.d.scales.data() + e * p.m * (p.n / 16));
    // Rows beyond M in the last atoms stay as they were.
    std::vector<uint8_t> again(sf_entry);
    wl_sf_pack(WL_SF_128x4, p.m, p.n, r.d.scales.data() + e * p.m * (p.n / 16), again.data(),
               kFill);
    r.guards_intact &= std::equal(again.begin(), again.end(), entry);
  }
  return r;
}

} // namespace wltest
