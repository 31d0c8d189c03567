// Flags and the fences that work with them: how strong accesses move clocks between threads, of one
// cluster or of several.
#include "tools/vgpu/check/races.hpp"

#include <bit>

namespace vgpu::check {

namespace {
bool takes(Order o) { return o == Order::Acquire || o == Order::AcqRel; }
bool gives(Order o) { return o == Order::Release || o == Order::AcqRel; }
} // namespace

// fence.acq_rel, .sc and their halves: what relaxed reads before it have observed is acquired here,
// and relaxed writes after it pass on what is known here, both at the fence's scope.
void Races::fence_order(const Who& w, Fence kind, Scope scope) {
  const Place here{limits_.cluster, w.cta};
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t lane = static_cast<uint32_t>(std::countr_zero(left)), t = thread(w, lane);
    auto seen = fence_pending_.find(t);
    if (kind != Fence::Release && seen != fence_pending_.end()) {
      Who one = w;
      one.lanes = 1u << lane;
      std::erase_if(seen->second, [&](const Message& m) {
        if (!mutual(m.released, m.from, scope, here)) return false;
        acquire(one, seen_here(m));
        return true;
      });
    }
    if (kind == Fence::Acquire) continue;
    auto clock = std::make_shared<Clock>(*lanes_[t]);
    raise(clock->known, t, time_of(w));
    fence_released_[t][static_cast<size_t>(scope)] = std::move(clock);
  }
  ++time_of(w);
}

void Races::tensormap_acquire(const Who& w, uint64_t address) {
  std::vector<MapFence>& fences = map_fences_[address];
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t t = thread(w, static_cast<uint32_t>(std::countr_zero(left)));
    std::erase_if(fences, [&](const MapFence& f) { return f.thread == t; });
    fences.push_back({t, time_of(w), lanes_[t]});
  }
  ++time_of(w);
}

// The message's clock in the components of this cluster.
ClockRef Races::seen_here(const Message& m) {
  if (m.from.cluster == limits_.cluster) return m.clock;
  auto& [kept, view] = views_[m.clock.get()];
  if (view) return view;
  kept = m.clock; // so that its address stays its own
  view = std::make_shared<Clock>();
  auto others = std::make_shared<Foreign>();
  if (m.clock->foreign)
    for (const auto& [cluster, remote] : *m.clock->foreign) {
      if (cluster != limits_.cluster) {
        (*others)[cluster] = remote;
        continue;
      }
      view->known = remote->known;
      view->global = remote->global;
    }
  (*others)[m.from.cluster] =
      std::make_shared<const Remote>(Remote{m.clock->known, m.clock->global});
  view->foreign = std::move(others);
  return view;
}

void Races::observe(const Who& w, const Flag& flag, const Strength& s) {
  const Place here{limits_.cluster, w.cta};
  for (const Message& m : flag.messages()) {
    if (!mutual(m.written, m.from, s.scope, here)) continue;
    if (takes(s.order) && mutual(m.released, m.from, s.scope, here)) {
      acquire(w, seen_here(m));
      continue;
    }
    for (uint32_t left = w.lanes; left; left &= left - 1) {
      auto& seen = fence_pending_[thread(w, static_cast<uint32_t>(std::countr_zero(left)))];
      bool known = false;
      for (const Message& old : seen) known |= old.clock == m.clock;
      if (!known) seen.push_back(m);
    }
  }
}

void Races::synchronise(const Who& w, const Bytes& b, bool write, const Strength& s) {
  const bool shared = b.space == Space::Shared;
  const uint64_t key = (shared ? uint64_t(b.cta + 1) << 56 : 0) | b.lo;
  FlagTable& table = shared ? shared_flags_ : *flags_;
  const Place here{limits_.cluster, w.cta};
  if (w.op) { // the end of an asynchronous store with release, or of a relaxed reduction
    const Operation* op = operation(w);
    if (!op || !write || !gives(s.order)) return;
    ClockRef clock;
    release_op(*op, clock);
    table[key].overwrite(here, op->issuer);
    table[key].add({here, op->issuer, s.scope, s.scope, clock});
    left_messages_ |= !shared;
    return;
  }
  auto it = table.find(key);
  if (it != table.end() && (!write || s.atomic)) observe(w, it->second, s);
  if (!write) return;
  const uint32_t thread_of = std::has_single_bit(w.lanes) ? first_thread(w) : Message::kSeveral;
  if (it != table.end() && !s.atomic) it->second.overwrite(here, thread_of);
  auto leave = [&](Scope released, const ClockRef& clock) {
    table[key].add({here, thread_of, released, s.scope, clock});
    left_messages_ |= !shared;
  };
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    auto r = fence_released_.find(thread(w, static_cast<uint32_t>(std::countr_zero(left))));
    if (r == fence_released_.end()) continue;
    for (size_t scope = 0; scope < r->second.size(); ++scope)
      if (r->second[scope]) leave(static_cast<Scope>(scope), r->second[scope]);
  }
  if (!gives(s.order)) return;
  ClockRef clock;
  release(w, clock);
  leave(s.scope, clock);
}

} // namespace vgpu::check
