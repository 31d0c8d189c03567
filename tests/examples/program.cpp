// The C++ layer: random operands with scales in the plain layout, packed, biases and the gate of
// GPT-OSS, run on a stream of its own, and outputs compared with a double-precision reference.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <warpline/warpline.hpp>

namespace {

struct Operand {
  int rows, k;
  std::vector<uint8_t> values, scales; // two E2M1 a byte; E4M3 in [rows, k / 16]

  Operand(int rows_, int k_, std::mt19937& random) : rows(rows_), k(k_) {
    values.resize(static_cast<size_t>(rows) * k / 2);
    scales.resize(static_cast<size_t>(rows) * k / 16);
    for (uint8_t& byte : values) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : scales) byte = static_cast<uint8_t>(0x20 + random() % 16); // 1/8 ... 1/2
  }

  double at(int row, int column) const {
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const size_t i = static_cast<size_t>(row) * k + column;
    const int code = values[i / 2] >> (i % 2 * 4) & 15, scale = scales[i / 16];
    return (code & 8 ? -1 : 1) * e2m1[code & 7] * std::ldexp(8 + scale % 8, scale / 8 - 10);
  }

  std::vector<uint8_t> packed_scales() const {
    std::vector<uint8_t> packed(wl_sf_bytes(WL_SF_128x4, rows, k));
    warpline::check(wl_sf_pack(WL_SF_128x4, rows, k, scales.data(), packed.data(), 0));
    return packed;
  }
};

std::vector<float> random_bias(int n, std::mt19937& random) {
  std::vector<float> bias(n);
  for (float& number : bias) number = std::uniform_real_distribution<float>(-9, 9)(random);
  return bias;
}

double dot(const Operand& a, int row, const Operand& b, int column) {
  double sum = 0;
  for (int k = 0; k < a.k; ++k) sum += a.at(row, k) * b.at(column, k);
  return sum;
}

int run() {
  const int m = 100, n = 256, k = 512;
  std::mt19937 random(7);
  const Operand a(m, k, random), b1(n, k, random), b2(n, k, random);

  const warpline::Context context(0);
  const warpline::Stream stream(context);
  const std::vector<float> alphas = {0.02f, 0.05f};
  const std::vector<float> bias1 = random_bias(n, random), bias2 = random_bias(n, random);
  const auto first_bias = warpline::to_device(context, bias1);
  const auto second_bias = warpline::to_device(context, bias2);
  const auto alpha = warpline::to_device(context, alphas);
  const auto a_values = warpline::to_device(context, a.values);
  const auto b1_values = warpline::to_device(context, b1.values);
  const auto b2_values = warpline::to_device(context, b2.values);
  const auto a_scales = warpline::to_device(context, a.packed_scales());
  const auto b1_scales = warpline::to_device(context, b1.packed_scales());
  const auto b2_scales = warpline::to_device(context, b2.packed_scales());
  const warpline::Memory d(context, static_cast<size_t>(m) * n * 2);

  wl_dual_gemm_args args = warpline::dual_gemm_args();
  args.m = m, args.n = n, args.k = k, args.l = 1;
  args.a = a_values.data(), args.b1 = b1_values.data(), args.b2 = b2_values.data();
  args.sfa = a_scales.data(), args.sfb1 = b1_scales.data(), args.sfb2 = b2_scales.data();
  args.alpha1 = static_cast<const float*>(alpha.data()), args.alpha2 = args.alpha1 + 1;
  args.bias1 = first_bias.data(), args.bias2 = second_bias.data(), args.bias_type = WL_F32;
  args.gate = WL_GATE_CLAMPED, args.gate_limit = 7;
  args.d = d.data(), args.d_type = WL_BF16;

  const warpline::Plan plan = warpline::plan_dual_gemm(context, args);
  const wl_plan_info info = plan.info();
  warpline::Memory workspace;
  if (info.workspace_bytes) workspace = warpline::Memory(context, info.workspace_bytes);
  plan.run(workspace.data(), workspace.bytes(), stream.get());
  stream.synchronize();

  int wrong = 0;
  const auto result = warpline::to_host<uint16_t>(d);
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      const double x1 = alphas[0] * dot(a, row, b1, column) + bias1[column];
      const double x2 = alphas[1] * dot(a, row, b2, column) + bias2[column];
      const double x = std::min(x1, 7.0), y = std::max(std::min(x2, 7.0), -7.0);
      const double expected = x / (1 + std::exp(-1.702 * x)) * (y + 1);
      const uint32_t bits = static_cast<uint32_t>(result[row * n + column]) << 16; // BF16 to FP32
      float found;
      static_assert(sizeof found == sizeof bits);
      __builtin_memcpy(&found, &bits, sizeof found);
      wrong += !(std::fabs(found - expected) <= 1e-3 + std::fabs(expected) / 256);
    }
  std::printf("%s on %s: %d of %d outputs wrong\n", info.config, warpline::device_info(0).name,
              wrong, m * n);
  return wrong != 0;
}

} // namespace

int main() {
  try {
    return run();
  } catch (const warpline::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
