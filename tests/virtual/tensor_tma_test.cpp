// The box walk of tensor copies against a byte-by-byte formulation.
#include "tests/support/catch.hpp"
#include "tools/vgpu/tensor/tma.hpp"

#include <cstring>
#include <map>
#include <random>
#include <vector>

using namespace vgpu::tensor;

namespace {

constexpr int64_t kFill = -1, kPadding = -2;

// What every shared byte holds: the global byte it comes from, kFill or kPadding.
using Picture = std::map<uint32_t, int64_t>;

Picture picture_of(const TmaAccess& access) {
  Picture picture;
  for_each_segment(access, [&](const Segment& s) {
    REQUIRE(s.bytes != 0);
    for (uint32_t i = 0; i < s.bytes; ++i) {
      int64_t what = s.kind == SegmentKind::data   ? int64_t(s.global + i)
                     : s.kind == SegmentKind::fill ? kFill
                                                   : kPadding;
      REQUIRE(picture.emplace(s.shared + i, what).second); // no byte twice
    }
  });
  return picture;
}

// One box element at a time: position in the tensor, inside or not, its bytes, their places.
Picture by_element(const TmaAccess& access) {
  const TensorMap& m = *access.map;
  int bits = element_bits(m.type);
  uint32_t count[5] = {m.box[0], 1, 1, 1, 1};
  for (int i = 1; i < m.rank; ++i)
    count[i] = (m.box[i] + m.element_stride[i] - 1) / m.element_stride[i];
  Picture picture;
  uint64_t linear = 0;
  // A row takes the span of the swizzle, even when it is narrower.
  uint32_t row_bytes = is_padded(m.type) ? m.box[0] : m.box[0] * uint32_t(bits) / 8;
  uint32_t pitch = std::max(row_bytes, swizzle_span(m.swizzle()));
  auto place = [&](uint64_t byte, int64_t what) {
    uint32_t at = uint32_t(byte) / row_bytes * pitch + uint32_t(byte) % row_bytes;
    picture[swizzle_address(m.swizzle(), access.shared + at)] = what;
  };
  // A store ends on a unit of 16 bytes.
  uint64_t inner = m.dim[0];
  if (access.store && bits >= 8)
    inner = (inner * uint64_t(bits) / 8 + 15) / 16 * 16 * 8 / uint64_t(bits);
  for (uint32_t i4 = 0; i4 < count[4]; ++i4)
    for (uint32_t i3 = 0; i3 < count[3]; ++i3)
      for (uint32_t i2 = 0; i2 < count[2]; ++i2)
        for (uint32_t i1 = 0; i1 < count[1]; ++i1)
          for (uint32_t i0 = 0; i0 < count[0]; ++i0, ++linear) {
            uint32_t index[5] = {i0, i1, i2, i3, i4};
            bool inside = true;
            uint64_t bit = 0;
            for (int d = 0; d < m.rank; ++d) {
              int64_t x = int64_t(access.coordinate[d]) +
                          int64_t(index[d]) * (d == 0 ? 1 : m.element_stride[d]);
              inside = inside && x >= 0 && uint64_t(x) < (d == 0 ? inner : m.dim[d]);
              bit += uint64_t(x) * (d == 0 ? uint64_t(bits) : m.stride[d - 1] * 8);
            }
            if (is_padded(m.type)) {
              // Packed byte p of group g lies at 16 g + p; whole bytes are enough as groups of 16
              // values are byte-aligned.
              uint64_t group = linear / 16, in_group = linear % 16;
              uint64_t first = in_group * uint64_t(bits) / 8;
              uint64_t last = ((in_group + 1) * uint64_t(bits) - 1) / 8;
              uint64_t group_global = m.address + (bit - in_group * uint64_t(bits)) / 8;
              for (uint64_t b = first; b <= last; ++b)
                place(16 * group + b, inside ? int64_t(group_global + b) : kFill);
              for (uint64_t b = uint64_t(bits) * 2; b < 16; ++b) place(16 * group + b, kPadding);
            } else if (bits == 4) {
              place(linear / 2, inside ? int64_t(m.address + bit / 8) : kFill);
            } else {
              uint64_t bytes = uint64_t(bits) / 8;
              for (uint64_t b = 0; b < bytes; ++b)
                place(linear * bytes + b, inside ? int64_t(m.address + bit / 8 + b) : kFill);
            }
          }
  return picture;
}

uint64_t count_kind(const Picture& picture, bool padding) {
  uint64_t n = 0;
  for (const auto& [at, what] : picture) n += (what == kPadding) == padding;
  return n;
}

} // namespace

TEST_CASE("tile boxes of random maps", "[virtual][tensor]") {
  std::mt19937 random(2024);
  auto below = [&](uint32_t n) { return uint32_t(random() % n); };
  int done = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    TensorMap m;
    m.type = ElementType(below(kElementTypes));
    m.rank = 1 + int(below(5));
    int bits = element_bits(m.type);
    bool padded = is_padded(m.type);
    m.address = 0x10000 + 32 * below(8);
    static const uint8_t kModes[][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0},
                                        {3, 1}, {3, 2}, {3, 3}, {4, 0}};
    const uint8_t* mode = kModes[below(8)];
    m.swizzle_mode = mode[0];
    m.swizzle_atomicity = mode[1];
    uint32_t span = swizzle_span(m.swizzle());
    if (span == 0) span = 256;
    m.box[0] = padded ? 128 : 128 / uint32_t(bits) * (1 + below(span / 16));
    m.dim[0] = padded ? 128 * (1 + below(3)) : 2 * (1 + below(200));
    uint64_t stride = (m.dim[0] * uint64_t(bits) / 8 + 31) / 32 * 32;
    for (int i = 1; i < m.rank; ++i) {
      m.dim[i] = 1 + below(9);
      m.box[i] = 1 + below(i < 3 ? 6 : 3);
      m.element_stride[i] = 1 + below(3);
      m.stride[i - 1] = stride + 32 * below(3);
      stride = m.stride[i - 1] * m.dim[i];
    }
    TmaAccess access;
    access.map = &m;
    access.shared = 0x1000000 + 128 * below(16);
    for (int i = 0; i < m.rank; ++i) access.coordinate[i] = int(below(12)) - 4;
    if (m.type == ElementType::b4x16)
      access.coordinate[0] = 2 * (int(below(200)) - 50);
    else if (padded)
      access.coordinate[0] = 128 * (int(below(5)) - 1);
    else
      access.coordinate[0] = 128 / bits * (int(below(40)) - 8);
    if (!validate(m).empty()) continue; // a swizzle this type cannot use
    INFO("trial " << trial << " type " << element_type_name(m.type) << " rank " << m.rank
                  << " swizzle " << swizzle_name(m.swizzle()) << " box0 " << m.box[0]);
    REQUIRE(check(access) == "");
    Picture got = picture_of(access);
    REQUIRE(got == by_element(access));
    if (is_dense(access))
      REQUIRE(shared_bytes(access) == got.size());
    else
      REQUIRE(shared_bytes(access) > got.size());
    REQUIRE(transaction_bytes(access) == count_kind(got, false));
    ++done;

    if (padded) continue;
    // A store of the same box moves the bytes inside.
    for (int i = 0; i < m.rank; ++i) access.coordinate[i] = std::max(access.coordinate[i], 0);
    access.store = true;
    REQUIRE(check(access) == "");
    Picture want;
    for (const auto& [at, what] : by_element(access))
      if (what >= 0) want.emplace(at, what);
    REQUIRE(picture_of(access) == want);
  }
  REQUIRE(done > 2000);
}

TEST_CASE("a 128-byte row box of NVFP4 operands", "[virtual][tensor]") {
  TensorMap m;
  m.type = ElementType::b4x16;
  m.rank = 3;
  m.address = 0x100000;
  m.dim[0] = 7168, m.dim[1] = 300, m.dim[2] = 2;
  m.stride[0] = 3584, m.stride[1] = 3584 * 300;
  m.box[0] = 256, m.box[1] = 128;
  m.swizzle_mode = 3;
  TmaAccess access;
  access.map = &m;
  access.coordinate[0] = 6912, access.coordinate[1] = 256, access.coordinate[2] = 1;
  access.shared = 0x1000400;
  REQUIRE(check(access) == "");
  REQUIRE(transaction_bytes(access) == 16384);
  int segments = 0;
  uint64_t data = 0, fill = 0;
  for_each_segment(access, [&](const Segment& s) {
    ++segments;
    (s.kind == SegmentKind::data ? data : fill) += s.bytes;
    if (s.kind != SegmentKind::data) return;
    // Row and 16-byte chunk of the source decide the place.
    uint64_t from = s.global - 0x100000 - 3584 * 300;
    uint64_t row = from / 3584 - 256, byte = from % 3584 - 3456;
    REQUIRE(s.shared == 0x1000400 + row * 128 + ((byte / 16) ^ (row % 8)) * 16);
  });
  REQUIRE(data == 44 * 128);
  REQUIRE(fill == 84 * 128);
  REQUIRE(segments <= 1024);
}

TEST_CASE("gather4 and scatter4 take four rows of their own", "[virtual][tensor]") {
  TensorMap m;
  m.type = ElementType::f16;
  m.rank = 2;
  m.address = 0x40000;
  m.dim[0] = 200, m.dim[1] = 50;
  m.stride[0] = 400;
  m.box[0] = 64, m.box[1] = 1;
  m.swizzle_mode = 3;
  TmaAccess access;
  access.map = &m;
  access.mode = TmaMode::gather4;
  int32_t c[5] = {160, 2, 49, 50, -1}; // the last two are outside
  std::memcpy(access.coordinate, c, sizeof c);
  access.shared = 0x2000;
  REQUIRE(check(access) == "");
  REQUIRE(transaction_bytes(access) == 512);
  Picture got = picture_of(access), want;
  for (uint32_t row = 0; row < 4; ++row)
    for (uint32_t byte = 0; byte < 128; ++byte) {
      bool inside = row < 2 && byte < 80;
      want[swizzle_address(Swizzle::b128, 0x2000 + row * 128 + byte)] =
          inside ? int64_t(0x40000 + 400 * c[1 + row] + 320 + int(byte)) : kFill;
    }
  REQUIRE(got == want);
  m.box[1] = 2;
  REQUIRE(check(access).find("boxDim[1] = 1") != std::string::npos);
  m.box[1] = 1;
  access.mode = TmaMode::scatter4;
  REQUIRE(check(access) != "");
  access.store = true;
  access.coordinate[4] = 3;
  REQUIRE(check(access) == "");
  uint64_t bytes = 0;
  for_each_segment(access, [&](const Segment& s) { bytes += s.bytes; });
  REQUIRE(bytes == 3 * 80);
}

TEST_CASE("im2col equals the loops of a convolution", "[virtual][tensor]") {
  // Input N 2, H 9, W 14, C 32; filter 3x3, padding 1, stride s: output rows are the column.
  for (int s : {1, 2}) {
    TensorMap m;
    m.mode = MapMode::im2col;
    m.type = ElementType::f16;
    m.rank = 4;
    m.address = 0x80000;
    uint64_t dims[4] = {32, 14, 9, 2};
    uint64_t strides[3] = {64, 64 * 14, 64 * 14 * 9};
    for (int i = 0; i < 4; ++i) m.dim[i] = dims[i];
    for (int i = 0; i < 3; ++i) m.stride[i] = strides[i];
    for (int i = 0; i < 2; ++i) {
      m.lower[i] = -1;
      m.upper[i] = 1 - 2; // padding - (filter - 1)
      m.element_stride[1 + i] = uint32_t(s);
    }
    m.channels_per_pixel = 16;
    m.pixels_per_column = 64;
    m.swizzle_mode = 1;
    int q_count = (14 + 2 - 3) / s + 1, p_count = (9 + 2 - 3) / s + 1;
    for (int first : {0, 5, 17, 60}) {
      int q = first % q_count, p = first / q_count % p_count, n = first / q_count / p_count;
      for (int r = 0; r < 3; ++r) {
        TmaAccess access;
        access.map = &m;
        access.mode = TmaMode::im2col;
        access.shared = 0x4000;
        int32_t c[5] = {16, q * s - 1, p * s - 1, n, 0};
        std::memcpy(access.coordinate, c, sizeof c);
        access.offset[0] = uint16_t(2 - r), access.offset[1] = uint16_t(r);
        INFO("stride " << s << " first pixel " << first << " r " << r);
        REQUIRE(check(access) == "");
        REQUIRE(transaction_bytes(access) == 64 * 32);
        Picture want;
        for (int pixel = 0; pixel < 64; ++pixel) {
          int linear = first + pixel;
          int w = linear % q_count * s - 1 + (2 - r);
          int h = linear / q_count % p_count * s - 1 + r;
          int image = linear / q_count / p_count;
          bool inside = w >= 0 && w < 14 && h >= 0 && h < 9 && image < 2;
          for (int byte = 0; byte < 32; ++byte)
            want[swizzle_address(Swizzle::b32, uint32_t(0x4000 + pixel * 32 + byte))] =
                inside ? 0x80000 + 64 * (w + 14 * (h + 9 * image)) + 32 + byte : kFill;
        }
        REQUIRE(picture_of(access) == want);
      }
    }
  }
}

TEST_CASE("im2col along W equals lists of pixels", "[virtual][tensor]") {
  // N 40, H 3, W 9, C 32 of two bytes; the box runs from -1 to 8 along W.
  TensorMap m;
  m.type = ElementType::f16;
  m.rank = 4;
  m.address = 0x80000;
  const uint64_t dims[4] = {32, 9, 3, 40}, strides[3] = {64, 64 * 9, 64 * 27};
  for (int i = 0; i < 4; ++i) m.dim[i] = dims[i];
  for (int i = 0; i < 3; ++i) m.stride[i] = strides[i];
  m.lower[0] = -1, m.upper[0] = 0;
  m.channels_per_pixel = 32;
  m.swizzle_mode = 2;
  for (bool quarters : {false, true})
    for (int stride : {1, 2})
      for (int first : {-1, 4, -3})
        for (int halo : {0, 1, 3}) {
          m.mode = quarters ? MapMode::im2col_w128 : MapMode::im2col_w;
          m.pixels_per_column = quarters ? 128 : 50;
          m.element_stride[1] = uint32_t(stride);
          TmaAccess access;
          access.map = &m;
          access.mode = quarters ? TmaMode::im2col_w128 : TmaMode::im2col_w;
          access.shared = 0x4000;
          const int32_t c[5] = {0, first, 2, 1, 0};
          std::memcpy(access.coordinate, c, sizeof c);
          access.halo = uint16_t(halo), access.offset[0] = 1;
          INFO("quarters " << quarters << " stride " << stride << " first " << first << " halo "
                           << halo);
          REQUIRE(check(access) == "");
          // The line that the first pixel is on, then whole lines of the next images.
          std::vector<std::pair<int, int>> line; // w, image
          for (int w = first; w <= 8; w += stride) line.push_back({w, 1});
          for (int image = 2; line.size() < 200; ++image)
            for (int w = -1; w <= 8; w += stride) line.push_back({w, image});
          std::vector<std::pair<int, int>> want(line.begin(),
                                                line.begin() + int(m.pixels_per_column));
          if (quarters)
            for (int h = 0; h < halo; ++h)
              for (int q = 1; q <= 4; ++q) want.push_back(line[size_t(32 * q + h)]);
          else
            for (int h = 0; h < halo; ++h) want.push_back(line[size_t(50 + h)]);
          REQUIRE(transaction_bytes(access) == want.size() * 64);
          REQUIRE(shared_bytes(access) == want.size() * 64);
          Picture picture;
          for (size_t i = 0; i < want.size(); ++i) {
            const int w = want[i].first + 1, image = want[i].second;
            const bool inside = w >= 0 && w < 9 && image < 40;
            for (int byte = 0; byte < 64; ++byte)
              picture[swizzle_address(Swizzle::b64, uint32_t(0x4000 + i * 64) + uint32_t(byte))] =
                  inside ? 0x80000 + 64 * (w + 9 * (2 + 3 * image)) + byte : kFill;
          }
          REQUIRE(picture_of(access) == picture);
          access.coordinate[1] = 9;
          REQUIRE(check(access).find("right of the bounding box") != std::string::npos);
          access.coordinate[1] = 0, access.halo = 512;
          REQUIRE(check(access).find("wHalo = 512") != std::string::npos);
          access.halo = 0, access.offset[0] = 32;
          REQUIRE(check(access).find("wOffset = 32") != std::string::npos);
        }
}

TEST_CASE("what a tensor copy may not do", "[virtual][tensor]") {
  TensorMap m;
  m.type = ElementType::f16;
  m.rank = 2;
  m.address = 0x1000;
  m.dim[0] = 64, m.dim[1] = 64;
  m.stride[0] = 128;
  m.box[0] = 64, m.box[1] = 8;
  TmaAccess access;
  access.map = &m;
  access.shared = 0x400;
  REQUIRE(check(access) == "");
  auto refuses = [&](const char* part) {
    std::string error = check(access);
    INFO(error);
    REQUIRE(error.find(part) != std::string::npos);
  };
  access.shared = 0x410;
  refuses("128-byte aligned");
  access.shared = 0x400;
  for (int beside : {1, 4, 7, -4}) {
    access.coordinate[0] = beside;
    refuses("must be a multiple of 16 bytes");
  }
  access.coordinate[0] = -8;
  REQUIRE(check(access) == "");
  access.coordinate[0] = 0;
  access.store = true;
  access.coordinate[1] = -1;
  refuses("a store needs coordinates of 0 and above");
  access.store = false;
  REQUIRE(check(access) == "");
  access.mode = TmaMode::im2col;
  refuses("the tensor map is tiled, this access needs im2col");
  access.mode = TmaMode::im2col_w;
  refuses("the tensor map is tiled, this access needs im2col wide (W)");
  access.mode = TmaMode::tile;
  m.type = ElementType::b4x16_p64;
  refuses("invalid tensor map");
  m.box[0] = 128, m.dim[0] = 128;
  REQUIRE(check(access) == "");
  access.coordinate[0] = 64;
  refuses("multiple of 128");
  access.coordinate[0] = 0, access.coordinate[1] = 0;
  access.store = true;
  refuses("a store cannot use 16U4_ALIGN16B");
  m.type = ElementType::b4x16;
  access.reduce = true;
  refuses("a reduction cannot use 16U4_ALIGN8B");
  access.store = access.reduce = false;
  access.coordinate[0] = 1;
  refuses("must be even");
  access.coordinate[0] = 0;
  m.rank = 3;
  m.interleave = Interleave::b16;
  refuses("interleaved layouts");
}

TEST_CASE("fill patterns", "[virtual][tensor]") {
  TensorMap m;
  unsigned char fill[16];
  m.type = ElementType::f16;
  fill_pattern(m, fill);
  for (unsigned char b : fill) REQUIRE(b == 0);
  m.fill = OobFill::nan;
  fill_pattern(m, fill);
  for (ElementType type : {ElementType::f16, ElementType::f32, ElementType::f64}) {
    m.type = type;
    fill_pattern(m, fill);
    for (int i = 0; i < 16; ++i) REQUIRE(fill[i] == (i % 2 ? 0x7F : 0xF7));
  }
}

TEST_CASE("tf32 elements are rounded on their way in", "[virtual][tensor]") {
  uint32_t words[] = {0x00000001, 0x80001FFF, 0x3F801000, 0x3F803000,
                      0x7F7FF000, 0xFF800001, 0xFF800000, 0x00002000};
  const uint32_t rounded[] = {0x00000000, 0x80002000, 0x3F800000, 0x3F804000,
                              0x7F800000, 0x7FFFE000, 0xFF800000, 0x00002000};
  round_loaded(reinterpret_cast<unsigned char*>(words), sizeof words);
  for (int i = 0; i < 8; ++i) REQUIRE(words[i] == rounded[i]);
}
