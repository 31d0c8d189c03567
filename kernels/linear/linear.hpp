// wl_gemm: its configurations and the rules of its arguments. The kernels' contracts are in
// kernels/gemm, the public contract is in warpline.h.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"

#include <array>

namespace warpline::linear {

const gemm::Table& configs();

struct Subject {
  const wl_gemm_args& args;
  const DeviceLimits& device;
  ContextMemory context{};
};
const RuleTable<Subject>& rules();

// What the arguments point to.
std::array<Extent, 12> operands(const wl_gemm_args& args);

gemm::Problem problem_of(const wl_gemm_args& args);

} // namespace warpline::linear
