#include "tools/vgpu/ops/async_operand.hpp"

#include <cstdio>

namespace vgpu::ops {

std::string hex(uint64_t v) {
  char buf[24];
  std::snprintf(buf, sizeof buf, "0x%llx", static_cast<unsigned long long>(v));
  return buf;
}

MemOperand mem_operand(isa::DecodeContext& ctx, const ptx::Operand& operand,
                       std::string_view space) {
  using Mode = MemOperand::Mode;
  isa::AddressOperand a = ctx.address(operand);
  MemOperand m;
  m.slot = a.base;
  m.wide = a.wide;
  m.offset = a.offset;
  std::string variable;
  if (!operand.items.empty()) variable = ctx.variable_space(operand.items[0]);
  if (space == "shared::cluster")
    m.mode = Mode::SharedCluster;
  else if (space == "shared" || space == "shared::cta")
    m.mode = Mode::SharedOwn;
  else if (space == "global")
    m.mode = Mode::Global;
  else if (variable == "shared")
    m.mode = Mode::SharedCluster;
  else if (variable == "param")
    m.mode = Mode::Param;
  else if (variable == "global" || variable == "const")
    m.mode = Mode::Global;
  return m;
}

const Operand& OperandReader::next(const char* what) {
  if (!more()) ctx_.refuse(s_, std::string("an operand is missing: ") + what);
  return s_.operands[next_++];
}

MemOperand OperandReader::memory(std::string_view space) {
  MemOperand m = mem_operand(ctx_, next("an address"), space);
  src.push_back(m.slot);
  return m;
}

uint32_t OperandReader::value(RegClass c) {
  src.push_back(ctx_.src(next("a value"), c));
  return src.back();
}

uint32_t OperandReader::value_of(std::string_view word, RegClass c, const char* what) {
  if (!m_.has(word)) return exec::kNoSlot;
  if (!more()) ctx_.refuse(s_, "." + std::string(word) + " needs " + what);
  return value(c);
}

void OperandReader::finish(Inst& inst, const void* data, Handler run) {
  if (more())
    ctx_.refuse(s_, std::to_string(s_.operands.size()) + " operands, but the modifiers ask for " +
                        std::to_string(next_));
  ctx_.set_operands(inst, {}, src);
  inst.data = data;
  inst.run = run;
}

SharedPlace shared_place(Warp& w, const Inst& inst, const MemOperand& m, uint32_t lane) {
  exec::Cluster& cluster = w.cluster();
  uint64_t v = m.value(w, lane);
  SharedPlace p;
  if (m.mode == MemOperand::Mode::Generic) {
    uint64_t address = 0;
    if (cluster.resolve(v, p.cta, address) == Space::Shared) {
      p.offset = static_cast<uint32_t>(address);
      return p;
    }
    if (v >> 32 != 0)
      w.fault(inst, lane_bit(lane), FaultCode::invalid_address_space, "space",
              "generic address " + hex(v) + " is not in the shared window");
    // The units that take it look at its low bits, where the window's own bits are zero.
    cluster.violation(w.origin(inst, lane_bit(lane)), check::Rule::narrow_address,
                      FaultCode::invalid_address_space, [&] {
                        return "generic address " + hex(v) +
                               " is not in the shared window: it seems to be a shared address, "
                               "which needs cvta.shared or an opcode with .shared::cluster";
                      });
  }
  // Shared addresses have 32 bits; a 64-bit register may hold one.
  cluster.resolve_shared(static_cast<uint32_t>(v), p.cta, p.offset, w.origin(inst, lane_bit(lane)));
  if (m.mode == MemOperand::Mode::SharedOwn && p.cta != w.cta.rank)
    w.fault(inst, lane_bit(lane), FaultCode::invalid_address_space, "space",
            "address " + hex(v) + " lies in the shared memory of CTA rank " +
                std::to_string(p.cta) + ", but the instruction says shared::cta and runs in rank " +
                std::to_string(w.cta.rank));
  return p;
}

uint32_t copy_targets(Warp& w, const Inst& inst, uint32_t lane, uint32_t mask_slot, SharedPlace to,
                      SharedPlace barrier, bool pair) {
  if (mask_slot != exec::kNoSlot) {
    const size_t ctas = w.cluster().ctas.size();
    const uint32_t targets = w.lanes<uint32_t>(mask_slot)[lane] & 0xFFFF;
    if (targets == 0 || targets >> ctas != 0)
      w.fault(inst, lane_bit(lane), FaultCode::illegal_instruction, "multicast",
              "CTA mask " + hex(targets) + " must name CTAs of the cluster of " +
                  std::to_string(ctas));
    return targets;
  }
  if (!pair && barrier.cta != to.cta)
    w.fault(inst, lane_bit(lane), FaultCode::invalid_address_space, "barriers",
            "the mbarrier is in CTA rank " + std::to_string(barrier.cta) +
                ", the destination in rank " + std::to_string(to.cta) +
                ": they must be in the same CTA");
  return 1u << to.cta;
}

uint64_t global_place(Warp& w, const Inst& inst, const MemOperand& m, uint32_t lane) {
  uint64_t v = m.value(w, lane);
  if (m.mode == MemOperand::Mode::Generic) {
    uint32_t cta = 0;
    uint64_t address = 0;
    if (w.cluster().resolve(v, cta, address) != Space::Global)
      w.fault(inst, lane_bit(lane), FaultCode::invalid_address_space, "space",
              "generic address " + hex(v) + " is not in global memory");
    return address;
  }
  return v;
}

uint32_t uniform_u32(Warp& w, const Inst& inst, uint32_t mask, uint32_t slot, const char* what) {
  const uint32_t* v = w.lanes<uint32_t>(slot);
  uint32_t first = v[std::countr_zero(mask)];
  each_lane(mask, [&](uint32_t l) {
    if (v[l] != first)
      w.fault(inst, lane_bit(l), FaultCode::illegal_instruction, "uniform",
              std::string(what) + " is " + hex(v[l]) + " in lane " + std::to_string(l) + " and " +
                  hex(first) + " in lane " + std::to_string(std::countr_zero(mask)) +
                  ": all threads of the warp must give the same value");
  });
  return first;
}

} // namespace vgpu::ops
