// wl_norm_linear: rows are normalised by a kernel of this folder or by the quantiser's, and
// multiplied by wl_gemm's. The public contract is in warpline.h.
#pragma once

#include "kernels/gemm/problem.hpp"
#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"
#include "runtime/src/strided.hpp"

#include <array>
#include <vector>

namespace warpline::norm_linear {

// A kernel that reads rows of X, and what it makes of them.
enum class End { rows, rstd };
struct Config {
  const char* name;   // also the PTX file and its entry
  const char* target; // of the PTX
  wl_dtype x_type;
  wl_norm norm;
  End end;
  int parts; // of rstd.inc; 0: rows of any length
  Image (*image)();
};
// Of several that take the same rows the first one is chosen.
const std::vector<Config>& configs();
// Of rstd.inc: rows that fit its registers; with PARTS 2, where six CTAs fit an SM, more of them
// than CTAs of PARTS 8 take at once, of which an SM holds two. Of few rows many CTAs would lie on
// the first SMs that are free.
inline bool takes(const Config& config, int64_t m, int64_t k, int sm_count) {
  return config.parts == 0 || (k <= 512 * config.parts && (config.parts > 2 || m > 16 * sm_count));
}

struct Fold {
  const char* name;
  const char* target;
  wl_dtype type;
  Image (*image)();
};
const std::vector<Fold>& folds();

struct Subject {
  const wl_norm_linear_args& args;
  const DeviceLimits& device;
  ContextMemory context{};
};
const RuleTable<Subject>& rules();

// What the arguments point to.
std::array<Extent, 11> operands(const wl_norm_linear_args& args);

Strided strided_x(const wl_norm_linear_args& args);
Strided strided_r(const wl_norm_linear_args& args);
Strided strided_d(const wl_norm_linear_args& args);

// The product behind the norm, without its A.
gemm::Problem problem_of(const wl_norm_linear_args& args);

} // namespace warpline::norm_linear
