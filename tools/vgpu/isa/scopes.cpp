// Declarations: registers, variables, parameters, labels; and the resolution of names.
#include "tools/vgpu/isa/builder.hpp"
#include "tools/vgpu/isa/target.hpp"

#include <algorithm>

namespace vgpu::isa {

using exec::RegClass;

namespace {

constexpr uint64_t kMaxLocal = 512 << 10; // bytes of local memory of a thread
constexpr uint64_t kMaxParams = 32764;    // PTX ISA 5.1.6.1, sm_70 and later

} // namespace

Symbol* ProgramBuilder::new_symbol(const ptx::Variable& v, std::string name) {
  auto s = std::make_unique<Symbol>();
  s->variable = &v;
  s->name = std::move(name);
  if (v.space == "reg") {
    s->kind = Symbol::Kind::Register;
    s->bits = type_bits(v.type);
    s->cls = class_of_bits(s->bits);
  } else {
    s->kind = v.space == "shared"   ? Symbol::Kind::Shared
              : v.space == "local"  ? Symbol::Kind::Local
              : v.space == "param"  ? Symbol::Kind::Param
              : v.space == "global" ? Symbol::Kind::Global
                                    : Symbol::Kind::Const;
    s->bytes = variable_bytes(v);
  }
  symbols_.push_back(std::move(s));
  return symbols_.back().get();
}

void ProgramBuilder::add(ScopeTable& scope, Symbol* symbol, int line) {
  if (!scope.names.emplace(symbol->name, symbol).second)
    refuse(line, "'" + symbol->name + "' is declared twice in this block");
}

// Shared, local and parameter variables of a range (.shared .b32 x<4>) are laid out one behind the
// other, as separate variables.
void ProgramBuilder::declare_variable(Unit& unit, const ptx::Variable& v) {
  ScopeTable& scope = unit.scopes[size_t(v.scope)];
  if (v.space == "reg") {
    if (v.type == "texref" || v.type == "samplerref" || v.type == "surfref")
      refuse(v.line, "a register of type ." + v.type);
    if (v.range) {
      if (v.vector != 1) refuse(v.line, "a range of vectors");
      if (!scope.ranges.emplace(v.name, &v).second)
        refuse(v.line, "'" + v.name + "<...>' is declared twice in this block");
      return;
    }
    if (v.vector == 1) return add(scope, new_symbol(v, v.name), v.line);
    for (int i = 0; i < v.vector; ++i)
      add(scope,
          new_symbol(v,
                     v.name + "." + (v.vector > 4 ? std::to_string(i) : std::string(1, "xyzw"[i]))),
          v.line);
    return;
  }
  if (v.range) refuse(v.line, "a range of ." + v.space + " variables");
  Symbol* s = new_symbol(v, v.name);
  if (s->kind == Symbol::Kind::Shared) {
    if (v.is_extern)
      dynamic_shared_.push_back(s);
    else
      place_shared(*s);
  } else if (s->kind == Symbol::Kind::Local || s->kind == Symbol::Kind::Param) {
    s->kind = Symbol::Kind::Local; // .param of a call
    if (unit.reentered && v.space == "local")
      place_in_frame(unit, *s, v.line);
    else
      place_local(*s, v.line);
  } else {
    auto it = index_.globals.find(v.name);
    s->has_address = it != index_.globals.end();
    if (s->has_address) s->address = it->second->address;
  }
  add(scope, s, v.line);
}

void ProgramBuilder::place_shared(Symbol& s) {
  const ptx::Variable& v = *s.variable;
  if (!s.bytes) refuse(v.line, "the shared variable '" + s.name + "' has no size");
  s.address = align_up(shared_top_, variable_alignment(v));
  const uint64_t most = exec::kSharedBase + static_shared_limit(program_->target);
  if (s.bytes > most || s.address + s.bytes > most)
    refuse(v.line, "with '" + s.name + "' of " + std::to_string(s.bytes) + " bytes the entry '" +
                       entry_.name + "' has more than the " +
                       std::to_string(most - exec::kSharedBase) +
                       " bytes of static shared memory that target " + program_->target +
                       " allows; dynamic shared memory (.extern .shared) may be larger");
  shared_top_ = s.address + s.bytes;
  program_->shared_symbols.push_back({s.name, uint32_t(s.address), uint32_t(s.bytes)});
}

// All .extern .shared arrays start at the same place, behind the static variables.
void ProgramBuilder::place_dynamic_shared() {
  uint64_t alignment = 16;
  for (Symbol* s : dynamic_shared_)
    alignment = std::max(alignment, variable_alignment(*s->variable));
  program_->static_shared_bytes = uint32_t(shared_top_ - exec::kSharedBase);
  uint64_t start =
      dynamic_shared_.empty() ? align_up(shared_top_, 16) : align_up(shared_top_, alignment);
  program_->dynamic_shared_offset = uint32_t(start);
  for (Symbol* s : dynamic_shared_) {
    s->address = start;
    program_->shared_symbols.push_back({s->name, uint32_t(start), 0});
  }
}

void ProgramBuilder::place_local(Symbol& s, int line) {
  if (!s.bytes) refuse(line, "the local variable '" + s.name + "' has no size");
  s.address = align_up(local_top_, variable_alignment(*s.variable));
  if (s.bytes > kMaxLocal || s.address + s.bytes > kMaxLocal)
    refuse(line, "local variables of more than 524288 bytes");
  local_top_ = s.address + s.bytes;
}

void ProgramBuilder::place_in_frame(Unit& unit, Symbol& s, int line) {
  if (!s.bytes) refuse(line, "the local variable '" + s.name + "' has no size");
  exec::FunctionCode& code = *unit.code;
  const uint64_t alignment = variable_alignment(*s.variable);
  s.in_frame = true;
  s.address = align_up(code.frame_bytes, alignment);
  if (s.bytes > kMaxLocal || s.address + s.bytes > kMaxLocal)
    refuse(line, "local variables of more than 524288 bytes");
  code.frame_bytes = uint32_t(s.address + s.bytes);
  code.frame_alignment = std::max(code.frame_alignment, uint32_t(alignment));
}

// Kernel parameters lie as the C ABI lays the members of a structure out.
void ProgramBuilder::place_params() {
  uint64_t top = 0;
  for (const ptx::Variable& v : entry_.params) {
    if (v.space != "param") refuse(v.line, "an .entry takes .param parameters only");
    Symbol* s = new_symbol(v, v.name);
    if (!s->bytes) refuse(v.line, "the parameter '" + v.name + "' has no size");
    s->address = align_up(top, variable_alignment(v));
    if (s->bytes > kMaxParams || s->address + s->bytes > kMaxParams)
      refuse(v.line, "parameters of more than 32764 bytes");
    top = s->address + s->bytes;
    add(units_[0]->scopes[0], s, v.line);
    program_->params.push_back({v.name, uint32_t(s->address), uint32_t(s->bytes)});
  }
  program_->param_bytes = uint32_t(top);
}

Symbol* ProgramBuilder::declare_formal(Unit& unit, const ptx::Variable& v) {
  Symbol* s = new_symbol(v, v.name);
  if (s->kind == Symbol::Kind::Register) {
    if (v.vector != 1) refuse(v.line, "a vector as a register parameter");
  } else {
    s->kind = Symbol::Kind::Local;
    // The unsized array of a variadic function (PTX ISA 11.2.2) only ever exists in calls of
    // external functions.
    if (!s->bytes) refuse(v.line, "a function body with an unsized parameter");
    place_local(*s, v.line);
  }
  if (v.name != "_") add(unit.scopes[0], s, v.line);
  return s;
}

void ProgramBuilder::declare(Unit& unit) {
  const ptx::Function& f = *unit.function;
  unit.scopes.resize(f.scopes.size());
  for (size_t i = 0; i < f.scopes.size(); ++i) unit.scopes[i].parent = f.scopes[i].parent;
  if (f.is_entry) {
    place_params();
  } else {
    // The frame starts before the parameters.
    unit.code = std::make_shared<exec::FunctionCode>();
    unit.code->local_begin = uint32_t(local_top_);
    for (const ptx::Variable& v : f.params) unit.params.push_back(declare_formal(unit, v));
    for (const ptx::Variable& v : f.returns) unit.returns.push_back(declare_formal(unit, v));
    unit.return_slot = allocate(RegClass::B32);
    unit.code->depth_slot = allocate(RegClass::B32);
    program_->constants.push_back({unit.code->depth_slot, RegClass::B32, 0}); // at warp start
    program_->slot_name[unit.return_slot] = f.name + " return pc";
  }
  declare_stack(unit);
  for (const ptx::Variable& v : f.variables) declare_variable(unit, v);
  if (unit.code) unit.code->local_end = uint32_t(local_top_);
}

void ProgramBuilder::declare_stack(Unit& unit) {
  auto has = [&](auto&&... names) {
    return std::any_of(unit.function->statements.begin(), unit.function->statements.end(),
                       [&](const ptx::Statement& s) { return ((s.opcode[0] == names) || ...); });
  };
  const auto& variables = unit.function->variables;
  const bool frames =
      unit.reentered && std::any_of(variables.begin(), variables.end(),
                                    [](const ptx::Variable& v) { return v.space == "local"; });
  if (frames || has("alloca", "stacksave", "stackrestore"))
    program_->stack_slot = special(exec::Special::stack_top, RegClass::B32);
  if (!unit.code || !(frames || has("alloca"))) return;
  unit.frame_slot = unit.code->frame_slot = allocate(RegClass::B32);
  program_->slot_name[unit.frame_slot] = unit.function->name + " frame";
}

void ProgramBuilder::note_labels(Unit& unit) {
  for (const ptx::Label& l : unit.function->labels) {
    const uint32_t pc = unit.pcs[size_t(l.statement)];
    if (!unit.scopes[size_t(l.scope)].labels.emplace(l.name, pc).second)
      refuse(l.line, "the label '" + l.name + "' is there twice in this block");
    program_->labels.emplace(pc, l.name);
  }
}

void ProgramBuilder::use_names(const ptx::Operand& o) {
  if (o.kind == ptx::Operand::Kind::Name) used_names_[o.name] = true;
  for (const ptx::Operand& item : o.items) use_names(item);
}

void ProgramBuilder::use_names(const ptx::Function& f) {
  for (const ptx::Statement& s : f.statements) {
    for (const ptx::Operand& o : s.operands) use_names(o);
    for (const ptx::Operand& o : s.call_arguments) use_names(o);
  }
}

// Module-scope shared variables take room only in kernels that use them.
void ProgramBuilder::declare_module() {
  for (const auto& u : units_) use_names(*u->function);
  // In the order of the text.
  std::vector<const ptx::Variable*> used;
  for (const auto& [name, yes] : used_names_)
    if (auto it = index_.variables.find(name); it != index_.variables.end())
      used.insert(used.end(), it->second.begin(), it->second.end());
  std::sort(used.begin(), used.end());
  for (const ptx::Variable* variable : used) {
    const ptx::Variable& v = *variable;
    if (v.space != "global" && v.space != "const" && v.space != "shared")
      refuse(v.line, "a ." + v.space + " variable at module scope");
    auto known = module_scope_.names.find(v.name);
    if (known != module_scope_.names.end()) { // declared .extern, then defined
      Symbol& old = *known->second;
      if (old.variable->space != v.space || !(old.variable->is_extern || v.is_extern))
        refuse(v.line, "'" + v.name + "' is declared twice");
      continue;
    }
    Symbol* s = new_symbol(v, v.name);
    if (s->kind == Symbol::Kind::Shared) {
      if (v.is_extern)
        dynamic_shared_.push_back(s);
      else
        place_shared(*s);
    } else {
      auto it = index_.globals.find(v.name);
      s->has_address = it != index_.globals.end();
      if (s->has_address) s->address = it->second->address;
    }
    add(module_scope_, s, v.line);
  }
  // Functions stand for their addresses.
  for (const GlobalSymbol* global : index_.addressed) {
    const std::string& name = global->name;
    if (!used_names_.count(name)) continue;
    auto s = std::make_unique<Symbol>();
    s->kind = Symbol::Kind::Global;
    s->name = name;
    s->address = global->address;
    symbols_.push_back(std::move(s));
    add(module_scope_, symbols_.back().get(), entry_.line);
  }
}

// ---- resolution

std::string with_letter(std::string_view name) {
  std::string result(name);
  const size_t n = name.size(), at = n > 2 ? std::string_view("rgba").find(name[n - 1]) : 4;
  if (at < 4 && name[n - 2] == '.') result[n - 1] = "xyzw"[at];
  return result;
}

Symbol* ProgramBuilder::find_in(ScopeTable& scope, std::string_view name) {
  auto it = scope.names.find(name);
  if (it != scope.names.end()) return it->second;
  if (scope.ranges.empty()) return nullptr;
  // "%p12" may belong to %p<...> or to %p1<...>.
  for (size_t cut = name.size(); cut > 1;) {
    --cut;
    if (name[cut] < '0' || name[cut] > '9') break;
    if (name.size() - cut > 10) break;
    auto range = scope.ranges.find(name.substr(0, cut));
    if (range == scope.ranges.end()) continue;
    if (name[cut] == '0' && name.size() - cut > 1) continue; // no leading zeros
    uint64_t number = 0;
    for (size_t i = cut; i < name.size(); ++i) number = number * 10 + uint64_t(name[i] - '0');
    if (number >= range->second->range) continue;
    Symbol* s = new_symbol(*range->second, std::string(name));
    scope.names.emplace(s->name, s);
    return s;
  }
  return nullptr;
}

Symbol* ProgramBuilder::find(std::string_view name) {
  Unit& unit = *unit_;
  const std::string lettered = with_letter(name);
  for (int scope = statement_->scope; scope >= 0; scope = unit.scopes[size_t(scope)].parent)
    if (Symbol* s = find_in(unit.scopes[size_t(scope)], lettered)) return s;
  auto it = module_scope_.names.find(name);
  return it == module_scope_.names.end() ? nullptr : it->second;
}

Symbol* ProgramBuilder::need(std::string_view name) {
  Symbol* s = find(name);
  if (!s) refuse("'" + std::string(name) + "' is not declared");
  return s;
}

uint32_t ProgramBuilder::find_label(std::string_view name) const {
  for (int scope = statement_->scope; scope >= 0; scope = unit_->scopes[size_t(scope)].parent) {
    const auto& labels = unit_->scopes[size_t(scope)].labels;
    auto it = labels.find(name);
    if (it != labels.end()) return it->second;
  }
  return exec::kNoSlot;
}

uint32_t ProgramBuilder::allocate(RegClass cls) {
  exec::Program& p = *program_;
  uint32_t slot;
  // Vectors start at multiples of 64 bytes; eight predicates share such a piece.
  if (cls == RegClass::Pred) {
    if (pred_top_ == pred_end_) {
      pred_top_ = uint32_t(align_up(p.regfile_bytes, 64));
      pred_end_ = p.regfile_bytes = pred_top_ + 64;
    }
    slot = pred_top_;
    pred_top_ += 8;
  } else {
    slot = uint32_t(align_up(p.regfile_bytes, 64));
    p.regfile_bytes = slot + class_bytes(cls);
  }
  if (p.regfile_bytes > (64u << 20)) refuse("the registers of a warp take more than 64 MiB");
  if (p.slot_class.size() < p.regfile_bytes / 8) p.slot_class.resize(p.regfile_bytes / 8);
  p.slot_class[slot / 8] = cls;
  return slot;
}

uint32_t ProgramBuilder::register_slot(Symbol& s) {
  if (s.slot == exec::kNoSlot) {
    s.slot = allocate(s.cls);
    program_->slot_name[s.slot] = s.name;
  }
  return s.slot;
}

} // namespace vgpu::isa
