// cp.async, bulk copies, groups and tensor maps made on the device: expected bytes under every
// schedule, and the faults.
#include "tests/virtual/copy_text.hpp"

using namespace wltest;
using namespace wltest::copies;

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

TEST_CASE("copies that are not modelled are refused by name", "[virtual][copy]") {
  for (const char* text :
       {"multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;"}) {
    Vgpu gpu;
    RunResult r = gpu.run(module_text(std::string(text) + " ret;"), Params());
    INFO(text << "\n" << r.text);
    CHECK(r.refused(std::string(text).substr(0, 12)));
  }
}
