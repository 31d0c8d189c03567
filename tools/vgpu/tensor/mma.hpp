// The arithmetic of the matrix engine: D[M,N] (+)= A[M,K] * B[N,K]^T for one instruction.
//
// Operands are dense K-major buffers (mma_operand.hpp gathers them), D is row-major with leading
// dimension `ld` in words, which may be tensor memory itself or a wgmma fragment laid out by the
// caller. Every NaN result is the canonical 0x7FFFFFFF.
//
// How the hardware rounds inside an instruction is not documented. Status of each choice:
//
//   block-scaled FP4   chosen: the products of a scale block (16 or 32 along K) are summed exactly,
//                      times scale A times scale B (exact), added to the FP32 accumulator with one
//                      rounding to nearest even; blocks in ascending K
//   mxf8f6f4           chosen: the same with one block of 32, the whole K of the instruction
//   plain kinds        a parameter, see Accumulation
//   integer, bits      exact (PTX ISA: wrap around, or saturate)
#pragma once

#include "tools/vgpu/tensor/instr_desc.hpp"

#include <cstddef>
#include <cstdint>

namespace vgpu::tensor {

// ---- block-scaled FP4: kind::mxf4 and kind::mxf4nvf4

struct ScaledOperand {
  const unsigned char* values = nullptr; // packed e2m1, low nibble first
  ptrdiff_t row_bytes = 32;              // from row to row
  const float* scales = nullptr;         // decoded, [rows][k / block]
  ptrdiff_t scale_stride = 4;            // floats from row to row
  bool negate = false;
};

// k is 64 for one instruction, 128 with a sparse A; any multiple of `block` (16, 32 or 64) up to
// 256 works. A NaN scale makes its row (A) or column (B) NaN, and nothing else.
void mma_block_scaled(const ScaledOperand& a, const ScaledOperand& b, int m, int n, int k,
                      int block, float* d, ptrdiff_t ld, bool accumulate);

// The code paths of mma_block_scaled, for tests and for measuring: all give the same bits.
enum class Fp4Path : uint8_t { best, scalar, vector, avx2, avx512 };
bool has_path(Fp4Path path);
void mma_block_scaled(Fp4Path path, const ScaledOperand& a, const ScaledOperand& b, int m, int n,
                      int k, int block, float* d, ptrdiff_t ld, bool accumulate);

// ---- plain kinds, tcgen05 and wgmma

enum class Accumulation : uint8_t {
  // All products of the instruction and the accumulator summed exactly, rounded once (to nearest
  // even). "chosen"
  exact,
  // FP32 fused multiply-adds in ascending K.
  sequential_fma,
  // Products and accumulator aligned to the largest exponent of them (of a product: the sum of its
  // operands' exponents), cut toward zero after `fraction_bits` bits below it, summed, and the sum
  // cut toward zero to `result_bits` mantissa bits. See hopper_accumulation().
  aligned_truncation,
};

// How elements narrower than a byte lie in the operand buffer.
enum class Packing : uint8_t {
  natural,  // bytes and wider: element after element
  padded16, // shared memory: 16 elements packed at the head of every 16 bytes
  holders,  // tensor memory: a byte each, e2m1 in bits 5-2, 6-bit types in bits 5-0
};

struct PlainMma {
  int m = 0, n = 0, k = 0;
  MmaType a = MmaType::f16, b = MmaType::f16;
  MmaResult d = MmaResult::f32; // f16: the words of D hold f16 values as f32, rounded to f16
  bool negate_a = false, negate_b = false;
  bool accumulate = true;
  int scale_d = 0; // D * 2^-scale_d before accumulating
  // Sparse A: its rows hold k / 2 values; kept[row * k / 2 + i] is the K of value i. The zeros
  // between them meet nothing: an Inf in B opposite one is not seen.
  const unsigned char* kept = nullptr;
  Packing a_packing = Packing::natural, b_packing = Packing::natural;
  Accumulation accumulation = Accumulation::exact;
  int fraction_bits = 25; // of aligned_truncation, at most 28
  int result_bits = 23;   // of aligned_truncation
};

// What wgmma into f32 does on an H200, as measured by tests/hardware/oracle_wgmma.cpp: truncation
// with 25 bits for f16, bf16 and tf32; with 13, and 13 of the sum, for e4m3 and e5m2.
void hopper_accumulation(PlainMma& op);

// Operand rows follow each other at row_bytes(type, k).
int row_bytes(MmaType type, Packing packing, int k);

void mma_plain(const PlainMma& op, const unsigned char* a, const unsigned char* b, float* d,
               ptrdiff_t ld);

// kind::mxf8f6f4: one scale per row of A and of B. op.accumulation is not looked at.
void mma_mxf8(const PlainMma& op, const unsigned char* a, const unsigned char* b,
              const float* scale_a, const float* scale_b, float* d, ptrdiff_t ld);

// 8-bit integers into s32; `saturate` clamps, else the sum wraps around. b1: D += popc(A & B).
void mma_integer(const PlainMma& op, bool saturate, const unsigned char* a, const unsigned char* b,
                 int32_t* d, ptrdiff_t ld);

// Decodes one operand row to floats (exact).
void decode_row(MmaType type, Packing packing, const unsigned char* row, int k, float* out);

} // namespace vgpu::tensor
