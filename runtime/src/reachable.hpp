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

// Memory that the driver was asked about, so that runs with the same operands need not ask again.
// Any thread may ask and note; a place that another extent takes is asked about once more.
class KnownMemory {
public:
  bool has(const Extent& extent) const {
    const uint64_t mark = mark_of(extent);
    for (const std::atomic<uint64_t>& slot : sets_[mark >> 58])
      if (slot.load(std::memory_order_relaxed) == mark) return true;
    return false;
  }
  void note(const Extent& extent) const {
    const uint64_t mark = mark_of(extent);
    auto& set = sets_[mark >> 58];
    auto* free = std::find_if(set.begin(), set.end(), [](const std::atomic<uint64_t>& slot) {
      return slot.load(std::memory_order_relaxed) == 0;
    });
    if (free == set.end()) free = &set[mark >> 1 & 3];
    free->store(mark, std::memory_order_relaxed);
  }

private:
  // A mix (splitmix64's) that is a bijection but for its last bit, never 0.
  static uint64_t mark_of(const Extent& extent) {
    uint64_t x = reinterpret_cast<uintptr_t>(extent.start) + extent.bytes * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (x ^ x >> 31) | 1;
  }

  mutable std::array<std::array<std::atomic<uint64_t>, 4>, 64> sets_{};
};

// The context whose kernels touch the memory, null: pointers stand for none; and what need not be
// asked about again.
struct ContextMemory {
  ContextMemory(const wl_context* owner = nullptr, const KnownMemory* asked = nullptr)
      : context(owner), known(asked) {}
  const wl_context* context;
  const KnownMemory* known;
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
