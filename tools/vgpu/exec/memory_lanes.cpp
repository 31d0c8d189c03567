// The choke point for whole warps: what touch() checks, once for the range that covers all lanes.
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/transfers.hpp"

#include <algorithm>

namespace vgpu::exec {

namespace {

// True when an operation in flight may object to an access of [lo, hi).
bool contested(const Guards& guards, const Access& a, uint64_t lo, uint64_t hi) {
  if (!guards.may_object(a.space, lo, hi, a.write)) return false;
  for (const Guard& g : guards)
    if ((g.range.write || a.write) && g.range.space == a.space && g.range.lo < hi &&
        lo < g.range.hi)
      return true;
  return false;
}

struct Extent {
  uint64_t lo = ~0ull, last = 0; // lowest and highest address
  uint64_t low_bits = 0;         // all of them or-ed
};

Extent extent_of(const uint64_t* addresses, uint32_t mask, uint32_t bytes) {
  Extent e;
  if (mask == 0xFFFFFFFFu) {
    uint64_t same = 0, dense = 0;
    for (uint32_t l = 0; l < 32; ++l) {
      same |= addresses[l] ^ addresses[0];
      dense |= addresses[l] ^ (addresses[0] + uint64_t(l) * bytes);
      e.low_bits |= addresses[l];
    }
    if (same == 0 || dense == 0) {
      e.lo = addresses[0];
      e.last = addresses[31];
      if (e.last >= e.lo) return e;
      e = Extent{};
    }
  }
  for (uint32_t m = mask; m; m &= m - 1) {
    uint64_t at = addresses[std::countr_zero(m)];
    e.lo = std::min(e.lo, at);
    e.last = std::max(e.last, at);
    e.low_bits |= at;
  }
  return e;
}

void count_transfer(const Access& a, const uint64_t* addresses, uint32_t mask, Stats& stats) {
  if (a.space == Space::Shared) {
    const Turns turns = bank_turns(addresses, mask, a.bytes);
    stats.bank_turns += turns.taken;
    stats.least_bank_turns += turns.least;
  }
  if (a.space == Space::Global && a.write) {
    Sectors sectors;
    for (uint32_t m = mask; m; m &= m - 1) sectors.add(addresses[std::countr_zero(m)], a.bytes);
    stats.store_sectors += sectors.touched();
    stats.partial_sectors += sectors.partial();
  }
}

} // namespace

void Cluster::touch_lanes(const Access& a, const uint64_t* addresses, uint32_t mask,
                          const Origin& origin, uint8_t** pointers) {
  if (spec.count) count_transfer(a, addresses, mask, stats);
  Extent e = extent_of(addresses, mask, a.bytes);
  uint64_t lo = e.lo, hi = e.last + a.bytes;
  uint8_t* base = nullptr; // host address of `lo`
  if ((e.low_bits & (a.alignment - 1)) == 0 && hi > e.last) {
    switch (a.space) {
    case Space::Global:
      if (global_guards_.empty() || !contested(global_guards_, a, lo, hi))
        base = spec.memory->find(lo, hi - lo);
      if (base) {
        uint64_t lanes = 0;
        for (uint32_t m = mask; m; m &= m - 1) ++lanes;
        (a.write ? stats.global_store_bytes : stats.global_load_bytes) += a.bytes * lanes;
      }
      break;
    case Space::Shared:
      if (a.cta < ctas.size()) {
        Cta& cta = *ctas[a.cta];
        bool over_barrier = false;
        if (a.write && !cta.mbarriers.empty()) {
          auto it =
              cta.mbarriers.upper_bound(static_cast<uint32_t>(std::min<uint64_t>(hi - 1, ~0u)));
          over_barrier = it != cta.mbarriers.begin() && std::prev(it)->first + 8 > lo;
        }
        if (lo >= kSharedBase && hi <= cta.shared.size() && cta.live_warps != 0 && cta.started &&
            !over_barrier && !contested(cta.shared_guards, a, lo, hi))
          base = cta.shared.data() + lo;
      }
      break;
    case Space::Param:
      if (!a.write && hi <= spec.params.size())
        base = const_cast<uint8_t*>(spec.params.data()) + lo;
      break;
    default:
      break;
    }
  }
  if (base) {
    if (hub) hub->access_lanes(a, addresses, mask, lo, hi, origin);
    // Lanes outside the mask get pointers too, which nobody reads; their addresses may be anything,
    // so the sum is one of integers.
    uintptr_t first = reinterpret_cast<uintptr_t>(base) - lo;
    for (uint32_t l = 0; l < 32; ++l)
      pointers[l] = reinterpret_cast<uint8_t*>(first + addresses[l]);
    return;
  }
  Access one = a;
  Origin who = origin;
  for (uint32_t m = mask; m; m &= m - 1) {
    who.lane = static_cast<uint32_t>(std::countr_zero(m));
    one.address = addresses[who.lane];
    pointers[who.lane] = touch(one, who);
  }
}

} // namespace vgpu::exec
