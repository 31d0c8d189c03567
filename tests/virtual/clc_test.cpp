// clusterlaunchcontrol on the virtual GPU: every cluster's work is done exactly once, whoever does
// it; what the ISA leaves undefined is a fault.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include <string>
#include <vector>

namespace {

using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::schedules;
using wltest::Vgpu;

// One thread a CTA. It counts its CTA in out[ctaid], then those of clusters that it cancels.
// `cast`: ".multicast::cluster::all" or nothing; only rank 0 asks then.
std::string walker(const std::string& cast, const std::string& after = "") {
  const bool all = !cast.empty();
  return module_text(R"(
  .shared .align 16 .b128 response;
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd0, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, 0;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive;
  barrier.cluster.wait;
work:
  mul.wide.u32 %rd1, %r1, 4;
  add.u64 %rd1, %rd0, %rd1;
  red.global.add.u32 [%rd1], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
  setp.eq.u32 %p1, %r2, 0;
  )" + std::string(all ? "@%p1 " : "") +
                         "clusterlaunchcontrol.try_cancel.async.shared::cta"
                         ".mbarrier::complete_tx::bytes" +
                         cast + R"(.b128 [response], [bar];
again:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], %r3;
  @!%p2 bra again;
  xor.b32 %r3, %r3, 1;
  ld.shared.b128 %q0, [response];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
  @!%p3 bra done;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r4, %r5, %r6, _}, %q0;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r7, %q0;
  sub.u32 %r7, %r7, %r4;
  add.u32 %r5, %r5, %r6;
  add.u32 %r5, %r5, %r7;
  add.u32 %r1, %r4, %r2;
  add.u32 %r1, %r1, %r5;
  fence.proxy.async.shared::cta;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  bra work;
done:
  )" + after + R"(
  ret;)",
                     ".param .u64 out", "sm_100a");
}

RunResult run(const std::string& text, const Launch& launch, std::vector<uint32_t>* counts) {
  Vgpu gpu;
  const std::vector<uint32_t> zeros(launch.grid.x, 0);
  const uint64_t out = gpu.upload(zeros);
  RunResult r = gpu.run(text, Params().u64(out), launch);
  if (r.ok) *counts = gpu.download<uint32_t>(out, launch.grid.x);
  return r;
}

} // namespace

TEST_CASE("launch control: every cluster's work is done once", "[virtual]") {
  for (uint32_t cluster : {1u, 2u, 4u})
    for (unsigned threads : {1u, 4u})
      for (const std::string& schedule : schedules()) {
        INFO("cluster " << cluster << ", host threads " << threads << ", schedule " << schedule);
        Launch launch;
        launch.block = {1};
        launch.grid = {24};
        launch.cluster = {cluster};
        launch.schedule = schedule;
        launch.host_threads = threads;
        std::vector<uint32_t> counts;
        const RunResult r =
            run(walker(cluster > 1 ? ".multicast::cluster::all" : ""), launch, &counts);
        INFO(r.text);
        REQUIRE(r.ok);
        CHECK(counts == std::vector<uint32_t>(24, 1));
      }
}

TEST_CASE("launch control: a request after one that was seen to fail is a fault", "[virtual]") {
  Launch launch;
  launch.block = {1};
  launch.grid = {3};
  std::vector<uint32_t> counts;
  RunResult r = run(walker("", "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::"
                               "complete_tx::bytes.b128 [response], [bar];"),
                    launch, &counts);
  CHECK(r.faulted("launch control", "has seen a request fail"));
  r = run(walker("", "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r9, %q0;"),
          launch, &counts);
  CHECK(r.faulted("launch control", "no cluster was cancelled"));
}
