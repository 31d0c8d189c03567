// Races over global memory between clusters. Clusters that use no flag (a strong access of global
// memory) are ordered by nothing inside a launch, so what two of them touch must not conflict.
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/check/shadow.hpp"

#include <mutex>
#include <optional>

namespace vgpu::check {

// Bytes of global memory that a cluster wrote, or read, last by `who`.
struct GlobalUse {
  uint64_t lo = 0, hi = 0;
  bool write = false;
  Who who;
};

class GridRaces {
public:
  struct Conflict {
    GlobalUse mine, other;
    uint64_t lo = 0, hi = 0;
    uint64_t other_cluster = 0;
  };
  // Adds what a cluster did; the first conflict with an earlier one, if there is any.
  std::optional<Conflict> add(uint64_t cluster, const std::vector<GlobalUse>& uses);

private:
  static constexpr uint64_t kNobody = ~0ull;
  struct Cell {
    uint64_t writer = kNobody, reader = kNobody, second_reader = kNobody;
    Who wrote, read, read_second;
  };
  std::mutex mutex_;
  Intervals<Cell> cells_;
};

} // namespace vgpu::check
