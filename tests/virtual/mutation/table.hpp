// The full list of mutants: a section a kernel, with the hash of the PTX it is about, so that a run
// in parts adds up and nothing is said of a text that is gone. Comments do not count: what is kept
// of a kernel gets its lines, and the reasons of what was not killed, anew.
#pragma once

#include "tests/virtual/mutation/mutants.hpp"

#include <map>
#include <string>
#include <vector>

namespace wltest {

// A kernel and what noticed each of its mutants.
struct Section {
  std::string kernel, hash;
  std::string preface; // a sentence on the kernel itself, or why no mutants were run
  // By mutant: whether it was judged here, and who killed it: "checker/rule (schedule)"; "" =
  // nobody. What is not judged here is judged in another kernel, if at all.
  std::vector<bool> judged;
  std::vector<std::string> killers;
  std::vector<std::string> judge;
};

struct Totals {
  int killed = 0, survived = 0, equivalent = 0;
  std::map<std::string, int> by;
  void add(const Totals& o);
};

std::string hash_code(const std::string& ptx); // "text 0123456789abcdef", without comments

Totals totals(const Section& section, const std::vector<Mutant>& mutants);

// "57 of 68 mutants killed, 11 survived, 8 equivalent"
std::string told(const Totals& totals);

// The section as text: from its "## kernel" on.
std::string section_text(const Section& section, const std::vector<Mutant>& mutants);

// The line of a mutant up to its verdict, without the number of the PTX line.
std::string named(const Mutant& mutant);

// The sections of a file, by kernel, as they stand there.
std::map<std::string, std::string> read_sections(const std::string& path);

// Fills `section` (its kernel and hash are set) from the text that section_text made of it when it
// had these mutants; false when that text is about others.
bool read_section(const std::string& text, const std::vector<Mutant>& mutants, Section& section);

// The whole file. `missing`: the kernels that have no section.
std::string table_text(const Totals& all, const std::vector<std::string>& sections,
                       const std::vector<std::string>& missing, size_t schedules, int hold_seeds);

std::string joined_names(const std::vector<std::string>& words);

} // namespace wltest
