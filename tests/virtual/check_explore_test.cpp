// Bounded exploration of schedules: what it visits, what it finds that a plain schedule does not,
// and that the schedule it names finds it again.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tools/cli/options.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/exec/explore.hpp"

#include <set>
#include <string>
#include <vector>

using namespace wltest;
using namespace vgpu;

namespace {

RunResult run(const std::string& text, const std::string& schedule, uint32_t checks = 0,
              std::vector<uint32_t>* out = nullptr) {
  Vgpu gpu("b200");
  std::vector<uint32_t> zeros(256);
  const uint64_t in = gpu.upload(zeros), result = gpu.upload(zeros);
  Launch l;
  l.block = {64, 1, 1};
  l.schedule = schedule;
  l.checks = checks;
  RunResult r = gpu.run(text, Params().u64(in).u64(result), l);
  if (out) *out = gpu.download<uint32_t>(result, 64);
  return r;
}

// "explore:@..." out of a report.
std::string replay_of(const std::string& text) {
  const size_t at = text.find("explore:@");
  if (at == std::string::npos) return "";
  std::string found = text.substr(at, text.find_first_not_of("0123456789,", at + 9) - at);
  while (found.back() == ',') found.pop_back();
  return found;
}

// Two bulk loads on two mbarriers; thread 0 reads the second after a wait for `waited`.
std::string two_loads(const char* waited) {
  return module_text(std::string(R"(
  .shared .align 16 .b8 area[512];
  .shared .align 8 .b64 bar[2];
  ld.param.u64 %rd1, [in];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra over;
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.init.shared::cta.b64 [bar + 8], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar + 8], 64;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area], [%rd1], 64, [bar];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area + 64], [%rd1], 64, [bar + 8];
first:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra first;
second:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [)") +
                         waited + R"(], 0;
  @!%p2 bra second;
  ld.shared.u32 %r2, [area + 64];
last:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar + 8], 0;
  @!%p2 bra last;
over:
  ret;)",
                     ".param .u64 in, .param .u64 out");
}

// Warp 0 counts an atomic up and stores a word: before (right) or after it. Warp 1 waits for the
// count and copies the word to `out`.
std::string handed_over(bool right) {
  const std::string store = "  st.volatile.global.u32 [%rd1 + 64], 7;\n",
                    count = "  red.global.add.u32 [%rd1], 1;\n";
  return module_text(R"(
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  setp.eq.u32 %p2, %r1, 32;
  @%p2 bra consumer;
  @!%p1 bra over;
)" + (right ? store + count : count + store) +
                         R"(  bra over;
consumer:
  ld.volatile.global.u32 %r2, [%rd1];
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra consumer;
  ld.volatile.global.u32 %r3, [%rd1 + 64];
  st.global.u32 [%rd2], %r3;
over:
  ret;)",
                     ".param .u64 in, .param .u64 out");
}

} // namespace

TEST_CASE("explore: every point once, then pairs, neighbours first", "[virtual]") {
  std::set<std::vector<uint64_t>> seen;
  for (uint64_t run = 0; run < 1 + 10 + 45; ++run) {
    const auto late = exec::late_points(run, 1000, 10);
    CHECK(seen.insert(late).second);
    CHECK(late.size() == (run == 0 ? 0u : run <= 10 ? 1u : 2u));
    for (uint64_t p : late) CHECK(p < 10);
  }
  CHECK(exec::late_points(11, 1000, 10) == std::vector<uint64_t>{0, 1});
  CHECK(exec::late_points(56, 1000, 10).empty());
  // Fewer runs than points are spread over them.
  CHECK(exec::late_points(1, 5, 100) == std::vector<uint64_t>{0});
  CHECK(exec::late_points(4, 5, 100) == std::vector<uint64_t>{75});
}

TEST_CASE("explore: texts of schedules", "[virtual]") {
  std::string error;
  for (const char* good :
       {"explore:1", "explore:500", "explore:@", "explore:@3", "explore:@3,17"}) {
    INFO(good);
    CHECK(exec::make_policy(good, 0, &error) != nullptr);
    CHECK(warpline::cli::check_schedule(good).empty());
  }
  for (const char* bad : {"explore:", "explore:0", "explore:x", "explore:@x", "explore:@1,",
                          "explore:-1", "explorer:1", "explore:@1,,2"}) {
    INFO(bad);
    CHECK(exec::make_policy(bad, 0, &error) == nullptr);
    CHECK_FALSE(warpline::cli::check_schedule(bad).empty());
  }
  CHECK(warpline::cli::check_schedule("starve:3").empty());
  CHECK_FALSE(warpline::cli::check_schedule("starve:").empty());
}

TEST_CASE("hold: an operation that stays behind", "[virtual]") {
  // Some seeds hold the second load: a read of it behind a wait for the first finds it in flight.
  int found = 0, second = 0;
  for (int seed = 1; seed <= 32; ++seed) {
    const std::string schedule = "hold:" + std::to_string(seed);
    found += !run(two_loads("bar"), schedule).ok;
    second += !run(two_loads("bar + 8"), schedule).ok;
    CHECK(run(two_loads("bar"), schedule).text == run(two_loads("bar"), schedule).text);
  }
  CHECK(found > 0);
  CHECK(second == 0);
  CHECK_FALSE(run(two_loads("bar"), "hold:").ok);
}

TEST_CASE("reverse: the newest operation first", "[virtual]") {
  // The second load is there before the first: a wait for the first is no luck then.
  CHECK(run(two_loads("bar"), "reverse").ok);
  CHECK_FALSE(run(two_loads("bar"), "lazy").ok);
}

TEST_CASE("explore: an operation that is late", "[virtual]") {
  CHECK(run(two_loads("bar"), "eager").ok); // by luck
  CHECK(run(two_loads("bar"), "explore:@").ok);
  const RunResult r = run(two_loads("bar"), "explore:100");
  INFO(r.text);
  REQUIRE_FALSE(r.ok);
  const std::string replay = replay_of(r.text);
  INFO(replay);
  const RunResult again = run(two_loads("bar"), replay);
  CHECK(again.text == r.text);
  CHECK(run(two_loads("bar + 8"), "explore:100", check::kAll).ok);
}

TEST_CASE("explore: a warp that is preempted after what others see", "[virtual]") {
  for (const char* schedule : {"eager", "lazy", "explore:@"})
    CHECK(run(handed_over(false), schedule).ok);
  std::vector<uint32_t> first, explored;
  CHECK(run(handed_over(false), "explore:@", 0, &first).ok);
  RunResult r = run(handed_over(false), "explore:50", 0, &explored);
  INFO(r.text);
  REQUIRE(r.ok);
  CHECK(first == explored); // memory is the first run's
  REQUIRE(r.stats.advice().size() >= 1);
  const std::string replay = replay_of(*r.stats.advice().begin());
  INFO(*r.stats.advice().begin());
  std::vector<uint32_t> other;
  CHECK(run(handed_over(false), replay, 0, &other).ok);
  CHECK(first[0] == 7);
  CHECK(other[0] == 0);
  r = run(handed_over(true), "explore:50");
  CHECK(r.ok);
  CHECK(r.stats.advice().empty());
}
