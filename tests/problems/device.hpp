// The virtual device that a configuration's problems run on, in a process of its own.
#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

// Opens the device; the process holds it from then on. `driver`: a copy of the virtual GPU that
// nobody rebuilds meanwhile, "" = the one that was built. Throws what is wrong.
wl_context* open_device(const Configuration& configuration, const std::string& driver = "");

// "" or what is wrong, the checkers' report included.
std::string run_on_device(wl_context* context, const Problem& problem);

} // namespace wltest::problems
