// Problems drawn by need: which of many that could be drawn would take ways of branches that
// nothing has taken yet.
#pragma once

#include "tests/virtual/coverage/ways.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace wltest::coverage {

using vgpu::trace::Coverage;

// What a problem's choices were, by name.
using Choices = std::map<std::string, std::set<std::string>>;

// Of a file with lines "label | statement | way | choice = value/value; choice = 1..64": problems
// with such choices take such ways, as far as they get there. label and statement are regular
// expressions of the whole; "k % 256" is the rest of a choice, "!=" any other value.
struct Steering {
  struct Condition {
    std::string choice;
    long modulus = 0;
    bool other = false;
    std::vector<std::string> values;
    bool holds(const Choices& choices) const;
  };
  std::regex labels, statements;
  std::string way;
  std::vector<Condition> conditions;
};
std::vector<Steering> read_steering(const std::string& path);

class Need {
public:
  // Of the kernels of these names, which are the library's.
  Need(const std::vector<std::string>& kernels, const std::string& explained,
       const std::string& steering);
  // Looks again at what has run. How many ways are left, without those that are explained.
  size_t look(const Coverage& ran);
  // Whether any of the kernels ran, as their text is now.
  bool knows() const { return knows_; }
  // How many ways a problem may take; a way counts less with each problem that was to take it.
  double worth(const Choices& choices) const;
  void tried(const Choices& choices);

private:
  struct Left {
    std::vector<const Steering*> steering;
    std::map<std::string, int> tries; // by the kind of problem
  };
  double worth_of(const Left& left, const Choices& choices) const;

  std::vector<std::pair<std::string, std::vector<std::string>>> texts_; // by entry
  std::vector<Explanation> explanations_;
  std::vector<Steering> steering_;
  std::map<std::string, Left> left_; // by kernel, line and way
  bool knows_ = false;
};

// Files of counts in a directory whose names begin so are added, those of runs that are not over,
// which begin with a dot, only where that is asked for; what is wrong is thrown.
void add_counts(const std::string& directory, const std::string& beginning, Coverage* coverage);

} // namespace wltest::coverage
