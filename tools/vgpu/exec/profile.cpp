// Device profiles. Figures are those the CUDA driver reports for the real cards; the L2 sizes and
// SM counts are facts/performance.md's.
#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>

namespace vgpu::exec {

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> all = [] {
    Profile b200;
    b200.name = "b200";
    b200.full_name = "warpline virtual B200";
    b200.major = 10;
    b200.minor = 0;
    b200.sm_count = 148;
    b200.l2_bytes = 126 << 20;
    b200.memory_bytes = 180ull << 30;
    b200.has_tensor_memory = true;
    Profile b300 = b200;
    b300.name = "b300";
    b300.full_name = "warpline virtual B300";
    b300.minor = 3;
    b300.memory_bytes = 268ull << 30;
    Profile h200;
    h200.name = "h200";
    h200.full_name = "warpline virtual H200";
    h200.major = 9;
    h200.minor = 0;
    h200.sm_count = 132;
    h200.l2_bytes = 60 << 20;
    h200.memory_bytes = 141ull << 30;
    return std::vector<Profile>{b200, b300, h200};
  }();
  return all;
}

const Profile* find_profile(const std::string& name) {
  for (const Profile& p : profiles())
    if (p.name == name) return &p;
  return nullptr;
}

void Stats::add(const Stats& o) {
  schedule_points = std::max(schedule_points, o.schedule_points);
  warp_instructions += o.warp_instructions;
  mma += o.mma;
  mma_flops += o.mma_flops;
  tensor_copies += o.tensor_copies;
  tma_loads += o.tma_loads;
  tma_load_bytes += o.tma_load_bytes;
  tma_stores += o.tma_stores;
  tma_store_bytes += o.tma_store_bytes;
  blocked_waits += o.blocked_waits;
  operations += o.operations;
  global_load_bytes += o.global_load_bytes;
  global_store_bytes += o.global_store_bytes;
  store_sectors += o.store_sectors;
  partial_sectors += o.partial_sectors;
  bank_turns += o.bank_turns;
  least_bank_turns += o.least_bank_turns;
  if (o.stages != 0) {
    stages = o.stages;
    stage_ticks = o.stage_ticks;
    filled_ticks = o.filled_ticks;
  }
  for (const auto& [place, t] : o.told) {
    auto [it, fresh] = told.try_emplace(place, t);
    if (!fresh) it->second.count += t.count;
  }
}

std::string Told::full() const {
  return count < 2 ? text : text + "\n    " + std::to_string(count) + " times here";
}

std::set<std::string> Stats::texts(check::Grade grade) const {
  std::set<std::string> s;
  for (const auto& [place, t] : told)
    if (t.grade == grade) s.insert(t.full());
  return s;
}

} // namespace vgpu::exec
