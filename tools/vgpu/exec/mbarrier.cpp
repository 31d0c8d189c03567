// mbarrier objects. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <cstring>
#include <sstream>

namespace vgpu::exec {

namespace {
constexpr uint32_t kMaxCount = (1u << 20) - 1; // arrival count and |tx-count|, ISA

std::string at(uint32_t offset) {
  std::ostringstream s;
  s << "mbarrier at shared offset 0x" << std::hex << offset;
  return s.str();
}

// The bytes of a live mbarrier are opaque; a token there makes dumps readable.
void write_token(Cta& cta, const Mbarrier& b) {
  uint64_t token = b.phase << 40 | uint64_t(b.pending) << 20 | b.expected;
  std::memcpy(cta.shared.data() + b.offset, &token, 8);
}
} // namespace

Mbarrier& Cluster::mbarrier(uint32_t rank, uint32_t offset, const Origin& origin) {
  Cta& cta = owner(rank, origin);
  if (offset % 8)
    fault(origin, FaultCode::misaligned_address, "alignment",
          at(offset) + " is not a multiple of 8");
  if (cta.live_warps == 0)
    fault(origin, FaultCode::illegal_address, "exit",
          at(offset) + " of CTA " + std::to_string(rank) + " is used after that CTA has exited");
  auto it = cta.mbarriers.find(offset);
  if (it == cta.mbarriers.end())
    fault(origin, FaultCode::launch_failed, "barriers",
          at(offset) + " of CTA " + std::to_string(rank) + " is used before mbarrier.init");
  return it->second;
}

void Cluster::mbarrier_init(uint32_t rank, uint32_t offset, uint32_t count, const Origin& origin) {
  Cta& cta = owner(rank, origin);
  if (count == 0 || count > kMaxCount)
    fault(origin, FaultCode::launch_failed, "barriers",
          at(offset) + ": count " + std::to_string(count) + " is outside 1.." +
              std::to_string(kMaxCount));
  auto overlap = cta.mbarriers.lower_bound(offset >= 7 ? offset - 7 : 0);
  WaitList waiters; // of the barrier that was there: they wait on
  if (overlap != cta.mbarriers.end() && overlap->first < offset + 8) {
    violation(origin, check::Rule::mbarrier_again, FaultCode::launch_failed,
              [&] { return at(offset) + " is initialised again without mbarrier.inval"; });
    waiters = std::move(overlap->second.waiters);
    cta.mbarriers.erase(overlap);
  }
  touch(Access{Space::Shared, Proxy::Generic, true, false, rank, offset, 8, 8, nullptr}, origin);
  Mbarrier b;
  b.offset = offset;
  b.expected = b.pending = count;
  b.init = origin.inst;
  b.waiters = std::move(waiters);
  write_token(cta, b);
  cta.mbarriers[offset] = std::move(b);
  if (hub) hub->mbarrier_init(rank, offset, count, origin);
}

void Cluster::mbarrier_inval(uint32_t rank, uint32_t offset, const Origin& origin) {
  Mbarrier& b = mbarrier(rank, offset, origin);
  if (!b.waiters.empty())
    fault(origin, FaultCode::launch_failed, "barriers",
          at(offset) + " is invalidated while warps wait on it");
  if (hub) hub->mbarrier_inval(rank, offset, origin);
  ctas[rank]->mbarriers.erase(offset);
}

void Cluster::settle(Mbarrier& b, uint32_t rank) {
  if (b.pending != 0 || b.tx != 0) return;
  if (hub) hub->mbarrier_phase(rank, b.offset);
  ++b.phase;
  b.pending = b.expected;
  b.tx_expected_total = 0;
  wake(b.waiters);
}

void Cluster::mbarrier_expect_tx(uint32_t rank, uint32_t offset, int64_t bytes,
                                 const Origin& origin) {
  Mbarrier& b = mbarrier(rank, offset, origin);
  b.tx += bytes;
  b.tx_expected_total += bytes;
  if (b.tx > kMaxCount || b.tx < -int64_t(kMaxCount))
    fault(origin, FaultCode::launch_failed, "barriers",
          at(offset) + ": the transaction count " + std::to_string(b.tx) +
              " leaves the legal range of +-" + std::to_string(kMaxCount) + " bytes");
  if (hub) hub->mbarrier_expect(rank, offset, bytes, origin);
  settle(b, rank);
  write_token(*ctas[rank], b);
}

void Cluster::mbarrier_complete_tx(uint32_t rank, uint32_t offset, int64_t bytes,
                                   const Origin& origin) {
  Mbarrier& b = mbarrier(rank, offset, origin);
  b.tx -= bytes;
  if (b.tx < -int64_t(kMaxCount))
    fault(origin, FaultCode::launch_failed, "barriers",
          at(offset) + ": the transaction count " + std::to_string(b.tx) +
              " leaves the legal range of +-" + std::to_string(kMaxCount) + " bytes");
  b.started |= 1u << origin.cta;
  if (hub) hub->mbarrier_bytes(rank, offset, bytes, origin);
  settle(b, rank);
  write_token(*ctas[rank], b);
}

void Cluster::mbarrier_arrive(uint32_t rank, uint32_t offset, uint32_t count, bool drop,
                              const Origin& origin) {
  Mbarrier& b = mbarrier(rank, offset, origin);
  if (count == 0 || count > b.pending)
    fault(origin, FaultCode::launch_failed, "barriers",
          at(offset) + ": " + std::to_string(count) + " arrivals, but the phase awaits " +
              std::to_string(b.pending) + " of " + std::to_string(b.expected));
  b.pending -= count;
  if (drop) {
    if (count > b.expected)
      fault(origin, FaultCode::launch_failed, "barriers",
            at(offset) + ": arrive_drop takes the expected count below zero");
    b.expected -= count;
  }
  b.started |= ctas[origin.cta]->warps[origin.warp]->started;
  if (hub) hub->mbarrier_arrive(rank, offset, count, origin);
  visible_step();
  settle(b, rank);
  write_token(*ctas[rank], b);
}

} // namespace vgpu::exec
