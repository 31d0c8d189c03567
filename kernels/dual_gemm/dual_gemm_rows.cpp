// Configuration rows of the dual GEMM and the choice among them.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>

#define SM100_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_DECODE_ROW(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/dual_gemm/rows.def"

namespace warpline::dual_gemm {

namespace {

constexpr wl_dtype F16 = WL_F16;
constexpr wl_dtype BF16 = WL_BF16;

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

} // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
#define SM100_ROW(name, out, tile_n, stages, acc_stages, group_m)                                  \
  {#name,                                                                                          \
   "sm_100f",                                                                                      \
   out,                                                                                            \
   128,                                                                                            \
   tile_n,                                                                                         \
   256,                                                                                            \
   stages,                                                                                         \
   acc_stages,                                                                                     \
   group_m,                                                                                        \
   {1, 1, 1},                                                                                      \
   384,                                                                                            \
   sm100_shared_bytes(tile_n, stages, acc_stages),                                                 \
   [] { return WL_IMAGE(name); }},
#define SM90_ROW(name, out, tokens, stages, cluster_rows, split, group_m)                          \
  {#name,                                                                                          \
   "sm_90a",                                                                                       \
   out,                                                                                            \
   tokens,                                                                                         \
   64,                                                                                             \
   128,                                                                                            \
   stages,                                                                                         \
   1,                                                                                              \
   group_m,                                                                                        \
   {cluster_rows * split, 1, 1},                                                                   \
   384,                                                                                            \
   sm90_shared_bytes(tokens, stages),                                                              \
   [] { return WL_IMAGE(name); },                                                                  \
   split,                                                                                          \
   true},
#include "kernels/dual_gemm/rows.def"
  };
  return table;
}

Image sm90_decode_image() { return WL_IMAGE(dual_gemm_sm90_decode); }

const Row* find_row(const std::string& name) {
  for (const Row& row : rows())
    if (name == row.name) return &row;
  return nullptr;
}

std::string row_names() {
  std::string names;
  for (const Row& row : rows()) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

// The model, per SM clock:
//   operand bytes from L2 to one SM: 64        (what an SM's L2 port delivers)
//   FP4 multiply-adds of one SM:     16384     (9 PFLOP/s dense over 148 SMs at 1.85 GHz)
//   DRAM bytes of the whole device:  4160      (7.7 TB/s at 1.85 GHz)
//   epilogue: 8 clocks per output column of a tile (128 rows, two products read, one stored)
// A tile's main loop takes the longer of its operand and its MMA time. Waves follow each other; the
// epilogue hides under the next tile's main loop when there is a second accumulator set, and shows
// once. The whole cannot beat DRAM.
Cost cost(const Row& row, const Problem& problem, const DeviceLimits& device) {
  if (row.decodes) return sm90_cost(row, problem, device);
  Cost result{};
  const int64_t k_tiles = divide_up(problem.k, row.tile_k);
  result.tiles = divide_up(problem.m, row.tile_m) * divide_up(problem.n, row.tile_n) * problem.l;
  result.waves = divide_up(result.tiles, std::max(device.sm_count, 1));

  const double operand_bytes = static_cast<double>(row.tile_m + 2 * row.tile_n) * row.tile_k / 2;
  const double scale_bytes =
      static_cast<double>(divide_up(row.tile_m, 128) + 2 * divide_up(row.tile_n, 128)) * 128 *
      row.tile_k / 16;
  const double multiply_adds = 2.0 * row.tile_m * row.tile_n * row.tile_k;
  result.tile_clocks = static_cast<double>(k_tiles) *
                       std::max((operand_bytes + scale_bytes) / 64, multiply_adds / 16384);
  result.epilogue_clocks = 8.0 * row.tile_n;

  const double entry_bytes =
      static_cast<double>(problem.m + 2 * problem.n) * static_cast<double>(problem.k) * 9 / 16 +
      2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n);
  result.memory_clocks = entry_bytes * static_cast<double>(problem.l) / 4160;

  const double waves = static_cast<double>(result.waves);
  const double shown_epilogues = row.acc_stages > 1 ? 1 : waves;
  result.total = std::max(waves * result.tile_clocks + shown_epilogues * result.epilogue_clocks,
                          result.memory_clocks);
  return result;
}

bool can_run(const Row& row, wl_dtype d_type, const DeviceLimits& device, std::string* reason) {
  std::string why;
  if (!target_runs_on(row.target, device.compute_major, device.compute_minor))
    why = format("its target %s does not run on compute capability %d.%d", row.target,
                 device.compute_major, device.compute_minor);
  else if (row.d_type != d_type)
    why = format("it writes %s", row.d_type == WL_F16 ? "WL_F16" : "WL_BF16");
  else if (row.shared_bytes > device.shared_bytes_per_block)
    why = format("it needs %d bytes of shared memory, the device has %d", row.shared_bytes,
                 device.shared_bytes_per_block);
  if (reason != nullptr) *reason = why;
  return why.empty();
}

const Row* choose_row(const Problem& problem, const DeviceLimits& device) {
  const Row* best = nullptr;
  double best_total = 0;
  for (const Row& row : rows()) {
    if (!can_run(row, problem.d_type, device, nullptr)) continue;
    const double total = cost(row, problem, device).total;
    if (best == nullptr || total < best_total) {
      best = &row;
      best_total = total;
    }
  }
  return best;
}

} // namespace warpline::dual_gemm
