// Async-groups: the bulk and cp.async operations of a thread, in the groups it commits.
// PTX ISA 9.7.9.25.1.1.
#pragma once

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/warp.hpp"

namespace vgpu::ops {

enum class GroupKind : uint8_t { bulk, cp_async };

// The group that an operation in flight belongs to. Groups keep their index while one of the
// thread's operations is in flight.
struct GroupRef {
  exec::Warp* warp = nullptr;
  GroupKind kind = GroupKind::bulk;
  uint32_t lane = 0;
  uint32_t index = 0;
};

// Adds an operation to the thread's open group.
GroupRef join_group(exec::Warp& w, GroupKind kind, uint32_t lane);
void commit_group(exec::Warp& w, GroupKind kind, uint32_t lane);
// The operation has read its source; it has finished (which includes reading).
void group_read(exec::Cluster& cluster, const GroupRef& g);
void group_finished(exec::Cluster& cluster, const GroupRef& g, bool was_read);
// Whether all committed groups but the `pending` newest ones have finished (or only read).
bool groups_done(exec::Warp& w, GroupKind kind, uint32_t lane, uint32_t pending, bool read_only);

} // namespace vgpu::ops
