// The configurations that a layer's products may take: those of groups, and those of few rows that
// say which expert is theirs.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/moe/moe.hpp"

#define SM90_SMALL_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/moe/configs.def"

namespace warpline::moe {

namespace {

// The FORM column: B_TENSORS of the form.
enum Form { LINEAR = 1, GATED = 2 };

gemm::Table table_of(const gemm::Table& of_groups, int wanted) {
  constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16, NVFP4 = WL_NVFP4;
  gemm::Table all = of_groups;
  for (const gemm::Config& config : {
#define SM90_SMALL_CONFIG(name, form, of_routes, summed, ...)                                      \
  gemm::summed_if(summed, gemm::routed(gemm::sm90_small_config(                                    \
                              #name, [] { return WL_IMAGE(name); }, form, __VA_ARGS__))),
#include "kernels/moe/configs.def"
       })
    if (config.b_tensors == wanted) all.push_back(config);
  return all;
}

} // namespace

const gemm::Table& up_configs() {
  static const gemm::Table table = table_of(grouped::dual_configs(), GATED);
  return table;
}
const gemm::Table& down_configs() {
  static const gemm::Table table = table_of(grouped::linear_configs(), LINEAR);
  return table;
}

} // namespace warpline::moe
