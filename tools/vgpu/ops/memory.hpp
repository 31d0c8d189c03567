// Addresses of loads, stores and atomics: state spaces, and pointers for all lanes of a warp.
#pragma once

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

// State space of an instruction. SharedCta: the address must lie in the executing CTA.
enum class Where : uint8_t { Generic, Global, SharedCta, SharedCluster, Local, Param };

// Pointers by lane, and whether the bytes lie in global memory, which other host threads share.
struct LanePointers {
  uint8_t* at[32];
  uint32_t global = 0; // lanes

  // Lane l's bytes lie at at[0] + l * bytes, for all 32 lanes.
  bool dense(uint32_t mask, uint32_t bytes) const {
    if (mask != 0xFFFFFFFFu) return false;
    uint64_t differs = 0;
    for (uint32_t l = 0; l < 32; ++l) differs |= uint64_t(at[l] - at[0]) ^ (uint64_t(l) * bytes);
    return differs == 0;
  }
};

// The address operand's lanes: base slot, constant, width.
struct LaneAddress {
  uint32_t slot = 0;
  bool wide = true;
  int64_t offset = 0;
};

// Checks and resolves the access of every lane; faults name the lane.
void lane_pointers(Warp& w, const Inst& i, uint32_t mask, Where where, const LaneAddress& address,
                   uint32_t bytes, uint32_t alignment, bool write, bool atomic, LanePointers& out);

// The same with the address of every lane; `wide`: of 64 bits.
void lane_pointers(Warp& w, const Inst& i, uint32_t mask, Where where, uint64_t (&at)[32],
                   bool wide, uint32_t bytes, uint32_t alignment, bool write, bool atomic,
                   LanePointers& out);

// One lane's shared address (by `where`) to owner and offset; faults on other spaces.
void shared_target(Warp& w, const Inst& i, uint32_t lane, Where where, const LaneAddress& address,
                   uint32_t& cta, uint32_t& offset);

// Copies between a generic address and the host, for one lane.
void read_generic(Warp& w, const Inst& i, uint32_t lane, uint64_t address, void* to,
                  uint32_t bytes);

// ---- decoding

// The word of the instruction's space ("", "global", "shared::cluster", "param::func", ...) for
// the operand that it addresses.
Where where_of(DecodeContext& dc, const Statement& s, std::string_view space,
               const Operand& operand);

// Fills slot, width and offset; the slot goes among the sources.
LaneAddress lane_address(DecodeContext& dc, const Operand& operand);

} // namespace vgpu::ops
