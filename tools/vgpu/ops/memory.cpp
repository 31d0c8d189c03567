#include "tools/vgpu/ops/memory.hpp"

#include <sstream>

namespace vgpu::ops {

using exec::Origin;

namespace {

std::string hex(uint64_t v) {
  std::ostringstream s;
  s << "0x" << std::hex << v;
  return s.str();
}

// All lanes have the same space and CTA.
void uniform(Warp& w, const Inst& i, uint32_t mask, Access& a, const uint64_t* addresses,
             LanePointers& out) {
  w.cluster().touch_lanes(a, addresses, mask, w.origin(i, mask), out.at);
  if (a.space == Space::Global) out.global |= mask;
}

// Shared addresses carry the CTA's rank at bit 24.
void shared_lanes(Warp& w, const Inst& i, uint32_t mask, Where where, Access& a,
                  uint64_t* addresses, LanePointers& out) {
  a.space = Space::Shared;
  uint64_t first_address = addresses[std::countr_zero(mask)], differs = 0;
  for (uint32_t l = 0; l < 32; ++l) differs |= addresses[l] ^ first_address;
  if (differs >> 24 == 0 && first_address >> 24 == w.cta.rank) {
    a.cta = w.cta.rank;
    for (uint32_t l = 0; l < 32; ++l) addresses[l] &= 0xFFFFFF;
    return uniform(w, i, mask, a, addresses, out);
  }
  for (uint32_t rest = mask; rest;) {
    uint32_t first = uint32_t(std::countr_zero(rest)), group = 0;
    uint64_t rank = addresses[first] >> 24;
    if (addresses[first] >> 32) {
      w.fault(i, 1u << first, FaultCode::invalid_address_space, "bounds",
              hex(addresses[first]) + " is no shared address; a generic one needs cvta.to.shared");
    }
    uint64_t offsets[32];
    for (uint32_t m = rest; m; m &= m - 1) {
      uint32_t l = uint32_t(std::countr_zero(m));
      if (addresses[l] >> 24 != rank) continue;
      group |= 1u << l;
      offsets[l] = addresses[l] & 0xFFFFFF;
    }
    if (where == Where::SharedCta && rank != w.cta.rank)
      w.fault(i, 1u << first, FaultCode::illegal_address, "bounds",
              "shared address " + hex(addresses[first]) + " lies in CTA " + std::to_string(rank) +
                  " of the cluster; a .shared::cta access reaches the own CTA (" +
                  std::to_string(w.cta.rank) + ") only");
    uint32_t owner = 0, offset = 0;
    w.cluster().resolve_shared(uint32_t(addresses[first]), owner, offset, w.origin(i, 1u << first));
    a.cta = owner;
    uniform(w, i, group, a, offsets, out);
    rest &= ~group;
  }
}

} // namespace

void lane_pointers(Warp& w, const Inst& i, uint32_t mask, Where where, const LaneAddress& address,
                   uint32_t bytes, uint32_t alignment, bool write, bool atomic, LanePointers& out) {
  uint64_t at[32];
  if (address.wide) {
    const uint64_t* base = w.lanes<uint64_t>(address.slot);
    for (uint32_t l = 0; l < 32; ++l) at[l] = base[l] + uint64_t(address.offset);
  } else {
    const uint32_t* base = w.lanes<uint32_t>(address.slot);
    for (uint32_t l = 0; l < 32; ++l) at[l] = base[l] + uint64_t(address.offset);
  }
  lane_pointers(w, i, mask, where, at, address.wide, bytes, alignment, write, atomic, out);
}

void lane_pointers(Warp& w, const Inst& i, uint32_t mask, Where where, uint64_t (&at)[32],
                   bool wide, uint32_t bytes, uint32_t alignment, bool write, bool atomic,
                   LanePointers& out) {
  if (!wide)
    for (uint64_t& address : at) address = uint32_t(address);
  out.global = 0;
  Access a;
  a.write = write;
  a.atomic = atomic;
  a.bytes = bytes;
  a.alignment = alignment;
  switch (where) {
  case Where::Global:
    a.space = Space::Global;
    return uniform(w, i, mask, a, at, out);
  case Where::Local:
    a.space = Space::Local;
    return uniform(w, i, mask, a, at, out);
  case Where::Param:
    a.space = Space::Param;
    return uniform(w, i, mask, a, at, out);
  case Where::SharedCta:
  case Where::SharedCluster:
    return shared_lanes(w, i, mask, where, a, at, out);
  case Where::Generic:
    break;
  }
  uint32_t global = 0, shared = 0, local = 0, param = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m)), cta = 0;
    uint64_t offset = 0;
    switch (w.cluster().resolve(at[l], cta, offset)) {
    case Space::Shared:
      shared |= 1u << l;
      at[l] = Cluster::shared_address(cta, uint32_t(offset));
      break;
    case Space::Local:
      local |= 1u << l;
      at[l] = offset;
      break;
    case Space::Param:
      param |= 1u << l;
      at[l] = offset;
      break;
    default:
      global |= 1u << l;
    }
  }
  if (shared) shared_lanes(w, i, shared, Where::SharedCluster, a, at, out);
  a.cta = 0;
  for (auto [space, lanes] : {std::pair{Space::Global, global}, std::pair{Space::Local, local},
                              std::pair{Space::Param, param}}) {
    if (!lanes) continue;
    a.space = space;
    uniform(w, i, lanes, a, at, out);
  }
}

void shared_target(Warp& w, const Inst& i, uint32_t lane, Where where, const LaneAddress& address,
                   uint32_t& cta, uint32_t& offset) {
  uint64_t at = address.wide
                    ? w.lanes<uint64_t>(address.slot)[lane] + uint64_t(address.offset)
                    : uint32_t(w.lanes<uint32_t>(address.slot)[lane] + uint32_t(address.offset));
  if (where == Where::Generic) {
    uint64_t inside = 0;
    if (w.cluster().resolve(at, cta, inside) != Space::Shared)
      w.fault(i, 1u << lane, FaultCode::invalid_address_space, "bounds",
              "generic address " + hex(at) + " must lie in shared memory");
    at = Cluster::shared_address(cta, uint32_t(inside));
  } else if (at >> 32) {
    w.fault(i, 1u << lane, FaultCode::invalid_address_space, "bounds",
            hex(at) + " is no shared address; a generic one needs cvta.to.shared");
  }
  w.cluster().resolve_shared(uint32_t(at), cta, offset, w.origin(i, 1u << lane));
}

void read_generic(Warp& w, const Inst& i, uint32_t lane, uint64_t address, void* to,
                  uint32_t bytes) {
  Access a;
  a.bytes = bytes;
  a.space = w.cluster().resolve(address, a.cta, a.address);
  std::memcpy(to, w.cluster().touch(a, w.origin(i, 1u << lane)), bytes);
}

Where where_of(DecodeContext& dc, const Statement& s, std::string_view space,
               const Operand& operand) {
  std::string variable = dc.variable_space(operand);
  // Without a space the address is generic; a variable by name is in its own space all the same.
  if (space.empty()) {
    return variable == "shared"  ? Where::SharedCta
           : variable == "local" ? Where::Local
           : variable == "param" ? Where::Param
                                 : Where::Generic;
  }
  auto need = [&](std::string_view wanted) {
    if (!variable.empty() && variable != wanted)
      dc.refuse(s, "the variable lives in ." + variable + ", the instruction reaches ." +
                       std::string(space));
  };
  if (space == "param" || space == "param::entry" || space == "param::func") {
    // Parameters of calls and of functions lie in local memory (DecodeContext::variable_space).
    if (variable == "local") return Where::Local;
    need("param");
    if (variable.empty() && dc.return_slot() != exec::kNoSlot && space != "param::entry")
      return Where::Local;
    return Where::Param;
  }
  if (space == "shared" || space == "shared::cta") {
    need("shared");
    return Where::SharedCta;
  }
  if (space == "shared::cluster") {
    need("shared");
    return Where::SharedCluster;
  }
  if (space == "local") {
    need("local");
    return Where::Local;
  }
  need(space == "const" ? "const" : "global");
  return Where::Global;
}

LaneAddress lane_address(DecodeContext& dc, const Operand& operand) {
  isa::AddressOperand a = dc.address(operand);
  return LaneAddress{a.base, a.wide, a.offset};
}

} // namespace vgpu::ops
