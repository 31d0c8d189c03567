// Between the executor and the checkers: turns what the executor does into the checkers' events,
// and their findings into faults and advice. The only file pair here that knows the executor.
#pragma once

#include "tools/vgpu/check/definedness.hpp"
#include "tools/vgpu/check/grid_races.hpp"
#include "tools/vgpu/check/traits.hpp"
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/trace/coverage.hpp"

#include <memory>
#include <set>

namespace vgpu::trace {
class Timeline;
}

namespace vgpu::check {

class Races;

// What the checkers know of a program, which all clusters of a launch share.
struct ProgramFacts {
  std::vector<Traits> traits; // by pc
  std::shared_ptr<const Definedness::Facts> definedness;
};
std::shared_ptr<const ProgramFacts> facts_of(const exec::Program& program);

class Hub : public Sink {
public:
  explicit Hub(exec::Cluster& cluster);
  ~Hub() override;

  // ---- called by the executor
  void before(exec::Warp& w, const exec::Inst& inst, uint32_t mask, bool resumed);
  void after(exec::Warp& w, const exec::Inst& inst, uint32_t mask, exec::Step step);
  void access(const exec::Access& a, const exec::Origin& origin);
  // Of lanes of a warp; all of [lo, hi), what they touch, is one allocation's.
  void access_lanes(const exec::Access& a, const uint64_t* addresses, uint32_t mask, uint64_t lo,
                    uint64_t hi, const exec::Origin& origin);
  void access_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column, uint32_t columns,
                     bool write, const exec::AsyncOp* op, const exec::Origin& origin);
  void issue(const exec::AsyncOp& op);
  void performing(const exec::AsyncOp* op);
  const exec::AsyncOp* performing() const { return op_; }
  void finished(const exec::AsyncOp& op);
  // For operations that move bytes: null when nobody wants to know which of them were ever written.
  Definedness* definedness() const { return definedness_.get(); }
  void mbarrier_init(uint32_t cta, uint32_t offset, uint32_t count, const exec::Origin& o);
  void mbarrier_inval(uint32_t cta, uint32_t offset, const exec::Origin& o);
  void mbarrier_arrive(uint32_t cta, uint32_t offset, uint32_t count, const exec::Origin& o);
  void mbarrier_expect(uint32_t cta, uint32_t offset, int64_t bytes, const exec::Origin& o);
  void mbarrier_bytes(uint32_t cta, uint32_t offset, int64_t bytes, const exec::Origin& o);
  void mbarrier_phase(uint32_t cta, uint32_t offset);
  // Lanes saw the phase complete; `answer` is the predicate that says so. It orders what follows
  // once they have looked at the answer.
  void mbarrier_wait(exec::Warp& w, const exec::Inst& inst, uint32_t lanes, uint32_t cta,
                     uint32_t offset, uint64_t phase, uint32_t answer);
  // Lanes come to an instruction, and its guard has been read.
  void looked(exec::Warp& w, const exec::Inst& inst, uint32_t lanes) {
    if (!answers_.empty()) look(w, inst, lanes);
    if (!cells_.empty()) cover(w, inst, lanes);
  }
  void named_complete(uint32_t cta, uint32_t id);
  void cluster_complete();
  void warp_sync(exec::Warp& w, const exec::Inst& inst, uint32_t lanes);
  void tensor_waited(exec::Warp& w, const exec::Inst& inst, bool stores);
  void pair_met(const exec::Origin& a, const exec::Origin& b);
  void tensor_alloc(uint32_t cta, uint32_t column, uint32_t columns, const exec::Origin& o);
  void cta_exit(uint32_t cta);
  void end();

  void found(const Finding& finding) override;

private:
  const Traits& traits(const exec::Inst& inst) const { return facts_.traits[inst.pc]; }
  Who who(const exec::Origin& o) const;
  Who who(const exec::Warp& w, const exec::Inst& inst, uint32_t mask) const;
  template <class Fn>
  void each(Fn&& fn) {
    for (auto& o : observers_) fn(*o);
  }
  std::string sites_text(const Finding& f) const;
  void found_between_clusters(const GridRaces::Conflict& conflict);

  void look(exec::Warp& w, const exec::Inst& inst, uint32_t lanes);
  void cover(exec::Warp& w, const exec::Inst& inst, uint32_t lanes);
  struct Answer { // of a wait, that has not been looked at
    Who who;
    uint32_t cta, offset, slot;
    uint64_t phase;
    bool acquire;
  };

  exec::Cluster& cluster_;
  const ProgramFacts& facts_;
  std::vector<Answer> answers_;
  std::vector<trace::Coverage::Cell> cells_; // by pc; empty without LaunchSpec::coverage
  std::vector<std::unique_ptr<Observer>> observers_;
  std::unique_ptr<Definedness> definedness_;
  Races* races_ = nullptr;              // one of the observers
  trace::Timeline* timeline_ = nullptr; // one of the observers
  const exec::AsyncOp* op_ = nullptr;
  uint32_t mask_ = 0; // lanes of the instruction that runs
};

} // namespace vgpu::check
