// Problems of wl_grouped_gemm and wl_grouped_dual_gemm.
#include "tests/problems/grouped.hpp"

#include "kernels/grouped/grouped.hpp"
#include "tests/problems/products.hpp"

namespace wltest::problems {

Operation grouped_linear() {
  return {"grouped_gemm", "grouped", "wl_grouped_gemm_args", {}, nullptr};
}

Operation grouped_dual() {
  return {"grouped_dual_gemm", "grouped", "wl_grouped_dual_gemm_args", {}, nullptr};
}

} // namespace wltest::problems
