#include "tools/vgpu/check/grid_races.hpp"

namespace vgpu::check {

std::optional<GridRaces::Conflict> GridRaces::add(uint64_t cluster,
                                                  const std::vector<GlobalUse>& uses) {
  std::lock_guard lock(mutex_);
  std::optional<Conflict> found;
  for (const GlobalUse& use : uses) {
    cells_.visit(use.lo, use.hi, [&](Cell& c, uint64_t lo, uint64_t hi) {
      auto conflict = [&](uint64_t other, const Who& who, bool write) {
        if (!found) found = Conflict{use, GlobalUse{lo, hi, write, who}, lo, hi, other};
      };
      if (c.writer != kNobody && c.writer != cluster) conflict(c.writer, c.wrote, true);
      if (!use.write) {
        // Two readers are enough to tell whether another cluster than a writer's has read.
        if (c.reader == kNobody || c.reader == cluster)
          c.reader = cluster, c.read = use.who;
        else
          c.second_reader = cluster, c.read_second = use.who;
        return;
      }
      if (c.reader != kNobody && c.reader != cluster) conflict(c.reader, c.read, false);
      if (c.second_reader != kNobody && c.second_reader != cluster)
        conflict(c.second_reader, c.read_second, false);
      c.writer = cluster;
      c.wrote = use.who;
    });
    if (found) break;
  }
  return found;
}

} // namespace vgpu::check
