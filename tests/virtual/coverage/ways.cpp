#include "tests/virtual/coverage/ways.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace wltest::coverage {

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t\r") + 1 - first);
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  for (size_t at = 0; at != std::string::npos;) {
    const size_t end = text.find(by, at);
    parts.push_back(trimmed(text.substr(at, end == std::string::npos ? end : end - at)));
    at = end == std::string::npos ? end : end + by.size();
  }
  return parts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool Explanation::of(const vgpu::trace::Coverage::Kernel& kernel) const {
  const auto has = [&](const std::string& text) {
    return std::any_of(kernel.lines.begin(), kernel.lines.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  };
  return std::regex_match(kernel.name, of_kernels) &&
         std::all_of(where.begin(), where.end(), has) &&
         std::none_of(without.begin(), without.end(), has);
}

bool Explanation::covers(const Way& w) const {
  return (way == "both" || way == w.way) && std::regex_match(w.statement, of_statements) &&
         std::regex_match(w.label, of_labels);
}

std::vector<Explanation> read_explanations(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + " cannot be read");
  std::vector<Explanation> all;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trimmed(line).empty() || line[0] == '#') continue;
    // A bar inside a regular expression has no spaces around it.
    const std::vector<std::string> fields = split(line, " | ");
    const bool way = fields.size() == 5 &&
                     (fields[3] == "taken" || fields[3] == "passed" || fields[3] == "both");
    if (!way || fields[4].empty())
      throw std::runtime_error(path + ":" + std::to_string(number) +
                               ": kernels | label | statement | taken, passed or both | reason");
    Explanation e{fields[0],
                  fields[1],
                  fields[2],
                  fields[3],
                  fields[4],
                  {},
                  std::regex(fields[1]),
                  std::regex(fields[2]),
                  {},
                  {}};
    const std::vector<std::string> kernels = split(fields[0], "; ");
    e.of_kernels = std::regex(kernels[0]);
    for (size_t i = 1; i < kernels.size(); ++i) {
      const bool has = kernels[i].starts_with("where ");
      if (!has && !kernels[i].starts_with("without "))
        throw std::runtime_error(path + ":" + std::to_string(number) + ": where or without");
      (has ? e.where : e.without).push_back(kernels[i].substr(has ? 6 : 8));
    }
    all.push_back(std::move(e));
  }
  return all;
}

std::vector<std::string> labels_of(const std::vector<std::string>& lines) {
  static const std::regex label_line(R"(\s*([$%\w]+):.*)");
  std::vector<std::string> labels(lines.size() + 1), around;
  std::string label;
  for (size_t n = 0; n < lines.size(); ++n) {
    const std::string text = lines[n].substr(0, lines[n].find("//"));
    const auto opened = std::count(text.begin(), text.end(), '{'),
               closed = std::count(text.begin(), text.end(), '}');
    if (opened > closed) around.push_back(label);
    if (closed > opened && !around.empty()) {
      label = around.back();
      around.pop_back();
    }
    std::smatch m;
    if (std::regex_match(text, m, label_line))
      label = m[1] == "wait" && !around.empty() && !around.back().empty() ? around.back() + "/wait"
                                                                          : m[1].str();
    labels[n + 1] = label;
  }
  return labels;
}

std::vector<Way> ways_left(const vgpu::trace::Coverage::Kernel& kernel) {
  const std::vector<std::string> labels = labels_of(kernel.lines);
  std::vector<Way> left;
  for (const auto& [place, item] : kernel.items) {
    if (!item.branch) continue;
    const auto line = size_t(place.first);
    const std::string text = line <= kernel.lines.size() ? trimmed(kernel.lines[line - 1]) : "";
    for (const bool taken : {true, false})
      if ((taken ? item.cell.ran : item.cell.skipped) == 0)
        left.push_back({line < labels.size() ? labels[line] : "", text, taken ? "taken" : "passed",
                        place.first});
  }
  return left;
}

namespace {

// Lines with code, without comments, and their numbers, from 1.
std::vector<std::pair<std::string, int>> code_of(const std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, int>> code;
  for (size_t n = 0; n < lines.size(); ++n)
    if (const std::string text = trimmed(lines[n].substr(0, lines[n].find("//"))); !text.empty())
      code.emplace_back(text, static_cast<int>(n) + 1);
  return code;
}

} // namespace

bool counts_of(const vgpu::trace::Coverage& ran, const std::string& entry,
               const std::vector<std::string>& lines, vgpu::trace::Coverage::Kernel* kernel) {
  *kernel = {entry, lines, {}};
  const auto present = code_of(lines);
  bool found = false;
  for (const vgpu::trace::Coverage::Kernel& other : ran.kernels()) {
    if (other.name != entry) continue;
    const auto code = code_of(other.lines);
    if (!std::equal(code.begin(), code.end(), present.begin(), present.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first; }))
      continue;
    found = true;
    std::map<int, int> line_of;
    for (size_t i = 0; i < code.size(); ++i) line_of[code[i].second] = present[i].second;
    for (const auto& [place, item] : other.items) {
      vgpu::trace::Coverage::Item& to = kernel->items[{line_of[place.first], place.second}];
      to.branch |= item.branch;
      to.cell.ran += item.cell.ran;
      to.cell.skipped += item.cell.skipped;
    }
  }
  return found;
}

} // namespace wltest::coverage
