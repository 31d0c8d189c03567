// Decoding and issue of tcgen05.mma, .sp and .ws. PTX ISA 9.7.16.10.9.
//
// Collectors keep an operand near the tensor core from a fill to its last use. What is read anew
// here is the same as long as the fill is valid, which the ISA asks for: they change no result.
#include "tools/vgpu/ops/tcgen05_mma.hpp"

namespace vgpu::ops {

using tensor::MmaKind;

namespace {

struct MmaData {
  MmaKind kind = MmaKind::f16;
  uint32_t group = 1;
  tensor::InstrForm form;
  MemOperand d, a_tensor, sfa, sfb, codes;
  bool a_in_tensor = false, shifts_a = false;
  uint32_t a = exec::kNoSlot, b = exec::kNoSlot, idesc = exec::kNoSlot;
  uint32_t enable = exec::kNoSlot;
  bool enable_negated = false;
  std::vector<uint32_t> lanes_off;
  uint32_t scale_d = 0;
  uint32_t zero_columns = exec::kNoSlot;
  bool reuses_b = false; // the collector of .ws
};

[[noreturn]] void bad(Warp& w, const Inst& inst, uint32_t bit, const char* checker,
                      const std::string& what) {
  w.fault(inst, bit, FaultCode::illegal_instruction, checker, what);
}

void read_operand(Warp& w, const Inst& inst, uint32_t bit, const char* name, uint64_t bits,
                  bool mn_major, tensor::MmaType type, uint32_t rows, uint32_t k,
                  uint32_t row_bytes, tensor::OperandDesc& desc, OperandSpan& span) {
  std::string error = tensor::decode_tcgen05_desc(bits, desc);
  int size = tensor::type_bits(type);
  if (error.empty()) error = tensor::check_operand(desc, mn_major, size, false);
  if (error.empty() && !mn_major) error = tensor::check_row(desc, row_bytes);
  if (!error.empty())
    bad(w, inst, bit, "descriptor", std::string(name) + ": " + error + " (" + hex(bits) + ")");
  span = mn_major ? mn_major_span(desc, rows, k, size <= 8 ? 1 : static_cast<uint32_t>(size) / 8)
                  : k_major_span(desc, rows, row_bytes / 16);
}

// The two top bits carry the byte of the scale word for compilers' own use, see the scale ids of
// the instruction descriptor; the unit looks at lane (16-22) and column (0-8).
uint32_t scale_column(Warp& w, const Inst& inst, uint32_t bit, const char* name,
                      const MemOperand& m, uint32_t lane) {
  uint32_t address = static_cast<uint32_t>(m.value(w, lane));
  if ((address >> 16 & 0x7F) != 0)
    bad(w, inst, bit, "tmem",
        std::string(name) + " at " + hex(address) + ": scale factors start at lane 0");
  const uint32_t column = address & 0x1FF;
  if (column % kScaleGrain != 0)
    bad(w, inst, bit, "tmem",
        std::string(name) + " at column " + std::to_string(column) +
            ": scale factors start at even columns; the nearest is " + std::to_string(column - 1));
  return column;
}

// Tensor memory from the lane of D on, in columns: A or the metadata.
uint32_t lanes_with_d(Warp& w, const Inst& inst, uint32_t bit, const char* name,
                      const TensorMma& op, const MemOperand& m, uint32_t lane) {
  TensorPlace p = tensor_place(w, inst, bit, static_cast<uint32_t>(m.value(w, lane)));
  if (p.lane != op.d.lane)
    bad(w, inst, bit, "tmem",
        std::string(name) + " starts at lane " + std::to_string(p.lane) +
            "; it must lie in the lanes of D, from " + std::to_string(op.d.lane) + " on");
  return p.column;
}

void read_zero_columns(Warp& w, const Inst& inst, const MmaData& d, uint32_t l, TensorMma& op) {
  const uint64_t bits = w.lanes<uint64_t>(d.zero_columns)[l];
  std::string error = tensor::decode_zero_columns(bits, op.id, op.zero_columns);
  // Only a B that stays in a collector has to know how far it may be shifted.
  if (error.empty() && d.reuses_b && op.zero_columns.shift > uint32_t(op.id.max_shift))
    error = "zero-column mask: shift " + std::to_string(op.zero_columns.shift) +
            " of a B in a collector is above the instruction descriptor's maximum of " +
            std::to_string(op.id.max_shift);
  if (!error.empty()) bad(w, inst, lane_bit(l), "idesc", error + " (" + hex(bits) + ")");
}

std::unique_ptr<TensorMma> make_mma(Warp& w, const Inst& inst, const MmaData& d, uint32_t l) {
  uint32_t bit = lane_bit(l);
  auto op = std::make_unique<TensorMma>();
  op->origin = w.origin(inst, bit);
  op->origin.unit = "tensor core";
  uint32_t idesc = w.lanes<uint32_t>(d.idesc)[l];
  std::string error = tensor::decode_instr_desc(d.kind, idesc, d.form, op->id);
  if (!error.empty()) bad(w, inst, bit, "idesc", error + " (" + hex(idesc) + ")");
  op->set = cta_set(w.cta.rank, d.group);
  op->scales = static_cast<uint32_t>(d.form.scales);
  op->sparse = d.form.sparse;
  op->weights = d.form.weights;
  op->accumulate = w.holds(d.enable, d.enable_negated, bit) != 0;
  op->scale_d = d.scale_d;
  op->d = tensor_place(w, inst, bit, static_cast<uint32_t>(d.d.value(w, l)));
  bool half_lanes = op->set.count == 1 && op->id.m == 64 && !op->weights;
  if (op->d.lane != 0 && !(half_lanes && op->d.lane == 16))
    bad(w, inst, bit, "tmem",
        "D starts at lane " + std::to_string(op->d.lane) + "; it must be lane 0" +
            (half_lanes ? " or 16" : ""));
  if (d.zero_columns != exec::kNoSlot) read_zero_columns(w, inst, d, l, *op);
  if (d.a_in_tensor) {
    if (op->id.a_mn_major) bad(w, inst, bit, "idesc", "A in tensor memory must be K-major");
    op->a_in_tensor = true;
    op->a_column = lanes_with_d(w, inst, bit, "A", *op, d.a_tensor, l);
    op->shifts_a = d.shifts_a;
    if (op->shifts_a && op->rows() != 128 && op->id.m != 128)
      bad(w, inst, bit, "idesc", ".ashift needs M = 128 or 256");
  } else {
    read_operand(w, inst, bit, "A", w.lanes<uint64_t>(d.a)[l], op->id.a_mn_major, op->id.a,
                 op->rows(), op->a_k(), 32, op->a, op->a_span);
  }
  read_operand(w, inst, bit, "B", w.lanes<uint64_t>(d.b)[l], op->id.b_mn_major, op->id.b,
               op->b_rows(), static_cast<uint32_t>(op->id.k), op->b_row_bytes(), op->b, op->b_span);
  if (op->sparse) op->codes = lanes_with_d(w, inst, bit, "the metadata of A", *op, d.codes, l);
  if (op->scales != 0) {
    op->sfa = scale_column(w, inst, bit, "scale A", d.sfa, l);
    op->sfb = scale_column(w, inst, bit, "scale B", d.sfb, l);
  }
  for (size_t i = 0; i < d.lanes_off.size(); ++i) {
    op->off[i] = w.lanes<uint32_t>(d.lanes_off[i])[l];
    op->masked |= op->off[i] != 0;
  }
  op->pipe = &w.cta.tensor_pipe;
  op->strict = strict_order(w.cluster());
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

// D, A, B, the metadata of .sp and the instruction descriptor, the same in all forms; `next` is the
// operand after them.
MmaData* read_common(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst,
                     std::vector<uint32_t>& src, size_t& next) {
  auto* d = ctx.make<MmaData>();
  d->kind = kind_of(m.get("kind"));
  d->group = group_number(m.get("group"));
  d->form.cta_group = static_cast<int>(d->group);
  d->form.sparse = m.has("sp");
  d->form.weights = m.has("ws");
  d->shifts_a = m.has("ashift");
  d->reuses_b = !m.get("collector").empty() && !m.get("collector").ends_with("discard");
  auto tensor = [&](MemOperand& at) {
    at = mem_operand(ctx, s.operands[next++], "tensor");
    src.push_back(at.slot);
  };
  tensor(d->d);
  d->a_in_tensor = s.operands[next].kind == Operand::Kind::Address;
  if (d->a_in_tensor)
    tensor(d->a_tensor);
  else
    src.push_back(d->a = ctx.src(s.operands[next++], RegClass::B64));
  src.push_back(d->b = ctx.src(s.operands[next++], RegClass::B64));
  if (d->form.sparse) tensor(d->codes);
  src.push_back(d->idesc = ctx.src(s.operands[next++], RegClass::B32));
  inst.data = d;
  inst.run = run_mma;
  return d;
}

} // namespace

void decode_tcgen05_mma(DecodeContext& ctx, const Statement& s, const Match& m, Inst& inst) {
  std::vector<uint32_t> src;
  size_t next = 0, n = s.operands.size();
  MmaData* d = read_common(ctx, s, m, inst, src, next);
  if (next < n && s.operands[next].kind == Operand::Kind::Vector) {
    d->lanes_off = ctx.vector_src(s.operands[next++], RegClass::B32);
    if (d->lanes_off.size() != 4 * d->group)
      ctx.refuse(s, "disable-output-lane has " + std::to_string(d->lanes_off.size()) +
                        " words; cta_group::" + std::to_string(d->group) + " takes " +
                        std::to_string(4 * d->group));
    src.insert(src.end(), d->lanes_off.begin(), d->lanes_off.end());
  }
  if (next >= n) ctx.refuse(s, "the enable-input-d predicate is missing");
  src.push_back(d->enable = ctx.pred_src(s.operands[next++], d->enable_negated));
  if (next < n && d->form.weights) {
    src.push_back(d->zero_columns = ctx.src(s.operands[next++], RegClass::B64));
  } else if (next < n) {
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
  size_t next = 0;
  MmaData* d = read_common(ctx, s, m, inst, src, next);
  std::string_view size = m.get("size");
  // 9.7.16.10.7.1: which scale vector sizes a kind takes. Without one, the only one it has. With a
  // sparse A the same number of scales covers twice the K.
  if (d->kind == MmaKind::mxf8f6f4) {
    if (!size.empty() && size != "scale_vec::1X" && size != "block32")
      ctx.refuse(s, "kind::mxf8f6f4 takes .scale_vec::1X or .block32");
    d->form.scales = 1;
  } else if (size == "scale_vec::2X" || size == "block32") {
    d->form.scales = 2;
  } else if (size == "scale_vec::4X" || size == "block16") {
    if (d->kind == MmaKind::mxf4) ctx.refuse(s, "kind::mxf4 takes .scale_vec::2X or .block32");
    d->form.scales = 4;
  } else if (size.empty() && d->kind == MmaKind::mxf4) {
    d->form.scales = 2;
  } else {
    ctx.refuse(s, size.empty() ? "kind::mxf4nvf4 needs a scale vector size"
                               : "this kind takes no ." + std::string(size));
  }
  d->sfa = mem_operand(ctx, s.operands[next], "tensor");
  d->sfb = mem_operand(ctx, s.operands[next + 1], "tensor");
  src.push_back(d->sfa.slot);
  src.push_back(d->sfb.slot);
  src.push_back(d->enable = ctx.pred_src(s.operands[next + 2], d->enable_negated));
  ctx.set_operands(inst, {}, src);
}

} // namespace vgpu::ops
