// mbarrier, named, warp and cluster barriers, setmaxnreg, nanosleep: results and faults, under
// every schedule.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

namespace {

using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::schedules;
using wltest::Vgpu;

// %r0 = thread, %rd0 = out. The body leaves a value in %r1 of every thread.
const char* const kHead = R"(
  .shared .align 8 .b64 bar[4];
  .shared .align 16 .b32 words[256];
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
)";
const char* const kStore = R"(
  mov.u32 %r60, %ctaid.x;
  mov.u32 %r61, %ntid.x;
  mad.lo.u32 %r60, %r60, %r61, %r0;
  mul.wide.u32 %rd61, %r60, 4;
  add.u64 %rd60, %rd0, %rd61;
  st.global.u32 [%rd60], %r1;
  ret;
)";

RunResult run(const std::string& body, const std::string& schedule, Launch launch,
              std::vector<uint32_t>* out = nullptr, const std::string& target = "sm_100a",
              const std::string& store = kStore) {
  Vgpu gpu;
  size_t n = size_t(launch.block.x) * launch.grid.x;
  uint64_t address = gpu.allocate(n * 4);
  launch.schedule = schedule;
  RunResult r = gpu.run(module_text(kHead + body + store, ".param .u64 out", target),
                        Params().u64(address), launch);
  if (r.ok && out) *out = gpu.download<uint32_t>(address, n);
  return r;
}

// The same body under every schedule gives value(thread of the grid).
template <class Fn>
void expect(const std::string& body, Launch launch, Fn value) {
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::vector<uint32_t> out;
    RunResult r = run(body, schedule, launch, &out);
    INFO(r.text);
    REQUIRE(r.ok);
    for (size_t i = 0; i < out.size(); ++i) {
      INFO("thread " << i);
      REQUIRE(out[i] == value(uint32_t(i)));
    }
  }
}

void expect_fault(const std::string& body, Launch launch, const std::string& checker,
                  const std::string& part) {
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    RunResult r = run(body, schedule, launch);
    INFO("checker " << r.checker << ": " << r.text);
    REQUIRE(r.faulted(checker, part));
  }
}

// Thread 0 initialises bar[0] with `count`; all threads see it.
std::string init(uint32_t count) {
  return R"(
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [bar], )" +
         std::to_string(count) + R"(;
  bar.sync 0;
)";
}

const std::string kWait0 = R"(
wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra wait;
)";

Launch block(uint32_t threads) {
  Launch launch;
  launch.block = {threads};
  return launch;
}

} // namespace

TEST_CASE("mbarrier: arrivals complete a phase and order data", "[virtual][sync]") {
  // Every thread writes a word and arrives; after the wait it reads its neighbour's.
  expect(init(128) + R"(
  mov.u32 %r2, words;
  shl.b32 %r3, %r0, 2;
  add.u32 %r4, %r2, %r3;
  mad.lo.u32 %r5, %r0, 3, 7;
  st.shared.u32 [%r4], %r5;
  mbarrier.arrive.shared::cta.b64 _, [bar];
)" + kWait0 + R"(
  xor.b32 %r6, %r3, 256;
  add.u32 %r6, %r2, %r6;
  ld.shared.u32 %r1, [%r6];
)",
         block(128), [](uint32_t i) { return (i ^ 64) * 3 + 7; });
}

TEST_CASE("mbarrier: a producer and a consumer through four phases", "[virtual][sync]") {
  // Warp 0 writes word k in phase k, warp 1 adds them up; empty/full pair, parity flips.
  std::string body = R"(
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p0 mbarrier.init.shared::cta.b64 [bar+8], 32;
  bar.sync 0;
  mov.u32 %r1, 0;
  mov.u32 %r2, 0;
  mov.u32 %r10, 0;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra consumer;
  setp.ne.u32 %p3, %r0, 0;
  @%p3 bra done;
produce:
  xor.b32 %r3, %r10, 1;
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], %r3;
  @!%p1 bra w1;
  add.u32 %r4, %r2, 5;
  st.shared.u32 [words], %r4;
  mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];
  add.u32 %r2, %r2, 1;
  xor.b32 %r10, %r10, 1;
  setp.lt.u32 %p4, %r2, 4;
  @%p4 bra produce;
  bra done;
consumer:
w2: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [bar], %r10, 100;
  @!%p1 bra w2;
  ld.shared.u32 %r4, [words];
  add.u32 %r1, %r1, %r4;
  mbarrier.arrive.shared::cta.b64 _, [bar+8], 1;
  add.u32 %r2, %r2, 1;
  xor.b32 %r10, %r10, 1;
  setp.lt.u32 %p4, %r2, 4;
  @%p4 bra consumer;
done:
)";
  expect(body, block(64), [](uint32_t i) { return i < 32 ? 0u : 5u + 6 + 7 + 8; });
}

TEST_CASE("mbarrier: states, pending counts, test_wait and drop", "[virtual][sync]") {
  // 4 arrivals of one thread: pending counts before them are 4, 3, 2, 1; the state of the first is
  // done only after the last.
  expect(R"(
  mbarrier.init.b64 [bar], 4;
  mbarrier.arrive.b64 %rd1, [bar];
  mbarrier.arrive.noComplete.release.cta.shared.b64 %rd2, [bar], 2;
  mbarrier.pending_count.b64 %r2, %rd1;
  mbarrier.pending_count.b64 %r3, %rd2;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
  selp.u32 %r4, 100, 0, %p1;
  mbarrier.arrive_drop.shared.b64 %rd3, [bar];
  mbarrier.test_wait.b64 %p1, [bar], %rd1;
  selp.u32 %r5, 1000, 0, %p1;
  // Dropped: three arrivals complete the next phase.
  mbarrier.arrive.b64 %rd4, [bar], 3;
  mbarrier.pending_count.b64 %r6, %rd4;
  mbarrier.try_wait.parity.b64 %p2, [bar], 1;
  selp.u32 %r7, 10000, 0, %p2;
  mbarrier.inval.b64 [bar];
  mbarrier.init.b64 [bar], 1;
  mad.lo.u32 %r1, %r2, 10, %r3;
  add.u32 %r1, %r1, %r4;
  add.u32 %r1, %r1, %r5;
  add.u32 %r1, %r1, %r7;
  mad.lo.u32 %r1, %r6, 100000, %r1;
)",
         block(1), [](uint32_t) { return 300000u + 10000 + 1000 + 43; });
}

TEST_CASE("mbarrier: transactions gate the phase", "[virtual][sync]") {
  // complete_tx before expect_tx is allowed: the count goes below zero in between.
  expect(R"(
  mbarrier.init.shared.b64 [bar], 2;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;
  mbarrier.arrive.shared.b64 %rd1, [bar];
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 48;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
  selp.u32 %r1, 1, 0, %p1;
  mbarrier.complete_tx.shared::cta.b64 [bar], 16;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
  selp.u32 %r2, 2, 0, %p1;
  add.u32 %r1, %r1, %r2;
)",
         block(1), [](uint32_t) { return 2u; });
}

TEST_CASE("mbarrier: remote arrivals in a cluster", "[virtual][sync]") {
  // Every thread of both CTAs arrives on the barrier of rank 0, rank 0 waits for 64, then both
  // meet.
  Launch launch = block(32);
  launch.grid = launch.cluster = {2};
  expect(R"(
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 64;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r3, bar;
  mapa.shared::cluster.u32 %r4, %r3, 0;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
  mov.u32 %r1, 7;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra skip;
)" + kWait0 + R"(
  mov.u32 %r1, 5;
skip:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.acquire.aligned;
)",
         launch, [](uint32_t i) { return i < 32 ? 5u : 7u; });
}

TEST_CASE("mbarrier: try_wait comes back after its time limit", "[virtual][sync]") {
  // An H200 answers false to the first and true to the one after the arrival. Warp 1 waits for the
  // same phase all the while.
  const std::string body = R"(
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p1, %r0, 0;
  @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  bar.sync 0;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra wait;
  mov.u32 %r2, 0;
peek:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
  selp.b32 %r1, 1, 0, %p3;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p4, %r2, COUNT;
  @%p4 bra peek;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
  @!%p3 bra wait;
  ld.param.u64 %rd1, [out];
  @%p1 st.global.u32 [%rd1], %r1;
  @%p1 st.global.u32 [%rd1+4], %r2;
)";
  for (const std::string& schedule : schedules())
    for (const uint32_t count : {1u, 300u}) {
      INFO(schedule << ", " << count);
      std::string text = body;
      text.replace(text.find("COUNT"), 5, std::to_string(count));
      Vgpu gpu("h200");
      const uint64_t to = gpu.upload(std::vector<uint32_t>{7, 7});
      Launch launch;
      launch.block = {64};
      launch.schedule = schedule;
      RunResult r = gpu.run(module_text(text + "  ret;\n", ".param .u64 out", "sm_90a"),
                            Params().u64(to), launch);
      INFO(r.text);
      REQUIRE(r.ok);
      CHECK(gpu.download<uint32_t>(to, 2) == std::vector<uint32_t>{0, count});
      // Without the arrival it is a deadlock as before.
      text.replace(text.find("@%p1 mbarrier.arrive"), 5, "@!%p1 bra wait; bra wait; //");
      r = gpu.run(module_text(text + "  ret;\n", ".param .u64 out", "sm_90a"), Params().u64(to),
                  launch);
      INFO(r.text);
      CHECK(r.faulted("deadlock", "awaits 1 of 1 arrivals"));
    }
}

TEST_CASE("mbarrier: misuse is found", "[virtual][sync]") {
  expect_fault("mbarrier.arrive.shared::cta.b64 _, [bar];", block(1), "barriers",
               "before mbarrier.init");
  expect_fault("mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar], 1;", block(1),
               "barriers", "initialised again");
  expect_fault("mbarrier.init.shared.b64 [bar], 0;", block(1), "barriers", "count 0");
  expect_fault("mbarrier.init.shared.b64 [bar+4], 1;", block(1), "alignment", "multiple of 8");
  expect_fault("mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 _, [bar], 2;",
               block(1), "barriers", "2 arrivals");
  expect_fault(
      "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 %rd1, [bar], 1;",
      block(1), "barriers", "would complete");
  expect_fault("mbarrier.init.shared.b64 [bar], 1; mov.u32 %r1, 3; st.shared.u32 [bar], %r1;",
               block(1), "barriers", "write over");
  // An arrival is missing, bytes are missing: a deadlock, at once.
  expect_fault(init(65) + "mbarrier.arrive.shared.b64 _, [bar];" + kWait0, block(64), "deadlock",
               "bar");
  expect_fault(init(1) + "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;" + kWait0,
               block(32), "deadlock", "16");
  RunResult r = run("mbarrier.arrive.shared::cluster.b64 %rd1, [bar];", "eager", block(1));
  INFO(r.text);
  CHECK(r.refused("must be _"));
}

TEST_CASE("named barriers: sync, arrive, counts, reductions", "[virtual][sync]") {
  // bar.sync of all, by default and with a count.
  expect(R"(
  shl.b32 %r3, %r0, 2;
  mov.u32 %r2, words;
  add.u32 %r4, %r2, %r3;
  st.shared.u32 [%r4], %r0;
  bar.sync 0;
  mov.u32 %r9, 3;
  mov.u32 %r10, 128;
  bar.sync %r9, %r10;
  xor.b32 %r6, %r3, 508;
  add.u32 %r6, %r2, %r6;
  ld.shared.u32 %r1, [%r6];
)",
         block(128), [](uint32_t i) { return i ^ 127; });
  // Producer arrives, consumer syncs: 64 threads in barrier 1, the others go on.
  expect(R"(
  mov.u32 %r1, 9;
  setp.ge.u32 %p1, %r0, 64;
  @%p1 bra done;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra consumer;
  st.shared.u32 [words], 41;
  bar.arrive 1, 64;
  bra done;
consumer:
  bar.sync 1, 64;
  ld.shared.u32 %r1, [words];
done:
)",
         block(96), [](uint32_t i) { return i >= 32 && i < 64 ? 41u : 9u; });
  // Reductions over all threads.
  expect(R"(
  setp.lt.u32 %p1, %r0, 70;
  bar.red.popc.u32 %r1, 2, %p1;
  barrier.cta.red.or.aligned.pred %p2, 3, 96, %p1;
  selp.u32 %r2, 1000, 0, %p2;
  barrier.red.and.pred %p3, 4, !%p1;
  selp.u32 %r3, 10000, 0, %p3;
  setp.lt.u32 %p4, %r0, 96;
  bar.red.and.pred %p5, 5, %p4;
  selp.u32 %r4, 100000, 0, %p5;
  add.u32 %r1, %r1, %r2;
  add.u32 %r1, %r1, %r3;
  add.u32 %r1, %r1, %r4;
)",
         block(96), [](uint32_t) { return 101070u; });
}

TEST_CASE("named barriers: warps that exit are not awaited; misuse is found", "[virtual][sync]") {
  // bar.sync 0 waits for live warps only.
  expect(R"(
  mov.u32 %r1, 4;
  setp.lt.u32 %p1, %r0, 64;
  @%p1 bra stay;
  bra out;
stay:
  bar.sync 0;
out:
)",
         block(128), [](uint32_t) { return 4u; });
  expect_fault("bar.sync 16;", block(32), "barriers", "0..15");
  expect_fault("bar.sync 1, 33;", block(64), "barriers", "multiple of 32");
  expect_fault("bar.sync 1, 96;", block(64), "barriers", "thread count 96");
  expect_fault("setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 32; @!%p1 bar.arrive 1, 64;"
               "bar.sync 1, 64;",
               block(64), "deadlock", "");
  expect_fault("setp.lt.u32 %p1, %r0, 7; @%p1 bar.sync 1;", block(32), "aligned", "");
}

TEST_CASE("bar.warp.sync waits for the lanes of its mask", "[virtual][sync]") {
  // Lane 0 works alone, the others wait for it at the same place.
  expect(R"(
  mov.u32 %r2, words;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra meet;
  mov.u32 %r3, 0;
loop:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 50;
  @%p2 bra loop;
  st.shared.u32 [words], %r3;
meet:
  bar.warp.sync 0xffffffff;
  ld.shared.u32 %r1, [words];
)",
         block(32), [](uint32_t) { return 50u; });
  // Two places with the same mask; the lanes outside the mask do not take part.
  expect(R"(
  mov.u32 %r1, 1;
  setp.ge.u32 %p3, %r0, 16;
  @%p3 bra end;
  setp.ge.u32 %p1, %r0, 8;
  @%p1 bra other;
  st.shared.u32 [words], 77;
  bar.warp.sync 0xffff;
  bra read;
other:
  bar.warp.sync 0xffff;
read:
  ld.shared.u32 %r1, [words];
end:
)",
         block(32), [](uint32_t i) { return i < 16 ? 77u : 1u; });
  expect_fault("bar.warp.sync 0x1;", block(32), "barriers", "leaves some of them out");
  // Tiles of eight with masks of their own meet at one place; one lane of each comes later, and the
  // last tile's at another place.
  expect(R"(
  mov.u32 %r2, words;
  shr.u32 %r3, %r0, 3;
  shl.b32 %r4, %r3, 3;
  shl.b32 %r5, 255, %r4;
  mad.lo.u32 %r6, %r3, 4, %r2;
  and.b32 %r7, %r0, 7;
  mov.u32 %r8, 3;
again:
  setp.ne.u32 %p1, %r7, 5;
  @%p1 bra meet;
  mov.u32 %r9, %r3;
late:
  sub.u32 %r9, %r9, 1;
  setp.ge.s32 %p2, %r9, 0;
  @%p2 bra late;
  mad.lo.u32 %r10, %r8, 100, %r0;
  st.shared.u32 [%r6], %r10;
  setp.gt.u32 %p3, %r0, 24;
  @%p3 bra other;
meet:
  bar.warp.sync %r5;
  bra read;
other:
  bar.warp.sync %r5;
read:
  ld.shared.u32 %r1, [%r6];
  bar.warp.sync %r5;
  sub.u32 %r8, %r8, 1;
  setp.ne.u32 %p4, %r8, 0;
  @%p4 bra again;
)",
         block(32), [](uint32_t i) { return 100 + i / 8 * 8 + 5; });
}

TEST_CASE("cluster barrier: misuse is found", "[virtual][sync]") {
  Launch launch = block(32);
  launch.grid = launch.cluster = {2};
  expect_fault("barrier.cluster.wait.aligned;", launch, "barriers", "have not executed");
  expect_fault("setp.lt.u32 %p1, %r0, 32; @%p1 barrier.cluster.arrive.aligned;"
               "@%p1 barrier.cluster.arrive.aligned; bar.sync 0; barrier.cluster.arrive.aligned;",
               block(64), "barriers", "again");
}

namespace {
// A kernel of two warpgroups with launch values, as setmaxnreg needs them.
RunResult run_registers(const std::string& body, const std::string& directives,
                        const std::string& schedule, uint32_t threads = 256) {
  Vgpu gpu;
  std::string text = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n" +
                     directives + "\n{\n.reg .pred p; .reg .b32 t;\nmov.u32 t, %tid.x;\n" +
                     "setp.ge.u32 p, t, 128;\n" + body + "\nret;\n}\n";
  Launch launch;
  launch.block = {threads};
  launch.schedule = schedule;
  return gpu.run(text, Params(), launch);
}
const char* const kDirectives = ".maxntid 256, 1, 1\n.minnctapersm 1\n.maxnreg 128";
} // namespace

TEST_CASE("setmaxnreg: the pool adds up", "[virtual][sync]") {
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    // 256 threads x 128: one warpgroup gives 88 x 128 back, the other takes them.
    RunResult r = run_registers(R"(
  @p bra consumer;
  setmaxnreg.dec.sync.aligned.u32 40;
  bra end;
consumer:
  setmaxnreg.inc.sync.aligned.u32 216;
end:
)",
                                kDirectives, schedule);
    INFO(r.text);
    CHECK(r.ok);
    // 8 too many: nobody can give them.
    r = run_registers(R"(
  @p bra consumer;
  setmaxnreg.dec.sync.aligned.u32 40;
  bra end;
consumer:
  setmaxnreg.inc.sync.aligned.u32 224;
end:
)",
                      kDirectives, schedule);
    INFO(r.text);
    CHECK(r.faulted("deadlock", "regist"));
    r = run_registers("setmaxnreg.inc.sync.aligned.u32 120;", kDirectives, schedule);
    CHECK(r.faulted("setmaxnreg", "must not lower"));
    r = run_registers("setmaxnreg.dec.sync.aligned.u32 136;", kDirectives, schedule);
    CHECK(r.faulted("setmaxnreg", "must not raise"));
    r = run_registers("setmaxnreg.dec.sync.aligned.u32 40;", ".maxntid 256, 1, 1", schedule);
    CHECK(r.faulted("setmaxnreg", "no effect"));
    // Warps 0 and 1 of a warpgroup differ.
    r = run_registers("setp.lt.u32 p, t, 32; @p setmaxnreg.dec.sync.aligned.u32 40;"
                      "@!p setmaxnreg.dec.sync.aligned.u32 48;",
                      kDirectives, schedule);
    INFO(r.text);
    CHECK(r.faulted("setmaxnreg", "different"));
  }
  CHECK(run_registers("setmaxnreg.dec.sync.aligned.u32 44;", kDirectives, "eager")
            .refused("multiple of 8"));
  CHECK(run_registers("setmaxnreg.dec.sync.aligned.u32 16;", kDirectives, "eager").refused("24"));
}

TEST_CASE("nanosleep and test_wait poll without starving others", "[virtual][sync]") {
  expect(init(1) + R"(
  mov.u32 %r1, 3;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra poll;
  nanosleep.u32 100;
  griddepcontrol.wait;
  @%p0 mbarrier.arrive.shared.b64 _, [bar];
  griddepcontrol.launch_dependents;
  bra end;
poll:
  nanosleep.u32 20;
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;
  @!%p1 bra poll;
  mov.u32 %r1, 8;
end:
)",
         block(64), [](uint32_t i) { return i < 32 ? 3u : 8u; });
}
