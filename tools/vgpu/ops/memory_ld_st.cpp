// ld, ldu, st (PTX ISA 9.7.9.8 - 9.7.9.11), st.bulk (9.7.9.13).
//
// Cache operators, eviction priorities, prefetch sizes and cache policies change no result. Memory
// orders do not either: warps of a cluster run one at a time and see every earlier access; the
// choke point is where a checker tells orders apart.
#include "tools/vgpu/isa/builder.hpp"
#include "tools/vgpu/isa/target.hpp"
#include "tools/vgpu/ops/memory.hpp"

namespace vgpu::ops {

namespace {

struct MemoryAccess {
  LaneAddress address;
  Where where = Where::Generic;
  uint32_t elements = 1;
  uint64_t keep = ~0ull; // bits of the destination register
};

// op[k]: element k's register. E bytes in memory, W the register's word.
template <class E, class W>
Step load(Warp& w, const Inst& i, uint32_t mask) {
  const MemoryAccess& x = *static_cast<const MemoryAccess*>(i.data);
  LanePointers p;
  uint32_t bytes = uint32_t(sizeof(E)) * x.elements;
  lane_pointers(w, i, mask, x.where, x.address, bytes, bytes, false, false, p);
  if (p.dense(mask, bytes)) {
    const uint8_t* from = p.at[0];
    for (uint32_t k = 0; k < x.elements; ++k, from += sizeof(E)) {
      W* d = w.lanes<W>(i.op[k]);
      W keep = W(x.keep);
      if (sizeof(E) == sizeof(W) && x.elements == 1) {
        std::memcpy(d, from, 32 * sizeof(W));
        break;
      }
      for (uint32_t l = 0; l < 32; ++l) {
        E v;
        std::memcpy(&v, from + l * bytes, sizeof(E));
        d[l] = W(v) & keep;
      }
    }
    return Step::Next;
  }
  for (uint32_t k = 0; k < x.elements; ++k) {
    W* d = w.lanes<W>(i.op[k]);
    W keep = W(x.keep);
    for_lanes(mask, [&](uint32_t l) {
      E v;
      std::memcpy(&v, p.at[l] + k * sizeof(E), sizeof(E));
      d[l] = W(v) & keep;
    });
  }
  return Step::Next;
}
Step load_b128(Warp& w, const Inst& i, uint32_t mask) {
  const MemoryAccess& x = *static_cast<const MemoryAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask, x.where, x.address, 16 * x.elements, 16 * x.elements, false, false, p);
  for (uint32_t k = 0; k < x.elements; ++k) {
    uint8_t* d = w.lanes<uint8_t>(i.op[k]);
    for_lanes(mask, [&](uint32_t l) { std::memcpy(d + 16 * l, p.at[l] + 16 * k, 16); });
  }
  return Step::Next;
}

// E bytes of each W-wide lane go to memory.
template <class E, class W>
Step store(Warp& w, const Inst& i, uint32_t mask) {
  const MemoryAccess& x = *static_cast<const MemoryAccess*>(i.data);
  LanePointers p;
  uint32_t bytes = uint32_t(sizeof(E)) * x.elements;
  lane_pointers(w, i, mask, x.where, x.address, bytes, bytes, true, false, p);
  if (p.dense(mask, bytes)) {
    uint8_t* to = p.at[0];
    for (uint32_t k = 0; k < x.elements; ++k, to += sizeof(E)) {
      const W* a = w.lanes<W>(i.op[k]);
      if (sizeof(E) == sizeof(W) && x.elements == 1) {
        std::memcpy(to, a, 32 * sizeof(W));
        break;
      }
      for (uint32_t l = 0; l < 32; ++l) {
        E v = E(a[l]);
        std::memcpy(to + l * bytes, &v, sizeof(E));
      }
    }
    return Step::Next;
  }
  for (uint32_t k = 0; k < x.elements; ++k) {
    const W* a = w.lanes<W>(i.op[k]);
    for_lanes(mask, [&](uint32_t l) {
      E v = E(a[l]);
      std::memcpy(p.at[l] + k * sizeof(E), &v, sizeof(E));
    });
  }
  return Step::Next;
}
Step store_b128(Warp& w, const Inst& i, uint32_t mask) {
  const MemoryAccess& x = *static_cast<const MemoryAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask, x.where, x.address, 16 * x.elements, 16 * x.elements, true, false, p);
  for (uint32_t k = 0; k < x.elements; ++k) {
    const uint8_t* a = w.lanes<uint8_t>(i.op[k]);
    for_lanes(mask, [&](uint32_t l) { std::memcpy(p.at[l] + 16 * k, a + 16 * l, 16); });
  }
  return Step::Next;
}

template <class E>
Handler load_into(RegClass cls) {
  return cls == RegClass::B64 ? load<E, uint64_t> : load<E, uint32_t>;
}
Handler pick_load(std::string_view t, RegClass cls) {
  if (t == "s8") return load_into<int8_t>(cls);
  if (t == "s16") return load_into<int16_t>(cls);
  if (t == "s32") return load_into<int32_t>(cls);
  switch (type_bytes(t)) {
  case 1:
    return load_into<uint8_t>(cls);
  case 2:
    return load_into<uint16_t>(cls);
  case 4:
    return load_into<uint32_t>(cls);
  case 8:
    return load<uint64_t, uint64_t>;
  default:
    return load_b128;
  }
}
template <class E>
Handler store_from(RegClass cls) {
  return cls == RegClass::B64 ? store<E, uint64_t> : store<E, uint32_t>;
}
Handler pick_store(std::string_view t, RegClass cls) {
  switch (type_bytes(t)) {
  case 1:
    return store_from<uint8_t>(cls);
  case 2:
    return store_from<uint16_t>(cls);
  case 4:
    return store_from<uint32_t>(cls);
  case 8:
    return store<uint64_t, uint64_t>;
  default:
    return store_b128;
  }
}

// Class of the data registers: that of the first register among them, else the type's.
RegClass data_class(DecodeContext& dc, const Statement& s, const Operand& o, std::string_view type,
                    uint32_t& bits) {
  RegClass cls = class_of(type);
  bits = 8 * type_bytes(type);
  const Operand* first = &o;
  if (o.kind == Operand::Kind::Vector) {
    for (const Operand& item : o.items)
      if (dc.is_register(item)) {
        first = &item;
        break;
      }
    if (!o.items.empty() && first == &o) return cls;
  }
  if (!dc.is_register(*first)) return cls;
  uint32_t have = dc.register_bits(*first);
  if (have < bits)
    dc.refuse(s, "the register '" + first->name + "' has " + std::to_string(have) +
                     " bits; the access moves " + std::to_string(bits));
  bits = have;
  return dc.register_class(*first);
}

uint32_t vector_length(std::string_view v) {
  return v == "v2" ? 2 : v == "v4" ? 4 : v == "v8" ? 8 : 1;
}

void check_vector(DecodeContext& dc, const Statement& s, std::string_view type, uint32_t have,
                  uint32_t wanted) {
  if (have != wanted)
    dc.refuse(s, "the vector has " + std::to_string(have) + " elements, the instruction moves " +
                     std::to_string(wanted));
  uint32_t bytes = type_bytes(type) * wanted;
  if (wanted == 1 || bytes <= 16) return;
  if (bytes > 32 || type == "b128")
    dc.refuse(s,
              "a vector access of " + std::to_string(bytes) + " bytes; at most 32, none of .b128");
  if (!isa::target_allows(dc.program().target, "sm_100"))
    dc.refuse(s, "a vector access of 32 bytes needs .target sm_100 or later");
}

// Memory of one thread has no order with others.
void check_local(DecodeContext& dc, const Statement& s, const Match& m) {
  const std::string_view sem = m.get("sem");
  if (m.get("space") == "local" && !sem.empty() && sem != "weak")
    dc.refuse(s, "." + std::string(sem) + " on .local");
}

void cache_policy(DecodeContext& dc, const Statement& s, const Match& m, size_t at,
                  std::vector<uint32_t>& src) {
  bool given = s.operands.size() > at;
  if (given != m.has("L2::cache_hint"))
    dc.refuse(s, "a cache policy and .L2::cache_hint go together");
  if (given) src.push_back(dc.src(s.operands[at], RegClass::B64));
}

} // namespace

void load_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  auto* x = dc.make<MemoryAccess>();
  uint32_t bits = 0;
  check_local(dc, s, m);
  RegClass cls = data_class(dc, s, s.operands[0], t, bits);
  x->keep = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  x->elements = vector_length(m.get("vec"));
  x->where = where_of(dc, s, m.get("space"), s.operands[1]);
  x->address = lane_address(dc, s.operands[1]);
  std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], cls), src = {x->address.slot};
  check_vector(dc, s, t, uint32_t(dst.size()), x->elements);
  if (cls == RegClass::B128 && type_bytes(t) != 16)
    dc.refuse(s, "a 128-bit register takes a .b128 load only");
  cache_policy(dc, s, m, 2, src);
  const std::string_view sem = m.get("sem");
  inst.parts = !sem.empty() && sem != "weak";
  inst.run = pick_load(t, cls);
  inst.data = x;
  dc.set_operands(inst, dst, src);
}

void store_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  auto* x = dc.make<MemoryAccess>();
  uint32_t bits = 0;
  check_local(dc, s, m);
  RegClass cls = data_class(dc, s, s.operands[1], t, bits);
  x->elements = vector_length(m.get("vec"));
  x->where = where_of(dc, s, m.get("space"), s.operands[0]);
  if (x->where == Where::Param) dc.refuse(s, "kernel parameters are read-only");
  x->address = lane_address(dc, s.operands[0]);
  std::vector<uint32_t> src = dc.vector_src(s.operands[1], cls);
  check_vector(dc, s, t, uint32_t(src.size()), x->elements);
  if (cls == RegClass::B128 && type_bytes(t) != 16)
    dc.refuse(s, "a 128-bit register takes a .b128 store only");
  src.push_back(x->address.slot);
  cache_policy(dc, s, m, 2, src);
  inst.run = pick_store(t, cls);
  inst.data = x;
  dc.set_operands(inst, {}, src);
}

namespace {

// st.bulk: zeros, 8-byte aligned, a multiple of 8 bytes.
Step store_bulk(Warp& w, const Inst& i, uint32_t mask) {
  const MemoryAccess& x = *static_cast<const MemoryAccess*>(i.data);
  const uint64_t* size = w.lanes<uint64_t>(i.op[1]);
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    if (size[l] % 8 || size[l] > 0xFFFFFF)
      w.fault(i, 1u << l, FaultCode::illegal_instruction, "bounds",
              "st.bulk of " + std::to_string(size[l]) +
                  " bytes; the size must be a multiple of 8 inside shared memory");
    if (size[l] == 0) continue;
    LanePointers p;
    lane_pointers(w, i, 1u << l, x.where, x.address, uint32_t(size[l]), 8, true, false, p);
    std::memset(p.at[l], 0, size[l]);
  }
  return Step::Next;
}

} // namespace

void store_bulk_zero(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  const Operand& value = s.operands[2];
  if (value.kind != Operand::Kind::Int || value.value != 0)
    dc.refuse(s, "the value of st.bulk must be the constant 0");
  auto* x = dc.make<MemoryAccess>();
  x->where = where_of(dc, s, m.get("space"), s.operands[0]);
  x->address = lane_address(dc, s.operands[0]);
  inst.run = store_bulk;
  inst.data = x;
  dc.set_operands(inst, {}, {x->address.slot, dc.src(s.operands[1], RegClass::B64)});
}

} // namespace vgpu::ops
