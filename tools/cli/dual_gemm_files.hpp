// The dual GEMM's operands, random or from safetensors files: a, b1, b2, with their scales where
// they have them, optional alpha1 and alpha2, and a_tensor_scale, b1_tensor_scale, b2_tensor_scale,
// which go into them, and optional bias1 and bias2 (F32, F16 or BF16, [N]).
#pragma once

#include "tools/cli/product_files.hpp"

#include <string>
#include <vector>

namespace warpline::cli {

struct DualGemmProblem {
  wltest::Problem product;
  Numbers bias1, bias2;
};
// `bias`: a type's name, "" for none.
DualGemmProblem make_dual_gemm_problem(int64_t m, int64_t n, int64_t k, int64_t l,
                                       const std::string& bias, uint64_t seed,
                                       wl_operand a_type = WL_OPERAND_NVFP4,
                                       wl_operand b_type = WL_OPERAND_NVFP4);

struct DualGemmFile {
  DualGemmProblem problem;
  bool batched = false;            // tensors have the leading batch dimension
  std::vector<std::string> unused; // names of tensors that the dual GEMM does not take
};

DualGemmFile read_dual_gemm_problem(const std::string& path);
void write_dual_gemm_problem(const std::string& path, const DualGemmProblem& problem);

} // namespace warpline::cli
