// cvt between scalar types, cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22).
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/lanes.hpp"

#include <algorithm>
#include <limits>

namespace vgpu::ops {

namespace {

__extension__ typedef __int128 Int128;

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

template <class T>
constexpr bool is_int = std::is_integral_v<T>;

// Modifiers of a conversion, in Inst::mod.
enum Mode : uint32_t { none, rn, rz, rm, rp, rni, rzi, rmi, rpi };
constexpr uint32_t kFtz = 1, kSat = 2, kRelu = 4, kSatfinite = 8;
uint32_t mode_of(std::string_view t) {
  static constexpr std::string_view names[] = {"",    "rn",  "rz",  "rm", "rp",
                                               "rni", "rzi", "rmi", "rpi"};
  return uint32_t(std::find(names, names + 9, t) - names);
}

double value(double v) { return v; }
double value(float v) { return v; }
double value(F16 v) { return num::f16_to_f32(v.bits); }
// A NaN of f16 keeps sign and payload in f64 and is made quiet (measured on an H200).
double wide_nan(F16 v) {
  uint64_t sign = uint64_t(v.bits & 0x8000u) << 48, payload = uint64_t(v.bits & 0x3FFu) << 42;
  return std::bit_cast<double>(sign | 0x7FF8000000000000ull | payload);
}
double value(Bf16 v) { return num::bf16_to_f32(v.bits); }

double to_integral(double v, uint32_t mode) {
  switch (mode) {
  case rni:
    return std::nearbyint(v);
  case rmi:
    return std::floor(v);
  case rpi:
    return std::ceil(v);
  default:
    return std::trunc(v);
  }
}

// The double of an integer by round-to-odd, so that one more rounding is right in every mode.
template <class S>
double odd_double(S v) {
  double d = double(v);
  if constexpr (sizeof(S) < 8) return d;
  Int128 rest = Int128(v) - Int128(d);
  return odd(d, double(rest));
}

double round_to_f64(Int128 v, uint32_t mode) {
  double d = double(v);
  Int128 rest = v - Int128(d);
  if (rest == 0 || mode == rn) return d;
  if (mode == rz) mode = v > 0 ? rm : rp;
  if (mode == rm && rest < 0) return neighbour(d, false);
  if (mode == rp && rest > 0) return neighbour(d, true);
  return d;
}

float narrow_f32(double v, uint32_t mode) {
  switch (mode) {
  case rz:
    return round_to_f32<Rnd::rz>(v);
  case rm:
    return round_to_f32<Rnd::rm>(v);
  case rp:
    return round_to_f32<Rnd::rp>(v);
  default:
    return float(v);
  }
}

bool tiny(double v, uint32_t mode) {
  return mode == rz   ? tiny_before<Rnd::rz>(v)
         : mode == rm ? tiny_before<Rnd::rm>(v)
         : mode == rp ? tiny_before<Rnd::rp>(v)
                      : tiny_before<Rnd::rn>(v);
}

num::EncodeOptions options_of(const Inst& i) {
  num::EncodeOptions o;
  o.rounding = i.mod[0] == rz   ? num::Rounding::rz
               : i.mod[0] == rm ? num::Rounding::rm
               : i.mod[0] == rp ? num::Rounding::rp
                                : num::Rounding::rn;
  o.satfinite = i.mod[1] & kSatfinite;
  o.relu = i.mod[1] & kRelu;
  return o;
}

// `v` is exact, or rounded to odd.
template <class D>
D to_float(const Inst& i, double v) {
  if (i.mod[1] & kSat) v = v > 0 ? std::min(v, 1.0) : 0.0;
  if constexpr (std::is_same_v<D, double>) return v;
  if constexpr (std::is_same_v<D, float>) {
    float f = canonical(narrow_f32(v, i.mod[0]));
    if (!(i.mod[1] & kFtz)) return f;
    if (is_least_normal(f) && tiny(v, i.mod[0])) return std::copysign(0.0f, f);
    return flush(f);
  }
  if constexpr (std::is_same_v<D, F16>)
    return F16{uint16_t(num::encode(num::Format::f16, v, options_of(i)))};
  if constexpr (std::is_same_v<D, Bf16>)
    return Bf16{uint16_t(num::encode(num::Format::bf16, v, options_of(i)))};
}

// NaN: 0, but 1 << (bits - 1) when the source is f64 or the destination has 64 bits (9.7.9.21).
template <class D, bool FromF64>
D to_integer(double v) {
  using L = std::numeric_limits<D>;
  if (v != v) {
    if (FromF64 || sizeof(D) == 8) return D(std::make_unsigned_t<D>(1) << (8 * sizeof(D) - 1));
    return 0;
  }
  constexpr double above = 2.0 * double(std::make_unsigned_t<D>(1) << (8 * sizeof(D) - 1)) /
                           (std::is_signed_v<D> ? 2.0 : 1.0); // max + 1
  if (v >= above) return L::max();
  if (v <= double(L::min())) return L::min();
  return D(v);
}

template <class D, class S>
D convert(const Inst& i, S v) {
  if constexpr (is_int<D> && is_int<S>) {
    if (!(i.mod[1] & kSat)) return D(v);
    using L = std::numeric_limits<D>;
    return D(std::clamp<Int128>(Int128(v), Int128(L::min()), Int128(L::max())));
  } else if constexpr (is_int<D>) {
    double x = value(v);
    if constexpr (std::is_same_v<S, float>)
      if (i.mod[1] & kFtz) x = flush(v);
    return to_integer<D, std::is_same_v<S, double>>(to_integral(x, i.mod[0]));
  } else if constexpr (is_int<S>) {
    if constexpr (std::is_same_v<D, double>) {
      double x = round_to_f64(v, i.mod[0]);
      return i.mod[1] & kSat ? (x > 0 ? std::min(x, 1.0) : 0.0) : x;
    }
    return to_float<D>(i, odd_double(v));
  } else {
    double x = value(v);
    if constexpr (std::is_same_v<S, F16> && std::is_same_v<D, double>)
      if (x != x) x = wide_nan(v);
    if constexpr (std::is_same_v<S, float>)
      if (i.mod[1] & kFtz) x = flush(v);
    if (i.mod[0] >= rni) x = to_integral(x, i.mod[0]);
    return to_float<D>(i, x);
  }
}

// Common conversions without modifiers inside the loop.
template <class D, class S>
D plain(S v) {
  return D(v);
}
float f32_from_f16(F16 v) { return num::f16_to_f32(v.bits); }
float f32_from_bf16(Bf16 v) { return num::bf16_to_f32(v.bits); }
F16 f16_from_f32(float v) { return F16{num::f32_to_f16(v)}; }
Bf16 bf16_from_f32(float v) { return Bf16{num::f32_to_bf16(v)}; }
int32_t s32_from_f32_rzi(float v) { return to_integer<int32_t, false>(double(v)); }

template <class D>
Handler pick_source(std::string_view a) {
  if (a == "u8") return lanewise<&convert<D, uint8_t>>;
  if (a == "u16") return lanewise<&convert<D, uint16_t>>;
  if (a == "u32") return lanewise<&convert<D, uint32_t>>;
  if (a == "u64") return lanewise<&convert<D, uint64_t>>;
  if (a == "s8") return lanewise<&convert<D, int8_t>>;
  if (a == "s16") return lanewise<&convert<D, int16_t>>;
  if (a == "s32") return lanewise<&convert<D, int32_t>>;
  if (a == "s64") return lanewise<&convert<D, int64_t>>;
  if (a == "f16") return lanewise<&convert<D, F16>>;
  if (a == "bf16") return lanewise<&convert<D, Bf16>>;
  if (a == "f32") return lanewise<&convert<D, float>>;
  return lanewise<&convert<D, double>>;
}
Handler pick_any(std::string_view d, std::string_view a) {
  if (d == "u8") return pick_source<uint8_t>(a);
  if (d == "u16") return pick_source<uint16_t>(a);
  if (d == "u32") return pick_source<uint32_t>(a);
  if (d == "u64") return pick_source<uint64_t>(a);
  if (d == "s8") return pick_source<int8_t>(a);
  if (d == "s16") return pick_source<int16_t>(a);
  if (d == "s32") return pick_source<int32_t>(a);
  if (d == "s64") return pick_source<int64_t>(a);
  if (d == "f16") return pick_source<F16>(a);
  if (d == "bf16") return pick_source<Bf16>(a);
  if (d == "f32") return pick_source<float>(a);
  return pick_source<double>(a);
}

template <class D>
Handler pick_plain_integer(std::string_view a) {
  if (a == "u8") return lanewise<&plain<D, uint8_t>>;
  if (a == "u16") return lanewise<&plain<D, uint16_t>>;
  if (a == "u32") return lanewise<&plain<D, uint32_t>>;
  if (a == "u64") return lanewise<&plain<D, uint64_t>>;
  if (a == "s8") return lanewise<&plain<D, int8_t>>;
  if (a == "s16") return lanewise<&plain<D, int16_t>>;
  if (a == "s32") return lanewise<&plain<D, int32_t>>;
  return lanewise<&plain<D, int64_t>>;
}
Handler pick_fast(std::string_view d, std::string_view a, uint32_t mode, uint32_t flags) {
  bool from_int = a[0] == 'u' || a[0] == 's';
  if (flags) return nullptr;
  if (from_int && (d[0] == 'u' || d[0] == 's')) {
    switch (type_bytes(d)) {
    case 1:
      return pick_plain_integer<uint8_t>(a);
    case 2:
      return pick_plain_integer<uint16_t>(a);
    case 4:
      return pick_plain_integer<uint32_t>(a);
    default:
      return pick_plain_integer<uint64_t>(a);
    }
  }
  if (d == "f32" && a == "f16") return lanewise<&f32_from_f16>;
  if (d == "f32" && a == "bf16") return lanewise<&f32_from_bf16>;
  if (d == "f32" && a == "s32" && mode == rn) return lanewise<&plain<float, int32_t>>;
  if (d == "f32" && a == "u32" && mode == rn) return lanewise<&plain<float, uint32_t>>;
  if (d == "f16" && a == "f32" && mode == rn) return lanewise<&f16_from_f32>;
  if (d == "bf16" && a == "f32" && mode == rn) return lanewise<&bf16_from_f32>;
  if (d == "f64" && a == "f32" && mode == none) return lanewise<&plain<double, float>>;
  if (d == "s32" && a == "f32" && mode == rzi) return lanewise<&s32_from_f32_rzi>;
  return nullptr;
}

// Operands wider than their type (9.4.1): the source is chopped into a scratch register before, the
// result extended from one after the conversion proper.
struct Wide {
  Inst inner;
  uint32_t slots[2];   // destination and source of `inner`
  bool chop = false;   // from a 64-bit register
  bool extend = false; // the destination register is wider
  bool signed_result = false, to64 = false;
  uint32_t result_bits = 0, register_bits = 0;
};

Step convert_wide(Warp& w, const Inst& i, uint32_t mask) {
  const Wide& x = *static_cast<const Wide*>(i.data);
  if (x.chop) {
    const uint64_t* a = w.lanes<uint64_t>(i.op[1]);
    uint32_t* t = w.lanes<uint32_t>(x.slots[1]);
    for_lanes(mask, [=](uint32_t l) { t[l] = uint32_t(a[l]); });
  }
  x.inner.run(w, x.inner, mask);
  if (!x.extend) return Step::Next;
  const uint32_t* r = w.lanes<uint32_t>(x.slots[0]);
  uint32_t shift = 64 - x.result_bits;
  uint64_t keep = x.register_bits == 64 ? ~0ull : (1ull << x.register_bits) - 1;
  for_lanes(mask, [&](uint32_t l) {
    uint64_t v = uint64_t(r[l]) << shift;
    v = (x.signed_result ? uint64_t(int64_t(v) >> shift) : v >> shift) & keep;
    if (x.to64)
      w.lanes<uint64_t>(i.op[0])[l] = v;
    else
      w.lanes<uint32_t>(i.op[0])[l] = uint32_t(v);
  });
  return Step::Next;
}

template <uint32_t Bits, bool Signed>
uint32_t clamp_to(int32_t v) {
  constexpr int64_t low = Signed ? -(int64_t(1) << (Bits - 1)) : 0;
  constexpr int64_t high = Signed ? (int64_t(1) << (Bits - 1)) - 1 : (int64_t(1) << Bits) - 1;
  return uint32_t(std::clamp<int64_t>(v, low, high)) & uint32_t((uint64_t(1) << Bits) - 1);
}
template <uint32_t Bits, bool Signed>
uint32_t pack_two(int32_t a, int32_t b) {
  return clamp_to<Bits, Signed>(a) << Bits | clamp_to<Bits, Signed>(b);
}
template <uint32_t Bits, bool Signed>
uint32_t pack_three(int32_t a, int32_t b, uint32_t c) {
  return pack_two<Bits, Signed>(a, b) | c << (2 * Bits);
}

} // namespace

void cvt_scalar(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view d = m.get("d"), a = m.get("a");
  bool from_int = a[0] == 'u' || a[0] == 's', to_int = d[0] == 'u' || d[0] == 's';
  uint32_t mode = mode_of(m.get("rnd"));
  uint32_t flags = (m.has("ftz") ? kFtz : 0) | (m.has("sat") ? kSat : 0) |
                   (m.has("relu") ? kRelu : 0) | (m.has("satfinite") ? kSatfinite : 0);
  if (from_int && to_int && mode != none) dc.refuse(s, "an integer conversion has no rounding");
  if (!from_int && to_int && mode < rni)
    dc.refuse(s, "a conversion from float to integer needs .rni, .rzi, .rmi or .rpi");
  if (from_int && !to_int && (mode == none || mode >= rni))
    dc.refuse(s, "a conversion from integer to float needs .rn, .rz, .rm or .rp");
  if (!from_int && !to_int) {
    bool narrower =
        type_bytes(d) < type_bytes(a) || (d != a && type_bytes(d) == 2 && type_bytes(a) == 2);
    // LLVM leaves the rounding out between the two of 16 bits; ptxas rounds to nearest.
    if (narrower && mode == none && type_bytes(a) == 2) mode = rn;
    if (narrower && (mode == none || mode >= rni))
      dc.refuse(s, "a conversion to a narrower float needs .rn, .rz, .rm or .rp");
    if (type_bytes(d) > type_bytes(a) && mode != none)
      dc.refuse(s, "a conversion to a wider float is exact and has no rounding");
  }
  if ((flags & kFtz) && a != "f32" && d != "f32") dc.refuse(s, ".ftz needs an f32 operand");
  if ((flags & (kRelu | kSatfinite)) && (a != "f32" || (d != "f16" && d != "bf16")))
    dc.refuse(s, ".relu and .satfinite convert from f32 to f16 or bf16");

  const Operand &od = s.operands[0], &oa = s.operands[1];
  Handler run = pick_fast(d, a, mode, flags);
  if (!run) run = pick_any(d, a);
  uint32_t d_bits = type_bytes(d) * 8;
  uint32_t register_bits = dc.is_register(od) ? dc.register_bits(od) : d_bits;
  bool chop = type_bytes(a) < 8 && dc.is_register(oa) && dc.register_bits(oa) == 64;
  bool extend = register_bits > d_bits && (d[0] == 's' || register_bits == 64);
  if (!chop && !extend) {
    inst.run = run;
    inst.mod[0] = mode;
    inst.mod[1] = flags;
    dc.set_operands(inst, {dc.dst(od, class_of(d))}, {source(dc, oa, a)});
    return;
  }
  Wide* x = dc.make<Wide>();
  RegClass dst_class = extend && register_bits == 64 ? RegClass::B64 : class_of(d);
  uint32_t dst = dc.dst(od, dst_class);
  uint32_t src = chop ? dc.src(oa, RegClass::B64) : source(dc, oa, a);
  x->chop = chop;
  x->extend = extend;
  x->signed_result = d[0] == 's';
  x->to64 = dst_class == RegClass::B64;
  x->result_bits = d_bits;
  x->register_bits = register_bits;
  x->slots[0] = extend ? dc.scratch(RegClass::B32) : dst;
  x->slots[1] = chop ? dc.scratch(RegClass::B32) : src;
  x->inner.run = run;
  x->inner.mod[0] = mode;
  x->inner.mod[1] = flags;
  x->inner.op = x->slots;
  x->inner.n_dst = x->inner.n_src = 1;
  inst.run = convert_wide;
  inst.data = x;
  dc.set_operands(inst, {dst}, {src});
}

void cvt_pack(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("to");
  inst.run = t == "u16"   ? lanewise<&pack_two<16, false>>
             : t == "s16" ? lanewise<&pack_two<16, true>>
             : t == "u8"  ? lanewise<&pack_three<8, false>>
             : t == "s8"  ? lanewise<&pack_three<8, true>>
             : t == "u4"  ? lanewise<&pack_three<4, false>>
             : t == "s4"  ? lanewise<&pack_three<4, true>>
             : t == "u2"  ? lanewise<&pack_three<2, false>>
                          : lanewise<&pack_three<2, true>>;
  same_type(dc, s, "b32", inst);
}

} // namespace vgpu::ops
