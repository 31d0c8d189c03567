#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

Operation moe();

// Ids that a caller may bring: of experts that are here, of experts beyond the first and the last
// one, and of none. `kind` is one of draw_kind_of_ids.
std::vector<int32_t> draw_ids(const std::string& kind, int64_t slots, int64_t experts,
                              int64_t first, uint64_t seed);
std::string draw_kind_of_ids(Draw& draw);

} // namespace wltest::problems
