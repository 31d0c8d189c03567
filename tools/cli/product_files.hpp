// Operands and results of products in safetensors files: NAME (U8 or F4, [rows, K/2] bytes) with
// NAME_scale (F8_E4M3, [rows, K/16], plain layout), or NAME alone of another type (F16, BF16, F32,
// which is TF32, F8_E4M3, F8_E5M2 or I8, [rows, K]), factors (F32, one element), and D. A batch has
// one leading dimension more, the same for all.
#pragma once

#include "kernels/gemm/operand.hpp"
#include "tests/reference/inputs.hpp"
#include "tools/cli/failure.hpp"
#include "tools/cli/safetensors.hpp"
#include "warpline/warpline.h"

#include <string>
#include <vector>

namespace warpline::cli {

constexpr char scale_ending[] = "_scale";

// Numbers of a type, as they are stored; no bytes: there are none.
struct Numbers {
  wl_dtype type = WL_F32;
  std::vector<uint8_t> bytes;
  bool given() const { return !bytes.empty(); }
};
std::vector<float> values_of(const Numbers& numbers);

// Multiples of 1/8 below 8, exact in every type, so that problems of one seed differ in nothing
// else.
Numbers random_numbers(wl_dtype type, size_t count, uint64_t seed, uint64_t stream);

// Numbers of one seed are about the same in all types, with as many bits as the type has. alphas
// take the unit of INT8 out again.
wltest::Problem random_product(int64_t m, int64_t n, int64_t k, int64_t l, const gemm::Types& types,
                               uint64_t seed, int products);

// A file's name of a type, for types that are no NVFP4: "F16".
const char* file_dtype(wl_dtype type);

// A product's operands as they are read. Every refusal is a Failure that names the file.
class ProductFile {
public:
  // `names`: tensors that the product takes.
  ProductFile(const std::string& path, std::vector<std::string> names);

  wltest::Operand read_a(); // first: its batch and K are those of all
  wltest::Operand read_b(const std::string& name);
  wltest::Operand read_groups(const std::string& name); // [groups, rows, K] of any A
  // By itself; `batched`: it has the leading dimension.
  wltest::Operand read_operand(const std::string& name, bool* batched) const;
  bool batched() const { return batched_; }
  float factor(const std::string& name) const; // 1 where there is none

  // None where the file has none; the shape's words as below.
  Numbers numbers(const std::string& name, const std::vector<std::string>& dtypes,
                  const std::vector<uint64_t>& shape, const std::string& what) const;
  // A number of any type for each of the n rows of `b`.
  Numbers bias(const std::string& name, const std::string& b, int64_t n) const;

  // Refuses a tensor of another type or shape than these; `what` says in words what the shape
  // holds.
  void require_dtype(const Tensor& tensor, const std::vector<std::string>& dtypes) const;
  void require_shape(const Tensor& tensor, const std::vector<uint64_t>& shape,
                     const std::string& what) const;
  const Tensor* find(const std::string& name) const { return file_.find(name); }
  const std::vector<Tensor>& tensors() const { return file_.tensors(); }
  // A tensor that is taken too, if it is there.
  void take(const std::string& name) { names_.push_back(name); }
  std::vector<uint8_t> read(const Tensor& tensor) const { return file_.read(tensor); }

  std::vector<std::string> unused() const; // names of tensors that the product does not take
  [[noreturn]] void refuse(const std::string& what) const;

private:
  SafetensorsFile file_;
  std::vector<std::string> names_;
  bool batched_ = false;
  int64_t l_ = 0, k_ = 0;

  bool takes(const std::string& name) const;
  const Tensor& require(const std::string& name) const;
  void read_scales(const Tensor& values, wltest::Operand* operand) const; // and K
};

// Parts of such files: a tensor's shape, with the batch when there is one; NAME and NAME_scale.
std::vector<uint64_t> matrix_shape(bool batched, int64_t l, int64_t rows, int64_t columns);
void add_operand(std::vector<OutputTensor>* tensors, const std::string& name, bool batched,
                 const wltest::Operand& operand);
void add_numbers(std::vector<OutputTensor>* tensors, const std::string& name,
                 const std::vector<uint64_t>& shape, const Numbers& numbers); // where there are any

// D, in rows without gaps; and in NVFP4: d (U8), d_scale (F8_E4M3, plain layout) and the scale of
// the whole, d_tensor_scale.
void write_d(const std::string& path, const std::string& command, wl_dtype type,
             const std::vector<uint64_t>& shape, const void* d, size_t bytes);
void write_d(const std::string& path, const std::string& command, bool batched,
             const wltest::Operand& d, float d_scale);

} // namespace warpline::cli
