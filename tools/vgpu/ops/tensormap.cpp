// tensormap.replace (PTX ISA 9.7.9.28) and tensormap.cp_fenceproxy (9.7.13.16).
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/tensor/tensor_map.hpp"

#include <cstring>

namespace vgpu::ops {

using tensor::MapField;

namespace {

struct ReplaceData {
  MemOperand map;
  MapField field = MapField::global_address;
  int ordinal = 0;
  uint32_t value = exec::kNoSlot;
  bool wide = false;
};

// The map at a lane's address, in shared or in global memory.
uint8_t* map_bytes(Warp& w, const Inst& inst, const MemOperand& m, uint32_t lane, bool write) {
  Access a;
  a.write = write;
  a.bytes = tensor::kTensorMapBytes;
  a.alignment = 64;
  using Mode = MemOperand::Mode;
  if (m.mode == Mode::Global) {
    a.address = m.value(w, lane);
  } else if (m.mode == Mode::Generic) {
    a.space = w.cluster().resolve(m.value(w, lane), a.cta, a.address);
    if (a.space != Space::Global && a.space != Space::Shared)
      w.fault(inst, lane_bit(lane), FaultCode::invalid_address_space, "tensormap",
              "a tensor map is replaced in global or shared memory only");
  } else {
    SharedPlace p = shared_place(w, inst, m, lane);
    a.space = Space::Shared;
    a.cta = p.cta;
    a.address = p.offset;
  }
  return w.cluster().touch(a, w.origin(inst, lane_bit(lane)));
}

Step run_replace(Warp& w, const Inst& inst, uint32_t mask) {
  const ReplaceData& d = *static_cast<const ReplaceData*>(inst.data);
  each_lane(mask, [&](uint32_t l) {
    uint8_t* p = map_bytes(w, inst, d.map, l, true);
    tensor::TensorMap map;
    std::string error = tensor::load_to_replace(p, map);
    uint64_t value = d.wide ? w.lanes<uint64_t>(d.value)[l] : w.lanes<uint32_t>(d.value)[l];
    if (error.empty()) error = tensor::replace_field(map, d.field, d.ordinal, value);
    if (!error.empty())
      w.fault(inst, lane_bit(l), FaultCode::illegal_instruction, "tensormap", error);
    tensor::store(map, p);
  });
  return Step::Next;
}

// The lanes of the warp copy together; one copy has the same effect.
Step run_cp_fenceproxy(Warp& w, const Inst& inst, uint32_t mask) {
  const auto* maps = static_cast<const MemOperand*>(inst.data);
  uint32_t l = static_cast<uint32_t>(std::countr_zero(mask));
  exec::Origin origin = w.origin(inst, mask);
  SharedPlace from = shared_place(w, inst, maps[1], l);
  const uint8_t* p = w.cluster().touch(
      Access{Space::Shared, Proxy::Generic, false, false, from.cta, from.offset, 128, 128, nullptr},
      origin);
  uint8_t* q = w.cluster().touch(Access{Space::Global, Proxy::Generic, true, false, 0,
                                        global_place(w, inst, maps[0], l), 128, 128, nullptr},
                                 origin);
  std::memcpy(q, p, 128);
  return Step::Next;
}

struct FieldName {
  std::string_view name;
  MapField field;
  bool ordinal, wide, constant;
};
constexpr FieldName kFields[] = {
    {"global_address", MapField::global_address, false, true, false},
    {"rank", MapField::rank, false, false, false},
    {"box_dim", MapField::box_dim, true, false, false},
    {"global_dim", MapField::global_dim, true, false, false},
    {"global_stride", MapField::global_stride, true, true, false},
    {"element_stride", MapField::element_stride, true, false, false},
    {"elemtype", MapField::elemtype, false, false, true},
    {"interleave_layout", MapField::interleave_layout, false, false, true},
    {"swizzle_mode", MapField::swizzle_mode, false, false, true},
    {"swizzle_atomicity", MapField::swizzle_atomicity, false, false, true},
    {"fill_mode", MapField::fill_mode, false, false, true},
};

} // namespace

void decode_tensormap_replace(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  auto* d = ctx.make<ReplaceData>();
  for (const FieldName& f : kFields) {
    if (f.name != m.get("field")) continue;
    d->field = f.field;
    d->wide = m.get("type") == "b64";
    if (d->wide != f.wide)
      ctx.refuse(s, "field ." + std::string(f.name) + " has type ." + (f.wide ? "b64" : "b32"));
    if (s.operands.size() != (f.ordinal ? 3u : 2u))
      ctx.refuse(s, "field ." + std::string(f.name) +
                        (f.ordinal ? " needs an ordinal" : " takes no ordinal"));
    if (f.ordinal) {
      if (s.operands[1].kind != Operand::Kind::Int || s.operands[1].value > 4)
        ctx.refuse(s, "the ordinal must be an integer constant in 0..4");
      d->ordinal = static_cast<int>(s.operands[1].value);
    }
    if (f.constant && s.operands.back().kind != Operand::Kind::Int)
      ctx.refuse(s, "the value of ." + std::string(f.name) + " must be an integer constant");
  }
  d->map = mem_operand(ctx, s.operands[0], m.get("space"));
  d->value = ctx.src(s.operands.back(), d->wide ? RegClass::B64 : RegClass::B32);
  ctx.set_operands(inst, {}, {d->map.slot, d->value});
  inst.data = d;
  inst.run = run_replace;
}

void decode_tensormap_cp_fenceproxy(DecodeContext& ctx, const Statement& s, const Match&,
                                    Inst& inst) {
  struct Maps {
    MemOperand map[2];
  };
  auto* d = ctx.make<Maps>();
  d->map[0] = mem_operand(ctx, s.operands[0], "global");
  d->map[1] = mem_operand(ctx, s.operands[1], "shared::cta");
  if (s.operands[2].kind != Operand::Kind::Int || s.operands[2].value != 128)
    ctx.refuse(s, "the size must be the constant 128");
  ctx.set_operands(inst, {}, {d->map[0].slot, d->map[1].slot});
  inst.data = d->map;
  inst.aligned = true;
  inst.run = run_cp_fenceproxy;
}

} // namespace vgpu::ops
