// What NaN, infinity and overflow become: each sentence of "Beyond the ordinary" at
// wl_dual_gemm_args in warpline.h. A is one row with a single 1, so a column's sums are one value
// of B1 and one of B2, and alphas and biases make the rest.
#include "tests/reference/linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace wltest;

namespace {

struct Value {
  uint8_t code, scale; // E2M1, E4M3
};
constexpr Value zero{0x0, 0x38}, one{0x2, 0x38}, minus_one{0xA, 0x38}, nan_scale{0x2, 0x7F},
    minus_nan_scale{0x2, 0xFF}, thirty_two{0x2, 0x60}, minus_80{0xA, 0x6A}, minus_88{0xA, 0x6B},
    thousand{0x6, 0x78}, // 1024
    largest{0x7, 0x7E}, minus_largest{0xF, 0x7E}, least{0x1, 0x01}, minus_least{0x9, 0x01};
struct Column {
  Value gate = one, up = one;
};

constexpr int64_t n = 64, k = 64;
constexpr float infinity = std::numeric_limits<float>::infinity();

Operand operand(const std::vector<Value>& rows) {
  Operand o;
  o.rows = static_cast<int64_t>(rows.size()), o.k = k, o.l = 1;
  o.values.assign(rows.size() * k / 2, 0);
  o.scales.assign(rows.size() * k / 16, 0x38);
  for (size_t r = 0; r < rows.size(); ++r) {
    o.values[r * k / 2] = rows[r].code;
    o.scales[r * k / 16] = rows[r].scale;
  }
  return o;
}

struct Outputs {
  std::vector<uint16_t> halves; // FP16 or BF16
  std::vector<uint8_t> codes, scales;
};

// A gate and biases of the first columns.
struct Gated {
  Gate gate;
  std::vector<float> bias1, bias2; // 0 beyond their end
};

// The columns stand at the front; the others are 1 and 1.
Outputs run(wl_context* context, const std::string& config, float alpha1, float alpha2,
            const std::vector<Column>& columns, float d_scale = 1, Value a_value = one,
            Gated gated = {}) {
  std::vector<Value> gates(n, one), ups(n, one);
  for (size_t i = 0; i < columns.size(); ++i) gates[i] = columns[i].gate, ups[i] = columns[i].up;
  const Operand a = operand({a_value}), b1 = operand(gates), b2 = operand(ups);
  const DeviceBuffer values_a(context, a.values), values_b1(context, b1.values),
      values_b2(context, b2.values), alphas(context, std::vector<float>{alpha1, alpha2, d_scale}),
      d(context, n * 2), sfd(context, 512);
  const ScaleBuffer sfa(context, a, true), sfb1(context, b1, true), sfb2(context, b2, true);
  const bool f16 = config.ends_with("_f16"), nvfp4 = config.ends_with("_nvfp4");
  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = 1, args.n = n, args.k = k, args.l = 1;
  args.a = values_a.pointer, args.b1 = values_b1.pointer, args.b2 = values_b2.pointer;
  args.sfa = sfa.pointer, args.sfb1 = sfb1.pointer, args.sfb2 = sfb2.pointer;
  args.alpha1 = reinterpret_cast<const float*>(alphas.at(0));
  args.alpha2 = reinterpret_cast<const float*>(alphas.at(4));
  args.d = d.pointer, args.config = config.c_str();
  args.d_type = f16 ? WL_F16 : nvfp4 ? WL_NVFP4 : WL_BF16;
  if (nvfp4) {
    args.sfd = sfd.pointer;
    args.d_scale = reinterpret_cast<const float*>(alphas.at(8));
  }
  gated.bias1.resize(n), gated.bias2.resize(n);
  const DeviceBuffer bias1(context, gated.bias1), bias2(context, gated.bias2);
  args.bias1 = bias1.pointer, args.bias2 = bias2.pointer, args.bias_type = WL_F32;
  args.gate = gated.gate.kind, args.gate_limit = gated.gate.limit;
  wl_plan* plan = nullptr;
  const wl_status made = wl_dual_gemm_plan(context, &args, &plan);
  INFO(config << ": " << wl_last_error());
  REQUIRE(made == WL_SUCCESS);
  wl_plan_info info{};
  info.struct_size = sizeof info;
  REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  const DeviceBuffer workspace(context, info.workspace_bytes);
  const wl_status ran = wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr);
  wl_plan_destroy(plan);
  REQUIRE(ran == WL_SUCCESS);
  Outputs out;
  const std::vector<uint8_t> bytes = d.read(nvfp4 ? n / 2 : n * 2);
  for (size_t i = 0; !nvfp4 && i < n; ++i)
    out.halves.push_back(static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
  for (size_t i = 0; nvfp4 && i < n; ++i) out.codes.push_back(bytes[i / 2] >> 4 * (i % 2) & 15);
  if (nvfp4) out.scales = sfd.read(4);
  return out;
}

// FP16 or BF16 patterns; one word for every NaN.
struct Halves {
  std::string config;
  uint16_t inf;
  uint16_t minus(uint16_t bits) const { return bits | 0x8000; }
  bool is_nan(uint16_t bits) const { return (bits & 0x7FFF) > inf; }
};

void check_halves(wl_context* context, const Halves& type) {
  INFO(type.config);
  const auto outputs = [&](float alpha1, float alpha2, const std::vector<Column>& columns,
                           Value a = one) {
    return run(context, type.config, alpha1, alpha2, columns, 1, a).halves;
  };
  // A NaN scale, whose sign bit is ignored like any scale's: the column of B1 or B2, the row of A.
  std::vector<uint16_t> d =
      outputs(1, 1, {{nan_scale, one}, {one, nan_scale}, {one, minus_nan_scale}, {one, one}});
  for (size_t i = 0; i < n; ++i) CHECK(type.is_nan(d[i]) == (i < 3));
  for (const uint16_t bits : outputs(1, 1, {}, nan_scale)) CHECK(type.is_nan(bits));
  for (const uint16_t bits : outputs(std::nanf(""), 1, {})) CHECK(type.is_nan(bits));
  for (const uint16_t bits : outputs(1, std::nanf(""), {})) CHECK(type.is_nan(bits));

  // x1 infinite, by alpha and by overflow; a zero times an infinity.
  for (const float alpha1 : {infinity, 3e38f}) {
    INFO("alpha1 " << alpha1);
    d = outputs(alpha1, 1,
                {{largest, one}, {largest, minus_one}, {largest, zero}, {minus_largest, one}});
    CHECK(d[0] == type.inf);
    CHECK(d[1] == type.minus(type.inf));
    CHECK(type.is_nan(d[2]));
    CHECK(type.is_nan(d[3])); // where the limit of silu is -0
  }
  CHECK(type.is_nan(outputs(infinity, 1, {{zero, one}})[0]));
  // x2 infinite.
  d = outputs(1, infinity, {{one, one}, {one, minus_one}, {minus_88, one}, {minus_one, one}});
  CHECK(d[0] == type.inf);
  CHECK(d[1] == type.minus(type.inf));
  CHECK(type.is_nan(d[2]));
  CHECK(d[3] == type.minus(type.inf));

  // silu(-88) is -0; silu(-80) is not yet, which a large factor shows: -80 * e^-80 * 2.7e37.
  d = outputs(
      1, 1e34f,
      {{minus_88, largest}, {minus_88, minus_largest}, {minus_80, largest}, {zero, largest}});
  CHECK(d[0] == 0x8000);
  CHECK(d[1] == 0);
  CHECK(d[2] > 0x8000);
  CHECK(d[3] == 0);
  d = outputs(87.25f / 88, 1e34f, {{minus_88, largest}});
  CHECK(d[0] > 0x8000);
  d = outputs(87.4f / 88, 1e34f, {{minus_88, largest}});
  CHECK(d[0] == 0x8000);
}

// Outputs of these x1 and x2: sums are zeros, biases the numbers. Alphas of -1 leave a -0 as it is.
struct Inputs {
  float x1, x2;
};
std::vector<uint16_t> outputs_of(wl_context* context, const Halves& type, const Gate& gate,
                                 const std::vector<Inputs>& inputs) {
  Gated gated{gate, {}, {}};
  for (const Inputs& in : inputs) gated.bias1.push_back(in.x1), gated.bias2.push_back(in.x2);
  const std::vector<Column> zeros(n, {zero, zero});
  std::vector<uint16_t> d = run(context, type.config, -1, -1, zeros, 1, one, gated).halves;
  d.resize(inputs.size());
  // Whatever a sentence says, an output is the replay's.
  const bool f16 = type.inf == 0x7C00;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const float value = gated_replayed(gate, {0, 0, -1, -1, inputs[i].x1, inputs[i].x2});
    const uint16_t expected = f16 ? encode_f16(double{value}) : encode_bf16(double{value});
    INFO(type.config << ", gate " << gate.kind << ", limit " << gate.limit << ", x1 "
                     << inputs[i].x1 << ", x2 " << inputs[i].x2);
    CHECK((d[i] == expected || (type.is_nan(d[i]) && type.is_nan(expected))));
  }
  return d;
}

void check_gates(wl_context* context, const Halves& type) {
  const float nan = std::nanf("");
  for (const wl_gate kind : {WL_GATE_SILU, WL_GATE_GELU_TANH, WL_GATE_CLAMPED})
    for (const float limit : {0.0f, 1.5f, infinity}) {
      if (kind == WL_GATE_CLAMPED && limit == 0) continue;
      INFO(type.config << ", gate " << kind << ", limit " << limit);
      const Gate gate{kind, limit};
      const bool bounded = limit == 1.5f, plain = kind == WL_GATE_SILU && limit == 0;
      // No limit holds for a NaN.
      for (const uint16_t bits : outputs_of(context, type, gate, {{nan, 1}, {1, nan}, {nan, nan}}))
        CHECK(type.is_nan(bits));
      // Infinities, which a limit makes finite; x1 has none below.
      std::vector<uint16_t> d = outputs_of(
          context, type, gate, {{infinity, 2}, {2, infinity}, {2, -infinity}, {-infinity, 2}});
      CHECK((d[0] == type.inf) == !bounded);
      CHECK((d[1] == type.inf) == !bounded);
      CHECK((d[2] == type.minus(type.inf)) == !bounded);
      CHECK((plain ? type.is_nan(d[3]) : d[3] == 0x8000));
      d = outputs_of(context, type, gate, {{infinity, kind == WL_GATE_CLAMPED ? -1.0f : 0.0f}});
      CHECK((bounded ? d[0] == 0 : type.is_nan(d[0])));
      // On the limit, beyond it (x1 above, x2 above and below), and within.
      d = outputs_of(context, type, gate,
                     {{1.5f, 1.5f}, {1.53125f, 1.5f}, {1.5f, 1.53125f}, {3e38f, 3e38f}});
      for (const size_t beyond : {1, 2, 3}) CHECK((d[beyond] == d[0]) == bounded);
      d = outputs_of(context, type, gate, {{1.5f, -1.5f}, {1.5f, -1.53125f}, {1.5f, -3e38f}});
      for (const size_t beyond : {1, 2}) CHECK((d[beyond] == d[0]) == bounded);
      d = outputs_of(context, type, gate, {{1.5f, 1.5f}, {1.46875f, 1.5f}, {1.5f, 1.46875f}});
      for (const size_t within : {1, 2}) CHECK(d[within] != d[0]);
      d = outputs_of(context, type, gate, {{-1.5f, 1.5f}, {-2, 1.5f}}); // x1 has no limit below
      CHECK(d[1] != d[0]);
    }
  // Where results are -0, and where they are not yet, which a large factor shows.
  const float large = 3e38f;
  const auto is_minus_zero = [&](wl_gate kind, float x1) {
    return outputs_of(context, type, {kind, infinity}, {{x1, large}})[0] == 0x8000;
  };
  CHECK(is_minus_zero(WL_GATE_SILU, -87.4f));
  CHECK_FALSE(is_minus_zero(WL_GATE_SILU, -87.25f));
  CHECK(is_minus_zero(WL_GATE_GELU_TANH, -10.1f));
  CHECK_FALSE(is_minus_zero(WL_GATE_GELU_TANH, -9.9f));
  CHECK(is_minus_zero(WL_GATE_CLAMPED, -51.4f));
  CHECK_FALSE(is_minus_zero(WL_GATE_CLAMPED, -51.2f));
  for (const wl_gate kind : {WL_GATE_SILU, WL_GATE_GELU_TANH}) // zeros keep their signs
    CHECK(outputs_of(context, type, {kind, 7}, {{0, 3}, {-0.0f, 3}, {0, -3}, {-0.0f, -0.0f}}) ==
          std::vector<uint16_t>{0, 0x8000, 0x8000, 0});
  // x1 is rounded once: 1.5 (1 + 2^-23) - 1.5 is 1.5 * 2^-23, and half of it times 2^23 is 0.75.
  const Value one_and_a_half{0x3, 0x38};
  const Gated gated{{}, {-1.5f}, {0x1p23f}};
  const std::vector<Column> columns{{one_and_a_half, zero}};
  CHECK(run(context, type.config, 1 + 0x1p-23f, 1, columns, 1, one, gated).halves[0] ==
        (type.inf == 0x7C00 ? 0x3A00 : 0x3F40));
}

void check_all_halves(wl_context* context, const std::vector<std::string>& kernels) {
  for (const std::string& kernel : kernels) {
    check_halves(context, {kernel + "_f16", 0x7C00});
    check_halves(context, {kernel + "_bf16", 0x7F80});
    check_gates(context, {kernel + "_f16", 0x7C00});
    check_gates(context, {kernel + "_bf16", 0x7F80});
    // silu(1024) is 1024. The greatest value that rounds to a finite one, and the least that does
    // not.
    const auto rounded = [&](const char* type, float value) {
      const float alpha2 = std::ldexp(value, -20);
      return run(context, kernel + type, 1, alpha2, {{thousand, thousand}}).halves[0];
    };
    CHECK(rounded("_f16", 65519) == 0x7BFF);
    CHECK(rounded("_f16", 65520) == 0x7C00);
    CHECK(rounded("_bf16", 65520) == 0x4780);
    const float limit = std::ldexp(511.0f, 119); // 2^128 - 2^119
    CHECK(rounded("_bf16", std::nextafter(limit, 0.0f)) == 0x7F7F);
    CHECK(rounded("_bf16", limit) == 0x7F80);
  }
}

} // namespace

TEST_CASE("NaN, infinity and overflow in FP16 and BF16", "[virtual][domain]") {
  check_all_halves(virtual_context("b200"),
                   {"dual_gemm_sm100_n64", "dual_gemm_sm100_pair_n64_stream"});
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200-domain]"});
  INFO(child.out << child.err);
  CHECK(child.status == 0);
  CHECK(child.out.find("1 passed") != std::string::npos);
}

TEST_CASE("The same on Hopper, in a process of its own", "[.h200-domain]") {
  wl_context* context = virtual_context("h200");
  check_all_halves(context,
                   {"dual_gemm_sm90_t64", "dual_gemm_sm90_small_t1", "dual_gemm_sm90_small_t8"});
  // Sums of most kernels carry 2^-14, which alpha takes in.
  for (const std::string config : {"dual_gemm_sm90_t64_bf16", "dual_gemm_sm90_small_t8_bf16"})
    for (const int exponent : {113, 114}) {
      const float alpha = std::ldexp(1.0f, exponent);
      INFO(config << ", alpha 2^" << exponent);
      CHECK((run(context, config, 1, alpha, {{thousand, least}}).halves[0] == 0x7F80) ==
            (exponent == 114));
    }
}

TEST_CASE("NaN, infinity and overflow in NVFP4", "[virtual][domain]") {
  wl_context* context = virtual_context("b200");
  const std::string config = "dual_gemm_sm100_n64_nvfp4";
  constexpr uint8_t six = 0x7, minus_six = 0xF, most = 0x7E;

  // silu(32) is 32. Block 0: a NaN among 32s. Block 1: NaNs only. The others: 32s only.
  std::vector<Column> columns(n, {thirty_two, one});
  columns[3].up = nan_scale;
  for (size_t i = 16; i < 32; ++i) columns[i].gate = nan_scale;
  Outputs out = run(context, config, 1, 1, columns);
  CHECK(out.codes[3] == six);
  CHECK(out.scales[0] == out.scales[2]);
  CHECK(out.codes[0] == out.codes[32]);
  CHECK(out.scales[1] == 0);
  for (size_t i = 16; i < 32; ++i) CHECK(out.codes[i] == six);

  // Infinities of both signs beside 32.
  columns.assign(n, {thirty_two, zero});
  columns[0].up = one, columns[1].up = minus_one;
  out = run(context, config, 3e38f, 1, columns);
  CHECK(out.codes[0] == six);
  CHECK(out.codes[1] == minus_six);
  CHECK(out.scales[0] == most);
  CHECK(out.codes[2] == six); // a zero times an infinity

  // Finite, but beyond 448 * 6 * d_scale; and below what has a scale.
  columns.assign(n, {thirty_two, minus_one});
  for (size_t i = 16; i < 32; ++i) columns[i] = {least, i % 2 ? minus_least : least};
  out = run(context, config, 1, 1000, columns);
  CHECK(out.scales[0] == most);
  for (size_t i = 0; i < 16; ++i) CHECK(out.codes[i] == minus_six);
  out = run(context, config, 1, 1, columns);
  CHECK(out.scales[1] == 0);
  for (size_t i = 16; i < 32; ++i) CHECK(out.codes[i] == (i % 2 ? 0x8 : 0));

  // A *d_scale that is not normal makes NaN scales of zeros; the least normal one does not.
  columns.assign(n, {one, zero});
  CHECK(run(context, config, 1, 1, columns, 1e-40f).scales[0] == 0x7F);
  CHECK(run(context, config, 1, 1, columns, std::numeric_limits<float>::min()).scales[0] == 0);

  // Biases that are NaN or infinite, and limits, under every gate.
  const float inf = infinity, nan = std::nanf("");
  Gated gated{{}, std::vector<float>(n), std::vector<float>(n)};
  const float numbers[] = {nan, inf, -inf, 7, -7, 7.5f, -7.5f, 1e30f, -0.0f, 1, -3};
  for (size_t i = 0; i < n; ++i)
    gated.bias1[i] = numbers[i % 11], gated.bias2[i] = numbers[i / 2 % 11];
  columns.assign(n, {zero, zero});
  const Sums sums{1, n, 1, std::vector<double>(n), std::vector<double>(n)};
  for (const Gate gate : {Gate{}, Gate{WL_GATE_SILU, 7}, Gate{WL_GATE_GELU_TANH, 0},
                          Gate{WL_GATE_GELU_TANH, 7}, Gate{WL_GATE_CLAMPED, 7}}) {
    INFO("gate " << gate.kind << ", limit " << gate.limit);
    gated.gate = gate;
    out = run(context, config, 1, 1, columns, 1, one, gated);
    const Operand expected =
        quantized(gated_replayed(sums, {gate, 1, 1, gated.bias1, gated.bias2}), sums, 1);
    for (size_t i = 0; i < n; ++i)
      CHECK(out.codes[i] == nibble(expected.values.data(), static_cast<int64_t>(i)));
    CHECK(out.scales == expected.scales);
  }
}
