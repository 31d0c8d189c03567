// What stands around the products of a mixture of experts: the order of experts, tokens quantised
// in that order, and the sum over the experts of a token. The kernels' contracts are in
// permute.inc, encode.inc, spread.inc and combine.inc.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/plan.hpp"
#include "warpline/warpline.h"

#include <vector>

namespace warpline::moe {

enum class Part { permute, encode, spread, combine };

struct Config {
  const char* name;   // also the PTX file and its entry
  const char* target; // of the PTX
  Part part;
  wl_dtype type; // of the rows that are read; permute, spread: of none
  Image (*image)();
};

const std::vector<Config>& configs();

constexpr int64_t most_experts = 1024; // threads of a CTA
constexpr int64_t most_top_k = 32;     // lanes of a warp
constexpr int64_t most_slots = int64_t{1} << 30;

// Slot t * top_k + j is the j-th expert of token t.
struct Permutation {
  int64_t tokens = 0, top_k = 0, experts = 0, first = 0;
  const int32_t* ids = nullptr; // [slots]
  int32_t *group_ends = nullptr, *rows = nullptr, *positions = nullptr;
  // What becomes 0: numbers of tiles that the first and the second product draw theirs from, the
  // second's behind `zero_bytes`, a multiple of 256.
  uint32_t* cleared = nullptr;
  int64_t zero_bytes = 0;
  uint32_t* next_tile_down() const { return cleared + zero_bytes / 4; }
  uint32_t* next_tile_up() const { return next_tile_down() + 1; }
};

struct Quantisation {
  // Of a device with own_order() rows stay in their own, which needs the number of tokens alone.
  // Grids that may still run then write nothing of what is read, and do not touch D and SFD.
  Permutation order;
  int64_t k = 0; // multiple of 64
  const void* x = nullptr;
  wl_dtype x_type = WL_F16;
  int64_t ldx = 0;
  void *d = nullptr, *sfd = nullptr;
  const float* d_scale = nullptr;
};
// Whether tokens that are quantised stay in their order: products of the device gather them.
inline bool own_order(const DeviceLimits& device) { return device.compute_major == 9; }
// Tiles of 128 rows of scales that groups of `rows` rows in all may need.
constexpr int64_t scale_tiles(int64_t rows, int64_t experts) {
  return (rows + 127) / 128 + experts - 1;
}

// Tokens of 16 bits as they are, in the order of experts.
struct Spreading {
  Permutation order;
  int64_t columns = 0; // multiple of 16
  const void* x = nullptr;
  void* d = nullptr;
};

struct Combination {
  int64_t tokens = 0, top_k = 0, columns = 0; // columns: multiple of 8
  int64_t row_count = 0;
  const void* rows = nullptr;
  wl_dtype rows_type = WL_F16; // FP16, BF16 or FP32
  const int32_t* positions = nullptr;
  const float* weights = nullptr; // null = 1
  bool known = false;             // positions and weights, by all grids that may still run
  const void* addend = nullptr;   // null = none
  int64_t ld_addend = 0;
  void* y = nullptr;
  int64_t ldy = 0;
  wl_dtype y_type = WL_F16; // FP16, BF16 or FP32, of the addend too
};

// A plan of one launch, with the configuration for the device and type. The context is current, and
// arguments are within the contracts.
wl_status make_part_plan(wl_context* context, const Permutation& work, wl_plan** plan);
wl_status make_part_plan(wl_context* context, const Quantisation& work, wl_plan** plan);
wl_status make_part_plan(wl_context* context, const Spreading& work, wl_plan** plan);
wl_status make_part_plan(wl_context* context, const Combination& work, wl_plan** plan);

// Runs it with other work of its types, of at most as many tokens. Allocates nothing.
wl_status run_part(const wl_plan& plan, const Permutation& work, wl_stream stream);
wl_status run_part(const wl_plan& plan, const Quantisation& work, wl_stream stream);
wl_status run_part(const wl_plan& plan, const Spreading& work, wl_stream stream);
wl_status run_part(const wl_plan& plan, const Combination& work, wl_stream stream);

} // namespace warpline::moe
