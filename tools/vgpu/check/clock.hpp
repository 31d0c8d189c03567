// Vector clocks with shared storage. A component is a thread or a channel: the operations of one
// unit that complete, or are waited for, in order (the phases of an mbarrier, the tensor core
// operations of a thread, the bulk operations of a thread, ...). Components are made when first
// used and are 32 bits of a count that only synchronisation raises.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::check {

using Times = std::vector<uint32_t>;

inline uint32_t at(const Times& t, uint32_t i) { return i < t.size() ? t[i] : 0; }

inline void raise(Times& t, uint32_t i, uint32_t value) {
  if (i >= t.size()) t.resize(i + 1, 0);
  t[i] = std::max(t[i], value);
}

inline void join(Times& to, const Times& from) {
  if (to.size() < from.size()) to.resize(from.size(), 0);
  uint32_t* a = to.data();
  const uint32_t* b = from.data();
  for (size_t i = 0, n = from.size(); i < n; ++i) a[i] = std::max(a[i], b[i]);
}

inline bool covers(const Times& a, const Times& b) { // b <= a
  size_t n = std::min(a.size(), b.size());
  bool all = true;
  for (size_t i = 0; i < n; ++i) all &= b[i] <= a[i];
  for (size_t i = n; i < b.size(); ++i) all &= b[i] == 0;
  return all;
}

struct Clock {
  Times known;          // everything that happens before
  Times shared, global; // of that, what a fence.proxy.async lies behind, by state space
  Times before;         // released: what a tcgen05.fence::before_thread_sync or commit lies behind
  Times pending;        // acquired from such releases, no fence::after_thread_sync yet
  Times tensor;         // and with it
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
  if (!from.before.empty()) join(to.before, from.before);
}

// What an acquire takes.
inline void join_acquired(Clock& to, const Clock& from) {
  join(to.known, from.known);
  if (!from.shared.empty()) join(to.shared, from.shared);
  if (!from.global.empty()) join(to.global, from.global);
  if (!from.before.empty()) join(to.pending, from.before);
}

inline bool acquired(const Clock& have, const Clock& from) {
  return covers(have.known, from.known) && covers(have.shared, from.shared) &&
         covers(have.global, from.global) && covers(have.pending, from.before);
}

} // namespace vgpu::check
