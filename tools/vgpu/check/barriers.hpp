// The ledger of every mbarrier: who arrived in a phase, which bytes were announced and which were
// paid, and how far waiters are behind. Rules: RULES.md.
#pragma once

#include "tools/vgpu/check/observer.hpp"

#include <map>
#include <set>

namespace vgpu::check {

struct BarrierShape {
  uint32_t ctas = 1, warps = 1;
};

class Barriers : public Observer {
public:
  Barriers(const BarrierShape& shape, Sink& sink) : shape_(shape), sink_(sink) {}

  void mbarrier_init(const Who&, uint32_t cta, uint32_t offset, uint32_t count) override;
  void mbarrier_inval(const Who&, uint32_t cta, uint32_t offset) override;
  void mbarrier_arrive(const Who&, uint32_t cta, uint32_t offset, uint32_t, bool) override;
  void mbarrier_expect(const Who&, uint32_t cta, uint32_t offset, int64_t bytes) override;
  void mbarrier_bytes(const Who&, uint32_t cta, uint32_t offset, int64_t bytes) override;
  void mbarrier_phase(uint32_t cta, uint32_t offset) override;
  void mbarrier_wait(const Who&, uint32_t cta, uint32_t offset, uint64_t phase, bool) override;
  void mbarrier_cluster_order(const Who&) override;
  void fence(const Who&, Fence, Scope) override;
  void issue(const Who&, OpKind) override;
  void access(const Who&, const Bytes&, bool, const Strength&, Proxy) override;
  void cta_exit(uint32_t cta) override;

private:
  struct Pair {
    int64_t expected = 0, paid = 0;
    std::map<uint32_t, uint32_t> arrivals; // pc -> count
    Who last;
  };
  struct Ledger {
    Who init;
    uint32_t count = 0;
    uint64_t phase = 0;
    Pair now;
    int64_t bytes_each = -1;          // of the phases so far; -1: none yet
    std::map<uint32_t, int64_t> seen; // thread -> last phase it saw complete, -1: none
  };
  // Lanes with no fence of tensor memory since their last wait, and where that was.
  struct Waited {
    uint32_t lanes = 0;
    Who last;
  };
  static uint64_t key(uint32_t cta, uint32_t offset) { return uint64_t(cta) << 24 | offset; }
  Ledger* find(uint32_t cta, uint32_t offset);
  static std::string name(uint32_t cta, uint32_t offset);

  BarrierShape shape_;
  Sink& sink_;
  std::map<uint64_t, Ledger> ledgers_;
  // Of instructions that order at cluster scope, by pc: lanes of each warp that have executed them.
  std::map<uint32_t, std::map<uint32_t, uint32_t>> cluster_orders_;
  std::set<uint32_t> told_;           // of those
  std::map<uint32_t, Waited> waited_; // by warp
  uint32_t handed_over_ = 0;          // CTAs whose threads use shared memory of another, and those
};

} // namespace vgpu::check
