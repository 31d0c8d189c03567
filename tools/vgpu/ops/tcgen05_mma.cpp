// Decoding and issue of tcgen05.mma. PTX ISA 9.7.16.10.9.1.
#include "tools/vgpu/ops/tcgen05_mma.hpp"

namespace vgpu::ops {

using exec::FaultCode;
using exec::Inst;
using exec::RegClass;
using exec::Step;
using exec::Warp;
using isa::DecodeContext;
using isa::Match;
using ptx::Operand;
using ptx::Statement;
using tensor::MmaKind;

namespace {

struct MmaData {
  MmaKind kind = MmaKind::f16;
  uint32_t group = 1, block = 0;
  MemOperand d, a_tensor, sfa, sfb;
  bool a_in_tensor = false;
  uint32_t a = exec::kNoSlot, b = exec::kNoSlot, idesc = exec::kNoSlot;
  uint32_t enable = exec::kNoSlot;
  bool enable_negated = false;
  std::vector<uint32_t> lanes_off;
  uint32_t scale_d = 0;
};

[[noreturn]] void bad(Warp& w, const Inst& inst, uint32_t bit, const char* checker,
                      const std::string& what) {
  w.fault(inst, bit, FaultCode::illegal_instruction, checker, what);
}

void read_operand(Warp& w, const Inst& inst, uint32_t bit, const char* name, uint64_t bits,
                  bool mn_major, tensor::MmaType type, uint32_t rows, int k,
                  tensor::OperandDesc& desc, OperandSpan& span) {
  std::string error = tensor::decode_tcgen05_desc(bits, desc);
  int size = tensor::type_bits(type);
  if (error.empty()) error = tensor::check_operand(desc, mn_major, size, false);
  if (!error.empty())
    bad(w, inst, bit, "descriptor", std::string(name) + ": " + error + " (" + hex(bits) + ")");
  span = mn_major ? mn_major_span(desc, rows, static_cast<uint32_t>(k),
                                  size <= 8 ? 1 : static_cast<uint32_t>(size) / 8)
                  : k_major_span(desc, rows, 2);
}

// The two top bits carry the byte of the scale word for compilers' own use, see the scale ids of
// the instruction descriptor; the unit looks at lane (16-22) and column (0-8).
uint32_t scale_column(Warp& w, const Inst& inst, uint32_t bit, const char* name,
                      const MemOperand& m, uint32_t lane) {
  uint32_t address = static_cast<uint32_t>(m.value(w, lane));
  if ((address >> 16 & 0x7F) != 0)
    bad(w, inst, bit, "tmem",
        std::string(name) + " at " + hex(address) + ": scale factors start at lane 0");
  return address & 0x1FF;
}

std::unique_ptr<TensorMma> make_mma(Warp& w, const Inst& inst, const MmaData& d, uint32_t l) {
  uint32_t bit = lane_bit(l);
  auto op = std::make_unique<TensorMma>();
  op->origin = w.origin(inst, bit);
  op->origin.unit = "tensor core";
  uint32_t idesc = w.lanes<uint32_t>(d.idesc)[l];
  std::string error = tensor::decode_instr_desc(d.kind, idesc, static_cast<int>(d.group),
                                                static_cast<int>(d.block), op->id);
  if (!error.empty()) bad(w, inst, bit, "idesc", error + " (" + hex(idesc) + ")");
  op->set = cta_set(w.cta.rank, d.group);
  op->block = d.block;
  op->accumulate = w.holds(d.enable, d.enable_negated, bit) != 0;
  op->scale_d = d.scale_d;
  op->d = tensor_place(w, inst, bit, static_cast<uint32_t>(d.d.value(w, l)));
  bool half_lanes = op->set.count == 1 && op->id.m == 64;
  if (op->d.lane != 0 && !(half_lanes && op->d.lane == 16))
    bad(w, inst, bit, "tmem",
        "D starts at lane " + std::to_string(op->d.lane) + "; it must be lane 0" +
            (half_lanes ? " or 16" : ""));
  if (d.a_in_tensor) {
    TensorPlace a = tensor_place(w, inst, bit, static_cast<uint32_t>(d.a_tensor.value(w, l)));
    if (a.lane != 0 || op->rows() != 128)
      bad(w, inst, bit, "tmem",
          "A in tensor memory is modelled for 128 rows a CTA from lane 0 on, not for " +
              std::to_string(op->rows()) + " rows from lane " + std::to_string(a.lane));
    if (op->id.a_mn_major) bad(w, inst, bit, "idesc", "A in tensor memory must be K-major");
    op->a_in_tensor = true;
    op->a_column = a.column;
  } else {
    read_operand(w, inst, bit, "A", w.lanes<uint64_t>(d.a)[l], op->id.a_mn_major, op->id.a,
                 op->rows(), op->id.k, op->a, op->a_span);
  }
  read_operand(w, inst, bit, "B", w.lanes<uint64_t>(d.b)[l], op->id.b_mn_major, op->id.b,
               op->b_rows(), op->id.k, op->b, op->b_span);
  if (d.block != 0) {
    op->sfa = scale_column(w, inst, bit, "scale A", d.sfa, l);
    op->sfb = scale_column(w, inst, bit, "scale B", d.sfb, l);
  }
  for (size_t i = 0; i < d.lanes_off.size(); ++i) {
    op->off[i] = w.lanes<uint32_t>(d.lanes_off[i])[l];
    op->masked |= op->off[i] != 0;
  }
  op->pipe = &w.cta.tensor_pipe;
  op->reserve(w.cluster());
  return op;
}

Step run_mma(Warp& w, const Inst& inst, uint32_t mask) {
  const MmaData& d = *static_cast<const MmaData*>(inst.data);
  check_cta_group(w, inst, mask, d.group);
  each_lane(mask, [&](uint32_t l) { w.cluster().issue(make_mma(w, inst, d, l)); });
  return Step::Next;
}

MmaKind kind_of(std::string_view token) {
  if (token == "kind::tf32") return MmaKind::tf32;
  if (token == "kind::f8f6f4") return MmaKind::f8f6f4;
  if (token == "kind::i8") return MmaKind::i8;
  if (token == "kind::mxf8f6f4") return MmaKind::mxf8f6f4;
  if (token == "kind::mxf4") return MmaKind::mxf4;
  if (token == "kind::mxf4nvf4") return MmaKind::mxf4nvf4;
  return MmaKind::f16;
}

// D, A, B and the instruction descriptor, the same in all forms.
MmaData* read_common(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst,
                     std::vector<uint32_t>& src) {
  auto* d = ctx.make<MmaData>();
  d->kind = kind_of(m.get("kind"));
  d->group = group_number(m.get("group"));
  d->d = mem_operand(ctx, s.operands[0], "tensor");
  src.push_back(d->d.slot);
  d->a_in_tensor = s.operands[1].kind == Operand::Kind::Address;
  if (d->a_in_tensor) {
    d->a_tensor = mem_operand(ctx, s.operands[1], "tensor");
    src.push_back(d->a_tensor.slot);
  } else {
    src.push_back(d->a = ctx.src(s.operands[1], RegClass::B64));
  }
  src.push_back(d->b = ctx.src(s.operands[2], RegClass::B64));
  src.push_back(d->idesc = ctx.src(s.operands[3], RegClass::B32));
  inst.data = d;
  inst.run = run_mma;
  return d;
}

} // namespace

void decode_tcgen05_mma(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  std::vector<uint32_t> src;
  MmaData* d = read_common(ctx, s, m, inst, src);
  size_t next = 4, n = s.operands.size();
  if (s.operands[next].kind == Operand::Kind::Vector) {
    d->lanes_off = ctx.vector_src(s.operands[next++], RegClass::B32);
    if (d->lanes_off.size() != 4 * d->group)
      ctx.refuse(s, "disable-output-lane has " + std::to_string(d->lanes_off.size()) +
                        " words; cta_group::" + std::to_string(d->group) + " takes " +
                        std::to_string(4 * d->group));
    src.insert(src.end(), d->lanes_off.begin(), d->lanes_off.end());
  }
  if (next >= n) ctx.refuse(s, "the enable-input-d predicate is missing");
  src.push_back(d->enable = ctx.pred_src(s.operands[next++], d->enable_negated));
  if (next < n) {
    const Operand& scale = s.operands[next++];
    if (d->kind != MmaKind::f16 && d->kind != MmaKind::tf32)
      ctx.refuse(s, "scale-input-d belongs to kind::f16 and kind::tf32");
    if (scale.kind != Operand::Kind::Int || scale.value > 15)
      ctx.refuse(s, "scale-input-d must be an integer constant in 0..15");
    d->scale_d = static_cast<uint32_t>(scale.value);
  }
  if (next != n) ctx.refuse(s, "too many operands");
  ctx.set_operands(inst, {}, src);
}

void decode_tcgen05_mma_scaled(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  std::vector<uint32_t> src;
  MmaData* d = read_common(ctx, s, m, inst, src);
  std::string_view size = m.get("size");
  // 9.7.16.10.7.1: which scale vector sizes a kind takes. Without one, the only one it has.
  if (d->kind == MmaKind::mxf8f6f4) {
    if (!size.empty() && size != "scale_vec::1X" && size != "block32")
      ctx.refuse(s, "kind::mxf8f6f4 takes .scale_vec::1X or .block32");
    d->block = 32;
  } else if (size == "scale_vec::2X" || size == "block32") {
    d->block = 32;
  } else if (size == "scale_vec::4X" || size == "block16") {
    if (d->kind == MmaKind::mxf4) ctx.refuse(s, "kind::mxf4 takes .scale_vec::2X or .block32");
    d->block = 16;
  } else if (size.empty() && d->kind == MmaKind::mxf4) {
    d->block = 32;
  } else {
    ctx.refuse(s, size.empty() ? "kind::mxf4nvf4 needs a scale vector size"
                               : "this kind takes no ." + std::string(size));
  }
  d->sfa = mem_operand(ctx, s.operands[4], "tensor");
  d->sfb = mem_operand(ctx, s.operands[5], "tensor");
  src.push_back(d->sfa.slot);
  src.push_back(d->sfb.slot);
  src.push_back(d->enable = ctx.pred_src(s.operands[6], d->enable_negated));
  ctx.set_operands(inst, {}, src);
}

} // namespace vgpu::ops
