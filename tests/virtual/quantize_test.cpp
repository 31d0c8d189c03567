// The quantiser on the virtual GPUs: every code and scale bit for bit at the edges of its units,
// under every kind of schedule and all checks, and its output as the A of a dual GEMM.
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/driver.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/quantize_run.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/virtual_context.hpp"

#include <cstdlib>
#include <string>
#include <vector>

using namespace wltest;

namespace {

const std::vector<std::string> kSchedules = {"lazy", "eager", "random:1", "random:2", "random:3"};
// Around 8 rows of a group, its two rows of 32, blocks of 128 rows.
const std::vector<int64_t> kM = {1, 2, 3, 31, 32, 33, 64, 65, 97, 127, 128, 129, 130, 160, 257};
const std::vector<int64_t> kK = {64, 128, 192, 320, 1088};
const std::vector<float> kScales = {1, 0.25f, 3, 0.0078125f, 1.7e-5f, 1e4f, 0x1p-126f, 0x1p+126f};

std::string virtual_report() {
  const auto report = reinterpret_cast<const char* (*)()>(warpline::driver_symbol("vgpuReport"));
  return report != nullptr ? report() : "";
}

void set_checks(const char* list) {
  const auto set =
      reinterpret_cast<int (*)(const char*, const char*)>(warpline::driver_symbol("vgpuSetOption"));
  REQUIRE(set != nullptr);
  REQUIRE(set("check", list) == 0);
}

// The device of WARPLINE_DRIVER or of the process; the other profiles run in processes of their
// own.
wl_context* context_of_process() {
  const char* driver = std::getenv("WARPLINE_DRIVER");
  const std::string name = driver != nullptr ? driver : "";
  return virtual_context(name.rfind("virtual:", 0) == 0 ? name.substr(8) : "b200");
}

QuantizeResult expect_exact(const QuantizeCase& c, const std::string& schedule) {
  INFO(describe(c) << ", schedule " << schedule);
  wl_context* context = context_of_process();
  REQUIRE(set_schedule(schedule));
  QuantizeResult r = run_quantize(context, c);
  INFO(r.message << "\n" << virtual_report());
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.guards_intact);
  CHECK(r.unequal == 0);
  return r;
}

} // namespace

TEST_CASE("quantise at every edge, bit for bit", "[virtual][quantize]") {
  context_of_process();
  set_checks("all,advice");
  size_t i = 0;
  for (const int64_t m : kM)
    for (const OutputType type : {OutputType::f16, OutputType::bf16}) {
      QuantizeCase c;
      c.m = m;
      c.k = kK[(i + i / 5) % kK.size()];
      c.l = i % 3 == 1 ? 3 : 1;
      c.type = type;
      c.d_scale = kScales[i % kScales.size()];
      c.row_gap = i % 4 == 0 ? 24 : 0;
      c.entry_gap = i % 5 == 1 ? 40 : 0;
      c.seed = 500 + i;
      expect_exact(c, kSchedules[(i + i / 5) % kSchedules.size()]);
      ++i;
    }
  set_checks("off");
}

// Every warp takes several units, and carries run through atoms, groups and entries.
TEST_CASE("quantise more than is resident at once", "[virtual][quantize]") {
  context_of_process();
  const struct { int64_t m, k, l; } shapes[] = {{640, 7168, 2}, {3, 64, 20000}, {2600, 4160, 1}};
  size_t i = 0;
  for (const auto& shape : shapes) {
    QuantizeCase c;
    c.m = shape.m;
    c.k = shape.k;
    c.l = shape.l;
    c.type = i % 2 == 0 ? OutputType::bf16 : OutputType::f16;
    c.d_scale = 0.5f;
    c.seed = 900 + i;
    const QuantizeResult r = expect_exact(c, kSchedules[2 + i % 3]);
    const warpline::quantize::Work work =
        warpline::quantize::share_out(c.m, c.k, c.l, context_of_process()->limits);
    CHECK(work.units > r.info.grid[0] * (r.info.block[0] / 32));
    ++i;
  }
}

TEST_CASE("a quantisation of what the one before it writes", "[virtual][quantize]") {
  context_of_process();
  set_checks("all,advice");
  for (const std::string& schedule : kSchedules) {
    QuantizeCase c;
    c.m = 130;
    c.k = 512;
    c.chained = true;
    c.seed = 950;
    expect_exact(c, schedule);
  }
  set_checks("off");
}

// Each way out of the arithmetic, by its definition in the public header.
TEST_CASE("NaN, infinity, saturation and zero blocks", "[virtual][quantize]") {
  wl_context* context = context_of_process();
  REQUIRE(set_schedule("lazy"));
  const uint16_t one = 0x3C00, nan = 0x7E00, minus_nan = 0xFE00, inf = 0x7C00, minus_inf = 0xFC00;
  const uint16_t most = 0x7BFF, minus_zero = 0x8000, smallest = 0x0001;
  struct Case {
    std::vector<uint16_t> first; // of a block; the rest are 1.0
    uint8_t scale;
    std::vector<uint8_t> codes; // of `first`
    uint8_t rest;               // the code of 1.0
  };
  const Case cases[] = {
      {{0x4600}, 0x38, {7}, 2},                       // 6: scale 1, code of 6; 1.0 is code 2
      {{0x4600, nan, minus_nan}, 0x38, {7, 7, 7}, 2}, // a NaN has no part in the scale
      {{inf, minus_inf, most}, 0x7E, {7, 15, 7}, 0},  // 448 under an infinity
      {{most, minus_zero}, 0x7E, {7, 8}, 0},          // 65504 / 6 is beyond 448
      {{}, 0x23, {}, 7},                              // 1/6 rounds to 11/64, 1.0 to 6 of them
  };
  Matrix x{1, 16 * 8, 1, OutputType::f16, std::vector<uint16_t>(16 * 8, one)};
  size_t block = 0;
  for (const Case& c : cases) std::copy(c.first.begin(), c.first.end(), &x.codes[16 * block++]);
  for (int i = 0; i < 48; ++i) {
    const uint16_t fills[3] = {minus_zero, smallest, nan}; // zeros, too small, nothing but NaN
    x.codes[16 * 5 + i] = fills[i / 16];
  }
  const DeviceBuffer input(context, x.codes);
  const GuardedOperand d(context, 1, x.k, 1);
  wl_quantize_args args{};
  args.struct_size = sizeof args;
  args.m = 1, args.k = x.k, args.l = 1;
  args.x = input.pointer, args.d = d.d(), args.sfd = d.sfd();
  wl_plan* plan = nullptr;
  REQUIRE(wl_quantize_plan(context, &args, &plan) == WL_SUCCESS);
  REQUIRE(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
  wl_plan_destroy(plan);
  bool intact = true;
  const Operand found = d.read(&intact);
  CHECK(intact);
  block = 0;
  for (const Case& c : cases) {
    INFO("block " << block);
    CHECK(found.scales[block] == c.scale);
    for (size_t i = 0; i < 16; ++i) {
      INFO("value " << i);
      CHECK(nibble(found.values.data(), static_cast<int64_t>(16 * block + i)) ==
            (i < c.codes.size() ? c.codes[i] : c.rest));
    }
    ++block;
  }
  for (const uint8_t code : {8, 0, 7}) {
    CHECK(found.scales[block] == 0);
    for (size_t i = 0; i < 16; ++i)
      CHECK(nibble(found.values.data(), static_cast<int64_t>(16 * block + i)) == code);
    ++block;
  }
}

TEST_CASE("a quantised matrix is the A of a dual GEMM behind it", "[virtual][quantize]") {
  wl_context* context = context_of_process();
  for (const char* schedule : {"lazy", "random:5"}) {
    REQUIRE(set_schedule(schedule));
    Problem p = make_problem(130, 72, 320, 2, InputKind::exact, 31);
    // Values of [-3, 3), so that FP32 sums lie well within the bound.
    Matrix x{p.m, p.k, p.l, OutputType::bf16, {}};
    const Random random(32, 0);
    for (int64_t i = 0; i < p.m * p.k * p.l; ++i)
      x.codes.push_back(encode_bf16(6 * random.uniform(static_cast<uint64_t>(i)) - 3));
    const float d_scale = 0.5f, alpha = d_scale / 64;
    const DeviceBuffer input(context, x.codes),
        factors(context, std::vector<float>{d_scale, alpha});
    const GuardedOperand a(context, p.m, p.k, p.l);
    const DeviceBuffer b1(context, p.b1.values), b2(context, p.b2.values);
    const DeviceBuffer sfb1(context, packed_scales(p.b1)), sfb2(context, packed_scales(p.b2));
    std::vector<uint16_t> out(static_cast<size_t>(p.l * p.m * p.n), 0x7FFF);
    const DeviceBuffer d(context, out);
    wl_quantize_args first{};
    first.struct_size = sizeof first;
    first.m = p.m, first.k = p.k, first.l = p.l;
    first.x = input.pointer, first.x_type = WL_BF16;
    first.d = a.d(), first.sfd = a.sfd();
    first.d_scale = static_cast<const float*>(factors.pointer);
    wl_dual_gemm_args second{};
    second.struct_size = sizeof second;
    second.m = p.m, second.n = p.n, second.k = p.k, second.l = p.l;
    second.a = a.d(), second.sfa = a.sfd();
    second.b1 = b1.pointer, second.b2 = b2.pointer;
    second.sfb1 = sfb1.pointer, second.sfb2 = sfb2.pointer;
    second.alpha1 = second.alpha2 = first.d_scale + 1;
    second.d = d.pointer, second.d_type = WL_BF16;
    wl_plan *quantise = nullptr, *multiply = nullptr;
    REQUIRE(wl_quantize_plan(context, &first, &quantise) == WL_SUCCESS);
    REQUIRE(wl_dual_gemm_plan(context, &second, &multiply) == WL_SUCCESS);
    wl_plan_info info{};
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(multiply, &info) == WL_SUCCESS);
    const DeviceBuffer workspace(context, info.workspace_bytes);
    REQUIRE(wl_plan_run(quantise, nullptr, 0, nullptr) == WL_SUCCESS);
    REQUIRE(wl_plan_run(multiply, workspace.pointer, info.workspace_bytes, nullptr) == WL_SUCCESS);
    REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    wl_plan_destroy(quantise);
    wl_plan_destroy(multiply);
    bool intact = true;
    p.a = a.read(&intact);
    CHECK(intact);
    CHECK(count_unequal(p.a, quantize(x, d_scale)) == 0);
    REQUIRE(wl_download(context, out.data(), d.pointer, 2 * out.size()) == WL_SUCCESS);
    const Sums sums = accumulate(p);
    const Comparison c =
        compare(sums, gated(sums, alpha, alpha), out.data(), p.n, p.m * p.n, OutputType::bf16);
    INFO(describe(c) << ", schedule " << schedule);
    CHECK(c.passed());
  }
}

TEST_CASE("the quantiser on the virtual B300 and H200", "[virtual]") {
  for (const char* device : {"virtual:b300", "virtual:h200"}) {
    const ChildResult r =
        run_child({build_file("tests/virtual"), "[quantize]"}, {{"WARPLINE_DRIVER", device}}, 300);
    INFO(device << "\n" << r.out << r.err);
    CHECK(r.status == 0);
  }
}
