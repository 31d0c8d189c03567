// tests/virtual/semantic.md: a line a kernel, with the hash of the mutants that it is about; the
// mutants that survived; and why some have no effect.
#pragma once

#include "tests/virtual/semantic/judge.hpp"

#include <map>
#include <string>

namespace wltest {

class SemanticPage {
public:
  // Reads what the file says; "" = no file.
  explicit SemanticPage(std::string path);
  // Whether it tells of all of these mutants of the kernel.
  bool tells(const Kernel& kernel) const;
  // `elsewhere`: by the key of a mutant, the same change in other kernels.
  void write(const std::vector<Kernel>& kernels, const Results& results,
             const std::map<uint64_t, Elsewhere>& elsewhere);
  std::string told() const { return told_; } // of what was written last

private:
  struct Line {
    std::string hash;
    int killed = 0, survived = 0, without_effect = 0, refused = 0;
    int left = 0;                       // that nobody judged
    std::vector<std::string> survivors; // cells of the table
    std::map<std::string, int> reasons;
  };
  std::string path_, told_, drawn_; // drawn_: the section "Drawn", which a person writes
  std::map<std::string, Line> before_;
};

} // namespace wltest
