// Both sides of every rule of an operation: the last legal value passes, the first illegal one is
// refused with its sentence.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/rules.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_limits.hpp"
#include "tests/support/stub_memory.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace wltest {

template <class T = void>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

template <class Args>
struct RuleCase {
  Args args;
  warpline::DeviceLimits device = b200_limits();
};
template <class Args>
using RuleChange = std::function<void(RuleCase<Args>&)>;

template <class Args>
struct RuleSides {
  std::string id;
  std::vector<RuleChange<Args>> accepted;
  RuleChange<Args> refused;
  std::string sentence; // a part of it
};

// The sides of WL_OPERAND and WL_OPTIONAL_OPERAND: an operand of `bytes`, whose D has `d_bytes` at
// args.d. `set` writes its address.
template <class Args>
std::vector<RuleSides<Args>> operand_sides(const std::string& id, const std::string& name,
                                           void (*set)(Args&, void*), uint64_t alignment,
                                           uint64_t bytes, bool optional, uint64_t d_bytes) {
  using Change = RuleChange<Args>;
  const auto to = [set](uint64_t address) {
    return Change([=](RuleCase<Args>& c) { set(c.args, at(address)); });
  };
  const auto beside_d = [set](uint64_t offset) {
    return Change([=](RuleCase<Args>& c) {
      set(c.args, reinterpret_cast<uint8_t*>(c.args.d) + static_cast<int64_t>(offset));
    });
  };
  const std::string of = name + ": address ";
  const std::string unit = std::to_string(alignment);
  std::vector<RuleSides<Args>> sides;
  if (!optional) sides.push_back({id + "_null", {}, to(0), of + "is null, must not be null"});
  std::vector<Change> aligned = {to(0x10000 + alignment)};
  if (optional) aligned.push_back(to(0));
  sides.push_back({id + "_aligned", aligned, to(0x10000 + alignment - 1),
                   " is " + std::to_string(alignment - 1) + " modulo " + unit + ", must be " +
                       unit + "-byte aligned (nearest: 0x10000, 0x100" +
                       (alignment == 16 ? "10)" : "04)")});
  sides.push_back({id + "_reachable",
                   {to(host_window - 16)},
                   to(host_window),
                   of + "0x7fff00000000 is the host's or was freed, must be memory that the device "
                        "can reach (nearest: an upload to device 0, or registered memory)"});
  const uint64_t before = (bytes + alignment - 1) / alignment * alignment;
  const std::string sentence = " overlap " + name + ", " + std::to_string(bytes) + " bytes at ";
  sides.push_back({"d_overlaps_" + id,
                   {beside_d(d_bytes), beside_d(0 - before)},
                   beside_d(d_bytes - alignment),
                   sentence});
  sides.push_back({"d_overlaps_" + id, {}, beside_d(alignment - before), sentence});
  return sides;
}
#define WL_OPERAND_SIDES(Args, id, name, field, ...)                                               \
  ::wltest::operand_sides<Args>(                                                                   \
      id, name,                                                                                    \
      [](Args& args, void* pointer) { args.field = static_cast<decltype(args.field)>(pointer); },  \
      __VA_ARGS__)

template <class Args, class Subject>
class RuleLimits {
public:
  RuleLimits(const warpline::RuleTable<Subject>& rules, const Args& legal,
             const std::vector<RuleSides<Args>>& sides)
      : rules_(rules), legal_(legal), sides_(sides) {}

  void accepts_the_last_legal_values() const {
    for (const RuleSides<Args>& rule : sides_)
      for (size_t i = 0; i <= rule.accepted.size(); ++i) {
        std::string sentences;
        for (const warpline::Violation& v :
             violations_of(i < rule.accepted.size() ? rule.accepted[i] : nullptr))
          sentences += v.sentence() + "; ";
        INFO("rule " << rule.id << ", accepted value " << i);
        CHECK(sentences == "");
      }
  }

  void refuses_with_its_sentence() const {
    std::set<std::string> seen;
    for (const RuleSides<Args>& rule : sides_) {
      std::string sentence;
      for (const warpline::Violation& v : violations_of(rule.refused))
        if (v.rule.id == rule.id) sentence = v.sentence();
      INFO("rule " << rule.id);
      CHECK_THAT(sentence, ContainsSubstring(rule.sentence));
      seen.insert(rule.id);
    }
    for (const warpline::RuleRow& row : rules_.rows()) {
      INFO("rule " << row.id << " has no case");
      CHECK(seen.erase(row.id) == 1);
    }
    CHECK(seen.empty());
  }

private:
  std::vector<warpline::Violation> violations_of(const RuleChange<Args>& change) const {
    RuleCase<Args> c{legal_};
    if (change) change(c);
    return rules_.violations({c.args, c.device, stub_memory()});
  }

  const warpline::RuleTable<Subject>& rules_;
  Args legal_;
  const std::vector<RuleSides<Args>>& sides_;
};

} // namespace wltest
