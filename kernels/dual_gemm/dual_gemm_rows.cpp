// Configuration rows of the dual GEMM and the choice among them.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/rows.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>

#define SM100_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_DOUBLE_BUFFERED_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SMALL_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_DECODE_ROW(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/dual_gemm/rows.def"

namespace warpline::dual_gemm {

namespace {

constexpr wl_dtype F16 = WL_F16;
constexpr wl_dtype BF16 = WL_BF16;
constexpr wl_dtype NVFP4 = WL_NVFP4;
constexpr Store DIRECT = Store::direct;
constexpr Store BULK = Store::bulk;
constexpr Epilogue BOTH = Epilogue::both;
constexpr Epilogue PING_PONG = Epilogue::ping_pong;
constexpr Grid PERSISTENT = Grid::persistent;
constexpr Grid ONE_TILE = Grid::one_tile;
constexpr Grid LAUNCH_CONTROL = Grid::launch_control;
constexpr Grid STREAM_K = Grid::stream_k;

} // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
#define SM100_ROW(name_, out, store_, epilogue_, group, cluster_m_, cluster_n_, split, tile_n_,    \
                  stages_, acc, sets, feed, grid_, group_m_)                                       \
  {.name = #name_,                                                                                 \
   .target = "sm_100f",                                                                            \
   .family = Family::sm100,                                                                        \
   .d_type = out,                                                                                  \
   .tile_m = 128 * group,                                                                          \
   .tile_n = tile_n_,                                                                              \
   .tile_k = 256,                                                                                  \
   .stages = stages_,                                                                              \
   .acc_stages = acc,                                                                              \
   .group_m = group_m_,                                                                            \
   .cluster = {cluster_m_ * cluster_n_ * split, 1, 1},                                             \
   .threads = 384,                                                                                 \
   .shared_bytes =                                                                                 \
       sm100_shared_bytes(group, split, tile_n_, stages_, acc, grid_, store_, epilogue_),          \
   .image = [] { return WL_IMAGE(name_); },                                                        \
   .split_k = split,                                                                               \
   .cta_group = group,                                                                             \
   .cluster_m = cluster_m_,                                                                        \
   .cluster_n = cluster_n_,                                                                        \
   .scale_sets = sets,                                                                             \
   .grid = grid_,                                                                                  \
   .store = store_,                                                                                \
   .epilogue = epilogue_},
#define SM90_ANY(family_, name_, out, tokens, stages_, cluster_rows, split, consumers, group_m_,   \
                 producers)                                                                        \
  {.name = #name_,                                                                                 \
   .target = "sm_90a",                                                                             \
   .family = Family::family_,                                                                      \
   .d_type = out,                                                                                  \
   .tile_m = tokens,                                                                               \
   .tile_n = sm90_columns(consumers),                                                              \
   .tile_k = 128,                                                                                  \
   .stages = stages_,                                                                              \
   .acc_stages = 1,                                                                                \
   .group_m = group_m_,                                                                            \
   .cluster = {cluster_rows * split, 1, 1},                                                        \
   .threads = producers + 128 * consumers,                                                         \
   .shared_bytes = sm90_shared_bytes(tokens, stages_, sm90_columns(consumers)),                    \
   .image = [] { return WL_IMAGE(name_); },                                                        \
   .split_k = split},
#define SM90_ROW(...) SM90_ANY(sm90, __VA_ARGS__, 128)
#define SM90_DOUBLE_BUFFERED_ROW(...) SM90_ANY(sm90_double_buffered, __VA_ARGS__, 0)
#define SM90_SMALL_ROW(name_, out, tokens, columns, stages_, split)                                \
  {.name = #name_,                                                                                 \
   .target = "sm_90a",                                                                             \
   .family = Family::sm90_small,                                                                   \
   .d_type = out,                                                                                  \
   .tile_m = tokens,                                                                               \
   .tile_n = columns,                                                                              \
   .tile_k = 256,                                                                                  \
   .stages = stages_,                                                                              \
   .acc_stages = 1,                                                                                \
   .group_m = 1,                                                                                   \
   .cluster = {split, 1, 1},                                                                       \
   .threads = sm90_small_threads(tokens, columns),                                                 \
   .shared_bytes = sm90_small_shared_bytes(tokens, columns, stages_),                              \
   .image = [] { return WL_IMAGE(name_); },                                                        \
   .split_k = split,                                                                               \
   .grid = Grid::one_tile},
#include "kernels/dual_gemm/rows.def"
  };
  return table;
}

const Row* find_row(const std::string& name) { return warpline::find_row(rows(), name); }

} // namespace warpline::dual_gemm
