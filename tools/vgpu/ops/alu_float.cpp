// f32, f64 and f32x2 arithmetic (PTX ISA 9.7.3) and mixed precision (9.7.5).
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/lanes.hpp"

#include <array>
#include <cfenv>
#include <cstring>

namespace vgpu::ops {

namespace {

// ---- f32: rounding x flush x saturate

template <Rnd R, bool Ftz, bool Sat>
struct AddF {
  static float apply(float a, float b) { return out<Ftz, Sat>(add_f32<R>(in<Ftz>(a), in<Ftz>(b))); }
};
template <Rnd R, bool Ftz, bool Sat>
struct SubF {
  static float apply(float a, float b) {
    return out<Ftz, Sat>(add_f32<R>(in<Ftz>(a), -in<Ftz>(b)));
  }
};
template <Rnd R, bool Ftz, bool Sat>
struct MulF {
  static float apply(float a, float b) {
    a = in<Ftz>(a), b = in<Ftz>(b);
    return out_of<Ftz, Sat, R>(mul_f32<R>(a, b), double(a) * double(b));
  }
};
template <Rnd R, bool Ftz, bool Sat>
struct FmaF {
  static float apply(float a, float b, float c) {
    a = in<Ftz>(a), b = in<Ftz>(b), c = in<Ftz>(c);
    float v = fma_f32<R>(a, b, c);
    if (Ftz && is_least_normal(v))
      return out_of<Ftz, Sat, R>(v, odd_sum(double(a) * double(b), double(c)));
    return out<Ftz, Sat>(v);
  }
};
template <Rnd R, bool Ftz, bool Sat>
struct DivF {
  static float apply(float a, float b) {
    a = in<Ftz>(a), b = in<Ftz>(b);
    float v = div_f32<R>(a, b);
    if (Ftz && is_least_normal(v)) return out_of<Ftz, Sat, R>(v, odd_quotient(a, b));
    return out<Ftz, Sat>(v);
  }
};
template <Rnd R, bool Ftz, bool Sat>
struct RcpF {
  static float apply(float a) { return DivF<R, Ftz, Sat>::apply(1.0f, a); }
};
template <Rnd R, bool Ftz, bool Sat>
struct SqrtF {
  static float apply(float a) { return out<Ftz, Sat>(sqrt_f32<R>(in<Ftz>(a))); }
};

// Packed pairs, mixed precision: from a function on f32.
template <template <Rnd, bool, bool> class F, Rnd R, bool Ftz>
struct PairOf {
  static float lo(uint64_t v) { return f32_of(uint32_t(v)); }
  static float hi(uint64_t v) { return f32_of(uint32_t(v >> 32)); }
  static uint64_t join(float l, float h) { return uint64_t(bits_of(h)) << 32 | bits_of(l); }
  static uint64_t two(uint64_t a, uint64_t b) {
    using G = F<R, Ftz, false>;
    return join(G::apply(lo(a), lo(b)), G::apply(hi(a), hi(b)));
  }
  static uint64_t three(uint64_t a, uint64_t b, uint64_t c) {
    using G = F<R, Ftz, false>;
    return join(G::apply(lo(a), lo(b), lo(c)), G::apply(hi(a), hi(b), hi(c)));
  }
};

// Which of the two modifiers an instruction has.
enum class Modifiers { ftz_sat, ftz, sat };
template <Modifiers Has, template <Rnd, bool, bool> class F, Rnd R>
Handler pick_flags(bool ftz, bool sat) {
  if constexpr (Has != Modifiers::ftz)
    if (sat && !ftz) return lanewise<&F<R, false, true>::apply>;
  if constexpr (Has == Modifiers::ftz_sat)
    if (sat) return lanewise<&F<R, true, true>::apply>;
  if constexpr (Has != Modifiers::sat)
    if (ftz) return lanewise<&F<R, true, false>::apply>;
  return lanewise<&F<R, false, false>::apply>;
}
template <template <Rnd, bool, bool> class F, Modifiers Has = Modifiers::ftz_sat>
Handler pick_f32(Rnd r, bool ftz, bool sat) {
  switch (r) {
  case Rnd::rz:
    return pick_flags<Has, F, Rnd::rz>(ftz, sat);
  case Rnd::rm:
    return pick_flags<Has, F, Rnd::rm>(ftz, sat);
  case Rnd::rp:
    return pick_flags<Has, F, Rnd::rp>(ftz, sat);
  default:
    return pick_flags<Has, F, Rnd::rn>(ftz, sat);
  }
}
template <template <Rnd, bool, bool> class F, Rnd R, bool Three>
Handler pick_pair_flags(bool ftz) {
  if constexpr (Three)
    return ftz ? lanewise<&PairOf<F, R, true>::three> : lanewise<&PairOf<F, R, false>::three>;
  else
    return ftz ? lanewise<&PairOf<F, R, true>::two> : lanewise<&PairOf<F, R, false>::two>;
}
template <template <Rnd, bool, bool> class F, bool Three>
Handler pick_f32x2(Rnd r, bool ftz) {
  switch (r) {
  case Rnd::rz:
    return pick_pair_flags<F, Rnd::rz, Three>(ftz);
  case Rnd::rm:
    return pick_pair_flags<F, Rnd::rm, Three>(ftz);
  case Rnd::rp:
    return pick_pair_flags<F, Rnd::rp, Three>(ftz);
  default:
    return pick_pair_flags<F, Rnd::rn, Three>(ftz);
  }
}

// fma.rn.f32 with the host's fused instruction, where it has one.
#if defined(__x86_64__)
#define HOST_FMA target("fma,avx2")
bool host_has_fma() { return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"); }
#else
#define HOST_FMA
bool host_has_fma() { return true; } // part of every other 64-bit instruction set
#endif
template <bool Ftz, bool Sat>
__attribute__((HOST_FMA)) Step fma_rn_host(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  const uint32_t *a = w.lanes<uint32_t>(i.op[1]), *b = w.lanes<uint32_t>(i.op[2]),
                 *c = w.lanes<uint32_t>(i.op[3]);
  auto one = [=](uint32_t l) __attribute__((always_inline, HOST_FMA)) {
    return bits_of(out<Ftz, Sat>(
        __builtin_fmaf(in<Ftz>(f32_of(a[l])), in<Ftz>(f32_of(b[l])), in<Ftz>(f32_of(c[l])))));
  };
  if (mask == 0xFFFFFFFFu && !Ftz) {
#pragma GCC ivdep
    for (uint32_t l = 0; l < 32; ++l) d[l] = one(l);
  } else if (mask == 0xFFFFFFFFu) {
    uint32_t r[32], least = 0; // d may be a source
    for (uint32_t l = 0; l < 32; ++l) r[l] = one(l);
    for (uint32_t l = 0; l < 32; ++l) least |= (r[l] & 0x7FFFFFFFu) == 0x00800000u;
    for (uint32_t l = 0; least && l < 32; ++l)
      r[l] = bits_of(FmaF<Rnd::rn, Ftz, Sat>::apply(f32_of(a[l]), f32_of(b[l]), f32_of(c[l])));
    std::memcpy(d, r, sizeof r);
  } else {
    for (uint32_t m = mask; m; m &= m - 1) {
      uint32_t l = uint32_t(std::countr_zero(m));
      d[l] = Ftz ? bits_of(FmaF<Rnd::rn, Ftz, Sat>::apply(f32_of(a[l]), f32_of(b[l]), f32_of(c[l])))
                 : one(l);
    }
  }
  return Step::Next;
}

Handler pick_fma_f32(Rnd r, bool ftz, bool sat) {
  if (r != Rnd::rn || !host_has_fma()) return pick_f32<FmaF>(r, ftz, sat);
  if (ftz) return sat ? fma_rn_host<true, true> : fma_rn_host<true, false>;
  return sat ? fma_rn_host<false, true> : fma_rn_host<false, false>;
}

// ---- f64: the host's rounding mode does the directed roundings

template <Rnd R>
struct HostRounding {
  HostRounding() {
    if (R != Rnd::rn)
      std::fesetround(R == Rnd::rz ? FE_TOWARDZERO : R == Rnd::rm ? FE_DOWNWARD : FE_UPWARD);
  }
  ~HostRounding() {
    if (R != Rnd::rn) std::fesetround(FE_TONEAREST);
  }
};
enum class Op64 { add, sub, mul, div, fma, rcp, sqrt };

template <Op64 O, Rnd R>
double op64(double x, double y, double z) {
  if constexpr (R == Rnd::rn) {
    if constexpr (O == Op64::add) return x + y;
    if constexpr (O == Op64::sub) return x - y;
    if constexpr (O == Op64::mul) return x * y;
    if constexpr (O == Op64::div) return x / y;
    if constexpr (O == Op64::fma) return std::fma(x, y, z);
    if constexpr (O == Op64::rcp) return 1.0 / x;
    return std::sqrt(x);
  }
  // volatile keeps the operation between the two changes of mode.
  volatile double a = x, b = y, c = z, r;
  HostRounding<R> mode;
  if constexpr (O == Op64::add) r = a + b;
  if constexpr (O == Op64::sub) r = a - b;
  if constexpr (O == Op64::mul) r = a * b;
  if constexpr (O == Op64::div) r = a / b;
  if constexpr (O == Op64::fma) r = std::fma(a, b, c);
  if constexpr (O == Op64::rcp) r = 1.0 / a;
  if constexpr (O == Op64::sqrt) r = std::sqrt(a);
  return r;
}
template <Op64 O, Rnd R>
struct F64 {
  static double one(double a) { return op64<O, R>(a, 0, 0); }
  static double two(double a, double b) { return op64<O, R>(a, b, 0); }
  static double three(double a, double b, double c) { return op64<O, R>(a, b, c); }
};
template <Op64 O, Rnd R>
Handler pick_f64_arity() {
  if constexpr (O == Op64::fma) return lanewise<&F64<O, R>::three>;
  if constexpr (O == Op64::rcp || O == Op64::sqrt) return lanewise<&F64<O, R>::one>;
  return lanewise<&F64<O, R>::two>;
}
template <Op64 O>
Handler pick_f64(Rnd r) {
  switch (r) {
  case Rnd::rz:
    return pick_f64_arity<O, Rnd::rz>();
  case Rnd::rm:
    return pick_f64_arity<O, Rnd::rm>();
  case Rnd::rp:
    return pick_f64_arity<O, Rnd::rp>();
  default:
    return pick_f64_arity<O, Rnd::rn>();
  }
}

// ---- mixed precision: a and b are f16 or bf16, the rest f32

struct Half {
  uint16_t bits;
  operator float() const { return num::f16_to_f32(bits); }
};
struct Bhalf {
  uint16_t bits;
  operator float() const { return num::bf16_to_f32(bits); }
};
template <class H>
struct Mixed {
  template <Rnd R, bool, bool Sat>
  struct Add {
    static float apply(H a, float c) { return out<false, Sat>(add_f32<R>(float(a), c)); }
  };
  template <Rnd R, bool, bool Sat>
  struct Sub {
    static float apply(H a, float c) { return out<false, Sat>(add_f32<R>(float(a), -c)); }
  };
  template <Rnd R, bool, bool Sat>
  struct Fma {
    static float apply(H a, H b, float c) {
      return out<false, Sat>(fma_f32<R>(float(a), float(b), c));
    }
  };
};

// ---- sign and selection. abs and neg of f32 and f16 give the canonical NaN, those of f64 and bf16
// change the sign bit of a NaN too (measured on an H200).

float magnitude(float a) { return f32_of(bits_of(a) & 0x7FFFFFFFu); }
float abs_f32(float a) { return canonical(magnitude(a)); }
float neg_f32(float a) { return canonical(f32_of(bits_of(a) ^ 0x80000000u)); }
float abs_ftz_f32(float a) { return abs_f32(flush(a)); }
float neg_ftz_f32(float a) { return neg_f32(flush(a)); }
double abs_f64(double a) { return std::bit_cast<double>(bits_of(a) & ~(1ull << 63)); }
double neg_f64(double a) { return std::bit_cast<double>(bits_of(a) ^ (1ull << 63)); }
// 9.7.3.2: the sign of a, the magnitude of b.
float copysign_f32(float a, float b) { return std::copysign(b, a); }
double copysign_f64(double a, double b) { return std::copysign(b, a); }

template <bool Max, bool Ftz, bool Nan>
struct MinMax {
  static float two(float a, float b) {
    return out<Ftz, false>(min_max<Max, Nan>(in<Ftz>(a), in<Ftz>(b)));
  }
  static float xorsign(float a, float b) {
    float r = min_max<Max, Nan>(magnitude(in<Ftz>(a)), magnitude(in<Ftz>(b)));
    if (r != r) return f32_of(num::kF32Nan);
    return f32_of(bits_of(r) | ((bits_of(a) ^ bits_of(b)) & 0x80000000u));
  }
  static float three(float a, float b, float c) { return two(two(a, b), c); }
  static float three_abs(float a, float b, float c) {
    return three(magnitude(a), magnitude(b), magnitude(c));
  }
};
template <bool Max>
double min_max_f64(double a, double b) {
  if (a != a || b != b) {
    if (a != a && b != b) return std::bit_cast<double>(0x7FFFFFFFFFFFFFFFull);
    return a != a ? b : a;
  }
  return less(a, b) != Max ? a : b;
}

template <bool Max, bool Ftz, bool Nan>
Handler pick_min_max(const Match& m, size_t inputs) {
  using F = MinMax<Max, Ftz, Nan>;
  if (inputs == 3) return m.has("abs") ? lanewise<&F::three_abs> : lanewise<&F::three>;
  return m.has("xorsign") ? lanewise<&F::xorsign> : lanewise<&F::two>;
}

template <bool Max>
void min_max_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  if (m.get("type") == "f64") {
    inst.run = lanewise<&min_max_f64<Max>>;
    same_type(dc, s, "f64", inst);
    return;
  }
  size_t inputs = s.operands.size() - 1;
  if (inputs == 3 && m.has("xorsign")) dc.refuse(s, ".xorsign takes two inputs");
  bool nan = m.has("NaN");
  if (m.has("ftz"))
    inst.run =
        nan ? pick_min_max<Max, true, true>(m, inputs) : pick_min_max<Max, true, false>(m, inputs);
  else
    inst.run = nan ? pick_min_max<Max, false, true>(m, inputs)
                   : pick_min_max<Max, false, false>(m, inputs);
  same_type(dc, s, "f32", inst);
}

// ---- approximate functions

template <float (*F)(float), bool Ftz>
float approx1(float a) {
  return out<Ftz, false>(F(in<Ftz>(a)));
}
template <float (*F)(float)>
Handler pick_approx(bool ftz) {
  return ftz ? lanewise<&approx1<F, true>> : lanewise<&approx1<F, false>>;
}
template <float (*F)(float, float), bool Ftz> // quotients
float approx2(float a, float b) {
  a = in<Ftz>(a), b = in<Ftz>(b);
  return out_of<Ftz, false, Rnd::rn>(F(a, b), double(a) / double(b));
}
// 9.7.3.14, 9.7.3.17: the low 32 bits are zero, subnormals are flushed.
double chop(double v) {
  uint64_t b = bits_of(v);
  if ((b & 0x7FF0000000000000ull) == 0) b &= 1ull << 63;
  if (v == v) b &= 0xFFFFFFFF00000000ull;
  return std::bit_cast<double>(b);
}
double flush64(double v) {
  return (bits_of(v) & 0x7FF0000000000000ull) == 0 ? std::copysign(0.0, v) : v;
}
double rcp_approx_f64(double a) { return chop(1.0 / flush64(a)); }
double rsqrt_f64(double a) { return 1.0 / std::sqrt(a); }
double rsqrt_approx_ftz_f64(double a) { return chop(1.0 / std::sqrt(flush64(a))); }
float div_full_f32(float a, float b) { return a / b; }
float rcp_approx_f32(float a) { return 1.0f / a; }
float sqrt_approx_f32(float a) { return std::sqrt(a); }

// testp: classes of 9.7.3.1, by exponent and mantissa bits.
template <class T>
bool test_property(int what, T v) {
  switch (what) {
  case 0:
    return std::isfinite(v);
  case 1:
    return std::isinf(v);
  case 2:
    return !std::isnan(v);
  case 3:
    return std::isnan(v);
  case 4:
    return std::isnormal(v) || v == 0;
  default:
    return std::fpclassify(v) == FP_SUBNORMAL;
  }
}
template <class T>
Step testp(Warp& w, const Inst& i, uint32_t mask) {
  const auto* a = w.lanes<Word<T>>(i.op[1]);
  w.set_pred(i.op[0], mask, lane_bits(mask, [&](uint32_t l) {
               return test_property(int(i.mod[0]), from_word<T>(a[l]));
             }));
  return Step::Next;
}

void mixed_operands(DecodeContext& dc, const Statement& s, Inst& inst) {
  std::vector<uint32_t> src;
  for (size_t k = 1; k + 1 < s.operands.size(); ++k)
    src.push_back(dc.src(s.operands[k], RegClass::B32));
  src.push_back(dc.src_f32(s.operands.back()));
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)}, src);
}

// add, sub, mul and fma of f32, f32x2 and f64.
template <Op64 O, template <Rnd, bool, bool> class F>
void arithmetic(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  typed(dc, s, m, inst, [&](std::string_view t) {
    constexpr bool fused = O == Op64::fma;
    const Rnd r = rnd_of(m.get("rnd"));
    const bool ftz = m.has("ftz");
    if (t == "f64") return pick_f64<O>(r);
    if (t == "f32x2") return pick_f32x2<F, fused>(r, ftz);
    if constexpr (fused) return pick_fma_f32(r, ftz, m.has("sat"));
    return pick_f32<F>(r, ftz, m.has("sat"));
  });
}

} // namespace

void add_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  arithmetic<Op64::add, AddF>(dc, s, m, inst);
}
void sub_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  arithmetic<Op64::sub, SubF>(dc, s, m, inst);
}
void mul_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  arithmetic<Op64::mul, MulF>(dc, s, m, inst);
}
void fma_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  arithmetic<Op64::fma, FmaF>(dc, s, m, inst);
}

void div_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  Rnd r = rnd_of(m.get("rnd"));
  bool ftz = m.has("ftz");
  if (m.has("approx"))
    inst.run =
        ftz ? lanewise<&approx2<div_approx_f32, true>> : lanewise<&approx2<div_approx_f32, false>>;
  else if (m.has("full"))
    inst.run =
        ftz ? lanewise<&approx2<div_full_f32, true>> : lanewise<&approx2<div_full_f32, false>>;
  else
    inst.run = t == "f64" ? pick_f64<Op64::div>(r) : pick_f32<DivF, Modifiers::ftz>(r, ftz, false);
  same_type(dc, s, t, inst);
}

void rcp_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  Rnd r = rnd_of(m.get("rnd"));
  if (m.has("approx"))
    inst.run = t == "f64" ? lanewise<&rcp_approx_f64> : pick_approx<rcp_approx_f32>(m.has("ftz"));
  else
    inst.run = t == "f64" ? pick_f64<Op64::rcp>(r)
                          : pick_f32<RcpF, Modifiers::ftz>(r, m.has("ftz"), false);
  same_type(dc, s, t, inst);
}

void sqrt_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  Rnd r = rnd_of(m.get("rnd"));
  if (m.has("approx"))
    inst.run = pick_approx<sqrt_approx_f32>(m.has("ftz"));
  else
    inst.run = t == "f64" ? pick_f64<Op64::sqrt>(r)
                          : pick_f32<SqrtF, Modifiers::ftz>(r, m.has("ftz"), false);
  same_type(dc, s, t, inst);
}

void approx_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view op = s.opcode[0], t = m.get("type");
  bool ftz = m.has("ftz");
  if (t == "f64")
    inst.run = ftz ? lanewise<&rsqrt_approx_ftz_f64> : lanewise<&rsqrt_f64>;
  else
    inst.run = op == "ex2"     ? pick_approx<ex2_f32>(ftz)
               : op == "lg2"   ? pick_approx<lg2_f32>(ftz)
               : op == "rsqrt" ? pick_approx<rsqrt_f32>(ftz)
               : op == "sin"   ? pick_approx<sin_f32>(ftz)
               : op == "cos"   ? pick_approx<cos_f32>(ftz)
                               : pick_approx<tanh_f32>(false);
  same_type(dc, s, t, inst);
}

void abs_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = t == "f64"     ? lanewise<&abs_f64>
             : m.has("ftz") ? lanewise<&abs_ftz_f32>
                            : lanewise<&abs_f32>;
  same_type(dc, s, t, inst);
}

void neg_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = t == "f64"     ? lanewise<&neg_f64>
             : m.has("ftz") ? lanewise<&neg_ftz_f32>
                            : lanewise<&neg_f32>;
  same_type(dc, s, t, inst);
}

void copysign_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  inst.run = t == "f64" ? lanewise<&copysign_f64> : lanewise<&copysign_f32>;
  same_type(dc, s, t, inst);
}

void min_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  min_max_float<false>(dc, s, m, inst);
}

void max_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  min_max_float<true>(dc, s, m, inst);
}

void testp_float(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  static constexpr std::array<std::string_view, 6> names = {"finite",     "infinite", "number",
                                                            "notanumber", "normal",   "subnormal"};
  for (uint32_t k = 0; k < names.size(); ++k)
    if (m.get("property") == names[k]) inst.mod[0] = k;
  std::string_view t = m.get("type");
  inst.run = t == "f64" ? testp<double> : testp<float>;
  dc.set_operands(inst, {dc.pred_dst(s.operands[0])}, {source(dc, s.operands[1], t)});
}

void add_mixed(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Rnd r = rnd_of(m.get("rnd"));
  inst.run = m.get("half") == "f16"
                 ? pick_f32<Mixed<Half>::Add, Modifiers::sat>(r, false, m.has("sat"))
                 : pick_f32<Mixed<Bhalf>::Add, Modifiers::sat>(r, false, m.has("sat"));
  mixed_operands(dc, s, inst);
}

void sub_mixed(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Rnd r = rnd_of(m.get("rnd"));
  inst.run = m.get("half") == "f16"
                 ? pick_f32<Mixed<Half>::Sub, Modifiers::sat>(r, false, m.has("sat"))
                 : pick_f32<Mixed<Bhalf>::Sub, Modifiers::sat>(r, false, m.has("sat"));
  mixed_operands(dc, s, inst);
}

void fma_mixed(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Rnd r = rnd_of(m.get("rnd"));
  inst.run = m.get("half") == "f16"
                 ? pick_f32<Mixed<Half>::Fma, Modifiers::sat>(r, false, m.has("sat"))
                 : pick_f32<Mixed<Bhalf>::Fma, Modifiers::sat>(r, false, m.has("sat"));
  mixed_operands(dc, s, inst);
}

} // namespace vgpu::ops
