#include "tests/reference/dual_gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace wltest {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Judgement {
  double error = 0; // |out - ref|, 0 where a special value is as it should be
  double use = 0;   // error / bound
};

// An infinite output is right where the reference, moved by the bound, rounds to that infinity:
// where it is at least `overflow`.
Judgement judge(double out, double reference, double bound, double overflow) {
  if (std::isnan(out) || std::isnan(reference))
    return std::isnan(out) && std::isnan(reference) ? Judgement{} : Judgement{infinity, infinity};
  if (out == reference) return {};
  if (std::isinf(reference)) return {infinity, infinity};
  if (std::isinf(out)) {
    const bool overflows =
        std::fabs(reference) + bound >= overflow && std::signbit(out) == std::signbit(reference);
    return overflows ? Judgement{} : Judgement{infinity, infinity};
  }
  const double error = std::fabs(out - reference);
  return {error, error / bound};
}

Judgement judge(OutputType type, double out, double reference, double more = 0) {
  return judge(out, reference, error_bound(type, reference) + more, overflow_threshold(type));
}

double at(const std::vector<double>& more, size_t i) { return more.empty() ? 0 : more[i]; }

template <class Code, class Visit>
void for_each_output(const Sums& shape, const Code* out, int64_t ldd, int64_t batch_stride,
                     Visit visit) {
  size_t i = 0;
  for (int64_t entry = 0; entry < shape.l; ++entry)
    for (int64_t row = 0; row < shape.m; ++row)
      for (int64_t column = 0; column < shape.n; ++column, ++i)
        visit(i, Coordinate{entry, row, column}, out[entry * batch_stride + row * ldd + column]);
}

void add(Comparison& c, const Coordinate& at, double out, double reference, const Judgement& j,
         bool bad) {
  if (j.error > c.worst_absolute) {
    c.worst_absolute = j.error;
    c.worst_absolute_at = at;
  }
  if (std::fabs(reference) >= 1e-3 && j.error / std::fabs(reference) > c.worst_relative) {
    c.worst_relative = j.error / std::fabs(reference);
    c.worst_relative_at = at;
  }
  if (c.count == 0 || j.use > c.worst_use) {
    c.worst_use = j.use;
    c.worst_use_at = at;
    c.worst_out = out;
    c.worst_reference = reference;
  }
  if (bad && c.bad == 0) {
    c.first_bad = at;
    c.first_bad_out = out;
    c.first_bad_reference = reference;
  }
  c.bad += bad;
  c.special += !std::isfinite(reference);
  ++c.count;
}

} // namespace

double error_bound(OutputType type, double reference) {
  const double bound = 1e-3 + 1e-3 * std::fabs(reference);
  if (type == OutputType::f16 || reference == 0 || !std::isfinite(reference)) return bound;
  return bound + std::ldexp(1.0, std::max(std::ilogb(reference), -126) - 8);
}

Comparison compare(const Sums& shape, const std::vector<double>& reference, const uint16_t* out,
                   int64_t ldd, int64_t batch_stride, OutputType type,
                   const std::vector<double>& more) {
  Comparison c;
  for_each_output(shape, out, ldd, batch_stride,
                  [&](size_t i, const Coordinate& place, uint16_t code) {
                    const double value = decode_output(type, code);
                    const Judgement j = judge(type, value, reference[i], at(more, i));
                    add(c, place, value, reference[i], j, j.use > 1);
                  });
  return c;
}

Comparison compare(const Sums& shape, const std::vector<double>& reference, const float* out,
                   int64_t ldd, int64_t batch_stride, const std::vector<double>& more) {
  constexpr double overflow = 0x1.FFFFFFp127; // from here on FP32 is infinite
  Comparison c;
  for_each_output(shape, out, ldd, batch_stride,
                  [&](size_t i, const Coordinate& place, float value) {
                    const Judgement j =
                        judge(double{value}, reference[i],
                              error_bound(OutputType::f16, reference[i]) + at(more, i), overflow);
                    add(c, place, double{value}, reference[i], j, j.use > 1);
                  });
  return c;
}

Comparison compare_exact(const Sums& shape, const std::vector<uint16_t>& reference,
                         const uint16_t* out, int64_t ldd, int64_t batch_stride, OutputType type) {
  Comparison c;
  for_each_output(shape, out, ldd, batch_stride,
                  [&](size_t i, const Coordinate& at, uint16_t code) {
                    const bool equal =
                        code == reference[i] || (is_nan(type, code) && is_nan(type, reference[i]));
                    const double value = decode_output(type, code);
                    const double expected = decode_output(type, reference[i]);
                    c.unequal += !equal;
                    add(c, at, value, expected, judge(type, value, expected), !equal);
                  });
  return c;
}

namespace {

// Half a unit in the last place of an E4M3 number of this size: 3 mantissa bits, 2^-6 the least
// exponent.
double half_place_e4m3(double value) {
  return std::ldexp(1.0, std::max(value > 0 ? std::ilogb(value) : -6, -6) - 4);
}

// How far `value` lies outside of what rounds to `scale`, the largest number taking all beyond it.
double excess_e4m3(double scale, double value) {
  if (value > scale)
    return scale == 448 ? 0 : std::max(value - scale - half_place_e4m3(scale), 0.0);
  return std::max(scale - half_place_e4m3(scale * 0.999) - value, 0.0);
}

// The same for E2M1.
double excess_e2m1(double number, double value) {
  double below = -infinity, above = infinity; // its neighbours
  for (uint8_t code = 0; code < 16; ++code) {
    const double other = decode_e2m1(code);
    if (other < number) below = std::max(below, other);
    if (other > number) above = std::min(above, other);
  }
  return std::max({(below + number) / 2 - value, value - (number + above) / 2, 0.0});
}

// The use of the freedom that the bound gives the scale of a block, whose largest magnitude this
// is, or infinity.
double scale_use(double scale, double largest, double d_scale) {
  if (std::isnan(scale) || std::signbit(scale)) return infinity;
  if (std::isinf(largest)) return scale == 448 ? 0 : infinity;
  const double freedom = error_bound(OutputType::f16, largest) / (6 * d_scale);
  return excess_e4m3(scale, largest / (6 * d_scale)) / freedom;
}

// What a code makes of `wanted` under a scale of this step. A NaN is 6, as the conversion makes it,
// and so is an infinity, with its sign; where the scale is 0, so are all other codes.
Judgement judge_code(uint8_t code, double wanted, double step) {
  const double number = decode_e2m1(code);
  if (std::isnan(wanted) || std::isinf(wanted)) {
    const bool right = number == (wanted < 0 ? -6 : 6);
    return right ? Judgement{} : Judgement{infinity, infinity};
  }
  const double error = std::fabs(number * step - wanted);
  if (step == 0) return {error, number == 0 ? 0 : infinity};
  return {error, excess_e2m1(number, wanted / step) * step / error_bound(OutputType::f16, wanted)};
}

} // namespace

Comparison compare_nvfp4(const Sums& shape, const std::vector<double>& reference, const Operand& d,
                         double d_scale) {
  Comparison c;
  for (size_t block = 0; block < d.scales.size(); ++block) {
    const double* wanted = &reference[16 * block];
    double largest = 0; // a NaN has no say
    for (size_t i = 0; i < 16; ++i) largest = std::fmax(largest, std::fabs(wanted[i]));
    const double scale = decode_e4m3(d.scales[block]), step = scale * d_scale;
    const double of_scale = scale_use(scale, largest, d_scale);
    for (size_t i = 0; i < 16; ++i) {
      const size_t at = 16 * block + i;
      const uint8_t code = nibble(d.values.data(), static_cast<int64_t>(at));
      Judgement j =
          std::isinf(of_scale) ? Judgement{infinity, infinity} : judge_code(code, wanted[i], step);
      j.use = std::max(j.use, of_scale);
      const auto row = static_cast<int64_t>(at) / shape.n;
      add(c, {row / shape.m, row % shape.m, static_cast<int64_t>(at) % shape.n},
          decode_e2m1(code) * step, wanted[i], j, j.use > 1);
    }
  }
  return c;
}

int64_t count_unequal(const Operand& found, const Operand& expected) {
  int64_t count = 0;
  for (size_t i = 0; i < 2 * expected.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    count += found.scales[i / 16] != expected.scales[i / 16] ||
             nibble(found.values.data(), at) != nibble(expected.values.data(), at);
  }
  return count;
}

std::string describe(const Coordinate& at) {
  return "l " + std::to_string(at.entry) + ", m " + std::to_string(at.row) + ", n " +
         std::to_string(at.column);
}

std::string describe(const Comparison& c) {
  char text[512];
  std::snprintf(text, sizeof text,
                "%lld of %lld outputs wrong; worst absolute error %.3g at (%s), worst relative "
                "error %.3g at (%s), bound used %.1f %%",
                static_cast<long long>(c.bad), static_cast<long long>(c.count), c.worst_absolute,
                describe(c.worst_absolute_at).c_str(), c.worst_relative,
                describe(c.worst_relative_at).c_str(), 100 * c.worst_use);
  std::string result = text;
  if (c.bad > 0) {
    std::snprintf(text, sizeof text, "; first wrong at (%s): got %.8g, expected %.8g",
                  describe(c.first_bad).c_str(), c.first_bad_out, c.first_bad_reference);
    result += text;
  }
  return result;
}

} // namespace wltest
