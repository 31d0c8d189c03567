// Which of its problems a configuration runs.
#pragma once

#include "tests/problems/problem.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wltest::problems {

// Kernels of one source have one family: of a product the engine's, whatever the operation; of
// others one for all chips.
std::string family_of(const std::string& kernel);

// FNV-1a of a line with its numbers put away, from `hash` on: what one line of a source becomes in
// other kernels and other places is the same.
uint64_t hash_without_numbers(std::string_view line, uint64_t hash);

// Kernels of one source differ in their numbers, and in a few statements. A configuration whose
// kernels have many statements that no kernel before them has, but for numbers, keeps all problems
// of its list, and with the most of them draws as many again; one whose kernels have few of them or
// none keeps some, which differ from one configuration to the next.
void share_problems(std::vector<Operation>* operations);

} // namespace wltest::problems
