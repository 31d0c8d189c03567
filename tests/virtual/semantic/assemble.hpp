// Machine code, which tells of some mutants that no input can tell them from the kernel.
#pragma once

#include <string>

namespace wltest {

// What ptxas makes of it; "" where there is no ptxas, or where it refuses the text.
std::string machine_code(const std::string& ptx);

} // namespace wltest
