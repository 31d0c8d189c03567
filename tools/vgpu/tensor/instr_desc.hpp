// The 32-bit instruction descriptor of tcgen05.mma (PTX ISA 9.7.16.4.2) and the shapes it may
// name (9.7.16.2.1): decoded into fields, every violation in a sentence.
#pragma once

#include <cstdint>
#include <string>

namespace vgpu::tensor {

enum class MmaKind : uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

enum class MmaType : uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, u8, s8, b1 };

enum class MmaResult : uint8_t { f16, f32, s32 };

enum class ScaleType : uint8_t { ue4m3, ue8m0 };

constexpr bool is_block_scaled(MmaKind kind) { return kind >= MmaKind::mxf8f6f4; }

constexpr const char* kind_name(MmaKind kind) {
  constexpr const char* names[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};
  return names[int(kind)];
}

// Bits of one element in memory for the dense formats; e2m1 in kind f8f6f4 or mxf8f6f4 and the
// 6-bit types take a byte each there, padding included.
constexpr int type_bits(MmaType type) {
  switch (type) {
  case MmaType::f16:
  case MmaType::bf16:
    return 16;
  case MmaType::tf32:
    return 32;
  case MmaType::e2m1:
    return 4;
  case MmaType::e2m3:
  case MmaType::e3m2:
    return 6;
  case MmaType::b1:
    return 1;
  default:
    return 8;
  }
}

// K of one dense instruction: 32 bytes of operand row. A sparse one has twice as much: 32 bytes of
// stored A, 64 of B.
constexpr int kind_k(MmaKind kind) {
  switch (kind) {
  case MmaKind::f16:
    return 16;
  case MmaKind::tf32:
    return 8;
  case MmaKind::mxf4:
  case MmaKind::mxf4nvf4:
    return 64;
  default:
    return 32;
  }
}

struct InstrDesc {
  MmaKind kind = MmaKind::f16;
  int m = 0; // of the pair for cta_group::2
  int n = 0;
  int k = 0;
  MmaType a = MmaType::f16, b = MmaType::f16;
  MmaResult d = MmaResult::f32;
  bool saturate = false; // kind i8
  bool negate_a = false, negate_b = false;
  bool a_mn_major = false, b_mn_major = false;
  // Block-scaled kinds.
  ScaleType scale = ScaleType::ue8m0;
  int sfa_id = 0, sfb_id = 0; // byte of the scale word where the first scale lies
  int selector = 0;           // sparse f16 and tf32: sub-column of the metadata
  int max_shift = 0;          // .ws: columns that a reused B may be shifted by
};

// What the opcode says beside the kind.
struct InstrForm {
  int cta_group = 1;
  // Scales of a row for one instruction, 0 without scales. Each covers K / scales elements.
  int scales = 0;
  bool sparse = false;
  bool weights = false; // .ws
};

// Returns an empty string, or what is wrong with the descriptor. K = 96 is refused.
std::string decode_instr_desc(MmaKind kind, uint32_t desc, const InstrForm& form, InstrDesc& out);

} // namespace vgpu::tensor
