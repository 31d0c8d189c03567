// Matrices in safetensors files before and after quantisation. Read: every F16 or BF16 tensor,
// [rows, K] or [batch, rows, K]. Written for each: NAME (U8, [.., rows, K/2]), NAME_scale (F8_E4M3,
// [.., rows, K/16], plain layout) and NAME_tensor_scale (F32, one element).
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/reference/quantize.hpp"
#include "tools/cli/safetensors.hpp"

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
};
void write_quantized(const std::string& path, const std::vector<QuantizedMatrix>& matrices);

} // namespace warpline::cli
