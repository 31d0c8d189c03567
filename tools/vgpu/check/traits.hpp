// What the checkers see in an instruction, from its opcode.
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/exec/inst.hpp"

namespace vgpu::check {

enum class Event : uint8_t {
  None,
  Fence,
  MapAcquire, // fence.proxy.tensormap::generic.acquire: the address is its access's
  TensorWaitLoad,
  TensorWaitStore,
  BulkCommit,
  BulkWait,
  BulkWaitRead,
  CpCommit,
  CpWait,
  CpWaitAll,
  WgmmaOp,
  WgmmaCommit,
  WgmmaWait,
  NamedSync,
  NamedArrive,
  ClusterArrive,
  ClusterWait,
  Exchange, // shfl, vote, match, redux with .sync
  GridWait,
  GridSignal // launch_dependents
};
struct Traits {
  Event event = Event::None;
  Fence fence = Fence::AcqRel;
  OpKind op = OpKind::Other;
  Strength strength;          // of an access; a fence has its scope
  bool shared_only = false;   // names shared memory
  bool relaxed = false;       // an arrive that does not release, a wait that does not acquire
  bool uses_map = false;      // a tensor copy
  bool cluster_order = false; // an mbarrier's arrive .release.cluster, wait .acquire.cluster
  uint8_t id_operand = 0;
};

Traits traits_of(const exec::Inst& inst);

// Whether clusters of a launch may talk to each other: strong accesses of memory that may be
// global.
bool talks_between_clusters(const exec::Program& program);

} // namespace vgpu::check
