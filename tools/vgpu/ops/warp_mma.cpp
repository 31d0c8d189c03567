// mma.sync (PTX ISA 9.7.14.5) and mma.sp (9.7.14.6).
//
// Fragments of all shapes follow one rule. A 32-bit register holds p elements (one of 64 bits);
// g = lane / 4, t = lane % 4:
//   A: register r holds row g + 8 * (r % 2) (8-row shapes: g), columns 4p * (r / 2) + p * t +
//   0..p-1 B: register r holds column g, rows 4p * r + p * t + 0..p-1 C, D: value i holds row g + 8
//   * (i / 2), column 2 * t + i % 2
// A sparse A lies as a dense one of half of K does, and a lane's metadata says which values of K
// those are (tensor/sparse.hpp); the others are not multiplied.
#include "tools/vgpu/ops/warp_mma.hpp"
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/ops/lanes.hpp"
#include "tools/vgpu/tensor/sparse.hpp"

namespace vgpu::ops {

namespace {

struct Mma {
  uint32_t m = 16, k = 16;
  Element a = Element::f16, b = Element::f16;
  Sum sum;
  bool sparse = false;
  tensor::CodeSet codes = tensor::CodeSet::any_pair; // of a sparse A, with the next
  uint32_t selector = 0;
  uint32_t a_registers = 4, b_registers = 2, c_registers = 4;
  uint32_t terms() const { return sparse ? k / 2 : k; } // of a sum
};

constexpr uint32_t kMaxK = 256;
struct Panels {
  double a[16][kMaxK], b[8][kMaxK];
  uint8_t kept[16][kMaxK / 2]; // of a sparse A: K of its values
  double picked[kMaxK / 2];
};

// Of elements that are known where this is compiled, or of any.
template <class Type>
void gather_one(Warp& w, const Inst& i, const Mma& x, bool is_a, Type e, Panels& p) {
  const uint32_t* src = i.op + i.n_dst;
  const uint32_t bits = element_bits(e), per = bits == 64 ? 1 : 32 / bits;
  const uint32_t n = is_a ? x.a_registers : x.b_registers, first = is_a ? 0 : x.a_registers;
  for (uint32_t r = 0; r < n; ++r)
    for (uint32_t l = 0; l < 32; ++l) {
      const uint64_t word =
          bits == 64 ? w.lanes<uint64_t>(src[first + r])[l] : w.lanes<uint32_t>(src[first + r])[l];
      const uint32_t g = l / 4, t = l % 4;
      const uint32_t block = is_a && x.m == 16 ? r / 2 : r;
      double* row = is_a ? p.a[g + (x.m == 16 ? 8 * (r % 2) : 0)] : p.b[g];
      for (uint32_t k = 0; k < per; ++k)
        row[4 * per * block + per * t + k] = value_of(e, bits == 64 ? word : word >> (bits * k));
    }
}

void gather(Warp& w, const Inst& i, const Mma& x, Panels& p) {
  for (const bool is_a : {true, false}) {
    const Element e = is_a ? x.a : x.b;
    if (e == Element::f16)
      gather_one(w, i, x, is_a, std::integral_constant<Element, Element::f16>(), p);
    else if (e == Element::bf16)
      gather_one(w, i, x, is_a, std::integral_constant<Element, Element::bf16>(), p);
    else
      gather_one(w, i, x, is_a, e, p);
  }
}

void read_codes(Warp& w, const Inst& i, const Mma& x, Panels& p) {
  const int bits = int(element_bits(x.a));
  const tensor::Sparsity form = tensor::sparsity_of_bits(bits);
  const uint32_t chunks = x.k / uint32_t(tensor::chunk_k(form)), each = x.terms() / chunks;
  const uint32_t* words = w.lanes<uint32_t>(i.op[uint32_t(i.n_dst) + i.n_src - 1]);
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t j = 0; j < chunks; ++j) {
      const tensor::CodeLane at = tensor::code_lane(bits, row, j, chunks, x.selector);
      const uint32_t code = words[at.lane] >> 4 * at.nibble & 15;
      const double* values = p.a[row] + j * each;
      if (!(tensor::meaningful_codes(form, x.codes) >> code & 1) &&
          std::any_of(values, values + each, [](double v) { return v != 0; }))
        w.cluster().violation(
            w.origin(i, 1u << at.lane), check::Rule::metadata, FaultCode::launch_failed, [&] {
              return "metadata of row " + std::to_string(row) + ", chunk " + std::to_string(j) +
                     " is " + hex(code) + " (lane " + std::to_string(at.lane) + ", bits " +
                     std::to_string(4 * at.nibble) + " on), which has no meaning";
            });
      tensor::kept_positions(form, code, int(j), p.kept[row] + j * each);
    }
}

// Value i of C and where it lies: register and half.
template <class F>
void for_results(const Mma& x, F&& f) {
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < x.m / 4; ++i) f(l, i, l / 4 + 8 * (i / 2), 2 * (l % 4) + i % 2);
}

// Sums of products in ascending K, eight of a row side by side.
void sum_rows(const Panels& p, uint32_t rows, uint32_t terms, double (&sums)[16][8]) {
  double b[kMaxK][8];
  for (uint32_t k = 0; k < terms; ++k)
    for (uint32_t c = 0; c < 8; ++c) b[k][c] = p.b[c][k];
  for (uint32_t r = 0; r < rows; ++r) {
    double sum[8] = {};
    for (uint32_t k = 0; k < terms; ++k)
      for (uint32_t c = 0; c < 8; ++c) sum[c] += p.a[r][k] * b[k][c];
    std::copy_n(sum, 8, sums[r]);
  }
}

[[gnu::noipa]] Panels& panels_of_thread() {
  thread_local Panels panels;
  return panels;
}

Step mma(Warp& w, const Inst& inst, uint32_t mask) {
  const Mma& x = *static_cast<const Mma*>(inst.data);
  if (mask != ~0u)
    w.fault(inst, mask, FaultCode::illegal_instruction, "aligned",
            "mma.sync needs all 32 lanes; some have exited or do not exist");
  Panels& p = panels_of_thread();
  gather(w, inst, x, p);
  if (x.sparse) read_codes(w, inst, x, p);
  const uint32_t terms = x.terms();
  const uint32_t* dst = inst.op;
  const uint32_t* acc = inst.op + inst.n_dst + x.a_registers + x.b_registers;
  // D may name C's registers: results are kept until all of C has been read.
  uint64_t out[32][4];
  const bool by_rows = !x.sparse && (x.sum.d == Result::f32 || x.sum.d == Result::f16);
  double sums[16][8];
  if (by_rows) sum_rows(p, x.m, terms, sums);
  for_results(x, [&](uint32_t l, uint32_t i, uint32_t row, uint32_t column) {
    const double *a = p.a[row], *b = p.b[column];
    if (x.sparse) {
      for (uint32_t k = 0; k < terms; ++k) p.picked[k] = b[p.kept[row][k]];
      b = p.picked;
    }
    uint64_t start = 0;
    if (x.sum.c == Result::f64)
      start = w.lanes<uint64_t>(acc[i])[l];
    else if (x.sum.c == Result::f16)
      start = uint16_t(w.lanes<uint32_t>(acc[i / 2])[l] >> (16 * (i % 2)));
    else
      start = w.lanes<uint32_t>(acc[i])[l];
    out[l][i] = by_rows ? x.sum.rounded(sums[row][column], start) : x.sum(a, b, terms, start);
  });
  for (uint32_t l = 0; l < 32; ++l) {
    if (x.sum.c == Result::f16)
      for (uint32_t i = 0; i < x.m / 4; i += 2)
        w.lanes<uint32_t>(dst[i / 2])[l] = uint32_t(out[l][i] | out[l][i + 1] << 16);
    else if (x.sum.c == Result::f64)
      for (uint32_t i = 0; i < x.m / 4; ++i) w.lanes<uint64_t>(dst[i])[l] = out[l][i];
    else
      for (uint32_t i = 0; i < x.m / 4; ++i) w.lanes<uint32_t>(dst[i])[l] = uint32_t(out[l][i]);
  }
  ++w.cluster().stats.mma;
  w.cluster().stats.mma_flops += 2ull * x.m * 8 * x.k;
  return Step::Next;
}

} // namespace

void mma_sync(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  auto* x = dc.make<Mma>();
  std::string_view shape = m.get("shape"), c = m.get("c");
  x->m = shape[1] == '8' ? 8 : 16;
  x->k = uint32_t(std::stoul(std::string(shape.substr(shape.find('k') + 1))));
  x->a = element_of(m.get("a"));
  x->b = element_of(m.get("b"));
  x->sum = {x->a,
            result_of(c),
            result_of(c),
            m.has("satfinite"),
            m.get("bit") == "xor",
            host_rounding(m.get("rnd"))};
  if (m.get("d") != c) dc.refuse(s, "mma with accumulators of two types");
  uint32_t bits = element_bits(x->a), size = bits == 64 ? 64 : 32;
  if (element_bits(x->b) != bits) dc.refuse(s, "A and B must have elements of one size");
  x->sparse = m.has("sp");
  x->a_registers = x->m * x->terms() * bits / size / 32;
  x->b_registers = 8 * x->k * bits / size / 32;
  x->c_registers = x->m * 8 / 32 / (x->sum.c == Result::f16 ? 2 : 1);
  RegClass in = size == 64 ? RegClass::B64 : RegClass::B32;
  RegClass acc = x->sum.c == Result::f64 ? RegClass::B64 : RegClass::B32;
  auto take = [&](const Operand& o, RegClass cls, uint32_t wanted, const char* name) {
    std::vector<uint32_t> slots = dc.vector_src(o, cls);
    if (slots.size() != wanted)
      dc.refuse(s, std::string(name) + " has " + std::to_string(slots.size()) +
                       " registers; the shape takes " + std::to_string(wanted));
    return slots;
  };
  std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], acc);
  if (dst.size() != x->c_registers)
    dc.refuse(s, "D has " + std::to_string(dst.size()) + " registers; the shape takes " +
                     std::to_string(x->c_registers));
  std::vector<uint32_t> src = take(s.operands[1], in, x->a_registers, "A");
  for (uint32_t slot : take(s.operands[2], in, x->b_registers, "B")) src.push_back(slot);
  for (uint32_t slot : take(s.operands[3], acc, x->c_registers, "C")) src.push_back(slot);
  if (x->sparse) {
    src.push_back(dc.src(s.operands[4], RegClass::B32));
    x->codes = m.get("sp") == "sp" ? tensor::CodeSet::any_pair : tensor::CodeSet::ordered;
    const uint32_t lanes =
        tensor::code_lanes(x->k / uint32_t(tensor::chunk_k(tensor::sparsity_of_bits(int(bits)))));
    const Operand& selector = s.operands[5];
    if (selector.kind != Operand::Kind::Int || selector.value >= 4 / lanes)
      dc.refuse(s, "the sparsity selector must be a constant below " + std::to_string(4 / lanes) +
                       ": " + std::to_string(lanes) + " of every 4 lanes hold metadata");
    x->selector = uint32_t(selector.value);
    // Lanes whose metadata counts, for the definedness checker.
    inst.imm = 0x11111111u * (((1u << lanes) - 1) << (lanes * x->selector));
  }
  inst.aligned = true;
  inst.run = mma;
  inst.data = x;
  dc.set_operands(inst, dst, src);
}

} // namespace vgpu::ops
