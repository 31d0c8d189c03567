// cp.async.bulk, cp.reduce.async.bulk and the bulk prefetch: contiguous bytes, multiples of 16.
// PTX ISA 9.7.9.25.4.
#include "tools/vgpu/ops/async_groups.hpp"
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/ops/async_reduce.hpp"

#include <cstring>

namespace vgpu::ops {

namespace {

struct BulkData {
  MemOperand dst, src, barrier;
  uint32_t size = exec::kNoSlot;
  uint32_t mask = exec::kNoSlot;      // multicast
  uint32_t byte_mask = exec::kNoSlot; // .cp_mask
  bool to_global = false, from_global = false;
  bool reduce = false;
  ReduceOp op = ReduceOp::add;
  ReduceType type = ReduceType::none;
};

struct End {
  Space space = Space::Global;
  uint32_t cta = 0;
  uint64_t address = 0;
};

class BulkCopy : public AsyncOp {
public:
  const BulkData* d = nullptr;
  End from, to;
  uint32_t bytes = 0, byte_mask = 0xFFFF;
  SharedPlace barrier; // destinations in shared memory
  GroupRef group;      // destinations in global memory

  bool perform(Cluster& cluster) override {
    if (!read_) {
      read_ = true;
      if (bytes != 0) {
        const uint8_t* p = access(cluster, from, false);
        source_.assign(p, p + bytes);
        states_ = cluster.states(from.space, from.cta, from.address, bytes);
      }
      cluster.release_ranges(*this, false);
      if (to.space == Space::Global) group_read(cluster, group);
      return false;
    }
    if (bytes != 0) write(access(cluster, to, true));
    // Rows of a padded tile may go as one: what nobody has written is not for anyone to read.
    if (!states_.empty() && !d->reduce)
      cluster.put_states(to.space, to.cta, to.address, states_.data(), bytes, false, origin);
    if (to.space == Space::Global) {
      ++cluster.stats.tma_stores;
      cluster.stats.tma_store_bytes += bytes;
      group_finished(cluster, group, true);
    } else {
      ++cluster.stats.tma_loads;
      cluster.stats.tma_load_bytes += bytes;
      cluster.mbarrier_complete_tx(barrier.cta, barrier.offset, bytes, origin);
    }
    return true;
  }

  std::string describe() const override {
    return std::string(d->reduce ? "bulk reduction of " : "bulk copy of ") + std::to_string(bytes) +
           " bytes from " + text(from) + " to " + text(to);
  }

  uint8_t* access(Cluster& cluster, const End& e, bool write) {
    return cluster.touch(
        Access{e.space, Proxy::Async, write, d->reduce && write, e.cta, e.address, bytes, 16, this},
        origin);
  }
  void guard(const End& e, bool write) {
    if (bytes != 0)
      ranges.push_back(Range{e.space, write, e.cta, e.address, e.address + bytes, 0, 128});
  }

private:
  static std::string text(const End& e) {
    return e.space == Space::Global
               ? "global " + hex(e.address)
               : "shared offset " + hex(e.address) + " of CTA " + std::to_string(e.cta);
  }
  void write(uint8_t* p) {
    if (d->reduce) {
      vgpu::ops::reduce(d->op, d->type, p, source_.data(), bytes);
    } else if ((byte_mask & 0xFFFF) == 0xFFFF) {
      std::memcpy(p, source_.data(), bytes);
    } else {
      for (uint32_t i = 0; i < bytes; ++i)
        if (byte_mask >> (i % 16) & 1) p[i] = source_[i];
    }
  }

  bool read_ = false;
  std::vector<uint8_t> source_, states_; // states_: Cluster::states
};

uint32_t bulk_size(Warp& w, const Inst& inst, const BulkData& d, uint32_t l) {
  uint32_t n = w.lanes<uint32_t>(d.size)[l];
  if (n % 16 != 0)
    w.fault(inst, lane_bit(l), FaultCode::misaligned_address, "alignment",
            "the size of a bulk copy is " + std::to_string(n) +
                " bytes, it must be a multiple of 16; the nearest is " +
                std::to_string((uint64_t(n) + 8) / 16 * 16));
  return n;
}

End end_of(Warp& w, const Inst& inst, const MemOperand& m, bool global, uint32_t l) {
  if (global) return {Space::Global, 0, global_place(w, inst, m, l)};
  SharedPlace p = shared_place(w, inst, m, l);
  return {Space::Shared, p.cta, p.offset};
}

Step run_bulk(Warp& w, const Inst& inst, uint32_t mask) {
  const BulkData& d = *static_cast<const BulkData*>(inst.data);
  Cluster& cluster = w.cluster();
  each_lane(mask, [&](uint32_t l) {
    uint32_t bit = lane_bit(l);
    uint32_t bytes = bulk_size(w, inst, d, l);
    End from = end_of(w, inst, d.src, d.from_global, l);
    End to = end_of(w, inst, d.dst, d.to_global, l);
    SharedPlace bar{};
    uint32_t targets = 1u << to.cta;
    if (!d.to_global) {
      bar = shared_place(w, inst, d.barrier, l);
      targets = copy_targets(w, inst, l, d.mask, {to.cta, 0}, bar, false);
    }
    for (uint32_t left = targets; left; left &= left - 1) {
      auto op = std::make_unique<BulkCopy>();
      op->origin = w.origin(inst, bit);
      op->origin.unit = "bulk copy";
      op->d = &d;
      op->bytes = bytes;
      op->from = from;
      op->to = to;
      if (d.byte_mask != exec::kNoSlot) op->byte_mask = w.lanes<uint32_t>(d.byte_mask)[l];
      if (!d.to_global) {
        op->to.cta = static_cast<uint32_t>(std::countr_zero(left));
        op->barrier = {op->to.cta, bar.offset};
        cluster.mbarrier(op->barrier.cta, op->barrier.offset, op->origin);
      }
      if (bytes != 0) {
        op->access(cluster, from, false);
        op->access(cluster, op->to, true);
      }
      op->guard(from, false);
      // Several reductions may meet in global memory; in shared memory the bytes must survive until
      // then, so neither is guarded as overwritten.
      if (!d.reduce) op->guard(op->to, true);
      if (d.to_global) op->group = join_group(w, GroupKind::bulk, l);
      cluster.issue(std::move(op));
    }
  });
  return Step::Next;
}

// Prefetches change nothing that can be seen; their range is checked.
Step run_bulk_prefetch(Warp& w, const Inst& inst, uint32_t mask) {
  const BulkData& d = *static_cast<const BulkData*>(inst.data);
  each_lane(mask, [&](uint32_t l) {
    uint32_t bytes = bulk_size(w, inst, d, l);
    if (bytes == 0) return;
    w.cluster().touch(Access{Space::Global, Proxy::Async, false, false, 0,
                             global_place(w, inst, d.src, l), bytes, 16, nullptr},
                      w.origin(inst, lane_bit(l)));
  });
  return Step::Next;
}

void check_reduction(DecodeContext& ctx, const Statement& s, const Match& m, BulkData& d) {
  d.reduce = true;
  d.op = reduce_op(m.get("op"));
  d.type = reduce_type(m.get("type"));
  if (!reduce_allowed(d.op, d.type, d.to_global))
    ctx.refuse(s, "." + std::string(m.get("op")) + " does not exist for ." +
                      std::string(m.get("type")) + " here");
  bool half = d.type == ReduceType::f16 || d.type == ReduceType::bf16;
  if (m.has("noftz") != (half && d.op == ReduceOp::add))
    ctx.refuse(s, ".noftz belongs to .add.f16 and .add.bf16, which need it");
}

} // namespace

void decode_bulk_load(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<BulkData>();
  OperandReader r(ctx, s, m);
  d->from_global = m.get("src") == "global";
  d->dst = r.memory(m.get("dst"));
  d->src = r.memory(m.get("src"));
  d->size = r.value(RegClass::B32);
  d->barrier = r.memory("shared::cluster");
  d->mask = r.cta_mask();
  r.cache_policy();
  if (m.has("op")) check_reduction(ctx, s, m, *d);
  r.finish(inst, d, run_bulk);
}

void decode_bulk_store(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<BulkData>();
  OperandReader r(ctx, s, m);
  d->to_global = true;
  d->dst = r.memory("global");
  d->src = r.memory("shared::cta");
  d->size = r.value(RegClass::B32);
  r.cache_policy();
  d->byte_mask = r.value_of("cp_mask", RegClass::B32, "a 16-bit byte mask");
  if (m.has("op")) check_reduction(ctx, s, m, *d);
  r.finish(inst, d, run_bulk);
}

void decode_bulk_prefetch(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<BulkData>();
  OperandReader r(ctx, s, m);
  d->from_global = true;
  d->src = r.memory("global");
  d->size = r.value(RegClass::B32);
  r.cache_policy();
  r.finish(inst, d, run_bulk_prefetch);
}

} // namespace vgpu::ops
