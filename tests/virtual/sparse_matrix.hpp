// Operands as codes of a number format, and matrices with structured zeros in dense and in
// compressed form, for the tests of matrix instructions.
#pragma once

#include "tests/virtual/tcgen05_text.hpp"

#include <array>
#include <functional>
#include <random>

namespace wltest::tcgen05 {

// Elements of an operand: width in bits and what a code means.
struct Format {
  uint32_t bits;
  std::function<double(uint32_t)> value;
  std::function<uint32_t(std::mt19937&)> draw;
};

inline float as_tf32(uint32_t word) { return as_float(word & 0xFFFFE000); }
inline Format format_f16() {
  return {16, [](uint32_t v) { return double(half(v)); },
          [](std::mt19937& rng) { return uint32_t(rng()) & 0xBFFF; }};
}
inline Format format_tf32() {
  return {32, [](uint32_t v) { return double(as_tf32(v)); },
          [](std::mt19937& rng) {
            float x = float(int(rng() % 4001) - 2000) / 16;
            uint32_t word;
            std::memcpy(&word, &x, 4);
            return word;
          }};
}
inline Format format_e4m3() {
  return {8, [](uint32_t v) { return double(e4m3(v)); },
          [](std::mt19937& rng) { return uint32_t(rng()) & 0xBF; }};
}
inline Format format_s8() {
  return {8, [](uint32_t v) { return double(int8_t(v)); },
          [](std::mt19937& rng) { return uint32_t(rng()) & 0xFF; }};
}
inline Format format_bf16() {
  return {16, [](uint32_t v) { return double(as_float(v << 16)); },
          [](std::mt19937& rng) { return (uint32_t(rng()) & 0x81FF) | 0x3E00; }};
}
inline Format format_s4() {
  return {4, [](uint32_t v) { return double(int8_t(v << 4) >> 4); },
          [](std::mt19937& rng) { return uint32_t(rng()) & 15; }};
}
inline Format format_u4() {
  return {4, [](uint32_t v) { return double(v); },
          [](std::mt19937& rng) { return uint32_t(rng()) & 15; }};
}
inline Format format_e2m1() {
  return {4, [](uint32_t v) { return double(e2m1(v)); },
          [](std::mt19937& rng) { return uint32_t(rng()) & 15; }};
}

// rows x k codes, packed in rows of k * bits / 8 bytes.
struct Codes {
  uint32_t rows, k, bits;
  std::vector<uint32_t> code;
  Codes(uint32_t rows_, uint32_t k_, const Format& f, uint32_t seed)
      : rows(rows_), k(k_), bits(f.bits), code(size_t(rows) * k) {
    std::mt19937 rng(seed);
    for (uint32_t& c : code) c = f.draw(rng);
  }
  uint32_t& at(uint32_t row, uint32_t i) { return code[size_t(row) * k + i]; }
  uint32_t at(uint32_t row, uint32_t i) const { return code[size_t(row) * k + i]; }
  uint32_t row_bytes() const { return k * bits / 8; }
  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> v(size_t(rows) * row_bytes());
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t i = 0; i < k; ++i)
        for (uint32_t b = 0; b < bits; ++b) {
          uint32_t bit = i * bits + b;
          v[r * row_bytes() + bit / 8] |= uint8_t((at(r, i) >> b & 1) << bit % 8);
        }
    return v;
  }
};

// Positions that a code of four bits names, for chunks of two (tf32) and of four values or pairs.
struct Choice {
  uint32_t code;
  std::array<uint32_t, 2> kept;
};
inline const std::array<Choice, 2> kOfTwo{{{0x4, {0, 0}}, {0xE, {1, 1}}}};
inline const std::array<Choice, 7> kOfFour{{{0x4, {0, 1}},
                                            {0x8, {0, 2}},
                                            {0xC, {0, 3}},
                                            {0x9, {1, 2}},
                                            {0xD, {1, 3}},
                                            {0xE, {2, 3}},
                                            {0x6, {2, 1}}}};
constexpr uint32_t kAscending = 6; // of kOfFour

// A dense matrix of doubles with its compressed codes and its metadata.
struct SparseA {
  uint32_t m, k; // k of the dense matrix
  std::vector<double> dense;
  Codes stored;
  std::vector<uint32_t> choice; // [m][chunks]: the metadata's 4-bit codes
  uint32_t chunks;

  // `choices`: how many of kOfFour occur.
  SparseA(uint32_t m_, uint32_t k_, const Format& f, uint32_t seed,
          uint32_t choices = kOfFour.size())
      : m(m_), k(k_), dense(size_t(m) * k), stored(m, k / 2, f, seed) {
    std::mt19937 rng(seed + 1);
    const uint32_t group = f.bits == 4 ? 2 : 1; // values that stay together
    const uint32_t width = f.bits == 32 ? 2 : 4 * group;
    chunks = k / width;
    for (uint32_t r = 0; r < m; ++r)
      for (uint32_t j = 0; j < chunks; ++j) {
        const Choice c = f.bits == 32 ? kOfTwo[rng() % 2] : kOfFour[rng() % choices];
        choice.push_back(c.code);
        for (uint32_t s = 0; s < width / 2; ++s)
          dense[r * k + j * width + c.kept[s / group] * group + s % group] =
              f.value(stored.at(r, j * width / 2 + s));
      }
  }
  uint32_t code(uint32_t row, uint32_t chunk) const { return choice[row * chunks + chunk]; }
};

inline double dot(const SparseA& a, uint32_t m, const Codes& b, const Format& f, uint32_t c,
                  uint32_t first = 0, uint32_t count = ~0u) {
  double sum = 0;
  for (uint32_t i = first; i < std::min(a.k, count == ~0u ? a.k : first + count); ++i)
    if (a.dense[m * a.k + i] != 0) sum += a.dense[m * a.k + i] * f.value(b.at(c, i));
  return sum;
}

inline uint32_t float_bits(double x) {
  float f = float(x);
  uint32_t word;
  std::memcpy(&word, &f, 4);
  return word;
}

} // namespace wltest::tcgen05
