// tcgen05.alloc, dealloc, relinquish_alloc_permit. PTX ISA 9.7.16.7.
//
// Where an allocation lies is the implementation's choice: here the lowest run of free columns, in
// both CTAs of a pair the same. With cta_group::2 a warp of each CTA takes part; the first waits.
// On a device the even CTA's writes the column into the odd one's shared memory, at its own `dst`.
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/ops/tcgen05.hpp"

#include <algorithm>
#include <array>

namespace vgpu::ops {

namespace {

struct AllocData {
  MemOperand dst;
  uint32_t address = exec::kNoSlot, columns = exec::kNoSlot;
  uint32_t group = 1;
};

constexpr uint32_t kUnit = 32;               // columns, granularity of allocations
constexpr uint32_t kFreshWord = 0x7FC0DEADu; // a NaN: what nobody wrote shows

// Lowest run of `columns` free in all CTAs of the set; kColumns when there is none.
uint32_t find_run(Warp& w, CtaSet set, uint32_t columns) {
  for (uint32_t c = 0; c + columns <= TensorMemory::kColumns; c += kUnit) {
    bool free = true;
    for (uint32_t i = 0; i < set.count && free; ++i) {
      const auto& owner = w.cluster().ctas[set.first + i]->tensor.owner;
      free = std::all_of(owner.begin() + c, owner.begin() + c + columns,
                         [](uint16_t id) { return id == 0; });
    }
    if (free) return c;
  }
  return TensorMemory::kColumns;
}

void take(Cta& cta, uint32_t column, uint32_t columns, const Inst& inst, uint32_t warp,
          uint32_t dst, const exec::Origin& origin) {
  TensorMemory& t = cta.tensor;
  uint32_t id = t.next_id++;
  t.allocations.push_back({id, column, columns, &inst, warp});
  t.last_columns = columns;
  std::fill_n(t.owner.begin() + column, columns, static_cast<uint16_t>(id));
  for (uint32_t l = 0; l < TensorMemory::kLanes; ++l)
    std::fill_n(t.row(l) + column, columns, kFreshWord);
  if (cta.cluster.hub) cta.cluster.hub->tensor_alloc(cta.rank, column, columns, origin);
  uint8_t* p = cta.cluster.touch(
      Access{Space::Shared, Proxy::Generic, true, false, cta.rank, dst, 4, 4, nullptr}, origin);
  std::memcpy(p, &column, 4);
}

void give_back(Cta& cta, uint32_t column, uint32_t columns, const exec::Origin& origin) {
  TensorMemory& t = cta.tensor;
  auto it = std::find_if(t.allocations.begin(), t.allocations.end(),
                         [&](const auto& a) { return a.column == column; });
  if (it == t.allocations.end() || it->columns != columns)
    cta.cluster.fault(origin, FaultCode::illegal_address, "tmem",
                      "tcgen05.dealloc of " + std::to_string(columns) + " columns at column " +
                          std::to_string(column) +
                          (it == t.allocations.end()
                               ? ", where no allocation starts"
                               : ", where " + std::to_string(it->columns) + " are allocated"));
  // Operations in flight on the columns are found here.
  cta.cluster.touch_tensor(cta.rank, 0, TensorMemory::kLanes, column, columns, true, nullptr,
                           origin);
  std::fill_n(t.owner.begin() + column, columns, uint16_t{0});
  t.allocations.erase(it);
}

uint32_t column_count(Warp& w, const Inst& inst, uint32_t mask, const AllocData& d) {
  uint32_t n = uniform_u32(w, inst, mask, d.columns, "the number of columns");
  if (n < 32 || n > 512 || (n & (n - 1)) != 0)
    w.fault(inst, mask, FaultCode::illegal_instruction, "tmem",
            std::to_string(n) + " columns; the number must be 32, 64, 128, 256 or 512");
  return n;
}

// Both CTAs of the pair are here: do it for both. False when an allocation finds no room yet.
bool complete_pair(Warp& w, const Inst& inst, uint32_t mask) {
  CtaSet set = cta_set(w.cta.rank, 2);
  std::array<Cta*, 2> pair{w.cluster().ctas[set.first].get(),
                           w.cluster().ctas[set.first + 1].get()};
  auto &a = pair[0]->tensor.pair, &b = pair[1]->tensor.pair;
  if (!a.inst || !b.inst) return false;
  if (a.alloc != b.alloc || a.columns != b.columns || (!a.alloc && a.address != b.address))
    w.fault(inst, mask, FaultCode::launch_failed, "tmem",
            "the CTAs of a pair disagree: tcgen05." + std::string(a.alloc ? "alloc" : "dealloc") +
                " of " + std::to_string(a.columns) + " columns in the even CTA, tcgen05." +
                (b.alloc ? "alloc" : "dealloc") + " of " + std::to_string(b.columns) +
                " in the odd one");
  if (a.alloc && (a.address != b.address || a.warp != b.warp))
    w.cluster().violation(
        w.origin(inst, mask), check::Rule::alloc_place, FaultCode::launch_failed, [&] {
          return "the CTAs of a pair disagree: tcgen05.alloc by warp " + std::to_string(a.warp) +
                 " to shared offset " + hex(a.address) + " in the even CTA, by warp " +
                 std::to_string(b.warp) + " to " + hex(b.address) +
                 " in the odd one; warp and offset must be the same";
        });
  uint32_t column = a.alloc ? find_run(w, set, a.columns) : a.address;
  if (column == TensorMemory::kColumns) return false;
  auto origin_of = [](const Cta& cta) {
    return exec::Origin{cta.tensor.pair.inst, cta.rank, cta.tensor.pair.warp, 0, "warp"};
  };
  // The ISA does not say that they meet: held to its letter they do not.
  if (w.cluster().hub && !strict_order(w.cluster()))
    w.cluster().hub->pair_met(origin_of(*pair[0]), origin_of(*pair[1]));
  const uint32_t started = pair[0]->warps[a.warp]->started | pair[1]->warps[b.warp]->started;
  for (Cta* cta : pair) {
    TensorMemory& t = cta->tensor;
    const exec::Origin origin = origin_of(*cta);
    cta->warps[t.pair.warp]->started |= started;
    if (t.pair.alloc)
      take(*cta, column, t.pair.columns, *t.pair.inst, t.pair.warp, t.pair.address, origin);
    else
      give_back(*cta, column, t.pair.columns, origin);
    t.pair.inst = nullptr;
    ++t.pair_steps;
  }
  for (Cta* cta : pair) w.cluster().wake(cta->tensor.waiters);
  return true;
}

Step run_pair(Warp& w, const Inst& inst, uint32_t mask, bool alloc, uint32_t columns,
              uint32_t address) {
  TensorMemory& t = w.cta.tensor;
  if (!w.resumed()) {
    if (t.pair.inst)
      w.fault(inst, mask, FaultCode::launch_failed, "tmem",
              "warp " + std::to_string(t.pair.warp) +
                  " of this CTA still waits in a tcgen05.alloc or dealloc with cta_group::2");
    t.pair = {&inst, alloc, columns, address, w.index};
    w.resume_token() = t.pair_steps + 1;
  }
  uint64_t step = w.resume_token();
  if (t.pair_steps < step) complete_pair(w, inst, mask);
  if (t.pair_steps >= step) return Step::Next;
  return w.park(mask, t.waiters,
                WaitInfo{WaitInfo::Kind::TensorAlloc, w.cta.rank ^ 1, columns, columns});
}

// 9.7.16.7.1: the warp makes sure that the peer CTA has been launched. Nothing on a device does it.
void check_peer(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t peer = w.cta.rank ^ 1;
  if (w.started >> peer & 1) return;
  auto what = [&] {
    return "tcgen05.alloc with cta_group::2 by a warp that cannot know that its peer, CTA " +
           std::to_string(peer) +
           ", has started: a barrier of the cluster is missing before it (barrier.cluster.arrive, "
           ".relaxed too, and wait)";
  };
  w.cluster().violation(w.origin(inst, mask), check::Rule::peer_start, FaultCode::launch_failed,
                        what);
}

Step run_alloc(Warp& w, const Inst& inst, uint32_t mask) {
  const AllocData& d = *static_cast<const AllocData*>(inst.data);
  TensorMemory& t = w.cta.tensor;
  check_cta_group(w, inst, mask, d.group);
  check_whole_warp(w, inst, mask);
  uint32_t columns = column_count(w, inst, mask, d);
  SharedPlace dst = shared_place(w, inst, d.dst, static_cast<uint32_t>(std::countr_zero(mask)));
  if (!w.resumed()) {
    Cluster& cluster = w.cluster();
    const exec::Origin origin = w.origin(inst, mask);
    if (t.relinquished)
      cluster.violation(origin, check::Rule::alloc_permit, FaultCode::illegal_instruction, [] {
        return "tcgen05.alloc after tcgen05.relinquish_alloc_permit in this CTA";
      });
    if (t.last_columns != 0 && columns > t.last_columns)
      cluster.violation(origin, check::Rule::alloc_growing, FaultCode::illegal_instruction, [&] {
        return "allocation of " + std::to_string(columns) + " columns after one of " +
               std::to_string(t.last_columns) + ": sizes must not grow";
      });
    if (dst.cta != w.cta.rank)
      w.fault(inst, mask, FaultCode::invalid_address_space, "space",
              "the address of the allocation must go to the CTA's own shared memory");
  }
  if (d.group == 2) {
    if (!w.resumed()) check_peer(w, inst, mask);
    return run_pair(w, inst, mask, true, columns, dst.offset);
  }
  uint32_t column = find_run(w, cta_set(w.cta.rank, 1), columns);
  if (column == TensorMemory::kColumns)
    return w.park(mask, t.waiters,
                  WaitInfo{WaitInfo::Kind::TensorAlloc, w.cta.rank, columns, columns});
  take(w.cta, column, columns, inst, w.index, dst.offset, w.origin(inst, mask));
  return Step::Next;
}

Step run_dealloc(Warp& w, const Inst& inst, uint32_t mask) {
  const AllocData& d = *static_cast<const AllocData*>(inst.data);
  check_cta_group(w, inst, mask, d.group);
  check_whole_warp(w, inst, mask);
  uint32_t columns = column_count(w, inst, mask, d);
  uint32_t address = uniform_u32(w, inst, mask, d.address, "the tensor memory address");
  TensorPlace p = tensor_place(w, inst, mask, address);
  if (p.lane != 0)
    w.fault(inst, mask, FaultCode::illegal_address, "tmem",
            "tcgen05.dealloc of address " + hex(address) + ": an allocation starts at lane 0");
  if (d.group == 2) return run_pair(w, inst, mask, false, columns, p.column);
  give_back(w.cta, p.column, columns, w.origin(inst, mask));
  w.cluster().wake(w.cta.tensor.waiters);
  return Step::Next;
}

Step run_relinquish(Warp& w, const Inst& inst, uint32_t mask) {
  const AllocData& d = *static_cast<const AllocData*>(inst.data);
  check_cta_group(w, inst, mask, d.group);
  check_whole_warp(w, inst, mask);
  w.cta.tensor.relinquished = true;
  return Step::Next;
}

AllocData* make_data(DecodeContext& ctx, const Match& m, Inst& inst) {
  auto* d = ctx.make<AllocData>();
  d->group = group_number(m.get("group"));
  inst.data = d;
  inst.aligned = true;
  return d;
}

} // namespace

void decode_tcgen05_alloc(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  AllocData* d = make_data(ctx, m, inst);
  d->dst = mem_operand(ctx, s.operands[0], m.has("shared::cta") ? "shared::cta" : "");
  d->columns = ctx.src(s.operands[1], RegClass::B32);
  ctx.set_operands(inst, {}, {d->dst.slot, d->columns});
  inst.run = run_alloc;
}

void decode_tcgen05_dealloc(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  AllocData* d = make_data(ctx, m, inst);
  d->address = ctx.src(s.operands[0], RegClass::B32);
  d->columns = ctx.src(s.operands[1], RegClass::B32);
  ctx.set_operands(inst, {}, {d->address, d->columns});
  inst.run = run_dealloc;
}

void decode_tcgen05_relinquish(DecodeContext& ctx, const Statement&, const Match& m, Inst& inst) {
  make_data(ctx, m, inst);
  ctx.set_operands(inst, {}, {});
  inst.run = run_relinquish;
}

} // namespace vgpu::ops
