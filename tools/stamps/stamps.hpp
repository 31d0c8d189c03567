// Stamps: a kernel's PTX with instructions added that record when each warp begins and ends to wait
// and when it issues asynchronous work, and the timeline made of what they recorded. The shipped
// kernel is not touched: a stamped text is made from it line by line, every line of it stays.
//
// Lane 0 of each warp of cluster 0 writes records of 16 bytes into a part of a global variable of
// its own: a clock (%clock64 of its SM), a site and a value (a barrier's address). Records that
// carry %globaltimer tie the SMs' clocks together.
#pragma once

#include "tools/vgpu/trace/recording.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::stamps {

enum class What : uint8_t {
  time,        // the clock is %globaltimer
  start,       // of the warp, or its end
  end,         //
  barrier,     // an mbarrier is initialised
  wait,        // two records: before and after
  load,        // issue of a bulk copy into shared memory
  store,       // of one out of it
  mma,         // of wgmma or tcgen05.mma, or a scale copy of tcgen05.cp
  tensor_load, // of tcgen05.ld or tcgen05.st
  commit,      // of what was issued since the last one
};

// A place in the text that writes records. Its number is its index.
struct Site {
  What what;
  int line = 0;     // in the text before stamps were added, from 1
  std::string name; // of the instruction, without types
  int pending = 0;  // of a wait_group: groups that may still be pending
};

struct Stamped {
  std::string text;
  std::vector<Site> sites;
  uint32_t ctas = 0, warps = 0,
           records = 0;                     // of the buffer: CTAs of a cluster, warps, records each
  std::vector<std::string> roles, barriers; // from the kernel's head

  size_t buffer_bytes() const { return size_t{16} * ctas * warps * records; }
};

// The global variable.
inline constexpr const char* buffer_name = "warpline_stamps";

// `ptx` has one statement a line and one entry with .maxntid, as the library's kernels; throws
// std::invalid_argument with a sentence when it has not.
Stamped stamp(const std::string& ptx, uint32_t ctas = 8, uint32_t records = 4096);

// The timeline of what a launch left in the buffer, in nanoseconds; the virtual GPU's clocks count
// ticks of its scheduler. A unit's work lasts from its issue to when a
// warp saw it complete, and never longer than later work of the same unit that completes in order.
vgpu::trace::Recording decode(const Stamped& stamped, const std::vector<uint8_t>& buffer,
                              bool is_virtual);

} // namespace warpline::stamps
