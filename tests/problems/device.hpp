// The device that a configuration's problems run on, in a process of its own: a virtual one, or the
// GPU of this machine.
#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

// Opens the device; the process holds it from then on. `driver`: a copy of the virtual GPU that
// nobody rebuilds meanwhile, "" = the one that was built. Throws what is wrong.
wl_context* open_device(const Configuration& configuration, const std::string& driver = "");

// The GPU of this machine, by the driver that WARPLINE_DRIVER names. Throws what is wrong.
wl_context* open_gpu();
// Whether its problems can be judged on a GPU of that compute capability, 90 for 9.0: those of
// whole layers of experts cannot, whose rounded results in between are the GPU's own where
// exponentials come in. Blackwell's INT8 is of 10.0 alone.
bool is_of_gpu(const Operation& operation, const Configuration& configuration, int capability);

// "" or what is wrong, on a virtual device the checkers' report included.
std::string run_on_device(wl_context* context, const Problem& problem);

} // namespace wltest::problems
