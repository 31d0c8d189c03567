// Definedness, the ledger of mbarriers, options, and the deadlock's picture.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tools/vgpu/check/barriers.hpp"
#include "tools/vgpu/check/options.hpp"

#include <string>
#include <vector>

using namespace wltest;
using namespace vgpu;

namespace {

struct Notes : check::Sink {
  std::vector<check::Finding> all;
  void found(const check::Finding& f) override { all.push_back(f); }
};

RunResult run(const std::string& body, uint32_t checks, const std::string& schedule = "lazy",
              const std::string& head = "") {
  Vgpu gpu("b200");
  Launch l;
  l.block = {32, 1, 1};
  l.checks = checks;
  l.schedule = schedule;
  return gpu.run(
      module_text(head + "  ld.param.u64 %rd1, [out];\n" + body + "\n  ret;\n", ".param .u64 out"),
      Params().u64(gpu.allocate(4096)), l);
}

void undefined(const std::string& body, const char* rule, const std::string& head = "") {
  RunResult r = run(body, check::kDefinedness, "lazy", head);
  INFO(body << "\n" << r.text);
  CHECK(r.faulted("definedness", rule));
  // The executor alone says nothing.
  CHECK_FALSE(run(body, 0, "lazy", head).faulted("definedness"));
}

void defined(const std::string& body, const std::string& head = "") {
  RunResult r = run(body, check::kDefinedness, "lazy", head);
  INFO(body << "\n" << r.text);
  CHECK(r.ok);
}

const std::string kArea = "  .shared .align 128 .b8 area[1024];\n  mov.u32 %r40, area;\n";
const std::string kBarrier = "  .shared .align 8 .b64 bar;\n  mov.u32 %r41, bar;\n"
                             "  mov.u32 %r42, %tid.x;\n  setp.ne.u32 %p9, %r42, 0;\n";

} // namespace

TEST_CASE("definedness: undefined values", "[virtual]") {
  undefined("  st.global.u32 [%rd1], %r1;", "output");
  undefined("  add.u32 %r2, %r1, 1;\n  st.global.u32 [%rd1], %r2;", "output");
  undefined("  cvt.u64.u32 %rd2, %r1;\n  add.u64 %rd2, %rd2, %rd1;\n  ld.global.u32 %r2, [%rd2];",
            "operand");
  undefined("  @%p1 st.global.u32 [%rd1], 1;\n  @!%p1 st.global.u32 [%rd1], 2;", "predicate");
  undefined("  ld.shared.u32 %r1, [%r40];\n  st.global.u32 [%rd1], %r1;", "output", kArea);
  // Written in half of the lanes only.
  undefined("  mov.u32 %r2, %tid.x;\n  setp.lt.u32 %p1, %r2, 16;\n  @%p1 mov.u32 %r1, 5;\n"
            "  st.global.u32 [%rd1], %r1;",
            "output");
  undefined("  mov.u32 %r2, %tid.x;\n  setp.ne.u32 %p1, %r2, 0;\n  @%p1 bra done;\n"
            "  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r40], 16;\n"
            "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\ndone:",
            "source", kArea);
}

TEST_CASE("definedness: defined values", "[virtual]") {
  defined("  mov.u32 %r1, 3;\n  st.global.u32 [%rd1], %r1;");
  // An undefined value that goes nowhere.
  defined("  add.u32 %r2, %r1, 1;\n  mov.u32 %r2, 4;\n  st.global.u32 [%rd1], %r2;");
  defined("  xor.b32 %r1, %r1, %r1;\n  st.global.u32 [%rd1], %r1;");
  defined("  mov.u32 %r1, 3;\n  st.shared.u32 [%r40], %r1;\n  ld.shared.u32 %r2, [%r40];\n"
          "  st.global.u32 [%rd1], %r2;",
          kArea);
  // Undefined bytes may be copied through shared memory.
  defined("  st.shared.u32 [%r40], %r1;\n  ld.shared.u32 %r2, [%r40];", kArea);
  defined("  mov.u32 %r2, %tid.x;\n  setp.lt.u32 %p1, %r2, 16;\n  @%p1 mov.u32 %r1, 5;\n"
          "  @!%p1 mov.u32 %r1, 6;\n  st.global.u32 [%rd1], %r1;");
}

TEST_CASE("definedness: metadata of mma.sp counts in the lanes that are asked", "[virtual]") {
  // %r3 is defined in the first of every four lanes; it holds codes in all of them.
  const std::string metadata = R"(
  mov.u32 %r1, %tid.x;
  and.b32 %r1, %r1, 3;
  setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r10, 0;
  @%p1 mov.u32 %r2, 0;
  and.b32 %r3, %r2, 0;
  or.b32 %r3, %r3, 0x44444444;
  mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r4,%r5,%r6,%r7}, {%r10,%r10}, {%r10,%r10},
    {%r10,%r10,%r10,%r10}, %r3, )";
  const std::string store = ";\n  st.global.u32 [%rd1], %r4;";
  defined(metadata + "0" + store);
  undefined(metadata + "1" + store, "output");
}

TEST_CASE("barriers: the ledger of an mbarrier", "[virtual]") {
  Notes notes;
  check::Barriers b(check::BarrierShape{1, 2}, notes);
  check::Who lane{0, 0, 1, 0, 0};
  b.mbarrier_init(lane, 0, 2048, 1);
  b.mbarrier_expect(lane, 0, 2048, 64);
  b.mbarrier_arrive(lane, 0, 2048, 1, true);
  SECTION("bytes that nobody paid") {
    b.mbarrier_bytes(lane, 0, 2048, 48);
    b.cta_exit(0);
    REQUIRE(notes.all.size() == 1);
    CHECK(notes.all[0].rule == "exit-bytes");
    b.mbarrier_inval(lane, 0, 2048);
    REQUIRE(notes.all.size() == 2);
    CHECK_FALSE(notes.all[1].advice);
  }
  SECTION("paid") {
    b.mbarrier_bytes(lane, 0, 2048, 64);
    b.mbarrier_phase(0, 2048);
    b.cta_exit(0);
    b.mbarrier_inval(lane, 0, 2048);
    CHECK(notes.all.empty());
  }
  SECTION("phases in order, then one again") {
    b.mbarrier_wait(lane, 0, 2048, 0, true);
    b.mbarrier_wait(lane, 0, 2048, 1, true);
    b.mbarrier_wait(lane, 0, 2048, 3, true); // a role may skip a phase
    CHECK(notes.all.empty());
    b.mbarrier_wait(lane, 0, 2048, 3, true);
    REQUIRE(notes.all.size() == 1);
    CHECK(notes.all[0].rule == "stale-phase");
    CHECK(notes.all[0].advice);
  }
}

TEST_CASE("barriers: an operation of the tensor core behind a wait", "[virtual]") {
  const auto kind = GENERATE(check::OpKind::Mma, check::OpKind::TensorCopy,
                             check::OpKind::TensorShift, check::OpKind::TensorLoad);
  Notes notes;
  check::Barriers b(check::BarrierShape{1, 2}, notes);
  const check::Who lane{0, 1, 1, 0, 0}, other{0, 1, 2, 0, 0}, far{0, 0, 1, 0, 0};
  const bool of_core = kind != check::OpKind::TensorLoad; // the races are about loads
  b.issue(lane, kind);
  CHECK(notes.all.empty());
  b.mbarrier_wait(lane, 0, 2048, 0, true);
  SECTION("without the fence, told once a wait") {
    b.issue(lane, kind);
    b.issue(lane, kind);
    REQUIRE(notes.all.size() == size_t{of_core});
    if (of_core) {
      CHECK(notes.all[0].rule == "tcgen05-wait");
      CHECK(notes.all[0].advice);
    }
  }
  SECTION("with another fence, or that of another lane or warp") {
    b.fence(other, check::Fence::TensorAfter, check::Scope::Cta);
    b.fence(far, check::Fence::TensorAfter, check::Scope::Cta);
    b.fence(lane, check::Fence::TensorBefore, check::Scope::Cta);
    b.issue(lane, kind);
    CHECK(notes.all.size() == size_t{of_core});
  }
  SECTION("with it") {
    b.fence(lane, check::Fence::TensorAfter, check::Scope::Cta);
    b.issue(lane, kind);
    CHECK(notes.all.empty());
  }
  SECTION("of another lane or warp") {
    b.issue(other, kind);
    b.issue(far, kind);
    CHECK(notes.all.empty());
  }
}

TEST_CASE("barriers: advice is collected, or ends the launch", "[virtual]") {
  const std::string body = "  @%p9 bra done;\n  mbarrier.init.shared::cta.b64 [%r41], 1;\n"
                           "  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r41], 16;\ndone:";
  RunResult r = run(body, check::kBarriers, "lazy", kBarrier);
  INFO(r.text);
  CHECK(r.ok);
  REQUIRE(r.stats.advice().size() == 1);
  CHECK(r.stats.advice().begin()->find("exit-bytes") != std::string::npos);
  r = run(body, check::kBarriers | check::kAdvice, "lazy", kBarrier);
  INFO(r.text);
  CHECK(r.faulted("barriers", "exit-bytes"));
}

TEST_CASE("checks: cp.async groups in order stay silent", "[virtual]") {
  for (const std::string& schedule : schedules()) {
    RunResult r = run("  shl.b32 %r1, %r42, 4;\n  cvt.u64.u32 %rd2, %r1;\n  add.u64 %rd2, %rd1, "
                      "%rd2;\n  add.u32 %r2, %r40, %r1;\n"
                      "  cp.async.ca.shared.global [%r2], [%rd2], 16;\n  cp.async.commit_group;\n"
                      "  cp.async.wait_group 0;\n  bar.sync 0;\n  xor.b32 %r3, %r2, 16;\n"
                      "  ld.shared.u32 %r4, [%r3];",
                      check::kAll, schedule, kArea + "  mov.u32 %r42, %tid.x;\n");
    INFO(schedule << "\n" << r.text);
    CHECK(r.ok);
  }
}

TEST_CASE("checks: tcgen05's fences order tensor memory across relaxed arrivals", "[virtual]") {
  // Warp 1 writes columns that warp 0 frees. What orders the two: a relaxed arrival and wait, and a
  // fence on either side.
  auto freed = [](const std::string& before, const std::string& after, const char* schedule) {
    Vgpu gpu("b200");
    Launch l;
    l.block = {64, 1, 1};
    l.checks = check::kRaces;
    l.schedule = schedule;
    return gpu.run(module_text(R"(
  .shared .align 8 .b64 bar;
  .shared .b32 place;
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  setp.ne.u32 %p1, %r1, 0;
  setp.eq.u32 %p2, %r2, 1;
  mov.u32 %r3, place;
  @!%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p2 bra allocated;
  bar.warp.sync 0xffffffff;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
allocated:
  bar.sync 0;
  ld.shared.u32 %r4, [%r3];
  @!%p2 bra frees;
  add.u32 %r5, %r4, 0x200000;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1};
  tcgen05.wait::st.sync.aligned;
)" + before + R"(
  bar.warp.sync 0xffffffff;
  setp.eq.u32 %p3, %r1, 32;
  @%p3 mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [bar];
  ret;
frees:
  mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p3, [bar], 0;
  @!%p3 bra frees;
)" + after + R"(
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
  ret;
)",
                               ".param .u64 out", "sm_100a"),
                   Params().u64(gpu.allocate(64)), l);
  };
  const std::string before = "  tcgen05.fence::before_thread_sync;",
                    after = "  tcgen05.fence::after_thread_sync;";
  for (const char* schedule : {"lazy", "eager", "random:1"}) {
    INFO(schedule);
    const RunResult good = freed(before, after, schedule);
    INFO(good.text);
    CHECK(good.ok);
    CHECK(freed("", after, schedule).faulted("races", "order"));
    CHECK(freed(before, "", schedule).faulted("races", "order"));
  }
}

TEST_CASE("checks: names of the option", "[virtual]") {
  uint32_t checks = 0;
  std::string error;
  CHECK(check::parse_checks("all", checks, &error));
  CHECK(checks == check::kAll);
  CHECK(check::parse_checks("races,advice", checks, &error));
  CHECK(checks == (check::kRaces | check::kAdvice));
  CHECK(check::parse_checks("off", checks, &error));
  CHECK(checks == 0);
  CHECK_FALSE(check::parse_checks("races,", checks, &error));
  CHECK_FALSE(check::parse_checks("race", checks, &error));
  CHECK(error.find("\"race\"") != std::string::npos);
}

TEST_CASE("barriers: an order of the cluster in a loop is advice", "[virtual]") {
  // Three rounds: each CTA arrives at its peer's mbarrier and waits at its own.
  auto rounds =
      [](const std::string& arrive, const std::string& wait, const std::string& count,
         const std::string& work = "", uint32_t checks = check::kBarriers) {
        Vgpu gpu("b200");
        Launch l;
        l.block = {64};
        l.grid = {8};
        l.cluster = {2};
        l.checks = checks;
        return gpu.run(module_text(R"(
  .shared .align 8 .b64 bar;
  .shared .align 8 .b32 room[2];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  xor.b32 %r2, %r2, 1;
  mov.u32 %r3, bar;
  mapa.shared::cluster.u32 %r4, %r3, %r2;
  mov.u32 %r5, room;
  mapa.shared::cluster.u32 %r5, %r5, %r2;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r6, 0;
again:
  )" + work + R"(
  and.b32 %r7, %r6, 1;
  @%p1 mbarrier.arrive)" + arrive + R"(.shared::cluster.b64 _, [%r4];
wait:
  mbarrier.try_wait.parity)" + wait +
                                   R"(.shared::cta.b64 %p2, [bar], %r7;
  @!%p2 bra wait;
  bar.sync 0;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p3, %r6, )" + count +
                                   R"(;
  @%p3 bra again;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
)"),
                       Params(), l);
      };
  const std::string store = "@%p1 st.shared::cluster.u32 [%r5], %r6;";
  auto advice = [](const RunResult& r) {
    INFO(r.text);
    CHECK(r.ok);
    for (const std::string& a : r.stats.advice())
      CHECK_THAT(a, ContainsSubstring("cluster-order") && !ContainsSubstring("CTA ("));
    return r.stats.advice().size();
  };
  // One line an instruction, however many clusters and warps execute it.
  CHECK(advice(rounds(".release.cluster", ".acquire.cluster", "3")) == 2);
  CHECK(advice(rounds(".relaxed.cluster", ".acquire.cluster", "3")) == 1);
  CHECK(advice(rounds("", ".relaxed.cluster", "3")) == 0);
  CHECK(advice(rounds("", "", "3")) == 0);
  CHECK(advice(rounds(".release.cluster", ".acquire.cluster", "1")) == 0);
  CHECK(advice(rounds(".release.cluster", ".acquire.cluster", "3", store)) == 0);
  const RunResult ends =
      rounds(".release.cluster", ".acquire.cluster", "3", "", check::kBarriers | check::kAdvice);
  INFO(ends.text);
  CHECK(ends.faulted("barriers", "cluster-order"));
}
