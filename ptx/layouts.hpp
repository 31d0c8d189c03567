// Bit layouts of what a kernel hands to the hardware, as constexpr builders: shared-memory matrix
// descriptors, instruction descriptors, swizzles, tensor memory, scale factors, tensor-map codes.
// PTX ISA sections are named at each part. This file depends on nothing.
#pragma once

#include <cstdint>

namespace warpline::ptx {

// ---- shared addresses (PTX ISA 5.1.6, 9.7.9.23)
// --------------------------------------------------

// A shared::cluster address: CTA rank at bit 24 upward, offset in the CTA's window below.
inline constexpr uint32_t cluster_rank_shift = 24;
inline constexpr uint32_t pair_leader_mask = 0xFEFFFFFFu;

constexpr uint32_t cluster_address(uint32_t rank, uint32_t offset) {
  return rank << cluster_rank_shift | offset;
}
constexpr uint32_t pair_leader(uint32_t address) { return address & pair_leader_mask; }

// ---- swizzle (PTX ISA 5.5.7): acts on the absolute shared address
// ---------------------------------

enum class Swizzle : uint32_t { none, b32, b64, b128, b128_atom32 };

constexpr uint32_t swizzle(Swizzle mode, uint32_t address) {
  switch (mode) {
  case Swizzle::none:
    return address;
  case Swizzle::b32:
    return address ^ ((address >> 7 & 1) << 4);
  case Swizzle::b64:
    return address ^ ((address >> 7 & 3) << 4);
  case Swizzle::b128:
    return address ^ ((address >> 7 & 7) << 4);
  case Swizzle::b128_atom32:
    return address ^ ((address >> 7 & 3) << 5);
  }
  return address;
}

// Bytes of a row, and the boundary on which a swizzle pattern starts.
constexpr uint32_t swizzle_span(Swizzle mode) {
  return mode == Swizzle::none ? 16 : mode == Swizzle::b32 ? 32 : mode == Swizzle::b64 ? 64 : 128;
}
constexpr uint32_t swizzle_alignment(Swizzle mode) {
  return mode == Swizzle::none ? 16 : 8 * swizzle_span(mode);
}

// ---- shared-memory matrix descriptor (PTX ISA 9.7.16.4.1; wgmma: 9.7.15.5.1)
// ----------------------

struct MatrixDesc {
  uint32_t address = 0; // bytes; rank bits are dropped
  uint32_t leading_bytes = 16;
  uint32_t stride_bytes = 0;
  uint32_t base_offset = 0; // (pattern start >> 7) & 7 when it misses its boundary
  bool leading_absolute = false;
  Swizzle layout = Swizzle::none;
};

constexpr uint64_t layout_code_tcgen05(Swizzle mode) {
  return mode == Swizzle::none          ? 0
         : mode == Swizzle::b128_atom32 ? 1
         : mode == Swizzle::b128        ? 2
         : mode == Swizzle::b64         ? 4
                                        : 6;
}
constexpr uint64_t layout_code_wgmma(Swizzle mode) {
  return mode == Swizzle::none ? 0 : mode == Swizzle::b128 ? 1 : mode == Swizzle::b64 ? 2 : 3;
}

constexpr uint64_t matrix_desc_fields(const MatrixDesc& desc) {
  return (static_cast<uint64_t>(desc.address) & 0x3FFFF) >> 4 |
         (static_cast<uint64_t>(desc.leading_bytes) >> 4 & 0x3FFF) << 16 |
         (static_cast<uint64_t>(desc.stride_bytes) >> 4 & 0x3FFF) << 32 |
         static_cast<uint64_t>(desc.base_offset & 7) << 49;
}
constexpr uint64_t matrix_desc_tcgen05(const MatrixDesc& desc) {
  return matrix_desc_fields(desc) | uint64_t{1} << 46 |
         static_cast<uint64_t>(desc.leading_absolute) << 52 |
         layout_code_tcgen05(desc.layout) << 61;
}
// Not for b128_atom32, which wgmma does not have.
constexpr uint64_t matrix_desc_wgmma(const MatrixDesc& desc) {
  return matrix_desc_fields(desc) | layout_code_wgmma(desc.layout) << 62;
}

// Fields back from the bits, for printing and for the virtual GPU.
struct MatrixDescFields {
  uint32_t address, leading_bytes, stride_bytes, version, base_offset, leading_absolute,
      layout_code;
};
constexpr MatrixDescFields decode_matrix_desc_tcgen05(uint64_t bits) {
  return {static_cast<uint32_t>(bits & 0x3FFF) << 4,
          static_cast<uint32_t>(bits >> 16 & 0x3FFF) << 4,
          static_cast<uint32_t>(bits >> 32 & 0x3FFF) << 4,
          static_cast<uint32_t>(bits >> 46 & 7),
          static_cast<uint32_t>(bits >> 49 & 7),
          static_cast<uint32_t>(bits >> 52 & 1),
          static_cast<uint32_t>(bits >> 61 & 7)};
}

// Address of the 16-byte unit `unit` of row `row` of a K-major operand: rows of swizzle_span bytes,
// eight to a group, groups stride_bytes apart, swizzled.
constexpr uint32_t k_major_address(const MatrixDesc& desc, uint32_t row, uint32_t unit) {
  const uint32_t span = swizzle_span(desc.layout);
  const uint32_t linear = desc.address + row % 8 * span + row / 8 * desc.stride_bytes +
                          unit * (desc.layout == Swizzle::none ? desc.leading_bytes : 16);
  return swizzle(desc.layout, linear);
}

// Steps of the descriptor word: 64 four-bit elements of K, and one 512-byte scale atom.
inline constexpr uint64_t operand_desc_step = 32 >> 4;
inline constexpr uint64_t scale_desc_step = 512 >> 4;

// ---- instruction descriptor of tcgen05.mma (PTX ISA 9.7.16.4.2)
// -----------------------------------

enum class DenseType : uint32_t { f16 = 0, bf16 = 1, tf32 = 2 };
enum class Fp8Type : uint32_t { e4m3 = 0, e5m2 = 1, e2m3 = 3, e3m2 = 4, e2m1 = 5 };
enum class AccumulatorType : uint32_t { f16 = 0, f32 = 1, s32 = 2 };
enum class ScaleType : uint32_t { ue4m3 = 0, ue8m0 = 1 };

constexpr uint32_t shape_bits(uint32_t m, uint32_t n) { return n >> 3 << 17 | m >> 4 << 24; }
// kind::f16 and kind::tf32. m counts the rows of the whole CTA pair.
constexpr uint32_t dense_instruction_desc(DenseType a, DenseType b, AccumulatorType d, uint32_t m,
                                          uint32_t n, bool a_mn_major = false,
                                          bool b_mn_major = false) {
  return static_cast<uint32_t>(d) << 4 | static_cast<uint32_t>(a) << 7 |
         static_cast<uint32_t>(b) << 10 | static_cast<uint32_t>(a_mn_major) << 15 |
         static_cast<uint32_t>(b_mn_major) << 16 | shape_bits(m, n);
}
// kind::mxf4 and kind::mxf4nvf4: E2M1 operands; scale ids 0 or 2, 0 with .block16.
constexpr uint32_t fp4_instruction_desc(ScaleType scales, uint32_t m, uint32_t n,
                                        uint32_t sfa_id = 0, uint32_t sfb_id = 0) {
  return sfb_id << 4 | 1u << 7 | 1u << 10 | static_cast<uint32_t>(scales) << 23 | shape_bits(m, n) |
         sfa_id << 29;
}
// kind::mxf8f6f4: scale ids 0 to 3.
constexpr uint32_t mxf8_instruction_desc(Fp8Type a, Fp8Type b, uint32_t m, uint32_t n,
                                         uint32_t sfa_id = 0, uint32_t sfb_id = 0) {
  return sfb_id << 4 | static_cast<uint32_t>(a) << 7 | static_cast<uint32_t>(b) << 10 | 1u << 23 |
         shape_bits(m, n) | sfa_id << 29;
}

// ---- tensor memory (PTX ISA 9.7.16.1, 9.7.16.10.7)
// -------------------------------------------------

inline constexpr uint32_t tmem_lanes = 128;
inline constexpr uint32_t tmem_columns = 512;

constexpr uint32_t tmem_address(uint32_t lane, uint32_t column) { return lane << 16 | column; }
// Scale addresses may carry a scale id in bits 30 and 31; lane and column do not reach there.
constexpr uint32_t tmem_lane(uint32_t address) { return address >> 16 & 0x7F; }
constexpr uint32_t tmem_column(uint32_t address) { return address & 0x1FF; }

// ---- scale factors: the 128x4 atom
// ------------------------------------------------------------------

inline constexpr uint32_t scale_atom_bytes = 512;
inline constexpr uint32_t scale_atom_rows = 128;
inline constexpr uint32_t scale_atom_columns = 4; // scales along K: 64 elements with blocks of 16

// Byte of scale (row, column) inside its atom, in shared memory and in global memory.
constexpr uint32_t scale_atom_offset(uint32_t row, uint32_t column) {
  return row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}
// Where tcgen05.cp 32x128b.warpx4 puts the scales of a row: lane (and + 32, 64, 96), column, and
// byte K mod 4 of the 32-bit word.
constexpr uint32_t scale_tmem_lane(uint32_t row) { return row % 32; }
constexpr uint32_t scale_tmem_column(uint32_t row) { return row % 128 / 32; }

// ---- tensor maps (PTX ISA 5.5; codes of cuTensorMapEncodeTiled)
// -------------------------------------

enum class TensorMapType : uint32_t {
  u8 = 0,
  u16 = 1,
  u32 = 2,
  s32 = 3,
  u64 = 4,
  s64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9,
  f32_ftz = 10,
  tf32 = 11,
  tf32_ftz = 12,
  u4_align8 = 13,  // 16 elements in 8 bytes, packed in shared memory
  u4_align16 = 14, // 16 elements in 8 bytes, padded to 16 in shared memory
  u6_align16 = 15  // 16 elements in 12 bytes, padded to 16 in shared memory
};
enum class TensorMapSwizzle : uint32_t {
  none = 0,
  b32 = 1,
  b64 = 2,
  b128 = 3,
  b128_atom32 = 4,
  b128_atom32_flip8 = 5,
  b128_atom64 = 6
};
enum class TensorMapL2 : uint32_t { none = 0, b64 = 1, b128 = 2, b256 = 3 };

// ---- L2 cache policies (results of createpolicy.fractional with fraction 1)
// ------------------------

inline constexpr uint64_t cache_evict_normal = 0x1000000000000000;
inline constexpr uint64_t cache_evict_first = 0x12F0000000000000;
inline constexpr uint64_t cache_evict_last = 0x14F0000000000000;

} // namespace warpline::ptx
