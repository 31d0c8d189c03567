#include "tools/cli/quantize_files.hpp"

#include "tools/cli/json.hpp"
#include "tools/cli/product_files.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace warpline::cli {
namespace {

constexpr char tensor_scale_ending[] = "_tensor_scale", sum_ending[] = "_sum";

bool is_matrix(const Tensor& tensor) {
  if (tensor.dtype != "F16" && tensor.dtype != "BF16") return false;
  if (tensor.shape.size() != 2 && tensor.shape.size() != 3) return false;
  for (const uint64_t extent : tensor.shape)
    if (extent == 0 || extent > uint64_t{1} << 40) return false;
  return true;
}

const char* dtype_of(const wltest::Matrix& x) {
  return x.type == wltest::OutputType::f16 ? "F16" : "BF16";
}

} // namespace

std::vector<NamedMatrix> list_matrices(const SafetensorsFile& file) {
  const std::string& path = file.path();
  std::vector<NamedMatrix> result;
  std::vector<std::string> left_out;
  for (const Tensor& tensor : file.tensors()) {
    if (!is_matrix(tensor)) {
      left_out.push_back(tensor.name);
      continue;
    }
    const size_t rank = tensor.shape.size();
    NamedMatrix& matrix = result.emplace_back();
    matrix.name = tensor.name;
    matrix.batched = rank == 3;
    matrix.x.l = static_cast<int64_t>(matrix.batched ? tensor.shape[0] : 1);
    matrix.x.rows = static_cast<int64_t>(tensor.shape[rank - 2]);
    matrix.x.k = static_cast<int64_t>(tensor.shape[rank - 1]);
    if (matrix.x.k % 64 != 0)
      throw Failure(exit_usage, path + ": tensor " + shown_name(tensor.name) + " has shape " +
                                    shape_text(tensor.shape) +
                                    ", its rows must be a multiple of 64 values");
    matrix.x.type = tensor.dtype == "F16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  }
  if (result.empty())
    throw Failure(exit_usage,
                  path + ": has no tensor of F16 or BF16 with shape [rows, K] or [batch, rows, K]");
  if (!left_out.empty())
    std::fprintf(stderr, "warpline: %s: left out, no matrix of F16 or BF16: %s\n", path.c_str(),
                 shown_names(left_out).c_str());
  return result;
}

NamedMatrix take_residual(const std::string& path, const std::string& name,
                          std::vector<NamedMatrix>* matrices) {
  const auto found = std::find_if(matrices->begin(), matrices->end(),
                                  [&](const NamedMatrix& matrix) { return matrix.name == name; });
  if (found == matrices->end())
    throw Failure(exit_usage, path + ": has no matrix " + shown_name(name) + " for --residual");
  NamedMatrix residual = std::move(*found);
  matrices->erase(found);
  if (matrices->empty())
    throw Failure(exit_usage, path + ": has no matrix beside the residual " + shown_name(name));
  for (const NamedMatrix& matrix : *matrices)
    if (matrix.x.l != residual.x.l || matrix.x.rows != residual.x.rows ||
        matrix.x.k != residual.x.k || matrix.x.type != residual.x.type)
      throw Failure(exit_usage, path + ": the residual " + shown_name(name) +
                                    " must have the type and the shape of " +
                                    shown_name(matrix.name));
  return residual;
}

Numbers read_numbers(const SafetensorsFile& file, const std::string& name,
                     const std::vector<NamedMatrix>& matrices) {
  const Tensor* tensor = file.find(name);
  if (tensor == nullptr)
    throw Failure(exit_usage, file.path() + ": has no tensor " + shown_name(name));
  for (const NamedMatrix& matrix : matrices)
    if (tensor->shape != std::vector<uint64_t>{static_cast<uint64_t>(matrix.x.k)} ||
        (tensor->dtype != "F32" && tensor->dtype != dtype_of(matrix.x)))
      throw Failure(exit_usage, file.path() + ": tensor " + shown_name(name) + " is " +
                                    tensor->dtype + " " + shape_text(tensor->shape) +
                                    ", must be [" + std::to_string(matrix.x.k) + "] of " +
                                    dtype_of(matrix.x) + " or F32, as " + shown_name(matrix.name));
  Numbers numbers;
  numbers.type = tensor->dtype == "F32" ? WL_F32 : tensor->dtype == "F16" ? WL_F16 : WL_BF16;
  numbers.bytes.resize(tensor->bytes());
  file.read(*tensor, numbers.bytes.data());
  return numbers;
}

void read_codes(const SafetensorsFile& file, NamedMatrix* matrix) {
  const Tensor& tensor = *file.find(matrix->name);
  matrix->x.codes.resize(tensor.bytes() / sizeof(uint16_t));
  file.read(tensor, matrix->x.codes.data());
}

void write_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices) {
  std::vector<OutputTensor> tensors;
  for (const NamedMatrix& matrix : matrices) {
    const wltest::Matrix& x = matrix.x;
    tensors.push_back({matrix.name, dtype_of(x), matrix_shape(matrix.batched, x.l, x.rows, x.k),
                       x.codes.data(), x.codes.size() * sizeof(uint16_t)});
  }
  write_safetensors(path, tensors, {{"producer", "warpline make-example"}});
}

void check_names(const std::string& path, const std::vector<NamedMatrix>& matrices) {
  std::map<std::string, const std::string*> makers;
  for (const NamedMatrix& matrix : matrices)
    for (const char* ending : {"", scale_ending, tensor_scale_ending, sum_ending}) {
      const auto [other, first] = makers.emplace(matrix.name + ending, &matrix.name);
      if (first) continue;
      throw Failure(exit_usage, path + ": tensors " + shown_name(*other->second) + " and " +
                                    shown_name(matrix.name) + " would both make " +
                                    shown_name(other->first) +
                                    " of the output; quantize them from two files");
    }
}

void write_quantized(const std::string& path, const std::vector<QuantizedMatrix>& matrices) {
  std::vector<OutputTensor> tensors;
  for (const QuantizedMatrix& matrix : matrices) {
    tensors.push_back(
        {matrix.name + tensor_scale_ending, "F32", {1}, &matrix.d_scale, sizeof(float)});
    add_operand(&tensors, matrix.name, matrix.batched, matrix.d);
    const wltest::Matrix& sum = matrix.sum;
    if (!sum.codes.empty())
      tensors.push_back({matrix.name + sum_ending, dtype_of(sum),
                         matrix_shape(matrix.batched, sum.l, sum.rows, sum.k), sum.codes.data(),
                         sum.codes.size() * sizeof(uint16_t)});
  }
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline quantize"}});
}

} // namespace warpline::cli
