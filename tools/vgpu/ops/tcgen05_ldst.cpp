// tcgen05.ld, st and wait. PTX ISA 9.7.16.8.
//
// A load's destination registers are pending from its issue to wait::ld; a store takes its values
// at issue and writes them when it completes.
#include "tools/vgpu/ops/float.hpp"
#include "tools/vgpu/ops/tcgen05.hpp"

#include <algorithm>

namespace vgpu::ops {

namespace {

enum class Shape : uint8_t { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };

// tcgen05.ld.red: what is left of two words of one thread.
using Reduce = uint32_t (*)(uint32_t, uint32_t);

struct LdStData {
  MemOperand address;
  std::vector<uint32_t> registers; // with .red the value of the reduction is the last
  Reduce reduce = nullptr;
  Shape shape = Shape::s32x32b;
  uint32_t split = 0;  // 16x32bx2: columns between its halves
  bool packed = false; // pack::16b, unpack::16b: a register holds two columns' low halves
  // Columns [0, columns) from the address, and for 16x32bx2 as many from address + split.
  uint32_t columns = 0, lanes = 32;
};

// Tensor memory word of register i of thread t, relative to the address (before packing).
struct Word {
  uint32_t lane, column;
};
Word word_of(const LdStData& d, uint32_t t, uint32_t i) {
  switch (d.shape) {
  case Shape::s32x32b:
    return {t, i};
  case Shape::s16x64b:
    return {t / 4 + 8 * (t % 2), 2 * i + t / 2 % 2};
  case Shape::s16x128b:
    return {t / 4 + 8 * (i % 2), 4 * (i / 2) + t % 4};
  case Shape::s16x256b:
    return {t / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (t % 4) + i % 2};
  case Shape::s16x32bx2:
    return {t % 16, i};
  }
  return {0, 0};
}

// First column of a register's word; with packing the word after it belongs to it too.
uint32_t column_of(const LdStData& d, uint32_t t, Word word) {
  uint32_t c = d.packed ? 2 * word.column : word.column;
  return d.shape == Shape::s16x32bx2 ? c + t / 16 * d.split : c;
}

class TensorTransfer : public AsyncOp {
public:
  Warp* warp = nullptr;
  const LdStData* d = nullptr;
  TensorPlace at;

  template <class Fn>
  void touch_all(Cluster& cluster, bool write, const AsyncOp* op, Fn&& fn) {
    each_block([&](uint32_t column) {
      cluster.touch_tensor(warp->cta.rank, at.lane, d->lanes, column, d->columns, write, op,
                           origin);
      fn(column);
    });
  }
  void set_ranges(bool write) {
    each_block([&](uint32_t column) {
      ranges.push_back(Range{Space::Tensor, write, warp->cta.rank, column, column + d->columns,
                             at.lane, at.lane + d->lanes});
    });
  }
  std::string text(const char* what) const {
    return std::string(what) + " of tensor memory lanes " + std::to_string(at.lane) + ".." +
           std::to_string(at.lane + d->lanes - 1) + ", columns " + std::to_string(at.column) +
           ".." + std::to_string(at.column + d->columns - 1) + " by warp " +
           std::to_string(warp->index);
  }

private:
  template <class Fn>
  void each_block(Fn&& fn) const {
    fn(at.column);
    if (d->shape == Shape::s16x32bx2 && d->split != 0) fn(at.column + d->split);
  }
};

class TensorLoadOp : public TensorTransfer {
public:
  bool tensor_load() const override { return true; }
  bool perform(Cluster& cluster) override {
    touch_all(cluster, false, this, [](uint32_t) {});
    TensorMemory& memory = warp->cta.tensor;
    const size_t n = d->registers.size() - (d->reduce ? 1 : 0);
    if (d->shape == Shape::s32x32b && !d->packed) {
      for (uint32_t t = 0; t < 32; ++t) {
        const uint32_t* row = memory.row(at.lane + t) + at.column;
        for (size_t i = 0; i < n; ++i) warp->lanes<uint32_t>(d->registers[i])[t] = row[i];
      }
    } else {
      for (uint32_t t = 0; t < 32; ++t)
        for (uint32_t i = 0; i < n; ++i) {
          Word word = word_of(*d, t, i);
          const uint32_t* p = memory.row(at.lane + word.lane) + at.column + column_of(*d, t, word);
          warp->lanes<uint32_t>(d->registers[i])[t] =
              d->packed ? (p[0] & 0xFFFF) | p[1] << 16 : p[0];
        }
    }
    if (d->reduce) reduce();
    if (--warp->tensor_loads == 0) cluster.wake(warp->tensor_load_waiters);
    return true;
  }
  std::string describe() const override { return text("tcgen05.ld"); }

private:
  // Every thread over its own registers, of which there are two or more.
  void reduce() {
    const size_t n = d->registers.size() - 1;
    uint32_t* value = warp->lanes<uint32_t>(d->registers[n]);
    for (uint32_t t = 0; t < 32; ++t) {
      uint32_t v = warp->lanes<uint32_t>(d->registers[0])[t];
      for (size_t i = 1; i < n; ++i) v = d->reduce(v, warp->lanes<uint32_t>(d->registers[i])[t]);
      value[t] = v;
    }
  }
};

class TensorStoreOp : public TensorTransfer {
public:
  std::vector<uint32_t> values; // [register][thread]

  bool tensor_store() const override { return true; }
  bool perform(Cluster& cluster) override {
    touch_all(cluster, true, this, [](uint32_t) {});
    TensorMemory& memory = warp->cta.tensor;
    for (uint32_t i = 0; i < d->registers.size(); ++i)
      for (uint32_t t = 0; t < 32; ++t) {
        Word word = word_of(*d, t, i);
        uint32_t* p = memory.row(at.lane + word.lane) + at.column + column_of(*d, t, word);
        uint32_t v = values[size_t(i) * 32 + t];
        if (d->packed) {
          p[0] = v & 0xFFFF;
          p[1] = v >> 16;
        } else {
          p[0] = v;
        }
      }
    if (--warp->tensor_stores == 0) cluster.wake(warp->tensor_store_waiters);
    return true;
  }
  std::string describe() const override { return text("tcgen05.st"); }
};

// A warp reaches the 32 lanes of its place in the warpgroup (9.7.16.8.1).
TensorPlace transfer_place(Warp& w, const Inst& inst, uint32_t mask, const LdStData& d) {
  check_whole_warp(w, inst, mask);
  if (w.cta.tensor.words.empty())
    w.fault(inst, mask, FaultCode::illegal_instruction, "tmem",
            "device " + w.cluster().spec.profile->name + " has no tensor memory");
  uniform_u32(w, inst, mask, d.address.slot, "the tensor memory address");
  uint32_t address =
      static_cast<uint32_t>(d.address.value(w, static_cast<uint32_t>(std::countr_zero(mask))));
  TensorPlace p = tensor_place(w, inst, mask, address);
  uint32_t own = 32 * (w.index % 4);
  bool right = d.lanes == 32 ? p.lane == own : p.lane == own || p.lane == own + 16;
  if (!right)
    w.fault(inst, mask, FaultCode::illegal_address, "tmem",
            "warp " + std::to_string(w.index) + " may reach tensor memory lanes " +
                std::to_string(own) + ".." + std::to_string(own + 31) + " only; the address " +
                hex(address) + " with a shape of " + std::to_string(d.lanes) +
                " lanes starts at lane " + std::to_string(p.lane));
  return p;
}

Step run_ld(Warp& w, const Inst& inst, uint32_t mask) {
  const LdStData& d = *static_cast<const LdStData*>(inst.data);
  Cluster& cluster = w.cluster();
  auto op = std::make_unique<TensorLoadOp>();
  op->origin = w.origin(inst, mask);
  op->origin.unit = "TMEM load";
  op->warp = &w;
  op->d = &d;
  op->at = transfer_place(w, inst, mask, d);
  op->touch_all(cluster, false, op.get(), [](uint32_t) {});
  op->set_ranges(false);
  w.add_pending(d.registers.data(), d.registers.size(), true);
  w.unwaited_loads.push_back(&inst);
  ++w.tensor_loads;
  cluster.issue(std::move(op));
  return Step::Next;
}

Step run_st(Warp& w, const Inst& inst, uint32_t mask) {
  const LdStData& d = *static_cast<const LdStData*>(inst.data);
  Cluster& cluster = w.cluster();
  auto op = std::make_unique<TensorStoreOp>();
  op->origin = w.origin(inst, mask);
  op->origin.unit = "TMEM store";
  op->warp = &w;
  op->d = &d;
  op->at = transfer_place(w, inst, mask, d);
  op->touch_all(cluster, true, op.get(), [](uint32_t) {});
  op->set_ranges(true);
  op->values.resize(d.registers.size() * 32);
  for (size_t i = 0; i < d.registers.size(); ++i)
    std::copy_n(w.lanes<uint32_t>(d.registers[i]), 32, op->values.begin() + ptrdiff_t(i) * 32);
  ++w.tensor_stores;
  cluster.issue(std::move(op));
  return Step::Next;
}

Step run_wait_ld(Warp& w, const Inst&, uint32_t mask) {
  if (w.tensor_loads != 0)
    return w.park(mask, w.tensor_load_waiters,
                  WaitInfo{WaitInfo::Kind::TensorLoad, w.cta.rank, 0, w.tensor_loads});
  w.forget_loads();
  return Step::Next;
}

Step run_wait_st(Warp& w, const Inst&, uint32_t mask) {
  if (w.tensor_stores != 0)
    return w.park(mask, w.tensor_store_waiters,
                  WaitInfo{WaitInfo::Kind::TensorStore, w.cta.rank, 0, w.tensor_stores});
  return Step::Next;
}

// Fills everything but the registers; returns how many of them the shape and .xN ask for.
uint32_t read_shape(DecodeContext& ctx, const Statement& s, const Match& m, const Operand* split,
                    LdStData& d) {
  std::string_view shape = m.get("shape");
  uint32_t n = static_cast<uint32_t>(std::stoul(std::string(m.get("num").substr(1))));
  uint32_t registers = n;
  d.lanes = 16;
  if (shape == "32x32b") {
    d.shape = Shape::s32x32b;
    d.lanes = 32;
    d.columns = n;
  } else if (shape == "16x64b") {
    d.shape = Shape::s16x64b;
    d.columns = 2 * n;
  } else if (shape == "16x128b") {
    d.shape = Shape::s16x128b;
    registers = 2 * n;
    d.columns = 4 * n;
  } else if (shape == "16x256b") {
    d.shape = Shape::s16x256b;
    registers = 4 * n;
    d.columns = 8 * n;
  } else {
    d.shape = Shape::s16x32bx2;
    d.columns = n;
  }
  if (registers > 128)
    ctx.refuse(s, "." + std::string(shape) + " has no ." + std::string(m.get("num")));
  d.packed = m.has("pack::16b") || m.has("unpack::16b");
  if (d.packed) d.columns *= 2;
  if ((d.shape == Shape::s16x32bx2) != (split != nullptr))
    ctx.refuse(s, "the half-split offset belongs to .16x32bx2, and only to it");
  if (split) {
    if (split->kind != Operand::Kind::Int)
      ctx.refuse(s, "the half-split offset must be an integer constant");
    d.split = static_cast<uint32_t>(split->value);
  }
  return registers;
}

template <bool Max, bool Abs, bool Nan>
uint32_t reduce_f32(uint32_t a, uint32_t b) {
  constexpr uint32_t keep = Abs ? 0x7FFFFFFFu : ~0u;
  return bits_of(canonical(min_max<Max, Nan>(f32_of(a & keep), f32_of(b & keep))));
}
template <bool Max, bool Abs>
Reduce pick_f32(bool nan) {
  return nan ? reduce_f32<Max, Abs, true> : reduce_f32<Max, Abs, false>;
}
template <bool Max>
Reduce pick_reduce(const Match& m) {
  if (m.get("type") == "f32")
    return m.has("abs") ? pick_f32<Max, true>(m.has("NaN")) : pick_f32<Max, false>(m.has("NaN"));
  if (m.get("type") == "u32") return [](uint32_t a, uint32_t b) { return (a < b) != Max ? a : b; };
  return [](uint32_t a, uint32_t b) { return (int32_t(a) < int32_t(b)) != Max ? a : b; };
}

void check_count(DecodeContext& ctx, const Statement& s, size_t have, uint32_t want) {
  if (have != want)
    ctx.refuse(s, std::to_string(have) + " registers where shape and .num ask for " +
                      std::to_string(want));
}

} // namespace

void decode_tcgen05_ld(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<LdStData>();
  const bool reduces = m.has("op");
  const size_t at = reduces ? 2 : 1; // of the address
  uint32_t n =
      read_shape(ctx, s, m, s.operands.size() > at + 1 ? &s.operands[at + 1] : nullptr, *d);
  d->registers = ctx.vector_dst(s.operands[0], RegClass::B32);
  check_count(ctx, s, d->registers.size(), n);
  if (reduces) {
    d->registers.push_back(ctx.dst(s.operands[1], RegClass::B32));
    d->reduce = m.get("op") == "max" ? pick_reduce<true>(m) : pick_reduce<false>(m);
  }
  d->address = mem_operand(ctx, s.operands[at], "tensor");
  ctx.set_operands(inst, d->registers, {d->address.slot});
  inst.data = d;
  inst.aligned = true;
  inst.run = run_ld;
}

void decode_tcgen05_st(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<LdStData>();
  uint32_t n = read_shape(ctx, s, m, s.operands.size() > 2 ? &s.operands[1] : nullptr, *d);
  d->registers = ctx.vector_src(s.operands.back(), RegClass::B32);
  check_count(ctx, s, d->registers.size(), n);
  d->address = mem_operand(ctx, s.operands[0], "tensor");
  std::vector<uint32_t> src = d->registers;
  src.push_back(d->address.slot);
  ctx.set_operands(inst, {}, src);
  inst.data = d;
  inst.aligned = true;
  inst.run = run_st;
}

void decode_tcgen05_wait(DecodeContext& ctx, const Statement&, const Match& m, Inst& inst) {
  ctx.set_operands(inst, {}, {});
  inst.aligned = true;
  inst.run = m.get("what") == "wait::ld" ? run_wait_ld : run_wait_st;
}

} // namespace vgpu::ops
