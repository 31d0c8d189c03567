// Elements of operands by their type: their places in a row and what their codes mean.
#pragma once

#include "warpline/warpline.h"

#include <cstdint>
#include <vector>

namespace wltest {

int element_bits(wl_operand type);
// Of element k of a row: rows are packed, the first element lies in the lowest bits.
uint32_t element_at(wl_operand type, const uint8_t* row, int64_t k);
void set_element(wl_operand type, uint8_t* row, int64_t k, uint32_t code);

double decode_element(wl_operand type, uint32_t code);
// Of all codes of a type of at most 16 bits.
const std::vector<float>& decoded_codes(wl_operand type);
// Of a value that the type holds; else rounded as numerics.hpp does.
uint32_t encode_element(wl_operand type, double value);

} // namespace wltest
