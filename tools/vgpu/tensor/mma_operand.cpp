#include "tools/vgpu/tensor/mma_operand.hpp"

#include <cstdio>

namespace vgpu::tensor {
namespace {

template <class... T>
std::string sentence(const char* format, T... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return std::string("matrix descriptor: ") + line;
}

uint32_t field(uint64_t desc, int low, int count) {
  return uint32_t(desc >> low & ((uint64_t(1) << count) - 1));
}

std::string decode_common(uint64_t desc, OperandDesc& d) {
  d.start = field(desc, 0, 14) << 4;
  d.leading = field(desc, 16, 14) << 4;
  d.stride = field(desc, 32, 14) << 4;
  if (field(desc, 14, 2) || field(desc, 30, 2))
    return sentence("reserved bits 14-15 or 30-31 are set in 0x%016llx", (unsigned long long)desc);
  if (field(desc, 49, 3))
    return sentence("base offset %u is not modelled: start the swizzle pattern on its natural "
                    "boundary (%u bytes)",
                    field(desc, 49, 3), swizzle_period(d.swizzle));
  return {};
}

} // namespace

std::string decode_tcgen05_desc(uint64_t desc, OperandDesc& out) {
  OperandDesc d;
  switch (field(desc, 61, 3)) {
  case 0:
    d.swizzle = Swizzle::none;
    break;
  case 1:
    d.swizzle = Swizzle::b128_atom32;
    break;
  case 2:
    d.swizzle = Swizzle::b128;
    break;
  case 4:
    d.swizzle = Swizzle::b64;
    break;
  case 6:
    d.swizzle = Swizzle::b32;
    break;
  default:
    return sentence("layout type %u does not exist (bits 61-63)", field(desc, 61, 3));
  }
  if (field(desc, 46, 3) != 1)
    return sentence("bits 46-48 are %u, tcgen05 needs 1%s", field(desc, 46, 3),
                    field(desc, 46, 3) == 0 ? " (is this a wgmma descriptor?)" : "");
  if (field(desc, 52, 1))
    return sentence("an absolute leading dimension (bit 52) is not modelled: sm_103a, K = 96 only");
  if (field(desc, 53, 8)) return sentence("reserved bits 53-60 are set");
  std::string error = decode_common(desc, d);
  if (error.empty()) out = d;
  return error;
}

std::string decode_wgmma_desc(uint64_t desc, OperandDesc& out) {
  OperandDesc d;
  switch (field(desc, 62, 2)) {
  case 0:
    d.swizzle = Swizzle::none;
    break;
  case 1:
    d.swizzle = Swizzle::b128;
    break;
  case 2:
    d.swizzle = Swizzle::b64;
    break;
  default:
    d.swizzle = Swizzle::b32;
    break;
  }
  if (field(desc, 46, 3)) {
    return sentence("bits 46-48 are %u, wgmma needs 0%s", field(desc, 46, 3),
                    field(desc, 46, 3) == 1 ? " (is this a tcgen05 descriptor?)" : "");
  }
  if (field(desc, 52, 10)) return sentence("reserved bits 52-61 are set");
  std::string error = decode_common(desc, d);
  if (error.empty()) out = d;
  return error;
}

std::string check_row(const OperandDesc& d, uint32_t row_bytes) {
  const uint32_t line = swizzle_span(d.swizzle);
  if (line == 0 || row_bytes <= line) return {};
  return sentence("rows of %u bytes do not fit swizzle %s", row_bytes, swizzle_name(d.swizzle));
}

std::string check_operand(const OperandDesc& d, bool mn_major, int bits, bool wgmma) {
  const char* swizzle = swizzle_name(d.swizzle);
  if (wgmma) {
    if (mn_major && bits != 16)
      return sentence("wgmma takes MN-major operands of 16-bit types only, not of %d bits", bits);
    return {};
  }
  if (!mn_major) {
    if (d.swizzle == Swizzle::b128_atom32)
      return sentence("swizzle %s is for MN-major tf32 operands only", swizzle);
    return {};
  }
  if (bits < 8) return sentence("elements of %d bits must be K-major", bits);
  bool atom32 = d.swizzle == Swizzle::b128_atom32;
  if (bits == 32 && !atom32)
    return sentence("an MN-major tf32 operand needs swizzle 128B with 32B atoms, not %s", swizzle);
  if (bits != 32 && atom32)
    return sentence("swizzle %s is for MN-major tf32 operands only", swizzle);
  return {};
}

} // namespace vgpu::tensor
