// PTX texts and plain decoding that the tcgen05 tests share.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include "ptx/layouts.hpp"

#include <cmath>
#include <cstring>
#include <random>

namespace wltest::tcgen05 {

namespace layout = warpline::ptx;

// ---- plain decoding, written from the format definitions

inline float e2m1(uint32_t code) {
  const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}
inline float ue4m3(uint32_t code) {
  int e = int(code >> 3 & 15), m = int(code & 7);
  return e == 0 ? std::ldexp(float(m), -9) : std::ldexp(float(8 + m), e - 10);
}
inline float e4m3(uint32_t code) { return (code & 0x80 ? -1.0f : 1.0f) * ue4m3(code & 0x7F); }
inline float half(uint32_t v) {
  int e = int(v >> 10 & 31), m = int(v & 1023);
  float x = e == 0 ? std::ldexp(float(m), -24) : std::ldexp(float(1024 + m), e - 25);
  return v & 0x8000 ? -x : x;
}

// ---- one CTA: shared image in, one or more MMAs, D out

inline Launch block(uint32_t threads, uint32_t dynamic = 0) {
  Launch launch;
  launch.block = {threads};
  launch.dynamic_shared = dynamic;
  return launch;
}

// Allocates `columns`, leaves the address in %r10 of every thread. Warp 0 allocates and frees.
inline std::string allocate(uint32_t columns) {
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
inline std::string release(uint32_t columns) {
  return R"(
  bar.sync 0;
  @%p9 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, )" +
         std::to_string(columns) + ";\n  ret;\n";
}
inline const char* const kShared = R"(
  .shared .align 8 .b64 bar[4];
  .shared .align 4 .b32 slot;
)";
// Where warp w reads: lane 32 * (w mod 4) of the address in %r10, in %r11.
inline const char* const kOwnLanes = R"(
  and.b32 %r11, %r9, 3;
  shl.b32 %r11, %r11, 21;
  add.u32 %r11, %r10, %r11;
)";

// Brings `bytes` from [image] to dynamic shared memory (aligned to 1024) at %r20; all wait.
inline std::string fetch(uint32_t bytes) {
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
  tcgen05.fence::after_thread_sync;
  and.b32 %r21, %r20, 0x3FFFF;
  shr.u32 %r21, %r21, 4;
  cvt.u64.u32 %rd2, %r21;
)";
}
inline const char* const kCommitWait = R"(
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
  @!%p1 bra w1;
  tcgen05.fence::after_thread_sync;
)";
// Stores `n` columns of the own lane (one thread a row) from %r11 to out[row][n].
inline std::string store_rows(uint32_t n) {
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
inline const char* const kParams = ".param .u64 image, .param .u64 out";
inline const char* const kDynamic = ".extern .shared .align 1024 .b8 dynamic[];\n";

inline std::string desc_text(uint64_t desc) { return std::to_string(desc); }

// Runs and returns out[128][n] as words.
inline std::vector<uint32_t> run(const std::string& body, const std::vector<uint8_t>& image,
                                 uint32_t n, const std::string& schedule) {
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

inline float as_float(uint32_t v) {
  float f;
  std::memcpy(&f, &v, 4);
  return f;
}

inline std::vector<uint8_t> random_bytes(size_t n, uint32_t seed, uint8_t mask = 0xFF) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(n);
  for (uint8_t& x : v) x = uint8_t(rng()) & mask;
  return v;
}

// Places 16-byte units of a dense K-major operand (rows of row_bytes) into the image.
inline void place(std::vector<uint8_t>& image, const layout::MatrixDesc& desc,
                  const std::vector<uint8_t>& dense, uint32_t rows, uint32_t row_bytes) {
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t u = 0; u < row_bytes / 16; ++u)
      std::memcpy(image.data() + layout::k_major_address(desc, r, u),
                  dense.data() + size_t(r) * row_bytes + 16 * u, 16);
}

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

} // namespace wltest::tcgen05
