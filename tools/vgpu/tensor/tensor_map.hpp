// The virtual GPU's own encoding of the 128-byte CUtensorMap: the arguments of cuTensorMapEncode*
// under CUDA's validity rules, decoding, and the field setters of `tensormap.replace`.
//
// The encoding is marked and summed: a map that was not made here, or that a stray store changed,
// does not decode. It shares nothing with NVIDIA's private encoding.
#pragma once

#include "tools/vgpu/tensor/swizzle.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace vgpu::tensor {

inline constexpr size_t kTensorMapBytes = 128;

// Values of CUtensorMapDataType.
enum class ElementType : uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  b4x16,     // 16U4_ALIGN8B: packed in global and in shared memory
  b4x16_p64, // 16U4_ALIGN16B: 16 values in 8 bytes, then 8 bytes of padding in shared memory
  b6x16_p32, // 16U6_ALIGN16B: 16 values in 12 bytes, then 4 bytes of padding in shared memory
};

enum class MapMode : uint8_t { tiled, im2col, im2col_w, im2col_w128 };
enum class Interleave : uint8_t { none, b16, b32 };
enum class OobFill : uint8_t { zero, nan };

constexpr int kElementTypes = 16;
const char* element_type_name(ElementType type);
// Bits of one element in global memory: 4 and 6 for the packed types.
int element_bits(ElementType type);
bool is_floating(ElementType type);
// 16U4_ALIGN16B and 16U6_ALIGN16B: 16 values take 16 bytes of shared memory.
inline bool is_padded(ElementType type) {
  return type == ElementType::b4x16_p64 || type == ElementType::b6x16_p32;
}
inline bool is_sub_byte(ElementType type) { return type >= ElementType::b4x16; }

struct TensorMap {
  MapMode mode = MapMode::tiled;
  ElementType type = ElementType::u8;
  int rank = 1;
  uint64_t address = 0;
  uint64_t dim[5] = {1, 1, 1, 1, 1}; // elements
  uint64_t stride[4] = {};           // bytes, of dimensions 1 to rank-1
  uint32_t box[5] = {1, 1, 1, 1, 1}; // tiled: elements
  uint32_t element_stride[5] = {1, 1, 1, 1, 1};
  Interleave interleave = Interleave::none;
  uint8_t swizzle_mode = 0;      // 0 none, 1 32B, 2 64B, 3 128B, 4 96B
  uint8_t swizzle_atomicity = 0; // 0 16B, 1 32B, 2 32B with 8B flip, 3 64B
  uint8_t l2_promotion = 0;
  OobFill fill = OobFill::zero;
  // im2col, in the order W, H, D.
  int32_t lower[3] = {};
  int32_t upper[3] = {};
  uint32_t channels_per_pixel = 0;
  uint32_t pixels_per_column = 0;

  Swizzle swizzle() const;
};

// What the encoders of all modes are called with, as it comes through the driver API.
struct MapArguments {
  int type = 0;
  uint32_t rank = 0;
  const void* address = nullptr;
  const uint64_t* dim = nullptr;
  const uint64_t* stride = nullptr;
  const uint32_t* element_stride = nullptr;
  int interleave = 0;
  int swizzle = 0;
  int l2_promotion = 0;
  int fill = 0;
};

// Arguments of cuTensorMapEncodeTiled.
struct TiledArguments : MapArguments {
  const uint32_t* box = nullptr;
};

// Arguments of cuTensorMapEncodeIm2col; the corners in CUDA's order {D, H, W}, rank - 2 of them.
// cuTensorMapEncodeIm2colWide: `wide` 1 (W) or 2 (W128), one corner each.
struct Im2colArguments : MapArguments {
  const int* lower = nullptr;
  const int* upper = nullptr;
  uint32_t channels_per_pixel = 0;
  uint32_t pixels_per_column = 0;
  int wide = 0;
};

// Each returns an empty string, or one sentence per violated rule and leaves `out` untouched.
// `compute_capability` is 10 * major + minor: sub-byte types and swizzle atoms need 100.
std::string encode_tiled(const TiledArguments& arguments, int compute_capability, void* out);
std::string encode_im2col(const Im2colArguments& arguments, int compute_capability, void* out);
std::string replace_address(void* map, const void* address);

// Writes a map as it is, valid or not; the checks of the encoders are in validate().
void store(const TensorMap& map, void* out);
std::string validate(const TensorMap& map);

// Decodes 128 bytes. The error says what is wrong with them.
std::string load(const void* bytes, TensorMap& out);
// The same for tensormap.replace, which makes a map of zeros, too.
std::string load_to_replace(const void* bytes, TensorMap& out);

// tensormap.replace (PTX ISA 9.7.9.28). A map may be invalid between two replacements, so only
// the replaced value is checked; validate() says whether the result can be used.
enum class MapField : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  swizzle_atomicity,
  fill_mode,
};

// `ordinal` counts from 0: dimension for box_dim, global_dim and element_stride; for global_stride
// ordinal 0 is the stride of dimension 1. `value` is what the instruction carries: rank - 1, bytes
// for strides, codes of Table 33 for the last five. A 32-bit global_dim of 0 stands for 2^32.
std::string replace_field(TensorMap& map, MapField field, int ordinal, uint64_t value);

} // namespace vgpu::tensor
