#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

Operation linear();

} // namespace wltest::problems
