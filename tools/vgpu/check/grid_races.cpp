#include "tools/vgpu/check/grid_races.hpp"

namespace vgpu::check {

namespace {

enum class Relation { Unordered, Ordered, NoProxyFence };

// Whether `later`, of another cluster, comes after `first` of `cluster`.
Relation follows(const GlobalUse& later, const GlobalUse& first, uint64_t cluster) {
  if (!later.foreign) return Relation::Unordered;
  auto it = later.foreign->find(cluster);
  if (it == later.foreign->end() || !covers(it->second->known, first.epoch, !first.write))
    return Relation::Unordered;
  const bool crosses =
      first.write && first.proxy == Proxy::Generic && later.proxy != Proxy::Generic && !later.write;
  return crosses && !covers(it->second->global, first.epoch, false) ? Relation::NoProxyFence
                                                                    : Relation::Ordered;
}

} // namespace

std::optional<GridRaces::Conflict> GridRaces::add(uint64_t cluster,
                                                  const std::vector<GlobalUse>& uses, bool heard) {
  std::lock_guard lock(mutex_);
  std::optional<Conflict> found;
  for (const GlobalUse& given : uses) {
    const GlobalUse& mine = uses_.emplace_back(given);
    const bool silent = !heard && !mine.foreign && !mine.strong;
    cells_.visit(mine.lo, mine.hi, [&](std::vector<Entry>& cell, uint64_t lo, uint64_t hi) {
      bool here = false, two = false;
      uint64_t reader = ~0ull;
      for (const Entry& e : cell) {
        const GlobalUse& other = *e.use;
        if (e.silent && !other.write) {
          here |= e.cluster == cluster;
          two |= reader != ~0ull && reader != e.cluster;
          reader = e.cluster;
        }
        if (e.cluster == cluster || !(mine.write || other.write)) continue;
        if (mine.strong && other.strong &&
            mutual(mine.scope, {cluster, mine.who.cta}, other.scope, {e.cluster, other.who.cta}))
          continue;
        Relation r = follows(mine, other, e.cluster);
        if (r == Relation::Unordered) r = follows(other, mine, cluster);
        if (r != Relation::Ordered && !found)
          found = Conflict{mine, other, lo, hi, e.cluster, r == Relation::NoProxyFence};
      }
      // Of readers that nobody can know of, two show whether any cluster but a writer's has read.
      if (silent && !mine.write && (here || two)) return;
      cell.push_back({cluster, silent, &mine});
    });
    if (found) break;
  }
  return found;
}

void GridRaces::add_to(GridUses& all) const {
  if (!outrun_)
    all = {};
  else if (!waited_)
    all.pass();
  for (const GlobalUse& u : uses_) all.add(u.lo, u.hi, u.write, u.proxy == Proxy::Generic);
}

} // namespace vgpu::check
