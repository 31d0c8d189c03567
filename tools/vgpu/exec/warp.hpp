// A warp: 32 lanes that share one instruction stream. Lanes that are at the same pc form a
// fragment; the runnable fragment with the lowest pc runs first, and fragments that meet merge, so
// divergent code reconverges at its first common instruction. A parked fragment does not hold the
// others up.
#pragma once

#include "tools/vgpu/exec/cta.hpp"
#include "tools/vgpu/exec/fault.hpp"

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

namespace vgpu::exec {

// Token of an mbarrier.try_wait that has come to its time limit.
constexpr uint64_t kWaitEnded = 1;

struct Fragment {
  enum class State : uint8_t { Ready, Parked };
  uint32_t id = 0;
  uint32_t pc = 0;
  uint32_t mask = 0;
  State state = State::Ready;
  bool woken = false;   // its instruction runs again after a wake
  bool yielded = false; // gave way; others of the warp go first
  uint64_t token = 0;   // memory of a parked instruction
  WaitInfo wait;
};

class Warp {
public:
  Warp(Cta& cta, uint32_t index);

  Cta& cta;
  uint32_t index;     // in the CTA
  uint32_t full_mask; // lanes that exist
  uint32_t live_mask; // lanes that have not exited
  uint32_t registers; // per thread, for setmaxnreg
  When when;          // scheduler key
  bool queued = false;

  // ---- registers
  template <class T>
  T* lanes(uint32_t slot) {
    return reinterpret_cast<T*>(regs_.get() + slot);
  }
  // Lanes of `mask` of one 32-bit register into another.
  void copy_lanes(uint32_t to, uint32_t from, uint32_t mask) {
    for (uint32_t m = mask; m; m &= m - 1)
      lanes<uint32_t>(to)[std::countr_zero(m)] = lanes<uint32_t>(from)[std::countr_zero(m)];
  }
  uint32_t& pred(uint32_t slot) { return *reinterpret_cast<uint32_t*>(regs_.get() + slot); }
  // Lanes of `mask` where the predicate (or its negation) holds.
  uint32_t holds(uint32_t slot, bool negated, uint32_t mask) {
    uint32_t p = pred(slot);
    return (negated ? ~p : p) & mask;
  }
  void set_pred(uint32_t slot, uint32_t mask, uint32_t value) {
    uint32_t& p = pred(slot);
    p = (p & ~mask) | (value & mask);
  }

  // ---- control, for handlers
  // Sends the lanes of `taken` (part of the running fragment) to `target`; the others go on.
  // Returns what the handler should return.
  Step branch(const Inst& inst, uint32_t mask, uint32_t taken, uint32_t target);
  // As branch, with a pc per lane (brx, ret).
  Step branch_lanes(uint32_t mask, const uint32_t* pcs);
  Step exit_lanes(uint32_t mask);
  // Parks the lanes of the running fragment that are in `mask` (all of it, or a part: it is split)
  // on `list`; the instruction runs again for them when woken. Returns Step::Block.
  Step park(uint32_t mask, WaitList& list, const WaitInfo& wait);
  // True when the running instruction runs again because of a wake (so that an arrive that parks,
  // such as bar.sync, does not arrive twice).
  bool resumed() const { return current_->woken; }
  // Per-fragment memory of a parked instruction (generation waited for, ...), 0 on first execution.
  uint64_t& resume_token() { return current_->token; }

  uint32_t pc() const { return current_->pc; }
  const std::vector<std::unique_ptr<Fragment>>& fragments() const { return fragments_; }
  bool done() const { return live_mask == 0; }
  bool runnable() const;

  // Runs until blocked, done, or about `budget` instructions. Returns instructions executed.
  uint32_t run(uint32_t budget);
  void wake(uint32_t fragment_id);

  // ---- registers that an operation in flight will write (tcgen05.ld, wgmma) or still reads.
  // Any use before the matching wait is a fault ("pending").
  void add_pending(const uint32_t* slots, size_t n, bool write);
  void drop_pending(const uint32_t* slots, size_t n, bool write);
  bool has_pending() const { return pending_total_ != 0; }
  void forget_loads(); // registers of tcgen05.ld are pending no more

  // Operations of this warp (tcgen05.ld/st) that wait::ld / wait::st wait for.
  uint32_t tensor_loads = 0, tensor_stores = 0;
  WaitList tensor_load_waiters, tensor_store_waiters;
  // Async-groups per lane, newest last: operations still to read their source / to finish.
  struct BulkGroup {
    uint32_t unread = 0, unfinished = 0;
    bool committed = false;
  };
  std::vector<BulkGroup> bulk_groups[32];     // cp.async.bulk.commit_group; back() is open
  std::vector<BulkGroup> cp_async_groups[32]; // cp.async.commit_group
  WaitList group_waiters;
  // cp.async of each lane that have not completed; what cp.async.mbarrier.arrive tracks.
  std::vector<std::shared_ptr<bool>> cp_async_in_flight[32];
  // tcgen05.ld issued since the last wait::ld: their destination registers are pending until then.
  std::vector<const Inst*> unwaited_loads;
  // wgmma of the warpgroup, shared by its four warps; made by the first (ops/wgmma.cpp).
  std::shared_ptr<void> warpgroup_unit;
  // setmaxnreg executed so far, in order: target count, bit 31 set for .inc.
  std::vector<uint32_t> register_changes;

  // Cluster barrier: lanes that have arrived and not waited, and the generation they arrived in.
  uint32_t cluster_arrived = 0;
  uint64_t cluster_generation = 0;
  // CTAs of the cluster that it knows to have started, a bit each: from barriers of the cluster,
  // and from mbarriers and barriers of the CTA at which one that knows has arrived.
  uint32_t started;

  // Takes bytes from the lane's stack, whose pointer is the program's stack_slot: their local
  // address. A fault, which names `what`, when there is no room.
  uint64_t take_stack(const Inst& inst, uint32_t lane, uint64_t bytes, uint64_t alignment,
                      const std::string& what);

  // By lane, made by the first use: what re-entered functions have saved (isa/frames.cpp).
  std::vector<std::vector<uint8_t>> call_stack;

  uint64_t executed = 0; // warp-instructions
  bool polling = false;  // its last turn ended in a failed poll (test_wait, nanosleep)
  uint64_t poll_epoch = 0;
  uint64_t clock_reads = 0; // of %clock and %globaltimer: two reads in a row differ
  uint32_t streak = 0;      // instructions since it last blocked
  uint32_t spins = 0;       // turns, one after the other, that ended as polls of memory

  Cluster& cluster() { return cta.cluster; }
  const Program& program() const { return *program_; }
  Origin origin(const Inst& inst, uint32_t mask) const;
  // Throws a Fault whose report names kernel, PTX line, CTA, warp, lanes and nearest label.
  [[noreturn]] void fault(const Inst& inst, uint32_t mask, FaultCode code, const char* checker,
                          const std::string& what) const;

private:
  void check_pending(const Inst& inst, uint32_t mask);
  void check_convergence();
  uint64_t special_slot_value(const SpecialSlot& slot, uint32_t lane) const;
  Fragment* select();
  void leave_behind(Fragment& f, uint32_t lanes);
  void merge();

  const Program* program_;
  std::unique_ptr<uint8_t[]> regs_;
  std::vector<std::unique_ptr<Fragment>> fragments_;
  Fragment* current_ = nullptr;
  uint32_t next_fragment_ = 0;
  std::vector<std::pair<uint32_t, uint64_t>> tokens_;  // fragment id -> resume token
  std::vector<uint16_t> pending_write_, pending_read_; // by slot / 8; empty until first used
  uint32_t pending_total_ = 0;
};

} // namespace vgpu::exec
