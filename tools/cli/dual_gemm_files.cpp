#include "tools/cli/dual_gemm_files.hpp"

#include "tools/cli/json.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/safetensors.hpp"

#include <algorithm>
#include <cstring>

namespace warpline::cli {
namespace {

const std::vector<std::string> known_names = {"a",
                                              "b1",
                                              "b2",
                                              "a_scale",
                                              "b1_scale",
                                              "b2_scale",
                                              "alpha1",
                                              "alpha2",
                                              "a_tensor_scale",
                                              "b1_tensor_scale",
                                              "b2_tensor_scale"};

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& what) {
  throw Failure(exit_usage, file.path() + ": " + what);
}

const Tensor& require(const SafetensorsFile& file, const std::string& name) {
  const Tensor* tensor = file.find(name);
  if (tensor) return *tensor;
  std::vector<std::string> others;
  for (const Tensor& other : file.tensors())
    if (std::find(known_names.begin(), known_names.end(), other.name) == known_names.end())
      others.push_back(other.name);
  const std::string near = nearest_name(name, others);
  refuse(file, "has no tensor " + shown_name(name) +
                   (near.empty() ? "" : " (it has " + shown_name(near) + ")"));
}

void require_dtype(const SafetensorsFile& file, const Tensor& tensor,
                   const std::vector<std::string>& dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) != dtypes.end()) return;
  std::string list;
  for (const std::string& dtype : dtypes) list += (list.empty() ? "" : " or ") + dtype;
  refuse(file, "tensor " + shown_name(tensor.name) + " is " + tensor.dtype + ", must be " + list);
}

wltest::Operand read_operand(const SafetensorsFile& file, const std::string& name, bool& batched) {
  const Tensor& values = require(file, name);
  require_dtype(file, values, {"U8", "F4"});
  const size_t rank = values.shape.size();
  if (rank != 2 && rank != 3)
    refuse(file, "tensor " + shown_name(name) + " has shape " + shape_text(values.shape) +
                     ", must be [rows, K/2] or [batch, rows, K/2]");
  batched = rank == 3;
  for (uint64_t extent : values.shape)
    if (extent == 0 || extent > uint64_t{1} << 40)
      refuse(file, "tensor " + shown_name(name) + " has shape " + shape_text(values.shape) +
                       ", each extent must be from 1 to 2^40");
  wltest::Operand operand;
  operand.l = static_cast<int64_t>(batched ? values.shape[0] : 1);
  operand.rows = static_cast<int64_t>(values.shape[rank - 2]);
  // Bytes and not the last extent: F4 may count elements or bytes (see safetensors.cpp).
  const uint64_t rows = static_cast<uint64_t>(operand.l) * static_cast<uint64_t>(operand.rows);
  operand.k = static_cast<int64_t>(values.bytes() / rows * 2);
  if (operand.k % 16 != 0 || operand.k == 0)
    refuse(file, "tensor " + shown_name(name) + " has K = " + std::to_string(operand.k) +
                     ", must be a positive multiple of 64");
  const Tensor& scales = require(file, name + scale_ending);
  require_dtype(file, scales, {"F8_E4M3"});
  std::vector<uint64_t> expected = values.shape;
  expected.back() = static_cast<uint64_t>(operand.k / 16);
  if (scales.shape != expected)
    refuse(file, "tensor " + shown_name(scales.name) + " has shape " + shape_text(scales.shape) +
                     ", must be " + shape_text(expected) + ": one scale for 16 values of " +
                     shown_name(name) + ", K = " + std::to_string(operand.k));
  operand.values = file.read(values);
  operand.scales = file.read(scales);
  return operand;
}

float read_factor(const SafetensorsFile& file, const std::string& name) {
  const Tensor* tensor = file.find(name);
  if (!tensor) return 1;
  require_dtype(file, *tensor, {"F32"});
  if (tensor->bytes() != sizeof(float))
    refuse(file, "tensor " + shown_name(name) + " has shape " + shape_text(tensor->shape) +
                     ", must have one element");
  float value;
  std::memcpy(&value, file.read(*tensor).data(), sizeof value);
  return value;
}

} // namespace

std::vector<uint64_t> matrix_shape(bool batched, int64_t l, int64_t rows, int64_t columns) {
  std::vector<uint64_t> shape;
  if (batched) shape.push_back(static_cast<uint64_t>(l));
  shape.push_back(static_cast<uint64_t>(rows));
  shape.push_back(static_cast<uint64_t>(columns));
  return shape;
}

void add_operand(std::vector<OutputTensor>* tensors, const std::string& name, bool batched,
                 const wltest::Operand& operand) {
  tensors->push_back({name, "U8", matrix_shape(batched, operand.l, operand.rows, operand.k / 2),
                      operand.values.data(), operand.values.size()});
  tensors->push_back({name + scale_ending, "F8_E4M3",
                      matrix_shape(batched, operand.l, operand.rows, operand.k / 16),
                      operand.scales.data(), operand.scales.size()});
}

FileProblem read_problem(const std::string& path) {
  const SafetensorsFile file(path);
  FileProblem result;
  wltest::Problem& p = result.problem;
  bool batched[3];
  p.a = read_operand(file, "a", batched[0]);
  p.b1 = read_operand(file, "b1", batched[1]);
  p.b2 = read_operand(file, "b2", batched[2]);
  const float of_a = read_factor(file, "a_tensor_scale");
  p.alpha1 = read_factor(file, "alpha1") * of_a * read_factor(file, "b1_tensor_scale");
  p.alpha2 = read_factor(file, "alpha2") * of_a * read_factor(file, "b2_tensor_scale");
  p.m = p.a.rows;
  p.n = p.b1.rows;
  p.k = p.a.k;
  p.l = p.a.l;
  result.batched = batched[0];
  const wltest::Operand* others[] = {&p.b1, &p.b2};
  for (int i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "b1" : "b2";
    if (others[i]->k != p.k)
      refuse(file, "tensor " + shown_name(name) + " has K = " + std::to_string(others[i]->k) +
                       ", \"a\" has K = " + std::to_string(p.k) + ": they must be equal");
    if (others[i]->l != p.l || batched[i + 1] != batched[0])
      refuse(file, "tensors \"a\" and " + shown_name(name) + " differ in their batch dimension");
  }
  if (p.b2.rows != p.n)
    refuse(file, "tensor \"b2\" has " + std::to_string(p.b2.rows) + " rows, \"b1\" has " +
                     std::to_string(p.n) + ": they must be equal");
  for (const Tensor& tensor : file.tensors())
    if (std::find(known_names.begin(), known_names.end(), tensor.name) == known_names.end())
      result.unused.push_back(tensor.name);
  return result;
}

void write_problem(const std::string& path, const wltest::Problem& p) {
  const bool batched = p.l > 1;
  std::vector<OutputTensor> tensors;
  tensors.push_back({"alpha1", "F32", {1}, &p.alpha1, sizeof p.alpha1});
  tensors.push_back({"alpha2", "F32", {1}, &p.alpha2, sizeof p.alpha2});
  add_operand(&tensors, "a", batched, p.a);
  add_operand(&tensors, "b1", batched, p.b1);
  add_operand(&tensors, "b2", batched, p.b2);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline make-example"}});
}

void write_result(const std::string& path, const wltest::Problem& p, bool batched,
                  wltest::OutputType type, const std::vector<uint16_t>& d) {
  const char* dtype = type == wltest::OutputType::f16 ? "F16" : "BF16";
  write_safetensors(path,
                    {{"d", dtype, matrix_shape(batched, p.l, p.m, p.n), d.data(), d.size() * 2}},
                    {{"producer", "warpline dual-gemm"}});
}

void write_result(const std::string& path, bool batched, const wltest::Operand& d, float d_scale) {
  std::vector<OutputTensor> tensors = {{"d_tensor_scale", "F32", {1}, &d_scale, sizeof d_scale}};
  add_operand(&tensors, "d", batched, d);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline dual-gemm"}});
}

} // namespace warpline::cli
