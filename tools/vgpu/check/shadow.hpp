// State of a range of bytes, kept in intervals that are split where accesses begin and end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace vgpu::check {

// Cell: copyable, default = never touched.
template <class Cell>
class Intervals {
public:
  // Calls fn(cell, lo, hi) for the pieces of [lo, hi), made where they did not exist.
  template <class Fn>
  void visit(uint64_t lo, uint64_t hi, Fn&& fn) {
    split(lo);
    split(hi);
    auto it = pieces_.lower_bound(lo);
    uint64_t next = lo;
    while (next < hi) {
      if (it == pieces_.end() || it->first > next) {
        uint64_t end = it == pieces_.end() ? hi : (it->first < hi ? it->first : hi);
        it = pieces_.emplace_hint(it, next, Piece{end, Cell{}});
      }
      fn(it->second.cell, it->first, it->second.hi);
      next = it->second.hi;
      ++it;
    }
  }
  // Replaces whatever [lo, hi) holds; its edges must be piece edges (visit has made them).
  void replace(uint64_t lo, uint64_t hi, Cell cell) {
    auto first = pieces_.lower_bound(lo), last = pieces_.lower_bound(hi);
    if (first != last && first->first == lo) {
      first->second.hi = hi;
      first->second.cell = std::move(cell);
      pieces_.erase(std::next(first), last);
      return;
    }
    pieces_.erase(first, last);
    pieces_.emplace(lo, Piece{hi, std::move(cell)});
  }
  void clear(uint64_t lo, uint64_t hi) {
    split(lo);
    split(hi);
    pieces_.erase(pieces_.lower_bound(lo), pieces_.lower_bound(hi));
  }
  template <class Fn>
  void each(Fn&& fn) const {
    for (const auto& [lo, p] : pieces_) fn(lo, p.hi, p.cell);
  }
  size_t size() const { return pieces_.size(); }

private:
  struct Piece {
    uint64_t hi;
    Cell cell;
  };
  void split(uint64_t at) {
    auto it = pieces_.lower_bound(at);
    if (it == pieces_.begin() || (it != pieces_.end() && it->first == at)) return;
    auto before = std::prev(it);
    if (before->second.hi <= at) return;
    pieces_.emplace_hint(it, at, Piece{before->second.hi, before->second.cell});
    before->second.hi = at;
  }
  std::map<uint64_t, Piece> pieces_;
};

} // namespace vgpu::check
