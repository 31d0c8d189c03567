// Ranges of memory that operations in flight read or write.
#pragma once

#include "tools/vgpu/exec/agent.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vgpu::exec {

struct Guard {
  Range range;
  AsyncOp* op;
};

class Guards {
public:
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  const Guard& operator[](size_t i) const { return list_[i]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

  void add(const Range& range, AsyncOp& op) {
    list_.push_back(Guard{range, &op});
    count(range, 1);
  }

  // Ends one of the operation's guards, if it is still there.
  void release(const AsyncOp& op, const Range& range) {
    const auto at = std::find_if(list_.begin(), list_.end(), [&](const Guard& g) {
      return g.op == &op && g.range.write == range.write && g.range.lo == range.lo &&
             g.range.hi == range.hi && g.range.lane_lo == range.lane_lo;
    });
    if (at == list_.end()) return;
    count(at->range, -1);
    list_.erase(at);
  }

  // False where no guard can object to an access: of shared and global memory this is known without
  // a look at the list, which an exchange between CTAs fills with hundreds of stores.
  bool may_object(Space space, uint64_t lo, uint64_t hi, bool write) const {
    if (!is_counted(space)) return !list_.empty();
    const auto any = [&](const std::vector<uint32_t>& counts) {
      if (counts.empty()) return false;
      uint32_t found = 0;
      for_spans(space, lo, hi, [&](size_t first, size_t count) {
        if (count <= kFew)
          while (count != 0 && found == 0) found = counts[first + --count];
        else
          for (size_t i = 0; i < count; ++i) found |= counts[first + i];
      });
      return found != 0;
    };
    return any(writes_) || (write && any(reads_));
  }

  // The same of an access of the operation's own, whose guards do not object to it.
  bool others_may_object(const Range& range, const AsyncOp& op) const {
    if (!is_counted(range.space)) return true;
    return others(writes_, range, op, true, op.guards_writes) ||
           (range.write && others(reads_, range, op, false, op.guards_reads));
  }

private:
  // Shared memory in pieces of 16 bytes, global memory in pages, of which some share a count.
  static constexpr size_t kPieces = 16384;

  static bool is_counted(Space space) { return space == Space::Shared || space == Space::Global; }

  // What an access of a warp's touches: the set-up of a loop without a branch costs more.
  static constexpr size_t kFew = 32;

  // f(first, count) of one or two rows of pieces: long loops over them have no branch.
  template <class F>
  static void for_spans(Space space, uint64_t lo, uint64_t hi, F f) {
    if (hi <= lo) return;
    const int shift = space == Space::Shared ? 4 : 12;
    const size_t first = (lo >> shift) % kPieces;
    const size_t count = std::min<uint64_t>(((hi - 1) >> shift) - (lo >> shift) + 1, kPieces);
    const size_t here = std::min(count, kPieces - first);
    f(first, here);
    if (here < count) f(size_t{0}, count - here);
  }

  // Whether a piece of the range has more ranges than those of the operation, where it has guards.
  static bool others(const std::vector<uint32_t>& counts, const Range& range, const AsyncOp& op,
                     bool write, bool guarded) {
    if (counts.empty()) return false;
    uint32_t found = 0;
    constexpr size_t kSome = 512;
    for_spans(range.space, range.lo, range.hi, [&](size_t first, size_t count) {
      for (size_t some = first; some < first + count && found == 0; some += kSome) {
        const size_t end = std::min(some + kSome, first + count);
        uint32_t own[kSome];
        std::fill(own, own + (end - some), 0u);
        if (guarded)
          for (const Range& r : op.ranges)
            if (r.space == range.space && r.cta == range.cta && r.write == write)
              for_spans(r.space, r.lo, r.hi, [&](size_t from, size_t pieces) {
                const size_t to = std::min(from + pieces, end);
                for (size_t i = std::max(from, some); i < to; ++i) ++own[i - some];
              });
        for (size_t i = some; i < end; ++i) found |= counts[i] > own[i - some];
      }
    });
    return found != 0;
  }

  void count(const Range& range, int by) {
    if (!is_counted(range.space)) return;
    std::vector<uint32_t>& counts = range.write ? writes_ : reads_;
    if (counts.empty()) counts.resize(kPieces);
    for_spans(range.space, range.lo, range.hi, [&](size_t first, size_t pieces) {
      for (size_t i = 0; i < pieces; ++i) counts[first + i] += static_cast<uint32_t>(by);
    });
  }

  std::vector<Guard> list_;
  std::vector<uint32_t> writes_, reads_; // ranges in each piece of memory
};

} // namespace vgpu::exec
