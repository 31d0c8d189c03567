// What checkers see of a run: plain events, no emulator types. hub.cpp makes them from the
// executor; tests make them by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::check {

enum class Space : uint8_t { Global, Shared, Tensor };
enum class Proxy : uint8_t { Generic, Async, Tensor };

// Who acts. `op` 0: the threads `lanes` (a mask) of a warp. Otherwise the asynchronous operation
// that a thread of the warp issued at `pc`.
struct Who {
  uint32_t cta = 0, warp = 0, lanes = 0;
  uint32_t pc = 0;
  uint64_t op = 0;
  uint64_t operands = 0; // of a store: the same for equal operands; 0: not known
};

// Bytes [lo, hi) of global memory or of the shared window of CTA `cta`; of tensor memory columns
// [lo, hi) of lanes [lane_lo, lane_hi).
struct Bytes {
  Space space = Space::Shared;
  uint32_t cta = 0;
  uint64_t lo = 0, hi = 0;
  uint32_t lane_lo = 0, lane_hi = 0;
};

enum class OpKind : uint8_t {
  Load,          // TMA or bulk copy that completes on an mbarrier
  Store,         // TMA or bulk copy in a bulk async-group
  LaunchControl, // clusterlaunchcontrol.try_cancel: likewise
  CpAsync,       // cp.async of a warp's lanes
  CpArrive,      // cp.async.mbarrier.arrive
  Mma,           // tcgen05.mma
  TensorCopy,    // tcgen05.cp
  TensorShift,   // tcgen05.shift
  Commit,        // tcgen05.commit
  TensorLoad,    // tcgen05.ld
  TensorStore,   // tcgen05.st
  Wgmma,
  Other
};

// Its end is counted by an mbarrier.
inline bool pays_mbarrier(OpKind k) { return k == OpKind::Load || k == OpKind::LaunchControl; }

inline bool of_tensor_core(OpKind k) {
  return k == OpKind::Mma || k == OpKind::TensorCopy || k == OpKind::TensorShift;
}

// PTX ISA 9.7.16.6.2: pairs of one thread and cta_group that the tensor core runs in issue order,
// so that nothing else has to order them. A copy after the MMA that reads its columns is not among
// them.
inline bool pipelined(OpKind first, OpKind second) {
  const bool copy = first == OpKind::TensorCopy;
  if (second == OpKind::TensorCopy) return copy;
  return (second == OpKind::Mma || second == OpKind::TensorShift) &&
         (copy || first == OpKind::Mma || first == OpKind::TensorShift);
}

enum class Group : uint8_t { Bulk, CpAsync, Wgmma };

enum class Fence : uint8_t {
  AcqRel,       // fence.acq_rel, fence.sc, membar
  Acquire,      // fence.acquire
  Release,      // fence.release
  ProxyShared,  // fence.proxy.async.shared::{cta,cluster}
  ProxyGlobal,  // fence.proxy.async.global
  ProxyAll,     // fence.proxy.async
  MbarrierInit, // fence.mbarrier_init
  MapRelease,   // fence.proxy.tensormap::generic.release, tensormap.cp_fenceproxy
  TensorBefore, // tcgen05.fence::before_thread_sync
  TensorAfter   // tcgen05.fence::after_thread_sync
};

// Memory order of an access; all but Weak are strong (8.3).
enum class Order : uint8_t { Weak, Relaxed, Acquire, Release, AcqRel };

// The threads that a strong access or a fence reaches (8.4).
enum class Scope : uint8_t { Cta, Cluster, Gpu, Sys };

struct Strength {
  Strength(Order o = Order::Weak, Scope s = Scope::Gpu, bool a = false)
      : order(o), scope(s), atomic(a) {}
  Order order;
  Scope scope;
  bool atomic; // reads and writes in one
};

struct Site {
  std::string role; // "this write", "the read before it", ...
  Who who;
};

struct Finding {
  std::string checker; // "races", "barriers", ...
  std::string rule;    // name in RULES.md
  bool advice = false; // true: shipped kernels of others do without it, unharmed
  std::string text;
  std::vector<Site> sites;
  bool of_instruction = false; // whoever executes it: told once a launch
};

class Sink {
public:
  virtual ~Sink() = default;
  virtual void found(const Finding& finding) = 0; // may throw
};

class Observer {
public:
  virtual ~Observer() = default;

  virtual void access(const Who&, const Bytes&, bool /*write*/, const Strength&, Proxy) {}

  virtual void issue(const Who&, OpKind) {}
  virtual void finished(const Who&) {} // the operation is over
  virtual void group_commit(const Who&, Group) {}
  virtual void group_wait(const Who&, Group, uint32_t /*pending*/, bool /*read_only*/) {}
  virtual void wgmma_executed(const Who&) {}               // by one warp of the warpgroup
  virtual void tensor_wait(const Who&, bool /*stores*/) {} // tcgen05.wait::ld, ::st
  virtual void fence(const Who&, Fence, Scope) {}
  // fence.proxy.tensormap::generic.acquire of the map there, and use of a map in global memory.
  virtual void tensormap_acquire(const Who&, uint64_t /*address*/) {}
  virtual void tensormap_use(const Who&, const Bytes&) {}

  virtual void mbarrier_init(const Who&, uint32_t /*cta*/, uint32_t /*offset*/, uint32_t) {}
  virtual void mbarrier_inval(const Who&, uint32_t /*cta*/, uint32_t /*offset*/) {}
  virtual void mbarrier_arrive(const Who&, uint32_t /*cta*/, uint32_t /*offset*/,
                               uint32_t /*count*/, bool /*release*/) {}
  virtual void mbarrier_expect(const Who&, uint32_t /*cta*/, uint32_t /*offset*/, int64_t) {}
  virtual void mbarrier_bytes(const Who&, uint32_t /*cta*/, uint32_t /*offset*/, int64_t) {}
  virtual void mbarrier_phase(uint32_t /*cta*/, uint32_t /*offset*/) {} // the phase has completed
  // The lanes saw that the phase of this number (from 0) has completed.
  virtual void mbarrier_wait(const Who&, uint32_t /*cta*/, uint32_t /*offset*/, uint64_t /*phase*/,
                             bool /*acquire*/) {}

  // An arrival or a wait at an mbarrier, of those above, that names .release.cluster or
  // .acquire.cluster.
  virtual void mbarrier_cluster_order(const Who&) {}

  virtual void named_arrive(const Who&, uint32_t /*id*/) {}
  virtual void named_complete(uint32_t /*cta*/, uint32_t /*id*/) {}
  virtual void named_wait(const Who&, uint32_t /*id*/) {}
  virtual void warp_sync(const Who&) {}     // the lanes have met in bar.warp.sync
  virtual void warp_exchange(const Who&) {} // in shfl, vote, match or redux .sync
  virtual void grid_wait(const Who&) {}     // griddepcontrol.wait
  virtual void grid_signal(const Who&) {}   // griddepcontrol.launch_dependents
  virtual void cluster_arrive(const Who&, bool /*release*/) {}
  virtual void cluster_complete() {}
  virtual void cluster_wait(const Who&, bool /*acquire*/) {}

  virtual void pair_met(const Who&, const Who&) {} // two warps, in tcgen05.alloc or dealloc
  virtual void tensor_alloc(const Who&, uint32_t /*cta*/, uint32_t /*column*/, uint32_t) {}
  virtual void cta_exit(uint32_t /*cta*/) {}
  virtual void end() {} // of the cluster
};

} // namespace vgpu::check
