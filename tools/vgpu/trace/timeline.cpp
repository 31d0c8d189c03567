#include "tools/vgpu/trace/timeline.hpp"

#include <algorithm>

namespace vgpu::trace {

using check::Bytes;
using check::Group;
using check::OpKind;
using check::Space;
using check::Who;

namespace {

constexpr uint64_t kLatency = 500, kCopyBytes = 64, kElements = 256, kSharedBytes = 128;
constexpr uint64_t kTensorMemoryLatency = 16, kTensorMemoryBytes = 512;

const char* name_of(OpKind kind) {
  switch (kind) {
  case OpKind::Load:
  case OpKind::LaunchControl:
    return "load";
  case OpKind::Store:
    return "store";
  case OpKind::CpAsync:
    return "cp.async";
  case OpKind::Mma:
    return "mma";
  case OpKind::Wgmma:
    return "wgmma";
  case OpKind::TensorCopy:
    return "copy of scales";
  case OpKind::TensorLoad:
    return "tensor memory load";
  case OpKind::TensorStore:
    return "tensor memory store";
  default:
    return "operation";
  }
}

} // namespace

Timeline::Timeline(uint32_t ctas, uint32_t warps, Naming naming, size_t most_spans)
    : ctas_(ctas), warps_per_cta_(warps), naming_(std::move(naming)), most_spans_(most_spans),
      warps_(size_t(ctas) * warps) {
  for (uint32_t c = 0; c < ctas; ++c) {
    for (uint32_t w = 0; w < warps; ++w) {
      const std::string role = w < naming_.roles.size() ? naming_.roles[w] : "";
      recording_.rows.push_back(
          {"warp " + std::to_string(w) + (role.empty() ? "" : " " + role), c});
    }
    for (const char* unit : {"loads", "stores", "tensor core", "tensor memory"})
      recording_.rows.push_back({unit, c});
  }
}

Timeline::~Timeline() = default;

bool Timeline::unit_of(OpKind kind, Unit* unit) {
  switch (kind) {
  case OpKind::Load:
  case OpKind::LaunchControl:
  case OpKind::CpAsync:
    *unit = kLoads;
    return true;
  case OpKind::Store:
    *unit = kStores;
    return true;
  case OpKind::Mma:
  case OpKind::Wgmma:
  case OpKind::TensorCopy:
  case OpKind::TensorShift:
  case OpKind::Commit: // after what the tensor core has before it
    *unit = kTensor;
    return true;
  case OpKind::TensorLoad:
  case OpKind::TensorStore:
    *unit = kTensorMemory;
    return true;
  default:
    return false;
  }
}

Group Timeline::group_of(OpKind kind) {
  return kind == OpKind::Wgmma     ? Group::Wgmma
         : kind == OpKind::CpAsync ? Group::CpAsync
                                   : Group::Bulk;
}

// When the unit can start the operation. Copies of one warp follow each other, those of several
// warps share the way; a CTA has one tensor core.
uint64_t& Timeline::free_of(const Operation& op, Unit unit) {
  const bool copy = unit == kLoads || unit == kStores;
  const uint32_t user = copy ? op.who.warp : warps_per_cta_;
  return unit_free_[(op.who.cta * (warps_per_cta_ + 1) + user) * kUnits + unit];
}

// When the operation ends, as far as its accesses are known: they come before what it signals.
uint64_t Timeline::end_of(Operation& op) {
  Unit unit = kLoads;
  const bool has_unit = unit_of(op.kind, &unit);
  if (!op.started) {
    op.started = true;
    op.begin = op.issued;
    // Tensor memory is read by every warp for itself.
    if (has_unit && unit != kTensorMemory) op.begin = std::max(op.begin, free_of(op, unit));
  }
  switch (op.kind) {
  case OpKind::Load:
  case OpKind::LaunchControl:
  case OpKind::CpAsync:
  case OpKind::Store:
    return op.begin + kLatency + std::max(op.read, op.written) / kCopyBytes;
  case OpKind::Mma:
    return op.begin + std::max<uint64_t>(op.elements / kElements, 1);
  case OpKind::Wgmma:
  case OpKind::TensorCopy:
  case OpKind::TensorShift:
    return op.begin + std::max<uint64_t>(op.read / kSharedBytes, 1);
  case OpKind::TensorLoad:
  case OpKind::TensorStore:
    return op.begin + kTensorMemoryLatency + op.elements * 4 / kTensorMemoryBytes;
  default:
    return op.begin;
  }
}

uint64_t Timeline::now(const Who& who) {
  auto it = who.op ? operations_.find(who.op) : operations_.end();
  return it == operations_.end() ? warp(who).time : end_of(it->second);
}

void Timeline::add(Span span) {
  if (span.end <= span.begin) return;
  recording_.end = std::max(recording_.end, span.end);
  if (recording_.spans.size() >= most_spans_) {
    recording_.truncated = true;
    return;
  }
  recording_.spans.push_back(std::move(span));
}

void Timeline::step(uint32_t cta, uint32_t w) { ++warps_[cta * warps_per_cta_ + w].time; }

void Timeline::wait_until(const Who& who, uint64_t time, const std::string& name) {
  WarpState& w = warp(who);
  if (time <= w.time) return;
  const uint32_t row = warp_row(who);
  add({row, w.busy_from, w.time, false, w.stage, "work", w.pc});
  add({row, w.time, time, true, -1, name, who.pc});
  w.time = w.busy_from = time;
  w.pc = who.pc;
}

void Timeline::close() {
  if (closed_) return;
  closed_ = true;
  for (uint32_t c = 0; c < ctas_; ++c)
    for (uint32_t w = 0; w < warps_per_cta_; ++w) {
      const WarpState& state = warps_[c * warps_per_cta_ + w];
      Who who;
      who.cta = c, who.warp = w;
      add({warp_row(who), state.busy_from, state.time, false, state.stage, "work", state.pc});
    }
  keep_used_rows(&recording_);
  for (Span& s : recording_.spans)
    if (naming_.line) s.line = naming_.line(s.pc);
}

// ---- operations

void Timeline::issue(const Who& who, OpKind kind) {
  Operation op;
  op.kind = kind;
  op.who = who;
  op.issued = warp(who).time;
  op.stage = warp(who).stage;
  op.group = warp(who).commits[group_of(kind)];
  operations_[who.op] = op;
}

void Timeline::access(const Who& who, const Bytes& b, bool write, const check::Strength&,
                      check::Proxy) {
  if (!who.op) return;
  auto it = operations_.find(who.op);
  if (it == operations_.end()) return;
  Operation& op = it->second;
  const uint64_t size = b.hi - b.lo;
  if (b.space == Space::Tensor) {
    if (write || op.kind == OpKind::TensorLoad) op.elements += size * (b.lane_hi - b.lane_lo);
  } else {
    (write ? op.written : op.read) += size;
  }
}

void Timeline::finished(const Who& who) {
  auto it = operations_.find(who.op);
  if (it == operations_.end()) return;
  Operation& op = it->second;
  const uint64_t end = end_of(op);
  Unit unit;
  if (unit_of(op.kind, &unit)) {
    if (op.kind != OpKind::Commit)
      add({unit_row(op.who.cta, unit), op.begin, end, false, op.stage, name_of(op.kind),
           op.who.pc});
    // Copies overlap: the next one starts when this one's bytes are through.
    const bool copy = unit == kLoads || unit == kStores;
    uint64_t& free = free_of(op, unit);
    free = std::max(free, copy ? end - kLatency : end);
  }
  WarpState& w = warp(op.who);
  if (op.kind == OpKind::TensorLoad) w.tensor_loads = std::max(w.tensor_loads, end);
  if (op.kind == OpKind::TensorStore) w.tensor_stores = std::max(w.tensor_stores, end);
  if (op.kind == OpKind::Store || op.kind == OpKind::Wgmma || op.kind == OpKind::CpAsync) {
    std::vector<uint64_t>& groups = groups_of(op.who, group_of(op.kind));
    if (groups.size() <= op.group) groups.resize(op.group + 1);
    groups[op.group] = std::max(groups[op.group], end);
  }
  operations_.erase(it);
}

// A wgmma belongs to all four warps of its warpgroup.
std::vector<uint64_t>& Timeline::groups_of(const Who& who, Group group) {
  Who owner = who;
  if (group == Group::Wgmma) owner.warp &= ~3u;
  return warp(owner).groups[group];
}

void Timeline::group_commit(const Who& who, Group group) { ++warp(who).commits[group]; }

void Timeline::group_wait(const Who& who, Group group, uint32_t pending, bool) {
  const std::vector<uint64_t>& groups = groups_of(who, group);
  const uint32_t commits = warp(who).commits[group];
  uint64_t end = 0;
  for (uint32_t i = 0; i + pending < commits && i < groups.size(); ++i)
    end = std::max(end, groups[i]);
  static const char* const names[] = {"bulk group", "cp.async group", "wgmma group"};
  wait_until(who, end, names[static_cast<int>(group)]);
}

void Timeline::tensor_wait(const Who& who, bool stores) {
  const WarpState& w = warp(who);
  wait_until(who, stores ? w.tensor_stores : w.tensor_loads,
             stores ? "tensor memory stores" : "tensor memory loads");
}

// ---- barriers

void Timeline::mbarrier_init(const Who& who, uint32_t cta, uint32_t offset, uint32_t) {
  const auto [kind, fresh] = kinds_.emplace(who.pc, static_cast<uint32_t>(kinds_.size()));
  Barrier b;
  b.kind = kind->second;
  b.stage = inits_[who.pc][cta]++;
  barriers_[{cta, offset}] = b;
}

std::string Timeline::barrier_name(const Barrier& b, uint32_t owner, uint32_t cta) const {
  std::string name = b.kind < naming_.barriers.size() ? naming_.barriers[b.kind]
                                                      : "barrier" + std::to_string(b.kind);
  name += "[" + std::to_string(b.stage) + "]";
  return owner == cta ? name : name + " of CTA " + std::to_string(owner);
}

void Timeline::contribute(const Who& who, uint32_t cta, uint32_t offset) {
  auto it = barriers_.find({cta, offset});
  if (it == barriers_.end()) return;
  if (who.op) {
    auto op = operations_.find(who.op);
    if (op != operations_.end() && pays_mbarrier(op->second.kind))
      op->second.stage = it->second.stage;
  }
  it->second.pending = std::max(it->second.pending, now(who));
}

void Timeline::mbarrier_arrive(const Who& who, uint32_t cta, uint32_t offset, uint32_t, bool) {
  contribute(who, cta, offset);
}
void Timeline::mbarrier_expect(const Who& who, uint32_t cta, uint32_t offset, int64_t) {
  contribute(who, cta, offset);
}
void Timeline::mbarrier_bytes(const Who& who, uint32_t cta, uint32_t offset, int64_t) {
  contribute(who, cta, offset);
}

void Timeline::mbarrier_phase(uint32_t cta, uint32_t offset) {
  Barrier& b = barriers_[{cta, offset}];
  b.phases.push_back(b.pending);
  b.pending = 0;
}

void Timeline::mbarrier_wait(const Who& who, uint32_t cta, uint32_t offset, uint64_t phase, bool) {
  const auto it = barriers_.find({cta, offset});
  if (it == barriers_.end()) return;
  const Barrier& b = it->second;
  const uint64_t done = phase < b.phases.size() ? b.phases[phase] : 0;
  wait_until(who, done, barrier_name(b, cta, who.cta));
  WarpState& w = warp(who);
  if (w.stage == b.stage) return;
  add({warp_row(who), w.busy_from, w.time, false, w.stage, "work", w.pc});
  w.busy_from = w.time;
  w.stage = b.stage;
  w.pc = who.pc;
}

StageUse Timeline::stage_use() const {
  struct Phases {
    const std::vector<uint64_t>*full = nullptr, *empty = nullptr;
  };
  std::map<int, Phases> stages;
  for (const auto& [place, barrier] : barriers_) {
    if (place.first != 0 || barrier.kind >= naming_.barriers.size()) continue;
    const std::string& name = naming_.barriers[barrier.kind];
    if (name == "full") stages[barrier.stage].full = &barrier.phases;
    if (name == "empty") stages[barrier.stage].empty = &barrier.phases;
  }
  StageUse use;
  uint64_t first = UINT64_MAX, last = 0;
  for (const auto& [stage, phases] : stages) {
    if (!phases.full || !phases.empty) continue;
    ++use.stages;
    for (size_t p = 0; p < phases.full->size() && p < phases.empty->size(); ++p) {
      const uint64_t filled = (*phases.full)[p], released = (*phases.empty)[p];
      first = std::min(first, filled);
      last = std::max(last, released);
      use.filled += released - std::min(filled, released);
    }
  }
  use.ticks = last - std::min(first, last);
  return use;
}

void Timeline::named_arrive(const Who& who, uint32_t id) {
  Meeting& m = named_[{who.cta, id}];
  m.pending = std::max(m.pending, warp(who).time);
}
void Timeline::named_complete(uint32_t cta, uint32_t id) {
  Meeting& m = named_[{cta, id}];
  m.done = m.pending;
  m.pending = 0;
}
void Timeline::named_wait(const Who& who, uint32_t id) {
  wait_until(who, named_[{who.cta, id}].done, "barrier " + std::to_string(id));
}
void Timeline::cluster_arrive(const Who& who, bool) {
  cluster_.pending = std::max(cluster_.pending, warp(who).time);
}
void Timeline::cluster_complete() {
  cluster_.done = cluster_.pending;
  cluster_.pending = 0;
}
void Timeline::cluster_wait(const Who& who, bool) {
  wait_until(who, cluster_.done, "cluster barrier");
}

} // namespace vgpu::trace
