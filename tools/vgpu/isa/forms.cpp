// The instruction table in memory: all rows of isa/forms_*.def, indexed by first word.
#include "tools/vgpu/isa/forms.hpp"

#include "tools/vgpu/isa/pattern.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>

// The decoders that the rows name, declared from the rows themselves. With VGPU_PARTIAL a program
// may link some of the families: rows of the others have no decoder then, and the program builder
// refuses them.
#ifdef VGPU_PARTIAL
#define FORM_LINKAGE __attribute__((weak))
#else
#define FORM_LINKAGE
#endif
namespace vgpu::ops {
using isa::DecodeContext;
using isa::Match;
#define FORM(decoder, pattern, operands, status, section, target)                                  \
  FORM_LINKAGE void decoder(DecodeContext&, const ptx::Statement&, const Match&, exec::Inst&);
#define REFUSED(pattern, operands, why, section, target)
#include "tools/vgpu/isa/forms_all.inc"
#undef REFUSED
#undef FORM
} // namespace vgpu::ops

namespace vgpu::isa {

namespace {

std::vector<Form> make_forms() {
  return {
#define FORM(decoder, pattern, operands, status, section, target)                                  \
  Form{&ops::decoder, pattern, operands, Status::status, section, target, ""},
#define REFUSED(pattern, operands, why, section, target)                                           \
  Form{nullptr, pattern, operands, Status::refused, section, target, why},
#include "tools/vgpu/isa/forms_all.inc"
#undef REFUSED
#undef FORM
  };
}

struct Compiled {
  const Form* form;
  Pattern pattern;
  Signature signature;
};

struct Table {
  std::vector<Form> forms = make_forms();
  std::vector<Compiled> compiled;
  std::unordered_map<std::string_view, std::vector<uint32_t>> by_word;

  Table() {
    compiled.reserve(forms.size());
    for (const Form& f : forms) {
      compiled.push_back({&f, Pattern::compile(f.pattern), Signature::compile(f.operands)});
      for (std::string_view w : compiled.back().pattern.items[0].words)
        by_word[w].push_back(uint32_t(compiled.size() - 1));
    }
  }
};

const Table& table() {
  static const Table t;
  return t;
}

// Their modifiers are taken in any order by ptxas, and CUDA's headers write some so: max.s32.relu,
// atom.add.relaxed.gpu.s32, vote.ballot.sync.b32.
constexpr std::string_view kAnyOrder[] = {
    "add", "atom",  "cvt",   "div",  "ex2",  "fence", "fma", "ld",   "lg2", "max", "min",  "rcp",
    "red", "redux", "rsqrt", "selp", "setp", "shfl",  "sin", "sqrt", "st",  "sub", "tanh", "vote",
};

bool any_order(const std::vector<std::string>& opcode) {
  return std::find(std::begin(kAnyOrder), std::end(kAnyOrder), opcode[0]) != std::end(kAnyOrder);
}

std::string joined(const std::vector<std::string>& opcode, size_t n) {
  std::string s;
  for (size_t i = 0; i < n && i < opcode.size(); ++i) {
    if (i) s += '.';
    s += opcode[i];
  }
  return s;
}

} // namespace

bool Match::has(std::string_view word) const {
  for (const auto& [name, token] : bound_)
    if (name == word) return true;
  return false;
}

std::string_view Match::get(std::string_view name) const {
  for (const auto& [bound, token] : bound_)
    if (bound == name) return token;
  return {};
}

const std::vector<Form>& forms() { return table().forms; }

const Form* find_opcode(const std::vector<std::string>& opcode) {
  const Table& t = table();
  const auto it = t.by_word.find(opcode[0]);
  if (it == t.by_word.end()) return nullptr;
  for (bool shuffled : {false, true}) {
    if (shuffled && !any_order(opcode)) break;
    for (uint32_t index : it->second) {
      const Compiled& c = t.compiled[index];
      Match match;
      size_t reached = 0;
      if (c.form->status != Status::refused && (shuffled ? c.pattern.match_shuffled(opcode, match)
                                                         : c.pattern.match(opcode, match, reached)))
        return c.form;
    }
  }
  return nullptr;
}

const Form* find_form(const ptx::Statement& statement, Match& match, std::string* why) {
  const Table& t = table();
  const std::vector<std::string>& opcode = statement.opcode;
  auto it = t.by_word.find(opcode[0]);
  if (it == t.by_word.end()) {
    if (why) *why = "the instruction table has no '" + opcode[0] + "'";
    return nullptr;
  }
  size_t tokens = 0, operands = 0;
  char wanted = 0;
  bool opcode_known = false;
  const size_t before = match.size();
  for (uint32_t index : it->second) {
    const Compiled& c = t.compiled[index];
    size_t reached = 0;
    if (!c.pattern.match(opcode, match, reached)) {
      tokens = std::max(tokens, reached);
      continue;
    }
    size_t fitted = 0;
    char next = 0;
    if (c.signature.match(statement.operands, fitted, next)) return c.form;
    match.truncate(before);
    if (!opcode_known || fitted >= operands) {
      operands = fitted;
      wanted = next;
    }
    opcode_known = true;
  }
  if (!opcode_known && any_order(opcode))
    for (uint32_t index : it->second) {
      const Compiled& c = t.compiled[index];
      size_t fitted = 0;
      char next = 0;
      if (c.pattern.match_shuffled(opcode, match) &&
          c.signature.match(statement.operands, fitted, next))
        return c.form;
      match.truncate(before);
    }
  if (!why) return nullptr;
  if (opcode_known) {
    std::string position = std::to_string(operands + 1);
    if (operands >= statement.operands.size())
      *why = "operand " + position + " is missing: " + operand_kind_name(wanted);
    else if (!wanted)
      *why = "it takes " + std::to_string(operands) + " operands, not " +
             std::to_string(statement.operands.size());
    else
      *why = "operand " + position + " must be " + operand_kind_name(wanted);
  } else if (tokens == opcode.size()) {
    *why = "the instruction table has no form that ends after '" + joined(opcode, tokens) + "'";
  } else {
    *why = "the instruction table knows '" + joined(opcode, tokens) + "' but no '." +
           opcode[tokens] + "' after it";
  }
  return nullptr;
}

} // namespace vgpu::isa
