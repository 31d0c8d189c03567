// Tokens of PTX text (PTX ISA 4). The parser pulls one token at a time; the dotted words of
// opcodes and directives are read raw, because "2d", "16x256b" and "shared::cta" are no tokens
// anywhere else.
#pragma once

#include "tools/vgpu/ptx/parser.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vgpu::ptx {

struct Token {
  enum class Kind : uint8_t { End, Ident, Int, Float, String, Punct };
  Kind kind = Kind::End;
  char punct = 0; // Punct: one character; two-character operators have codes below
  bool is_unsigned = false;
  uint8_t width = 0; // Float: 32 or 64
  int line = 1, column = 1;
  uint64_t value = 0;    // Int: the value; Float: the bits
  std::string_view text; // Ident: the name; String: what is between the quotes
};

// Codes of two-character operators.
enum : char { kShl = 1, kShr, kLe, kGe, kEq, kNe, kAndAnd, kOrOr };

class Lexer {
public:
  explicit Lexer(std::string_view text);

  const Token& token() const { return token_; }
  void advance();
  // The current token is the punct '.': reads the word directly behind it, with its "::" parts, and
  // advances past it.
  std::string_view dotted_word();
  // The rest of the line is skipped, unread (@@DWARF); the next token is the first of a later line
  // than the current token's.
  void skip_line();
  void skip_tokens(int line); // to the first of a later line (.loc, .file)
  // The current token is '{': skips to the token after the matching '}'.
  void skip_braces();

  bool is(char punct) const { return token_.kind == Token::Kind::Punct && token_.punct == punct; }
  bool is_ident() const { return token_.kind == Token::Kind::Ident; }
  [[noreturn]] void fail(const std::string& what) const { fail_at(token_, what); }
  [[noreturn]] static void fail_at(const Token& token, const std::string& what);
  std::string describe() const; // the current token, for messages

private:
  void skip_blanks();
  void preprocessor_line();
  void number();
  void string();
  void mark();
  [[noreturn]] void fail_here(const std::string& what);

  std::string_view text_;
  size_t pos_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
};

// Limits against hostile text.
constexpr size_t kMaxText = size_t(256) << 20;
constexpr size_t kMaxName = 64 << 10; // mangled C++ names are long
constexpr int kMaxNesting = 200;      // blocks, vectors, parentheses

} // namespace vgpu::ptx
