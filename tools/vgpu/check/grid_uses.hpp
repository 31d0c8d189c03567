// What a grid did to global memory, for a grid behind it in the stream that may start before it has
// ended (a programmatic dependent launch).
#pragma once

#include "tools/vgpu/check/shadow.hpp"

namespace vgpu::check {

struct GridUses {
  struct Use {
    bool read = false, written = false;
    bool generic = false; // written by threads, not by the async proxy
  };
  Intervals<Use> bytes;
  void add(uint64_t lo, uint64_t hi, bool write, bool generic) {
    bytes.visit(lo, hi, [&](Use& u, uint64_t, uint64_t) {
      (write ? u.written : u.read) = true;
      u.generic |= write && generic;
    });
  }
};

} // namespace vgpu::check
