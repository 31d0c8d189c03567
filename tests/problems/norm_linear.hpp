#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

Operation norm_linear();

} // namespace wltest::problems
