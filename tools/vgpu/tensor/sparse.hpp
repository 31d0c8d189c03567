// Structured sparse A: half of the K values of a row are stored, and a 4-bit code for each chunk
// names the ones that are (PTX ISA 9.7.14.6.1, 9.7.15.6.1, 9.7.16.10.8).
#pragma once

#include "tools/vgpu/tensor/instr_desc.hpp"

#include <algorithm>
#include <cstdint>

namespace vgpu::tensor {

enum class Sparsity : uint8_t {
  one_of_two,    // tf32
  two_of_four,   // types of 16 and 8 bits, and the narrow types of kind::f8f6f4 and mxf8f6f4
  two_pairs_of_8 // packed e2m1: kind::mxf4 and mxf4nvf4
};

constexpr Sparsity sparsity_of(MmaKind kind) {
  return kind == MmaKind::tf32                                ? Sparsity::one_of_two
         : kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4 ? Sparsity::two_pairs_of_8
                                                              : Sparsity::two_of_four;
}

// The same by the size of an element, where the types of a size agree: warps and warpgroups.
constexpr Sparsity sparsity_of_bits(int bits) {
  return bits == 32  ? Sparsity::one_of_two
         : bits == 4 ? Sparsity::two_pairs_of_8
                     : Sparsity::two_of_four;
}

// K values that a chunk covers, and how many of them are stored.
constexpr int chunk_k(Sparsity s) {
  return s == Sparsity::one_of_two ? 2 : s == Sparsity::two_of_four ? 4 : 8;
}

// Who reads the codes: warps and warpgroups take every pair of different positions, with
// ordered_metadata only 0100 1000 1001 1100 1101 1110, and tcgen05 these and 0110. For tf32 all
// take 0100 and 1110.
enum class CodeSet : uint8_t { any_pair, ordered, tcgen05 };

// The codes with a meaning, a bit for each.
constexpr uint32_t meaningful_codes(Sparsity s, CodeSet set) {
  return s == Sparsity::one_of_two  ? 0x4010
         : set == CodeSet::any_pair ? 0x7BDE
         : set == CodeSet::ordered  ? 0x7310
                                    : 0x7350;
}

// Codes of chunks whose stored values are zero do not matter: compressors leave them zero, too.
inline bool all_zero(const uint8_t* values, size_t bytes) {
  return std::all_of(values, values + bytes, [](uint8_t v) { return v == 0; });
}

// Writes the positions of the stored values of chunk `chunk` in their order, as K of the whole row.
inline void kept_positions(Sparsity s, uint32_t code, int chunk, uint8_t* out) {
  const int base = chunk * chunk_k(s);
  const int first = int(code & 3), second = int(code >> 2 & 3);
  auto put = [&](int position) { *out++ = uint8_t(base + position); };
  switch (s) {
  case Sparsity::one_of_two:
    put(code == 0xE ? 1 : 0);
    break;
  case Sparsity::two_of_four:
    put(first);
    put(second);
    break;
  case Sparsity::two_pairs_of_8:
    for (int pair : {first, second}) {
      put(2 * pair);
      put(2 * pair + 1);
    }
    break;
  }
}

// Where tensor memory holds the code of a chunk, for the row of A that is multiplied in lane
// `lane`: lane, column from the operand's and 4-bit place in the word (9.7.16.10.8.4, whose figures
// CUTLASS spells out as layouts).
struct CodePlace {
  uint32_t lane, column, nibble;
};
constexpr CodePlace code_place(MmaKind kind, uint32_t lane, uint32_t chunk, uint32_t selector) {
  if (kind == MmaKind::f16 || kind == MmaKind::tf32)
    return {lane / 16 * 16 + lane % 8 + 8 * (chunk / 4), selector, 4 * (lane % 16 / 8) + chunk % 4};
  return {lane, chunk / 8, chunk % 8};
}

// The same in the metadata registers of a warp, for row `row` of its 16, which have `chunks` chunks
// each (9.7.14.6.2, 9.7.15.6.2): lane and 4-bit place. The codes fill one, two or four of every
// four lanes; the selector says which. With types of 16 and 32 bits a lane holds four chunks of
// rows r and r + 8, else eight of one row.
struct CodeLane {
  uint32_t lane, nibble;
};
constexpr uint32_t code_lanes(uint32_t chunks) { return chunks / 4; } // of every four
constexpr CodeLane code_lane(int bits, uint32_t row, uint32_t chunk, uint32_t chunks,
                             uint32_t selector) {
  const uint32_t first = 4 * (row % 8) + code_lanes(chunks) * selector;
  if (bits >= 16) return {first + chunk / 4, 4 * (row / 8) + chunk % 4};
  return {first + row / 8 + 2 * (chunk / 8), chunk % 8};
}

} // namespace vgpu::tensor
