#include "tools/cli/gemm_files.hpp"

#include "tools/cli/product.hpp"

namespace warpline::cli {
namespace {

// From 1/2 to 2.
Numbers random_factors(size_t count, uint64_t seed, uint64_t stream) {
  const wltest::Random random(seed, stream);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(0.5 + 1.5 * random.uniform(i));
  return {WL_F32, wltest::rounded(values, WL_F32)};
}

std::vector<uint64_t> row_shape(bool batched, const wltest::Problem& p) {
  std::vector<uint64_t> shape = matrix_shape(batched, p.l, p.m, 1);
  shape.pop_back();
  return shape;
}

} // namespace

GemmProblem make_gemm_problem(int64_t m, int64_t n, int64_t k, int64_t l, const Beside& beside,
                              uint64_t seed, const gemm::Types& types) {
  GemmProblem p;
  p.product = random_product(m, n, k, l, types, seed, 1);
  const auto rows = static_cast<size_t>(l * m), columns = static_cast<size_t>(n);
  // Streams behind those of A and B.
  if (!beside.bias.empty()) p.bias = random_numbers(dtype_of(beside.bias), columns, seed, 16);
  if (beside.row) p.row = random_factors(rows, seed, 17);
  if (!beside.residual.empty())
    p.residual = random_numbers(dtype_of(beside.residual), rows * columns, seed, 18);
  if (beside.col) p.col = random_factors(columns, seed, 19);
  return p;
}

GemmFile read_gemm_problem(const std::string& path) {
  ProductFile file(path, {"a", "b", "a_scale", "b_scale", "alpha", "a_tensor_scale",
                          "b_tensor_scale", "bias", "row", "col", "residual"});
  GemmFile result;
  GemmProblem& problem = result.problem;
  wltest::Problem& p = problem.product;
  p.a = file.read_a();
  p.b1 = file.read_b("b");
  p.alpha1 = file.factor("alpha") * file.factor("a_tensor_scale") * file.factor("b_tensor_scale");
  p.m = p.a.rows;
  p.n = p.b1.rows;
  p.k = p.a.k;
  p.l = p.a.l;
  result.batched = file.batched();
  problem.bias = file.bias("bias", "b", p.n);
  problem.row = file.numbers("row", {"F32"}, row_shape(result.batched, p),
                             "one factor for each row of \"a\"");
  problem.col = file.numbers("col", {"F32"}, {static_cast<uint64_t>(p.n)},
                             "one factor for each row of \"b\"");
  problem.residual =
      file.numbers("residual", {"F16", "BF16", "F32"}, matrix_shape(result.batched, p.l, p.m, p.n),
                   "rows of \"a\" and rows of \"b\"");
  result.unused = file.unused();
  return result;
}

void write_gemm_problem(const std::string& path, const GemmProblem& problem) {
  const wltest::Problem& p = problem.product;
  const bool batched = p.l > 1;
  std::vector<OutputTensor> tensors;
  tensors.push_back({"alpha", "F32", {1}, &p.alpha1, sizeof p.alpha1});
  add_operand(&tensors, "a", batched, p.a);
  add_operand(&tensors, "b", batched, p.b1);
  add_numbers(&tensors, "bias", {static_cast<uint64_t>(p.n)}, problem.bias);
  add_numbers(&tensors, "row", row_shape(batched, p), problem.row);
  add_numbers(&tensors, "col", {static_cast<uint64_t>(p.n)}, problem.col);
  add_numbers(&tensors, "residual", matrix_shape(batched, p.l, p.m, p.n), problem.residual);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline make-example"}});
}

} // namespace warpline::cli
