#include "tests/virtual/mutation/summary.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace wltest {

namespace {

const char* const kReason = "- reason ";

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  if (line.rfind("| ", 0) != 0) return out;
  for (size_t at = 2, end; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
    out.push_back(line.substr(std::min(at, end), end - std::min(at, end)));
  return out;
}

} // namespace

SummaryLine summary_of(const Section& section, const std::vector<Mutant>& mutants) {
  SummaryLine l;
  l.hash = section.hash;
  l.twins = joined_names(section.twins);
  l.preface = section.preface;
  for (size_t i = 0; i < section.killers.size(); ++i) {
    if (!section.killers[i].empty()) {
      ++l.killed;
      continue;
    }
    if (const std::string why = equivalent_reason(section.kernel, mutants[i]); !why.empty()) {
      ++l.equivalent[why];
      continue;
    }
    ++l.survived;
    l.survivors.push_back("| " + section.kernel + " | " + std::to_string(mutants[i].line) +
                          named(mutants[i]));
  }
  return l;
}

std::map<std::string, SummaryLine> read_summary(const std::string& path) {
  std::map<std::string, SummaryLine> lines;
  std::map<std::string, std::string> reasons; // by number
  std::vector<std::pair<std::string, std::string>> counts;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(kReason, 0) == 0) {
      const size_t colon = line.find(": ");
      const size_t first = std::string(kReason).size();
      if (colon != std::string::npos)
        reasons[line.substr(first, colon - first)] = line.substr(colon + 2);
    }
    const std::vector<std::string> c = cells(line);
    if (c.size() >= 6 && c[1].size() == 16) {
      SummaryLine& l = lines[c[0]];
      l.hash = "text " + c[1];
      l.killed = std::atoi(c[2].c_str());
      l.survived = std::atoi(c[3].c_str());
      l.twins = c[5] == "-" ? "" : c[5];
      l.preface = c.size() > 6 ? c[6] : "";
      counts.emplace_back(c[0], c[4]);
    } else if (c.size() > 3 && lines.count(c[0])) {
      lines[c[0]].survivors.push_back(line);
    }
  }
  for (const auto& [kernel, text] : counts) {
    std::istringstream words(text); // "3 of 1, 2 of 4"
    std::string count, of, number;
    while (words >> count >> of >> number) {
      if (number.back() == ',') number.pop_back();
      if (reasons.count(number))
        lines[kernel].equivalent[reasons[number]] = std::atoi(count.c_str());
    }
  }
  return lines;
}

std::string summary_page(const std::vector<std::pair<std::string, SummaryLine>>& kernels,
                         const std::vector<std::string>& missing, size_t schedules,
                         int hold_seeds) {
  int killed = 0, survived = 0, equivalent = 0;
  std::map<std::string, int> numbers, totals;
  std::vector<std::string> reasons;
  std::ostringstream table, survivors, text;
  for (const auto& [name, l] : kernels) {
    killed += l.killed;
    survived += l.survived;
    std::string counts;
    for (const auto& [why, count] : l.equivalent) {
      if (numbers.emplace(why, static_cast<int>(reasons.size()) + 1).second) reasons.push_back(why);
      counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " of " +
                std::to_string(numbers[why]);
      totals[why] += count;
      equivalent += count;
    }
    table << "| " << name << " | " << l.hash.substr(l.hash.find(' ') + 1) << " | " << l.killed
          << " | " << l.survived << " | " << (counts.empty() ? "-" : counts) << " | "
          << (l.twins.empty() ? "-" : l.twins) << " | " << l.preface << " |\n";
    for (const std::string& line : l.survivors) survivors << line << "\n";
  }
  const int judged = killed + survived;
  text << "# Mutants of the shipped kernels: synchronisation\n\n"
          "Written by `make mutation`: every synchronising instruction of a kernel is deleted or "
          "bent, one at a time,\nand the mutant runs on the virtual GPU with all checkers, advice "
          "and the kernel's own BARRIER LEDGER, under "
       << schedules
       << " schedules,\nand if nobody kills it there and no reason makes it equivalent under "
       << hold_seeds
       << " of `hold:SEED`. The full list, with\nwho killed each, is "
          "`build/mutation/synchronising.md`. Everything here ran on the virtual GPU only. A line "
          "names the hash of its PTX:\nkernels whose text has changed since are run again by the "
          "next `make mutation`, the others stay.\n\n**"
       << killed << " of " << judged << " killed (" << (judged ? killed * 1000 / judged / 10.0 : 0)
       << " %), " << survived << " survived, " << equivalent << " equivalent, in " << kernels.size()
       << " kernels.**\n\n";
  if (!missing.empty())
    text << "Not run with their present text: " << joined_names(missing) << ".\n\n";
  text << "| kernel | text | killed | survived | equivalent, by reason | the same but for the type "
          "of D | |\n|---|---|---|---|---|---|---|\n"
       << table.str() << "\n## Survivors\n\n";
  if (survived == 0)
    text << "None.\n";
  else
    text << "| kernel | line | after | instruction | change |\n|---|---|---|---|---|\n"
         << survivors.str();
  text << "\n## Why mutants are equivalent\n\n";
  for (size_t i = 0; i < reasons.size(); ++i)
    text << kReason << i + 1 << ": " << reasons[i] << "\n";
  return text.str();
}

} // namespace wltest
