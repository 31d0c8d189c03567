// wmma.load, wmma.store, wmma.mma (PTX ISA 9.7.14.4).
//
// Which element lies in which register is each machine's own. Here it is as in mma.sync: with
// per = elements of a register and g = lane / 4, t = lane % 4,
//   A: register r, element e: row 8 (r mod M/8) + g, column 4 per (r div M/8) + per t + e
//   B: the same with columns for rows and N for M
//   C, D: element i: row 8 (i/2 mod M/8) + g, column 8 (i/2 div M/8) + 2 t + i mod 2
// f16 multiplicands have eight registers whatever their size: those beyond it repeat the first
// ones, and wmma.mma does not read them.
#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/ops/memory.hpp"
#include "tools/vgpu/ops/warp_mma.hpp"

namespace vgpu::ops {

namespace {

struct Fragment {
  char matrix = 'a'; // 'a', 'b', 'c' (and D)
  uint32_t rows = 0, columns = 0;
  uint32_t bits = 16;     // of an element
  uint32_t registers = 0; // of the operand
  uint32_t distinct = 0;  // of those

  uint32_t register_bits() const { return bits == 64 ? 64 : 32; }
  uint32_t per() const { return register_bits() / bits; }
  RegClass cls() const { return bits == 64 ? RegClass::B64 : RegClass::B32; }

  struct Place {
    uint32_t row, column;
  };
  Place place(uint32_t lane, uint32_t r, uint32_t e) const {
    const uint32_t g = lane / 4, t = lane % 4, p = per();
    if (matrix == 'c') {
      const uint32_t i = r * p + e, blocks = rows / 8;
      return {8 * (i / 2 % blocks) + g, 8 * (i / 2 / blocks) + 2 * t + i % 2};
    }
    const uint32_t blocks = (matrix == 'a' ? rows : columns) / 8;
    const uint32_t across = 8 * (r % blocks) + g, along = 4 * p * (r / blocks) + p * t + e;
    return matrix == 'a' ? Place{across, along} : Place{along, across};
  }
};

struct Shape {
  uint32_t m, n, k;
};

Shape shape_of(const Match& m) {
  const std::string text(m.get("shape"));
  const size_t n = text.find('n'), k = text.find('k');
  return {uint32_t(std::stoul(text.substr(1))), uint32_t(std::stoul(text.substr(n + 1))),
          uint32_t(std::stoul(text.substr(k + 1)))};
}

Fragment fragment_of(char matrix, const Shape& s, uint32_t bits) {
  Fragment f;
  f.matrix = matrix == 'd' ? 'c' : matrix;
  f.rows = matrix == 'b' ? s.k : s.m;
  f.columns = matrix == 'a' ? s.k : s.n;
  f.bits = bits;
  f.registers = f.distinct = f.rows * f.columns / 32 / f.per();
  return f;
}

// f16 multiplicands: see above.
Fragment multiplicand(char matrix, const Shape& s, Element e) {
  Fragment f = fragment_of(matrix, s, element_bits(e));
  if (e == Element::f16) f.registers = 8;
  return f;
}

Fragment accumulator(const Shape& s, Result r) {
  return fragment_of('c', s, r == Result::f16 ? 16 : r == Result::f64 ? 64 : 32);
}

// ---- loads and stores

struct Transfer {
  Fragment fragment;
  bool by_columns = false;
  Where where = Where::Generic;
  LaneAddress address;
  uint32_t stride = 0; // slot: in elements

  // Elements of a register that lie side by side in memory.
  uint32_t run() const {
    const bool along_rows = fragment.matrix != 'b'; // elements of a register lie in one row
    return along_rows != by_columns ? fragment.per() : 1;
  }
};

void check_whole(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != ~0u)
    w.fault(i, mask, FaultCode::illegal_instruction, "aligned",
            "wmma needs all 32 lanes; some have exited or do not exist");
}

// The address is a multiple of the fragment's size, rows (or columns) are of 16 bytes or that.
void check_alignment(Warp& w, const Inst& i, const Fragment& f, uint64_t address, uint32_t stride) {
  const uint32_t size = f.registers * f.register_bits() / 8, least = std::min(size, 16u);
  const uint64_t bytes = uint64_t(stride) * f.bits / 8;
  if (address % size)
    w.fault(i, ~0u, FaultCode::misaligned_address, "alignment",
            "wmma on address " + hex(address) +
                ", which is no multiple of the fragment's size of " + std::to_string(size) +
                " bytes");
  if (uint64_t(stride) * f.bits % 8 || bytes % least)
    w.fault(i, ~0u, FaultCode::misaligned_address, "alignment",
            "wmma with a stride of " + std::to_string(stride) + " elements, " +
                std::to_string(bytes) + " bytes; it must be a multiple of " +
                std::to_string(least) + " bytes");
}

template <bool Write>
Step transfer(Warp& w, const Inst& i, uint32_t mask) {
  check_whole(w, i, mask);
  const Transfer& x = *static_cast<const Transfer*>(i.data);
  const Fragment& f = x.fragment;
  uint64_t base[32];
  const uint32_t* stride = w.lanes<uint32_t>(x.stride);
  for (uint32_t l = 0; l < 32; ++l) {
    base[l] = x.address.wide ? w.lanes<uint64_t>(x.address.slot)[l]
                             : uint64_t(w.lanes<uint32_t>(x.address.slot)[l]);
    base[l] += uint64_t(x.address.offset);
    if (base[l] != base[0] || stride[l] != stride[0])
      w.fault(i, 1u << l, FaultCode::illegal_instruction, "uniform",
              "address and stride of wmma must be the same in all lanes");
  }
  check_alignment(w, i, f, base[0], stride[0]);
  const uint32_t run = x.run(), bytes = std::max(1u, run * f.bits / 8);
  const uint32_t* slots = Write ? i.op + i.n_dst : i.op;
  for (uint32_t r = 0; r < f.distinct; ++r) {
    uint64_t word[32] = {};
    for (uint32_t l = 0; Write && l < 32; ++l)
      word[l] = f.bits == 64 ? w.lanes<uint64_t>(slots[r])[l] : w.lanes<uint32_t>(slots[r])[l];
    for (uint32_t e = 0; e < f.per(); e += run) {
      uint64_t at[32];
      for (uint32_t l = 0; l < 32; ++l) {
        const Fragment::Place p = f.place(l, r, e);
        const uint64_t element = x.by_columns ? uint64_t(p.column) * stride[0] + p.row
                                              : uint64_t(p.row) * stride[0] + p.column;
        at[l] = base[0] + element * f.bits / 8;
      }
      LanePointers pointers;
      lane_pointers(w, i, mask, x.where, at, x.address.wide, bytes, bytes, Write, false, pointers);
      for (uint32_t l = 0; l < 32; ++l) {
        if (Write) {
          const uint64_t part = word[l] >> (e * f.bits);
          std::memcpy(pointers.at[l], &part, bytes);
        } else {
          uint64_t part = 0;
          std::memcpy(&part, pointers.at[l], bytes);
          word[l] |= part << (e * f.bits);
        }
      }
    }
    for (uint32_t to = r; !Write && to < f.registers; to += f.distinct)
      for (uint32_t l = 0; l < 32; ++l) {
        if (f.bits == 64)
          w.lanes<uint64_t>(slots[to])[l] = word[l];
        else
          w.lanes<uint32_t>(slots[to])[l] = uint32_t(word[l]);
      }
  }
  return Step::Next;
}

void check_count(DecodeContext& dc, const Statement& s, const Fragment& f, size_t have,
                 const std::string& name) {
  if (have != f.registers)
    dc.refuse(s, name + " has " + std::to_string(have) + " registers; shape and type take " +
                     std::to_string(f.registers));
}

Transfer* decode_transfer(DecodeContext& dc, const Statement& s, const Match& m) {
  auto* x = dc.make<Transfer>();
  const Shape shape = shape_of(m);
  const char matrix = m.get("matrix")[0];
  const std::string_view type = m.get("type");
  if (matrix == 'a' || matrix == 'b') {
    const Element e = element_of(type);
    if (shape.k >= 32 && shape.k * element_bits(e) != 128)
      dc.refuse(s, "m8n8k32 is for .u4 and .s4, m8n8k128 for .b1");
    x->fragment = multiplicand(matrix, shape, e);
  } else {
    const bool whole = shape.k >= 32 || type == "s32";
    if ((shape.k == 4) != (type == "f64") || (shape.k == 8 && type != "f32") ||
        (whole && (type != "s32" || shape.k == 8)))
      dc.refuse(s, "no wmma.mma of this shape has accumulators of ." + std::string(type));
    x->fragment = accumulator(shape, result_of(type));
  }
  x->by_columns = m.get("layout") == "col";
  const Operand& address = s.operands[matrix == 'd' ? 0 : 1];
  x->where = where_of(dc, s, m.get("space"), address);
  x->address = lane_address(dc, address);
  x->stride =
      s.operands.size() > 2
          ? dc.src(s.operands[2], RegClass::B32)
          : dc.constant(RegClass::B32, x->by_columns ? x->fragment.rows : x->fragment.columns);
  return x;
}

// ---- wmma.mma

struct Multiply {
  Fragment a, b, c, d;
  Element element = Element::f16;
  Sum sum;
  uint32_t k = 16;
};

constexpr uint32_t kMost = 32, kMostK = 128;
struct Panels {
  double a[kMost][kMostK], b[kMost][kMostK]; // rows of A, columns of B
};

Step multiply(Warp& w, const Inst& i, uint32_t mask) {
  check_whole(w, i, mask);
  const Multiply& x = *static_cast<const Multiply*>(i.data);
  static thread_local Panels panels;
  const uint32_t* src = i.op + i.n_dst;
  auto word = [&](const Fragment& f, uint32_t slot, uint32_t l) {
    return f.bits == 64 ? w.lanes<uint64_t>(slot)[l] : w.lanes<uint32_t>(slot)[l];
  };
  for (const Fragment* f : {&x.a, &x.b}) {
    for (uint32_t r = 0; r < f->distinct; ++r)
      for (uint32_t l = 0; l < 32; ++l) {
        const uint64_t v = word(*f, src[r], l);
        for (uint32_t e = 0; e < f->per(); ++e) {
          const Fragment::Place p = f->place(l, r, e);
          double& to = f == &x.a ? panels.a[p.row][p.column] : panels.b[p.column][p.row];
          to = value_of(x.element, v >> (e * f->bits));
        }
      }
    src += f->registers;
  }
  // D may name C's registers: results are kept until all of C has been read.
  uint64_t out[32][8];
  const uint32_t each = x.d.rows * x.d.columns / 32;
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t j = 0; j < each; ++j) {
      const Fragment::Place p = x.c.place(l, j / x.c.per(), j % x.c.per());
      uint64_t start = word(x.c, src[j / x.c.per()], l) >> (j % x.c.per() * x.c.bits);
      out[l][j] = x.sum(panels.a[p.row], panels.b[p.column], x.k, start);
    }
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t j = 0; j < each; j += x.d.per()) {
      if (x.d.bits == 64)
        w.lanes<uint64_t>(i.op[j])[l] = out[l][j];
      else if (x.d.bits == 32)
        w.lanes<uint32_t>(i.op[j])[l] = uint32_t(out[l][j]);
      else
        w.lanes<uint32_t>(i.op[j / 2])[l] = uint32_t(out[l][j] | out[l][j + 1] << 16);
    }
  ++w.cluster().stats.mma;
  w.cluster().stats.mma_flops += 2ull * x.d.rows * x.d.columns * x.k;
  return Step::Next;
}

} // namespace

void wmma_load(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Transfer* x = decode_transfer(dc, s, m);
  const std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], x->fragment.cls());
  check_count(dc, s, x->fragment, dst.size(), "the fragment");
  inst.aligned = true;
  inst.run = transfer<false>;
  inst.data = x;
  dc.set_operands(inst, dst, {x->address.slot, x->stride});
}

void wmma_store(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Transfer* x = decode_transfer(dc, s, m);
  std::vector<uint32_t> src = dc.vector_src(s.operands[1], x->fragment.cls());
  check_count(dc, s, x->fragment, src.size(), "the fragment");
  src.push_back(x->address.slot);
  src.push_back(x->stride);
  inst.aligned = true;
  inst.run = transfer<true>;
  inst.data = x;
  dc.set_operands(inst, {}, src);
}

void wmma_mma(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  auto* x = dc.make<Multiply>();
  const Shape shape = shape_of(m);
  x->element = m.has("a") ? element_of(m.get("a")) : Element::f16;
  if (m.get("a") != m.get("b")) dc.refuse(s, "A and B must have elements of one type");
  x->sum = {x->element,         result_of(m.get("c")), result_of(m.get("d")),
            m.has("satfinite"), m.get("bit") == "xor", host_rounding(m.get("rnd"))};
  x->k = shape.k;
  x->a = multiplicand('a', shape, x->element);
  x->b = multiplicand('b', shape, x->element);
  x->c = accumulator(shape, x->sum.c);
  x->d = accumulator(shape, x->sum.d);
  const std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], x->d.cls());
  check_count(dc, s, x->d, dst.size(), "D");
  std::vector<uint32_t> src;
  const Fragment* const fragments[] = {&x->a, &x->b, &x->c};
  for (size_t k = 0; k < 3; ++k) {
    const std::vector<uint32_t> slots = dc.vector_src(s.operands[k + 1], fragments[k]->cls());
    check_count(dc, s, *fragments[k], slots.size(), std::string(1, "ABC"[k]));
    src.insert(src.end(), slots.begin(), slots.end());
  }
  inst.aligned = true;
  inst.run = multiply;
  inst.data = x;
  dc.set_operands(inst, dst, src);
}

} // namespace vgpu::ops
