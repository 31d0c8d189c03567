// Order between clusters through flags in global memory: release and acquire, fences with relaxed
// accesses, scopes. For each pattern of the PTX memory model a kernel that must fire and one that
// must stay silent.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/check/races.hpp"

#include <string>
#include <vector>

using namespace wltest;
using namespace vgpu;

namespace {

// The last CTA consumes what the others produce: `data` at %rd1 (256 bytes for each CTA; its own at
// %rd4), a flag at %rd2, results at %rd3. %r1: CTA, %r2: thread, %r3: CTAs. Blocks of 64.
std::string kernel(const std::string& producer, const std::string& consumer) {
  return module_text(R"(
  .shared .align 1024 .b8 area[8192];
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [flag];
  ld.param.u64 %rd3, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, area;
  sub.u32 %r5, %r3, 1;
  setp.ne.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r1, %r5;
  mul.wide.u32 %rd4, %r1, 256;
  mul.wide.u32 %rd5, %r2, 4;
  add.u64 %rd4, %rd4, %rd1;
  add.u64 %rd6, %rd4, %rd5;
  @%p2 bra consumer;
)" + producer + R"(
  bra over;
consumer:
)" + consumer + R"(
over:
  ret;
)",
                     ".param .u64 data, .param .u64 flag, .param .u64 out");
}

RunResult run(const std::string& text, const std::string& schedule, uint32_t grid = 3,
              uint32_t cluster = 1) {
  Vgpu gpu("b200");
  std::vector<uint32_t> zeros(64);
  uint64_t data = gpu.allocate(4096), flag = gpu.upload(zeros), out = gpu.allocate(4096);
  Launch l;
  l.block = {64, 1, 1};
  l.grid = {grid, 1, 1};
  l.cluster = {cluster, 1, 1};
  l.schedule = schedule;
  l.checks = check::kRaces | check::kAdvice;
  l.host_threads = 2;
  return gpu.run(text, Params().u64(data).u64(flag).u64(out), l);
}

void fires(const std::string& text, const char* part, uint32_t grid = 3, uint32_t cluster = 1) {
  for (const std::string& schedule : schedules()) {
    RunResult r = run(text, schedule, grid, cluster);
    INFO("schedule " << schedule << "\n" << text << r.text);
    CHECK(r.faulted("races", part));
  }
}

void silent(const std::string& text, uint32_t grid = 3, uint32_t cluster = 1) {
  for (const std::string& schedule : schedules()) {
    RunResult r = run(text, schedule, grid, cluster);
    INFO("schedule " << schedule << "\n" << text << r.text);
    CHECK(r.ok);
  }
}

// Every thread of a producer stores a word; thread 0 raises the flag after a barrier.
std::string produce(const std::string& raise) {
  return "  st.global.u32 [%rd6], %r2;\n  bar.sync 0;\n  @%p1 bra over;\n" + raise;
}

// Thread 0 waits until the flag is as high as there are producers; then all threads read.
std::string consume(const std::string& load, const std::string& after = "",
                    const std::string& meet = "  bar.sync 0;\n") {
  return "  @%p1 bra seen;\nagain:\n  " + load +
         "\n  setp.lt.u32 %p3, %r6, %r5;\n  @%p3 bra again;\n" + after + "seen:\n" + meet +
         "  add.u64 %rd7, %rd1, %rd5;\n  ld.global.u32 %r7, [%rd7];\n"
         "  ld.global.u32 %r8, [%rd7 + 256];\n";
}

const char* const kRed = "red.release.gpu.global.add.u32 [%rd2], 1;";
const char* const kAcquire = "ld.acquire.gpu.global.u32 %r6, [%rd2];";

} // namespace

TEST_CASE("flags between clusters: release and acquire", "[virtual]") {
  silent(kernel(produce(kRed), consume(kAcquire)));
  silent(kernel(produce("red.release.sys.global.add.u32 [%rd2], 1;"), consume(kAcquire)));
  silent(kernel(produce("atom.acq_rel.gpu.global.add.u32 %r9, [%rd2], 1;"),
                consume("atom.acquire.gpu.global.or.b32 %r6, [%rd2], 0;")));
  // No release; no acquire; neither.
  const char* relaxed = "red.relaxed.gpu.global.add.u32 [%rd2], 1;";
  fires(kernel(produce(relaxed), consume(kAcquire)), "grid");
  fires(kernel(produce(kRed), consume("ld.relaxed.gpu.global.u32 %r6, [%rd2];")), "grid");
  fires(kernel(produce(relaxed), consume("ld.volatile.global.u32 %r6, [%rd2];")), "grid");
  // The bytes are named.
  RunResult r = run(kernel(produce(relaxed), consume(kAcquire)), "lazy");
  INFO(r.text);
  CHECK(r.faulted("races", "a release and an acquire of a flag"));
}

TEST_CASE("flags between clusters: scopes", "[virtual]") {
  fires(kernel(produce("red.release.cta.global.add.u32 [%rd2], 1;"), consume(kAcquire)), "scope");
  fires(kernel(produce("red.release.cluster.global.add.u32 [%rd2], 1;"), consume(kAcquire)),
        "scope");
  fires(kernel(produce(kRed), consume("ld.acquire.cta.global.u32 %r6, [%rd2];")), "scope");
  // A cluster's scope holds its own CTAs, and no others.
  const std::string by_cluster = produce("red.release.cluster.global.add.u32 [%rd2], 1;");
  const std::string seen_in = consume("ld.acquire.cluster.global.u32 %r6, [%rd2];");
  silent(kernel(by_cluster, seen_in), 3, 3);
  fires(kernel(by_cluster, seen_in), "scope", 3, 1);
  fires(kernel(produce("red.release.cta.global.add.u32 [%rd2], 1;"),
               consume("ld.acquire.cta.global.u32 %r6, [%rd2];")),
        "scope", 3, 3);
}

TEST_CASE("flags between clusters: fences with relaxed accesses", "[virtual]") {
  auto raise = [](const char* fence) {
    return produce(std::string(fence) + "\n  red.relaxed.gpu.global.add.u32 [%rd2], 1;");
  };
  const char* load = "ld.relaxed.gpu.global.u32 %r6, [%rd2];";
  silent(kernel(raise("fence.acq_rel.gpu;"), consume(load, "  fence.acq_rel.gpu;\n")));
  silent(kernel(raise("fence.sc.gpu;"), consume(load, "  fence.acq_rel.sys;\n")));
  silent(kernel(raise("membar.gl;"),
                consume("ld.volatile.global.u32 %r6, [%rd2];", "  membar.gl;\n")));
  silent(kernel(raise("fence.release.gpu;"), consume(load, "  fence.acquire.gpu;\n")));
  silent(kernel(raise("fence.acq_rel.gpu;"), consume(kAcquire)));
  silent(kernel(produce(kRed), consume(load, "  fence.acq_rel.gpu;\n")));
  // Every thread's fence behind the barrier that follows the read.
  silent(kernel(raise("fence.acq_rel.gpu;"),
                consume(load, "  fence.acq_rel.gpu;\n", "  bar.sync 0;\n  fence.acq_rel.gpu;\n")));
  fires(kernel(raise(""), consume(load, "  fence.acq_rel.gpu;\n")), "grid");
  fires(kernel(raise("fence.acq_rel.gpu;"), consume(load)), "grid");
  fires(kernel(raise("fence.acq_rel.cta;"), consume(load, "  fence.acq_rel.gpu;\n")), "grid");
  fires(kernel(raise("fence.acq_rel.gpu;"), consume(load, "  fence.acq_rel.cluster;\n")), "grid");
  fires(kernel(raise("fence.acquire.gpu;"), consume(load, "  fence.acq_rel.gpu;\n")), "grid");
  fires(kernel(raise("fence.acq_rel.gpu;"), consume(load, "  fence.release.gpu;\n")), "grid");
  // The fence before the data orders nothing.
  fires(kernel("  fence.acq_rel.gpu;\n" + produce("red.relaxed.gpu.global.add.u32 [%rd2], 1;"),
               consume(kAcquire)),
        "grid");
}

TEST_CASE("flags between clusters: the barrier of the CTA on both sides", "[virtual]") {
  // Thread 0 raises the flag before the others have stored.
  fires(kernel("  st.global.u32 [%rd6], %r2;\n  @%p1 bra over;\n  " + std::string(kRed),
               consume(kAcquire)),
        "grid");
  // The others read before thread 0 has seen it.
  fires(kernel(produce(kRed), consume(kAcquire, "", "")), "grid");
}

TEST_CASE("flags between clusters: a store hides what came before it, an atomic carries it on",
          "[virtual]") {
  // CTA 0 releases its data; CTA 1 sees that without acquiring it, and raises the flag itself.
  auto text = [](const char* second) {
    return kernel(std::string("  setp.ne.u32 %p4, %r1, 0;\n  @%p4 bra second;\n") + produce(kRed) +
                      "\n  bra over;\nsecond:\n  @%p1 bra over;\nwaits:\n"
                      "  ld.relaxed.gpu.global.u32 %r9, [%rd2];\n  setp.ne.u32 %p4, %r9, 1;\n"
                      "  @%p4 bra waits;\n  " +
                      second,
                  "  @%p1 bra over;\nagain:\n  ld.acquire.gpu.global.u32 %r6, [%rd2];\n"
                  "  setp.ne.u32 %p3, %r6, 2;\n  @%p3 bra again;\n"
                  "  ld.global.u32 %r7, [%rd1];\n");
  };
  silent(text("red.relaxed.gpu.global.add.u32 [%rd2], 1;"));
  fires(text("st.release.gpu.global.u32 [%rd2], 2;"), "grid");
  silent(text("fence.acq_rel.gpu;\n  st.release.gpu.global.u32 [%rd2], 2;"));
}

TEST_CASE("flags between clusters: what was learned is passed on", "[virtual]") {
  // CTA 0 to 1 to 2, each with a flag of its own.
  auto text = [](const char* middle) {
    return kernel(std::string("  setp.ne.u32 %p4, %r1, 0;\n  @%p4 bra second;\n") +
                      produce("st.release.gpu.global.u32 [%rd2], 1;") +
                      "\n  bra over;\nsecond:\n  @%p1 bra over;\nwaits:\n  " + middle +
                      " %r9, [%rd2];\n  setp.ne.u32 %p4, %r9, 1;\n  @%p4 bra waits;\n"
                      "  st.release.gpu.global.u32 [%rd2 + 4], 1;",
                  "  @%p1 bra over;\nagain:\n  ld.acquire.gpu.global.u32 %r6, [%rd2 + 4];\n"
                  "  setp.ne.u32 %p3, %r6, 1;\n  @%p3 bra again;\n"
                  "  ld.global.u32 %r7, [%rd1];\n");
  };
  silent(text("ld.acquire.gpu.global.u32"));
  fires(text("ld.relaxed.gpu.global.u32"), "grid");
}

TEST_CASE("flags between clusters: data overwritten for the next round", "[virtual]") {
  // CTA 0 writes again after CTA 1 has read; the answer is a second flag.
  auto text = [](const char* answer) {
    return kernel(std::string("  @%p1 bra over;\n  st.global.u32 [%rd4], 1;\n"
                              "  st.release.gpu.global.u32 [%rd2], 1;\nwaits:\n"
                              "  ld.acquire.gpu.global.u32 %r9, [%rd2 + 4];\n"
                              "  setp.ne.u32 %p4, %r9, 1;\n  @%p4 bra waits;\n"
                              "  st.global.u32 [%rd4], 2;"),
                  "  @%p1 bra over;\nagain:\n  ld.acquire.gpu.global.u32 %r6, [%rd2];\n"
                  "  setp.ne.u32 %p3, %r6, 1;\n  @%p3 bra again;\n"
                  "  ld.global.u32 %r7, [%rd1];\n  " +
                      std::string(answer) + ".gpu.global.u32 [%rd2 + 4], 1;");
  };
  silent(text("st.release"), 2);
  fires(text("st.relaxed"), "grid", 2);
}

TEST_CASE("flags between clusters: bulk copies of what other clusters wrote", "[virtual]") {
  const std::string start = "  @%p1 bra over;\n  mbarrier.init.shared::cta.b64 [%r4], 1;\n"
                            "  fence.mbarrier_init.release.cluster;\nagain:\n  ";
  auto copy = [&](const char* fence) {
    return start + kAcquire + "\n  setp.lt.u32 %p3, %r6, %r5;\n  @%p3 bra again;\n  " + fence +
           "\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;\n"
           "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4 + 1024], "
           "[%rd1], 256, [%r4];\nlanded:\n"
           "  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0;\n  @!%p3 bra landed;\n"
           "  ld.shared.u32 %r7, [%r4 + 1024];\n";
  };
  fires(kernel(produce(kRed), copy("")), "fence.proxy.async");
  silent(kernel(produce(kRed), copy("fence.proxy.async;")));
  silent(kernel(produce(kRed), copy("fence.proxy.async.global;")));
  // A fence of the writers does as well.
  silent(kernel("  st.global.u32 [%rd6], %r2;\n  fence.proxy.async;\n  bar.sync 0;\n"
                "  @%p1 bra over;\n  " +
                    std::string(kRed),
                copy("")));
  fires(kernel(produce("red.relaxed.gpu.global.add.u32 [%rd2], 1;"), copy("fence.proxy.async;")),
        "grid");
}

TEST_CASE("flags between clusters: bulk stores are waited for before the release", "[virtual]") {
  auto text = [](const char* wait) {
    return kernel(std::string("  @%p1 bra over;\n  st.shared.u32 [%r4], 7;\n"
                              "  fence.proxy.async.shared::cta;\n"
                              "  cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r4], 16;\n"
                              "  cp.async.bulk.commit_group;\n  ") +
                      wait + "\n  " + kRed,
                  consume(kAcquire));
  };
  silent(text("cp.async.bulk.wait_group 0;"));
  fires(text("cp.async.bulk.wait_group.read 0;"), "grid");
}

TEST_CASE("flags between clusters: atomics and strong accesses", "[virtual]") {
  // Sums by atomics race with nobody, but with the plain read of who does not wait.
  const std::string sum = "  red.global.add.u32 [%rd3], 1;\n";
  silent(kernel(sum, sum));
  fires(kernel(sum, "  ld.global.u32 %r7, [%rd3];\n"), "grid");
  fires(kernel("", sum + "  ld.global.u32 %r7, [%rd3];\n"), "order");
  fires(kernel("  red.cta.global.add.u32 [%rd3], 1;\n", sum), "scope");
  silent(kernel("  st.global.u32 [%rd6], %r2;\n", "  ld.global.u32 %r7, [%rd6];\n"));
  fires(kernel("  st.global.u32 [%rd6], %r2;\n",
               "  add.u64 %rd7, %rd1, %rd5;\n  ld.global.u32 %r7, [%rd7];\n"),
        "grid");
}

// All lanes of the consumer poll; lane 0 takes the flag down for the next round.
TEST_CASE("lanes of a warp may see a flag one after the other", "[virtual]") {
  const std::string poll = R"(poll:
  ld.acquire.gpu.global.u32 %r6, [%rd2];
  setp.ne.u32 %p3, %r6, 7;
  @%p3 bra poll;
)",
                    down = R"(  mov.u32 %r6, 0;
  @!%p1 st.relaxed.gpu.global.u32 [%rd2], %r6;
  bar.sync 0;
)";
  const std::string raise = "  bar.sync 0;\n  mov.u32 %r6, 7;\n"
                            "  @!%p1 st.release.gpu.global.u32 [%rd2], %r6;\n";
  auto ran = [&](const std::string& sync, const std::string& schedule) {
    Vgpu gpu("b200");
    Launch l;
    l.block = {32, 1, 1};
    l.grid = {2, 1, 1};
    l.schedule = schedule;
    l.checks = check::kRaces | check::kAdvice;
    l.instruction_limit = 100'000;
    const std::vector<uint32_t> zeros(64);
    return gpu.run(kernel(raise, poll + sync + down),
                   Params().u64(gpu.allocate(1024)).u64(gpu.upload(zeros)).u64(gpu.allocate(1024)),
                   l);
  };
  int hung = 0;
  for (int seed = 1; seed <= 64; ++seed) {
    const std::string schedule = "random:" + std::to_string(seed);
    for (const char* sync : {"  bar.warp.sync 0xffffffff;\n", "  bar.sync 0;\n"}) {
      const RunResult r = ran(sync, schedule);
      INFO("schedule " << schedule << "\n" << r.text);
      CHECK(r.ok);
    }
    hung += !ran("", schedule).ok;
  }
  INFO(hung << " of 64 seeds");
  CHECK(hung > 0);
  for (const char* schedule : {"lazy", "eager"}) CHECK(ran("", schedule).ok);
}
