// How fast the executor runs warp-instructions, checkers off: best of three launches of kernels
// that do one kind of work. Times of matrix operations are the tools' of whole GEMMs (make
// vgpu-speed).
#include "tools/vgpu/run/speed.hpp"

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

using namespace vgpu;

namespace {

constexpr uint32_t kCtas = 8, kThreads = 256, kRounds = 2000;

struct Work {
  const char* name;
  const char* body; // 16 statements, repeated in a loop
};

const Work kWork[] = {
    {"integer and float arithmetic", R"(
  add.u32 %r4, %r4, %r5;  mad.lo.u32 %r5, %r4, %r6, %r7;  xor.b32 %r6, %r6, %r5;
  shl.b32 %r7, %r4, 3;
  fma.rn.f32 %f0, %f0, %f1, %f2;  add.f32 %f1, %f1, %f0;  mul.f32 %f2, %f2, %f3;
  sub.f32 %f3, %f3, %f2;
  add.u32 %r4, %r4, %r5;  and.b32 %r5, %r4, 0xffff;  or.b32 %r6, %r6, %r5;  shr.u32 %r7, %r4, 3;
  selp.b32 %r8, %r4, %r5, %p1;  setp.lt.u32 %p1, %r4, %r5;  mov.u32 %r9, %r8;
  sub.u32 %r9, %r9, %r4;
)"},
    {"64-bit addresses and conversions", R"(
  mul.wide.u32 %rd1, %r4, 4;  add.u64 %rd2, %rd0, %rd1;  shl.b64 %rd3, %rd2, 2;
  cvt.u32.u64 %r5, %rd3;
  cvt.rn.f32.u32 %f0, %r5;  cvt.rn.f16x2.f32 %r6, %f0, %f1;  add.u64 %rd4, %rd4, %rd3;
  xor.b64 %rd5, %rd4, %rd3;
  mul.wide.u32 %rd1, %r5, 8;  add.u64 %rd2, %rd0, %rd1;  shr.u64 %rd3, %rd2, 2;
  cvt.u32.u64 %r7, %rd3;
  prmt.b32 %r8, %r6, %r7, 0x5410;  bfe.u32 %r9, %r8, 4, 8;  lop3.b32 %r4, %r8, %r9, %r7, 0x96;
  popc.b32 %r9, %r4;
)"},
    {"shared memory", R"(
  st.shared.u32 [%r10], %r4;  ld.shared.u32 %r5, [%r10];  st.shared.u32 [%r10+1024], %r5;
  ld.shared.u32 %r6, [%r10+1024];
  st.shared.v4.u32 [%r11], {%r4, %r5, %r6, %r7};  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r11];
  st.shared.u32 [%r10], %r4;  ld.shared.u32 %r5, [%r10];  st.shared.u32 [%r10+1024], %r5;
  ld.shared.u32 %r6, [%r10+1024];
  st.shared.v4.u32 [%r11], {%r4, %r5, %r6, %r7};  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r11];
  st.shared.u32 [%r10], %r4;  ld.shared.u32 %r5, [%r10];  st.shared.u32 [%r10+1024], %r5;
  ld.shared.u32 %r6, [%r10+1024];
)"},
    {"global memory", R"(
  st.global.u32 [%rd6], %r4;  ld.global.u32 %r5, [%rd6];  st.global.u32 [%rd6+1024], %r5;
  ld.global.u32 %r6, [%rd6+1024];
  st.global.v4.u32 [%rd7], {%r4, %r5, %r6, %r7};  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd7];
  st.global.u32 [%rd6], %r4;  ld.global.u32 %r5, [%rd6];  st.global.u32 [%rd6+1024], %r5;
  ld.global.u32 %r6, [%rd6+1024];
  st.global.v4.u32 [%rd7], {%r4, %r5, %r6, %r7};  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd7];
  st.global.u32 [%rd6], %r4;  ld.global.u32 %r5, [%rd6];  st.global.u32 [%rd6+1024], %r5;
  ld.global.u32 %r6, [%rd6+1024];
)"},
};

std::string text_of(const Work& work) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 buffer) .maxntid 256
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<4>;
  .shared .align 16 .b8 room[8192];
  ld.param.u64 %rd0, [buffer];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, room;
  mad.lo.u32 %r10, %r0, 4, %r2;
  mad.lo.u32 %r11, %r0, 16, %r2;
  mad.lo.u32 %r3, %r1, 256, %r0;
  mul.wide.u32 %rd6, %r3, 4;
  add.u64 %rd6, %rd0, %rd6;
  mul.wide.u32 %rd7, %r3, 16;
  add.u64 %rd7, %rd0, %rd7;
  mov.u32 %r4, %r0;
  mov.u32 %r5, 1;
  mov.u32 %r6, 2;
  mov.u32 %r7, 3;
  mov.u64 %rd4, 0;
  mov.f32 %f0, 1.0;
  mov.f32 %f1, 0.5;
  mov.f32 %f2, 0.25;
  mov.f32 %f3, 0.125;
  setp.eq.u32 %p1, %r0, 0;
  mov.u32 %r12, 0;
LOOP:)" + std::string(work.body) +
         "  add.u32 %r12, %r12, 1;\n  setp.lt.u32 %p0, %r12, " + std::to_string(kRounds) +
         ";\n  @%p0 bra LOOP;\n  ret;\n}\n";
}

} // namespace

int run_speed(unsigned threads) {
  std::printf("| code | warp-instructions | million a second, %u threads |\n|---|---|---|\n",
              threads);
  for (const Work& work : kWork) {
    mem::DeviceMemory memory(64 << 20);
    const uint64_t buffer = memory.allocate(kCtas * kThreads * 16 + 2048, 512);
    const std::string text = text_of(work);
    const ptx::Module module = ptx::parse(text);
    const auto globals = isa::place_globals(module, memory);
    const auto program = isa::decode(module, module.functions[0], globals);
    exec::LaunchSpec spec;
    spec.program = program.get();
    spec.profile = exec::find_profile("b200");
    spec.memory = &memory;
    spec.grid = {kCtas, 1, 1};
    spec.block = {kThreads, 1, 1};
    spec.schedule = "lazy";
    spec.host_threads = threads;
    spec.params.assign(sizeof buffer, 0);
    std::memcpy(spec.params.data(), &buffer, sizeof buffer);
    double best = 0; // by processor time, which other work on the machine does not change
    uint64_t count = 0;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();
      count = exec::run_grid(spec).warp_instructions;
      const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC / threads;
      best = std::max(best, double(count) / seconds);
    }
    std::printf("| %s | %llu | %.1f |\n", work.name, static_cast<unsigned long long>(count),
                best / 1e6);
  }
  return 0;
}
