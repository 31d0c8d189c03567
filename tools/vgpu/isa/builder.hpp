// Builds one program: scopes.cpp resolves names and lays variables out, operands.cpp answers
// decoders, calls.cpp handles functions, decode.cpp drives the passes.
#pragma once

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/types.hpp"

#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace vgpu::isa {

struct Symbol {
  enum class Kind : uint8_t { Register, Shared, Local, Param, Global, Const };
  Kind kind = Kind::Register;
  const ptx::Variable* variable = nullptr;
  // Register:
  exec::RegClass cls = exec::RegClass::B32;
  uint32_t bits = 0;
  uint32_t slot = exec::kNoSlot; // given when it is first used
  std::string name;
  // others: address in the state space (Shared: offset in the window)
  uint64_t address = 0, bytes = 0;
  bool has_address = true;
  bool in_frame = false; // .local: `address` counts from the activation's frame on the stack
};

// The elements of a vector are .x .y .z .w, or .r .g .b .a (PTX ISA 6.4.3): a name with the former.
std::string with_letter(std::string_view name);

using SymbolMap = std::unordered_map<std::string_view, Symbol*>;

struct ScopeTable {
  int parent = -1;
  SymbolMap names;
  std::unordered_map<std::string_view, const ptx::Variable*> ranges; // "%r" of %r<10>
  std::unordered_map<std::string_view, uint32_t> labels;             // pc
};

// A function whose code is in the program.
struct Unit {
  const ptx::Function* function = nullptr;
  std::vector<ScopeTable> scopes;
  std::vector<uint32_t> pcs; // by statement; one more for the end
  std::vector<Symbol*> params, returns;
  uint32_t return_slot = exec::kNoSlot;
  uint32_t frame_slot = exec::kNoSlot; // of a called function that uses the stack
  // A call may find it active already: it lies on a cycle of calls. `code` is what such calls and
  // those through a pointer need.
  bool reentered = false;
  std::shared_ptr<exec::FunctionCode> code;
};

// Names with the lifetime of a lookup.
class ProgramBuilder {
public:
  ProgramBuilder(const ModuleIndex& index, const ptx::Function& entry)
      : index_(index), module_(index.module), entry_(entry) {}
  std::unique_ptr<exec::Program> build();

  // ---- for DecodeContext
  [[noreturn]] void refuse(int line, const std::string& why) const;
  [[noreturn]] void refuse(const std::string& why) const {
    refuse(statement_ ? statement_->line : entry_.line, why);
  }
  Symbol* find(std::string_view name);              // in the current scope; null when unknown
  Symbol* need(std::string_view name);              // refuses an unknown one
  uint32_t find_label(std::string_view name) const; // pc, kNoSlot when unknown
  uint32_t register_slot(Symbol& symbol);           // allocates on first use
  uint32_t allocate(exec::RegClass cls);
  uint32_t constant(exec::RegClass cls, uint64_t value);
  uint32_t special(exec::Special which, exec::RegClass cls, uint32_t offset = 0,
                   uint32_t bits = 64);
  uint32_t address_slot(const Symbol& symbol, exec::RegClass cls, int64_t offset);
  uint32_t frame_address(const Symbol& symbol, exec::RegClass cls, int64_t offset);
  // A special register by name; kNoSlot when it is none that is constant.
  uint32_t special_register(std::string_view name, exec::RegClass cls);
  bool is_special(std::string_view name) const; // one that special_register gives
  const uint32_t* keep_operands(const std::vector<uint32_t>& dst, const std::vector<uint32_t>& src);
  Unit* find_unit(const ptx::Function* function) const;
  // Null when it is not declared; may be without a body.
  const ptx::Function* find_function(std::string_view name) const;

  const ModuleIndex& index_;
  const ptx::Module& module_;
  const ptx::Function& entry_;
  exec::Program* program_ = nullptr;
  Unit* unit_ = nullptr;
  const ptx::Statement* statement_ = nullptr;
  // Width of the statement's last type word when narrower than a register, for immediates and
  // special registers.
  uint32_t immediate_bits_ = 0;

private:
  // scopes.cpp
  void declare_module();
  void declare(Unit& unit);
  void declare_stack(Unit& unit);
  void declare_variable(Unit& unit, const ptx::Variable& v);
  Symbol* declare_formal(Unit& unit, const ptx::Variable& v);
  Symbol* new_symbol(const ptx::Variable& v, std::string name);
  void add(ScopeTable& scope, Symbol* symbol, int line);
  Symbol* find_in(ScopeTable& scope, std::string_view name);
  void place_shared(Symbol& symbol);
  void place_dynamic_shared();
  void place_local(Symbol& symbol, int line);
  void place_in_frame(Unit& unit, Symbol& symbol, int line);
  void place_params();
  void note_labels(Unit& unit);
  void use_names(const ptx::Function& f);
  void use_names(const ptx::Operand& operand);

  // calls.cpp
  void collect_units();
  void add_unit(const ptx::Function& f);
  bool is_indirect(const ptx::Statement& s, const ptx::Function& f) const;
  const ptx::Function* callee(const ptx::Statement& s) const; // with a body; null otherwise
  void emit_arguments(const ptx::Statement& s, const Unit& target);
  void emit_results(const ptx::Statement& s, const Unit& target);
  void emit_copies(const ptx::Statement& s, std::vector<struct CallCopy> copies);
  struct CallCopy make_copy(Symbol& formal, const ptx::Operand& actual, bool to_formal);

  // frames.cpp
  void mark_reentered();
  bool is_framed(const ptx::Statement& s, const Unit& caller) const;
  void emit_framed_call(const ptx::Statement& s);
  bool has_address(const Unit& unit) const;
  std::vector<Unit*> indirect_targets(const ptx::Statement& s) const;
  void finish_frames();

  // decode.cpp
  void directives();
  void assign_pcs();
  void emit(Unit& unit);
  void emit_statement(Unit& unit, const ptx::Statement& s);
  void emit_end(Unit& unit);
  void start_inst(exec::Inst& inst, const ptx::Statement& s);
  void check_target(const ptx::Statement& s, const Form& form) const;
  void check_widths(const ptx::Statement& s);

  std::vector<std::unique_ptr<Unit>> units_; // [0] is the entry
  std::unordered_map<const ptx::Function*, Unit*> unit_of_;
  bool indirect_calls_ = false;
  size_t indirect_pairs_ = 0; // calls through pointers times functions
  std::vector<std::unique_ptr<Symbol>> symbols_;
  ScopeTable module_scope_;
  std::unordered_map<std::string_view, bool> used_names_;
  std::map<std::pair<exec::RegClass, uint64_t>, uint32_t> constants_;
  std::map<std::tuple<exec::Special, exec::RegClass, uint32_t, uint32_t>, uint32_t> specials_;
  std::vector<Symbol*> dynamic_shared_;
  uint64_t shared_top_ = exec::kSharedBase, local_top_ = 0;
  uint32_t pred_top_ = 0, pred_end_ = 0; // predicates share 64-byte pieces
  std::shared_ptr<std::vector<uint32_t>> operands_;
  DecodeContext context_;
};

// One value that a call hands over.
struct CallCopy {
  struct End {
    enum class Kind : uint8_t { Slot, Local } kind = Kind::Slot;
    uint32_t slot = 0;
    exec::RegClass cls = exec::RegClass::B32;
    uint64_t offset = 0;
  } from, to;
  uint32_t bytes = 0;
};

// Where the lane's value lies.
uint8_t* end_pointer(exec::Warp& warp, const CallCopy::End& end, uint32_t lane);

} // namespace vgpu::isa
