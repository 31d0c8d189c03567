// Control flow (PTX ISA 9.7.12), trap and brkpt (9.7.19).
#include "tools/vgpu/ops/external.hpp"
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

namespace {

Step bra(Warp& w, const Inst& i, uint32_t mask) { return w.branch(i, mask, mask, i.target); }

struct Targets {
  std::vector<uint32_t> pcs;
};

Step brx(Warp& w, const Inst& i, uint32_t mask) {
  const std::vector<uint32_t>& list = static_cast<const Targets*>(i.data)->pcs;
  const uint32_t* index = w.lanes<uint32_t>(i.op[0]);
  uint32_t pcs[32] = {};
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    if (index[l] >= list.size())
      w.fault(i, 1u << l, FaultCode::illegal_instruction, "control",
              "brx.idx index " + std::to_string(index[l]) + "; the list has " +
                  std::to_string(list.size()) + " targets");
    pcs[l] = list[index[l]];
  }
  return w.branch_lanes(mask, pcs);
}

Step pass(Warp&, const Inst&, uint32_t) { return Step::Next; }

Step leave(Warp& w, const Inst&, uint32_t mask) { return w.exit_lanes(mask); }

Step trap(Warp& w, const Inst& i, uint32_t mask) {
  w.fault(i, mask, FaultCode::launch_failed, "trap", "the kernel executed trap");
}
Step brkpt(Warp& w, const Inst& i, uint32_t mask) {
  w.fault(i, mask, FaultCode::launch_failed, "trap",
          "the kernel executed brkpt and no debugger is attached");
}

Step call(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* back = w.lanes<uint32_t>(i.op[0]);
  for_lanes(mask, [&](uint32_t l) { back[l] = i.pc + 1; });
  if (i.n_dst > 1) w.copy_lanes(i.op[1], i.op[2], mask);
  return w.branch(i, mask, mask, i.target);
}

} // namespace

void bra_label(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  inst.target = dc.label(s.operands[0]);
  inst.run = bra;
  dc.set_operands(inst, {}, {});
}

void brx_index(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  auto* t = dc.make<Targets>();
  t->pcs = dc.branch_targets(s.operands[1]);
  inst.data = t;
  inst.run = brx;
  dc.set_operands(inst, {}, {dc.src(s.operands[0], RegClass::B32)});
}

void exit_lanes(DecodeContext& dc, const Statement&, const Match&, Inst& inst) {
  inst.run = leave;
  dc.set_operands(inst, {}, {});
}

void ret_lanes(DecodeContext& dc, const Statement&, const Match&, Inst& inst) {
  if (dc.return_to_caller(inst)) return;
  inst.run = leave;
  dc.set_operands(inst, {}, {});
}

void trap_lanes(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  inst.run = s.opcode[0] == "trap" ? trap : brkpt;
  dc.set_operands(inst, {}, {});
}

// Triggers hardware counters, which do not exist here.
void pmevent_hint(DecodeContext& dc, const Statement&, const Match&, Inst& inst) {
  inst.run = pass;
  dc.set_operands(inst, {}, {});
}

void call_function(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  isa::CallTarget t = dc.call(s);
  if (t.external) {
    call_external(dc, s, t.name, inst);
    return;
  }
  inst.target = t.pc;
  inst.run = call;
  if (t.frame_slot == exec::kNoSlot)
    dc.set_operands(inst, {t.return_slot}, {});
  else
    dc.set_operands(inst, {t.return_slot, t.frame_slot}, {dc.program().stack_slot});
}

} // namespace vgpu::ops
