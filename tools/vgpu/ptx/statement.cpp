// Function bodies: blocks, labels, declarations and instructions (PTX ISA 4.3).
#include "tools/vgpu/ptx/parser_impl.hpp"

namespace vgpu::ptx {

namespace {
constexpr size_t kMaxModifiers = 40;
constexpr size_t kMaxOperands = 4096; // of an instruction or a call
} // namespace

void Parser::body(Function& f, int scope) {
  const Token open = lex_.token();
  for (;;) {
    const Token t = lex_.token();
    if (t.kind == Kind::End) Lexer::fail_at(open, "the '{' before this is not closed");
    if (t.kind == Kind::Ident) {
      lex_.advance();
      if (accept(':'))
        labelled(f, scope, std::string(t.text), t.line);
      else
        instruction(f, scope, {}, t.line, t.text);
      continue;
    }
    if (t.kind != Kind::Punct) lex_.fail("expected a statement, found " + lex_.describe());
    if (t.punct == '}') {
      lex_.advance();
      return;
    }
    if (t.punct == '{') {
      Nest nest(*this);
      lex_.advance();
      f.scopes.push_back({scope});
      body(f, int(f.scopes.size()) - 1);
    } else if (t.punct == ';') {
      lex_.advance();
    } else if (t.punct == '@') {
      lex_.advance();
      if (lex_.is('@')) { // "@@DWARF"
        lex_.skip_line();
        continue;
      }
      Guard guard;
      guard.negated = accept('!');
      guard.name = name("a predicate");
      const Token first = lex_.token();
      if (first.kind != Kind::Ident) lex_.fail("expected an opcode, found " + lex_.describe());
      lex_.advance();
      instruction(f, scope, std::move(guard), t.line, first.text);
    } else if (t.punct == '.') {
      std::string word(lex_.dotted_word());
      Variable linkage;
      if (word == "extern" && lex_.is('.')) {
        linkage.is_extern = true;
        word = lex_.dotted_word();
      }
      if (word == "reg" || word == "shared" || word == "local" || word == "param" ||
          word == "global" || word == "const")
        variables(word, linkage, scope, f.variables);
      else if (word == "loc" || word == "file")
        lex_.skip_tokens(t.line);
      else if (word == "pragma")
        skip_statement();
      else if (word == "section") {
        while (!lex_.is('{')) {
          if (lex_.token().kind == Kind::End) Lexer::fail_at(t, ".section without '{'");
          lex_.advance();
        }
        lex_.skip_braces();
      } else {
        Lexer::fail_at(t, "unknown directive ." + word + " in a function");
      }
    } else {
      lex_.fail("expected a statement, found " + lex_.describe());
    }
  }
}

// A label marks the next statement, or names a list of targets or a prototype (PTX ISA 11.3).
void Parser::labelled(Function& f, int scope, const std::string& label, int line) {
  if (lex_.is('.')) {
    Lexer saved = lex_;
    std::string word(lex_.dotted_word());
    if (word == "branchtargets" || word == "calltargets") {
      const bool branch = word == "branchtargets";
      std::vector<std::string> targets;
      do targets.push_back(name(branch ? "a label" : "a function"));
      while (accept(','));
      expect(';', branch ? "after .branchtargets" : "after .calltargets");
      (branch ? f.branch_targets : f.call_targets).emplace_back(label, std::move(targets));
      return;
    }
    if (word == "callprototype") {
      f.prototypes.push_back(label);
      return skip_statement();
    }
    lex_ = saved; // a label in front of a declaration
  }
  f.labels.push_back({label, scope, int(f.statements.size()), line});
}

// call (ret), f, (a, b); call f; call (ret), %fptr, (a), prototype;
void Parser::call_operands(Statement& s) {
  auto list = [&](std::vector<Operand>& out) {
    expect('(', "before arguments");
    if (accept(')')) return;
    do {
      if (out.size() == kMaxOperands) lex_.fail("a call with more than 4096 arguments");
      out.push_back(operand());
    } while (accept(','));
    expect(')', "after arguments");
  };
  if (lex_.is('(')) {
    list(s.call_returns);
    expect(',', "before the function of a call");
  }
  s.operands.push_back(operand());
  if (accept(',')) {
    if (lex_.is('(')) {
      list(s.call_arguments);
      if (accept(',')) s.operands.push_back(operand());
    } else {
      s.operands.push_back(operand());
    }
  }
}

void Parser::instruction(Function& f, int scope, Guard guard, int line, std::string_view first) {
  Statement& s = f.statements.emplace_back();
  s.line = line;
  s.scope = scope;
  s.guard = std::move(guard);
  s.opcode.reserve(4);
  s.opcode.emplace_back(first);
  while (lex_.is('.')) {
    if (s.opcode.size() == kMaxModifiers) lex_.fail("an opcode with more than 40 parts");
    s.opcode.emplace_back(lex_.dotted_word());
  }
  if (first == "call") {
    call_operands(s);
  } else if (!lex_.is(';')) {
    s.operands.reserve(4);
    do {
      if (s.operands.size() == kMaxOperands)
        lex_.fail("an instruction with more than 4096 operands");
      s.operands.push_back(operand());
    } while (accept(','));
  }
  if (!lex_.is(';'))
    lex_.fail("expected ',' or ';' after an operand of '" + s.opcode[0] + "', found " +
              lex_.describe());
  lex_.advance();
}

} // namespace vgpu::ptx
