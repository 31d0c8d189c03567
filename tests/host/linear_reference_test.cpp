// What the reference of a linear layer says: its formulas in double against the kernels' steps in
// FP32, and the comparison of outputs in FP32.
#include "tests/reference/linear.hpp"
#include "tests/support/catch.hpp"

#include <cmath>
#include <cstring>
#include <limits>

using namespace wltest;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// 2 entries of 3 rows and 16 columns.
Sums random_sums(uint64_t seed) {
  Sums sums{3, 16, 2, std::vector<double>(96), {}};
  const Random random(seed, 0);
  for (size_t i = 0; i < sums.acc1.size(); ++i)
    sums.acc1[i] = static_cast<float>(20 * random.uniform(i) - 10);
  return sums;
}

std::vector<float> random_values(size_t count, uint64_t seed) {
  const Random random(seed, 1);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(2 * random.uniform(i) - 1);
  return values;
}

} // namespace

TEST_CASE("a linear layer in double and as the kernels compute it", "[host][linear]") {
  const uint64_t seed = 3;
  INFO("seed " << seed);
  const Sums sums = random_sums(seed);
  for (int activation = WL_ACTIVATION_NONE; activation <= WL_ACTIVATION_GELU_ERF; ++activation) {
    LinearOperands operands{static_cast<wl_activation>(activation), 0.5f, {}, {}, {}, {}};
    for (int given = 0; given < 16; ++given) {
      operands.row = given & 1 ? random_values(6, seed + 1) : std::vector<float>{};
      operands.bias = given & 2 ? random_values(16, seed + 2) : std::vector<float>{};
      operands.residual = given & 4 ? random_values(96, seed + 3) : std::vector<float>{};
      operands.col = given & 8 ? random_values(16, seed + 4) : std::vector<float>{};
      const std::vector<double> exact = linear(sums, operands);
      const std::vector<float> replayed = linear_replayed(sums, operands);
      INFO("activation " << activation << ", given " << given);
      CHECK(compare(sums, exact, replayed.data(), 16, 48).passed());
      // By hand, at row 2 of entry 1 and column 5.
      const size_t at = 48 + 2 * 16 + 5;
      double x = 0.5 * sums.acc1[at];
      if (given & 1) x *= operands.row[5];
      if (given & 8) x *= operands.col[5];
      if (given & 2) x += operands.bias[5];
      double y = activated(operands.activation, x);
      if (given & 4) y += operands.residual[at];
      CHECK(exact[at] == y);
    }
  }
}

TEST_CASE("a linear layer of infinities and NaN", "[host][linear]") {
  for (int kind = WL_ACTIVATION_NONE; kind <= WL_ACTIVATION_GELU_ERF; ++kind) {
    const auto activation = static_cast<wl_activation>(kind);
    INFO("activation " << kind);
    for (const float bias : {-inf, inf, NAN}) {
      LinearInputs in;
      in.acc = 3;
      in.bias = bias;
      const double exact = linear(activation, in);
      const float replayed = linear_replayed(activation, in);
      INFO("bias " << bias << ", exact " << exact << ", replayed " << replayed);
      CHECK(std::isnan(exact) == std::isnan(bias));
      CHECK(std::isnan(replayed) == std::isnan(bias));
      // Both are infinite, or zero and next to it.
      if (!std::isnan(bias))
        CHECK((exact == double{replayed} || std::fabs(exact - double{replayed}) < 1e-30));
    }
  }
}

TEST_CASE("outputs in FP32 are compared under the public bound", "[host]") {
  Sums shape{1, 4, 2, {}, {}};
  std::vector<double> reference = {0, 1, -100, 2, 4, 8, 16, 32};
  std::vector<float> out = {0, 1, -100, 2, -7, -7, 4, 8, 16, 32}; // entries 6 apart
  const auto run = [&] { return compare(shape, reference, out.data(), 4, 6); };
  Comparison c = run();
  CHECK(c.count == 8);
  CHECK(c.passed());
  out[2] = -100.1f; // the bound is 0.101
  CHECK(run().passed());
  out[2] = -100.102f;
  c = run();
  CHECK(c.bad == 1);
  CHECK(describe(c.first_bad) == "l 0, m 0, n 2");
  out[2] = -100;
  out[9] = NAN;
  CHECK(describe(run().first_bad) == "l 1, m 0, n 3");
  reference[7] = NAN;
  CHECK(run().passed());
  out[9] = inf;
  CHECK(run().bad == 1);
  reference[7] = 1e39; // more than FP32 holds
  CHECK(run().passed());
  out[9] = -inf;
  CHECK(run().bad == 1);
  out[9] = inf;
  reference[7] = 1e38; // less
  CHECK(run().bad == 1);
}

TEST_CASE("bits of outputs are counted, NaNs as one", "[host]") {
  const std::vector<float> expected = {1, 0, NAN, inf, 2};
  CHECK(count_unequal(bytes_of({1, 0, -NAN, inf, 2}), rounded(expected, WL_F32), WL_F32) == 0);
  CHECK(count_unequal(bytes_of({1, -0.0f, NAN, -inf, 2}), rounded(expected, WL_F32), WL_F32) == 2);
  CHECK(count_unequal(bytes_of({1, 0, inf, NAN, 2}), rounded(expected, WL_F32), WL_F32) == 2);
  // 1, 0, NaN, infinity in FP16 and BF16.
  const std::vector<float> few = {1, 0, NAN, inf};
  const std::vector<uint8_t> f16 = {0x00, 0x3C, 0x00, 0x00, 0x01, 0xFC, 0x00, 0x7C};
  CHECK(count_unequal(f16, rounded(few, WL_F16), WL_F16) == 0);
  const std::vector<uint8_t> bf16 = {0x80, 0x3F, 0x00, 0x80, 0xC0, 0x7F, 0x80, 0x7F};
  CHECK(count_unequal(bf16, rounded(few, WL_BF16), WL_BF16) == 1); // the sign of zero
}
