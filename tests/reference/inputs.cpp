#include "tests/reference/inputs.hpp"

#include "tests/reference/elements.hpp"
#include "tests/reference/numerics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace wltest {
namespace {

constexpr uint8_t e4m3_half = 0x30, e4m3_one = 0x38, e4m3_two = 0x40, e4m3_largest = 0x7E;
constexpr uint8_t e4m3_smallest = 0x01; // 2^-9
constexpr uint8_t e2m1_one = 0x2;

uint8_t random_byte_of_values(const Random& random, uint64_t index, InputKind kind) {
  const uint64_t bits = random.bits(index);
  switch (kind) {
  case InputKind::full_range:
    return static_cast<uint8_t>(bits >> 56);
  case InputKind::extremes: {
    constexpr std::array<uint8_t, 8> codes = {0x7, 0xF, 0x7, 0xF, 0x1, 0x9, 0x0, 0x8};
    return static_cast<uint8_t>(codes[bits >> 61] | codes[bits >> 58 & 7] << 4);
  }
  default:
    // The public problem draws 0..254 and keeps sign and two low bits of each nibble.
    return static_cast<uint8_t>(random.below(index, 255) & 0xBB);
  }
}

uint8_t random_scale(const Random& random, uint64_t index, InputKind kind) {
  switch (kind) {
  case InputKind::full_range:
    return static_cast<uint8_t>(random.below(index, 127));
  case InputKind::exact: {
    constexpr std::array<uint8_t, 3> codes = {e4m3_half, e4m3_one, e4m3_two};
    return codes[random.below(index, 3)];
  }
  case InputKind::extremes: {
    constexpr std::array<uint8_t, 4> codes = {0x00, e4m3_smallest, e4m3_one, e4m3_largest};
    return codes[random.below(index, 4)];
  }
  default:
    return encode_e4m3(random.uniform(index));
  }
}

Operand make_operand(int64_t rows, int64_t k, int64_t l, InputKind kind, uint64_t seed,
                     uint64_t tensor) {
  Operand operand{rows, k, l, {}, {}};
  operand.values.resize(static_cast<size_t>(l * rows * (k / 2)));
  operand.scales.resize(static_cast<size_t>(l * rows * (k / 16)));
  const Random values(seed, 2 * tensor), scales(seed, 2 * tensor + 1);
  for (size_t i = 0; i < operand.values.size(); ++i)
    operand.values[i] = random_byte_of_values(values, i, kind);
  for (size_t i = 0; i < operand.scales.size(); ++i)
    operand.scales[i] = random_scale(scales, i, kind);
  return operand;
}

// A power of two near target / deviation, where deviation is that of one product's sum over k.
float alpha_for(double deviation_of_one_term, int64_t k, double target) {
  const double deviation = deviation_of_one_term * std::sqrt(static_cast<double>(k));
  return static_cast<float>(std::exp2(std::floor(std::log2(target / deviation))));
}

// Elements that share a UE8M0 scale; 0: there are none.
int64_t block_of(wl_operand type) { return type >= WL_OPERAND_MXFP8_E4M3 ? 32 : 0; }

// The scale under which the largest number of a block lies in the highest binade of the elements.
uint8_t mx_scale(wl_operand type, const double* block) {
  double largest = 0;
  for (int64_t i = 0; i < block_of(type); ++i) largest = std::max(largest, std::fabs(block[i]));
  if (largest == 0) return 127;
  const int binade = std::ilogb(decode_element(type, encode_element(type, 0x1p100)));
  return static_cast<uint8_t>(127 + std::ilogb(largest) - binade);
}

} // namespace

std::vector<uint8_t> stored(const Operand& operand, wl_layout layout) {
  if (layout == WL_K_MAJOR) return operand.values;
  std::vector<uint8_t> out(operand.values.size());
  const auto rows = static_cast<size_t>(operand.rows), k = static_cast<size_t>(operand.k);
  for (size_t entry = 0; entry < static_cast<size_t>(operand.l); ++entry)
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 0; i < k; ++i)
        std::copy_n(&operand.values[2 * ((entry * rows + row) * k + i)], 2,
                    &out[2 * ((entry * k + i) * rows + row)]);
  return out;
}

size_t Operand::row_bytes() const {
  return static_cast<size_t>(k) * static_cast<size_t>(element_bits(type)) / 8;
}

Random::Random(uint64_t seed, uint64_t stream) : key(mix(mix(seed + gamma) + stream * gamma)) {}

double Random::uniform(uint64_t index) const {
  return static_cast<double>(bits(index) >> 40) * 0x1p-24;
}

const char* name_of(InputKind kind) {
  switch (kind) {
  case InputKind::public_problem:
    return "public_problem";
  case InputKind::full_range:
    return "full_range";
  case InputKind::exact:
    return "exact";
  case InputKind::one_hot:
    return "one_hot";
  case InputKind::extremes:
    return "extremes";
  }
  return "?";
}

int64_t one_hot_position(const Problem& problem, int64_t entry, int64_t row) {
  // 89 is odd and prime: consecutive rows walk over all k, all bytes and all scale blocks.
  return (entry * 31 + row * 89) % problem.k;
}

Problem make_problem(int64_t m, int64_t n, int64_t k, int64_t l, InputKind kind, uint64_t seed,
                     int products) {
  if (k <= 0 || k % 16 != 0)
    throw std::invalid_argument("a drawn NVFP4 operand has whole blocks: K = " + std::to_string(k) +
                                " must be a positive multiple of 16");
  Problem problem{m, n, k, l, {}, {}, {}, 1, 1};
  problem.a = make_operand(m, k, l, kind, seed, 0);
  problem.b1 = make_operand(n, k, l, kind, seed, 1);
  if (products == 2) problem.b2 = make_operand(n, k, l, kind, seed, 2);
  switch (kind) {
  case InputKind::public_problem:
    break;
  // Deviations of one term a * sa * b * sb, from the mean squares of the codes drawn:
  // 8.56 for all E2M1 codes, 0.875 for +-{0, 0.5, 1, 1.5}, about 9.3e3 for all UE4M3 codes.
  case InputKind::full_range:
    problem.alpha1 = problem.alpha2 = alpha_for(8e4, k, 3);
    break;
  case InputKind::exact:
    problem.alpha1 = problem.alpha2 = alpha_for(1.53, k, 3);
    break;
  case InputKind::extremes:
    problem.alpha1 = problem.alpha2 = alpha_for(9e5, k, 3);
    break;
  case InputKind::one_hot:
    problem.a.values.assign(problem.a.values.size(), 0);
    problem.a.scales.assign(problem.a.scales.size(), e4m3_one);
    for (int64_t entry = 0; entry < l; ++entry)
      for (int64_t row = 0; row < m; ++row) {
        const int64_t position = one_hot_position(problem, entry, row);
        problem.a.values[static_cast<size_t>((entry * m + row) * (k / 2) + position / 2)] =
            static_cast<uint8_t>(e2m1_one << (position % 2 * 4));
      }
    break;
  }
  return problem;
}

Operand in_type(const Operand& nvfp4, wl_operand type, int64_t k, const Random* spread) {
  if (type == WL_OPERAND_NVFP4) return nvfp4;
  if (k > nvfp4.k)
    throw std::invalid_argument("in_type: k = " + std::to_string(k) +
                                " must be at most the operand's K, " + std::to_string(nvfp4.k));
  Operand to{nvfp4.rows, k == 0 ? nvfp4.k : k, nvfp4.l, {}, {}, type};
  const int64_t rows = to.l * to.rows, block = block_of(type);
  to.values.resize(static_cast<size_t>(rows) * to.row_bytes());
  if (block != 0) to.scales.resize(static_cast<size_t>(rows * (to.k / block)));
  std::vector<double> numbers(static_cast<size_t>(to.k));
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* values = &nvfp4.values[static_cast<size_t>(row * nvfp4.k / 2)];
    const uint8_t* scales = &nvfp4.scales[static_cast<size_t>(row * nvfp4.k / 16)];
    for (int64_t i = 0; i < to.k; ++i) {
      const double less =
          spread == nullptr ? 0 : spread->uniform(static_cast<uint64_t>(row * to.k + i)) / 16;
      numbers[static_cast<size_t>(i)] =
          decode_e2m1(nibble(values, i)) * decode_ue4m3(scales[i / 16]) * (1 - less);
    }
    uint8_t* out = &to.values[static_cast<size_t>(row) * to.row_bytes()];
    double unit = type == WL_OPERAND_INT8 ? double{int8_unit} : 1;
    for (int64_t i = 0; i < to.k; ++i) {
      if (block != 0 && i % block == 0) {
        const uint8_t scale = mx_scale(type, &numbers[static_cast<size_t>(i)]);
        to.scales[static_cast<size_t>(row * (to.k / block) + i / block)] = scale;
        unit = decode_ue8m0(scale);
      }
      set_element(type, out, i, encode_element(type, numbers[static_cast<size_t>(i)] / unit));
    }
  }
  return to;
}

} // namespace wltest
