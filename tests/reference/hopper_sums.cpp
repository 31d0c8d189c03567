// Sums of FP8 products as Hopper's tensor core makes them; an H200 was asked for the rule
// (tests/hardware/oracle_wgmma.cpp).
#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/elements.hpp"
#include "tests/reference/target_clones.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <thread>

namespace wltest {

namespace {

constexpr int64_t step = 32;       // of K, of one MMA
constexpr int64_t promotion = 128; // of K
constexpr int kept_bits = 13;
constexpr int no_exponent = -1000;
constexpr uint32_t magnitude = 0x7FFFFFFF, infinity = 0x7F800000;

// Rows with zeros behind K, to whole steps.
struct Rows {
  int64_t k;
  std::vector<float> values;
  std::vector<int> exponents; // of the largest power of two in a value
};

Rows decoded(const Operand& operand) {
  std::array<float, 256> value{};
  std::array<int, 256> exponent{};
  for (uint32_t code = 0; code < 256; ++code) {
    const double x = decode_element(operand.type, code);
    value[code] = static_cast<float>(x);
    exponent[code] = x == 0 || !std::isfinite(x) ? no_exponent : std::ilogb(x);
  }
  const int64_t count = operand.l * operand.rows;
  Rows rows{(operand.k + step - 1) / step * step, {}, {}};
  rows.values.resize(static_cast<size_t>(count * rows.k), 0.0f);
  rows.exponents.resize(rows.values.size(), no_exponent);
  for (int64_t row = 0; row < count; ++row)
    for (int64_t k = 0; k < operand.k; ++k) {
      const uint8_t code = operand.values[static_cast<size_t>(row * operand.k + k)];
      rows.values[static_cast<size_t>(row * rows.k + k)] = value[code];
      rows.exponents[static_cast<size_t>(row * rows.k + k)] = exponent[code];
    }
  return rows;
}

// 2^exponent, of a normal number.
float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// Of a normal number.
int exponent_of(float value) {
  return static_cast<int>(std::bit_cast<uint32_t>(value) >> 23 & 0xFF) - 127;
}

// The sum after one more step. Products of FP8 are 0, of 2^-32 to 2^32, or not finite, and so are
// sums, which have no bits below 2^-45.
WL_TARGET_CLONES float added(float sum, const float* a, const int* a_exponents, const float* b,
                             const int* b_exponents) {
  int top = no_exponent;
  float products[step];
  for (int64_t i = 0; i < step; ++i) {
    top = std::max(top, a_exponents[i] + b_exponents[i]);
    products[i] = a[i] * b[i];
  }
  uint32_t largest = std::bit_cast<uint32_t>(sum) & magnitude;
  for (int64_t i = 0; i < step; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(products[i]) & magnitude);
  if (sum != 0 && largest < infinity) top = std::max(top, exponent_of(sum));
  if (largest >= infinity || top < no_exponent / 2) {
    for (int64_t i = 0; i < step; ++i) sum += products[i];
    return sum;
  }
  // In units of the last bit that is kept.
  const float unit = power_of_two(top - kept_bits), per_unit = power_of_two(kept_bits - top);
  auto units = static_cast<int32_t>(sum * per_unit);
  for (int64_t i = 0; i < step; ++i) units += static_cast<int32_t>(products[i] * per_unit);
  const float exact = static_cast<float>(units) * unit;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(exact) & ~0u << (23 - kept_bits));
}

std::vector<double> product(const Operand& a, const Operand& b, HopperSums how, int threads,
                            const Progress& progress) {
  const Rows left = decoded(a), right = decoded(b);
  std::vector<double> sums(static_cast<size_t>(a.l * a.rows * b.rows));
  std::mutex mutex;
  int64_t done = 0;
  in_parallel(threads, a.l * a.rows, [&](int64_t m) {
    for (int64_t n = 0; n < b.rows; ++n) {
      const auto at = static_cast<size_t>(m * left.k);
      const auto bt = static_cast<size_t>((m / a.rows * b.rows + n) * right.k);
      float sum = 0, part = 0;
      for (int64_t k = 0; k < left.k; k += step) {
        const auto i = static_cast<size_t>(k);
        part = added(part, &left.values[at + i], &left.exponents[at + i], &right.values[bt + i],
                     &right.exponents[bt + i]);
        if (!how.promoted || (k + step) % promotion != 0) continue;
        sum += part;
        part = 0;
      }
      sums[static_cast<size_t>(m * b.rows + n)] = sum + part;
    }
    if (!progress) return;
    const std::lock_guard lock(mutex);
    progress(static_cast<double>(++done) / static_cast<double>(a.l * a.rows));
  });
  return sums;
}

} // namespace

Sums accumulate_hopper_f8(const Problem& problem, HopperSums how, int threads,
                          const Progress& progress) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Sums sums{problem.m, problem.n, problem.l, {}, {}};
  sums.acc1 = product(problem.a, problem.b1, how, threads, progress);
  if (!problem.b2.values.empty())
    sums.acc2 = product(problem.a, problem.b2, how, threads, progress);
  return sums;
}

} // namespace wltest
