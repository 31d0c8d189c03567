// Warp collectives and warp-level matrix instructions.
#include "tests/virtual/warp_text.hpp"

#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace {

using namespace lane_ops;
namespace num = vgpu::num;
using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::Vgpu;

// A small matrix of doubles.
struct Matrix {
  uint32_t rows, columns;
  std::vector<double> v;
  Matrix(uint32_t r, uint32_t c) : rows(r), columns(c), v(r * c, 0) {}
  double& at(uint32_t r, uint32_t c) { return v[r * columns + c]; }
};

} // namespace

TEST_CASE("shuffles", "[virtual]") {
  std::vector<uint32_t> a = words(32);
  struct Mode {
    const char* name;
    std::function<int(int lane, int b, int low)> source;
    bool up;
  };
  const Mode modes[] = {{"up", [](int l, int b, int) { return l - b; }, true},
                        {"down", [](int l, int b, int) { return l + b; }, false},
                        {"bfly", [](int l, int b, int) { return l ^ b; }, false},
                        {"idx", [](int, int b, int low) { return low + b; }, false}};
  for (const Mode& m : modes)
    for (int width : {32, 16, 8})
      for (int b : {0, 1, 3, 7}) {
        // CUDA's packing of segment mask and clamp.
        int c = (32 - width) << 8 | (m.up ? 0 : 31);
        std::vector<uint32_t> out =
            must("shfl.sync." + std::string(m.name) + ".b32 %r30|%p0, %r10, " + std::to_string(b) +
                     ", " + std::to_string(c) + ", 0xffffffff; selp.u32 %r31, 1, 0, %p0;",
                 a, 1, 2);
        for (int l = 0; l < 32; ++l) {
          int low = l / width * width, from = m.source(l, b, low);
          bool inside = m.name == std::string("bfly") ? from < low + width
                                                      : from >= low && from < low + width;
          INFO(m.name << " width " << width << " b " << b << " lane " << l);
          REQUIRE(out[2 * l] == a[inside ? from : l]);
          REQUIRE(out[2 * l + 1] == inside);
        }
      }
}

TEST_CASE("votes, matches, reductions, election", "[virtual]") {
  std::vector<uint32_t> a = words(32);
  for (uint32_t& x : a) x %= 5;
  uint32_t odd = 0;
  for (uint32_t l = 0; l < 32; ++l) odd |= (a[l] & 1) << l;
  std::vector<uint32_t> out = must(R"(
    and.b32 %r1, %r10, 1; setp.eq.u32 %p0, %r1, 1; setp.lt.u32 %p1, %r10, 5;
    vote.sync.ballot.b32 %r30, %p0, -1;
    vote.sync.any.pred %p2, %p0, -1; vote.sync.all.pred %p3, %p0, -1; vote.sync.uni.pred %p4, !%p1, -1;
    selp.u32 %r31, 1, 0, %p2; selp.u32 %r32, 1, 0, %p3; selp.u32 %r33, 1, 0, %p4;
    match.any.sync.b32 %r34, %r10, -1;
    match.all.sync.b32 %r35|%p5, %r10, -1; selp.u32 %r36, 1, 0, %p5;
    elect.sync %r37|%p6, -1; selp.u32 %r38, 1, 0, %p6;
    activemask.b32 %r39;
    match.all.sync.b32 %r40|%p5, 7, -1; selp.u32 %r41, 1, 0, %p5;)",
                                   a, 1, 12);
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t same = 0;
    for (uint32_t k = 0; k < 32; ++k) same |= uint32_t(a[k] == a[l]) << k;
    std::vector<uint32_t> got(out.begin() + 12 * l, out.begin() + 12 * l + 12);
    REQUIRE(got ==
            std::vector<uint32_t>{odd, 1, 0, 1, same, 0, 0, 0, l == 0, 0xFFFFFFFF, 0xFFFFFFFF, 1});
  }
  std::vector<uint32_t> b = words(32, 5);
  auto reduce = [&](const std::string& op, auto f) {
    std::vector<uint32_t> r = must("redux.sync." + op + " %r30, %r10, -1;", b, 1, 1);
    uint32_t want = b[0];
    for (uint32_t k = 1; k < 32; ++k) want = uint32_t(f(want, b[k]));
    INFO(op);
    for (uint32_t x : r) REQUIRE(x == want);
  };
  reduce("add.u32", [](uint32_t x, uint32_t y) { return x + y; });
  reduce("min.s32", [](uint32_t x, uint32_t y) { return std::min(int32_t(x), int32_t(y)); });
  reduce("max.u32", [](uint32_t x, uint32_t y) { return std::max(x, y); });
  reduce("xor.b32", [](uint32_t x, uint32_t y) { return x ^ y; });
  reduce("and.b32", [](uint32_t x, uint32_t y) { return x & y; });
  std::vector<uint32_t> f(32, 0x3F800000);
  f[3] = 0xC0A00000; // -5
  f[9] = 0x7FC00001;
  REQUIRE(must("redux.sync.min.f32 %r30, %r10, -1;", f, 1, 1)[0] == 0xC0A00000);
  REQUIRE(must("redux.sync.max.abs.f32 %r30, %r10, -1;", f, 1, 1)[0] == 0x40A00000);
  REQUIRE(must("redux.sync.max.NaN.f32 %r30, %r10, -1;", f, 1, 1)[0] == 0x7FFFFFFF);
}

TEST_CASE("lanes with member masks of their own", "[virtual]") {
  // Halves of a warp reduce apart, in one instruction and in divergent code.
  std::vector<uint32_t> a = words(32), out;
  for (uint32_t& x : a) x &= 0xFFFF;
  uint32_t sum[2] = {};
  for (uint32_t l = 0; l < 32; ++l) sum[l / 16] += a[l];
  const std::string halves_mask =
      "setp.lt.u32 %p0, %r0, 16; selp.b32 %r1, 0xFFFF, 0xFFFF0000, %p0;";
  out = must(halves_mask + "redux.sync.add.u32 %r30, %r10, %r1;", a, 1, 1);
  for (uint32_t l = 0; l < 32; ++l) REQUIRE(out[l] == sum[l / 16]);
  out = must(halves_mask + R"(
    mov.u32 %r2, 0;
    @%p0 bra one;
    redux.sync.add.u32 %r30, %r10, 0xFFFF0000;
    bra join;
    one: redux.sync.add.u32 %r30, %r10, 0xFFFF;
    join: bar.warp.sync -1;)",
             a, 1, 1);
  for (uint32_t l = 0; l < 32; ++l) REQUIRE(out[l] == sum[l / 16]);
  RunResult r =
      warp("setp.lt.u32 %p0, %r0, 4; @%p0 redux.sync.add.u32 %r30, %r10, 7;", a, 1, 1, out);
  INFO(r.text);
  CHECK(r.faulted("members", "member mask"));
  // Lanes that never come: nothing can run.
  r = warp("setp.lt.u32 %p0, %r0, 4; @!%p0 bra wait; redux.sync.add.u32 %r30, %r10, -1; bra end;"
           " wait: bar.sync 1, 32; end:",
           a, 1, 1, out);
  INFO(r.text);
  CHECK(r.stage == RunResult::Stage::Run);
  // Lanes that have exited are not awaited.
  r = warp("setp.lt.u32 %p0, %r0, 4; @!%p0 exit; redux.sync.max.u32 %r30, %r0, -1;", a, 1, 1, out);
  INFO(r.text);
  REQUIRE(r.ok);
  REQUIRE(out[0] == 3);
}

TEST_CASE("ldmatrix, stmatrix and movmatrix", "[virtual]") {
  std::vector<uint32_t> in = words(32 * 4);
  const std::string fill = R"(
    .shared .align 16 .b8 tile[1024]; .reg .b32 row, at;
    mov.u32 at, tile; mad.lo.u32 row, %r0, 16, at;
    st.shared.v4.u32 [row], {%r10, %r11, %r12, %r13};
    bar.warp.sync -1;)";
  const auto* elements = reinterpret_cast<const uint16_t*>(in.data()); // [row 0..31][8]
  for (bool trans : {false, true})
    for (uint32_t n : {1u, 2u, 4u}) {
      std::string regs = n == 1 ? "{%r30}" : n == 2 ? "{%r30, %r31}" : "{%r30, %r31, %r32, %r33}";
      std::string suffix = ".x" + std::to_string(n) + (trans ? ".trans" : "") + ".shared.b16 ";
      std::vector<uint32_t> out =
          must(fill + "ldmatrix.sync.aligned.m8n8" + suffix + regs + ", [row];", in, 4, n);
      for (uint32_t l = 0; l < 32; ++l)
        for (uint32_t j = 0; j < n; ++j)
          for (uint32_t e = 0; e < 2; ++e) {
            uint32_t r = l / 4, c = 2 * (l % 4) + e;
            uint16_t want = trans ? elements[(8 * j + c) * 8 + r] : elements[(8 * j + r) * 8 + c];
            REQUIRE(uint16_t(out[n * l + j] >> (16 * e)) == want);
          }
      // stmatrix puts back what ldmatrix took.
      std::string back = fill + "ldmatrix.sync.aligned.m8n8" + suffix + regs +
                         ", [row]; add.u32 at, row, 512;" + "stmatrix.sync.aligned.m8n8" + suffix +
                         "[at], " + regs + "; bar.warp.sync -1;" +
                         "ld.shared.v4.u32 {%r30, %r31, %r32, %r33}, [at];";
      out = must(back, in, 4, 4);
      for (uint32_t k = 0; k < 32 * n; ++k) REQUIRE(out[k] == in[k]);
    }
  std::vector<uint32_t> out =
      must(fill + "movmatrix.sync.aligned.m8n8.trans.b16 %r30, %r10;", in, 4, 1);
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t e = 0; e < 2; ++e) {
      uint32_t r = 2 * (l % 4) + e, c = l / 4; // of the source, held by lane 4 r + c / 2
      REQUIRE(uint16_t(out[l] >> (16 * e)) == uint16_t(in[4 * (4 * r + c / 2)] >> (16 * (c % 2))));
    }
  out = must(fill + "mov.u32 at, tile; and.b32 row, %r0, 15; mad.lo.u32 at, row, 16, at;"
                    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r30, %r31}, [at];",
             in, 4, 2);
  const auto* bytes = reinterpret_cast<const uint8_t*>(in.data());
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t j = 0; j < 2; ++j)
      for (uint32_t e = 0; e < 4; ++e)
        REQUIRE((out[2 * l + j] >> (8 * e) & 255) == bytes[16 * (4 * (l % 4) + e) + l / 4 + 8 * j]);
  // Rows of 16 packed values in 16 bytes: 4 bits each in the first 8 bytes, 6 bits in the first 12.
  for (uint32_t bits : {4u, 6u}) {
    INFO(bits << " bits");
    auto value = [&](uint32_t row, uint32_t column) {
      uint32_t v = 0;
      for (uint32_t b = 0; b < bits; ++b) {
        uint32_t at = column * bits + b;
        v |= (bytes[16 * row + at / 8] >> at % 8 & 1u) << b;
      }
      return v;
    };
    const std::string source = bits == 4 ? "b8x16.b4x16_p64 " : "b8x16.b6x16_p32 ";
    out = must(fill + "ldmatrix.sync.aligned.m16n16.x2.trans.shared." + source +
                   "{%r30, %r31, %r32, %r33}, [row];",
               in, 4, 4);
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t j = 0; j < 4; ++j)
        for (uint32_t e = 0; e < 4; ++e)
          REQUIRE((out[4 * l + j] >> (8 * e) & 255) ==
                  value(j / 2 * 16 + 4 * (l % 4) + e, l / 4 + 8 * (j & 1)));
    out = must(fill + "ldmatrix.sync.aligned.m8n16.x4.shared." + source +
                   "{%r30, %r31, %r32, %r33}, [row];",
               in, 4, 4);
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t j = 0; j < 4; ++j)
        for (uint32_t e = 0; e < 4; ++e)
          REQUIRE((out[4 * l + j] >> (8 * e) & 255) == value(8 * j + l / 4, 4 * (l % 4) + e));
  }
  // Four 16 x 8 pieces of an m16n8 result, each stored by columns: 8 rows of 16 bytes.
  out = must(fill + "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [row], {%r10, %r11, %r12, "
                    "%r13}; bar.warp.sync -1; ld.shared.v4.u32 {%r30, %r31, %r32, %r33}, [row];",
             in, 4, 4);
  const auto* stored = reinterpret_cast<const uint8_t*>(out.data());
  for (uint32_t j = 0; j < 4; ++j)
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t column = 0; column < 8; ++column) {
        uint32_t lane = 4 * (row % 8) + column / 2, byte = column % 2 + row / 8 * 2;
        REQUIRE(stored[16 * (8 * j + column) + row] == uint8_t(in[4 * lane + j] >> 8 * byte));
      }
  RunResult r = warp(
      fill +
          "setp.eq.u32 %p0, %r0, 3; @%p0 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r30}, [row];",
      in, 4, 1, out);
  CHECK(r.faulted("aligned"));
  r = warp(fill + "add.u32 row, row, 4; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r30}, [row];",
           in, 4, 1, out);
  CHECK(r.faulted("alignment"));
}

TEST_CASE("mma.sync", "[virtual]") {
  struct Case {
    const char *shape, *types;
    uint32_t m, k, bits;
    double (*value)(uint32_t);
  };
  auto f16 = [](uint32_t v) -> double { return num::f16_to_f32(uint16_t(v)); };
  auto bf16 = [](uint32_t v) -> double { return num::bf16_to_f32(uint16_t(v)); };
  auto e4m3 = [](uint32_t v) -> double { return num::e4m3_table[v & 255]; };
  auto s8 = [](uint32_t v) -> double { return int8_t(v); };
  auto u4 = [](uint32_t v) -> double { return v & 15; };
  const Case cases[] = {{"m16n8k16", "f32.f16.f16.f32", 16, 16, 16, f16},
                        {"m16n8k8", "f32.f16.f16.f32", 16, 8, 16, f16},
                        {"m16n8k16", "f16.f16.f16.f16", 16, 16, 16, f16},
                        {"m16n8k16", "f32.bf16.bf16.f32", 16, 16, 16, bf16},
                        {"m16n8k32", "f32.e4m3.e4m3.f32", 16, 32, 8, e4m3},
                        {"m16n8k16", "s32.s8.s8.s32", 16, 16, 8, s8},
                        {"m16n8k32", "s32.s8.s8.s32", 16, 32, 8, s8},
                        {"m8n8k16", "s32.s8.s8.s32", 8, 16, 8, s8},
                        {"m16n8k64", "s32.u4.u4.s32", 16, 64, 4, u4}};
  for (const Case& c : cases) {
    INFO(c.shape << " " << c.types << " seed " << kSeed);
    uint32_t na = c.m * c.k * c.bits / 1024, nb = 8 * c.k * c.bits / 1024, per = 32 / c.bits;
    bool half = std::string(c.types).substr(0, 3) == "f16", integer = c.types[0] == 's';
    uint32_t nc = c.m * 8 / 32 / (half ? 2 : 1), width = na + nb + nc;
    std::mt19937 g(kSeed);
    std::vector<uint32_t> in(32 * width);
    // Elements whose products and sums are exact: small integers in each format.
    auto element = [&]() -> uint32_t {
      int v = int(g() % 7) - 3;
      if (c.value == u4) return g() & 15;
      if (c.value == s8) return uint8_t(g());
      if (c.value == e4m3) return num::encode(num::Format::e4m3, v);
      return c.value == bf16 ? num::f32_to_bf16(float(v)) : num::f32_to_f16(float(v));
    };
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t r = 0; r < width; ++r) {
        uint32_t& w = in[l * width + r];
        w = 0;
        if (r < na + nb)
          for (uint32_t e = 0; e < per; ++e)
            w |= (element() & (c.bits == 32 ? ~0u : (1u << c.bits) - 1)) << (c.bits * e);
        else if (half)
          w = num::f32_to_f16(float(int(g() % 9))) | uint32_t(num::f32_to_f16(float(int(g() % 9))))
                                                         << 16;
        else
          w = integer ? g() % 1000 : std::bit_cast<uint32_t>(float(int(g() % 1000)));
      }
    // Layouts as the ISA's sections list them, element by element.
    Matrix a(c.m, c.k), b(c.k, 8);
    uint32_t block = 4 * per; // columns of K that one register of every lane covers
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t group = l >> 2, in_group = l % 4;
      for (uint32_t i = 0; i < na * per; ++i) {
        uint32_t r = i / per;
        uint32_t row = c.m == 8 ? group : group + (r % 2 ? 8 : 0);
        uint32_t column = in_group * per + i % per + block * (c.m == 8 ? r : r / 2);
        a.at(row, column) = c.value(in[l * width + r] >> (c.bits * (i % per)));
      }
      for (uint32_t i = 0; i < nb * per; ++i)
        b.at(in_group * per + i % per + block * (i / per), group) =
            c.value(in[l * width + na + i / per] >> (c.bits * (i % per)));
    }
    auto list = [](uint32_t first, uint32_t n) {
      std::string s = "{";
      for (uint32_t k = 0; k < n; ++k) s += (k ? ", %r" : "%r") + std::to_string(first + k);
      return s + "}";
    };
    std::vector<uint32_t> out = must(std::string("mma.sync.aligned.") + c.shape + ".row.col." +
                                         c.types + " " + list(30, nc) + ", " + list(10, na) + ", " +
                                         list(10 + na, nb) + ", " + list(10 + na + nb, nc) + ";",
                                     in, width, nc);
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t i = 0; i < c.m / 4; ++i) {
        uint32_t row = l / 4 + (i >= 2 ? 8 : 0), column = 2 * (l % 4) + i % 2;
        double sum = 0;
        for (uint32_t k = 0; k < c.k; ++k) sum += a.at(row, k) * b.at(k, column);
        uint32_t start = in[l * width + na + nb + (half ? i / 2 : i)];
        if (half) {
          sum += num::f16_to_f32(uint16_t(start >> (16 * (i % 2))));
          REQUIRE(num::f16_to_f32(uint16_t(out[nc * l + i / 2] >> (16 * (i % 2)))) == sum);
        } else if (integer) {
          REQUIRE(int32_t(out[nc * l + i]) == int32_t(sum) + int32_t(start));
        } else {
          REQUIRE(std::bit_cast<float>(out[nc * l + i]) ==
                  float(sum + double(std::bit_cast<float>(start))));
        }
      }
  }
}

TEST_CASE("mma.sync.m8n8k4: four products of 8 x 8", "[virtual]") {
  // Who holds what, the other way round from the text: lane and place of an element of product p.
  struct Holder {
    uint32_t lane, place;
  };
  auto by_row = [](uint32_t p, uint32_t outer, uint32_t k) {
    return Holder{16 * (outer / 4) + 4 * p + outer % 4, k};
  };
  auto by_k = [](uint32_t p, uint32_t outer, uint32_t k) {
    return Holder{16 * (outer / 4) + 4 * p + k, outer % 4};
  };
  auto result = [](bool half, uint32_t p, uint32_t row, uint32_t column) {
    if (half) return Holder{16 * (row / 4) + 4 * p + row % 4, column};
    return Holder{16 * (row / 4) + 4 * p + (row & 1) + (column & 2),
                  (column & 1) + (row & 2) + (column & 4)};
  };
  for (uint32_t choice = 0; choice < 12; ++choice) {
    const bool a_row = choice & 1, b_col = choice & 2, c_half = choice >= 4, d_half = choice >= 8;
    const std::string types =
        std::string(d_half ? "f16" : "f32") + ".f16.f16." + (c_half ? "f16" : "f32");
    INFO((a_row ? "row." : "col.") << (b_col ? "col." : "row.") << types);
    std::mt19937 g(kSeed + choice);
    std::vector<uint32_t> in(32 * 12);
    auto small = [&] { return num::f32_to_f16(float(int(g() % 9) - 4)); };
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t r = 0; r < 12; ++r)
        in[12 * l + r] = r < 4 || c_half ? uint32_t(small()) << 16 | small()
                                         : std::bit_cast<uint32_t>(float(int(g() % 999)));
    auto half = [&](Holder h, uint32_t first, const std::vector<uint32_t>& v, uint32_t width) {
      return num::f16_to_f32(
          uint16_t(v[width * h.lane + first + h.place / 2] >> 16 * (h.place % 2)));
    };
    const uint32_t words = d_half ? 4 : 8;
    const std::string c = c_half ? "{%r14,%r15,%r16,%r17}"
                                 : "{%r14,%r15,%r16,%r17,%r18,%r19,%r20,%r21}",
                      d = d_half ? "{%r30,%r31,%r32,%r33}"
                                 : "{%r30,%r31,%r32,%r33,%r34,%r35,%r36,%r37}";
    const std::vector<uint32_t> out = must(
        std::string("mma.sync.aligned.m8n8k4.") + (a_row ? "row." : "col.") +
            (b_col ? "col." : "row.") + types + " " + d + ", {%r10,%r11}, {%r12,%r13}, " + c + ";",
        in, 12, words);
    for (uint32_t p = 0; p < 4; ++p)
      for (uint32_t row = 0; row < 8; ++row)
        for (uint32_t column = 0; column < 8; ++column) {
          const Holder from = result(c_half, p, row, column), to = result(d_half, p, row, column);
          float sum = c_half ? half(from, 4, in, 12)
                             : std::bit_cast<float>(in[12 * from.lane + 4 + from.place]);
          for (uint32_t k = 0; k < 4; ++k)
            sum += half(a_row ? by_row(p, row, k) : by_k(p, row, k), 0, in, 12) *
                   half(b_col ? by_row(p, column, k) : by_k(p, column, k), 2, in, 12);
          const float got = d_half ? half(to, 0, out, words)
                                   : std::bit_cast<float>(out[words * to.lane + to.place]);
          REQUIRE(got == sum);
        }
  }
  std::vector<uint32_t> out;
  RunResult r = warp("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r30,%r31,%r32,%r33}, "
                     "{%r10,%r11}, {%r10,%r11}, {%r10,%r11,%r10,%r11,%r10,%r11,%r10,%r11};",
                     std::vector<uint32_t>(64), 2, 4, out);
  CHECK(r.text.find("D has 4 registers; the shape takes 8") != std::string::npos);
}
