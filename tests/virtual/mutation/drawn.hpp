// Mutants of a kernel on the problems that tests/problems draws for it, between grids that write
// its operands while it starts and ends.
#pragma once

#include "kernels/gemm/config.hpp"
#include "tests/problems/problem.hpp"

#include <string>

namespace wltest {

// Of a product, by its kernel's name; null where there is none.
const warpline::gemm::Config* find_config(const std::string& name);

// The problems of tests/problems that launch the kernel: of the configuration of its name, else of
// the first one that does.
struct Drawn {
  const problems::Operation* operation = nullptr;
  const problems::Configuration* configuration = nullptr;
};
Drawn drawn_for(const std::string& kernel);

// Whether the outputs are right; `message` says why there are none. The first call has all problems
// of the list where they are products, else several; others have the next two of products, and the
// third of rings where there is one, but not the one whose warps poll what others of the CTA
// decode: a schedule that lets one of those lag would never end.
bool right_drawn(wl_context* context, const std::string& kernel, uint64_t seed,
                 std::string& message);

// Layers of experts whose product the kernel is, where it may know sizes of groups before it waits;
// no operation where there are none. The first call of right_layers has all of them, others one.
Drawn layers_with(const std::string& kernel);
bool right_layers(wl_context* context, const Drawn& drawn, uint64_t seed, std::string& message);

// The same of the problems of loops and rings.
bool right_loops(wl_context* context, const Drawn& drawn, uint64_t seed, std::string& message);

} // namespace wltest
