// Decoding and issue of wgmma, its fence, groups and waits. PTX ISA 9.7.15.5.2, 9.7.15.7.
#include "tools/vgpu/ops/wgmma.hpp"

#include <algorithm>

namespace vgpu::ops {

using tensor::MmaResult;
using tensor::MmaType;

namespace {

const WgmmaData& data_of(const Inst& inst) { return *static_cast<const WgmmaData*>(inst.data); }

WarpgroupUnit& unit_of(Warp& w, const Inst& inst, uint32_t mask) {
  check_whole_warp(w, inst, mask);
  if (!w.warpgroup_unit) {
    uint32_t first = w.index & ~3u;
    if (first + 4 > w.cta.warps.size())
      w.fault(inst, mask, FaultCode::illegal_instruction, "wgmma",
              "warp " + std::to_string(w.index) + " is in no complete warpgroup: the CTA has " +
                  std::to_string(w.cta.warps.size()) + " warps");
    auto unit = std::make_shared<WarpgroupUnit>();
    unit->pipe.name = "wgmma of warps " + std::to_string(first) + ".." + std::to_string(first + 3);
    for (uint32_t i = 0; i < 4; ++i) {
      unit->warps[i] = w.cta.warps[first + i].get();
      unit->per_warp[i].accumulators.assign(w.program().slot_class.size(), 0);
      unit->warps[i]->warpgroup_unit = unit;
    }
  }
  return *static_cast<WarpgroupUnit*>(w.warpgroup_unit.get());
}

// Registers that an unwaited operation writes may be used by another one as the very same
// accumulator only (9.7.15.7.1).
void check_registers(Warp& w, const Inst& inst, uint32_t mask, const WarpgroupUnit::PerWarp& p,
                     const WgmmaData& d) {
  auto bad = [&](uint32_t slot, const char* what) {
    auto name = w.program().slot_name.find(slot);
    w.fault(inst, mask, FaultCode::launch_failed, "pending",
            "register " + (name == w.program().slot_name.end() ? "?" : name->second) + " " + what +
                " (wgmma.wait_group is missing)");
  };
  for (uint32_t k = inst.n_dst; k < uint32_t(inst.n_dst) + inst.n_src; ++k)
    if (p.accumulators[inst.op[k] / 8] != 0 &&
        std::find(d.d.begin(), d.d.end(), inst.op[k]) == d.d.end())
      bad(inst.op[k], "is read while a wgmma in flight has yet to write it");
  if (std::none_of(d.d.begin(), d.d.end(), [&](uint32_t s) { return p.accumulators[s / 8] != 0; }))
    return;
  auto same = [&](const Inst* other) { return data_of(*other).d == d.d; };
  bool all_same = std::all_of(d.d.begin(), d.d.end(), [&](uint32_t s) {
    // Every unwaited operation that writes it has the same accumulator.
    uint32_t found = 0;
    auto count = [&](const std::vector<const Inst*>& list) {
      for (const Inst* o : list) found += same(o);
    };
    count(p.open);
    for (const auto& g : p.groups) count(g);
    return p.accumulators[s / 8] <= found;
  });
  if (!all_same) bad(d.d[0], "is used as another accumulator while a wgmma in flight writes it");
}

void read_desc(Warp& w, const Inst& inst, uint32_t mask, const char* name, uint64_t bits,
               bool mn_major, MmaType type, uint32_t rows, uint32_t k, uint32_t row_bytes,
               tensor::OperandDesc& desc, OperandSpan& span) {
  std::string error = tensor::decode_wgmma_desc(bits, desc);
  int size = tensor::type_bits(type);
  if (error.empty()) error = tensor::check_operand(desc, mn_major, size, true);
  if (error.empty() && !mn_major) error = tensor::check_row(desc, row_bytes);
  if (!error.empty())
    w.fault(inst, mask, FaultCode::illegal_instruction, "descriptor",
            std::string(name) + ": " + error + " (" + hex(bits) + ")");
  span = mn_major ? mn_major_span(desc, rows, k, static_cast<uint32_t>(size) / 8)
                  : k_major_span(desc, rows, row_bytes / 16);
}

uint64_t uniform_u64(Warp& w, const Inst& inst, uint32_t mask, uint32_t slot, const char* what) {
  const uint64_t* v = w.lanes<uint64_t>(slot);
  for (uint32_t l = 1; l < 32; ++l)
    if (v[l] != v[0])
      w.fault(inst, mask, FaultCode::illegal_instruction, "uniform",
              std::string(what) + " differs between the lanes of the warp");
  return v[0];
}

std::unique_ptr<WarpgroupMma> make_op(Warp& w, const Inst& inst, uint32_t mask,
                                      WarpgroupUnit& unit) {
  const WgmmaData& d = data_of(inst);
  auto op = std::make_unique<WarpgroupMma>();
  op->origin = w.origin(inst, mask);
  op->origin.unit = "wgmma";
  op->unit = &unit;
  op->data = &d;
  op->inst = &inst;
  op->cta = w.cta.rank;
  op->pipe = &unit.pipe;
  op->accumulate = w.holds(d.scale_d, d.scale_d_negated, mask) != 0;
  op->b_bits = uniform_u64(w, inst, mask, d.b_desc, "the descriptor of B");
  read_desc(w, inst, mask, "B", op->b_bits, d.b_mn_major, d.shape.b,
            static_cast<uint32_t>(d.shape.n), static_cast<uint32_t>(d.shape.k), d.b_row_bytes(),
            op->b, op->b_span);
  if (!d.a_in_registers) {
    op->a_bits = uniform_u64(w, inst, mask, d.a_desc, "the descriptor of A");
    read_desc(w, inst, mask, "A", op->a_bits, d.a_mn_major, d.shape.a, 64, d.a_k(), 32, op->a,
              op->a_span);
  }
  return op;
}

Step run_mma(Warp& w, const Inst& inst, uint32_t mask) {
  const WgmmaData& d = data_of(inst);
  WarpgroupUnit& unit = unit_of(w, inst, mask);
  uint32_t q = w.index % 4;
  WarpgroupUnit::PerWarp& p = unit.per_warp[q];
  if (!p.fenced)
    w.cluster().violation(
        w.origin(inst, mask), check::Rule::first_fence, FaultCode::launch_failed,
        [] { return "wgmma.mma_async before the first wgmma.fence of the warp"; });
  check_registers(w, inst, mask, p, d);

  std::unique_ptr<WarpgroupMma> mine = make_op(w, inst, mask, unit);
  size_t at = static_cast<size_t>(p.issued - unit.joined);
  if (at == unit.joining.size()) unit.joining.push_back(std::move(mine));
  WarpgroupMma& op = *unit.joining[at];
  if (mine && (op.inst != &inst || op.a_bits != mine->a_bits || op.b_bits != mine->b_bits ||
               op.accumulate != mine->accumulate))
    w.fault(inst, mask, FaultCode::illegal_instruction, "wgmma",
            "warps " + std::to_string(op.origin.warp) + " and " + std::to_string(w.index) +
                " of one warpgroup issue different operations here: instruction, descriptors and "
                "scale-d must be the same; the other is at " +
                w.cluster().where(op.origin));
  if (d.sparse) std::copy_n(w.lanes<uint32_t>(d.codes), 32, op.codes[q].begin());
  op.arrived |= 1u << q;
  ++p.issued;
  p.open.push_back(&inst);
  for (uint32_t s : d.d) ++p.accumulators[s / 8];
  w.add_pending(d.d.data(), d.d.size(), true);
  w.add_pending(d.a.data(), d.a.size(), false);
  if (op.arrived == 0xF) {
    std::unique_ptr<WarpgroupMma> ready = std::move(unit.joining.front());
    unit.joining.pop_front();
    ++unit.joined;
    ready->reserve(w.cluster());
    w.cluster().issue(std::move(ready));
  }
  return Step::Next;
}

Step run_fence(Warp& w, const Inst& inst, uint32_t mask) {
  unit_of(w, inst, mask).per_warp[w.index % 4].fenced = true;
  return Step::Next;
}

Step run_commit(Warp& w, const Inst& inst, uint32_t mask) {
  WarpgroupUnit::PerWarp& p = unit_of(w, inst, mask).per_warp[w.index % 4];
  p.groups.push_back(std::move(p.open));
  p.open.clear();
  p.group_end.push_back(p.issued);
  return Step::Next;
}

// The registers of a group may be used again once a wait has covered it.
Step run_wait(Warp& w, const Inst& inst, uint32_t mask) {
  WarpgroupUnit& unit = unit_of(w, inst, mask);
  WarpgroupUnit::PerWarp& p = unit.per_warp[w.index % 4];
  while (p.groups.size() > inst.imm) {
    if (unit.completed < p.group_end.front())
      return w.park(mask, p.waiters,
                    WaitInfo{WaitInfo::Kind::WgmmaGroup, w.cta.rank, inst.imm,
                             static_cast<uint32_t>(inst.imm)});
    for (const Inst* done : p.groups.front()) {
      const WgmmaData& d = data_of(*done);
      for (uint32_t s : d.d) --p.accumulators[s / 8];
      w.drop_pending(d.d.data(), d.d.size(), true);
      w.drop_pending(d.a.data(), d.a.size(), false);
    }
    p.groups.pop_front();
    p.group_end.pop_front();
  }
  return Step::Next;
}

MmaType type_of(std::string_view t) {
  if (t == "bf16") return MmaType::bf16;
  if (t == "tf32") return MmaType::tf32;
  if (t == "e4m3") return MmaType::e4m3;
  if (t == "e5m2") return MmaType::e5m2;
  if (t == "s8") return MmaType::s8;
  if (t == "u8") return MmaType::u8;
  if (t == "b1") return MmaType::b1;
  return MmaType::f16;
}

// "m64n128k16"
void read_shape(std::string_view token, tensor::PlainMma& shape) {
  std::string t(token);
  size_t n = t.find('n'), k = t.find('k');
  shape.m = 64;
  shape.n = std::stoi(t.substr(n + 1, k - n - 1));
  shape.k = std::stoi(t.substr(k + 1));
}

// An immediate 1 or -1 (scales) or 0 or 1 (transpositions).
bool read_flag(DecodeContext& ctx, const Statement& s, size_t index, int64_t no, int64_t yes,
               const char* what) {
  const Operand& o = s.operands[index];
  int64_t v = static_cast<int64_t>(o.value);
  if (o.kind == Operand::Kind::Int && (v == no || static_cast<int32_t>(v) == no)) return false;
  if (o.kind == Operand::Kind::Int && (v == yes || static_cast<int32_t>(v) == yes)) return true;
  ctx.refuse(s, std::string(what) + " must be the constant " + std::to_string(no) + " or " +
                    std::to_string(yes));
}

} // namespace

void decode_wgmma(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<WgmmaData>();
  read_shape(m.get("shape"), d->shape);
  d->shape.a = type_of(m.get("a"));
  d->shape.b = type_of(m.get("b"));
  d->integer = m.get("d") == "s32";
  d->saturate = m.has("satfinite");
  d->sparse = m.has("sp");
  d->shape.d = d->integer ? MmaResult::s32 : m.get("d") == "f16" ? MmaResult::f16 : MmaResult::f32;
  d->d = ctx.vector_dst(s.operands[0], RegClass::B32);
  size_t want = static_cast<size_t>(d->shape.n) / (d->shape.d == MmaResult::f16 ? 4 : 2);
  if (d->d.size() != want)
    ctx.refuse(s, std::to_string(d->d.size()) + " accumulator registers where the shape takes " +
                      std::to_string(want));
  d->a_in_registers = s.operands[1].kind == Operand::Kind::Vector;
  bool wide = d->shape.a == MmaType::f16 || d->shape.a == MmaType::bf16;
  size_t operands = 4 + (d->sparse ? 2 : 0);
  if (!d->integer) operands += 2 + (wide ? (d->a_in_registers ? 1 : 2) : 0);
  if (s.operands.size() != operands)
    ctx.refuse(s, std::to_string(s.operands.size()) + " operands where this form has " +
                      std::to_string(operands));
  // D is read as well; it stays out of the sources, whose check knows accumulators apart.
  std::vector<uint32_t> src;
  if (d->a_in_registers) {
    d->a = ctx.vector_src(s.operands[1], RegClass::B32);
    if (d->a.size() != 4) ctx.refuse(s, "A in registers takes 4 of them");
    src = d->a;
  } else {
    src.push_back(d->a_desc = ctx.src(s.operands[1], RegClass::B64));
  }
  src.push_back(d->b_desc = ctx.src(s.operands[2], RegClass::B64));
  size_t next = 3;
  if (d->sparse) {
    src.push_back(d->codes = ctx.src(s.operands[next++], RegClass::B32));
    const Operand& selector = s.operands[next++];
    const uint64_t limit = tensor::type_bits(d->shape.a) >= 16 ? 1 : 0;
    if (selector.kind != Operand::Kind::Int || selector.value > limit)
      ctx.refuse(s, "the sparsity selector must be the constant 0" +
                        std::string(limit ? " or 1" : ": all threads hold metadata"));
    d->selector = static_cast<uint32_t>(selector.value);
  }
  src.push_back(d->scale_d = ctx.pred_src(s.operands[next++], d->scale_d_negated));
  if (!d->integer) {
    d->shape.negate_a = read_flag(ctx, s, next++, 1, -1, "imm-scale-a");
    d->shape.negate_b = read_flag(ctx, s, next++, 1, -1, "imm-scale-b");
    if (wide) {
      if (!d->a_in_registers) d->a_mn_major = read_flag(ctx, s, next++, 0, 1, "imm-trans-a");
      d->b_mn_major = read_flag(ctx, s, next, 0, 1, "imm-trans-b");
    }
  }
  ctx.set_operands(inst, d->d, src);
  inst.data = d;
  inst.aligned = true;
  inst.own_pending_check = true;
  inst.run = run_mma;
}

void decode_wgmma_fence(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.aligned = true;
  inst.run = run_fence;
}

void decode_wgmma_commit(DecodeContext& ctx, const Statement&, const Match&, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.aligned = true;
  inst.run = run_commit;
}

void decode_wgmma_wait(DecodeContext& ctx, const Statement& s, const Match&, Inst& inst) {
  if (s.operands[0].kind != Operand::Kind::Int)
    ctx.refuse(s, "the number of groups must be an integer constant");
  ctx.set_operands(inst, {}, {});
  inst.imm = s.operands[0].value;
  inst.aligned = true;
  inst.run = run_wait;
}

} // namespace vgpu::ops
