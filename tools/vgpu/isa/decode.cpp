// The passes that make a program: which functions, what they declare, where each statement's code
// lies, and the code itself.
#include "tools/vgpu/isa/builder.hpp"

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/isa/target.hpp"

#include <algorithm>

namespace vgpu::isa {

using exec::Inst;
using exec::RegClass;
using exec::Step;
using exec::Warp;

namespace {

Step end_of_entry(Warp& w, const Inst&, uint32_t mask) { return w.exit_lanes(mask); }

// Instructions whose register operands all have the width of their one type (PTX ISA 6.1). ld, st
// and cvt take wider registers (9.4.1); instructions with operands of several widths see to theirs.
constexpr std::string_view kSameWidth[] = {
    "add", "sub", "and", "or",  "xor",  "not",  "neg",  "abs",  "min",  "max",      "div",  "rem",
    "fma", "rcp", "mov", "sin", "cos",  "lg2",  "ex2",  "tanh", "sqrt", "rsqrt",    "mul",  "mad",
    "shl", "shr", "set", "sad", "selp", "cnot", "lop3", "prmt", "setp", "copysign", "brev",
};

std::string trimmed(const std::string& s) {
  size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  if (a == std::string::npos) return "";
  std::string t = s.substr(a, b - a + 1);
  return t.size() > 300 ? t.substr(0, 300) + "..." : t;
}

} // namespace

ModuleIndex::ModuleIndex(const ptx::Module& m, const std::vector<GlobalSymbol>& symbols)
    : module(m) {
  for (const GlobalSymbol& g : symbols) {
    globals.emplace(g.name, &g);
    if (g.function) addressed.push_back(&g);
  }
  for (const ptx::Variable& v : m.variables) variables[v.name].push_back(&v);
  for (const ptx::Function& f : m.functions) {
    if (f.is_entry) continue;
    auto [it, fresh] = functions.emplace(f.name, &f);
    if (!fresh && f.has_body) it->second = &f;
  }
  for (const auto& [alias, name] : m.aliases)
    if (auto it = functions.find(name); it != functions.end()) functions[alias] = it->second;
}

void ProgramBuilder::refuse(int line, const std::string& why) const {
  std::string text = "line " + std::to_string(line);
  if (line > 0 && size_t(line) <= module_.lines.size())
    text += ": " + trimmed(module_.lines[size_t(line) - 1]);
  throw DecodeError(line, text + ": " + why);
}

// ---- directives

void ProgramBuilder::directives() {
  exec::Program& p = *program_;
  auto copy3 = [](uint32_t(&to)[3], const std::vector<uint64_t>& from) {
    for (size_t i = 0; i < 3; ++i)
      to[i] = uint32_t(std::min<uint64_t>(i < from.size() ? from[i] : 1, 0xFFFFFFFF));
  };
  for (const auto& d : entry_.directives) {
    const uint32_t value =
        d.values.empty() ? 0 : uint32_t(std::min<uint64_t>(d.values[0], 0xFFFFFFFF));
    if (d.name == "maxntid")
      copy3(p.maxntid, d.values);
    else if (d.name == "reqntid")
      copy3(p.reqntid, d.values);
    else if (d.name == "reqnctapercluster")
      copy3(p.reqcluster, d.values);
    else if (d.name == "minnctapersm")
      p.minnctapersm = value;
    else if (d.name == "maxnreg")
      p.maxnreg = value;
    else if (d.name == "maxclusterrank")
      p.maxclusterrank = value;
    else if (d.name == "blocksareclusters")
      refuse(entry_.line, ".blocksareclusters is not supported");
  }
  const uint32_t* block = p.reqntid[0] ? p.reqntid : p.maxntid;
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) threads *= std::min<uint64_t>(std::max(1u, block[i]), 1u << 20);
  uint64_t registers = 255;
  if (block[0]) {
    // Registers are given to whole warps, in multiples of 8 a thread; an SM has 65536.
    const uint64_t resident = align_up(threads, 32) * std::max(1u, p.minnctapersm);
    registers = std::min<uint64_t>(255, 65536 / std::max<uint64_t>(1, resident));
    if (registers < 255) registers = registers / 8 * 8;
  }
  if (p.maxnreg) registers = std::min<uint64_t>(registers, p.maxnreg);
  p.entry_registers = uint32_t(registers);
}

// ---- layout of the code

void ProgramBuilder::assign_pcs() {
  uint64_t pc = 0;
  for (auto& u : units_) {
    u->pcs.reserve(u->function->statements.size() + 1);
    for (const ptx::Statement& s : u->function->statements) {
      u->pcs.push_back(uint32_t(pc));
      ++pc;
      if (is_framed(s, *u))
        pc += 2;
      else if (const ptx::Function* g = callee(s))
        pc += !g->params.empty() + !g->returns.empty();
    }
    u->pcs.push_back(uint32_t(pc));
    ++pc; // the end
  }
  if (pc > (1u << 26)) refuse(entry_.line, "more than 2^26 instructions");
  program_->code.reserve(pc);
}

// ---- code

void ProgramBuilder::check_target(const ptx::Statement& s, const Form& form) const {
  if (module_.targets.empty() || target_allows(module_.targets[0], form.target)) return;
  refuse(s.line, std::string("the instruction needs .target ") + form.target +
                     "; the module says " + module_.targets[0]);
}

void ProgramBuilder::check_widths(const ptx::Statement& s) {
  const std::string& name = s.opcode[0];
  if (std::find(std::begin(kSameWidth), std::end(kSameWidth), name) == std::end(kSameWidth)) return;
  uint32_t bits = 0, types = 0;
  for (size_t i = 1; i < s.opcode.size(); ++i) {
    if (s.opcode[i] == "wide") return;
    if (uint32_t b = type_bits(s.opcode[i])) {
      bits = b;
      ++types;
    }
  }
  if (types != 1) return;
  const bool shift = name == "shl" || name == "shr";
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const ptx::Operand& o = s.operands[i];
    if (o.kind != ptx::Operand::Kind::Name) continue;
    const Symbol* r = find(o.name);
    if (!r || r->kind != Symbol::Kind::Register || (r->bits == 1 && bits != 1)) continue;
    const uint32_t want = shift && i == 2 ? 32 : bits;
    if (r->bits != want)
      refuse("the register '" + o.name + "' has " + std::to_string(r->bits) + " bits; operand " +
             std::to_string(i + 1) + " takes " + std::to_string(want));
  }
}

void ProgramBuilder::start_inst(Inst& inst, const ptx::Statement& s) {
  inst.pc = uint32_t(program_->code.size());
  inst.text = &s;
  if (!s.guard.name.empty()) {
    Symbol* p = need(s.guard.name);
    if (p->kind != Symbol::Kind::Register || p->cls != RegClass::Pred)
      refuse("the guard '" + s.guard.name + "' is no predicate register");
    inst.guard = register_slot(*p);
    inst.guard_negated = s.guard.negated;
  }
}

void ProgramBuilder::emit_statement(Unit& unit, const ptx::Statement& s) {
  statement_ = &s;
  unit_ = &unit;
  immediate_bits_ = 0;
  if (s.opcode[0] != "wgmma" && s.opcode[0] != "mma" && s.opcode[0] != "wmma")
    if (const uint32_t bits = type_bits(s.opcode.back()); bits > 1 && bits < 32)
      immediate_bits_ = bits;

  Match match;
  std::string why;
  const Form* form = find_form(s, match, &why);
  if (!form) refuse("not supported: " + why);
  if (form->status == Status::refused)
    refuse(std::string("not supported: ") + form->why + " (PTX ISA " + form->section + ")");
  if (!form->decoder) refuse("this build has no decoder for the form");
  check_target(s, *form);

  const Unit* target = nullptr;
  if (is_framed(s, unit)) return emit_framed_call(s);
  if (const ptx::Function* g = callee(s)) {
    context_.call(s); // checks the number of arguments
    target = find_unit(g);
    emit_arguments(s, *target);
  }
  Inst inst;
  start_inst(inst, s);
  inst.form = form;
  form->decoder(context_, s, match, inst);
  if (!inst.run) refuse("the decoder gave no handler");
  check_widths(s);
  program_->code.push_back(inst);
  if (target) emit_results(s, *target);
}

void ProgramBuilder::emit_end(Unit& unit) {
  Inst inst;
  inst.pc = uint32_t(program_->code.size());
  unit_ = &unit;
  if (!context_.return_to_caller(inst)) inst.run = end_of_entry;
  program_->code.push_back(inst);
}

void ProgramBuilder::emit(Unit& unit) {
  const auto& statements = unit.function->statements;
  for (size_t i = 0; i < statements.size(); ++i) emit_statement(unit, statements[i]);
  emit_end(unit);
}

std::unique_ptr<exec::Program> ProgramBuilder::build() {
  auto program = std::make_unique<exec::Program>();
  program_ = program.get();
  context_.program_ = program_;
  context_.builder_ = this;
  program->name = entry_.name;
  program->module = &module_;
  program->function = &entry_;
  if (!module_.targets.empty()) program->target = module_.targets[0];
  if (module_.address_size != 64) refuse(entry_.line, ".address_size must be 64");
  if (!entry_.is_entry || !entry_.has_body)
    refuse(entry_.line, "'" + entry_.name + "' is no .entry with a body");

  collect_units();
  mark_reentered();
  declare_module();
  for (auto& u : units_) declare(*u);
  place_dynamic_shared();
  directives();
  assign_pcs();
  for (auto& u : units_) note_labels(*u);
  for (auto& u : units_) emit(*u);
  finish_frames();
  program->local_bytes = uint32_t(align_up(local_top_, 16));
  return program;
}

std::unique_ptr<exec::Program> decode(const ModuleIndex& index, const ptx::Function& entry) {
  return ProgramBuilder(index, entry).build();
}

std::unique_ptr<exec::Program> decode(const ptx::Module& module, const ptx::Function& entry,
                                      const std::vector<GlobalSymbol>& globals) {
  return decode(ModuleIndex(module, globals), entry);
}

} // namespace vgpu::isa
