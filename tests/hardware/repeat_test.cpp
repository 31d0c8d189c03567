// Every configuration of wl_gemm and wl_dual_gemm that a real GPU runs, the same operands again and
// again: D's bits may not change. The virtual GPU's checkers know what the PTX ISA says of order; a
// load that the hardware has issued and not yet done when a barrier says that it is done, only a
// GPU shows, in one run of many and with enough K for the ring of stages to turn often.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/linear/linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/gpu.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace wltest;
using warpline::gemm::Config;

namespace {

constexpr int64_t n = 4096, k = 7168;
constexpr int runs = 60;

// Bytes of finite numbers of a type, K contiguous.
std::vector<uint8_t> operand(wl_operand type, int64_t rows, uint64_t seed) {
  const auto bits = static_cast<size_t>(warpline::gemm::format_of(type).bits);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * k) * bits / 8);
  const Random random(seed, 1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(random.below(i, 256));
    // No exponent of all ones: without the highest bit of wide ones, one of the lower bits of FP8.
    if (bits == 8) bytes[i] &= 0xF3;
    if (bits > 8 && (i + 1) % (bits / 8) == 0) bytes[i] &= 0xBF;
  }
  return bytes;
}

// Scales about 1 of an operand that has them.
std::vector<uint8_t> scales(wl_operand type, int64_t rows, uint64_t seed) {
  if (type != WL_OPERAND_NVFP4) return {};
  std::vector<uint8_t> bytes(wl_sf_bytes(WL_SF_128x4, rows, k));
  const Random random(seed, 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(0x28 + random.below(i, 24));
  return bytes;
}

struct Operands {
  DeviceBuffer values, factors;
  bool scaled;
  Operands(wl_context* context, wl_operand type, int64_t rows, uint64_t seed)
      : values(context, operand(type, rows, seed)), factors(context, scales(type, rows, seed)),
        scaled(type == WL_OPERAND_NVFP4) {}
  const void* sf() const { return scaled ? factors.pointer : nullptr; }
};

template <class Args>
Args common(const Config& config, int64_t m, const Operands& a, const DeviceBuffer& d) {
  Args args{};
  args.struct_size = sizeof args;
  args.m = m, args.n = n, args.k = k, args.l = 1;
  args.a = a.values.pointer, args.sfa = a.sf();
  const warpline::gemm::Types types = config.first_types();
  args.a_type = types.a, args.b_type = types.b;
  if constexpr (requires { args.b_layout; })
    args.a_layout = types.a_layout, args.b_layout = types.b_layout;
  args.d = d.pointer, args.d_type = config.d_type;
  args.config = config.name;
  return args;
}

// How many runs differ from the first, -1 without a plan.
int differing(wl_context* context, wl_plan* plan, const DeviceBuffer& d, size_t bytes) {
  wl_plan_info info{};
  info.struct_size = sizeof info;
  if (wl_plan_get_info(plan, &info) != WL_SUCCESS) return -1;
  const DeviceBuffer workspace(context, std::vector<uint8_t>(info.workspace_bytes, 0xA5));
  std::vector<uint8_t> first;
  int differ = 0;
  for (int run = 0; run < runs; ++run) {
    if (wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr) != WL_SUCCESS ||
        wl_stream_synchronize(context, nullptr) != WL_SUCCESS)
      return -1;
    const std::vector<uint8_t> found = d.read(bytes);
    if (run == 0) first = found;
    differ += found != first;
  }
  return differ;
}

bool runs_here(const Config& config, const warpline::DeviceLimits& limits) {
  return config.d_type != WL_NVFP4 &&
         warpline::gemm::can_run(config, config.first_types(), config.d_type, limits, nullptr);
}

template <class Table, class Plan>
void repeat(const Table& table, const Plan& make) {
  HardwareContext device([&](const warpline::DeviceLimits& limits) {
    return std::any_of(table.begin(), table.end(),
                       [&](const Config& config) { return runs_here(config, limits); });
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  size_t ran = 0;
  for (const Config& config : table) {
    if (!runs_here(config, device.context->limits)) continue;
    const int64_t m = std::max(config.tile_m, 1);
    const auto types = config.first_types();
    const Operands a(device.context, types.a, m, 1), b1(device.context, types.b, n, 2),
        b2(device.context, types.b, n, 3);
    const size_t bytes = static_cast<size_t>(m * n) * (config.d_type == WL_F32 ? 4 : 2);
    const DeviceBuffer d(device.context, std::vector<uint8_t>(bytes, 0x7F));
    wl_plan* plan = nullptr;
    INFO(config.name << ", m " << m << ", n " << n << ", k " << k);
    const wl_status status = make(device.context, config, m, a, b1, b2, d, &plan);
    INFO(wl_last_error());
    REQUIRE(status == WL_SUCCESS);
    CHECK(differing(device.context, plan, d, bytes) == 0);
    wl_plan_destroy(plan);
    ++ran;
  }
  CHECK(ran > 10);
}

} // namespace

TEST_CASE("wl_gemm: the same bits again and again", "[hardware][repeat]") {
  repeat(warpline::linear::configs(),
         [](wl_context* context, const Config& config, int64_t m, const Operands& a,
            const Operands& b, const Operands&, const DeviceBuffer& d, wl_plan** plan) {
           auto args = common<wl_gemm_args>(config, m, a, d);
           args.b = b.values.pointer, args.sfb = b.sf();
           return wl_gemm_plan(context, &args, plan);
         });
}

TEST_CASE("wl_dual_gemm: the same bits again and again", "[hardware][repeat]") {
  repeat(warpline::dual_gemm::configs(),
         [](wl_context* context, const Config& config, int64_t m, const Operands& a,
            const Operands& b1, const Operands& b2, const DeviceBuffer& d, wl_plan** plan) {
           auto args = common<wl_dual_gemm_args>(config, m, a, d);
           args.b1 = b1.values.pointer, args.sfb1 = b1.sf();
           args.b2 = b2.values.pointer, args.sfb2 = b2.sf();
           return wl_dual_gemm_plan(context, &args, plan);
         });
}
