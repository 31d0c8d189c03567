// Memory operands of the asynchronous families (sync, copy, tcgen05, wgmma): decoding them, and
// finding the owner and offset of a lane's address.
#pragma once

#include "tools/vgpu/ops/names.hpp"

#include <string>
#include <string_view>

namespace vgpu::ops {

struct MemOperand {
  // How the lane's value is read: in the shared window (shared::cta, shared::cluster), as a generic
  // address, as a global address, or as an offset into the kernel's parameters.
  enum class Mode : uint8_t { SharedOwn, SharedCluster, Generic, Global, Param };
  uint32_t slot = exec::kNoSlot;
  bool wide = false;
  Mode mode = Mode::Generic;
  int64_t offset = 0;

  uint64_t value(Warp& w, uint32_t lane) const {
    uint64_t v = wide ? w.lanes<uint64_t>(slot)[lane] : w.lanes<uint32_t>(slot)[lane];
    return v + static_cast<uint64_t>(offset);
  }
};

// A place in the shared memory of one CTA of the cluster.
struct SharedPlace {
  uint32_t cta = 0, offset = 0;
};

// `space`: the token of the opcode ("shared", "shared::cta", "shared::cluster", "global", "" =
// generic). Variables name their own space.
MemOperand mem_operand(DecodeContext& ctx, const Operand& operand, std::string_view space);

// The operands of a statement, one after the other: first those that every form has, then those
// that words of the opcode ask for. Their slots gather in `src`.
class OperandReader {
public:
  OperandReader(DecodeContext& ctx, const Statement& s, const Match& m) : ctx_(ctx), s_(s), m_(m) {}

  std::vector<uint32_t> src;

  bool more() const { return next_ < s_.operands.size(); }
  // `what` names it when it is missing.
  const Operand& next(const char* what);
  MemOperand memory(std::string_view space);
  uint32_t value(RegClass c);
  // With the word a value, without it none.
  uint32_t value_of(std::string_view word, RegClass c, const char* what);
  uint32_t cta_mask() { return value_of("multicast::cluster", RegClass::B32, "a 16-bit CTA mask"); }
  void cache_policy() { value_of("L2::cache_hint", RegClass::B64, "a 64-bit cache policy"); }
  // The instruction, when no operand is left.
  void finish(Inst& inst, const void* data, Handler run);

private:
  DecodeContext& ctx_;
  const Statement& s_;
  const Match& m_;
  size_t next_ = 0;
};

// Owner and offset of a lane's shared address; faults when it lies elsewhere, or in another CTA
// although the opcode says shared::cta.
SharedPlace shared_place(Warp& w, const Inst& inst, const MemOperand& m, uint32_t lane);

// The CTAs that a copy of this lane goes to: those of the 16-bit mask when its slot is given, else
// the one of `to`, which must be the barrier's unless `pair`. Faults on what may not be.
uint32_t copy_targets(Warp& w, const Inst& inst, uint32_t lane, uint32_t mask_slot, SharedPlace to,
                      SharedPlace barrier, bool pair);

// Device address of a lane's global operand; faults when a generic address lies elsewhere.
uint64_t global_place(Warp& w, const Inst& inst, const MemOperand& m, uint32_t lane);

inline uint32_t lane_bit(uint32_t lane) { return 1u << lane; }

// Calls fn(lane) for the lanes of mask, lowest first.
template <class Fn>
inline void each_lane(uint32_t mask, Fn&& fn) {
  for (uint32_t left = mask; left; left &= left - 1)
    fn(static_cast<uint32_t>(std::countr_zero(left)));
}

// The value that all lanes of mask hold in a B32 slot; faults when they differ.
uint32_t uniform_u32(Warp& w, const Inst& inst, uint32_t mask, uint32_t slot, const char* what);

std::string hex(uint64_t v);

} // namespace vgpu::ops
