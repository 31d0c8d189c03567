#include "tools/vgpu/tensor/tensor_map.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vgpu::tensor {
namespace {

constexpr uint64_t kMagic = 0x3150414D4C575456ull; // "VTWLMAP1" in memory order

// Byte places of the encoding; the sum closes it.
enum Place : size_t {
  kPlaceMagic = 0,
  kPlaceMode = 8,
  kPlaceRank = 9,
  kPlaceFreeBit = 10,
  kPlaceType = 11,
  kPlaceInterleave = 12,
  kPlaceDim = 16,    // 5 x (dim - 1) in 32 bits
  kPlaceStride = 40, // 4 x 64 bits
  kPlaceBox = 72,    // 5 x 16 bits
  kPlaceElementStride = 82,
  kPlaceSwizzleMode = 87,
  kPlaceSwizzleAtomicity = 88,
  kPlaceL2 = 89,
  kPlaceFill = 90,
  kPlaceLower = 92, // 3 x 16 bits
  kPlaceUpper = 98,
  kPlaceChannels = 104,
  kPlacePixels = 106,
  kPlaceAddress = 112,
  kPlaceSum = 120,
};

// Bit 85 of the map, which programs clear: NVIDIA's remedy for maps over little memory. It is set
// here and means nothing; the sum leaves it out.
constexpr unsigned char kFreeBit = 1 << 5;

uint64_t sum_of(const unsigned char* bytes) {
  uint64_t sum = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < kPlaceSum; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    if (i == 8) word |= uint64_t(kFreeBit) << 8 * (kPlaceFreeBit - 8);
    sum = (sum ^ word) * 0x9E3779B97F4A7C15ull;
    sum ^= sum >> 29;
  }
  return sum;
}

template <class T>
void put(unsigned char* bytes, size_t place, T value) {
  std::memcpy(bytes + place, &value, sizeof value);
}

template <class T>
T get(const unsigned char* bytes, size_t place) {
  T value;
  std::memcpy(&value, bytes + place, sizeof value);
  return value;
}

// Collects sentences.
class Errors {
public:
  template <class... T>
  void add(const char* format, T... values) {
    char line[320];
    if constexpr (sizeof...(T) == 0) {
      std::snprintf(line, sizeof line, "%s", format);
    } else {
      std::snprintf(line, sizeof line, format, values...);
    }
    if (!text_.empty()) text_ += "; ";
    text_ += line;
  }
  bool any() const { return !text_.empty(); }
  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

struct SwizzleCode {
  uint8_t mode, atomicity;
};

// CUtensorMapSwizzle 0..6.
constexpr SwizzleCode kDriverSwizzle[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 1}, {3, 2}, {3, 3}};

// tensormap.replace's elemtype codes, Table 33: their order differs from CUtensorMapDataType.
constexpr ElementType kReplaceType[] = {
    ElementType::u8,       ElementType::u16,   ElementType::u32,       ElementType::s32,
    ElementType::u64,      ElementType::s64,   ElementType::f16,       ElementType::f32,
    ElementType::f32_ftz,  ElementType::f64,   ElementType::bf16,      ElementType::tf32,
    ElementType::tf32_ftz, ElementType::b4x16, ElementType::b4x16_p64, ElementType::b6x16_p32};

constexpr uint64_t kMaxDim = uint64_t(1) << 32;
constexpr uint64_t kMaxStride = uint64_t(1) << 40;

using ull = unsigned long long;

uint32_t global_alignment(const TensorMap& m) {
  return m.interleave == Interleave::b32 || is_padded(m.type) ? 32 : 16;
}

void check_type_against_device(const TensorMap& m, int compute_capability, Errors& errors) {
  if (compute_capability >= 100) return;
  if (is_sub_byte(m.type)) {
    errors.add("tensorDataType %s needs compute capability 10.0, this device has %d.%d",
               element_type_name(m.type), compute_capability / 10, compute_capability % 10);
  }
  if (m.swizzle_atomicity != 0) {
    errors.add("swizzle %s needs compute capability 10.0, this device has %d.%d",
               swizzle_name(m.swizzle()), compute_capability / 10, compute_capability % 10);
  }
}

void check_common(const TensorMap& m, Errors& errors) {
  uint32_t alignment = global_alignment(m);
  if (m.rank < 1 || m.rank > 5) {
    errors.add("tensorRank = %d is outside 1..5", m.rank);
    return;
  }
  bool im2col = m.mode != MapMode::tiled;
  if (im2col && m.rank < 3) errors.add("tensorRank = %d: im2col needs 3, 4 or 5", m.rank);
  if (m.interleave != Interleave::none && m.rank < 3)
    errors.add("tensorRank = %d: an interleaved layout needs 3, 4 or 5", m.rank);
  if (m.address % alignment != 0) {
    errors.add("globalAddress = 0x%llx is %u modulo %u, must be a multiple of %u bytes",
               ull(m.address), unsigned(m.address % alignment), alignment, alignment);
  }
  for (int i = 0; i < m.rank; ++i) {
    if (m.dim[i] < 1 || m.dim[i] > kMaxDim)
      errors.add("globalDim[%d] = %llu is outside 1..2^32", i, ull(m.dim[i]));
    if (m.element_stride[i] < 1 || m.element_stride[i] > 8)
      errors.add("elementStrides[%d] = %u is outside 1..8", i, m.element_stride[i]);
  }
  if (is_padded(m.type) && m.dim[0] % 128 != 0)
    errors.add("globalDim[0] = %llu must be a multiple of 128 for %s", ull(m.dim[0]),
               element_type_name(m.type));
  if (m.type == ElementType::b4x16 && m.dim[0] % 2 != 0)
    errors.add("globalDim[0] = %llu must be a multiple of 2 for %s", ull(m.dim[0]),
               element_type_name(m.type));
  for (int i = 0; i + 1 < m.rank; ++i) {
    if (m.stride[i] % alignment != 0)
      errors.add("globalStrides[%d] = %llu must be a multiple of %u bytes", i, ull(m.stride[i]),
                 alignment);
    if (m.stride[i] >= kMaxStride)
      errors.add("globalStrides[%d] = %llu must be less than 2^40 bytes", i, ull(m.stride[i]));
  }
  if (m.swizzle_mode > 4 || m.swizzle_atomicity > 3) {
    errors.add("swizzle mode %d with atomicity %d does not exist", m.swizzle_mode,
               m.swizzle_atomicity);
    return;
  }
  if (m.swizzle_atomicity != 0 && m.swizzle_mode != 3)
    errors.add("swizzle atoms other than 16 bytes need the 128-byte swizzle");
  if (m.interleave == Interleave::b32 && m.swizzle_mode != 1)
    errors.add("interleave 32B needs swizzle 32B");
  if (is_padded(m.type)) {
    bool fine = m.swizzle_mode == 0 || (m.swizzle_mode == 3 && m.swizzle_atomicity != 2);
    if (m.type == ElementType::b4x16_p64 && m.swizzle_atomicity == 3) fine = false;
    if (!fine)
      errors.add("swizzle %s cannot be used with %s", swizzle_name(m.swizzle()),
                 element_type_name(m.type));
  }
  if (m.type == ElementType::b6x16_p32 && m.interleave != Interleave::none)
    errors.add("%s needs interleave none", element_type_name(m.type));
  if (m.fill == OobFill::nan && !is_floating(m.type))
    errors.add("NaN fill needs a floating-point tensorDataType, not %s", element_type_name(m.type));
}

// Bytes of one row of the box in shared memory.
uint64_t inner_bytes(const TensorMap& m, uint64_t elements) {
  return is_padded(m.type) ? elements : elements * uint64_t(element_bits(m.type)) / 8;
}

void check_inner(const TensorMap& m, uint32_t elements, const char* what, Errors& errors) {
  if (is_padded(m.type) && elements != 128)
    errors.add("%s = %u must be 128 for %s", what, elements, element_type_name(m.type));
  if (m.interleave != Interleave::none) return;
  uint64_t bits = uint64_t(elements) * uint64_t(element_bits(m.type));
  if (!is_padded(m.type) && bits % 128 != 0)
    errors.add("%s = %u elements of %s are %llu bits, must be a multiple of 16 bytes", what,
               elements, element_type_name(m.type), ull(bits));
  uint32_t span = swizzle_span(m.swizzle());
  uint64_t bytes = inner_bytes(m, elements);
  if (span != 0 && bytes > span)
    errors.add("%s = %u elements of %s are %llu bytes, more than the %u of swizzle %s", what,
               elements, element_type_name(m.type), ull(bytes), span, swizzle_name(m.swizzle()));
}

void check_tiled(const TensorMap& m, Errors& errors) {
  for (int i = 0; i < m.rank; ++i) {
    if (m.box[i] < 1 || m.box[i] > 256)
      errors.add("boxDim[%d] = %u is outside 1..256", i, m.box[i]);
  }
  check_inner(m, m.box[0], "boxDim[0]", errors);
}

void check_im2col(const TensorMap& m, Errors& errors) {
  bool wide = m.mode != MapMode::im2col;
  int corners = wide ? 1 : m.rank - 2;
  int bits = corners == 1 ? 16 : corners == 2 ? 8 : 5;
  int low = -(1 << (bits - 1)), high = (1 << (bits - 1)) - 1;
  static const char* const kAxis[] = {"W", "H", "D"};
  for (int i = 0; i < corners; ++i) {
    if (m.lower[i] < low || m.lower[i] > high)
      errors.add("pixelBoxLowerCorner %s = %d is outside %d..%d", kAxis[i], m.lower[i], low, high);
    if (m.upper[i] < low || m.upper[i] > high)
      errors.add("pixelBoxUpperCorner %s = %d is outside %d..%d", kAxis[i], m.upper[i], low, high);
    int64_t extent = int64_t(m.dim[1 + i]) + m.upper[i] - m.lower[i];
    if (extent <= 0)
      errors.add("the bounding box along %s is empty: globalDim %llu, corners %d and %d", kAxis[i],
                 ull(m.dim[1 + i]), m.lower[i], m.upper[i]);
  }
  if (m.channels_per_pixel < 1 || m.channels_per_pixel > 256)
    errors.add("channelsPerPixel = %u is outside 1..256", m.channels_per_pixel);
  if (m.mode != MapMode::im2col_w128 && (m.pixels_per_column < 1 || m.pixels_per_column > 1024))
    errors.add("pixelsPerColumn = %u is outside 1..1024", m.pixels_per_column);
  check_inner(m, m.channels_per_pixel, "channelsPerPixel", errors);
  if (wide) {
    Swizzle s = m.swizzle();
    if (s != Swizzle::b64 && s != Swizzle::b128 && s != Swizzle::b128_atom32)
      errors.add("im2col wide needs swizzle 64B, 128B or 128B with 32B atoms, not %s",
                 swizzle_name(s));
    if (m.interleave != Interleave::none) errors.add("im2col wide needs interleave none");
  }
}

// What encode_tiled and encode_im2col have in common. False when the arguments cannot be read.
bool read_arguments(const MapArguments& a, TensorMap& m, const void* out, Errors& errors) {
  if (out == nullptr)
    errors.add("tensorMap is null");
  else if (reinterpret_cast<uintptr_t>(out) % 64 != 0)
    errors.add("tensorMap must be 64-byte aligned");
  if (a.type < 0 || a.type >= kElementTypes)
    errors.add("tensorDataType = %d is outside 0..15", a.type);
  if (a.rank < 1 || a.rank > 5) errors.add("tensorRank = %u is outside 1..5", a.rank);
  if (a.dim == nullptr) errors.add("globalDim is null");
  // Of rank 1 too, where no stride is read (CUDA 13.0's driver).
  if (a.stride == nullptr) errors.add("globalStrides is null");
  if (a.element_stride == nullptr) errors.add("elementStrides is null");
  if (a.interleave < 0 || a.interleave > 2)
    errors.add("interleave = %d is outside 0..2", a.interleave);
  if (a.swizzle < 0 || a.swizzle > 6) errors.add("swizzle = %d is outside 0..6", a.swizzle);
  if (a.l2_promotion < 0 || a.l2_promotion > 3)
    errors.add("l2Promotion = %d is outside 0..3", a.l2_promotion);
  if (a.fill < 0 || a.fill > 1) errors.add("oobFill = %d is outside 0..1", a.fill);
  if (errors.any()) return false;
  m.type = ElementType(a.type);
  m.rank = int(a.rank);
  m.address = reinterpret_cast<uintptr_t>(a.address);
  for (int i = 0; i < m.rank; ++i) {
    m.dim[i] = a.dim[i];
    // Without interleaving the first traversal stride is ignored (it has no effect in TMA).
    bool ignored = i == 0 && a.interleave == 0;
    m.element_stride[i] = ignored ? 1 : a.element_stride[i];
    if (i + 1 < m.rank) m.stride[i] = a.stride[i];
  }
  m.interleave = Interleave(a.interleave);
  m.swizzle_mode = kDriverSwizzle[a.swizzle].mode;
  m.swizzle_atomicity = kDriverSwizzle[a.swizzle].atomicity;
  m.l2_promotion = uint8_t(a.l2_promotion);
  m.fill = OobFill(a.fill);
  return true;
}

std::string finish(const TensorMap& m, int compute_capability, void* out) {
  Errors errors;
  check_type_against_device(m, compute_capability, errors);
  std::string rules = validate(m);
  if (!rules.empty()) errors.add("%s", rules.c_str());
  if (!errors.any()) store(m, out);
  return errors.take();
}

} // namespace

const char* element_type_name(ElementType type) {
  static const char* const kNames[] = {
      "UINT8",        "UINT16",       "UINT32",        "INT32",        "UINT64",      "INT64",
      "FLOAT16",      "FLOAT32",      "FLOAT64",       "BFLOAT16",     "FLOAT32_FTZ", "TFLOAT32",
      "TFLOAT32_FTZ", "16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B"};
  return int(type) < kElementTypes ? kNames[int(type)] : "unknown type";
}

int element_bits(ElementType type) {
  static const uint8_t kBits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
  return int(type) < kElementTypes ? kBits[int(type)] : 8;
}

bool is_floating(ElementType type) {
  return type >= ElementType::f16 && type <= ElementType::tf32_ftz;
}

Swizzle TensorMap::swizzle() const {
  switch (swizzle_mode) {
  case 1:
    return Swizzle::b32;
  case 2:
    return Swizzle::b64;
  case 4:
    return Swizzle::b96;
  case 3:
    switch (swizzle_atomicity) {
    case 1:
      return Swizzle::b128_atom32;
    case 2:
      return Swizzle::b128_atom32_flip8;
    case 3:
      return Swizzle::b128_atom64;
    default:
      return Swizzle::b128;
    }
  default:
    return Swizzle::none;
  }
}

std::string validate(const TensorMap& map) {
  Errors errors;
  check_common(map, errors);
  if (map.rank < 1 || map.rank > 5) return errors.take();
  if (map.mode == MapMode::tiled)
    check_tiled(map, errors);
  else if (map.rank >= 3)
    check_im2col(map, errors);
  return errors.take();
}

std::string encode_tiled(const TiledArguments& a, int compute_capability, void* out) {
  Errors errors;
  TensorMap m;
  if (a.box == nullptr) errors.add("boxDim is null");
  if (!read_arguments(a, m, out, errors)) return errors.take();
  for (int i = 0; i < m.rank; ++i) m.box[i] = a.box[i];
  return finish(m, compute_capability, out);
}

std::string encode_im2col(const Im2colArguments& a, int compute_capability, void* out) {
  Errors errors;
  TensorMap m;
  if (a.wide < 0 || a.wide > 2) errors.add("im2col wide mode %d is outside 0..2", a.wide);
  if (a.lower == nullptr) errors.add("pixelBoxLowerCorner is null");
  if (a.upper == nullptr) errors.add("pixelBoxUpperCorner is null");
  if (!read_arguments(a, m, out, errors)) return errors.take();
  if (m.rank < 3) return "tensorRank must be 3, 4 or 5 for im2col";
  if (a.wide != 0 && compute_capability < 100) return "im2col wide needs compute capability 10.0";
  m.mode = a.wide == 0 ? MapMode::im2col : a.wide == 1 ? MapMode::im2col_w : MapMode::im2col_w128;
  int corners = a.wide == 0 ? m.rank - 2 : 1;
  for (int i = 0; i < corners; ++i) {
    m.lower[i] = a.lower[corners - 1 - i];
    m.upper[i] = a.upper[corners - 1 - i];
  }
  m.channels_per_pixel = a.channels_per_pixel;
  m.pixels_per_column = m.mode == MapMode::im2col_w128 ? 128 : a.pixels_per_column;
  return finish(m, compute_capability, out);
}

std::string replace_address(void* map, const void* address) {
  TensorMap m;
  std::string error = load(map, m);
  if (!error.empty()) return error;
  m.address = reinterpret_cast<uintptr_t>(address);
  error = validate(m);
  if (error.empty()) store(m, map);
  return error;
}

void store(const TensorMap& m, void* out) {
  unsigned char bytes[kTensorMapBytes] = {};
  put(bytes, kPlaceMagic, kMagic);
  put(bytes, kPlaceAddress, m.address);
  put(bytes, kPlaceFreeBit, kFreeBit);
  for (int i = 0; i < 5; ++i) {
    put(bytes, kPlaceDim + 4 * i, uint32_t(m.dim[i] - 1));
    put(bytes, kPlaceBox + 2 * i, uint16_t(m.box[i]));
    put(bytes, kPlaceElementStride + i, uint8_t(m.element_stride[i]));
    if (i < 4) put(bytes, kPlaceStride + 8 * i, m.stride[i]);
    if (i < 3) {
      put(bytes, kPlaceLower + 2 * i, int16_t(m.lower[i]));
      put(bytes, kPlaceUpper + 2 * i, int16_t(m.upper[i]));
    }
  }
  put(bytes, kPlaceMode, uint8_t(m.mode));
  put(bytes, kPlaceRank, uint8_t(m.rank));
  put(bytes, kPlaceType, uint8_t(m.type));
  put(bytes, kPlaceInterleave, uint8_t(m.interleave));
  put(bytes, kPlaceSwizzleMode, m.swizzle_mode);
  put(bytes, kPlaceSwizzleAtomicity, m.swizzle_atomicity);
  put(bytes, kPlaceL2, m.l2_promotion);
  put(bytes, kPlaceFill, uint8_t(m.fill));
  put(bytes, kPlaceChannels, uint16_t(m.channels_per_pixel));
  put(bytes, kPlacePixels, uint16_t(m.pixels_per_column));
  put(bytes, kPlaceSum, sum_of(bytes));
  std::memcpy(out, bytes, sizeof bytes);
}

std::string load_to_replace(const void* in, TensorMap& m) {
  const unsigned char* bytes = static_cast<const unsigned char*>(in);
  if (std::any_of(bytes, bytes + kTensorMapBytes, [](unsigned char b) { return b != 0; }))
    return load(in, m);
  m = TensorMap{};
  m.rank = 0;
  std::fill_n(m.box, 5, 0u);
  std::fill_n(m.element_stride, 5, 0u);
  return {};
}

std::string load(const void* in, TensorMap& m) {
  const unsigned char* bytes = static_cast<const unsigned char*>(in);
  if (get<uint64_t>(bytes, kPlaceMagic) != kMagic) {
    return "the 128 bytes are no tensor map of this virtual GPU (their mark is missing): encode "
           "them with cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col of the same driver";
  }
  if (get<uint64_t>(bytes, kPlaceSum) != sum_of(bytes))
    return "the tensor map was changed after it was encoded (its check sum is wrong)";
  m.address = get<uint64_t>(bytes, kPlaceAddress);
  for (int i = 0; i < 5; ++i) {
    m.dim[i] = uint64_t(get<uint32_t>(bytes, kPlaceDim + 4 * i)) + 1;
    m.box[i] = get<uint16_t>(bytes, kPlaceBox + 2 * i);
    m.element_stride[i] = get<uint8_t>(bytes, kPlaceElementStride + i);
    if (i < 4) m.stride[i] = get<uint64_t>(bytes, kPlaceStride + 8 * i);
    if (i < 3) {
      m.lower[i] = get<int16_t>(bytes, kPlaceLower + 2 * i);
      m.upper[i] = get<int16_t>(bytes, kPlaceUpper + 2 * i);
    }
  }
  m.mode = MapMode(bytes[kPlaceMode]);
  m.rank = bytes[kPlaceRank];
  m.type = ElementType(bytes[kPlaceType]);
  m.interleave = Interleave(bytes[kPlaceInterleave]);
  m.swizzle_mode = bytes[kPlaceSwizzleMode];
  m.swizzle_atomicity = bytes[kPlaceSwizzleAtomicity];
  m.l2_promotion = bytes[kPlaceL2];
  m.fill = OobFill(bytes[kPlaceFill]);
  m.channels_per_pixel = get<uint16_t>(bytes, kPlaceChannels);
  m.pixels_per_column = get<uint16_t>(bytes, kPlacePixels);
  return {};
}

std::string replace_field(TensorMap& m, MapField field, int ordinal, uint64_t value) {
  Errors errors;
  int ordinals = field == MapField::global_stride ? 4 : 5;
  if (ordinal < 0 || ordinal >= ordinals) {
    errors.add("tensormap.replace: ordinal %d is outside 0..%d", ordinal, ordinals - 1);
    return errors.take();
  }
  auto code = [&](const char* name, uint64_t last) {
    if (value <= last) return true;
    errors.add("tensormap.replace.%s: value %llu is outside 0..%llu", name, ull(value), ull(last));
    return false;
  };
  switch (field) {
  case MapField::global_address:
    m.address = value;
    break;
  case MapField::rank:
    if (code("rank", 4)) m.rank = int(value) + 1;
    break;
  case MapField::box_dim:
    if (value < 1 || value > 256)
      errors.add("tensormap.replace.box_dim: value %llu is outside 1..256", ull(value));
    else
      m.box[ordinal] = uint32_t(value);
    break;
  case MapField::global_dim: {
    uint64_t dim = value & 0xFFFFFFFFu;
    m.dim[ordinal] = dim == 0 ? kMaxDim : dim;
    break;
  }
  case MapField::global_stride:
    if (value >= kMaxStride || value % 16 != 0)
      errors.add("tensormap.replace.global_stride: %llu bytes must be a multiple of 16 below 2^40",
                 ull(value));
    else
      m.stride[ordinal] = value;
    break;
  case MapField::element_stride:
    if (value < 1 || value > 8)
      errors.add("tensormap.replace.element_stride: value %llu is outside 1..8", ull(value));
    else
      m.element_stride[ordinal] = uint32_t(value);
    break;
  case MapField::elemtype:
    if (code("elemtype", 15)) m.type = kReplaceType[value];
    break;
  case MapField::interleave_layout:
    if (code("interleave_layout", 2)) m.interleave = Interleave(value);
    break;
  case MapField::swizzle_mode:
    if (code("swizzle_mode", 4)) m.swizzle_mode = uint8_t(value);
    break;
  case MapField::swizzle_atomicity:
    if (code("swizzle_atomicity", 3)) m.swizzle_atomicity = uint8_t(value);
    break;
  case MapField::fill_mode:
    if (code("fill_mode", 1)) m.fill = OobFill(value);
    break;
  }
  return errors.take();
}

} // namespace vgpu::tensor
