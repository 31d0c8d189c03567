// A cluster is the unit of co-residency: its CTAs, its operations in flight, and the scheduler that
// advances them all. It is run by one host thread. Every access to memory by anyone goes through
// touch(): it is the one choke point, and the checkers hang there.
#pragma once

#include "tools/vgpu/check/rules.hpp"
#include "tools/vgpu/exec/cta.hpp"
#include "tools/vgpu/exec/policy.hpp"
#include "tools/vgpu/exec/warp.hpp"
#include "tools/vgpu/mem/device_memory.hpp"

#include <array>
#include <atomic>
#include <queue>
#include <set>
#include <string>
#include <utility>

namespace vgpu::check {
class Hub;
class GridRaces;
struct GridUses;
struct ProgramFacts;
} // namespace vgpu::check

namespace vgpu::trace {
class Coverage;
}

namespace vgpu::exec {

struct Profile {
  std::string name;      // "b200"
  std::string full_name; // what cuDeviceGetName says
  int major = 10, minor = 0;
  int sm_count = 148;
  int shared_per_block = 232448, shared_per_sm = 233472;
  int max_cluster = 8; // portable
  int max_cluster_nonportable = 16;
  int l2_bytes = 0;
  uint64_t memory_bytes = 0;
  bool has_tensor_memory = false;
};
// "b200", "b300", "h200"; null when unknown.
const Profile* find_profile(const std::string& name);
const std::vector<Profile>& profiles();

// What a run was told of and went on: once for each place, and how often.
struct Told {
  check::Grade grade = check::Grade::Advice;
  std::string text;
  uint64_t count = 1;
  std::string full() const; // the text, with the number when it is more than one
};
using ToldMap = std::map<std::string, Told>; // by rule and place

// What the executed work amounted to; added up over clusters.
struct Stats {
  uint64_t warp_instructions = 0;
  uint64_t mma = 0, mma_flops = 0, tensor_copies = 0;
  uint64_t tma_loads = 0, tma_load_bytes = 0, tma_stores = 0, tma_store_bytes = 0;
  uint64_t blocked_waits = 0, operations = 0;
  uint64_t global_load_bytes = 0, global_store_bytes = 0;
  // With LaunchSpec::count: of stores to global memory, by threads and by TMA; of threads' accesses
  // to shared memory, see transfers.hpp; trace::StageUse of the last launch's cluster 0.
  uint64_t store_sectors = 0, partial_sectors = 0, bank_turns = 0, least_bank_turns = 0;
  uint64_t stages = 0, stage_ticks = 0, filled_ticks = 0;
  uint64_t schedule_points = 0; // of the policy, the most that a cluster had
  ToldMap told;
  std::set<std::string> advice() const { return texts(check::Grade::Advice); }
  std::set<std::string> errors() const { return texts(check::Grade::Error); }
  std::set<std::string> texts(check::Grade grade) const;
  void add(const Stats& o);
};

struct LaunchSpec {
  const Program* program = nullptr;
  const Profile* profile = nullptr;
  mem::DeviceMemory* memory = nullptr;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamic_shared = 0;
  uint32_t stack_bytes = 1024; // of a thread: alloca, .local variables of recursive functions
  uint64_t heap = 1, heap_bytes = 8 << 20; // of device-side malloc: mem::DeviceMemory
  std::vector<uint8_t> params;             // program->param_bytes
  std::string schedule = "eager";
  unsigned host_threads = 0;      // 0 = all
  uint64_t instruction_limit = 0; // per cluster, 0 = none; ends endless loops as a timeout fault
  uint32_t checks = 0;            // check/options.hpp
  std::string names;              // of the ledger's table, with values: check/ledger.hpp
  check::GridRaces* grid_races = nullptr;           // made by run_grid for the race checker
  std::shared_ptr<const check::ProgramFacts> facts; // likewise, for all checkers
  const check::GridUses* earlier = nullptr; // of grids that may still run: check/grid_uses.hpp
  check::GridUses* uses = nullptr;          // the race checker adds what this grid did
  std::string graph;  // prefix of files for a deadlock's wait-for graph or a checker's finding
  std::string trace;  // prefix of the timeline files of cluster 0 (trace/), "" = none
  bool count = false; // Stats::store_sectors and what follows it are counted
  trace::Coverage* coverage = nullptr; // takes what ran
  bool cluster_launch = false;         // it names clusters, even of one CTA
  bool hopper_sums = false;            // wgmma truncates as an H200 does; else sums are exact
  check::Rules rules = check::Rules::strict();
};

// An access by a warp or an operation.
struct Access {
  Space space = Space::Global;
  Proxy proxy = Proxy::Generic;
  bool write = false;
  bool atomic = false;
  uint32_t cta = 0;     // owner, for Shared and Tensor
  uint64_t address = 0; // Global: device address; Shared: offset in the owner's window
  uint32_t bytes = 0;
  uint32_t alignment = 1;
  const AsyncOp* op = nullptr; // the operation that performs it; its own guards do not count
};

// The clusters of a grid that have not started, taken in order: by host threads to run them, and
// by running clusters that cancel them to do their work (clusterlaunchcontrol).
class LaunchQueue {
public:
  explicit LaunchQueue(uint64_t count) : count_(count) {}
  // Index of a cluster that nobody else gets; false when none is left.
  bool take(uint64_t& index) {
    if (next_ >= count_) return false;
    index = next_.fetch_add(1);
    return index < count_;
  }
  uint64_t count() const { return count_; }

private:
  const uint64_t count_;
  std::atomic<uint64_t> next_{0};
};

class Cluster {
public:
  Cluster(const LaunchSpec& spec, uint64_t index, LaunchQueue* queue = nullptr);
  ~Cluster();

  const LaunchSpec& spec;
  uint64_t index; // linear cluster index in the grid
  LaunchQueue* queue;
  uint32_t saw_refusal = 0; // CTAs that read a response saying that nothing was cancelled
  uint32_t cluster_id[3];
  std::vector<std::unique_ptr<Cta>> ctas; // by rank
  std::unique_ptr<Policy> policy;
  std::unique_ptr<check::Hub> hub; // the checkers; null when none runs
  Stats stats;

  // Runs to completion; throws Fault. It may return false early, not finished: with `slice` != 0
  // when all its warps poll on something that another cluster has to do, with `turns` != 0 after
  // that many turns of its agents.
  bool run(uint64_t slice = 0, uint64_t turns = 0);
  // Nothing but polls since something happened.
  bool polls() const { return idle_polls_ != 0 || idle_spun_ != 0; }

  // ---- memory
  // Host pointer to the bytes after all checks: inside a live allocation or window, aligned, not in
  // the way of an operation in flight. Throws Fault.
  uint8_t* touch(const Access& access, const Origin& origin);
  // The same for the lanes of a warp, each at its own address (a.address is not read), all in one
  // space and CTA: pointers[lane] for every lane of the mask. Looks the covering range up once when
  // nothing in it can object, else goes through touch() lane by lane.
  void touch_lanes(const Access& a, const uint64_t* addresses, uint32_t mask, const Origin& origin,
                   uint8_t** pointers);
  // The same for tensor memory: lanes [lane, lane + lanes) x columns [column, column + columns).
  void touch_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column, uint32_t columns,
                    bool write, const AsyncOp* op, const Origin& origin);
  // For operations that move bytes, so that bytes nobody has written stay known as such (checker
  // `definedness`; otherwise nothing happens). Whether the operation that performs has read such
  // bytes of global memory; their states in a range, empty when all are written; and where these go
  // after the write. `output`: global memory must not get a whole range of unwritten shared bytes.
  bool read_unwritten() const;
  std::vector<uint8_t> states(Space space, uint32_t cta, uint64_t address, uint64_t bytes) const;
  void put_states(Space space, uint32_t cta, uint64_t address, const uint8_t* states,
                  uint64_t bytes, bool output, const Origin& origin);
  // Splits a generic address; Shared: cta and offset are filled.
  Space resolve(uint64_t generic, uint32_t& cta, uint64_t& address) const;
  // A 32-bit shared::cluster address (rank << 24 | offset) to owner and offset; faults on a rank
  // outside the cluster.
  void resolve_shared(uint32_t shared_address, uint32_t& cta, uint32_t& offset,
                      const Origin& origin) const;
  // Address of a shared offset of CTA `rank` as kernels see it (shared::cluster window).
  // Local memory of a thread: variables, then the stack where the program asks for one.
  uint64_t local_bytes() const {
    const Program& p = *spec.program;
    return p.local_bytes +
           (p.stack_slot == kNoSlot ? 0 : (uint64_t(spec.stack_bytes) + 15) / 16 * 16);
  }
  static uint32_t shared_address(uint32_t rank, uint32_t offset) { return rank << 24 | offset; }

  // ---- asynchronous operations
  // Checks the ranges against operations in flight, poisons destinations, guards both ends, and
  // schedules completion.
  void issue(std::unique_ptr<AsyncOp> op);
  // Completes, now, the operations of the warp that its tcgen05.ld or st have begun.
  void finish_tensor(const Warp& warp, bool stores);
  // Ends the guard of the op's ranges that match `write` (both kinds when finished).
  void release_ranges(AsyncOp& op, bool write);
  size_t operations_in_flight() const { return operations_.size(); }

  // ---- mbarriers (all by owner CTA and offset); Origin is who acts, for faults
  Mbarrier& mbarrier(uint32_t cta, uint32_t offset,
                     const Origin& origin); // faults if not initialised
  void mbarrier_init(uint32_t cta, uint32_t offset, uint32_t count, const Origin& origin);
  void mbarrier_inval(uint32_t cta, uint32_t offset, const Origin& origin);
  void mbarrier_expect_tx(uint32_t cta, uint32_t offset, int64_t bytes, const Origin& origin);
  void mbarrier_complete_tx(uint32_t cta, uint32_t offset, int64_t bytes, const Origin& origin);
  void mbarrier_arrive(uint32_t cta, uint32_t offset, uint32_t count, bool drop,
                       const Origin& origin);
  // True when the phase with this parity has completed.
  static bool phase_done(const Mbarrier& b, uint32_t parity) {
    return (b.phase & 1) != (parity & 1);
  }

  // ---- cluster barrier: counts threads of all live warps
  struct ClusterBarrier {
    uint64_t generation = 1; // of the phase that is being collected
    WaitList waiters;
  } barrier;
  // Lanes arrive; faults when one has arrived already and not waited.
  void cluster_barrier_arrive(Warp& warp, const Inst& inst, uint32_t mask);
  // True when the generation that the warp's lanes arrived in is complete.
  bool cluster_barrier_done(const Warp& warp) const {
    return barrier.generation > warp.cluster_generation;
  }
  void check_cluster_barrier(); // completes the barrier when every live lane has arrived

  // Faults when no warp of that CTA has run: on a device its memory may not be there yet.
  void check_started(uint32_t cta, const Origin& origin);

  void wake(WaitList& list); // all of it; the list is emptied
  void wake_warp(Warp& warp);
  void progress() { ++epoch_; } // something happened that a polling warp may see
  // The running warp has done something that other agents can see; see Policy::preempts.
  void visible_step() {
    if (running_ && !preempt_) preempt_ = policy->preempts();
  }
  bool take_preemption() { return std::exchange(preempt_, false); }
  uint64_t epoch() const { return epoch_; }
  uint64_t now() const { return now_; }

  [[noreturn]] void fault(const Origin& origin, FaultCode code, const char* checker,
                          const std::string& what) const;
  // A rule of which the run may be told and go on: returns then. `what` makes the sentence; it is
  // called when the sentence is needed. Faults as the table says otherwise.
  template <class F>
  void violation(const Origin& origin, check::Rule rule, FaultCode code, F&& what) {
    const check::Action action = action_of(rule);
    if (action == check::Action::Off) return;
    const std::string place = std::string(check::entry_of(rule).name) + "@" +
                              std::to_string(origin.inst ? origin.inst->pc : ~0u);
    if (action == check::Action::Stop || first_time(place))
      violated(origin, rule, code, place, what());
  }
  check::Action action_of(check::Rule rule) const;
  // Whether nothing was told of the rule and place; counts it otherwise.
  bool first_time(const std::string& place);
  std::string where(const Origin& origin) const; // "kernel, line 120 (label): text, CTA .. warp .."
  std::string where(const Inst& inst) const;     // without the CTA
  std::string wait_graph() const;                // the deadlock report

private:
  struct WarpKey {
    When when;
    Warp* warp;
    bool operator<(const WarpKey& o) const { return when < o.when; }
  };
  struct OpKey {
    When when;
    AsyncOp* op;
    bool operator<(const OpKey& o) const { return when < o.when; }
  };
  void violated(const Origin& origin, check::Rule rule, FaultCode code, const std::string& place,
                const std::string& what);
  void enqueue(Warp& warp);
  void retire(Warp& warp);
  void release_pollers();
  bool end_waits();
  void settle(Mbarrier& b, uint32_t rank);
  Cta& owner(uint32_t cta, const Origin& origin);
  void start(Cta& cta);
  void check_guards(const Guards& guards, const Range& range, const AsyncOp* op,
                    const Origin& origin);
  void check_overwritten(Cta& cta, const Access& access, const Origin& origin);
  void finish_now(AsyncOp& op);
  void schedule(AsyncOp& op);
  void complete(AsyncOp& op);
  void check_conflicts(const AsyncOp& op);
  void poison(const AsyncOp& op);
  void check_exit(Cta& cta); // operations in flight, tensor memory held
  Guards& guards(const Range& range);

  std::set<WarpKey> ready_warps_;
  std::set<OpKey> ready_ops_;
  std::map<uint64_t, std::unique_ptr<AsyncOp>> operations_;
  Guards global_guards_;
  uint64_t seq_ = 0, now_ = 0, epoch_ = 0, next_op_ = 1;
  uint32_t live_warps_ = 0;
  uint32_t idle_polls_ = 0, idle_limits_ = 0;
  uint32_t idle_spun_ = 0; // instructions of polls of memory that idle_polls_ does not count yet
  std::vector<Warp*> pollers_; // warps that polled in vain since epoch_
  Warp* running_ = nullptr;
  bool preempt_ = false; // the running warp's turn ends with its instruction
};

// Windows of the generic address space.
constexpr uint64_t kSharedWindow = 0x0000'7F10'0000'0000ull; // + rank << 24 | offset
constexpr uint64_t kLocalWindow = 0x0000'7F20'0000'0000ull;  // + offset (the same for every thread)
constexpr uint64_t kParamWindow = 0x0000'7F30'0000'0000ull;  // + offset

// A C++ compiler's mangled name as people write it, without parameters and template arguments.
std::string short_name(const std::string& name);

// Runs a whole grid on host threads, clusters in any order. Throws the first Fault.
Stats run_grid(const LaunchSpec& spec);
// Checks grid, block, cluster and shared memory against the profile and the program; "" when right.
std::string check_launch(const LaunchSpec& spec);

} // namespace vgpu::exec
