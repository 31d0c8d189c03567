// PTX texts and layouts that the wgmma tests share.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include "ptx/layouts.hpp"

namespace wltest::wgmma {

namespace layout = warpline::ptx;

inline const char* const kParams = ".param .u64 image, .param .u64 out";
inline const char* const kDynamic = ".extern .shared .align 1024 .b8 dynamic[];\n";

// 128 threads bring the image to shared memory, 16 bytes a step; %rd2 = (address >> 4).
inline std::string head(uint32_t bytes) {
  return R"(
  mov.u32 %r0, %tid.x;
  mov.u32 %r20, dynamic;
  ld.param.u64 %rd1, [image];
  ld.param.u64 %rd0, [out];
  shl.b32 %r1, %r0, 4;
fill:
  cvt.u64.u32 %rd3, %r1;
  add.u64 %rd3, %rd1, %rd3;
  ld.global.v4.b32 {%r2,%r3,%r4,%r5}, [%rd3];
  add.u32 %r6, %r20, %r1;
  st.shared.v4.b32 [%r6], {%r2,%r3,%r4,%r5};
  add.u32 %r1, %r1, 2048;
  setp.lt.u32 %p1, %r1, )" +
         std::to_string(bytes) + R"(;
  @%p1 bra fill;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  and.b32 %r21, %r20, 0x3FFFF;
  shr.u32 %r21, %r21, 4;
  cvt.u64.u32 %rd2, %r21;
)";
}

inline std::string registers(const char* name, uint32_t n) {
  std::string s = "{";
  for (uint32_t i = 0; i < n; ++i) s += (i ? "," : "") + (name + std::to_string(i));
  return s + "}";
}

inline std::string zero(uint32_t n) {
  std::string s = "  .reg .b32 acc<" + std::to_string(n) + ">;\n";
  for (uint32_t i = 0; i < n; ++i) s += "  mov.b32 acc" + std::to_string(i) + ", 0;\n";
  return s;
}

// out[register][thread]
inline std::string store(uint32_t n) {
  std::string s = "  mul.wide.u32 %rd4, %r0, 4;\n  add.u64 %rd4, %rd0, %rd4;\n";
  for (uint32_t i = 0; i < n; ++i)
    s += "  st.global.b32 [%rd4+" + std::to_string(i * 512) + "], acc" + std::to_string(i) + ";\n";
  return s + "  ret;\n";
}

inline std::string descriptor(const char* reg, const layout::MatrixDesc& d) {
  return std::string("  add.s64 ") + reg + ", %rd2, " +
         std::to_string(layout::matrix_desc_wgmma(d)) + ";\n";
}

inline RunResult run(const std::string& body, const std::vector<uint8_t>& image,
                     uint32_t registers_out, const std::string& schedule,
                     std::vector<uint32_t>* out, uint32_t threads = 128) {
  Vgpu gpu("h200");
  uint64_t in = gpu.upload(image), to = gpu.allocate(registers_out * 512);
  Launch launch;
  launch.block = {threads};
  launch.dynamic_shared = uint32_t(image.size());
  launch.schedule = schedule;
  RunResult r =
      gpu.run(module_text(body, kParams, "sm_90a", kDynamic), Params().u64(in).u64(to), launch);
  if (r.ok && out) *out = gpu.download<uint32_t>(to, registers_out * 128);
  return r;
}

inline layout::MatrixDesc k_major(uint32_t at) {
  layout::MatrixDesc d;
  d.address = at;
  d.stride_bytes = 1024;
  d.layout = layout::Swizzle::b128;
  return d;
}

// Row and column of element e of thread t, PTX ISA 9.7.15.5.1.1.
inline uint32_t row_of(uint32_t t, uint32_t e) {
  return t / 32 * 16 + t % 32 / 4 + 8 * (e / 2 % 2);
}
inline uint32_t column_of(uint32_t t, uint32_t e) { return 8 * (e / 4) + 2 * (t % 4) + e % 2; }

inline const char* const kFinish = R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)";

} // namespace wltest::wgmma
