// The configurations of wl_grouped_gemm and wl_grouped_dual_gemm.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/grouped/grouped.hpp"

#define SM100_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_SWAPPED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_PLAIN_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_STORED_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_NATIVE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_DECODE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SMALL_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/grouped/configs.def"

namespace warpline::grouped {

namespace {

// The FORM column: B_TENSORS of the form.
enum Form { LINEAR = 1, GATED = 2 };

gemm::Table table_of(Form wanted) {
  using namespace gemm;
  [[maybe_unused]] constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16, F32 = WL_F32, NVFP4 = WL_NVFP4;
  [[maybe_unused]] constexpr Store DIRECT = Store::direct, LINES = Store::lines;
  [[maybe_unused]] constexpr gemm::Epilogue BOTH = gemm::Epilogue::both;
  [[maybe_unused]] constexpr Grid PERSISTENT = Grid::persistent;
  [[maybe_unused]] constexpr Kind H16 = Kind::h16, F8 = Kind::f8;
  Table all = {
// FEED is of the PTX alone.
#define SM100_CONFIG(name, form, of_groups, out, store, epilogue, group, cluster_m, cluster_n,     \
                     split, tile_n, stages, acc, sets, feed, ...)                                  \
  gemm::sm100_grouped(sm100_config(                                                                \
      #name, [] { return WL_IMAGE(name); }, form, out, store, epilogue, group, cluster_m,          \
      cluster_n, split, tile_n, stages, acc, sets, __VA_ARGS__)),
#define SM100_SWAPPED_CONFIG(name, form, of_groups, ...)                                           \
  gemm::sm100_grouped(sm100_swapped_config(                                                        \
      #name, [] { return WL_IMAGE(name); }, form, __VA_ARGS__)),
#define SM100_PLAIN_CONFIG(name, form, of_groups, ...)                                             \
  gemm::sm100_grouped(sm100_plain_config(                                                          \
      #name, [] { return WL_IMAGE(name); }, form, __VA_ARGS__)),
#define SM90_CONFIG(name, form, of_groups, ...)                                                    \
  gemm::grouped(sm90_config(                                                                       \
      #name, [] { return WL_IMAGE(name); }, form, Family::sm90, __VA_ARGS__)),
#define SM90_STORED_CONFIG(name, form, of_groups, store, ...)                                      \
  gemm::grouped(                                                                                   \
      stored(store, sm90_config(                                                                   \
                        #name, [] { return WL_IMAGE(name); }, form, Family::sm90, __VA_ARGS__))),
#define SM90_NATIVE_CONFIG(name, form, of_groups, type, ...)                                       \
  gemm::grouped(sm90_native_config(                                                                \
      #name, [] { return WL_IMAGE(name); }, form, NativeType::type, __VA_ARGS__)),
#define SM90_SMALL_CONFIG(name, form, of_groups, ...)                                              \
  gemm::grouped(sm90_small_config(                                                                 \
      #name, [] { return WL_IMAGE(name); }, form, __VA_ARGS__)),
#include "kernels/grouped/configs.def"
  };
  std::erase_if(all, [&](const Config& config) { return config.b_tensors != wanted; });
  return all;
}

} // namespace

const gemm::Table& linear_configs() {
  static const gemm::Table table = table_of(LINEAR);
  return table;
}

const gemm::Table& dual_configs() {
  static const gemm::Table table = table_of(GATED);
  return table;
}

} // namespace warpline::grouped
