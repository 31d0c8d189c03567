// Accesses: every one is judged against the earlier ones of its bytes, then remembered.
#include "tools/vgpu/check/races.hpp"

#include <bit>
#include <sstream>

namespace vgpu::check {

namespace {

const char* op_name(OpKind k) {
  switch (k) {
  case OpKind::LaunchControl:
    return "clusterlaunchcontrol.try_cancel";
  case OpKind::Load:
    return "asynchronous copy";
  case OpKind::Store:
    return "asynchronous store";
  case OpKind::CpAsync:
    return "cp.async";
  case OpKind::Mma:
    return "tcgen05.mma";
  case OpKind::TensorCopy:
    return "tcgen05.cp";
  case OpKind::TensorShift:
    return "tcgen05.shift";
  case OpKind::TensorLoad:
    return "tcgen05.ld";
  case OpKind::TensorStore:
    return "tcgen05.st";
  case OpKind::Wgmma:
    return "wgmma.mma_async";
  default:
    return "operation";
  }
}

std::string bytes_text(const Bytes& b) {
  std::ostringstream s;
  if (b.space == Space::Tensor)
    s << "tensor memory columns " << b.lo << ".." << b.hi - 1 << ", lanes " << b.lane_lo << ".."
      << b.lane_hi - 1 << " of CTA rank " << b.cta;
  else if (b.space == Space::Shared)
    s << "shared memory 0x" << std::hex << b.lo << "..0x" << b.hi - 1 << std::dec << " of CTA rank "
      << b.cta;
  else
    s << "global memory 0x" << std::hex << b.lo << "..0x" << b.hi - 1;
  return s.str();
}

} // namespace

Races::Operation* Races::operation(const Who& w) {
  if (w.op == 0) return nullptr;
  auto it = operations_.find(w.op);
  return it == operations_.end() ? nullptr : &it->second;
}

bool Races::ordered(const Record& r, const View& v) const {
  // Fences of tcgen05 order tensor memory where relaxed arrivals and waits order nothing else.
  if (v.bytes.space == Space::Tensor) {
    if (r.lanes != 0 && r.base == v.base) return true;
    if (ordered_by(v.clock->tensor, r, v)) return true;
  }
  return ordered_by(v.clock->known, r, v);
}

bool Races::ordered_by(const Times& known, const Record& r, const View& v) const {
  if (r.lanes != 0) {
    for (uint32_t left = r.lanes; left; left &= left - 1) {
      uint32_t c = r.base + static_cast<uint32_t>(std::countr_zero(left));
      if (at(known, c) >= r.time) continue;
      if (c == v.own && v.own_time >= r.time) continue;
      return false;
    }
    return true;
  }
  if (v.op && r.op == v.op->who.op && v.who->op == r.op) return true; // its own parts
  if (covers(known, r, !r.writes)) return true;
  if (v.op && pipelined(r.kind, v.op->kind)) return r.base == v.own || at(known, r.base) >= r.time;
  return false;
}

bool Races::morally_strong(const Record& r, const View& v) const {
  if (!r.strong || !v.strong) return false;
  return mutual(r.scope, {limits_.cluster, who_of(r).cta}, v.scope, {limits_.cluster, v.who->cta});
}

// Whether the last exchange of these lanes comes after what the others of them did, or after one of
// them has learned of what another warp did.
bool Races::by_exchange(const Record& r, const View& v) const {
  const uint32_t warp = v.base / 32;
  if (warp >= exchanges_.size()) return false;
  const Exchange& x = exchanges_[warp];
  const uint32_t lanes = v.lanes ? v.lanes : 1u << v.own % 32;
  if (lanes & ~x.lanes) return false;
  if (r.base == v.base && r.lanes) return (r.lanes & ~x.lanes) == 0 && r.time <= x.time;
  return std::any_of(x.clocks.begin(), x.clocks.end(),
                     [&](const ClockRef& c) { return covers(c->known, r, !r.writes); });
}

void Races::judge(const Record& r, const View& v) {
  if (!r.writes && !v.write) return;
  if (morally_strong(r, v)) return;
  if (!ordered(r, v)) {
    // One instruction of a warp that writes the same bytes with several lanes: one of them stays.
    if (r.lanes != 0 && !v.op && r.writes && v.write && r.pc == v.who->pc && r.base == v.base &&
        r.time == v.own_time)
      return;
    // Warps that all store one value to one place leave it there, whoever comes last.
    const bool same = r.writes && v.write && r.pc == v.who->pc && r.operands != 0 &&
                      r.operands == v.who->operands;
    if (same)
      report(r, v, "same-store", true, missing_for(r, v));
    else if (by_exchange(r, v))
      report(r, v, "exchange", true,
             "bar.warp.sync: the lanes have met in a shuffle or a vote, which orders no memory");
    else
      report(r, v, "order", false, missing_for(r, v));
    return;
  }
  if (v.bytes.space == Space::Tensor) {
    // ISA 9.7.16.6.4: between threads, fences on both sides; others rely on commit and wait alone.
    // A thread that writes is the one that frees the columns.
    if (r.lanes == 0 && r.base / 32 != v.base / 32) {
      const Times& t = v.clock->tensor;
      bool through = (r.channel != kNone && at(t, r.channel) >= r.value) ||
                     (v.op && pipelined(r.kind, v.op->kind) && at(t, r.base) >= r.time);
      if (!through)
        report(r, v, "tcgen05-fence", true,
               "tcgen05.fence::before_thread_sync before the releasing arrive or barrier (a commit "
               "implies it), or tcgen05.fence::after_thread_sync after the wait");
    }
    return;
  }
  // Reads before an asynchronous write: the answer of launch control is read and asked for again
  // with such fences in the ISA's example (9.7.13.17), stages of loads without in all shipped code.
  const bool control = v.op && v.op->kind == OpKind::LaunchControl;
  const bool read_first = !r.writes && (limits_.proxy_reads || control);
  if ((r.writes || read_first) && r.proxy == Proxy::Generic && v.proxy == Proxy::Async) {
    const Times& frontier = v.bytes.space == Space::Shared ? v.clock->shared : v.clock->global;
    if (!covers(frontier, r, false))
      report(r, v, r.writes ? "proxy" : "proxy-read",
             r.writes ? v.write || by_earlier_grid(r) : !limits_.proxy_reads,
             std::string("fence.proxy.async after the generic ") + (r.writes ? "write" : "read") +
                 " and before the synchronisation that the asynchronous access follows");
  }
}

// A record leaves its cell because of one that follows it. Whatever of other clusters is in order
// with the follower is in order with it too, if both knew the same of them.
void Races::forget(const Record& r, const Record& by, uint64_t lo, uint64_t hi) {
  if (r.foreign != by.foreign && !by_earlier_grid(r)) past_global_.push_back(use_of(r, lo, hi));
}

// A read that this one follows in its own channel, or in its own thread, needs no memory.
void Races::remember_read(Cell& cell, const Record& record, uint64_t lo, uint64_t hi) {
  size_t keep = 0;
  bool merged = false;
  for (Record& r : cell.others) {
    if (!r.writes && record.lanes != 0 && r.lanes != 0 && r.base == record.base &&
        r.strong == record.strong && r.scope == record.scope) {
      if (r.time == record.time && r.pc == record.pc && r.foreign == record.foreign) {
        r.lanes |= record.lanes;
        merged = true;
      } else if (r.lanes & record.lanes) {
        Record part = r;
        part.lanes &= record.lanes;
        forget(part, record, lo, hi);
        r.lanes &= ~record.lanes;
        if (r.lanes == 0) continue;
      }
    } else if (!r.writes && record.lanes == 0 && r.lanes == 0 && r.channel == record.channel &&
               r.channel != kNone && r.kind == record.kind) {
      forget(r, record, lo, hi);
      continue;
    }
    if (&cell.others[keep] != &r) cell.others[keep] = r;
    ++keep;
  }
  cell.others.resize(keep);
  if (!merged) cell.others.push_back(record);
}

void Races::visit_pieces(Intervals<Cell>& map, View& v, const Record& record) {
  Bytes whole = v.bytes;
  const bool global = whole.space == Space::Global;
  // Strong writes that this write does not follow stay beside it.
  std::vector<std::pair<Bytes, Record>> beside;
  map.visit(whole.lo, whole.hi, [&](Cell& cell, uint64_t lo, uint64_t hi) {
    v.bytes.lo = lo;
    v.bytes.hi = hi;
    if (cell.written) judge(cell.write, v);
    for (const Record& r : cell.others) judge(r, v);
    if (!v.write) return remember_read(cell, record, lo, hi);
    auto replaced = [&](Record r) {
      if (r.lanes != 0 && r.base == record.base) { // a lane follows itself
        Record part = r;
        part.lanes &= record.lanes;
        if (global && part.lanes != 0) forget(part, record, lo, hi);
        r.lanes &= ~record.lanes;
        if (r.lanes == 0) return;
      }
      if (r.strong && v.strong && !ordered(r, v))
        beside.emplace_back(v.bytes, r);
      else if (global)
        forget(r, record, lo, hi);
    };
    if (cell.written) replaced(cell.write);
    for (const Record& r : cell.others) replaced(r);
  });
  v.bytes = whole;
  if (!v.write) return;
  Cell cell;
  cell.write = record;
  cell.written = true;
  map.replace(whole.lo, whole.hi, std::move(cell));
  for (const auto& [bytes, r] : beside)
    map.visit(bytes.lo, bytes.hi, [&r = r](Cell& c, uint64_t, uint64_t) { c.others.push_back(r); });
}

void Races::visit(const Bytes& b, View& v, const Record& record) {
  v.bytes = b;
  switch (b.space) {
  case Space::Global:
    return visit_pieces(global_, v, record);
  case Space::Shared:
    return visit_pieces(shared_[b.cta], v, record);
  case Space::Tensor:
    for (uint32_t part = b.lane_lo / 16; part * 16 < b.lane_hi; ++part) {
      v.bytes.lane_lo = part * 16;
      v.bytes.lane_hi = part * 16 + 16;
      visit_pieces(tensor_[b.cta][part], v, record);
    }
  }
}

void Races::access(const Who& w, const Bytes& b, bool write, const Strength& strength,
                   Proxy proxy) {
  if (b.lo >= b.hi) return;
  Record record;
  record.pc = w.pc;
  record.proxy = proxy;
  record.strong = strength.order != Order::Weak;
  record.scope = strength.scope;
  record.writes = write;
  record.operands = w.operands;
  if (record.strong) synchronise(w, b, write, strength);
  uint32_t base = thread(w, 0);
  if (Operation* op = operation(w)) {
    if (pays_mbarrier(op->kind) && op->channel == kNone) {
      op->held.push_back({b, write, proxy});
      return;
    }
    record.base = op->issuer;
    record.time = op->time;
    record.channel = op->channel;
    record.value = op->value;
    record.early = op->early;
    record.op = w.op;
    record.kind = op->kind;
    Who who = op->who;
    if (b.space == Space::Global) record.foreign = foreign_of(*op->clock);
    View v{op->clock.get(), op->issuer, op->time,      base,         0,    op,
           proxy,           write,      record.strong, record.scope, &who, b};
    if (op->kind == OpKind::CpAsync && w.lanes != 0) {
      uint32_t lane = static_cast<uint32_t>(std::countr_zero(w.lanes));
      record.base = v.own = base + lane;
      record.channel = channel(4, record.base);
      record.value = op->lane_values[lane];
    }
    who.op = w.op;
    return visit(b, v, record);
  }
  record.base = base;
  record.time = times_[w.cta * limits_.warps + w.warp];
  if (b.space == Space::Tensor) {
    // A collective instruction knows what any of its lanes knows.
    Clock all;
    for (uint32_t left = w.lanes; left; left &= left - 1) {
      const ClockRef& c = lanes_[base + static_cast<uint32_t>(std::countr_zero(left))];
      if (c) join(all.known, c->known), join(all.tensor, c->tensor);
    }
    record.lanes = w.lanes;
    View v{&all,  kNone, record.time, base,       w.lanes, nullptr,
           proxy, write, false,       Scope::Gpu, &w,      b};
    return visit(b, v, record);
  }
  // Lanes with one clock are judged together; a lane alone also knows its own past.
  for (uint32_t left = w.lanes; left;) {
    uint32_t first = static_cast<uint32_t>(std::countr_zero(left)), group = 0;
    for (uint32_t m = left; m; m &= m - 1) {
      uint32_t l = static_cast<uint32_t>(std::countr_zero(m));
      if (lanes_[base + l] == lanes_[base + first]) group |= 1u << l;
    }
    bool alone = (group & (group - 1)) == 0;
    record.lanes = group;
    if (b.space == Space::Global) record.foreign = foreign_of(*lanes_[base + first]);
    View v{lanes_[base + first].get(),
           alone ? base + first : kNone,
           record.time,
           base,
           group,
           nullptr,
           proxy,
           write,
           record.strong,
           record.scope,
           &w,
           b};
    visit(b, v, record);
    left &= ~group;
  }
}

const Foreign* Races::foreign_of(const Clock& c) {
  const Foreign* f = c.foreign.get();
  if (f && f != last_foreign_) foreigns_.emplace(f, c.foreign);
  if (f) last_foreign_ = f;
  return f;
}

GlobalUse Races::use_of(const Record& r, uint64_t lo, uint64_t hi) const {
  ForeignRef foreign;
  if (r.foreign) foreign = foreigns_.at(r.foreign);
  return {lo, hi, r.writes, r.strong, r.scope, r.proxy, r, foreign, who_of(r)};
}

std::vector<GlobalUse> Races::global_uses() const {
  std::vector<GlobalUse> uses = past_global_;
  global_.each([&](uint64_t lo, uint64_t hi, const Cell& c) {
    if (c.written && !by_earlier_grid(c.write)) uses.push_back(use_of(c.write, lo, hi));
    for (const Record& r : c.others)
      if (!by_earlier_grid(r)) uses.push_back(use_of(r, lo, hi));
  });
  return uses;
}

void Races::settle_load(const Who& w, Operation& op) {
  auto held = std::move(op.held);
  op.held.clear();
  for (const Operation::Held& h : held) access(w, h.bytes, h.write, Strength(), h.proxy);
}

void Races::tensor_alloc(const Who& w, uint32_t cta, uint32_t column, uint32_t columns) {
  for (auto& part : tensor_[cta]) part.clear(column, column + columns);
  access(w, Bytes{Space::Tensor, cta, column, column + columns, 0, 128}, true, Strength(),
         Proxy::Tensor);
}

// What threads of other CTAs do with a CTA's shared memory comes before its end: all of its threads
// together must know of it.
void Races::cta_exit(uint32_t cta) {
  if (limits_.ctas == 1) return;
  Times known;
  const Clock* last = nullptr;
  const uint32_t threads = limits_.warps * 32;
  for (uint32_t t = cta * threads; t < (cta + 1) * threads; ++t) {
    if (lanes_[t].get() != last) join(known, lanes_[t]->known);
    last = lanes_[t].get();
  }
  const auto judge_one = [&](const Record& r, uint64_t lo, uint64_t hi) {
    if (r.lanes == 0 || who_of(r).cta == cta) return;
    for (uint32_t left = r.lanes; left; left &= left - 1)
      if (at(known, r.base + static_cast<uint32_t>(std::countr_zero(left))) < r.time) {
        Finding f;
        f.checker = "races";
        f.rule = "exit";
        f.text = std::string(r.writes ? "write" : "read") + " of " +
                 bytes_text({Space::Shared, cta, lo, hi, 0, 0}) +
                 " by another CTA is not ordered before that CTA's exit; missing: a cluster "
                 "barrier, or an mbarrier arrive with release.cluster and its wait";
        f.sites.push_back({std::string("the ") + (r.writes ? "write" : "read"), who_of(r)});
        return sink_.found(f);
      }
  };
  shared_[cta].each([&](uint64_t lo, uint64_t hi, const Cell& cell) {
    if (cell.written) judge_one(cell.write, lo, hi);
    for (const Record& r : cell.others) judge_one(r, lo, hi);
  });
}

void Races::tensormap_use(const Who& w, const Bytes& b) {
  const uint32_t t = first_thread(w);
  const Clock& mine = *lanes_[t];
  View v{&mine,        t,     time_of(w), thread(w, 0), w.lanes, nullptr,
         Proxy::Async, false, false,      Scope::Gpu,   &w,      b};
  auto fenced = [&](const Record& r) {
    for (const MapFence& f : map_fences_[b.lo])
      if ((f.thread == t || at(mine.known, f.thread) >= f.time) && covers(f.clock->maps, r, false))
        return true;
    return false;
  };
  global_.visit(b.lo, b.hi, [&](Cell& cell, uint64_t lo, uint64_t hi) {
    v.bytes.lo = lo;
    v.bytes.hi = hi;
    if (!cell.written) return;
    if (!ordered(cell.write, v))
      report(cell.write, v, "order", false, missing_for(cell.write, v));
    else if (!fenced(cell.write))
      report(cell.write, v, "tensormap", false,
             "fence.proxy.tensormap::generic.release after the write of the tensor map (or "
             "tensormap.cp_fenceproxy as the write), then .acquire of the map before its use");
  });
}

Who Races::who_of(const Record& r) const {
  uint32_t warp = r.base / 32;
  Who w{warp / limits_.warps, warp % limits_.warps, r.lanes, r.pc, r.op};
  if (r.lanes == 0) w.lanes = 1u << r.base % 32;
  return w;
}

std::string Races::missing_for(const Record& r, const View& v) const {
  if (r.channel == passed_ && passed_ != kNone)
    return "griddepcontrol.wait by a thread of a grid between the two, which may end before those "
           "ahead of it";
  if (by_earlier_grid(r))
    return "griddepcontrol.wait by this thread, or by one that synchronises with it afterwards";
  if (r.lanes == 0) {
    switch (r.kind) {
    case OpKind::LaunchControl:
    case OpKind::Load:
      return "a wait on the mbarrier that the load completes on, whose answer is looked at, by "
             "this "
             "thread or by one that synchronises with it afterwards";
    case OpKind::Store:
      return "cp.async.bulk.wait_group (with .read for its source) by the thread that issued it";
    case OpKind::CpAsync:
      return "cp.async.wait_group or an mbarrier with cp.async.mbarrier.arrive, then a barrier";
    case OpKind::TensorLoad:
      return "tcgen05.wait::ld by its warp, then a barrier or an mbarrier arrive and wait";
    case OpKind::TensorStore:
      return "tcgen05.wait::st by its warp, then a barrier or an mbarrier arrive and wait";
    case OpKind::Wgmma:
      return "wgmma.wait_group by its warpgroup, then a barrier or an mbarrier arrive and wait";
    default:
      return "tcgen05.commit after it and a wait on the mbarrier of the commit";
    }
  }
  if (r.strong && v.strong) return "a scope of these strong accesses that holds both threads";
  if (v.bytes.space == Space::Global && r.base != v.base)
    return "a barrier, or a release and an acquire of a flag at a scope that holds both";
  if (r.base == v.base) return "bar.warp.sync of the lanes";
  if (r.base / 32 / limits_.warps != v.base / 32 / limits_.warps)
    return "a cluster barrier, or an mbarrier arrive with release.cluster and its wait";
  return "a barrier, or an mbarrier arrive and its wait";
}

void Races::report(const Record& r, const View& v, const char* rule, bool advice,
                   const std::string& missing) {
  if (advice && !advised_.insert({r.pc, v.who->pc}).second) return;
  Finding f;
  f.checker = "races";
  f.rule = rule;
  f.advice = advice;
  std::string by = v.op ? std::string(op_name(v.op->kind)) : "threads";
  const bool other_grid = by_earlier_grid(r);
  std::string earlier = other_grid ? "a grid before it in the stream"
                        : r.lanes  ? "threads"
                                   : op_name(r.kind);
  f.text = std::string(v.write ? "write" : "read") + " of " + bytes_text(v.bytes) + " by " + by +
           " and " + (r.writes ? "write" : "read") + " of the same bytes by " + earlier +
           (std::string(rule) == "order"        ? " are not ordered"
            : std::string(rule) == "same-store" ? " are not ordered, but leave the same"
                                                : " are ordered only in part") +
           "; missing: " + missing;
  f.sites.push_back({std::string("this ") + (v.write ? "write" : "read"), *v.who});
  if (!other_grid)
    f.sites.push_back(
        {std::string("the ") + (r.writes ? "write" : "read") + " before it", who_of(r)});
  sink_.found(f);
}

} // namespace vgpu::check
