// NVFP4 weights with activations in 16 bits on the virtual B200: what the launch ahead makes of
// every code and scale, edges of N and K, batches, a plan whose weights change. All that arguments
// allow is drawn by tests/problems.
#include "kernels/linear/linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/plan_problem.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace wltest;
using warpline::gemm::Config;

namespace {

std::vector<const Config*> decoding_configs() {
  std::vector<const Config*> all;
  for (const Config& config : warpline::linear::configs())
    if (config.decodes_b) all.push_back(&config);
  REQUIRE(all.size() >= 13);
  return all;
}

wl_plan_info info_of(const wl_plan* plan) {
  wl_plan_info info{};
  info.struct_size = sizeof info;
  REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  return info;
}

} // namespace

// Row n of B has the scale code n, D = I.B^T the weights themselves.
TEST_CASE("every NVFP4 weight becomes its value in FP16 and BF16", "[virtual][linear]") {
  wl_context* context = virtual_context("b200");
  constexpr int64_t n = 256, k = 64;
  Operand b{n, k, 1, {}, {}, WL_OPERAND_NVFP4};
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; i += 2) // all sixteen codes in each block
      b.values.push_back(static_cast<uint8_t>(i % 16 | (i + 1) % 16 << 4));
    b.scales.insert(b.scales.end(), k / 16, static_cast<uint8_t>(row));
  }
  const DeviceBuffer codes(context, b.values), d(context, 4 * k * n);
  const ScaleBuffer scales(context, b, true);
  for (const wl_operand type : {WL_OPERAND_F16, WL_OPERAND_BF16}) {
    std::vector<uint16_t> identity(k * k);
    for (size_t i = 0; i < k; ++i) identity[i * (k + 1)] = type == WL_OPERAND_F16 ? 0x3C00 : 0x3F80;
    const DeviceBuffer a(context, identity);
    wl_gemm_args args{};
    args.struct_size = sizeof args;
    args.m = args.k = k, args.n = n, args.l = 1;
    args.a = a.pointer, args.a_type = type;
    args.b = codes.pointer, args.sfb = scales.pointer;
    args.d = d.pointer, args.d_type = WL_F32;
    wl_plan* plan = nullptr;
    REQUIRE(wl_gemm_plan(context, &args, &plan) == WL_SUCCESS);
    const wl_plan_info info = info_of(plan);
    CHECK(info.launches == 2);
    const DeviceBuffer workspace(context, info.workspace_bytes);
    const wl_status status = wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr);
    wl_plan_destroy(plan);
    REQUIRE(status == WL_SUCCESS);
    REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    const std::vector<uint8_t> bytes = d.read(4 * k * n);
    int64_t wrong = 0;
    for (int64_t m = 0; m < k; ++m)
      for (int64_t column = 0; column < n; ++column) {
        float found;
        std::memcpy(&found, &bytes[static_cast<size_t>(4 * (m * n + column))], 4);
        const double scale = decode_ue4m3(static_cast<uint8_t>(column));
        const double value = decode_e2m1(static_cast<uint8_t>(m % 16)) * scale;
        wrong += std::isnan(scale) ? !std::isnan(found) : found != value;
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("decoded weights at the edges of N and K, in every configuration", "[virtual][linear]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_checks("all,advice"));
  constexpr std::array<int64_t, 4> n = {8, 136, 2880, 120}, k = {64, 2880, 192, 320};
  const std::array<std::string, 4> schedules = {"lazy", "random:3", "hold:2", "stagger:4"};
  size_t turn = 0;
  for (const Config* config : decoding_configs()) {
    for (const int64_t m : {5, 130}) {
      LinearCase c{m,
                   n[turn % 4],
                   k[(turn + turn / 4) % 4],
                   turn % 3 == 0 ? 3 : 1,
                   config->d_type,
                   config->name,
                   40 + turn,
                   true,
                   turn % 2 == 0};
      if (c.n == 2880) c.m = 5, c.l = 1, c.k = 192;
      REQUIRE(set_schedule(schedules[(turn + turn / 4) % 4]));
      INFO(c.config << ", " << c.m << " x " << c.n << " x " << c.k << ", L " << c.l);
      const LinearRun run(context, c);
      REQUIRE(run.message() == "");
      // The decoder of the second run follows the product of the first one.
      for (int i = 0; i < 2; ++i) REQUIRE(run.run(nullptr) == WL_SUCCESS);
      const wl_status status = wl_stream_synchronize(context, nullptr);
      INFO(virtual_report());
      REQUIRE(status == WL_SUCCESS);
      CHECK(run.check() == "");
      ++turn;
    }
  }
  REQUIRE(set_schedule("eager"));
  REQUIRE(set_checks("off"));
}

// Weights are decoded anew in each run, of the plan's operands and of a run's own.
TEST_CASE("a plan whose NVFP4 weights change between its runs", "[virtual][dual_gemm]") {
  wl_context* context = virtual_context("b200");
  PlanProblem p(context);
  p.args.a = p.bytes(2 * p.m * p.k, 5), p.args.a_type = WL_OPERAND_BF16, p.args.sfa = nullptr;
  p.args.d_type = WL_BF16;
  const size_t weight_bytes = p.n * p.k / 2;
  const void* const other = p.bytes(static_cast<int64_t>(weight_bytes), 6);
  wl_plan* plan = nullptr;
  REQUIRE(wl_dual_gemm_plan(context, &p.args, &plan) == WL_SUCCESS);
  const wl_plan_info info = info_of(plan);
  CHECK(info.launches == 2);
  CHECK(info.workspace_bytes >= 2 * 4 * weight_bytes);
  const DeviceBuffer workspace(context, info.workspace_bytes);
  const auto result = [&](wl_status status) {
    REQUIRE(status == WL_SUCCESS);
    REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    return p.result();
  };
  const auto run = [&] {
    return result(wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr));
  };
  const auto run_with = [&](const wl_dual_gemm_args& args) {
    return result(wl_dual_gemm_run(plan, &args, workspace.pointer, info.workspace_bytes, nullptr));
  };
  const std::vector<uint8_t> first = run();
  CHECK(run() == first);
  wl_dual_gemm_args own = p.args;
  own.b2 = other;
  const std::vector<uint8_t> second = run_with(own);
  CHECK(second != first);
  CHECK(run() == first);
  std::vector<uint8_t> codes(weight_bytes);
  REQUIRE(wl_download(context, codes.data(), other, weight_bytes) == WL_SUCCESS);
  REQUIRE(wl_upload(context, const_cast<void*>(p.args.b2), codes.data(), weight_bytes) ==
          WL_SUCCESS);
  CHECK(run() == second);
  CHECK(run_with(p.args) == second);
  wl_plan_destroy(plan);
}
