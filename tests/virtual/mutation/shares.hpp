// Which kernel is judged by which of its mutants: a fault that kernels have in common is run in one
// of them, which stands for the others.
#pragma once

#include "tests/virtual/mutation/mutants.hpp"

#include <string>
#include <vector>

namespace wltest {

struct Share {
  std::string kernel;
  double work = 1; // of one run, in any unit
  std::vector<Mutant> mutants;
  std::vector<bool> told;    // by mutant: an earlier run of this text has judged it
  std::vector<size_t> judge; // by mutant: the kernel that it is judged in
  std::vector<bool> here;    // by mutant: that is this one
};

// Sets `judge` and `here` in all. What an earlier run has told counts, then kernels are taken that
// judge most for their work; never, where another has the place, one in which there is a reason why
// the mutant would survive. With `all` a kernel judges all its own, as those named in `whole` do.
// Returns the kernels that judge any, those first that are the first of their operation and target.
std::vector<size_t> share_out(std::vector<Share>& kernels, bool all,
                              const std::vector<std::string>& whole);

} // namespace wltest
