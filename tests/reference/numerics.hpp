// The small floating-point formats, by their definitions: the specification that kernels, the
// virtual GPU and the runtime are compared with. Nothing here is tuned; every value is a double.
//
//   format  sign exponent mantissa bias  largest  special codes
//   E2M1       1        2        1    1        6  none
//   E4M3       1        4        3    7      448  S.1111.111 is NaN, no infinity
//   UE4M3      -        4        3    7      448  E4M3 whose sign bit is ignored
//   E5M2       1        5        2   15    57344  exponent 31: infinity and NaN
//   E2M3       1        2        3    1      7.5  none
//   E3M2       1        3        2    3       28  none
//   UE8M0      -        8        0  127    2^127  powers of two; 0xFF is NaN
//   TF32       1        8       10  127  3.40e38  FP32 whose lower 13 bits are ignored
//   F16        1        5       10   15    65504  exponent 31: infinity and NaN
//   BF16       1        8        7  127  3.39e38  exponent 255: infinity and NaN
//
// Encoders round to nearest, ties to even, once, from the double they are given.
#pragma once

#include <cstdint>

namespace wltest {

double decode_e2m1(uint8_t code);  // the low four bits
double decode_e4m3(uint8_t code);  // both signs; 0x7F and 0xFF are NaN
double decode_ue4m3(uint8_t code); // bit 7 ignored; 0x7F and 0xFF are NaN
double decode_e5m2(uint8_t code);
double decode_e2m3(uint8_t code); // the low six bits
double decode_e3m2(uint8_t code);
double decode_ue8m0(uint8_t code);
double decode_tf32(uint32_t code);
double decode_f16(uint16_t code);
double decode_bf16(uint16_t code);

// Values beyond the largest finite one saturate, as cvt...satfinite does. E2M1 has no NaN: a NaN
// becomes +6. A NaN becomes 0x7F in E4M3.
uint8_t encode_e2m1(double value);
uint8_t encode_e4m3(double value);
uint8_t encode_e5m2(double value); // an infinity saturates, too; a NaN becomes 0x7F
uint8_t encode_e2m3(double value); // a NaN becomes +7.5
uint8_t encode_e3m2(double value); // a NaN becomes +28
// Values beyond the largest finite one become infinite; a NaN becomes 0x7FFF, the GPU's NaN.
uint16_t encode_f16(double value);
uint16_t encode_bf16(double value);

enum class OutputType { f16, bf16 };
const char* name_of(OutputType type); // "f16", "bf16"
double decode_output(OutputType type, uint16_t code);
uint16_t encode_output(OutputType type, double value);
// Magnitudes from here on round to infinity: the largest finite value plus half its last place.
double overflow_threshold(OutputType type);
bool is_nan(OutputType type, uint16_t code);

// Code of element k of a packed row, two values a byte: the lower nibble is the even k.
inline uint8_t nibble(const uint8_t* packed, int64_t k) {
  return static_cast<uint8_t>(packed[k / 2] >> (k % 2 * 4) & 0xF);
}

// ex2.approx.ftz and rcp.approx.ftz, taken as the FP32 value nearest to the true one, inputs and
// results below 2^-126 flushed to zero. A GPU's may differ from that in the last place.
float ex2_ftz(float x);
float rcp_ftz(float x);

} // namespace wltest
