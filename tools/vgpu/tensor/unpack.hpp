// 16 values of 4 or 6 bits at the head of 16 bytes, spread to a byte each (PTX ISA 9.7.16.9.1).
#pragma once

#include <cstdint>

namespace vgpu::tensor {

// Value i, `bits` wide, goes to bits low .. low + bits - 1 of byte i; the others are 0.
inline void unpack_unit(uint32_t bits, uint32_t low, const uint8_t* from, uint8_t* to) {
  const uint32_t mask = (1u << bits) - 1;
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t bit = bits * i, two = from[bit / 8] | uint32_t(from[bit / 8 + 1]) << 8;
    to[i] = uint8_t((two >> bit % 8 & mask) << low);
  }
}

} // namespace vgpu::tensor
