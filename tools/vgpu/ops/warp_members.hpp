// Lanes that execute a .sync instruction together: those that a member mask names.
#pragma once

#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

// Lanes of `mask` whose member mask (op slot `slot`, one value a lane) is complete: all live lanes
// that it names execute this instruction now, with the same mask. Lanes may come in several groups.
uint32_t complete_members(Warp& w, const Inst& i, uint32_t mask, uint32_t slot);

// Calls f(group) for every group of lanes with one member mask.
template <class F>
void for_groups(Warp& w, uint32_t mask, uint32_t slot, F&& f) {
  const uint32_t* members = w.lanes<uint32_t>(slot);
  for (uint32_t rest = mask; rest;) {
    uint32_t wanted = members[std::countr_zero(rest)], group = 0;
    for (uint32_t m = rest; m; m &= m - 1) {
      uint32_t l = static_cast<uint32_t>(std::countr_zero(m));
      if (members[l] == wanted) group |= 1u << l;
    }
    rest &= ~group;
    f(group);
  }
}

// Runs f(group) for the complete groups; the other lanes wait for their partners.
template <class F>
Step run_groups(Warp& w, const Inst& i, uint32_t mask, uint32_t slot, F&& f) {
  const uint32_t* members = w.lanes<uint32_t>(slot);
  uint32_t wanted = members[std::countr_zero(mask)], differs = 0;
  for (uint32_t l = 0; l < 32; ++l) differs |= members[l] ^ wanted;
  if (differs == 0 && (wanted & w.live_mask) == mask) {
    f(mask);
    return Step::Next;
  }
  uint32_t ready = complete_members(w, i, mask, slot);
  if (ready) for_groups(w, ready, slot, f);
  if (ready == mask) return Step::Next;
  exec::WaitList nobody; // lanes that come to this instruction join and make it run again
  exec::WaitInfo wait{exec::WaitInfo::Kind::Converge, w.cta.rank, i.pc, 0};
  return w.park(mask & ~ready, nobody, wait);
}

} // namespace vgpu::ops
