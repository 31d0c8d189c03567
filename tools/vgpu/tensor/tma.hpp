// Which bytes a tensor copy moves: the walk over the box of a tensor map (PTX ISA 5.5.3 to 5.5.7)
// as contiguous segments between global memory and swizzled shared memory.
//
// for_each_segment() serves loads, stores and reductions. In a load every byte of the box is in
// exactly one segment: data, fill (outside the tensor) or padding (holes that the padded sub-byte
// types leave in shared memory). In a store only data segments are visited: elements outside the
// tensor are not written, but for the rest of the last 16 bytes of a row.
#pragma once

#include "tools/vgpu/tensor/tensor_map.hpp"

#include <algorithm>
#include <string>

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

namespace detail {

// One row of the box: `elements` values along dimension 0, of which [first, last) are inside.
struct Row {
  uint64_t global; // address of element `first`
  uint32_t first, last;
};

template <Swizzle S, class Fn>
inline void emit(uint64_t global, uint32_t shared, uint32_t bytes, SegmentKind kind, Fn& fn) {
  if constexpr (S == Swizzle::none) {
    fn(Segment{global, shared, bytes, kind});
  } else {
    constexpr uint32_t granule = swizzle_granule(S);
    uint64_t step = kind == SegmentKind::data ? 1 : 0;
    Segment run{global, swizzle_address(S, shared), 0, kind};
    while (bytes != 0) {
      uint32_t count = std::min(bytes, granule - shared % granule);
      uint32_t at = swizzle_address(S, shared);
      if (run.shared + run.bytes != at) {
        fn(run);
        run = Segment{global, at, 0, kind};
      }
      run.bytes += count;
      global += step * count;
      shared += count;
      bytes -= count;
    }
    fn(run);
  }
}

// One row to segments. `shared` is the unswizzled address of the row.
template <Swizzle S, class Fn>
inline void emit_row(const TensorMap& map, const Row& row, uint32_t elements, uint32_t shared,
                     bool store, Fn& fn) {
  uint32_t bits = uint32_t(element_bits(map.type));
  if (is_padded(map.type)) {
    // 16 values in 8 or 12 bytes at the head of every 16. A row is whole inside or whole outside.
    uint32_t packed = 2 * bits;
    bool inside = row.last > row.first;
    for (uint32_t group = 0; group < elements / 16; ++group) {
      uint64_t global = inside ? row.global + uint64_t(group) * packed : 0;
      uint32_t at = shared + 16 * group;
      emit<S>(global, at, packed, inside ? SegmentKind::data : SegmentKind::fill, fn);
      emit<S>(0, at + packed, 16 - packed, SegmentKind::padding, fn);
    }
    return;
  }
  uint32_t head = row.first * bits / 8;
  uint32_t data = (row.last - row.first) * bits / 8;
  // Stores end on a unit of 16 bytes, beyond the tensor's edge (measured on an H200).
  if (store && !is_sub_byte(map.type)) data = std::min((data + 15) / 16 * 16, elements * bits / 8);
  uint32_t tail = elements * bits / 8 - head - data;
  if (head != 0 && !store) emit<S>(0, shared, head, SegmentKind::fill, fn);
  if (data != 0) emit<S>(row.global, shared + head, data, SegmentKind::data, fn);
  if (tail != 0 && !store) emit<S>(0, shared + head + data, tail, SegmentKind::fill, fn);
}

// The part of [start, start + count) inside [0, dim), as positions from `start`.
inline void clip(int64_t start, uint32_t count, uint64_t dim, uint32_t& first, uint32_t& last) {
  int64_t low = std::clamp<int64_t>(-start, 0, count);
  int64_t high = std::clamp<int64_t>(int64_t(dim) - start, low, count);
  first = uint32_t(low);
  last = uint32_t(high);
}

inline uint64_t row_address(const TensorMap& map, uint64_t base, int64_t start, uint32_t first) {
  return base + uint64_t(start + first) * uint64_t(element_bits(map.type)) / 8;
}

// Calls fn(row) for every row of the box in shared-memory order.
template <class Fn>
void for_each_row_tile(const TmaAccess& access, Fn&& fn) {
  const TensorMap& map = *access.map;
  uint32_t count[5] = {1, 1, 1, 1, 1};
  for (int i = 1; i < map.rank; ++i)
    count[i] = (map.box[i] + map.element_stride[i] - 1) / map.element_stride[i];
  uint32_t first, last;
  clip(access.coordinate[0], map.box[0], map.dim[0], first, last);
  uint32_t index[5] = {};
  for (;;) {
    bool inside = true;
    uint64_t base = map.address;
    for (int i = 1; i < map.rank; ++i) {
      int64_t at = int64_t(access.coordinate[i]) + int64_t(index[i]) * map.element_stride[i];
      inside = inside && at >= 0 && uint64_t(at) < map.dim[i];
      base += uint64_t(at) * map.stride[i - 1];
    }
    fn(inside ? Row{row_address(map, base, access.coordinate[0], first), first, last}
              : Row{0, 0, 0});
    int i = 1;
    while (i < map.rank && ++index[i] == count[i]) index[i++] = 0;
    if (i >= map.rank) return;
  }
}

template <class Fn>
void for_each_row_gather(const TmaAccess& access, Fn&& fn) {
  const TensorMap& map = *access.map;
  uint32_t first, last;
  clip(access.coordinate[0], map.box[0], map.dim[0], first, last);
  for (int i = 1; i <= 4; ++i) {
    int64_t at = access.coordinate[i];
    bool inside = at >= 0 && uint64_t(at) < map.dim[1];
    uint64_t base = map.address + uint64_t(at) * map.stride[0];
    fn(inside ? Row{row_address(map, base, access.coordinate[0], first), first, last}
              : Row{0, 0, 0});
  }
}

// Pixels run along W, then H, then D inside the bounding box [lower, dim - 1 + upper], then to the
// next image; the im2col offset moves every access (5.5.4). A new line starts at the lower corner.
// The W modes keep H and D (5.5.5).
class PixelWalk {
public:
  explicit PixelWalk(const TmaAccess& access) : access_(access), map_(*access.map) {
    clip(access.coordinate[0], map_.channels_per_pixel, map_.dim[0], first_, last_);
    spatial_ = map_.rank - 2;
    moving_ = is_wide(access.mode) ? 1 : spatial_;
    for (int i = 0; i < spatial_; ++i) at_[i] = access.coordinate[1 + i];
    image_ = access.coordinate[map_.rank - 1];
  }
  Row row() const {
    bool inside = image_ >= 0 && uint64_t(image_) < map_.dim[map_.rank - 1];
    uint64_t base = map_.address + uint64_t(image_) * map_.stride[map_.rank - 2];
    for (int i = 0; i < spatial_; ++i) {
      int64_t x = at_[i] + access_.offset[i];
      inside = inside && x >= 0 && uint64_t(x) < map_.dim[1 + i];
      base += uint64_t(x) * map_.stride[i];
    }
    if (!inside) return {0, 0, 0};
    return {row_address(map_, base, access_.coordinate[0], first_), first_, last_};
  }
  void step() {
    for (int i = 0; i < moving_; ++i) {
      at_[i] += map_.element_stride[1 + i];
      if (at_[i] <= int64_t(map_.dim[1 + i]) - 1 + map_.upper[i]) return;
      at_[i] = map_.lower[i];
    }
    ++image_;
  }

private:
  const TmaAccess& access_;
  const TensorMap& map_;
  int spatial_, moving_;
  uint32_t first_, last_;
  int64_t at_[3] = {}, image_;
};

// The pixels after the column's last, or of im2col::w::128 those after each of its four quarters,
// are its halo. Chosen, as the ISA has figures only: the walk goes on for them, and they lie after
// the column; of im2col::w::128 the first of all quarters, then the second of all. (So a tcgen05.cp
// of four rows brings one to each 32 lanes. A public emulator compared with an SM100 does the
// same.)
constexpr uint32_t kQuarters = 4, kQuarter = 32;

template <class Fn>
void for_each_row_im2col(const TmaAccess& access, Fn&& fn) {
  const bool quarters = access.mode == TmaMode::im2col_w128;
  const uint32_t pixels = access.map->pixels_per_column;
  Row halo[kQuarters * kQuarter];
  PixelWalk walk(access);
  for (uint32_t i = 0; i < pixels + access.halo; ++i, walk.step()) {
    const Row row = walk.row();
    if (i < pixels || !quarters) fn(row);
    if (!quarters) continue;
    // Position i is halo number i % 32 of the quarter before it, and perhaps of none.
    if (i >= kQuarter && i % kQuarter < access.halo)
      halo[i % kQuarter * kQuarters + i / kQuarter - 1] = row;
  }
  if (quarters)
    for (uint32_t i = 0; i < kQuarters * access.halo; ++i) fn(halo[i]);
}

template <class Fn>
void for_each_row(const TmaAccess& access, Fn&& fn) {
  switch (access.mode) {
  case TmaMode::gather4:
  case TmaMode::scatter4:
    for_each_row_gather(access, fn);
    return;
  case TmaMode::im2col:
  case TmaMode::im2col_w:
  case TmaMode::im2col_w128:
    for_each_row_im2col(access, fn);
    return;
  default:
    for_each_row_tile(access, fn);
    return;
  }
}

// Elements of one row of the box.
inline uint32_t row_elements(const TmaAccess& access) {
  return is_im2col(access.mode) ? access.map->channels_per_pixel : access.map->box[0];
}

// Shared bytes of one row, padding included.
inline uint32_t row_bytes(const TmaAccess& access) {
  uint32_t elements = row_elements(access);
  if (is_padded(access.map->type)) return elements;
  return elements * uint32_t(element_bits(access.map->type)) / 8;
}

// From row to row: without gaps, but a row narrower than the swizzle's span takes the whole span
// and leaves the rest of it alone (measured on an H200).
inline uint32_t row_pitch(const TmaAccess& access) {
  return std::max(row_bytes(access), swizzle_span(access.map->swizzle()));
}

template <Swizzle S, class Fn>
void walk(const TmaAccess& access, Fn& fn) {
  uint32_t elements = row_elements(access);
  uint32_t pitch = row_pitch(access);
  uint32_t shared = access.shared;
  for_each_row(access, [&](const Row& row) {
    emit_row<S>(*access.map, row, elements, shared, access.store, fn);
    shared += pitch;
  });
}

} // namespace detail

// Visits fn(const Segment&) in ascending order of the box. The access must have passed check().
template <class Fn>
void for_each_segment(const TmaAccess& access, Fn&& fn) {
  switch (access.map->swizzle()) {
  case Swizzle::none:
    return detail::walk<Swizzle::none>(access, fn);
  case Swizzle::b32:
    return detail::walk<Swizzle::b32>(access, fn);
  case Swizzle::b64:
    return detail::walk<Swizzle::b64>(access, fn);
  case Swizzle::b96:
    return detail::walk<Swizzle::b96>(access, fn);
  case Swizzle::b128:
    return detail::walk<Swizzle::b128>(access, fn);
  case Swizzle::b128_atom32:
    return detail::walk<Swizzle::b128_atom32>(access, fn);
  case Swizzle::b128_atom32_flip8:
    return detail::walk<Swizzle::b128_atom32_flip8>(access, fn);
  case Swizzle::b128_atom64:
    return detail::walk<Swizzle::b128_atom64>(access, fn);
  }
}

} // namespace vgpu::tensor
