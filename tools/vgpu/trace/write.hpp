// Between the executor and the timeline: names of roles, barriers and lines, and the files.
#pragma once

#include "tools/vgpu/trace/timeline.hpp"

namespace vgpu::exec {
class Cluster;
}

namespace vgpu::trace {

std::unique_ptr<Timeline> make_timeline(const exec::Cluster& cluster);

// LaunchSpec::trace is a prefix: writes PREFIX.KERNEL.json and PREFIX.KERNEL.svg. "" or what is
// wrong.
std::string write_timeline(Timeline& timeline, const exec::Cluster& cluster);

// Warp -> role from the ROLES table in the comments at a kernel's head ("4-7 | consumer0"), and the
// barriers of its ledger in order, without their index ("full" of "full[s]").
std::vector<std::string> roles_of(const std::vector<std::string>& ptx_lines);
std::vector<std::string> barriers_of(const std::vector<std::string>& ptx_lines);

} // namespace vgpu::trace
