// Data races by happens-before. Rules, with ISA sections: RULES.md.
//
// Every access has an epoch: a thread's own time, or the place of its operation in a channel. Two
// conflicting accesses are in order when the later one's clock covers the earlier one's epoch,
// whatever the schedule did; so a race is found even when the run happened to go well.
#pragma once

#include "tools/vgpu/check/clock.hpp"
#include "tools/vgpu/check/grid_races.hpp"
#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/check/shadow.hpp"

#include <array>
#include <map>
#include <set>
#include <unordered_map>

namespace vgpu::check {

struct RaceLimits {
  uint32_t ctas = 1, warps = 1; // of the cluster, of a CTA
};

class Races : public Observer {
public:
  Races(const RaceLimits& limits, Sink& sink);

  void access(const Who&, const Bytes&, bool write, Order, Proxy) override;
  void issue(const Who&, OpKind) override;
  void finished(const Who&) override;
  void group_commit(const Who&, Group) override;
  void group_wait(const Who&, Group, uint32_t pending, bool read_only) override;
  void wgmma_executed(const Who&) override;
  void tensor_wait(const Who&, bool stores) override;
  void fence(const Who&, Fence) override;
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
  void warp_arrive(const Who&) override;
  void warp_wait(const Who&) override;
  void cluster_arrive(const Who&, bool release) override;
  void cluster_complete() override;
  void cluster_wait(const Who&, bool acquire) override;
  void tensor_alloc(const Who&, uint32_t cta, uint32_t column, uint32_t columns) override;

  // What the cluster did to global memory, for GridRaces; nothing once it has used a flag there.
  std::vector<GlobalUse> global_uses() const;

private:
  static constexpr uint32_t kNone = 0xFFFFFFFFu;

  // An access of the past.
  struct Record {
    uint32_t base = 0;  // threads: component of lane 0 of the warp; operation: of the issuer
    uint32_t lanes = 0; // threads; 0: an operation
    uint32_t time = 0;  // threads: own time; operation: the issuer's time at issue
    uint32_t pc = 0;
    uint32_t channel = kNone, value = 0; // operation: where its end is counted
    uint32_t early = kNone;              // channel that counts the end of its reads
    uint64_t op = 0;
    OpKind kind = OpKind::Other;
    Proxy proxy = Proxy::Generic;
    bool strong = false;
  };
  struct Cell {
    Record write;
    bool written = false;
    std::vector<Record> reads;
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
  struct Meeting { // named, warp and cluster barriers
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
  bool init_known(const Barrier& b, const Times& known, uint32_t self);
  void release_op(const Operation& op, ClockRef& to);
  void acquire(const Who& w, const ClockRef& from);
  void raise_known(const Who& w, uint32_t channel, uint32_t value);
  Sequence& sequence(Group g, uint32_t index);
  Barrier* barrier(uint32_t cta, uint32_t offset);
  void check_barrier_use(const Who& w, Barrier& b, const char* what);

  void visit(const Bytes& b, View& v, const Record& record);
  void visit_pieces(Intervals<Cell>& map, View& v, const Record& record);
  bool ordered(const Record& r, const View& v) const;
  bool fenced(const Record& r, const View& v, const Times& frontier) const;
  void judge(const Record& r, bool r_writes, const View& v);
  void synchronise(const Who& w, const Bytes& b, bool write, Order order);
  [[gnu::cold]] void report(const Record& r, bool r_writes, const View& v, const char* rule,
                            bool advice, const std::string& missing);
  Who who_of(const Record& r) const;
  std::string missing_for(const Record& r, const View& v) const;

  RaceLimits limits_;
  Sink& sink_;
  std::vector<ClockRef> lanes_; // by thread
  std::vector<uint32_t> times_; // by warp
  std::map<uint64_t, uint32_t> channels_;
  uint32_t next_component_;
  std::unordered_map<uint64_t, Operation> operations_;
  std::map<uint64_t, Sequence> sequences_;
  std::vector<uint32_t> tensor_issued_;            // by thread
  std::vector<std::array<uint32_t, 2>> tensor_ls_; // by warp: loads, stores issued
  std::vector<uint32_t> wgmma_count_;              // by warp: executed
  std::vector<uint32_t> wgmma_started_;            // by first warp of the warpgroup
  std::map<uint64_t, Barrier> barriers_;
  std::map<uint64_t, Meeting> named_;
  std::vector<Meeting> warp_meetings_;
  Meeting cluster_;
  std::vector<Intervals<Cell>> shared_;                // by CTA
  std::vector<std::array<Intervals<Cell>, 8>> tensor_; // by CTA, 16 lanes each
  Intervals<Cell> global_;
  bool global_flags_ = false;
  std::map<uint64_t, ClockRef> sync_locations_; // strong accesses, by space and address
  std::map<uint32_t, ClockRef> fence_released_, fence_pending_; // by thread
  std::map<uint32_t, uint32_t> init_fences_; // by thread: fence.mbarrier_init executed
  std::set<std::pair<uint32_t, uint32_t>> advised_;
};

} // namespace vgpu::check
