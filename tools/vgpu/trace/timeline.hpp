// A timeline of one cluster, from the checkers' events: what each warp and each asynchronous unit
// did, and what it waited for.
//
// Its clock is causal, not the emulator's order: every warp has a time of its own that one
// instruction advances by one tick, an operation starts when it is issued and its unit is free and
// takes a nominal number of ticks, and who waits goes on when the last of what it waited for is
// done. So the picture shows order, overlap and waiting, and depends on no schedule; ticks are no
// time of any device.
//   copy to or from global memory   500 ticks, and a tick for each 64 bytes of its warp
//   tcgen05.mma                     a tick for each 256 elements of D
//   wgmma, tcgen05.cp               a tick for each 128 bytes of shared memory read
//   tcgen05.ld, tcgen05.st          16 ticks, and one for each 512 bytes
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/trace/recording.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vgpu::trace {

// What the recorder cannot know by itself.
struct Naming {
  std::vector<std::string> roles;       // by warp
  std::vector<std::string> barriers;    // kinds of barriers in the order of their inits
  std::function<int(uint32_t pc)> line; // in the PTX
};

// How full the ring of stages is: barriers full[s] and empty[s] of the ledger, in the first CTA.
struct StageUse {
  uint32_t stages = 0;
  uint64_t ticks = 0;  // from the first stage filled to the last one released
  uint64_t filled = 0; // summed over the stages: from filled to released
};

class Timeline : public check::Observer {
public:
  Timeline(uint32_t ctas, uint32_t warps, Naming naming, size_t most_spans = 200000);
  ~Timeline() override;

  void step(uint32_t cta, uint32_t warp); // one instruction has run
  const Recording& recording() const { return recording_; }
  StageUse stage_use() const;
  void close(); // ends what is open; rows without spans go

  void access(const check::Who&, const check::Bytes&, bool write, const check::Strength&,
              check::Proxy) override;
  void issue(const check::Who&, check::OpKind) override;
  void finished(const check::Who&) override;
  void group_commit(const check::Who&, check::Group) override;
  void group_wait(const check::Who&, check::Group, uint32_t pending, bool read_only) override;
  void tensor_wait(const check::Who&, bool stores) override;
  void mbarrier_init(const check::Who&, uint32_t cta, uint32_t offset, uint32_t) override;
  void mbarrier_arrive(const check::Who&, uint32_t cta, uint32_t offset, uint32_t, bool) override;
  void mbarrier_expect(const check::Who&, uint32_t cta, uint32_t offset, int64_t) override;
  void mbarrier_bytes(const check::Who&, uint32_t cta, uint32_t offset, int64_t) override;
  void mbarrier_phase(uint32_t cta, uint32_t offset) override;
  void mbarrier_wait(const check::Who&, uint32_t cta, uint32_t offset, uint64_t phase,
                     bool) override;
  void named_arrive(const check::Who&, uint32_t id) override;
  void named_complete(uint32_t cta, uint32_t id) override;
  void named_wait(const check::Who&, uint32_t id) override;
  void cluster_arrive(const check::Who&, bool) override;
  void cluster_complete() override;
  void cluster_wait(const check::Who&, bool) override;

private:
  enum Unit : uint32_t { kLoads, kStores, kTensor, kTensorMemory, kUnits };
  struct Operation {
    check::OpKind kind = check::OpKind::Other;
    check::Who who;
    uint64_t issued = 0, begin = 0;
    uint64_t read = 0, written = 0, elements = 0; // bytes; elements of tensor memory
    int stage = -1;
    uint32_t group = 0; // of its kind, counted by the warp's commits
    bool started = false;
  };
  struct WarpState {
    uint64_t time = 0, busy_from = 0;
    uint32_t pc = 0; // last wait
    int stage = -1;
    uint64_t tensor_loads = 0, tensor_stores = 0;         // when the last of them ends
    std::map<check::Group, uint32_t> commits;             // groups committed so far
    std::map<check::Group, std::vector<uint64_t>> groups; // by group: when its last operation ends
  };
  struct Barrier {
    uint32_t kind = 0;
    int stage = 0;
    uint64_t pending = 0;         // latest contribution to the current phase
    std::vector<uint64_t> phases; // when each ended
  };
  struct Meeting { // named barriers, cluster barrier
    uint64_t pending = 0, done = 0;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  WarpState& warp(const check::Who& who) { return warps_[who.cta * warps_per_cta_ + who.warp]; }
  uint32_t warp_row(const check::Who& who) const {
    return who.cta * (warps_per_cta_ + kUnits) + who.warp;
  }
  uint32_t unit_row(uint32_t cta, Unit unit) const {
    return cta * (warps_per_cta_ + kUnits) + warps_per_cta_ + unit;
  }
  static bool unit_of(check::OpKind kind, Unit* unit);
  uint64_t& free_of(const Operation& op, Unit unit);
  static check::Group group_of(check::OpKind kind);
  std::vector<uint64_t>& groups_of(const check::Who& who, check::Group group);
  uint64_t now(const check::Who& who); // of the warp, or of its operation: when it would end
  uint64_t end_of(Operation& op);
  void wait_until(const check::Who& who, uint64_t time, const std::string& name);
  void add(Span span);
  std::string barrier_name(const Barrier& b, uint32_t owner, uint32_t cta) const;
  void contribute(const check::Who& who, uint32_t cta, uint32_t offset);

  uint32_t ctas_, warps_per_cta_;
  Naming naming_;
  size_t most_spans_;
  Recording recording_;
  std::vector<WarpState> warps_;
  std::map<uint32_t, uint64_t> unit_free_; // see free_of
  std::map<uint64_t, Operation> operations_;
  std::map<std::pair<uint32_t, uint32_t>, Barrier> barriers_;
  std::map<uint32_t, std::map<uint32_t, int>> inits_; // pc -> CTA -> how many it has initialised
  std::map<uint32_t, uint32_t> kinds_;                // pc of an init -> kind
  std::map<std::pair<uint32_t, uint32_t>, Meeting> named_;
  Meeting cluster_;
  bool closed_ = false;
};

} // namespace vgpu::trace
