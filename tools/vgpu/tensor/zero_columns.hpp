// The zero-column mask of tcgen05.mma.ws (PTX ISA 9.7.16.4.3): columns of B that count as zero, and
// a shift of the columns that are read.
#pragma once

#include "tools/vgpu/tensor/instr_desc.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace vgpu::tensor {

struct ZeroColumns {
  bool masked = false;
  uint32_t bank_columns = 0; // each quarter, half or all of N has a start and a first span
  uint32_t start[4] = {};
  bool zero_first[4] = {};
  uint32_t zeros = 1, used = 1; // lengths of the alternating spans
  uint32_t shift = 0;

  bool zero(uint32_t column) const {
    if (!masked) return false;
    const uint32_t bank = column / bank_columns;
    const uint32_t first = zero_first[bank] ? zeros : used;
    // The ISA does not say what a start beyond the first span does. Chosen: one column of the span
    // stays, as in a public emulator that was compared with an SM100.
    const uint32_t at = (column % bank_columns + std::min(start[bank], first - 1)) % (zeros + used);
    return zero_first[bank] ? at < zeros : at >= used;
  }
};

// Table 45 calls the spans the other way round than its own examples 2 to 4 and CUTLASS, whose
// skip span counts zeros: those are followed. Returns an empty string or what is wrong.
inline std::string decode_zero_columns(uint64_t bits, const InstrDesc& id, ZeroColumns& out) {
  auto field = [&](int low, int count) {
    return uint32_t(bits >> low & ((uint64_t(1) << count) - 1));
  };
  if (field(36, 3) || field(62, 2)) return "zero-column mask: reserved bits 36-38 or 62-63 are set";
  ZeroColumns z;
  z.masked = field(39, 1) != 0;
  z.bank_columns = uint32_t(id.n * id.m / 128);
  for (int i = 0; i < 4; ++i) {
    z.start[i] = field(8 * i, 8);
    z.zero_first[i] = field(32 + i, 1) != 0;
  }
  z.zeros = field(40, 8) + 1;
  z.used = field(48, 8) + 1;
  z.shift = field(56, 6);
  const uint32_t limit = id.m == 32 ? 16 : 32;
  if (z.shift > limit)
    return "zero-column mask: shift " + std::to_string(z.shift) + " is above " +
           std::to_string(limit) + ", the limit for M = " + std::to_string(id.m);
  out = z;
  return {};
}

} // namespace vgpu::tensor
