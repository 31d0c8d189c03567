#include "tools/vgpu/ptx/lexer.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace vgpu::ptx {

namespace {

enum : uint8_t { kBlank = 1, kStart = 2, kFollow = 4, kDigit = 8, kHex = 16 };

struct Classes {
  uint8_t of[256] = {};
  Classes() {
    for (char c : std::string_view(" \t\r\n\f\v")) of[uint8_t(c)] |= kBlank;
    for (int c = 'a'; c <= 'z'; ++c) of[c] |= kStart | kFollow;
    for (int c = 'A'; c <= 'Z'; ++c) of[c] |= kStart | kFollow;
    for (int c = '0'; c <= '9'; ++c) of[c] |= kFollow | kDigit | kHex;
    for (int c = 'a'; c <= 'f'; ++c) of[c] |= kHex;
    for (int c = 'A'; c <= 'F'; ++c) of[c] |= kHex;
    of[uint8_t('_')] |= kStart | kFollow;
    of[uint8_t('$')] |= kStart | kFollow;
    of[uint8_t('%')] |= kStart;
  }
};
const Classes kClasses;

bool is_class(char c, uint8_t mask) { return kClasses.of[uint8_t(c)] & mask; }

} // namespace

void Lexer::fail_at(const Token& t, const std::string& what) {
  throw ParseError(t.line, t.column, what);
}

void Lexer::fail_here(const std::string& what) {
  throw ParseError(line_, int(pos_ - line_start_) + 1, what);
}

Lexer::Lexer(std::string_view text) : text_(text) {
  if (text.size() > kMaxText)
    throw ParseError(1, 1,
                     "the text has " + std::to_string(text.size()) + " bytes; the limit is " +
                         std::to_string(kMaxText));
  // A C string given with its terminator is common (cuModuleLoadData).
  while (!text_.empty() && text_.back() == '\0') text_.remove_suffix(1);
  advance();
}

void Lexer::mark() {
  token_.line = line_;
  token_.column = int(pos_ - line_start_) + 1;
}

void Lexer::skip_blanks() {
  const size_t n = text_.size();
  while (pos_ < n) {
    char c = text_[pos_];
    if (c == '\n') {
      ++line_;
      line_start_ = ++pos_;
    } else if (is_class(c, kBlank)) {
      ++pos_;
    } else if (c == '/' && pos_ + 1 < n && text_[pos_ + 1] == '/') {
      const void* end = std::memchr(text_.data() + pos_, '\n', n - pos_);
      pos_ = end ? size_t(static_cast<const char*>(end) - text_.data()) : n;
    } else if (c == '/' && pos_ + 1 < n && text_[pos_ + 1] == '*') {
      mark();
      size_t end = text_.find("*/", pos_ + 2);
      if (end == std::string_view::npos) fail("this comment is not closed");
      for (; pos_ < end; ++pos_)
        if (text_[pos_] == '\n') {
          ++line_;
          line_start_ = pos_ + 1;
        }
      pos_ = end + 2;
    } else if (c == '#') {
      preprocessor_line();
    } else {
      return;
    }
  }
}

// A preprocessor that was not told to leave them out says where lines come from: # 7 "file",
// #line 7. ptxas takes no other line of it either.
void Lexer::preprocessor_line() {
  mark();
  const size_t end = std::min(text_.find('\n', pos_), text_.size());
  std::string_view line = text_.substr(pos_, end - pos_);
  size_t at = line.find_first_not_of(" \t", 1);
  if (at != std::string_view::npos && line.substr(at, 4) == "line")
    at = line.find_first_not_of(" \t", at + 4);
  const bool first = text_.substr(line_start_, pos_ - line_start_).find_first_not_of(" \t") ==
                     std::string_view::npos;
  if (!first || at == std::string_view::npos || !is_class(line[at], kDigit))
    fail("'" + std::string(line.substr(0, line.find_first_of(" \t\r", 1)).substr(0, 80)) +
         "' is a preprocessor's: PTX is read as it is (cpp -P gives the text without)");
  pos_ = end;
}

void Lexer::advance() {
  skip_blanks();
  mark();
  token_.text = {};
  if (pos_ >= text_.size()) {
    token_.kind = Token::Kind::End;
    return;
  }
  const char c = text_[pos_];
  const size_t n = text_.size();
  // '%' starts a name, or is the modulo of a constant expression.
  if (is_class(c, kStart) && (c != '%' || (pos_ + 1 < n && is_class(text_[pos_ + 1], kFollow)))) {
    size_t end = pos_ + 1;
    while (end < n && is_class(text_[end], kFollow)) ++end;
    if (end - pos_ > kMaxName) fail("a name of more than " + std::to_string(kMaxName) + " bytes");
    token_.kind = Token::Kind::Ident;
    token_.text = text_.substr(pos_, end - pos_);
    pos_ = end;
    return;
  }
  if (is_class(c, kDigit)) return number();
  if (c == '"') return string();
  token_.kind = Token::Kind::Punct;
  const char d = pos_ + 1 < n ? text_[pos_ + 1] : '\0';
  char two = 0;
  if (c == '<' && d == '<') two = kShl;
  if (c == '>' && d == '>') two = kShr;
  if (c == '<' && d == '=') two = kLe;
  if (c == '>' && d == '=') two = kGe;
  if (c == '=' && d == '=') two = kEq;
  if (c == '!' && d == '=') two = kNe;
  if (c == '&' && d == '&') two = kAndAnd;
  if (c == '|' && d == '|') two = kOrOr;
  if (two) {
    token_.punct = two;
    pos_ += 2;
    return;
  }
  if (!std::strchr(".,;:{}[]()<>@!|+-*/%&^~=?", c) || c == '\0') {
    if (c >= ' ' && c < 127) fail(std::string("unexpected character '") + c + "'");
    fail("unexpected byte with the value " + std::to_string(uint8_t(c)));
  }
  token_.punct = c;
  ++pos_;
}

void Lexer::string() {
  mark();
  const size_t n = text_.size();
  size_t end = pos_ + 1;
  while (end < n && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
  if (end >= n || text_[end] != '"') fail("this string is not closed");
  token_.kind = Token::Kind::String;
  token_.text = text_.substr(pos_ + 1, end - pos_ - 1);
  pos_ = end + 1;
}

// PTX ISA 4.5.1 and 4.5.2.
void Lexer::number() {
  const size_t n = text_.size(), start = pos_;
  auto at = [&](size_t i) { return i < n ? text_[i] : '\0'; };
  token_.is_unsigned = false;
  token_.width = 0;
  size_t end = start;
  const char x = char(at(start + 1) | 0x20);
  if (text_[start] == '0' && (x == 'f' || x == 'd') && is_class(at(start + 2), kHex)) {
    const size_t digits = x == 'f' ? 8 : 16;
    end = start + 2;
    token_.value = 0;
    while (end < n && is_class(text_[end], kHex)) ++end;
    if (end - start - 2 != digits)
      fail(std::string("0") + at(start + 1) + " takes " + std::to_string(digits) +
           " hexadecimal digits");
    std::from_chars(text_.data() + start + 2, text_.data() + end, token_.value, 16);
    token_.kind = Token::Kind::Float;
    token_.width = x == 'f' ? 32 : 64;
  } else {
    int base = 10;
    size_t first = start;
    if (text_[start] == '0' && x == 'x')
      base = 16, first = start + 2;
    else if (text_[start] == '0' && x == 'b')
      base = 2, first = start + 2;
    end = first;
    while (end < n && is_class(text_[end], base == 16 ? kHex : kDigit)) ++end;
    if (end == first) fail("a number without digits");
    const bool exponent = base == 10 && (at(end) | 0x20) == 'e';
    if (base == 10 && (at(end) == '.' || exponent)) {
      if (at(end) == '.') {
        ++end;
        while (is_class(at(end), kDigit)) ++end;
      }
      if ((at(end) | 0x20) == 'e') {
        ++end;
        if (at(end) == '+' || at(end) == '-') ++end;
        while (is_class(at(end), kDigit)) ++end;
      }
      double v = 0;
      auto r = std::from_chars(text_.data() + start, text_.data() + end, v);
      if (r.ec == std::errc::invalid_argument || r.ptr != text_.data() + end)
        fail("this is no number");
      std::memcpy(&token_.value, &v, sizeof v);
      token_.kind = Token::Kind::Float;
      token_.width = 64;
    } else {
      if (base == 10 && text_[start] == '0' && end > start + 1) base = 8, first = start + 1;
      auto r = std::from_chars(text_.data() + first, text_.data() + end, token_.value, base);
      if (r.ec == std::errc::result_out_of_range) fail("an integer of more than 64 bits");
      if (r.ptr != text_.data() + end) fail("a digit that its base does not have");
      token_.kind = Token::Kind::Int;
      token_.is_unsigned = token_.value >> 63;
      if (at(end) == 'U') {
        token_.is_unsigned = true;
        ++end;
      }
    }
  }
  if (is_class(at(end), kFollow)) {
    pos_ = end;
    fail_here(std::string("'") + at(end) + "' inside a number");
  }
  pos_ = end;
}

std::string_view Lexer::dotted_word() {
  const size_t n = text_.size(), start = pos_;
  size_t end = start;
  while (end < n && is_class(text_[end], kFollow)) {
    ++end;
    if (end + 2 < n && text_[end] == ':' && text_[end + 1] == ':' &&
        is_class(text_[end + 2], kFollow))
      end += 2;
  }
  if (end == start) fail_here("a word must follow the dot");
  if (end - start > 256) fail_here("a modifier of more than 256 bytes");
  pos_ = end;
  std::string_view word = text_.substr(start, end - start);
  advance();
  return word;
}

void Lexer::skip_line() {
  while (token_.line == line_ && pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
  advance();
}

void Lexer::skip_tokens(int line) {
  while (token_.kind != Token::Kind::End && token_.line == line) advance();
}

void Lexer::skip_braces() {
  const Token open = token_;
  int depth = 1;
  while (depth) {
    skip_blanks();
    if (pos_ >= text_.size()) fail_at(open, "this '{' is not closed");
    char c = text_[pos_++];
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c != '"') continue;
    --pos_;
    string();
  }
  advance();
}

std::string Lexer::describe() const {
  switch (token_.kind) {
  case Token::Kind::End:
    return "the end of the text";
  case Token::Kind::Ident:
    return "'" + std::string(token_.text.substr(0, 80)) + "'";
  case Token::Kind::Int:
  case Token::Kind::Float:
    return "a number";
  case Token::Kind::String:
    return "a string";
  case Token::Kind::Punct:
    break;
  }
  static const char* const two[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
  if (token_.punct >= kShl && token_.punct <= kOrOr)
    return std::string("'") + two[token_.punct - kShl] + "'";
  return std::string("'") + token_.punct + "'";
}

} // namespace vgpu::ptx
