// The dual GEMM's tables: configurations, their costs, and the rules of its arguments.
// The kernels' contracts are in sm100.ptx; the public contract is in warpline.h.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "kernels/gemm/sm90_plan.hpp"
#include "runtime/src/context.hpp"
#include "runtime/src/cuda_api.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"
#include "warpline/warpline.h"

#include <array>
#include <string>
#include <vector>

namespace warpline::dual_gemm {

using namespace gemm;
using Config = gemm::Config;

// ---- configurations (configs.def)
// ------------------------------------------------------------------

const std::vector<Config>& configs();
const Config* find_config(const std::string& name);

// ---- choice -------------------------------------------------------------------------------------

Problem problem_of(const wl_dual_gemm_args& args);

inline const Config* choose_config(const Problem& problem, const DeviceLimits& device) {
  return choose(configs(), problem, device);
}

// ---- constraint table ---------------------------------------------------------------------------

struct Subject {
  const wl_dual_gemm_args& args;
  const DeviceLimits& device;
  ContextMemory context{};
};
const RuleTable<Subject>& rules();
// What the arguments point to.
std::array<Extent, 13> operands(const wl_dual_gemm_args& args);

} // namespace warpline::dual_gemm
