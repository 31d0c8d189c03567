// PTX type words (PTX ISA 5.2).
#pragma once

#include "tools/vgpu/exec/inst.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vgpu::isa {

// Bits of a value of the type; 0 when the word is no type.
uint32_t type_bits(std::string_view word);
inline bool is_type(std::string_view word) { return type_bits(word) != 0; }

inline exec::RegClass class_of_bits(uint32_t bits) {
  return bits == 1    ? exec::RegClass::Pred
         : bits <= 32 ? exec::RegClass::B32
         : bits == 64 ? exec::RegClass::B64
                      : exec::RegClass::B128;
}
uint32_t class_bytes(exec::RegClass cls);   // of the whole register, 32 lanes
const char* class_name(exec::RegClass cls); // "a predicate", "32 bits", ...

// Element size in bytes and natural alignment of a variable, its total size. 0 for an unsized one.
uint64_t element_bytes(const ptx::Variable& v);
uint64_t variable_bytes(const ptx::Variable& v);
uint64_t variable_alignment(const ptx::Variable& v);

inline uint64_t align_up(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }

} // namespace vgpu::isa
