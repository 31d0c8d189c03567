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
    if (space != Space::Shared && space != Space::Global) return !list_.empty();
    const auto any = [&](const std::vector<uint32_t>& counts) {
      bool found = false;
      if (!counts.empty()) for_pieces(space, lo, hi, [&](size_t i) { found |= counts[i] != 0; });
      return found;
    };
    return any(writes_) || (write && any(reads_));
  }

  // The same of an access of the operation's own, whose guards do not object to it.
  bool others_may_object(const Range& range, const AsyncOp& op) const {
    if (range.space != Space::Shared && range.space != Space::Global) return true;
    const auto own = [&](size_t piece, bool write) {
      uint32_t count = 0;
      for (const Range& r : op.ranges)
        if (r.space == range.space && r.cta == range.cta && r.write == write && r.lo < r.hi) {
          const Pieces p(r.space, r.lo, r.hi);
          count += (piece + kPieces - p.first % kPieces) % kPieces < p.count;
        }
      return count;
    };
    const auto any = [&](const std::vector<uint32_t>& counts, bool write, bool guarded) {
      bool found = false;
      if (!counts.empty())
        for_pieces(range.space, range.lo, range.hi, [&](size_t i) {
          found = found || (counts[i] != 0 && (!guarded || counts[i] > own(i, write)));
        });
      return found;
    };
    return any(writes_, true, op.guards_writes) ||
           (range.write && any(reads_, false, op.guards_reads));
  }

private:
  // Shared memory in pieces of 16 bytes, global memory in pages, of which some share a count.
  static constexpr size_t kPieces = 16384;

  struct Pieces {
    uint64_t first, count;
    Pieces(Space space, uint64_t lo, uint64_t hi) {
      const int shift = space == Space::Shared ? 4 : 12;
      first = lo >> shift;
      count = std::min<uint64_t>(((hi - 1) >> shift) - first + 1, kPieces);
    }
  };
  template <class F>
  static void for_pieces(Space space, uint64_t lo, uint64_t hi, F f) {
    if (hi <= lo) return;
    const Pieces p(space, lo, hi);
    for (uint64_t i = 0; i < p.count; ++i) f((p.first + i) % kPieces);
  }

  void count(const Range& range, int by) {
    if (range.space != Space::Shared && range.space != Space::Global) return;
    std::vector<uint32_t>& counts = range.write ? writes_ : reads_;
    if (counts.empty()) counts.resize(kPieces);
    for_pieces(range.space, range.lo, range.hi,
               [&](size_t i) { counts[i] += static_cast<uint32_t>(by); });
  }

  std::vector<Guard> list_;
  std::vector<uint32_t> writes_, reads_; // ranges in each piece of memory
};

} // namespace vgpu::exec
