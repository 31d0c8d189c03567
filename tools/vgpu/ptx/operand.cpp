// Operands (PTX ISA 6) and constant expressions (PTX ISA 4.5.4 to 4.5.6).
#include "tools/vgpu/ptx/parser_impl.hpp"

#include <bit>

namespace vgpu::ptx {

namespace {
constexpr size_t kMaxItems = 1024;
}

double ConstValue::as_double() const {
  if (!is_float) return is_unsigned ? double(bits) : double(int64_t(bits));
  return width == 32 ? double(std::bit_cast<float>(uint32_t(bits))) : std::bit_cast<double>(bits);
}

ConstValue ConstValue::integer(uint64_t bits, bool is_unsigned) {
  ConstValue v;
  v.bits = bits;
  v.is_unsigned = is_unsigned;
  return v;
}

ConstValue ConstValue::real(double d) {
  ConstValue v;
  v.is_float = true;
  v.bits = std::bit_cast<uint64_t>(d);
  return v;
}

// ---- constant expressions

ConstValue Parser::expression() {
  Nest nest(*this);
  ConstValue c = binary(0);
  if (!accept('?')) return c;
  if (c.is_float) lex_.fail("the condition of ?: must be an integer");
  ConstValue a = expression();
  expect(':', "in a ?: expression");
  ConstValue b = expression();
  if (a.is_float != b.is_float) lex_.fail("?: with an integer and a float");
  ConstValue& taken = c.bits ? a : b;
  taken.is_unsigned = a.is_unsigned || b.is_unsigned;
  return taken;
}

ConstValue Parser::binary(int level) {
  static const char* const levels[] = {"\x08",     "\x07",       "|",        "^",  "&",
                                       "\x05\x06", "<>\x03\x04", "\x01\x02", "+-", "*/%"};
  constexpr int kLevels = sizeof levels / sizeof levels[0];
  if (level == kLevels) return unary();
  ConstValue a = binary(level + 1);
  const std::string_view ops = levels[level];
  for (;;) {
    const Token& t = lex_.token();
    char op = 0;
    if (t.kind == Kind::Punct && ops.find(t.punct) != std::string_view::npos) op = t.punct;
    if (!op) return a;
    lex_.advance();
    a = apply(op, a, binary(level + 1));
  }
}

ConstValue Parser::apply(char op, const ConstValue& a, const ConstValue& b) {
  if (a.is_float || b.is_float) {
    const double x = a.as_double(), y = b.as_double();
    switch (op) {
    case '+':
      return ConstValue::real(x + y);
    case '-':
      return ConstValue::real(x - y);
    case '*':
      return ConstValue::real(x * y);
    case '/':
      return ConstValue::real(x / y);
    case '<':
      return ConstValue::integer(x < y, false);
    case '>':
      return ConstValue::integer(x > y, false);
    case kLe:
      return ConstValue::integer(x <= y, false);
    case kGe:
      return ConstValue::integer(x >= y, false);
    case kEq:
      return ConstValue::integer(x == y, false);
    case kNe:
      return ConstValue::integer(x != y, false);
    default:
      lex_.fail("this operator takes integers only");
    }
  }
  const bool u = a.is_unsigned || b.is_unsigned;
  const uint64_t x = a.bits, y = b.bits;
  const int64_t sx = int64_t(x), sy = int64_t(y);
  switch (op) {
  case '+':
    return ConstValue::integer(x + y, u);
  case '-':
    return ConstValue::integer(x - y, u);
  case '*':
    return ConstValue::integer(x * y, u);
  case '/':
    if (!y) lex_.fail("division by zero in a constant expression");
    if (u) return ConstValue::integer(x / y, true);
    return ConstValue::integer(sy == -1 ? 0 - x : uint64_t(sx / sy), false);
  case '%':
    if (!y) lex_.fail("division by zero in a constant expression");
    return ConstValue::integer(x % y, false);
  case kShl:
    return ConstValue::integer(y > 63 ? 0 : x << y, a.is_unsigned);
  case kShr:
    if (a.is_unsigned) return ConstValue::integer(y > 63 ? 0 : x >> y, true);
    return ConstValue::integer(uint64_t(sx >> (y > 63 ? 63 : y)), false);
  case '<':
    return ConstValue::integer(u ? x < y : sx < sy, false);
  case '>':
    return ConstValue::integer(u ? x > y : sx > sy, false);
  case kLe:
    return ConstValue::integer(u ? x <= y : sx <= sy, false);
  case kGe:
    return ConstValue::integer(u ? x >= y : sx >= sy, false);
  case kEq:
    return ConstValue::integer(x == y, false);
  case kNe:
    return ConstValue::integer(x != y, false);
  case '&':
    return ConstValue::integer(x & y, true);
  case '|':
    return ConstValue::integer(x | y, true);
  case '^':
    return ConstValue::integer(x ^ y, true);
  case kAndAnd:
    return ConstValue::integer(x && y, false);
  case kOrOr:
    return ConstValue::integer(x || y, false);
  default:
    lex_.fail("unknown operator");
  }
}

ConstValue Parser::unary() {
  Nest nest(*this);
  const Token t = lex_.token();
  if (t.kind == Kind::Int) {
    lex_.advance();
    return ConstValue::integer(t.value, t.is_unsigned);
  }
  if (t.kind == Kind::Float) {
    ConstValue v;
    v.is_float = true;
    v.width = t.width;
    v.bits = t.value;
    lex_.advance();
    return v;
  }
  if (t.kind == Kind::Ident && t.text == "WARP_SZ") {
    lex_.advance();
    return ConstValue::integer(32, false);
  }
  if (t.kind == Kind::Punct) {
    switch (t.punct) {
    case '+':
      lex_.advance();
      return unary();
    case '-': {
      lex_.advance();
      ConstValue v = unary();
      if (v.is_float)
        v.bits ^= uint64_t(1) << (v.width - 1);
      else
        v.bits = 0 - v.bits;
      return v;
    }
    case '~':
    case '!': {
      lex_.advance();
      ConstValue v = unary();
      if (v.is_float) lex_.fail("this operator takes integers only");
      return t.punct == '~' ? ConstValue::integer(~v.bits, true)
                            : ConstValue::integer(!v.bits, false);
    }
    case '(': {
      lex_.advance();
      if (lex_.is('.')) { // a cast
        std::string type(lex_.dotted_word());
        expect(')', "after a cast");
        if (type != "s64" && type != "u64") Lexer::fail_at(t, "a cast to ." + type);
        ConstValue v = unary();
        if (v.is_float) lex_.fail("a cast takes integers only");
        v.is_unsigned = type == "u64";
        return v;
      }
      ConstValue v = expression();
      expect(')', "in a constant expression");
      return v;
    }
    default:
      break;
    }
  }
  lex_.fail("expected a constant, found " + lex_.describe());
}

// ---- operands

Operand Parser::constant_operand() {
  ConstValue v = expression();
  Operand o;
  o.kind = v.is_float ? Operand::Kind::Float : Operand::Kind::Int;
  o.value = v.bits;
  o.width = v.is_float ? v.width : 0;
  o.is_unsigned = v.is_unsigned;
  return o;
}

void Parser::add_offset(Operand& o) {
  while (lex_.is('+') || lex_.is('-')) {
    const bool minus = lex_.is('-');
    lex_.advance();
    ConstValue v = binary(9); // products bind tighter than the sum this is part of
    if (v.is_float) lex_.fail("a floating-point address offset");
    o.offset = int64_t(minus ? uint64_t(o.offset) - v.bits : uint64_t(o.offset) + v.bits);
  }
}

Operand Parser::named(bool negated) {
  Operand o;
  std::string_view text = lex_.token().text;
  if (text == "_") {
    if (negated) lex_.fail("a negated '_'");
    lex_.advance();
    return o; // Kind::Sink
  }
  if (text == "WARP_SZ") return constant_operand();
  o.kind = Operand::Kind::Name;
  o.negated = negated;
  o.name = text;
  lex_.advance();
  if (lex_.is('.')) { // component: %tid.x, v.w
    o.name += '.';
    o.name += lex_.dotted_word();
  }
  if (lex_.is('+') || lex_.is('-')) add_offset(o);
  return o;
}

Operand Parser::address() {
  Operand o;
  do {
    if (o.items.size() == kMaxItems) lex_.fail("an address of more than 1024 parts");
    o.items.push_back(operand());
  } while (accept(','));
  expect(']', "at the end of an address");
  Operand& base = o.items[0];
  if (o.items.size() == 1 &&
      (base.kind == Operand::Kind::Name || base.kind == Operand::Kind::Int)) {
    o.kind = Operand::Kind::Address;
    std::swap(o.offset, base.offset);
  } else {
    o.kind = Operand::Kind::Tensor;
  }
  return o;
}

Operand Parser::primary() {
  const Token& t = lex_.token();
  if (t.kind == Kind::Ident) return named(false);
  if (t.kind == Kind::Int || t.kind == Kind::Float) return constant_operand();
  if (t.kind == Kind::Punct) {
    switch (t.punct) {
    case '{': {
      Nest nest(*this);
      lex_.advance();
      Operand o;
      o.kind = Operand::Kind::Vector;
      do {
        if (o.items.size() == kMaxItems) lex_.fail("a vector of more than 1024 elements");
        o.items.push_back(operand());
      } while (accept(','));
      expect('}', "at the end of a vector");
      return o;
    }
    case '[': {
      Nest nest(*this);
      lex_.advance();
      return address();
    }
    case '!':
    case '-': {
      // A sign in front of a name negates the operand; in front of a number it is arithmetic.
      Lexer saved = lex_;
      lex_.advance();
      if (lex_.is_ident() && lex_.token().text != "WARP_SZ") return named(true);
      lex_ = saved;
      return constant_operand();
    }
    case '(':
    case '+':
    case '~':
      return constant_operand();
    default:
      break;
    }
  }
  lex_.fail("expected an operand, found " + lex_.describe());
}

Operand Parser::operand() {
  Operand a = primary();
  if (!lex_.is('|') || (a.kind != Operand::Kind::Name && a.kind != Operand::Kind::Sink)) return a;
  lex_.advance();
  Operand pair;
  pair.kind = Operand::Kind::Pair;
  pair.items.push_back(std::move(a));
  pair.items.push_back(primary());
  return pair;
}

} // namespace vgpu::ptx
