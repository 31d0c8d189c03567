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
// FEED is of the PTX alone.
#define SM100_ROW(name, out, store, epilogue, group, cluster_m, cluster_n, split, tile_n, stages,  \
                  acc, sets, feed, ...)                                                            \
  sm100_config(                                                                                    \
      #name, [] { return WL_IMAGE(name); }, 2, out, store, epilogue, group, cluster_m, cluster_n,  \
      split, tile_n, stages, acc, sets, __VA_ARGS__),
#define SM90_ROW(name, ...)                                                                        \
  sm90_config(                                                                                     \
      #name, [] { return WL_IMAGE(name); }, 2, Family::sm90, __VA_ARGS__),
#define SM90_SMALL_ROW(name, ...)                                                                  \
  sm90_small_config(                                                                               \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#define SM90_DOUBLE_BUFFERED_ROW(name, ...)                                                        \
  sm90_config(                                                                                     \
      #name, [] { return WL_IMAGE(name); }, 2, Family::sm90_double_buffered, __VA_ARGS__),
#include "kernels/dual_gemm/rows.def"
  };
  return table;
}

const Row* find_row(const std::string& name) { return warpline::find_row(rows(), name); }

} // namespace warpline::dual_gemm
