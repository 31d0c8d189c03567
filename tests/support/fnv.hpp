// FNV-1a of 64 bits: names for texts that are the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace wltest {

constexpr uint64_t fnv_basis = 0xCBF29CE484222325;

constexpr uint64_t fnv_step(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x100000001B3;
}

// Goes on from `hash`.
constexpr uint64_t fnv(std::string_view text, uint64_t hash = fnv_basis) {
  for (const char c : text) hash = fnv_step(hash, static_cast<uint8_t>(c));
  return hash;
}

} // namespace wltest
