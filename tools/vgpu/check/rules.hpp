// The rules that a run is held to, and what each does: end the launch, be told, or nothing. The
// table is rules.def; RULES.md says what each demands.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace vgpu::check {

enum class Grade : uint8_t { Fault, Error, Advice };
enum class Action : uint8_t { Stop, Tell, Off };

enum class Rule : uint8_t {
#define RULE(id, name, checker, grade, own, witness) id,
#include "tools/vgpu/check/rules.def"
#undef RULE
};

struct RuleEntry {
  Rule rule;
  const char *name, *checker;
  Grade grade;
  Action own;
  const char* witness;
};

#define RULE(id, name, checker, grade, own, witness) +1
constexpr size_t kRules = 0
#include "tools/vgpu/check/rules.def"
    ;
#undef RULE

const std::array<RuleEntry, kRules>& rules();
inline const RuleEntry& entry_of(Rule rule) { return rules()[size_t(rule)]; }
// Null when there is none.
const RuleEntry* find_rule(std::string_view name);
const char* grade_name(Grade grade);

class Rules {
public:
  // Errors stop, as this project's own kernels are held; or they are told once a place and the run
  // goes on, as the kernels of others are.
  static Rules strict();
  static Rules lenient();

  Action operator[](Rule rule) const { return actions_[size_t(rule)]; }
  bool stops(Rule rule) const { return (*this)[rule] == Action::Stop; }
  void set(Rule rule, Action action) { actions_[size_t(rule)] = action; }
  // "wait-ld=off,races=stop,advice=off": names of rules, of checkers (all of its rules) or of
  // grades, each with stop, tell or off; later ones win. False and a sentence in `error` for what
  // is not known, or a fault that should not stop.
  bool apply(const std::string& list, std::string* error);

private:
  std::array<Action, kRules> actions_{};
};

} // namespace vgpu::check
