// What launches ask of functions.
#pragma once

#include "tools/vgpu/driver/state.hpp"

namespace vgpu::driver {

// CTAs that an SM holds at once; 0 when the launch would be refused.
int blocks_per_sm(const exec::Profile& profile, const Function& function, int threads,
                  size_t dynamic_shared);
// .explicitcluster without .reqnctapercluster: every launch must name the cluster.
bool needs_explicit_cluster(const Function& function);

} // namespace vgpu::driver
