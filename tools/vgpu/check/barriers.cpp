#include "tools/vgpu/check/barriers.hpp"

#include <bit>
#include <sstream>

namespace vgpu::check {

std::string Barriers::name(uint32_t cta, uint32_t offset) {
  std::ostringstream s;
  s << "mbarrier at shared offset 0x" << std::hex << offset << std::dec << " of CTA rank " << cta;
  return s.str();
}

Barriers::Ledger* Barriers::find(uint32_t cta, uint32_t offset) {
  auto it = ledgers_.find(key(cta, offset));
  return it == ledgers_.end() ? nullptr : &it->second;
}

void Barriers::mbarrier_init(const Who& w, uint32_t cta, uint32_t offset, uint32_t count) {
  Ledger& l = ledgers_[key(cta, offset)];
  l = Ledger{};
  l.init = w;
  l.count = count;
  l.now.last = w;
}

void Barriers::mbarrier_inval(const Who& w, uint32_t cta, uint32_t offset) {
  Ledger* l = find(cta, offset);
  if (!l) return;
  if (l->now.expected != l->now.paid) {
    Finding f{"barriers", "bytes", false, "", {{"mbarrier.inval", w}, {"last use", l->now.last}}};
    f.text = name(cta, offset) + " is invalidated in phase " + std::to_string(l->phase) +
             ", which " + std::to_string(l->now.expected) + " bytes were announced for and " +
             std::to_string(l->now.paid) + " paid to";
    sink_.found(f);
  }
  ledgers_.erase(key(cta, offset));
}

void Barriers::mbarrier_arrive(const Who& w, uint32_t cta, uint32_t offset, uint32_t count, bool) {
  Ledger* l = find(cta, offset);
  if (!l) return;
  l->now.arrivals[w.pc] += count;
  l->now.last = w;
}

void Barriers::mbarrier_expect(const Who& w, uint32_t cta, uint32_t offset, int64_t bytes) {
  Ledger* l = find(cta, offset);
  if (!l) return;
  l->now.expected += bytes;
  l->now.last = w;
}

void Barriers::mbarrier_bytes(const Who& w, uint32_t cta, uint32_t offset, int64_t bytes) {
  Ledger* l = find(cta, offset);
  if (!l) return;
  l->now.paid += bytes;
  l->now.last = w;
}

void Barriers::mbarrier_phase(uint32_t cta, uint32_t offset) {
  Ledger* l = find(cta, offset);
  if (!l) return;
  ++l->phase;
  Who last = l->now.last;
  l->now = {};
  l->now.last = last;
}

// A thread that sees the same phase complete a second time did not wait for what came since: with a
// parity that goes unnoticed. Skipping phases is legal: a role may have no use for one.
void Barriers::mbarrier_wait(const Who& w, uint32_t cta, uint32_t offset, uint64_t phase, bool) {
  Waited& waited = waited_[w.cta * shape_.warps + w.warp];
  waited.lanes |= w.lanes;
  waited.last = w;
  Ledger* l = find(cta, offset);
  if (!l) return;
  auto p = static_cast<int64_t>(phase);
  for (uint32_t left = w.lanes; left; left &= left - 1) {
    uint32_t t =
        (w.cta * shape_.warps + w.warp) * 32 + static_cast<uint32_t>(std::countr_zero(left));
    auto [it, first] = l->seen.try_emplace(t, p);
    int64_t before = it->second;
    it->second = p;
    if (first || p > before) continue;
    Finding f{"barriers", "stale-phase", true, "", {{"this wait", w}}};
    f.text = name(cta, offset) + ": the wait is for phase " + std::to_string(p) +
             "; the last one this thread waited for was " + std::to_string(before);
    f.sites.push_back({"mbarrier.init", l->init});
    sink_.found(f);
  }
}

void Barriers::fence(const Who& w, Fence kind, Scope) {
  if (kind == Fence::TensorAfter) waited_[w.cta * shape_.warps + w.warp].lanes &= ~w.lanes;
}

// Loads and stores that need the fence are a race where it is missing; the order of what one thread
// issues is not.
void Barriers::issue(const Who& w, OpKind kind) {
  if (!of_tensor_core(kind)) return;
  const auto waited = waited_.find(w.cta * shape_.warps + w.warp);
  if (waited == waited_.end() || (waited->second.lanes & w.lanes) == 0) return;
  waited->second.lanes &= ~w.lanes; // the next one stands no nearer to the wait
  Finding f{"barriers", "tcgen05-wait", true, "", {{"this operation", w}}};
  f.sites.push_back({"the wait before it", waited->second.last});
  f.text = "an operation of the tensor core after a wait at an mbarrier, and no "
           "tcgen05.fence::after_thread_sync between them";
  f.of_instruction = true;
  sink_.found(f);
}

// What needs order at cluster scope is shared memory of another CTA that threads write or read;
// tensor memory, copies and execution go without.
void Barriers::mbarrier_cluster_order(const Who& w) {
  uint32_t& before = cluster_orders_[w.pc][w.cta * shape_.warps + w.warp];
  const bool again = before & w.lanes;
  before |= w.lanes;
  if (!again || handed_over_ >> w.cta & 1 || !told_.insert(w.pc).second) return;
  Finding f{"barriers", "cluster-order", true, "", {{"this instruction", w}}};
  f.text = ".release.cluster or .acquire.cluster in a loop, where no thread of the CTA uses shared "
           "memory of another: each is a fence of the whole GPU, and waits for all earlier stores; "
           ".relaxed.cluster (tensor memory, with the fences of tcgen05) or the form without a "
           "scope is enough";
  f.of_instruction = true;
  sink_.found(f);
}

void Barriers::access(const Who& w, const Bytes& b, bool, const Strength&, Proxy) {
  if (w.op || b.space != Space::Shared || b.cta == w.cta) return;
  handed_over_ |= 1u << w.cta | 1u << b.cta;
}

void Barriers::cta_exit(uint32_t cta) {
  for (auto& [k, l] : ledgers_) {
    if (k >> 24 != cta || l.now.expected == l.now.paid) continue;
    Finding f{"barriers", "exit-bytes", true, "", {{"last use", l.now.last}}};
    f.sites.push_back({"mbarrier.init", l.init});
    f.text = name(cta, static_cast<uint32_t>(k & 0xFFFFFF)) + ": the CTA exits in phase " +
             std::to_string(l.phase) + ", which " + std::to_string(l.now.expected) +
             " bytes were announced for and " + std::to_string(l.now.paid) + " paid to";
    sink_.found(f);
  }
}

} // namespace vgpu::check
