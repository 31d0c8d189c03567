#include "tests/reference/elements.hpp"

#include "tests/reference/numerics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

namespace wltest {

int element_bits(wl_operand type) {
  switch (type) {
  case WL_OPERAND_TF32:
    return 32;
  case WL_OPERAND_F16:
  case WL_OPERAND_BF16:
    return 16;
  case WL_OPERAND_MXFP6_E2M3:
  case WL_OPERAND_MXFP6_E3M2:
    return 6;
  case WL_OPERAND_NVFP4:
  case WL_OPERAND_MXFP4:
    return 4;
  default:
    return 8;
  }
}

uint32_t element_at(wl_operand type, const uint8_t* row, int64_t k) {
  const int bits = element_bits(type);
  const int64_t first = k * bits;
  const int shift = static_cast<int>(first % 8);
  uint32_t code = 0;
  for (int i = 0; i < shift + bits; i += 8)
    code |= static_cast<uint32_t>(row[first / 8 + i / 8]) << i;
  return bits == 32 ? code : code >> shift & ((1u << bits) - 1);
}

void set_element(wl_operand type, uint8_t* row, int64_t k, uint32_t code) {
  const int bits = element_bits(type);
  if (bits == 8) {
    row[k] = static_cast<uint8_t>(code);
    return;
  }
  if (bits == 16) {
    const auto half = static_cast<uint16_t>(code);
    std::memcpy(&row[2 * k], &half, sizeof half);
    return;
  }
  const int64_t first = k * bits;
  const int shift = static_cast<int>(first % 8);
  const uint64_t mask = ((uint64_t{1} << bits) - 1) << shift;
  const uint64_t lies = uint64_t{code} << shift & mask;
  for (int i = 0; i < shift + bits; i += 8) {
    uint8_t& byte = row[first / 8 + i / 8];
    byte = static_cast<uint8_t>((byte & ~(mask >> i)) | lies >> i);
  }
}

double decode_element(wl_operand type, uint32_t code) {
  switch (type) {
  case WL_OPERAND_F16:
    return decode_f16(static_cast<uint16_t>(code));
  case WL_OPERAND_BF16:
    return decode_bf16(static_cast<uint16_t>(code));
  case WL_OPERAND_TF32:
    return decode_tf32(code);
  case WL_OPERAND_E4M3:
  case WL_OPERAND_MXFP8_E4M3:
    return decode_e4m3(static_cast<uint8_t>(code));
  case WL_OPERAND_E5M2:
  case WL_OPERAND_MXFP8_E5M2:
    return decode_e5m2(static_cast<uint8_t>(code));
  case WL_OPERAND_INT8:
    return static_cast<int8_t>(code);
  case WL_OPERAND_MXFP6_E2M3:
    return decode_e2m3(static_cast<uint8_t>(code));
  case WL_OPERAND_MXFP6_E3M2:
    return decode_e3m2(static_cast<uint8_t>(code));
  default:
    return decode_e2m1(static_cast<uint8_t>(code));
  }
}

const std::vector<float>& decoded_codes(wl_operand type) {
  static std::mutex mutex;
  static std::map<wl_operand, std::vector<float>> of_types;
  const std::lock_guard lock(mutex);
  std::vector<float>& values = of_types[type];
  if (values.empty())
    for (uint32_t code = 0; code < 1u << element_bits(type); ++code)
      values.push_back(static_cast<float>(decode_element(type, code)));
  return values;
}

uint32_t encode_element(wl_operand type, double value) {
  switch (type) {
  case WL_OPERAND_F16:
    return encode_f16(value);
  case WL_OPERAND_BF16:
    return encode_bf16(value);
  case WL_OPERAND_TF32:
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  case WL_OPERAND_E4M3:
  case WL_OPERAND_MXFP8_E4M3:
    return encode_e4m3(value);
  case WL_OPERAND_E5M2:
  case WL_OPERAND_MXFP8_E5M2:
    return encode_e5m2(value);
  case WL_OPERAND_INT8:
    return static_cast<uint8_t>(std::lrint(std::clamp(value, -128.0, 127.0)));
  case WL_OPERAND_MXFP6_E2M3:
    return encode_e2m3(value);
  case WL_OPERAND_MXFP6_E3M2:
    return encode_e3m2(value);
  default:
    return encode_e2m1(value);
  }
}

} // namespace wltest
