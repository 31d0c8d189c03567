#include "tools/vgpu/check/traits.hpp"

#include <algorithm>
#include <string_view>

namespace vgpu::check {

namespace {

Scope scope_of(const std::vector<std::string>& opcode, Scope otherwise) {
  for (const std::string& token : opcode) {
    if (token == "cta") return Scope::Cta;
    if (token == "cluster") return Scope::Cluster;
    if (token == "gpu" || token == "gl") return Scope::Gpu;
    if (token == "sys") return Scope::Sys;
  }
  return otherwise;
}

} // namespace

Traits traits_of(const exec::Inst& inst) {
  Traits t;
  if (!inst.text || inst.text->opcode.empty()) return t;
  const std::vector<std::string>& op = inst.text->opcode;
  auto has = [&](std::string_view token) {
    return std::find(op.begin(), op.end(), token) != op.end();
  };
  const std::string& first = op[0];
  t.relaxed = has("relaxed");
  if (first == "ld" || first == "st" || first == "atom" || first == "red") {
    bool rmw = first == "atom" || first == "red";
    t.strength.order = has("acq_rel")                                            ? Order::AcqRel
                       : has("acquire")                                          ? Order::Acquire
                       : has("release")                                          ? Order::Release
                       : rmw || has("relaxed") || has("volatile") || has("mmio") ? Order::Relaxed
                                                                                 : Order::Weak;
    t.strength.atomic = rmw;
    t.strength.scope = scope_of(op, has("volatile") ? Scope::Sys : Scope::Gpu);
    t.shared_only = has("shared") || has("shared::cta") || has("shared::cluster") ||
                    (has("async") && !has("global"));
  } else if (first == "fence" || first == "membar") {
    t.event = Event::Fence;
    t.strength.scope = scope_of(op, Scope::Gpu);
    const bool plain = !has("proxy") && !has("mbarrier_init");
    if (plain && has("acquire")) t.fence = Fence::Acquire;
    if (plain && has("release")) t.fence = Fence::Release;
    if (has("mbarrier_init"))
      t.fence = Fence::MbarrierInit;
    else if (has("proxy") && (has("async") || has("async::generic")))
      t.fence = has("global") ? Fence::ProxyGlobal
                : has("shared::cta") || has("shared::cluster") || has("async::generic")
                    ? Fence::ProxyShared
                    : Fence::ProxyAll;
    else if (has("tensormap::generic") && has("acquire"))
      t.event = Event::MapAcquire;
    else if (has("tensormap::generic"))
      t.fence = Fence::MapRelease;
    else if (has("proxy"))
      t.event = Event::None;
  } else if (first == "tcgen05") {
    const std::string& what = op.size() > 1 ? op[1] : first;
    if (what == "fence::before_thread_sync" || what == "fence::after_thread_sync") {
      t.event = Event::Fence;
      t.fence = what[7] == 'b' ? Fence::TensorBefore : Fence::TensorAfter;
    }
    if (what == "wait::ld") t.event = Event::TensorWaitLoad;
    if (what == "wait::st") t.event = Event::TensorWaitStore;
    if (what == "mma") t.op = OpKind::Mma;
    if (what == "cp") t.op = OpKind::TensorCopy;
    if (what == "shift") t.op = OpKind::TensorShift;
    if (what == "commit") t.op = OpKind::Commit;
    if (what == "ld") t.op = OpKind::TensorLoad;
    if (what == "st") t.op = OpKind::TensorStore;
  } else if (first == "cp") {
    bool bulk = has("bulk");
    if (has("commit_group"))
      t.event = bulk ? Event::BulkCommit : Event::CpCommit;
    else if (has("wait_group"))
      t.event = !bulk ? Event::CpWait : has("read") ? Event::BulkWaitRead : Event::BulkWait;
    else if (has("wait_all"))
      t.event = Event::CpWaitAll;
    else if (bulk)
      t.op = OpKind::Store;
    else
      t.op = has("mbarrier") ? OpKind::CpArrive : OpKind::CpAsync;
  } else if (first == "wgmma") {
    if (has("mma_async")) t.event = Event::WgmmaOp, t.op = OpKind::Wgmma;
    if (has("commit_group")) t.event = Event::WgmmaCommit;
    if (has("wait_group")) t.event = Event::WgmmaWait;
  } else if (first == "bar" || first == "barrier") {
    if (has("warp")) return t;
    if (has("cluster"))
      t.event = has("arrive") ? Event::ClusterArrive : Event::ClusterWait;
    else
      t.event = has("arrive") ? Event::NamedArrive : Event::NamedSync;
    t.id_operand = static_cast<uint8_t>(inst.n_dst);
  }
  if (has("sync") && (first == "shfl" || first == "vote" || first == "match" || first == "redux"))
    t.event = Event::Exchange;
  if (first == "griddepcontrol") t.event = has("wait") ? Event::GridWait : Event::GridSignal;
  if (first == "tensormap" && has("cp_fenceproxy")) {
    t.event = Event::Fence;
    t.fence = Fence::MapRelease;
    t.strength.scope = scope_of(op, Scope::Gpu);
  }
  t.cluster_order = first == "mbarrier" && has("cluster") && (has("release") || has("acquire"));
  t.uses_map = first == "cp" && has("tensor");
  // Copies, st.async, red.async, clusterlaunchcontrol: shared memory is written later, and the
  // write pays an mbarrier.
  if (has("mbarrier::complete_tx::bytes"))
    t.op = first == "clusterlaunchcontrol" ? OpKind::LaunchControl : OpKind::Load;
  return t;
}

bool talks_between_clusters(const exec::Program& program) {
  return std::any_of(program.code.begin(), program.code.end(), [](const exec::Inst& inst) {
    const Traits t = traits_of(inst);
    return t.strength.order != Order::Weak && !t.shared_only;
  });
}

} // namespace vgpu::check
