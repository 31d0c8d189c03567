// Where a matrix operand lies in shared memory: the 64-bit matrix descriptors of tcgen05
// (PTX ISA 9.7.16.4.1) and wgmma (9.7.15.5), and the address of every 16-byte unit.
//
// Addresses are relative to the shared window of a CTA (18 bits). Swizzling works on them because
// windows start on multiples of 1024 bytes.
//
// r counts rows along M or N, c the 16-byte units along K, k the K rows of an MN-major operand and
// r16 its 16-byte units along M or N:
//
//   mode    K-major (r, c)                                    MN-major (r16, k)
//   none    (r%8)*16 + (r/8)*SBO + c*LBO                      (k%8)*16 + (k/8)*LBO + r16*SBO
//   S bytes (r%8)*S + (r/8)*SBO + c*16, swizzled              (r16%u)*16 + (r16/u)*LBO + (k%g)*S
//                                                             + (k/g)*SBO, swizzled; u = S/16
//
// g is 8, but 4 for 128 bytes with 32-byte atoms, which is MN-major only.
#pragma once

#include "tools/vgpu/tensor/swizzle.hpp"

#include <cstdint>
#include <cstring>
#include <string>

namespace vgpu::tensor {

struct OperandDesc {
  uint32_t start = 0;   // byte address
  uint32_t leading = 0; // LBO in bytes
  uint32_t stride = 0;  // SBO in bytes
  Swizzle swizzle = Swizzle::none;
};

// Each returns an empty string, or what cannot be followed.
std::string decode_tcgen05_desc(uint64_t desc, OperandDesc& out);
std::string decode_wgmma_desc(uint64_t desc, OperandDesc& out);

// Whether elements of `bits` bits may lie this way (9.7.16.10.3; wgmma: 9.7.15.5).
std::string check_operand(const OperandDesc& desc, bool mn_major, int bits, bool wgmma);

// Whether rows of `row_bytes` along K may lie K-major: a swizzled layout has no stride along K.
std::string check_row(const OperandDesc& desc, uint32_t row_bytes);

inline constexpr uint32_t kWindowMask = 0x3FFFF;
inline constexpr uint32_t kUnitBytes = 16;

inline uint32_t k_major_address(const OperandDesc& d, uint32_t r, uint32_t c) {
  uint32_t span = swizzle_span(d.swizzle);
  uint32_t address = span == 0 ? d.start + (r % 8) * 16 + r / 8 * d.stride + c * d.leading
                               : d.start + (r % 8) * span + r / 8 * d.stride + c * 16;
  return swizzle_address(d.swizzle, address);
}

inline uint32_t mn_major_address(const OperandDesc& d, uint32_t r16, uint32_t k) {
  uint32_t span = swizzle_span(d.swizzle);
  if (span == 0) return d.start + (k % 8) * 16 + k / 8 * d.leading + r16 * d.stride;
  uint32_t units = span / 16;
  uint32_t group = d.swizzle == Swizzle::b128_atom32 ? 4 : 8;
  uint32_t address = d.start + (r16 % units) * 16 + r16 / units * d.leading + (k % group) * span +
                     k / group * d.stride;
  return swizzle_address(d.swizzle, address);
}

// Copies an operand into a dense K-major buffer, row after row.
// load(address) gives a pointer to the 16 bytes at an address, readable until the next call.
// gather_k_major knows bytes only (32 for one instruction); gather_mn_major transposes elements of
// 1, 2 or 4 bytes.
template <class Load>
void gather_k_major(const OperandDesc& desc, uint32_t rows, uint32_t row_bytes, Load&& load,
                    unsigned char* out) {
  uint32_t units = row_bytes / kUnitBytes;
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < units; ++c, out += kUnitBytes)
      std::memcpy(out, load(k_major_address(desc, r, c)), kUnitBytes);
}

namespace detail {

template <int ElementBytes, class Load>
void gather_mn_major(const OperandDesc& desc, uint32_t rows, uint32_t k_count, Load& load,
                     unsigned char* out) {
  constexpr uint32_t per_unit = kUnitBytes / ElementBytes;
  uint32_t row_bytes = k_count * ElementBytes;
  for (uint32_t r16 = 0; r16 * per_unit < rows; ++r16) {
    for (uint32_t k = 0; k < k_count; ++k) {
      const unsigned char* unit =
          static_cast<const unsigned char*>(load(mn_major_address(desc, r16, k)));
      unsigned char* place = out + r16 * per_unit * row_bytes + k * ElementBytes;
      // N = 8 of 8-bit elements ends inside a unit.
      uint32_t count = rows - r16 * per_unit < per_unit ? rows - r16 * per_unit : per_unit;
      for (uint32_t e = 0; e < count; ++e)
        std::memcpy(place + e * row_bytes, unit + e * ElementBytes, ElementBytes);
    }
  }
}

} // namespace detail

template <class Load>
void gather_mn_major(const OperandDesc& desc, uint32_t rows, uint32_t k_count, int element_bytes,
                     Load&& load, unsigned char* out) {
  switch (element_bytes) {
  case 1:
    return detail::gather_mn_major<1>(desc, rows, k_count, load, out);
  case 2:
    return detail::gather_mn_major<2>(desc, rows, k_count, load, out);
  default:
    return detail::gather_mn_major<4>(desc, rows, k_count, load, out);
  }
}

} // namespace vgpu::tensor
