// tcgen05.mma.sp: a dense A with structured zeros, its compressed form and metadata written from
// the layouts, and the product of the dense one.
#include "tests/virtual/tcgen05_forms_text.hpp"

using namespace wltest;
using namespace wltest::tcgen05;

namespace {

double ue8m0(uint32_t code) { return std::ldexp(1.0, int(code) - 127); }

// Metadata of rows that lie in lanes `lane(row)`. 16- and 32-bit types: sixteen lanes hold sixteen
// rows, eight of them the low half of K and eight the high half, rows r and r + 8 in one word.
template <class Lane>
void store_codes(const SparseA& a, uint32_t bits, uint32_t selector, Lane lane,
                 std::vector<uint32_t>& words) {
  words.resize(256, 0x44444444);
  auto put = [&](uint32_t at, uint32_t column, uint32_t nibble, uint32_t code) {
    uint32_t& w = words[at * 2 + column];
    w = (w & ~(15u << 4 * nibble)) | code << 4 * nibble;
  };
  for (uint32_t r = 0; r < a.m; ++r)
    for (uint32_t j = 0; j < a.chunks; ++j) {
      const uint32_t l = lane(r);
      if (bits < 16)
        put(l, j / 8, j % 8, a.code(r, j));
      else
        put(l - l % 16 + l % 8 + (j >= a.chunks / 2 ? 8 : 0), selector,
            j % (a.chunks / 2) + (l % 16 < 8 ? 0 : 4), a.code(r, j));
    }
}

uint32_t idesc_of(uint32_t type, uint32_t d, uint32_t m, uint32_t n) {
  return 4u | d << 4 | type << 7 | type << 10 | layout::shape_bits(m, n);
}
uint32_t layout_f(uint32_t row) { return row / 16 * 32 + row % 16; }

} // namespace

TEST_CASE("tcgen05.mma.sp: kinds f16, tf32, f8f6f4 and i8", "[virtual][tcgen05][sparse]") {
  struct Kind {
    const char* opcode;
    Format f;
    uint32_t k, type, d;
  };
  const uint32_t n = 24;
  uint32_t seed = 500;
  for (const Kind& kind : {Kind{".sp.cta_group::1.kind::f16", format_f16(), 32, 0, 1},
                           Kind{".sp.cta_group::1.kind::tf32", format_tf32(), 16, 2, 1},
                           Kind{".sp.cta_group::1.kind::f8f6f4", format_e4m3(), 64, 0, 1},
                           Kind{".sp.cta_group::1.kind::i8", format_s8(), 64, 1, 2}})
    for (uint32_t m : {128u, 64u})
      for (uint32_t selector : {0u, 1u})
        for (bool in_tensor : {false, true}) {
          if (selector == 1 && kind.f.bits < 16) continue;
          INFO(kind.opcode << " m " << m << " selector " << selector << " A in tensor memory "
                           << in_tensor << " seed " << ++seed);
          SparseA a(m, kind.k, kind.f, seed);
          Codes b(n, kind.k, kind.f, seed + 77);
          auto lane = [&](uint32_t r) { return m == 64 ? layout_f(r) : r; };
          FormCase c;
          c.opcode = kind.opcode;
          c.operands = "0";
          c.idesc = idesc_of(kind.type, kind.d, m, n) | selector;
          c.m = m, c.b_rows = n;
          c.a = a.stored.bytes(), c.b = b.bytes();
          c.sparse = true, c.a_in_tensor = in_tensor;
          store_codes(a, kind.f.bits, selector, lane, c.codes);
          if (in_tensor) {
            c.lanes.resize(1024);
            for (uint32_t r = 0; r < m; ++r) std::memcpy(&c.lanes[lane(r) * 8], &c.a[r * 32], 32);
            c.a.clear();
          }
          for (const std::string& schedule : {std::string("lazy"), std::string("random:5")}) {
            std::vector<uint32_t> out = c.run_on(schedule, 0, n);
            for (uint32_t r = 0; r < m; ++r)
              for (uint32_t col = 0; col < n; ++col) {
                INFO("row " << r << " column " << col);
                double want = dot(a, r, b, kind.f, col);
                REQUIRE(out[lane(r) * n + col] ==
                        (kind.d == 2 ? uint32_t(int32_t(want)) : float_bits(want)));
              }
          }
        }
}

TEST_CASE("tcgen05.mma.sp: an Inf in B opposite a zero of A is not seen",
          "[virtual][tcgen05][sparse]") {
  const Format f = format_f16();
  SparseA a(128, 32, f, 600);
  Codes b(8, 32, f, 601);
  for (uint32_t i = 0; i < 32; ++i) b.at(3, i) = 0x7C00; // Inf
  for (uint32_t i = 0; i < 32; ++i)
    if (a.dense[5 * 32 + i] != 0) b.at(3, i) = 0x3C00;
  FormCase c;
  c.opcode = ".sp.cta_group::1.kind::f16", c.operands = "0", c.sparse = true;
  c.idesc = idesc_of(0, 1, 128, 8);
  c.b_rows = 8, c.a = a.stored.bytes(), c.b = b.bytes();
  store_codes(
      a, 16, 0, [](uint32_t r) { return r; }, c.codes);
  std::vector<uint32_t> out = c.run_on("lazy", 0, 8);
  double sum = 0;
  for (uint32_t i = 0; i < 32; ++i) sum += a.dense[5 * 32 + i];
  CHECK(out[5 * 8 + 3] == float_bits(sum));
}

TEST_CASE("tcgen05.mma.sp: block-scaled kinds", "[virtual][tcgen05][sparse]") {
  struct Kind {
    const char* opcode;
    Format f;
    uint32_t k, scales, id_step;
    bool fp4, ue8m0;
  };
  const uint32_t n = 16;
  uint32_t seed = 700;
  for (const Kind& kind :
       {Kind{".sp.cta_group::1.kind::mxf8f6f4.block_scale", format_e4m3(), 64, 1, 1, false, true},
        Kind{".sp.cta_group::1.kind::mxf4.block_scale", format_e2m1(), 128, 2, 2, true, true},
        Kind{".sp.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::2X", format_e2m1(), 128, 2, 2,
             true, true},
        Kind{".sp.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", format_e2m1(), 128, 4, 4,
             true, false}})
    for (uint32_t id = 0; id < 4; id += kind.id_step) {
      INFO(kind.opcode << " scale id " << id << " seed " << ++seed);
      SparseA a(128, kind.k, kind.f, seed);
      Codes b(n, kind.k, kind.f, seed + 50);
      std::mt19937 rng(seed);
      FormCase c;
      c.opcode = kind.opcode, c.operands = "0", c.sparse = true;
      c.idesc = kind.fp4 ? layout::fp4_instruction_desc(kind.ue8m0 ? layout::ScaleType::ue8m0
                                                                   : layout::ScaleType::ue4m3,
                                                        128, n, id, id) |
                               4u
                         : layout::mxf8_instruction_desc(layout::Fp8Type::e4m3,
                                                         layout::Fp8Type::e4m3, 128, n, id, id) |
                               4u;
      c.b_rows = n, c.a = a.stored.bytes(), c.b = b.bytes();
      store_codes(
          a, kind.f.bits, 0, [](uint32_t r) { return r; }, c.codes);
      c.sfa.resize(128), c.sfb.resize(n);
      for (auto* words : {&c.sfa, &c.sfb})
        for (uint32_t& w : *words)
          for (int i = 0; i < 4; ++i)
            w |= (kind.ue8m0 ? 120 + uint32_t(rng() % 16) : uint32_t(rng() % 0x40)) << 8 * i;
      auto scale = [&](uint32_t word, uint32_t j) {
        uint32_t v = word >> 8 * (id + j) & 255;
        return kind.ue8m0 ? ue8m0(v) : double(ue4m3(v));
      };
      std::vector<uint32_t> out = c.run_on("random:3", 0, n);
      for (uint32_t r = 0; r < 128; ++r)
        for (uint32_t col = 0; col < n; ++col) {
          INFO("row " << r << " column " << col);
          float d = 0;
          for (uint32_t j = 0; j < kind.scales; ++j) {
            const uint32_t block = kind.k / kind.scales;
            d = float(double(d) + dot(a, r, b, kind.f, col, j * block, block) * scale(c.sfa[r], j) *
                                      scale(c.sfb[col], j));
          }
          REQUIRE(out[r * n + col] == float_bits(d));
        }
    }
}

TEST_CASE("tcgen05.mma.sp: what must fault", "[virtual][tcgen05][sparse]") {
  const Format f = format_f16();
  SparseA a(128, 32, f, 800);
  Codes b(8, 32, f, 801);
  FormCase c;
  c.opcode = ".sp.cta_group::1.kind::f16", c.operands = "0", c.sparse = true;
  c.idesc = idesc_of(0, 1, 128, 8);
  c.b_rows = 8, c.a = a.stored.bytes(), c.b = b.bytes();
  store_codes(
      a, 16, 0, [](uint32_t r) { return r; }, c.codes);
  auto fault = [&](auto change, const char* part) {
    FormCase bad = c;
    change(bad);
    std::string text = bad.fault();
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  fault([](FormCase& x) { x.codes[34] = 0x44444444 & ~0xF0u | 0x50; }, "no meaning");
  fault([](FormCase& x) { x.idesc &= ~4u; }, "bit 2 says dense");
  fault([](FormCase& x) { x.idesc |= 2; }, "bits 0-1 are 2");
  fault([](FormCase& x) { x.opcode = ".cta_group::1.kind::f16", x.sparse = false; },
        "bit 2 says sparse");
  fault(
      [](FormCase& x) {
        x.opcode = ".sp.cta_group::1.kind::i8";
        x.idesc = idesc_of(1, 2, 128, 8) | 1;
      },
      "bits 0-1 are 1");
}
