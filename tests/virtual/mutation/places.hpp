// Where in a kernel's text a mutant stands: what surrounds a synchronising statement, with numbers
// and types of elements put away. Mutants of one change at one place are one fault, in whatever
// kernel, and are judged once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wltest {

// FNV-1a, from `hash` on.
constexpr uint64_t hash_start = 0xCBF29CE484222325ull;
uint64_t hash_of(const std::string& text, uint64_t hash = hash_start);

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
