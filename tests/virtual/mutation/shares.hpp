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
  std::vector<bool> ahead;   // of these: the first of a site of which none is judged yet
};

// In the order in which kernels judge.
struct Turns {
  std::vector<size_t> ahead; // those with mutants to be judged ahead, most sites for its work first
  std::vector<size_t> all;   // all; the first of each operation and target come first
};

// Sets `judge`, `here` and `ahead` in all. What an earlier run has told counts; then kernels are
// taken that judge most sites for their work, then those that judge most places; never, where
// another has the place, one in which there is a reason why the mutant would survive. With `all` a
// kernel judges all its own, as those named in `whole` do.
Turns share_out(std::vector<Share>& kernels, bool all, const std::vector<std::string>& whole);

// Which sites are judged: where a mutant is that was run, and not only, where another kernel has
// the site, one in which there is a reason why it would survive.
struct SiteCounts {
  size_t all = 0, judged = 0;
  std::vector<size_t> open; // by kernel
};
SiteCounts count_sites(const std::vector<Share>& kernels,
                       const std::vector<std::vector<bool>>& judged);

} // namespace wltest
