// The quantiser's tables: configurations and the rules of its arguments. The kernel's contract
// is in quantize.inc, the public one in warpline.h.
#pragma once

#include "kernels/norm/rows.hpp"
#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"
#include "runtime/src/strided.hpp"
#include "warpline/warpline.h"

#include <string>
#include <vector>

namespace warpline::quantize {

struct Config {
  const char* name;   // also the PTX file and its entry
  const char* target; // of the PTX
  wl_dtype x_type;
  wl_norm norm;
  bool held;  // a row in registers, for rows of norm::least_held to most_held values
  bool units; // by kernels/norm/held_units.inc, else by kernels/norm/held.inc
  Image (*image)();
};

const std::vector<Config>& configs();

// Whether the configuration's kernel runs on the device, reads the type and applies the norm;
// `reason` says why not.
bool can_run(const Config& config, const wl_quantize_args& args, const DeviceLimits& device,
             std::string* reason);

// The one that is taken where none is named; null: there is none.
const Config* chosen(const wl_quantize_args& args, const DeviceLimits& device);

// How a configuration with a norm shares out the rows.
norm::Work share_out_rows(const wl_quantize_args& args, const Config& config,
                          const DeviceLimits& device);

struct Subject {
  const wl_quantize_args& args;
  const DeviceLimits& device;
  ContextMemory context{}; // without one pointers stand for no memory
};
const RuleTable<Subject>& rules();
// What the arguments point to.
std::vector<Extent> operands(const wl_quantize_args& args);

// X, and the residual and the sums, with their strides.
Strided strided_x(const wl_quantize_args& args);
Strided strided_r(const wl_quantize_args& args);

// How a problem is shared out: quantize.inc's units, and the step of a warp through them.
struct Work {
  int64_t groups, atoms, row_units, units; // of an entry, of a row, of a row, in all
  bool two_atoms;
  LaunchConfig launch;
  uint32_t step_units, step_groups, step_entries;
};
Work share_out(int64_t m, int64_t k, int64_t l, const DeviceLimits& device);

} // namespace warpline::quantize
