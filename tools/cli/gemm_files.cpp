#include "tools/cli/gemm_files.hpp"

#include "tools/cli/json.hpp"
#include "tools/cli/product.hpp"

#include <cstring>

namespace warpline::cli {
namespace {

Numbers random_numbers(wl_dtype type, size_t count, uint64_t seed, uint64_t stream) {
  const wltest::Random random(seed, stream);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>(random.below(i, 127)) - 63) / 8;
  return {type, wltest::rounded(values, type)};
}

// From 1/2 to 2.
Numbers random_factors(size_t count, uint64_t seed, uint64_t stream) {
  const wltest::Random random(seed, stream);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(0.5 + 1.5 * random.uniform(i));
  return {WL_F32, wltest::rounded(values, WL_F32)};
}

wl_dtype dtype_of_file(const std::string& dtype) {
  return dtype == "F16" ? WL_F16 : dtype == "BF16" ? WL_BF16 : WL_F32;
}

Numbers read_numbers(const ProductFile& file, const std::string& name,
                     const std::vector<std::string>& dtypes, const std::vector<uint64_t>& shape,
                     const std::string& what) {
  const Tensor* tensor = file.find(name);
  if (!tensor) return {};
  file.require_dtype(*tensor, dtypes);
  file.require_shape(*tensor, shape, what);
  return {dtype_of_file(tensor->dtype), file.read(*tensor)};
}

std::vector<uint64_t> row_shape(bool batched, const wltest::Problem& p) {
  std::vector<uint64_t> shape = matrix_shape(batched, p.l, p.m, 1);
  shape.pop_back();
  return shape;
}

} // namespace

std::vector<float> values_of(const Numbers& numbers) {
  const size_t element = element_bytes(numbers.type);
  std::vector<float> values(numbers.bytes.size() / element);
  if (numbers.type == WL_F32) {
    if (!values.empty()) std::memcpy(values.data(), numbers.bytes.data(), numbers.bytes.size());
    return values;
  }
  const auto type = numbers.type == WL_F16 ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t code;
    std::memcpy(&code, &numbers.bytes[2 * i], 2);
    values[i] = static_cast<float>(wltest::decode_output(type, code));
  }
  return values;
}

GemmProblem make_gemm_problem(int64_t m, int64_t n, int64_t k, int64_t l, const Beside& beside,
                              uint64_t seed) {
  GemmProblem p;
  p.product = wltest::make_problem(m, n, k, l, wltest::InputKind::public_problem, seed, 1);
  const auto rows = static_cast<size_t>(l * m), columns = static_cast<size_t>(n);
  // Streams behind those of A and B.
  if (!beside.bias.empty()) p.bias = random_numbers(dtype_of(beside.bias), columns, seed, 16);
  if (beside.row) p.row = random_factors(rows, seed, 17);
  if (!beside.residual.empty())
    p.residual = random_numbers(dtype_of(beside.residual), rows * columns, seed, 18);
  return p;
}

GemmFile read_gemm_problem(const std::string& path) {
  ProductFile file(path, {"a", "b", "a_scale", "b_scale", "alpha", "a_tensor_scale",
                          "b_tensor_scale", "bias", "row", "residual"});
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
  problem.bias = read_numbers(file, "bias", {"F32", "F16", "BF16"}, {static_cast<uint64_t>(p.n)},
                              "one number for each row of \"b\"");
  problem.row = read_numbers(file, "row", {"F32"}, row_shape(result.batched, p),
                             "one factor for each row of \"a\"");
  problem.residual =
      read_numbers(file, "residual", {"F16", "BF16", "F32"},
                   matrix_shape(result.batched, p.l, p.m, p.n), "rows of \"a\" and rows of \"b\"");
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
  const auto add = [&](const char* name, const std::vector<uint64_t>& shape, const Numbers& of) {
    if (of.given())
      tensors.push_back({name, file_dtype(of.type), shape, of.bytes.data(), of.bytes.size()});
  };
  add("bias", {static_cast<uint64_t>(p.n)}, problem.bias);
  add("row", row_shape(batched, p), problem.row);
  add("residual", matrix_shape(batched, p.l, p.m, p.n), problem.residual);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline make-example"}});
}

} // namespace warpline::cli
