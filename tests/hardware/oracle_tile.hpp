// Frame of the copy cases: 128 threads a CTA, a filled tile of shared memory with one barrier, and
// the tile written out at the end.
#pragma once

#include "tests/hardware/oracle_families.hpp"

namespace wltest::oracle {

// %r0 = thread, %r2 = CTA's rank, %r20 = tile, %p0 = thread 0, %rd0 = out, %rd1 = in. The tile
// holds the bytes at `in` (`from_in`), or 0xCC. The barrier counts 1.
inline std::string tile_head(uint32_t bytes, bool from_in) {
  std::string n = std::to_string(bytes);
  return "  .shared .align 1024 .b8 tile[" + n + R"(];
  .shared .align 8 .b64 bar[4];
  mov.u32 %r0, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p0, %r0, 0;
  ld.param.u64 %rd0, [out];
  ld.param.u64 %rd1, [in];
  mov.u32 %r20, tile;
  mov.u32 %r21, bar;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mov.u32 %r34, 0xCCCCCCCC;
  shl.b32 %r30, %r0, 2;
  setp.ge.u32 %p5, %r30, )" +
         n + R"(;
  @%p5 bra filled;
fill:
)" +
         (from_in ? "  cvt.u64.u32 %rd31, %r30;\n  add.u64 %rd31, %rd1, %rd31;\n"
                    "  ld.global.u32 %r34, [%rd31];\n"
                  : "") +
         R"(  add.u32 %r31, %r20, %r30;
  st.shared.u32 [%r31], %r34;
  add.u32 %r30, %r30, 512;
  setp.lt.u32 %p5, %r30, )" +
         n + R"(;
  @%p5 bra fill;
filled:
  fence.proxy.async.shared::cta;
  bar.sync 0;
)";
}

// Tiles of the CTAs one after the other.
inline std::string tile_out(uint32_t bytes) {
  std::string n = std::to_string(bytes);
  return R"(
  mov.u32 %r33, %ctaid.x;
  mul.wide.u32 %rd31, %r33, )" +
         n + R"(;
  add.u64 %rd0, %rd0, %rd31;
  shl.b32 %r30, %r0, 2;
  setp.ge.u32 %p5, %r30, )" +
         n + R"(;
  @%p5 bra copied;
copy:
  add.u32 %r31, %r20, %r30;
  ld.shared.u32 %r32, [%r31];
  cvt.u64.u32 %rd31, %r30;
  add.u64 %rd31, %rd0, %rd31;
  st.global.u32 [%rd31], %r32;
  add.u32 %r30, %r30, 512;
  setp.lt.u32 %p5, %r30, )" +
         n + R"(;
  @%p5 bra copy;
copied:
)";
}

inline const char* const kClusterMeet = R"(
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
)";

} // namespace wltest::oracle
