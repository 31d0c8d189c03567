// Functions (PTX ISA 9.7.12.5 call, 11.2.2 .func). Every function that is called has its code once
// in the program, behind the entry's, with its own registers and local variables. Around a call the
// builder puts instructions that copy arguments and results; a register per function keeps the
// return pc. What a function has while it is active already is saved by frames.cpp.
#include "tools/vgpu/isa/builder.hpp"

#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>

namespace vgpu::isa {

using exec::Inst;
using exec::RegClass;
using exec::Step;
using exec::Warp;
using End = CallCopy::End;

namespace {

struct Copies {
  std::vector<CallCopy> list;
};

Step copy_values(Warp& w, const Inst& inst, uint32_t mask) {
  for (const CallCopy& c : static_cast<const Copies*>(inst.data)->list)
    for (uint32_t m = mask; m; m &= m - 1) {
      const uint32_t lane = uint32_t(std::countr_zero(m));
      uint8_t* to = end_pointer(w, c.to, lane);
      // Narrow values lie zero-extended in their registers.
      if (c.to.kind == End::Kind::Slot) std::memset(to, 0, class_bytes(c.to.cls) / 32);
      std::memcpy(to, end_pointer(w, c.from, lane), c.bytes);
    }
  return Step::Next;
}

Step copy_predicates(Warp& w, const Inst& inst, uint32_t mask) {
  for (const CallCopy& c : static_cast<const Copies*>(inst.data)->list)
    w.set_pred(c.to.slot, mask, w.pred(c.from.slot));
  return Step::Next;
}

// What the function has allocated on the stack is given back.
Step return_lanes(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t* src = inst.op + inst.n_dst;
  if (inst.n_dst) w.copy_lanes(inst.op[0], src[1], mask);
  return w.branch_lanes(mask, w.lanes<uint32_t>(src[0]));
}

} // namespace

uint8_t* end_pointer(Warp& w, const End& e, uint32_t lane) {
  if (e.kind == End::Kind::Slot) return w.lanes<uint8_t>(e.slot) + lane * (class_bytes(e.cls) / 32);
  return w.cta.local.data() + (uint64_t(w.index) * 32 + lane) * w.cluster().local_bytes() +
         e.offset;
}

const ptx::Function* ProgramBuilder::find_function(std::string_view name) const {
  auto it = index_.functions.find(name);
  return it == index_.functions.end() ? nullptr : it->second;
}

const ptx::Function* ProgramBuilder::callee(const ptx::Statement& s) const {
  if (s.opcode[0] != "call" || s.operands.empty() || s.operands[0].kind != ptx::Operand::Kind::Name)
    return nullptr;
  const ptx::Function* f = find_function(s.operands[0].name);
  return f && f->has_body ? f : nullptr;
}

Unit* ProgramBuilder::find_unit(const ptx::Function* f) const {
  auto it = unit_of_.find(f);
  return it == unit_of_.end() ? nullptr : it->second;
}

bool ProgramBuilder::is_indirect(const ptx::Statement& s, const ptx::Function& f) const {
  if (s.opcode[0] != "call" || s.operands.empty() || s.operands[0].kind != ptx::Operand::Kind::Name)
    return false;
  const std::string& name = s.operands[0].name;
  if (find_function(name)) return false;
  if (s.operands.size() > 1) return true; // it names a prototype or targets
  // A register, by its look: declarations come later.
  return std::any_of(f.variables.begin(), f.variables.end(), [&](const ptx::Variable& v) {
    return v.space == "reg" && (v.range ? name.starts_with(v.name) : name == v.name);
  });
}

void ProgramBuilder::add_unit(const ptx::Function& f) {
  if (find_unit(&f)) return;
  units_.push_back(std::make_unique<Unit>());
  units_.back()->function = &f;
  unit_of_.emplace(&f, units_.back().get());
}

// The entry, what it calls, and so on; with a call through a pointer every function that has an
// address.
void ProgramBuilder::collect_units() {
  add_unit(entry_);
  for (size_t i = 0; i < units_.size(); ++i) { // grows meanwhile
    const ptx::Function& f = *units_[i]->function;
    for (const ptx::Statement& s : f.statements) {
      if (const ptx::Function* g = callee(s)) add_unit(*g);
      if (indirect_calls_ || !is_indirect(s, f)) continue;
      indirect_calls_ = true;
      for (const GlobalSymbol* symbol : index_.addressed) add_unit(*find_function(symbol->name));
    }
  }
}

CallCopy ProgramBuilder::make_copy(Symbol& formal, const ptx::Operand& actual, bool to_formal) {
  auto end_of = [&](Symbol& s) {
    End e;
    if (s.kind == Symbol::Kind::Register) {
      e.slot = register_slot(s);
      e.cls = s.cls;
    } else {
      e.kind = End::Kind::Local;
      e.offset = s.address;
    }
    return e;
  };
  const uint64_t bytes =
      formal.kind == Symbol::Kind::Register ? std::max(1u, formal.bits / 8) : formal.bytes;
  CallCopy c;
  c.bytes = uint32_t(bytes);
  End other;
  if (actual.kind == ptx::Operand::Kind::Name) {
    Symbol& s = *need(actual.name);
    const bool is_register = s.kind == Symbol::Kind::Register;
    if (!is_register && (s.kind != Symbol::Kind::Local || s.in_frame))
      refuse("'" + actual.name + "' must be a register or a .param variable of this function");
    if (is_register && (s.cls == RegClass::Pred) !=
                           (formal.kind == Symbol::Kind::Register && formal.cls == RegClass::Pred))
      refuse("'" + actual.name + "' and the parameter '" + formal.name +
             "' are not both predicates");
    const uint64_t have = is_register ? std::max(1u, s.bits / 8) : s.bytes;
    if (have != bytes)
      refuse("'" + actual.name + "' has " + std::to_string(have) + " bytes, the parameter '" +
             formal.name + "' " + std::to_string(bytes));
    other = end_of(s);
  } else if (to_formal &&
             (actual.kind == ptx::Operand::Kind::Int || actual.kind == ptx::Operand::Kind::Float)) {
    if (bytes > 8) refuse("an immediate for a parameter of " + std::to_string(bytes) + " bytes");
    other.cls = bytes > 4 ? RegClass::B64 : RegClass::B32;
    if (formal.kind == Symbol::Kind::Register) other.cls = formal.cls;
    other.slot = context_.src(actual, other.cls);
  } else if (!to_formal && actual.kind == ptx::Operand::Kind::Sink) {
    other.cls = formal.kind == Symbol::Kind::Register ? formal.cls : RegClass::B128;
    other.slot = allocate(other.cls);
    if (bytes > 16) refuse("'_' for a result of " + std::to_string(bytes) + " bytes");
  } else {
    refuse("a call takes registers, .param variables and numbers");
  }
  (to_formal ? c.to : c.from) = end_of(formal);
  (to_formal ? c.from : c.to) = other;
  return c;
}

void ProgramBuilder::emit_copies(const ptx::Statement& s, std::vector<CallCopy> copies) {
  std::vector<CallCopy> predicates;
  auto is_predicate = [](const CallCopy& c) {
    return c.to.kind == End::Kind::Slot && c.to.cls == RegClass::Pred;
  };
  std::copy_if(copies.begin(), copies.end(), std::back_inserter(predicates), is_predicate);
  std::erase_if(copies, is_predicate);
  if (!predicates.empty() && !copies.empty())
    refuse("a call with predicates and other values in registers");
  const bool values = predicates.empty();
  Inst inst;
  start_inst(inst, s);
  inst.run = values ? copy_values : copy_predicates;
  std::vector<uint32_t> dst, src;
  Copies* kept = context_.make<Copies>();
  kept->list = values ? std::move(copies) : std::move(predicates);
  for (const CallCopy& c : kept->list) {
    if (c.to.kind == End::Kind::Slot) dst.push_back(c.to.slot);
    if (c.from.kind == End::Kind::Slot) src.push_back(c.from.slot);
  }
  inst.data = kept;
  context_.set_operands(inst, dst, src);
  program_->code.push_back(inst);
}

void ProgramBuilder::emit_arguments(const ptx::Statement& s, const Unit& target) {
  std::vector<CallCopy> copies;
  for (size_t i = 0; i < target.params.size(); ++i)
    copies.push_back(make_copy(*target.params[i], s.call_arguments[i], true));
  if (!copies.empty()) emit_copies(s, std::move(copies));
}

void ProgramBuilder::emit_results(const ptx::Statement& s, const Unit& target) {
  std::vector<CallCopy> copies;
  for (size_t i = 0; i < target.returns.size(); ++i)
    copies.push_back(make_copy(*target.returns[i], s.call_returns[i], false));
  if (!copies.empty()) emit_copies(s, std::move(copies));
}

CallTarget DecodeContext::call(const ptx::Statement& s) {
  CallTarget t;
  if (s.operands.empty() || s.operands[0].kind != ptx::Operand::Kind::Name)
    refuse(s, "a call needs the name of a function");
  t.name = s.operands[0].name;
  const ptx::Function* f = builder_->find_function(t.name);
  if (!f) refuse(s, "the function '" + t.name + "' is not declared");
  t.function = f;
  t.external = !f->has_body;
  if (t.external) return t;
  if (s.call_arguments.size() != f->params.size() || s.call_returns.size() != f->returns.size())
    refuse(s, "the function '" + t.name + "' takes " + std::to_string(f->params.size()) +
                  " arguments and returns " + std::to_string(f->returns.size()) + " values");
  const Unit* unit = builder_->find_unit(f);
  t.pc = unit->pcs[0];
  t.return_slot = unit->return_slot;
  t.frame_slot = unit->frame_slot;
  return t;
}

uint32_t DecodeContext::return_slot() const { return builder_->unit_->return_slot; }
uint32_t DecodeContext::frame_slot() const { return builder_->unit_->frame_slot; }

bool DecodeContext::return_to_caller(Inst& inst) {
  const Unit& unit = *builder_->unit_;
  if (unit.return_slot == exec::kNoSlot) return false;
  inst.run = return_lanes;
  if (unit.frame_slot == exec::kNoSlot)
    set_operands(inst, {}, {unit.return_slot});
  else
    set_operands(inst, {program_->stack_slot}, {unit.return_slot, unit.frame_slot});
  return true;
}

} // namespace vgpu::isa
