// tests/virtual/mutation.md: a section a row, with the hash of the PTX text it is about, so that a
// run in parts adds up and nothing is said of a text that is gone.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace wltest {

struct Totals {
  int killed = 0, survived = 0, equivalent = 0;
  std::map<std::string, int> by;
};

// The verdict column of a section's table, counted.
Totals count_verdicts(const std::string& section);

std::string hash_text(const std::string& ptx); // "text 0123456789abcdef"

// The sections of a table, by row: from their "## row" on.
std::map<std::string, std::string> read_sections(const std::string& path);

// The whole file. `rows`: all rows in their order; those without a section are listed.
std::string table_text(const std::vector<std::string>& rows,
                       const std::map<std::string, std::string>& sections, size_t schedules);

} // namespace wltest
