// The configurations of wl_gemm.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/linear/linear.hpp"

#define SM100_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_ROW(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SMALL_ROW(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/linear/rows.def"

namespace warpline::linear {

const gemm::Table& configs() {
  using namespace gemm;
  constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16, F32 = WL_F32, NVFP4 = WL_NVFP4;
  constexpr Store DIRECT = Store::direct;
  constexpr gemm::Epilogue BOTH = gemm::Epilogue::both;
  constexpr Grid PERSISTENT = Grid::persistent, ONE_TILE = Grid::one_tile,
                 LAUNCH_CONTROL = Grid::launch_control, STREAM_K = Grid::stream_k;
  static const Table table = {
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
       sm100_shared_bytes(group, split, tile_n_, stages_, acc, grid_, store_, epilogue_, 1),       \
   .image = [] { return WL_IMAGE(name_); },                                                        \
   .b_tensors = 1,                                                                                 \
   .split_k = split,                                                                               \
   .cta_group = group,                                                                             \
   .cluster_m = cluster_m_,                                                                        \
   .cluster_n = cluster_n_,                                                                        \
   .scale_sets = sets,                                                                             \
   .grid = grid_,                                                                                  \
   .store = store_,                                                                                \
   .epilogue = epilogue_},
#define SM90_ROW(name, ...)                                                                        \
  sm90_config(                                                                                     \
      #name, [] { return WL_IMAGE(name); }, 1, Family::sm90, __VA_ARGS__),
#define SM90_SMALL_ROW(name, ...)                                                                  \
  sm90_small_config(                                                                               \
      #name, [] { return WL_IMAGE(name); }, 1, __VA_ARGS__),
#include "kernels/linear/rows.def"
  };
  return table;
}

} // namespace warpline::linear
