#pragma once

#include "tests/problems/problem.hpp"

namespace wltest::problems {

Operation quantize();

} // namespace wltest::problems
