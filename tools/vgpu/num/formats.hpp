// Number formats of the PTX ISA (5.2.3) and their conversions (9.7.9.21): decode tables, encoders
// with every rounding of `cvt`, packed x2 orders, and quick 16-bit conversions for whole warps.
//
// All encoders take a double: every f32, f16, bf16 and f64 source is one, so the result is the
// correctly rounded value of the source in one step.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace vgpu::num {

enum class Format : uint8_t {
  e2m1,
  e2m3,
  e3m2,
  e4m3,
  ue4m3,
  e5m2,
  ue8m0,
  f16,
  bf16,
  tf32,
  f32,
};

// rn: nearest, ties to even; rna: nearest, ties away from zero; rz, rm, rp: directed.
enum class Rounding : uint8_t { rn, rz, rm, rp, rna };

struct FormatInfo {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  int bits;           // significant bits of the code, sign included
  int container_bits; // bits one value takes in a register of a packed conversion
  bool has_sign;
  bool has_inf;
  uint32_t max_finite; // magnitude code of the largest finite value
  uint32_t nan;        // canonical NaN code; formats without NaN: the code a NaN converts to
};

const FormatInfo& info(Format format);

// Decode tables. ue4m3 ignores bit 7 (5.2.3: the bit above its seven is padding), 0x7F is NaN.
// ue8m0: 2^(code - 127), 0xFF is NaN. e2m1, e2m3 and e3m2 have no Inf and no NaN.
extern const float (&e2m1_table)[16];
extern const float (&e2m3_table)[64];
extern const float (&e3m2_table)[64];
extern const float (&e4m3_table)[256];
extern const float (&ue4m3_table)[256];
extern const float (&e5m2_table)[256];
extern const float (&ue8m0_table)[256];

inline constexpr uint32_t kF32Nan = 0x7FFFFFFFu; // canonical NaN of f32 results
inline constexpr uint16_t kF16Nan = 0x7FFF;      // of f16, and of bf16

// bf16 widens by position; a NaN keeps its payload (9.7.9.21 leaves the NaN of cvt.f32.bf16 open).
inline float bf16_to_f32(uint16_t code) { return std::bit_cast<float>(uint32_t(code) << 16); }

// Exact; every NaN becomes the canonical f32 NaN (chosen: the ISA names no payload).
inline float f16_to_f32(uint16_t code) {
  uint32_t sign = uint32_t(code & 0x8000u) << 16;
  uint32_t magnitude = code & 0x7FFFu;
  // Scaling by 2^112 moves the f16 bias 15 to the f32 bias 127 and normalises subnormals.
  uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  uint32_t result = magnitude < 0x7C00u    ? (scaled | sign)
                    : magnitude == 0x7C00u ? (0x7F800000u | sign)
                                           : kF32Nan;
  return std::bit_cast<float>(result);
}

// Round to nearest even; overflow gives Inf, NaN gives 0x7FFF.
inline uint16_t f32_to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Normal results: rebias, then add half an ulp less one plus the bit that decides ties.
  uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: adding 0.5 puts 2^-24, the f16 subnormal step, at the last bit of f32.
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  uint32_t result = magnitude < 0x38800000u    ? small
                    : magnitude < 0x47800000u  ? normal
                    : magnitude <= 0x7F800000u ? 0x7C00u
                                               : 0u;
  return uint16_t(magnitude > 0x7F800000u ? uint32_t(kF16Nan) : (result | sign));
}

inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return uint16_t((bits & 0x7FFFFFFFu) > 0x7F800000u ? uint32_t(kF16Nan) : rounded);
}

// The tensor core reads a tf32 operand as f32 without its low 13 bits.
inline float tf32_to_f32(uint32_t code) { return std::bit_cast<float>(code & 0xFFFFE000u); }

// Value of a code. Upper bits beyond the format are ignored.
float decode(Format format, uint32_t code);

struct EncodeOptions {
  Rounding rounding = Rounding::rn;
  // Finite values beyond the largest, and infinities, become the largest finite value. Formats
  // without Inf saturate always, as `.satfinite` is mandatory for them; only ue8m0 without it
  // overflows to its NaN.
  bool satfinite = false;
  // Negative results become +0; a NaN stays the canonical NaN.
  bool relu = false;
};

// Code of the rounded value. ue8m0 ignores the sign of its source; for rz and rp only.
uint32_t encode(Format format, double value, EncodeOptions options = {});

// Packed conversions: `a` goes to the upper half, `b` to the lower (9.7.9.21).
uint32_t encode_x2(Format format, double a, double b, EncodeOptions options = {});

// f8x2, f6x2, f4x2 to f16x2 and ue8m0x2 to bf16x2: exact, NaN becomes 0x7FFF.
uint32_t decode_x2_to_f16x2(Format format, uint32_t packed, bool relu = false);
uint32_t decode_ue8m0x2_to_bf16x2(uint32_t packed);

// Whole vectors, round to nearest even where they narrow.
void f16_to_f32(const uint16_t* in, float* out, size_t count);
void bf16_to_f32(const uint16_t* in, float* out, size_t count);
void f32_to_f16(const float* in, uint16_t* out, size_t count);
void f32_to_bf16(const float* in, uint16_t* out, size_t count);

} // namespace vgpu::num
