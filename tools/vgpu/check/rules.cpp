#include "tools/vgpu/check/rules.hpp"

namespace vgpu::check {

const std::array<RuleEntry, kRules>& rules() {
  static constexpr std::array<RuleEntry, kRules> table{{
#define RULE(id, name, checker, grade, own, witness)                                               \
  {Rule::id, name, checker, Grade::grade, Action::own, witness},
#include "tools/vgpu/check/rules.def"
#undef RULE
  }};
  return table;
}

const RuleEntry* find_rule(std::string_view name) {
  for (const RuleEntry& r : rules())
    if (name == r.name) return &r;
  return nullptr;
}

const char* grade_name(Grade grade) {
  return grade == Grade::Fault ? "fault" : grade == Grade::Error ? "error" : "advice";
}

Rules Rules::strict() {
  Rules r;
  for (const RuleEntry& e : rules()) r.set(e.rule, e.own);
  return r;
}

Rules Rules::lenient() {
  Rules r;
  for (const RuleEntry& e : rules())
    r.set(e.rule, e.grade == Grade::Fault ? Action::Stop : Action::Tell);
  return r;
}

bool Rules::apply(const std::string& list, std::string* error) {
  auto wrong = [error](const std::string& sentence) {
    if (error) *error = sentence;
    return false;
  };
  Rules result = *this;
  for (size_t at = 0; at < list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    const std::string item = list.substr(at, end - at);
    at = end + 1;
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const std::string word = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (word != "stop" && word != "tell" && word != "off")
      return wrong("\"" + item + "\" must be RULE=stop, RULE=tell or RULE=off");
    const Action action = word == "stop"   ? Action::Stop
                          : word == "tell" ? Action::Tell
                                           : Action::Off;
    // "barriers" is a rule, a fault, and the checker of others: those may do something else.
    const RuleEntry* one = find_rule(name);
    bool any = false;
    for (const RuleEntry& r : rules()) {
      if (&r != one && name != r.checker && name != grade_name(r.grade)) continue;
      if (r.grade == Grade::Fault && action != Action::Stop) continue;
      any = true;
      result.set(r.rule, action);
    }
    if (!any && (one || name == grade_name(Grade::Fault)))
      return wrong("rule " + name + " is a fault, which always stops");
    if (!any)
      return wrong("there is no rule \"" + name +
                   "\"; tools/vgpu/check/RULES.md names them, their checkers and their grades "
                   "(fault, error, advice)");
  }
  *this = result;
  return true;
}

} // namespace vgpu::check
