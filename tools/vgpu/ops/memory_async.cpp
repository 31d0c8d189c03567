// st.async and red.async (PTX ISA 9.7.9.12, 9.7.13.7): one operation for each lane, which stores or
// reduces in shared memory of the cluster and then completes bytes on an mbarrier there; or, with
// release semantics, works on global memory and signals nothing.
#include "tools/vgpu/ops/memory.hpp"

#include <atomic>
#include <sstream>

namespace vgpu::ops {

namespace {

enum class Op : uint8_t { store, add, inc, dec, min, max, band, bor, bxor };

struct AsyncAccess {
  LaneAddress address, barrier;
  Where where = Where::SharedCluster;
  bool global = false; // no barrier
  bool is_signed = false;
  Op op = Op::store;
  uint32_t elements = 1, bytes = 4; // of an element
};

template <class T>
T reduce(Op op, T old, T b, bool is_signed) {
  using S = std::make_signed_t<T>;
  bool less = is_signed ? S(b) < S(old) : b < old;
  switch (op) {
  case Op::store:
    return b;
  case Op::add:
    return T(old + b);
  case Op::inc:
    return old >= b ? 0 : T(old + 1);
  case Op::dec:
    return old == 0 || old > b ? b : T(old - 1);
  case Op::min:
    return less ? b : old;
  case Op::max:
    return less ? old : b;
  case Op::band:
    return old & b;
  case Op::bor:
    return old | b;
  case Op::bxor:
    return old ^ b;
  }
  return old;
}

class LaneOp : public AsyncOp {
public:
  bool perform(Cluster& cluster) override {
    Access a;
    a.space = global ? Space::Global : Space::Shared;
    a.write = true;
    a.atomic = op != Op::store;
    a.cta = cta;
    a.address = address;
    a.bytes = count;
    a.alignment = count;
    a.op = this;
    uint8_t* p = cluster.touch(a, origin);
    for (uint32_t k = 0; k < count; k += element) {
      if (element == 8)
        apply<uint64_t>(p + k, data + k);
      else if (element == 4)
        apply<uint32_t>(p + k, data + k);
      else
        std::memcpy(p + k, data + k, element);
    }
    if (!global) cluster.mbarrier_complete_tx(barrier_cta, barrier_offset, count, origin);
    return true;
  }
  std::string describe() const override {
    std::ostringstream s;
    s << (op == Op::store ? "asynchronous store" : "asynchronous reduction") << " of " << count
      << " bytes at " << (global ? "global" : "shared") << " 0x" << std::hex << address;
    return s.str();
  }

  bool global = false, is_signed = false;
  Op op = Op::store;
  uint32_t cta = 0, barrier_cta = 0, barrier_offset = 0, count = 0, element = 4;
  uint64_t address = 0;
  uint8_t data[16] = {};

private:
  template <class T>
  void apply(uint8_t* p, const uint8_t* value) {
    T b;
    std::memcpy(&b, value, sizeof b);
    std::atomic_ref<T> cell(*reinterpret_cast<T*>(p));
    T old = cell.load();
    while (!cell.compare_exchange_weak(old, reduce<T>(op, old, b, is_signed))) {
    }
  }
};

// op: values of the elements, address, barrier.
Step issue_lanes(Warp& w, const Inst& i, uint32_t mask) {
  const AsyncAccess& x = *static_cast<const AsyncAccess*>(i.data);
  if (!x.global && w.cluster().ctas.size() == 1 && !w.cluster().spec.cluster_launch)
    w.fault(i, mask, FaultCode::illegal_instruction, "clusters",
            "asynchronous stores and reductions of shared memory do not run without a cluster: the "
            "launch must name one, if only of one CTA (an H200 ends with an illegal instruction)");
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m)), offset = 0;
    auto op = std::make_unique<LaneOp>();
    op->origin = w.origin(i, 1u << l);
    op->origin.unit = "asynchronous store";
    op->global = x.global;
    op->is_signed = x.is_signed;
    op->op = x.op;
    op->element = x.bytes;
    op->count = x.bytes * x.elements;
    for (uint32_t k = 0; k < x.elements; ++k) {
      const uint8_t* v = w.lanes<uint8_t>(i.op[k]) + l * (x.bytes == 8 ? 8 : 4);
      std::memcpy(op->data + k * x.bytes, v, x.bytes);
    }
    if (x.global) {
      LanePointers p;
      lane_pointers(w, i, 1u << l, Where::Global, x.address, op->count, op->count, true, false, p);
      op->address = w.lanes<uint64_t>(x.address.slot)[l] + uint64_t(x.address.offset);
      op->ranges.push_back({Space::Global, true, 0, op->address, op->address + op->count});
    } else {
      shared_target(w, i, l, x.where, x.address, op->cta, offset);
      op->address = offset;
      shared_target(w, i, l, x.where, x.barrier, op->barrier_cta, op->barrier_offset);
      if (op->cta != op->barrier_cta)
        w.fault(i, 1u << l, FaultCode::launch_failed, "barriers",
                "the destination lies in CTA " + std::to_string(op->cta) +
                    ", its mbarrier in CTA " + std::to_string(op->barrier_cta) +
                    "; both must lie in the same CTA");
      if (offset % op->count)
        w.fault(i, 1u << l, FaultCode::misaligned_address, "alignment",
                "shared offset " + std::to_string(offset) + " is not a multiple of " +
                    std::to_string(op->count));
      // Reductions of several threads may meet in one word: they order themselves.
      if (x.op == Op::store)
        op->ranges.push_back({Space::Shared, true, op->cta, offset, uint64_t(offset) + op->count});
    }
    w.cluster().issue(std::move(op));
  }
  return Step::Next;
}

Op op_of(std::string_view t) {
  return t == "add"   ? Op::add
         : t == "inc" ? Op::inc
         : t == "dec" ? Op::dec
         : t == "min" ? Op::min
         : t == "max" ? Op::max
         : t == "and" ? Op::band
         : t == "or"  ? Op::bor
         : t == "xor" ? Op::bxor
                      : Op::store;
}

void decode(DecodeContext& dc, const Statement& s, const Match& m, bool global, Inst& inst) {
  std::string_view t = m.get("type"), v = m.get("vec");
  auto* x = dc.make<AsyncAccess>();
  x->global = global;
  x->where = m.has("space") ? Where::SharedCluster : Where::Generic;
  x->op = op_of(m.get("op"));
  x->is_signed = t[0] == 's';
  x->bytes = type_bytes(t);
  x->elements = v == "v2" ? 2 : v == "v4" ? 4 : 1;
  x->address = lane_address(dc, s.operands[0]);
  RegClass cls = class_of(t);
  std::vector<uint32_t> src = x->elements > 1 ? dc.vector_src(s.operands[1], cls)
                                              : std::vector<uint32_t>{source(dc, s.operands[1], t)};
  if (src.size() != x->elements) dc.refuse(s, "the vector has a different number of elements");
  if (x->bytes * x->elements > 16) dc.refuse(s, "an asynchronous store moves at most 16 bytes");
  src.push_back(x->address.slot);
  if (!global) {
    x->barrier = lane_address(dc, s.operands[2]);
    src.push_back(x->barrier.slot);
  } else if (!x->address.wide) {
    dc.refuse(s, "a global address has 64 bits");
  }
  inst.run = issue_lanes;
  inst.data = x;
  dc.set_operands(inst, {}, src);
}

} // namespace

void async_shared(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode(dc, s, m, false, inst);
}

void async_global(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  decode(dc, s, m, true, inst);
}

} // namespace vgpu::ops
