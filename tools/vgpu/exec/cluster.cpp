// The scheduler: advances warps and operations of one cluster in the policy's order.
#include "tools/vgpu/exec/cluster.hpp"

#include "tools/vgpu/check/deadlock.hpp"
#include "tools/vgpu/check/hub.hpp"

#include <algorithm>

namespace vgpu::exec {

namespace {
// A warp that runs this many instructions without blocking may be spinning on memory: operations
// in flight, other warps and other clusters then get their turn first, and its own turns are short,
// as a poll is a few instructions; longer again when they go on, as it may be computing.
constexpr uint32_t kSpinStreak = 1u << 14, kSpinTurn = 1u << 6, kSpinsOfTurn = 1u << 6;
// Rounds of polls without any other progress after which a launch is called stuck. Of polls of
// memory so many instructions are one.
constexpr uint32_t kIdlePolls = 20000, kSpunOfPoll = 1u << 17;
// Rounds of time limits of mbarrier.try_wait without any other progress after which the same; and
// rounds of idle polls between two of them.
constexpr uint32_t kIdleLimits = 1000, kPollsOfLimit = 16;

uint32_t turn_of(const Warp& w, uint32_t quantum) {
  if (w.spins == 0) return quantum;
  return std::min(quantum, kSpinTurn << std::min(w.spins / kSpinsOfTurn, 20u));
}
} // namespace

Cta::Cta(Cluster& cluster_, uint32_t rank_) : cluster(cluster_), rank(rank_) {
  const LaunchSpec& spec = cluster.spec;
  const Program& program = *spec.program;
  uint32_t dims[3] = {spec.cluster[0], spec.cluster[1], spec.cluster[2]};
  index[0] = cluster.cluster_id[0] * dims[0] + rank % dims[0];
  index[1] = cluster.cluster_id[1] * dims[1] + rank / dims[0] % dims[1];
  index[2] = cluster.cluster_id[2] * dims[2] + rank / (dims[0] * dims[1]);
  // The byte pattern differs from zero so that reads of bytes never written show.
  shared.assign(program.dynamic_shared_offset + spec.dynamic_shared, 0xC5);
  uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  local.assign(cluster.local_bytes() * ((threads + 31) / 32 * 32), 0xC5);
  if (spec.profile->has_tensor_memory)
    tensor.words.assign(size_t(TensorMemory::kLanes) * TensorMemory::kColumns, 0x7FC0DEADu);
  tensor_pipe.name = "tensor core of CTA " + std::to_string(rank);
}

Cta::~Cta() = default;

Cluster::Cluster(const LaunchSpec& spec_, uint64_t index_, LaunchQueue* queue_)
    : spec(spec_), index(index_), queue(queue_) {
  uint64_t nx = spec.grid[0] / spec.cluster[0], ny = spec.grid[1] / spec.cluster[1];
  cluster_id[0] = static_cast<uint32_t>(index % nx);
  cluster_id[1] = static_cast<uint32_t>(index / nx % ny);
  cluster_id[2] = static_cast<uint32_t>(index / (nx * ny));
  std::string error;
  policy = make_policy(spec.schedule, index, &error);
  if (!policy) throw Fault(FaultCode::launch_failed, "schedule", error);
  uint32_t size = spec.cluster[0] * spec.cluster[1] * spec.cluster[2];
  uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  for (uint32_t r = 0; r < size; ++r) ctas.push_back(std::make_unique<Cta>(*this, r));
  for (auto& cta : ctas) {
    for (uint32_t w = 0; w < (threads + 31) / 32; ++w)
      cta->warps.push_back(std::make_unique<Warp>(*cta, w));
    cta->live_warps = static_cast<uint32_t>(cta->warps.size());
    live_warps_ += cta->live_warps;
    for (auto& w : cta->warps) enqueue(*w);
  }
  if (spec.checks || spec.coverage || (index == 0 && (!spec.trace.empty() || spec.count)))
    hub = std::make_unique<check::Hub>(*this);
}

Cluster::~Cluster() = default;

void Cluster::enqueue(Warp& warp) {
  if (warp.queued) return;
  warp.queued = true;
  warp.when = policy->warp_when(warp, now_);
  warp.when.seq = ++seq_;
  ready_warps_.insert(WarpKey{warp.when, &warp});
}

void Cluster::wake_warp(Warp& warp) {
  if (&warp == running_) return;
  if (warp.polling) {
    auto it = std::find(pollers_.begin(), pollers_.end(), &warp);
    if (it != pollers_.end()) pollers_.erase(it);
    warp.polling = false;
  }
  enqueue(warp);
}

void Cluster::wake(WaitList& list) {
  idle_limits_ = 0;
  WaitList woken;
  woken.swap(list);
  for (const Waiter& w : woken) w.warp->wake(w.fragment);
  progress();
}

// Time passes: every mbarrier.try_wait that is parked comes to its limit. False when there is none.
bool Cluster::end_waits() {
  bool any = false;
  for (auto& cta : ctas)
    for (auto& w : cta->warps)
      for (const auto& f : w->fragments()) {
        if (f->state != Fragment::State::Parked || f->wait.kind != WaitInfo::Kind::Mbarrier)
          continue;
        any = true;
        for (auto& owner : ctas)
          for (auto& [offset, b] : owner->mbarriers)
            std::erase_if(b.waiters, [&](const Waiter& x) {
              return x.warp == w.get() && x.fragment == f->id;
            });
        f->token = kWaitEnded;
        w->wake(f->id);
      }
  return any;
}

void Cluster::release_pollers() {
  std::vector<Warp*> again;
  again.swap(pollers_);
  for (Warp* w : again) enqueue(*w);
}

void Cluster::schedule(AsyncOp& op) {
  op.when = policy->op_when(op, now_);
  op.when.seq = ++seq_;
  ready_ops_.insert(OpKey{op.when, &op});
}

void Cluster::issue(std::unique_ptr<AsyncOp> op) {
  AsyncOp& o = *op;
  o.id = next_op_++;
  visible_step();
  ++stats.operations;
  if (hub) hub->issue(o);
  check_conflicts(o);
  poison(o);
  for (const Range& r : o.ranges) guards(r).add(r, o);
  o.guards_reads = o.guards_writes = true;
  operations_[o.id] = std::move(op);
  if (o.pipe) {
    for (const AsyncOp* earlier : o.pipe->queue) o.awaited += o.follows(*earlier);
    o.pipe->queue.push_back(&o);
  }
  if (o.awaited) return;
  if (policy->immediate())
    complete(o);
  else
    schedule(o);
}

void Cluster::complete(AsyncOp& op) {
  auto perform = [&] {
    if (!hub) return op.perform(*this);
    const AsyncOp* outer = hub->performing();
    hub->performing(&op);
    bool over = op.perform(*this);
    hub->performing(outer);
    return over;
  };
  while (!perform()) {
    progress();
    if (!policy->immediate()) {
      schedule(op);
      return;
    }
  }
  release_ranges(op, false);
  release_ranges(op, true);
  idle_limits_ = 0;
  progress();
  if (hub) hub->finished(op);
  std::vector<AsyncOp*> next; // those that waited for nothing else
  if (op.pipe) {
    std::deque<AsyncOp*>& queue = op.pipe->queue;
    auto later = queue.erase(std::find(queue.begin(), queue.end(), &op));
    for (; later != queue.end(); ++later)
      if ((*later)->follows(op) && --(*later)->awaited == 0) next.push_back(*later);
  }
  operations_.erase(op.id);
  for (AsyncOp* o : next) {
    if (policy->immediate())
      complete(*o);
    else
      schedule(*o);
  }
}

// To its end at once, after those that it follows.
void Cluster::finish_now(AsyncOp& op) {
  const uint64_t id = op.id;
  while (operations_.contains(id)) {
    AsyncOp* next = &op;
    if (op.awaited) {
      for (AsyncOp* earlier : op.pipe->queue)
        if (earlier->awaited == 0) {
          next = earlier;
          break;
        }
    }
    ready_ops_.erase(OpKey{next->when, next});
    complete(*next);
  }
}

void Cluster::finish_tensor(const Warp& warp, bool stores) {
  for (auto it = operations_.begin(); it != operations_.end();) {
    AsyncOp& op = *it->second;
    ++it; // the operation goes
    const bool mine = op.origin.cta == warp.cta.rank && op.origin.warp == warp.index;
    if (mine && (stores ? op.tensor_store() : op.tensor_load())) finish_now(op);
  }
}

void Cluster::start(Cta& cta) {
  cta.started = true;
  if (!policy->staggers()) return;
  for (auto& w : cta.warps) {
    if (!w->queued) continue;
    ready_warps_.erase(WarpKey{w->when, w.get()});
    w->queued = false;
    enqueue(*w);
  }
}

void Cluster::retire(Warp& warp) {
  --live_warps_;
  if (warp.cta.live_warps == 1) check_exit(warp.cta);
  if (--warp.cta.live_warps == 0) {
    if (hub) hub->cta_exit(warp.cta.rank);
  }
  // Fewer threads are awaited by barriers that count all of the CTA.
  for (NamedBarrier& b : warp.cta.named)
    if (b.all && b.arrived != 0) warp.cta.settle_named(b);
  progress();
}

bool Cluster::run(uint64_t slice, uint64_t turns) {
  for (uint64_t turn = 0; live_warps_ > 0; ++turn) {
    if (turns && turn == turns) return false;
    if (!pollers_.empty() && epoch_ != pollers_.front()->poll_epoch) release_pollers();
    bool have_op = !ready_ops_.empty(), have_warp = !ready_warps_.empty();
    if (have_op && (!have_warp || ready_ops_.begin()->when < ready_warps_.begin()->when)) {
      OpKey k = *ready_ops_.begin();
      ready_ops_.erase(ready_ops_.begin());
      if (k.when.tier == 0 && k.when.time > now_) now_ = k.when.time;
      complete(*k.op);
      idle_polls_ = idle_spun_ = 0;
      continue;
    }
    if (have_warp) {
      WarpKey k = *ready_warps_.begin();
      ready_warps_.erase(ready_warps_.begin());
      Warp& w = *k.warp;
      w.queued = false;
      if (k.when.tier == 0 && k.when.time > now_) now_ = k.when.time;
      if (!w.cta.started) start(w.cta);
      running_ = &w;
      uint32_t n = w.run(turn_of(w, policy->quantum(w)));
      running_ = nullptr;
      now_ += n;
      stats.warp_instructions += n;
      if (spec.instruction_limit && stats.warp_instructions > spec.instruction_limit)
        throw Fault(FaultCode::launch_timeout, "limit",
                    "vgpu: the cluster ran " + std::to_string(spec.instruction_limit) +
                        " warp-instructions, which is the limit set for it\n" + wait_graph() +
                        "  a loop that never ends? A kernel that needs more gets it by --limit of "
                        "vgpu run, by VGPU_LIMIT or option instruction_limit\n");
      if (w.done()) {
        retire(w);
      } else if (w.runnable()) {
        if (w.polling) {
          w.spins = 0;
        } else if (w.spins != 0 || w.streak > kSpinStreak) {
          w.polling = true;
          ++w.spins;
          w.streak = 0;
          idle_spun_ += n;
        }
        if (w.polling) {
          w.poll_epoch = epoch_;
          pollers_.push_back(&w);
        } else {
          enqueue(w);
        }
      } else {
        w.spins = 0;
      }
      if (!w.polling) {
        progress();
        idle_polls_ = idle_spun_ = 0;
      }
      continue;
    }
    if (!pollers_.empty()) {
      // Nothing in this cluster can change what they poll, except time and other clusters.
      const bool spins = std::any_of(pollers_.begin(), pollers_.end(),
                                     [](const Warp* w) { return w->spins != 0; });
      now_ += 1000;
      if (!spins || idle_spun_ > kSpunOfPoll) {
        if (++idle_polls_ > kIdlePolls)
          throw Fault(FaultCode::launch_timeout, "livelock",
                      "vgpu: livelock: all running warps poll and nothing changes\n" +
                          wait_graph());
        if (idle_polls_ % kPollsOfLimit == 0) end_waits();
        idle_spun_ = 0;
      }
      release_pollers();
      if (slice && (spins || idle_polls_ % slice == 0)) return false;
      continue;
    }
    if (idle_limits_ < kIdleLimits && end_waits()) {
      ++idle_limits_;
      continue;
    }
    std::string report =
        "vgpu: deadlock: no warp can run and no operation is in flight\n" + wait_graph();
    if (!spec.graph.empty()) {
      std::string wrong = check::write_wait_graph(*this, spec.graph);
      report += wrong.empty() ? "  picture: " + spec.graph + ".svg\n" : "  " + wrong + "\n";
    }
    throw Fault(FaultCode::launch_timeout, "deadlock", report);
  }
  // What is left writes global memory only; it completes before the grid ends.
  while (!ready_ops_.empty()) {
    OpKey k = *ready_ops_.begin();
    ready_ops_.erase(ready_ops_.begin());
    complete(*k.op);
  }
  if (hub) hub->end();
  stats.schedule_points = policy->points();
  return true;
}

void Cluster::check_exit(Cta& cta) {
  for (auto it = operations_.begin(); it != operations_.end();) {
    AsyncOp& op = *it->second;
    ++it; // the operation goes
    bool touches = op.pipe == &cta.tensor_pipe;
    for (const auto* list : {&cta.shared_guards, &cta.tensor_guards})
      for (const Guard& g : *list) touches |= g.op == &op;
    if (!touches) continue;
    violation(op.origin, check::Rule::exit_in_flight, FaultCode::launch_failed, [&] {
      return "CTA " + std::to_string(cta.rank) +
             " of the cluster has exited while an operation on its memory is in flight: " +
             op.describe();
    });
    // A device keeps the CTA's memory until then.
    const uint64_t id = op.id;
    finish_now(op);
    it = operations_.upper_bound(id);
  }
  for (const TensorMemory::Allocation& a : cta.tensor.allocations) {
    Origin o{a.inst, cta.rank, a.warp, 0, "warp"};
    fault(o, FaultCode::launch_failed, "tmem",
          "tensor memory columns " + std::to_string(a.column) + " to " +
              std::to_string(a.column + a.columns - 1) +
              " are still allocated when the CTA exits (tcgen05.dealloc is missing)");
  }
}

// ---- named barriers

void Cta::settle_named(NamedBarrier& b) {
  if (b.arrived < (b.all ? 32 * live_warps : b.expected)) return;
  b.last_and = b.red_and;
  b.last_or = b.red_or;
  b.last_pop = b.red_pop;
  b.arrived = b.expected = 0;
  b.all = false;
  ++b.generation;
  if (cluster.hub) cluster.hub->named_complete(rank, static_cast<uint32_t>(&b - named.data()));
  cluster.wake(b.waiters);
}

// ---- cluster barrier

void Cluster::cluster_barrier_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  if (warp.cluster_arrived & mask && warp.cluster_generation == barrier.generation)
    warp.fault(inst, mask, FaultCode::launch_failed, "barriers",
               "barrier.cluster.arrive again without a barrier.cluster.wait in between");
  visible_step();
  if (warp.cluster_generation != barrier.generation) warp.cluster_arrived = 0;
  warp.cluster_arrived |= mask;
  warp.cluster_generation = barrier.generation;
  check_cluster_barrier();
}

void Cluster::check_cluster_barrier() {
  bool any = false;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      uint32_t arrived = w->cluster_generation == barrier.generation ? w->cluster_arrived : 0;
      if (w->live_mask & ~arrived) return;
      any |= arrived != 0;
    }
  }
  if (!any) return;
  ++barrier.generation;
  if (hub) hub->cluster_complete();
  wake(barrier.waiters);
}

} // namespace vgpu::exec
