// cvt to and from packed and narrow floating-point formats (PTX ISA 9.7.9.21).
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

namespace {

using num::Format;

Format format_of(std::string_view t) {
  std::string_view base = t.substr(0, t.find('x', 1));
  if (base == "e2m1") return Format::e2m1;
  if (base == "e2m3") return Format::e2m3;
  if (base == "e3m2") return Format::e3m2;
  if (base == "e4m3") return Format::e4m3;
  if (base == "e5m2") return Format::e5m2;
  if (base == "ue8m0") return Format::ue8m0;
  if (base == "f16") return Format::f16;
  if (base == "bf16") return Format::bf16;
  return Format::tf32;
}

// mod[0]: format of the destination (or the source when it is widened); mod[1]: rounding;
// mod[2] bit 0 satfinite, bit 1 relu.
num::EncodeOptions options_of(const Inst& i) {
  num::EncodeOptions o;
  o.rounding = num::Rounding(i.mod[1]);
  o.satfinite = i.mod[2] & 1;
  o.relu = i.mod[2] & 2;
  return o;
}
void set_modifiers(const Match& m, std::string_view format, Inst& inst) {
  std::string_view r = m.get("rnd");
  inst.mod[0] = uint32_t(format_of(format));
  inst.mod[1] = uint32_t(r == "rz"    ? num::Rounding::rz
                         : r == "rp"  ? num::Rounding::rp
                         : r == "rna" ? num::Rounding::rna
                                      : num::Rounding::rn);
  inst.mod[2] = (m.has("satfinite") ? 1 : 0) | (m.has("relu") ? 2 : 0);
}

uint32_t encode_pair(const Inst& i, float a, float b) {
  return num::encode_x2(Format(i.mod[0]), a, b, options_of(i));
}
uint32_t f16x2_rn(float a, float b) {
  return uint32_t(num::f32_to_f16(a)) << 16 | num::f32_to_f16(b);
}
uint32_t bf16x2_rn(float a, float b) {
  return uint32_t(num::f32_to_bf16(a)) << 16 | num::f32_to_bf16(b);
}
// .rna cuts the payload of a NaN and, with .satfinite, takes the largest number of every exponent
// field of ones by subtracting a last place; .rn and .rz give 0x7FFFE000 (all measured on an H200).
uint32_t encode_tf32(const Inst& i, uint32_t a) {
  bool nan = (a & 0x7FFFFFFFu) > 0x7F800000u;
  if (nan && num::Rounding(i.mod[1]) == num::Rounding::rna)
    return (a & 0xFFFFE000u) - (i.mod[2] & 1 ? 0x2000u : 0u);
  return num::encode(Format::tf32, std::bit_cast<float>(a), options_of(i));
}
uint32_t encode_from_f16x2(const Inst& i, uint32_t a) {
  return num::encode_x2(Format(i.mod[0]), num::f16_to_f32(uint16_t(a >> 16)),
                        num::f16_to_f32(uint16_t(a)), options_of(i));
}
uint32_t encode_from_bf16x2(const Inst& i, uint32_t a) {
  return num::encode_x2(Format(i.mod[0]), num::bf16_to_f32(uint16_t(a >> 16)),
                        num::bf16_to_f32(uint16_t(a)), options_of(i));
}
uint32_t decode_pair(const Inst& i, uint32_t a) {
  return num::decode_x2_to_f16x2(Format(i.mod[0]), a, i.mod[2] & 2);
}
uint32_t decode_scales(uint32_t a) { return num::decode_ue8m0x2_to_bf16x2(a); }
// s2f6: 64ths in two's complement. mod[0] is bf16.
uint32_t widen_fixed(const Inst& i, uint32_t a) {
  return num::encode_x2(Format::bf16, int8_t(a >> 8) / 64.0, int8_t(a) / 64.0, options_of(i));
}
uint32_t widen_fixed_scaled(const Inst& i, uint32_t a, uint32_t scales) {
  auto value = [](uint32_t code, uint32_t scale) {
    return int8_t(code) / 64.0 * double(num::decode(Format::ue8m0, scale & 255));
  };
  return num::encode_x2(Format::bf16, value(a >> 8, scales >> 8), value(a, scales), options_of(i));
}

// .rs: the random bits are added to the bits that are cut off; a carry rounds away from zero. The
// random bits are aligned to the top of what is cut off (Figures 38-41).
uint32_t encode_stochastic(Format f, float v, uint32_t random, uint32_t random_bits,
                           num::EncodeOptions o) {
  o.rounding = num::Rounding::rz;
  uint32_t low = num::encode(f, v, o);
  if (!(v == v) || v == 0 || (v < 0 && o.relu)) return low;
  double kept = num::decode(f, low);
  double magnitude = v < 0 ? -double(v) : double(v), base = kept < 0 ? -kept : kept;
  uint32_t sign = num::info(f).has_sign ? 1u << (num::info(f).bits - 1) : 0;
  uint32_t code = low & (sign - 1);
  if (base >= magnitude || code >= num::info(f).max_finite) return low;
  double step = double(num::decode(f, code + 1)) - base;
  double fraction = (magnitude - base) / step; // in (0, 1), exact: both are powers of two apart
  double scaled = fraction * double(1u << random_bits);
  if (uint32_t(scaled) + random < (1u << random_bits)) return low;
  return low + 1;
}
uint32_t stochastic_pair(const Inst& i, float a, float b, uint32_t r) {
  Format f = Format(i.mod[0]);
  uint32_t bits = f == Format::f16 ? 13 : 16, mask = (1u << bits) - 1;
  num::EncodeOptions o = options_of(i);
  return encode_stochastic(f, a, r >> 16 & mask, bits, o) << 16 |
         encode_stochastic(f, b, r & mask, bits, o);
}
uint32_t stochastic_quad(const Inst& i, float a, float b, float e, float f, uint32_t r) {
  Format format = Format(i.mod[0]);
  num::EncodeOptions o = options_of(i);
  uint32_t place = format == Format::e2m1 ? 4 : 8;
  bool nibble = format == Format::e2m1;
  uint32_t bits = nibble ? 8 : 16;
  uint32_t high = nibble ? (r >> 24 << 8 | (r >> 8 & 255)) : r >> 16;
  uint32_t low = nibble ? ((r >> 16 & 255) << 8 | (r & 255)) : r & 0xFFFF;
  uint32_t ra = nibble ? high >> 8 : high, rb = nibble ? high & 255 : high;
  uint32_t re = nibble ? low >> 8 : low, rf = nibble ? low & 255 : low;
  return encode_stochastic(format, a, ra, bits, o) << (3 * place) |
         encode_stochastic(format, b, rb, bits, o) << (2 * place) |
         encode_stochastic(format, e, re, bits, o) << place |
         encode_stochastic(format, f, rf, bits, o);
}

void f32_sources(DecodeContext& dc, const Statement& s, Inst& inst) {
  std::vector<uint32_t> src;
  for (size_t k = 1; k < s.operands.size(); ++k) src.push_back(dc.src_f32(s.operands[k]));
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)}, src);
}

} // namespace

void cvt_pair(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view d = m.get("d");
  set_modifiers(m, d, inst);
  bool quick = m.get("rnd") == "rn" && inst.mod[2] == 0;
  inst.run = quick && d == "f16x2"    ? lanewise<&f16x2_rn>
             : quick && d == "bf16x2" ? lanewise<&bf16x2_rn>
                                      : lanewise<&encode_pair>;
  f32_sources(dc, s, inst);
}

void cvt_scales(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, "ue8m0x2", inst);
  inst.run = lanewise<&encode_pair>;
  f32_sources(dc, s, inst);
}

void cvt_tf32(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, "tf32", inst);
  inst.run = lanewise<&encode_tf32>;
  f32_sources(dc, s, inst);
}

void cvt_narrow_pair(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, m.has("d") ? m.get("d") : "ue8m0x2", inst);
  inst.run = m.get("a") == "f16x2" ? lanewise<&encode_from_f16x2> : lanewise<&encode_from_bf16x2>;
  same_type(dc, s, "b32", inst);
}

void cvt_widen_pair(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, m.get("a"), inst);
  inst.run = lanewise<&decode_pair>;
  same_type(dc, s, "b32", inst);
}

void cvt_widen_scales(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  inst.run = lanewise<&decode_scales>;
  same_type(dc, s, "b32", inst);
}

void cvt_fixed_pair(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, "bf16x2", inst);
  const bool scaled = m.has("scaled::n2::ue8m0");
  if (scaled != (s.operands.size() == 3))
    dc.refuse(s, "the scales belong to .scaled::n2::ue8m0, and only to it");
  inst.run = scaled ? lanewise<&widen_fixed_scaled> : lanewise<&widen_fixed>;
  same_type(dc, s, "b32", inst);
}

void cvt_stochastic_pair(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, m.get("d"), inst);
  inst.run = lanewise<&stochastic_pair>;
  dc.set_operands(
      inst, {dc.dst(s.operands[0], RegClass::B32)},
      {dc.src_f32(s.operands[1]), dc.src_f32(s.operands[2]), dc.src(s.operands[3], RegClass::B32)});
}

void cvt_stochastic_quad(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  set_modifiers(m, m.get("d"), inst);
  inst.run = lanewise<&stochastic_quad>;
  std::vector<uint32_t> src = dc.vector_src(s.operands[1], RegClass::B32);
  if (src.size() != 4) dc.refuse(s, "the source is a vector of four f32");
  src.push_back(dc.src(s.operands[2], RegClass::B32));
  dc.set_operands(inst, {dc.dst(s.operands[0], RegClass::B32)}, src);
}

} // namespace vgpu::ops
