// A part of what takes too long as a whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace wltest {

// Leaves `count` of the list, chosen by the seed, in their order.
template <class T>
void draw(std::vector<T>* list, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> some;
  size_t left = list->size(), wanted = std::min(count, list->size());
  for (const T& one : *list)
    if (random() % left-- < wanted) {
      some.push_back(one);
      --wanted;
    }
  *list = some;
}

} // namespace wltest
