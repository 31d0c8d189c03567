// The configurations of wl_gemm.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/linear/linear.hpp"

#define SM100_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_SWAPPED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_PLAIN_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100A_PLAIN_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_MX_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_FITTED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SETS_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_HELPED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STORED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STREAM_K_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SMALL_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STREAM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_STREAM_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_SPLIT_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_MN_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_TURNED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/linear/configs.def"

namespace warpline::linear {

const gemm::Table& configs() {
  using namespace gemm;
  constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16, F32 = WL_F32, NVFP4 = WL_NVFP4;
  constexpr Kind H16 = Kind::h16, F8 = Kind::f8, TF32 = Kind::tf32, I8 = Kind::i8;
  constexpr Store DIRECT = Store::direct, SECTORS = Store::sectors, LINES = Store::lines;
  constexpr gemm::Epilogue BOTH = gemm::Epilogue::both;
  constexpr Grid PERSISTENT = Grid::persistent, ONE_TILE = Grid::one_tile,
                 LAUNCH_CONTROL = Grid::launch_control, STREAM_K = Grid::stream_k;
  static const Table table = {
// FEED is of the PTX alone.
#define SM100_CONFIG(name, out, store, epilogue, group, cluster_m, cluster_n, split, tile_n,       \
                     stages, acc, sets, feed, ...)                                                 \
  sm100_config(                                                                                    \
      #name, [] { return WL_IMAGE(name); }, 1, out, store, epilogue, group, cluster_m, cluster_n,  \
      split, tile_n, stages, acc, sets, __VA_ARGS__),
#define SM100_SWAPPED_CONFIG(name, ...)                                                            \
  sm100_swapped_config(                                                                            \
      #name, [] { return WL_IMAGE(name); }, 1, __VA_ARGS__),
#define SM100_PLAIN_CONFIG(name, ...)                                                              \
  sm100_plain_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 1, __VA_ARGS__),
#define SM100A_PLAIN_CONFIG SM100_PLAIN_CONFIG
#define SM100_MX_CONFIG(name, ...)                                                                 \
  sm100_mx_config(                                                                                 \
      #name, [] { return WL_IMAGE(name); }, 1, __VA_ARGS__),
#define SM90_CONFIG(name, ...)                                                                     \
  sm90_config(                                                                                     \
      #name, [] { return WL_IMAGE(name); }, 1, Family::sm90, __VA_ARGS__),
#define SM90_SETS_CONFIG SM90_CONFIG
#define SM90_HELPED_CONFIG(name, mma, out, tokens, stages, rows, split, consumers, group, ctas,    \
                           launches, spread, groups, ...)                                          \
  helped(sm90_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 1, Family::sm90, mma, out, tokens, stages, rows,       \
      split, consumers, group, ctas, launches, spread, groups)),
#define SM90_STORED_CONFIG(name, store, ...)                                                       \
  stored(store, sm90_config(                                                                       \
                    #name, [] { return WL_IMAGE(name); }, 1, Family::sm90, __VA_ARGS__)),
#define SM90_FITTED_CONFIG(name, store, mma, out, tokens, stages, rows, split, consumers, group,   \
                           ctas, launches, ...)                                                    \
  fitted(stored(store, sm90_config(                                                                \
                           #name, [] { return WL_IMAGE(name); }, 1, Family::sm90, mma, out,        \
                           tokens, stages, rows, split, consumers, group, ctas, launches))),
#define SM90_STREAM_K_CONFIG(name, store, mma, out, tokens, stages, rows, split, consumers, group, \
                             ctas, launches, ...)                                                  \
  streamed(stored(store, sm90_config(                                                              \
                             #name, [] { return WL_IMAGE(name); }, 1, Family::sm90, mma, out,      \
                             tokens, stages, rows, split, consumers, group, ctas, launches))),
#define SM90_NATIVE_CONFIG(name, type, ...)                                                        \
  sm90_native_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 1, NativeType::type, __VA_ARGS__),
#define SM90_NATIVE_STREAM_CONFIG SM90_NATIVE_CONFIG
#define SM90_NATIVE_SPLIT_CONFIG(name, type, out, tokens, stages, rows, consumers, group, split)   \
  sm90_native_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 1, NativeType::type, out, tokens, stages, rows,        \
      consumers, group, 0, split),
#define SM90_NATIVE_MN_CONFIG(name, type, out, tokens, stages, rows, consumers, group, split, ...) \
  mn_major(sm90_native_config(                                                                     \
      #name, [] { return WL_IMAGE(name); }, 1, NativeType::type, out, tokens, stages, rows,        \
      consumers, group, 0, split)),
#define SM90_NATIVE_TURNED_CONFIG(name, type, out, columns, stages, rows, consumers, group,        \
                                  turned, ...)                                                     \
  sm90_turned_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, NativeType::type, out, columns, stages, rows,          \
      consumers, group, __VA_ARGS__),
#define SM90_SMALL_CONFIG(name, ...)                                                               \
  sm90_small_config(                                                                               \
      #name, [] { return WL_IMAGE(name); }, 1, __VA_ARGS__),
#define SM90_STREAM_CONFIG(name, ...)                                                              \
  sm90_stream_config(                                                                              \
      #name, [] { return WL_IMAGE(name); }, 1, __VA_ARGS__),
#include "kernels/linear/configs.def"
  };
  return table;
}

} // namespace warpline::linear
