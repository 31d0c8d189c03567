// Extended-precision arithmetic with the carry flag CC.CF (PTX ISA 9.7.2). The flag is a predicate
// slot of the program. Subtraction is a + ~b + CF, so after sub.cc the flag is clear when there was
// a borrow (chosen: the ISA only speaks of a borrow; addc after sub.cc shows it on hardware).
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

// op: d, carry out (or scratch), a, b, (c), carry in (or a constant).
template <class T, bool Subtract>
Step add_carry(Warp& w, const Inst& i, uint32_t mask) {
  T* d = w.lanes<T>(i.op[0]);
  const T *a = w.lanes<T>(i.op[2]), *b = w.lanes<T>(i.op[3]);
  uint32_t in = w.pred(i.op[4]), out = 0;
  for_lanes(mask, [&](uint32_t l) {
    Uint128 r = Uint128(a[l]) + (Subtract ? T(~b[l]) : b[l]) + (in >> l & 1);
    d[l] = T(r);
    out |= uint32_t(r >> (8 * sizeof(T)) & 1) << l;
  });
  w.set_pred(i.op[1], mask, out);
  return Step::Next;
}

// a*b: the low or high half, then plus c plus carry; the carry out is that of the addition.
template <class S, bool High>
Step mad_carry(Warp& w, const Inst& i, uint32_t mask) {
  using T = std::make_unsigned_t<S>;
  using Wide = std::conditional_t<std::is_signed_v<S>, Int128, Uint128>;
  T* d = w.lanes<T>(i.op[0]);
  const T *a = w.lanes<T>(i.op[2]), *b = w.lanes<T>(i.op[3]), *c = w.lanes<T>(i.op[4]);
  uint32_t in = w.pred(i.op[5]), out = 0;
  for_lanes(mask, [&](uint32_t l) {
    Wide product = Wide(S(a[l])) * Wide(S(b[l]));
    T half = T(High ? product >> (8 * sizeof(T)) : product);
    Uint128 r = Uint128(half) + c[l] + (in >> l & 1);
    d[l] = T(r);
    out |= uint32_t(r >> (8 * sizeof(T)) & 1) << l;
  });
  w.set_pred(i.op[1], mask, out);
  return Step::Next;
}

uint32_t carry_flag(DecodeContext& dc) {
  uint32_t& slot = dc.program().carry_flag;
  if (slot == exec::kNoSlot) slot = dc.scratch(RegClass::Pred);
  return slot;
}

void carry_operands(DecodeContext& dc, const Statement& s, const Match& m, bool reads, Inst& inst) {
  std::string_view t = m.get("type");
  std::vector<uint32_t> src;
  for (size_t k = 1; k < s.operands.size(); ++k) src.push_back(source(dc, s.operands[k], t));
  bool subtract = s.opcode[0] == "sub";
  src.push_back(reads ? carry_flag(dc) : dc.constant(RegClass::Pred, subtract ? 1 : 0));
  uint32_t out = m.has("cc") ? carry_flag(dc) : dc.scratch(RegClass::Pred);
  dc.set_operands(inst, {dc.dst(s.operands[0], class_of(t)), out}, src);
}

} // namespace

void add_with_carry(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool wide = type_bytes(m.get("type")) == 8;
  inst.run = wide ? add_carry<uint64_t, false> : add_carry<uint32_t, false>;
  carry_operands(dc, s, m, s.opcode[0] == "addc", inst);
}

void sub_with_carry(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  bool wide = type_bytes(m.get("type")) == 8;
  inst.run = wide ? add_carry<uint64_t, true> : add_carry<uint32_t, true>;
  carry_operands(dc, s, m, s.opcode[0] == "subc", inst);
}

void mad_with_carry(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  bool high = m.get("mode") == "hi";
  if (t == "u32") inst.run = high ? mad_carry<uint32_t, true> : mad_carry<uint32_t, false>;
  if (t == "s32") inst.run = high ? mad_carry<int32_t, true> : mad_carry<int32_t, false>;
  if (t == "u64") inst.run = high ? mad_carry<uint64_t, true> : mad_carry<uint64_t, false>;
  if (t == "s64") inst.run = high ? mad_carry<int64_t, true> : mad_carry<int64_t, false>;
  carry_operands(dc, s, m, s.opcode[0] == "madc", inst);
}

} // namespace vgpu::ops
