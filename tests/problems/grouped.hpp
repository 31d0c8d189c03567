#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

Operation grouped_linear();
Operation grouped_dual();

} // namespace wltest::problems
