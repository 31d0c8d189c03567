// tcgen05: allocation, loads and stores, copies, MMAs and commits. Expected values are computed
// here from the layouts of PTX ISA 9.7.16, under every schedule.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include "ptx/layouts.hpp"

#include <cmath>
#include <random>

namespace {

using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::schedules;
using wltest::Vgpu;
namespace layout = warpline::ptx;

// ---- plain decoding, written from the format definitions

float e2m1(uint32_t code) {
  const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}
float ue4m3(uint32_t code) {
  int e = int(code >> 3 & 15), m = int(code & 7);
  return e == 0 ? std::ldexp(float(m), -9) : std::ldexp(float(8 + m), e - 10);
}
float e4m3(uint32_t code) { return (code & 0x80 ? -1.0f : 1.0f) * ue4m3(code & 0x7F); }
float half(uint32_t v) {
  int e = int(v >> 10 & 31), m = int(v & 1023);
  float x = e == 0 ? std::ldexp(float(m), -24) : std::ldexp(float(1024 + m), e - 25);
  return v & 0x8000 ? -x : x;
}

// ---- one CTA: shared image in, one or more MMAs, D out

Launch block(uint32_t threads, uint32_t dynamic = 0) {
  Launch launch;
  launch.block = {threads};
  launch.dynamic_shared = dynamic;
  return launch;
}

// Allocates `columns`, leaves the address in %r10 of every thread. Warp 0 allocates and frees.
std::string allocate(uint32_t columns) {
  return R"(
  mov.u32 %r0, %tid.x;
  shr.u32 %r9, %r0, 5;
  setp.eq.u32 %p0, %r0, 0;
  setp.eq.u32 %p9, %r9, 0;
  @%p9 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], )" +
         std::to_string(columns) + R"(;
  @%p9 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  bar.sync 0;
  ld.shared.b32 %r10, [slot];
)";
}
std::string release(uint32_t columns) {
  return R"(
  bar.sync 0;
  @%p9 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, )" +
         std::to_string(columns) + ";\n  ret;\n";
}
const char* const kShared = R"(
  .shared .align 8 .b64 bar[4];
  .shared .align 4 .b32 slot;
)";
// Where warp w reads: lane 32 * (w mod 4) of the address in %r10, in %r11.
const char* const kOwnLanes = R"(
  and.b32 %r11, %r9, 3;
  shl.b32 %r11, %r11, 21;
  add.u32 %r11, %r10, %r11;
)";

// Brings `bytes` from [image] to dynamic shared memory (aligned to 1024) at %r20; all wait.
std::string fetch(uint32_t bytes) {
  return R"(
  mov.u32 %r20, dynamic;
  ld.param.u64 %rd1, [image];
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
  bar.sync 0;
  @!%p0 bra fetched;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
         std::to_string(bytes) + R"(;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1], )" +
         std::to_string(bytes) + R"(, [bar];
fetched:
w0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w0;
  and.b32 %r21, %r20, 0x3FFFF;
  shr.u32 %r21, %r21, 4;
  cvt.u64.u32 %rd2, %r21;
)";
}
const char* const kCommitWait = R"(
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
  @!%p1 bra w1;
  tcgen05.fence::after_thread_sync;
)";
// Stores `n` columns of the own lane (one thread a row) from %r11 to out[row][n].
std::string store_rows(uint32_t n) {
  std::string s = R"(
  ld.param.u64 %rd0, [out];
  mul.lo.u32 %r30, %r0, )" +
                  std::to_string(n * 4) + R"(;
  cvt.u64.u32 %rd30, %r30;
  add.u64 %rd30, %rd0, %rd30;
)";
  for (uint32_t c = 0; c < n; c += 8) {
    s += "  add.u32 %r31, %r11, " + std::to_string(c) + ";\n";
    s += "  tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r40,%r41,%r42,%r43,%r44,%r45,%r46,%r47}, "
         "[%r31];\n  tcgen05.wait::ld.sync.aligned;\n";
    s += "  st.global.v4.b32 [%rd30+" + std::to_string(c * 4) + "], {%r40,%r41,%r42,%r43};\n";
    s += "  st.global.v4.b32 [%rd30+" + std::to_string(c * 4 + 16) + "], {%r44,%r45,%r46,%r47};\n";
  }
  return s;
}
const char* const kParams = ".param .u64 image, .param .u64 out";
const char* const kDynamic = ".extern .shared .align 1024 .b8 dynamic[];\n";

std::string desc_text(uint64_t desc) { return std::to_string(desc); }

// Runs and returns out[128][n] as words.
std::vector<uint32_t> run(const std::string& body, const std::vector<uint8_t>& image, uint32_t n,
                          const std::string& schedule) {
  Vgpu gpu;
  uint64_t in = gpu.upload(image), out = gpu.allocate(128 * n * 4);
  Launch launch = block(128, uint32_t(image.size()));
  launch.schedule = schedule;
  RunResult r = gpu.run(module_text(kShared + body, kParams, "sm_100a", kDynamic),
                        Params().u64(in).u64(out), launch);
  INFO("schedule " << schedule << "\n" << r.text);
  REQUIRE(r.ok);
  return gpu.download<uint32_t>(out, 128 * n);
}

float as_float(uint32_t v) {
  float f;
  std::memcpy(&f, &v, 4);
  return f;
}

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed, uint8_t mask = 0xFF) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(n);
  for (uint8_t& x : v) x = uint8_t(rng()) & mask;
  return v;
}

// Places 16-byte units of a dense K-major operand (rows of row_bytes) into the image.
void place(std::vector<uint8_t>& image, const layout::MatrixDesc& desc,
           const std::vector<uint8_t>& dense, uint32_t rows, uint32_t row_bytes) {
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t u = 0; u < row_bytes / 16; ++u)
      std::memcpy(image.data() + layout::k_major_address(desc, r, u),
                  dense.data() + size_t(r) * row_bytes + 16 * u, 16);
}

} // namespace

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

namespace {
// NVFP4 128 x N x 64 from the tables of 9.7.16.10: operands in 128-byte swizzle, one scale atom
// each.
struct Fp4Problem {
  uint32_t n;
  std::vector<uint8_t> a, b, sfa, sfb; // dense rows of 32 bytes; scales [row][4]
  std::vector<uint8_t> image;
  uint32_t b_at, sfa_at, sfb_at;

  Fp4Problem(uint32_t n_, uint32_t seed) : n(n_) {
    a = random_bytes(128 * 32, seed);
    b = random_bytes(n * 32, seed + 1);
    sfa = random_bytes(128 * 4, seed + 2, 0x3F);
    sfb = random_bytes(128 * 4 * ((n + 127) / 128), seed + 3, 0x3F);
    b_at = 16384;
    sfa_at = b_at + n * 128;
    sfb_at = sfa_at + 512;
    image = random_bytes(sfb_at + 1024, seed + 4);
    place(image, operand(0), a, 128, 32);
    place(image, operand(b_at), b, n, 32);
    scales(sfa, sfa_at, 128);
    scales(sfb, sfb_at, n);
  }
  static layout::MatrixDesc operand(uint32_t at) {
    layout::MatrixDesc d;
    d.address = at;
    d.stride_bytes = 1024;
    d.layout = layout::Swizzle::b128;
    return d;
  }
  static layout::MatrixDesc scale_atom(uint32_t at) {
    layout::MatrixDesc d;
    d.address = at;
    d.stride_bytes = 128;
    return d;
  }
  // 128x4 atoms: row r, scale s at (r mod 32) * 16 + (r div 32) * 4 + s.
  void scales(const std::vector<uint8_t>& s, uint32_t at, uint32_t rows) {
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t j = 0; j < 4; ++j)
        image[at + r / 128 * 512 + r % 32 * 16 + r % 128 / 32 * 4 + j] = s[r * 4 + j];
  }
  // Blocks of 16 in ascending K; a block's sum is exact, each addition rounded once.
  float value(uint32_t m, uint32_t col, int times) const {
    float d = 0;
    for (int t = 0; t < times; ++t)
      for (uint32_t j = 0; j < 4; ++j) {
        double sum = 0;
        for (uint32_t k = 16 * j; k < 16 * j + 16; ++k)
          sum += double(e2m1(a[m * 32 + k / 2] >> 4 * (k % 2) & 15)) *
                 double(e2m1(b[col * 32 + k / 2] >> 4 * (k % 2) & 15));
        d = float(double(d) +
                  sum * double(ue4m3(sfa[m * 4 + j])) * double(ue4m3(sfb[col * 4 + j])));
      }
    return d;
  }
  // Copies and MMAs by thread 0. D in columns 0, scales in 256.
  std::string issue(int times, const std::string& extra_idesc = "") const {
    std::string s = R"(
  @!%p0 bra issued;
  add.u32 %r12, %r10, 256;
  add.u32 %r13, %r10, 260;
  add.u32 %r14, %r10, 264;
)";
    auto desc = [&](const char* reg, const layout::MatrixDesc& d) {
      s += std::string("  add.s64 ") + reg + ", %rd2, " +
           desc_text(layout::matrix_desc_tcgen05(d)) + ";\n";
    };
    desc("%rd3", operand(0));
    desc("%rd4", operand(b_at));
    desc("%rd5", scale_atom(sfa_at));
    desc("%rd6", scale_atom(sfb_at));
    desc("%rd7", scale_atom(sfb_at + 512));
    s += "  mov.u32 %r15, " +
         std::to_string(layout::fp4_instruction_desc(layout::ScaleType::ue4m3, 128, n)) + ";\n";
    s += extra_idesc;
    s += "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %rd5;\n"
         "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r13], %rd6;\n";
    if (n > 128) s += "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r14], %rd7;\n";
    s += "  setp.ne.u32 %p2, %r15, %r15;\n  setp.eq.u32 %p3, %r15, %r15;\n";
    for (int t = 0; t < times; ++t)
      s +=
          std::string("  tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r10], %rd3, "
                      "%rd4, %r15, [%r12], [%r13], ") +
          (t ? "%p3;\n" : "%p2;\n");
    s += "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
         "issued:\n";
    return s;
  }
};
} // namespace

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

TEST_CASE("tcgen05: what is not modelled is refused by name", "[virtual][tcgen05]") {
  for (const char* text : {"tcgen05.shift.cta_group::1.down [%r1];",
                           "tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;"}) {
    Vgpu gpu;
    RunResult r = gpu.run(module_text(std::string(text) + "ret;"), Params());
    INFO(r.text);
    CHECK(r.refused("tcgen05"));
  }
}
