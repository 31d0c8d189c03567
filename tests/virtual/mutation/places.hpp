// Where in a kernel's text a mutant stands: what surrounds a synchronising statement, with numbers
// and types of elements put away. Mutants of one change at one place are one fault, in whatever
// kernel, and are judged once.
#pragma once

#include "tests/support/fnv.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace wltest {

// FNV-1a of a line, from `hash` on.
uint64_t hash_of(const std::string& text, uint64_t hash = fnv_basis);

// By line; 0 where nothing synchronises.
struct Places {
  // Equal where these are:
  // - the kernel's target, the nearest label before, the statement with its guard;
  // - the two synchronising statements before and the two behind, each different from its
  //   neighbour, and which kinds of memory are read and written between them;
  // - where the statement names an mbarrier: the places of all that name it, with one neighbour.
  std::vector<uint64_t> place;
  // Equal where the target, the label and the statement are: about a line of the sources.
  std::vector<uint64_t> site;
};
Places places_of(const std::vector<std::string>& lines);

} // namespace wltest
