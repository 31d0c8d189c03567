// The instruction table. Each row of isa/forms_*.def is one form of an instruction:
//
//   FORM(decoder, "opcode pattern", "operands", status, "ISA section", "target")
//
// The opcode pattern is matched against the dot-separated tokens of an opcode, in order:
//   word            that token                      mbarrier try_wait
//   word?           that token or nothing           parity?
//   name{a|b|c}     one of the tokens, kept by name sem{acquire|relaxed}
//   name{a|b|c}?    or nothing
//   *               whatever follows; of rows that refuse
// The operand signature lists operands by kind, comma separated, each may end in ? (optional):
//   d destination (register, vector, pair, sink)   s source register or immediate
//   p predicate register      m address [..]      v vector or scalar
//   t tensor address          n name (label, function, variable)
// "*" alone: any operands.
// `status`: exact (as the ISA says), chosen (the ISA is silent; the row's decoder says what was
// chosen) or card (as an H200 does where the ISA says something else: the comment above the row).
// What is known and named, but not executed, has a row of its own:
//
//   REFUSED("opcode pattern", "operands", "why", "ISA section", "target")
//
// Parser, executor, the coverage report and the documentation are all made from these rows. An
// opcode that matches none is refused by name.
#pragma once

#include "tools/vgpu/ptx/ast.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vgpu::exec {
struct Inst;
}

namespace vgpu::isa {

class DecodeContext; // isa/decode.hpp

enum class Status : uint8_t { exact, chosen, card, refused };

// What a pattern bound: optional words present and named choices.
class Match {
public:
  bool has(std::string_view word) const;             // an optional word or a named choice is there
  std::string_view get(std::string_view name) const; // the choice's token, "" when absent
  void bind(std::string_view name, std::string_view token) { bound_.emplace_back(name, token); }
  void truncate(size_t n) { bound_.resize(n); }
  size_t size() const { return bound_.size(); }

private:
  std::vector<std::pair<std::string_view, std::string_view>> bound_;
};

// Fills `inst` from the statement: handler, operand slots, modifier words. Reports what it cannot
// decode by DecodeContext::refuse (throws).
using Decoder = void (*)(DecodeContext&, const ptx::Statement&, const Match&, exec::Inst&);

struct Form {
  Decoder decoder; // null when refused
  const char* pattern;
  const char* operands;
  Status status;
  const char* section;
  const char* target; // lowest: "sm_90", "sm_90a", "sm_90a|sm_100a", ... ; "" = any
  const char* why;    // it is refused; "" otherwise
};

const std::vector<Form>& forms();

// The first form that matches opcode and operands; null when none does. `why` then says what came
// nearest ("opcode known, operand 3 must be an address").
const Form* find_form(const ptx::Statement& statement, Match& match, std::string* why);

// The first form that executes the opcode with whatever operands; null when none does.
const Form* find_opcode(const std::vector<std::string>& opcode);

} // namespace vgpu::isa
