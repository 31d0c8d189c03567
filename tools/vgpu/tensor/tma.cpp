#include "tools/vgpu/tensor/tma.hpp"

#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vgpu::tensor {
namespace {

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
void clip(int64_t start, uint32_t count, uint64_t dim, uint32_t& first, uint32_t& last) {
  int64_t low = std::clamp<int64_t>(-start, 0, count);
  int64_t high = std::clamp<int64_t>(int64_t(dim) - start, low, count);
  first = uint32_t(low);
  last = uint32_t(high);
}

uint64_t row_address(const TensorMap& map, uint64_t base, int64_t start, uint32_t first) {
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
uint32_t row_elements(const TmaAccess& access) {
  return is_im2col(access.mode) ? access.map->channels_per_pixel : access.map->box[0];
}

// Shared bytes of one row, padding included.
uint32_t row_bytes(const TmaAccess& access) {
  uint32_t elements = row_elements(access);
  if (is_padded(access.map->type)) return elements;
  return elements * uint32_t(element_bits(access.map->type)) / 8;
}

// From row to row: without gaps, but a row narrower than the swizzle's span takes the whole span
// and leaves the rest of it alone (measured on an H200).
uint32_t row_pitch(const TmaAccess& access) {
  return std::max(row_bytes(access), swizzle_span(access.map->swizzle()));
}

template <Swizzle S>
std::vector<Segment> walk(const TmaAccess& access) {
  std::vector<Segment> segments;
  segments.reserve(256);
  auto fn = [&](const Segment& segment) { segments.push_back(segment); };
  uint32_t elements = row_elements(access);
  uint32_t pitch = row_pitch(access);
  uint32_t shared = access.shared;
  for_each_row(access, [&](const Row& row) {
    emit_row<S>(*access.map, row, elements, shared, access.store, fn);
    shared += pitch;
  });
  return segments;
}

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
           uint64_t(a.halo) * (a.mode == TmaMode::im2col_w128 ? kQuarters : 1);
  uint64_t rows = 1;
  for (int i = 1; i < m.rank; ++i)
    rows *= (m.box[i] + m.element_stride[i] - 1) / m.element_stride[i];
  return rows;
}

} // namespace

uint64_t transaction_bytes(const TmaAccess& a) {
  return rows_of(a) * row_elements(a) * uint64_t(element_bits(a.map->type)) / 8;
}

uint64_t shared_bytes(const TmaAccess& a) { return rows_of(a) * row_pitch(a); }

bool is_dense(const TmaAccess& a) { return row_pitch(a) == row_bytes(a); }

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

std::vector<Segment> segments(const TmaAccess& access) {
  switch (access.map->swizzle()) {
  case Swizzle::none:
    break;
  case Swizzle::b32:
    return walk<Swizzle::b32>(access);
  case Swizzle::b64:
    return walk<Swizzle::b64>(access);
  case Swizzle::b96:
    return walk<Swizzle::b96>(access);
  case Swizzle::b128:
    return walk<Swizzle::b128>(access);
  case Swizzle::b128_atom32:
    return walk<Swizzle::b128_atom32>(access);
  case Swizzle::b128_atom32_flip8:
    return walk<Swizzle::b128_atom32_flip8>(access);
  case Swizzle::b128_atom64:
    return walk<Swizzle::b128_atom64>(access);
  }
  return unswizzled_segments(access);
}

std::vector<Segment> unswizzled_segments(const TmaAccess& access) {
  return walk<Swizzle::none>(access);
}

} // namespace vgpu::tensor
