// CTAs of a cluster that start at different times: the schedule stagger:SEED, and what may not be
// done to a CTA that has not started, or may have ended.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tools/vgpu/check/options.hpp"

using namespace wltest;

namespace {

constexpr int kSeeds = 16;

std::string stagger(int seed) { return "stagger:" + std::to_string(seed); }

RunResult run(const std::string& body, const std::string& schedule, uint32_t ctas,
              std::vector<uint32_t>* out = nullptr, uint32_t checks = 0) {
  Vgpu gpu("h200");
  const uint64_t to = gpu.upload(std::vector<uint32_t>(64));
  Launch launch;
  launch.block = {64};
  launch.grid = launch.cluster = {ctas};
  launch.schedule = schedule;
  launch.checks = checks;
  RunResult r = gpu.run(module_text(R"(
  .shared .align 16 .b8 room[64];
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %cluster_ctarank;
  setp.eq.u32 %p1, %r0, 0;
  xor.b32 %r2, %r1, 1;
  ld.param.u64 %rd1, [out];
)" + body + "\n  ret;\n",
                                    ".param .u64 out", "sm_90a"),
                        Params().u64(to), launch);
  if (out) *out = gpu.download<uint32_t>(to, 64);
  return r;
}

const std::string kMeet = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n";

} // namespace

TEST_CASE("stagger: every CTA is the first to start under some seed", "[virtual][stagger]") {
  std::vector<int> first(4), last(4);
  for (int seed = 0; seed < 64; ++seed) {
    std::vector<uint32_t> order, again;
    const std::string body = R"(
  @!%p1 bra counted;
  atom.global.add.u32 %r3, [%rd1], 1;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2+4], %r3;
counted:
)" + kMeet;
    const RunResult r = run(body, stagger(seed), 4, &order);
    INFO(r.text);
    REQUIRE(r.ok);
    run(body, stagger(seed), 4, &again);
    CHECK(order == again);
    for (size_t rank = 0; rank < 4; ++rank) {
      first[rank] += order[1 + rank] == 0;
      last[rank] += order[1 + rank] == 3;
    }
  }
  for (size_t rank = 0; rank < 4; ++rank) {
    CHECK(first[rank] > 0);
    CHECK(last[rank] > 0);
  }
  CHECK_FALSE(run("", "stagger:", 1).ok);
  CHECK_FALSE(run("", "stagger:x", 1).ok);
  CHECK(run("", "stagger:18446744073709551615", 1).ok);
}

TEST_CASE("stagger: a CTA is used only once it has started", "[virtual][stagger]") {
  struct Use {
    const char *name, *text;
  };
  const std::string peer = "  mov.u32 %r4, room;\n  mapa.shared::cluster.u32 %r5, %r4, %r2;\n"
                           "  mov.u32 %r6, bar;\n  mapa.shared::cluster.u32 %r7, %r6, %r2;\n";
  for (const Use& use :
       {Use{"store", "st.shared::cluster.u32 [%r5], %r0;"},
        Use{"load", "ld.shared::cluster.u32 %r8, [%r5];"},
        Use{"atomic", "red.relaxed.cluster.shared::cluster.add.u32 [%r5], 1;"},
        Use{"copy", "fence.proxy.async; mbarrier.init.shared::cta.b64 [bar], 1;"
                    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], "
                    "[room], 16, [%r7];"}}) {
    INFO(use.name);
    const std::string body = peer + "  @!%p1 bra over;\n  " + use.text + "\nover:\n" + kMeet;
    const bool copies = std::string(use.name) == "copy";
    int found = 0;
    for (int seed = 0; seed < kSeeds; ++seed) {
      const RunResult r = run(body, stagger(seed), 2);
      INFO(r.text);
      found += r.faulted("start", "of the cluster has not started");
      if (copies) continue; // the peer's mbarrier must be there, too
      CHECK((r.ok || r.faulted("start")));
      const RunResult met = run(kMeet + body, stagger(seed), 2);
      INFO(met.text);
      CHECK(met.ok);
    }
    CHECK(found > kSeeds / 4);
  }
}

TEST_CASE("stagger: an arrival at a CTA that has not started", "[virtual][stagger]") {
  // The leader arrives at its peer's mbarrier: the peer's initialisation proves nothing to it.
  auto body = [](const std::string& meet) {
    return R"(
  @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
)" + meet + R"(
  mov.u32 %r6, bar;
  mapa.shared::cluster.u32 %r7, %r6, %r2;
  @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
wait:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra wait;
)" + kMeet;
  };
  int found = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    found += run(body(""), stagger(seed), 2).faulted("start");
    const RunResult r = run(body(kMeet), stagger(seed), 2);
    INFO(r.text);
    CHECK(r.ok);
  }
  CHECK(found > kSeeds / 4);
}

TEST_CASE("races: what other CTAs do with a CTA's shared memory comes before its exit",
          "[virtual][stagger]") {
  const std::string head = R"(
  @%p1 mbarrier.init.shared::cta.b64 [bar], 64;
  fence.mbarrier_init.release.cluster;
  mov.u32 %r4, room;
  @%p1 st.shared.u32 [%r4], 7;
)" + kMeet + R"(
  mapa.shared::cluster.u32 %r5, %r4, %r2;
  mov.u32 %r6, bar;
  mapa.shared::cluster.u32 %r7, %r6, %r2;
)";
  const std::string load = "  ld.shared::cluster.u32 %r8, [%r5];\n",
                    store = "  @%p1 st.shared::cluster.u32 [%r5 + 4], %r0;\n",
                    wait = "wait:\n  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, "
                           "[bar], 0;\n  @!%p2 bra wait;\n";
  const auto arrive = [](const std::string& order) {
    return "  mbarrier.arrive." + order + ".cluster.shared::cluster.b64 _, [%r7];\n";
  };
  const std::string relaxed =
      "  barrier.cluster.arrive.relaxed.aligned;\n  barrier.cluster.wait.aligned;\n";
  for (const std::string& use : {load, store})
    for (const char* schedule : {"lazy", "eager", "random:1", "random:2", "stagger:1"}) {
      INFO(use << schedule);
      for (const std::string& met : {kMeet, arrive("release") + wait}) {
        const RunResult r = run(head + use + met, schedule, 2, nullptr, vgpu::check::kRaces);
        INFO(r.text);
        CHECK(r.ok);
      }
      for (const std::string& met : {relaxed, arrive("relaxed") + wait}) {
        const RunResult r = run(head + use + met, schedule, 2, nullptr, vgpu::check::kRaces);
        INFO(r.text);
        CHECK(r.faulted("races", "exit: "));
      }
      // It may be accessed after the exit, too.
      const RunResult r = run(head + use, schedule, 2, nullptr, vgpu::check::kRaces);
      INFO(r.text);
      CHECK((r.faulted("races", "exit: ") || r.faulted("exit")));
    }
  // A CTA's own accesses, and those of a CTA that is done with it before another meeting.
  const RunResult r = run(head + load + kMeet + "  @%p1 ld.shared.u32 %r8, [%r4];\n", "lazy", 2,
                          nullptr, vgpu::check::kRaces);
  INFO(r.text);
  CHECK(r.ok);
}
