#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

Operation dual_gemm();

} // namespace wltest::problems
