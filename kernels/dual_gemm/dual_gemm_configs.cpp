// Configurations of the dual GEMM and the choice among them.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>

#define SM100_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_PLAIN_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100A_PLAIN_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_MX_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STREAM_K_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_DOUBLE_BUFFERED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SMALL_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STREAM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_DECODE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/dual_gemm/configs.def"

namespace warpline::dual_gemm {

namespace {

constexpr wl_dtype F16 = WL_F16;
constexpr wl_dtype BF16 = WL_BF16;
constexpr wl_dtype NVFP4 = WL_NVFP4;
constexpr Kind H16 = Kind::h16;
constexpr Kind F8 = Kind::f8;
constexpr Kind TF32 = Kind::tf32;
constexpr Kind I8 = Kind::i8;
constexpr Store DIRECT = Store::direct;
constexpr Store BULK = Store::bulk;
constexpr Epilogue BOTH = Epilogue::both;
constexpr Epilogue PING_PONG = Epilogue::ping_pong;
constexpr Grid PERSISTENT = Grid::persistent;
constexpr Grid ONE_TILE = Grid::one_tile;
constexpr Grid LAUNCH_CONTROL = Grid::launch_control;
constexpr Grid STREAM_K = Grid::stream_k;

} // namespace

const std::vector<Config>& configs() {
  static const std::vector<Config> table = {
// FEED is of the PTX alone.
#define SM100_CONFIG(name, out, store, epilogue, group, cluster_m, cluster_n, split, tile_n,       \
                     stages, acc, sets, feed, ...)                                                 \
  sm100_config(                                                                                    \
      #name, [] { return WL_IMAGE(name); }, 2, out, store, epilogue, group, cluster_m, cluster_n,  \
      split, tile_n, stages, acc, sets, __VA_ARGS__),
#define SM100_PLAIN_CONFIG(name, ...)                                                              \
  sm100_plain_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#define SM100A_PLAIN_CONFIG SM100_PLAIN_CONFIG
#define SM100_MX_CONFIG(name, ...)                                                                 \
  sm100_mx_config(                                                                                 \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#define SM90_CONFIG(name, ...)                                                                     \
  sm90_config(                                                                                     \
      #name, [] { return WL_IMAGE(name); }, 2, Family::sm90, __VA_ARGS__),
#define SM90_STREAM_K_CONFIG(name, mma, out, tokens, stages, rows, split, consumers, group, ctas,  \
                             launches, ...)                                                        \
  streamed(sm90_config(                                                                            \
      #name, [] { return WL_IMAGE(name); }, 2, Family::sm90, mma, out, tokens, stages, rows,       \
      split, consumers, group, ctas, launches)),
#define SM90_SMALL_CONFIG(name, ...)                                                               \
  sm90_small_config(                                                                               \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#define SM90_STREAM_CONFIG(name, ...)                                                              \
  sm90_stream_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 2, __VA_ARGS__),
#define SM90_NATIVE_CONFIG(name, type, ...)                                                        \
  sm90_native_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 2, NativeType::type, __VA_ARGS__),
#define SM90_DOUBLE_BUFFERED_CONFIG(name, ...)                                                     \
  sm90_config(                                                                                     \
      #name, [] { return WL_IMAGE(name); }, 2, Family::sm90_double_buffered, F16, __VA_ARGS__),
#include "kernels/dual_gemm/configs.def"
  };
  return table;
}

const Config* find_config(const std::string& name) {
  return warpline::find_config(configs(), name);
}

} // namespace warpline::dual_gemm
