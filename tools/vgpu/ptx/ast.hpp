// The syntax tree of one PTX module, as written: no types are checked and no names resolved here.
// The parser (parser.hpp) makes it, isa/decode.hpp turns kernels of it into programs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vgpu::ptx {

struct Operand {
  enum class Kind : uint8_t {
    Name,    // register, special register, variable, parameter, label or function: `name`
    Int,     // integer immediate: `value` (two's complement; `is_unsigned` when it carried a U)
    Float,   // floating immediate: `value` holds the bits, `width` 32 (0f) or 64 (0d, decimal)
    Address, // [base], [base+offset], [immediate]: items[0] is the base, `offset` the constant
    Tensor,  // [map, {c0, c1, ...}] and its longer forms: items are the comma-separated parts
    Vector,  // {a, b, ...}: items
    Pair,    // a|b : items[0], items[1]
    Sink,    // _
  };
  Kind kind = Kind::Sink;
  bool negated = false; // !p, or -r where the ISA allows a negated name
  bool is_unsigned = false;
  uint8_t width = 0;
  std::string name; // Name; may carry a component suffix such as ".x" (special registers: "%tid.x")
  uint64_t value = 0;
  int64_t offset = 0;
  std::vector<Operand> items;
};

struct Guard {
  std::string name; // predicate register; empty = unguarded
  bool negated = false;
};

struct Statement {
  int line = 0;  // 1-based line in the source text
  int scope = 0; // index into Function::scopes
  Guard guard;
  std::vector<std::string> opcode; // "mbarrier.try_wait.shared::cta.b64" split at the dots
  std::vector<Operand> operands;
  // call: items before the function name (return values) and after it (arguments) are kept apart.
  std::vector<Operand> call_returns, call_arguments;
};

struct Label {
  std::string name;
  int scope = 0;
  int statement = 0; // index of the first statement after it
  int line = 0;
};

// .reg, .shared, .local, .global, .const, .param, with or without initialiser.
struct Variable {
  std::string space; // "reg", "shared", "global", "const", "local", "param"
  std::string type;  // "b8", "u32", "pred", "f64", "b128", ".texref" ...
  std::string name;
  int vector = 1;             // .v2, .v4
  uint32_t alignment = 0;     // 0 = natural
  std::vector<uint64_t> dims; // array dimensions; one entry 0 = [] (unsized)
  uint32_t range = 0;         // `.reg .b32 %r<10>`: 10; names %r0..%r9
  bool is_extern = false, is_visible = false, is_weak = false;
  bool is_array = false;
  bool is_managed = false; // .attribute(.managed)
  // In order, braces of inner dimensions filled up with zeros. Name items are addresses of
  // variables (with offset); `value` is then the mask of the mask() operator, 0 = none.
  std::vector<Operand> init;
  int scope = 0; // inside a function
  int line = 0;
};

struct Scope {
  int parent = -1;
};

struct Function {
  bool is_entry = false, is_extern = false, is_visible = false, is_weak = false, has_body = false;
  std::string name;
  int line = 0;
  std::vector<Variable> params, returns;
  // directives: .maxntid (3 values), .minnctapersm, .maxnreg, .reqntid, .reqnctapercluster,
  // .explicitcluster, .maxclusterrank, .noreturn, .pragma strings
  struct Directive {
    std::string name;
    std::vector<uint64_t> values;
    std::string text;
  };
  std::vector<Directive> directives;
  std::vector<Scope> scopes; // [0] is the body; nested { } follow, each with a parent
  std::vector<Variable> variables;
  std::vector<Label> labels;
  std::vector<Statement> statements;
  // `.branchtargets` lists: label name -> target labels
  std::vector<std::pair<std::string, std::vector<std::string>>> branch_targets;
  // `.calltargets` lists alike; `.callprototype` labels.
  std::vector<std::pair<std::string, std::vector<std::string>>> call_targets;
  std::vector<std::string> prototypes;
};

struct Module {
  std::string version;              // "8.8"
  std::vector<std::string> targets; // "sm_100f", ...
  int address_size = 64;
  std::vector<Variable> variables; // module scope
  std::vector<Function> functions;
  std::vector<std::pair<std::string, std::string>> aliases; // .alias: new name, function
  std::vector<std::string> lines;                           // the source text by line, for reports
};

} // namespace vgpu::ptx
