// The rules are those of cuTensorMapEncodeTiled (CUDA driver API, "Tensor Map Object Management").
#include "runtime/src/tensor_map.hpp"

#include "runtime/src/dump.hpp"
#include "runtime/src/log.hpp"

#include <cinttypes>

namespace warpline {

namespace {

struct TypeRow {
  const char* name;
  uint32_t bits; // of one element in global memory
  bool floating; // may use the NaN out-of-bounds fill
};

// Indexed by CUtensorMapDataType.
constexpr TypeRow types[] = {
    {"UINT8", 8, false},         {"UINT16", 16, false},      {"UINT32", 32, false},
    {"INT32", 32, false},        {"UINT64", 64, false},      {"INT64", 64, false},
    {"FLOAT16", 16, true},       {"FLOAT32", 32, true},      {"FLOAT64", 64, true},
    {"BFLOAT16", 16, true},      {"FLOAT32_FTZ", 32, true},  {"TFLOAT32", 32, true},
    {"TFLOAT32_FTZ", 32, true},  {"16U4_ALIGN8B", 4, false}, {"16U4_ALIGN16B", 4, false},
    {"16U6_ALIGN16B", 6, false},
};

constexpr const char* swizzles[] = {
    "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B",
};
constexpr const char* interleaves[] = {"none", "16B", "32B"};

template <class Enum, size_t N>
bool known(Enum value, const char* const (&)[N]) {
  return static_cast<int>(value) >= 0 && static_cast<size_t>(value) < N;
}

bool known_type(cuapi::CUtensorMapDataType type) {
  return static_cast<int>(type) >= 0 && static_cast<size_t>(type) < std::size(types);
}

bool gapped(cuapi::CUtensorMapDataType type) {
  return type == cuapi::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
         type == cuapi::CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

uint64_t swizzle_span(cuapi::CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
  case cuapi::CU_TENSOR_MAP_SWIZZLE_NONE:
    return 0;
  case cuapi::CU_TENSOR_MAP_SWIZZLE_32B:
    return 32;
  case cuapi::CU_TENSOR_MAP_SWIZZLE_64B:
    return 64;
  default:
    return 128;
  }
}

// "(nearest: 96, 112)" around a value that is no multiple.
std::string nearest_multiples(uint64_t value, uint64_t multiple) {
  const uint64_t below = value / multiple * multiple;
  const uint64_t above = below + multiple;
  return below == 0 ? format("(nearest: %" PRIu64 ")", above)
                    : format("(nearest: %" PRIu64 ", %" PRIu64 ")", below, above);
}

class Checker {
public:
  explicit Checker(const TensorMapDesc& desc) : desc_(desc) {}

  std::vector<std::string> run() {
    if (!check_enums()) return sentences_; // sizes mean nothing without a type
    check_address();
    check_dims();
    check_strides();
    check_box();
    check_modes();
    return sentences_;
  }

private:
  void add(const std::string& sentence) { sentences_.push_back(sentence); }

  bool check_enums() {
    if (!known_type(desc_.type))
      add(format("element type = %d must be from 0 to 15", static_cast<int>(desc_.type)));
    if (!known(desc_.swizzle, swizzles))
      add(format("swizzle = %d must be from 0 to 6", static_cast<int>(desc_.swizzle)));
    if (!known(desc_.interleave, interleaves))
      add(format("interleave = %d must be from 0 to 2", static_cast<int>(desc_.interleave)));
    if (desc_.l2_promotion < 0 || desc_.l2_promotion > cuapi::CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
      add(format("L2 promotion = %d must be from 0 to 3", static_cast<int>(desc_.l2_promotion)));
    if (desc_.oob_fill < 0 ||
        desc_.oob_fill > cuapi::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
      add(format("out-of-bounds fill = %d must be 0 or 1", static_cast<int>(desc_.oob_fill)));
    if (desc_.rank < 1 || desc_.rank > 5)
      add(format("rank = %u dimensions must be from 1 to 5 (nearest: %d)", desc_.rank,
                 desc_.rank < 1 ? 1 : 5));
    return sentences_.empty();
  }

  // Addresses and strides follow one granule: 16 bytes, 32 with interleave 32B and gapped types.
  uint64_t granule() const {
    return desc_.interleave == cuapi::CU_TENSOR_MAP_INTERLEAVE_32B || gapped(desc_.type) ? 32 : 16;
  }

  std::string granule_reason() const {
    if (gapped(desc_.type)) return format(" with type %s", type_name(desc_.type));
    return granule() == 32 ? " with interleave 32B" : "";
  }

  void check_address() {
    const auto address = reinterpret_cast<uintptr_t>(desc_.address);
    if (!address) add("address is null, must be a device address");
    if (address % granule())
      add(format("address 0x%" PRIxPTR " is %" PRIu64 " modulo %" PRIu64 " bytes, must be 0%s",
                 address, static_cast<uint64_t>(address % granule()), granule(),
                 granule_reason().c_str()));
  }

  void check_dims() {
    constexpr uint64_t greatest = uint64_t{1} << 32;
    for (uint32_t i = 0; i < desc_.rank; ++i)
      if (desc_.dims[i] < 1 || desc_.dims[i] > greatest)
        add(format("dimension %u = %" PRIu64 " elements must be from 1 to 2^32 (nearest: %" PRIu64
                   ")",
                   i, desc_.dims[i], desc_.dims[i] < 1 ? uint64_t{1} : greatest));
    const uint64_t inner = desc_.dims[0];
    const uint64_t multiple = gapped(desc_.type)                                          ? 128
                              : desc_.type == cuapi::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B ? 2
                                                                                          : 1;
    if (inner % multiple)
      add(format("dimension 0 = %" PRIu64 " elements must be a multiple of %" PRIu64
                 " elements with type %s %s",
                 inner, multiple, type_name(desc_.type),
                 nearest_multiples(inner, multiple).c_str()));
  }

  void check_strides() {
    constexpr uint64_t end = uint64_t{1} << 40;
    for (uint32_t i = 0; i + 1 < desc_.rank; ++i) {
      const uint64_t stride = desc_.strides[i];
      if (stride % granule())
        add(format("stride of dimension %u = %" PRIu64 " bytes must be a multiple of %" PRIu64
                   " bytes%s %s",
                   i + 1, stride, granule(), granule_reason().c_str(),
                   nearest_multiples(stride, granule()).c_str()));
      if (stride >= end)
        add(format("stride of dimension %u = %" PRIu64
                   " bytes must be less than 2^40 bytes (nearest: %" PRIu64 ")",
                   i + 1, stride, end - granule()));
    }
    const uint64_t row = (desc_.dims[0] * element_bits(desc_.type) + 7) / 8;
    const bool linear = desc_.interleave == cuapi::CU_TENSOR_MAP_INTERLEAVE_NONE;
    // A single row needs no distance to a next one.
    if (desc_.rank > 1 && linear && desc_.dims[1] > 1 && desc_.strides[0] < row)
      add(format("stride of dimension 1 = %" PRIu64 " bytes must be at least %" PRIu64
                 " bytes, the length of dimension 0 (nearest: %" PRIu64 ")",
                 desc_.strides[0], row, (row + granule() - 1) / granule() * granule()));
  }

  void check_box() {
    for (uint32_t i = 0; i < desc_.rank; ++i) {
      if (desc_.box[i] < 1 || desc_.box[i] > 256)
        add(format("box of dimension %u = %u elements must be from 1 to 256 (nearest: %d)", i,
                   desc_.box[i], desc_.box[i] < 1 ? 1 : 256));
      if (desc_.element_strides[i] < 1 || desc_.element_strides[i] > 8)
        add(format("element stride of dimension %u = %u must be from 1 to 8 (nearest: %d)", i,
                   desc_.element_strides[i], desc_.element_strides[i] < 1 ? 1 : 8));
    }
    if (gapped(desc_.type)) {
      if (desc_.box[0] != 128)
        add(format("box of dimension 0 = %u elements must be 128 with type %s", desc_.box[0],
                   type_name(desc_.type)));
      return;
    }
    if (desc_.interleave != cuapi::CU_TENSOR_MAP_INTERLEAVE_NONE) return;
    const uint32_t bits = element_bits(desc_.type);
    const uint64_t row_bits = uint64_t{desc_.box[0]} * bits;
    if (row_bits % 128) {
      const uint64_t step = 128 / bits;
      add(format(
          "box of dimension 0 = %u elements (%g bytes) must be a multiple of 16 bytes, %" PRIu64
          " elements %s",
          desc_.box[0], static_cast<double>(row_bits) / 8, step,
          nearest_multiples(desc_.box[0], step).c_str()));
    }
    const uint64_t span = swizzle_span(desc_.swizzle);
    if (span && row_bits / 8 > span)
      add(format("box of dimension 0 = %u elements (%" PRIu64 " bytes) must be at most %" PRIu64
                 " bytes with swizzle %s (nearest: %" PRIu64 " elements)",
                 desc_.box[0], row_bits / 8, span, swizzle_name(desc_.swizzle), span * 8 / bits));
  }

  void check_modes() {
    using namespace cuapi;
    if (desc_.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && desc_.rank < 3)
      add(format("rank = %u dimensions must be at least 3 with interleave %s (nearest: 3)",
                 desc_.rank, interleaves[desc_.interleave]));
    if (desc_.interleave == CU_TENSOR_MAP_INTERLEAVE_32B &&
        desc_.swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
      add(format("swizzle %s must be 32B with interleave 32B", swizzle_name(desc_.swizzle)));
    if (desc_.type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
        desc_.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
      add(format("interleave %s must be none with type 16U6_ALIGN16B",
                 interleaves[desc_.interleave]));
    const bool plain = desc_.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ||
                       desc_.swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
                       desc_.swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
    if (desc_.type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B && !plain)
      add(format("swizzle %s must be none, 128B or 128B_ATOM_32B with type 16U4_ALIGN16B",
                 swizzle_name(desc_.swizzle)));
    if (desc_.type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B && !plain &&
        desc_.swizzle != CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B)
      add(format("swizzle %s must be none, 128B, 128B_ATOM_32B or 128B_ATOM_64B with type "
                 "16U6_ALIGN16B",
                 swizzle_name(desc_.swizzle)));
    if (desc_.oob_fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA &&
        !types[desc_.type].floating)
      add(format("out-of-bounds fill NaN must be zero with type %s, which is not floating-point",
                 type_name(desc_.type)));
  }

  const TensorMapDesc& desc_;
  std::vector<std::string> sentences_;
};

template <class Integer>
std::string list(const Integer* values, uint32_t count) {
  std::string result = "[";
  for (uint32_t i = 0; i < count; ++i) result += (i ? ", " : "") + std::to_string(values[i]);
  return result + "]";
}

} // namespace

uint32_t element_bits(cuapi::CUtensorMapDataType type) {
  return known_type(type) ? types[type].bits : 0;
}

const char* type_name(cuapi::CUtensorMapDataType type) {
  return known_type(type) ? types[type].name : "?";
}

const char* swizzle_name(cuapi::CUtensorMapSwizzle swizzle) {
  return known(swizzle, swizzles) ? swizzles[swizzle] : "?";
}

uint64_t box_row_bytes(const TensorMapDesc& desc) {
  // A gapped type spends one byte of shared memory on each value.
  return gapped(desc.type) ? desc.box[0] : uint64_t{desc.box[0]} * element_bits(desc.type) / 8;
}

uint64_t box_transaction_bytes(const TensorMapDesc& desc) {
  uint64_t bits = uint64_t{desc.box[0]} * element_bits(desc.type);
  // Dimension i of a box takes ceil(box / element stride) steps; the stride of dimension 0 is
  // ignored without interleave.
  for (uint32_t i = 1; i < desc.rank; ++i)
    bits *= (desc.box[i] + desc.element_strides[i] - 1) / desc.element_strides[i];
  return bits / 8;
}

std::vector<std::string> tensor_map_violations(const TensorMapDesc& desc) {
  return Checker(desc).run();
}

std::string describe(const TensorMapDesc& desc) {
  const uint32_t rank = desc.rank <= 5 ? desc.rank : 5;
  std::string text = format("tensor map %s\n", desc.name);
  text += format("  type %s, rank %u, address %p\n", type_name(desc.type), desc.rank, desc.address);
  text += "  dims (elements) " + list(desc.dims, rank) + "\n";
  text += "  strides (bytes) " + list(desc.strides, rank ? rank - 1 : 0) + "\n";
  text += "  box (elements) " + list(desc.box, rank) + "\n";
  text += "  element strides " + list(desc.element_strides, rank) + "\n";
  text += format("  interleave %s, swizzle %s, L2 promotion %s, out-of-bounds fill %s",
                 known(desc.interleave, interleaves) ? interleaves[desc.interleave] : "?",
                 swizzle_name(desc.swizzle),
                 desc.l2_promotion == 0   ? "none"
                 : desc.l2_promotion == 1 ? "64B"
                 : desc.l2_promotion == 2 ? "128B"
                                          : "256B",
                 desc.oob_fill ? "NaN" : "zero");
  return text;
}

namespace {

// Bytes from the tensor's first to one past its last.
uint64_t span(const TensorMapDesc& desc) {
  uint64_t bytes = (desc.dims[0] * element_bits(desc.type) + 7) / 8;
  for (uint32_t i = 1; i < desc.rank; ++i) {
    uint64_t before = 0;
    if (__builtin_mul_overflow(desc.dims[i] - 1, desc.strides[i - 1], &before) ||
        __builtin_add_overflow(bytes, before, &bytes))
      return UINT64_MAX;
  }
  return bytes;
}

constexpr uint64_t bit_85 = uint64_t{1} << 21; // of the second word

// Drivers may set bit 85 of maps over less than 128 KiB wrongly on Blackwell, which shows as
// sporadic illegal accesses: release notes of NVIDIA's driver 595.71.05, known issues, whose remedy
// this is. Later and earlier drivers do the same, so their version is not looked at.
void mend_small_map(const DeviceLimits& device, const TensorMapDesc& desc,
                    cuapi::CUtensorMap* map) {
  constexpr uint64_t small = 128 * 1024;
  if (device.compute_major == 10 && span(desc) < small) map->opaque[1] &= ~bit_85;
}

} // namespace

wl_status make_tensor_map(const wl_context& context, const TensorMapDesc& desc,
                          cuapi::CUtensorMap* map) {
  WL_LOG(log_detail, "%s", describe(desc).c_str());
  // Every map of the process, in order.
  if (dump_wanted()) dump_appended("tensor_maps.txt", describe(desc) + "\n");
  const std::vector<std::string> violations = tensor_map_violations(desc);
  if (!violations.empty()) {
    std::string message = format("tensor map %s: ", desc.name);
    for (const std::string& violation : violations) message += violation + "; ";
    message += format("%zu rule%s violated, nothing was launched", violations.size(),
                      violations.size() == 1 ? "" : "s");
    return fail_with(WL_ERROR_INVALID_ARGUMENT, message);
  }
  const cuapi::CUresult result = context.driver->cu.TensorMapEncodeTiled(
      map, desc.type, desc.rank, const_cast<void*>(desc.address), desc.dims, desc.strides, desc.box,
      desc.element_strides, desc.interleave, desc.swizzle, desc.l2_promotion, desc.oob_fill);
  if (result != cuapi::CUDA_SUCCESS)
    return fail_cu(*context.driver, result, "cuTensorMapEncodeTiled", WL_ERROR_INVALID_ARGUMENT,
                   describe(desc).c_str());
  mend_small_map(context.limits, desc, map);
  return WL_SUCCESS;
}

wl_status move_tensor_map(const wl_context& context, const void* address, cuapi::CUtensorMap* map) {
  const uint64_t mended = ~map->opaque[1] & bit_85;
  WL_CHECK_CU(*context.driver, TensorMapReplaceAddress, (map, const_cast<void*>(address)),
              WL_ERROR_INVALID_ARGUMENT);
  map->opaque[1] &= ~mended;
  return WL_SUCCESS;
}

} // namespace warpline
