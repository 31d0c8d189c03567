// The rule that kernels of a context may access what an argument points to. A kernel that touches
// other memory faults, and a fault ends the context with all that a program holds in it.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/rules.hpp"

namespace warpline {

constexpr const char* reachable_text = "must be memory that the device can reach";

// Asks the driver about the first byte; `context` is current. Holds for null, without a context,
// and where the driver gives no clear answer. The extent is not judged: what one tensor lies in may
// be many mappings.
Verdict reachable(const wl_context* context, const void* pointer);

} // namespace warpline
