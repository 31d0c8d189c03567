// The constraint table. An operation states each of its rules once, as a row of a table; checking,
// documentation (`warpline rules`) and tests all read that table. This file knows no operation:
// `Subject` is whatever an operation wants its rules to see, as a rule its arguments and the
// device.
//
//   const RuleTable<Subject> rules{"wl_dual_gemm", {
//     {"k_multiple", "K", "must be a multiple of 64 elements", RuleKind::multiple,
//      [](const Subject& s) { return multiple_of(s.args.k, 64); }},
//     ...}};
//   WL_TRY(rules.check(subject));
//
// WL_RULE writes such a row, with the subject as `s` in the expression.
//
// A violated row reads "<argument><finding> <rule text> (nearest: ...)", so texts start with
// "must".
#pragma once

#include "runtime/src/status.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

enum class RuleKind { range, multiple, alignment, pointer, memory, overlap, support };
const char* rule_kind_name(RuleKind kind);

// What an evaluator says. `finding` follows the argument's name: " = 7000", ": address is null,".
struct Verdict {
  bool holds = true;
  std::string finding;
  std::string nearest; // legal values next to the found one, "" when there is no such thing
};

inline Verdict holds() { return {}; }
Verdict violated(std::string finding, std::string nearest = "");

// Ready-made evaluators. Values below `least` or above `greatest` are for a row of kind range:
// `multiple_of` holds for them, so that one wrong value violates one rule. `nearest` is a value
// that no other rule of the argument refuses.
Verdict in_range(int64_t value, int64_t least, int64_t greatest);
// `nearest_least` is the least value that the argument's other rules allow.
Verdict in_range(int64_t value, int64_t least, int64_t greatest, int64_t nearest_least);
// An enumerator as a caller wrote it, who may have written -1.
template <class Enum>
Verdict enumerator(Enum value, Enum first, Enum last) {
  return in_range(static_cast<int>(value), first, last);
}
// No bit beside those of `allowed`.
Verdict flags_among(uint32_t flags, uint32_t allowed);
Verdict multiple_of(int64_t value, int64_t multiple, int64_t least = 1,
                    int64_t greatest = INT64_MAX);
Verdict not_null(const void* pointer);
// Holds for null, which is nowhere the nearest.
Verdict aligned(const void* pointer, uint64_t bytes);
// [a, a + a_bytes) and [b, b + b_bytes) share no byte; holds when either is null or empty.
Verdict disjoint(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes,
                 const std::string& b_name);

// The memory that an argument stands for; 0 bytes where another rule speaks of its size.
struct Extent {
  const char* name;
  const void* start;
  uint64_t bytes;
};
Verdict disjoint(const Extent& a, const Extent& b);
// The first verdict that does not hold.
Verdict disjoint(const Extent& a, std::span<const Extent> others);

// Up to `count` candidates, those with the smallest edit distances from `word` first, none farther
// than `greatest`.
std::vector<std::string> nearest_names(std::string_view word,
                                       const std::vector<std::string>& candidates, size_t count,
                                       size_t greatest = SIZE_MAX);

// a * b * ... without overflow; false when the product does not fit in 63 bits or a factor is
// negative. For size rules.
bool product(std::initializer_list<int64_t> factors, int64_t* result);

// A row without its evaluator: what documentation and tests see.
struct RuleRow {
  std::string id, argument, text;
  RuleKind kind;
};

struct Violation {
  RuleRow rule;
  Verdict verdict;
  // "K = 7000 must be a multiple of 64 elements (nearest: 6976, 7040)"
  std::string sentence() const;
};

// One message for all violations; WL_SUCCESS for none. The status is WL_ERROR_MISALIGNED when all
// violated rules are of kind alignment, WL_ERROR_WRONG_DEVICE when all are of kind memory,
// WL_ERROR_NOT_SUPPORTED when all are of kind support, else WL_ERROR_INVALID_ARGUMENT.
//   wl_dual_gemm: K = 7000 must be ...; B1: address ... ; 2 rules violated, nothing was launched
wl_status report_violations(const std::string& operation, const std::vector<Violation>& violations);

template <class Subject>
struct Rule {
  const char* id;       // unique in the table; tests name it
  const char* argument; // as in the operation's formula: "K", "B1", "ldd"
  const char* text;     // "must be a multiple of 64 elements"
  RuleKind kind;
  Verdict (*evaluate)(const Subject&);

  RuleRow row() const { return {id, argument, text, kind}; }
};

#define WL_RULE(id, argument, text, kind, expression)                                              \
  {                                                                                                \
    id, argument, text, ::warpline::RuleKind::kind,                                                \
        [](const Subject& s) -> ::warpline::Verdict { return expression; }                         \
  }

template <class Subject>
class RuleTable {
public:
  RuleTable(const char* operation, std::vector<Rule<Subject>> rules)
      : operation_(operation), rules_(std::move(rules)) {}

  const std::string& operation() const { return operation_; }
  const std::vector<Rule<Subject>>& rules() const { return rules_; }

  std::vector<RuleRow> rows() const {
    std::vector<RuleRow> result;
    for (const Rule<Subject>& rule : rules_) result.push_back(rule.row());
    return result;
  }

  std::vector<Violation> violations(const Subject& subject) const {
    std::vector<Violation> result;
    for (const Rule<Subject>& rule : rules_) {
      Verdict verdict = rule.evaluate(subject);
      if (!verdict.holds) result.push_back({rule.row(), std::move(verdict)});
    }
    return result;
  }

  wl_status check(const Subject& subject) const {
    return report_violations(operation_, violations(subject));
  }

private:
  std::string operation_;
  std::vector<Rule<Subject>> rules_;
};

} // namespace warpline
