// Lane-wise execution: turns a pure function on lane values into a handler, and the operand
// fetching that goes with it. The function is a template argument, so the loop over full warps is
// free of calls and branches and the compiler vectorises it.
#pragma once

#include "tools/vgpu/ops/names.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vgpu::ops {

// Register word of a lane that holds a T: 8-, 16- and 32-bit values lie in 32 bits, zero-extended.
template <class T>
using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <size_t N>
struct RawOf;
template <>
struct RawOf<1> {
  using type = uint8_t;
};
template <>
struct RawOf<2> {
  using type = uint16_t;
};
template <>
struct RawOf<4> {
  using type = uint32_t;
};
template <>
struct RawOf<8> {
  using type = uint64_t;
};
template <class T>
using Raw = typename RawOf<sizeof(T)>::type;

template <class T>
inline T from_word(Word<T> w) {
  return std::bit_cast<T>(static_cast<Raw<T>>(w));
}
template <class T>
inline Word<T> to_word(T v) {
  return std::bit_cast<Raw<T>>(v);
}

// Calls f(lane) for every lane of the mask.
template <class F>
inline void for_lanes(uint32_t mask, F&& f) {
  if (mask == 0xFFFFFFFFu) {
#pragma GCC ivdep
    for (uint32_t l = 0; l < 32; ++l) f(l);
  } else {
    for (uint32_t m = mask; m; m &= m - 1) f(static_cast<uint32_t>(std::countr_zero(m)));
  }
}

// Exec<Fn>::run: op[0][l] = Fn(op[1][l], op[2][l], ...). A function whose first parameter is
// `const Inst&` gets the instruction and reads its modifiers there.
template <auto Fn, class Signature = decltype(Fn)>
struct Exec;

template <auto Fn, class D, class... S>
struct Exec<Fn, D (*)(S...)> {
  static Step run(Warp& w, const Inst& i, uint32_t mask) {
    return go(w, i, mask, std::index_sequence_for<S...>{});
  }
  template <size_t... I>
  static Step go(Warp& w, const Inst& i, uint32_t mask, std::index_sequence<I...>) {
    auto body = [d = w.lanes<Word<D>>(i.op[0]),
                 ... s = static_cast<const Word<S>*>(w.lanes<Word<S>>(i.op[1 + I]))](uint32_t l) {
      d[l] = to_word<D>(Fn(from_word<S>(s[l])...));
    };
    for_lanes(mask, body);
    return Step::Next;
  }
};

template <auto Fn, class D, class... S>
struct Exec<Fn, D (*)(const Inst&, S...)> {
  static Step run(Warp& w, const Inst& i, uint32_t mask) {
    return go(w, i, mask, std::index_sequence_for<S...>{});
  }
  template <size_t... I>
  static Step go(Warp& w, const Inst& i, uint32_t mask, std::index_sequence<I...>) {
    auto body = [&i, d = w.lanes<Word<D>>(i.op[0]),
                 ... s = static_cast<const Word<S>*>(w.lanes<Word<S>>(i.op[1 + I]))](uint32_t l) {
      d[l] = to_word<D>(Fn(i, from_word<S>(s[l])...));
    };
    for_lanes(mask, body);
    return Step::Next;
  }
};

template <auto Fn>
constexpr Handler lanewise = &Exec<Fn>::run;

// A predicate in every lane, as a bit mask.
template <class F>
inline uint32_t lane_bits(uint32_t mask, F&& f) {
  uint32_t bits = 0;
  if (mask == 0xFFFFFFFFu) {
    uint32_t one[32];
    for (uint32_t l = 0; l < 32; ++l) one[l] = f(l) ? 1u : 0u;
    for (uint32_t l = 0; l < 32; ++l) bits |= one[l] << l;
  } else {
    for (uint32_t m = mask; m; m &= m - 1) {
      uint32_t l = static_cast<uint32_t>(std::countr_zero(m));
      bits |= (f(l) ? 1u : 0u) << l;
    }
  }
  return bits;
}

// ---- decoding

// Bytes of a scalar type name: "u8" 1, "f16x2" 4, "b128" 16.
inline uint32_t type_bytes(std::string_view t) {
  if (t == "pred") return 0;
  if (t == "b8" || t == "u8" || t == "s8") return 1;
  if (t == "f32x2") return 8;
  if (t.size() > 2 && t.substr(t.size() - 2) == "x2") return 4;
  if (t.find("16") != t.npos) return 2;
  if (t.find("32") != t.npos) return 4;
  if (t.find("64") != t.npos) return 8;
  return 16;
}

inline RegClass class_of_bytes(uint32_t bytes) {
  return bytes == 0   ? RegClass::Pred
         : bytes <= 4 ? RegClass::B32
         : bytes == 8 ? RegClass::B64
                      : RegClass::B128;
}
inline RegClass class_of(std::string_view type) { return class_of_bytes(type_bytes(type)); }

// A source of the given type; float immediates are rounded to it.
inline uint32_t source(DecodeContext& dc, const Operand& o, std::string_view type) {
  if (type == "f32") return dc.src_f32(o);
  if (type == "f64") return dc.src_f64(o);
  return dc.src(o, class_of(type));
}

// d, a, b, ... all of one type.
inline void same_type(DecodeContext& dc, const Statement& s, std::string_view type, Inst& inst) {
  std::vector<uint32_t> src;
  for (size_t k = 1; k < s.operands.size(); ++k) src.push_back(source(dc, s.operands[k], type));
  dc.set_operands(inst, {dc.dst(s.operands[0], class_of(type))}, src);
}

// The same, the type from the opcode, where it picks the handler.
template <class Pick>
void typed(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst, Pick&& pick) {
  std::string_view t = m.get("type");
  inst.run = pick(t);
  same_type(dc, s, t, inst);
}

// Handler by type: pick_integer<F>("u32") = lanewise<&F<uint32_t>::apply>; null for other names.
template <template <class> class F>
Handler pick_integer(std::string_view t) {
  if (t == "s32") return lanewise<&F<int32_t>::apply>;
  if (t == "u32") return lanewise<&F<uint32_t>::apply>;
  if (t == "s64") return lanewise<&F<int64_t>::apply>;
  if (t == "u64") return lanewise<&F<uint64_t>::apply>;
  if (t == "s16") return lanewise<&F<int16_t>::apply>;
  if (t == "u16") return lanewise<&F<uint16_t>::apply>;
  return nullptr;
}

template <template <class> class F>
Handler pick_bits(std::string_view t) {
  if (t == "b32") return lanewise<&F<uint32_t>::apply>;
  if (t == "b64") return lanewise<&F<uint64_t>::apply>;
  if (t == "b16") return lanewise<&F<uint16_t>::apply>;
  return nullptr;
}

// Unsigned type in which arithmetic on T wraps without promotion to signed int.
template <class T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

} // namespace vgpu::ops
