// setmaxnreg (PTX ISA 9.7.19.5), nanosleep (9.7.19.2) and griddepcontrol (9.7.13.13).
#include "tools/vgpu/ops/async_operand.hpp"

namespace vgpu::ops {

using exec::Program;

namespace {

constexpr uint32_t kIncrease = 1u << 31;

// The n-th setmaxnreg of every warp of a warpgroup must be the same one, and nobody may be one
// ahead of a warp that has yet to execute it.
void check_warpgroup(Warp& w, const Inst& inst, uint32_t mask, uint32_t change) {
  size_t n = w.register_changes.size();
  uint32_t first = w.index & ~3u;
  for (uint32_t i = first; i < first + 4 && i < w.cta.warps.size(); ++i) {
    const Warp& o = *w.cta.warps[i];
    if (&o == &w) continue;
    Cluster& cluster = w.cluster();
    const exec::Origin origin = w.origin(inst, mask);
    if (o.register_changes.size() < n)
      cluster.violation(origin, check::Rule::setmaxnreg_twice, FaultCode::launch_failed, [&] {
        return "warp " + std::to_string(w.index) + " executes setmaxnreg again before warp " +
               std::to_string(i) +
               " of its warpgroup has executed the one before; they must synchronise between";
      });
    if (o.register_changes.size() > n && o.register_changes[n] != change)
      cluster.violation(origin, check::Rule::setmaxnreg_group, FaultCode::launch_failed, [&] {
        return "warps " + std::to_string(w.index) + " and " + std::to_string(i) +
               " of one warpgroup execute different setmaxnreg instructions: ." +
               (change & kIncrease ? "inc " : "dec ") + std::to_string(change & ~kIncrease) +
               " and ." + (o.register_changes[n] & kIncrease ? "inc " : "dec ") +
               std::to_string(o.register_changes[n] & ~kIncrease);
      });
  }
}

template <bool increase>
Step run_setmaxnreg(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t want = static_cast<uint32_t>(inst.imm);
  uint32_t change = want | (increase ? kIncrease : 0);
  const Program& p = w.program();
  bool launch_value =
      p.maxnreg != 0 || ((p.maxntid[0] != 0 || p.reqntid[0] != 0) && p.minnctapersm != 0);
  const exec::Origin origin = w.origin(inst, mask);
  if (!launch_value) { // ptxas leaves it out
    w.cluster().violation(origin, check::Rule::setmaxnreg_bound, FaultCode::launch_failed, [] {
      return "setmaxnreg has no effect in a kernel without .maxnreg, or .maxntid and "
             ".minnctapersm";
    });
    return Step::Next;
  }
  if (!w.resumed()) check_warpgroup(w, inst, mask, change);
  if (increase ? want < w.registers : want > w.registers) {
    w.cluster().violation(origin, check::Rule::setmaxnreg_way, FaultCode::launch_failed, [&] {
      return std::string(increase ? ".inc" : ".dec") + " to " + std::to_string(want) +
             " registers, but the warp holds " + std::to_string(w.registers) +
             " per thread: " + (increase ? "inc must not lower" : "dec must not raise") +
             " the number";
    });
    w.register_changes.push_back(change);
    return Step::Next;
  }
  uint32_t& pool = w.cta.pool_free;
  if (increase) {
    uint32_t more = (want - w.registers) * 32;
    if (pool < more)
      return w.park(mask, w.cta.pool_waiters,
                    WaitInfo{WaitInfo::Kind::RegisterPool, w.cta.rank, more, pool});
    pool -= more;
  } else {
    pool += (w.registers - want) * 32;
  }
  w.registers = want;
  w.register_changes.push_back(change);
  if (!increase) w.cluster().wake(w.cta.pool_waiters);
  return Step::Next;
}

// Sleeping lets all others run; how long it takes is up to the implementation (0 to twice the
// operand), so one turn is right for every value.
Step run_nanosleep(Warp& w, const Inst&, uint32_t) {
  w.polling = true;
  return Step::Yield;
}

// Grids run one after the other: prerequisites have completed, dependents start later.
Step run_nothing(Warp&, const Inst&, uint32_t) { return Step::Next; }

} // namespace

void decode_setmaxnreg(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  if (s.operands[0].kind != ptx::Operand::Kind::Int)
    ctx.refuse(s, "the register count must be an integer constant");
  uint64_t n = s.operands[0].value;
  if (n < 24 || n > 256 || n % 8 != 0)
    ctx.refuse(s, "register count " + std::to_string(n) +
                      " must be a multiple of 8 in 24..256; the nearest is " +
                      std::to_string(n < 24    ? 24
                                     : n > 256 ? 256
                                               : (n + 4) / 8 * 8));
  ctx.set_operands(inst, {}, {});
  inst.imm = n;
  inst.aligned = true;
  inst.run = m.get("action") == "inc" ? run_setmaxnreg<true> : run_setmaxnreg<false>;
}

void decode_nanosleep(DecodeContext& ctx, const Statement& s, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {ctx.src(s.operands[0], RegClass::B32)});
  inst.run = run_nanosleep;
}

void decode_griddepcontrol(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.run = run_nothing;
}

} // namespace vgpu::ops
