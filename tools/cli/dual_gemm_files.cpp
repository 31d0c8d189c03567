#include "tools/cli/dual_gemm_files.hpp"

#include "tools/cli/product.hpp"

namespace warpline::cli {

DualGemmProblem make_dual_gemm_problem(int64_t m, int64_t n, int64_t k, int64_t l,
                                       const std::string& bias, uint64_t seed, wl_operand a_type,
                                       wl_operand b_type) {
  DualGemmProblem p;
  p.product = random_product(m, n, k, l, {a_type, b_type}, seed, 2);
  if (bias.empty()) return p;
  // Streams behind those of the operands.
  p.bias1 = random_numbers(dtype_of(bias), static_cast<size_t>(n), seed, 16);
  p.bias2 = random_numbers(dtype_of(bias), static_cast<size_t>(n), seed, 17);
  return p;
}

DualGemmFile read_dual_gemm_problem(const std::string& path) {
  ProductFile file(path,
                   {"a", "b1", "b2", "a_scale", "b1_scale", "b2_scale", "alpha1", "alpha2",
                    "a_tensor_scale", "b1_tensor_scale", "b2_tensor_scale", "bias1", "bias2"});
  DualGemmFile result;
  DualGemmProblem& problem = result.problem;
  wltest::Problem& p = problem.product;
  p.a = file.read_a();
  p.b1 = file.read_b("b1");
  p.b2 = file.read_b("b2");
  const float of_a = file.factor("a_tensor_scale");
  p.alpha1 = file.factor("alpha1") * of_a * file.factor("b1_tensor_scale");
  p.alpha2 = file.factor("alpha2") * of_a * file.factor("b2_tensor_scale");
  p.m = p.a.rows;
  p.n = p.b1.rows;
  p.k = p.a.k;
  p.l = p.a.l;
  result.batched = file.batched();
  if (p.b2.rows != p.n)
    file.refuse("tensor \"b2\" has " + std::to_string(p.b2.rows) + " rows, \"b1\" has " +
                std::to_string(p.n) + ": they must be equal");
  if (p.b2.type != p.b1.type)
    file.refuse("tensor \"b1\" is of " + name_of(p.b1.type) + ", \"b2\" of " + name_of(p.b2.type) +
                ": they must be equal");
  problem.bias1 = file.bias("bias1", "b1", p.n);
  problem.bias2 = file.bias("bias2", "b2", p.n);
  if (problem.bias1.given() && problem.bias2.given() && problem.bias1.type != problem.bias2.type)
    file.refuse(std::string("tensor \"bias1\" is ") + file_dtype(problem.bias1.type) +
                ", \"bias2\" is " + file_dtype(problem.bias2.type) + ": they must be equal");
  result.unused = file.unused();
  return result;
}

void write_dual_gemm_problem(const std::string& path, const DualGemmProblem& problem) {
  const wltest::Problem& p = problem.product;
  const bool batched = p.l > 1;
  std::vector<OutputTensor> tensors;
  tensors.push_back({"alpha1", "F32", {1}, &p.alpha1, sizeof p.alpha1});
  tensors.push_back({"alpha2", "F32", {1}, &p.alpha2, sizeof p.alpha2});
  add_operand(&tensors, "a", batched, p.a);
  add_operand(&tensors, "b1", batched, p.b1);
  add_operand(&tensors, "b2", batched, p.b2);
  add_numbers(&tensors, "bias1", {static_cast<uint64_t>(p.n)}, problem.bias1);
  add_numbers(&tensors, "bias2", {static_cast<uint64_t>(p.n)}, problem.bias2);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline make-example"}});
}

} // namespace warpline::cli
