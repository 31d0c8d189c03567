#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

// The kernels around the products, which have no entry of their own in the public header.
Operation moe_permute();
Operation moe_encode();
Operation moe_spread();
Operation moe_combine();

} // namespace wltest::problems
