// Ways of the branches of kernels that ran: which nothing took, and what is said of them.
#pragma once

#include "tools/vgpu/trace/coverage.hpp"

#include <regex>
#include <string>
#include <vector>

namespace wltest::coverage {

std::string trimmed(const std::string& s);
// Without blanks around the parts.
std::vector<std::string> split(const std::string& text, const std::string& by);
std::vector<std::string> lines_of(const std::string& text);

// A way of a branch that nothing took. `label` is the last one ahead of the branch in its braces or
// around them; "wait" alone, which every waiting loop is called, has that before it: "mma/wait".
struct Way {
  std::string label, statement, way; // "taken", "passed"
  int line = 0;
  std::string name() const { return label + " | " + statement + " | " + way; }
};

// Why nothing can take a way of some kernels.
struct Explanation {
  std::string kernels, label, statement, way, reason;
  std::regex of_kernels, of_labels, of_statements;
  std::vector<std::string> where, without; // parts of lines that the kernel's text has, has not
  size_t ways = 0, in_kernels = 0;
  bool of(const vgpu::trace::Coverage::Kernel& kernel) const;
  bool covers(const Way& w) const; // of such a kernel
};
// Lines "kernels | label | statement | way | reason"; kernels, label and statement are regular
// expressions of the whole, way is taken, passed or both. Behind the expression of kernels may
// stand "where TEXT" and "without TEXT", each after a semicolon: only kernels with, without a line
// that has TEXT in it.
std::vector<Explanation> read_explanations(const std::string& path);

// The label that each line has, from 1.
std::vector<std::string> labels_of(const std::vector<std::string>& lines);

// Ways of a kernel that nothing took.
std::vector<Way> ways_left(const vgpu::trace::Coverage::Kernel& kernel);

// What ran of a kernel whose present text has these lines, by their numbers: of all texts that are
// the same but for comments and empty lines. False: none of them ran.
bool counts_of(const vgpu::trace::Coverage& ran, const std::string& entry,
               const std::vector<std::string>& lines, vgpu::trace::Coverage::Kernel* kernel);

} // namespace wltest::coverage
