// Runs one quantisation through the C ABI, on the driver that WARPLINE_DRIVER names, with the
// largest numbers between the rows and entries of X and guards around D and its scales.
#pragma once

#include "tests/reference/quantize.hpp"
#include "warpline/warpline.h"

#include <string>
#include <utility>
#include <vector>

namespace wltest {

struct QuantizeCase {
  int64_t m = 1, k = 64, l = 1;
  OutputType type = OutputType::f16;
  float d_scale = 1;   // 1: a null pointer
  int64_t row_gap = 0; // elements between rows and between entries of X, multiples of 8
  int64_t entry_gap = 0;
  uint64_t seed = 1;
  std::string config; // row to force, "" = the library's choice
  // A second quantisation follows in the stream at once, of D's bytes taken for 16-bit floats: it
  // has to wait for the first. k is a multiple of 256 then.
  bool chained = false;
  bool unwritten = false; // see DualGemmCase
  // With one: eps 1e-5, gamma 1, the residual is X of another seed, and its sums are judged.
  wl_norm norm = WL_NORM_NONE;
  bool gammas = false; // gamma, and with WL_NORM_LAYER beta, of FP32
  // Called ahead of the launches, with the memory of X, and of the residual where there is one.
  void (*ahead)(const std::vector<std::pair<void*, size_t>>&) = nullptr;
};

std::string describe(const QuantizeCase& c);

struct QuantizeResult {
  wl_status status = WL_SUCCESS;
  std::string message; // why not, "" when it ran
  wl_plan_info info{};
  bool guards_intact = true; // and X as it was
  int64_t unequal = 0;       // values of D whose code or whose scale differs from the reference
  Operand d, expected;
};

QuantizeResult run_quantize(wl_context* context, const QuantizeCase& c);

} // namespace wltest
