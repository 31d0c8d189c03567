// The dual GEMM's tensors in safetensors files. Read: a, b1, b2 (U8 or F4, [rows, K/2] bytes),
// a_scale, b1_scale, b2_scale (F8_E4M3, [rows, K/16], plain layout), optional alpha1, alpha2 (F32,
// one element) and a_tensor_scale, b1_tensor_scale, b2_tensor_scale likewise, which go into them. A
// batch has one leading dimension more, the same for all. Written: d.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/reference/numerics.hpp"
#include "tools/cli/failure.hpp"
#include "tools/cli/safetensors.hpp"

#include <string>
#include <vector>

namespace warpline::cli {

struct FileProblem {
  wltest::Problem problem;
  bool batched = false;            // tensors have the leading batch dimension
  std::vector<std::string> unused; // names of tensors that the dual GEMM does not take
};

FileProblem read_problem(const std::string& path);
void write_problem(const std::string& path, const wltest::Problem& problem);
void write_result(const std::string& path, const wltest::Problem& problem, bool batched,
                  wltest::OutputType type, const std::vector<uint16_t>& d);
// In NVFP4: d (U8), d_scale (F8_E4M3, plain layout) and the scale of the whole, d_tensor_scale.
void write_result(const std::string& path, bool batched, const wltest::Operand& d, float d_scale);

constexpr char scale_ending[] = "_scale";

// Parts of such files: a tensor's shape, with the batch when there is one; NAME and NAME_scale.
std::vector<uint64_t> matrix_shape(bool batched, int64_t l, int64_t rows, int64_t columns);
void add_operand(std::vector<OutputTensor>* tensors, const std::string& name, bool batched,
                 const wltest::Operand& operand);

} // namespace warpline::cli
