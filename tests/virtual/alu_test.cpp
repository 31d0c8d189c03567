// Integer, bit, carry, comparison and selection instructions against plain C++.
#include "tests/virtual/lane_ops.hpp"

#include <algorithm>

namespace {

using namespace lane_ops;
__extension__ typedef __int128 Wide;

// Value of the low bits of x, read as signed or unsigned.
Wide number(uint64_t x, uint32_t bits, bool is_signed) {
  if (bits < 64) x &= (1ull << bits) - 1;
  if (!is_signed) return Wide(x);
  if (bits < 64 && x >> (bits - 1)) return Wide(x) - (Wide(1) << bits);
  return bits == 64 ? Wide(int64_t(x)) : Wide(x);
}
uint64_t low(Wide v, uint32_t bits) {
  return bits == 64 ? uint64_t(v) : uint64_t(v) & ((1ull << bits) - 1);
}

struct Type {
  std::string name;
  uint32_t bits;
  bool is_signed;
  std::string reg() const { return "b" + std::to_string(bits); }
};
const std::vector<Type> kIntegers = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                                     {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};

} // namespace

TEST_CASE("integer arithmetic of two operands", "[virtual]") {
  for (const Type& t : kIntegers) {
    Column v = integers(t.bits);
    auto op2 = [&](const std::string& op, auto f) {
      check_op2(op + "." + t.name + " d, a, b;", t.reg(), t.reg(), t.reg(), v, v,
                [&](uint64_t a, uint64_t b) {
                  return low(f(number(a, t.bits, t.is_signed), number(b, t.bits, t.is_signed)),
                             t.bits);
                });
    };
    op2("add", [](Wide a, Wide b) { return a + b; });
    op2("sub", [](Wide a, Wide b) { return a - b; });
    op2("mul.lo", [](Wide a, Wide b) { return Wide(uint64_t(a) * uint64_t(b)); });
    op2("min", [](Wide a, Wide b) { return std::min(a, b); });
    op2("max", [](Wide a, Wide b) { return std::max(a, b); });
    op2("div", [](Wide a, Wide b) { return b == 0 ? Wide(-1) : a / b; });
    op2("rem", [](Wide a, Wide b) { return b == 0 ? Wide(-1) : a % b; });
    if (t.bits < 64) {
      op2("mul.hi", [&](Wide a, Wide b) { return (a * b) >> t.bits; });
      check_op2("mul.wide." + t.name + " d, a, b;", t.bits == 16 ? "b32" : "b64", t.reg(), t.reg(),
                v, v, [&](uint64_t a, uint64_t b) {
                  return low(number(a, t.bits, t.is_signed) * number(b, t.bits, t.is_signed),
                             2 * t.bits);
                });
    }
  }
}

TEST_CASE("integer multiply-add, absolute difference, saturation", "[virtual]") {
  for (const Type& t : kIntegers) {
    Column v = integers(t.bits, 12);
    auto n = [&](uint64_t x) { return number(x, t.bits, t.is_signed); };
    check_op3("mad.lo." + t.name + " d, a, b, c;", t.reg(), t.reg(), t.reg(), t.reg(), v, v, v,
              [&](uint64_t a, uint64_t b, uint64_t c) { return low(Wide(a * b + c), t.bits); });
    check_op3("sad." + t.name + " d, a, b, c;", t.reg(), t.reg(), t.reg(), t.reg(), v, v, v,
              [&](uint64_t a, uint64_t b, uint64_t c) {
                Wide x = n(a) - n(b);
                return low((x < 0 ? -x : x) + n(c), t.bits);
              });
    if (t.bits == 32)
      check_op3("mad.wide." + t.name + " d, a, b, c;", "b64", "b32", "b32", "b64", v, v,
                integers(64),
                [&](uint64_t a, uint64_t b, uint64_t c) { return uint64_t(n(a) * n(b)) + c; });
    if (t.is_signed) {
      check_op1("abs." + t.name + " d, a;", t.reg(), t.reg(), v,
                [&](uint64_t a) { return low(n(a) < 0 ? -n(a) : n(a), t.bits); });
      check_op1("neg." + t.name + " d, a;", t.reg(), t.reg(), v,
                [&](uint64_t a) { return low(-n(a), t.bits); });
    }
  }
  Column v = integers(32);
  auto sat = [](Wide x) { return low(std::clamp<Wide>(x, INT32_MIN, INT32_MAX), 32); };
  auto n = [](uint64_t x) { return number(x, 32, true); };
  check_op2("add.sat.s32 d, a, b;", "b32", "b32", "b32", v, v,
            [&](uint64_t a, uint64_t b) { return sat(n(a) + n(b)); });
  check_op2("sub.sat.s32 d, a, b;", "b32", "b32", "b32", v, v,
            [&](uint64_t a, uint64_t b) { return sat(n(a) - n(b)); });
  check_op2("min.relu.s32 d, a, b;", "b32", "b32", "b32", v, v, [&](uint64_t a, uint64_t b) {
    return low(std::max<Wide>(std::min(n(a), n(b)), 0), 32);
  });
  auto halves_of = [](uint64_t a, uint64_t b, auto f) {
    return low(f(number(a, 16, true), number(b, 16, true)), 16) |
           low(f(number(a >> 16, 16, true), number(b >> 16, 16, true)), 16) << 16;
  };
  check_op2("add.s16x2 d, a, b;", "b32", "b32", "b32", v, v, [&](uint64_t a, uint64_t b) {
    return halves_of(a, b, [](Wide x, Wide y) { return x + y; });
  });
  check_op2("max.relu.s16x2 d, a, b;", "b32", "b32", "b32", v, v, [&](uint64_t a, uint64_t b) {
    return halves_of(a, b, [](Wide x, Wide y) { return std::max<Wide>({x, y, 0}); });
  });
  check_op2("mul24.hi.s32 d, a, b;", "b32", "b32", "b32", v, v, [&](uint64_t a, uint64_t b) {
    return low((number(a, 24, true) * number(b, 24, true)) >> 16, 32);
  });
  check_op2("mul24.lo.u32 d, a, b;", "b32", "b32", "b32", v, v, [&](uint64_t a, uint64_t b) {
    return low(number(a, 24, false) * number(b, 24, false), 32);
  });
}

TEST_CASE("shifts, logic and bit fields", "[virtual]") {
  for (uint32_t bits : {16u, 32u, 64u}) {
    std::string r = "b" + std::to_string(bits);
    Column v = integers(bits), amounts = {0, 1, 5, bits - 1, bits, bits + 1, 255, 0xFFFFFFFF};
    check_op2("shl." + r + " d, a, b;", r, r, "b32", v, amounts,
              [&](uint64_t a, uint64_t n) { return n >= bits ? 0 : low(Wide(a) << n, bits); });
    for (bool is_signed : {false, true})
      check_op2(std::string("shr.") + (is_signed ? "s" : "u") + std::to_string(bits) + " d, a, b;",
                r, r, "b32", v, amounts, [&](uint64_t a, uint64_t n) {
                  return low(number(a, bits, is_signed) >> std::min<uint64_t>(n, 100), bits);
                });
    check_op2("and." + r + " d, a, b;", r, r, r, v, v,
              [](uint64_t a, uint64_t b) { return a & b; });
    check_op2("or." + r + " d, a, b;", r, r, r, v, v, [](uint64_t a, uint64_t b) { return a | b; });
    check_op2("xor." + r + " d, a, b;", r, r, r, v, v,
              [](uint64_t a, uint64_t b) { return a ^ b; });
    check_op1("not." + r + " d, a;", r, r, v, [&](uint64_t a) { return low(~Wide(a), bits); });
    check_op1("cnot." + r + " d, a;", r, r, v, [](uint64_t a) { return a == 0; });
    if (bits == 16) continue;
    check_op1("popc." + r + " d, a;", "b32", r, v, [](uint64_t a) { return std::popcount(a); });
    check_op1("clz." + r + " d, a;", "b32", r, v,
              [&](uint64_t a) { return std::countl_zero(a) - int(64 - bits); });
    check_op1("brev." + r + " d, a;", r, r, v, [&](uint64_t a) {
      uint64_t x = 0;
      for (uint32_t k = 0; k < bits; ++k)
        if (a >> k & 1) x |= 1ull << (bits - 1 - k);
      return x;
    });
    for (bool is_signed : {false, true}) {
      std::string t = (is_signed ? "s" : "u") + std::to_string(bits);
      auto find = [&](uint64_t a, bool shift) -> uint64_t {
        if (is_signed && a >> (bits - 1)) a = low(~Wide(a), bits);
        for (uint32_t k = bits; k-- > 0;)
          if (a >> k & 1) return shift ? bits - 1 - k : k;
        return 0xFFFFFFFF;
      };
      check_op1("bfind." + t + " d, a;", "b32", r, v, [&](uint64_t a) { return find(a, false); });
      check_op1("bfind.shiftamt." + t + " d, a;", "b32", r, v,
                [&](uint64_t a) { return find(a, true); });
      check_op3("bfe." + t + " d, a, b, c;", r, r, "b32", "b32", v,
                {0, 3, 31, 32, 40, 63, 70, 255, 256}, {0, 1, 5, 16, 32, 64, 255, 256},
                [&](uint64_t a, uint64_t b, uint64_t c) {
                  // The 64-bit forms look at all 32 bits of position and length.
                  uint32_t low = bits == 64 ? ~0u : 255;
                  uint32_t pos = b & low, len = c & low, msb = bits - 1;
                  bool sign = is_signed && len && (a >> std::min(pos + len - 1, msb) & 1);
                  uint64_t d = 0;
                  for (uint32_t k = 0; k <= msb; ++k) {
                    bool bit = k < len && pos + k <= msb ? a >> (pos + k) & 1 : sign;
                    d |= uint64_t(bit) << k;
                  }
                  return d;
                });
    }
    Column u, w, pos, len;
    for (uint64_t a : integers(bits, 6))
      for (uint64_t b : integers(bits, 2))
        for (uint64_t p : {0, 7, 31, 63, 64, 255, 256})
          for (uint64_t n : {0, 1, 9, 32, 64, 200, 256}) {
            u.push_back(a);
            w.push_back(b);
            pos.push_back(p);
            len.push_back(n);
          }
    Column out = run_op("bfi." + r + " d, a, b, c, e;", r, {r, r, "b32", "b32"}, {u, w, pos, len});
    for (size_t i = 0; i < u.size(); ++i) {
      uint64_t f = w[i];
      uint64_t low = bits == 64 ? ~0ull : 255, p = pos[i] & low;
      for (uint64_t k = 0; k < (len[i] & low) && p + k < bits; ++k) {
        uint64_t bit = 1ull << (p + k);
        f = u[i] >> k & 1 ? f | bit : f & ~bit;
      }
      INFO(i);
      REQUIRE(out[i] == f);
    }
  }
  Column v = integers(32, 12), n = {0, 1, 9, 31, 32, 33, 63, 100, 0xFFFFFFFF};
  for (bool clamp : {true, false})
    for (bool left : {true, false})
      check_op3(std::string("shf.") + (left ? "l." : "r.") + (clamp ? "clamp" : "wrap") +
                    ".b32 d, a, b, c;",
                "b32", "b32", "b32", "b32", v, v, n, [&](uint64_t a, uint64_t b, uint64_t c) {
                  uint64_t k = clamp ? std::min<uint64_t>(c, 32) : c & 31, both = b << 32 | a;
                  if (left) return k == 32 ? a : k == 0 ? b : (both << k) >> 32;
                  return (both >> k) & 0xFFFFFFFF;
                });
  for (uint32_t table : {0x80u, 0xFEu, 0x40u, 0x1Au, 0x96u, 0xE8u, 0x00u, 0xFFu})
    check_op3("lop3.b32 d, a, b, c, " + std::to_string(table) + ";", "b32", "b32", "b32", "b32", v,
              v, v, [&](uint64_t a, uint64_t b, uint64_t c) {
                uint64_t d = 0;
                for (int k = 0; k < 32; ++k)
                  d |= uint64_t(table >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1)
                       << k;
                return d;
              });
  for (bool a_signed : {false, true})
    for (bool b_signed : {false, true}) {
      std::string t = std::string(a_signed ? ".s32" : ".u32") + (b_signed ? ".s32" : ".u32");
      check_op3("dp4a" + t + " d, a, b, c;", "b32", "b32", "b32", "b32", v, v, v,
                [&](uint64_t a, uint64_t b, uint64_t c) {
                  Wide x = Wide(c);
                  for (int k = 0; k < 32; k += 8)
                    x += number(a >> k, 8, a_signed) * number(b >> k, 8, b_signed);
                  return low(x, 32);
                });
      check_op3("dp2a.hi" + t + " d, a, b, c;", "b32", "b32", "b32", "b32", v, v, v,
                [&](uint64_t a, uint64_t b, uint64_t c) {
                  Wide x = Wide(c);
                  for (int k = 0; k < 2; ++k)
                    x += number(a >> 16 * k, 16, a_signed) * number(b >> (16 + 8 * k), 8, b_signed);
                  return low(x, 32);
                });
    }
  check_op2("szext.clamp.s32 d, a, b;", "b32", "b32", "b32", v, n, [](uint64_t a, uint64_t b) {
    return b == 0 ? 0 : b >= 32 ? a : low(number(a, uint32_t(b), true), 32);
  });
  check_op2("bmsk.clamp.b32 d, a, b;", "b32", "b32", "b32", n, n, [](uint64_t a, uint64_t b) {
    uint64_t d = 0;
    for (uint64_t k = 0; k < 32; ++k)
      if (k >= a && k - a < b) d |= 1ull << k;
    return d;
  });
  check_op3("fns.b32 d, a, b, c;", "b32", "b32", "b32", "b32", v, {0, 5, 17, 31},
            {0, 1, 2, 5, 0xFFFFFFFF, 0xFFFFFFFD},
            [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
              int offset = int32_t(c), left = std::abs(offset);
              if (offset == 0) return a >> b & 1 ? b : 0xFFFFFFFF;
              for (int p = int(b); p >= 0 && p<32; p += offset> 0 ? 1 : -1)
                if (a >> p & 1 && --left == 0) return uint64_t(p);
              return 0xFFFFFFFF;
            });
}

TEST_CASE("carry chains", "[virtual]") {
  // 128 bits from 64-bit and 32-bit pieces; the carry flag passes through each lane on its own.
  Column v = integers(64, 10), a, b;
  cross(v, v, a, b);
  Column hi =
      run_op(".reg .b64 x; add.cc.u64 x, a, b; addc.u64 d, a, b;", "b64", {"b64", "b64"}, {a, b});
  Column borrow =
      run_op(".reg .b64 x; sub.cc.u64 x, a, b; subc.u64 d, 7, 0;", "b64", {"b64", "b64"}, {a, b});
  Column mad = run_op(".reg .b64 x; mad.lo.cc.u64 x, a, b, b; madc.hi.u64 d, a, b, 0;", "b64",
                      {"b64", "b64"}, {a, b});
  Column mad_signed = run_op(".reg .b64 x; mad.lo.cc.s64 x, a, b, b; madc.hi.s64 d, a, b, 0;",
                             "b64", {"b64", "b64"}, {a, b});
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(i);
    bool carry = a[i] + b[i] < a[i];
    REQUIRE(hi[i] == a[i] + b[i] + carry);
    REQUIRE(borrow[i] == 7u - (a[i] < b[i]));
    __extension__ typedef unsigned __int128 Unsigned;
    REQUIRE(mad[i] == uint64_t((Unsigned(a[i]) * b[i] + b[i]) >> 64));
    uint64_t low_sum = a[i] * b[i] + b[i];
    REQUIRE(mad_signed[i] ==
            uint64_t((Wide(int64_t(a[i])) * int64_t(b[i])) >> 64) + (low_sum < b[i]));
  }
}

TEST_CASE("predicates", "[virtual]") {
  Column two = {0, 1};
  check_op2("and.pred d, a, b;", "pred", "pred", "pred", two, two,
            [](uint64_t a, uint64_t b) { return a & b; });
  check_op2("xor.pred d, a, b;", "pred", "pred", "pred", two, two,
            [](uint64_t a, uint64_t b) { return a ^ b; });
  check_op1("not.pred d, a;", "pred", "pred", two, [](uint64_t a) { return !a; });
  check_op1("mov.pred d, a;", "pred", "pred", two, [](uint64_t a) { return a; });
  Column v = integers(32, 4);
  check_op2(".reg .b32 x; .reg .pred p; setp.ne.u32 p, a, 0;\nlop3.or.b32 x|d, a, b, b, 0xC0, !p;",
            "pred", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) { return (a & b) != 0 || a == 0; });
}

TEST_CASE("comparisons", "[virtual]") {
  struct Case {
    const char* name;
    bool less, equal, greater, unordered;
  };
  const std::vector<Case> cases = {
      {"eq", false, true, false, false}, {"ne", true, false, true, false},
      {"lt", true, false, false, false}, {"le", true, true, false, false},
      {"gt", false, false, true, false}, {"ge", false, true, true, false},
      {"equ", false, true, false, true}, {"neu", true, false, true, true},
      {"ltu", true, false, false, true}, {"leu", true, true, false, true},
      {"gtu", false, false, true, true}, {"geu", false, true, true, true},
      {"num", true, true, true, false},  {"nan", false, false, false, true}};
  for (const Case& c : cases) {
    std::string name = c.name;
    if (name.size() == 2)
      for (const Type& t : kIntegers) {
        Column v = integers(t.bits, 8);
        check_op2("setp." + name + "." + t.name + " d, a, b;", "pred", t.reg(), t.reg(), v, v,
                  [&](uint64_t a, uint64_t b) {
                    Wide x = number(a, t.bits, t.is_signed), y = number(b, t.bits, t.is_signed);
                    return x < y ? c.less : x == y ? c.equal : c.greater;
                  });
      }
    auto by_double = [&](double x, double y) {
      return x != x || y != y ? c.unordered : x < y ? c.less : x == y ? c.equal : c.greater;
    };
    Column f = floats32(8), g = floats64(8);
    check_op2(
        "setp." + name + ".f32 d, a, b;", "pred", "b32", "b32", f, f, [&](uint64_t a, uint64_t b) {
          return by_double(std::bit_cast<float>(uint32_t(a)), std::bit_cast<float>(uint32_t(b)));
        });
    check_op2("setp." + name + ".ftz.f32 d, a, b;", "pred", "b32", "b32", f, f,
              [&](uint64_t a, uint64_t b) {
                auto z = [](uint64_t x) {
                  return std::bit_cast<float>(x & 0x7F800000 ? uint32_t(x) : 0u);
                };
                return by_double(z(a), z(b));
              });
    check_op2("setp." + name + ".f64 d, a, b;", "pred", "b64", "b64", g, g,
              [&](uint64_t a, uint64_t b) {
                return by_double(std::bit_cast<double>(a), std::bit_cast<double>(b));
              });
  }
  Column v = integers(32, 6);
  check_op2("setp.lo.u32 d, a, b;", "pred", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) { return a < b; });
  // p = (a cmp b) op c, q = !(a cmp b) op c
  for (std::string op : {"and", "or", "xor"}) {
    auto f = [&](bool x, bool c) { return op == "and" ? x && c : op == "or" ? x || c : x != c; };
    check_op3("setp.lt." + op + ".s32 d, a, b, !c;", "pred", "b32", "b32", "pred", v, v, {0, 1},
              [&](uint64_t a, uint64_t b, uint64_t c) { return f(int32_t(a) < int32_t(b), !c); });
    check_op3(".reg .pred p; setp.lt." + op + ".s32 p|d, a, b, c;", "pred", "b32", "b32", "pred", v,
              v, {0, 1},
              [&](uint64_t a, uint64_t b, uint64_t c) { return f(!(int32_t(a) < int32_t(b)), c); });
  }
  check_op2("set.gt.f32.s32 d, a, b;", "b32", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) { return int32_t(a) > int32_t(b) ? 0x3F800000u : 0u; });
  check_op2("set.ne.u32.u32 d, a, b;", "b32", "b32", "b32", v, v,
            [](uint64_t a, uint64_t b) { return a != b ? 0xFFFFFFFFu : 0u; });
}

TEST_CASE("selection", "[virtual]") {
  for (uint32_t bits : {16u, 32u, 64u}) {
    std::string r = "b" + std::to_string(bits);
    Column v = integers(bits, 4);
    check_op3("selp." + r + " d, a, b, c;", r, r, r, "pred", v, v, {0, 1},
              [](uint64_t a, uint64_t b, uint64_t c) { return c ? a : b; });
    check_op3("slct." + r + ".s32 d, a, b, c;", r, r, r, "b32", v, v, integers(32),
              [](uint64_t a, uint64_t b, uint64_t c) { return int32_t(c) >= 0 ? a : b; });
    check_op3("slct." + r + ".f32 d, a, b, c;", r, r, r, "b32", v, v, floats32(),
              [](uint64_t a, uint64_t b, uint64_t c) {
                return std::bit_cast<float>(uint32_t(c)) >= 0 ? a : b;
              });
  }
  check_op1("selp.b16 d, -1, 3, a;", "b16", "pred", {0, 1},
            [](uint64_t p) { return p ? 0xFFFF : 3; });
}
