#include "tools/cli/json.hpp"

#include "tools/cli/failure.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <unordered_set>
#include <utility>

namespace warpline::cli {
namespace {

// Length of the valid UTF-8 sequence at text[at], 0 when it is invalid.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  unsigned low = 0x80, high = 0xBF; // limits of the second byte
  if (first >= 0xC2 && first <= 0xDF)
    length = 2;
  else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else
    return 0;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return length;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80)
    out += static_cast<char>(code);
  else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Parser {
public:
  Parser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Json document() {
    Json value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the end of the JSON value");
    return value;
  }

private:
  std::string_view text_;
  JsonLimits limits_;
  size_t at_ = 0;
  size_t values_ = 0;

  [[noreturn]] void fail(const std::string& what) const {
    throw JsonError(what + " at byte " + std::to_string(at_));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool is_digit() const { return peek() >= '0' && peek() <= '9'; }
  void skip_space() {
    while (at_ < text_.size() &&
           (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r'))
      ++at_;
  }
  bool accept(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (at_ >= text_.size()) fail("the text ends too early");
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  bool accept_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json parse_value(int depth) {
    if (depth > limits_.depth)
      fail("nesting deeper than " + std::to_string(limits_.depth) + " levels");
    if (++values_ > limits_.values) fail("more than " + std::to_string(limits_.values) + " values");
    skip_space();
    Json value;
    if (at_ >= text_.size()) fail("the text ends too early");
    switch (peek()) {
    case '{':
      parse_object(value, depth);
      break;
    case '[':
      parse_array(value, depth);
      break;
    case '"':
      value.kind = Json::Kind::string;
      value.text = parse_string();
      break;
    default:
      if (peek() == '-' || is_digit())
        parse_number(value);
      else if (accept_word("true") || accept_word("false")) {
        value.kind = Json::Kind::boolean;
        value.boolean = text_[at_ - 2] == 'u';
      } else if (!accept_word("null"))
        fail("not a JSON value");
    }
    return value;
  }

  void parse_object(Json& value, int depth) {
    value.kind = Json::Kind::object;
    expect('{');
    skip_space();
    if (accept('}')) return;
    std::unordered_set<std::string> names;
    do {
      skip_space();
      if (peek() != '"') fail("expected a name in quotes");
      std::string name = parse_string();
      if (!names.insert(name).second) fail("the name " + shown_name(name) + " appears twice");
      skip_space();
      expect(':');
      value.members.push_back({std::move(name), parse_value(depth + 1)});
      skip_space();
    } while (accept(','));
    expect('}');
  }

  void parse_array(Json& value, int depth) {
    value.kind = Json::Kind::array;
    expect('[');
    skip_space();
    if (accept(']')) return;
    do {
      value.items.push_back(parse_value(depth + 1));
      skip_space();
    } while (accept(','));
    expect(']');
  }

  std::string parse_string() {
    expect('"');
    std::string out;
    for (;;) {
      if (at_ >= text_.size()) fail("a string without its closing quote");
      const char c = text_[at_];
      if (c == '"') break;
      if (static_cast<uint8_t>(c) < 0x20) fail("a control character inside a string");
      if (c == '\\') {
        ++at_;
        parse_escape(out);
        continue;
      }
      const size_t length = utf8_length(text_, at_);
      if (length == 0) fail("a string that is not valid UTF-8");
      out.append(text_.substr(at_, length));
      at_ += length;
    }
    ++at_;
    return out;
  }

  void parse_escape(std::string& out) {
    static constexpr std::string_view names = "\"\\/bfnrt", codes = "\"\\/\b\f\n\r\t";
    const size_t index = at_ < text_.size() ? names.find(peek()) : std::string_view::npos;
    if (index != std::string_view::npos) {
      out += codes[index];
      ++at_;
      return;
    }
    if (!accept('u')) fail("an unknown escape inside a string");
    uint32_t code = parse_hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      if (!accept_word("\\u")) fail("half of a surrogate pair");
      const uint32_t second = parse_hex4();
      if (second < 0xDC00 || second > 0xDFFF) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000)
      fail("half of a surrogate pair");
    append_utf8(out, code);
  }

  uint32_t parse_hex4() {
    uint32_t code = 0;
    if (text_.size() - at_ < 4) fail("the text ends too early");
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
    if (error != std::errc{} || end != begin + 4) fail("\\u needs four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void parse_number(Json& value) {
    const size_t begin = at_;
    const bool negative = accept('-');
    const size_t digits = at_;
    while (is_digit()) ++at_;
    if (at_ == digits) fail("a number without digits");
    if (at_ - digits > 1 && text_[digits] == '0') fail("a number with a leading zero");
    bool whole = true;
    if (accept('.')) {
      whole = false;
      if (!is_digit()) fail("a number without digits behind its point");
      while (is_digit()) ++at_;
    }
    if (accept('e') || accept('E')) {
      whole = false;
      if (!accept('+')) accept('-');
      if (!is_digit()) fail("a number without digits in its exponent");
      while (is_digit()) ++at_;
    }
    value.kind = Json::Kind::number;
    const char *first = text_.data() + begin, *last = text_.data() + at_;
    if (std::from_chars(first, last, value.number).ec != std::errc{})
      value.number = negative ? -HUGE_VAL : HUGE_VAL;
    if (whole && !negative)
      value.is_unsigned = std::from_chars(first, last, value.integer).ec == std::errc{};
  }
};

} // namespace

const Json* Json::find(std::string_view name) const {
  for (const auto& [key, value] : members)
    if (key == name) return &value;
  return nullptr;
}

const char* name_of(Json::Kind kind) {
  switch (kind) {
  case Json::Kind::null:
    return "null";
  case Json::Kind::boolean:
    return "a boolean";
  case Json::Kind::number:
    return "a number";
  case Json::Kind::string:
    return "a string";
  case Json::Kind::array:
    return "an array";
  case Json::Kind::object:
    return "an object";
  }
  return "?";
}

Json parse_json(std::string_view text, const JsonLimits& limits) {
  return Parser(text, limits).document();
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<uint8_t>(text[at]);
    const size_t length = utf8_length(text, at);
    if (c == '"' || c == '\\')
      out += {'\\', text[at]};
    else if (c < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else if (length == 0)
      out += "\xEF\xBF\xBD";
    else
      out.append(text.substr(at, length));
    at += length == 0 ? 1 : length;
  }
  return out + "\"";
}

std::string shown_name(std::string_view name) { return json_string(shortened(name)); }

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  const auto result = std::to_chars(text, text + sizeof text, value);
  return std::string(text, result.ptr);
}

} // namespace warpline::cli
