// mov: copies, packing and unpacking, special registers; prmt (PTX ISA 9.7.9.3, 9.7.9.4, 9.7.9.7).
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/ops/lanes.hpp"

#include <algorithm>

namespace vgpu::ops {

namespace {

template <class W>
Step mov(Warp& w, const Inst& i, uint32_t mask) {
  W* d = w.lanes<W>(i.op[0]);
  const W* a = w.lanes<W>(i.op[1]);
  for_lanes(mask, [=](uint32_t l) { d[l] = a[l]; });
  return Step::Next;
}
Step mov_b128(Warp& w, const Inst& i, uint32_t mask) {
  uint64_t* d = w.lanes<uint64_t>(i.op[0]);
  const uint64_t* a = w.lanes<uint64_t>(i.op[1]);
  for_lanes(mask, [=](uint32_t l) {
    d[2 * l] = a[2 * l];
    d[2 * l + 1] = a[2 * l + 1];
  });
  return Step::Next;
}
Step mov_pred(Warp& w, const Inst& i, uint32_t mask) {
  w.set_pred(i.op[0], mask, w.pred(i.op[1]) ^ i.mod[0]);
  return Step::Next;
}

// {a, b, ...} -> d: a takes the lowest bits. width = bytes of an element.
Step pack(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t bytes = i.width, element = bytes == 8 ? 8 : 4;
  uint32_t total = bytes * i.n_src, stride = total <= 4 ? 4 : total;
  uint8_t* d = w.lanes<uint8_t>(i.op[0]);
  for_lanes(mask, [&](uint32_t l) {
    uint8_t value[16] = {};
    for (uint32_t k = 0; k < i.n_src; ++k)
      std::memcpy(value + k * bytes, w.lanes<uint8_t>(i.op[1 + k]) + l * element, bytes);
    std::memcpy(d + l * stride, value, stride);
  });
  return Step::Next;
}
Step pack_2x16(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  const uint32_t *a = w.lanes<uint32_t>(i.op[1]), *b = w.lanes<uint32_t>(i.op[2]);
  for_lanes(mask, [=](uint32_t l) { d[l] = (a[l] & 0xFFFFu) | b[l] << 16; });
  return Step::Next;
}
Step pack_2x32(Warp& w, const Inst& i, uint32_t mask) {
  uint64_t* d = w.lanes<uint64_t>(i.op[0]);
  const uint32_t *a = w.lanes<uint32_t>(i.op[1]), *b = w.lanes<uint32_t>(i.op[2]);
  for_lanes(mask, [=](uint32_t l) { d[l] = a[l] | uint64_t(b[l]) << 32; });
  return Step::Next;
}

// The source is read whole before a destination, which may be the same register, is written.
Step unpack(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t bytes = i.width, element = bytes == 8 ? 8 : 4;
  uint32_t total = bytes * i.n_dst, stride = total <= 4 ? 4 : total;
  const uint8_t* a = w.lanes<uint8_t>(i.op[i.n_dst]);
  for_lanes(mask, [&](uint32_t l) {
    uint8_t value[16];
    std::memcpy(value, a + l * stride, stride);
    for (uint32_t k = 0; k < i.n_dst; ++k) {
      uint8_t out[8] = {};
      std::memcpy(out, value + k * bytes, bytes);
      std::memcpy(w.lanes<uint8_t>(i.op[k]) + l * element, out, element);
    }
  });
  return Step::Next;
}
Step unpack_2x16(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t *d = w.lanes<uint32_t>(i.op[0]), *e = w.lanes<uint32_t>(i.op[1]);
  const uint32_t* a = w.lanes<uint32_t>(i.op[2]);
  for_lanes(mask, [=](uint32_t l) {
    uint32_t v = a[l];
    d[l] = v & 0xFFFFu;
    e[l] = v >> 16;
  });
  return Step::Next;
}
Step unpack_2x32(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t *d = w.lanes<uint32_t>(i.op[0]), *e = w.lanes<uint32_t>(i.op[1]);
  const uint64_t* a = w.lanes<uint64_t>(i.op[2]);
  for_lanes(mask, [=](uint32_t l) {
    uint64_t v = a[l];
    d[l] = uint32_t(v);
    e[l] = uint32_t(v >> 32);
  });
  return Step::Next;
}

// All sources are read before a destination, which may be one of them, is written. W: a lane's
// word.
template <class W>
Step mov_vector(Warp& w, const Inst& i, uint32_t mask) {
  W value[8][32];
  for (uint32_t k = 0; k < i.n_src; ++k)
    std::memcpy(value[k], w.lanes<W>(i.op[i.n_dst + k]), sizeof value[k]);
  for (uint32_t k = 0; k < i.n_dst; ++k) {
    W* d = w.lanes<W>(i.op[k]);
    for_lanes(mask, [&](uint32_t l) { d[l] = value[k][l]; });
  }
  return Step::Next;
}

// 10.23, 10.24, 10.28: the scheduler's virtual time stands for both cycles and nanoseconds. Every
// read moves it on by the warp's own count, so that two reads in a row differ.
template <bool Wide, uint32_t Shift>
Step read_clock(Warp& w, const Inst& i, uint32_t mask) {
  uint64_t now = w.cluster().now() + ++w.clock_reads;
  if constexpr (Wide) {
    uint64_t* d = w.lanes<uint64_t>(i.op[0]);
    for_lanes(mask, [=](uint32_t l) { d[l] = now; });
  } else {
    uint32_t* d = w.lanes<uint32_t>(i.op[0]);
    for_lanes(mask, [=](uint32_t l) { d[l] = uint32_t(now >> Shift); });
  }
  return Step::Next;
}

// prmt: byte k of the result is byte `select` of {b, a}.
uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t d = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t select = c >> (4 * k) & 15;
    uint32_t byte = uint32_t(bytes >> (8 * (select & 7))) & 255;
    if (select & 8) byte = byte & 128 ? 255 : 0;
    d |= byte << (8 * k);
  }
  return d;
}
// The modes of 9.7.9.7 as selectors of the generic form, by c mod 4.
constexpr uint32_t kModes[6][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, // f4e
    {0x5670, 0x6701, 0x7012, 0x0123}, // b4e
    {0x0000, 0x1111, 0x2222, 0x3333}, // rc8
    {0x3210, 0x3211, 0x3222, 0x3333}, // ecl
    {0x0000, 0x1110, 0x2210, 0x3210}, // ecr
    {0x1010, 0x3232, 0x1010, 0x3232}, // rc16
};
uint32_t prmt_mode(const Inst& i, uint32_t a, uint32_t b, uint32_t c) {
  return prmt(a, b, kModes[i.mod[0]][c & 3]);
}

} // namespace

void mov_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type");
  const Operand &d = s.operands[0], &a = s.operands[1];
  uint32_t total = type_bytes(t);
  bool to_vector = d.kind == Operand::Kind::Vector, from_vector = a.kind == Operand::Kind::Vector;
  if (to_vector || from_vector) {
    if (to_vector && from_vector) dc.refuse(s, "mov packs or unpacks; it does not copy vectors");
    size_t n = to_vector ? d.items.size() : a.items.size();
    if (t[0] != 'b' || n < 2 || total % n != 0 || (n != 2 && n != 4))
      dc.refuse(s, "mov packs 2 or 4 elements into a bit type that is their sum");
    uint32_t bytes = total / uint32_t(n);
    RegClass part = class_of_bytes(bytes), whole = class_of(t);
    inst.width = uint8_t(bytes);
    if (from_vector) {
      std::vector<uint32_t> src = dc.vector_src(a, part);
      dc.set_operands(inst, {dc.dst(d, whole)}, src);
      inst.run = n == 2 && bytes == 2 ? pack_2x16 : n == 2 && bytes == 4 ? pack_2x32 : pack;
    } else {
      dc.set_operands(inst, dc.vector_dst(d, part), {dc.src(a, whole)});
      inst.run = n == 2 && bytes == 2 ? unpack_2x16 : n == 2 && bytes == 4 ? unpack_2x32 : unpack;
    }
    return;
  }
  if (t == "pred") {
    bool negated = false;
    uint32_t p = dc.pred_src(a, negated);
    inst.mod[0] = negated ? ~0u : 0u;
    inst.run = mov_pred;
    dc.set_operands(inst, {dc.pred_dst(d)}, {p});
    return;
  }
  std::string special = dc.dynamic_special(a);
  if (!special.empty()) {
    bool wide = special == "%clock64" || special == "%globaltimer";
    if (total != (wide ? 8u : 4u)) dc.refuse(s, special + " has " + (wide ? "64" : "32") + " bits");
    inst.run = wide                       ? read_clock<true, 0>
               : special.ends_with("_hi") ? read_clock<false, 32>
                                          : read_clock<false, 0>;
    dc.set_operands(inst, {dc.dst(d, class_of(t))}, {});
    return;
  }
  inst.run = total == 16 ? mov_b128 : total == 8 ? mov<uint64_t> : mov<uint32_t>;
  same_type(dc, s, t, inst);
}

void mov_vector_any(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  std::string_view t = m.get("type"), v = m.get("vec");
  size_t n = v == "v2" ? 2 : v == "v4" ? 4 : 8;
  std::vector<uint32_t> dst = dc.vector_dst(s.operands[0], class_of(t));
  std::vector<uint32_t> src = dc.vector_src(s.operands[1], class_of(t));
  if (dst.size() != n || src.size() != n)
    dc.refuse(s, "both vectors must have " + std::to_string(n) + " elements");
  inst.run = type_bytes(t) == 8 ? mov_vector<uint64_t> : mov_vector<uint32_t>;
  dc.set_operands(inst, dst, src);
}

void prmt_bits(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  static constexpr std::string_view names[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  std::string_view mode = m.get("mode");
  inst.run = lanewise<&prmt>;
  if (!mode.empty()) {
    inst.mod[0] = uint32_t(std::find(names, names + 6, mode) - names);
    inst.run = lanewise<&prmt_mode>;
  }
  same_type(dc, s, "b32", inst);
}

} // namespace vgpu::ops
