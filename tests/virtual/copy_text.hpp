// PTX texts, tensor maps and runs that the tests of copies share.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include "tools/vgpu/tensor/tensor_map.hpp"

#include <cstring>
#include <random>

namespace wltest::copies {

struct MapBytes {
  alignas(64) uint8_t bytes[128];
};

struct MapSpec {
  int type = 0; // u8
  std::vector<uint64_t> dim, stride;
  std::vector<uint32_t> box;
  int swizzle = 0, fill = 0;
};

// Into a map of the caller: g++ 12 may misalign the temporary of an over-aligned result.
inline void make_map(uint64_t address, const MapSpec& spec, MapBytes& m) {
  vgpu::tensor::TiledArguments a;
  std::vector<uint32_t> ones(spec.dim.size(), 1);
  a.type = spec.type;
  a.rank = uint32_t(spec.dim.size());
  a.address = reinterpret_cast<const void*>(address);
  a.dim = spec.dim.data();
  const uint64_t none = 0; // CUDA wants an array of strides even for rank 1
  a.stride = spec.stride.empty() ? &none : spec.stride.data();
  a.box = spec.box.data();
  a.element_stride = ones.data();
  a.swizzle = spec.swizzle;
  a.fill = spec.fill;
  std::string error = vgpu::tensor::encode_tiled(a, 100, m.bytes);
  INFO(error);
  REQUIRE(error.empty());
}

inline std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(n);
  for (uint8_t& x : v) x = uint8_t(rng());
  return v;
}

// %r0 = thread, %p0 = thread 0, %rd0 = out; barriers, 8 KiB of aligned shared memory.
inline const char* const kHead = R"(
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar[4];
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p0, %r0, 0;
  ld.param.u64 %rd0, [out];
  mov.u32 %r20, tile;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  bar.sync 0;
)";
inline const char* const kParams = ".param .align 64 .b8 map[128], .param .u64 in, .param .u64 out";
inline const char* const kWait = R"(
w0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w0;
)";
// Every thread copies its words of the tile to out.
inline std::string tile_out(uint32_t bytes) {
  return R"(
  shl.b32 %r30, %r0, 2;
copy:
  add.u32 %r31, %r20, %r30;
  ld.shared.u32 %r32, [%r31];
  cvt.u64.u32 %rd31, %r30;
  add.u64 %rd31, %rd0, %rd31;
  st.global.u32 [%rd31], %r32;
  add.u32 %r30, %r30, 128;
  setp.lt.u32 %p5, %r30, )" +
         std::to_string(bytes) + R"(;
  @%p5 bra copy;
  ret;
)";
}
// Fills the tile with word i = 3 i + 1.
inline std::string tile_in(uint32_t bytes) {
  return R"(
  shl.b32 %r30, %r0, 2;
fill:
  add.u32 %r31, %r20, %r30;
  shr.u32 %r32, %r30, 2;
  mad.lo.u32 %r32, %r32, 3, 1;
  st.shared.u32 [%r31], %r32;
  add.u32 %r30, %r30, 128;
  setp.lt.u32 %p5, %r30, )" +
         std::to_string(bytes) + R"(;
  @%p5 bra fill;
  fence.proxy.async.shared::cta;
  bar.sync 0;
)";
}
inline uint32_t tile_word(uint32_t i) { return 3 * i + 1; }

struct Outcome {
  RunResult result;
  std::vector<uint8_t> out;
};
inline Outcome run(const std::string& body, const std::string& schedule, const MapSpec* spec,
                   const std::vector<uint8_t>& in, size_t out_bytes, Launch launch = {},
                   bool map_on_out = false, const std::string& params = kParams) {
  Vgpu gpu;
  uint64_t a = gpu.upload(in);
  std::vector<uint8_t> guard(out_bytes, 0xEE);
  uint64_t b = gpu.upload(guard);
  MapBytes map{};
  if (spec) make_map(map_on_out ? b : a, *spec, map);
  launch.schedule = schedule;
  Outcome o;
  o.result = gpu.run(module_text(kHead + body, params),
                     Params().raw(map.bytes, 128, 64).u64(a).u64(b), launch);
  if (o.result.ok) {
    o.out.resize(out_bytes);
    gpu.read(b, o.out.data(), out_bytes);
  }
  return o;
}

inline void expect_fault(const std::string& body, const std::string& checker,
                         const std::string& part, const MapSpec* spec = nullptr,
                         const std::vector<std::string>& when = schedules(), Launch launch = {}) {
  for (const std::string& schedule : when) {
    Outcome o = run(body, schedule, spec, std::vector<uint8_t>(4096), 4096, launch);
    INFO("schedule " << schedule << ", checker " << o.result.checker << ": " << o.result.text);
    REQUIRE(o.result.faulted(checker, part));
  }
}
inline const std::vector<std::string> kLazy{"lazy"};

inline uint32_t swizzle128(uint32_t a) { return a ^ (a >> 7 & 7) << 4; }

inline const MapSpec kRows{0, {200, 40}, {256}, {128, 16}, 3, 0};

} // namespace wltest::copies
