// Address conversion and queries (PTX ISA 9.7.9.19, .20, .23, .24), cache management (9.7.9.15 -
// .18) and fences (9.7.13.4).
#include "tools/vgpu/ops/memory.hpp"

namespace vgpu::ops {

using exec::kLocalWindow;
using exec::kParamWindow;
using exec::kSharedWindow;

namespace {

// Generic address = window of the space + address; global and const need none. mod holds it.
uint64_t window_of(std::string_view space) {
  if (space.starts_with("shared")) return kSharedWindow;
  if (space == "local") return kLocalWindow;
  if (space.starts_with("param")) return kParamWindow;
  return 0;
}
uint64_t shift_window(const Inst& i, uint64_t a) { return a + i.imm; }

// A rank of the cluster in place of the address's own.
template <class W, bool Generic>
Step map_address(Warp& w, const Inst& i, uint32_t mask) {
  W* d = w.lanes<W>(i.op[0]);
  const W* a = w.lanes<W>(i.op[1]);
  const uint32_t* rank = w.lanes<uint32_t>(i.op[2]);
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    if (rank[l] >= w.cluster().ctas.size())
      w.fault(i, 1u << l, FaultCode::illegal_address, "bounds",
              "mapa to CTA rank " + std::to_string(rank[l]) + "; the cluster has " +
                  std::to_string(w.cluster().ctas.size()) + " CTAs");
    uint32_t mapped = Cluster::shared_address(rank[l], uint32_t(a[l]) & 0xFFFFFF);
    if (Generic) {
      uint32_t cta = 0;
      uint64_t offset = 0;
      if (w.cluster().resolve(uint64_t(a[l]), cta, offset) != Space::Shared)
        w.fault(i, 1u << l, FaultCode::invalid_address_space, "bounds",
                "mapa without .shared::cluster takes a generic address of shared memory");
      mapped = Cluster::shared_address(rank[l], uint32_t(offset));
      d[l] = W(kSharedWindow + mapped);
    } else {
      d[l] = mapped;
    }
  }
  return Step::Next;
}

template <class W, bool Generic>
Step rank_of_address(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  const W* a = w.lanes<W>(i.op[1]);
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m)), cta = 0;
    uint64_t offset = 0;
    if (!Generic)
      cta = uint32_t(a[l]) >> 24;
    else if (w.cluster().resolve(uint64_t(a[l]), cta, offset) != Space::Shared)
      w.fault(i, 1u << l, FaultCode::invalid_address_space, "bounds",
              "getctarank without .shared::cluster takes a generic address of shared memory");
    d[l] = cta;
  }
  return Step::Next;
}

// mod[0]: 0 global, 1 local, 2 shared::cta, 3 shared::cluster, 4 param, 5 const. The .param window
// lies inside the .global one; constants have no window of their own here, so .const is never true.
Step is_in_space(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* a = w.lanes<uint64_t>(i.op[1]);
  uint32_t bits = lane_bits(mask, [&](uint32_t l) {
    uint32_t cta = 0;
    uint64_t offset = 0;
    Space s = w.cluster().resolve(a[l], cta, offset);
    switch (i.mod[0]) {
    case 0:
      return s == Space::Global || s == Space::Param;
    case 1:
      return s == Space::Local;
    case 2:
      return s == Space::Shared && cta == w.cta.rank;
    case 3:
      return s == Space::Shared && cta < w.cluster().ctas.size();
    case 4:
      return s == Space::Param;
    default:
      return false;
    }
  });
  w.set_pred(i.op[0], mask, bits);
  return Step::Next;
}

struct Region {
  LaneAddress address;
  Where where = Where::Generic;
};

// Orders nothing: accesses of a cluster happen one at a time (see memory_ld_st.cpp), and operations
// in flight are ordered by their completion alone.
Step fence(Warp&, const Inst&, uint32_t) { return Step::Next; }
Step hint(Warp&, const Inst&, uint32_t) { return Step::Next; }

// 128 bytes that must exist: a tensor map, or a line whose priority changes. width = alignment.
Step check_region(Warp& w, const Inst& i, uint32_t mask) {
  const Region& r = *static_cast<const Region*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask, r.where, r.address, 128, i.width, false, false, p);
  return Step::Next;
}
// Without a map (address 0) it orders nothing, and passes: an H200 did so on 2026-11-22.
Step check_map(Warp& w, const Inst& i, uint32_t mask) {
  const Region& r = *static_cast<const Region*>(i.data);
  uint32_t named = 0;
  for_lanes(mask, [&](uint32_t l) {
    const uint64_t at = r.address.wide ? w.lanes<uint64_t>(r.address.slot)[l]
                                       : w.lanes<uint32_t>(r.address.slot)[l];
    named |= uint32_t(at + uint64_t(r.address.offset) != 0) << l;
  });
  return named ? check_region(w, i, named) : Step::Next;
}
// discard: the line's content becomes indeterminate.
Step discard(Warp& w, const Inst& i, uint32_t mask) {
  const Region& r = *static_cast<const Region*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask, r.where, r.address, 128, 128, true, false, p);
  for_lanes(mask, [&](uint32_t l) { std::memset(p.at[l], mem::DeviceMemory::kPoison, 128); });
  return Step::Next;
}

void region(DecodeContext& dc, const Statement& s, std::string_view space, uint8_t alignment,
            Inst& inst) {
  auto* r = dc.make<Region>();
  r->where = where_of(dc, s, space, s.operands[0]);
  r->address = lane_address(dc, s.operands[0]);
  inst.data = r;
  inst.width = alignment;
  dc.set_operands(inst, {}, {r->address.slot});
}

void need_128(DecodeContext& dc, const Statement& s) {
  const Operand& size = s.operands[1];
  if (size.kind != Operand::Kind::Int || size.value != 128) dc.refuse(s, "the size must be 128");
}

} // namespace

void cvta_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  uint64_t window = window_of(m.get("space"));
  inst.imm = m.has("to") ? 0 - window : window;
  inst.run = lanewise<&shift_window>;
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B64)},
                  {dc.src(s.operands[1], RegClass::B64)});
}

void isspacep_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view space = m.get("space");
  inst.mod[0] = space == "global"                             ? 0
                : space == "local"                            ? 1
                : space == "shared" || space == "shared::cta" ? 2
                : space == "shared::cluster"                  ? 3
                : space.starts_with("param")                  ? 4
                                                              : 5;
  inst.run = is_in_space;
  dc.set_operands(inst, {dc.pred_dst(s.operands[0])}, {dc.src(s.operands[1], RegClass::B64)});
}

void mapa_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool generic = !m.has("shared::cluster"), wide = m.get("type") == "u64";
  if (generic && !wide) dc.refuse(s, "a generic address has 64 bits; mapa.u64 takes it");
  inst.run = generic ? map_address<uint64_t, true>
             : wide  ? map_address<uint64_t, false>
                     : map_address<uint32_t, false>;
  RegClass cls = wide ? RegClass::B64 : RegClass::B32;
  dc.set_operands(inst, {dc.dst(s.operands[0], cls)},
                  {dc.src(s.operands[1], cls), dc.src(s.operands[2], RegClass::B32)});
}

void getctarank_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool generic = !m.has("shared::cluster"), wide = m.get("type") == "u64";
  if (generic && !wide) dc.refuse(s, "a generic address has 64 bits; getctarank.u64 takes it");
  inst.run = generic ? rank_of_address<uint64_t, true>
             : wide  ? rank_of_address<uint64_t, false>
                     : rank_of_address<uint32_t, false>;
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)},
                  {dc.src(s.operands[1], wide ? RegClass::B64 : RegClass::B32)});
}

void prefetch_data(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view space = m.has("prefetchu") ? "" : m.get("space");
  region(dc, s, space, 1, inst);
  inst.run = hint;
}

void prefetch_tensormap(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view space = m.get("space");
  region(dc, s, space == "param" ? "param::entry" : space, 64, inst);
  inst.run = check_region;
}

void applypriority_line(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  need_128(dc, s);
  region(dc, s, m.has("global") ? "global" : "", 128, inst);
  inst.run = check_region;
}

void discard_line(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  need_128(dc, s);
  region(dc, s, m.has("global") ? "global" : "", 128, inst);
  inst.run = discard;
}

// Chosen: the policies' encodings are opaque; these are the words that shipped kernels pass for
// whole-range policies.
void createpolicy_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view p = m.get("primary");
  uint64_t word = p == "L2::evict_first"  ? 0x12F0000000000000ull
                  : p == "L2::evict_last" ? 0x14F0000000000000ull
                                          : 0x1000000000000000ull;
  std::vector<uint32_t> src = {dc.constant(RegClass::B64, word)};
  if (m.has("cvt")) src[0] = dc.src(s.operands[1], RegClass::B64);
  if (m.has("range")) {
    src.push_back(lane_address(dc, s.operands[1]).slot);
    src.push_back(dc.src(s.operands[2], RegClass::B32));
    src.push_back(dc.src(s.operands[3], RegClass::B32));
  } else if (m.has("fractional") && s.operands.size() > 1) {
    src.push_back(dc.src_f32(s.operands[1]));
  }
  inst.run = lanewise<&shift_window>;
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B64)}, src);
}

void fence_any(DecodeContext& dc, const Statement&, const Match&, Inst& inst) {
  inst.run = fence;
  dc.set_operands(inst, {}, {});
}

void fence_tensormap(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  need_128(dc, s);
  region(dc, s, "", 64, inst);
  inst.run = check_map;
}

} // namespace vgpu::ops
