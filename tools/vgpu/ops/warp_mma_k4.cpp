// mma.sync.m8n8k4 of f16 (PTX ISA 9.7.14.5.1): four products of 8 x 4 and 4 x 8 at once. Product p
// is that of lanes 4p..4p+3 and 4p+16..4p+19; the upper ones hold rows (of B: columns) from 4 on.
//
// Sums as in warp_mma.cpp: exact with C, one rounding.
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/ops/lanes.hpp"

namespace vgpu::ops {

namespace {

struct QuadMma {
  bool a_col = false, b_row = false; // as the opcode says: A by columns, B by rows
  bool c_half = false, d_half = false;
};

struct Place {
  uint32_t row, column;
};
// Where value i of C or D lies, without the 4 rows of the upper lanes.
Place result_place(bool half, uint32_t lane, uint32_t i) {
  if (half) return {lane % 4, i};
  return {(lane & 1) + (i & 2), (i & 4) + (lane & 2) + (i & 1)};
}

float half_at(Warp& w, const uint32_t* slots, uint32_t lane, uint32_t i) {
  return num::f16_to_f32(uint16_t(w.lanes<uint32_t>(slots[i / 2])[lane] >> 16 * (i % 2)));
}

Step quad_mma(Warp& w, const Inst& inst, uint32_t mask) {
  const QuadMma& x = *static_cast<const QuadMma*>(inst.data);
  if (mask != ~0u)
    w.fault(inst, mask, FaultCode::illegal_instruction, "aligned",
            "mma.sync needs all 32 lanes; some have exited or do not exist");
  const uint32_t *a_slots = inst.op + inst.n_dst, *b_slots = a_slots + 2, *c_slots = b_slots + 2;
  float a[4][8][4], b[4][4][8], c[4][8][8];
  uint32_t out[32][8];
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t p = l / 4 % 4, t = l % 4, upper = l / 16 * 4;
      const float u = half_at(w, a_slots, l, i), v = half_at(w, b_slots, l, i);
      (x.a_col ? a[p][i + upper][t] : a[p][t + upper][i]) = u;
      (x.b_row ? b[p][t][i + upper] : b[p][i][t + upper]) = v;
    }
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 8; ++i) {
      const Place at = result_place(x.c_half, l, i);
      c[l / 4 % 4][at.row + l / 16 * 4][at.column] =
          x.c_half ? half_at(w, c_slots, l, i)
                   : std::bit_cast<float>(w.lanes<uint32_t>(c_slots[i])[l]);
    }
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 8; ++i) {
      const Place at = result_place(x.d_half, l, i);
      const uint32_t p = l / 4 % 4, row = at.row + l / 16 * 4;
      double sum = c[p][row][at.column];
      for (uint32_t k = 0; k < 4; ++k) sum += double(a[p][row][k]) * double(b[p][k][at.column]);
      const float f = float(sum);
      out[l][i] = x.d_half ? num::encode(num::Format::f16, sum)
                  : f != f ? num::kF32Nan
                           : std::bit_cast<uint32_t>(f);
    }
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 8; ++i) {
      if (!x.d_half)
        w.lanes<uint32_t>(inst.op[i])[l] = out[l][i];
      else if (i % 2 == 0)
        w.lanes<uint32_t>(inst.op[i / 2])[l] = out[l][i] | out[l][i + 1] << 16;
    }
  ++w.cluster().stats.mma;
  w.cluster().stats.mma_flops += 4 * 2ull * 8 * 8 * 4;
  return Step::Next;
}

} // namespace

void mma_sync_k4(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  auto* x = dc.make<QuadMma>();
  x->a_col = m.get("la") == "col";
  x->b_row = m.get("lb") == "row";
  x->c_half = m.get("c") == "f16";
  x->d_half = m.get("d") == "f16";
  auto check = [&](const std::vector<uint32_t>& slots, size_t wanted, const char* name) {
    if (slots.size() != wanted)
      dc.refuse(s, std::string(name) + " has " + std::to_string(slots.size()) +
                       " registers; the shape takes " + std::to_string(wanted));
  };
  std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], RegClass::B32), src;
  check(dst, x->d_half ? 4 : 8, "D");
  for (size_t i = 1; i < 4; ++i) {
    std::vector<uint32_t> slots = dc.vector_src(s.operands[i], RegClass::B32);
    check(slots, i < 3 ? 2 : x->c_half ? 4 : 8, i == 1 ? "A" : i == 2 ? "B" : "C");
    src.insert(src.end(), slots.begin(), slots.end());
  }
  inst.aligned = true;
  inst.run = quad_mma;
  inst.data = x;
  dc.set_operands(inst, dst, src);
}

} // namespace vgpu::ops
