// The dual GEMM's operands in safetensors files: a, b1, b2 with their scales, optional alpha1 and
// alpha2, and a_tensor_scale, b1_tensor_scale, b2_tensor_scale, which go into them.
#pragma once

#include "tools/cli/product_files.hpp"

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

} // namespace warpline::cli
