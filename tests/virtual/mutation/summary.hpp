// tests/virtual/mutation.md: a line a kernel, with the hash of the PTX it is about; the mutants
// that survived; the reasons why others are equivalent. Who killed each of them is in the full
// list.
#pragma once

#include "tests/virtual/mutation/table.hpp"

namespace wltest {

// What the page says of a kernel.
struct SummaryLine {
  std::string hash; // "text 0123456789abcdef"
  int killed = 0, survived = 0;
  std::map<std::string, int> equivalent; // by reason
  std::string twins, preface;
  std::vector<std::string> survivors; // rows of their table
};

SummaryLine summary_of(const Section& section, const std::vector<Mutant>& mutants);

// By kernel. Only what summary_page wrote.
std::map<std::string, SummaryLine> read_summary(const std::string& path);

// In the order of `kernels`; `missing` have no line.
std::string summary_page(const std::vector<std::pair<std::string, SummaryLine>>& kernels,
                         const std::vector<std::string>& missing, size_t schedules, int hold_seeds);

} // namespace wltest
