#include "tests/virtual/mutation/table.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace wltest {

Totals count_verdicts(const std::string& section) {
  Totals t;
  std::istringstream in(section);
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 4 || line[0] != '|' || line[2] < '0' || line[2] > '9') continue;
    const size_t at = line.rfind(" | ", line.size() - 3);
    const std::string verdict = line.substr(at + 3, line.size() - at - 5);
    if (verdict.rfind("**survived**", 0) == 0) {
      ++t.survived;
    } else if (verdict.rfind("equivalent", 0) == 0) {
      ++t.equivalent;
    } else {
      ++t.killed;
      ++t.by[verdict.substr(0, verdict.find(" ("))];
    }
  }
  return t;
}

std::string hash_text(const std::string& ptx) {
  uint64_t h = 0xCBF29CE484222325ull; // FNV-1a
  for (const char c : ptx) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  char text[32];
  std::snprintf(text, sizeof text, "text %016llx", static_cast<unsigned long long>(h));
  return text;
}

std::map<std::string, std::string> read_sections(const std::string& path) {
  std::map<std::string, std::string> sections;
  std::ifstream in(path);
  std::string* section = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("## ", 0) == 0) section = &sections[line.substr(3)];
    if (section) *section += line + "\n";
  }
  return sections;
}

std::string table_text(const std::vector<std::string>& rows,
                       const std::map<std::string, std::string>& sections, size_t schedules) {
  Totals all;
  std::string body, missing;
  for (const std::string& row : rows) {
    auto s = sections.find(row);
    if (s == sections.end()) {
      missing += (missing.empty() ? "" : ", ") + row;
      continue;
    }
    body += "\n" + s->second.substr(0, s->second.find_last_not_of('\n') + 1) + "\n";
    const Totals t = count_verdicts(s->second);
    all.killed += t.killed;
    all.survived += t.survived;
    all.equivalent += t.equivalent;
    for (const auto& [by, n] : t.by) all.by[by] += n;
  }
  const int judged = all.killed + all.survived;
  std::ostringstream text;
  text
      << "# Mutants of the shipped kernels\n\n"
      << "Written by `make mutation`: every synchronising instruction of a kernel is deleted or "
         "bent, one at a time,\nand the mutant runs on the virtual GPU with all checkers and "
         "advice, under "
      << schedules
      << " schedules. *result*: no checker spoke, but D was wrong.\nEverything here ran on the "
         "virtual GPU only. A section names the hash of its PTX: rows whose text has changed since "
         "are run\nagain by the next `make mutation`, the others stay.\n\n"
      << "**" << all.killed << " of " << judged << " killed ("
      << (judged ? all.killed * 1000 / judged / 10.0 : 0) << " %), " << all.survived
      << " survived, " << all.equivalent << " equivalent.**\n\n";
  if (!missing.empty()) text << "Not run with their present text: " << missing << ".\n\n";
  text << "| killed by | mutants |\n|---|---|\n";
  for (const auto& [by, n] : all.by) text << "| " << by << " | " << n << " |\n";
  return text.str() + body;
}

} // namespace wltest
