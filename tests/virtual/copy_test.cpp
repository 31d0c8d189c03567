// cp.async, bulk copies, tensor copies and tensor maps on the device: expected bytes under every
// schedule, and the faults.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include "tools/vgpu/tensor/tensor_map.hpp"

#include <random>

namespace {

using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::schedules;
using wltest::Vgpu;

struct MapBytes {
  alignas(64) uint8_t bytes[128];
};

struct MapSpec {
  int type = 0; // u8
  std::vector<uint64_t> dim, stride;
  std::vector<uint32_t> box;
  int swizzle = 0, fill = 0;
};

MapBytes make_map(uint64_t address, const MapSpec& spec) {
  vgpu::tensor::TiledArguments a;
  std::vector<uint32_t> ones(spec.dim.size(), 1);
  a.type = spec.type;
  a.rank = uint32_t(spec.dim.size());
  a.address = reinterpret_cast<const void*>(address);
  a.dim = spec.dim.data();
  a.stride = spec.stride.data();
  a.box = spec.box.data();
  a.element_stride = ones.data();
  a.swizzle = spec.swizzle;
  a.fill = spec.fill;
  MapBytes m;
  std::string error = vgpu::tensor::encode_tiled(a, 100, m.bytes);
  INFO(error);
  REQUIRE(error.empty());
  return m;
}

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(n);
  for (uint8_t& x : v) x = uint8_t(rng());
  return v;
}

// %r0 = thread, %p0 = thread 0, %rd0 = out; barriers, 8 KiB of aligned shared memory.
const char* const kHead = R"(
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar[4];
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p0, %r0, 0;
  ld.param.u64 %rd0, [out];
  mov.u32 %r20, tile;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  bar.sync 0;
)";
const char* const kParams = ".param .align 64 .b8 map[128], .param .u64 in, .param .u64 out";
const char* const kWait = R"(
w0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w0;
)";
// Every thread copies its words of the tile to out.
std::string tile_out(uint32_t bytes) {
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
std::string tile_in(uint32_t bytes) {
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
uint32_t tile_word(uint32_t i) { return 3 * i + 1; }

struct Outcome {
  RunResult result;
  std::vector<uint8_t> out;
};
Outcome run(const std::string& body, const std::string& schedule, const MapSpec* spec,
            const std::vector<uint8_t>& in, size_t out_bytes, Launch launch = {},
            bool map_on_out = false, const std::string& params = kParams) {
  Vgpu gpu;
  uint64_t a = gpu.upload(in);
  std::vector<uint8_t> guard(out_bytes, 0xEE);
  uint64_t b = gpu.upload(guard);
  MapBytes map{};
  if (spec) map = make_map(map_on_out ? b : a, *spec);
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

void expect_fault(const std::string& body, const std::string& checker, const std::string& part,
                  const MapSpec* spec = nullptr, const std::vector<std::string>& when = schedules(),
                  Launch launch = {}) {
  for (const std::string& schedule : when) {
    Outcome o = run(body, schedule, spec, std::vector<uint8_t>(4096), 4096, launch);
    INFO("schedule " << schedule << ", checker " << o.result.checker << ": " << o.result.text);
    REQUIRE(o.result.faulted(checker, part));
  }
}
const std::vector<std::string> kLazy{"lazy"};

uint32_t swizzle128(uint32_t a) { return a ^ (a >> 7 & 7) << 4; }

const MapSpec kRows{0, {200, 40}, {256}, {128, 16}, 3, 0};

} // namespace

TEST_CASE("TMA: a swizzled tile with rows and columns out of bounds", "[virtual][copy]") {
  // 2-D bytes, 200 x 40, pitch 256; box 128 x 16 at (120, 30) and at (-8, -3).
  std::vector<uint8_t> in = random_bytes(256 * 40, 1);
  const int places[][2] = {{120, 30}, {-8, -3}, {0, 0}, {300, 5}};
  for (auto [x, y] : places)
    for (const std::string& schedule : schedules()) {
      INFO("schedule " << schedule << " at " << x << ", " << y);
      std::string body = R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  prefetch.tensormap [%rd1];
  mov.u32 %r1, )" + std::to_string(x) +
                         R"(;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1, {%r1, )" +
                         std::to_string(y) + R"(}], [bar];
issued:
)" + kWait + tile_out(2048);
      Outcome o = run(body, schedule, &kRows, in, 2048);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      for (int r = 0; r < 16; ++r)
        for (int c = 0; c < 128; ++c) {
          bool inside = x + c >= 0 && x + c < 200 && y + r >= 0 && y + r < 40;
          uint8_t want = inside ? in[size_t((y + r) * 256 + x + c)] : 0;
          INFO("row " << r << " byte " << c);
          // The tile starts on 1024, so offsets swizzle like addresses.
          REQUIRE(int(o.out[swizzle128(uint32_t(r * 128 + c))]) == int(want));
        }
    }
}

TEST_CASE("TMA: loads of rank 1, 3, 4 and 5, with a cache hint", "[virtual][copy]") {
  std::vector<uint8_t> in = random_bytes(16384, 2);
  for (uint32_t rank : {1u, 3u, 4u, 5u})
    for (const std::string& schedule : schedules()) {
      INFO("rank " << rank << " schedule " << schedule);
      MapSpec spec;
      spec.type = 2; // u32
      std::string coordinates;
      uint64_t pitch = 64;
      for (uint32_t i = 0; i < rank; ++i) {
        spec.dim.push_back(i == 0 ? 16 : 4);
        spec.box.push_back(i == 0 ? 8 : 2);
        if (i + 1 < rank) spec.stride.push_back(pitch), pitch *= 4;
        coordinates += (i ? ", " : "") + std::to_string(i == 0 ? 4 : 1);
      }
      uint32_t bytes = 32 << (rank - 1);
      std::string body =
          R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
          std::to_string(bytes) + R"(;
  mov.u64 %rd2, 0x12F0000000000000;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.)" +
          std::to_string(rank) +
          "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
          "[%r20], [%rd1, {" +
          coordinates + "}], [bar], %rd2;\nissued:\n" + kWait + tile_out(bytes);
      Outcome o = run(body, schedule, &spec, in, bytes < 128 ? 128 : bytes);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      for (uint32_t b = 0; b < bytes; ++b) {
        uint64_t from = 16 + b % 32, step = 64;
        for (uint32_t i = 1, row = b / 32; i < rank; ++i, row /= 2, step *= 4)
          from += (1 + row % 2) * step;
        REQUIRE(o.out[b] == in[from]);
      }
    }
}

TEST_CASE("TMA: stores clip, wait_group.read lets the source go", "[virtual][copy]") {
  // f32 tensor 20 x 12, pitch 128 bytes; box 16 x 8 from (12, 8): 8 x 4 elements are inside.
  MapSpec spec{7, {20, 12}, {128}, {16, 8}, 0, 0};
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::string body = tile_in(512) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {12, 8}], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  st.shared.u32 [%r20], 99;
  cp.async.bulk.wait_group 0;
done:
  ret;
)";
    Outcome o = run(body, schedule, &spec, std::vector<uint8_t>(16), 12 * 128, {}, true);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t y = 0; y < 12; ++y)
      for (uint32_t x = 0; x < 32; ++x) {
        uint32_t got, want = 0xEEEEEEEE;
        std::memcpy(&got, &o.out[y * 128 + x * 4], 4);
        if (y >= 8 && x >= 12 && x < 20) want = tile_word((y - 8) * 16 + x - 12);
        INFO("row " << y << " column " << x);
        REQUIRE(got == want);
      }
  }
}

TEST_CASE("TMA: tensor reductions", "[virtual][copy]") {
  MapSpec spec{2, {32, 4}, {128}, {32, 4}, 0, 0};
  for (const std::string& schedule : schedules()) {
    std::string body = tile_in(512) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {0, 0}], [%r20];
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {0, 0}], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
)";
    Outcome o = run(body, schedule, &spec, std::vector<uint8_t>(16), 512, {}, true);
    INFO(schedule << o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 128; ++i) {
      uint32_t got;
      std::memcpy(&got, &o.out[i * 4], 4);
      REQUIRE(got == 0xEEEEEEEEu + 2 * tile_word(i));
    }
  }
}

TEST_CASE("TMA: multicast and pairs put data and bytes where they belong", "[virtual][copy]") {
  // Rank 1 multicasts one row to both CTAs; each waits on its own barrier.
  MapSpec spec{0, {256, 8}, {256}, {256, 1}, 0, 0};
  std::vector<uint8_t> in = random_bytes(2048, 3);
  Launch launch;
  launch.grid = launch.cluster = {2};
  const char* const meet = R"(
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p2, %r2, 1;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
)";
  const char* const to_out = R"(
  mul.lo.u32 %r3, %r2, 256;
  cvt.u64.u32 %rd3, %r3;
  add.u64 %rd0, %rd0, %rd3;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)";
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::string body = std::string(meet) + R"(
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  and.pred %p3, %p0, %p2;
  mov.u16 %h1, 3;
  @%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
    [%r20], [%rd1, {0, 5}], [bar], %h1;
)" + kWait + to_out + tile_out(256);
    Outcome o = run(body, schedule, &spec, in, 512, launch);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 512; ++i) REQUIRE(o.out[i] == in[5 * 256 + i % 256]);

    // cta_group::2: each CTA loads its own row, the leader's barrier collects the bytes of both.
    body = std::string(meet) + R"(
  not.pred %p4, %p2;
  and.pred %p3, %p0, %p4;
  @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  mov.u32 %r4, bar;
  and.b32 %r4, %r4, 0xFEFFFFFF;
  @%p0 cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r20], [%rd1, {0, %r2}], [%r4];
  @%p2 bra waited;
)" + kWait +
           "waited:\n" + to_out + tile_out(256);
    o = run(body, schedule, &spec, in, 512, launch);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 512; ++i) REQUIRE(o.out[i] == in[i]);
  }
}

TEST_CASE("TMA: gather4", "[virtual][copy]") {
  MapSpec spec{0, {256, 8}, {256}, {64, 1}, 0, 0};
  std::vector<uint8_t> in = random_bytes(2048, 4);
  for (const std::string& schedule : schedules()) {
    std::string body = std::string(R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r20],
    [%rd1, {32, 7, 0, 9, 2}], [bar];
issued:
)") + kWait + tile_out(256);
    Outcome o = run(body, schedule, &spec, in, 256);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    const uint32_t rows[] = {7, 0, 9, 2};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t r = rows[i / 64];
      REQUIRE(o.out[i] == (r < 8 ? in[r * 256 + 32 + i % 64] : 0));
    }
  }
}

TEST_CASE("TMA: misuse is found", "[virtual][copy]") {
  auto load = [](const std::string& dst, const std::string& coordinates, const std::string& bytes,
                 const std::string& dims = "2d") {
    return "@!%p0 bra issued;\n mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " + bytes +
           ";\n mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;\n cp.async.bulk.tensor." + dims +
           ".shared::cluster.global.mbarrier::complete_tx::bytes [" + dst + "], [%rd1, {" +
           coordinates + "}], [bar];\nissued:\n";
  };
  // Read before the wait; poison shows even when nobody looks.
  expect_fault(load("%r20", "0, 0", "2048") + "ld.shared.u32 %r1, [%r20]; bar.sync 0;" + kWait +
                   "ret;",
               "pending", "tensor load", &kRows, kLazy);
  // Written over while it is in flight.
  expect_fault(load("%r20", "0, 0", "2048") + "@%p0 st.shared.u32 [%r20+64], 5;" + kWait + "ret;",
               "pending", "tensor load", &kRows, kLazy);
  // Too many bytes expected: nobody completes them.
  expect_fault(load("%r20", "0, 0", "2064") + kWait + "ret;", "deadlock", "16", &kRows);
  // The CTA leaves before the copy has come.
  expect_fault(load("%r20", "0, 0", "2048") + "ret;", "exit", "tensor load", &kRows, kLazy);
  expect_fault(load("%r20+16", "0, 0", "2048") + kWait + "ret;", "alignment", "128", &kRows);
  expect_fault(load("%r20", "0, 0, 0", "2048", "3d") + kWait + "ret;", "tensormap", "rank 2",
               &kRows);
  // The box sticks out of the window, the map is no map, the barrier does not exist.
  expect_fault(load("%r20+7168", "0, 0", "2048") + kWait + "ret;", "bounds", "window", &kRows);
  expect_fault(load("%r20", "0, 0", "2048") + kWait + "ret;", "tensormap", "no tensor map");
  expect_fault("mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; @%p0 "
               "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
               "complete_tx::bytes [%r20], [%rd1, {0, 0}], [bar+8]; ret;",
               "barriers", "before mbarrier.init", &kRows);
  // A store of bytes outside its source's life: the source is overwritten before it was read.
  expect_fault(tile_in(2048) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [%r20];
  cp.async.bulk.commit_group;
  st.shared.u32 [%r20], 1;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
               "pending", "still reads", &kRows, kLazy);
}

TEST_CASE("bulk copies: both directions, byte masks, peers", "[virtual][copy]") {
  std::vector<uint8_t> in = random_bytes(1024, 5);
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    Outcome o = run(R"(
  ld.param.u64 %rd1, [in];
  @!%p0 bra done;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
  cp.async.bulk.prefetch.L2.global [%rd1], 1024;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r20], [%rd1], 1024, [bar];
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w1;
  mov.u32 %r5, 512;
  mov.u16 %h1, 0x00FF;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r20], %r5;
  cp.async.bulk.commit_group;
  cp.async.bulk.commit_group;
  cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0+512], [%r20+512], 512, %h1;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 2;
  cp.async.bulk.wait_group.read 1;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
                    schedule, nullptr, in, 1024);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 1024; ++i) REQUIRE(o.out[i] == (i < 512 || i % 16 < 8 ? in[i] : 0xEE));

    // Rank 0 sends its tile to rank 1, which sends a reduction back.
    Launch launch;
    launch.grid = launch.cluster = {2};
    o = run(tile_in(256) + R"(
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r2, %cluster_ctarank;
  xor.b32 %r3, %r2, 1;
  mov.u32 %r4, bar;
  mapa.shared::cluster.u32 %r5, %r20, %r3;
  mapa.shared::cluster.u32 %r6, %r4, %r3;
  add.u32 %r5, %r5, 256;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r20], 256, [%r6];
)" + std::string(kWait) +
                R"(
  // Every CTA has its copy before anybody reduces.
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  @%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r5], [%r20], 256, [%r6];
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1;
  @!%p1 bra w1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mul.lo.u32 %r3, %r2, 512;
  cvt.u64.u32 %rd3, %r3;
  add.u64 %rd0, %rd0, %rd3;
)" + tile_out(512),
            schedule, nullptr, in, 1024, launch);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t got;
      std::memcpy(&got, &o.out[i * 4], 4);
      uint32_t w = i % 128;
      REQUIRE(got == (w < 64 ? tile_word(w) : 2 * tile_word(w - 64)));
    }
  }
}

TEST_CASE("bulk reductions into global memory", "[virtual][copy]") {
  std::vector<uint8_t> in(16);
  struct Case {
    const char* op;
    uint32_t (*fn)(uint32_t old, uint32_t value);
  };
  const Case cases[] = {
      {"add.u32", [](uint32_t a, uint32_t b) { return a + b; }},
      {"min.s32", [](uint32_t a, uint32_t b) { return int32_t(a) < int32_t(b) ? a : b; }},
      {"max.u32", [](uint32_t a, uint32_t b) { return a > b ? a : b; }},
      {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
      {"and.b32", [](uint32_t a, uint32_t b) { return a & b; }},
      {"or.b32", [](uint32_t a, uint32_t b) { return a | b; }},
      {"inc.u32", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
      {"dec.u32", [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
  };
  for (const Case& c : cases)
    for (const std::string& schedule : schedules()) {
      INFO(c.op << " schedule " << schedule);
      Outcome o = run(tile_in(256) +
                          "@!%p0 bra done;\n cp.reduce.async.bulk.global.shared::cta."
                          "bulk_group." +
                          c.op + R"( [%rd0], [%r20], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
                      schedule, nullptr, in, 256);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      for (uint32_t i = 0; i < 64; ++i) {
        uint32_t got;
        std::memcpy(&got, &o.out[i * 4], 4);
        REQUIRE(got == c.fn(0xEEEEEEEE, tile_word(i)));
      }
    }
  expect_fault("@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r20], 24; ret;",
               "alignment", "24 bytes");
  expect_fault("@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0+8], [%r20], 32; ret;",
               "alignment", "16");
  expect_fault("@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0+4088], [%r20], 32; ret;",
               "alignment", "");
  expect_fault("@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0+4080], [%r20], 32; ret;",
               "bounds", "");
}

TEST_CASE("cp.async: sizes, zero fill, groups, barriers", "[virtual][copy]") {
  std::vector<uint8_t> in = random_bytes(1024, 6);
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    // 16 bytes a thread; threads >= 8 take 6 bytes of 16, threads >= 16 ignore the source.
    std::string body = R"(
  ld.param.u64 %rd1, [in];
  shl.b32 %r2, %r0, 4;
  add.u32 %r3, %r20, %r2;
  cvt.u64.u32 %rd2, %r2;
  add.u64 %rd1, %rd1, %rd2;
  setp.ge.u32 %p2, %r0, 8;
  selp.u32 %r4, 6, 16, %p2;
  setp.ge.u32 %p3, %r0, 16;
  @!%p3 cp.async.cg.shared::cta.global.L2::128B [%r3], [%rd1], 16, %r4;
  @%p3 cp.async.ca.shared.global [%r3], [%rd1], 16, %p3;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r3+512], [%rd1], 4;
  cp.async.ca.shared.global [%r3+516], [%rd1+8], 8;
)";
    body.replace(body.find("[%r3+516], [%rd1+8], 8"), 22, "[%r3+520], [%rd1+8], 8");
    std::string groups = body + R"(
  cp.async.commit_group;
  cp.async.wait_group 1;
  bar.sync 0;
  ld.shared.u32 %r9, [%r3];
  cp.async.wait_group 0;
  bar.sync 0;
)" + tile_out(1024);
    std::string all = body + "  cp.async.wait_all;\n  bar.sync 0;\n" + tile_out(1024);
    // bar has count 1 from the head: .noinc arrivals need a barrier of 32.
    std::string barrier = R"(
  @%p0 mbarrier.init.shared::cta.b64 [bar+8], 32;
  @%p0 mbarrier.init.shared::cta.b64 [bar+16], 1;
  bar.sync 0;
)" + body + R"(
  cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar+8];
  cp.async.mbarrier.arrive.shared.b64 [bar+16];
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
  @!%p1 bra w1;
  @%p0 mbarrier.arrive.shared.b64 _, [bar+16];
w2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+16], 0;
  @!%p1 bra w2;
)" + tile_out(1024);
    for (const std::string& text : {groups, all, barrier}) {
      Outcome o = run(text, schedule, nullptr, in, 1024);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      for (uint32_t t = 0; t < 32; ++t)
        for (uint32_t b = 0; b < 16; ++b) {
          uint32_t read = t >= 16 ? 0 : t >= 8 ? 6 : 16;
          INFO("thread " << t << " byte " << b);
          REQUIRE(o.out[t * 16 + b] == (b < read ? in[t * 16 + b] : 0));
          if (b < 4 || b >= 8) REQUIRE(o.out[512 + t * 16 + b] == in[t * 16 + b]);
        }
    }
  }
  expect_fault(R"(
  ld.param.u64 %rd1, [in];
  @%p0 cp.async.cg.shared.global [%r20], [%rd1], 16;
  @%p0 ld.shared.u32 %r1, [%r20];
  cp.async.wait_all;
  ret;
)",
               "pending", "cp.async", nullptr, kLazy);
}

TEST_CASE("tensor maps made on the device", "[virtual][copy]") {
  // The map is copied to shared memory, its address, size and pitch replaced, written to global
  // memory and used.
  MapSpec spec{0, {64, 2}, {64}, {64, 2}, 0, 0};
  std::vector<uint8_t> in = random_bytes(1024, 7);
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::string body = std::string(R"(
  .shared .align 128 .b8 copy_map[128];
  mov.b64 %rd1, map;
  ld.param.u64 %rd2, [in];
  shl.b32 %r2, %r0, 2;
  cvt.u64.u32 %rd3, %r2;
  add.u64 %rd4, %rd1, %rd3;
  ld.param.b32 %r3, [%rd4];
  mov.u32 %r4, copy_map;
  add.u32 %r5, %r4, %r2;
  st.shared.b32 [%r5], %r3;
  bar.sync 0;
  add.u64 %rd5, %rd2, 256;
  @%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r4], %rd5;
  @%p0 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r4], 1, 1;
  mov.u64 %rd6, 128;
  @%p0 tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r4], 0, %rd6;
  bar.sync 0;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd0], [%r4], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd0, {0, 0}], [bar];
issued:
)") + kWait + tile_out(128);
    Outcome o = run(body, schedule, &spec, in, 128);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 128; ++i) REQUIRE(o.out[i] == (i < 64 ? in[256 + i] : 0));
  }
}
