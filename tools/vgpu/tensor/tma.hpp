// Which bytes a tensor copy moves: the walk over the box of a tensor map (PTX ISA 5.5.3 to 5.5.7)
// as contiguous segments between global memory and swizzled shared memory.
//
// The segments serve loads, stores and reductions. In a load every byte of the box is in
// exactly one segment: data, fill (outside the tensor) or padding (holes that the padded sub-byte
// types leave in shared memory). In a store only data segments are visited: elements outside the
// tensor are not written, but for the rest of the last 16 bytes of a row.
#pragma once

#include "tools/vgpu/tensor/tensor_map.hpp"

#include <string>
#include <vector>

namespace vgpu::tensor {

enum class TmaMode : uint8_t { tile, gather4, scatter4, im2col, im2col_w, im2col_w128 };

struct TmaAccess {
  const TensorMap* map = nullptr;
  TmaMode mode = TmaMode::tile;
  bool store = false;  // shared to global
  bool reduce = false; // with `store`: cp.reduce
  // tile: one per dimension, innermost first; im2col: {c, w, h, d, n} cut to the rank;
  // gather4 and scatter4: {column, row0, row1, row2, row3}.
  int32_t coordinate[5] = {};
  uint16_t offset[3] = {}; // im2col offsets {w, h, d}; the W modes have that of w
  uint16_t halo = 0;       // W modes: pixels after all, or after every 32, of the column
  uint32_t shared = 0;     // absolute shared address of the box
};

enum class SegmentKind : uint8_t { data, fill, padding };

constexpr bool is_im2col(TmaMode mode) { return mode >= TmaMode::im2col; }
constexpr bool is_wide(TmaMode mode) { return mode > TmaMode::im2col; }

struct Segment {
  uint64_t global; // byte address; 0 unless `kind` is data
  uint32_t shared; // absolute shared address, swizzled
  uint32_t bytes;
  SegmentKind kind;
};

// Empty, or why this access is not allowed. Check before walking.
std::string check(const TmaAccess& access);

// Bytes the copy reports to its mbarrier: the true width of all elements of the box, those outside
// the tensor included and padding excluded.
uint64_t transaction_bytes(const TmaAccess& access);

// Bytes from the first to the last that the box takes in shared memory before swizzling, padding
// and gaps between rows included.
uint64_t shared_bytes(const TmaAccess& access);

// Whether rows follow one another in shared memory without gaps.
bool is_dense(const TmaAccess& access);

// 16 bytes of what elements outside the tensor read as. 5.5.3.3 does not name the bits of OOB-NaN;
// an H200 writes 0x7FF7 in every 16 bits, a NaN of all floating-point types.
void fill_pattern(const TensorMap& map, unsigned char (&out)[16]);

// Rounds loaded values of tf32 types to nearest even, as the TMA unit of an H200 does; a NaN
// becomes 0x7FFFE000. Other types, FLOAT32_FTZ among them, arrive as they are.
inline bool rounds_on_load(ElementType type) {
  return type == ElementType::tf32 || type == ElementType::tf32_ftz;
}
void round_loaded(unsigned char* values, size_t bytes);

// Ascending order of the box. The access must have passed check().
std::vector<Segment> segments(const TmaAccess& access);
// The same, not cut where a swizzle would: `shared` is the address before it.
std::vector<Segment> unswizzled_segments(const TmaAccess& access);

template <class Fn>
void for_each_segment(const TmaAccess& access, Fn&& fn) {
  for (const Segment& segment : segments(access)) fn(segment);
}

} // namespace vgpu::tensor
