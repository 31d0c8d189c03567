#include "tools/vgpu/exec/warp.hpp"

#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>
#include <cwchar>
#include <sstream>

namespace vgpu::exec {

namespace {

uint64_t special_value(Special which, const Warp& w, uint32_t lane) {
  const Cta& cta = w.cta;
  const Cluster& cluster = cta.cluster;
  const LaunchSpec& s = cluster.spec;
  uint32_t thread = w.index * 32 + lane;
  uint32_t x = thread % s.block[0], y = thread / s.block[0] % s.block[1],
           z = thread / (s.block[0] * s.block[1]);
  uint32_t threads = s.block[0] * s.block[1] * s.block[2];
  uint32_t rank_x = cta.rank % s.cluster[0], rank_y = cta.rank / s.cluster[0] % s.cluster[1],
           rank_z = cta.rank / (s.cluster[0] * s.cluster[1]);
  uint32_t cluster_size = s.cluster[0] * s.cluster[1] * s.cluster[2];
  uint64_t total_shared = cta.shared.size() - kSharedBase;
  switch (which) {
  case Special::stack_top:
    return cluster.local_bytes();
  case Special::tid_x:
    return x;
  case Special::tid_y:
    return y;
  case Special::tid_z:
    return z;
  case Special::ntid_x:
    return s.block[0];
  case Special::ntid_y:
    return s.block[1];
  case Special::ntid_z:
    return s.block[2];
  case Special::laneid:
    return lane;
  case Special::warpid:
    return w.index;
  case Special::nwarpid:
    return (threads + 31) / 32;
  case Special::ctaid_x:
    return cta.index[0];
  case Special::ctaid_y:
    return cta.index[1];
  case Special::ctaid_z:
    return cta.index[2];
  case Special::nctaid_x:
    return s.grid[0];
  case Special::nctaid_y:
    return s.grid[1];
  case Special::nctaid_z:
    return s.grid[2];
  case Special::smid:
    return (cluster.index * cluster_size + cta.rank) % static_cast<uint32_t>(s.profile->sm_count);
  case Special::nsmid:
    return static_cast<uint32_t>(s.profile->sm_count);
  case Special::gridid:
    return 1;
  case Special::lanemask_eq:
    return 1u << lane;
  case Special::lanemask_lt:
    return (1u << lane) - 1;
  case Special::lanemask_le:
    return (2u << lane) - 1;
  case Special::lanemask_gt:
    return ~((2u << lane) - 1) & 0xFFFFFFFFu;
  case Special::lanemask_ge:
    return ~((1u << lane) - 1) & 0xFFFFFFFFu;
  case Special::cluster_ctaid_x:
    return rank_x;
  case Special::cluster_ctaid_y:
    return rank_y;
  case Special::cluster_ctaid_z:
    return rank_z;
  case Special::cluster_nctaid_x:
    return s.cluster[0];
  case Special::cluster_nctaid_y:
    return s.cluster[1];
  case Special::cluster_nctaid_z:
    return s.cluster[2];
  case Special::cluster_ctarank:
    return cta.rank;
  case Special::cluster_nctarank:
    return cluster_size;
  case Special::clusterid_x:
    return cluster.cluster_id[0];
  case Special::clusterid_y:
    return cluster.cluster_id[1];
  case Special::clusterid_z:
    return cluster.cluster_id[2];
  case Special::nclusterid_x:
    return s.grid[0] / s.cluster[0];
  case Special::nclusterid_y:
    return s.grid[1] / s.cluster[1];
  case Special::nclusterid_z:
    return s.grid[2] / s.cluster[2];
  case Special::is_explicit_cluster:
    return cluster_size > 1;
  case Special::dynamic_smem_size:
    return s.dynamic_shared;
  case Special::total_smem_size:
    return total_shared;
  case Special::aggr_smem_size:
    return total_shared + kSharedBase;
  default:
    return 0;
  }
}

void store(uint8_t* regs, uint32_t slot, RegClass cls, uint32_t lane, uint64_t value) {
  switch (cls) {
  case RegClass::Pred: {
    uint32_t& p = *reinterpret_cast<uint32_t*>(regs + slot);
    p = (p & ~(1u << lane)) | (value & 1 ? 1u << lane : 0);
    break;
  }
  case RegClass::B32:
    reinterpret_cast<uint32_t*>(regs + slot)[lane] = static_cast<uint32_t>(value);
    break;
  case RegClass::B64:
    reinterpret_cast<uint64_t*>(regs + slot)[lane] = value;
    break;
  case RegClass::B128:
    reinterpret_cast<uint64_t*>(regs + slot)[2 * lane] = value;
    reinterpret_cast<uint64_t*>(regs + slot)[2 * lane + 1] = 0;
    break;
  }
}

// The same in every lane.
void store_all(uint8_t* regs, uint32_t slot, RegClass cls, uint64_t value) {
  if (cls == RegClass::B32)
    std::fill_n(reinterpret_cast<uint32_t*>(regs + slot), 32, static_cast<uint32_t>(value));
  else if (cls == RegClass::B64)
    std::fill_n(reinterpret_cast<uint64_t*>(regs + slot), 32, value);
  else
    for (uint32_t l = 0; l < 32; ++l) store(regs, slot, cls, l, value);
}

} // namespace

Warp::Warp(Cta& cta_, uint32_t index_)
    : cta(cta_), index(index_), program_(cta_.cluster.spec.program) {
  const LaunchSpec& spec = cta.cluster.spec;
  uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  uint32_t lanes_here = std::min(32u, threads - index * 32);
  full_mask = lanes_here == 32 ? 0xFFFFFFFFu : (1u << lanes_here) - 1;
  live_mask = full_mask;
  registers = (program_->entry_registers + 7) / 8 * 8; // as they are given out
  started = 1u << cta.rank;
  regs_.reset(new uint8_t[program_->regfile_bytes + 64]);
  // Registers start with a pattern, not with zero, so that a value never written is seen: a NaN in
  // FP32, FP16 and BF16.
  static_assert(sizeof(wchar_t) == 4);
  std::wmemset(reinterpret_cast<wchar_t*>(regs_.get()), static_cast<wchar_t>(0xFFE5FFE5u),
               program_->regfile_bytes / 4 + 16);
  for (const Constant& c : program_->constants) store_all(regs_.get(), c.slot, c.cls, c.value);
  for (const SpecialSlot& s : program_->specials) {
    RegClass cls = program_->slot_class[s.slot / 8];
    for (uint32_t l = 0; l < lanes_here; ++l)
      store(regs_.get(), s.slot, cls, l,
            special_slot_value(s, l) & (~uint64_t(0) >> (64 - s.bits)));
  }
  auto f = std::make_unique<Fragment>();
  f->id = next_fragment_++;
  f->mask = full_mask;
  fragments_.push_back(std::move(f));
}

uint64_t Warp::special_slot_value(const SpecialSlot& s, uint32_t lane) const {
  if (s.which == Special::shared_address) return Cluster::shared_address(cta.rank, s.offset);
  return special_value(s.which, *this, lane);
}

bool Warp::runnable() const {
  for (const auto& f : fragments_)
    if (f->state == Fragment::State::Ready) return true;
  return false;
}

// Joins fragments that wait at the same pc, and lets an .aligned instruction go once all live lanes
// are there.
void Warp::merge() {
  auto joinable = [](const Fragment& f) {
    return !f.woken &&
           (f.state == Fragment::State::Ready || f.wait.kind == WaitInfo::Kind::Converge);
  };
  for (size_t i = 0; i < fragments_.size(); ++i) {
    Fragment& a = *fragments_[i];
    if (!joinable(a)) continue;
    for (size_t j = i + 1; j < fragments_.size();) {
      Fragment& b = *fragments_[j];
      if (b.pc == a.pc && joinable(b)) {
        a.mask |= b.mask;
        a.yielded &= b.yielded;
        a.state = Fragment::State::Ready;
        a.wait = {};
        fragments_.erase(fragments_.begin() + static_cast<ptrdiff_t>(j));
      } else {
        ++j;
      }
    }
    if (a.mask == live_mask && a.state == Fragment::State::Parked &&
        a.wait.kind == WaitInfo::Kind::Converge) {
      a.state = Fragment::State::Ready;
      a.wait = {};
    }
  }
}

Fragment* Warp::select() {
  if (fragments_.size() > 1) merge();
  Fragment* best = nullptr;
  for (int pass = 0; pass < 2 && !best; ++pass) {
    for (auto& f : fragments_) {
      if (f->state != Fragment::State::Ready || (pass == 0 && f->yielded)) continue;
      if (!best || f->pc < best->pc) best = f.get();
    }
    if (!best)
      for (auto& f : fragments_) f->yielded = false;
  }
  return best;
}

// `lanes` of the fragment stay where they are until the others give way, come back here, or have
// had a whole turn.
void Warp::leave_behind(Fragment& f, uint32_t lanes) {
  auto rest = std::make_unique<Fragment>();
  rest->id = next_fragment_++;
  rest->pc = f.pc;
  rest->mask = lanes;
  rest->yielded = true;
  f.mask &= ~lanes;
  fragments_.push_back(std::move(rest));
}

uint32_t Warp::run(uint32_t budget) {
  uint32_t n = 0;
  const uint32_t turn = budget;
  polling = false;
  const Inst* code = program_->code.data();
  check::Hub* hub = cta.cluster.hub.get();
  while (n < budget) {
    Fragment* f = select();
    if (!f) break;
    current_ = f;
    bool again = true;
    while (again && n < budget) {
      const Inst& inst = code[f->pc];
      uint32_t mask = f->mask;
      if (hub) hub->looked(*this, inst, mask);
      if (inst.guard != kNoSlot) {
        mask = holds(inst.guard, inst.guard_negated, mask);
        if (mask == 0) {
          ++f->pc;
          ++n;
          again = fragments_.size() == 1;
          continue;
        }
      }
      if (inst.aligned) {
        if (f->mask != live_mask) {
          f->state = Fragment::State::Parked;
          f->wait = WaitInfo{WaitInfo::Kind::Converge, cta.rank, f->pc, 0};
          check_convergence();
          break;
        }
        if (mask != f->mask)
          fault(inst, mask, FaultCode::illegal_instruction, "aligned",
                "an .aligned instruction is executed by a part of the warp: its guard holds for "
                "some lanes only");
      }
      if (inst.parts && mask == f->mask) {
        const uint32_t first = cta.cluster.policy->first_lanes(mask);
        if (first != mask) leave_behind(*f, mask & ~first);
        mask = first;
      }
      if (pending_total_ != 0 && !inst.own_pending_check) check_pending(inst, mask);
      if (hub) hub->before(*this, inst, mask, f->woken);
      Step step = inst.run(*this, inst, mask);
      if (hub) hub->after(*this, inst, mask, step);
      ++n;
      switch (step) {
      case Step::Next:
        ++f->pc;
        f->woken = false;
        f->token = 0;
        again = fragments_.size() == 1;
        if (cta.cluster.take_preemption()) budget = n;
        break;
      case Step::Jump:
        f->woken = false;
        f->token = 0;
        again = fragments_.size() == 1;
        break;
      case Step::Block:
        again = false;
        break;
      case Step::Yield:
        ++f->pc;
        f->woken = false;
        f->token = 0;
        f->yielded = true;
        again = false;
        if (polling || fragments_.size() == 1) budget = n; // the turn ends here
        break;
      case Step::Exit:
        again = false;
        break;
      }
    }
  }
  if (n >= turn) // a whole turn: who gave way has done so
    for (auto& f : fragments_) f->yielded = false;
  executed += n;
  streak = runnable() ? streak + n : 0;
  return n;
}

// All live lanes are parked at .aligned instructions that differ: they can never meet.
void Warp::check_convergence() {
  for (const auto& f : fragments_)
    if (f->state == Fragment::State::Ready || f->wait.kind != WaitInfo::Kind::Converge) return;
  merge();
  if (fragments_.size() == 1) return;
  std::ostringstream s;
  s << "an .aligned instruction needs all live lanes of the warp (mask 0x" << std::hex << live_mask
    << "), but they wait at different places:";
  for (const auto& f : fragments_)
    s << "\n    lanes 0x" << std::hex << f->mask << std::dec << " at "
      << cta.cluster.where(origin(program_->code[f->pc], f->mask));
  const Fragment& first = *fragments_.front();
  fault(program_->code[first.pc], first.mask, FaultCode::illegal_instruction, "aligned", s.str());
}

uint64_t Warp::take_stack(const Inst& inst, uint32_t lane, uint64_t bytes, uint64_t alignment,
                          const std::string& what) {
  uint32_t& top = lanes<uint32_t>(program_->stack_slot)[lane];
  const uint64_t bottom = program_->local_bytes, room = top - bottom;
  const uint64_t at = bytes <= room ? (top - bytes) & ~(alignment - 1) : 0;
  if (bytes > room || at < bottom)
    fault(inst, 1u << lane, FaultCode::launch_failed, "stack",
          what + " of " + std::to_string(bytes) + " bytes, alignment " + std::to_string(alignment) +
              ": of the thread's stack of " + std::to_string(cluster().local_bytes() - bottom) +
              " bytes " + std::to_string(room) + " are left (cuCtxSetLimit CU_LIMIT_STACK_SIZE)");
  top = static_cast<uint32_t>(at);
  return at;
}

Step Warp::branch(const Inst&, uint32_t mask, uint32_t taken, uint32_t target) {
  Fragment* f = current_;
  taken &= mask;
  uint32_t rest = f->mask & ~taken;
  if (taken == 0) {
    ++f->pc;
  } else if (rest == 0) {
    f->pc = target;
  } else {
    auto other = std::make_unique<Fragment>();
    other->id = next_fragment_++;
    other->mask = rest;
    other->pc = f->pc + 1;
    f->mask = taken;
    f->pc = target;
    fragments_.push_back(std::move(other));
  }
  return Step::Jump;
}

Step Warp::branch_lanes(uint32_t mask, const uint32_t* pcs) {
  Fragment* f = current_;
  uint32_t rest = f->mask & ~mask, pc = f->pc + 1;
  uint32_t left = mask;
  bool first = true;
  auto place = [&](uint32_t lanes_mask, uint32_t target) {
    if (first) {
      f->mask = lanes_mask;
      f->pc = target;
      first = false;
      return;
    }
    auto other = std::make_unique<Fragment>();
    other->id = next_fragment_++;
    other->mask = lanes_mask;
    other->pc = target;
    fragments_.push_back(std::move(other));
  };
  while (left) {
    uint32_t target = pcs[std::countr_zero(left)], group = 0;
    for (uint32_t l = 0; l < 32; ++l)
      if (left >> l & 1 && pcs[l] == target) group |= 1u << l;
    left &= ~group;
    place(group, target);
  }
  if (rest) place(rest, pc);
  return Step::Jump;
}

Step Warp::exit_lanes(uint32_t mask) {
  Fragment* f = current_;
  live_mask &= ~mask;
  f->mask &= ~mask;
  ++f->pc;
  f->woken = false;
  f->token = 0;
  if (f->mask == 0) {
    auto it = std::find_if(fragments_.begin(), fragments_.end(),
                           [&](const auto& p) { return p.get() == f; });
    fragments_.erase(it);
    current_ = nullptr;
  }
  if (live_mask == 0 && pending_total_ != 0) pending_total_ = 0;
  // Lanes that wait for others to come look again: fewer are awaited now.
  for (auto& other : fragments_)
    if (other->state == Fragment::State::Parked && other->wait.kind == WaitInfo::Kind::Converge) {
      other->state = Fragment::State::Ready;
      other->wait = {};
    }
  cta.cluster.check_cluster_barrier();
  return Step::Exit;
}

Step Warp::park(uint32_t mask, WaitList& list, const WaitInfo& wait) {
  Fragment* f = current_;
  uint32_t rest = f->mask & ~mask;
  if (rest) {
    auto other = std::make_unique<Fragment>();
    other->id = next_fragment_++;
    other->mask = rest;
    other->pc = f->pc + 1;
    f->mask = mask;
    fragments_.push_back(std::move(other));
  }
  f->state = Fragment::State::Parked;
  f->wait = wait;
  list.push_back(Waiter{this, f->id});
  ++cta.cluster.stats.blocked_waits;
  return Step::Block;
}

void Warp::wake(uint32_t fragment_id) {
  for (auto& f : fragments_) {
    if (f->id != fragment_id || f->state != Fragment::State::Parked) continue;
    f->state = Fragment::State::Ready;
    f->woken = true;
    f->wait = {};
    cta.cluster.wake_warp(*this);
    return;
  }
}

void Warp::add_pending(const uint32_t* slots, size_t n, bool write) {
  if (pending_write_.empty()) {
    pending_write_.assign(program_->slot_class.size(), 0);
    pending_read_.assign(program_->slot_class.size(), 0);
  }
  auto& v = write ? pending_write_ : pending_read_;
  for (size_t i = 0; i < n; ++i) ++v[slots[i] / 8];
  pending_total_ += static_cast<uint32_t>(n);
}

void Warp::drop_pending(const uint32_t* slots, size_t n, bool write) {
  auto& v = write ? pending_write_ : pending_read_;
  for (size_t i = 0; i < n; ++i) {
    if (v[slots[i] / 8] == 0) continue;
    --v[slots[i] / 8];
    --pending_total_;
  }
}

void Warp::check_pending(const Inst& inst, uint32_t mask) {
  for (uint32_t k = 0; k < uint32_t(inst.n_dst) + inst.n_src; ++k) {
    uint32_t s = inst.op[k];
    bool write = k < inst.n_dst;
    const char* how = nullptr;
    if (pending_write_[s / 8])
      how = write ? "is overwritten while an operation in flight has yet to write it"
                  : "is read before the wait for the operation that writes it";
    else if (write && pending_read_[s / 8])
      how = "is overwritten while an operation in flight reads it";
    if (!how) continue;
    auto what = [&] {
      auto name = program_->slot_name.find(s);
      return "register " + (name == program_->slot_name.end() ? "?" : name->second) + " " + how +
             " (tcgen05.wait::ld / ::st or wgmma.wait_group is missing)";
    };
    if (unwaited_loads.empty()) fault(inst, mask, FaultCode::launch_failed, "pending", what());
    Cluster& cluster = cta.cluster;
    cluster.violation(origin(inst, mask), check::Rule::wait_ld, FaultCode::launch_failed, what);
    // A device's scoreboard waits for the loads.
    cluster.finish_tensor(*this, false);
    forget_loads();
    if (cluster.hub) cluster.hub->tensor_waited(*this, inst, false);
    return;
  }
}

void Warp::forget_loads() {
  for (const Inst* load : unwaited_loads) drop_pending(load->op, load->n_dst, true);
  unwaited_loads.clear();
}

Origin Warp::origin(const Inst& inst, uint32_t mask) const {
  return Origin{&inst, cta.rank, index, mask ? static_cast<uint32_t>(std::countr_zero(mask)) : 0,
                "warp"};
}

void Warp::fault(const Inst& inst, uint32_t mask, FaultCode code, const char* checker,
                 const std::string& what) const {
  cta.cluster.fault(origin(inst, mask), code, checker, what);
}

} // namespace vgpu::exec
