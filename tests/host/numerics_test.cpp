#include "tests/reference/elements.hpp"
#include "tests/reference/numerics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace wltest;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Format {
  const char* name;
  std::vector<double> positive; // values of the non-negative codes, ascending, code = index
  uint32_t sign;
  uint32_t (*encode)(double);
};

std::vector<double> values_of(int count, double (*decode)(uint16_t)) {
  std::vector<double> values;
  for (int code = 0; code < count; ++code) values.push_back(decode(uint16_t(code)));
  return values;
}

std::vector<Format> formats() {
  return {
      {"E2M1", values_of(8, [](uint16_t c) { return decode_e2m1(uint8_t(c)); }), 0x8,
       [](double v) { return uint32_t{encode_e2m1(v)}; }},
      {"E4M3", values_of(0x7F, [](uint16_t c) { return decode_e4m3(uint8_t(c)); }), 0x80,
       [](double v) { return uint32_t{encode_e4m3(v)}; }},
      {"E5M2", values_of(0x7C, [](uint16_t c) { return decode_e5m2(uint8_t(c)); }), 0x80,
       [](double v) { return uint32_t{encode_e5m2(v)}; }},
      {"E2M3", values_of(0x20, [](uint16_t c) { return decode_e2m3(uint8_t(c)); }), 0x20,
       [](double v) { return uint32_t{encode_e2m3(v)}; }},
      {"E3M2", values_of(0x20, [](uint16_t c) { return decode_e3m2(uint8_t(c)); }), 0x20,
       [](double v) { return uint32_t{encode_e3m2(v)}; }},
      {"F16", values_of(0x7C00, decode_f16), 0x8000,
       [](double v) { return uint32_t{encode_f16(v)}; }},
      {"BF16", values_of(0x7F80, decode_bf16), 0x8000,
       [](double v) { return uint32_t{encode_bf16(v)}; }},
  };
}

} // namespace

TEST_CASE("E2M1 codes have the values of the OCP table", "[host]") {
  const double table[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 16; ++code) {
    INFO("code " << code);
    CHECK(std::fabs(decode_e2m1(uint8_t(code))) == table[code & 7]);
    CHECK(std::signbit(decode_e2m1(uint8_t(code))) == (code >= 8));
    CHECK(decode_e2m1(uint8_t(code | 0xF0)) == decode_e2m1(uint8_t(code)));
  }
}

TEST_CASE("E4M3 corner codes and all codes against a table built by steps", "[host]") {
  CHECK(decode_e4m3(0x00) == 0);
  CHECK(decode_e4m3(0x01) == 0x1p-9);
  CHECK(decode_e4m3(0x08) == 0x1p-6);
  CHECK(decode_e4m3(0x38) == 1);
  CHECK(decode_e4m3(0x7E) == 448);
  CHECK(std::isnan(decode_e4m3(0x7F)));
  CHECK(std::isnan(decode_e4m3(0xFF)));
  CHECK(std::isnan(decode_ue4m3(0xFF)));
  // The step to the next code is 2^-9 up to code 0x10, then doubles every 8 codes.
  double value = 0, step = 0x1p-9;
  for (int code = 0; code < 0x7F; ++code) {
    INFO("code " << code);
    CHECK(decode_e4m3(uint8_t(code)) == value);
    CHECK(decode_e4m3(uint8_t(code | 0x80)) == -value);
    CHECK(decode_ue4m3(uint8_t(code | 0x80)) == value);
    if (code >= 0x10 && code % 8 == 0) step *= 2;
    value += step;
  }
}

TEST_CASE("corner codes of E5M2, E2M3, E3M2, UE8M0 and TF32", "[host]") {
  CHECK(decode_e5m2(0x01) == 0x1p-16);
  CHECK(decode_e5m2(0x3C) == 1);
  CHECK(decode_e5m2(0xFB) == -57344);
  CHECK(decode_e5m2(0x7C) == inf);
  CHECK(decode_e5m2(0xFC) == -inf);
  for (const int code : {0x7D, 0x7F, 0xFD, 0xFF}) CHECK(std::isnan(decode_e5m2(uint8_t(code))));
  // An E5M2 code is the upper half of an F16 one.
  for (int code = 0; code < 0x7C; ++code)
    CHECK(decode_e5m2(uint8_t(code)) == decode_f16(uint16_t(code << 8)));
  CHECK(decode_e2m3(0x01) == 0.125);
  CHECK(decode_e2m3(0x08) == 1);
  CHECK(decode_e2m3(0x3F) == -7.5);
  CHECK(decode_e3m2(0x01) == 0.0625);
  CHECK(decode_e3m2(0x0C) == 1);
  CHECK(decode_e3m2(0x3F) == -28);
  CHECK(decode_ue8m0(0) == 0x1p-127);
  CHECK(decode_ue8m0(127) == 1);
  CHECK(decode_ue8m0(0xFE) == 0x1p127);
  CHECK(std::isnan(decode_ue8m0(0xFF)));
  CHECK(decode_tf32(0x3F801FFF) == 1);
  CHECK(decode_tf32(0xBF802000) == -(1 + 0x1p-10));
  CHECK(decode_tf32(0x7F801FFF) == inf);
  CHECK(std::isnan(decode_tf32(0x7F802000)));
  CHECK(encode_e5m2(inf) == 0x7B);
  CHECK(encode_e5m2(-1e9) == 0xFB);
  CHECK(encode_e5m2(nan_value) == 0x7F);
  CHECK(encode_e2m3(100) == 0x1F);
  CHECK(encode_e3m2(-100) == 0x3F);
}

TEST_CASE("elements of a row: packed, the first in the lowest bits", "[host]") {
  for (const wl_operand type : {WL_OPERAND_NVFP4, WL_OPERAND_F16, WL_OPERAND_TF32, WL_OPERAND_INT8,
                                WL_OPERAND_MXFP6_E2M3, WL_OPERAND_MXFP4}) {
    INFO("type " << type);
    const int bits = element_bits(type);
    std::vector<uint8_t> row(static_cast<size_t>(16 * bits / 8), 0xFF);
    for (int k = 0; k < 16; ++k) set_element(type, row.data(), k, uint32_t(k) * 0x01010101u);
    for (int k = 0; k < 16; ++k)
      CHECK(element_at(type, row.data(), k) ==
            (bits == 32 ? uint32_t(k) * 0x01010101u
                        : uint32_t(k) * 0x01010101u & ((1u << bits) - 1)));
  }
  // 6 bits: the second code begins in the upper bits of the first byte.
  uint8_t row[3] = {};
  set_element(WL_OPERAND_MXFP6_E3M2, row, 1, 0x3F);
  CHECK((row[0] == 0xC0 && row[1] == 0x0F && row[2] == 0));
  CHECK(decode_element(WL_OPERAND_INT8, 0x80) == -128);
  CHECK(encode_element(WL_OPERAND_INT8, -1) == 0xFF);
}

TEST_CASE("F16 and BF16 codes against the bits of FP32", "[host]") {
  int wrong = 0;
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float bf16 = float_from_bits(code << 16);
    const double mine = decode_bf16(uint16_t(code));
    wrong += std::isnan(bf16) ? !std::isnan(mine) : double{bf16} != mine;
    // An F16 code shifted into FP32's fields is 2^-112 times its value, subnormals included.
    const uint32_t magnitude = code & 0x7FFF;
    const double f16 = decode_f16(uint16_t(code));
    if (magnitude > 0x7C00)
      wrong += !std::isnan(f16);
    else if (magnitude == 0x7C00)
      wrong += f16 != (code & 0x8000 ? -inf : inf);
    else {
      const uint32_t bits = (code & 0x8000) << 16 | magnitude << 13;
      wrong += double{float_from_bits(bits)} * 0x1p112 != f16;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every code survives decode and encode", "[host]") {
  for (const Format& format : formats()) {
    INFO(format.name);
    int wrong = 0;
    for (size_t code = 0; code < format.positive.size(); ++code) {
      wrong += format.encode(format.positive[code]) != code;
      wrong += format.encode(-format.positive[code]) != (code | format.sign);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("between two codes: nearest, and the even code at the midpoint", "[host]") {
  for (const Format& format : formats()) {
    INFO(format.name);
    int wrong = 0;
    for (size_t code = 0; code + 1 < format.positive.size(); ++code) {
      const double low = format.positive[code], high = format.positive[code + 1];
      const double middle = low + (high - low) / 2;
      const size_t even = code % 2 == 0 ? code : code + 1;
      wrong += format.encode(middle) != even;
      wrong += format.encode(std::nextafter(middle, -inf)) != code;
      wrong += format.encode(std::nextafter(middle, inf)) != code + 1;
      wrong += format.encode(-middle) != (even | format.sign);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("beyond the largest value, zeros and NaN", "[host]") {
  CHECK(encode_e2m1(100) == 0x7);
  CHECK(encode_e2m1(-inf) == 0xF);
  CHECK(encode_e2m1(-0.0) == 0x8);
  CHECK(encode_e2m1(nan_value) == 0x7);
  CHECK(encode_e4m3(449) == 0x7E);
  CHECK(encode_e4m3(1e300) == 0x7E);
  CHECK(encode_e4m3(-inf) == 0xFE);
  CHECK(encode_e4m3(nan_value) == 0x7F);
  CHECK(encode_e4m3(0x1p-11) == 0);
  CHECK(encode_f16(65519.99) == 0x7BFF);
  CHECK(encode_f16(65520) == 0x7C00);
  CHECK(encode_f16(-1e9) == 0xFC00);
  CHECK(encode_f16(nan_value) == 0x7FFF);
  CHECK(encode_f16(-0.0) == 0x8000);
  CHECK(encode_bf16(3.4e38) == 0x7F80);
  CHECK(encode_bf16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(encode_bf16(nan_value) == 0x7FFF);
  for (OutputType type : {OutputType::f16, OutputType::bf16}) {
    INFO(name_of(type));
    const double threshold = overflow_threshold(type);
    CHECK(std::isinf(decode_output(type, encode_output(type, threshold))));
    CHECK(std::isfinite(decode_output(type, encode_output(type, std::nextafter(threshold, 0)))));
    CHECK(is_nan(type, encode_output(type, nan_value)));
    CHECK_FALSE(is_nan(type, encode_output(type, inf)));
  }
}

TEST_CASE("a value times its scale is exact in F16 and in BF16", "[host]") {
  for (int value = 0; value < 16; ++value)
    for (int scale = 0; scale < 0x7F; ++scale) {
      const double product = decode_e2m1(uint8_t(value)) * decode_ue4m3(uint8_t(scale));
      if (decode_f16(encode_f16(product)) != product ||
          decode_bf16(encode_bf16(product)) != product)
        FAIL("value code " << value << ", scale code " << scale);
    }
  SUCCEED();
}

TEST_CASE("the lower nibble is the even k", "[host]") {
  const uint8_t packed[2] = {0x21, 0x43};
  for (int k = 0; k < 4; ++k) CHECK(nibble(packed, k) == k + 1);
}

namespace {

// Bits of a double in hexadecimal, all NaNs alike: what both sides print of a value.
std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

} // namespace

// Codes of all types of at most 8 bits to values, and values between all codes to codes.
TEST_CASE("ml_dtypes converts as we do", "[host][python]") {
  if (wltest::run_child({"python3", "-c", "import numpy, ml_dtypes"}).status != 0)
    WL_SKIP("no python3 with numpy and ml_dtypes");
  struct Type {
    const char* name; // in ml_dtypes
    int codes;
    double (*decode)(uint8_t);
    uint8_t (*encode)(double);
  };
  const Type types[] = {{"float4_e2m1fn", 16, decode_e2m1, encode_e2m1},
                        {"float6_e2m3fn", 64, decode_e2m3, encode_e2m3},
                        {"float6_e3m2fn", 64, decode_e3m2, encode_e3m2},
                        {"float8_e4m3fn", 256, decode_e4m3, encode_e4m3},
                        {"float8_e5m2", 256, decode_e5m2, encode_e5m2},
                        {"float8_e8m0fnu", 256, decode_ue8m0, nullptr}};
  std::string expected;
  for (const Type& type : types) {
    expected += std::string(type.name) + " values";
    std::vector<double> finite;
    for (int code = 0; code < type.codes; ++code) {
      const double value = type.decode(static_cast<uint8_t>(code));
      expected += " " + text_of(value);
      if (std::isfinite(value)) finite.push_back(value);
    }
    expected += "\n";
    if (type.encode == nullptr) continue;
    std::sort(finite.begin(), finite.end());
    expected += std::string(type.name) + " codes";
    for (size_t i = 0; i + 1 < finite.size(); ++i)
      for (const double part : {0.25, 0.5, 0.75}) {
        const double value = finite[i] + part * (finite[i + 1] - finite[i]);
        expected += " " + std::to_string(type.encode(value));
      }
    expected += "\n";
  }
  const char* const program = R"(
import math, struct
import numpy as np, ml_dtypes
def text(v): return 'nan' if math.isnan(v) else struct.pack('>d', v).hex()
for name, count in (('float4_e2m1fn', 16), ('float6_e2m3fn', 64), ('float6_e3m2fn', 64),
                    ('float8_e4m3fn', 256), ('float8_e5m2', 256), ('float8_e8m0fnu', 256)):
    dtype = getattr(ml_dtypes, name)
    values = [float(v) for v in np.arange(count, dtype=np.uint8).view(dtype).astype(np.float64)]
    print(name, 'values', *map(text, values))
    if name == 'float8_e8m0fnu': continue
    finite = sorted(v for v in values if math.isfinite(v))
    between = [a + part * (b - a) for a, b in zip(finite, finite[1:]) for part in (0.25, 0.5, 0.75)]
    print(name, 'codes', *np.array(between).astype(dtype).view(np.uint8))
)";
  const wltest::ChildResult found = wltest::run_child({"python3", "-c", program});
  INFO(found.err);
  CHECK(found.status == 0);
  CHECK(found.out == expected);
}
