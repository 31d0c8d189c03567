#include "tools/vgpu/check/hub.hpp"

#include "tools/vgpu/check/barriers.hpp"
#include "tools/vgpu/check/definedness.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/check/races.hpp"
#include "tools/vgpu/trace/write.hpp"

#include <algorithm>
#include <cstdio>

namespace vgpu::check {

using exec::Inst;
using exec::Origin;
using exec::Warp;

namespace {

bool is_collective(OpKind k) {
  return k == OpKind::TensorLoad || k == OpKind::TensorStore || k == OpKind::Wgmma ||
         k == OpKind::CpAsync;
}

std::string hex_text(uint64_t v) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(v));
  return text;
}

} // namespace

Hub::Traits Hub::traits_of(const Inst& inst) {
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
    t.order = has("acq_rel")                                            ? Order::AcqRel
              : has("acquire")                                          ? Order::Acquire
              : has("release")                                          ? Order::Release
              : rmw || has("relaxed") || has("volatile") || has("mmio") ? Order::Relaxed
                                                                        : Order::Weak;
  } else if (first == "fence" || first == "membar") {
    t.event = Event::Fence;
    if (has("mbarrier_init"))
      t.fence = Fence::MbarrierInit;
    else if (has("proxy") && (has("async") || has("async::generic")))
      t.fence = has("global") ? Fence::ProxyGlobal
                : has("shared::cta") || has("shared::cluster") || has("async::generic")
                    ? Fence::ProxyShared
                    : Fence::ProxyAll;
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
    if (has("warp"))
      t.event = Event::WarpSync;
    else if (has("cluster"))
      t.event = has("arrive") ? Event::ClusterArrive : Event::ClusterWait;
    else
      t.event = has("arrive") ? Event::NamedArrive : Event::NamedSync;
    t.id_operand = static_cast<uint8_t>(inst.n_dst);
  }
  // Copies, st.async, red.async, clusterlaunchcontrol: shared memory is written later, and the
  // write pays an mbarrier.
  if (has("mbarrier::complete_tx::bytes")) t.op = OpKind::Load;
  return t;
}

Hub::Hub(exec::Cluster& cluster) : cluster_(cluster) {
  const exec::LaunchSpec& spec = cluster.spec;
  for (const Inst& inst : spec.program->code) traits_.push_back(traits_of(inst));
  uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  uint32_t ctas = spec.cluster[0] * spec.cluster[1] * spec.cluster[2];
  uint32_t warps = (threads + 31) / 32;
  if (spec.checks & kRaces) {
    auto races = std::make_unique<Races>(RaceLimits{ctas, warps}, *this);
    races_ = races.get();
    observers_.push_back(std::move(races));
  }
  if (spec.checks & kBarriers)
    observers_.push_back(std::make_unique<Barriers>(BarrierShape{ctas, warps}, *this));
  if (spec.checks & kDefinedness) definedness_ = std::make_unique<Definedness>(cluster, *this);
  if (cluster.index == 0 && !spec.trace.empty()) {
    auto timeline = trace::make_timeline(cluster);
    timeline_ = timeline.get();
    observers_.push_back(std::move(timeline));
  }
}

// A kernel that fails leaves its timeline up to there.
Hub::~Hub() {
  if (!timeline_) return;
  const std::string wrong = trace::write_timeline(*timeline_, cluster_);
  if (!wrong.empty()) std::fprintf(stderr, "vgpu: %s\n", wrong.c_str());
}

Who Hub::who(const Origin& o) const {
  Who w{o.cta, o.warp, 1u << o.lane, o.inst ? o.inst->pc : 0, 0};
  if (op_) w.op = op_->id;
  return w;
}

Who Hub::who(const Warp& w, const Inst& inst, uint32_t mask) const {
  return Who{w.cta.rank, w.index, mask, inst.pc, 0};
}

// ---- instructions

void Hub::before(Warp& w, const Inst& inst, uint32_t mask, bool resumed) {
  mask_ = mask;
  if (definedness_) definedness_->before(w, inst, mask);
  const Traits& t = traits(inst);
  if (t.event == Event::None || resumed) return;
  Who me = who(w, inst, mask);
  switch (t.event) {
  case Event::NamedSync:
  case Event::NamedArrive: {
    uint32_t id = w.lanes<uint32_t>(inst.op[t.id_operand])[std::countr_zero(mask)];
    each([&](Observer& o) { o.named_arrive(me, id); });
    break;
  }
  case Event::WarpSync:
    each([&](Observer& o) { o.warp_arrive(me); });
    break;
  case Event::ClusterArrive:
    each([&](Observer& o) { o.cluster_arrive(me, !t.relaxed); });
    break;
  case Event::WgmmaOp:
    each([&](Observer& o) { o.wgmma_executed(me); });
    break;
  default:
    break;
  }
}

void Hub::after(Warp& w, const Inst& inst, uint32_t mask, exec::Step step) {
  if (definedness_) definedness_->after(w, inst, mask, step);
  if (timeline_ && step != exec::Step::Block) timeline_->step(w.cta.rank, w.index);
  const Traits& t = traits(inst);
  if (t.event == Event::None || step != exec::Step::Next) return;
  Who me = who(w, inst, mask);
  uint32_t pending = static_cast<uint32_t>(inst.imm);
  each([&](Observer& o) {
    switch (t.event) {
    case Event::Fence:
      o.fence(me, t.fence);
      break;
    case Event::TensorWaitLoad:
    case Event::TensorWaitStore:
      o.tensor_wait(me, t.event == Event::TensorWaitStore);
      break;
    case Event::BulkCommit:
      o.group_commit(me, Group::Bulk);
      break;
    case Event::CpCommit:
      o.group_commit(me, Group::CpAsync);
      break;
    case Event::WgmmaCommit:
      o.group_commit(me, Group::Wgmma);
      break;
    case Event::BulkWait:
    case Event::BulkWaitRead:
      o.group_wait(me, Group::Bulk, pending, t.event == Event::BulkWaitRead);
      break;
    case Event::CpWait:
      o.group_wait(me, Group::CpAsync, pending, false);
      break;
    case Event::CpWaitAll:
      o.group_commit(me, Group::CpAsync);
      o.group_wait(me, Group::CpAsync, 0, false);
      break;
    case Event::WgmmaWait:
      o.group_wait(me, Group::Wgmma, pending, false);
      break;
    case Event::NamedSync:
      o.named_wait(me, w.lanes<uint32_t>(inst.op[t.id_operand])[std::countr_zero(mask)]);
      break;
    case Event::WarpSync:
      o.warp_wait(me);
      break;
    case Event::ClusterWait:
      o.cluster_wait(me, !t.relaxed);
      break;
    default:
      break;
    }
  });
}

// ---- accesses

void Hub::access(const exec::Access& a, const Origin& origin) {
  if (a.op && a.op != op_) return; // a look at what the operation will touch, before its issue
  if (!a.op && a.proxy == exec::Proxy::Async) return; // of a tensor map
  if (a.space != exec::Space::Global && a.space != exec::Space::Shared) return;
  Who me = who(origin);
  if (!a.op) me.op = 0;
  Bytes b;
  b.space = a.space == exec::Space::Global ? Space::Global : Space::Shared;
  b.cta = a.space == exec::Space::Shared ? a.cta : 0;
  b.lo = a.address;
  b.hi = a.address + a.bytes;
  Order order = a.op ? (a.atomic ? Order::Relaxed : Order::Weak) : traits_[me.pc].order;
  Proxy proxy = a.proxy == exec::Proxy::Generic ? Proxy::Generic : Proxy::Async;
  each([&](Observer& o) { o.access(me, b, a.write, order, proxy); });
  if (definedness_) definedness_->access(a, origin, op_);
}

void Hub::access_lanes(const exec::Access& a, const uint64_t* addresses, uint32_t mask,
                       const Origin& origin) {
  if (a.space == exec::Space::Global || a.space == exec::Space::Shared) {
    Bytes b;
    b.space = a.space == exec::Space::Global ? Space::Global : Space::Shared;
    b.cta = a.space == exec::Space::Shared ? a.cta : 0;
    Who me = who(origin);
    me.op = 0;
    Order order = traits_[me.pc].order;
    // Lanes that name the same address act together.
    for (uint32_t left = mask; left;) {
      uint32_t l = static_cast<uint32_t>(std::countr_zero(left));
      me.lanes = 0;
      for (uint32_t m = left; m; m &= m - 1) {
        uint32_t k = static_cast<uint32_t>(std::countr_zero(m));
        if (addresses[k] == addresses[l]) me.lanes |= 1u << k;
      }
      left &= ~me.lanes;
      b.lo = addresses[l];
      b.hi = b.lo + a.bytes;
      each([&](Observer& o) { o.access(me, b, a.write, order, Proxy::Generic); });
    }
  }
  if (!definedness_) return;
  exec::Access one = a;
  Origin at = origin;
  for (uint32_t m = mask; m; m &= m - 1) {
    at.lane = static_cast<uint32_t>(std::countr_zero(m));
    one.address = addresses[at.lane];
    definedness_->access(one, at, nullptr);
  }
}

void Hub::access_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column,
                        uint32_t columns, bool write, const exec::AsyncOp* op,
                        const Origin& origin) {
  // Without the strict wait a load happens at its issue, as an access of the warp.
  bool by_warp = !op || (op->id == 0 && !cluster_.spec.strict_tensor_load_wait &&
                         traits_[origin.inst->pc].op == OpKind::TensorLoad);
  if (!by_warp && op != op_) return;
  Who me = who(origin);
  if (by_warp) {
    me.op = 0;
    me.lanes = cluster_.ctas[origin.cta]->warps[origin.warp]->live_mask;
  }
  Bytes b{Space::Tensor, cta, column, column + columns, lane, lane + lanes};
  each([&](Observer& o) { o.access(me, b, write, Order::Weak, Proxy::Tensor); });
  if (definedness_)
    definedness_->access_tensor(cta, lane, lanes, column, columns, write, by_warp, origin);
}

// ---- operations and barriers

void Hub::issue(const exec::AsyncOp& op) {
  Who me = who(op.origin);
  me.op = op.id;
  OpKind kind = traits_[me.pc].op;
  if (is_collective(kind)) me.lanes = mask_;
  each([&](Observer& o) { o.issue(me, kind); });
}

void Hub::finished(const exec::AsyncOp& op) {
  Who me = who(op.origin);
  me.op = op.id;
  each([&](Observer& o) { o.finished(me); });
}

void Hub::mbarrier_init(uint32_t cta, uint32_t offset, uint32_t count, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_init(me, cta, offset, count); });
}
void Hub::mbarrier_inval(uint32_t cta, uint32_t offset, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_inval(me, cta, offset); });
}
void Hub::mbarrier_arrive(uint32_t cta, uint32_t offset, uint32_t count, const Origin& o) {
  Who me = who(o);
  bool release = !traits_[me.pc].relaxed;
  each([&](Observer& x) { x.mbarrier_arrive(me, cta, offset, count, release); });
}
void Hub::mbarrier_expect(uint32_t cta, uint32_t offset, int64_t bytes, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_expect(me, cta, offset, bytes); });
}
void Hub::mbarrier_bytes(uint32_t cta, uint32_t offset, int64_t bytes, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_bytes(me, cta, offset, bytes); });
}
void Hub::mbarrier_phase(uint32_t cta, uint32_t offset) {
  each([&](Observer& x) { x.mbarrier_phase(cta, offset); });
}
void Hub::mbarrier_wait(Warp& w, const Inst& inst, uint32_t lanes, uint32_t cta, uint32_t offset,
                        uint64_t phase) {
  Who me = who(w, inst, lanes);
  bool acquire = !traits(inst).relaxed;
  each([&](Observer& x) { x.mbarrier_wait(me, cta, offset, phase, acquire); });
}
void Hub::named_complete(uint32_t cta, uint32_t id) {
  each([&](Observer& x) { x.named_complete(cta, id); });
}
void Hub::cluster_complete() {
  each([&](Observer& x) { x.cluster_complete(); });
}
void Hub::tensor_alloc(uint32_t cta, uint32_t column, uint32_t columns, const Origin& o) {
  Who me = who(o);
  me.op = 0;
  me.lanes = cluster_.ctas[o.cta]->warps[o.warp]->live_mask;
  each([&](Observer& x) { x.tensor_alloc(me, cta, column, columns); });
  if (definedness_) definedness_->tensor_alloc(cta, column, columns);
}
void Hub::cta_exit(uint32_t cta) {
  each([&](Observer& x) { x.cta_exit(cta); });
}
void Hub::end() {
  each([&](Observer& x) { x.end(); });
  if (!races_ || !cluster_.spec.grid_races) return;
  auto conflict = cluster_.spec.grid_races->add(cluster_.index, races_->global_uses());
  if (!conflict) return;
  auto what = [](bool write) { return std::string(write ? "write" : "read"); };
  const exec::Inst& other = cluster_.spec.program->code[conflict->other.who.pc];
  Finding f{"races", "grid", false, "", {}};
  f.text = what(conflict->mine.write) + " of global memory 0x" + hex_text(conflict->lo) + "..0x" +
           hex_text(conflict->hi - 1) + ", and " + what(conflict->other.write) +
           " of the same bytes by cluster " + std::to_string(conflict->other_cluster) + " (line " +
           std::to_string(other.text ? other.text->line : 0) +
           "), which nothing in the launch orders: neither cluster uses a flag";
  f.sites.push_back({"this " + what(conflict->mine.write), conflict->mine.who});
  found(f);
}

// ---- findings

std::string Hub::sites_text(const Finding& f) const {
  std::string s;
  for (size_t i = 0; i < f.sites.size(); ++i) {
    const Who& w = f.sites[i].who;
    Origin o{&cluster_.spec.program->code[w.pc], w.cta, w.warp,
             w.lanes ? static_cast<uint32_t>(std::countr_zero(w.lanes)) : 0, "warp"};
    s += "\n    " + f.sites[i].role + ": " + cluster_.where(o);
    if (w.op) s += " (issued it)";
  }
  return s;
}

void Hub::found(const Finding& f) {
  std::string text = f.rule + ": " + f.text + sites_text(f);
  if (f.advice && !(cluster_.spec.checks & kAdvice)) {
    cluster_.stats.advice.insert("vgpu: " + f.checker + " (advice): " + text);
    return;
  }
  const Who& w = f.sites.front().who;
  Origin o{&cluster_.spec.program->code[w.pc], w.cta, w.warp,
           w.lanes ? static_cast<uint32_t>(std::countr_zero(w.lanes)) : 0, "warp"};
  cluster_.fault(o, exec::FaultCode::launch_failed, f.checker.c_str(), text);
}

} // namespace vgpu::check
