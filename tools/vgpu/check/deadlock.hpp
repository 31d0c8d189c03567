// The wait-for graph of a stuck cluster as JSON and as a picture.
#pragma once

#include "tools/vgpu/exec/cluster.hpp"

#include <string>

namespace vgpu::check {

std::string wait_graph_json(const exec::Cluster& cluster);
std::string wait_graph_svg(const exec::Cluster& cluster);
// Writes PREFIX.json and PREFIX.svg; "" or what went wrong.
std::string write_wait_graph(const exec::Cluster& cluster, const std::string& prefix);

} // namespace vgpu::check
