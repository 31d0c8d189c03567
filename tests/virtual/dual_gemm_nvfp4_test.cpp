// NVFP4 output of the dual GEMM on the virtual B200: values and scales bit for bit, and D as the A
// of a second dual GEMM.
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_context.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace wltest;

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

struct Result {
  wl_status status = WL_SUCCESS;
  std::string message, config;
  Operand d;
  bool guards_intact = true;
};

Result run(wl_context* context, const Problem& p, float d_scale, const std::string& config) {
  Result r;
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
  const bool bad = failed(wl_plan_run(plan, nullptr, 0, nullptr)) ||
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

} // namespace

TEST_CASE("NVFP4 output: values and scales, bit for bit", "[virtual]") {
  const char* const rows[] = {"n64", "n128", "pair_n64", "pair_n128"};
  const char* const schedules[] = {"lazy", "eager", "random:1", "random:2", "random:3"};
  const int64_t ms[] = {1, 127, 129, 256, 300}, ns[] = {64, 128, 192, 320},
                ks[] = {64, 192, 256, 1472};
  const float scales[] = {1, 0.25f, 3, 0.0078125f};
  size_t i = 0;
  for (const char* row : rows)
    for (const char* schedule : schedules) {
      const int64_t m = ms[(3 * i + i / 5) % 5], n = ns[(i + i / 4) % 4], k = ks[(i + i / 3) % 4];
      const InputKind kind = i % 3 == 2 ? InputKind::one_hot : InputKind::exact;
      const Problem p = make_problem(m, n, k, i % 4 == 1 ? 3 : 1, kind, 900 + i);
      const float d_scale = scales[i % 4];
      INFO(row << ", schedule " << schedule << ", m " << m << " n " << n << " k " << k << " l "
               << p.l << ", d_scale " << d_scale << ", seed " << 900 + i);
      wl_context* context = virtual_context("b200");
      REQUIRE(set_schedule(schedule));
      const Result r = run(context, p, d_scale, "dual_gemm_sm100_" + std::string(row) + "_nvfp4");
      INFO(r.message);
      REQUIRE(r.status == WL_SUCCESS);
      CHECK(r.guards_intact);
      const Operand expected = quantized_replayed(accumulate(p), p.alpha1, p.alpha2, d_scale);
      CHECK(r.d.scales == expected.scales);
      CHECK(r.d.values == expected.values);
      ++i;
    }
}

TEST_CASE("NVFP4 output is the A of the next product", "[virtual]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule("lazy"));
  const Problem first = make_problem(200, 256, 512, 1, InputKind::public_problem, 4);
  const Result r = run(context, first, 0.5f, "");
  INFO(r.message);
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.config.find("_nvfp4") != std::string::npos);
  // What the first product lost by rounding: E2M1 steps are 1 between 2 and 4 and 2 between 4 and
  // 6, of at most 6 times the scale, so half a step is 1/6 of the block's largest magnitude; the
  // scale's own rounding, 1/16, adds to it.
  const Sums sums = accumulate(first);
  const std::vector<double> exact = gated(sums, first.alpha1, first.alpha2);
  double worst = 0;
  for (size_t block = 0; block < r.d.scales.size(); ++block) {
    double largest = 0, error = 0;
    for (size_t i = 0; i < 16; ++i) {
      const size_t at = 16 * block + i;
      const double got = decode_e2m1(nibble(r.d.values.data(), static_cast<int64_t>(at))) *
                         decode_ue4m3(r.d.scales[block]) * 0.5;
      largest = std::max(largest, std::fabs(exact[at]));
      error = std::max(error, std::fabs(got - exact[at]));
    }
    if (largest > 0.5) worst = std::max(worst, error / largest);
  }
  CHECK(worst < 1.0 / 6 + 1.0 / 16);

  Problem second = make_problem(200, 128, 256, 1, InputKind::exact, 5);
  second.a = r.d;
  second.alpha1 = second.alpha2 = 0.5f / 64;
  const Result next = run(context, second, 1, "");
  INFO(next.message);
  REQUIRE(next.status == WL_SUCCESS);
  const Operand expected = quantized_replayed(accumulate(second), second.alpha1, second.alpha2, 1);
  size_t unequal = 0;
  for (size_t i = 0; i < expected.values.size(); ++i)
    unequal += expected.values[i] != next.d.values[i];
  // FP32 sums of these scales may round: single codes next to a tie may differ.
  CHECK(unequal <= expected.values.size() / 100);
}
