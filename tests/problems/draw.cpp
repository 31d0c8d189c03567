#include "tests/problems/draw.hpp"

#include "tests/support/fnv.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace wltest::problems {

Draw::Draw(uint64_t seed, std::string configuration, size_t index)
    : seed_(seed), configuration_(std::move(configuration)), index_(index) {}

size_t Draw::place(const std::string& name, size_t count, size_t turn) const {
  const Random random(fnv(name, fnv(configuration_) + seed_), turn / count);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i, i)]);
  return order[turn % count];
}

uint64_t Draw::seed_for(const std::string& name) const {
  return Random(fnv(name, fnv(configuration_) + seed_), ~uint64_t{0}).bits(index_);
}

uint64_t Draw::below(const std::string& name, uint64_t bound) const {
  return Random(seed_for(name), 0).below(0, bound);
}

std::string Draw::text_of(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
  return text;
}

void Draw::write(const std::string& name, const std::string& value) {
  for (auto& [noted, last] : notes_)
    if (noted == name) {
      last = value;
      return;
    }
  notes_.emplace_back(name, value);
}

std::string Draw::text() const {
  std::string text;
  for (const auto& [name, value] : notes_)
    text += (text.empty() ? "" : ", ") + name + " " + (value.empty() ? "-" : value);
  return text;
}

void Draw::add_to(Varied& varied) const {
  for (const auto& [name, value] : notes_) varied[name].insert(value);
}

} // namespace wltest::problems
