// Calls through a pointer, and calls of functions that may be active already (recursion). Each is
// three instructions: `enter` hands the arguments over and branches; a jump takes lanes whose guard
// is false past the third; `leave`, at the return pc, takes the results. What `enter` notes, and
// the registers and parameters of a function that is active already, are kept by the warp
// meanwhile; .local variables, to which pointers may exist, lie on the thread's stack.
#include "tools/vgpu/isa/builder.hpp"

#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>
#include <cstdio>

namespace vgpu::isa {

using exec::FaultCode;
using exec::FunctionCode;
using exec::Inst;
using exec::RegClass;
using exec::Step;
using exec::Warp;

namespace {

constexpr size_t kMaxSaved = 1 << 20; // bytes of saved activations of a lane
constexpr size_t kMaxPairs = 1 << 18; // calls through pointers times functions they may reach

struct Target {
  const FunctionCode* code = nullptr;
  std::vector<CallCopy> arguments, results;
  std::string mismatch; // why the call does not fit it, "" = it does
};

struct FramedCall {
  std::vector<Target> targets;
  uint32_t pointer = exec::kNoSlot; // B64; a direct call has one target and no pointer
};

// On top of each activation's part of the stack.
struct Note {
  uint32_t target; // of FramedCall::targets
  uint32_t saved;  // 1: the function's frame lies below
};

bool is_predicate(const CallCopy& c) {
  return c.to.kind == CallCopy::End::Kind::Slot && c.to.cls == RegClass::Pred;
}

// All values are read before any is written: the formals may be the caller's own.
std::vector<uint8_t> read_values(Warp& w, const std::vector<CallCopy>& list, uint32_t lane) {
  std::vector<uint8_t> bytes;
  for (const CallCopy& c : list) {
    if (is_predicate(c)) {
      bytes.push_back(w.pred(c.from.slot) >> lane & 1);
      continue;
    }
    const uint8_t* from = end_pointer(w, c.from, lane);
    bytes.insert(bytes.end(), from, from + c.bytes);
  }
  return bytes;
}

void write_values(Warp& w, const std::vector<CallCopy>& list, uint32_t lane,
                  const std::vector<uint8_t>& bytes) {
  const uint8_t* from = bytes.data();
  for (const CallCopy& c : list) {
    if (is_predicate(c)) {
      w.set_pred(c.to.slot, 1u << lane, *from++ ? ~0u : 0);
      continue;
    }
    uint8_t* to = end_pointer(w, c.to, lane);
    if (c.to.kind == CallCopy::End::Kind::Slot) std::memset(to, 0, class_bytes(c.to.cls) / 32);
    std::memcpy(to, from, c.bytes);
    from += c.bytes;
  }
}

size_t frame_bytes(const FunctionCode& f) {
  size_t n = f.local_end - f.local_begin;
  for (const auto& [slot, cls] : f.registers)
    n += cls == RegClass::Pred ? 1 : class_bytes(cls) / 32;
  return n;
}

// Calls visit(place, bytes) for all of the frame but predicates, and flip(slot) for those.
template <class Visit, class Flip>
void each_part(Warp& w, const FunctionCode& f, uint32_t lane, Visit&& visit, Flip&& flip) {
  for (const auto& [slot, cls] : f.registers) {
    if (cls == RegClass::Pred)
      flip(slot);
    else
      visit(w.lanes<uint8_t>(slot) + lane * (class_bytes(cls) / 32), class_bytes(cls) / 32);
  }
  if (f.local_end == f.local_begin) return;
  CallCopy::End local;
  local.kind = CallCopy::End::Kind::Local;
  local.offset = f.local_begin;
  visit(end_pointer(w, local, lane), f.local_end - f.local_begin);
}

void save(Warp& w, const Inst& inst, const FunctionCode& f, uint32_t lane) {
  std::vector<uint8_t>& stack = w.call_stack[lane];
  if (stack.size() + frame_bytes(f) > kMaxSaved)
    w.fault(inst, 1u << lane, FaultCode::launch_failed, "stack",
            "calls nested too deep: " + std::to_string(w.lanes<uint32_t>(f.depth_slot)[lane]) +
                " activations of '" + f.name + "' take more than " + std::to_string(kMaxSaved) +
                " bytes of stack");
  each_part(
      w, f, lane, [&](const uint8_t* p, size_t n) { stack.insert(stack.end(), p, p + n); },
      [&](uint32_t slot) { stack.push_back(w.pred(slot) >> lane & 1); });
}

void restore(Warp& w, const FunctionCode& f, uint32_t lane) {
  std::vector<uint8_t>& stack = w.call_stack[lane];
  const size_t start = stack.size() - frame_bytes(f);
  const uint8_t* from = stack.data() + start;
  each_part(
      w, f, lane,
      [&](uint8_t* p, size_t n) {
        std::memcpy(p, from, n);
        from += n;
      },
      [&](uint32_t slot) { w.set_pred(slot, 1u << lane, *from++ ? ~0u : 0); });
  stack.resize(start);
}

uint32_t find_target(Warp& w, const Inst& inst, const FramedCall& call, uint32_t lane) {
  if (call.pointer == exec::kNoSlot) return 0;
  const uint64_t address = w.lanes<uint64_t>(call.pointer)[lane];
  for (size_t i = 0; i < call.targets.size(); ++i) {
    const Target& t = call.targets[i];
    if (t.code->address != address) continue;
    if (!t.mismatch.empty())
      w.fault(inst, 1u << lane, FaultCode::invalid_pc, "control",
              "the call does not fit its target: " + t.mismatch);
    return uint32_t(i);
  }
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  w.fault(inst, 1u << lane, FaultCode::invalid_pc, "control",
          std::string("a call through the pointer ") + text + ", which is none of the " +
              std::to_string(call.targets.size()) + " functions it may reach");
}

// The memory of the activation's .local variables, which its return gives back.
void take_frame(Warp& w, const Inst& inst, const FunctionCode& f, uint32_t lane) {
  w.copy_lanes(f.frame_slot, w.program().stack_slot, 1u << lane);
  if (!f.frame_bytes) return;
  const uint64_t frame = w.take_stack(inst, lane, f.frame_bytes, f.frame_alignment,
                                      "a call of '" + f.name + "' for its .local variables");
  for (const FunctionCode::FrameAddress& a : f.frame_addresses) {
    if (a.cls == RegClass::B64)
      w.lanes<uint64_t>(a.slot)[lane] = frame + a.offset;
    else
      w.lanes<uint32_t>(a.slot)[lane] = uint32_t(frame + a.offset);
  }
}

Step enter(Warp& w, const Inst& inst, uint32_t mask) {
  const auto& call = *static_cast<const FramedCall*>(inst.data);
  if (w.call_stack.empty()) w.call_stack.resize(32);
  uint32_t pcs[32] = {};
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t lane = uint32_t(std::countr_zero(m));
    Note note{find_target(w, inst, call, lane), 0};
    const Target& t = call.targets[note.target];
    const std::vector<uint8_t> values = read_values(w, t.arguments, lane);
    if (w.lanes<uint32_t>(t.code->depth_slot)[lane]++) {
      save(w, inst, *t.code, lane);
      note.saved = 1;
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(&note);
    w.call_stack[lane].insert(w.call_stack[lane].end(), bytes, bytes + sizeof note);
    write_values(w, t.arguments, lane, values);
    if (t.code->frame_slot != exec::kNoSlot) take_frame(w, inst, *t.code, lane);
    w.lanes<uint32_t>(t.code->return_slot)[lane] = inst.pc + 2;
    pcs[lane] = t.code->pc;
  }
  return w.branch_lanes(mask, pcs);
}

Step skip(Warp& w, const Inst& inst, uint32_t mask) {
  return w.branch(inst, mask, mask, inst.target);
}

Step leave(Warp& w, const Inst& inst, uint32_t mask) {
  const auto& call = *static_cast<const FramedCall*>(inst.data);
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t lane = uint32_t(std::countr_zero(m));
    std::vector<uint8_t>& stack = w.call_stack[lane];
    Note note;
    std::memcpy(&note, stack.data() + stack.size() - sizeof note, sizeof note);
    stack.resize(stack.size() - sizeof note);
    const Target& t = call.targets[note.target];
    const std::vector<uint8_t> values = read_values(w, t.results, lane);
    --w.lanes<uint32_t>(t.code->depth_slot)[lane];
    if (note.saved) restore(w, *t.code, lane);
    write_values(w, t.results, lane, values);
  }
  return Step::Next;
}

// Slots that the copies read and write, for what watches registers.
void note_slots(const std::vector<CallCopy>& copies, std::vector<uint32_t>& dst,
                std::vector<uint32_t>& src) {
  for (const CallCopy& c : copies) {
    if (c.to.kind == CallCopy::End::Kind::Slot) dst.push_back(c.to.slot);
    if (c.from.kind == CallCopy::End::Kind::Slot) src.push_back(c.from.slot);
  }
}

} // namespace

// Functions that no chain of calls leads back to are peeled off. One node more than there are
// functions stands for all calls through pointers: it leads to every function with an address.
void ProgramBuilder::mark_reentered() {
  const size_t pointer = units_.size();
  std::vector<std::vector<size_t>> callees(pointer + 1);
  std::vector<size_t> callers(pointer + 1);
  std::unordered_map<const Unit*, size_t> index;
  for (size_t i = 0; i < units_.size(); ++i) index[units_[i].get()] = i;
  for (size_t i = 0; i < units_.size(); ++i) {
    const ptx::Function& f = *units_[i]->function;
    for (const ptx::Statement& s : f.statements) {
      if (const ptx::Function* g = callee(s)) callees[i].push_back(index.at(find_unit(g)));
      if (is_indirect(s, f)) callees[i].push_back(pointer);
    }
    if (has_address(*units_[i])) callees[pointer].push_back(i);
  }
  for (const auto& list : callees)
    for (size_t i : list) ++callers[i];
  std::vector<size_t> free;
  for (size_t i = 0; i <= pointer; ++i) {
    if (i < pointer) units_[i]->reentered = true;
    if (!callers[i]) free.push_back(i);
  }
  while (!free.empty()) {
    const size_t i = free.back();
    free.pop_back();
    if (i < pointer) units_[i]->reentered = false;
    for (size_t j : callees[i])
      if (!--callers[j]) free.push_back(j);
  }
}

bool ProgramBuilder::has_address(const Unit& unit) const {
  auto it = index_.globals.find(unit.function->name);
  return it != index_.globals.end() && it->second->function;
}

bool ProgramBuilder::is_framed(const ptx::Statement& s, const Unit& caller) const {
  if (is_indirect(s, *caller.function)) return true;
  const ptx::Function* f = callee(s);
  return f && find_unit(f)->reentered;
}

// The functions that a call through a pointer may reach.
std::vector<Unit*> ProgramBuilder::indirect_targets(const ptx::Statement& s) const {
  const ptx::Function& f = *unit_->function;
  std::vector<Unit*> targets;
  if (s.operands.size() < 2) refuse("a call through a register names its prototype or its targets");
  const std::string& label = s.operands[1].name;
  for (const auto& [name, functions] : f.call_targets) {
    if (name != label) continue;
    for (const std::string& target : functions) {
      const ptx::Function* g = find_function(target);
      Unit* unit = g ? find_unit(g) : nullptr;
      if (!unit || !has_address(*unit))
        refuse("the target '" + target + "' is no function whose address is taken");
      targets.push_back(unit);
    }
    return targets;
  }
  if (std::find(f.prototypes.begin(), f.prototypes.end(), label) == f.prototypes.end())
    refuse("'" + label + "' is no .callprototype and no .calltargets of this function");
  for (const auto& u : units_)
    if (has_address(*u)) targets.push_back(u.get());
  return targets;
}

void ProgramBuilder::emit_framed_call(const ptx::Statement& s) {
  auto* call = context_.make<FramedCall>();
  std::vector<Unit*> targets;
  if (const ptx::Function* g = callee(s)) {
    context_.call(s); // checks the number of arguments
    targets = {find_unit(g)};
  } else {
    call->pointer = context_.src(s.operands[0], RegClass::B64);
    targets = indirect_targets(s);
    indirect_pairs_ += targets.size();
    if (indirect_pairs_ > kMaxPairs)
      refuse("too many calls through pointers: with the functions they may reach more than " +
             std::to_string(kMaxPairs) + " pairs");
  }
  std::vector<uint32_t> enter_dst, enter_src, leave_dst, leave_src;
  if (call->pointer != exec::kNoSlot) enter_src.push_back(call->pointer);
  for (Unit* unit : targets) {
    Target& t = call->targets.emplace_back();
    t.code = unit->code.get();
    if (s.call_arguments.size() != unit->params.size() ||
        s.call_returns.size() != unit->returns.size()) {
      t.mismatch = "the function '" + unit->function->name + "' takes " +
                   std::to_string(unit->params.size()) + " arguments and returns " +
                   std::to_string(unit->returns.size()) + " values";
      continue;
    }
    try {
      for (size_t i = 0; i < unit->params.size(); ++i)
        t.arguments.push_back(make_copy(*unit->params[i], s.call_arguments[i], true));
      for (size_t i = 0; i < unit->returns.size(); ++i)
        t.results.push_back(make_copy(*unit->returns[i], s.call_returns[i], false));
    } catch (const DecodeError& e) {
      // A pointer may hold other functions; this one must not be reached from here.
      if (call->pointer == exec::kNoSlot) throw;
      t.mismatch = e.what();
    }
    note_slots(t.arguments, enter_dst, enter_src);
    note_slots(t.results, leave_dst, leave_src);
  }
  Inst enter_inst, skip_inst, leave_inst;
  start_inst(enter_inst, s);
  enter_inst.run = enter;
  enter_inst.data = call;
  // Values of other targets are not read: only the pointer is sure to be.
  if (targets.size() > 1) enter_src.resize(1);
  context_.set_operands(enter_inst, enter_dst, enter_src);
  program_->code.push_back(enter_inst);
  skip_inst.text = leave_inst.text = &s;
  skip_inst.pc = uint32_t(program_->code.size());
  skip_inst.target = skip_inst.pc + 2;
  skip_inst.run = skip;
  context_.set_operands(skip_inst, {}, {});
  program_->code.push_back(skip_inst);
  leave_inst.pc = uint32_t(program_->code.size());
  leave_inst.run = leave;
  leave_inst.data = call;
  if (targets.size() > 1) leave_src.clear();
  context_.set_operands(leave_inst, leave_dst, leave_src);
  program_->code.push_back(leave_inst);
}

// The register that holds an address of this activation's frame.
uint32_t ProgramBuilder::frame_address(const Symbol& s, RegClass cls, int64_t offset) {
  const uint64_t at = s.address + uint64_t(offset);
  auto& addresses = unit_->code->frame_addresses;
  for (const FunctionCode::FrameAddress& a : addresses)
    if (a.cls == cls && a.offset == at) return a.slot;
  const uint32_t slot = allocate(cls);
  program_->slot_name[slot] = "the address of " + s.name;
  program_->constants.push_back(
      {slot, cls, 0}); // written at warp start, for what watches registers
  addresses.push_back({slot, cls, at});
  return slot;
}

void ProgramBuilder::finish_frames() {
  for (const auto& u : units_) {
    if (!u->code) continue;
    FunctionCode& code = *u->code;
    code.name = u->function->name;
    if (has_address(*u)) code.address = index_.globals.at(code.name)->address;
    code.pc = u->pcs[0];
    code.return_slot = u->return_slot;
    std::vector<const Symbol*> symbols(u->params.begin(), u->params.end());
    symbols.insert(symbols.end(), u->returns.begin(), u->returns.end());
    for (const ScopeTable& scope : u->scopes)
      for (const auto& [name, symbol] : scope.names) symbols.push_back(symbol);
    code.registers.emplace_back(u->return_slot, RegClass::B32);
    if (u->frame_slot != exec::kNoSlot) code.registers.emplace_back(u->frame_slot, RegClass::B32);
    for (const FunctionCode::FrameAddress& a : code.frame_addresses)
      code.registers.emplace_back(a.slot, a.cls);
    for (const Symbol* symbol : symbols)
      if (symbol->kind == Symbol::Kind::Register && symbol->slot != exec::kNoSlot)
        code.registers.emplace_back(symbol->slot, symbol->cls);
    std::sort(code.registers.begin(), code.registers.end());
    code.registers.erase(std::unique(code.registers.begin(), code.registers.end()),
                         code.registers.end());
    program_->arena.push_back(u->code);
  }
}

} // namespace vgpu::isa
