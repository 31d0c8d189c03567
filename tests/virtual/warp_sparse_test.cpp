// mma.sp: fragments and metadata as PTX ISA 9.7.14.6 lays them out, against dense sums.
#include "tests/virtual/sparse_matrix.hpp"
#include "tests/virtual/warp_text.hpp"

#include "tools/vgpu/num/formats.hpp"

namespace {

using namespace lane_ops;
using wltest::RunResult;
using wltest::tcgen05::Codes;
using wltest::tcgen05::Format;
using wltest::tcgen05::SparseA;
namespace t5 = wltest::tcgen05;

struct Case {
  const char *shape, *types;
  Format a, b;
  uint32_t k;
  uint32_t threads; // of every four that hold metadata
};

std::string list(uint32_t first, uint32_t n) {
  std::string s = "{";
  for (uint32_t i = 0; i < n; ++i) s += (i ? ", %r" : "%r") + std::to_string(first + i);
  return s + "}";
}

// Words of a lane: A, B, C, metadata.
struct Layout {
  uint32_t na, nb, nc, width;
  bool half, integer;
  explicit Layout(const Case& c)
      : na(16 * c.k / 2 * c.a.bits / 1024), nb(8 * c.k * c.b.bits / 1024),
        half(c.types[0] == 'f' && c.types[1] == '1'), integer(c.types[0] == 's') {
    nc = half ? 2 : 4;
    width = na + nb + nc + 1;
  }
};

// The code of chunk `chunk` of row `row` lies in lane 4 (row mod 8) + first + ... as the figures of
// 9.7.14.6.2 show: of one chunk after the other, four in a half word of 16- and 32-bit types, whose
// upper half is the row eight below, else eight in a word, the row eight below in the next lane.
uint32_t metadata(const Case& c, const SparseA& a, uint32_t lane, uint32_t selector) {
  const uint32_t place = lane % 4, first = selector * c.threads, row = lane / 4;
  if (place < first || place >= first + c.threads) return 0; // no code: must not be read
  const uint32_t t = place - first;
  uint32_t word = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    const bool wide = c.a.bits >= 16;
    const uint32_t r = row + 8 * (wide ? i / 4 : t % 2);
    const uint32_t chunk = wide ? 4 * t + i % 4 : 8 * (t / 2) + i;
    word |= a.code(r, chunk) << 4 * i;
  }
  return word;
}

std::vector<uint32_t> lanes(const Case& c, const SparseA& a, const Codes& b, uint32_t selector,
                            std::mt19937& g) {
  const Layout l(c);
  const uint32_t per = 32 / c.a.bits, mask = c.a.bits == 32 ? ~0u : (1u << c.a.bits) - 1;
  std::vector<uint32_t> in(32 * l.width);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t* w = &in[lane * l.width];
    const uint32_t group = lane >> 2, in_group = lane % 4;
    // Element i of A: from columns firstcol on of the dense matrix, half of which are stored.
    for (uint32_t i = 0; i < l.na * per; ++i) {
      const uint32_t r = i / per, row = group + (r % 2 ? 8 : 0);
      const uint32_t firstcol = in_group * 2 * per + (r >= 2 ? 8 * per : 0);
      w[r] |= (a.stored.at(row, firstcol / 2 + i % per) & mask) << c.a.bits * (i % per);
    }
    for (uint32_t i = 0; i < l.nb * per; ++i)
      w[l.na + i / per] |= (b.at(group, 4 * per * (i / per) + in_group * per + i % per) & mask)
                           << c.b.bits * (i % per);
    for (uint32_t i = 0; i < l.nc; ++i) {
      const int x = int(g() % 64) - 32, y = int(g() % 64) - 32;
      using vgpu::num::f32_to_f16;
      w[l.na + l.nb + i] = l.integer ? uint32_t(x)
                           : l.half  ? f32_to_f16(float(x)) | uint32_t(f32_to_f16(float(y))) << 16
                                     : std::bit_cast<uint32_t>(float(x));
    }
    w[l.width - 1] = metadata(c, a, lane, selector);
  }
  return in;
}

std::string op(const Case& c, const std::string& variant, uint32_t selector) {
  const Layout l(c);
  return "mma." + variant + ".sync.aligned." + c.shape + ".row.col." + c.types + " " +
         list(30, l.nc) + ", " + list(10, l.na) + ", " + list(10 + l.na, l.nb) + ", " +
         list(10 + l.na + l.nb, l.nc) + ", %r" + std::to_string(9 + l.width) + ", " +
         std::to_string(selector) + ";";
}

Format small(Format f) { // values whose sums are exact in f16
  auto value = f.value;
  f.draw = [](std::mt19937& rng) {
    return uint32_t(vgpu::num::f32_to_f16(float(int(rng() % 7) - 3)));
  };
  return f;
}

const Case kCases[] = {
    {"m16n8k16", "f32.f16.f16.f32", t5::format_f16(), t5::format_f16(), 16, 1},
    {"m16n8k32", "f32.f16.f16.f32", t5::format_f16(), t5::format_f16(), 32, 2},
    {"m16n8k16", "f16.f16.f16.f16", small(t5::format_f16()), small(t5::format_f16()), 16, 1},
    {"m16n8k32", "f16.f16.f16.f16", small(t5::format_f16()), small(t5::format_f16()), 32, 2},
    {"m16n8k16", "f32.bf16.bf16.f32", t5::format_bf16(), t5::format_bf16(), 16, 1},
    {"m16n8k32", "f32.bf16.bf16.f32", t5::format_bf16(), t5::format_bf16(), 32, 2},
    {"m16n8k8", "f32.tf32.tf32.f32", t5::format_tf32(), t5::format_tf32(), 8, 1},
    {"m16n8k16", "f32.tf32.tf32.f32", t5::format_tf32(), t5::format_tf32(), 16, 2},
    {"m16n8k64", "f32.e4m3.e4m3.f32", t5::format_e4m3(), t5::format_e4m3(), 64, 4},
    {"m16n8k32", "s32.s8.s8.s32", t5::format_s8(), t5::format_s8(), 32, 2},
    {"m16n8k64", "satfinite.s32.s8.s8.s32", t5::format_s8(), t5::format_s8(), 64, 4},
    {"m16n8k64", "s32.s4.u4.s32", t5::format_s4(), t5::format_u4(), 64, 2},
    {"m16n8k128", "s32.u4.s4.s32", t5::format_u4(), t5::format_s4(), 128, 4},
};

} // namespace

TEST_CASE("mma.sp", "[virtual][sparse]") {
  uint32_t seed = 3000;
  for (const Case& c : kCases)
    for (const char* variant : {"sp", "sp::ordered_metadata"})
      for (uint32_t selector = 0; selector < 4 / c.threads; ++selector) {
        ++seed;
        const bool any = std::string(variant) == "sp";
        INFO(c.shape << " " << c.types << " " << variant << " selector " << selector << " seed "
                     << seed);
        std::mt19937 g(seed);
        const SparseA a(16, c.k, c.a, seed, any ? uint32_t(t5::kOfFour.size()) : t5::kAscending);
        const Codes b(8, c.k, c.b, seed + 1000);
        const Layout l(c);
        const std::vector<uint32_t> in = lanes(c, a, b, selector, g);
        const std::vector<uint32_t> out = must(op(c, variant, selector), in, l.width, l.nc);
        for (uint32_t lane = 0; lane < 32; ++lane)
          for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t row = lane / 4 + (i >= 2 ? 8 : 0), column = 2 * (lane % 4) + i % 2;
            const uint32_t start = in[lane * l.width + l.na + l.nb + (l.half ? i / 2 : i)];
            const uint32_t got = out[lane * l.nc + (l.half ? i / 2 : i)];
            const double sum = t5::dot(a, row, b, c.b, column);
            if (l.integer)
              REQUIRE(int32_t(got) == int32_t(sum) + int32_t(start));
            else if (l.half)
              REQUIRE(vgpu::num::f16_to_f32(uint16_t(got >> 16 * (i % 2))) ==
                      sum + vgpu::num::f16_to_f32(uint16_t(start >> 16 * (i % 2))));
            else
              REQUIRE(got == t5::float_bits(sum + double(std::bit_cast<float>(start))));
          }
      }
}

TEST_CASE("mma.sp: what it refuses", "[virtual][sparse]") {
  const Case& c = kCases[1];
  std::mt19937 g(1);
  const SparseA a(16, c.k, c.a, 3100, t5::kAscending);
  const Codes b(8, c.k, c.b, 3101);
  const Layout l(c);
  std::vector<uint32_t> in = lanes(c, a, b, 0, g), out;
  auto run = [&](const std::string& text) { return warp(text, in, l.width, l.nc, out); };
  CHECK(run(op(c, "sp", 2)).refused("the sparsity selector must be a constant below 2"));
  CHECK(run(op(c, "sp", 1)).faulted("sparsity", "no meaning")); // lanes 2 and 3 hold none
  uint32_t& word = in[21 * l.width + l.width - 1];              // lane 21: rows 5 and 13
  word = (word & ~0xF00u) | 0x600;                              // positions 2, 1
  CHECK(run(op(c, "sp", 0)).ok);
  RunResult r = run(op(c, "sp::ordered_metadata", 0));
  INFO(r.text);
  CHECK(r.faulted("sparsity", "metadata of row 5, chunk 6 is 0x6 (lane 21, bits 8 on)"));
  CHECK(run("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32 "
            "{%r30,%r31,%r32,%r33}, {%r10,%r11,%r12,%r13}, {%r10,%r11,%r12,%r13}, "
            "{%r10,%r11,%r12,%r13}, %r14, 0;")
            .refused("for sm_120a and later"));
}
