// mov, prmt and cvt against plain C++.
#include "tests/virtual/lane_ops.hpp"
#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>

namespace {

using namespace lane_ops;
namespace num = vgpu::num;
using num::Format;
__extension__ typedef __int128 Wide;

struct Type {
  std::string name;
  uint32_t bits;
  bool is_signed;
  std::string reg() const { return bits == 8 ? "b16" : "b" + std::to_string(bits); }
};
const std::vector<Type> kIntegers = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                                     {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                                     {"u64", 64, false}, {"s64", 64, true}};
struct Mode {
  const char* name;
  int host;
};
const Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

Wide number(uint64_t x, const Type& t) {
  if (t.bits < 64) x &= (1ull << t.bits) - 1;
  if (t.is_signed && t.bits < 64 && x >> (t.bits - 1)) return Wide(x) - (Wide(1) << t.bits);
  return t.is_signed && t.bits == 64 ? Wide(int64_t(x)) : Wide(x);
}
uint64_t low(Wide v, uint32_t bits) {
  return bits >= 64 ? uint64_t(v) : uint64_t(v) & ((1ull << bits) - 1);
}
float f32(uint64_t v) { return std::bit_cast<float>(uint32_t(v)); }
double f64(uint64_t v) { return std::bit_cast<double>(v); }
uint64_t bits32(float v) { return v != v ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(v); }

Wide smallest(const Type& t) { return t.is_signed ? -(Wide(1) << (t.bits - 1)) : Wide(0); }
Wide largest(const Type& t) {
  return t.is_signed ? (Wide(1) << (t.bits - 1)) - 1 : (Wide(1) << t.bits) - 1;
}

} // namespace

TEST_CASE("integer conversions", "[virtual]") {
  for (const Type& from : kIntegers)
    for (const Type& to : kIntegers) {
      Column v = integers(from.bits);
      // An 8-bit destination lies in a 16-bit register: extended by its sign (9.4.1).
      auto in_register = [&](Wide x) {
        x = number(low(x, to.bits), to);
        return low(x, std::max(16u, to.bits));
      };
      check_op1("cvt." + to.name + "." + from.name + " d, a;", to.reg(), from.reg(), v,
                [&](uint64_t a) { return in_register(number(a, from)); });
      if (smallest(to) > smallest(from) || largest(to) < largest(from))
        check_op1("cvt.sat." + to.name + "." + from.name + " d, a;", to.reg(), from.reg(), v,
                  [&](uint64_t a) {
                    return in_register(std::clamp(number(a, from), smallest(to), largest(to)));
                  });
    }
  // Wider registers than types.
  check_op1("cvt.s32.s16 d, a;", "b64", "b64", integers(64),
            [](uint64_t a) { return uint64_t(int64_t(int16_t(a))); });
  check_op1("cvt.u16.s8 d, a;", "b32", "b64", integers(64),
            [](uint64_t a) { return uint64_t(uint16_t(int8_t(a))); });
  check_op1("cvt.s8.u32 d, a;", "b32", "b32", integers(32),
            [](uint64_t a) { return uint64_t(uint32_t(int32_t(int8_t(a)))); });
}

TEST_CASE("conversions from integer to float", "[virtual]") {
  for (const Type& from : kIntegers)
    for (const Mode& m : kModes) {
      Column v = integers(from.bits, 80);
      std::string op = std::string("cvt.") + m.name;
      auto f = [&](auto zero, uint64_t a) {
        volatile decltype(zero) r;
        std::fesetround(m.host);
        if (from.is_signed) {
          volatile int64_t x = int64_t(number(a, from));
          r = decltype(zero)(x);
        } else if (from.bits < 64 || !(a >> 63)) {
          volatile int64_t x = int64_t(a);
          r = decltype(zero)(x);
        } else {
          // Half the value with a sticky bit, doubled: exact in every mode.
          volatile int64_t x = int64_t(a >> 1 | (a & 1));
          r = decltype(zero)(x);
          r = r * 2;
        }
        std::fesetround(FE_TONEAREST);
        return r;
      };
      check_op1(op + ".f32." + from.name + " d, a;", "b32", from.reg(), v,
                [&](uint64_t a) { return bits32(f(0.0f, a)); });
      check_op1(op + ".f64." + from.name + " d, a;", "b64", from.reg(), v,
                [&](uint64_t a) { return std::bit_cast<uint64_t>(double(f(0.0, a))); });
      if (from.bits <= 32)
        check_op1(op + ".f16." + from.name + " d, a;", "b16", from.reg(), v, [&](uint64_t a) {
          return num::encode(Format::f16, double(int64_t(number(a, from))),
                             {num::Rounding(&m - kModes), false, false});
        });
    }
}

TEST_CASE("conversions from float to integer", "[virtual]") {
  Column single = floats32(120), wide = floats64(120);
  for (double x : {2147483647.5, -2147483648.5, 255.5, -0.5, 1e10, 9.3e18, -9.3e18, 1.9e19})
    wide.push_back(std::bit_cast<uint64_t>(x));
  for (const Type& to : kIntegers)
    for (const Mode& m : kModes) {
      auto convert = [&](double x, bool from_f64) -> uint64_t {
        if (x != x) return from_f64 || to.bits == 64 ? 1ull << (to.bits - 1) : 0;
        std::fesetround(m.host);
        volatile double y = x, r = std::nearbyint(y);
        std::fesetround(FE_TONEAREST);
        if (r >= 1.8446744073709552e19) return low(largest(to), to.bits);
        if (r <= -1.8446744073709552e19) return low(smallest(to), to.bits);
        return low(std::clamp(Wide(r), smallest(to), largest(to)), to.bits);
      };
      auto in_register = [&](uint64_t x) { return low(number(x, to), std::max(16u, to.bits)); };
      std::string op = std::string("cvt.") + m.name + "i." + to.name;
      check_op1(op + ".f32 d, a;", to.reg(), "b32", single,
                [&](uint64_t a) { return in_register(convert(f32(a), false)); });
      check_op1(op + ".f64 d, a;", to.reg(), "b64", wide,
                [&](uint64_t a) { return in_register(convert(f64(a), true)); });
      check_op1(op + ".f16 d, a;", to.reg(), "b16", halves(), [&](uint64_t a) {
        return in_register(convert(num::f16_to_f32(uint16_t(a)), false));
      });
    }
}

TEST_CASE("conversions between floats", "[virtual]") {
  Column v = floats32(200), g = floats64(200), h = halves(100);
  for (double x :
       {1e-45, 1e-40, -3e38, 3.4028235677973366e38, 1e39, 65519.0, 65520.0, 2.98e-8, 6.1e-5})
    for (double s : {1.0, -1.0}) g.push_back(std::bit_cast<uint64_t>(x * s));
  for (const Mode& m : kModes) {
    num::Rounding r = num::Rounding(&m - kModes);
    std::string op = std::string("cvt.") + m.name;
    check_op1(op + ".f32.f64 d, a;", "b32", "b64", g, [&](uint64_t a) {
      std::fesetround(m.host);
      volatile double x = f64(a);
      volatile float y = float(x);
      std::fesetround(FE_TONEAREST);
      return bits32(y);
    });
    check_op1(op + ".f16.f32 d, a;", "b16", "b32", v, [&](uint64_t a) {
      return num::encode(Format::f16, f32(a), {r, false, false});
    });
    check_op1(op + ".bf16.f32 d, a;", "b16", "b32", v, [&](uint64_t a) {
      return num::encode(Format::bf16, f32(a), {r, false, false});
    });
    check_op1(op + ".f16.f64 d, a;", "b16", "b64", g, [&](uint64_t a) {
      return num::encode(Format::f16, f64(a), {r, false, false});
    });
    check_op1(op + "i.f32.f32 d, a;", "b32", "b32", v, [&](uint64_t a) {
      std::fesetround(m.host);
      volatile float x = f32(a), y = std::nearbyint(x);
      std::fesetround(FE_TONEAREST);
      return bits32(y);
    });
  }
  check_op1("cvt.f32.f16 d, a;", "b32", "b16", h,
            [](uint64_t a) { return bits32(num::f16_to_f32(uint16_t(a))); });
  check_op1("cvt.f64.f32 d, a; add.f64 d, d, 0d0000000000000000;", "b64", "b32",
            {0x3F800000, 0x00000001, 0xFF800000},
            [](uint64_t a) { return std::bit_cast<uint64_t>(double(f32(a))); });
  check_op1("cvt.sat.f32.f32 d, a;", "b32", "b32", v, [](uint64_t a) {
    float x = f32(a);
    return bits32(x > 0 ? std::min(x, 1.0f) : 0.0f);
  });
  check_op1("cvt.rn.relu.f16.f32 d, a;", "b16", "b32", v, [](uint64_t a) {
    return num::encode(Format::f16, f32(a), {num::Rounding::rn, false, true});
  });
  // NaN as an H200 converts it.
  for (bool satfinite : {false, true})
    check_op1(satfinite ? "cvt.rna.satfinite.tf32.f32 d, a;" : "cvt.rna.tf32.f32 d, a;", "b32",
              "b32", v, [&](uint64_t a) {
                if ((a & 0x7FFFFFFF) > 0x7F800000)
                  return (uint32_t(a) & 0xFFFFE000u) - (satfinite ? 0x2000u : 0u);
                return num::encode(Format::tf32, f32(a), {num::Rounding::rna, satfinite, false});
              });
  check_op1("cvt.f64.f16 d, a;", "b64", "b16", {0x7C01, 0xFE01, 0x7FFF, 0x3C00}, [](uint64_t a) {
    if ((a & 0x7FFF) <= 0x7C00) return uint64_t(0x3FF0000000000000);
    return (a & 0x8000) << 48 | uint64_t(0x7FF8000000000000) | (a & 0x3FF) << 42;
  });
  // A result that rounds to the least normal number but was smaller is flushed.
  check_op1("cvt.rn.ftz.f32.f64 d, a;", "b32", "b64",
            {0x3810000000000000, 0x380FFFFFE0000000, 0x380FFFFFF0000000, 0xB80FFFFFE0000000},
            [](uint64_t a) {
              bool flushed = (a & 0xFFFFFFFF) == 0xE0000000;
              return (a >> 32 & 0x80000000) | (flushed ? 0u : 0x00800000u);
            });
}

TEST_CASE("half and bfloat16 round to nearest where nothing is said", "[virtual]") {
  const Column all = integers(16, 3000);
  check_op1("cvt.bf16.f16 d, a;", "b16", "b16", all, [](uint64_t a) {
    return num::encode(Format::bf16, num::decode(Format::f16, uint32_t(a)), {});
  });
  check_op1("cvt.f16.bf16 d, a;", "b16", "b16", all, [](uint64_t a) {
    return num::encode(Format::f16, num::decode(Format::bf16, uint32_t(a)), {});
  });
}

TEST_CASE("packed conversions", "[virtual]") {
  Column v = floats32(60);
  for (double x :
       {448.0, 464.0, 480.0, 57344.0, 61440.0, 6.0, 5.0, 0.25, 0.75, 7.5, 28.0, 0.015625, 1e-3})
    for (double s : {1.0, -1.0}) v.push_back(std::bit_cast<uint32_t>(float(x * s)));
  struct Narrow {
    const char* name;
    Format format;
    uint32_t place;
    const char* reg;
  };
  const Narrow narrow[] = {{"e4m3x2", Format::e4m3, 8, "b16"},
                           {"e5m2x2", Format::e5m2, 8, "b16"},
                           {"e2m3x2", Format::e2m3, 8, "b16"},
                           {"e3m2x2", Format::e3m2, 8, "b16"},
                           {"e2m1x2", Format::e2m1, 4, "b8"}};
  for (const Narrow& n : narrow) {
    // a goes to the upper half, b to the lower.
    for (bool relu : {false, true})
      check_op2(
          std::string("cvt.rn.satfinite") + (relu ? ".relu." : ".") + n.name + ".f32 d, a, b;",
          n.reg, "b32", "b32", v, {v.begin(), v.begin() + 30}, [&](uint64_t a, uint64_t b) {
            num::EncodeOptions o{num::Rounding::rn, true, relu};
            return num::encode(n.format, f32(a), o) << n.place | num::encode(n.format, f32(b), o);
          });
    Column codes;
    for (uint64_t c = 0; c < (n.place == 4 ? 256u : 65536u); c += n.place == 4 ? 1 : 61)
      codes.push_back(c);
    if (n.format == Format::e2m3 || n.format == Format::e3m2)
      for (uint64_t& c : codes) c &= 0x3F3F;
    check_op1(
        std::string("cvt.rn.f16x2.") + n.name + " d, a;", "b32", n.reg, codes, [&](uint64_t c) {
          uint32_t mask = (1u << n.place) - 1;
          return uint32_t(num::f32_to_f16(num::decode(n.format, uint32_t(c >> n.place & mask))))
                     << 16 |
                 num::f32_to_f16(num::decode(n.format, uint32_t(c & mask)));
        });
  }
  for (std::string t : {"f16x2", "bf16x2"}) {
    Format f = t == "f16x2" ? Format::f16 : Format::bf16;
    check_op2("cvt.rn." + t + ".f32 d, a, b;", "b32", "b32", "b32", v, v,
              [&](uint64_t a, uint64_t b) {
                return num::encode(f, f32(a)) << 16 | num::encode(f, f32(b));
              });
    check_op2("cvt.rz.relu.satfinite." + t + ".f32 d, a, b;", "b32", "b32", "b32", v,
              {v.begin(), v.begin() + 9}, [&](uint64_t a, uint64_t b) {
                num::EncodeOptions o{num::Rounding::rz, true, true};
                return num::encode(f, f32(a), o) << 16 | num::encode(f, f32(b), o);
              });
  }
  check_op2("cvt.rp.satfinite.ue8m0x2.f32 d, a, b;", "b16", "b32", "b32", v,
            {v.begin(), v.begin() + 9}, [](uint64_t a, uint64_t b) {
              num::EncodeOptions o{num::Rounding::rp, true, false};
              return num::encode(Format::ue8m0, f32(a), o) << 8 |
                     num::encode(Format::ue8m0, f32(b), o);
            });
  Column all;
  for (uint64_t c = 0; c < 65536; c += 37) all.push_back(c);
  // 2^(code - 127) in bf16: the exponent field, one below it for code 0, NaN for 255.
  check_op1("cvt.rn.bf16x2.ue8m0x2 d, a;", "b32", "b16", all, [](uint64_t c) {
    auto one = [](uint64_t e) { return e == 255 ? 0x7FFFu : e == 0 ? 0x0040u : uint32_t(e) << 7; };
    return one(c >> 8) << 16 | one(c & 255);
  });
  // Fixed point: a byte counts 64ths, a scale code is the exponent of 2 plus 127. Fields of bf16
  // put together by hand.
  auto fixed = [](uint64_t byte, uint64_t code) -> uint32_t {
    if (code == 255) return 0x7FFF;
    const int v = int8_t(byte);
    return std::bit_cast<uint32_t>(std::ldexp(float(v), int(code) - 127 - 6)) >> 16;
  };
  check_op1("cvt.rn.bf16x2.s2f6x2 d, a;", "b32", "b16", all,
            [&](uint64_t a) { return fixed(a >> 8, 127) << 16 | fixed(a & 255, 127); });
  check_op2("cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2 d, a, b;", "b32", "b16", "b16", all,
            {0x7F80, 0x0A7E, 0xFE0B, 0xFF70}, [&](uint64_t a, uint64_t b) {
              return fixed(a >> 8, b >> 8) << 16 | fixed(a & 255, b & 255);
            });
  check_op2("cvt.rn.satfinite.relu.scaled::n2::ue8m0.bf16x2.s2f6x2 d, a, b;", "b32", "b16", "b16",
            {0x80FF, 0x7F01, 0x4040}, {0xFE7F}, [&](uint64_t a, uint64_t) {
              return (a == 0x7F01   ? 0x7F7Eu
                      : a == 0x4040 ? fixed(0x40, 0xFE)
                                    : 0)
                         << 16 |
                     (a == 0x80FF ? 0 : fixed(a & 255, 127));
            });
  check_op2("cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.s2f6x2 d, a, b;", "b32", "b16", "b16",
            {0x8040}, {0xFE7F}, [&](uint64_t, uint64_t) { return uint64_t(0xFF7F3F80); });
  // Stochastic rounding: the carry of random bits plus the 13 bits that f16 cuts off.
  check_op3("cvt.rs.f16x2.f32 d, a, b, c;", "b32", "b32", "b32", "b32",
            {0x3F801000, 0x3F800FFF, 0xBF801FFF, 0x40490FDB}, {0x3F800000, 0x42F6E979},
            {0, 0x0FFF1000, 0x1FFF1FFF, 0x10011001}, [](uint64_t a, uint64_t b, uint64_t r) {
              auto one = [](uint64_t x, uint64_t random) {
                uint64_t cut = x & 0x1FFF,
                         kept = (x & ~0x1FFFull) + (cut + random > 0x1FFF ? 0x2000 : 0);
                return uint64_t(num::f32_to_f16(f32(kept)));
              };
              return one(a, r >> 16 & 0x1FFF) << 16 | one(b, r & 0x1FFF);
            });
  // .relu leaves nothing of a negative value that a carry could round up.
  check_op3("cvt.rs.relu.f16x2.f32 d, a, b, c;", "b32", "b32", "b32", "b32",
            {0xBF801FFF, 0xF1000000, 0x80000001}, {0x3F800000}, {0, 0x1FFF1FFF},
            [](uint64_t, uint64_t, uint64_t) { return uint64_t(0x3C00); });
}

TEST_CASE("moves, packing, permutation", "[virtual]") {
  Column v = integers(32, 20), w = integers(64, 10), h = integers(16, 10);
  check_op2("mov.b32 d, {a, b};", "b32", "b16", "b16", h, h,
            [](uint64_t a, uint64_t b) { return b << 16 | a; });
  check_op2("mov.b64 d, {a, b};", "b64", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) { return b << 32 | a; });
  check_op2("mov.b64 d, {a, b, b, a};", "b64", "b16", "b16", h, h,
            [](uint64_t a, uint64_t b) { return a << 48 | b << 32 | b << 16 | a; });
  check_op2(".reg .b128 q; .reg .b64 x; mov.b128 q, {a, b}; mov.b128 {x, d}, q; xor.b64 d, d, x;",
            "b64", "b64", "b64", w, w, [](uint64_t a, uint64_t b) { return a ^ b; });
  check_op1(".reg .b16 x, y; mov.b32 {x, y}, a; mov.b32 d, {y, x};", "b32", "b32", v,
            [](uint64_t a) { return (a << 16 | a >> 16) & 0xFFFFFFFF; });
  check_op1("mov.b64 {d, _}, a;", "b32", "b64", w, [](uint64_t a) { return a & 0xFFFFFFFF; });
  check_op1(
      ".reg .b8 p, q, r, s; cvt.u8.u32 p, a; mov.b32 {p, q, r, s}, a; mov.b32 d, {s, r, q, p};",
      "b32", "b32", v, [](uint64_t a) { return __builtin_bswap32(uint32_t(a)); });
  check_op2(".reg .b32 x; mov.v2.b32 {x, d}, {a, b}; mov.v2.b32 {x, d}, {d, x};", "b32", "b32",
            "b32", v, v, [](uint64_t a, uint64_t) { return a; });
  auto byte = [](uint64_t a, uint64_t b, uint32_t k) { return (b << 32 | a) >> (8 * k) & 255; };
  check_op3("prmt.b32 d, a, b, c;", "b32", "b32", "b32", "b32", v, {v.begin(), v.begin() + 8},
            {0x3210, 0x7654, 0xFEDC, 0x0123, 0x89AB, 0x5140},
            [&](uint64_t a, uint64_t b, uint64_t c) {
              uint64_t d = 0;
              for (int k = 0; k < 4; ++k) {
                uint64_t s = c >> (4 * k) & 15, x = byte(a, b, s & 7);
                d |= (s & 8 ? (x & 128 ? 255 : 0) : x) << (8 * k);
              }
              return d;
            });
  auto mode = [&](const std::string& m, auto source) {
    check_op3("prmt.b32." + m + " d, a, b, c;", "b32", "b32", "b32", "b32", v,
              {v.begin(), v.begin() + 8}, {0, 1, 2, 3, 7}, [&](uint64_t a, uint64_t b, uint64_t c) {
                uint64_t d = 0;
                for (uint32_t k = 0; k < 4; ++k)
                  d |= byte(a, b, source(uint32_t(c & 3), k)) << (8 * k);
                return d;
              });
  };
  mode("f4e", [](uint32_t c, uint32_t k) { return c + k; });
  mode("b4e", [](uint32_t c, uint32_t k) { return (c + 8 - k) % 8; });
  mode("rc8", [](uint32_t c, uint32_t) { return c; });
  mode("ecl", [](uint32_t c, uint32_t k) { return std::max(c, k); });
  mode("ecr", [](uint32_t c, uint32_t k) { return std::min(c, k); });
  mode("rc16", [](uint32_t c, uint32_t k) { return (c & 1) * 2 + (k & 1); });
  check_op2("cvt.pack.sat.s16.s32 d, a, b;", "b32", "b32", "b32", v, v, [](uint64_t a, uint64_t b) {
    auto c = [](uint64_t x) { return uint64_t(uint16_t(std::clamp(int32_t(x), -32768, 32767))); };
    return c(a) << 16 | c(b);
  });
  check_op2("cvt.pack.sat.u8.s32.b32 d, a, b, 0x12345678;", "b32", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) {
              auto c = [](uint64_t x) { return uint64_t(std::clamp(int32_t(x), 0, 255)); };
              return (0x5678ull << 16 | c(a) << 8 | c(b)) & 0xFFFFFFFF;
            });
  // Two reads of the clock differ, and time moves on.
  check_op1(".reg .b64 x, y; mov.u64 x, %clock64; mov.u64 y, %clock64; setp.lt.u64 d, x, y;",
            "pred", "b32", v, [](uint64_t) { return 1; });
}
