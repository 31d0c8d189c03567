// Mutants of a kernel: its PTX with one synchronising instruction deleted or bent.
#pragma once

#include "tests/virtual/mutation/statement.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace wltest {

struct Mutant {
  int line = 0;              // 1-based, in the expanded PTX
  std::string change;        // "delete", "expected bytes + 16", ...
  std::string instruction;   // the statement as it was
  std::string label;         // the nearest label before it
  std::string before, after; // the two statements before and after it, without comments
  std::string line_text;     // what stands there instead
  // Equal for the same change of the same place (places.hpp), in whatever kernel.
  uint64_t identity = 0;
  uint64_t site = 0; // the same whatever stands around it
};

bool synchronises(const Statement& statement); // has mutants

// Every mutant of every synchronising instruction, in the order of the lines.
std::vector<Mutant> make_mutants(const std::string& ptx);
std::string mutated(const std::string& ptx, const Mutant& mutant);

// Why a mutant that survives cannot be told from the kernel by any run; "" when there is no reason.
std::string equivalent_reason(const std::string& kernel, const Mutant& mutant);

} // namespace wltest
