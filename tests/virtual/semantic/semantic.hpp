// Semantic mutants of a kernel: its PTX with one instruction that computes, addresses, compares,
// converts, loads or stores deleted or bent. Those that synchronise are in mutants.hpp.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace wltest {

struct SemanticMutant {
  int line = 0; // 1-based, in the expanded PTX
  std::string change;
  std::string instruction; // the statement as it was
  std::string label;       // the nearest label before it
  std::string replacement; // the line in its place
  std::string place;       // family, label and statement without its numbers: what kernels share
  uint64_t key = 0;        // of kernel, statement and change
};

// Every mutant of every such instruction, or of those of some lines, in the order of the lines.
std::vector<SemanticMutant> semantic_mutants(const std::string& kernel, const std::string& ptx,
                                             const std::set<int>* lines = nullptr);

// Of a family's kernels, in their order, those mutants that stand for all: a statement that several
// kernels share is bent in the first that has it, and of the places in that kernel where a macro
// puts it in the first and the last.
std::vector<std::vector<SemanticMutant>>
shared_out(const std::vector<std::pair<std::string, std::string>>& kernels); // name, PTX

// The same change of the same statement in other kernels, by their number: a change of a source
// line is a change of all of them, so that it is noticed when one of them notices.
constexpr size_t most_elsewhere = 12;
using Elsewhere = std::vector<std::pair<size_t, SemanticMutant>>;
std::vector<Elsewhere>
places_elsewhere(const std::vector<std::pair<std::string, std::string>>& kernels,
                 const std::vector<const SemanticMutant*>& mutants);

std::string text_of(const SemanticMutant& mutant, const std::string& ptx);

// Why no run can tell the mutant from the kernel, without a run; "" when there is no reason.
std::string no_effect(const std::string& kernel, const SemanticMutant& mutant);
// The same of one that survived.
std::string equivalent_reason(const std::string& kernel, const SemanticMutant& mutant);
// What equivalent_reason says of the kernel's configuration.
std::string reason_of_config(const std::string& kernel, const SemanticMutant& mutant);
// Why the problems do not notice a survivor.
std::string survivor_reason(const SemanticMutant& mutant);

} // namespace wltest
