#include "tests/problems/moe_operands.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace wltest::problems {

void make_finite(Numbers* numbers, wl_dtype type) {
  const size_t element = type == WL_F32 ? 4 : 2;
  for (size_t i = 0; i < numbers->values.size(); ++i) {
    if (std::fabs(numbers->values[i]) <= 1000) continue; // false of a NaN
    numbers->values[i] = 0;
    std::fill_n(numbers->bytes.begin() + static_cast<std::ptrdiff_t>(i * element), element,
                uint8_t{0});
  }
}

Matrix draw_x(int64_t tokens, int64_t hidden, OutputType type, uint64_t seed) {
  Matrix x{tokens, hidden, 1, type, {}};
  const Random random(seed, 4);
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int64_t i = 0; i < tokens * hidden; ++i) {
    const auto at = static_cast<uint64_t>(i);
    const uint64_t code = random.below(at, 16);
    const uint64_t block = at / 16 + (uint64_t{1} << 40);
    const double scale = (8.0 + static_cast<double>(random.below(block, 8))) / 32;
    const double value = values[code % 8] * scale * (code < 8 ? 1 : -1);
    x.codes.push_back(encode_output(type, i / hidden % 17 == 13 ? 0 : value));
  }
  return x;
}

Matrix draw_quantised_x(int64_t tokens, int64_t hidden, OutputType type, float x_scale, bool loud,
                        uint64_t seed) {
  Matrix x{tokens, hidden, 1, type, std::vector<uint16_t>(static_cast<size_t>(tokens * hidden))};
  const Random random(seed, 4);
  const double edges[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}, beyond[] = {7, 6.5, 12, 9};
  for (size_t block = 0; block < x.codes.size() / 16; ++block) {
    const uint64_t at = 64 * block;
    const size_t token = 16 * block / static_cast<size_t>(hidden);
    const uint64_t kind = random.below(at, 32);
    const bool is_loud = loud && random.below((uint64_t{1} << 40) + token, 2) == 0;
    const double step =
        x_scale * (is_loud ? 448 : static_cast<double>(16 + random.below(at + 1, 15)) / 16);
    const double largest = is_loud     ? beyond[random.below(at + 2, 4)]
                           : kind < 16 ? 6
                                       : 6 + (random.uniform(at + 2) - 0.5) / 4;
    const size_t of_largest = random.below(at + 3, 16), of_nan = (of_largest + 1 + kind) % 16;
    for (size_t i = 0; i < 16; ++i) {
      const uint64_t drawn = random.below(at + 4 + i, 16);
      const double steps = i == of_largest ? largest
                           : drawn < 7     ? edges[drawn]
                                           : (is_loud ? 6 : largest) * random.uniform(at + 20 + i);
      const double sign = random.below(at + 36 + i, 2) == 0 ? 1 : -1;
      x.codes[16 * block + i] = encode_output(type, kind == 31 ? 0 : sign * steps * step);
    }
    // NaNs of any sign and any bits, one or nothing else.
    const auto nan =
        static_cast<uint16_t>(random.bits(at + 52) | (type == OutputType::f16 ? 0x7C01 : 0x7F81));
    if (kind % 4 == 1 && of_nan != of_largest) x.codes[16 * block + of_nan] = nan;
    if (kind == 30) std::fill_n(&x.codes[16 * block], 16, nan);
  }
  return x;
}

namespace {
// Whether an expert's column of h is 0 in all rows: half of them, chosen at random.
bool is_quiet(int64_t expert, int64_t column, uint64_t seed) {
  return Random(seed, 11).below(static_cast<uint64_t>(expert << 32 | column), 2) == 0;
}
} // namespace

void make_quiet(Operand* gate, Numbers* bias, wl_dtype bias_type, uint64_t seed) {
  const int64_t blocks = gate->k / 16;
  const size_t element = bias_type == WL_F32 ? 4 : 2;
  for (int64_t i = 0; i < gate->l * gate->rows; ++i) {
    if (!is_quiet(i / gate->rows, i % gate->rows, seed)) continue;
    std::fill_n(gate->scales.begin() + i * blocks, blocks, uint8_t{0});
    if (bias->values.empty()) continue;
    bias->values[static_cast<size_t>(i)] = 0;
    std::fill_n(bias->bytes.begin() + i * static_cast<std::ptrdiff_t>(element), element,
                uint8_t{0});
  }
}

Operand one_hot(int64_t rows, int64_t k, int64_t l, uint64_t seed, const uint64_t* quiet) {
  Operand w{rows, k, l, {}, {}};
  w.values.resize(static_cast<size_t>(rows * k / 2 * l));
  w.scales.resize(static_cast<size_t>(rows * k / 16 * l));
  const Random random(seed, 6), any(seed, 7), order(seed, 8);
  for (size_t i = 0; i < w.scales.size(); ++i)
    w.scales[i] = static_cast<uint8_t>(0x30 + random.below(i, 16));
  for (int64_t e = 0; e < l; ++e) {
    std::vector<uint64_t> places;
    std::vector<uint8_t> any_of(static_cast<size_t>(k / 2)); // nibbles that may be anything
    for (int64_t i = 0; i < k; ++i)
      if (quiet != nullptr && is_quiet(e, i, *quiet))
        any_of[static_cast<size_t>(i / 2)] |= i % 2 == 0 ? 0x0F : 0xF0;
      else
        places.push_back(static_cast<uint64_t>(i));
    for (size_t i = places.size(); i > 1; --i)
      std::swap(places[i - 1],
                places[order.below(static_cast<uint64_t>(e * k) + i, static_cast<uint64_t>(i))]);
    for (int64_t row = e * rows; row < (e + 1) * rows; ++row) {
      uint8_t* const values = &w.values[static_cast<size_t>(row * (k / 2))];
      for (size_t i = 0; i < any_of.size(); ++i)
        values[i] = static_cast<uint8_t>(any.bits(static_cast<uint64_t>(row) * any_of.size() + i) &
                                         any_of[i]);
      if (places.empty()) continue;
      const auto at = static_cast<uint64_t>(row) + (uint64_t{1} << 40);
      const uint64_t place = places[static_cast<size_t>(row % rows) % places.size()];
      const uint64_t code = 1 + random.below(at << 1, 7) + 8 * random.below((at << 1) + 1, 2);
      values[place / 2] = static_cast<uint8_t>(values[place / 2] | code << (place % 2 * 4));
    }
  }
  return w;
}

} // namespace wltest::problems
