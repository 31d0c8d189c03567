// What a grid did to global memory, for a grid behind it in the stream that may start before it has
// ended (a programmatic dependent launch).
#pragma once

#include "tools/vgpu/check/shadow.hpp"

namespace vgpu::check {

struct GridUses {
  struct Use {
    bool read = false, written = false;
    bool generic = false; // written by threads, not by the async proxy
    bool operator==(const Use&) const = default;
  };
  Intervals<Use> bytes;
  // Of grids that one behind them ended without having waited for: whoever waits for that one does
  // not know that these are over.
  Intervals<Use> passed;
  void add(uint64_t lo, uint64_t hi, bool write, bool generic) {
    bytes.visit(lo, hi, [&](Use& u, uint64_t, uint64_t) {
      (write ? u.written : u.read) = true;
      u.generic |= write && generic;
    });
  }
  void pass() {
    bytes.each([&](uint64_t lo, uint64_t hi, const Use& of) {
      passed.visit(lo, hi, [&](Use& u, uint64_t, uint64_t) {
        u.read |= of.read, u.written |= of.written, u.generic |= of.generic;
      });
    });
    bytes = {};
  }
  // The same in as few pieces as can be: every cluster of the grid behind starts with a copy.
  GridUses joined() const { return {joined(bytes), joined(passed)}; }

private:
  static Intervals<Use> joined(const Intervals<Use>& pieces) {
    Intervals<Use> result;
    uint64_t begin = 0, end = 0;
    Use use;
    auto put = [&] { result.visit(begin, end, [&](Use& u, uint64_t, uint64_t) { u = use; }); };
    pieces.each([&](uint64_t lo, uint64_t hi, const Use& u) {
      if (lo != end || u != use) {
        if (end > begin) put();
        begin = lo;
        use = u;
      }
      end = hi;
    });
    if (end > begin) put();
    return result;
  }
};

} // namespace vgpu::check
