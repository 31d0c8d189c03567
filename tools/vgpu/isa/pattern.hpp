// Compiled opcode patterns and operand signatures of the instruction table (see forms.hpp).
#pragma once

#include "tools/vgpu/isa/forms.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vgpu::isa {

// One place of a pattern: a word, or a named choice between words.
struct PatternItem {
  std::string_view name; // of a choice; empty for a plain word
  std::vector<std::string_view> words;
  bool optional = false;
  bool rest = false; // whatever follows
};

struct Pattern {
  std::vector<PatternItem> items;
  // Throws std::logic_error with the text of the mistake.
  static Pattern compile(std::string_view text);
  // Binds optional words and choices. `reached` is raised to the number of tokens matched at best.
  bool match(const std::vector<std::string>& tokens, Match& match, size_t& reached) const;
  // The same with the words behind the first in any order; false where a word stands for two items.
  bool match_shuffled(const std::vector<std::string>& tokens, Match& match) const;
};

struct SignatureItem {
  char kind = 0; // d s p m v t n
  bool optional = false;
};

struct Signature {
  std::vector<SignatureItem> items;
  bool any = false;
  static Signature compile(std::string_view text);
  // `reached`: operands that fit at best; `wanted`: what would have been next (0: no more).
  bool match(const std::vector<ptx::Operand>& operands, size_t& reached, char& wanted) const;
};

// "a register", "an address", ...
const char* operand_kind_name(char kind);

} // namespace vgpu::isa
