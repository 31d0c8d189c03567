// Runs one dual GEMM with NVFP4 output through the C ABI, guard bytes around D and its scales.
#pragma once

#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/inputs.hpp"
#include "tests/reference/linear.hpp"
#include "warpline/warpline.h"

#include <string>

namespace wltest {

struct Nvfp4Result {
  wl_status status = WL_SUCCESS;
  std::string message, config;
  Operand d;
  bool guards_intact = true;
};

// `config`: configuration to force, "" = the library's choice. `unwritten`: see DualGemmCase.
// `operands`: the gate and biases, of FP32.
Nvfp4Result run_dual_gemm_nvfp4(wl_context* context, const Problem& problem, float d_scale,
                                const std::string& config, bool unwritten = false,
                                const GatedOperands& operands = {});

} // namespace wltest
