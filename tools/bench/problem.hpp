// What the programs of this folder share: options, files, and operations on random operands.
#pragma once

#include "runtime/src/cuda_api.hpp"
#include "tools/cli/options.hpp"
#include "warpline/warpline.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

// Prints "PROGRAM: TEXT" and ends the program.
[[noreturn]] void die(const std::string& text);
void require(wl_status status);
void require(cuapi::CUresult result, const char* what);

// A positive number, and lists with commas, of such numbers and of names.
void count(warpline::cli::Options& options, std::string name, std::string help, int64_t& target);
void counts(warpline::cli::Options& options, std::string name, std::string help,
            std::vector<int64_t>& target);
void names(warpline::cli::Options& options, std::string name, std::string help,
           std::vector<std::string>& target);

void write_file(const std::string& path, const std::string& text);

class Memory {
public:
  Memory(wl_context* context, size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return pointer_; }

private:
  wl_context* context_;
  void* pointer_ = nullptr;
};

// What becomes of the sums: as they are; times factors in device memory; and biases in FP32 on
// them; of wl_gemm gelu_tanh of that.
enum class Epilogue { none, alpha, bias, gelu };

struct Shape {
  int64_t m, n, k;
  wl_operand a_type = WL_OPERAND_NVFP4, b_type = WL_OPERAND_NVFP4;
  wl_dtype d_type = WL_F16;
  Epilogue epilogue = Epilogue::none;
  wl_sf_layout sf_layout = WL_SF_128x4;
};

// Random operands of the dual GEMM (wl_dual_gemm_args) or of wl_gemm (wl_gemm_args) in device
// memory, and the plan on them.
template <class Args>
class Product {
public:
  // The configuration's name, or "" for the library's choice. *state is of a random sequence.
  Product(wl_context* context, const Shape& shape, const std::string& config, uint64_t* state);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void make_plan(uint32_t flags = 0); // in place of the one before
  void run(wl_stream stream) const;
  void plan_once() const; // another plan, destroyed at once
  // The plan, with another problem's operands.
  void run_with(const Product& other, wl_stream stream) const;
  const wl_plan_info& info() const { return info_; }

private:
  wl_context* context_;
  std::string config_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::unique_ptr<Memory> workspace_;
  Args args_{};
  wl_plan* plan_ = nullptr;
  wl_plan_info info_{};
};
using Problem = Product<wl_dual_gemm_args>;
using Linear = Product<wl_gemm_args>;

// The quantisation of a random BF16 matrix, in the same way; `config` as above. With a norm and a
// residual its sums are written in the residual's place.
struct NormOptions {
  wl_norm norm = WL_NORM_NONE;
  bool residual = false;
};
class Quantization {
public:
  Quantization(wl_context* context, int64_t m, int64_t k, const NormOptions& norm,
               const std::string& config, uint64_t* state);
  ~Quantization();
  Quantization(const Quantization&) = delete;
  Quantization& operator=(const Quantization&) = delete;

  void make_plan();
  void run(wl_stream stream) const;
  const wl_plan_info& info() const { return info_; }

private:
  wl_context* context_;
  std::string config_;
  std::unique_ptr<Memory> x_, d_, sfd_, gamma_, residual_;
  wl_quantize_args args_{};
  wl_plan* plan_ = nullptr;
  wl_plan_info info_{};
};

} // namespace bench
