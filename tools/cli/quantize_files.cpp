#include "tools/cli/quantize_files.hpp"

#include "tools/cli/json.hpp"
#include "tools/cli/product_files.hpp"

#include <cstdio>
#include <map>

namespace warpline::cli {
namespace {

constexpr char tensor_scale_ending[] = "_tensor_scale";

bool is_matrix(const Tensor& tensor) {
  if (tensor.dtype != "F16" && tensor.dtype != "BF16") return false;
  if (tensor.shape.size() != 2 && tensor.shape.size() != 3) return false;
  for (const uint64_t extent : tensor.shape)
    if (extent == 0 || extent > uint64_t{1} << 40) return false;
  return true;
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

void read_codes(const SafetensorsFile& file, NamedMatrix* matrix) {
  const Tensor& tensor = *file.find(matrix->name);
  matrix->x.codes.resize(tensor.bytes() / sizeof(uint16_t));
  file.read(tensor, matrix->x.codes.data());
}

void write_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices) {
  std::vector<OutputTensor> tensors;
  for (const NamedMatrix& matrix : matrices) {
    const wltest::Matrix& x = matrix.x;
    tensors.push_back({matrix.name, x.type == wltest::OutputType::f16 ? "F16" : "BF16",
                       matrix_shape(matrix.batched, x.l, x.rows, x.k), x.codes.data(),
                       x.codes.size() * sizeof(uint16_t)});
  }
  write_safetensors(path, tensors, {{"producer", "warpline make-example"}});
}

void check_names(const std::string& path, const std::vector<NamedMatrix>& matrices) {
  std::map<std::string, const std::string*> makers;
  for (const NamedMatrix& matrix : matrices)
    for (const char* ending : {"", scale_ending, tensor_scale_ending}) {
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
  }
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline quantize"}});
}

} // namespace warpline::cli
