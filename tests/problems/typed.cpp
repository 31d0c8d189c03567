// Operands of other types than NVFP4, made of NVFP4 ones.
#include "tests/problems/products.hpp"
#include "tests/reference/elements.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace wltest::problems {

namespace {

// What some rows hold beside zeros, a code of the type: a very large one, a very small one, and an
// infinity where it has one. FP32 holds the products of BF16's and TF32's.
struct Alone {
  uint32_t codes[3];
  size_t count;
};
Alone alone_of(wl_operand type) {
  switch (type) {
  case WL_OPERAND_F16:
    return {{0x7BFF, 1, 0x7C00}, 3};
  case WL_OPERAND_BF16:
    return {{0x5DFF, 0x2180, 0x7F80}, 3};
  case WL_OPERAND_TF32:
    return {{0x5DFFE000, 0x21800000, 0x7F800000}, 3};
  case WL_OPERAND_E4M3:
  case WL_OPERAND_MXFP8_E4M3:
    return {{0x7E, 1}, 2};
  case WL_OPERAND_E5M2:
  case WL_OPERAND_MXFP8_E5M2:
    return {{0x7B, 1, 0x7C}, 3};
  case WL_OPERAND_INT8:
    return {{0x80, 1}, 2};
  default:
    return {{}, 0};
  }
}

// Powers of two whose products with all E2M1 values the type holds; no others are needed where it
// holds their products with E4M3 numbers.
struct Powers {
  int least, most;
};
bool has_powers(wl_operand type, Powers* powers) {
  if (type == WL_OPERAND_E4M3) *powers = {-8, 6};
  if (type == WL_OPERAND_E5M2) *powers = {-15, 13};
  return type == WL_OPERAND_E4M3 || type == WL_OPERAND_E5M2;
}

uint32_t code_of(wl_operand type, double value, double scale) {
  Powers powers{};
  if (has_powers(type, &powers) && scale != 0 && !std::isnan(scale))
    scale = std::ldexp(1.0, std::clamp(std::ilogb(scale), powers.least, powers.most));
  return encode_element(type, value * scale);
}

// Of all E2M1 values, 16 in a row, under all UE4M3 scales.
const std::vector<uint32_t>& codes_of(wl_operand type) {
  static thread_local std::map<wl_operand, std::vector<uint32_t>> of_types;
  std::vector<uint32_t>& codes = of_types[type];
  for (uint32_t i = 0; codes.size() < 16 * 256; ++i)
    codes.push_back(code_of(type, decode_e2m1(static_cast<uint8_t>(i % 16)),
                            decode_ue4m3(static_cast<uint8_t>(i / 16))));
  return codes;
}

bool is_mx(wl_operand type) { return type >= WL_OPERAND_MXFP8_E4M3; }

// The scales of all blocks of 32, powers of two beside those of the blocks of 16: in plain rows of
// three binades, NaN where those are.
void set_mx_scales(const Operand& from, Operand* to) {
  const int64_t blocks = to->k / 32;
  to->scales.resize(static_cast<size_t>(to->l * to->rows * blocks));
  for (int64_t row = 0; row < to->l * to->rows; ++row)
    for (int64_t i = 0; i < blocks; ++i) {
      const uint8_t* pair = &from.scales[static_cast<size_t>(row * (from.k / 16) + 2 * i)];
      const double scale = decode_ue4m3(pair[0]) + 0 * decode_ue4m3(pair[1]);
      to->scales[static_cast<size_t>(row * blocks + i)] =
          std::isnan(scale) ? 0xFF
          : scale == 0      ? uint8_t{127 - 9} // as of the smallest one
                            : static_cast<uint8_t>(127 + std::ilogb(scale));
    }
}

// INT8 takes all numbers in some rows, small ones in the others, whose sums 16 bits hold, or with
// `lowest` the four next to -128, whose products have one sign.
uint32_t integer_of(bool whole_range, bool lowest, uint64_t bits) {
  if (lowest) return static_cast<uint32_t>(0x80 + bits % 4);
  return whole_range ? static_cast<uint32_t>(bits & 0xFF)
                     : static_cast<uint8_t>(static_cast<int>(bits % 15) - 7);
}

// Around 1.
uint32_t spread(wl_operand type, uint64_t bits) {
  const int mantissa = type == WL_OPERAND_E4M3 ? 3 : 2, bias = type == WL_OPERAND_E4M3 ? 7 : 15;
  const auto exponent = static_cast<uint32_t>(bias - 3 + static_cast<int>(bits % 7));
  return exponent << mantissa | static_cast<uint32_t>(bits >> 8 & ((1u << mantissa) - 1)) |
         static_cast<uint32_t>(bits >> 16 & 0x80);
}

} // namespace

Operand retyped(const Operand& from, wl_operand type, int64_t k, uint64_t seed, bool all_bits) {
  if (type == WL_OPERAND_NVFP4) return from;
  Operand to{from.rows, k, from.l, {}, {}, type};
  to.values.resize(static_cast<size_t>(from.l * from.rows) * to.row_bytes());
  const Random kinds(seed, 13), places(seed, 14), others(seed, 15);
  const Alone alone = alone_of(type);
  const bool mx = is_mx(type);
  constexpr uint8_t one = 0x38; // as a UE4M3 scale
  constexpr uint32_t infinity = 0x7F800000;
  const uint32_t* codes = type == WL_OPERAND_INT8 ? nullptr : codes_of(type).data();
  if (mx) set_mx_scales(from, &to);
  for (int64_t row = 0; row < from.l * from.rows; ++row) {
    const auto r = static_cast<uint64_t>(row);
    const uint64_t kind = kinds.below(r, 32);
    const auto only = static_cast<int64_t>(places.below(r, static_cast<uint64_t>(k)));
    const uint8_t* values = &from.values[static_cast<size_t>(row * from.k / 2)];
    const uint8_t* scales = &from.scales[static_cast<size_t>(row * from.k / 16)];
    uint8_t* out = &to.values[static_cast<size_t>(row) * to.row_bytes()];
    const auto random = [&](int64_t i) {
      return others.bits(r * static_cast<uint64_t>(k) + static_cast<uint64_t>(i));
    };
    const auto fill = [&](const auto& code_at) {
      for (int64_t i = 0; i < k; ++i) set_element(type, out, i, code_at(i));
    };
    const auto plain = [&](int64_t i) {
      return codes[16 * (mx ? one : scales[i / 16]) + nibble(values, i)];
    };
    if (kind < alone.count) {
      const bool negative = row % 2 == 1 && type != WL_OPERAND_INT8;
      const uint32_t sign = negative ? uint32_t{1} << (element_bits(type) - 1) : 0;
      fill([&](int64_t i) { return i == only ? alone.codes[kind] | sign : 0; });
    } else if (element_bits(type) == 6 && kind % 4 == 3) { // all numbers of 6 bits
      fill([&](int64_t i) { return static_cast<uint32_t>(random(i) & 0x3F); });
    } else if (all_bits && kind % 4 == 3 && type != WL_OPERAND_INT8) {
      fill([&](int64_t i) { return spread(type, random(i)); });
    } else if (type == WL_OPERAND_INT8) {
      fill([&](int64_t i) {
        return integer_of(kind % 4 == 3, all_bits && kind % 2 == 0, random(i));
      });
    } else if (type == WL_OPERAND_TF32) {
      // The tensor core leaves out the lower bits of FP32.
      fill([&](int64_t i) {
        const uint32_t code = plain(i);
        const bool finite = (code & infinity) != infinity;
        return finite ? code | static_cast<uint32_t>(random(i) & 0x1FFF) : code;
      });
    } else {
      fill(plain);
    }
  }
  return to;
}

} // namespace wltest::problems
