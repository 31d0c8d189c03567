// Between the executor and the timeline.
#pragma once

#include "tools/vgpu/trace/head.hpp"
#include "tools/vgpu/trace/timeline.hpp"

namespace vgpu::exec {
class Cluster;
}

namespace vgpu::trace {

std::unique_ptr<Timeline> make_timeline(const exec::Cluster& cluster);

// LaunchSpec::trace is a prefix: writes PREFIX.KERNEL.json and PREFIX.KERNEL.svg. "" or what is
// wrong.
std::string write_timeline(Timeline& timeline, const exec::Cluster& cluster);

} // namespace vgpu::trace
