// Seeded choices for one test problem. Every choice has the name of what it varies, a field of the
// operation's argument struct where there is one, so that a test can compare the names with the
// struct, and a failing problem can be printed and made again.
#pragma once

#include "tests/reference/inputs.hpp"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace wltest::problems {

// The values that choices took, by name.
using Varied = std::map<std::string, std::set<std::string>>;

class Draw {
public:
  // Problem `index` of a configuration's list.
  Draw(uint64_t seed, std::string configuration, size_t index);

  // Problems of one configuration go through the values in a random order, so that as many problems
  // as there are values see each of them; values that stand twice come twice as often.
  template <class T>
  T pick(const std::string& name, std::initializer_list<T> values) {
    return pick(name, values, index_);
  }
  // As problem `turn` picks.
  template <class T>
  T pick(const std::string& name, std::initializer_list<T> values, size_t turn) {
    return note(name, *(values.begin() + place(name, values.size(), turn)));
  }
  // A number from 0 to bound - 1, which is no choice of its own.
  uint64_t below(const std::string& name, uint64_t bound) const;

  // A value that follows from choices.
  template <class T>
  T note(const std::string& name, T value) {
    write(name, text_of(value));
    return value;
  }

  size_t index() const { return index_; }
  uint64_t seed_for(const std::string& name) const;
  std::string text() const; // "m 300, n 264, ..."
  void add_to(Varied& varied) const;

private:
  static std::string text_of(const std::string& value) { return value; }
  static std::string text_of(const char* value) { return value; }
  static std::string text_of(float value);
  template <class T>
  static std::string text_of(T value) {
    return std::to_string(value);
  }
  size_t place(const std::string& name, size_t count, size_t turn) const;
  void write(const std::string& name, const std::string& value);

  uint64_t seed_;
  std::string configuration_;
  size_t index_;
  std::vector<std::pair<std::string, std::string>> notes_;
};

} // namespace wltest::problems
