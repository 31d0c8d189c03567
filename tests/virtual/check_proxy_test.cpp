// Order between proxies beyond a generic write before an asynchronous read: tensor maps that a
// kernel rewrites, and generic reads before asynchronous writes.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tests/virtual/copy_text.hpp"
#include "tools/vgpu/check/options.hpp"

#include <string>
#include <vector>

using namespace wltest;
using namespace vgpu;

namespace {

// One warp: `write` brings a map of the parameter to global memory at %rd0 (by way of copy_map at
// %r4), `between` stands before its use by thread 0.
std::string with_map(const std::string& write, const std::string& between) {
  return R"(
  .shared .align 128 .b8 copy_map[128];
  mov.b64 %rd1, map;
  shl.b32 %r2, %r0, 2;
  cvt.u64.u32 %rd3, %r2;
  add.u64 %rd4, %rd1, %rd3;
  ld.param.b32 %r3, [%rd4];
  mov.u32 %r4, copy_map;
  add.u32 %r5, %r4, %r2;
  add.u64 %rd5, %rd0, %rd3;
)" + write +
         between +
         R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd0, {0, 0}], [bar];
issued:
)" + copies::kWait +
         "  ret;\n";
}

const char* const kByThreads = "  st.global.b32 [%rd5], %r3;\n";
const char* const kByCopy =
    "  st.shared.b32 [%r5], %r3;\n  bar.sync 0;\n"
    "  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd0], [%r4], 128;\n";
const char* const kRelease = "  fence.proxy.tensormap::generic.release.gpu;\n";
const char* const kMeet = "  bar.sync 0;\n";
const char* const kAcquire = "  fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;\n";

RunResult run_map(const std::string& body, const std::string& schedule) {
  const copies::MapSpec spec{0, {64, 2}, {64}, {64, 2}, 0, 0};
  Launch l;
  l.checks = check::kRaces;
  return copies::run(body, schedule, &spec, copies::random_bytes(1024, 3), 1024, l).result;
}

void fires(const std::string& body, const char* part) {
  for (const std::string& schedule : schedules()) {
    const RunResult r = run_map(body, schedule);
    INFO("schedule " << schedule << "\n" << body << r.text);
    CHECK(r.faulted("races", part));
  }
}

void silent(const std::string& body) {
  for (const std::string& schedule : schedules()) {
    const RunResult r = run_map(body, schedule);
    INFO("schedule " << schedule << "\n" << body << r.text);
    CHECK(r.ok);
  }
}

std::string text(std::initializer_list<const char*> parts) {
  std::string s;
  for (const char* p : parts) s += p;
  return s;
}

} // namespace

TEST_CASE("proxies: a tensor map written by threads", "[virtual]") {
  silent(with_map(kByThreads, text({kRelease, kMeet, kAcquire})));
  silent(with_map(kByThreads, text({kMeet, kRelease, kAcquire})));
  // Another thread's acquire will do, if the user knows of it.
  silent(with_map(kByThreads, text({kRelease, kMeet, "  @!%p0 ", kAcquire + 2, kMeet})));
  fires(with_map(kByThreads, text({kRelease, kMeet, "  @!%p0 ", kAcquire + 2})), "tensormap");
  fires(with_map(kByThreads, text({kMeet})), "fence.proxy.tensormap");
  fires(with_map(kByThreads, text({kRelease, kMeet})), "fence.proxy.tensormap");
  fires(with_map(kByThreads, text({kMeet, kAcquire})), "fence.proxy.tensormap");
  fires(with_map(kByThreads, text({kRelease, kAcquire})), "order");
  // Fences of another proxy, and the acquire of another map.
  fires(with_map(kByThreads, text({"  fence.proxy.async;\n", kMeet, kAcquire})), "tensormap");
  fires(with_map(kByThreads, text({kRelease, kMeet,
                                   "  add.u64 %rd7, %rd0, 512;\n"
                                   "  fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128;\n"})),
        "tensormap");
}

TEST_CASE("proxies: a tensor map brought by cp_fenceproxy", "[virtual]") {
  silent(with_map(kByCopy, kAcquire));
  fires(with_map(kByCopy, ""), "fence.proxy.tensormap");
}

TEST_CASE("proxies: the answer of launch control is read before it is asked for again",
          "[virtual]") {
  auto walk = [](const char* fence) {
    return module_text(std::string(R"(
  .shared .align 16 .b128 response;
  .shared .align 8 .b64 bar;
  mov.u32 %r3, 0;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
work:
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r3;
  @!%p2 bra again;
  xor.b32 %r3, %r3, 1;
  ld.shared.b128 %q0, [response];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
  )") + fence + "\n  @%p3 bra work;\n  ret;\n");
  };
  for (const std::string& schedule : schedules()) {
    Launch l;
    l.block = {1, 1, 1};
    l.grid = {6, 1, 1};
    l.schedule = schedule;
    l.checks = check::kRaces | check::kAdvice;
    Vgpu gpu;
    for (const char* fence :
         {"fence.proxy.async.shared::cta;",
          "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"}) {
      const RunResult r = gpu.run(walk(fence), Params(), l);
      INFO("schedule " << schedule << "\n" << r.text);
      CHECK(r.ok);
    }
    RunResult r = gpu.run(walk(""), Params(), l);
    INFO("schedule " << schedule << "\n" << r.text);
    CHECK(r.faulted("races", "proxy-read"));
    // Advice: without it the kernel runs, and is told.
    l.checks = check::kRaces;
    r = gpu.run(walk(""), Params(), l);
    CHECK(r.ok);
    CHECK(!r.stats.advice().empty());
  }
}

TEST_CASE("proxies: reads of a stage before the next load, where proxy-reads is asked for",
          "[virtual]") {
  auto body = [](const char* fence) {
    return std::string("  ld.param.u64 %rd2, [in];\n  mov.u32 %r3, 0;\nload:\n") + R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd2], 128, [bar];
issued:
w0:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r3;
  @!%p1 bra w0;
  ld.shared.u32 %r4, [%r20];
)" + fence +
           R"(
  bar.sync 0;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 2;
  @%p2 bra load;
  ret;
)";
  };
  auto run = [&](const char* fence, uint32_t checks) {
    Launch l;
    l.checks = checks;
    return copies::run(body(fence), "lazy", nullptr, copies::random_bytes(1024, 3), 64, l).result;
  };
  const uint32_t strict = check::kRaces | check::kProxyReads;
  RunResult r = run("", strict);
  INFO(r.text);
  CHECK(r.faulted("races", "proxy-read"));
  CHECK(run("  fence.proxy.async.shared::cta;", strict).ok);
  CHECK(run("", check::kRaces).ok);
}
