#include "tools/vgpu/tensor/tma.hpp"

#include "tools/vgpu/num/formats.hpp"

#include <cstdio>
#include <cstring>

namespace vgpu::tensor {
namespace {

template <class... T>
std::string sentence(const char* format, T... values) {
  char line[320];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

std::string check_mode(const TmaAccess& a) {
  const TensorMap& m = *a.map;
  static const char* const kMapName[] = {"tiled", "im2col", "im2col wide (W)",
                                         "im2col wide (W128)"};
  MapMode needed = MapMode::tiled;
  switch (a.mode) {
  case TmaMode::tile:
  case TmaMode::gather4:
  case TmaMode::scatter4:
    break;
  case TmaMode::im2col:
    needed = MapMode::im2col;
    break;
  case TmaMode::im2col_w:
    needed = MapMode::im2col_w;
    break;
  case TmaMode::im2col_w128:
    needed = MapMode::im2col_w128;
    break;
  }
  if (m.mode != needed)
    return sentence("the tensor map is %s, this access needs %s", kMapName[int(m.mode)],
                    kMapName[int(needed)]);
  if (a.mode == TmaMode::gather4 || a.mode == TmaMode::scatter4) {
    if (m.rank != 2) return sentence("tile::gather4 and scatter4 need rank 2, not %d", m.rank);
    if (m.box[1] != 1)
      return sentence("tile::gather4 and scatter4 need boxDim[1] = 1, not %u", m.box[1]);
    if ((a.mode == TmaMode::scatter4) != a.store)
      return "tile::gather4 loads and tile::scatter4 stores, not the other way round";
  }
  return {};
}

std::string check_im2col(const TmaAccess& a) {
  const TensorMap& m = *a.map;
  static const char* const kAxis[] = {"W", "H", "D"};
  for (int i = 0; i < m.rank - 2; ++i) {
    int64_t high = int64_t(m.dim[1 + i]) - 1 + m.upper[i];
    int32_t at = a.coordinate[1 + i];
    if (at < m.lower[i] || at > high)
      return sentence("im2col: coordinate %s = %d is outside the bounding box %d..%lld", kAxis[i],
                      at, m.lower[i], static_cast<long long>(high));
    uint32_t limit = m.rank == 3 ? 0xFFFF : m.rank == 4 ? 0xFF : 0x1F;
    if (a.offset[i] > limit)
      return sentence("im2col: offset %s = %u is outside 0..%u", kAxis[i], unsigned(a.offset[i]),
                      limit);
    if (a.store && (m.lower[i] < 0 || m.upper[i] > 0))
      return sentence("im2col store: the box along %s must stay inside the tensor, its corners "
                      "are %d and %d",
                      kAxis[i], m.lower[i], m.upper[i]);
  }
  return {};
}

// The first pixel may lie outside the bounding box, to its left. 9.7.9.27.1.2: ranges of the
// im2colInfo operand.
std::string check_wide(const TmaAccess& a) {
  const TensorMap& m = *a.map;
  const int64_t high = int64_t(m.dim[1]) - 1 + m.upper[0];
  const unsigned limit = a.mode == TmaMode::im2col_w ? 511 : 31;
  if (a.coordinate[1] > high)
    return sentence("im2col::w: coordinate W = %d is right of the bounding box %d..%lld",
                    a.coordinate[1], m.lower[0], static_cast<long long>(high));
  if (a.halo > limit)
    return sentence("im2col::w: wHalo = %u is outside 0..%u", unsigned(a.halo), limit);
  if (a.offset[0] > 31)
    return sentence("im2col::w: wOffset = %u is outside 0..31", unsigned(a.offset[0]));
  return {};
}

} // namespace

std::string check(const TmaAccess& a) {
  const TensorMap& m = *a.map;
  std::string error = validate(m);
  if (!error.empty()) return "invalid tensor map: " + error;
  error = check_mode(a);
  if (!error.empty()) return error;
  if (m.interleave != Interleave::none)
    return "interleaved layouts (16B, 32B) are not modelled: PTX ISA 5.5.6 does not say how "
           "coordinates and strides count slices";
  if (a.shared % 128 != 0)
    return sentence("shared address 0x%x is %u modulo 128, must be 128-byte aligned", a.shared,
                    a.shared % 128);
  int32_t inner = a.coordinate[0];
  if (is_padded(m.type) && inner % 128 != 0)
    return sentence("coordinate 0 = %d must be a multiple of 128 for %s", inner,
                    element_type_name(m.type));
  if (m.type == ElementType::b4x16 && inner % 2 != 0)
    return sentence("coordinate 0 = %d must be even for %s", inner, element_type_name(m.type));
  int64_t from_row = int64_t(inner) * element_bits(m.type) / 8;
  if (!is_sub_byte(m.type) && from_row % 16 != 0)
    return sentence("coordinate 0 = %d is byte %lld of a row: must be a multiple of 16 bytes (an "
                    "H200 ends with an illegal instruction)",
                    inner, static_cast<long long>(from_row));
  if (a.store) {
    if (is_padded(m.type) && !a.reduce)
      return sentence("a store cannot use %s%s", element_type_name(m.type),
                      m.type == ElementType::b6x16_p32 ? " here: packing .b6p2x16 is not modelled"
                                                       : " (PTX ISA 9.7.9.27.1.1)");
    if (a.reduce && is_sub_byte(m.type))
      return sentence("a reduction cannot use %s", element_type_name(m.type));
    int coordinates = a.mode == TmaMode::scatter4 ? 5 : m.rank;
    for (int i = 0; i < coordinates; ++i) {
      if (a.coordinate[i] < 0)
        return sentence("coordinate %d = %d: a store needs coordinates of 0 and above", i,
                        a.coordinate[i]);
    }
  }
  if (a.mode == TmaMode::im2col) return check_im2col(a);
  if (is_wide(a.mode)) return check_wide(a);
  return {};
}

namespace {

uint64_t rows_of(const TmaAccess& a) {
  const TensorMap& m = *a.map;
  if (a.mode == TmaMode::gather4 || a.mode == TmaMode::scatter4) return 4;
  if (is_im2col(a.mode))
    return m.pixels_per_column +
           uint64_t(a.halo) * (a.mode == TmaMode::im2col_w128 ? detail::kQuarters : 1);
  uint64_t rows = 1;
  for (int i = 1; i < m.rank; ++i)
    rows *= (m.box[i] + m.element_stride[i] - 1) / m.element_stride[i];
  return rows;
}

} // namespace

uint64_t transaction_bytes(const TmaAccess& a) {
  return rows_of(a) * detail::row_elements(a) * uint64_t(element_bits(a.map->type)) / 8;
}

uint64_t shared_bytes(const TmaAccess& a) { return rows_of(a) * detail::row_pitch(a); }

bool is_dense(const TmaAccess& a) { return detail::row_pitch(a) == detail::row_bytes(a); }

void round_loaded(unsigned char* values, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 4) {
    float value;
    std::memcpy(&value, values + i, 4);
    uint32_t code = num::encode(num::Format::tf32, value);
    std::memcpy(values + i, &code, 4);
  }
}

void fill_pattern(const TensorMap& map, unsigned char (&out)[16]) {
  std::memset(out, 0, sizeof out);
  if (map.fill == OobFill::zero) return;
  for (int i = 0; i < 16; ++i) out[i] = i % 2 ? 0x7F : 0xF7;
}

} // namespace vgpu::tensor
