#include "tools/cli/product_files.hpp"

#include "tests/reference/linear.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/product.hpp"

#include <algorithm>
#include <cstring>

namespace warpline::cli {

const char* file_dtype(wl_dtype type) {
  return type == WL_F16 ? "F16" : type == WL_BF16 ? "BF16" : "F32";
}

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

Numbers random_numbers(wl_dtype type, size_t count, uint64_t seed, uint64_t stream) {
  const wltest::Random random(seed, stream);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>(random.below(i, 127)) - 63) / 8;
  return {type, wltest::rounded(values, type)};
}

wltest::Problem random_product(int64_t m, int64_t n, int64_t k, int64_t l, const gemm::Types& types,
                               uint64_t seed, int products) {
  const auto kind = wltest::InputKind::public_problem;
  // Whole blocks of every type, of which k takes a part.
  wltest::Problem p = wltest::make_problem(m, n, (k + 63) / 64 * 64, l, kind, seed, products);
  p.k = k;
  // Streams behind those of the NVFP4 tensors.
  const auto convert = [&](wltest::Operand* operand, wl_operand type, uint64_t stream) {
    if (type == WL_OPERAND_NVFP4) return;
    const wltest::Random spread(seed, stream);
    *operand = wltest::in_type(*operand, type, k, &spread);
  };
  convert(&p.a, types.a, 8);
  convert(&p.b1, types.b, 9);
  if (products == 2) convert(&p.b2, types.b, 10);
  for (const wl_operand type : {types.a, types.b})
    if (type == WL_OPERAND_INT8) p.alpha1 *= wltest::int8_unit, p.alpha2 *= wltest::int8_unit;
  return p;
}

ProductFile::ProductFile(const std::string& path, std::vector<std::string> names)
    : file_(path), names_(std::move(names)) {}

void ProductFile::refuse(const std::string& what) const {
  throw Failure(exit_usage, file_.path() + ": " + what);
}

bool ProductFile::takes(const std::string& name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::vector<std::string> ProductFile::unused() const {
  std::vector<std::string> others;
  for (const Tensor& tensor : file_.tensors())
    if (!takes(tensor.name)) others.push_back(tensor.name);
  return others;
}

const Tensor& ProductFile::require(const std::string& name) const {
  const Tensor* tensor = file_.find(name);
  if (tensor) return *tensor;
  const std::string near = nearest_name(name, unused());
  refuse("has no tensor " + shown_name(name) +
         (near.empty() ? "" : " (it has " + shown_name(near) + ")"));
}

void ProductFile::require_dtype(const Tensor& tensor,
                                const std::vector<std::string>& dtypes) const {
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) != dtypes.end()) return;
  refuse("tensor " + shown_name(tensor.name) + " is " + tensor.dtype + ", must be " +
         joined(dtypes));
}

void ProductFile::require_shape(const Tensor& tensor, const std::vector<uint64_t>& shape,
                                const std::string& what) const {
  if (tensor.shape == shape) return;
  refuse("tensor " + shown_name(tensor.name) + " has shape " + shape_text(tensor.shape) +
         ", must be " + shape_text(shape) + ": " + what);
}

namespace {

constexpr struct {
  const char* dtype;
  wl_operand type;
} unscaled[] = {{"F16", WL_OPERAND_F16},      {"BF16", WL_OPERAND_BF16},
                {"F32", WL_OPERAND_TF32},     {"F8_E4M3", WL_OPERAND_E4M3},
                {"F8_E5M2", WL_OPERAND_E5M2}, {"I8", WL_OPERAND_INT8}};

wl_operand operand_of_file(const std::string& dtype) {
  for (const auto& entry : unscaled)
    if (dtype == entry.dtype) return entry.type;
  return WL_OPERAND_NVFP4;
}

} // namespace

wltest::Operand ProductFile::read_operand(const std::string& name, bool* batched) const {
  const Tensor& values = require(name);
  std::vector<std::string> dtypes = {"U8", "F4"};
  for (const auto& entry : unscaled) dtypes.emplace_back(entry.dtype);
  require_dtype(values, dtypes);
  wltest::Operand operand;
  operand.type = operand_of_file(values.dtype);
  const bool nvfp4 = operand.type == WL_OPERAND_NVFP4;
  const std::string shown = "tensor " + shown_name(name);
  const size_t rank = values.shape.size();
  if (rank != 2 && rank != 3)
    refuse(shown + " has shape " + shape_text(values.shape) +
           (nvfp4 ? ", must be [rows, K/2] or [batch, rows, K/2]"
                  : ", must be [rows, K] or [batch, rows, K]"));
  *batched = rank == 3;
  for (uint64_t extent : values.shape)
    if (extent == 0 || extent > uint64_t{1} << 40)
      refuse(shown + " has shape " + shape_text(values.shape) +
             ", each extent must be from 1 to 2^40");
  operand.l = static_cast<int64_t>(*batched ? values.shape[0] : 1);
  operand.rows = static_cast<int64_t>(values.shape[rank - 2]);
  operand.k = static_cast<int64_t>(values.shape.back());
  if (nvfp4)
    read_scales(values, &operand);
  else if (file_.find(name + scale_ending) != nullptr)
    refuse(shown + " is " + values.dtype + ", which has no block scales, but there is a tensor " +
           shown_name(name + scale_ending) + " (a factor of the whole is " +
           shown_name(name + "_tensor_scale") + ")");
  operand.values = file_.read(values);
  return operand;
}

void ProductFile::read_scales(const Tensor& values, wltest::Operand* operand) const {
  const std::string& name = values.name;
  // Bytes and not the last extent: F4 may count elements or bytes (see safetensors.cpp).
  const uint64_t rows = static_cast<uint64_t>(operand->l) * static_cast<uint64_t>(operand->rows);
  operand->k = static_cast<int64_t>(values.bytes() / rows * 2);
  if (operand->k % 16 != 0 || operand->k == 0)
    refuse("tensor " + shown_name(name) + " has K = " + std::to_string(operand->k) +
           ", must be a positive multiple of 64");
  const Tensor& scales = require(name + scale_ending);
  require_dtype(scales, {"F8_E4M3"});
  std::vector<uint64_t> expected = values.shape;
  expected.back() = static_cast<uint64_t>(operand->k / 16);
  require_shape(scales, expected,
                "one scale for 16 values of " + shown_name(name) +
                    ", K = " + std::to_string(operand->k));
  operand->scales = file_.read(scales);
}

wltest::Operand ProductFile::read_a() {
  wltest::Operand a = read_operand("a", &batched_);
  l_ = a.l;
  k_ = a.k;
  return a;
}

wltest::Operand ProductFile::read_b(const std::string& name) {
  bool batched = false;
  wltest::Operand b = read_operand(name, &batched);
  if (b.k != k_)
    refuse("tensor " + shown_name(name) + " has K = " + std::to_string(b.k) +
           ", \"a\" has K = " + std::to_string(k_) + ": they must be equal");
  if (b.l != l_ || batched != batched_)
    refuse("tensors \"a\" and " + shown_name(name) + " differ in their batch dimension");
  return b;
}

wltest::Operand ProductFile::read_groups(const std::string& name) {
  bool grouped = false;
  wltest::Operand b = read_operand(name, &grouped);
  if (!grouped) refuse("tensor " + shown_name(name) + " has no groups, must be [groups, N, K/2]");
  if (b.k != k_)
    refuse("tensor " + shown_name(name) + " has K = " + std::to_string(b.k) +
           ", \"a\" has K = " + std::to_string(k_) + ": they must be equal");
  return b;
}

float ProductFile::factor(const std::string& name) const {
  const Tensor* tensor = file_.find(name);
  if (!tensor) return 1;
  require_dtype(*tensor, {"F32"});
  if (tensor->bytes() != sizeof(float))
    refuse("tensor " + shown_name(name) + " has shape " + shape_text(tensor->shape) +
           ", must have one element");
  float value;
  file_.read(*tensor, &value);
  return value;
}

Numbers ProductFile::numbers(const std::string& name, const std::vector<std::string>& dtypes,
                             const std::vector<uint64_t>& shape, const std::string& what) const {
  const Tensor* tensor = find(name);
  if (!tensor) return {};
  require_dtype(*tensor, dtypes);
  require_shape(*tensor, shape, what);
  const wl_dtype type = tensor->dtype == "F16"    ? WL_F16
                        : tensor->dtype == "BF16" ? WL_BF16
                                                  : WL_F32;
  return {type, read(*tensor)};
}

Numbers ProductFile::bias(const std::string& name, const std::string& b, int64_t n) const {
  return numbers(name, {"F32", "F16", "BF16"}, {static_cast<uint64_t>(n)},
                 "one number for each row of " + shown_name(b));
}

std::vector<uint64_t> matrix_shape(bool batched, int64_t l, int64_t rows, int64_t columns) {
  std::vector<uint64_t> shape;
  if (batched) shape.push_back(static_cast<uint64_t>(l));
  shape.push_back(static_cast<uint64_t>(rows));
  shape.push_back(static_cast<uint64_t>(columns));
  return shape;
}

void add_operand(std::vector<OutputTensor>* tensors, const std::string& name, bool batched,
                 const wltest::Operand& operand) {
  const auto add = [&](const std::string& tensor, const char* dtype, int64_t columns,
                       const std::vector<uint8_t>& bytes) {
    tensors->push_back({tensor, dtype, matrix_shape(batched, operand.l, operand.rows, columns),
                        bytes.data(), bytes.size()});
  };
  for (const auto& entry : unscaled)
    if (operand.type == entry.type) return add(name, entry.dtype, operand.k, operand.values);
  add(name, "U8", operand.k / 2, operand.values);
  add(name + scale_ending, "F8_E4M3", operand.k / 16, operand.scales);
}

void add_numbers(std::vector<OutputTensor>* tensors, const std::string& name,
                 const std::vector<uint64_t>& shape, const Numbers& numbers) {
  if (numbers.given())
    tensors->push_back(
        {name, file_dtype(numbers.type), shape, numbers.bytes.data(), numbers.bytes.size()});
}

void write_d(const std::string& path, const std::string& command, wl_dtype type,
             const std::vector<uint64_t>& shape, const void* d, size_t bytes) {
  write_safetensors(path, {{"d", file_dtype(type), shape, d, bytes}},
                    {{"producer", "warpline " + command}});
}

void write_d(const std::string& path, const std::string& command, bool batched,
             const wltest::Operand& d, float d_scale) {
  std::vector<OutputTensor> tensors = {{"d_tensor_scale", "F32", {1}, &d_scale, sizeof d_scale}};
  add_operand(&tensors, "d", batched, d);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline " + command}});
}

} // namespace warpline::cli
