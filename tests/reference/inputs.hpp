// Seeded inputs for one product or two. Every byte is a pure function of (seed, kind, tensor,
// position), so a failing case is repeated from its seed alone, on any machine and with any thread
// count.
#pragma once

#include "warpline/warpline.h"

#include <cstdint>
#include <vector>

namespace wltest {

// Counter-based generator: the finaliser of SplitMix64 applied to key + (index + 1) * gamma, where
// gamma = 2^64 / golden ratio, made odd. Draws may be taken in any order; streams of different keys
// do not interfere.
struct Random {
  static constexpr uint64_t gamma = 0x9E3779B97F4A7C15;
  uint64_t key;
  Random(uint64_t seed, uint64_t stream);
  static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  uint64_t bits(uint64_t index) const { return mix(key + (index + 1) * gamma); }
  double uniform(uint64_t index) const; // [0, 1), 24 bits as an FP32 generator has
  // The multiply-high method; its bias of bound / 2^32 is far below what a test could see.
  uint64_t below(uint64_t index, uint64_t bound) const { return (bits(index) >> 32) * bound >> 32; }
};

// One operand in plain layout, a batch of l matrices one after the other.
struct Operand {
  int64_t rows = 0, k = 0, l = 0;
  std::vector<uint8_t> values; // [l, rows, k] elements; NVFP4: k/2 bytes a row of E2M1, the lower
                               // nibble is the even k
  std::vector<uint8_t> scales; // NVFP4: [l, rows, k/16], UE4M3; MX types: [l, rows, k/32], UE8M0
  wl_operand type = WL_OPERAND_NVFP4;
  size_t row_bytes() const; // of values
};
// Values of 16-bit elements in the order of a layout: MN-major [l, k, rows].
std::vector<uint8_t> stored(const Operand& operand, wl_layout layout);

struct Problem {
  int64_t m = 0, n = 0, k = 0, l = 0;
  Operand a, b1, b2;
  float alpha1 = 1, alpha2 = 1;
};

enum class InputKind {
  public_problem, // values +-{0, 0.5, 1, 1.5}; scales uniform [0, 1) rounded to E4M3; alphas 1
  full_range,     // every E2M1 code and every UE4M3 code but NaN
  exact,          // values +-{0, 0.5, 1, 1.5}; scales {0.5, 1, 2}: FP32 sums are exact
  one_hot,        // row r of A is 1 at one k and 0 elsewhere, so D's row r shows one column of B
  extremes,       // values +-6, +-0.5, +-0 and scales 0, 2^-9, 1, 448
};
const char* name_of(InputKind kind);

// Kinds whose sums grow get alphas that are powers of two and bring the products to the order of 1,
// so that D stays inside FP16. A k that is no positive multiple of 16 throws. Of one product b2 is
// empty.
Problem make_problem(int64_t m, int64_t n, int64_t k, int64_t l, InputKind kind, uint64_t seed,
                     int products = 2);

// The first k numbers of each row of an NVFP4 operand in another type, all where k is 0; they are
// finite. FP16, BF16 and TF32 hold them, INT8 gets multiples of int8_unit, MX types get the nearest
// elements under the scale that their block's largest number asks for; k is whole blocks then.
// With `spread` magnitudes become smaller by up to a 16th first, so that elements use all bits that
// they have. NVFP4: the operand itself.
Operand in_type(const Operand& nvfp4, wl_operand type, int64_t k = 0,
                const Random* spread = nullptr);
constexpr float int8_unit = 0x1p-6f;

// k of the single 1 in row `row` of batch entry `entry` of a one_hot problem.
int64_t one_hot_position(const Problem& problem, int64_t entry, int64_t row);

// What scale padding may hold at worst: a UE4M3 NaN, of MX types a UE8M0 NaN.
constexpr uint8_t nan_padding = 0x7F, mx_nan_padding = 0xFF;

} // namespace wltest
