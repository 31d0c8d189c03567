// The rule that kernels of a context may access what an argument points to. A kernel that touches
// other memory faults, and a fault ends the context with all that a program holds in it.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/rules.hpp"

namespace warpline {

constexpr const char* reachable_text = "must be memory that the device can reach";

// Asks the driver about the first byte, the allocation that it lies in, and the last byte;
// `context` is current. Memory that the program mapped itself counts as one allocation as far as
// its reservation of addresses goes, of however many mappings; gaps between them are not looked
// for. Holds for null, without a context, and where the driver gives no clear answer. An extent of
// 0 bytes stands for its first byte.
Verdict reachable(const wl_context* context, const Extent& extent);

} // namespace warpline
