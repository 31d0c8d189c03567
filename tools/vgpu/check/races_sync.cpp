// What orders: each event moves clocks between threads, operations and synchronising objects.
#include "tools/vgpu/check/races.hpp"

#include <algorithm>
#include <bit>

namespace vgpu::check {

namespace {
// Types of channels.
enum : uint32_t {
  kBarrierPhases, // index: cta << 24 | offset
  kTensorCore,    // thread
  kTensorLoads,   // warp
  kTensorStores,  // warp
  kCpAsync,       // thread
  kBulk,          // thread
  kBulkRead,      // thread
  kWgmma,         // warpgroup
  kInitFences,    // thread: its fence.mbarrier_init that relaxed arrivals passed on
  kEarlierGrids
};

uint64_t barrier_key(uint32_t cta, uint32_t offset) { return uint64_t(cta) << 24 | offset; }
} // namespace

Races::Races(const RaceLimits& limits, Sink& sink)
    : limits_(limits), sink_(sink), flags_(limits.flags ? limits.flags : &own_flags_) {
  uint32_t warps = limits.ctas * limits.warps;
  next_component_ = warps * 32;
  lanes_.assign(size_t(warps) * 32, std::make_shared<Clock>());
  times_.assign(warps, 1);
  tensor_issued_.assign(size_t(warps) * 32, 0);
  tensor_ls_.resize(warps);
  wgmma_count_.assign(warps, 0);
  wgmma_started_.assign(warps, 0);
  shared_.resize(limits.ctas);
  tensor_.resize(limits.ctas);
  if (limits.earlier) remember_earlier_grids();
}

// Of other kernels: no thread of this one knows of them before it has waited.
void Races::remember_earlier_grids() {
  earlier_ = channel(kEarlierGrids, 0);
  passed_ = channel(kEarlierGrids, 1);
  waited_.assign(limits_.ctas, false);
  const auto remember = [&](const Intervals<GridUses::Use>& uses, uint32_t by) {
    uses.each([&](uint64_t lo, uint64_t hi, const GridUses::Use& u) {
      Record r;
      r.channel = by;
      r.value = 1;
      r.proxy = u.generic ? Proxy::Generic : Proxy::Async;
      global_.visit(lo, hi, [&](Cell& c, uint64_t, uint64_t) {
        if (u.read) c.others.push_back(r);
        if (!u.written) return;
        c.written = true;
        c.write = r;
        c.write.writes = true;
      });
    });
  };
  remember(limits_.earlier->bytes, earlier_);
  remember(limits_.earlier->passed, passed_);
}

void Races::grid_wait(const Who& w) {
  if (earlier_ == kNone) return;
  raise_known(w, earlier_, 1);
  waited_[w.cta] = true;
}

void Races::grid_signal(const Who& w) {
  if (earlier_ == kNone) return;
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    const uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
    if (at(lanes_[t]->known, earlier_) == 0) signalled_first_ = true;
  }
}

bool Races::ends_earlier_grids() const {
  return earlier_ == kNone ||
         (!signalled_first_ && std::find(waited_.begin(), waited_.end(), false) == waited_.end());
}

bool Races::has_waited() const {
  return std::find(waited_.begin(), waited_.end(), true) != waited_.end();
}

uint32_t Races::first_thread(const Who& w) const {
  return thread(w, w.lanes ? static_cast<uint32_t>(std::countr_zero(w.lanes)) : 0);
}

uint32_t Races::channel(uint32_t type, uint32_t index) {
  auto [it, fresh] = channels_.try_emplace(uint64_t(type) << 32 | index, next_component_);
  if (fresh) ++next_component_;
  return it->second;
}

Races::Sequence& Races::sequence(Group g, uint32_t index) {
  return sequences_[uint64_t(g) << 32 | index];
}

Races::Barrier* Races::barrier(uint32_t cta, uint32_t offset) {
  auto it = barriers_.find(barrier_key(cta, offset));
  return it == barriers_.end() ? nullptr : &it->second;
}

// ---- moving clocks

void Races::release(const Who& w, ClockRef& to) {
  Clock& c = own(to);
  uint32_t& time = time_of(w);
  const Clock* last = nullptr;
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
    const Clock* mine = lanes_[t].get();
    if (mine != last) join_released(c, *mine);
    last = mine;
    raise(c.known, t, time);
  }
  ++time;
}

// A relaxed arrival passes on what a fence before it holds. tcgen05's fences order tensor memory
// across whatever orders execution, relaxed or not (9.7.16.6.4.4).
void Races::release_relaxed(const Who& w, ClockRef& to) {
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
    auto r = fence_released_.find(t);
    if (r != fence_released_.end())
      for (const ClockRef& c : r->second)
        if (c) join_released(own(to), *c);
    if (lanes_[t] && !lanes_[t]->before.empty()) join(own(to).before, lanes_[t]->before);
    auto f = init_fences_.find(t);
    if (f != init_fences_.end()) raise(own(to).known, channel(kInitFences, t), f->second);
  }
}

// The end of an operation passes on what its issue knew, and itself.
void Races::release_op(const Operation& op, ClockRef& to) {
  Clock& c = own(to);
  join_released(c, *op.clock);
  raise(c.known, op.issuer, op.time);
  if (op.kind == OpKind::CpArrive) {
    raise(c.known, channel(kCpAsync, op.issuer), op.value);
    return;
  }
  if (op.channel != kNone) raise(c.known, op.channel, op.value);
  if (op.kind != OpKind::Commit) return;
  // A commit implies fence::before_thread_sync (9.7.16.12.1).
  join(c.before, op.clock->known);
  raise(c.before, op.issuer, op.time);
  raise(c.before, op.channel, op.value);
}

void Races::acquire(const Who& w, const ClockRef& from) {
  if (!from) return;
  ClockRef old, made;
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    ClockRef& mine = lanes_[thread(w, static_cast<uint32_t>(std::countr_zero(left)))];
    if (old && mine == old) {
      mine = made;
      continue;
    }
    old = mine;
    if (!acquired(*mine, *from)) {
      bool plain = mine->before.empty() && mine->pending.empty() && mine->tensor.empty() &&
                   from->before.empty();
      if (plain && covers(from->known, mine->known) && covers(from->shared, mine->shared) &&
          covers(from->global, mine->global) && covers(from->foreign, mine->foreign)) {
        mine = from;
      } else {
        auto joined = std::make_shared<Clock>(*mine);
        join_acquired(*joined, *from);
        mine = std::move(joined);
      }
    }
    made = mine;
  }
}

// A relaxed wait takes what fences of tcgen05 alone order.
void Races::acquire_relaxed(const Who& w, const ClockRef& from) {
  if (!from || from->before.empty()) return;
  auto tensor = std::make_shared<Clock>();
  tensor->before = from->before;
  acquire(w, tensor);
}

void Races::raise_known(const Who& w, uint32_t which, uint32_t value) {
  ClockRef old, made;
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    ClockRef& mine = lanes_[thread(w, static_cast<uint32_t>(std::countr_zero(left)))];
    if (old && mine == old) {
      mine = made;
      continue;
    }
    old = mine;
    if (at(mine->known, which) < value) {
      auto next = std::make_shared<Clock>(*mine);
      raise(next->known, which, value);
      mine = std::move(next);
    }
    made = mine;
  }
}

// ---- operations

void Races::issue(const Who& w, OpKind kind) {
  Operation& op = operations_[w.op];
  op.kind = kind;
  op.who = w;
  op.issuer = first_thread(w);
  uint32_t warp = w.cta * limits_.warps + w.warp;
  uint32_t& time = times_[warp];
  op.time = time;
  op.clock = lanes_[op.issuer];
  const bool together = kind == OpKind::Store && (w.lanes & (w.lanes - 1)) != 0;
  if (kind == OpKind::TensorLoad || kind == OpKind::TensorStore || kind == OpKind::Wgmma ||
      together) {
    // Issued by the warp as a whole: it knows what any lane knows.
    for (uint32_t left = w.lanes; left; left &= left - 1) {
      uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
      if (lanes_[t] != op.clock) {
        Clock& c = own(op.clock);
        join(c.known, lanes_[t]->known);
        join(c.shared, lanes_[t]->shared);
        join(c.global, lanes_[t]->global);
        join(c.tensor, lanes_[t]->tensor);
      }
    }
    Clock& c = own(op.clock);
    for (uint32_t left = w.lanes; left; left &= left - 1)
      raise(c.known, thread(w, static_cast<uint32_t>(std::countr_zero(left))), time);
  }
  switch (kind) {
  case OpKind::Mma:
  case OpKind::TensorCopy:
  case OpKind::TensorShift:
    op.channel = channel(kTensorCore, op.issuer);
    op.value = ++tensor_issued_[op.issuer];
    break;
  case OpKind::Commit:
    op.channel = channel(kTensorCore, op.issuer);
    op.value = tensor_issued_[op.issuer];
    break;
  case OpKind::TensorLoad:
    op.channel = channel(kTensorLoads, warp);
    op.value = ++tensor_ls_[warp][0];
    break;
  case OpKind::TensorStore:
    op.channel = channel(kTensorStores, warp);
    op.value = ++tensor_ls_[warp][1];
    break;
  case OpKind::Store:
    op.channel = channel(kBulk, op.issuer);
    op.early = channel(kBulkRead, op.issuer);
    op.value = ++sequence(Group::Bulk, op.issuer).issued;
    for (uint32_t left = w.lanes & (w.lanes - 1); left; left &= left - 1) {
      const uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
      shared_stores_[t].push_back({++sequence(Group::Bulk, t).issued, op.issuer, op.value});
    }
    break;
  case OpKind::CpAsync:
    op.lane_values.assign(32, 0);
    for (uint32_t left = w.lanes; left; left &= left - 1) {
      uint32_t l = static_cast<uint32_t>(std::countr_zero(left));
      op.lane_values[l] = ++sequence(Group::CpAsync, thread(w, l)).issued;
    }
    break;
  case OpKind::CpArrive:
    op.value = sequence(Group::CpAsync, op.issuer).issued;
    break;
  case OpKind::Wgmma:
    op.channel = channel(kWgmma, w.cta * limits_.warps + w.warp / 4 * 4);
    // Counted as they start: the warp it is told by may be ahead of the others.
    op.value = ++wgmma_started_[w.cta * limits_.warps + w.warp / 4 * 4];
    break;
  case OpKind::Load: // counted when they complete
  case OpKind::LaunchControl:
  case OpKind::Other:
    break;
  }
  ++time; // what the thread does from now on is not before the operation
}

void Races::finished(const Who& w) { operations_.erase(w.op); }

void Races::group_commit(const Who& w, Group g) {
  if (g == Group::Wgmma) {
    uint32_t warp = w.cta * limits_.warps + w.warp;
    sequence(g, warp).commits.push_back(wgmma_count_[warp]);
    return;
  }
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    Sequence& s = sequence(g, thread(w, static_cast<uint32_t>(std::countr_zero(left))));
    s.commits.push_back(s.issued);
  }
}

void Races::group_wait(const Who& w, Group g, uint32_t pending, bool read_only) {
  if (g == Group::Wgmma) {
    Sequence& s = sequence(g, w.cta * limits_.warps + w.warp);
    if (s.commits.size() > pending)
      raise_known(w, channel(kWgmma, w.cta * limits_.warps + w.warp / 4 * 4),
                  s.commits[s.commits.size() - 1 - pending]);
    return;
  }
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t lane = static_cast<uint32_t>(std::countr_zero(left)), t = thread(w, lane);
    Sequence& s = sequence(g, t);
    if (s.commits.size() <= pending) continue;
    uint32_t value = s.commits[s.commits.size() - 1 - pending];
    Who one = w;
    one.lanes = 1u << lane;
    if (g == Group::CpAsync) {
      raise_known(one, channel(kCpAsync, t), value);
      continue;
    }
    raise_known(one, channel(kBulkRead, t), value);
    if (!read_only) raise_known(one, channel(kBulk, t), value);
    if (auto it = shared_stores_.find(t); it != shared_stores_.end())
      for (const SharedStore& s : it->second) {
        if (s.issued > value) continue;
        raise_known(one, channel(kBulkRead, s.issuer), s.value);
        if (!read_only) raise_known(one, channel(kBulk, s.issuer), s.value);
      }
  }
}

void Races::wgmma_executed(const Who& w) { ++wgmma_count_[w.cta * limits_.warps + w.warp]; }

void Races::tensor_wait(const Who& w, bool stores) {
  uint32_t warp = w.cta * limits_.warps + w.warp;
  raise_known(w, channel(stores ? kTensorStores : kTensorLoads, warp), tensor_ls_[warp][stores]);
}

// ---- fences

void Races::fence(const Who& w, Fence kind, Scope scope) {
  if (kind == Fence::AcqRel || kind == Fence::Acquire || kind == Fence::Release)
    return fence_order(w, kind, scope);
  uint32_t& time = time_of(w);
  ClockRef old, made;
  bool own_part = false; // the result holds something of the lane itself
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
    ClockRef& mine = lanes_[t];
    if (kind == Fence::MbarrierInit || kind == Fence::ProxyAll || kind == Fence::ProxyShared)
      for (auto& [key, b] : barriers_)
        if (b.init_thread == t) b.init_fenced = true;
    if (kind == Fence::MbarrierInit) {
      ++init_fences_[t];
      continue;
    }
    if (old && mine == old) {
      mine = made;
    } else {
      old = mine;
      auto next = std::make_shared<Clock>(*mine);
      if (kind == Fence::TensorAfter) {
        join(next->tensor, next->pending);
      } else if (kind == Fence::MapRelease) {
        join(next->maps, next->known);
        own_part = true;
      } else if (kind == Fence::TensorBefore) {
        join(next->before, next->known);
        own_part = true;
      } else {
        if (kind != Fence::ProxyGlobal) join(next->shared, next->known);
        if (kind != Fence::ProxyShared) {
          join(next->global, next->known);
          next->foreign = proxy_fenced(next->foreign);
        }
        own_part = true;
      }
      mine = made = std::move(next);
    }
    // Lanes share the clock: that it names the others' times is true of none but harms none, as a
    // fence of a whole group is executed by all of it.
    if (!own_part) continue;
    Clock& c = *mine;
    if (kind == Fence::TensorBefore) raise(c.before, t, time);
    if (kind == Fence::MapRelease) raise(c.maps, t, time);
    if (kind == Fence::ProxyAll || kind == Fence::ProxyShared) raise(c.shared, t, time);
    if (kind == Fence::ProxyAll || kind == Fence::ProxyGlobal) raise(c.global, t, time);
  }
  ++time;
}

// ---- mbarriers

bool Races::init_known(const Barrier& b, const Times& known, uint32_t self) {
  return self == b.init_thread || at(known, b.init_thread) >= b.init_time ||
         at(known, channel(kInitFences, b.init_thread)) >= b.init_fence;
}

void Races::check_barrier_use(const Who& w, Barrier& b, const char* what) {
  const Operation* op = operation(w);
  uint32_t self = op ? op->issuer : kNone;
  bool known = true;
  if (op) {
    known = init_known(b, op->clock->known, self);
  } else {
    for (uint32_t left = w.lanes; left && known; left &= left - 1) {
      uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
      known = init_known(b, lanes_[t]->known, t);
    }
  }
  bool fence_missing = op && !b.init_fenced;
  if (known && !fence_missing) return;
  if (known && !advised_.insert({b.init.pc, w.pc}).second) return;
  Finding f{"races", known ? "init-fence" : "init", known, "", {}};
  f.text = std::string(what) + (known ? " of an mbarrier whose initialisation no "
                                        "fence.mbarrier_init or fence.proxy.async follows"
                                      : " of an mbarrier is not ordered after its initialisation; "
                                        "missing: a barrier of the threads after mbarrier.init");
  f.sites = {{"this use", w}, {"mbarrier.init", b.init}};
  sink_.found(f);
}

void Races::mbarrier_init(const Who& w, uint32_t cta, uint32_t offset, uint32_t) {
  Barrier& b = barriers_[barrier_key(cta, offset)];
  b.channel = channel(kBarrierPhases, cta << 24 | offset);
  b.current = b.completed = nullptr;
  b.init_thread = first_thread(w);
  b.init_time = time_of(w);
  b.init_fenced = false;
  b.init_fence = init_fences_[b.init_thread] + 1;
  b.init = w;
  ++time_of(w);
}

void Races::mbarrier_inval(const Who& w, uint32_t cta, uint32_t offset) {
  if (Barrier* b = barrier(cta, offset)) check_barrier_use(w, *b, "invalidation");
}

void Races::mbarrier_arrive(const Who& w, uint32_t cta, uint32_t offset, uint32_t, bool rel) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  check_barrier_use(w, *b, "an arrival");
  if (const Operation* op = operation(w))
    release_op(*op, b->current);
  else if (rel)
    release(w, b->current);
  else
    release_relaxed(w, b->current);
}

void Races::mbarrier_expect(const Who& w, uint32_t cta, uint32_t offset, int64_t) {
  if (Barrier* b = barrier(cta, offset)) check_barrier_use(w, *b, "expect_tx");
}

void Races::mbarrier_bytes(const Who& w, uint32_t cta, uint32_t offset, int64_t) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  check_barrier_use(w, *b, "a completion");
  auto it = operations_.find(w.op);
  if (it == operations_.end()) return;
  // What it has written is known to whoever sees this phase complete.
  it->second.channel = b->channel;
  it->second.value = static_cast<uint32_t>(b->phases + 1);
  settle_load(w, it->second);
  release_op(it->second, b->current);
}

void Races::mbarrier_phase(uint32_t cta, uint32_t offset) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  ++b->phases;
  Clock& c = own(b->completed);
  if (b->current) join_released(c, *b->current);
  raise(c.known, b->channel, static_cast<uint32_t>(b->phases));
  b->current = nullptr;
}

void Races::mbarrier_wait(const Who& w, uint32_t cta, uint32_t offset, uint64_t, bool acq) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  check_barrier_use(w, *b, "a wait");
  acq ? acquire(w, b->completed) : acquire_relaxed(w, b->completed);
}

// ---- barriers of threads

void Races::named_arrive(const Who& w, uint32_t id) {
  release(w, named_[uint64_t(w.cta) << 8 | id].current);
}
void Races::named_complete(uint32_t cta, uint32_t id) {
  Meeting& m = named_[uint64_t(cta) << 8 | id];
  m.completed = std::move(m.current);
  m.current = nullptr;
}
void Races::named_wait(const Who& w, uint32_t id) {
  acquire(w, named_[uint64_t(w.cta) << 8 | id].completed);
}

void Races::warp_sync(const Who& w) {
  ClockRef meeting;
  release(w, meeting);
  acquire(w, meeting);
}

void Races::pair_met(const Who& a, const Who& b) {
  ClockRef meeting;
  release(a, meeting);
  release(b, meeting);
  acquire(a, meeting);
  acquire(b, meeting);
}

void Races::warp_exchange(const Who& w) {
  const uint32_t warp = w.cta * limits_.warps + w.warp;
  if (exchanges_.size() <= warp) exchanges_.resize(warp + 1);
  Exchange& x = exchanges_[warp];
  x.lanes = w.lanes;
  x.time = times_[warp]++; // of what comes later a new time
  x.clocks.clear();
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    const ClockRef& c = lanes_[thread(w, uint32_t(std::countr_zero(left)))];
    if (c && (x.clocks.empty() || x.clocks.back() != c)) x.clocks.push_back(c);
  }
}

void Races::cluster_arrive(const Who& w, bool rel) {
  if (rel)
    release(w, cluster_.current);
  else
    release_relaxed(w, cluster_.current);
}
void Races::cluster_complete() {
  cluster_.completed = std::move(cluster_.current);
  cluster_.current = nullptr;
}
void Races::cluster_wait(const Who& w, bool acq) {
  acq ? acquire(w, cluster_.completed) : acquire_relaxed(w, cluster_.completed);
}

} // namespace vgpu::check
