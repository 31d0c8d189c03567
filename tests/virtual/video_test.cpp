// Video instructions against plain arithmetic on bytes and half-words.
#include "tests/virtual/warp_text.hpp"

#include <algorithm>
#include <functional>

namespace {

using namespace lane_ops;
using wltest::RunResult;

int64_t part(uint32_t word, int byte, int bytes, bool is_signed) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= uint64_t(word >> 8 * (byte + i) & 255) << 8 * i;
  if (bytes == 4) return is_signed ? int64_t(int32_t(v)) : int64_t(v);
  return is_signed && v >= 1ull << (8 * bytes - 1) ? int64_t(v) - (1ll << 8 * bytes) : int64_t(v);
}

using Of3 = std::function<uint32_t(uint32_t, uint32_t, uint32_t)>;

void check(const std::string& op, const Of3& want) {
  const Column x = integers(32, 24);
  std::vector<uint64_t> a, b, c;
  cross(x, x, a, b);
  std::mt19937 g(kSeed);
  for (size_t i = 0; i < a.size(); ++i) c.push_back(i % 3 ? x[g() % x.size()] : g());
  const Column out = run_op(op, "b32", {"b32", "b32", "b32"}, {a, b, c});
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(op << std::hex << " a=0x" << a[i] << " b=0x" << b[i] << " c=0x" << c[i] << " got 0x"
            << out[i]);
    REQUIRE(out[i] == want(uint32_t(a[i]), uint32_t(b[i]), uint32_t(c[i])));
  }
}

// Answers of an H200 (2026-11-21, driver 580.159.04) that are not those of the ISA's text.
struct Answer {
  const char* op;
  uint32_t a, b, c, d;
};
const Answer kCard[] = {
    {"vadd.u32.u32.u32 d.h1, a.b3, b, c;", 0x0, 0x1, 0x1, 0x1},
    {"vadd.u32.u32.u32.sat.add d, a.h0, b, c;", 0x2, 0xffffffff, 0x80000001, 0x80000002},
    {"vadd.u32.u32.u32.min d, a, b.b0, c;", 0x7fffffff, 0x2416b355, 0xffffffff, 0xffffffff},
    {"vadd.u32.u32.u32.sat.min d, a.h0, b, c;", 0x2, 0xffffffff, 0x80000001, 0x1},
    {"vadd.u32.u32.u32.max d, a, b.b0, c;", 0x80000000, 0x64, 0xffffffff, 0x80000064},
    {"vadd.u32.u32.u32.sat.max d, a.h0, b, c;", 0x3, 0xfffffffe, 0x2, 0x2},
    {"vadd.s32.s32.s32.sat d.b1, a, b.h0, c;", 0x1, 0xfffffffe, 0x1f, 0x7f1f},
    {"vadd.s32.s32.s32 d.h1, a.b3, b, c;", 0x0, 0x3f, 0x40, 0x40},
    {"vadd.s32.s32.s32.min d, a, b.b0, c;", 0x7fffffff, 0x1, 0xfffffffe, 0x80000000},
    {"vadd.s32.s32.s32.max d, a, b.b0, c;", 0x7fffffff, 0x2, 0x55555555, 0x55555555},
    {"vadd.s32.u32.s32.sat d.b1, a, b.h0, c;", 0x0, 0xfffffffe, 0x92a669c5, 0x92a67fc5},
    {"vadd.s32.u32.s32 d.h1, a.b3, b, c;", 0x0, 0x7, 0x7, 0x7},
    {"vadd.s32.u32.s32.min d, a, b.b0, c;", 0x7fffffff, 0x1f, 0x0, 0x8000001e},
    {"vadd.s32.u32.s32.max d, a, b.b0, c;", 0x7fffffff, 0x20, 0x1, 0x1},
    {"vadd.u32.s32.u32.sat d.b1, a, b.h0, c;", 0x80000000, 0x20, 0x40, 0xff40},
    {"vadd.u32.s32.u32 d.h1, a.b3, b, c;", 0x0, 0x3f, 0x40, 0x40},
    {"vadd.u32.s32.u32.sat.add d, a.h0, b, c;", 0x1, 0xffffffff, 0x7, 0x7},
    {"vadd.u32.s32.u32.min d, a, b.b0, c;", 0x7fffffff, 0x3, 0x92a669c5, 0x92a669c5},
    {"vadd.u32.s32.u32.sat.min d, a.h0, b, c;", 0x1, 0xffffffff, 0x7, 0x0},
    {"vadd.u32.s32.u32.max d, a, b.b0, c;", 0x7fffffff, 0x9b17577e, 0x92a669c5, 0x8000007d},
    {"vadd.u32.s32.u32.sat.max d, a.h0, b, c;", 0x3, 0xffffffff, 0x1, 0x2},
    {"vsub.u32.u32.u32.sat d.b1, a, b.h0, c;", 0x0, 0x20, 0x20, 0xff20},
    {"vsub.u32.u32.u32 d.h1, a.b3, b, c;", 0x0, 0x3f, 0x40, 0xffff0040},
    {"vsub.u32.u32.u32.min d, a, b.b0, c;", 0x0, 0x3f, 0x40, 0x40},
    {"vsub.u32.u32.u32.max d, a, b.b0, c;", 0x0, 0x1, 0x1, 0xffffffff},
    {"vsub.s32.s32.s32.sat d.b1, a, b.h0, c;", 0x0, 0x2, 0x2, 0x7f02},
    {"vsub.s32.s32.s32 d.h1, a.b3, b, c;", 0x0, 0x7, 0x7, 0xffff0007},
    {"vsub.s32.s32.s32.min d, a, b.b0, c;", 0x7fffffff, 0xe7f355df, 0x2416b355, 0x80000020},
    {"vsub.s32.s32.s32.max d, a, b.b0, c;", 0x7fffffff, 0x620e3884, 0xfd19d44, 0xfd19d44},
    {"vsub.s32.u32.s32.sat d.b1, a, b.h0, c;", 0x0, 0x20, 0x20, 0x7f20},
    {"vsub.s32.u32.s32 d.h1, a.b3, b, c;", 0x0, 0x3f, 0x40, 0xffff0040},
    {"vsub.s32.u32.s32.min d, a, b.b0, c;", 0x80000000, 0x7fffffff, 0xfffffffe, 0x80000001},
    {"vsub.s32.u32.s32.max d, a, b.b0, c;", 0x7fffffff, 0x7fffffff, 0x20, 0x20},
    {"vsub.u32.s32.u32.sat d.b1, a, b.h0, c;", 0x0, 0x2, 0x2, 0xff02},
    {"vsub.u32.s32.u32 d.h1, a.b3, b, c;", 0x0, 0x7, 0x7, 0xffff0007},
    {"vsub.u32.s32.u32.min d, a, b.b0, c;", 0x0, 0x7, 0x7, 0x7},
    {"vsub.u32.s32.u32.max d, a, b.b0, c;", 0x0, 0x1f, 0x1f, 0xffffffe1},
    {"vabsdiff.u32.u32.u32 d.h1, a.b3, b, c;", 0x0, 0x20, 0x20, 0x20},
    {"vabsdiff.s32.s32.s32 d.h1, a.b3, b, c;", 0x0, 0x21, 0x3f, 0x3f},
    {"vabsdiff.s32.u32.s32 d.h1, a.b3, b, c;", 0x0, 0x3f, 0x40, 0x40},
    {"vabsdiff.u32.s32.u32 d.h1, a.b3, b, c;", 0x0, 0x1, 0x1, 0x1},
    {"vabsdiff.u32.s32.u32.sat.add d, a.h0, b, c;", 0xffffffff, 0xffffffff, 0x55555555, 0x55555555},
    {"vabsdiff.u32.s32.u32.sat.max d, a.h0, b, c;", 0xfffffffe, 0xffffffff, 0x7, 0x1},
    {"vmin.u32.u32.u32 d.h1, a.b3, b, c;", 0x7fffffff, 0x7, 0x2416b355, 0xb355},
    {"vmin.s32.s32.s32.sat d.b1, a, b.h0, c;", 0x0, 0xfd19d44, 0x1, 0x7f01},
    {"vmin.s32.s32.s32 d.h1, a.b3, b, c;", 0x0, 0xe7f355df, 0x7, 0xe7f30007},
    {"vmin.s32.u32.s32.sat d.b1, a, b.h0, c;", 0x1, 0x7fffffff, 0x1, 0x7f01},
    {"vmin.s32.u32.s32 d.h1, a.b3, b, c;", 0x1, 0x80000001, 0x3, 0x80000003},
    {"vmin.u32.s32.u32.sat d.b1, a, b.h0, c;", 0x80000000, 0x0, 0x2, 0xff02},
    {"vmin.u32.s32.u32 d.h1, a.b3, b, c;", 0x7fffffff, 0x2, 0x55555555, 0x5555},
    {"vmin.u32.s32.u32.min d, a, b.b0, c;", 0x80000000, 0x2, 0x1f, 0x1f},
    {"vmin.u32.s32.u32.max d, a, b.b0, c;", 0x80000000, 0x3, 0x20, 0x80000000},
    {"vmax.u32.u32.u32 d.h1, a.b3, b, c;", 0x0, 0x1f, 0x1f, 0x1f},
    {"vmax.s32.s32.s32.sat d.b1, a, b.h0, c;", 0x80000000, 0x17c5f6c9, 0x64, 0x7f64},
    {"vmax.s32.s32.s32 d.h1, a.b3, b, c;", 0x0, 0x21, 0x3f, 0x3f},
    {"vmax.s32.u32.s32 d.h1, a.b3, b, c;", 0x0, 0x3f, 0x40, 0x40},
    {"vmax.u32.s32.u32 d.h1, a.b3, b, c;", 0x0, 0x1, 0x1, 0x1},
    {"vshl.u32.u32.u32.sat.clamp d.h0, a.b1, b.b3, c;", 0x7fffffff, 0x80000000, 0x3f, 0x0},
    {"vshl.u32.u32.u32.sat.wrap d.h0, a.b1, b.b3, c;", 0x7fffffff, 0xfffffffe, 0x7fffffff,
     0x7fff0000},
    {"vshl.s32.s32.u32.sat.clamp d.h0, a.b1, b.b3, c;", 0x7fffffff, 0xffffffff, 0x64, 0x0},
    {"vshl.s32.s32.u32.sat.wrap d.h0, a.b1, b.b3, c;", 0x7fffffff, 0x92a669c5, 0x80000001,
     0x80000000},
    {"vshl.u32.s32.u32.sat.clamp d.h0, a.b1, b.b3, c;", 0xfd19d44, 0x80000000, 0x55555555,
     0x5555ffff},
    {"vshl.u32.s32.u32.sat.wrap d.h0, a.b1, b.b3, c;", 0x55555555, 0x9b17577e, 0x0, 0x0},
    {"vset.s32.s32.eq.max d, a.b1, b.b2, c;", 0x1, 0x20, 0xfffffffe, 0x1},
    {"vset.s32.u32.ne.max d, a.b1, b.b2, c;", 0x0, 0x80000001, 0xffffffff, 0x0},
    {"vset.s32.s32.lt.max d, a.b1, b.b2, c;", 0x0, 0xfffffffe, 0x92a669c5, 0x0},
    {"vset.s32.s32.ge.max d, a.b1, b.b2, c;", 0x0, 0x80000000, 0x80000001, 0x1},
    {"vmad.u32.u32.u32.sat.shr7 d, a.b3, b.h0, c;", 0x0, 0xfffffffe, 0x92a669c5, 0xffffffff},
    {"vmad.u32.u32.u32.po.shr15 d, a.h1, b.h1, c;", 0x1, 0x3, 0x80000000, 0xffff0000}};

int64_t clamp(int64_t v, int64_t low, int64_t high) { return std::min(std::max(v, low), high); }

} // namespace

TEST_CASE("scalar video instructions", "[virtual][video]") {
  check("vadd.u32.u32.u32 d, a, b;", [](uint32_t a, uint32_t b, uint32_t) { return a + b; });
  check("vadd.s32.s32.u32.sat d, a, b;", [](uint32_t a, uint32_t b, uint32_t) {
    return uint32_t(clamp(int64_t(int32_t(a)) + int64_t(b), INT32_MIN, INT32_MAX));
  });
  check("vsub.s32.u32.s32.sat d.h0, a.b1, b.h1, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    const int64_t t = part(a, 1, 1, false) - part(b, 2, 2, true);
    return (t < 0 ? 32767 : uint32_t(std::min<int64_t>(t, 32767))) | (c & 0xFFFF0000);
  });
  check("vabsdiff.u32.s32.s32 d.b2, a.b3, b.b0, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    const int64_t t = std::abs(part(a, 3, 1, true) - part(b, 0, 1, true));
    return (uint32_t(t) & 255) << 16 | (c & 0xFF00FFFF);
  });
  check("vabsdiff.s32.s32.s32 d, a, b;", [](uint32_t a, uint32_t b, uint32_t) {
    return uint32_t(std::abs(int64_t(int32_t(a)) - int64_t(int32_t(b))));
  });
  check("vmin.s32.s32.s32.max d, a.h0, b.h1, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    const int64_t t = std::min(part(a, 0, 2, true), part(b, 2, 2, true));
    return uint32_t(std::max(t, int64_t(int32_t(c))));
  });
  check("vmax.u32.u32.u32.add d, a.b0, b, c;",
        [](uint32_t a, uint32_t b, uint32_t c) { return std::max(a & 255, b) + c; });
  check("vshl.u32.u32.u32.clamp d, a, b.b0;", [](uint32_t a, uint32_t b, uint32_t) {
    const uint32_t n = b & 255;
    return n > 31 ? 0 : a << n;
  });
  check("vshr.s32.s32.u32.wrap.add d, a.h1, b, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t(part(a, 2, 2, true) >> (b & 31)) + c;
  });
  check("vset.u32.s32.lt d, a, b;", [](uint32_t a, uint32_t b, uint32_t) {
    return uint32_t(int64_t(a) < int64_t(int32_t(b)));
  });
  check("vset.s32.s32.ge.add d, a.b1, b.b2, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t(part(a, 1, 1, true) >= part(b, 2, 1, true)) + c;
  });
  check("vmad.s32.s32.u32.shr7 d, a.h1, b.b3, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t((part(a, 2, 2, true) * part(b, 3, 1, false) + int64_t(int32_t(c))) >> 7);
  });
  check("vmad.s32.s32.s32.sat d, -a.h0, b.h0, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t(clamp(-part(a, 0, 2, true) * part(b, 0, 2, true) + int64_t(int32_t(c)),
                          INT32_MIN, INT32_MAX));
  });
  check("vmad.u32.u32.u32.po.sat.shr15 d, a.h0, b.h1, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    const int64_t t = part(a, 0, 2, false) * part(b, 2, 2, false) + int64_t(int32_t(c)) + 1;
    return uint32_t(std::min<uint64_t>(uint64_t(t) >> 15, UINT32_MAX));
  });
}

TEST_CASE("scalar video instructions answer as an H200 did", "[virtual][video]") {
  for (const Answer& x : kCard) {
    const Column out = run_op(x.op, "b32", {"b32", "b32", "b32"}, {{x.a}, {x.b}, {x.c}});
    INFO(x.op << std::hex << " a=0x" << x.a << " b=0x" << x.b << " c=0x" << x.c << " got 0x"
              << out[0]);
    CHECK(out[0] == x.d);
  }
}

TEST_CASE("SIMD video instructions", "[virtual][video]") {
  auto each = [](int elements, uint32_t mask, bool add, uint32_t c, auto&& f) {
    const int bytes = 4 / elements;
    uint32_t d = c;
    for (int i = 0; i < elements; ++i) {
      if (!(mask >> i & 1)) continue;
      const int64_t t = f(i * bytes, bytes);
      const uint32_t ones = (bytes == 2 ? 0xFFFFu : 0xFFu) << 8 * bytes * i;
      d = add ? d + uint32_t(t) : (d & ~ones) | (uint32_t(t) << 8 * bytes * i & ones);
    }
    return d;
  };
  check("vadd2.s32.s32.s32.sat d, a, b, c;", [&](uint32_t a, uint32_t b, uint32_t c) {
    return each(2, 3, false, c, [&](int at, int n) {
      return clamp(part(a, at, n, true) + part(b, at, n, true), -32768, 32767);
    });
  });
  check("vsub4.u32.u32.u32 d.b20, a, b, c;", [&](uint32_t a, uint32_t b, uint32_t c) {
    return each(4, 5, false, c,
                [&](int at, int n) { return part(a, at, n, false) - part(b, at, n, false); });
  });
  check("vavrg4.s32.s32.s32 d, a, b, c;", [&](uint32_t a, uint32_t b, uint32_t c) {
    return each(4, 15, false, c, [&](int at, int n) {
      const int64_t t = part(a, at, n, true) + part(b, at, n, true);
      return t >= 0 ? (t + 1) >> 1 : t >> 1;
    });
  });
  check("vabsdiff4.u32.u32.u32.add d, a, b, c;", [&](uint32_t a, uint32_t b, uint32_t c) {
    return each(4, 15, true, c, [&](int at, int n) {
      return std::abs(part(a, at, n, false) - part(b, at, n, false));
    });
  });
  // Places 1, 0 take half-words 3 and 0 of (b, a), and 2 and 2.
  check("vmax2.s32.s32.u32 d.h1, a.h30, b.h22, c;", [&](uint32_t, uint32_t b, uint32_t c) {
    return each(2, 2, false, c,
                [&](int, int) { return std::max(part(b, 2, 2, true), part(b, 0, 2, false)); });
  });
  check("vmin4.s32.s32.s32.add d.b3, a.b0765, b.b4321, c;", [](uint32_t a, uint32_t b, uint32_t c) {
    return c + uint32_t(std::min(part(a, 0, 1, true), part(b, 0, 1, true)));
  });
  check("vset4.u32.u32.gt d, a, b, c;", [&](uint32_t a, uint32_t b, uint32_t c) {
    return each(4, 15, false, c, [&](int at, int n) {
      return int64_t(part(a, at, n, false) > part(b, at, n, false));
    });
  });
  check("vset2.s32.s32.ne.add d, a, b, c;", [&](uint32_t a, uint32_t b, uint32_t c) {
    return each(2, 3, true, c, [&](int at, int n) {
      return int64_t(part(a, at, n, true) != part(b, at, n, true));
    });
  });
}

TEST_CASE("video instructions: what is refused", "[virtual][video]") {
  auto refused = [](const std::string& op, const char* part) {
    std::vector<uint32_t> out;
    RunResult r = warp(op, std::vector<uint32_t>(96), 3, 1, out);
    INFO(op << "\n" << r.text);
    CHECK(r.refused(part));
  };
  refused("vadd.u32.u32.u32 %r30, %r10.b4, %r11;", "must be .b0 to .b3, .h0 or .h1");
  refused("vadd.u32.u32.u32.add %r30, %r10, %r11;", "need a third source");
  refused("vadd.u32.u32.u32 %r30, %r10, %r11, %r12;", "a third source is for");
  refused("vadd.u32.u32.u32.add %r30.b0, %r10, %r11, %r12;", "exclude each other");
  refused("vadd2.u32.u32.u32 %r30, %r10.h14, %r11, %r12;", "2 digits below 4");
  refused("vadd4.u32.u32.u32 %r30.b12, %r10, %r11, %r12;", "descending digits below 4");
  refused("vmad.s32.s32.s32.po %r30, -%r10.h0, %r11.h0, %r12;", "no negated operands");
  refused("vadd2.u32.u32.u32.sat.add %r30, %r10, %r11, %r12;", "not supported");
}
