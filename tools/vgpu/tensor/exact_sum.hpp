// Sums that are rounded once. A value is kept "rounded to odd": exact, or the neighbour whose last
// bit is set. With two or more bits to spare, rounding such a value to a narrower format gives the
// correctly rounded result of the exact sum.
#pragma once

#include "tools/vgpu/num/formats.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace vgpu::tensor {

// `high` plus a rest of less than one unit in its last place, of which only the sign matters.
inline double round_to_odd(double high, double rest) {
  uint64_t bits = std::bit_cast<uint64_t>(high);
  bool inexact = (rest < 0) | (rest > 0);
  bool up = (rest > 0) == (high > 0);
  uint64_t step = (inexact & !(bits & 1)) ? (up ? uint64_t(1) : ~uint64_t(0)) : 0;
  return std::bit_cast<double>(bits + step);
}

// x + y rounded to odd (Knuth's two-sum gives the rest).
inline double add_to_odd(double x, double y) {
  double sum = x + y;
  double part = sum - x;
  double rest = (x - (sum - part)) + (y - part);
  return round_to_odd(sum, rest);
}

inline float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(num::kF32Nan);
}

// A value rounded to odd at double width to f16, as f32: first to odd at f32 width, then to f16.
inline float odd_to_f16(double odd) {
  float narrow = float(odd);
  if (!std::isfinite(narrow) || double(narrow) == odd)
    return num::f16_to_f32(num::f32_to_f16(narrow));
  // `narrow` is the nearer neighbour; take the one with the odd last bit.
  uint32_t bits = std::bit_cast<uint32_t>(narrow);
  if (!(bits & 1)) bits += (std::fabs(double(narrow)) < std::fabs(odd)) ? 1u : ~0u;
  return num::f16_to_f32(num::f32_to_f16(std::bit_cast<float>(bits)));
}

// An exact sum as a list of non-overlapping doubles, smallest first (Shewchuk's grow-expansion).
class ExactSum {
public:
  void add(double x) {
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      double sum = x + part_[i];
      double back = sum - x;
      double rest = (x - (sum - back)) + (part_[i] - back);
      if (rest != 0) part_[kept++] = rest;
      x = sum;
    }
    if (x != 0 || kept == 0) part_[kept++] = x;
    count_ = kept;
  }
  double to_odd() const {
    if (count_ == 0) return 0;
    double high = part_[count_ - 1];
    return count_ > 1 ? round_to_odd(high, part_[count_ - 2]) : high;
  }

private:
  double part_[72] = {};
  int count_ = 0;
};

} // namespace vgpu::tensor
