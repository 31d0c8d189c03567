// Shared-memory swizzles (PTX ISA 5.5.7). TMA and the matrix engine apply the same function, and
// both apply it to absolute shared addresses, so a tile may start anywhere inside a pattern.
#pragma once

#include <cstdint>

namespace vgpu::tensor {

enum class Swizzle : uint8_t {
  none,
  b32,
  b64,
  b96,
  b128,
  b128_atom32,       // 128 bytes, chunks of 32 bytes stay whole
  b128_atom32_flip8, // the same, and the 8-byte halves of every 16 bytes swap on odd lines
  b128_atom64,       // 128 bytes, chunks of 64 bytes stay whole
};

// Address after swizzling. Lines are 128 bytes: bits 7 and up select the line of the pattern.
constexpr uint32_t swizzle_address(Swizzle swizzle, uint32_t address) {
  switch (swizzle) {
  case Swizzle::none:
    return address;
  case Swizzle::b32:
  case Swizzle::b96:
    return address ^ (address >> 3 & 0x10); // bit 4 ^= bit 7
  case Swizzle::b64:
    return address ^ (address >> 3 & 0x30); // bits 4-5 ^= bits 7-8
  case Swizzle::b128:
    return address ^ (address >> 3 & 0x70); // bits 4-6 ^= bits 7-9
  case Swizzle::b128_atom32:
    return address ^ (address >> 2 & 0x60); // bits 5-6 ^= bits 7-8
  case Swizzle::b128_atom32_flip8:
    return address ^ (address >> 2 & 0x60) ^ (address >> 4 & 0x08); // and bit 3 ^= bit 7
  case Swizzle::b128_atom64:
    return address ^ (address >> 1 & 0x40); // bit 6 ^= bit 7
  }
  return address;
}

// Bytes that stay contiguous and in order for every address: the granule a copy is cut into.
// For `none` there is no limit, expressed as 0.
constexpr uint32_t swizzle_granule(Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::none:
    return 0;
  case Swizzle::b128_atom32:
    return 32;
  case Swizzle::b128_atom32_flip8:
    return 8;
  case Swizzle::b128_atom64:
    return 64;
  default:
    return 16;
  }
}

// Largest inner box size in bytes (0: no limit), and the bytes after which the pattern repeats,
// which is also the natural alignment of a tile.
constexpr uint32_t swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::none:
    return 0;
  case Swizzle::b32:
    return 32;
  case Swizzle::b64:
    return 64;
  case Swizzle::b96:
    return 96;
  default:
    return 128;
  }
}

constexpr uint32_t swizzle_period(Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::none:
    return 16;
  case Swizzle::b32:
  case Swizzle::b96:
  case Swizzle::b128_atom64:
    return 256;
  case Swizzle::b64:
  case Swizzle::b128_atom32:
  case Swizzle::b128_atom32_flip8:
    return 512;
  case Swizzle::b128:
    return 1024;
  }
  return 16;
}

constexpr const char* swizzle_name(Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::none:
    return "none";
  case Swizzle::b32:
    return "32B";
  case Swizzle::b64:
    return "64B";
  case Swizzle::b96:
    return "96B";
  case Swizzle::b128:
    return "128B";
  case Swizzle::b128_atom32:
    return "128B with 32B atoms";
  case Swizzle::b128_atom32_flip8:
    return "128B with 32B atoms and 8B flip";
  case Swizzle::b128_atom64:
    return "128B with 64B atoms";
  }
  return "?";
}

} // namespace vgpu::tensor
