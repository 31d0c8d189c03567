// Vector clocks with shared storage.
#pragma once

#include "tools/vgpu/check/foreign.hpp"

namespace vgpu::check {

struct Clock {
  Times known;          // everything that happens before
  Times shared, global; // of that, what a fence.proxy.async lies behind, by state space
  Times maps;           // of that, what a release fence of the tensormap proxy lies behind
  Times before;         // released: what a tcgen05.fence::before_thread_sync or commit lies behind
  Times pending;        // acquired from such releases, no fence::after_thread_sync yet
  Times tensor;         // and with it
  ForeignRef foreign;   // of other clusters
};

using ClockRef = std::shared_ptr<Clock>;

// A clock that only this reference sees.
inline Clock& own(ClockRef& c) {
  if (!c)
    c = std::make_shared<Clock>();
  else if (c.use_count() > 1)
    c = std::make_shared<Clock>(*c);
  return *c;
}

// What a release passes on.
inline void join_released(Clock& to, const Clock& from) {
  join(to.known, from.known);
  if (!from.shared.empty()) join(to.shared, from.shared);
  if (!from.global.empty()) join(to.global, from.global);
  if (!from.maps.empty()) join(to.maps, from.maps);
  if (!from.before.empty()) join(to.before, from.before);
  if (from.foreign) join(to.foreign, from.foreign);
}

// What an acquire takes.
inline void join_acquired(Clock& to, const Clock& from) {
  join(to.known, from.known);
  if (!from.shared.empty()) join(to.shared, from.shared);
  if (!from.global.empty()) join(to.global, from.global);
  if (!from.maps.empty()) join(to.maps, from.maps);
  if (!from.before.empty()) join(to.pending, from.before);
  if (from.foreign) join(to.foreign, from.foreign);
}

inline bool acquired(const Clock& have, const Clock& from) {
  return covers(have.known, from.known) && covers(have.shared, from.shared) &&
         covers(have.global, from.global) && covers(have.pending, from.before) &&
         covers(have.maps, from.maps) && covers(have.foreign, from.foreign);
}

} // namespace vgpu::check
