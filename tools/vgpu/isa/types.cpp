#include "tools/vgpu/isa/types.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vgpu::isa {

uint32_t type_bits(std::string_view word) {
  static constexpr std::pair<std::string_view, uint8_t> types[] = {
      {"b32", 32},     {"u32", 32},    {"s32", 32},    {"f32", 32},    {"b64", 64},
      {"u64", 64},     {"s64", 64},    {"f64", 64},    {"b16", 16},    {"u16", 16},
      {"s16", 16},     {"f16", 16},    {"bf16", 16},   {"b8", 8},      {"u8", 8},
      {"s8", 8},       {"b128", 128},  {"pred", 1},    {"f16x2", 32},  {"bf16x2", 32},
      {"tf32", 32},    {"f32x2", 64},  {"u16x2", 32},  {"s16x2", 32},  {"e4m3x2", 16},
      {"e5m2x2", 16},  {"e2m3x2", 16}, {"e3m2x2", 16}, {"e2m1x2", 8},  {"ue8m0x2", 16},
      {"e4m3x4", 32},  {"e5m2x4", 32}, {"e2m3x4", 32}, {"e3m2x4", 32}, {"e2m1x4", 16},
      {"e4m3", 8},     {"e5m2", 8},    {"e2m1", 4},    {"texref", 64}, {"samplerref", 64},
      {"surfref", 64},
  };
  for (const auto& [name, bits] : types)
    if (name == word) return bits;
  return 0;
}

uint32_t class_bytes(exec::RegClass cls) {
  switch (cls) {
  case exec::RegClass::Pred:
    return 4;
  case exec::RegClass::B32:
    return 32 * 4;
  case exec::RegClass::B64:
    return 32 * 8;
  case exec::RegClass::B128:
    return 32 * 16;
  }
  return 0;
}

const char* class_name(exec::RegClass cls) {
  switch (cls) {
  case exec::RegClass::Pred:
    return "a predicate";
  case exec::RegClass::B32:
    return "at most 32 bits";
  case exec::RegClass::B64:
    return "64 bits";
  case exec::RegClass::B128:
    return "128 bits";
  }
  return "";
}

uint64_t element_bytes(const ptx::Variable& v) {
  return std::max<uint64_t>(1, type_bits(v.type) / 8) * uint64_t(v.vector);
}

uint64_t variable_bytes(const ptx::Variable& v) {
  uint64_t n = element_bytes(v); // the parser bounds the product of the dimensions
  for (uint64_t d : v.dims) n *= d;
  return n * std::max(1u, v.range);
}

uint64_t variable_alignment(const ptx::Variable& v) {
  return std::max<uint64_t>(v.alignment, v.alignment ? 1 : element_bytes(v));
}

} // namespace vgpu::isa
