// What the tables in the comments at a kernel's head name.
#pragma once

#include <string>
#include <vector>

namespace vgpu::trace {

// Warp -> role from the ROLES table in the comments at a kernel's head ("4-7 | consumer0"), and the
// barriers of its ledger in order, without their index ("full" of "full[s]").
std::vector<std::string> roles_of(const std::vector<std::string>& ptx_lines);
std::vector<std::string> barriers_of(const std::vector<std::string>& ptx_lines);

// The cells of the ledger, by row, without its head and rule.
std::vector<std::vector<std::string>> ledger_of(const std::vector<std::string>& ptx_lines);

} // namespace vgpu::trace
