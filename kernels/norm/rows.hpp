// The host's side of rows.inc, held.inc and held_units.inc: how rows are shared out, and the
// parameter block. What becomes of normalised rows is an operation's business, whose folder has the
// kernels.
#pragma once

#include "runtime/src/images.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "warpline/warpline.h"

#include <cstdint>

namespace warpline::norm {

// Rows are in shared memory as a whole.
constexpr int64_t largest_row = 32768;

// Rows to normalise; strides and sizes are checked. d and sfd take what the kernel makes.
struct Rows {
  int64_t m = 0, k = 0, l = 1;
  const void* x = nullptr;
  int64_t ldx = 0, batch_stride_x = 0;
  const void* residual = nullptr;
  void* sum = nullptr;
  int64_t ldr = 0, batch_stride_r = 0;
  const void *gamma = nullptr, *beta = nullptr;
  wl_dtype gamma_type = WL_F32;
  float eps = 0;
  void *d = nullptr, *sfd = nullptr;
  const float* d_scale = nullptr;
};

// The parameter block of the three kernels.
struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/norm/rows_params.def"
};

// Teams and slots, of held_units.inc those of a team, and the step of a CTA through the rows.
struct Work {
  int64_t team_warps, teams, slots, numbers_at, slots_at;
  LaunchConfig launch;
  uint32_t step_rows, step_entries;
};
// Those that a kernel keeps in shared memory: LayerNorm has both or none.
inline int tables(wl_norm norm, const void* gamma, const void* beta) {
  return gamma == nullptr && beta == nullptr ? 0 : norm == WL_NORM_LAYER ? 2 : 1;
}
// Of held.inc: a team has 3 to 8 warps, so that what its first one does alone is little.
constexpr int64_t least_held = 2112, most_held = 8192;
Work share_out_held(int64_t m, int64_t k, int64_t l, bool residual, const DeviceLimits& device);
// Of held_units.inc, whose teams take `unit` rows one after the other.
constexpr int64_t unit = 4;
Work share_out_units(int64_t m, int64_t k, int64_t l, bool residual, wl_norm norm,
                     const DeviceLimits& device);
// `tables`: of gamma and beta those that there are, 0 to 2.
Work share_out(int64_t m, int64_t k, int64_t l, bool residual, int tables,
               const DeviceLimits& device);

Params params_of(const Rows& rows, const Work& work);

wl_status load(wl_context& context, const Image& image, const Kernel** kernel);

} // namespace warpline::norm
