// The operations that have problems: a line each.
#include "tests/problems/dual_gemm.hpp"
#include "tests/problems/grouped.hpp"
#include "tests/problems/linear.hpp"
#include "tests/problems/moe.hpp"
#include "tests/problems/moe_parts.hpp"
#include "tests/problems/norm_linear.hpp"
#include "tests/problems/quantize.hpp"
#include "tests/problems/share.hpp"

namespace wltest::problems {

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> list = {
        dual_gemm(),   linear(),     grouped_linear(), grouped_dual(), quantize(), norm_linear(),
        moe_permute(), moe_encode(), moe_spread(),     moe_combine(),  moe()};
    share_problems(&list);
    return list;
  }();
  return all;
}

} // namespace wltest::problems
