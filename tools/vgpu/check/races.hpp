// Data races by happens-before. Rules, with ISA sections: RULES.md.
//
// Every access has an epoch: a thread's own time, or the place of its operation in a channel. Two
// conflicting accesses are in order when the later one's clock covers the earlier one's epoch,
// whatever the schedule did; so a race is found even when the run happened to go well.
#pragma once

#include "tools/vgpu/check/clock.hpp"
#include "tools/vgpu/check/grid_races.hpp"
#include "tools/vgpu/check/grid_uses.hpp"
#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/check/shadow.hpp"

#include <array>
#include <map>
#include <set>
#include <unordered_map>

namespace vgpu::check {

struct RaceLimits {
  uint32_t ctas = 1, warps = 1;      // of the cluster, of a CTA
  uint64_t cluster = 0;              // its index in the grid
  FlagTable* flags = nullptr;        // of the launch; null: the cluster's own
  bool proxy_reads = false;          // see options.hpp
  const GridUses* earlier = nullptr; // of grids that may still run, until griddepcontrol.wait
};

class Races : public Observer {
public:
  Races(const RaceLimits& limits, Sink& sink);

  void access(const Who&, const Bytes&, bool write, const Strength&, Proxy) override;
  void issue(const Who&, OpKind) override;
  void finished(const Who&) override;
  void group_commit(const Who&, Group) override;
  void group_wait(const Who&, Group, uint32_t pending, bool read_only) override;
  void wgmma_executed(const Who&) override;
  void tensor_wait(const Who&, bool stores) override;
  void fence(const Who&, Fence, Scope) override;
  void tensormap_acquire(const Who&, uint64_t address) override;
  void tensormap_use(const Who&, const Bytes&) override;
  void mbarrier_init(const Who&, uint32_t cta, uint32_t offset, uint32_t count) override;
  void mbarrier_inval(const Who&, uint32_t cta, uint32_t offset) override;
  void mbarrier_arrive(const Who&, uint32_t cta, uint32_t offset, uint32_t, bool) override;
  void mbarrier_expect(const Who&, uint32_t cta, uint32_t offset, int64_t) override;
  void mbarrier_bytes(const Who&, uint32_t cta, uint32_t offset, int64_t) override;
  void mbarrier_phase(uint32_t cta, uint32_t offset) override;
  void mbarrier_wait(const Who&, uint32_t cta, uint32_t offset, uint64_t phase, bool) override;
  void named_arrive(const Who&, uint32_t id) override;
  void named_complete(uint32_t cta, uint32_t id) override;
  void named_wait(const Who&, uint32_t id) override;
  void warp_sync(const Who&) override;
  void warp_exchange(const Who&) override;
  void grid_wait(const Who&) override;
  void grid_signal(const Who&) override;
  void cluster_arrive(const Who&, bool release) override;
  void cluster_complete() override;
  void cluster_wait(const Who&, bool acquire) override;
  void pair_met(const Who&, const Who&) override;
  void tensor_alloc(const Who&, uint32_t cta, uint32_t column, uint32_t columns) override;
  void cta_exit(uint32_t cta) override;

  // Every CTA has waited for the grids ahead, and has before it let the grid behind start.
  bool ends_earlier_grids() const;
  bool has_waited() const; // in any CTA of the cluster
  // What the cluster did to global memory, for GridRaces.
  std::vector<GlobalUse> global_uses() const;
  bool left_messages() const { return left_messages_; } // in flags of global memory

private:
  static constexpr uint32_t kNone = kNoChannel;

  // An access of the past.
  struct Record : Epoch {
    uint32_t pc = 0;
    uint64_t op = 0;
    OpKind kind = OpKind::Other;
    Proxy proxy = Proxy::Generic;
    Scope scope = Scope::Gpu;
    bool strong = false;
    bool writes = false;
    uint64_t operands = 0;            // Who::operands
    const Foreign* foreign = nullptr; // global memory: what it knew of other clusters
  };
  struct Cell {
    bool written = false;
    Record write;
    std::vector<Record> others; // reads since, and strong writes that the last did not follow
  };
  struct Operation {
    OpKind kind = OpKind::Other;
    Who who;
    uint32_t issuer = 0, time = 0; // component of the thread, its time
    ClockRef clock;                // of the thread at issue
    uint32_t channel = kNone, value = 0, early = kNone;
    std::vector<uint32_t> lane_values; // cp.async: per lane
    // Accesses of a load: judged when it pays its mbarrier, which tells their epoch.
    struct Held {
      Bytes bytes;
      bool write;
      Proxy proxy;
    };
    std::vector<Held> held;
  };
  struct Sequence { // operations of a thread (or warp) in a group kind
    uint32_t issued = 0;
    std::vector<uint32_t> commits;
  };
  struct Barrier {
    ClockRef current, completed;
    uint64_t phases = 0;
    uint32_t channel = kNone;
    uint32_t init_thread = 0, init_time = 0;
    bool init_fenced = false;
    uint32_t init_fence = 0; // the initialising thread's next fence.mbarrier_init, by number
    Who init;
  };
  struct Exchange { // the last of a warp
    uint32_t lanes = 0, time = 0;
    std::vector<ClockRef> clocks; // of the lanes then
  };
  struct Meeting { // named and cluster barriers
    ClockRef current, completed;
  };
  // The access that is being judged.
  struct View {
    const Clock* clock;
    uint32_t own;      // component of the thread, of the issuer
    uint32_t own_time; // what it knows of itself
    uint32_t base, lanes;
    const Operation* op;
    Proxy proxy;
    bool write, strong;
    Scope scope;
    const Who* who;
    Bytes bytes;
  };

  uint32_t thread(const Who& w, uint32_t lane) const {
    return (w.cta * limits_.warps + w.warp) * 32 + lane;
  }
  uint32_t first_thread(const Who& w) const;
  uint32_t& time_of(const Who& w) { return times_[w.cta * limits_.warps + w.warp]; }
  uint32_t channel(uint32_t type, uint32_t index);
  Operation* operation(const Who& w);
  void settle_load(const Who& w, Operation& op);
  void release(const Who& w, ClockRef& to);
  void release_relaxed(const Who& w, ClockRef& to);
  void acquire_relaxed(const Who& w, const ClockRef& from);
  bool init_known(const Barrier& b, const Times& known, uint32_t self);
  void release_op(const Operation& op, ClockRef& to);
  void acquire(const Who& w, const ClockRef& from);
  void raise_known(const Who& w, uint32_t channel, uint32_t value);
  Sequence& sequence(Group g, uint32_t index);
  Barrier* barrier(uint32_t cta, uint32_t offset);
  void check_barrier_use(const Who& w, Barrier& b, const char* what);

  void visit(const Bytes& b, View& v, const Record& record);
  void visit_pieces(Intervals<Cell>& map, View& v, const Record& record);
  void remember_read(Cell& cell, const Record& record, uint64_t lo, uint64_t hi);
  bool ordered(const Record& r, const View& v) const;
  bool ordered_by(const Times& known, const Record& r, const View& v) const;
  bool morally_strong(const Record& r, const View& v) const;
  bool by_exchange(const Record& r, const View& v) const;
  void judge(const Record& r, const View& v);
  void forget(const Record& r, const Record& by, uint64_t lo, uint64_t hi);
  GlobalUse use_of(const Record& r, uint64_t lo, uint64_t hi) const;
  const Foreign* foreign_of(const Clock& c);
  void synchronise(const Who& w, const Bytes& b, bool write, const Strength& strength);
  void observe(const Who& w, const Flag& flag, const Strength& strength);
  void fence_order(const Who& w, Fence kind, Scope scope);
  ClockRef seen_here(const Message& m);
  [[gnu::cold]] void report(const Record& r, const View& v, const char* rule, bool advice,
                            const std::string& missing);
  void remember_earlier_grids();
  bool by_earlier_grid(const Record& r) const {
    return earlier_ != kNone && (r.channel == earlier_ || r.channel == passed_);
  }
  Who who_of(const Record& r) const;
  std::string missing_for(const Record& r, const View& v) const;

  RaceLimits limits_;
  Sink& sink_;
  std::vector<ClockRef> lanes_;     // by thread
  std::vector<uint32_t> times_;     // by warp
  std::vector<Exchange> exchanges_; // by warp
  std::map<uint64_t, uint32_t> channels_;
  uint32_t next_component_;
  uint32_t earlier_ = kNone; // the component of earlier grids, 1 when they are over
  uint32_t passed_ = kNone;  // of those that nobody of the grid between has waited for: never
  std::vector<bool> waited_; // by CTA
  bool signalled_first_ = false;
  std::unordered_map<uint64_t, Operation> operations_;
  std::map<uint64_t, Sequence> sequences_;
  // By thread: its part of stores that lanes issued together; the first lane's channel has them.
  struct SharedStore {
    uint32_t issued, issuer, value;
  };
  std::map<uint32_t, std::vector<SharedStore>> shared_stores_;
  std::vector<uint32_t> tensor_issued_;            // by thread
  std::vector<std::array<uint32_t, 2>> tensor_ls_; // by warp: loads, stores issued
  std::vector<uint32_t> wgmma_count_;              // by warp: executed
  std::vector<uint32_t> wgmma_started_;            // by first warp of the warpgroup
  std::map<uint64_t, Barrier> barriers_;
  std::map<uint64_t, Meeting> named_;
  Meeting cluster_;
  std::vector<Intervals<Cell>> shared_;                // by CTA
  std::vector<std::array<Intervals<Cell>, 8>> tensor_; // by CTA, 16 lanes each
  Intervals<Cell> global_;
  std::vector<GlobalUse> past_global_; // what cells no longer hold and others may race with
  std::map<const Foreign*, ForeignRef> foreigns_; // those that records name
  const Foreign* last_foreign_ = nullptr;
  FlagTable* flags_; // global memory
  FlagTable own_flags_, shared_flags_;
  bool left_messages_ = false;
  std::map<const Clock*, std::pair<ClockRef, ClockRef>> views_; // of messages from elsewhere
  std::map<uint32_t, std::array<ClockRef, 4>> fence_released_;  // by thread, scope of the fence
  std::map<uint32_t, std::vector<Message>> fence_pending_;      // by thread
  struct MapFence {
    uint32_t thread, time;
    ClockRef clock;
  };
  std::map<uint64_t, std::vector<MapFence>> map_fences_; // acquires, by address of the map
  std::map<uint32_t, uint32_t> init_fences_;             // by thread: fence.mbarrier_init executed
  std::set<std::pair<uint32_t, uint32_t>> advised_;
};

} // namespace vgpu::check
