// Everything that makes progress is an agent: warps, and one agent for each asynchronous operation.
// All are advanced by one scheduler (cluster.cpp) in the order that a policy sets (policy.hpp).
#pragma once

#include "tools/vgpu/exec/inst.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace vgpu::exec {

class Cluster;

// Key of the scheduler's order, smallest first. A policy fills tier and time; the scheduler adds
// the sequence number that makes the order total.
struct When {
  uint32_t tier = 0;
  uint64_t time = 0;
  uint64_t seq = 0;
  auto operator<=>(const When&) const = default;
};

enum class Space : uint8_t { Global, Shared, Tensor, Local, Param };
enum class Proxy : uint8_t { Generic, Async, Tensor };

// Bytes that an asynchronous operation reads or writes. For Space::Tensor lo/hi are columns and
// lane_lo/lane_hi lanes; otherwise addresses (Shared: offset in the window of CTA `cta`).
struct Range {
  Space space = Space::Global;
  bool write = false;
  uint32_t cta = 0;
  uint64_t lo = 0, hi = 0; // [lo, hi)
  uint32_t lane_lo = 0, lane_hi = 128;

  bool overlaps(const Range& o) const {
    return space == o.space && cta == o.cta && lo < o.hi && o.lo < hi &&
           (space != Space::Tensor || (lane_lo < o.lane_hi && o.lane_lo < lane_hi));
  }
};

// Who did something, for reports and checkers: no emulator types inside.
struct Origin {
  const Inst* inst = nullptr;
  uint32_t cta = 0; // rank in the cluster
  uint32_t warp = 0;
  uint32_t lane = 0;
  const char* unit = "warp"; // "warp", "TMA", "bulk copy", "tensor core", "TMEM load", ...
};

class Pipe;

// An asynchronous operation. From issue until its ranges are released the destination holds poison
// and both ends are guarded: any conflicting access that is not ordered after completion is a
// fault.
class AsyncOp {
public:
  virtual ~AsyncOp() = default;
  // Performs the next stage. Returns true when the operation is finished; false to be scheduled
  // again (a bulk store first reads its source, then writes its destination). May call
  // Cluster::release_ranges in between.
  virtual bool perform(Cluster& cluster) = 0;
  virtual std::string describe() const = 0;
  // Whether its pipe runs it only after `earlier`, an operation of the pipe issued before it.
  virtual bool follows(const AsyncOp& /*earlier*/) const { return true; }
  // Whether the ISA says that it does.
  virtual bool ordered_after(const AsyncOp& earlier) const { return follows(earlier); }
  virtual bool tensor_load() const { return false; }  // tcgen05.ld
  virtual bool tensor_store() const { return false; } // tcgen05.st

  Origin origin;
  uint32_t lanes = 0;        // of the warp, that issued it together; 0: the origin's
  std::vector<Range> ranges; // guarded from issue on
  bool guards_reads = false, guards_writes = false; // those of them that still are
  Pipe* pipe = nullptr;                             // may be null
  uint32_t awaited = 0; // operations of its pipe that it follows and that are not over
  When when;
  uint64_t id = 0;
};

// Operations that follow one another (the tensor core of a CTA or pair, a warpgroup's wgmma): in
// issue order, as far as AsyncOp::follows says.
class Pipe {
public:
  std::deque<AsyncOp*> queue; // in issue order
  std::string name;
};

} // namespace vgpu::exec
