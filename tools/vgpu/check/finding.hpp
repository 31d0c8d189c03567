// A checker's finding as JSON and as a picture: the accesses it names, the earlier one first.
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <string>

namespace vgpu::check {

std::string finding_json(const exec::Cluster& cluster, const Finding& finding);
std::string finding_svg(const exec::Cluster& cluster, const Finding& finding);
// Writes PREFIX.json and PREFIX.svg; "" or what went wrong.
std::string write_finding(const exec::Cluster& cluster, const Finding& finding,
                          const std::string& prefix);

} // namespace vgpu::check
