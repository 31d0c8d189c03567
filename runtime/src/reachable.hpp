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

// The rules of an operand that may be null, in a table whose d_of(args) says where D lies: `extent`
// is a function of the arguments, `bytes` the alignment, a literal. WL_OPERAND may not be null.
#define WL_OPTIONAL_OPERAND(id, name, field, extent, bytes)                                        \
  WL_RULE(id "_aligned", name, "must be " #bytes "-byte aligned", alignment,                       \
          ::warpline::aligned(s.args.field, bytes)),                                               \
      WL_RULE(id "_reachable", name, ::warpline::reachable_text, memory,                           \
              ::warpline::reachable(s.context, extent(s.args))),                                   \
      WL_RULE("d_overlaps_" id, "D", "must not overlap " name, overlap,                            \
              ::warpline::disjoint(d_of(s.args), extent(s.args)))
#define WL_OPERAND(id, name, field, extent, bytes)                                                 \
  WL_RULE(id "_null", name, "must not be null", pointer, ::warpline::not_null(s.args.field)),      \
      WL_OPTIONAL_OPERAND(id, name, field, extent, bytes)

} // namespace warpline
