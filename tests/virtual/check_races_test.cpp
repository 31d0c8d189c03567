// The race checker: alone, with events made by hand, and under kernels. For each rule of
// tools/vgpu/check/RULES.md a case that must fire and one that must stay silent.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/check/races.hpp"

#include <memory>
#include <string>
#include <vector>

using namespace wltest;
using namespace vgpu;

namespace {

struct Notes : check::Sink {
  std::vector<check::Finding> all;
  void found(const check::Finding& f) override { all.push_back(f); }
  size_t errors() const {
    size_t n = 0;
    for (const auto& f : all) n += !f.advice;
    return n;
  }
};

struct Bench {
  Notes notes;
  check::Races races{check::RaceLimits{2, 4}, notes};
  static check::Who lane(uint32_t warp, uint32_t l = 0, uint64_t op = 0, uint32_t cta = 0) {
    return check::Who{cta, warp, 1u << l, 0, op};
  }
  static check::Who warp(uint32_t w) { return check::Who{0, w, ~0u, 0, 0}; }
  static check::Bytes shared(uint64_t lo, uint64_t n, uint32_t cta = 0) {
    return check::Bytes{check::Space::Shared, cta, lo, lo + n, 0, 0};
  }
  static check::Bytes columns(uint64_t lo, uint64_t n) {
    return check::Bytes{check::Space::Tensor, 0, lo, lo + n, 0, 128};
  }
  void access(const check::Who& w, const check::Bytes& b, bool write,
              check::Proxy p = check::Proxy::Generic) {
    races.access(w, b, write, check::Order::Weak, p);
  }
  void barrier(uint32_t id, uint32_t warps = 4) {
    for (uint32_t w = 0; w < warps; ++w) races.named_arrive(warp(w), id);
    races.named_complete(0, id);
    for (uint32_t w = 0; w < warps; ++w) races.named_wait(warp(w), id);
  }
};

// Registers, one mbarrier at %r40 (count 1) and 256 bytes of data at %r41; warp index in %r42, lane
// in %r43. Warp 0 initialises; then all meet.
std::string kernel(const std::string& body, const std::string& params = ".param .u64 out") {
  return module_text(R"(
  .shared .align 1024 .b8 area[8192];
  .shared .align 8 .b64 bar[2];
  mov.u32 %r40, bar;
  mov.u32 %r41, area;
  mov.u32 %r43, %tid.x;
  shr.u32 %r42, %r43, 5;
  and.b32 %r43, %r43, 31;
  setp.ne.u32 %p30, %r42, 0;
  setp.ne.u32 %p31, %r43, 0;
  mov.u32 %r44, %tid.x;
  setp.ne.u32 %p29, %r44, 0;
  @%p29 bra ready;
  mbarrier.init.shared::cta.b64 [%r40], 1;
  mbarrier.init.shared::cta.b64 [%r40 + 8], 1;
  fence.mbarrier_init.release.cluster;
ready:
  bar.sync 0;
)" + body + "\n  ret;\n",
                     params);
}

// Runs under every schedule with the race checker and, with `advice`, its advice.
std::vector<RunResult> run_all(const std::string& text, uint32_t checks = check::kRaces,
                               uint32_t threads = 64) {
  std::vector<RunResult> all;
  for (const std::string& schedule : schedules()) {
    Vgpu gpu("b200");
    uint64_t out = gpu.allocate(4096);
    Launch l;
    l.block = {threads, 1, 1};
    l.schedule = schedule;
    l.checks = checks;
    all.push_back(gpu.run(text, Params().u64(out), l));
  }
  return all;
}

void fires(const std::string& text, const char* part, uint32_t checks = check::kRaces,
           uint32_t threads = 64) {
  size_t i = 0;
  for (const RunResult& r : run_all(text, checks, threads)) {
    INFO("schedule " << schedules()[i++] << "\n" << r.text);
    CHECK(r.faulted("races", part));
  }
}

void silent(const std::string& text, uint32_t checks = check::kRaces | check::kAdvice,
            uint32_t threads = 64) {
  size_t i = 0;
  for (const RunResult& r : run_all(text, checks, threads)) {
    INFO("schedule " << schedules()[i++] << "\n" << r.text);
    CHECK(r.ok);
  }
}

const char* kWrite = "  @!%p30 st.shared.u32 [%r41], %r44;\n";

// Lane 0 of warp 0 stores its bytes (4 x 16) by a bulk copy to `out`.
const char* kBulkStore = R"(
  @%p29 bra skip;
  ld.param.u64 %rd1, [out];
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r41], 64;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
skip:
)";

} // namespace

TEST_CASE("races alone: barriers and lanes", "[virtual]") {
  Bench b;
  b.access(b.lane(0), b.shared(1024, 4), true);
  SECTION("another warp without a barrier") {
    b.access(b.lane(1), b.shared(1026, 1), false);
    REQUIRE(b.notes.errors() == 1);
    CHECK(b.notes.all[0].rule == "order");
    CHECK(b.notes.all[0].sites.size() == 2);
  }
  SECTION("with a barrier") {
    b.barrier(1);
    b.access(b.lane(1), b.shared(1026, 1), false);
    CHECK(b.notes.errors() == 0);
    b.access(b.lane(2), b.shared(1026, 1), true);
    CHECK(b.notes.errors() == 1);
  }
  SECTION("the bytes beside it") {
    b.access(b.lane(1), b.shared(1028, 4), true);
    CHECK(b.notes.errors() == 0);
  }
  SECTION("the same offset of another CTA") {
    b.access(b.lane(1, 0, 0, 1), b.shared(1024, 4, 1), true);
    CHECK(b.notes.errors() == 0);
  }
  SECTION("another lane, before and after bar.warp.sync") {
    b.races.warp_sync(b.warp(0));
    b.access(b.lane(0, 3), b.shared(1024, 4), true);
    CHECK(b.notes.errors() == 0);
    b.access(b.lane(0, 4), b.shared(1024, 4), false);
    CHECK(b.notes.errors() == 1);
  }
  SECTION("a barrier that the writer reached before it wrote again") {
    b.races.named_arrive(b.warp(0), 2);
    b.access(b.lane(0), b.shared(1024, 4), true);
    b.races.named_arrive(b.warp(1), 2);
    b.races.named_complete(0, 2);
    b.races.named_wait(b.warp(1), 2);
    b.access(b.lane(1), b.shared(1024, 4), false);
    CHECK(b.notes.errors() == 1);
  }
}

TEST_CASE("races alone: a shuffle between lanes", "[virtual]") {
  enum class After { Nothing, Exchange, Sync };
  auto read_by = [](uint32_t reader, After after, uint32_t writer = 1) {
    auto b = std::make_unique<Bench>();
    b->access(Bench::lane(writer), Bench::shared(0, 4), true);
    // Lane 3 of warp 0 learns of it.
    b->races.named_arrive(Bench::lane(writer), 1);
    b->races.named_complete(0, 1);
    b->races.named_wait(Bench::lane(0, 3), 1);
    if (after == After::Exchange) b->races.warp_exchange(check::Who{0, 0, 0xFFFF, 0, 0});
    if (after == After::Sync) b->races.warp_sync(Bench::warp(0));
    b->access(Bench::lane(0, reader), Bench::shared(0, 4), false);
    return b;
  };
  for (const After after : {After::Nothing, After::Exchange, After::Sync})
    CHECK(read_by(3, after)->notes.all.empty());
  CHECK(read_by(5, After::Nothing)->notes.errors() == 1);
  CHECK(read_by(5, After::Sync)->notes.all.empty());
  auto advised = read_by(5, After::Exchange);
  REQUIRE(advised->notes.all.size() == 1);
  CHECK(advised->notes.all[0].rule == "exchange");
  CHECK(advised->notes.errors() == 0);
  // A lane that was not there; what happened after the exchange; lanes of the same warp.
  CHECK(read_by(20, After::Exchange)->notes.errors() == 1);
  Bench late;
  late.races.warp_exchange(Bench::warp(0));
  late.access(Bench::lane(1), Bench::shared(0, 4), true);
  late.races.named_arrive(Bench::lane(1), 1);
  late.races.named_complete(0, 1);
  late.races.named_wait(Bench::lane(0, 3), 1);
  late.access(Bench::lane(0, 5), Bench::shared(0, 4), false);
  CHECK(late.notes.errors() == 1);
  Bench same;
  same.access(Bench::lane(0, 1), Bench::shared(0, 4), true);
  same.races.warp_exchange(Bench::warp(0));
  same.access(Bench::lane(0, 5), Bench::shared(0, 4), false);
  CHECK(same.notes.errors() == 0);
  CHECK(same.notes.all.size() == 1);
  same.access(Bench::lane(0, 5), Bench::shared(0, 4), true);
  same.access(Bench::lane(0, 6), Bench::shared(0, 4), false);
  CHECK(same.notes.errors() == 1);
}

TEST_CASE("races alone: phases of an mbarrier", "[virtual]") {
  Bench b;
  b.races.mbarrier_init(b.lane(0), 0, 2048, 1);
  b.barrier(0);
  b.access(b.lane(0), b.shared(1024, 16), true);
  b.races.mbarrier_arrive(b.lane(0), 0, 2048, 1, true);
  b.races.mbarrier_phase(0, 2048);
  SECTION("an acquiring wait") {
    b.races.mbarrier_wait(b.lane(1), 0, 2048, 0, true);
    b.access(b.lane(1), b.shared(1024, 16), false);
    CHECK(b.notes.errors() == 0);
  }
  SECTION("a relaxed wait") {
    b.races.mbarrier_wait(b.lane(1), 0, 2048, 0, false);
    b.access(b.lane(1), b.shared(1024, 16), false);
    CHECK(b.notes.errors() == 1);
  }
  SECTION("what came after the arrival") {
    b.access(b.lane(0), b.shared(1024, 16), true);
    b.races.mbarrier_wait(b.lane(1), 0, 2048, 0, true);
    b.access(b.lane(1), b.shared(1024, 16), false);
    CHECK(b.notes.errors() == 1);
  }
  SECTION("the next phase's arrival is not seen by a wait for this one") {
    b.access(b.lane(2), b.shared(4096, 16), true);
    b.races.mbarrier_arrive(b.lane(2), 0, 2048, 1, true);
    b.races.mbarrier_wait(b.lane(1), 0, 2048, 0, true);
    b.access(b.lane(1), b.shared(4096, 16), false);
    CHECK(b.notes.errors() == 1);
  }
}

TEST_CASE("races alone: a barrier used before its initialisation is known", "[virtual]") {
  Bench b;
  b.races.mbarrier_init(b.lane(0), 0, 2048, 1);
  SECTION("no barrier") {
    b.races.mbarrier_arrive(b.lane(1), 0, 2048, 1, true);
    REQUIRE(b.notes.errors() == 1);
    CHECK(b.notes.all[0].rule == "init");
  }
  SECTION("fence.mbarrier_init and a relaxed cluster barrier") {
    b.races.fence(b.lane(0), check::Fence::MbarrierInit, check::Scope::Gpu);
    b.races.cluster_arrive(b.warp(0), false);
    b.races.cluster_arrive(b.warp(1), false);
    b.races.cluster_complete();
    b.races.cluster_wait(b.warp(1), true);
    b.races.mbarrier_arrive(b.lane(1), 0, 2048, 1, true);
    CHECK(b.notes.all.empty());
  }
  SECTION("no fence before a load completes on it: advice") {
    b.races.issue(b.lane(0, 0, 7), check::OpKind::Load);
    b.races.mbarrier_bytes(b.lane(0, 0, 7), 0, 2048, 16);
    REQUIRE(b.notes.all.size() == 1);
    CHECK(b.notes.all[0].advice);
    CHECK(b.notes.all[0].rule == "init-fence");
  }
}

TEST_CASE("races alone: loads complete on an mbarrier", "[virtual]") {
  Bench b;
  b.races.mbarrier_init(b.lane(0), 0, 2048, 1);
  b.races.fence(b.lane(0), check::Fence::MbarrierInit, check::Scope::Gpu);
  b.barrier(0);
  check::Who op = b.lane(0, 0, 5);
  b.races.issue(op, check::OpKind::Load);
  b.access(op, b.shared(1024, 128), true, check::Proxy::Async);
  b.races.mbarrier_bytes(op, 0, 2048, 128);
  b.races.mbarrier_phase(0, 2048);
  b.races.finished(op);
  SECTION("seen") {
    b.races.mbarrier_wait(b.lane(1), 0, 2048, 0, true);
    b.access(b.lane(1), b.shared(1024, 4), false);
    CHECK(b.notes.all.empty());
  }
  SECTION("not waited for, even by the thread that issued it") {
    b.access(b.lane(0), b.shared(1024, 4), false);
    CHECK(b.notes.errors() == 1);
  }
}

TEST_CASE("races alone: the tensor core's own order", "[virtual]") {
  Bench b;
  auto op = [&](uint64_t id, check::OpKind k, const check::Bytes& bytes, bool write,
                uint32_t warp = 0) {
    check::Who w = b.lane(warp, 0, id);
    b.races.issue(w, k);
    b.access(w, bytes, write, check::Proxy::Tensor);
    b.races.finished(w);
  };
  SECTION("copy, then MMA that reads it, then MMA on the same accumulator") {
    op(1, check::OpKind::TensorCopy, b.columns(64, 4), true);
    op(2, check::OpKind::Mma, b.columns(64, 4), false);
    op(3, check::OpKind::Mma, b.columns(0, 64), true);
    op(4, check::OpKind::Mma, b.columns(0, 64), true);
    CHECK(b.notes.errors() == 0);
  }
  SECTION("a copy over columns that an MMA reads") {
    op(1, check::OpKind::Mma, b.columns(64, 4), false);
    op(2, check::OpKind::TensorCopy, b.columns(64, 4), true);
    CHECK(b.notes.errors() != 0);
  }
  SECTION("a load of the accumulator without and with commit") {
    op(1, check::OpKind::Mma, b.columns(0, 64), true);
    b.races.mbarrier_init(b.lane(0), 0, 2048, 1);
    b.races.fence(b.lane(0), check::Fence::MbarrierInit, check::Scope::Gpu);
    b.barrier(0);
    check::Who commit = b.lane(0, 0, 2);
    b.races.issue(commit, check::OpKind::Commit);
    b.races.mbarrier_arrive(commit, 0, 2048, 1, true);
    b.races.mbarrier_phase(0, 2048);
    check::Who load = b.warp(1);
    load.op = 3;
    SECTION("without the wait") {
      b.races.issue(load, check::OpKind::TensorLoad);
      b.access(load, b.columns(0, 16), false, check::Proxy::Tensor);
      CHECK(b.notes.errors() != 0);
    }
    SECTION("with it, and without the fence: advice") {
      b.races.mbarrier_wait(b.warp(1), 0, 2048, 0, true);
      b.races.issue(load, check::OpKind::TensorLoad);
      b.access(load, b.columns(0, 16), false, check::Proxy::Tensor);
      REQUIRE(b.notes.all.size() == 1);
      CHECK(b.notes.all[0].rule == "tcgen05-fence");
      CHECK(b.notes.all[0].advice);
    }
    SECTION("with both") {
      b.races.mbarrier_wait(b.warp(1), 0, 2048, 0, true);
      b.races.fence(b.warp(1), check::Fence::TensorAfter, check::Scope::Gpu);
      b.races.issue(load, check::OpKind::TensorLoad);
      b.access(load, b.columns(0, 16), false, check::Proxy::Tensor);
      CHECK(b.notes.all.empty());
      // The next MMA into it: only after wait::ld and an arrival that somebody waits for.
      op(4, check::OpKind::Mma, b.columns(0, 64), true);
      CHECK(b.notes.errors() != 0);
    }
  }
}

TEST_CASE("races: warps that share bytes of shared memory", "[virtual]") {
  fires(kernel(std::string(kWrite) + "  @%p30 ld.shared.u32 %r1, [%r41];"), "bar");
  silent(kernel("  @!%p29 st.shared.u32 [%r41], %r44;\n  bar.sync 0;\n"
                "  ld.shared.u32 %r1, [%r41];"));
}

TEST_CASE("races: warps that store the same", "[virtual]") {
  // Each warp stores to one place: the same value, by one lane or by all, or its own.
  const auto store = [](const char* value, const char* guard) {
    return kernel(std::string("  mov.u32 %r45, 7;\n  mov.u32 %r46, %tid.y;\n") + guard +
                  " st.shared.v2.u32 [%r41 + 64], {%r46, " + value + "};\n");
  };
  for (const char* guard : {"  @!%p31", "  "}) {
    fires(store("%r45", guard), "same-store"); // advice to others: rules_test.cpp
    fires(store("%r44", guard), "order");
  }
  // Another store of that value could have been of another one.
  fires(kernel("  mov.u32 %r45, 7;\n  @!%p30 st.shared.u32 [%r41 + 64], %r45;\n"
               "  @%p30 st.shared.u32 [%r41 + 64], %r45;\n"),
        "order");
}

TEST_CASE("races: lanes of a warp", "[virtual]") {
  const std::string head = "  shl.b32 %r1, %r43, 2;\n  add.u32 %r1, %r1, %r41;\n"
                           "  xor.b32 %r2, %r1, 4;\n  st.shared.u32 [%r1], %r43;\n";
  fires(kernel(head + "  ld.shared.u32 %r3, [%r2];"), "bar.warp.sync", check::kRaces, 32);
  silent(kernel(head + "  bar.warp.sync 0xffffffff;\n  ld.shared.u32 %r3, [%r2];"), check::kRaces,
         32);
  // Halves of the warp with masks of their own: their lanes are ordered, those of both are not.
  const std::string halves = "  and.b32 %r4, %r43, 16;\n  shl.b32 %r4, 0xffff, %r4;\n"
                             "  setp.lt.u32 %p1, %r43, 3;\n  @%p1 bra low;\n"
                             "  bar.warp.sync %r4;\n  bra read;\nlow:\n  bar.warp.sync %r4;\n"
                             "read:\n";
  silent(kernel(head + halves + "  ld.shared.u32 %r3, [%r2];"), check::kRaces, 32);
  fires(kernel(head + halves + "  xor.b32 %r2, %r1, 64;\n  ld.shared.u32 %r3, [%r2];"),
        "bar.warp.sync", check::kRaces, 32);
}

TEST_CASE("races: an mbarrier orders, a relaxed arrival does not", "[virtual]") {
  auto text = [](const char* arrive, const char* wait) {
    return kernel(std::string("  @%p30 bra consumer;\n  @%p31 bra done;\n"
                              "  st.shared.u32 [%r41], %r44;\n  ") +
                  arrive + " _, [%r40];\n  bra done;\nconsumer:\n  mov.u32 %r1, 0;\nagain:\n  " +
                  wait +
                  " %p1, [%r40], %r1;\n  @!%p1 bra again;\n"
                  "  ld.shared.u32 %r2, [%r41];\ndone:");
  };
  silent(text("mbarrier.arrive.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"));
  fires(text("mbarrier.arrive.relaxed.cta.shared::cta.b64",
             "mbarrier.try_wait.parity.shared::cta.b64"),
        "not ordered");
  fires(text("mbarrier.arrive.shared::cta.b64",
             "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"),
        "not ordered");
}

TEST_CASE("races: bytes that threads wrote need a proxy fence before a bulk copy reads them",
          "[virtual]") {
  const std::string write = "  shl.b32 %r1, %r43, 2;\n  add.u32 %r1, %r1, %r41;\n"
                            "  @!%p30 st.shared.u32 [%r1], %r43;\n";
  fires(kernel(write + "  bar.sync 0;\n" + kBulkStore), "fence.proxy.async");
  silent(kernel(write + "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n" + kBulkStore));
  // The fence of a thread that knows of the writes will do.
  silent(kernel(write + "  bar.sync 0;\n  fence.proxy.async.shared::cta;\n" + kBulkStore));
  // A fence before the writes does not.
  fires(kernel("  fence.proxy.async.shared::cta;\n" + write + "  bar.sync 0;\n" + kBulkStore),
        "fence.proxy.async");
}

TEST_CASE("races: bulk loads are seen through their mbarrier", "[virtual]") {
  const std::string load = R"(
  @%p29 bra loaded;
  ld.param.u64 %rd1, [out];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r40], 64;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r41], [%rd1], 64, [%r40];
loaded:
)";
  const std::string wait = R"(
  mov.u32 %r1, 0;
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r40], %r1;
  @!%p1 bra again;
)";
  silent(kernel(load + wait + "  ld.shared.u32 %r2, [%r41];"));
  // One warp waits, a barrier tells the others.
  silent(kernel(load + "  @%p30 bra met;" + wait +
                "met:\n  bar.sync 0;\n"
                "  ld.shared.u32 %r2, [%r41];"));
  // Eager completion makes it work by luck; it is a race all the same.
  Vgpu gpu("b200");
  Launch l;
  l.block = {64, 1, 1};
  l.schedule = "eager";
  l.checks = check::kRaces;
  RunResult r = gpu.run(kernel(load + "  bar.sync 0;\n  ld.shared.u32 %r2, [%r41];"),
                        Params().u64(gpu.allocate(4096)), l);
  INFO(r.text);
  CHECK(r.faulted("races", "mbarrier that the load completes on"));
}

TEST_CASE("races: a bulk store's source and destination", "[virtual]") {
  auto text = [](const char* wait) {
    return kernel(std::string("  @%p29 bra done;\n  ld.param.u64 %rd1, [out];\n"
                              "  st.shared.u32 [%r41], 7;\n  fence.proxy.async;\n"
                              "  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r41], 16;\n"
                              "  cp.async.bulk.commit_group;\n  ") +
                  wait + "\n  st.shared.u32 [%r41], 8;\ndone:");
  };
  silent(text("cp.async.bulk.wait_group.read 0;"));
  Vgpu gpu("b200");
  Launch l;
  l.block = {64, 1, 1};
  l.schedule = "eager";
  l.checks = check::kRaces;
  RunResult r = gpu.run(text(""), Params().u64(gpu.allocate(4096)), l);
  INFO(r.text);
  CHECK(r.faulted("races", "wait_group"));
}

TEST_CASE("races: clusters that share global memory", "[virtual]") {
  auto run = [](const std::string& body) {
    Vgpu gpu("b200");
    Launch l;
    l.grid = {4, 1, 1};
    l.checks = check::kRaces;
    return gpu.run(module_text("  ld.param.u64 %rd1, [out];\n  mov.u32 %r1, %ctaid.x;\n"
                               "  mov.u32 %r2, %tid.x;\n  shl.b32 %r3, %r1, 7;\n"
                               "  shl.b32 %r4, %r2, 2;\n  add.u32 %r3, %r3, %r4;\n"
                               "  cvt.u64.u32 %rd2, %r3;\n  cvt.u64.u32 %rd3, %r4;\n"
                               "  add.u64 %rd2, %rd1, %rd2;\n  add.u64 %rd3, %rd1, %rd3;\n" +
                                   body + "\n  ret;",
                               ".param .u64 out"),
                   Params().u64(gpu.allocate(4096)), l);
  };
  RunResult r = run("  st.global.u32 [%rd2], %r1;\n  ld.global.u32 %r5, [%rd2];");
  INFO(r.text);
  CHECK(r.ok);
  r = run("  ld.global.u32 %r5, [%rd3];"); // all read the same
  CHECK(r.ok);
  r = run("  st.global.u32 [%rd3], %r1;"); // all write the same
  INFO(r.text);
  CHECK(r.faulted("races", "grid"));
  r = run("  st.global.u32 [%rd2], %r1;\n  ld.global.u32 %r5, [%rd3];");
  INFO(r.text);
  CHECK(r.faulted("races", "grid"));
  r = run("  red.global.add.u32 [%rd3], 1;"); // atomics do not conflict
  CHECK(r.ok);
}

TEST_CASE("races: flags in global memory", "[virtual]") {
  auto text = [](const char* store, const char* load) {
    return kernel(std::string("  ld.param.u64 %rd1, [out];\n  @!%p29 st.global.u32 [%rd1], 0;\n"
                              "  bar.sync 0;\n  @%p30 bra consumer;\n  @%p31 bra done;\n"
                              "  st.shared.u32 [%r41], 5;\n  ") +
                  store + " [%rd1], 1;\n  bra done;\nconsumer:\nagain:\n  " + load +
                  " %r2, [%rd1];\n  setp.ne.u32 %p1, %r2, 1;\n  @%p1 bra again;\n"
                  "  ld.shared.u32 %r3, [%r41];\ndone:");
  };
  silent(text("st.release.cta.global.u32", "ld.acquire.cta.global.u32"));
  silent(text("fence.acq_rel.cta;\n  st.relaxed.cta.global.u32", "ld.acquire.cta.global.u32"));
  fires(text("st.relaxed.cta.global.u32", "ld.acquire.cta.global.u32"), "not ordered");
  fires(text("st.global.u32", "ld.global.u32"), "not ordered");
}
