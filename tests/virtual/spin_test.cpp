// Warps that poll memory, or that compute for long: who gives way to whom, and what is stuck.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

using namespace wltest;

namespace {

// CTA 0 polls a flag that CTA 1 sets behind `rounds` rounds of 3 instructions.
const char* const kFlag = R"(
  ld.param.u64 %rd1, [flag];
  ld.param.u32 %r2, [rounds];
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra work;
poll:
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra poll;
  ret;
work:
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra work;
  st.release.gpu.global.u32 [%rd1], 1;
  ret;
)";

RunResult run_flag(uint32_t rounds, const std::string& schedule) {
  Vgpu gpu("h200");
  Launch launch;
  launch.grid = {2};
  launch.schedule = schedule;
  return gpu.run(module_text(kFlag, ".param .u64 flag, .param .u32 rounds"),
                 Params().u64(gpu.upload(std::vector<uint32_t>(1))).u32(rounds), launch);
}

} // namespace

TEST_CASE("a warp that polls memory takes no more than the one that it waits for", "[virtual]") {
  constexpr uint32_t kRounds = 100'000;
  for (const char* schedule : {"lazy", "eager", "random:1", "hold:1"}) {
    const RunResult r = run_flag(kRounds, schedule);
    INFO(schedule << "\n" << r.text);
    REQUIRE(r.ok);
    CHECK(r.stats.warp_instructions >= 3 * kRounds);
    // What computes may be polling, as far as one can see: they take turns of one length.
    CHECK(r.stats.warp_instructions < 7 * kRounds);
  }
}

TEST_CASE("computing for long is not polling", "[virtual]") {
  const RunResult r = run_flag(3'000'000, "lazy");
  INFO(r.text);
  CHECK(r.ok);
}

TEST_CASE("polls of an mbarrier that never end are told, whatever was computed before",
          "[virtual]") {
  const char* const body = R"(
  .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  bar.warp.sync 0xFFFFFFFF;
  ld.param.u32 %r2, [rounds];
work:
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra work;
poll:
  mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0;
  @!%p3 bra poll;
  ret;
)";
  for (const uint32_t rounds : {1u, 100'000u}) {
    Vgpu gpu("h200");
    const RunResult r =
        gpu.run(module_text(body, ".param .u32 rounds"), Params().u32(rounds), Launch());
    INFO(rounds << "\n" << r.text);
    CHECK(r.faulted("livelock", "all running warps poll and nothing changes"));
  }
}
