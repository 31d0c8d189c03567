#include "tools/vgpu/trace/write.hpp"

#include "tools/vgpu/exec/cluster.hpp"

#include <cstdlib>
#include <fstream>

namespace vgpu::trace {

namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Rows of the table in the comments under "// HEADING", without its head and rule.
std::vector<std::vector<std::string>> table(const std::vector<std::string>& lines,
                                            const std::string& heading) {
  std::vector<std::vector<std::string>> rows;
  size_t i = 0;
  while (i < lines.size() && lines[i].rfind("// " + heading, 0) != 0) ++i;
  for (++i; i < lines.size() && lines[i].rfind("//   ", 0) == 0; ++i) {
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
  for (const auto& row : table(ptx_lines, "BARRIER LEDGER"))
    if (!row.empty() && !row[0].empty()) names.push_back(row[0].substr(0, row[0].find('[')));
  return names;
}

std::unique_ptr<Timeline> make_timeline(const exec::Cluster& cluster) {
  const exec::LaunchSpec& spec = cluster.spec;
  const uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  Naming naming;
  if (spec.program->module) {
    naming.roles = roles_of(spec.program->module->lines);
    naming.barriers = barriers_of(spec.program->module->lines);
  }
  const exec::Program* program = spec.program;
  naming.line = [program](uint32_t pc) {
    if (pc >= program->code.size() || !program->code[pc].text) return 0;
    return static_cast<int>(program->code[pc].text->line);
  };
  return std::make_unique<Timeline>(static_cast<uint32_t>(cluster.ctas.size()), (threads + 31) / 32,
                                    std::move(naming));
}

std::string write_timeline(Timeline& timeline, const exec::Cluster& cluster) {
  const exec::LaunchSpec& spec = cluster.spec;
  timeline.close();
  const std::string title =
      spec.program->name + " on the virtual " + spec.profile->name + ", cluster " +
      std::to_string(cluster.index) + " of " +
      std::to_string(uint64_t(spec.grid[0]) * spec.grid[1] * spec.grid[2] / cluster.ctas.size());
  const std::string stem = spec.trace + "." + spec.program->name;
  for (const bool svg : {false, true}) {
    const std::string file = stem + (svg ? ".svg" : ".json");
    std::ofstream out(file, std::ios::binary);
    out << (svg ? to_svg(timeline.recording(), title)
                : to_chrome_json(timeline.recording(), title));
    if (!out.flush()) return "the timeline " + file + " cannot be written";
  }
  return "";
}

} // namespace vgpu::trace
