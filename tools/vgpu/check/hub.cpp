#include "tools/vgpu/check/hub.hpp"

#include "tools/vgpu/check/barriers.hpp"
#include "tools/vgpu/check/definedness.hpp"
#include "tools/vgpu/check/finding.hpp"
#include "tools/vgpu/check/ledger.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/check/races.hpp"
#include "tools/vgpu/trace/head.hpp"
#include "tools/vgpu/trace/write.hpp"

#include <algorithm>
#include <cstdio>

namespace vgpu::check {

using exec::Inst;
using exec::Origin;
using exec::Warp;

namespace {

bool is_collective(OpKind k) {
  return k == OpKind::TensorLoad || k == OpKind::TensorStore || k == OpKind::Wgmma ||
         k == OpKind::CpAsync;
}

std::string hex_text(uint64_t v) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(v));
  return text;
}

// True when each of the lanes names a higher address than the one before it; false says nothing.
bool all_differ(const uint64_t* addresses, uint32_t mask) {
  uint64_t above = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint64_t address = addresses[std::countr_zero(m)];
    if (address < above) return false;
    above = address + 1;
  }
  return true;
}

uint32_t same_address(const uint64_t* addresses, uint32_t mask, uint64_t address) {
  uint32_t lanes = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(std::countr_zero(m));
    if (addresses[l] == address) lanes |= 1u << l;
  }
  return lanes;
}

} // namespace

std::shared_ptr<const ProgramFacts> facts_of(const exec::Program& program) {
  auto facts = std::make_shared<ProgramFacts>();
  for (const Inst& inst : program.code) facts->traits.push_back(traits_of(inst));
  facts->definedness = Definedness::facts_of(program);
  return facts;
}

Hub::Hub(exec::Cluster& cluster) : cluster_(cluster), facts_(*cluster.spec.facts) {
  const exec::LaunchSpec& spec = cluster.spec;
  uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  uint32_t ctas = spec.cluster[0] * spec.cluster[1] * spec.cluster[2];
  uint32_t warps = (threads + 31) / 32;
  if (spec.checks & kRaces) {
    RaceLimits limits{ctas, warps, cluster.index};
    limits.proxy_reads = spec.checks & kProxyReads;
    limits.earlier = spec.earlier;
    if (spec.grid_races) limits.flags = &spec.grid_races->flags;
    auto races = std::make_unique<Races>(limits, *this);
    races_ = races.get();
    observers_.push_back(std::move(races));
  }
  if (spec.checks & kBarriers)
    observers_.push_back(std::make_unique<Barriers>(BarrierShape{ctas, warps}, *this));
  if (spec.checks & kLedger) {
    LedgerTable table;
    if (spec.program->module) table = trace::ledger_of(spec.program->module->lines);
    LedgerNames names;
    parse_names(spec.names, names, nullptr);
    const std::string own = spec.program->name + ".";
    for (const auto& [name, value] : LedgerNames(names))
      if (name.starts_with(own)) names[name.substr(own.size())] = value;
    observers_.push_back(std::make_unique<Ledger>(std::move(table), std::move(names), *this));
  }
  if (spec.coverage) cells_.resize(spec.program->code.size());
  if (spec.checks & kDefinedness)
    definedness_ = std::make_unique<Definedness>(cluster, *facts_.definedness, *this);
  if (cluster.index == 0 && (!spec.trace.empty() || spec.count)) {
    auto timeline = trace::make_timeline(cluster);
    timeline_ = timeline.get();
    observers_.push_back(std::move(timeline));
  }
}

// A kernel that fails leaves its timeline up to there, and what ran.
Hub::~Hub() {
  if (!cells_.empty()) cluster_.spec.coverage->add(*cluster_.spec.program, cells_);
  if (!timeline_ || cluster_.spec.trace.empty()) return;
  const std::string wrong = trace::write_timeline(*timeline_, cluster_);
  if (!wrong.empty()) std::fprintf(stderr, "vgpu: %s\n", wrong.c_str());
}

namespace {
// Equal operands of one store have equal numbers, and others hardly. 0: the lanes differ.
uint64_t operands_of(Warp& w, const Inst& inst, uint32_t lanes) {
  uint64_t number = 0;
  for (; lanes; lanes &= lanes - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(lanes));
    uint64_t hash = 0xCBF29CE484222325ull;
    for (uint32_t k = 0; k < uint32_t(inst.n_dst) + inst.n_src; ++k) {
      const uint32_t slot = inst.op[k];
      const exec::RegClass c = w.program().slot_class[slot / 8];
      const size_t bytes = c == exec::RegClass::B128 ? 16 : c == exec::RegClass::B64 ? 8 : 4;
      const uint8_t* value = w.lanes<uint8_t>(slot) + lane * bytes;
      for (size_t b = 0; b < bytes; ++b) hash = (hash ^ value[b]) * 0x100000001B3ull;
    }
    if (number != 0 && number != (hash | 1)) return 0;
    number = hash | 1;
  }
  return number;
}
} // namespace

Who Hub::who(const Origin& o) const {
  Who w{o.cta, o.warp, 1u << o.lane, o.inst ? o.inst->pc : 0, 0};
  if (op_) w.op = op_->id;
  return w;
}

Who Hub::who(const Warp& w, const Inst& inst, uint32_t mask) const {
  return Who{w.cta.rank, w.index, mask, inst.pc, 0};
}

// ---- instructions

void Hub::before(Warp& w, const Inst& inst, uint32_t mask, bool resumed) {
  mask_ = mask;
  if (definedness_) definedness_->before(w, inst, mask);
  const Traits& t = traits(inst);
  if (t.event == Event::None || resumed) return;
  Who me = who(w, inst, mask);
  switch (t.event) {
  case Event::NamedSync:
  case Event::NamedArrive: {
    uint32_t id = w.lanes<uint32_t>(inst.op[t.id_operand])[std::countr_zero(mask)];
    each([&](Observer& o) { o.named_arrive(me, id); });
    break;
  }
  case Event::ClusterArrive:
    each([&](Observer& o) { o.cluster_arrive(me, !t.relaxed); });
    break;
  case Event::WgmmaOp:
    each([&](Observer& o) { o.wgmma_executed(me); });
    break;
  default:
    break;
  }
}

void Hub::after(Warp& w, const Inst& inst, uint32_t mask, exec::Step step) {
  if (definedness_) definedness_->after(w, inst, mask, step);
  if (timeline_ && step != exec::Step::Block) timeline_->step(w.cta.rank, w.index);
  const Traits& t = traits(inst);
  if (t.event == Event::None || step != exec::Step::Next) return;
  Who me = who(w, inst, mask);
  uint32_t pending = static_cast<uint32_t>(inst.imm);
  each([&](Observer& o) {
    switch (t.event) {
    case Event::Fence:
      o.fence(me, t.fence, t.strength.scope);
      break;
    case Event::TensorWaitLoad:
    case Event::TensorWaitStore:
      o.tensor_wait(me, t.event == Event::TensorWaitStore);
      break;
    case Event::BulkCommit:
      o.group_commit(me, Group::Bulk);
      break;
    case Event::CpCommit:
      o.group_commit(me, Group::CpAsync);
      break;
    case Event::WgmmaCommit:
      o.group_commit(me, Group::Wgmma);
      break;
    case Event::BulkWait:
    case Event::BulkWaitRead:
      o.group_wait(me, Group::Bulk, pending, t.event == Event::BulkWaitRead);
      break;
    case Event::CpWait:
      o.group_wait(me, Group::CpAsync, pending, false);
      break;
    case Event::CpWaitAll:
      o.group_commit(me, Group::CpAsync);
      o.group_wait(me, Group::CpAsync, 0, false);
      break;
    case Event::WgmmaWait:
      o.group_wait(me, Group::Wgmma, pending, false);
      break;
    case Event::NamedSync:
      o.named_wait(me, w.lanes<uint32_t>(inst.op[t.id_operand])[std::countr_zero(mask)]);
      break;
    case Event::ClusterWait:
      o.cluster_wait(me, !t.relaxed);
      break;
    case Event::Exchange:
      o.warp_exchange(me);
      break;
    case Event::GridWait:
      o.grid_wait(me);
      break;
    case Event::GridSignal:
      o.grid_signal(me);
      break;
    default:
      break;
    }
  });
}

// ---- accesses

void Hub::access(const exec::Access& a, const Origin& origin) {
  if (a.op && a.op != op_) return; // a look at what the operation will touch, before its issue
  if (!a.op && a.proxy == exec::Proxy::Async) { // of a tensor map
    if (a.space == exec::Space::Global && facts_.traits[origin.inst->pc].uses_map)
      each([&](Observer& o) {
        o.tensormap_use(who(origin), Bytes{Space::Global, 0, a.address, a.address + a.bytes, 0, 0});
      });
    return;
  }
  if (a.space == exec::Space::Local && definedness_) definedness_->access(a, origin, op_);
  if (a.space != exec::Space::Global && a.space != exec::Space::Shared) return;
  Who me = who(origin);
  if (!a.op) me.op = 0;
  Bytes b;
  b.space = a.space == exec::Space::Global ? Space::Global : Space::Shared;
  b.cta = a.space == exec::Space::Shared ? a.cta : 0;
  b.lo = a.address;
  b.hi = a.address + a.bytes;
  Strength strength = facts_.traits[me.pc].strength;
  if (a.op && a.atomic)
    strength = Strength(Order::Relaxed, Scope::Gpu, true);
  else if (a.op && !(a.write && b.space == Space::Global && strength.order == Order::Release))
    strength = Strength();
  Proxy proxy = a.proxy == exec::Proxy::Generic ? Proxy::Generic : Proxy::Async;
  each([&](Observer& o) { o.access(me, b, a.write, strength, proxy); });
  if (definedness_) definedness_->access(a, origin, op_);
}

void Hub::access_lanes(const exec::Access& a, const uint64_t* addresses, uint32_t mask, uint64_t lo,
                       uint64_t hi, const Origin& origin) {
  if (a.space == exec::Space::Global || a.space == exec::Space::Shared) {
    Bytes b;
    b.space = a.space == exec::Space::Global ? Space::Global : Space::Shared;
    b.cta = a.space == exec::Space::Shared ? a.cta : 0;
    Who me = who(origin);
    me.op = 0;
    const Strength& strength = facts_.traits[me.pc].strength;
    const bool differ = all_differ(addresses, mask);
    const bool stores = a.write && races_ && origin.inst->text->opcode[0] == "st";
    Warp* const warp = stores ? cluster_.ctas[origin.cta]->warps[origin.warp].get() : nullptr;
    // Lanes that name the same address act together.
    for (uint32_t left = mask; left;) {
      uint32_t l = static_cast<uint32_t>(std::countr_zero(left));
      me.lanes = differ ? 1u << l : same_address(addresses, left, addresses[l]);
      left &= ~me.lanes;
      b.lo = addresses[l];
      b.hi = b.lo + a.bytes;
      me.operands = warp ? operands_of(*warp, *origin.inst, me.lanes) : 0;
      if (facts_.traits[me.pc].event == Event::MapAcquire) {
        each([&](Observer& o) { o.tensormap_acquire(me, b.lo); });
        continue;
      }
      each([&](Observer& o) { o.access(me, b, a.write, strength, Proxy::Generic); });
    }
  }
  if (definedness_) definedness_->access_lanes(a, addresses, mask, lo, hi, origin);
}

void Hub::access_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column,
                        uint32_t columns, bool write, const exec::AsyncOp* op,
                        const Origin& origin) {
  const bool by_warp = !op;
  if (!by_warp && op != op_) return;
  Who me = who(origin);
  if (by_warp) {
    me.op = 0;
    me.lanes = cluster_.ctas[origin.cta]->warps[origin.warp]->live_mask;
  }
  Bytes b{Space::Tensor, cta, column, column + columns, lane, lane + lanes};
  each([&](Observer& o) { o.access(me, b, write, Strength(), Proxy::Tensor); });
  if (definedness_)
    definedness_->access_tensor(cta, lane, lanes, column, columns, write, by_warp, origin);
}

// ---- operations and barriers

void Hub::issue(const exec::AsyncOp& op) {
  Who me = who(op.origin);
  me.op = op.id;
  OpKind kind = facts_.traits[me.pc].op;
  if (is_collective(kind)) me.lanes = mask_;
  if (op.lanes) me.lanes = op.lanes;
  each([&](Observer& o) { o.issue(me, kind); });
}

void Hub::performing(const exec::AsyncOp* op) {
  op_ = op;
  if (definedness_) definedness_->performing();
}

void Hub::finished(const exec::AsyncOp& op) {
  Who me = who(op.origin);
  me.op = op.id;
  each([&](Observer& o) { o.finished(me); });
}

void Hub::mbarrier_init(uint32_t cta, uint32_t offset, uint32_t count, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_init(me, cta, offset, count); });
}
void Hub::mbarrier_inval(uint32_t cta, uint32_t offset, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_inval(me, cta, offset); });
}
void Hub::mbarrier_arrive(uint32_t cta, uint32_t offset, uint32_t count, const Origin& o) {
  Who me = who(o);
  bool release = !facts_.traits[me.pc].relaxed;
  each([&](Observer& x) { x.mbarrier_arrive(me, cta, offset, count, release); });
  if (!me.op && facts_.traits[me.pc].cluster_order)
    each([&](Observer& x) { x.mbarrier_cluster_order(me); });
}
void Hub::mbarrier_expect(uint32_t cta, uint32_t offset, int64_t bytes, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_expect(me, cta, offset, bytes); });
}
void Hub::mbarrier_bytes(uint32_t cta, uint32_t offset, int64_t bytes, const Origin& o) {
  Who me = who(o);
  each([&](Observer& x) { x.mbarrier_bytes(me, cta, offset, bytes); });
}
void Hub::mbarrier_phase(uint32_t cta, uint32_t offset) {
  each([&](Observer& x) { x.mbarrier_phase(cta, offset); });
}
void Hub::cover(Warp& w, const Inst& inst, uint32_t lanes) {
  const uint32_t held =
      inst.guard == exec::kNoSlot ? lanes : w.holds(inst.guard, inst.guard_negated, lanes);
  cells_[inst.pc].ran += held != 0;
  cells_[inst.pc].skipped += held != lanes;
}

void Hub::look(Warp& w, const Inst& inst, uint32_t lanes) {
  const uint32_t *from = inst.op, *sources = from + inst.n_dst, *end = sources + inst.n_src;
  for (size_t i = 0; i < answers_.size();) {
    Answer& a = answers_[i];
    const bool here = a.who.cta == w.cta.rank && a.who.warp == w.index && a.who.lanes & lanes;
    const bool read = here && (inst.guard == a.slot || std::find(sources, end, a.slot) != end);
    if (!read && !(here && std::find(from, sources, a.slot) != sources)) {
      ++i;
      continue;
    }
    Who me = a.who;
    me.lanes &= lanes;
    a.who.lanes &= ~lanes;
    const Answer seen = a;
    if (a.who.lanes == 0) {
      answers_.erase(answers_.begin() + ptrdiff_t(i));
    } else {
      ++i;
    }
    if (read) races_->mbarrier_wait(me, seen.cta, seen.offset, seen.phase, seen.acquire);
  }
}

void Hub::mbarrier_wait(Warp& w, const Inst& inst, uint32_t lanes, uint32_t cta, uint32_t offset,
                        uint64_t phase, uint32_t answer) {
  Who me = who(w, inst, lanes);
  bool acquire = !traits(inst).relaxed;
  each([&](Observer& x) {
    if (&x != races_) x.mbarrier_wait(me, cta, offset, phase, acquire);
  });
  if (races_) answers_.push_back({me, cta, offset, answer, phase, acquire});
  if (traits(inst).cluster_order) each([&](Observer& x) { x.mbarrier_cluster_order(me); });
}
void Hub::warp_sync(Warp& w, const Inst& inst, uint32_t lanes) {
  Who me = who(w, inst, lanes);
  each([&](Observer& x) { x.warp_sync(me); });
}
void Hub::named_complete(uint32_t cta, uint32_t id) {
  each([&](Observer& x) { x.named_complete(cta, id); });
}
void Hub::cluster_complete() {
  each([&](Observer& x) { x.cluster_complete(); });
}
void Hub::tensor_alloc(uint32_t cta, uint32_t column, uint32_t columns, const Origin& o) {
  Who me = who(o);
  me.op = 0;
  me.lanes = cluster_.ctas[o.cta]->warps[o.warp]->live_mask;
  each([&](Observer& x) { x.tensor_alloc(me, cta, column, columns); });
  if (definedness_) definedness_->tensor_alloc(cta, column, columns);
}
void Hub::tensor_waited(Warp& w, const Inst& inst, bool stores) {
  Who me = who(w, inst, w.live_mask);
  each([&](Observer& x) { x.tensor_wait(me, stores); });
}
// The warps of a pair of CTAs have met in tcgen05.alloc or dealloc.
void Hub::pair_met(const Origin& a, const Origin& b) {
  auto whole = [&](const Origin& o) {
    Who w = who(o);
    w.op = 0;
    w.lanes = cluster_.ctas[o.cta]->warps[o.warp]->live_mask;
    return w;
  };
  const Who first = whole(a), second = whole(b);
  each([&](Observer& x) { x.pair_met(first, second); });
}
void Hub::cta_exit(uint32_t cta) {
  each([&](Observer& x) { x.cta_exit(cta); });
}
void Hub::end() {
  each([&](Observer& x) { x.end(); });
  if (timeline_) {
    const trace::StageUse use = timeline_->stage_use();
    cluster_.stats.stages = use.stages;
    cluster_.stats.stage_ticks = use.ticks;
    cluster_.stats.filled_ticks = use.filled;
  }
  if (!races_ || !cluster_.spec.grid_races) return;
  if (races_->ends_earlier_grids()) cluster_.spec.grid_races->ends_earlier_grids();
  if (races_->has_waited()) cluster_.spec.grid_races->waited();
  auto conflict =
      cluster_.spec.grid_races->add(cluster_.index, races_->global_uses(), races_->left_messages());
  if (conflict) found_between_clusters(*conflict);
}

void Hub::found_between_clusters(const GridRaces::Conflict& c) {
  auto what = [](const GlobalUse& u) { return std::string(u.write ? "write" : "read"); };
  const exec::Inst& line = cluster_.spec.program->code[c.other.who.pc];
  std::string missing = "a release and an acquire of a flag, both at .gpu scope, between them";
  if (c.mine.strong && c.other.strong)
    missing = "a scope of these strong accesses that holds both clusters (.gpu or .sys)";
  if (c.proxy)
    missing = "fence.proxy.async after the generic write or before the asynchronous read";
  Finding f{"races", "grid", false, "", {}};
  f.text = what(c.mine) + " of global memory 0x" + hex_text(c.lo) + "..0x" + hex_text(c.hi - 1) +
           ", and " + what(c.other) + " of the same bytes by cluster " +
           std::to_string(c.other_cluster) + ", CTA rank " + std::to_string(c.other.who.cta) +
           ", warp " + std::to_string(c.other.who.warp) + " (line " +
           std::to_string(line.text ? line.text->line : 0) + "), " +
           (c.proxy ? "are in order only in part" : "are not ordered") + "; missing: " + missing;
  f.sites.push_back({"this " + what(c.mine), c.mine.who});
  found(f);
}

// ---- findings

std::string Hub::sites_text(const Finding& f) const {
  std::string s;
  for (size_t i = 0; i < f.sites.size(); ++i) {
    const Who& w = f.sites[i].who;
    Origin o{&cluster_.spec.program->code[w.pc], w.cta, w.warp,
             w.lanes ? static_cast<uint32_t>(std::countr_zero(w.lanes)) : 0, "warp"};
    s += "\n    " + f.sites[i].role + ": " +
         (f.of_instruction ? cluster_.where(*o.inst) : cluster_.where(o));
    if (w.op) s += " (issued it)";
  }
  return s;
}

void Hub::found(const Finding& f) {
  const RuleEntry* rule = find_rule(f.checker + "." + f.rule);
  if (!rule) throw std::logic_error("rules.def lacks " + f.checker + "." + f.rule);
  // A rule that is an error may be advice in a case that shipped kernels go without.
  Action action = cluster_.action_of(rule->rule);
  if (f.advice && rule->grade != Grade::Advice && action == Action::Stop &&
      !(cluster_.spec.checks & kAdvice))
    action = Action::Tell;
  if (action == Action::Off) return;
  const Grade grade = f.advice ? Grade::Advice : rule->grade;
  if (action == Action::Tell) {
    std::string place = std::string(rule->name) + (f.advice ? "~" : "@");
    for (const Site& site : f.sites) place += std::to_string(site.who.pc) + " ";
    if (cluster_.first_time(place))
      cluster_.stats.told[place] =
          exec::Told{grade, "vgpu: " + f.checker + " (" + grade_name(grade) + "): " + f.rule +
                                ": " + f.text + sites_text(f)};
    return;
  }
  std::string text = f.rule + ": " + f.text + sites_text(f);
  if (const std::string& prefix = cluster_.spec.graph; !prefix.empty()) {
    const std::string wrong = write_finding(cluster_, f, prefix);
    text += "\n    " + (wrong.empty() ? "picture: " + prefix + ".svg" : wrong);
  }
  const Who& w = f.sites.front().who;
  Origin o{&cluster_.spec.program->code[w.pc], w.cta, w.warp,
           w.lanes ? static_cast<uint32_t>(std::countr_zero(w.lanes)) : 0, "warp"};
  cluster_.fault(o, exec::FaultCode::launch_failed, f.checker.c_str(), text);
}

} // namespace vgpu::check
