#include "tools/vgpu/ops/async_groups.hpp"

#include "tools/vgpu/ops/async_operand.hpp"

#include <algorithm>

namespace vgpu::ops {

namespace {

std::vector<Warp::BulkGroup>& groups_of(Warp& w, GroupKind kind, uint32_t lane) {
  return kind == GroupKind::bulk ? w.bulk_groups[lane] : w.cp_async_groups[lane];
}

} // namespace

GroupRef join_group(Warp& w, GroupKind kind, uint32_t lane) {
  auto& groups = groups_of(w, kind, lane);
  if (groups.empty() || groups.back().committed) groups.emplace_back();
  ++groups.back().unread;
  ++groups.back().unfinished;
  return {&w, kind, lane, static_cast<uint32_t>(groups.size() - 1)};
}

void commit_group(Warp& w, GroupKind kind, uint32_t lane) {
  auto& groups = groups_of(w, kind, lane);
  // A commit without operations makes an empty group, which counts among the newest.
  if (groups.empty() || groups.back().committed) groups.emplace_back();
  groups.back().committed = true;
  // Finished groups never block again; nothing refers to them by index.
  if (std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.unfinished == 0; }))
    groups.clear();
}

void group_read(exec::Cluster& cluster, const GroupRef& g) {
  --groups_of(*g.warp, g.kind, g.lane)[g.index].unread;
  cluster.wake(g.warp->group_waiters);
}

void group_finished(exec::Cluster& cluster, const GroupRef& g, bool was_read) {
  Warp::BulkGroup& group = groups_of(*g.warp, g.kind, g.lane)[g.index];
  if (!was_read) --group.unread;
  --group.unfinished;
  cluster.wake(g.warp->group_waiters);
}

bool groups_done(Warp& w, GroupKind kind, uint32_t lane, uint32_t pending, bool read_only) {
  const auto& groups = groups_of(w, kind, lane);
  size_t committed = groups.size();
  if (committed != 0 && !groups.back().committed) --committed;
  for (size_t i = 0; i + pending < committed; ++i)
    if ((read_only ? groups[i].unread : groups[i].unfinished) != 0) return false;
  return true;
}

namespace {

template <GroupKind kind>
Step run_commit(Warp& w, const Inst&, uint32_t mask) {
  each_lane(mask, [&](uint32_t l) { commit_group(w, kind, l); });
  return Step::Next;
}

template <GroupKind kind, bool read_only>
Step run_wait(Warp& w, const Inst& inst, uint32_t mask) {
  bool done = true;
  uint32_t pending = static_cast<uint32_t>(inst.imm);
  each_lane(mask, [&](uint32_t l) { done = done && groups_done(w, kind, l, pending, read_only); });
  if (done) return Step::Next;
  auto what = kind == GroupKind::bulk ? WaitInfo::Kind::BulkGroup : WaitInfo::Kind::CpAsyncGroup;
  return w.park(mask, w.group_waiters, WaitInfo{what, w.cta.rank, pending, pending});
}

// cp.async.wait_all = commit_group, then wait_group 0.
Step run_wait_all(Warp& w, const Inst& inst, uint32_t mask) {
  if (!w.resumed()) run_commit<GroupKind::cp_async>(w, inst, mask);
  return run_wait<GroupKind::cp_async, false>(w, inst, mask);
}

void read_count(DecodeContext& ctx, const Statement& s, Inst& inst) {
  if (s.operands[0].kind != ptx::Operand::Kind::Int)
    ctx.refuse(s, "the number of groups must be an integer constant");
  inst.imm = std::min<uint64_t>(s.operands[0].value, 0xFFFFFFFF);
  ctx.set_operands(inst, {}, {});
}

} // namespace

void decode_bulk_commit_group(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.run = run_commit<GroupKind::bulk>;
}

void decode_bulk_wait_group(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  read_count(ctx, s, inst);
  inst.run = m.has("read") ? run_wait<GroupKind::bulk, true> : run_wait<GroupKind::bulk, false>;
}

void decode_cp_async_commit_group(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.run = run_commit<GroupKind::cp_async>;
}

void decode_cp_async_wait_group(DecodeContext& ctx, const Statement& s, const Match&, Inst& inst) {
  read_count(ctx, s, inst);
  inst.run = run_wait<GroupKind::cp_async, false>;
}

void decode_cp_async_wait_all(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.run = run_wait_all;
}

} // namespace vgpu::ops
