// ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 - 9.7.14.5.17).
//
// Fragment of an 8x8 matrix of 16-bit elements: lane l holds elements (l / 4, 2 * (l % 4)) and the
// next in one register; with .trans (2 * (l % 4), l / 4) and the one below it.
#include "tools/vgpu/ops/memory.hpp"
#include "tools/vgpu/tensor/unpack.hpp"

namespace vgpu::ops {

namespace {

struct MatrixAccess {
  LaneAddress address;
  Where where = Where::SharedCta;
  uint32_t matrices = 1;
  uint32_t bits = 8; // of an element in memory: 4 and 6 bits become bytes, lowest bits first
};

// Lanes that give row addresses.
uint32_t row_lanes(uint32_t rows) { return rows == 32 ? ~0u : (1u << rows) - 1; }

template <bool Trans>
Step load_matrix(Warp& w, const Inst& i, uint32_t mask) {
  const MatrixAccess& x = *static_cast<const MatrixAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask & row_lanes(8 * x.matrices), x.where, x.address, 16, 16, false, false,
                p);
  for (uint32_t j = 0; j < x.matrices; ++j) {
    uint16_t rows[8][8];
    for (uint32_t r = 0; r < 8; ++r) std::memcpy(rows[r], p.at[8 * j + r], 16);
    uint32_t* d = w.lanes<uint32_t>(i.op[j]);
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t a = l / 4, b = 2 * (l % 4);
      d[l] = Trans ? rows[b][a] | uint32_t(rows[b + 1][a]) << 16
                   : rows[a][b] | uint32_t(rows[a][b + 1]) << 16;
    }
  }
  return Step::Next;
}

// A row of 16 bytes. 4-bit values come to the low halves of their bytes (CUTLASS shifts them before
// it multiplies), 6-bit ones to the low bits.
const uint8_t* unpacked_row(const MatrixAccess& x, const uint8_t* at, uint8_t (&bytes)[16]) {
  if (x.bits == 8) return at;
  tensor::unpack_unit(x.bits, 0, at, bytes);
  return bytes;
}

// 8x16 bytes: a register of lane l holds elements (l / 4, 4 * (l % 4) + 0..3). Figure 106.
Step load_matrix_8x16(Warp& w, const Inst& i, uint32_t mask) {
  const MatrixAccess& x = *static_cast<const MatrixAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask & row_lanes(8 * x.matrices), x.where, x.address, 16, 16, false, false,
                p);
  for (uint32_t j = 0; j < x.matrices; ++j) {
    uint32_t* d = w.lanes<uint32_t>(i.op[j]);
    for (uint32_t r = 0; r < 8; ++r) {
      uint8_t bytes[16];
      std::memcpy(&d[4 * r], unpacked_row(x, p.at[8 * j + r], bytes), 16);
    }
  }
  return Step::Next;
}

// 16x16 bytes, transposed: register 0 of lane l holds elements (4 * (l % 4) + 0..3, l / 4),
// register 1 those of column l / 4 + 8. Figure 105.
Step load_matrix_b8(Warp& w, const Inst& i, uint32_t mask) {
  const MatrixAccess& x = *static_cast<const MatrixAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask & row_lanes(16 * x.matrices), x.where, x.address, 16, 16, false, false,
                p);
  for (uint32_t j = 0; j < 2 * x.matrices; ++j) {
    uint32_t* d = w.lanes<uint32_t>(i.op[j]);
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t row = 4 * (l % 4), column = l / 4 + 8 * (j & 1), v = 0;
      for (uint32_t k = 0; k < 4; ++k) {
        uint8_t bytes[16];
        v |= uint32_t(unpacked_row(x, p.at[16 * (j / 2) + row + k], bytes)[column]) << (8 * k);
      }
      d[l] = v;
    }
  }
  return Step::Next;
}

// 16x8 bytes, transposed: the fragment of an m16n8 result, rows of 16 bytes in memory. Byte 0 of
// lane l is element (l / 4, 2 * (l % 4)), byte 1 the one right of it, bytes 2 and 3 lie 8 below.
Step store_matrix_b8(Warp& w, const Inst& i, uint32_t mask) {
  const MatrixAccess& x = *static_cast<const MatrixAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask & row_lanes(8 * x.matrices), x.where, x.address, 16, 16, true, false, p);
  for (uint32_t j = 0; j < x.matrices; ++j) {
    const uint32_t* a = w.lanes<uint32_t>(i.op[j]);
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t k = 0; k < 4; ++k)
        p.at[8 * j + 2 * (l % 4) + k % 2][l / 4 + 8 * (k / 2)] = uint8_t(a[l] >> 8 * k);
  }
  return Step::Next;
}

template <bool Trans>
Step store_matrix(Warp& w, const Inst& i, uint32_t mask) {
  const MatrixAccess& x = *static_cast<const MatrixAccess*>(i.data);
  LanePointers p;
  lane_pointers(w, i, mask & row_lanes(8 * x.matrices), x.where, x.address, 16, 16, true, false, p);
  for (uint32_t j = 0; j < x.matrices; ++j) {
    uint16_t rows[8][8];
    const uint32_t* a = w.lanes<uint32_t>(i.op[j]);
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t r = l / 4, c = 2 * (l % 4);
      (Trans ? rows[c][r] : rows[r][c]) = uint16_t(a[l]);
      (Trans ? rows[c + 1][r] : rows[r][c + 1]) = uint16_t(a[l] >> 16);
    }
    for (uint32_t r = 0; r < 8; ++r) std::memcpy(p.at[8 * j + r], rows[r], 16);
  }
  return Step::Next;
}

Step move_matrix(Warp& w, const Inst& i, uint32_t) {
  const uint32_t* a = w.lanes<uint32_t>(i.op[1]);
  uint16_t m[8][8];
  for (uint32_t l = 0; l < 32; ++l) {
    m[l / 4][2 * (l % 4)] = uint16_t(a[l]);
    m[l / 4][2 * (l % 4) + 1] = uint16_t(a[l] >> 16);
  }
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  for (uint32_t l = 0; l < 32; ++l)
    d[l] = m[2 * (l % 4)][l / 4] | uint32_t(m[2 * (l % 4) + 1][l / 4]) << 16;
  return Step::Next;
}

// All rows of the matrices come from lanes, so the whole warp takes part.
template <Handler H>
Step whole_warp(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != ~0u)
    w.fault(i, mask, FaultCode::illegal_instruction, "aligned",
            "a matrix instruction needs all 32 lanes; some have exited or do not exist");
  return H(w, i, mask);
}

MatrixAccess* access(DecodeContext& dc, const Statement& s, const Match& m, const Operand& at,
                     Inst& inst) {
  auto* x = dc.make<MatrixAccess>();
  std::string_view n = m.get("num");
  x->matrices = n == "x4" ? 4 : n == "x2" ? 2 : 1;
  x->where = where_of(dc, s, m.get("space"), at);
  x->address = lane_address(dc, at);
  inst.aligned = true;
  inst.data = x;
  return x;
}
void check_registers(DecodeContext& dc, const Statement& s, size_t have, size_t wanted) {
  if (have != wanted)
    dc.refuse(s, "the vector has " + std::to_string(have) + " registers; the matrices take " +
                     std::to_string(wanted));
}

} // namespace

void ldmatrix_b16(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  MatrixAccess* x = access(dc, s, m, s.operands[1], inst);
  std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], RegClass::B32);
  check_registers(dc, s, dst.size(), x->matrices);
  inst.run = m.has("trans") ? whole_warp<load_matrix<true>> : whole_warp<load_matrix<false>>;
  dc.set_operands(inst, dst, {x->address.slot});
}

void ldmatrix_b8(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  MatrixAccess* x = access(dc, s, m, s.operands[1], inst);
  if (m.has("src")) x->bits = m.get("src") == "b4x16_p64" ? 4 : 6;
  const bool square = m.get("shape") != "m8n16";
  std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], RegClass::B32);
  check_registers(dc, s, dst.size(), (square ? 2 : 1) * x->matrices);
  inst.run = square ? whole_warp<load_matrix_b8> : whole_warp<load_matrix_8x16>;
  dc.set_operands(inst, dst, {x->address.slot});
}

void stmatrix_b8(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  MatrixAccess* x = access(dc, s, m, s.operands[0], inst);
  std::vector<uint32_t> src = dc.vector_src(s.operands[1], RegClass::B32);
  check_registers(dc, s, src.size(), x->matrices);
  src.push_back(x->address.slot);
  inst.run = whole_warp<store_matrix_b8>;
  dc.set_operands(inst, {}, src);
}

void stmatrix_b16(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  MatrixAccess* x = access(dc, s, m, s.operands[0], inst);
  std::vector<uint32_t> src = dc.vector_src(s.operands[1], RegClass::B32);
  check_registers(dc, s, src.size(), x->matrices);
  src.push_back(x->address.slot);
  inst.run = m.has("trans") ? whole_warp<store_matrix<true>> : whole_warp<store_matrix<false>>;
  dc.set_operands(inst, {}, src);
}

void movmatrix_b16(DecodeContext& dc, const Statement& s, const Match&, Inst& inst) {
  inst.aligned = true;
  inst.run = whole_warp<move_matrix>;
  same_type(dc, s, "b32", inst);
}

} // namespace vgpu::ops
