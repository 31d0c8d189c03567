// The other kinds of tcgen05.mma: mxf4, mxf8f6f4, tf32, i8, f16 results, and A in tensor memory.
#include "tests/virtual/tcgen05_text.hpp"

using namespace wltest;
using namespace wltest::tcgen05;

namespace {

float ue8m0(uint32_t code) { return std::ldexp(1.0f, int(code) - 127); }

// A 128 x 32 bytes, B n x 32 bytes, optional scale words per row, D 128 x n in columns 0.
struct Kind {
  const char* opcode; // after tcgen05.mma.cta_group::1.
  uint32_t n, idesc;
  std::vector<uint8_t> a, b;
  std::vector<uint32_t> sfa, sfb; // empty: no scales
  bool a_in_tensor = false;

  std::vector<uint8_t> image() const {
    std::vector<uint8_t> v(16384 + 8192 + 1024 + 4096);
    place(v, Fp4Problem::operand(0), a, 128, 32);
    place(v, Fp4Problem::operand(16384), b, n, 32);
    for (uint32_t r = 0; r < sfa.size(); ++r)
      std::memcpy(&v[24576 + r % 32 * 16 + r / 32 * 4], &sfa[r], 4);
    for (uint32_t r = 0; r < sfb.size(); ++r)
      std::memcpy(&v[25088 + r % 32 * 16 + r / 32 * 4], &sfb[r], 4);
    // The rows of A plainly, for tcgen05.cp to tensor memory.
    for (uint32_t r = 0; r < 128; ++r)
      for (uint32_t u = 0; u < 2; ++u)
        std::memcpy(&v[25600 + u * 2048 + r * 16], &a[r * 32 + 16 * u], 16);
    return v;
  }
  std::string body() const {
    std::string s = allocate(512) + fetch(uint32_t(16384 + 8192 + 1024 + 4096)) +
                    "  @!%p0 bra issued;\n  add.u32 %r12, %r10, 256;\n  add.u32 %r13, %r10, 260;\n"
                    "  add.u32 %r14, %r10, 300;\n";
    auto desc = [&](const char* reg, layout::MatrixDesc d) {
      s += std::string("  add.s64 ") + reg + ", %rd2, " +
           desc_text(layout::matrix_desc_tcgen05(d)) + ";\n";
    };
    layout::MatrixDesc plain;
    plain.address = 25600;
    plain.stride_bytes = 128;
    plain.leading_bytes = 2048;
    desc("%rd3", Fp4Problem::operand(0));
    desc("%rd4", Fp4Problem::operand(16384));
    desc("%rd5", Fp4Problem::scale_atom(24576));
    desc("%rd6", Fp4Problem::scale_atom(25088));
    desc("%rd7", plain);
    s += "  mov.u32 %r15, " + std::to_string(idesc) + ";\n";
    if (!sfa.empty())
      s += "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %rd5;\n"
           "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r13], %rd6;\n";
    if (a_in_tensor) s += "  tcgen05.cp.cta_group::1.128x256b [%r14], %rd7;\n";
    s += std::string("  tcgen05.mma.cta_group::1.") + opcode + " [%r10], " +
         (a_in_tensor ? "[%r14]" : "%rd3") + ", %rd4, %r15, " +
         (sfa.empty() ? "0;\n" : "[%r12], [%r13], 0;\n");
    return s +
           "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
           "issued:\n" +
           kCommitWait + kOwnLanes + store_rows(n) + release(512);
  }
  template <class Fn>
  void check(Fn value) const {
    for (const std::string& schedule : schedules()) {
      std::vector<uint32_t> out = run(body(), image(), n, schedule);
      for (uint32_t m = 0; m < 128; ++m)
        for (uint32_t c = 0; c < n; ++c) {
          INFO(opcode << " schedule " << schedule << " row " << m << " column " << c);
          REQUIRE(out[m * n + c] == value(m, c));
        }
    }
  }
};

uint32_t bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}

std::vector<uint32_t> scale_words(uint32_t rows, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint32_t> v(rows);
  for (uint32_t& x : v)
    for (int i = 0; i < 4; ++i) x |= (120 + uint32_t(rng() % 16)) << 8 * i;
  return v;
}

} // namespace

TEST_CASE("tcgen05: kind mxf4, both scale ids", "[virtual][tcgen05]") {
  for (uint32_t id : {0u, 2u}) {
    Kind k{"kind::mxf4.block_scale.block32",
           32,
           layout::fp4_instruction_desc(layout::ScaleType::ue8m0, 128, 32, id, 2 - id),
           random_bytes(128 * 32, 41),
           random_bytes(32 * 32, 42),
           scale_words(128, 43),
           scale_words(32, 44)};
    k.check([&](uint32_t m, uint32_t c) {
      float d = 0;
      for (uint32_t j = 0; j < 2; ++j) {
        double sum = 0;
        for (uint32_t i = 32 * j; i < 32 * j + 32; ++i)
          sum += double(e2m1(k.a[m * 32 + i / 2] >> 4 * (i % 2) & 15)) *
                 double(e2m1(k.b[c * 32 + i / 2] >> 4 * (i % 2) & 15));
        d = float(double(d) + sum * double(ue8m0(k.sfa[m] >> 8 * (id + j) & 255)) *
                                  double(ue8m0(k.sfb[c] >> 8 * (2 - id + j) & 255)));
      }
      return bits(d);
    });
  }
}

TEST_CASE("tcgen05: kind mxf8f6f4, e4m3 and all scale ids", "[virtual][tcgen05]") {
  for (uint32_t id = 0; id < 4; ++id) {
    Kind k{"kind::mxf8f6f4.block_scale",
           16,
           layout::mxf8_instruction_desc(layout::Fp8Type::e4m3, layout::Fp8Type::e4m3, 128, 16, id,
                                         3 - id),
           random_bytes(128 * 32, 51, 0xBF),
           random_bytes(16 * 32, 52, 0xBF),
           scale_words(128, 53),
           scale_words(16, 54)};
    k.check([&](uint32_t m, uint32_t c) {
      double sum = 0;
      for (uint32_t i = 0; i < 32; ++i)
        sum += double(e4m3(k.a[m * 32 + i])) * double(e4m3(k.b[c * 32 + i]));
      return bits(float(sum * double(ue8m0(k.sfa[m] >> 8 * id & 255)) *
                        double(ue8m0(k.sfb[c] >> 8 * (3 - id) & 255))));
    });
  }
}

TEST_CASE("tcgen05: kinds i8 and tf32, and A in tensor memory", "[virtual][tcgen05]") {
  for (bool in_tensor : {false, true}) {
    INFO("A in tensor memory: " << in_tensor);
    // s8 x s8, s32: D type 2, A and B type 1.
    Kind k{"kind::i8",
           16,
           2u << 4 | 1u << 7 | 1u << 10 | 16u >> 3 << 17 | 128u >> 4 << 24,
           random_bytes(128 * 32, 61),
           random_bytes(16 * 32, 62),
           {},
           {},
           in_tensor};
    k.check([&](uint32_t m, uint32_t c) {
      int32_t sum = 0;
      for (uint32_t i = 0; i < 32; ++i)
        sum += int32_t(int8_t(k.a[m * 32 + i])) * int32_t(int8_t(k.b[c * 32 + i]));
      return uint32_t(sum);
    });
    // tf32 of small integers.
    std::mt19937 rng(63);
    auto integers = [&](uint32_t rows) {
      std::vector<uint8_t> v(rows * 32);
      for (size_t i = 0; i < v.size(); i += 4) {
        float f = float(int(rng() % 17) - 8);
        std::memcpy(&v[i], &f, 4);
      }
      return v;
    };
    Kind t{"kind::tf32",
           24,
           layout::dense_instruction_desc(layout::DenseType::tf32, layout::DenseType::tf32,
                                          layout::AccumulatorType::f32, 128, 24),
           integers(128),
           integers(24),
           {},
           {},
           in_tensor};
    if (in_tensor)
      t.n = 32, t.b = integers(32),
      t.idesc = layout::dense_instruction_desc(layout::DenseType::tf32, layout::DenseType::tf32,
                                               layout::AccumulatorType::f32, 128, 32);
    t.check([&](uint32_t m, uint32_t c) {
      float sum = 0;
      for (uint32_t i = 0; i < 8; ++i) {
        float x, y;
        std::memcpy(&x, &t.a[m * 32 + i * 4], 4);
        std::memcpy(&y, &t.b[c * 32 + i * 4], 4);
        sum += x * y;
      }
      return bits(sum);
    });
  }
}

TEST_CASE("tcgen05: f16 results lie in the low halves", "[virtual][tcgen05]") {
  std::mt19937 rng(71);
  const uint16_t codes[] = {0, 0x3C00, 0xBC00, 0x4000, 0xC000};
  auto values = [&](uint32_t rows) {
    std::vector<uint8_t> v(rows * 32);
    for (size_t i = 0; i < v.size(); i += 2) std::memcpy(&v[i], &codes[rng() % 5], 2);
    return v;
  };
  Kind k{"kind::f16",
         16,
         layout::dense_instruction_desc(layout::DenseType::f16, layout::DenseType::f16,
                                        layout::AccumulatorType::f16, 128, 16),
         values(128),
         values(16),
         {},
         {}};
  for (const std::string& schedule : schedules()) {
    std::vector<uint32_t> out = run(k.body(), k.image(), k.n, schedule);
    for (uint32_t m = 0; m < 128; ++m)
      for (uint32_t c = 0; c < k.n; ++c) {
        float sum = 0;
        for (uint32_t i = 0; i < 16; ++i) {
          uint16_t x, y;
          std::memcpy(&x, &k.a[m * 32 + i * 2], 2);
          std::memcpy(&y, &k.b[c * 32 + i * 2], 2);
          sum += half(x) * half(y);
        }
        REQUIRE(out[m * k.n + c] <= 0xFFFF);
        REQUIRE(half(out[m * k.n + c]) == sum);
      }
  }
}
