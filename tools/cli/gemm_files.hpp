// The operands of wl_gemm, random or from a safetensors file. Read: a and b, with their scales
// where they have them, optional alpha, a_tensor_scale and b_tensor_scale, which go into it, and
// what stands beside the product: bias (F32, F16 or BF16, [N]), row (F32, [M] or [batch, M]), col
// (F32, [N]) and residual (F16, BF16 or F32, [M, N] or [batch, M, N]).
#pragma once

#include "kernels/gemm/operand.hpp"
#include "tests/reference/linear.hpp"
#include "tools/cli/product_files.hpp"

#include <string>
#include <vector>

namespace warpline::cli {

struct GemmProblem {
  wltest::Problem product; // b1 alone, alpha1
  Numbers bias, row, residual, col = {};
};

// What a random problem has beside A and B.
struct Beside {
  std::string bias; // a type's name, "" for none
  bool row = false;
  std::string residual; // likewise
  bool col = false;
};
// alpha takes the unit of INT8 operands out again: problems of one seed have about the same sums.
GemmProblem make_gemm_problem(int64_t m, int64_t n, int64_t k, int64_t l, const Beside& beside,
                              uint64_t seed, const gemm::Types& types = {});

struct GemmFile {
  GemmProblem problem;
  bool batched = false;            // tensors have the leading batch dimension
  std::vector<std::string> unused; // names of tensors that wl_gemm does not take
};
GemmFile read_gemm_problem(const std::string& path);
void write_gemm_problem(const std::string& path, const GemmProblem& problem);

} // namespace warpline::cli
