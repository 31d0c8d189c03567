// tcgen05.mma.ws with its layouts, zero columns and shifts; .ashift and tcgen05.shift.
#include "tests/virtual/tcgen05_forms_text.hpp"

using namespace wltest;
using namespace wltest::tcgen05;

namespace {

double dot(const Codes& a, const Codes& b, const Format& f, uint32_t m, uint32_t c) {
  double sum = 0;
  for (uint32_t i = 0; i < a.k; ++i) sum += f.value(a.at(m, i)) * f.value(b.at(c, i));
  return sum;
}

// One product of f16 matrices, M x N x 16.
struct WeightsCase {
  uint32_t m, n, shift;
  Format f = format_f16();
  Codes a, b;
  FormCase c;

  WeightsCase(uint32_t m_, uint32_t n_, uint32_t shift_, uint32_t seed)
      : m(m_), n(n_), shift(shift_), a(m, 16, f, seed), b(n + shift, 16, f, seed + 1) {
    c.opcode = ".ws.cta_group::1.kind::f16";
    c.operands = "0";
    c.idesc = layout::dense_instruction_desc(layout::DenseType::f16, layout::DenseType::f16,
                                             layout::AccumulatorType::f32, m, n);
    c.m = m, c.b_rows = n + shift;
    c.a = a.bytes(), c.b = b.bytes();
  }
  uint32_t banks() const { return 128 / m; }
  // Every element of D where layouts D, E and G put it.
  template <class Want>
  void check(Want want) const {
    const uint32_t columns = n / banks();
    for (const std::string& schedule : {std::string("eager"), std::string("lazy")}) {
      std::vector<uint32_t> out = c.run_on(schedule, 0, columns);
      for (uint32_t r = 0; r < m; ++r)
        for (uint32_t col = 0; col < n; ++col) {
          INFO("M " << m << " N " << n << " row " << r << " column " << col);
          REQUIRE(out[(r + m * (col / columns)) * columns + col % columns] ==
                  float_bits(want(r, col)));
        }
    }
  }
};

// The mask of the ISA's examples, built bit by bit: spans of zeros and of use take turns.
std::vector<bool> mask_of(uint32_t bits, bool zero_first, uint32_t start, uint32_t zeros,
                          uint32_t used) {
  std::vector<bool> mask;
  bool zero = zero_first;
  for (; mask.size() < bits + start; zero = !zero)
    for (uint32_t i = 0; i < (zero ? zeros : used); ++i) mask.push_back(zero);
  mask.erase(mask.begin(), mask.begin() + start);
  mask.resize(bits);
  return mask;
}

} // namespace

TEST_CASE("tcgen05.mma.ws: M of 32, 64 and 128", "[virtual][tcgen05][ws]") {
  for (uint32_t m : {32u, 64u, 128u})
    for (uint32_t n : {64u, 128u}) {
      WeightsCase w(m, n, 0, 900 + m + n);
      w.check([&](uint32_t r, uint32_t c) { return dot(w.a, w.b, w.f, r, c); });
    }
}

TEST_CASE("tcgen05.mma.ws: A in tensor memory is read in the lanes of D",
          "[virtual][tcgen05][ws]") {
  for (uint32_t m : {32u, 64u, 128u}) {
    WeightsCase w(m, 64, 0, 950 + m);
    // A different A for every part of N.
    Codes all(128, 16, w.f, 960 + m);
    w.c.a_in_tensor = true;
    w.c.lanes.resize(1024);
    std::vector<uint8_t> bytes = all.bytes();
    std::memcpy(w.c.lanes.data(), bytes.data(), bytes.size());
    w.check([&](uint32_t r, uint32_t c) {
      return dot(all, w.b, w.f, r + m * (c / (64 / w.banks())), c);
    });
  }
}

TEST_CASE("tcgen05.mma.ws: zero columns and shifts", "[virtual][tcgen05][ws]") {
  // M, starts, first spans (bit i: sub-mask i), shift: examples 2, 3 and 4 of PTX ISA 9.7.16.4.3.
  struct Example {
    uint32_t m, start[4], first, shift;
  };
  for (const Example& e : {Example{128, {0, 0, 0, 0}, 0, 0}, Example{64, {0, 0, 0, 0}, 1, 0},
                           Example{32, {0, 1, 2, 1}, 3, 2}, Example{64, {1, 2, 0, 0}, 2, 5}}) {
    WeightsCase w(e.m, 64, e.shift, 1000 + e.m + e.shift);
    const uint64_t skip = 2, use = 3;
    uint64_t bits =
        uint64_t(e.first) << 32 | 1ull << 39 | skip << 40 | use << 48 | uint64_t(e.shift) << 56;
    for (int i = 0; i < 4; ++i) bits |= uint64_t(e.start[i]) << 8 * i;
    w.c.operands = "0, " + std::to_string(bits);
    const uint32_t part = 64 / w.banks();
    w.check([&](uint32_t r, uint32_t c) {
      const uint32_t bank = c / part;
      if (mask_of(part, e.first >> bank & 1, e.start[bank], 3, 4)[c % part]) return 0.0;
      return dot(w.a, w.b, w.f, r, c + e.shift);
    });
  }
}

TEST_CASE("tcgen05.mma.ws: integers, collectors, a sparse A", "[virtual][tcgen05][ws]") {
  const Format f = format_s8();
  for (const char* collector : {"", ".collector::b2::fill", ".collector::b0::discard"}) {
    Codes a(64, 32, f, 1101), b(64, 32, f, 1102);
    FormCase c;
    c.opcode = std::string(".ws.cta_group::1.kind::i8") + collector;
    c.operands = "0, 0";
    c.idesc = 2u << 4 | 1u << 7 | 1u << 10 | layout::shape_bits(64, 64);
    c.m = 64, c.b_rows = 64, c.a = a.bytes(), c.b = b.bytes();
    std::vector<uint32_t> out = c.run_on("lazy", 0, 32);
    for (uint32_t r = 0; r < 64; ++r)
      for (uint32_t col = 0; col < 64; ++col)
        REQUIRE(out[(r + 64 * (col / 32)) * 32 + col % 32] ==
                uint32_t(int32_t(dot(a, b, f, r, col))));
  }
  // Sparse: keep values 0 and 2 of every four in the first half of N, 1 and 3 in the second.
  Codes a(64, 32, f, 1111), b(64, 64, f, 1112);
  FormCase c;
  c.opcode = ".ws.sp.cta_group::1.kind::i8", c.operands = "0", c.sparse = true;
  c.idesc = 4u | 2u << 4 | 1u << 7 | 1u << 10 | layout::shape_bits(64, 64);
  c.m = 64, c.b_rows = 64, c.a = a.bytes(), c.b = b.bytes();
  c.codes.assign(128, 0x88888888);
  c.codes.resize(256, 0xDDDDDDDD);
  std::vector<uint32_t> out = c.run_on("lazy", 0, 32);
  for (uint32_t r = 0; r < 64; ++r)
    for (uint32_t col = 0; col < 64; ++col) {
      double sum = 0;
      for (uint32_t i = 0; i < 32; ++i)
        sum += f.value(a.at(r, i)) * f.value(b.at(col, i / 2 * 4 + i % 2 * 2 + (col >= 32)));
      REQUIRE(out[(r + 64 * (col / 32)) * 32 + col % 32] == uint32_t(int32_t(sum)));
    }
}

TEST_CASE("tcgen05.mma.ws: what must fault", "[virtual][tcgen05][ws]") {
  auto fault = [&](auto change, const char* part) {
    WeightsCase w(64, 64, 0, 1200);
    change(w.c);
    std::string text = w.c.fault();
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  auto shape = [](uint32_t m, uint32_t n) {
    return layout::dense_instruction_desc(layout::DenseType::f16, layout::DenseType::f16,
                                          layout::AccumulatorType::f32, m, n);
  };
  fault([&](FormCase& c) { c.idesc = shape(64, 32); }, "64 x 32 is not a shape of tcgen05.mma.ws");
  fault([](FormCase& c) { c.operands = "0, 68719476736"; }, "reserved bits 36-38");
  fault([](FormCase& c) { c.operands = "0, 2377900603251621888"; }, "shift 33 is above 32");
  fault(
      [](FormCase& c) {
        c.opcode += ".collector::b1::use";
        c.operands = "0, 72057594037927936";
      },
      "shift 1 of a B in a collector is above");
  fault([](FormCase& c) { c.opcode = ".ws.cta_group::2.kind::f16"; }, "cta_group::2");
}

TEST_CASE("tcgen05.shift moves the rows of 32 lanes, .ashift those of A",
          "[virtual][tcgen05][shift]") {
  std::mt19937 rng(1300);
  FormCase c;
  c.b_rows = 8, c.b.resize(256);
  c.lanes.resize(1024);
  for (uint32_t& w : c.lanes) w = uint32_t(rng());
  const std::string lane64 = "  add.u32 %r17, %r14, 4194304;\n";
  c.after = lane64 + "  tcgen05.shift.cta_group::1.down [%r17];\n";
  std::vector<uint32_t> out = c.run_on("lazy", 300, 8);
  for (uint32_t l = 0; l < 128; ++l) {
    const uint32_t from = l >= 64 && l < 95 ? l + 1 : l;
    for (uint32_t i = 0; i < 8; ++i) REQUIRE(out[l * 8 + i] == c.lanes[from * 8 + i]);
  }
  FormCase bad = c;
  bad.after = "  add.u32 %r17, %r14, 524288;\n  tcgen05.shift.down.cta_group::1 [%r17];\n";
  CHECK(bad.fault().find("must be a multiple of 32") != std::string::npos);

  const Format f = format_f16();
  Codes a(128, 16, f, 1310), b(8, 16, f, 1311);
  FormCase s;
  s.opcode = ".cta_group::1.kind::f16.ashift.collector::a::lastuse", s.operands = "0";
  s.idesc = layout::dense_instruction_desc(layout::DenseType::f16, layout::DenseType::f16,
                                           layout::AccumulatorType::f32, 128, 8);
  s.b_rows = 8, s.b = b.bytes(), s.a_in_tensor = true;
  s.lanes.resize(1024);
  std::vector<uint8_t> bytes = a.bytes();
  std::memcpy(s.lanes.data(), bytes.data(), bytes.size());
  std::vector<uint32_t> product = s.run_on("lazy", 0, 8), rows = s.run_on("lazy", 300, 8);
  for (uint32_t l = 0; l < 128; ++l)
    for (uint32_t i = 0; i < 8; ++i) {
      REQUIRE(product[l * 8 + i] == float_bits(dot(a, b, f, l, i)));
      REQUIRE(rows[l * 8 + i] == s.lanes[(l % 32 == 31 ? l : l + 1) * 8 + i]);
    }
}
