// The recursive-descent parser: module level in parser.cpp, function bodies in statement.cpp,
// operands and constant expressions in operand.cpp.
#pragma once

#include "tools/vgpu/ptx/lexer.hpp"

namespace vgpu::ptx {

// A constant expression's value (PTX ISA 4.5.4).
struct ConstValue {
  bool is_float = false, is_unsigned = false;
  uint8_t width = 64; // of a float that no operator has touched: 32 for 0f
  uint64_t bits = 0;
  double as_double() const;
  static ConstValue integer(uint64_t bits, bool is_unsigned);
  static ConstValue real(double v);
};

class Parser {
public:
  explicit Parser(std::string_view text) : lex_(text) {}
  Module run();

private:
  using Kind = Token::Kind;

  // Counts nesting as long as it lives.
  struct Nest {
    explicit Nest(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxNesting)
        parser.lex_.fail("nested more than " + std::to_string(kMaxNesting) + " deep");
    }
    ~Nest() { --parser.depth_; }
    Parser& parser;
  };

  // ---- small things
  bool accept(char punct) {
    if (!lex_.is(punct)) return false;
    lex_.advance();
    return true;
  }
  void expect(char punct, const char* where);
  std::string name(const char* what);
  uint64_t integer(const char* what); // a constant expression that is a non-negative integer
  void skip_statement();              // to the ';' and past it

  // ---- module level
  void directive();
  void version_line();
  void target_line();
  void function(bool entry, const Variable& linkage);
  void function_directives(Function& f);
  void parameters(std::vector<Variable>& list);
  bool attribute_list(); // whether .managed is among them

  // ---- variables; the space word has been read
  void variables(const std::string& space, const Variable& linkage, int scope,
                 std::vector<Variable>& out);
  void variable_head(Variable& v);
  void declarator(Variable& v, bool parameter);
  void initialiser(Variable& v, size_t level);
  Operand initial_value();

  // ---- bodies
  void body(Function& f, int scope);
  void labelled(Function& f, int scope, const std::string& label, int line);
  void instruction(Function& f, int scope, Guard guard, int line, std::string_view first);
  void call_operands(Statement& s);

  // ---- operands
  Operand operand();
  Operand primary();
  Operand named(bool negated);
  Operand address();
  void add_offset(Operand& o); // "+ 16", "- 4" behind a name
  Operand constant_operand();

  // ---- constant expressions, by precedence
  ConstValue expression(); // ?: and everything below
  ConstValue binary(int level);
  ConstValue unary();
  ConstValue apply(char op, const ConstValue& a, const ConstValue& b);

  Lexer lex_;
  Module module_;
  int depth_ = 0;
};

} // namespace vgpu::ptx
