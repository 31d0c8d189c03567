// tests/virtual/mutation.md: a line for each kernel that judged mutants, with the hash of the PTX
// it is about; who stands for the other kernels; the mutants that survived; the reasons why others
// are equivalent. Who killed each of them is in the full list.
#pragma once

#include "tests/virtual/mutation/table.hpp"

namespace wltest {

// What the page says of a kernel.
struct SummaryLine {
  std::string hash; // "text 0123456789abcdef"
  std::vector<bool> judged;
  int killed = 0, survived = 0;
  std::map<std::string, int> equivalent; // by reason
  std::string preface;
  std::vector<std::string> survivors; // rows of their table
};

SummaryLine summary_of(const Section& section, const std::vector<Mutant>& mutants);

// By kernel. Only what summary_page wrote.
std::map<std::string, SummaryLine> read_summary(const std::string& path);

// Of a kernel, those which judge mutants that it does not, and how many of its places and sites
// nobody has judged yet.
struct StandIns {
  std::string kernel;
  std::vector<std::string> judges;
  size_t open = 0, open_sites = 0;
};

struct Counts {
  size_t kernels, mutants, different, judged; // of the mutants' different ones, those judged
  size_t sites, judged_sites;
};

// In the order of `kernels`.
std::string summary_page(const std::vector<std::pair<std::string, SummaryLine>>& kernels,
                         const std::vector<StandIns>& others, const Counts& counts,
                         size_t schedules, int hold_seeds);

} // namespace wltest
