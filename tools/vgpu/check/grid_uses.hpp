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
  void add(uint64_t lo, uint64_t hi, bool write, bool generic) {
    bytes.visit(lo, hi, [&](Use& u, uint64_t, uint64_t) {
      (write ? u.written : u.read) = true;
      u.generic |= write && generic;
    });
  }
  // The same in as few pieces as can be: every cluster of the grid behind starts with a copy.
  GridUses joined() const {
    GridUses result;
    uint64_t begin = 0, end = 0;
    Use use;
    auto put = [&] {
      result.bytes.visit(begin, end, [&](Use& u, uint64_t, uint64_t) { u = use; });
    };
    bytes.each([&](uint64_t lo, uint64_t hi, const Use& u) {
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
