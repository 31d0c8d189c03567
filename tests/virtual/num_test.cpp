// Number formats: every code of every format against its definition, every encoder against a
// search for the nearest value.
#include "tests/support/catch.hpp"
#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace vgpu::num;

namespace {

// The definition, with no table and no shared code: (-1)^s * 2^(e-bias) * 1.m, or 0.m at e = 0.
double by_definition(Format format, uint32_t code) {
  const FormatInfo& f = info(format);
  double inf = std::numeric_limits<double>::infinity();
  if (format == Format::ue8m0) return code == 255 ? NAN : std::ldexp(1.0, int(code) - 127);
  int e = int(code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  int m = int(code & ((1u << f.mantissa_bits) - 1));
  int s = f.has_sign ? int(code >> (f.exponent_bits + f.mantissa_bits) & 1) : 0;
  int top = (1 << f.exponent_bits) - 1;
  if (f.has_inf && e == top) return m == 0 ? (s ? -inf : inf) : NAN;
  bool fn = format == Format::e4m3 || format == Format::ue4m3;
  if (fn && e == top && m == 7) return NAN;
  double scale = std::ldexp(1.0, -f.mantissa_bits);
  double value = e == 0 ? std::ldexp(m * scale, 1 - f.bias) : std::ldexp(1 + m * scale, e - f.bias);
  return s ? -value : value;
}

const Format kSmall[] = {Format::e2m1,  Format::e2m3, Format::e3m2, Format::e4m3,
                         Format::ue4m3, Format::e5m2, Format::f16,  Format::bf16};

// Code of the rounded value found by looking at all finite magnitudes of the format.
class Search {
public:
  explicit Search(Format format) : format_(format) {
    for (uint32_t code = 0; code <= info(format).max_finite; ++code)
      value_.push_back(by_definition(format, code));
  }
  const std::vector<double>& values() const { return value_; }

  uint32_t operator()(double x, EncodeOptions options) const {
    const FormatInfo& f = info(format_);
    if (std::isnan(x)) return f.nan;
    bool negative = std::signbit(x);
    if (negative && (options.relu || !f.has_sign)) return 0;
    uint32_t sign = negative ? 1u << (f.bits - 1) : 0;
    double a = std::fabs(x);
    uint32_t top = f.max_finite;
    bool saturate = options.satfinite || !f.has_inf;
    if (std::isinf(a)) return sign | (saturate ? top : top + 1);
    // One more step of the last binade stands for overflow.
    double beyond = 2 * value_[top] - value_[top - 1];
    uint32_t low = uint32_t(std::upper_bound(value_.begin(), value_.end(), a) - value_.begin()) - 1;
    double lower = value_[low];
    double upper = low == top ? beyond : value_[low + 1];
    uint32_t pick = low;
    bool above = false;
    switch (options.rounding) {
    case Rounding::rz:
      break;
    case Rounding::rm:
      above = negative;
      break;
    case Rounding::rp:
      above = !negative;
      break;
    case Rounding::rn: {
      double down = a - lower, up = upper - a;
      above = up < down || (up == down && (low & 1));
      break;
    }
    case Rounding::rna:
      above = upper - a <= a - lower;
      break;
    }
    if (above && a != lower) pick = low + 1;
    bool overflow = pick > top || (low == top && a >= beyond);
    if (overflow) {
      bool toward = options.rounding == Rounding::rz ||
                    (options.rounding == Rounding::rm && !negative) ||
                    (options.rounding == Rounding::rp && negative);
      pick = saturate || toward ? top : top + 1;
    }
    return sign | pick;
  }

private:
  Format format_;
  std::vector<double> value_;
};

uint32_t float_bits(float x) { return std::bit_cast<uint32_t>(x); }

} // namespace

TEST_CASE("every code decodes to its definition", "[virtual][num]") {
  for (Format format : kSmall) {
    const FormatInfo& f = info(format);
    uint32_t codes = 1u << f.bits;
    for (uint32_t code = 0; code < codes; ++code) {
      INFO(f.name << " code " << code);
      double want = by_definition(format, code);
      float got = decode(format, code);
      if (std::isnan(want)) {
        REQUIRE(std::isnan(got));
      } else {
        REQUIRE(double(got) == want);
        REQUIRE(std::signbit(got) == std::signbit(want));
      }
    }
  }
  for (uint32_t code = 0; code < 255; ++code)
    REQUIRE(double(ue8m0_table[code]) == std::ldexp(1.0, int(code) - 127));
  REQUIRE(std::isnan(ue8m0_table[255]));
  for (uint32_t code = 0; code < 128; ++code) // bit 7 of ue4m3 is padding
    REQUIRE(float_bits(ue4m3_table[code]) == float_bits(ue4m3_table[code | 128]));
}

TEST_CASE("NaN codes of the wide formats", "[virtual][num]") {
  for (uint32_t code = 0x7C01; code < 0x8000; ++code) {
    REQUIRE(float_bits(f16_to_f32(uint16_t(code))) == kF32Nan);
    REQUIRE(float_bits(f16_to_f32(uint16_t(code | 0x8000))) == kF32Nan);
  }
  for (uint32_t code = 0x7F81; code < 0x8000; ++code)
    REQUIRE(float_bits(bf16_to_f32(uint16_t(code))) == code << 16);
  for (uint32_t bits : {0x7F800001u, 0x7FC00000u, 0xFFC00000u, 0xFF800001u, 0xFFFFFFFFu}) {
    float nan = std::bit_cast<float>(bits);
    REQUIRE(f32_to_f16(nan) == 0x7FFF);
    REQUIRE(f32_to_bf16(nan) == 0x7FFF);
    REQUIRE(encode(Format::tf32, nan) == 0x7FFFE000);
    REQUIRE(encode(Format::e4m3, nan) == 0x7F);
    REQUIRE(encode(Format::e5m2, nan) == 0x7F);
    // Formats without NaN: the positive largest value (9.7.9.21, .satfinite).
    REQUIRE(encode(Format::e2m1, nan) == 0x7);
    REQUIRE(encode(Format::e2m3, nan) == 0x1F);
    REQUIRE(encode(Format::e3m2, nan) == 0x1F);
  }
}

TEST_CASE("encoders agree with a search for the nearest value", "[virtual][num]") {
  for (Format format : kSmall) {
    Search search(format);
    const std::vector<double>& v = search.values();
    std::vector<double> inputs = {0.0, 1e-300, 1e300, 3.4e38, 1.0, 0.3, INFINITY};
    for (size_t i = 0; i + 1 < v.size(); ++i) {
      double middle = (v[i] + v[i + 1]) / 2;
      inputs.push_back(v[i]);
      inputs.push_back(middle);
      inputs.push_back(std::nextafter(middle, 0.0));
      inputs.push_back(std::nextafter(middle, INFINITY));
    }
    double step = v[v.size() - 1] - v[v.size() - 2];
    for (double d : {0.25, 0.5, 0.75, 1.0, 1.5}) inputs.push_back(v.back() + d * step);
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> exponent(-40, 20);
    for (int i = 0; i < 2000; ++i) inputs.push_back(std::exp2(exponent(random)));
    size_t bad = 0;
    for (Rounding rounding :
         {Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp, Rounding::rna}) {
      for (double input : inputs) {
        for (double x : {input, -input}) {
          for (bool satfinite : {false, true}) {
            for (bool relu : {false, true}) {
              EncodeOptions options{rounding, satfinite, relu};
              if (encode(format, x, options) == search(x, options)) continue;
              ++bad;
              UNSCOPED_INFO(info(format).name << " of " << x << " rounding " << int(rounding)
                                              << " got " << encode(format, x, options) << " want "
                                              << search(x, options));
            }
          }
        }
      }
    }
    INFO(info(format).name);
    REQUIRE(bad == 0);
  }
}

TEST_CASE("quick 16-bit conversions equal the encoder", "[virtual][num]") {
  std::mt19937 random(11);
  std::vector<uint32_t> bits;
  for (int i = 0; i < 300000; ++i) bits.push_back(random());
  // Every f16 step, its neighbours and the ties around it.
  for (uint32_t code = 0; code < 0x10000; ++code) {
    uint32_t b = float_bits(f16_to_f32(uint16_t(code)));
    for (uint32_t d : {0u, 0xFFFu, 0x1000u, 0x1001u, 0u - 1u}) bits.push_back(b + d);
    for (uint32_t d : {0u, 0x7FFFu, 0x8000u, 0x8001u}) bits.push_back((code << 16) + d);
  }
  size_t bad = 0;
  for (uint32_t b : bits) {
    float x = std::bit_cast<float>(b);
    bad += f32_to_f16(x) != encode(Format::f16, x);
    bad += f32_to_bf16(x) != encode(Format::bf16, x);
  }
  REQUIRE(bad == 0);
  std::vector<uint16_t> codes(65536), back(65536);
  std::vector<float> wide(65536);
  for (uint32_t i = 0; i < 65536; ++i) codes[i] = uint16_t(i);
  f16_to_f32(codes.data(), wide.data(), wide.size());
  f32_to_f16(wide.data(), back.data(), wide.size());
  for (uint32_t i = 0; i < 65536; ++i) {
    bool nan = (i & 0x7FFF) > 0x7C00;
    bad += back[i] != (nan ? 0x7FFF : i);
  }
  bf16_to_f32(codes.data(), wide.data(), wide.size());
  f32_to_bf16(wide.data(), back.data(), wide.size());
  for (uint32_t i = 0; i < 65536; ++i) bad += back[i] != ((i & 0x7FFF) > 0x7F80 ? 0x7FFF : i);
  REQUIRE(bad == 0);
}

TEST_CASE("tf32 keeps ten mantissa bits", "[virtual][num]") {
  std::mt19937 random(13);
  size_t bad = 0;
  for (int i = 0; i < 200000; ++i) {
    uint32_t b = random();
    if ((b & 0x7FFFFFFF) >= 0x7F700000) continue;
    float x = std::bit_cast<float>(b);
    uint32_t rna = (b + 0x1000) & 0xFFFFE000;
    uint32_t rn = (b + 0xFFF + (b >> 13 & 1)) & 0xFFFFE000;
    bad += encode(Format::tf32, x, {Rounding::rna}) != rna;
    bad += encode(Format::tf32, x, {Rounding::rn}) != rn;
    bad += encode(Format::tf32, x, {Rounding::rz}) != (b & 0xFFFFE000);
    bad += float_bits(tf32_to_f32(b)) != (b & 0xFFFFE000);
  }
  REQUIRE(bad == 0);
  float max = std::numeric_limits<float>::max();
  REQUIRE(encode(Format::tf32, max, {Rounding::rna}) == 0x7F800000);
  REQUIRE(encode(Format::tf32, max, {Rounding::rna, true}) == 0x7F7FE000);
}

TEST_CASE("ue8m0 holds powers of two of the magnitude", "[virtual][num]") {
  EncodeOptions rz{Rounding::rz}, rp{Rounding::rp}, rz_sat{Rounding::rz, true},
      rp_sat{Rounding::rp, true};
  for (int e = -126; e <= 127; ++e) {
    double p = std::ldexp(1.0, e);
    REQUIRE(encode(Format::ue8m0, p, rz) == uint32_t(e + 127));
    REQUIRE(encode(Format::ue8m0, p, rp) == uint32_t(e + 127));
    REQUIRE(encode(Format::ue8m0, -p * 1.25, rz) == uint32_t(e + 127));
    if (e < 127) {
      REQUIRE(encode(Format::ue8m0, p * 1.25, rp) == uint32_t(e + 128));
    }
  }
  REQUIRE(encode(Format::ue8m0, 0.0, rp) == 0);
  REQUIRE(encode(Format::ue8m0, 0x1p-127, rp) == 0);
  REQUIRE(encode(Format::ue8m0, 0x1.8p-127, rp) == 1);
  REQUIRE(encode(Format::ue8m0, 0x1.8p-127, rz) == 0);
  REQUIRE(encode(Format::ue8m0, 0x1.8p127, rp) == 0xFF);
  REQUIRE(encode(Format::ue8m0, 0x1.8p127, rp_sat) == 0xFE);
  REQUIRE(encode(Format::ue8m0, INFINITY, rz_sat) == 0xFE);
  REQUIRE(encode(Format::ue8m0, NAN, rp_sat) == 0xFF);
  REQUIRE(decode_ue8m0x2_to_bf16x2(0xFF00) == 0x7FFF0040);
  REQUIRE(decode_ue8m0x2_to_bf16x2(0x7F80) == 0x3F804000);
}

TEST_CASE("packed conversions put the first source in the upper half", "[virtual][num]") {
  REQUIRE(encode_x2(Format::f16, 1.0, -2.0) == 0x3C00C000);
  REQUIRE(encode_x2(Format::bf16, 1.0, -2.0) == 0x3F80C000);
  REQUIRE(encode_x2(Format::e4m3, 1.0, -2.0) == 0x38C0);
  REQUIRE(encode_x2(Format::e5m2, 1.0, -2.0) == 0x3CC0);
  REQUIRE(encode_x2(Format::e2m3, 1.0, -2.0) == 0x0830);
  REQUIRE(encode_x2(Format::e3m2, 1.0, -2.0) == 0x0C30);
  REQUIRE(encode_x2(Format::e2m1, 1.0, -2.0) == 0x2C);
  REQUIRE(encode_x2(Format::e2m1, -9.0, 0.75) == 0xF2);
  REQUIRE(decode_x2_to_f16x2(Format::e2m1, 0x2C) == 0x3C00C000);
  REQUIRE(decode_x2_to_f16x2(Format::e4m3, 0x38C0) == 0x3C00C000);
  REQUIRE(decode_x2_to_f16x2(Format::e4m3, 0x7F01) == 0x7FFF1800);
  REQUIRE(decode_x2_to_f16x2(Format::e5m2, 0x7CFF) == 0x7C007FFF);
  REQUIRE(decode_x2_to_f16x2(Format::e2m1, 0x2C, true) == 0x3C000000);
}
