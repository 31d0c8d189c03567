// alloca, stacksave, stackrestore (PTX ISA 9.7.17). A thread's stack lies behind its local
// variables and grows down; a register of the program is the stack pointer, a local address. What a
// function allocates is given back when it returns (DecodeContext::return_to_caller).
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

namespace {

constexpr uint64_t kLeastAlignment = 8, kMostAlignment = 1 << 23;

template <class W>
Step save(Warp& w, const Inst& i, uint32_t mask) {
  W* d = w.lanes<W>(i.op[0]);
  const uint32_t* top = w.lanes<uint32_t>(i.op[1]);
  for_lanes(mask, [&](uint32_t l) { d[l] = top[l]; });
  return Step::Next;
}

// Values between the stack pointer and what it was when the function was called give memory of the
// function back. Others would take it from callers, or bring memory back that was given back.
template <class W>
Step restore(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* top = w.lanes<uint32_t>(i.op[0]);
  const W* value = w.lanes<W>(i.op[1]);
  const uint64_t end = w.cluster().local_bytes();
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t l = uint32_t(std::countr_zero(m));
    const uint64_t highest = i.n_src > 1 ? w.lanes<uint32_t>(i.op[2])[l] : end;
    if (value[l] < top[l] || value[l] > highest)
      w.fault(i, 1u << l, FaultCode::launch_failed, "stack",
              "stackrestore of " + hex(value[l]) + ", which no stacksave of this call has given: " +
                  "it must be from " + hex(top[l]) + ", the stack pointer, to " + hex(highest) +
                  ", where the function's part of the stack begins");
    top[l] = uint32_t(value[l]);
  }
  return Step::Next;
}

// imm: alignment.
template <class W>
Step take(Warp& w, const Inst& i, uint32_t mask) {
  W* d = w.lanes<W>(i.op[0]);
  const W* size = w.lanes<W>(i.op[2]);
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t l = uint32_t(std::countr_zero(m));
    d[l] = W(w.take_stack(i, l, size[l], i.imm, "alloca"));
  }
  return Step::Next;
}

RegClass width(const Match& m) { return class_of(m.get("type")); }

} // namespace

void stack_save(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const RegClass cls = width(m);
  inst.run = cls == RegClass::B64 ? save<uint64_t> : save<uint32_t>;
  dc.set_operands(inst, {dc.dst(s.operands[0], cls)}, {dc.program().stack_slot});
}

void stack_restore(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const RegClass cls = width(m);
  inst.run = cls == RegClass::B64 ? restore<uint64_t> : restore<uint32_t>;
  std::vector<uint32_t> src{dc.src(s.operands[0], cls)};
  if (dc.frame_slot() != exec::kNoSlot) src.push_back(dc.frame_slot());
  dc.set_operands(inst, {dc.program().stack_slot}, src);
}

void stack_alloca(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const RegClass cls = width(m);
  inst.run = cls == RegClass::B64 ? take<uint64_t> : take<uint32_t>;
  inst.imm = kLeastAlignment;
  if (s.operands.size() > 2) {
    const Operand& o = s.operands[2];
    if (o.kind != Operand::Kind::Int || !std::has_single_bit(o.value) || o.value > kMostAlignment)
      dc.refuse(s, "the alignment of alloca must be a constant power of 2 up to 8388608");
    inst.imm = std::max(inst.imm, o.value);
  }
  dc.set_operands(inst, {dc.dst(s.operands[0], cls), dc.program().stack_slot},
                  {dc.src(s.operands[1], cls)});
}

} // namespace vgpu::ops
