// One tcgen05.mma of any form between matrices that a test describes: sparse A, .ws, .ashift, A in
// tensor memory lane by lane. D comes back as it lies in tensor memory.
#pragma once

#include "tests/virtual/sparse_matrix.hpp"

namespace wltest::tcgen05 {

struct FormCase {
  std::string opcode;   // after tcgen05.mma
  std::string operands; // after the instruction descriptor: "0" and so on
  uint32_t idesc = 0;
  uint32_t m = 128, b_rows = 0, d_columns = 0; // rows of A in shared memory, of B; columns of D
  std::vector<uint8_t> a, b;                   // rows of 32 bytes, of b.size() / b_rows
  std::vector<uint32_t> lanes;                 // [128][8]: columns 300.. before the MMA
  std::vector<uint32_t> codes;                 // [128][2]: columns 320.. (metadata)
  std::vector<uint32_t> sfa, sfb;              // scale words of a row
  bool a_in_tensor = false, sparse = false;
  std::string after; // more instructions of the issuing thread, before the commit

  static constexpr uint32_t kB = 16384, kSfa = kB + 32768, kSfb = kSfa + 512, kWords = kSfb + 1024,
                            kBytes = kWords + 128 * 40;

  std::vector<uint8_t> image() const {
    std::vector<uint8_t> v(kBytes);
    if (!a.empty()) place(v, Fp4Problem::operand(0), a, m, 32);
    place(v, Fp4Problem::operand(kB), b, b_rows, uint32_t(b.size()) / b_rows);
    for (uint32_t r = 0; r < sfa.size(); ++r)
      std::memcpy(&v[kSfa + r % 32 * 16 + r / 32 * 4], &sfa[r], 4);
    for (uint32_t r = 0; r < sfb.size(); ++r)
      std::memcpy(&v[kSfb + r % 32 * 16 + r / 32 * 4], &sfb[r], 4);
    for (uint32_t l = 0; l < 128; ++l) {
      if (!lanes.empty()) std::memcpy(&v[kWords + l * 40], &lanes[l * 8], 32);
      if (!codes.empty()) std::memcpy(&v[kWords + l * 40 + 32], &codes[l * 2], 8);
    }
    return v;
  }
  std::string body() const {
    std::string s = allocate(512) + fetch(kBytes) + kOwnLanes + R"(
  mul.lo.u32 %r30, %r0, 40;
  add.u32 %r30, %r30, )" +
                    std::to_string(kWords) + R"(;
  cvt.u64.u32 %rd30, %r30;
  add.u64 %rd30, %rd1, %rd30;
  ld.global.v2.b32 {%r40,%r41}, [%rd30];
  ld.global.v2.b32 {%r42,%r43}, [%rd30+8];
  ld.global.v2.b32 {%r44,%r45}, [%rd30+16];
  ld.global.v2.b32 {%r46,%r47}, [%rd30+24];
  ld.global.v2.b32 {%r48,%r49}, [%rd30+32];
  add.u32 %r31, %r11, 300;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r31], {%r40,%r41,%r42,%r43,%r44,%r45,%r46,%r47};
  add.u32 %r31, %r11, 320;
  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r31], {%r48,%r49};
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  @!%p0 bra issued;
  tcgen05.fence::after_thread_sync;
  add.u32 %r12, %r10, 256;
  add.u32 %r13, %r10, 260;
  add.u32 %r14, %r10, 300;
  add.u32 %r16, %r10, 320;
)";
    auto desc = [&](const char* reg, const layout::MatrixDesc& d) {
      s += std::string("  add.s64 ") + reg + ", %rd2, " +
           desc_text(layout::matrix_desc_tcgen05(d)) + ";\n";
    };
    desc("%rd3", Fp4Problem::operand(0));
    desc("%rd4", Fp4Problem::operand(kB));
    desc("%rd5", Fp4Problem::scale_atom(kSfa));
    desc("%rd6", Fp4Problem::scale_atom(kSfb));
    if (!sfa.empty())
      s += "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %rd5;\n"
           "  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r13], %rd6;\n";
    if (!opcode.empty())
      s += "  mov.u32 %r15, " + std::to_string(idesc) + ";\n  tcgen05.mma" + opcode + " [%r10], " +
           (a_in_tensor ? "[%r14]" : "%rd3") + ", %rd4, " + (sparse ? "[%r16], " : "") + "%r15, " +
           (sfa.empty() ? "" : "[%r12], [%r13], ") + operands + ";\n";
    s += after;
    return s +
           "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
           "issued:\n" +
           kCommitWait;
  }
  // Columns first .. first + n of all lanes.
  std::vector<uint32_t> run_on(const std::string& schedule, uint32_t first, uint32_t n) const {
    return run(body() + "  add.u32 %r11, %r11, " + std::to_string(first) + ";\n" + store_rows(n) +
                   release(512),
               image(), n, schedule);
  }
  // The message of the fault that the MMA ends with.
  std::string fault() const {
    Vgpu gpu;
    uint64_t in = gpu.upload(image()), out = gpu.allocate(128 * 4);
    RunResult r =
        gpu.run(module_text(kShared + body() + release(512), kParams, "sm_100a", kDynamic),
                Params().u64(in).u64(out), block(128, kBytes));
    REQUIRE_FALSE(r.ok);
    return r.text;
  }
};

} // namespace wltest::tcgen05
