#include "tools/vgpu/trace/head.hpp"

#include <cstdlib>

namespace vgpu::trace {

namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Rows of the table in the comments under "// HEADING", without its head and rule. Where a line
// depends on the configuration, preprocessing leaves empty lines.
std::vector<std::vector<std::string>> table(const std::vector<std::string>& lines,
                                            const std::string& heading) {
  std::vector<std::vector<std::string>> rows;
  size_t i = 0;
  while (i < lines.size() && lines[i].rfind("// " + heading, 0) != 0) ++i;
  for (++i; i < lines.size() && (lines[i].empty() || lines[i].rfind("//   ", 0) == 0); ++i) {
    if (lines[i].empty()) continue;
    if (lines[i].rfind("//   |", 0) != 0) {
      if (!rows.empty()) break;
      continue;
    }
    std::vector<std::string> cells;
    for (size_t at = lines[i].find('|'); at != std::string::npos;) {
      const size_t end = lines[i].find('|', at + 1);
      if (end == std::string::npos) break;
      cells.push_back(trimmed(lines[i].substr(at + 1, end - at - 1)));
      at = end;
    }
    rows.push_back(std::move(cells));
  }
  if (rows.size() < 2) return {};
  rows.erase(rows.begin(), rows.begin() + 2);
  return rows;
}

} // namespace

std::vector<std::string> roles_of(const std::vector<std::string>& ptx_lines) {
  std::vector<std::string> roles;
  for (const auto& row : table(ptx_lines, "ROLES")) {
    if (row.size() < 2 || row[0].empty()) continue; // goes on from the row above
    char* rest = nullptr;
    const unsigned long first = std::strtoul(row[0].c_str(), &rest, 10);
    unsigned long last = first;
    if (*rest == '-') last = rest[1] ? std::strtoul(rest + 1, nullptr, 10) : 31;
    for (unsigned long w = first; w <= last && w < 32; ++w) {
      if (roles.size() <= w) roles.resize(w + 1);
      roles[w] = row[1];
    }
  }
  return roles;
}

std::vector<std::string> barriers_of(const std::vector<std::string>& ptx_lines) {
  std::vector<std::string> names;
  for (const auto& row : ledger_of(ptx_lines))
    if (!row.empty() && !row[0].empty()) names.push_back(row[0].substr(0, row[0].find('[')));
  return names;
}

std::vector<std::vector<std::string>> ledger_of(const std::vector<std::string>& ptx_lines) {
  return table(ptx_lines, "BARRIER LEDGER");
}

} // namespace vgpu::trace
