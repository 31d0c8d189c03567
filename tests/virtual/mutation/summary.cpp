#include "tests/virtual/mutation/summary.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace wltest {

namespace {

const char* const kReason = "- reason ";
const char* const kSurvivors = "## Survivors";

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  if (line.rfind("| ", 0) != 0) return out;
  for (size_t at = 2, end; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
    out.push_back(line.substr(std::min(at, end), end - std::min(at, end)));
  return out;
}

// "5:0f": five mutants, the first four of them.
std::string bits_text(const std::vector<bool>& bits) {
  std::string text = std::to_string(bits.size()) + ":";
  for (size_t first = 0; first < bits.size(); first += 8) {
    unsigned byte = 0;
    for (size_t i = first; i < std::min(first + 8, bits.size()); ++i)
      byte |= static_cast<unsigned>(bits[i]) << (i - first);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}
std::vector<bool> bits_of(const std::string& text) {
  const size_t colon = text.find(':');
  std::vector<bool> bits(static_cast<size_t>(std::atol(text.c_str())), false);
  for (size_t i = 0; colon != std::string::npos && i < bits.size(); ++i) {
    const size_t at = colon + 1 + i / 8 * 2;
    if (at + 2 > text.size()) return {};
    bits[i] = (std::stoul(text.substr(at, 2), nullptr, 16) >> (i % 8) & 1) != 0;
  }
  return bits;
}

} // namespace

SummaryLine summary_of(const Section& section, const std::vector<Mutant>& mutants) {
  SummaryLine l;
  l.hash = section.hash;
  l.judged = section.judged;
  l.preface = section.preface;
  for (size_t i = 0; i < section.killers.size(); ++i) {
    if (!section.judged[i]) continue;
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
  bool survivors = false; // rows of other tables begin with kernels, too
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("## ", 0) == 0) survivors = line == kSurvivors;
    if (line.rfind(kReason, 0) == 0) {
      const size_t colon = line.find(": ");
      const size_t first = std::string(kReason).size();
      if (colon != std::string::npos)
        reasons[line.substr(first, colon - first)] = line.substr(colon + 2);
    }
    const std::vector<std::string> c = cells(line);
    if (c.size() >= 7 && c[2].size() == 16) {
      SummaryLine& l = lines[c[1]];
      l.hash = "text " + c[2];
      l.killed = std::atoi(c[3].c_str());
      l.survived = std::atoi(c[4].c_str());
      l.judged = bits_of(c[6]);
      l.preface = c.size() > 7 ? c[7] : "";
      counts.emplace_back(c[1], c[5]);
    } else if (survivors && c.size() > 3 && lines.count(c[0])) {
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
                         const std::vector<StandIns>& others, const Counts& of, size_t schedules,
                         int hold_seeds) {
  int killed = 0, survived = 0, equivalent = 0;
  std::map<std::string, int> numbers; // of reasons
  std::map<std::string, size_t> places;
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
      equivalent += count;
    }
    const size_t number = places.size() + 1;
    places[name] = number;
    table << "| " << number << " | " << name << " | " << l.hash.substr(l.hash.find(' ') + 1)
          << " | " << l.killed << " | " << l.survived << " | " << (counts.empty() ? "-" : counts)
          << " | " << bits_text(l.judged) << " | " << l.preface << " |\n";
    for (const std::string& line : l.survivors) survivors << line << "\n";
  }
  std::vector<std::pair<std::string, std::string>> alike; // by who stands for them: kernels
  for (const StandIns& o : others) {
    std::vector<size_t> by;
    for (const std::string& judge : o.judges)
      if (places.count(judge)) by.push_back(places[judge]);
    std::sort(by.begin(), by.end());
    std::string list;
    for (const size_t number : by) list += (list.empty() ? "" : ", ") + std::to_string(number);
    const auto count = [](size_t n) { return n ? std::to_string(n) : std::string("-"); };
    list = (list.empty() ? "-" : list) + " | " + count(o.open_sites) + " | " + count(o.open);
    auto same = std::find_if(alike.begin(), alike.end(), [&](auto& a) { return a.first == list; });
    if (same == alike.end())
      alike.emplace_back(list, o.kernel);
    else
      same->second += ", " + o.kernel;
  }
  const int judged = killed + survived;
  text
      << "# Mutants of the shipped kernels: synchronisation\n\n"
         "Written by `make mutation`: every synchronising instruction of a kernel is deleted or "
         "bent, one at a time,\nand the mutant runs on the virtual GPU with all checkers, advice "
         "and the kernel's own BARRIER LEDGER, under up\nto "
      << schedules
      << " schedules; if nobody kills it there and no reason makes it equivalent, under "
      << hold_seeds
      << " of `hold:SEED` too; with a\nreason, under four. What kills a mutant must leave the "
         "kernel as it is alone. The full list, with who killed each,\nis `build/mutation/"
         "synchronising.md`. Everything here ran on the virtual GPU only. A line names the hash of "
         "its PTX:\nkernels whose text has changed since are run again by the next `make "
         "mutation`.\n\n"
         "**One for all.** The "
      << of.kernels << " kernels have " << of.mutants << " mutants, and " << of.different
      << " different ones. Two are the same, and are run in one\nkernel, which stands for the "
         "others, where the change is the same and the places are: the chip, the label "
         "before,\nthe statement with its guard and operands, the two synchronising statements "
         "before it and "
         "the two behind, which\nkinds of memory are read and written between them and by what "
         "unit, "
         "and, of an mbarrier, all these of every\nstatement that names it. Numbers and types of "
         "elements are put away: sizes of tiles, stages of a ring, offsets,\ncounts and bytes. So "
         "a wait, fence or arrival whose absence would be noticed in one kernel would be noticed "
         "in "
         "the\nothers. What that does not cover is a number that is wrong in one of them: a count, "
         "bytes or a stage too many, a\nbarrier's offset. Numbers of the dual GEMM's and the "
         "linear form's configurations are compared with their BARRIER\nLEDGER (`make test`, "
         "`check_ledger_test.cpp`; of types of D in 16 bits, FP16), and drawn problems of every "
         "configuration\nturn its rings. `--all` judges every mutant of every kernel.\n\n**Sites "
         "first.** A site is a line of the sources with a kind of change: the chip, the label "
         "before, the statement, numbers and\ntypes put away, whatever stands around it. A mutant "
         "of each site is run before the rest of the different ones, in the\nkernel that costs "
         "least and brings most sites. A run that is cut short goes on where it "
         "stopped.\n\n**"
      << killed << " of " << judged << " killed (" << (judged ? killed * 1000 / judged / 10.0 : 0)
      << " %), " << survived << " survived, " << equivalent << " equivalent, in " << kernels.size()
      << " kernels.** Of " << of.sites << " sites " << of.judged_sites << " are judged, "
      << of.sites - of.judged_sites << " not yet; of the different mutants " << of.judged << ", "
      << of.different - of.judged
      << " not yet.\n\n"
         "| no. | kernel | text | killed | survived | equivalent, by reason | which of its mutants "
         "were run | |\n|---|---|---|---|---|---|---|---|\n"
      << table.str()
      << "\n## Who stands for the rest\n\nNumbers of the table above. Mutants that nobody has run "
         "yet are counted in each kernel that has them.\n\n"
         "| kernels | judged in | sites not judged | mutants not judged |\n|---|---|---|---|\n";
  for (const auto& [list, names] : alike) text << "| " << names << " | " << list << " |\n";
  text << "\n" << kSurvivors << "\n\n";
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
