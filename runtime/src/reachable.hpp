// The rule that kernels of a context may access what an argument points to. A kernel that touches
// other memory faults, and a fault ends the context with all that a program holds in it.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/rules.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace warpline {

constexpr const char* reachable_text = "must be memory that the device can reach";

// Marks of what was checked, so that runs with the same operands need not check it again. Any
// thread may look and note; what another mark takes the place of is checked once more.
class Known {
public:
  bool has(uint64_t mark) const {
    for (const std::atomic<uint64_t>& slot : sets_[mark >> 58])
      if (slot.load(std::memory_order_relaxed) == mark) return true;
    return false;
  }
  void note(uint64_t mark) const {
    auto& set = sets_[mark >> 58];
    auto* free = std::find_if(set.begin(), set.end(), [](const std::atomic<uint64_t>& slot) {
      return slot.load(std::memory_order_relaxed) == 0;
    });
    if (free == set.end()) free = &set[mark >> 1 & 3];
    free->store(mark, std::memory_order_relaxed);
  }

private:
  mutable std::array<std::array<std::atomic<uint64_t>, 4>, 64> sets_{};
};

// A mark of `bytes` bytes, a multiple of 8, that follows from all of them and is never 0: two
// contents have the same one once in 2^63 pairs.
uint64_t mark_of(const void* content, size_t bytes, uint64_t seed = 0);

// The context whose kernels touch the memory, null: pointers stand for none; and what need not be
// asked about again.
struct ContextMemory {
  ContextMemory(const wl_context* owner = nullptr, const Known* asked = nullptr)
      : context(owner), known(asked) {}
  const wl_context* context;
  const Known* known; // null: nothing is
};

// Asks the driver about the first byte, the allocation that it lies in, and the last byte;
// `context` is current. Memory that the program mapped itself counts as one allocation as far as
// its reservation of addresses goes, of however many mappings; gaps between them are not looked
// for. Holds for known memory, for null, without a context, and where the driver gives no clear
// answer. An extent of 0 bytes stands for its first byte.
Verdict reachable(const ContextMemory& memory, const Extent& extent);

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
