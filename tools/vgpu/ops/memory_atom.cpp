// atom and red (PTX ISA 9.7.13.5, 9.7.13.6). Clusters run on several host threads, so every update
// is a compare-and-swap on the host; lanes of a warp go in ascending order.
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/memory.hpp"

#include <atomic>
#include <mutex>

namespace vgpu::ops {

namespace {

struct AtomicAccess {
  LaneAddress address;
  Where where = Where::Generic;
  uint32_t elements = 1;
};

enum class Op { add, inc, dec, min, max, band, bor, bxor, exch, cas };

// Value types beyond the host's: halves and pairs of them.
struct F16 {
  uint16_t bits;
  static float get(uint16_t v) { return num::f16_to_f32(v); }
  static uint16_t put(float v) { return num::f32_to_f16(v); }
};
struct Bf16 {
  uint16_t bits;
  static float get(uint16_t v) { return num::bf16_to_f32(v); }
  static uint16_t put(float v) { return num::f32_to_bf16(v); }
};
template <class H>
struct Pair {
  H lo, hi;
};
template <class H>
H half_update(Op op, H a, H b) {
  float x = H::get(a.bits), y = H::get(b.bits);
  if (op == Op::add) return H{H::put(x + y)};
  if (x != x || y != y) return x == x ? a : y == y ? b : H{num::kF16Nan};
  return (less(x, y) == (op == Op::min)) ? a : b;
}

template <class T>
struct IsHalf : std::false_type {};
template <>
struct IsHalf<F16> : std::true_type {};
template <>
struct IsHalf<Bf16> : std::true_type {};
template <class T>
struct IsPair : std::false_type {};
template <class H>
struct IsPair<Pair<H>> : std::true_type {};

// `global`: f32 sums in global memory flush subnormals (9.7.13.5).
template <class T, Op O>
T update(T old, T b, [[maybe_unused]] T c, [[maybe_unused]] bool global) {
  if constexpr (IsHalf<T>::value) {
    return half_update(O, old, b);
  } else if constexpr (IsPair<T>::value) {
    return T{half_update(O, old.lo, b.lo), half_update(O, old.hi, b.hi)};
  } else {
    if constexpr (O == Op::exch) return b;
    if constexpr (O == Op::cas) return old == b ? c : old;
    if constexpr (O == Op::min) return b < old ? b : old;
    if constexpr (O == Op::max) return b > old ? b : old;
    if constexpr (O == Op::inc) return old >= b ? T(0) : T(old + 1);
    if constexpr (O == Op::dec) return old == 0 || old > b ? b : T(old - 1);
    if constexpr (O == Op::add) {
      if constexpr (std::is_same_v<T, float>)
        return global ? out<true, false>(flush(old) + flush(b)) : canonical(old + b);
      else if constexpr (std::is_integral_v<T>)
        return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b));
      else
        return old + b;
    }
    if constexpr (std::is_integral_v<T>) {
      if constexpr (O == Op::band) return old & b;
      if constexpr (O == Op::bor) return old | b;
      if constexpr (O == Op::bxor) return old ^ b;
    }
    return old;
  }
}

// op: destinations (atom), b of each element, c (cas), the address.
template <class T, Op O>
Step atomic(Warp& w, const Inst& i, uint32_t mask) {
  const AtomicAccess& x = *static_cast<const AtomicAccess*>(i.data);
  LanePointers p;
  uint32_t bytes = uint32_t(sizeof(T)) * x.elements;
  lane_pointers(w, i, mask, x.where, x.address, bytes, bytes, true, true, p);
  const uint32_t* src = i.op + i.n_dst;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    for (uint32_t k = 0; k < x.elements; ++k) {
      T b = from_word<T>(w.lanes<Word<T>>(src[k])[l]);
      T c = b;
      if constexpr (O == Op::cas) c = from_word<T>(w.lanes<Word<T>>(src[1])[l]);
      std::atomic_ref<Raw<T>> cell(*reinterpret_cast<Raw<T>*>(p.at[l] + k * sizeof(T)));
      Raw<T> old = cell.load();
      while (!cell.compare_exchange_weak(
          old,
          std::bit_cast<Raw<T>>(update<T, O>(std::bit_cast<T>(old), b, c, p.global >> l & 1)))) {
      }
      if (i.n_dst) w.lanes<Word<T>>(i.op[k])[l] = Word<T>(old);
    }
  }
  w.cluster().progress();
  w.cluster().visible_step();
  return Step::Next;
}

// 128 bits: one lock for all, since the host's 16-byte exchange needs a library call anyway.
template <bool Cas>
Step atomic_b128(Warp& w, const Inst& i, uint32_t mask) {
  static std::mutex lock;
  const AtomicAccess& x = *static_cast<const AtomicAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask, x.where, x.address, 16, 16, true, true, p);
  const uint32_t* src = i.op + i.n_dst;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    uint8_t old[16];
    const uint8_t* b = w.lanes<uint8_t>(src[0]) + 16 * l;
    {
      std::lock_guard hold(lock);
      std::memcpy(old, p.at[l], 16);
      if (!Cas)
        std::memcpy(p.at[l], b, 16);
      else if (std::memcmp(old, b, 16) == 0)
        std::memcpy(p.at[l], w.lanes<uint8_t>(src[1]) + 16 * l, 16);
    }
    if (i.n_dst) std::memcpy(w.lanes<uint8_t>(i.op[0]) + 16 * l, old, 16);
  }
  w.cluster().progress();
  w.cluster().visible_step();
  return Step::Next;
}

template <Op O>
Handler pick_add_min_max(std::string_view t) {
  if (t == "u32") return atomic<uint32_t, O>;
  if (t == "s32") return atomic<int32_t, O>;
  if (t == "u64") return atomic<uint64_t, O>;
  if (t == "s64") return atomic<int64_t, O>;
  if (t == "f16") return atomic<F16, O>;
  if (t == "bf16") return atomic<Bf16, O>;
  if (t == "f16x2") return atomic<Pair<F16>, O>;
  if (t == "bf16x2") return atomic<Pair<Bf16>, O>;
  if constexpr (O == Op::add) {
    if (t == "f32") return atomic<float, O>;
    if (t == "f64") return atomic<double, O>;
  }
  return nullptr;
}
template <Op O>
Handler pick_wide(std::string_view t) {
  if (type_bytes(t) == 2) return atomic<uint16_t, O>;
  return type_bytes(t) == 8 ? atomic<uint64_t, O> : atomic<uint32_t, O>;
}

Handler pick(std::string_view op, std::string_view t) {
  if (t == "b128")
    return op == "cas" ? atomic_b128<true> : op == "exch" ? atomic_b128<false> : nullptr;
  if (op == "add") return pick_add_min_max<Op::add>(t);
  if (op == "min") return pick_add_min_max<Op::min>(t);
  if (op == "max") return pick_add_min_max<Op::max>(t);
  if (op == "inc") return t == "u32" ? atomic<uint32_t, Op::inc> : nullptr;
  if (op == "dec") return t == "u32" ? atomic<uint32_t, Op::dec> : nullptr;
  if (op == "exch") return pick_wide<Op::exch>(t);
  if (op == "cas") return pick_wide<Op::cas>(t);
  if (t[0] != 'b') return nullptr;
  if (op == "and") return pick_wide<Op::band>(t);
  if (op == "or") return pick_wide<Op::bor>(t);
  return pick_wide<Op::bxor>(t);
}

void decode(DecodeContext& dc, const Statement& s, const Match& m, bool returns, Inst& inst) {
  std::string_view op = m.get("op"), t = m.get("type"), v = m.get("vec");
  inst.run = pick(op, t);
  if (!inst.run) dc.refuse(s, "." + std::string(op) + " does not take ." + std::string(t));
  auto* x = dc.make<AtomicAccess>();
  size_t at = returns ? 1 : 0, next = at + 1;
  x->elements = v == "v2" ? 2 : v == "v4" ? 4 : v == "v8" ? 8 : 1;
  x->where = where_of(dc, s, m.get("space"), s.operands[at]);
  x->address = lane_address(dc, s.operands[at]);
  RegClass cls = class_of(t);
  std::vector<uint32_t> dst, src;
  if (returns) dst = dc.vector_dst(s.operands[0], cls);
  if (x->elements > 1) {
    src = dc.vector_src(s.operands[next++], cls);
    if (src.size() != x->elements || (returns && dst.size() != x->elements))
      dc.refuse(s, "the vectors must have " + std::to_string(x->elements) + " elements");
  } else {
    src = {source(dc, s.operands[next++], t)};
  }
  if (op == "cas") src.push_back(source(dc, s.operands[next++], t));
  bool given = next < s.operands.size();
  if (given != m.has("L2::cache_hint"))
    dc.refuse(s, "a cache policy and .L2::cache_hint go together");
  src.push_back(x->address.slot);
  if (given) src.push_back(dc.src(s.operands[next], RegClass::B64));
  inst.data = x;
  dc.set_operands(inst, dst, src);
}

} // namespace

void atom_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode(dc, s, m, true, inst);
}

void red_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode(dc, s, m, false, inst);
}

} // namespace vgpu::ops
