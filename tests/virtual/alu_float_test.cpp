// Floating-point instructions against the host's arithmetic in its four rounding modes.
#include "tests/virtual/lane_ops.hpp"
#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <functional>

namespace {

using namespace lane_ops;
namespace num = vgpu::num;

float f32(uint64_t v) { return std::bit_cast<float>(uint32_t(v)); }
double f64(uint64_t v) { return std::bit_cast<double>(v); }
uint64_t bits(float v) { return v != v ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(v); }
// NaN payloads of f64 are the host's; tests compare them as one.
uint64_t bits(double v) { return v != v ? 0x7FF8000000000000ull : std::bit_cast<uint64_t>(v); }
uint64_t one_nan(uint64_t v) { return bits(f64(v)); }
float flush(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

struct Mode {
  const char* name;
  int host;
};
const Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

// f(a, b, c) in a rounding mode; volatile operands keep it where it stands.
template <class T, class F>
T in_mode(int mode, F f, T x, T y, T z) {
  volatile T a = x, b = y, c = z, r;
  std::fesetround(mode);
  r = f(a, b, c);
  std::fesetround(FE_TONEAREST);
  return r;
}

// Whether x rounds to less than 2^-126 with an unbounded exponent: .ftz flushes such a result.
bool tiny(int mode, double x) {
  volatile double scaled = x * 0x1p64;
  std::fesetround(mode);
  volatile float f = float(scaled);
  std::fesetround(FE_TONEAREST);
  return std::fabs(float(f)) < 0x1p-62f;
}

struct Operation {
  const char* name;
  int operands;
  std::function<float(float, float, float)> f;
  std::function<double(double, double, double)> d;
};
const std::vector<Operation> kOperations = {
    {"add", 2, [](float a, float b, float) { return a + b; },
     [](double a, double b, double) { return a + b; }},
    {"sub", 2, [](float a, float b, float) { return a - b; },
     [](double a, double b, double) { return a - b; }},
    {"mul", 2, [](float a, float b, float) { return a * b; },
     [](double a, double b, double) { return a * b; }},
    {"div", 2, [](float a, float b, float) { return a / b; },
     [](double a, double b, double) { return a / b; }},
    {"fma", 3, [](float a, float b, float c) { return std::fma(a, b, c); },
     [](double a, double b, double c) { return std::fma(a, b, c); }},
    {"rcp", 1, [](float a, float, float) { return 1.0f / a; },
     [](double a, double, double) { return 1.0 / a; }},
    {"sqrt", 1, [](float a, float, float) { return std::sqrt(a); },
     [](double a, double, double) { return std::sqrt(a); }},
};

} // namespace

TEST_CASE("f32 arithmetic in every rounding mode", "[virtual]") {
  Column v = floats32(60), few = floats32(8);
  v.push_back(0x7E800001); // its reciprocal is tiny
  for (const Operation& o : kOperations)
    for (const Mode& m : kModes)
      for (bool ftz : {false, true}) {
        std::string op = std::string(o.name) + "." + m.name + (ftz ? ".ftz.f32" : ".f32");
        auto expected = [&](uint64_t a, uint64_t b, uint64_t c) {
          auto in = [&](uint64_t x) { return ftz ? flush(f32(x)) : f32(x); };
          float r = in_mode<float>(m.host, o.f, in(a), in(b), in(c));
          if (ftz && tiny(m.host, in_mode<double>(m.host, o.d, in(a), in(b), in(c))))
            r = std::copysign(0.0f, r);
          return bits(ftz ? flush(r) : r);
        };
        if (o.operands == 1)
          check_op1(op + " d, a;", "b32", "b32", v, [&](uint64_t a) { return expected(a, 0, 0); });
        if (o.operands == 2)
          check_op2(op + " d, a, b;", "b32", "b32", "b32", v, v,
                    [&](uint64_t a, uint64_t b) { return expected(a, b, 0); });
        if (o.operands == 3)
          check_op3(op + " d, a, b, c;", "b32", "b32", "b32", "b32", few, few, v, expected);
      }
  auto sat = [](float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; };
  check_op2("add.sat.f32 d, a, b;", "b32", "b32", "b32", v, v,
            [&](uint64_t a, uint64_t b) { return bits(sat(f32(a) + f32(b))); });
  check_op3("fma.rn.sat.f32 d, a, b, c;", "b32", "b32", "b32", "b32", few, few, v,
            [&](uint64_t a, uint64_t b, uint64_t c) {
              return bits(sat(std::fma(f32(a), f32(b), f32(c))));
            });
  check_op2("mul.f32 d, a, 0f40490FDB; add.f32 d, d, b;", "f32", "f32", "f32", v, v,
            [&](uint64_t a, uint64_t b) { return bits(f32(a) * f32(0x40490FDB) + f32(b)); });
}

TEST_CASE("f64 arithmetic in every rounding mode", "[virtual]") {
  Column v = floats64(30), few = floats64(6);
  for (const Operation& o : kOperations)
    for (const Mode& m : kModes) {
      std::string op = std::string(o.name) + "." + m.name + ".f64";
      Column a, b, c;
      cross(o.operands == 3 ? few : v,
            o.operands == 1   ? Column{0}
            : o.operands == 3 ? few
                              : v,
            a, b);
      for (size_t i = 0; i < a.size(); ++i) c.push_back(v[(7 * i + 3) % v.size()]);
      std::string text = op + (o.operands == 1   ? " d, a;"
                               : o.operands == 2 ? " d, a, b;"
                                                 : " d, a, b, c;");
      Column out = run_op(text, "b64", {"b64", "b64", "b64"}, {a, b, c});
      for (size_t i = 0; i < a.size(); ++i) {
        uint64_t want = bits(in_mode<double>(m.host, o.d, f64(a[i]), f64(b[i]), f64(c[i])));
        if (one_nan(out[i]) == want) continue;
        INFO(text << std::hex << " 0x" << a[i] << " 0x" << b[i] << " 0x" << c[i]);
        REQUIRE(one_nan(out[i]) == want);
      }
    }
}

TEST_CASE("packed f32x2 and mixed precision", "[virtual]") {
  Column v, w;
  for (uint64_t a : floats32(10))
    for (uint64_t b : floats32(2)) {
      v.push_back(a << 32 | b);
      w.push_back(b << 32 | a);
    }
  auto pairs = [](auto f) {
    return [f](uint64_t a, uint64_t b) {
      return bits(f(f32(a >> 32), f32(b >> 32))) << 32 | bits(f(f32(a), f32(b)));
    };
  };
  check_op2("add.rn.f32x2 d, a, b;", "b64", "b64", "b64", v, {w.begin(), w.begin() + 60},
            pairs([](float a, float b) { return a + b; }));
  check_op2("fma.rn.ftz.f32x2 d, a, b, a;", "b64", "b64", "b64", v, {w.begin(), w.begin() + 60},
            pairs([](float a, float b) { return flush(std::fma(flush(a), flush(b), flush(a))); }));
  check_op2("mul.rz.f32x2 d, a, b;", "b64", "b64", "b64", v, {w.begin(), w.begin() + 60},
            pairs([](float a, float b) {
              return in_mode<float>(
                  FE_TOWARDZERO, [](float x, float y, float) { return x * y; }, a, b, 0.0f);
            }));
  Column h = halves(), f = floats32();
  check_op2("add.f32.bf16 d, a, b;", "b32", "b16", "b32", h, f,
            [](uint64_t a, uint64_t b) { return bits(num::bf16_to_f32(uint16_t(a)) + f32(b)); });
  check_op3("fma.rn.f32.f16 d, a, b, c;", "b32", "b16", "b16", "b32", h, h, f,
            [](uint64_t a, uint64_t b, uint64_t c) {
              return bits(
                  std::fma(num::f16_to_f32(uint16_t(a)), num::f16_to_f32(uint16_t(b)), f32(c)));
            });
}

TEST_CASE("float sign, minimum, maximum, testp", "[virtual]") {
  Column v = floats32(30), few = floats32(4), g = floats64(10);
  check_op1("abs.f32 d, a;", "b32", "b32", v, [](uint64_t a) { return bits(std::fabs(f32(a))); });
  check_op1("neg.f32 d, a;", "b32", "b32", v, [](uint64_t a) { return bits(-f32(a)); });
  check_op1("neg.f64 d, a;", "b64", "b64", g, [&](uint64_t a) { return a ^ (1ull << 63); });
  check_op2("copysign.f32 d, a, b;", "b32", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) { return (a & 0x80000000) | (b & 0x7FFFFFFF); });
  // Order of all values that are no NaN, with -0 before +0.
  auto key = [](uint64_t x) {
    return int64_t(x & 0x80000000 ? -int64_t(x & 0x7FFFFFFF) - 1 : int64_t(x));
  };
  auto is_nan = [](uint64_t x) { return (x & 0x7FFFFFFF) > 0x7F800000; };
  auto pick = [&](uint64_t a, uint64_t b, bool max, bool nan) -> uint64_t {
    if (is_nan(a) || is_nan(b))
      return nan || (is_nan(a) && is_nan(b)) ? 0x7FFFFFFF : is_nan(a) ? b : a;
    return (key(a) < key(b)) != max ? a : b;
  };
  for (bool max : {false, true})
    for (bool nan : {false, true}) {
      std::string op = std::string(max ? "max" : "min") + (nan ? ".NaN" : "");
      check_op2(op + ".f32 d, a, b;", "b32", "b32", "b32", v, v,
                [&](uint64_t a, uint64_t b) { return pick(a, b, max, nan); });
      check_op2(op + ".xorsign.abs.f32 d, a, b;", "b32", "b32", "b32", v, v,
                [&](uint64_t a, uint64_t b) {
                  uint64_t r = pick(a & 0x7FFFFFFF, b & 0x7FFFFFFF, max, nan);
                  return is_nan(r) ? 0x7FFFFFFF : r | ((a ^ b) & 0x80000000);
                });
      check_op3(op + ".f32 d, a, b, c;", "b32", "b32", "b32", "b32", v, few, few,
                [&](uint64_t a, uint64_t b, uint64_t c) {
                  return pick(pick(a, b, max, nan), c, max, nan);
                });
    }
  auto test = [&](const std::string& p, auto f) {
    check_op1("testp." + p + ".f32 d, a;", "pred", "b32", v, [&](uint64_t a) { return f(f32(a)); });
  };
  test("finite", [](float x) { return std::isfinite(x); });
  test("infinite", [](float x) { return std::isinf(x); });
  test("number", [](float x) { return !std::isnan(x); });
  test("notanumber", [](float x) { return std::isnan(x); });
  test("normal", [](float x) { return std::isnormal(x) || x == 0; });
  test("subnormal", [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; });
}

TEST_CASE("approximate functions", "[virtual]") {
  Column v = floats32(200);
  // Within the ISA's error bounds, and exact on its tables of special values.
  auto close = [&](const std::string& op, auto f, double relative, double absolute, bool ftz) {
    Column out = run_op(op + " d, a;", "b32", {"b32"}, {v});
    for (size_t i = 0; i < v.size(); ++i) {
      float x = ftz ? flush(f32(v[i])) : f32(v[i]);
      double want = f(double(x));
      float got = f32(out[i]);
      INFO(op << "(" << x << ") = " << got << ", want " << want);
      if (want != want) {
        REQUIRE(out[i] == 0x7FFFFFFF);
      } else if (std::isinf(want) || std::fabs(want) > 3.5e38) {
        REQUIRE(got == float(want));
      } else if (ftz && std::fabs(want) < 0x1p-126) {
        REQUIRE(got == 0);
        REQUIRE(std::signbit(got) == std::signbit(want));
      } else {
        REQUIRE(std::fabs(double(got) - want) <= relative * std::fabs(want) + absolute + 0x1p-149);
      }
    }
  };
  auto log2 = [](double x) { return x < 0 ? std::nan("") : std::log2(x); };
  close(
      "ex2.approx.ftz.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0, true);
  close(
      "ex2.approx.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0, false);
  close("lg2.approx.f32", log2, 0x1p-22, 0x1p-22, false);
  close("lg2.approx.ftz.f32", log2, 0x1p-22, 0x1p-22, true);
  close(
      "rcp.approx.ftz.f32", [](double x) { return 1 / x; }, 0x1p-23, 0, true);
  close(
      "rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, 0x1p-22, 0, false);
  close(
      "sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 0x1p-23, 0, false);
  close(
      "tanh.approx.f32", [](double x) { return std::tanh(x); }, 0x1p-11, 0, false);
  close(
      "sin.approx.f32", [](double x) { return std::isinf(x) ? std::nan("") : std::sin(x); }, 0,
      0x1p-20, false);
  close(
      "cos.approx.ftz.f32", [](double x) { return std::isinf(x) ? std::nan("") : std::cos(x); }, 0,
      0x1p-20, true);
  // 9.7.3.8: beyond 2^126 the reciprocal is zero.
  Column big = {0x7F000000, 0xFF000001};
  check_op2("div.approx.f32 d, a, b;", "b32", "b32", "b32", {0x3F800000, 0x7F800000, 0xC0000000},
            big, [](uint64_t a, uint64_t b) {
              if (a == 0x7F800000) return 0x7FFFFFFFull;
              return (a ^ b) & 0x80000000ull;
            });
}

TEST_CASE("half precision", "[virtual]") {
  struct Half {
    const char* name;
    num::Format format;
    float (*get)(uint16_t);
  };
  const Half formats[] = {
      {"f16", num::Format::f16, [](uint16_t v) { return num::f16_to_f32(v); }},
      {"bf16", num::Format::bf16, [](uint16_t v) { return num::bf16_to_f32(v); }}};
  Column v = halves(60), few = halves(8), pairs;
  for (size_t i = 0; i < v.size(); ++i) pairs.push_back(v[i] << 16 | v[(i * 7 + 5) % v.size()]);
  for (const Half& h : formats) {
    std::string t = h.name;
    auto get = [&](uint64_t x) { return (long double)h.get(uint16_t(x)); };
    // The encoder takes a double: bits beyond it are kept as a sticky last bit.
    auto put = [&](long double x, long double rest = 0) -> uint64_t {
      double d = double(x);
      long double beyond = (x - (long double)d) + rest;
      if (std::isfinite(d) && beyond != 0 && (std::bit_cast<uint64_t>(d) & 1) == 0)
        d = std::nextafter(d, beyond > 0 ? INFINITY : -INFINITY);
      return num::encode(h.format, d);
    };
    auto fused = [&](long double a, long double b, long double c) {
      long double p = a * b, sum = p + c;
      if (!std::isfinite(sum)) return put(sum);
      long double t = sum - p;
      return put(sum, (p - (sum - t)) + (c - t));
    };
    auto op2 = [&](const std::string& op, auto f) {
      check_op2(op + "." + t + " d, a, b;", "b16", "b16", "b16", v, v,
                [&](uint64_t a, uint64_t b) { return put(f(get(a), get(b))); });
      check_op2(op + "." + t + "x2 d, a, b;", "b32", "b32", "b32", pairs, pairs,
                [&](uint64_t a, uint64_t b) {
                  return put(f(get(a >> 16), get(b >> 16))) << 16 | put(f(get(a), get(b)));
                });
    };
    op2("add", [](long double a, long double b) { return a + b; });
    op2("sub.rn", [](long double a, long double b) { return a - b; });
    op2("mul", [](long double a, long double b) { return a * b; });
    check_op3("fma.rn." + t + " d, a, b, c;", "b16", "b16", "b16", "b16", v, few, few,
              [&](uint64_t a, uint64_t b, uint64_t c) { return fused(get(a), get(b), get(c)); });
    check_op3("fma.rn.relu." + t + " d, a, b, c;", "b16", "b16", "b16", "b16", few, few, few,
              [&](uint64_t a, uint64_t b, uint64_t c) {
                uint64_t r = fused(get(a), get(b), get(c));
                return r & 0x8000 && r != 0xFFFF ? 0 : r;
              });
    // .oob: what a tensor copy fills in with NaN counts as nothing, sum included.
    Column filled = few;
    filled.push_back(0x7FF7);
    check_op3("fma.rn.oob.relu." + t + " d, a, b, c;", "b16", "b16", "b16", "b16", filled, filled,
              few, [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                if (a == 0x7FF7 || b == 0x7FF7) return 0;
                uint64_t r = fused(get(a), get(b), get(c));
                return r & 0x8000 && r != 0xFFFF ? 0 : r;
              });
    check_op3("fma.rn.oob." + t + "x2 d, a, b, c;", "b32", "b32", "b32", "b32",
              {0x7FF73C00, 0x3C007FF7}, {0x3C003C00}, {0x3C003C00},
              [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
                uint64_t sum = fused(get(0x3C00), get(0x3C00), get(0x3C00));
                return a >> 16 == 0x7FF7 ? sum : sum << 16;
              });
    auto nan = [&](uint64_t x) { return get(x) != get(x); };
    check_op2("max.NaN." + t + " d, a, b;", "b16", "b16", "b16", v, v,
              [&](uint64_t a, uint64_t b) -> uint64_t {
                if (nan(a) || nan(b)) return 0x7FFF;
                if (get(a) == get(b)) return a & 0x8000 ? b : a;
                return get(a) > get(b) ? a : b;
              });
    check_op2("min." + t + "x2 d, a, b;", "b32", "b32", "b32", pairs, pairs,
              [&](uint64_t a, uint64_t b) {
                auto one = [&](uint64_t x, uint64_t y) -> uint64_t {
                  if (nan(x) || nan(y)) return nan(x) && nan(y) ? 0x7FFF : nan(x) ? y : x;
                  if (get(x) == get(y)) return x & 0x8000 ? x : y;
                  return get(x) < get(y) ? x : y;
                };
                return one(a >> 16, b >> 16) << 16 | one(a & 0xFFFF, b & 0xFFFF);
              });
    check_op1("neg." + t + "x2 d, a;", "b32", "b32", pairs, [&](uint64_t a) -> uint64_t {
      auto one = [&](uint64_t x) { return t == "f16" && nan(x) ? 0x7FFF : x ^ 0x8000; };
      return one(a >> 16) << 16 | one(a & 0xFFFF);
    });
    check_op2("setp.ltu." + t + " d, a, b;", "pred", "b16", "b16", v, v,
              [&](uint64_t a, uint64_t b) { return !(get(a) >= get(b)); });
    check_op2(".reg .pred p; setp.gt." + t + "x2 p|d, a, b;", "pred", "b32", "b32", pairs, pairs,
              [&](uint64_t a, uint64_t b) { return get(a >> 16) > get(b >> 16); });
  }
  auto get = [](uint64_t x) { return num::f16_to_f32(uint16_t(x)); };
  check_op2("add.sat.f16 d, a, b;", "b16", "b16", "b16", v, v,
            [&](uint64_t a, uint64_t b) -> uint64_t {
              float s = get(a) + get(b);
              return num::f32_to_f16(s > 0 ? std::min(s, 1.0f) : 0.0f);
            });
  check_op2("mul.ftz.f16 d, a, b;", "b16", "b16", "b16", v, v,
            [&](uint64_t a, uint64_t b) -> uint64_t {
              auto z = [](uint64_t x) { return x & 0x7C00 ? x : x & 0x8000; };
              return z(num::f32_to_f16(get(z(a)) * get(z(b))));
            });
  check_op1("ex2.approx.f16 d, a;", "b16", "b16", v, [&](uint64_t a) -> uint64_t {
    return num::encode(num::Format::f16, std::exp2(double(get(a))));
  });
}
