// wl_gemm: its configurations and the rules of its arguments. The kernels' contracts are in
// kernels/gemm, the public contract is in warpline.h.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/rules.hpp"

#include <string>
#include <vector>

namespace warpline::linear {

const gemm::Table& configs();

struct Subject {
  const wl_gemm_args& args;
  const DeviceLimits& device;
  const wl_context* context = nullptr; // null: pointers stand for no memory
};
const RuleTable<Subject>& rules();

// What the arguments point to.
std::vector<Extent> operands(const wl_gemm_args& args);

gemm::Problem problem_of(const wl_gemm_args& args);

} // namespace warpline::linear
