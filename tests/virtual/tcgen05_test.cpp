// tcgen05: allocation, loads and stores, copies, MMAs and commits. Expected values are computed
// here from the layouts of PTX ISA 9.7.16, under every schedule.
#include "tests/virtual/tcgen05_text.hpp"
#include "tools/vgpu/check/options.hpp"

using namespace wltest;
using namespace wltest::tcgen05;

TEST_CASE("tcgen05: alloc, st, ld, dealloc give back what was stored", "[virtual][tcgen05]") {
  // Thread t of row t stores (t << 16 | column) and reads it back through each shape that covers
  // it.
  for (const std::string& schedule : schedules()) {
    std::string body = allocate(32) + kOwnLanes + "  shl.b32 %r2, %r0, 16;\n";
    for (int i = 0; i < 8; ++i)
      body += "  or.b32 %r" + std::to_string(50 + i) + ", %r2, " + std::to_string(i) + ";\n";
    body += R"(
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11], {%r50,%r51,%r52,%r53,%r54,%r55,%r56,%r57};
  tcgen05.wait::st.sync.aligned;
)" + store_rows(8) +
            release(32);
    std::vector<uint32_t> out = run(body, std::vector<uint8_t>(16), 8, schedule);
    for (uint32_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == ((i / 8) << 16 | i % 8));
  }
}

TEST_CASE("tcgen05: register maps of the 16-lane shapes", "[virtual][tcgen05]") {
  // Each word holds lane << 16 | column; the table of the shapes, PTX ISA 9.7.16.2.3.
  struct Case {
    const char* shape;
    uint32_t registers;
    uint32_t (*lane)(uint32_t t, uint32_t i);
    uint32_t (*column)(uint32_t t, uint32_t i);
  };
  const Case cases[] = {
      {"16x64b.x4.b32", 4, [](uint32_t t, uint32_t) { return t / 4 + 8 * (t % 2); },
       [](uint32_t t, uint32_t i) { return 2 * i + t / 2 % 2; }},
      {"16x128b.x2.b32", 4, [](uint32_t t, uint32_t i) { return t / 4 + 8 * (i % 2); },
       [](uint32_t t, uint32_t i) { return 4 * (i / 2) + t % 4; }},
      {"16x256b.x1.b32", 4, [](uint32_t t, uint32_t i) { return t / 4 + 8 * (i / 2); },
       [](uint32_t t, uint32_t i) { return 2 * (t % 4) + i % 2; }},
      {"16x32bx2.x4.b32", 4, [](uint32_t t, uint32_t) { return t % 16; },
       [](uint32_t t, uint32_t i) { return i + t / 16 * 4; }},
  };
  for (const Case& c : cases)
    for (const std::string& schedule : schedules()) {
      INFO("shape " << c.shape);
      std::string split = std::string(c.shape).find("x2.x") != std::string::npos ? ", 4" : "";
      std::string body = allocate(32) + kOwnLanes + "  shl.b32 %r2, %r0, 16;\n";
      for (int i = 0; i < 8; ++i)
        body += "  or.b32 %r" + std::to_string(50 + i) + ", %r2, " + std::to_string(i) + ";\n";
      body += R"(
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11], {%r50,%r51,%r52,%r53,%r54,%r55,%r56,%r57};
  tcgen05.wait::st.sync.aligned;
  add.u32 %r12, %r11, 0x100000;
  tcgen05.ld.sync.aligned.)" +
              std::string(c.shape) + " {%r40,%r41,%r42,%r43}, [%r11]" + split + R"(;
  tcgen05.ld.sync.aligned.)" +
              c.shape + " {%r44,%r45,%r46,%r47}, [%r12]" + split + R"(;
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd30, %r0, 32;
  add.u64 %rd30, %rd0, %rd30;
  st.global.v4.b32 [%rd30], {%r40,%r41,%r42,%r43};
  st.global.v4.b32 [%rd30+16], {%r44,%r45,%r46,%r47};
)" + release(32);
      std::vector<uint32_t> out = run(body, std::vector<uint8_t>(16), 8, schedule);
      for (uint32_t t = 0; t < 128; ++t)
        for (uint32_t i = 0; i < 8; ++i) {
          uint32_t lane = t / 32 * 32 + i / 4 * 16 + c.lane(t % 32, i % 4);
          INFO("thread " << t << " register " << i);
          REQUIRE(out[t * 8 + i] == (lane << 16 | c.column(t % 32, i % 4)));
        }
    }
}

TEST_CASE("tcgen05: pack::16b joins the low halves of two columns", "[virtual][tcgen05]") {
  for (const std::string& schedule : schedules()) {
    std::string body = allocate(32) + kOwnLanes + R"(
  add.u32 %r50, %r0, 0x11110000;
  add.u32 %r51, %r0, 0x22220100;
  add.u32 %r52, %r0, 0x33330200;
  add.u32 %r53, %r0, 0x44440300;
  tcgen05.st.sync.aligned.32x32b.x4.b32 [%r11], {%r50,%r51,%r52,%r53};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {%r54,%r55}, [%r11];
  tcgen05.wait::ld.sync.aligned;
  add.u32 %r12, %r11, 4;
  tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r12], {%r54,%r55};
  tcgen05.wait::st.sync.aligned;
)" + store_rows(8) + R"(
  st.global.v2.b32 [%rd30], {%r54,%r55};
)" + release(32);
    std::vector<uint32_t> out = run(body, std::vector<uint8_t>(16), 8, schedule);
    for (uint32_t t = 0; t < 128; ++t) {
      REQUIRE(out[t * 8] == ((0x100 + t) << 16 | t));
      REQUIRE(out[t * 8 + 1] == ((0x300 + t) << 16 | (0x200 + t)));
      for (uint32_t c = 0; c < 4; ++c) REQUIRE(out[t * 8 + 4 + c] == 0x100 * c + t);
    }
  }
}

TEST_CASE("tcgen05.ld.red: the least and the greatest of a thread's words", "[virtual][tcgen05]") {
  // Words of row t: a mix of signs, with a NaN in the last column of odd rows.
  struct Case {
    const char* form;
    uint32_t (*of)(uint32_t, uint32_t, uint32_t);
  };
  static const auto value = [](uint32_t w) { return as_float(w); };
  static const auto bits = [](float f) { return std::bit_cast<uint32_t>(f); };
  const Case cases[] = {
      {"max.u32",
       [](uint32_t a, uint32_t b, uint32_t c) {
         return std::max({a, b, c});
       }},
      {"s32.min",
       [](uint32_t a, uint32_t b, uint32_t c) {
         return uint32_t(std::min({int32_t(a), int32_t(b), int32_t(c)}));
       }},
      {"min.f32",
       [](uint32_t a, uint32_t b, uint32_t c) {
         return bits(std::fmin(std::fmin(value(a), value(b)), value(c)));
       }},
      {"max.abs.f32",
       [](uint32_t a, uint32_t b, uint32_t c) {
         return bits(
             std::fmax(std::fmax(std::fabs(value(a)), std::fabs(value(b))), std::fabs(value(c))));
       }},
      {"f32.max.abs.NaN",
       [](uint32_t a, uint32_t b, uint32_t c) {
         if (std::isnan(value(c))) return 0x7FFFFFFFu;
         return bits(std::max({std::fabs(value(a)), std::fabs(value(b)), std::fabs(value(c))}));
       }},
  };
  auto text = [](const std::string& form, bool split) {
    return allocate(32) + kOwnLanes + R"(
  cvt.rn.f32.u32 %f0, %r0;
  sub.f32 %f1, 0f42810000, %f0;
  mul.f32 %f2, %f1, 0fBF000000;
  mov.b32 %r50, %f1;
  mov.b32 %r51, %f2;
  and.b32 %r2, %r0, 1;
  setp.eq.u32 %p3, %r2, 1;
  selp.b32 %r52, 0xFFC00001, %r51, %p3;
  tcgen05.st.sync.aligned.32x32b.x4.b32 [%r11], {%r50,%r51,%r50,%r52};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.red.sync.aligned.)" +
           (split ? "16x32bx2.x2." + form + " {%r40,%r41}, %r44, [%r11], 2;"
                  : "32x32b.x4." + form + " {%r40,%r41,%r42,%r43}, %r44, [%r11];") +
           R"(
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd30, %r0, 16;
  add.u64 %rd30, %rd0, %rd30;
  st.global.v4.b32 [%rd30], {%r40,%r41,%r44,%r44};
)" + release(32);
  };
  auto on = [](const std::string& profile, const std::string& target, const std::string& body,
               const std::string& schedule, std::vector<uint32_t>& out) {
    Vgpu gpu(profile);
    uint64_t to = gpu.allocate(128 * 16);
    Launch launch = block(128);
    launch.schedule = schedule;
    RunResult r =
        gpu.run(module_text(kShared + body, kParams, target), Params().u64(to).u64(to), launch);
    out = gpu.download<uint32_t>(to, 128 * 4);
    return r;
  };
  std::vector<uint32_t> out;
  for (const std::string& schedule : schedules())
    for (const Case& c : cases)
      for (bool split : {false, true}) {
        INFO(c.form << " schedule " << schedule);
        RunResult r = on("b300", "sm_103a", text(c.form, split), schedule, out);
        INFO(r.text);
        REQUIRE(r.ok);
        for (uint32_t t = 0; t < 128; ++t) {
          const uint32_t row = split ? t / 32 * 32 + t % 16 : t;
          const uint32_t first = bits(64.5f - float(row)),
                         second = bits((64.5f - float(row)) * -0.5f),
                         last = row % 2 ? 0xFFC00001u : second;
          INFO("thread " << t);
          if (split && t % 32 < 16)
            REQUIRE(out[4 * t + 2] == c.of(first, second, second));
          else
            REQUIRE(out[4 * t + 2] == c.of(first, split ? last : second, last));
        }
      }
  CHECK_FALSE(on("b200", "sm_100a", text("max.u32", false), "eager", out).ok);
  // The reduction is awaited like the rest.
  std::string early = text("max.u32", false);
  early.insert(early.find("  tcgen05.wait::ld"), "  add.u32 %r45, %r44, 1;\n");
  CHECK(on("b300", "sm_103a", early, "eager", out).faulted("pending", "%r44"));
}

TEST_CASE("tcgen05: NVFP4 MMA, bit for bit", "[virtual][tcgen05]") {
  for (uint32_t n : {8u, 64u, 128u, 136u, 256u})
    for (const std::string& schedule : schedules()) {
      INFO("n " << n << ", seed " << n);
      Fp4Problem p(n, n);
      std::string body = allocate(512) + fetch(uint32_t(p.image.size())) + p.issue(2) +
                         kCommitWait + kOwnLanes + store_rows(n) + release(512);
      std::vector<uint32_t> out = run(body, p.image, n, schedule);
      for (uint32_t m = 0; m < 128; ++m)
        for (uint32_t c = 0; c < n; ++c) {
          INFO("row " << m << " column " << c);
          REQUIRE(as_float(out[m * n + c]) == p.value(m, c, 2));
        }
    }
}

TEST_CASE("tcgen05: f16 MMA, K-major and 64 rows", "[virtual][tcgen05]") {
  // Small integers: every sum is exact. A 64 or 128 x 16, B n x 16, 32 bytes a row.
  for (uint32_t m_rows : {64u, 128u})
    for (const std::string& schedule : schedules()) {
      INFO("m " << m_rows);
      const uint32_t n = 32;
      std::mt19937 rng(m_rows);
      std::vector<uint8_t> a(m_rows * 32), b(n * 32);
      auto fill = [&](std::vector<uint8_t>& v) {
        const uint16_t codes[] = {0, 0x3C00, 0xBC00, 0x4000, 0xC200, 0x4400};
        for (size_t i = 0; i < v.size(); i += 2) {
          uint16_t c = codes[rng() % 6];
          std::memcpy(&v[i], &c, 2);
        }
      };
      fill(a);
      fill(b);
      auto at = [](const std::vector<uint8_t>& v, uint32_t r, uint32_t k) {
        uint16_t c;
        std::memcpy(&c, &v[r * 32 + k * 2], 2);
        return half(c);
      };
      std::vector<uint8_t> image(16384 + 4096);
      place(image, Fp4Problem::operand(0), a, m_rows, 32);
      place(image, Fp4Problem::operand(16384), b, n, 32);
      uint32_t idesc = layout::dense_instruction_desc(
          layout::DenseType::f16, layout::DenseType::f16, layout::AccumulatorType::f32, m_rows, n);
      std::string body = allocate(64) + fetch(uint32_t(image.size())) +
                         "  @!%p0 bra issued;\n  add.s64 %rd3, %rd2, " +
                         desc_text(layout::matrix_desc_tcgen05(Fp4Problem::operand(0))) +
                         ";\n  add.s64 %rd4, %rd2, " +
                         desc_text(layout::matrix_desc_tcgen05(Fp4Problem::operand(16384))) +
                         ";\n  mov.u32 %r15, " + std::to_string(idesc) + R"(;
  setp.eq.u32 %p3, %r15, %r15;
  mov.u32 %r16, 0;
  tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd3, %rd4, %r15, {%r16,%r16,%r16,%r16}, 0;
  tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd3, %rd4, %r15, %p3;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [bar+8];
issued:
)" + kCommitWait + kOwnLanes +
                         store_rows(n) + release(64);
      // D of 64 rows lies in 16 lanes of each 32; the others keep what they held.
      std::vector<uint32_t> out = run(body, image, n, schedule);
      for (uint32_t m = 0; m < m_rows; ++m)
        for (uint32_t c = 0; c < n; ++c) {
          float sum = 0;
          for (uint32_t k = 0; k < 16; ++k) sum += at(a, m, k) * at(b, c, k);
          uint32_t lane = m_rows == 64 ? m % 16 + m / 16 * 32 : m;
          INFO("row " << m << " column " << c);
          REQUIRE(as_float(out[lane * n + c]) == 2 * sum);
        }
    }
}

TEST_CASE("tcgen05: f8f6f4 with masked lanes", "[virtual][tcgen05]") {
  for (const std::string& schedule : schedules()) {
    const uint32_t n = 16;
    std::vector<uint8_t> a = random_bytes(128 * 32, 5, 0xBF), b = random_bytes(n * 32, 6, 0xBF);
    std::vector<uint8_t> image(16384 + 2048);
    place(image, Fp4Problem::operand(0), a, 128, 32);
    place(image, Fp4Problem::operand(16384), b, n, 32);
    uint32_t idesc = 1u << 4 | n >> 3 << 17 | 128u >> 4 << 24; // e4m3 x e4m3, f32
    std::string body = allocate(32) + fetch(uint32_t(image.size())) +
                       "  @!%p0 bra issued;\n  add.s64 %rd3, %rd2, " +
                       desc_text(layout::matrix_desc_tcgen05(Fp4Problem::operand(0))) +
                       ";\n  add.s64 %rd4, %rd2, " +
                       desc_text(layout::matrix_desc_tcgen05(Fp4Problem::operand(16384))) +
                       ";\n  mov.u32 %r15, " + std::to_string(idesc) + R"(;
  mov.u32 %r16, 0;
  mov.u32 %r17, 0x80000001;
  tcgen05.mma.cta_group::1.kind::f8f6f4 [%r10], %rd3, %rd4, %r15, {%r17,%r16,%r16,%r17}, 0;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];
issued:
)" + kCommitWait + kOwnLanes +
                       store_rows(n) + release(32);
    std::vector<uint32_t> out = run(body, image, n, schedule);
    for (uint32_t m = 0; m < 128; ++m)
      for (uint32_t c = 0; c < n; ++c) {
        double sum = 0;
        for (uint32_t k = 0; k < 32; ++k)
          sum += double(e4m3(a[m * 32 + k])) * double(e4m3(b[c * 32 + k]));
        bool off = m == 0 || m == 31 || m == 96 || m == 127;
        INFO("row " << m << " column " << c);
        if (off)
          REQUIRE(out[m * n + c] == 0x7FC0DEADu);
        else
          REQUIRE(as_float(out[m * n + c]) == float(sum));
      }
  }
}

TEST_CASE("tcgen05.cp: every shape puts its rows where the ISA says", "[virtual][tcgen05]") {
  struct Case {
    const char* shape;
    uint32_t rows, columns;
    int (*row_of)(uint32_t lane); // source row of a lane, -1: not written
  };
  const Case cases[] = {
      {"32x128b.warpx4", 32, 4, [](uint32_t l) { return int(l % 32); }},
      {"64x128b.warpx2::02_13", 64, 4, [](uint32_t l) { return int(l % 64); }},
      {"64x128b.warpx2::01_23", 64, 4, [](uint32_t l) { return int(l % 32 + l / 64 * 32); }},
      {"128x128b", 128, 4, [](uint32_t l) { return int(l); }},
      {"128x256b", 128, 8, [](uint32_t l) { return int(l); }},
      {"4x256b", 4, 8, [](uint32_t l) { return l % 32 ? -1 : int(l / 32); }},
  };
  for (const Case& c : cases)
    for (const std::string& schedule : schedules()) {
      INFO("shape " << c.shape);
      std::vector<uint8_t> image = random_bytes(128 * 32, 11);
      layout::MatrixDesc d; // no swizzle: 8 rows x 16 bytes, the second 16 bytes 2048 on
      d.stride_bytes = 128;
      d.leading_bytes = 2048;
      std::string body = allocate(32) + fetch(uint32_t(image.size())) +
                         "  @!%p0 bra issued;\n  add.s64 %rd3, %rd2, " +
                         desc_text(layout::matrix_desc_tcgen05(d)) +
                         ";\n  tcgen05.cp.cta_group::1." + c.shape + R"( [%r10], %rd3;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];
issued:
)" + kCommitWait + kOwnLanes +
                         store_rows(8) + release(32);
      std::vector<uint32_t> out = run(body, image, 8, schedule);
      for (uint32_t l = 0; l < 128; ++l)
        for (uint32_t w = 0; w < c.columns; ++w) {
          uint32_t want = 0x7FC0DEADu;
          int row = c.row_of(l);
          if (row >= 0)
            std::memcpy(&want, &image[w / 4 * 2048 + uint32_t(row) * 16 + w % 4 * 4], 4);
          INFO("lane " << l << " column " << w);
          REQUIRE(out[l * 8 + w] == want);
        }
    }
}

TEST_CASE("tcgen05.cp: 4- and 6-bit values spread to bytes", "[virtual][tcgen05]") {
  for (bool six : {false, true})
    for (const std::string& schedule : schedules()) {
      std::vector<uint8_t> image = random_bytes(128 * 16, 12);
      layout::MatrixDesc d;
      d.stride_bytes = 128;
      std::string body = allocate(32) + fetch(uint32_t(image.size())) +
                         "  @!%p0 bra issued;\n  add.s64 %rd3, %rd2, " +
                         desc_text(layout::matrix_desc_tcgen05(d)) +
                         ";\n  tcgen05.cp.cta_group::1.128x128b.b8x16." +
                         (six ? "b6x16_p32" : "b4x16_p64") + R"( [%r10], %rd3;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];
issued:
)" + kCommitWait + kOwnLanes +
                         store_rows(8) + release(32);
      std::vector<uint32_t> out = run(body, image, 8, schedule);
      for (uint32_t l = 0; l < 128; ++l)
        for (uint32_t i = 0; i < 16; ++i) {
          // Value i of the row: bits packed from the lowest on.
          uint32_t bits = six ? 6 : 4, code = 0;
          for (uint32_t b = 0; b < bits; ++b) {
            uint32_t at = i * bits + b;
            code |= uint32_t(image[l * 16 + at / 8] >> at % 8 & 1) << b;
          }
          uint32_t got = out[l * 8 + i / 4] >> 8 * (i % 4) & 0xFF;
          INFO("lane " << l << " value " << i);
          REQUIRE(got == (six ? code : code << 2));
        }
    }
}

// ---- faults

namespace {
void expect_fault(const std::string& body, const std::vector<uint8_t>& image,
                  const std::string& checker, const std::string& part,
                  const std::vector<std::string>& when = schedules()) {
  for (const std::string& schedule : when) {
    Vgpu gpu;
    uint64_t in = gpu.upload(image), out = gpu.allocate(128 * 512 * 4);
    Launch launch = block(128, uint32_t(image.size()));
    launch.schedule = schedule;
    RunResult r = gpu.run(module_text(kShared + body, kParams, "sm_100a", kDynamic),
                          Params().u64(in).u64(out), launch);
    INFO("schedule " << schedule << ", checker " << r.checker << ": " << r.text);
    REQUIRE(r.faulted(checker, part));
  }
}
const std::vector<std::string> kLazy{"lazy"};
} // namespace

TEST_CASE("tcgen05: misuse of tensor memory is found", "[virtual][tcgen05]") {
  std::vector<uint8_t> none(16);
  expect_fault(allocate(32) + "ret;", none, "tmem", "still allocated");
  expect_fault(allocate(48) + "ret;", none, "tmem", "48 columns");
  expect_fault(allocate(32) + release(64), none, "tmem", "32 are allocated");
  expect_fault(allocate(32) +
                   "@%p9 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;" +
                   release(32),
               none, "tmem", "relinquish");
  expect_fault(allocate(32) + kOwnLanes +
                   "add.u32 %r11, %r11, 32; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r11];" +
                   release(32),
               none, "tmem", "not allocated");
  // The lanes of another warp.
  expect_fault(allocate(32) + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r10];" + release(32),
               none, "tmem", "may reach");
  // Two values of cta_group.
  expect_fault(allocate(32) + "@%p9 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 32; ret;",
               none, "cta_group", "all tcgen05");
  // A part of the warp.
  expect_fault(
      allocate(32) + kOwnLanes +
          "setp.lt.u32 %p3, %r0, 7; @%p3 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r11];" +
          release(32),
      none, "aligned", "");
}

TEST_CASE("tcgen05: scale factors begin at even columns, copies at multiples of four",
          "[virtual][tcgen05]") {
  const Fp4Problem p(64, 5);
  // Copies to 256 and 260 + `to`; the MMA reads scale B `shift` columns further.
  auto run_at = [&](uint32_t to, uint32_t shift, uint32_t checks = vgpu::check::kBarriers) {
    std::string text = p.issue(1);
    const std::string place = "add.u32 %r13, %r10, 260;";
    text.replace(text.find(place), place.size(),
                 "add.u32 %r13, %r10, " + std::to_string(260 + to) + ";");
    const std::string mma = "  tcgen05.mma";
    text.insert(text.find(mma), "  add.u32 %r13, %r13, " + std::to_string(shift) + ";\n");
    Vgpu gpu;
    Launch launch = block(128, uint32_t(p.image.size()));
    launch.checks = checks;
    return gpu.run(module_text(kShared + allocate(512) + fetch(uint32_t(p.image.size())) + text +
                                   kCommitWait + release(512),
                               kParams, "sm_100a", kDynamic),
                   Params().u64(gpu.upload(p.image)).u64(0), launch);
  };
  for (const uint32_t odd : {1u, 3u}) {
    RunResult r = run_at(odd, 0);
    INFO(r.text);
    CHECK(r.faulted("tmem", "to column " + std::to_string(260 + odd)));
    CHECK(r.faulted("tmem", "the nearest is " + std::to_string(odd == 1 ? 260 : 264)));
    r = run_at(0, odd);
    INFO(r.text);
    CHECK(r.faulted("tmem", "scale B at column " + std::to_string(260 + odd)));
  }
  for (const uint32_t shift : {0u, 2u}) { // as for the odd one of two tiles of 64 columns
    const RunResult r = run_at(0, shift);
    INFO(r.text);
    CHECK(r.ok);
    CHECK(r.stats.advice().empty());
  }
  const RunResult r = run_at(2, 0);
  INFO(r.text);
  CHECK(r.ok);
  REQUIRE(r.stats.advice().size() == 1);
  CHECK_THAT(*r.stats.advice().begin(), ContainsSubstring("scale-column"));
  CHECK(
      run_at(2, 0, vgpu::check::kBarriers | vgpu::check::kAdvice).faulted("tmem", "scale-column"));
  CHECK(run_at(2, 0, 0).ok);
}

TEST_CASE("tcgen05: missing waits are found", "[virtual][tcgen05]") {
  std::vector<uint8_t> none(16);
  // Use of a loaded register before wait::ld: whatever the schedule.
  expect_fault(allocate(32) + kOwnLanes +
                   "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r11]; add.u32 %r41, %r40, 1;" +
                   release(32),
               none, "pending", "%r40");
  Fp4Problem p(64, 3);
  // A load of D without waiting for the commit.
  expect_fault(allocate(512) + fetch(uint32_t(p.image.size())) + p.issue(1) + "bar.sync 0;" +
                   kOwnLanes + store_rows(8) + kCommitWait + release(512),
               p.image, "pending", "tcgen05.mma", kLazy);
  // The operands are overwritten while the MMA reads them.
  expect_fault(allocate(512) + fetch(uint32_t(p.image.size())) + p.issue(1) +
                   "@%p0 st.shared.u32 [%r20], 1;" + kCommitWait + release(512),
               p.image, "pending", "still reads", kLazy);
  // The scales are overwritten while the MMA reads them: only the other order is the tensor core's.
  std::string twice = p.issue(1);
  const size_t copy = twice.find("tcgen05.cp"), mma = twice.find("tcgen05.mma");
  REQUIRE(mma != std::string::npos);
  REQUIRE(copy < mma);
  twice.insert(twice.find(';', mma) + 1,
               "\n  " + twice.substr(copy, twice.find(';', copy) + 1 - copy));
  expect_fault(allocate(512) + fetch(uint32_t(p.image.size())) + twice + kCommitWait + release(512),
               p.image, "pending", "tcgen05.mma", kLazy);
  // Deallocated under the MMA.
  expect_fault(allocate(512) + fetch(uint32_t(p.image.size())) + p.issue(1) + release(512), p.image,
               "pending", "dealloc", kLazy);
  // st without wait::st, then ld.
  expect_fault(allocate(32) + kOwnLanes +
                   "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r0};"
                   "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r11];" +
                   release(32),
               none, "pending", "tcgen05.st", kLazy);
  // The operands never came: the MMA is issued without waiting for the bulk copy.
  std::string early = fetch(uint32_t(p.image.size()));
  size_t wait = early.find("w0:"), end = early.find("and.b32 %r21");
  early.erase(wait, end - wait);
  expect_fault(allocate(512) + early + p.issue(1) + kCommitWait + release(512), p.image, "pending",
               "bulk copy", kLazy);
}

TEST_CASE("tcgen05: wrong descriptors are named", "[virtual][tcgen05]") {
  Fp4Problem p(64, 4);
  auto with = [&](const std::string& from, const std::string& to, const std::string& checker,
                  const std::string& part) {
    std::string issue = p.issue(1);
    size_t at = issue.find(from);
    REQUIRE(at != std::string::npos);
    issue.insert(at, to);
    expect_fault(allocate(512) + fetch(uint32_t(p.image.size())) + issue + kCommitWait +
                     release(512),
                 p.image, checker, part, kLazy);
  };
  const std::string before = "  tcgen05.mma.";
  with(before, "  xor.b64 %rd3, %rd3, 0x0000400000000000;\n", "descriptor", "bits 46-48");
  with(before, "  or.b64 %rd4, %rd4, 0x2000000000000000;\n", "descriptor", "layout type 3");
  with(before, "  or.b32 %r15, %r15, 4;\n", "idesc", "");
  with(before, "  mov.u32 %r15, 0x08000480;\n", "idesc", "");
  // Scale factors of one subpartition differ from the others.
  std::string s = p.issue(1);
  s.replace(s.find("32x128b.warpx4 [%r13]"), 14, "64x128b.warpx2::01_23");
  expect_fault(allocate(512) + fetch(uint32_t(p.image.size())) + s + kCommitWait + release(512),
               p.image, "scales", "subpartition", kLazy);
}
