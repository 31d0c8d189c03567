// Module level (PTX ISA 5.4 and 11): directives, variables, function heads.
#include "tools/vgpu/ptx/parser_impl.hpp"

#include <algorithm>
#include <iterator>

namespace vgpu::ptx {

namespace {

constexpr uint64_t kMaxArray = uint64_t(1) << 40; // elements
constexpr uint64_t kMaxInit = uint64_t(1) << 24;  // elements given in braces

bool is_type(std::string_view word) {
  static const std::string_view types[] = {
      "b8",     "b16",   "b32",   "b64",    "b128",       "u8",      "u16",    "u32",    "u64",
      "s8",     "s16",   "s32",   "s64",    "f16",        "f32",     "f64",    "f16x2",  "bf16",
      "bf16x2", "tf32",  "pred",  "e4m3",   "e5m2",       "e2m1",    "e4m3x2", "e5m2x2", "ue8m0x2",
      "u16x2",  "s16x2", "f32x2", "texref", "samplerref", "surfref",
  };
  return std::find(std::begin(types), std::end(types), word) != std::end(types);
}

} // namespace

// ---- small things

void Parser::expect(char punct, const char* where) {
  if (!lex_.is(punct))
    lex_.fail(std::string("expected '") + punct + "' " + where + ", found " + lex_.describe());
  lex_.advance();
}

std::string Parser::name(const char* what) {
  if (!lex_.is_ident()) lex_.fail(std::string("expected ") + what + ", found " + lex_.describe());
  std::string s(lex_.token().text);
  lex_.advance();
  return s;
}

uint64_t Parser::integer(const char* what) {
  const Token t = lex_.token();
  ConstValue v = binary(7); // no comparison: "<10>" ends at its bracket
  if (v.is_float || (!v.is_unsigned && int64_t(v.bits) < 0))
    Lexer::fail_at(t, std::string(what) + " must be an integer of at least 0");
  return v.bits;
}

void Parser::skip_statement() {
  const Token start = lex_.token();
  while (!lex_.is(';')) {
    if (lex_.token().kind == Kind::End) Lexer::fail_at(start, "this statement has no ';'");
    lex_.advance();
  }
  lex_.advance();
}

// ---- module level

Module Parser::run() {
  while (lex_.token().kind != Kind::End) {
    if (lex_.is('@')) { // "@@DWARF", PTX ISA 11.5.1
      lex_.skip_line();
      continue;
    }
    if (accept(';')) continue;
    if (!lex_.is('.')) lex_.fail("expected a directive, found " + lex_.describe());
    directive();
  }
  return std::move(module_);
}

void Parser::version_line() {
  // "9.0" is read as two integers around a dot or as one decimal number.
  const Token t = lex_.token();
  if (t.kind != Kind::Float || t.width != 64) lex_.fail(".version takes MAJOR.MINOR");
  double v = ConstValue{true, false, 64, t.value}.as_double();
  if (!(v >= 1 && v < 100)) lex_.fail(".version is out of range");
  int tenths = int(v * 10 + 0.5);
  module_.version = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
  lex_.advance();
}

void Parser::target_line() {
  do module_.targets.push_back(name("a target"));
  while (accept(','));
}

void Parser::directive() {
  const Token start = lex_.token();
  Variable linkage;
  for (;;) {
    if (!lex_.is('.')) lex_.fail("expected a directive, found " + lex_.describe());
    std::string word(lex_.dotted_word());
    if (word == "extern")
      linkage.is_extern = true;
    else if (word == "visible")
      linkage.is_visible = true;
    else if (word == "weak" || word == "common")
      linkage.is_weak = true;
    else if (word == "entry" || word == "func")
      return function(word == "entry", linkage);
    else if (word == "global" || word == "const" || word == "shared" || word == "local" ||
             word == "reg" || word == "tex" || word == "param")
      return variables(word, linkage, 0, module_.variables);
    else if (word == "version")
      return version_line();
    else if (word == "target")
      return target_line();
    else if (word == "address_size") {
      module_.address_size = int(std::min<uint64_t>(integer(".address_size"), 1000));
      if (module_.address_size != 32 && module_.address_size != 64)
        Lexer::fail_at(start, ".address_size must be 32 or 64");
      return;
    } else if (word == "file" || word == "loc") {
      lex_.skip_tokens(start.line);
      return;
    } else if (word == "section") {
      while (!lex_.is('{')) {
        if (lex_.token().kind == Kind::End) Lexer::fail_at(start, ".section without '{'");
        lex_.advance();
      }
      return lex_.skip_braces();
    } else if (word == "pragma") {
      return skip_statement();
    } else if (word == "alias") {
      std::string alias = name("a function");
      expect(',', "in .alias");
      module_.aliases.emplace_back(std::move(alias), name("a function"));
      return expect(';', "after .alias");
    } else {
      Lexer::fail_at(start, "unknown directive ." + word);
    }
  }
}

bool Parser::attribute_list() { // .attribute(.managed), .attribute(.unified(1, 2))
  const Token start = lex_.token();
  bool managed = false;
  expect('(', "after .attribute");
  for (int open = 1; open;) {
    if (lex_.token().kind == Kind::End) Lexer::fail_at(start, "this '(' is not closed");
    if (lex_.is('(')) ++open;
    if (lex_.is(')')) --open;
    managed |= lex_.token().text == "managed";
    lex_.advance();
  }
  return managed;
}

void Parser::parameters(std::vector<Variable>& list) {
  expect('(', "before parameters");
  if (accept(')')) return;
  do {
    if (!lex_.is('.')) lex_.fail("expected a parameter, found " + lex_.describe());
    Variable v;
    v.space = lex_.dotted_word();
    if (v.space != "param" && v.space != "reg") lex_.fail("a parameter in ." + v.space);
    variable_head(v);
    declarator(v, true);
    list.push_back(std::move(v));
  } while (accept(','));
  expect(')', "after parameters");
}

void Parser::function_directives(Function& f) {
  while (lex_.is('.')) {
    const Token start = lex_.token();
    Function::Directive d;
    d.name = lex_.dotted_word();
    if (d.name == "attribute") {
      attribute_list();
      continue;
    }
    if (d.name == "pragma") {
      if (lex_.token().kind != Kind::String) lex_.fail(".pragma takes a string");
      d.text = lex_.token().text;
      lex_.advance();
      expect(';', "after .pragma");
    } else if (d.name == "maxntid" || d.name == "reqntid" || d.name == "reqnctapercluster") {
      do d.values.push_back(integer("a dimension"));
      while (accept(','));
      if (d.values.size() > 3) Lexer::fail_at(start, "more than three dimensions");
      d.values.resize(3, 1);
    } else if (d.name == "minnctapersm" || d.name == "maxnctapersm" || d.name == "maxnreg" ||
               d.name == "maxclusterrank" || d.name == "abi_preserve" ||
               d.name == "abi_preserve_control") {
      d.values.push_back(integer("a limit"));
    } else if (d.name != "explicitcluster" && d.name != "noreturn" &&
               d.name != "blocksareclusters") {
      Lexer::fail_at(start, "unknown directive ." + d.name);
    }
    f.directives.push_back(std::move(d));
  }
}

void Parser::function(bool entry, const Variable& linkage) {
  Function f;
  f.is_entry = entry;
  f.is_extern = linkage.is_extern;
  f.is_visible = linkage.is_visible;
  f.is_weak = linkage.is_weak;
  while (lex_.is('.')) {
    const Token t = lex_.token();
    std::string word(lex_.dotted_word());
    if (word != "attribute") Lexer::fail_at(t, "unexpected ." + word);
    attribute_list();
  }
  if (lex_.is('(')) {
    if (entry) lex_.fail("an .entry returns nothing");
    parameters(f.returns);
  }
  f.line = lex_.token().line;
  f.name = name("the name of a function");
  if (lex_.is('(')) parameters(f.params);
  function_directives(f);
  if (lex_.is('{')) {
    Nest nest(*this);
    lex_.advance();
    f.has_body = true;
    f.scopes.push_back({});
    body(f, 0);
  } else if (entry || !accept(';')) {
    lex_.fail("expected '{' or ';', found " + lex_.describe());
  }
  module_.functions.push_back(std::move(f));
}

// ---- variables

void Parser::variable_head(Variable& v) {
  v.line = lex_.token().line;
  bool pointee = false; // .ptr: what follows describes what the parameter points to
  if (v.space == "const" && accept('[')) { // banked constants
    integer("a bank");
    expect(']', "after a bank");
  }
  while (lex_.is('.')) {
    const Token t = lex_.token();
    std::string word(lex_.dotted_word());
    if (word == "align") {
      uint64_t a = integer("an alignment");
      if (!a || (a & (a - 1)) || a > (1u << 20))
        Lexer::fail_at(t, ".align must be a power of two of at most 1048576");
      if (!pointee) v.alignment = uint32_t(a);
    } else if (word == "v2" || word == "v4" || word == "v8") {
      v.vector = word[1] - '0';
    } else if (word == "ptr") {
      pointee = true;
    } else if (pointee && (word == "global" || word == "const" || word == "local" ||
                           word.substr(0, 6) == "shared" || word == "param")) {
      continue;
    } else if (word == "attribute") {
      v.is_managed = attribute_list();
    } else if (is_type(word) && v.type.empty()) {
      v.type = std::move(word);
    } else {
      Lexer::fail_at(t, "unexpected ." + word + " in the declaration of a variable");
    }
  }
  if (v.type.empty()) {
    if (v.space != "tex") lex_.fail("a variable without a type");
    v.type = "texref";
  }
}

void Parser::declarator(Variable& v, bool parameter) {
  const Token start = lex_.token();
  v.name = name("the name of a variable");
  if (!parameter && accept('<')) {
    uint64_t n = integer("a number of registers");
    if (!n || n > (1u << 30)) Lexer::fail_at(start, "a range must have 1 to 2^30 names");
    v.range = uint32_t(n);
    expect('>', "after the number of names");
  }
  uint64_t total = 1;
  while (lex_.is('[')) {
    if (v.space == "reg") lex_.fail("an array of registers");
    lex_.advance();
    v.is_array = true;
    uint64_t n = lex_.is(']') ? 0 : integer("a dimension");
    expect(']', "after a dimension");
    if (v.dims.size() == 16) Lexer::fail_at(start, "more than 16 dimensions");
    if (n > kMaxArray || (n && total > kMaxArray / n))
      Lexer::fail_at(start, "this array has more than 2^40 elements");
    if (n) total *= n;
    v.dims.push_back(n);
  }
  if (v.is_array && v.range) Lexer::fail_at(start, "a range of arrays");
  if (!parameter && accept('=')) {
    if (v.space == "reg" || v.space == "param") lex_.fail("an initial value in ." + v.space);
    initialiser(v, 0);
    if (v.is_array && v.dims[0] == 0) {
      uint64_t row = total * uint64_t(v.vector);
      v.dims[0] = row ? (v.init.size() + row - 1) / row : 0;
    }
  }
}

Operand Parser::initial_value() {
  const Token t = lex_.token();
  if (t.kind == Kind::Ident && t.text != "WARP_SZ") {
    // generic(sym): with 64-bit unified addresses a variable's generic address is its address.
    if (t.text == "generic") {
      lex_.advance();
      expect('(', "after generic");
      Operand o = initial_value();
      expect(')', "after generic(...");
      if (o.kind == Operand::Kind::Name) add_offset(o);
      return o;
    }
    return named(false);
  }
  Operand o = constant_operand();
  if (o.kind == Operand::Kind::Int && accept('(')) { // mask(...), PTX ISA 5.4.4
    Operand inner = initial_value();
    expect(')', "after a mask");
    if (inner.kind == Operand::Kind::Name) {
      inner.value = o.value;
      return inner;
    }
    if (!o.value) Lexer::fail_at(t, "the mask 0");
    o.value = (inner.value & o.value) >> __builtin_ctzll(o.value);
  }
  return o;
}

// `level` braces are open around the value. An inner group that is shorter than its dimension is
// filled up with zeros.
void Parser::initialiser(Variable& v, size_t level) {
  if (!lex_.is('{')) {
    v.init.push_back(initial_value());
    return;
  }
  Nest nest(*this);
  const Token open = lex_.token();
  const size_t start = v.init.size();
  lex_.advance();
  while (!lex_.is('}')) {
    initialiser(v, level + 1);
    if (!accept(',')) break;
  }
  expect('}', "after initial values");
  uint64_t size = uint64_t(v.vector);
  for (size_t i = level; i < v.dims.size(); ++i) size *= v.dims[i];
  if (level == 0 && (v.dims.empty() || v.dims[0])) {
    if (v.init.size() > size) Lexer::fail_at(open, "more initial values than elements");
  } else if (level) {
    if (v.init.size() - start > size || level > v.dims.size())
      Lexer::fail_at(open, "more initial values than elements");
    if (start + size > kMaxInit) Lexer::fail_at(open, "too many initial values");
    Operand zero;
    zero.kind = Operand::Kind::Int;
    v.init.resize(start + size, zero);
  }
}

void Parser::variables(const std::string& space, const Variable& linkage, int scope,
                       std::vector<Variable>& out) {
  Variable head = linkage;
  head.space = space == "tex" ? "global" : space;
  head.scope = scope;
  variable_head(head);
  do {
    Variable v = head;
    v.line = lex_.token().line;
    declarator(v, false);
    out.push_back(std::move(v));
  } while (accept(','));
  expect(';', "after the declaration of a variable");
}

// ---- entry point

Module parse(std::string_view text) {
  Module m = Parser(text).run();
  m.lines.reserve(size_t(std::count(text.begin(), text.end(), '\n')) + 1);
  for (size_t pos = 0; pos <= text.size();) {
    size_t end = std::min(text.find('\n', pos), text.size());
    size_t last = end > pos && text[end - 1] == '\r' ? end - 1 : end;
    m.lines.emplace_back(text.substr(pos, last - pos));
    pos = end + 1;
  }
  return m;
}

} // namespace vgpu::ptx
