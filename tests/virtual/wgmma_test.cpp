// wgmma: operands from shared memory and registers, transpositions, types, groups, and the faults.
// Values are small integers, so that every sum is exact and the order of accumulation is not seen.
#include "tests/virtual/wgmma_text.hpp"

#include <random>

using namespace wltest;
using namespace wltest::wgmma;

namespace {

// Matrices of small integers, coded in `bytes` a element.
struct Matrix {
  uint32_t rows, k;
  std::vector<int> v;
  Matrix(uint32_t rows_, uint32_t k_, uint32_t seed) : rows(rows_), k(k_), v(rows_ * k_) {
    std::mt19937 rng(seed);
    for (int& x : v) x = int(rng() % 9) - 4;
  }
  int at(uint32_t r, uint32_t c) const { return v[r * k + c]; }
};
uint16_t f16_code(int x) {
  const uint16_t magnitude[] = {0, 0x3C00, 0x4000, 0x4200, 0x4400};
  return uint16_t(magnitude[x < 0 ? -x : x] | (x < 0 ? 0x8000 : 0));
}
uint32_t f32_code(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}
uint8_t e4m3_code(int x) {
  const uint8_t magnitude[] = {0, 0x38, 0x40, 0x44, 0x48};
  return uint8_t(magnitude[x < 0 ? -x : x] | (x < 0 ? 0x80 : 0));
}

// K-major rows of 32 bytes into the image.
template <class Code>
void place(std::vector<uint8_t>& image, const layout::MatrixDesc& d, const Matrix& m, Code code) {
  std::vector<uint8_t> dense;
  for (int x : m.v) {
    auto c = code(x);
    const auto* p = reinterpret_cast<const uint8_t*>(&c);
    dense.insert(dense.end(), p, p + sizeof c);
  }
  uint32_t row = uint32_t(dense.size()) / m.rows;
  REQUIRE(row == 32);
  for (uint32_t r = 0; r < m.rows; ++r)
    for (uint32_t u = 0; u < 2; ++u)
      std::memcpy(&image[layout::k_major_address(d, r, u)], &dense[r * 32 + 16 * u], 16);
}

int product(const Matrix& a, const Matrix& b, uint32_t r, uint32_t c) {
  int sum = 0;
  for (uint32_t k = 0; k < a.k; ++k) sum += a.at(r, k) * b.at(c, k);
  return sum;
}

} // namespace

TEST_CASE("wgmma: f16 from descriptors, accumulated twice, negated", "[virtual][wgmma]") {
  for (uint32_t n : {8u, 32u, 104u, 256u})
    for (const std::string& schedule : schedules()) {
      INFO("n " << n << " schedule " << schedule);
      Matrix a(64, 16, n), b(n, 16, n + 1);
      std::vector<uint8_t> image(8192 + 128 * 256);
      place(image, k_major(0), a, f16_code);
      place(image, k_major(8192), b, f16_code);
      std::string op = "  wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) +
                       "k16.f32.f16.f16 " + registers("acc", n / 2) + ", %rd5, %rd6, ";
      std::string body = head(uint32_t(image.size())) + zero(n / 2) +
                         descriptor("%rd5", k_major(0)) + descriptor("%rd6", k_major(8192)) +
                         "  setp.ne.u32 %p2, %r0, %r0;\n  wgmma.fence.sync.aligned;\n" + op +
                         "%p2, 1, 1, 0, 0;\n" + op + "!%p2, 1, 1, 0, 0;\n" + op +
                         "1, -1, 1, 0, 0;\n" + op + "1, 1, 1, 0, 0;\n" + kFinish + store(n / 2);
      std::vector<uint32_t> out;
      RunResult r = run(body, image, n / 2, schedule, &out);
      INFO(r.text);
      REQUIRE(r.ok);
      for (uint32_t t = 0; t < 128; ++t)
        for (uint32_t e = 0; e < n / 2; ++e)
          REQUIRE(out[e * 128 + t] ==
                  f32_code(float(2 * product(a, b, row_of(t, e), column_of(t, e)))));
    }
}

TEST_CASE("wgmma: A from registers, B transposed, f16 results", "[virtual][wgmma]") {
  // A register i of thread t: two values of row 16w + t div 4 + 8 (i mod 2), k from
  // 2 (t mod 4) + 8 (i div 2). B is N-major: 64 n x 16 k of f16 in 128-byte rows of n.
  const uint32_t n = 64;
  for (const std::string& schedule : schedules()) {
    Matrix a(64, 16, 3), b(n, 16, 4);
    std::vector<uint8_t> image(4096 + 2048);
    // Registers of A as words [i][thread] from 4096 on.
    for (uint32_t i = 0; i < 4; ++i)
      for (uint32_t t = 0; t < 128; ++t) {
        uint32_t row = t / 32 * 16 + t % 32 / 4 + 8 * (i % 2), k = 2 * (t % 4) + 8 * (i / 2);
        uint32_t w = f16_code(a.at(row, k)) | uint32_t(f16_code(a.at(row, k + 1))) << 16;
        std::memcpy(&image[4096 + i * 512 + t * 4], &w, 4);
      }
    for (uint32_t k = 0; k < 16; ++k)
      for (uint32_t c = 0; c < n; ++c) {
        uint16_t code = f16_code(b.at(c, k));
        uint32_t linear = k % 8 * 128 + k / 8 * 1024 + c * 2;
        std::memcpy(&image[layout::swizzle(layout::Swizzle::b128, linear)], &code, 2);
      }
    layout::MatrixDesc d = k_major(0);
    std::string body = head(uint32_t(image.size())) + zero(n / 4) + descriptor("%rd6", d) + R"(
  shl.b32 %r30, %r0, 2;
  add.u32 %r30, %r20, %r30;
  ld.shared.b32 %r31, [%r30+4096];
  ld.shared.b32 %r32, [%r30+4608];
  ld.shared.b32 %r33, [%r30+5120];
  ld.shared.b32 %r34, [%r30+5632];
  setp.eq.u32 %p2, %r0, %r0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16 )" +
                       registers("acc", n / 4) + ", {%r31,%r32,%r33,%r34}, %rd6, %p2, 1, -1, 1;\n" +
                       kFinish + store(n / 4);
    std::vector<uint32_t> out;
    RunResult r = run(body, image, n / 4, schedule, &out);
    INFO(r.text);
    REQUIRE(r.ok);
    for (uint32_t t = 0; t < 128; ++t)
      for (uint32_t e = 0; e < n / 2; ++e) {
        int want = -product(a, b, row_of(t, e), column_of(t, e));
        uint32_t code = out[e / 2 * 128 + t] >> 16 * (e % 2) & 0xFFFF;
        // Integers up to 256 in f16: sign, exponent, fraction.
        int exponent = int(code >> 10 & 31), fraction = int(code & 1023) | 1024;
        int got = exponent == 0    ? 0
                  : exponent >= 25 ? fraction << (exponent - 25)
                                   : fraction >> (25 - exponent);
        if (code & 0x8000) got = -got;
        INFO("thread " << t << " element " << e);
        REQUIRE(got == want);
      }
  }
}

TEST_CASE("wgmma: e4m3, tf32 and 8-bit integers", "[virtual][wgmma]") {
  const uint32_t n = 16;
  struct Case {
    const char* shape;
    uint32_t k;
    const char* tail;
    bool integer;
  };
  const Case cases[] = {{"m64n16k32.f32.e4m3.e4m3", 32, ", 1, 1", false},
                        {"m64n16k8.f32.tf32.tf32", 8, ", 1, 1", false},
                        {"m64n16k32.s32.s8.s8", 32, "", true},
                        {"m64n16k32.satfinite.s32.s8.s8", 32, "", true}};
  for (const Case& c : cases)
    for (const std::string& schedule : schedules()) {
      INFO(c.shape << " schedule " << schedule);
      Matrix a(64, c.k, 5), b(n, c.k, 6);
      std::vector<uint8_t> image(8192 + 2048);
      auto put = [&](const layout::MatrixDesc& d, const Matrix& m) {
        if (c.integer)
          place(image, d, m, [](int x) { return int8_t(x); });
        else if (c.k == 8)
          place(image, d, m, [](int x) { return float(x); });
        else
          place(image, d, m, e4m3_code);
      };
      put(k_major(0), a);
      put(k_major(8192), b);
      std::string body = head(uint32_t(image.size())) + zero(n / 2) +
                         descriptor("%rd5", k_major(0)) + descriptor("%rd6", k_major(8192)) +
                         "  wgmma.fence.sync.aligned;\n  wgmma.mma_async.sync.aligned." + c.shape +
                         " " + registers("acc", n / 2) + ", %rd5, %rd6, 1" + c.tail + ";\n" +
                         kFinish + store(n / 2);
      std::vector<uint32_t> out;
      RunResult r = run(body, image, n / 2, schedule, &out);
      INFO(r.text);
      REQUIRE(r.ok);
      for (uint32_t t = 0; t < 128; ++t)
        for (uint32_t e = 0; e < n / 2; ++e) {
          int want = product(a, b, row_of(t, e), column_of(t, e));
          REQUIRE(out[e * 128 + t] == (c.integer ? uint32_t(want) : f32_code(float(want))));
        }
    }
}

TEST_CASE("wgmma: misuse is found", "[virtual][wgmma]") {
  Matrix a(64, 16, 7), b(8, 16, 8);
  std::vector<uint8_t> image(8192 + 1024);
  place(image, k_major(0), a, f16_code);
  place(image, k_major(8192), b, f16_code);
  const std::string start = head(uint32_t(image.size())) + zero(4) +
                            descriptor("%rd5", k_major(0)) + descriptor("%rd6", k_major(8192));
  const std::string fence = "  wgmma.fence.sync.aligned;\n";
  const std::string op = "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                         "{acc0,acc1,acc2,acc3}, %rd5, %rd6, 1, 1, 1, "
                         "0, 0;\n";
  auto fault = [&](const std::string& body, const std::string& checker, const std::string& part,
                   const std::vector<std::string>& when, uint32_t threads = 128) {
    for (const std::string& schedule : when) {
      RunResult r = run(body, image, 4, schedule, nullptr, threads);
      INFO("schedule " << schedule << ", checker " << r.checker << ": " << r.text);
      REQUIRE(r.faulted(checker, part));
    }
  };
  const std::vector<std::string> lazy{"lazy"};
  // An accumulator is used before wait_group: whatever the schedule.
  fault(start + fence + op + "wgmma.commit_group.sync.aligned;" + store(4), "pending", "acc0",
        schedules());
  fault(start + fence + op + op + "wgmma.commit_group.sync.aligned;\n" + op +
            "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" + store(4),
        "pending", "acc0", schedules());
  // Part of it as another accumulator.
  fault(start + fence + op +
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {acc1,acc0,acc2,acc3}, %rd5, %rd6, "
            "1, 1, 1, "
            "0, 0;" +
            kFinish + store(4),
        "pending", "another accumulator", schedules());
  fault(start + op + kFinish + store(4), "wgmma", "fence", schedules());
  fault(start + fence + op + "wgmma.commit_group.sync.aligned; st.shared.b32 [%r20], %r0;" +
            kFinish + store(4),
        "pending", "still reads", lazy);
  // One warp does not take part: its warpgroup never starts.
  fault(start + fence + "setp.lt.u32 %p2, %r0, 96;\n@!%p2 bra out;\n" + op + kFinish + "out:\nret;",
        "deadlock", "", schedules());
  // Descriptors of the other generation.
  fault(start + fence + "xor.b64 %rd5, %rd5, 0x0000400000000000;\n" + op + kFinish + store(4),
        "descriptor", "tcgen05", lazy);
  fault(start + fence + op + kFinish + store(4), "wgmma", "no complete warpgroup", lazy, 96);
}
