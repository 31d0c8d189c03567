// The quantiser on the virtual GPUs: every code and scale bit for bit at the edges of its units,
// under every kind of schedule and all checks, and its output as the A of a dual GEMM.
#include "kernels/quantize/quantize.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tests/support/captured_graph.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/quantize_run.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <memory>
#include <string>
#include <vector>

using namespace wltest;

namespace {

const std::vector<std::string> kSchedules = {"lazy", "eager", "random:1", "random:2", "random:3"};
// Around 8 rows of a group, its two rows of 32, blocks of 128 rows.
const std::vector<int64_t> kM = {1, 2, 3, 31, 32, 33, 64, 65, 97, 127, 128, 129, 130, 160, 257};
const std::vector<int64_t> kK = {64, 128, 192, 320, 1088};
const std::vector<float> kScales = {1, 0.25f, 3, 0.0078125f, 1.7e-5f, 1e4f, 0x1p-126f, 0x1p+126f};

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
  REQUIRE(set_checks("all,advice"));
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
  REQUIRE(set_checks("off"));
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
  REQUIRE(set_checks("all,advice"));
  for (const std::string& schedule : kSchedules) {
    QuantizeCase c;
    c.m = 130;
    c.k = 512;
    c.chained = true;
    c.seed = 950;
    expect_exact(c, schedule);
  }
  REQUIRE(set_checks("off"));
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

// Under a 6 in every block the scale is 1, and a code is the E2M1 number nearest to the value.
TEST_CASE("every FP16 and BF16 number up to 6 gets its nearest code", "[virtual][quantize]") {
  wl_context* context = context_of_process();
  REQUIRE(set_schedule("lazy"));
  for (const OutputType type : {OutputType::f16, OutputType::bf16}) {
    const uint16_t six = encode_output(type, 6);
    Matrix x{1, 0, 1, type, {}};
    uint32_t next = 0; // magnitude and, in the last bit, sign
    while (next < 2u * (six + 1) || x.codes.size() % 64 != 0) {
      if (x.codes.size() % 16 == 0) x.codes.push_back(six);
      x.codes.push_back(static_cast<uint16_t>(std::min(next / 2, uint32_t{six}) | next % 2 << 15));
      ++next;
    }
    x.k = static_cast<int64_t>(x.codes.size());
    const DeviceBuffer input(context, x.codes);
    const GuardedOperand d(context, 1, x.k, 1);
    wl_quantize_args args{};
    args.struct_size = sizeof args;
    args.m = 1, args.k = x.k, args.l = 1;
    args.x = input.pointer, args.d = d.d(), args.sfd = d.sfd();
    args.x_type = type == OutputType::f16 ? WL_F16 : WL_BF16;
    wl_plan* plan = nullptr;
    REQUIRE(wl_quantize_plan(context, &args, &plan) == WL_SUCCESS);
    REQUIRE(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
    wl_plan_destroy(plan);
    bool intact = true;
    const Operand found = d.read(&intact);
    CHECK(intact);
    CHECK(found.scales == std::vector<uint8_t>(found.scales.size(), 0x38)); // 1
    int64_t wrong = 0;
    for (int64_t k = 0; k < x.k; ++k)
      wrong += nibble(found.values.data(), k) !=
               encode_e2m1(decode_output(type, x.codes[static_cast<size_t>(k)]));
    INFO(name_of(type) << ", " << x.k << " values");
    CHECK(wrong == 0);
  }
}

// A quantisation and the dual GEMM of its output, as they stand in a layer.
class Chain {
public:
  // Values of [-3, 3), so that FP32 sums lie well within the bound.
  explicit Chain(wl_context* context)
      : context_(context), x_{p.m, p.k, p.l, OutputType::bf16, std::vector<uint16_t>(elements())},
        input_(context, x_.codes), factors_(context, std::vector<float>{d_scale, alpha}),
        a_(context, p.m, p.k, p.l), b1_(context, p.b1.values), b2_(context, p.b2.values),
        sfb1_(context, packed_scales(p.b1)), sfb2_(context, packed_scales(p.b2)),
        d_(context, std::vector<uint16_t>(outputs(), 0x7FFF)) {
    wl_quantize_args first{};
    first.struct_size = sizeof first;
    first.m = p.m, first.k = p.k, first.l = p.l;
    first.x = input_.pointer, first.x_type = WL_BF16;
    first.d = a_.d(), first.sfd = a_.sfd();
    first.d_scale = static_cast<const float*>(factors_.pointer);
    wl_dual_gemm_args second{};
    second.struct_size = sizeof second;
    second.m = p.m, second.n = p.n, second.k = p.k, second.l = p.l;
    second.a = a_.d(), second.sfa = a_.sfd();
    second.b1 = b1_.pointer, second.b2 = b2_.pointer;
    second.sfb1 = sfb1_.pointer, second.sfb2 = sfb2_.pointer;
    second.alpha1 = second.alpha2 = first.d_scale + 1;
    second.d = d_.pointer, second.d_type = WL_BF16;
    REQUIRE(wl_quantize_plan(context, &first, &quantise_) == WL_SUCCESS);
    REQUIRE(wl_dual_gemm_plan(context, &second, &multiply_) == WL_SUCCESS);
    wl_plan_info info{};
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(multiply_, &info) == WL_SUCCESS);
    workspace_bytes_ = info.workspace_bytes;
    workspace_ = std::make_unique<DeviceBuffer>(context, workspace_bytes_);
  }
  ~Chain() {
    wl_plan_destroy(quantise_);
    wl_plan_destroy(multiply_);
  }

  wl_status run(wl_stream stream) const {
    const wl_status first = wl_plan_run(quantise_, nullptr, 0, stream);
    if (first != WL_SUCCESS) return first;
    return wl_plan_run(multiply_, workspace_->pointer, workspace_bytes_, stream);
  }

  void new_input(uint64_t seed) {
    const Random random(seed, 0);
    for (size_t i = 0; i < x_.codes.size(); ++i)
      x_.codes[i] = encode_bf16(6 * random.uniform(i) - 3);
    REQUIRE(wl_upload(context_, input_.pointer, x_.codes.data(), 2 * x_.codes.size()) ==
            WL_SUCCESS);
    const std::vector<uint16_t> nan(outputs(), 0x7FFF);
    REQUIRE(wl_upload(context_, d_.pointer, nan.data(), 2 * nan.size()) == WL_SUCCESS);
  }

  void check() {
    bool intact = true;
    p.a = a_.read(&intact);
    CHECK(intact);
    CHECK(count_unequal(p.a, quantize(x_, d_scale)) == 0);
    std::vector<uint16_t> out(outputs());
    REQUIRE(wl_download(context_, out.data(), d_.pointer, 2 * out.size()) == WL_SUCCESS);
    const Sums sums = accumulate(p);
    const Comparison c =
        compare(sums, gated(sums, alpha, alpha), out.data(), p.n, p.m * p.n, OutputType::bf16);
    INFO(describe(c));
    CHECK(c.passed());
  }

private:
  static constexpr float d_scale = 0.5f, alpha = d_scale / 64;
  size_t elements() const { return static_cast<size_t>(p.l * p.m * p.k); }
  size_t outputs() const { return static_cast<size_t>(p.l * p.m * p.n); }

  wl_context* context_;
  Problem p = make_problem(130, 72, 320, 2, InputKind::exact, 31);
  Matrix x_;
  DeviceBuffer input_, factors_;
  GuardedOperand a_;
  DeviceBuffer b1_, b2_, sfb1_, sfb2_, d_;
  std::unique_ptr<DeviceBuffer> workspace_;
  size_t workspace_bytes_ = 0;
  wl_plan *quantise_ = nullptr, *multiply_ = nullptr;
};

TEST_CASE("a quantised matrix is the A of a dual GEMM behind it", "[virtual][quantize]") {
  wl_context* context = context_of_process();
  Chain chain(context);
  for (const char* schedule : {"lazy", "random:5"}) {
    INFO("schedule " << schedule << ", seed 32");
    REQUIRE(set_schedule(schedule));
    chain.new_input(32);
    REQUIRE(chain.run(nullptr) == WL_SUCCESS);
    REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    chain.check();
  }
}

TEST_CASE("a quantisation and its dual GEMM in a graph, on other inputs each time",
          "[virtual][quantize]") {
  wl_context* context = context_of_process();
  REQUIRE(set_schedule("random:6"));
  Chain chain(context);
  CapturedGraph graph(context);
  REQUIRE(graph.capture([&](wl_stream stream) { return chain.run(stream); }) == WL_SUCCESS);
  for (uint64_t seed = 40; seed < 43; ++seed) {
    INFO("seed " << seed);
    chain.new_input(seed);
    REQUIRE(graph.launch() == WL_SUCCESS);
    chain.check();
  }
}

TEST_CASE("quantise: misuse gets a status and a sentence", "[virtual][quantize]") {
  wl_context* context = context_of_process();
  const DeviceBuffer x(context, std::vector<uint16_t>(128, 0x3C00));
  const GuardedOperand d(context, 1, 64, 1);
  wl_quantize_args legal{};
  legal.struct_size = sizeof legal;
  legal.m = 1, legal.k = 64, legal.l = 1;
  legal.x = x.pointer, legal.d = d.d(), legal.sfd = d.sfd();
  wl_plan* plan = nullptr;
  const auto message = [](const char* text) {
    CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
  };
  CHECK(wl_quantize_check(context, &legal) == WL_SUCCESS);
  CHECK(wl_quantize_plan(context, nullptr, &plan) == WL_ERROR_INVALID_ARGUMENT);
  message("wl_quantize_plan: args is null");
  CHECK(wl_quantize_plan(context, &legal, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  message("wl_quantize_plan: plan is null");
  CHECK(wl_quantize_check(nullptr, &legal) == WL_ERROR_INVALID_ARGUMENT);
  for (const size_t size : {size_t{0}, sizeof legal - 8, size_t{4096}}) {
    wl_quantize_args args = legal;
    args.struct_size = size;
    CHECK(wl_quantize_check(context, &args) == WL_ERROR_ABI);
    message("wl_quantize_args");
  }
  wl_quantize_args args = legal;
  args.x = static_cast<const uint8_t*>(x.pointer) + 8;
  CHECK(wl_quantize_plan(context, &args, &plan) == WL_ERROR_MISALIGNED);
  CHECK(plan == nullptr);
  message("nothing was launched");
  bool intact = true;
  CHECK(d.read(&intact).scales == std::vector<uint8_t>(4, 0xA5));
  CHECK(intact);
}

TEST_CASE("the quantiser on the virtual B300 and H200", "[virtual]") {
  // A B300 takes the B200's kernels.
  for (const auto& [device, tests] :
       {std::pair{"virtual:b300", "quantise at every edge*,NaN\\, infinity*"},
        std::pair{"virtual:h200", "[quantize]~quantise more than is resident*"}}) {
    const ChildResult r =
        run_child({build_file("tests/virtual"), tests}, {{"WARPLINE_DRIVER", device}}, 300);
    INFO(device << "\n" << r.out << r.err);
    CHECK(r.status == 0);
  }
}
