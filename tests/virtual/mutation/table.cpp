#include "tests/virtual/mutation/table.hpp"
#include "tests/support/fnv.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace wltest {

namespace {

const char* const kPtx = "PTX ";
const char* const kElsewhere = "as in ";

std::string cell(std::string s) {
  if (s.size() > 96) s = s.substr(0, 93) + "...";
  for (size_t at = 0; (at = s.find('|', at)) != std::string::npos; at += 2) s.insert(at, "\\");
  return s;
}

bool is_mutant(const std::string& line) {
  return line.size() > 4 && line[0] == '|' && line[2] >= '0' && line[2] <= '9';
}

} // namespace

std::string named(const Mutant& m) {
  return " | " + cell(m.label) + " | `" + cell(m.instruction) + "` | " + m.change + " | ";
}

void Totals::add(const Totals& o) {
  killed += o.killed;
  survived += o.survived;
  equivalent += o.equivalent;
  for (const auto& [name, n] : o.by) by[name] += n;
}

std::string joined_names(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

std::string hash_code(const std::string& ptx) {
  uint64_t h = fnv_basis;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) {
    line.erase(std::min(line.find("//"), line.size()));
    line.erase(line.find_last_not_of(" \t") + 1);
    if (line.empty()) continue;
    h = fnv("\n", fnv(line, h));
  }
  char text[32];
  std::snprintf(text, sizeof text, "text %016llx", static_cast<unsigned long long>(h));
  return text;
}

Totals totals(const Section& section, const std::vector<Mutant>& mutants) {
  Totals t;
  for (size_t i = 0; i < section.killers.size(); ++i) {
    if (!section.judged[i]) continue;
    const std::string& by = section.killers[i];
    if (!by.empty()) {
      ++t.killed;
      ++t.by[by.substr(0, by.find(" ("))];
    } else {
      ++(equivalent_reason(section.kernel, mutants[i]).empty() ? t.survived : t.equivalent);
    }
  }
  return t;
}

std::string told(const Totals& t) {
  return std::to_string(t.killed) + " of " + std::to_string(t.killed + t.survived) +
         " mutants killed, " + std::to_string(t.survived) + " survived, " +
         std::to_string(t.equivalent) + " equivalent";
}

std::string section_text(const Section& s, const std::vector<Mutant>& mutants) {
  std::ostringstream out;
  out << "## " << s.kernel << "\n\n" << kPtx << s.hash << ".";
  if (!s.preface.empty()) out << "\n" << s.preface << "\n";
  if (s.killers.empty()) return out.str() + "\n";
  out << (s.preface.empty() ? " " : "\n") << told(totals(s, mutants)) << ".";
  out << "\n\n| line | after | instruction | change | killed by |\n|---|---|---|---|---|\n";
  for (size_t i = 0; i < mutants.size(); ++i) {
    const Mutant& m = mutants[i];
    std::string verdict = s.killers[i];
    if (!s.judged[i]) {
      verdict = kElsewhere + (i < s.judge.size() ? s.judge[i] : std::string());
    } else if (verdict.empty()) {
      const std::string why = equivalent_reason(s.kernel, m);
      verdict = why.empty() ? "**survived**" : "equivalent: " + why;
    }
    out << "| " << m.line << named(m) << verdict << " |\n";
  }
  return out.str();
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

bool read_section(const std::string& text, const std::vector<Mutant>& mutants, Section& s) {
  const size_t hash = text.find(kPtx + s.hash + ".");
  if (hash == std::string::npos) return false;
  std::istringstream in(text.substr(hash));
  std::string line;
  std::getline(in, line);
  if (line == kPtx + s.hash + ".") {
    std::getline(in, s.preface);
    std::getline(in, line);
  }
  while (std::getline(in, line)) {
    if (!is_mutant(line)) continue;
    const size_t i = s.killers.size(), number = line.find(" | ");
    if (i == mutants.size() || number == std::string::npos) return false;
    const std::string name = named(mutants[i]);
    if (line.compare(number, name.size(), name) != 0) return false;
    const size_t at = number + name.size();
    if (line.size() < at + 2) return false;
    std::string verdict = line.substr(at, line.size() - at - 2);
    if (verdict.rfind("**survived**", 0) == 0 || verdict.rfind("equivalent", 0) == 0)
      verdict.clear();
    s.judged.push_back(verdict.rfind(kElsewhere, 0) != 0);
    s.killers.push_back(verdict);
  }
  return s.killers.size() == mutants.size();
}

std::string table_text(const Totals& all, const std::vector<std::string>& sections,
                       const std::vector<std::string>& missing, size_t schedules, int hold_seeds) {
  const int judged = all.killed + all.survived;
  std::ostringstream text;
  text << "# Mutants of the shipped kernels\n\n"
       << "Written by `make mutation`; what it does stands in tests/virtual/mutation.md. *result*: "
          "no checker spoke, but D was wrong.\nSchedules: "
       << schedules << ", and " << hold_seeds
       << " of `hold:SEED`. Everything here ran on the virtual GPU only.\n\n"
       << "**" << all.killed << " of " << judged << " killed ("
       << (judged ? all.killed * 1000 / judged / 10.0 : 0) << " %), " << all.survived
       << " survived, " << all.equivalent << " equivalent, in " << sections.size()
       << " kernels.**\n\n";
  if (!missing.empty()) text << "Mutants not judged yet in: " << joined_names(missing) << ".\n\n";
  text << "| killed by | mutants |\n|---|---|\n";
  for (const auto& [by, n] : all.by) text << "| " << by << " | " << n << " |\n";
  for (const std::string& section : sections) text << "\n" << section;
  return text.str();
}

} // namespace wltest
