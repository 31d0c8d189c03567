// What a cluster knows of other clusters: clocks in the components of each, learned through flags
// in global memory. Immutable and shared, since few threads ever learn something new.
#pragma once

#include "tools/vgpu/check/times.hpp"

#include <map>
#include <memory>

namespace vgpu::check {

struct Remote {
  Times known;  // everything of that cluster that happens before
  Times global; // of that, what a fence.proxy.async of global memory lies behind
};
using Foreign = std::map<uint64_t, std::shared_ptr<const Remote>>; // by cluster
using ForeignRef = std::shared_ptr<const Foreign>;                 // null: nothing

inline bool covers(const Remote& a, const Remote& b) {
  return covers(a.known, b.known) && covers(a.global, b.global);
}

inline bool covers(const ForeignRef& a, const ForeignRef& b) {
  if (!b || a == b) return true;
  if (!a) return false;
  for (const auto& [cluster, remote] : *b) {
    auto mine = a->find(cluster);
    if (mine == a->end()) return false;
    if (mine->second != remote && !covers(*mine->second, *remote)) return false;
  }
  return true;
}

inline void join(ForeignRef& to, const ForeignRef& from) {
  if (covers(to, from)) return;
  if (covers(from, to)) {
    to = from;
    return;
  }
  auto merged = std::make_shared<Foreign>(*to);
  for (const auto& [cluster, remote] : *from) {
    std::shared_ptr<const Remote>& mine = (*merged)[cluster];
    if (!mine || covers(*remote, *mine)) {
      mine = remote;
    } else if (!covers(*mine, *remote)) {
      Remote both = *mine;
      join(both.known, remote->known);
      join(both.global, remote->global);
      mine = std::make_shared<const Remote>(std::move(both));
    }
  }
  to = std::move(merged);
}

// After a fence.proxy.async of global memory.
inline ForeignRef proxy_fenced(const ForeignRef& from) {
  if (!from) return from;
  auto fenced = std::make_shared<Foreign>();
  for (const auto& [cluster, remote] : *from)
    (*fenced)[cluster] = std::make_shared<const Remote>(Remote{remote->known, remote->known});
  return fenced;
}

} // namespace vgpu::check
