// Counts of components. A component is a thread or a channel: the operations of one unit that
// complete, or are waited for, in order (the phases of an mbarrier, the tensor core operations of a
// thread, the bulk operations of a thread, ...). Components are made when first used and are 32
// bits of a count that only synchronisation raises.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
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

constexpr uint32_t kNoChannel = 0xFFFFFFFFu;

// When something was done: by threads of a warp at their own time, or by an operation that ends at
// a place in a channel.
struct Epoch {
  uint32_t base = 0;  // threads: component of lane 0 of the warp; operation: of the issuer
  uint32_t lanes = 0; // threads; 0: an operation
  uint32_t time = 0;  // threads: own time; operation: the issuer's time at issue
  uint32_t channel = kNoChannel, value = 0; // operation: where its end is counted
  uint32_t early = kNoChannel;              // channel that counts the end of its reads
};

// What lies at `e` has happened before whoever knows `t`.
inline bool covers(const Times& t, const Epoch& e, bool reads_only) {
  if (e.lanes == 0)
    return (e.channel != kNoChannel && at(t, e.channel) >= e.value) ||
           (reads_only && e.early != kNoChannel && at(t, e.early) >= e.value);
  for (uint32_t left = e.lanes; left; left &= left - 1)
    if (at(t, e.base + static_cast<uint32_t>(std::countr_zero(left))) < e.time) return false;
  return true;
}

} // namespace vgpu::check
