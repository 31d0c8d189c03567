// clusterlaunchcontrol: a running cluster takes over the work of one that has not started.
// PTX ISA 9.7.13.17, 9.7.13.18.
//
// The response is opaque in the ISA; here: words 0..2 the ctaid of the cancelled cluster's first
// CTA, word 3 one when a cluster was cancelled. Chosen: the next cluster in launch order is the one
// that is cancelled, at the moment the first CTA's response is written; a request fails when none
// is left, and under a random schedule at times before that, because a kernel must bear it.
#include "tools/vgpu/ops/async_operand.hpp"

#include <array>
#include <cstring>
#include <optional>

namespace vgpu::ops {

namespace {

constexpr uint32_t kBytes = 16;

struct CancelData {
  MemOperand response, barrier;
  bool multicast = false;
};

// One request; the operations that carry its response to the CTAs share it.
struct Request {
  std::optional<std::array<uint32_t, 4>> response;

  const std::array<uint32_t, 4>& answer(Cluster& cluster) {
    if (response) return *response;
    response.emplace();
    uint64_t taken = 0;
    if (cluster.queue == nullptr || cluster.policy->spurious_false() || !cluster.queue->take(taken))
      return *response;
    const auto& spec = cluster.spec;
    const uint64_t nx = spec.grid[0] / spec.cluster[0], ny = spec.grid[1] / spec.cluster[1];
    response = {static_cast<uint32_t>(taken % nx) * spec.cluster[0],
                static_cast<uint32_t>(taken / nx % ny) * spec.cluster[1],
                static_cast<uint32_t>(taken / (nx * ny)) * spec.cluster[2], 1};
    return *response;
  }
};

class Response : public AsyncOp {
public:
  std::shared_ptr<Request> request;
  uint32_t cta = 0, offset = 0, barrier = 0;

  bool perform(Cluster& cluster) override {
    uint8_t* to = cluster.touch(access(), origin);
    std::memcpy(to, request->answer(cluster).data(), kBytes);
    cluster.mbarrier_complete_tx(cta, barrier, kBytes, origin);
    return true;
  }
  std::string describe() const override {
    return "clusterlaunchcontrol.try_cancel, response to shared offset " + hex(offset) +
           " of CTA " + std::to_string(cta) + ", completing on the mbarrier at " + hex(barrier);
  }
  Access access() const {
    return {Space::Shared, Proxy::Async, true, false, cta, offset, kBytes, kBytes, this};
  }
};

Step run_try_cancel(Warp& w, const Inst& inst, uint32_t mask) {
  const CancelData& d = *static_cast<const CancelData*>(inst.data);
  Cluster& cluster = w.cluster();
  each_lane(mask, [&](uint32_t l) {
    const uint32_t bit = lane_bit(l);
    const SharedPlace to = shared_place(w, inst, d.response, l);
    const SharedPlace bar = shared_place(w, inst, d.barrier, l);
    if (to.cta != w.cta.rank || bar.cta != w.cta.rank)
      w.fault(inst, bit, FaultCode::invalid_address_space, "space",
              "the response and the mbarrier must be in the CTA's own shared memory");
    if (cluster.saw_refusal >> w.cta.rank & 1)
      cluster.violation(
          w.origin(inst, bit), check::Rule::request_again, FaultCode::launch_failed,
          [] { return "this CTA has seen a request fail; another one is undefined"; });
    auto request = std::make_shared<Request>();
    for (uint32_t cta = 0; cta < cluster.ctas.size(); ++cta) {
      if (!d.multicast && cta != w.cta.rank) continue;
      if (cluster.ctas[cta]->live_warps == 0)
        w.fault(inst, bit, FaultCode::launch_failed, "launch control",
                "CTA " + std::to_string(cta) + " of the cluster has exited; .multicast needs all");
      auto op = std::make_unique<Response>();
      op->origin = w.origin(inst, bit);
      op->origin.unit = "launch control";
      op->request = request;
      op->cta = cta;
      op->offset = to.offset;
      op->barrier = bar.offset;
      op->ranges.push_back(Range{Space::Shared, true, cta, to.offset, to.offset + kBytes, 0, 128});
      cluster.mbarrier(cta, bar.offset, op->origin);
      cluster.touch(op->access(), op->origin);
      cluster.issue(std::move(op));
    }
  });
  return Step::Next;
}

struct QueryData {
  uint32_t handle = exec::kNoSlot;
  std::vector<uint32_t> out; // x, y, z and an unspecified word, or one of them
  uint32_t first = 0;        // word of out[0]
};

const uint32_t* words(Warp& w, uint32_t slot, uint32_t lane) {
  return w.lanes<uint32_t>(slot) + 4 * lane;
}

Step run_is_canceled(Warp& w, const Inst& inst, uint32_t mask) {
  const QueryData& d = *static_cast<const QueryData*>(inst.data);
  uint32_t canceled = 0;
  each_lane(mask, [&](uint32_t l) {
    if (words(w, d.handle, l)[3] == 1) canceled |= lane_bit(l);
  });
  if (canceled != mask) w.cluster().saw_refusal |= 1u << w.cta.rank;
  w.set_pred(d.out[0], mask, canceled);
  return Step::Next;
}

Step run_first_ctaid(Warp& w, const Inst& inst, uint32_t mask) {
  const QueryData& d = *static_cast<const QueryData*>(inst.data);
  each_lane(mask, [&](uint32_t l) {
    std::array<uint32_t, 4> response;
    std::memcpy(response.data(), words(w, d.handle, l), kBytes);
    if (response[3] != 1)
      w.fault(inst, lane_bit(l), FaultCode::launch_failed, "launch control",
              "get_first_ctaid of a response that says that no cluster was cancelled");
    for (uint32_t i = 0; i < d.out.size(); ++i)
      w.lanes<uint32_t>(d.out[i])[l] = response[d.first + i];
  });
  return Step::Next;
}

} // namespace

void decode_clc_try_cancel(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<CancelData>();
  OperandReader r(ctx, s, m);
  d->response = r.memory(m.get("space"));
  d->barrier = r.memory(m.get("space"));
  d->multicast = m.has("cast");
  r.finish(inst, d, run_try_cancel);
}

void decode_clc_query(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<QueryData>();
  d->handle = ctx.src(s.operands[1], RegClass::B128);
  const std::string_view which = m.get("which");
  if (which.empty()) {
    d->out = {ctx.pred_dst(s.operands[0])};
    inst.run = run_is_canceled;
  } else {
    if (which == "get_first_ctaid")
      d->out = ctx.vector_dst(s.operands[0], RegClass::B32);
    else
      d->out = {ctx.dst(s.operands[0], RegClass::B32)};
    if (which == "get_first_ctaid::y") d->first = 1;
    if (which == "get_first_ctaid::z") d->first = 2;
    if (which == "get_first_ctaid" && d->out.size() != 4)
      ctx.refuse(s, "get_first_ctaid gives a vector of 4");
    inst.run = run_first_ctaid;
  }
  ctx.set_operands(inst, d->out, {d->handle});
  inst.data = d;
}

} // namespace vgpu::ops
