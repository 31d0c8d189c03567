// What an operand of a product is in memory, by its type.
#pragma once

#include "warpline/warpline.h"

#include <cstdint>
#include <string>

namespace warpline::gemm {

struct Format {
  const char* name;    // "WL_OPERAND_NVFP4"
  int bits;            // of an element
  int scale_block;     // elements of K that share a scale; 0: there are no scales
  int64_t k_unit;      // K is a multiple: rows start on 16 bytes, blocks are whole
  int64_t least_k = 1; // that is taken
};
// Of an enumerator.
const Format& format_of(wl_operand type);

inline bool known(wl_operand type) { return type >= WL_OPERAND_NVFP4 && type <= WL_OPERAND_MXFP4; }
// Of a number that may be no enumerator: as if it had no scales.
inline bool has_scales(wl_operand type) { return known(type) && format_of(type).scale_block != 0; }

// TMA unpacks the elements to bytes of shared memory, and wants addresses of 32 bytes.
inline bool unpacked(wl_operand type) {
  return type >= WL_OPERAND_MXFP6_E2M3 && type <= WL_OPERAND_MXFP4;
}

// Types of operands, a bit each.
constexpr uint32_t bit(wl_operand type) { return uint32_t{1} << type; }

// What a configuration multiplies, or a problem asks for.
struct Types {
  wl_operand a = WL_OPERAND_NVFP4, b = WL_OPERAND_NVFP4;
  wl_layout a_layout = WL_K_MAJOR, b_layout = WL_K_MAJOR;
  bool operator==(const Types&) const = default;

  bool mn_major() const { return a_layout != WL_K_MAJOR || b_layout != WL_K_MAJOR; }
};
inline bool known(wl_layout layout) { return layout == WL_K_MAJOR || layout == WL_MN_MAJOR; }
std::string name_of(const Types& types); // "WL_OPERAND_F16 (1), WL_OPERAND_NVFP4 (0)"

} // namespace warpline::gemm
