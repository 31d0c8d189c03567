// The quantiser on a real GPU: every code and scale bit for bit at the edges of its units, with
// guards around its outputs; alone, behind another quantisation whose output it reads, and on
// problems of more units than warps are resident; and the problems of tests/problems, with norms.
#include "kernels/quantize/quantize.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/quantize_run.hpp"

#include <string>
#include <vector>

using namespace wltest;

namespace {

const std::vector<int64_t> kM = {1, 2, 3, 16, 31, 33, 64, 65, 97, 127, 128, 129, 160, 257, 1000};
const std::vector<int64_t> kK = {64, 128, 256, 320, 1088, 7168};
const std::vector<float> kScales = {1, 0.25f, 3, 0.0078125f, 1.7e-5f, 1e4f, 0x1p-126f, 0x1p+126f};

void expect_exact(wl_context* context, const QuantizeCase& c) {
  INFO(describe(c));
  const QuantizeResult r = run_quantize(context, c);
  INFO(r.message);
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.guards_intact);
  CHECK(r.unequal == 0);
}

} // namespace

TEST_CASE("quantise bit for bit", "[hardware][quantize]") {
  HardwareContext device([](const warpline::DeviceLimits& limits) {
    wl_quantize_args args{}; // FP16, without a norm
    for (const warpline::quantize::Config& config : warpline::quantize::configs())
      if (warpline::quantize::can_run(config, args, limits, nullptr)) return true;
    return false;
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  size_t i = 0;
  for (const int64_t m : kM)
    for (const OutputType type : {OutputType::f16, OutputType::bf16})
      for (size_t s = 0; s < 6; ++s, ++i) {
        QuantizeCase c;
        c.m = m;
        c.k = kK[(i + s) % kK.size()];
        c.l = i % 5 == 1 ? 3 : 1;
        c.type = type;
        c.d_scale = kScales[i % kScales.size()];
        c.row_gap = i % 4 == 0 ? 24 : 0;
        c.entry_gap = i % 3 == 1 ? 40 : 0;
        c.seed = 3000 + i;
        expect_exact(device.context, c);
      }
  const struct { int64_t m, k, l; } shapes[] = {{4096, 7168, 1}, {3, 64, 60000}, {130, 4096, 20}};
  for (const auto& shape : shapes) {
    QuantizeCase c;
    c.m = shape.m;
    c.k = shape.k;
    c.l = shape.l;
    c.seed = 3900;
    c.chained = c.k % 256 == 0;
    expect_exact(device.context, c);
  }
  for (uint64_t seed = 0; seed < 50; ++seed) {
    QuantizeCase c;
    c.m = 300;
    c.k = 1024;
    c.chained = true;
    c.seed = 4000 + seed;
    expect_exact(device.context, c);
  }
}
