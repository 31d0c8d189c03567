#include "tools/vgpu/isa/pattern.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace vgpu::isa {

namespace {

[[noreturn]] void bad(std::string_view text, const char* what) {
  throw std::logic_error("instruction table: \"" + std::string(text) + "\": " + what);
}

bool word_char(char c) { return std::isalnum(uint8_t(c)) || c == '_' || c == ':'; }

std::string_view take_word(std::string_view text, size_t& pos) {
  size_t start = pos;
  while (pos < text.size() && word_char(text[pos])) ++pos;
  return text.substr(start, pos - start);
}

bool match_from(const std::vector<PatternItem>& items, size_t item,
                const std::vector<std::string>& tokens, size_t token, Match& match,
                size_t& reached) {
  reached = std::max(reached, token);
  if (item == items.size()) return token == tokens.size();
  const PatternItem& p = items[item];
  if (p.rest) return true;
  if (token < tokens.size())
    for (std::string_view w : p.words)
      if (w == tokens[token]) {
        const size_t before = match.size();
        if (!p.name.empty())
          match.bind(p.name, w);
        else if (p.optional)
          match.bind(w, w);
        if (match_from(items, item + 1, tokens, token + 1, match, reached)) return true;
        match.truncate(before);
        break;
      }
  return p.optional && match_from(items, item + 1, tokens, token, match, reached);
}

bool fits(char kind, const ptx::Operand& o) {
  using K = ptx::Operand::Kind;
  switch (kind) {
  case 'd':
    return (o.kind == K::Name && !o.negated && !o.offset) || o.kind == K::Vector ||
           o.kind == K::Pair || o.kind == K::Sink;
  case 's':
    return o.kind == K::Name || o.kind == K::Int || o.kind == K::Float;
  case 'p':
    return o.kind == K::Name || o.kind == K::Int;
  case 'm':
    return o.kind == K::Address || o.kind == K::Tensor;
  case 'v':
    return o.kind == K::Vector || o.kind == K::Name || o.kind == K::Int || o.kind == K::Float;
  case 't':
    return o.kind == K::Tensor || o.kind == K::Address;
  case 'n':
    return o.kind == K::Name;
  default:
    return false;
  }
}

bool fit_from(const std::vector<SignatureItem>& items, size_t item,
              const std::vector<ptx::Operand>& operands, size_t at, size_t& reached, char& wanted) {
  if (at >= reached) {
    reached = at;
    wanted = item < items.size() ? items[item].kind : 0;
  }
  if (item == items.size()) return at == operands.size();
  if (at < operands.size() && fits(items[item].kind, operands[at]) &&
      fit_from(items, item + 1, operands, at + 1, reached, wanted))
    return true;
  return items[item].optional && fit_from(items, item + 1, operands, at, reached, wanted);
}

} // namespace

Pattern Pattern::compile(std::string_view text) {
  Pattern p;
  for (size_t pos = 0; pos < text.size();) {
    if (text[pos] == ' ' || text[pos] == '\n') {
      ++pos;
      continue;
    }
    PatternItem item;
    if (text.substr(pos) == "*" && !p.items.empty()) {
      item.rest = true;
      p.items.push_back(std::move(item));
      break;
    }
    std::string_view word = take_word(text, pos);
    if (pos < text.size() && text[pos] == '{') {
      if (word.empty()) bad(text, "a choice needs a name in front of '{'");
      item.name = word;
      do {
        ++pos;
        std::string_view w = take_word(text, pos);
        if (w.empty()) bad(text, "an empty word in a choice");
        item.words.push_back(w);
      } while (pos < text.size() && text[pos] == '|');
      if (pos >= text.size() || text[pos] != '}') bad(text, "a choice without '}'");
      ++pos;
    } else {
      if (word.empty()) bad(text, "unexpected character");
      item.words.push_back(word);
    }
    if (pos < text.size() && text[pos] == '?') {
      item.optional = true;
      ++pos;
    }
    if (pos < text.size() && text[pos] != ' ' && text[pos] != '\n')
      bad(text, "items are separated by blanks");
    p.items.push_back(std::move(item));
  }
  if (p.items.empty()) bad(text, "an empty pattern");
  if (p.items[0].optional) bad(text, "the first word cannot be optional");
  return p;
}

bool Pattern::match(const std::vector<std::string>& tokens, Match& m, size_t& reached) const {
  const size_t before = m.size();
  if (match_from(items, 0, tokens, 0, m, reached)) return true;
  m.truncate(before);
  return false;
}

bool Pattern::match_shuffled(const std::vector<std::string>& tokens, Match& m) const {
  const size_t before = m.size();
  std::vector<bool> used(items.size());
  auto take = [&](const std::string& token, size_t first, size_t end) {
    size_t at = items.size();
    std::string_view word;
    for (size_t i = first; i < end; ++i)
      for (std::string_view w : items[i].words)
        if (w == token) {
          if (at != items.size()) return false;
          at = i;
          word = w;
        }
    if (at == items.size() || used[at]) return false;
    used[at] = true;
    if (!items[at].name.empty())
      m.bind(items[at].name, word);
    else if (items[at].optional)
      m.bind(word, word);
    return true;
  };
  bool good = take(tokens[0], 0, 1);
  for (size_t t = 1; good && t < tokens.size(); ++t) good = take(tokens[t], 1, items.size());
  for (size_t i = 0; good && i < items.size(); ++i)
    good = used[i] || (items[i].optional && !items[i].rest);
  if (!good) m.truncate(before);
  return good;
}

Signature Signature::compile(std::string_view text) {
  Signature s;
  s.any = text == "*";
  if (s.any) return s;
  bool comma = true;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    char c = text[pos];
    if (c == ' ') continue;
    if (c == ',') {
      if (comma) bad(text, "an empty operand");
      comma = true;
    } else if (c == '?') {
      if (comma || s.items.empty() || s.items.back().optional) bad(text, "a stray '?'");
      s.items.back().optional = true;
    } else if (std::string_view("dspmvtn").find(c) != std::string_view::npos) {
      if (!comma) bad(text, "operands are separated by commas");
      s.items.push_back({c, false});
      comma = false;
    } else {
      bad(text, "an unknown operand kind");
    }
  }
  if (comma && !s.items.empty()) bad(text, "an empty operand");
  return s;
}

bool Signature::match(const std::vector<ptx::Operand>& operands, size_t& reached,
                      char& wanted) const {
  return any || fit_from(items, 0, operands, 0, reached, wanted);
}

const char* operand_kind_name(char kind) {
  switch (kind) {
  case 'd':
    return "a destination (register, vector, pair or _)";
  case 's':
    return "a register or an immediate";
  case 'p':
    return "a predicate";
  case 'm':
    return "an address in brackets";
  case 'v':
    return "a vector or a register";
  case 't':
    return "a tensor address [map, {...}]";
  case 'n':
    return "a name";
  default:
    return "nothing";
  }
}

} // namespace vgpu::isa
