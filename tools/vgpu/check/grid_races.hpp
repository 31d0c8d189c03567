// Races over global memory between clusters. What a cluster did there is compared with what others
// did when it ends: two accesses of a byte, one a write, must be in order, which between clusters
// only a flag can bring about: a release and an acquire at a scope that holds both.
#pragma once

#include "tools/vgpu/check/flags.hpp"
#include "tools/vgpu/check/grid_uses.hpp"
#include "tools/vgpu/check/shadow.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

namespace vgpu::check {

// What a cluster did to bytes of global memory.
struct GlobalUse {
  uint64_t lo = 0, hi = 0;
  bool write = false, strong = false;
  Scope scope = Scope::Gpu;
  Proxy proxy = Proxy::Generic;
  Epoch epoch;
  ForeignRef foreign; // what it knew of other clusters
  Who who;
};

class GridRaces {
public:
  struct Conflict {
    GlobalUse mine, other;
    uint64_t lo = 0, hi = 0;
    uint64_t other_cluster = 0;
    bool proxy = false; // in order, but for the proxy fence
  };
  // Adds what a cluster did; the first conflict with an earlier one, if there is any. `heard`: the
  // cluster has left messages in flags of global memory.
  std::optional<Conflict> add(uint64_t cluster, const std::vector<GlobalUse>& uses, bool heard);

  // A cluster has waited for the grids ahead before it let the grid behind this one start. That one
  // starts when all clusters have let it, so one that has waited first is enough.
  void ends_earlier_grids() { outrun_ = false; }
  // A thread has waited for the grids ahead: this one ends after them.
  void waited() { waited_ = true; }
  // Adds all that the clusters did, for the grid behind this one; drops what is over for it.
  void add_to(GridUses& uses) const;

  // Only for clusters that are run by one host thread; see talks_between_clusters().
  FlagTable flags;

private:
  struct Entry {
    uint64_t cluster;
    bool silent; // no other cluster can know of it, nor it of others
    const GlobalUse* use;
  };
  std::atomic<bool> outrun_ = true, waited_ = false;
  std::mutex mutex_;
  std::deque<GlobalUse> uses_;
  Intervals<std::vector<Entry>> cells_;
};

} // namespace vgpu::check
