// Bounded exploration of schedules. The schedule "explore:RUNS" runs a launch that often, each time
// from the same memory: first as the policy orders it, then with one point of the schedule come as
// late as can be, each point in turn, then with two, neighbours first. What a run finds names the
// schedule that repeats it, "explore:@POINT,POINT". Points are counted in each cluster alike.
#pragma once

#include "tools/vgpu/exec/cluster.hpp"

#include <functional>

namespace vgpu::exec {

struct Exploration {
  uint64_t runs = 0;          // 0: one run, with these points late
  std::vector<uint64_t> late; // sorted
};

// False when the text is neither explore:RUNS nor explore:@POINT,POINT...
bool parse_exploration(const std::string& text, Exploration& exploration);

// The points that are late in run 1 .. runs - 1 of a launch with so many points; none: no more.
std::vector<uint64_t> late_points(uint64_t run, uint64_t runs, uint64_t points);

// Runs `once` with each schedule. Memory is left as the first run leaves it. Bytes of memory that
// another run leaves differently are advice, since sums of floats may follow the order.
Stats explore(const LaunchSpec& spec, uint64_t runs,
              const std::function<Stats(const LaunchSpec&)>& once);

} // namespace vgpu::exec
