// Runs a kernel's mutants against the problems that `make test` runs, in processes of their own.
#pragma once

#include "tests/virtual/semantic/semantic.hpp"

#include <functional>
#include <map>
#include <string>

namespace wltest {

struct Kernel {
  std::string name, text;
  std::vector<SemanticMutant> mutants; // its share of the family's
};

// What a mutant came to: "" = survived, no_ptx, same_code, else what noticed it.
constexpr char no_ptx[] = "refused";
constexpr char same_code[] = "same machine code";
inline bool killed(const std::string* verdict) {
  return verdict != nullptr && !verdict->empty() && *verdict != no_ptx && *verdict != same_code;
}

// Verdicts by key. The file holds what earlier runs found and gets what this one finds, a line
// each.
class Results {
public:
  explicit Results(std::string path);
  const std::string* find(const SemanticMutant& mutant) const;
  void add(const Kernel& kernel, const SemanticMutant& mutant, const std::string& verdict);
  void read(); // what other processes have added

private:
  std::string path_;
  std::map<uint64_t, std::string> known_;
};

struct JudgeOptions {
  uint64_t seed = 1;
  std::string
      driver; // a copy of the virtual GPU that nobody rebuilds meanwhile; "" = the built one
  bool print = false; // every verdict
  // Problems by number; "" = all. Who passes some problems only has no new verdict.
  std::string only;
};

// In a process that holds no device yet: judges what has no result. False when the kernel as it is
// does not pass, or no configuration's problems run it.
bool judge_kernel(const Kernel& kernel, const std::vector<const SemanticMutant*>& mutants,
                  const JudgeOptions& options, Results& results);

// Marks those whose machine code is the kernel's.
void compare_kernel(const Kernel& kernel, const std::vector<const SemanticMutant*>& mutants,
                    Results& results);

} // namespace wltest
