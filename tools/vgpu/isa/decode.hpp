// Turns the entry functions of a parsed module into programs: lays registers, shared and local
// variables and parameters out, resolves names, matches every statement with the instruction table
// and calls the form's decoder.
#pragma once

#include "tools/vgpu/exec/inst.hpp"
#include "tools/vgpu/isa/forms.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vgpu::isa {

struct DecodeError : std::runtime_error {
  int line;
  DecodeError(int line_, const std::string& what) : std::runtime_error(what), line(line_) {}
};

// Addresses of module-scope variables, decided by who loads the module (driver/module.cpp).
struct GlobalSymbol {
  std::string name;
  uint64_t address = 0; // generic = global address
  uint64_t bytes = 0;
  bool function = false; // whose address is taken; the bytes only keep the address apart
};

// What all entries of a module look up: made once, for modules of very many entries. Refers to
// both.
struct ModuleIndex {
  ModuleIndex(const ptx::Module& module, const std::vector<GlobalSymbol>& globals);
  const ptx::Module& module;
  // By name, aliases included: the one with a body when there is one.
  std::unordered_map<std::string_view, const ptx::Function*> functions;
  std::unordered_map<std::string_view, std::vector<const ptx::Variable*>> variables;
  std::unordered_map<std::string_view, const GlobalSymbol*> globals;
  std::vector<const GlobalSymbol*> addressed; // functions whose address is taken
};

// Throws DecodeError (file, line and text of what is not supported). `target_sm`: compute
// capability of the device (90, 100, 103); a module whose target the device cannot run is refused
// by the driver before this.
std::unique_ptr<exec::Program> decode(const ModuleIndex& index, const ptx::Function& entry);
std::unique_ptr<exec::Program> decode(const ptx::Module& module, const ptx::Function& entry,
                                      const std::vector<GlobalSymbol>& globals);

// A memory operand: lanes' base address (a slot, B32 or B64 by `wide`) plus a constant.
// Variables stand for their address in their own state space: .global and .const the device
// address, .shared the shared::cluster address of the own CTA, .local and .param the offset from
// the start of the thread's local memory or the kernel's parameters.
struct AddressOperand {
  uint32_t base = 0;
  bool wide = true;
  int64_t offset = 0;
  bool known = false; // the base is a constant: every lane's address is `value` + `offset`
  uint64_t value = 0;
};

// A direct call of a function that calls no way back to itself, see DecodeContext::call.
struct CallTarget {
  std::string name;
  const ptx::Function* function = nullptr;
  bool external = false;                // declared without a body: vprintf, __assertfail, ...
  uint32_t pc = 0;                      // of the first instruction
  uint32_t return_slot = exec::kNoSlot; // B32 register: pc to go on with after ret
  // B32 register that takes the stack pointer, of functions with alloca; else kNoSlot.
  uint32_t frame_slot = exec::kNoSlot;
};

// What a decoder may ask for. Slots returned for sources may be constants; a sink destination gets
// a scratch slot of the class.
class DecodeContext {
public:
  // ---- operands
  uint32_t dst(const ptx::Operand& operand, exec::RegClass cls);
  uint32_t src(const ptx::Operand& operand, exec::RegClass cls); // names, integers, floats, symbols
  uint32_t src_f32(const ptx::Operand& operand); // as src; float immediates are rounded to f32
  uint32_t src_f64(const ptx::Operand& operand);
  uint32_t pred_dst(const ptx::Operand& operand);                // sink allowed
  uint32_t pred_src(const ptx::Operand& operand, bool& negated); // register; 0 and 1 allowed
  std::vector<uint32_t> vector_dst(const ptx::Operand& operand,
                                   exec::RegClass cls); // or one register
  std::vector<uint32_t> vector_src(const ptx::Operand& operand, exec::RegClass cls);
  AddressOperand address(const ptx::Operand& operand);   // Kind::Address, or items of Kind::Tensor
  uint32_t label(const ptx::Operand& operand);           // pc of a label (fixed up after the pass)
  uint32_t constant(exec::RegClass cls, uint64_t value); // slot that holds value in every lane
  uint32_t scratch(exec::RegClass cls);
  bool is_register(const ptx::Operand& operand) const;
  exec::RegClass register_class(const ptx::Operand& operand) const; // of a declared register
  uint32_t register_bits(const ptx::Operand& operand) const; // declared width, 1 for predicates
  // Space in which a variable lives ("shared", "param", "global", "const", "local"); "" when the
  // operand is not a variable. `.param` variables of calls and of device functions live in local
  // memory: "local", although instructions reach them by ld.param and st.param.
  std::string variable_space(const ptx::Operand& operand) const;
  // "%clock64" and the like, whose value changes while the kernel runs; "" for all others.
  std::string dynamic_special(const ptx::Operand& operand) const;
  // Target pcs of a .branchtargets list.
  std::vector<uint32_t> branch_targets(const ptx::Operand& operand);

  // ---- calls. Each function that is called has its code once in the program, after the entry's,
  // and its own registers. The builder puts instructions before and after the call that copy
  // arguments and results, so the call itself only writes the pc after it (inst.pc + 1) to
  // return_slot, the stack pointer to frame_slot and branches; ret does the reverse. Calls through
  // a pointer and calls of functions that may be active already are the builder's (isa/frames.cpp).
  CallTarget call(const ptx::Statement& statement);
  uint32_t return_slot() const;            // of this function; kNoSlot in an entry
  bool return_to_caller(exec::Inst& inst); // false in an entry: ret = exit
  uint32_t frame_slot() const; // of this function; kNoSlot: an entry, or no alloca in it

  // ---- results: the slots go into inst.op in the order destinations, sources
  void set_operands(exec::Inst& inst, const std::vector<uint32_t>& dst,
                    const std::vector<uint32_t>& src);
  template <class T>
  T* make() { // zero-initialised, owned by the program
    auto p = std::make_shared<T>();
    keep(p);
    return p.get();
  }
  void keep(std::shared_ptr<void> p);

  [[noreturn]] void refuse(const ptx::Statement& statement, const std::string& why) const;
  exec::Program& program() { return *program_; }

private:
  friend class ProgramBuilder;
  exec::Program* program_ = nullptr;
  class ProgramBuilder* builder_ = nullptr;
};

} // namespace vgpu::isa
