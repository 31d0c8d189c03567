// The kernels as they are, under many schedules: whatever is reported is a false alarm, or a fault
// of the kernel.
#pragma once

#include "tests/virtual/mutation/judge.hpp"

#include <string>
#include <vector>

namespace wltest {

// Of kernels that differ in nothing but the 16-bit type of D, one is run, unless `wanted` is set.
// What the file says of a kernel whose text is the same, that nobody reported it, stays. `text` in
// place of the kernels'; "" = their own. `drawn`, unless 0: of those that would be run so many,
// chosen by `seed`. Returns whether anything was reported.
int run_baseline(const std::vector<Kernel>& kernels, const std::string& wanted,
                 const std::string& text, int seeds, unsigned jobs, const std::string& check,
                 const std::string& out_path, bool fresh, size_t drawn, uint64_t seed);

bool is_named(const std::string& list, const std::string& name); // "a,b"

} // namespace wltest
