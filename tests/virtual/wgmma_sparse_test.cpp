// wgmma with a sparse A and with single bits, against dense sums.
#include "tests/virtual/sparse_matrix.hpp"
#include "tests/virtual/wgmma_text.hpp"

using namespace wltest;
using namespace wltest::wgmma;
using tcgen05::Codes;
using tcgen05::dot;
using tcgen05::float_bits;
using tcgen05::Format;
using tcgen05::SparseA;

namespace {

// A at 0, B at 8192, a word a thread of metadata, then four words a thread of A in registers.
constexpr uint32_t kN = 16, kB = 8192, kCodes = kB + 2048, kA = kCodes + 512, kBytes = kA + 2048;

struct SparseCase {
  const char* shape; // m64n16k32.f32.f16.f16
  Format f;
  uint32_t k, selector;
  const char* tail; // operands after scale-d
  bool integer, in_registers;

  // The instruction and what stands before it.
  std::string body() const {
    return head(kBytes) + zero(kN / 2) + descriptor("%rd5", k_major(0)) +
           descriptor("%rd6", k_major(kB)) + R"(
  shl.b32 %r30, %r0, 2;
  add.u32 %r30, %r20, %r30;
)" + "  ld.shared.b32 %r31, [%r30+" +
           std::to_string(kCodes) + "];\n" + a_registers() + R"(
  setp.ne.u32 %p2, %r0, %r0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sp.sync.aligned.)" +
           shape + " " + registers("acc", kN / 2) +
           (in_registers ? ", {%r32,%r33,%r34,%r35}" : ", %rd5") + ", %rd6, %r31, " +
           std::to_string(selector) + ", %p2" + tail + ";\n" + kFinish + store(kN / 2);
  }
  std::string a_registers() const {
    std::string s;
    for (uint32_t i = 0; i < 4; ++i)
      s += "  ld.shared.b32 %r" + std::to_string(32 + i) + ", [%r30+" +
           std::to_string(kA + i * 512) + "];\n";
    return s;
  }
  std::vector<uint8_t> image(const SparseA& a, const Codes& b) const {
    std::vector<uint8_t> v(kBytes);
    const std::vector<uint8_t> stored = a.stored.bytes();
    tcgen05::place(v, k_major(0), stored, 64, 32);
    tcgen05::place(v, k_major(kB), b.bytes(), kN, 64);
    // Lane 4 g + s of warp w holds codes of rows 16 w + g and 16 w + g + 8.
    for (uint32_t t = 0; t < 128; ++t) {
      const uint32_t row = t / 32 * 16 + t % 32 / 4, s = t % 4, half = a.chunks / 2;
      uint32_t word = 0;
      for (uint32_t nibble = 0; nibble < 8; ++nibble) {
        uint32_t code = 0xF; // of threads that are not asked
        if (f.bits == 8)
          code = a.code(row + 8 * (s % 2), 8 * (s / 2) + nibble);
        else if (s / 2 == selector)
          code = a.code(row + 8 * (nibble / 4), half * (s % 2) + nibble % 4);
        word |= code << 4 * nibble;
      }
      std::memcpy(&v[kCodes + t * 4], &word, 4);
      for (uint32_t i = 0; i < 4; ++i)
        std::memcpy(&v[kA + i * 512 + t * 4],
                    &stored[(row + 8 * (i % 2)) * 32 + 4 * s + 16 * (i / 2)], 4);
    }
    return v;
  }
};

} // namespace

TEST_CASE("wgmma: a sparse A", "[virtual][wgmma][sparse]") {
  const char* const kWide = ", 1, 1, 0, 0";
  uint32_t seed = 2000;
  for (bool in_registers : {false, true})
    for (const SparseCase& c :
         {SparseCase{"m64n16k32.f32.f16.f16", tcgen05::format_f16(), 32, 0,
                     in_registers ? ", 1, 1, 0" : kWide, false, in_registers},
          SparseCase{"m64n16k32.f32.f16.f16", tcgen05::format_f16(), 32, 1,
                     in_registers ? ", 1, 1, 0" : kWide, false, in_registers},
          SparseCase{"m64n16k16.f32.tf32.tf32", tcgen05::format_tf32(), 16, 1, ", 1, 1", false,
                     in_registers},
          SparseCase{"m64n16k64.f32.e4m3.e4m3", tcgen05::format_e4m3(), 64, 0, ", 1, 1", false,
                     in_registers},
          SparseCase{"m64n16k64.s32.s8.s8", tcgen05::format_s8(), 64, 0, "", true, in_registers}}) {
      SparseA a(64, c.k, c.f, ++seed);
      Codes b(kN, c.k, c.f, seed + 100);
      for (const std::string& schedule : schedules()) {
        INFO(c.shape << " selector " << c.selector << " A in registers " << in_registers << " seed "
                     << seed << " schedule " << schedule);
        std::vector<uint32_t> out;
        RunResult r = run(c.body(), c.image(a, b), kN / 2, schedule, &out);
        INFO(r.text);
        REQUIRE(r.ok);
        for (uint32_t t = 0; t < 128; ++t)
          for (uint32_t e = 0; e < kN / 2; ++e) {
            const double want = dot(a, row_of(t, e), b, c.f, column_of(t, e));
            REQUIRE(out[e * 128 + t] == (c.integer ? uint32_t(int32_t(want)) : float_bits(want)));
          }
      }
    }
}

TEST_CASE("wgmma: metadata without a meaning, a selector out of range",
          "[virtual][wgmma][sparse]") {
  SparseCase c{"m64n16k64.s32.s8.s8", tcgen05::format_s8(), 64, 0, "", true, false};
  SparseA a(64, 64, c.f, 2100);
  Codes b(kN, 64, c.f, 2101);
  std::vector<uint8_t> image = c.image(a, b);
  image[kCodes + 4 * 40] = 0x55;
  RunResult r = run(c.body(), image, kN / 2, "lazy", nullptr);
  INFO(r.text);
  CHECK(r.faulted("sparsity", "no meaning"));
  c.selector = 1;
  CHECK(run(c.body(), image, kN / 2, "lazy", nullptr).refused("must be the constant 0"));
}

TEST_CASE("wgmma: bits, and with popc", "[virtual][wgmma]") {
  std::mt19937 rng(2200);
  std::vector<uint8_t> a(64 * 32), b(kN * 32), image(kB + 2048);
  for (uint8_t& x : a) x = uint8_t(rng());
  for (uint8_t& x : b) x = uint8_t(rng());
  tcgen05::place(image, k_major(0), a, 64, 32);
  tcgen05::place(image, k_major(kB), b, kN, 32);
  const std::string op = "  wgmma.mma_async.sync.aligned.m64n16k256.s32.b1.b1.and.popc " +
                         registers("acc", kN / 2) + ", %rd5, %rd6, ";
  const std::string body = head(uint32_t(image.size())) + zero(kN / 2) +
                           descriptor("%rd5", k_major(0)) + descriptor("%rd6", k_major(kB)) +
                           "  setp.ne.u32 %p2, %r0, %r0;\n  wgmma.fence.sync.aligned;\n" + op +
                           "%p2;\n" + op + "!%p2;\n" + kFinish + store(kN / 2);
  for (const std::string& schedule : schedules()) {
    std::vector<uint32_t> out;
    RunResult r = run(body, image, kN / 2, schedule, &out);
    INFO("schedule " << schedule << "\n" << r.text);
    REQUIRE(r.ok);
    for (uint32_t t = 0; t < 128; ++t)
      for (uint32_t e = 0; e < kN / 2; ++e) {
        uint32_t both = 0;
        for (uint32_t i = 0; i < 256; ++i)
          both +=
              a[row_of(t, e) * 32 + i / 8] >> i % 8 & b[column_of(t, e) * 32 + i / 8] >> i % 8 & 1;
        REQUIRE(out[e * 128 + t] == 2 * both);
      }
  }
}
