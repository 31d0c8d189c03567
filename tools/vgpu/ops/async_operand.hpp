// Memory operands of the asynchronous families (sync, copy, tcgen05, wgmma): decoding them, and
// finding the owner and offset of a lane's address.
#pragma once

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/warp.hpp"
#include "tools/vgpu/isa/decode.hpp"

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

  uint64_t value(exec::Warp& w, uint32_t lane) const {
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
MemOperand mem_operand(isa::DecodeContext& ctx, const ptx::Operand& operand,
                       std::string_view space);

// Owner and offset of a lane's shared address; faults when it lies elsewhere, or in another CTA
// although the opcode says shared::cta.
SharedPlace shared_place(exec::Warp& w, const exec::Inst& inst, const MemOperand& m, uint32_t lane);

// Device address of a lane's global operand; faults when a generic address lies elsewhere.
uint64_t global_place(exec::Warp& w, const exec::Inst& inst, const MemOperand& m, uint32_t lane);

inline uint32_t lane_bit(uint32_t lane) { return 1u << lane; }

// Calls fn(lane) for the lanes of mask, lowest first.
template <class Fn>
inline void each_lane(uint32_t mask, Fn&& fn) {
  for (uint32_t left = mask; left; left &= left - 1)
    fn(static_cast<uint32_t>(std::countr_zero(left)));
}

// The value that all lanes of mask hold in a B32 slot; faults when they differ.
uint32_t uniform_u32(exec::Warp& w, const exec::Inst& inst, uint32_t mask, uint32_t slot,
                     const char* what);

std::string hex(uint64_t v);

} // namespace vgpu::ops
