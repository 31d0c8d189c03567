// Matrices in safetensors files before and after quantisation. Read: every F16 or BF16 tensor,
// [rows, K] or [batch, rows, K]. Written for each: NAME (U8, [.., rows, K/2]), NAME_scale (F8_E4M3,
// [.., rows, K/16], plain layout) and NAME_tensor_scale (F32, one element); with a residual
// NAME_sum in the matrix's type.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/reference/quantize.hpp"
#include "tools/cli/product_files.hpp"
#include "tools/cli/safetensors.hpp"
#include "warpline/warpline.h"

#include <string>
#include <vector>

namespace warpline::cli {

struct NamedMatrix {
  std::string name;
  bool batched; // the tensor has a batch dimension
  wltest::Matrix x;
};
// Names and sizes, no codes yet. Says on stderr what is of another type or rank and left out.
std::vector<NamedMatrix> list_matrices(const SafetensorsFile& file);
// The matrix of that name out of the list; refuses one that has other sizes or another type than
// those that are left.
NamedMatrix take_residual(const std::string& path, const std::string& name,
                          std::vector<NamedMatrix>* matrices);
// A tensor [K] for every matrix of the list, in F32 or in the matrices' type.
Numbers read_numbers(const SafetensorsFile& file, const std::string& name,
                     const std::vector<NamedMatrix>& matrices);
void read_codes(const SafetensorsFile& file, NamedMatrix* matrix);
void write_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices);

// Refuses matrices of which two would write a tensor of the same name: "a" and "a_scale" both make
// "a_scale".
void check_names(const std::string& path, const std::vector<NamedMatrix>& matrices);

struct QuantizedMatrix {
  std::string name;
  bool batched;
  wltest::Operand d;
  float d_scale;
  wltest::Matrix sum{}; // with the residual; no codes: there is none
};
void write_quantized(const std::string& path, const std::vector<QuantizedMatrix>& matrices);

} // namespace warpline::cli
