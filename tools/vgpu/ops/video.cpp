// Video instructions (PTX ISA 9.7.18): scalar and SIMD arithmetic on bytes, half-words and words.
#include "tools/vgpu/ops/lanes.hpp"

#include <algorithm>

namespace vgpu::ops {

namespace {

using Wide = __int128; // products of two words and more

enum class Op : uint8_t { add, sub, absdiff, min, max, avrg, shl, shr, set };
enum class Second : uint8_t { none, add, min, max };
enum class Compare : uint8_t { eq, ne, lt, le, gt, ge };

// A part of a word; bits 32: all of it.
struct Part {
  uint32_t shift = 0, bits = 32;
};

struct Video {
  Op op = Op::add;
  Compare compare = Compare::eq;
  Second second = Second::none;
  bool a_signed = false, b_signed = false, d_signed = false;
  bool sat = false, wrap = false;
  Part a, b, d;
  // SIMD: elements, and for each the one of the eight (or four) of b and a that it takes.
  uint32_t elements = 1, mask = 1;
  uint8_t a_from[4] = {}, b_from[4] = {};
  // vmad
  bool negate_product = false, negate_c = false, plus_one = false;
  uint32_t scale = 0;
};

Wide extend(uint64_t v, uint32_t bits, bool is_signed) {
  const uint64_t low = v & ((1ull << bits) - 1);
  return is_signed && low >> (bits - 1) ? Wide(low) - (Wide(1) << bits) : Wide(low);
}

Wide clamp_to(Wide v, uint32_t bits, bool is_signed) {
  const Wide low = is_signed ? -(Wide(1) << (bits - 1)) : 0;
  const Wide high = (Wide(1) << (is_signed ? bits - 1 : bits)) - 1;
  return std::clamp(v, low, high);
}

bool holds(Compare c, Wide a, Wide b) {
  switch (c) {
  case Compare::eq:
    return a == b;
  case Compare::ne:
    return a != b;
  case Compare::lt:
    return a < b;
  case Compare::le:
    return a <= b;
  case Compare::gt:
    return a > b;
  case Compare::ge:
    return a >= b;
  }
  return false;
}

Wide operate(const Video& x, Wide a, Wide b) {
  switch (x.op) {
  case Op::add:
    return a + b;
  case Op::sub:
    return a - b;
  case Op::absdiff:
    return a > b ? a - b : b - a;
  case Op::min:
    return std::min(a, b);
  case Op::max:
    return std::max(a, b);
  case Op::avrg:
    return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
  case Op::shl:
    return a << int(x.wrap ? b & 31 : std::min<Wide>(b, 32));
  case Op::shr:
    return a >> int(x.wrap ? b & 31 : std::min<Wide>(b, 32));
  case Op::set:
    return holds(x.compare, a, b);
  }
  return 0;
}

bool is_shift(Op op) { return op == Op::shl || op == Op::shr; }

// The scalar instructions do what an H200 does: isa/forms_video.def says where that is not the
// ISA's text. t: the exact result.
Wide saturate(const Video& x, Wide t) {
  if (is_shift(x.op)) return clamp_to(extend(uint64_t(t), 34, true), 32, x.d_signed);
  if (x.d.bits < 32) return clamp_to(t < 0 ? Wide(1) << 32 : t, x.d.bits, x.d_signed);
  return x.d_signed ? clamp_to(t, 32, true) : std::max<Wide>(t, 0);
}

uint32_t second_operation(const Video& x, Wide t, uint32_t c) {
  if (x.second == Second::add) return uint32_t(t) + c;
  if (x.op == Op::add || x.op == Op::sub || (is_shift(x.op) && x.sat)) t = int32_t(uint32_t(t));
  t = x.d_signed ? Wide(int64_t(t)) : Wide(uint64_t(t));
  const Wide other = extend(c, 32, x.d_signed);
  return (x.second == Second::min ? t < other : t > other) ? uint32_t(t) : c;
}

uint32_t scalar(const Video& x, uint32_t a, uint32_t b, uint32_t c) {
  Wide t = operate(x, extend(a >> x.a.shift, x.a.bits, x.a_signed),
                   extend(b >> x.b.shift, x.b.bits, x.b_signed));
  if (x.sat) t = saturate(x, t);
  if (x.second != Second::none) return second_operation(x, t, c);
  if (x.d.bits == 32) return uint32_t(t);
  const uint32_t mask = ((1u << x.d.bits) - 1) << x.d.shift;
  const uint32_t placed = x.d.bits == 16 ? uint32_t(t) : uint32_t(t) << x.d.shift;
  return (placed & mask) | (c & ~mask);
}

uint32_t simd(const Video& x, uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t bits = 32 / x.elements;
  const uint64_t both = uint64_t(b) << 32 | a, low = (1ull << bits) - 1;
  uint32_t d = c;
  for (uint32_t i = 0; i < x.elements; ++i) {
    if (!(x.mask >> i & 1)) continue;
    Wide t = operate(x, extend(both >> bits * x.a_from[i], bits, x.a_signed),
                     extend(both >> bits * x.b_from[i], bits, x.b_signed));
    if (x.sat) t = clamp_to(t, bits, x.d_signed);
    if (x.second == Second::add)
      d += uint32_t(t);
    else
      d = (d & ~uint32_t(low << bits * i)) | uint32_t((uint64_t(t) & low) << bits * i);
  }
  return d;
}

uint32_t multiply_add(const Video& x, uint32_t a, uint32_t b, uint32_t c) {
  const bool is_signed = x.a_signed || x.b_signed || x.negate_product || x.negate_c;
  Wide t = extend(a >> x.a.shift, x.a.bits, x.a_signed || x.a.bits == 32) *
           extend(b >> x.b.shift, x.b.bits, x.b_signed || x.b.bits == 32);
  if (x.negate_product) t = -t;
  const Wide other = extend(c, 32, true);
  t += x.negate_c ? -other : other;
  t += x.plus_one;
  t = is_signed || !x.scale ? t >> x.scale : Wide(uint64_t(t) >> x.scale);
  return uint32_t(x.sat ? clamp_to(t, 32, is_signed) : t);
}

template <uint32_t (*F)(const Video&, uint32_t, uint32_t, uint32_t)>
Step each(Warp& w, const Inst& i, uint32_t mask) {
  const Video& x = *static_cast<const Video*>(i.data);
  uint32_t* d = w.lanes<uint32_t>(i.op[0]);
  const uint32_t *a = w.lanes<uint32_t>(i.op[1]), *b = w.lanes<uint32_t>(i.op[2]),
                 *c = w.lanes<uint32_t>(i.op[3]);
  for_lanes(mask, [&](uint32_t l) { d[l] = F(x, a[l], b[l], c[l]); });
  return Step::Next;
}

// ---- decoding

// "r1.h0" is a register and a selector; the parser leaves both in the name.
std::string_view take_selector(Operand& o) {
  if (o.kind != Operand::Kind::Name) return {};
  const size_t dot = o.name.rfind('.');
  if (dot == std::string::npos) return {};
  static thread_local std::string selector;
  selector = o.name.substr(dot + 1);
  o.name.resize(dot);
  return selector;
}

Part part_of(DecodeContext& dc, const Statement& s, std::string_view selector) {
  if (selector.empty()) return {};
  if (selector.size() == 2 && selector[0] == 'b' && selector[1] >= '0' && selector[1] <= '3')
    return {8 * uint32_t(selector[1] - '0'), 8};
  if (selector == "h0" || selector == "h1") return {16 * uint32_t(selector[1] - '0'), 16};
  dc.refuse(s, "the selector ." + std::string(selector) + " must be .b0 to .b3, .h0 or .h1");
}

// ".h32", ".b7654": the element that each place takes, the highest place first.
void read_places(DecodeContext& dc, const Statement& s, std::string_view selector, char letter,
                 uint32_t elements, uint8_t (&from)[4]) {
  bool good = selector.size() == elements + 1 && selector[0] == letter;
  for (uint32_t i = 0; good && i < elements; ++i) {
    const char c = selector[elements - i];
    good = c >= '0' && c < char('0' + 2 * elements);
    from[i] = uint8_t(c - '0');
  }
  if (!good)
    dc.refuse(s, "the selector ." + std::string(selector) + " must be ." + letter + " and " +
                     std::to_string(elements) + " digits below " + std::to_string(2 * elements));
}

uint32_t read_mask(DecodeContext& dc, const Statement& s, std::string_view selector, char letter,
                   uint32_t elements) {
  uint32_t mask = 0, last = 8;
  bool good = selector.size() > 1 && selector[0] == letter;
  for (size_t i = 1; good && i < selector.size(); ++i) {
    const uint32_t digit = uint32_t(selector[i] - '0');
    good = digit < elements && digit < last;
    mask |= 1u << (digit & 7);
    last = digit;
  }
  if (!good)
    dc.refuse(s, "the mask ." + std::string(selector) + " must be ." + letter +
                     " and descending digits below " + std::to_string(elements));
  return mask;
}

Op op_of(std::string_view name) {
  if (name.back() == '2' || name.back() == '4') name.remove_suffix(1);
  static constexpr std::string_view names[] = {"vadd",  "vsub", "vabsdiff", "vmin", "vmax",
                                               "vavrg", "vshl", "vshr",     "vset"};
  return Op(std::find(names, names + 9, name) - names);
}

Video* start(DecodeContext& dc, const Match& m) {
  auto* x = dc.make<Video>();
  x->a_signed = m.get("a") == "s32";
  x->b_signed = m.get("b") == "s32";
  x->d_signed = m.get(m.get("d").empty() ? "a" : "d") == "s32"; // vset names no type of d
  x->sat = m.has("sat");
  x->wrap = m.get("mode") == "wrap";
  const std::string_view cmp = m.get("cmp"), second = m.get("op2");
  static constexpr std::string_view compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  if (!cmp.empty()) x->compare = Compare(std::find(compares, compares + 6, cmp) - compares);
  x->second = second == "add"   ? Second::add
              : second == "min" ? Second::min
              : second == "max" ? Second::max
                                : Second::none;
  return x;
}

void finish(DecodeContext& dc, const Statement& s, const Operand (&o)[4], Video* x, Handler run,
            Inst& inst) {
  const uint32_t c =
      s.operands.size() > 3 ? dc.src(o[3], RegClass::B32) : dc.constant(RegClass::B32, 0);
  inst.data = x;
  inst.run = run;
  dc.set_operands(inst, {dc.dst(o[0], RegClass::B32)},
                  {dc.src(o[1], RegClass::B32), dc.src(o[2], RegClass::B32), c});
}

struct Operands {
  Operand o[4];
  std::string selector[3]; // of d, a, b
  explicit Operands(const Statement& s) {
    for (size_t i = 0; i < s.operands.size() && i < 4; ++i) {
      o[i] = s.operands[i];
      if (i < 3) selector[i] = take_selector(o[i]);
    }
  }
};

} // namespace

void video_scalar(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Video* x = start(dc, m);
  Operands p(s);
  x->op = op_of(m.get("op"));
  x->d = part_of(dc, s, p.selector[0]);
  x->a = part_of(dc, s, p.selector[1]);
  x->b = part_of(dc, s, p.selector[2]);
  const bool merges = x->d.bits<32, third = s.operands.size()> 3;
  if (merges && x->second != Second::none)
    dc.refuse(s, "a part of d and a second operation exclude each other");
  if (third != (merges || x->second != Second::none))
    dc.refuse(s, third ? "a third source is for a second operation or a part of d"
                       : "a second operation and a part of d need a third source");
  finish(dc, s, p.o, x, each<scalar>, inst);
}

void video_mad(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Video* x = start(dc, m);
  Operands p(s);
  if (!p.selector[0].empty()) dc.refuse(s, "vmad writes all of d");
  x->a = part_of(dc, s, p.selector[1]);
  x->b = part_of(dc, s, p.selector[2]);
  x->plus_one = m.has("po");
  x->negate_product = p.o[1].negated != p.o[2].negated;
  x->negate_c = p.o[3].negated;
  if (x->plus_one && (p.o[1].negated || p.o[2].negated || x->negate_c))
    dc.refuse(s, "vmad.po takes no negated operands");
  if (x->negate_product && x->negate_c) dc.refuse(s, "vmad negates the product or c, not both");
  for (Operand& o : p.o) o.negated = false;
  const std::string_view scale = m.get("scale");
  x->scale = scale == "shr7" ? 7 : scale == "shr15" ? 15 : 0;
  finish(dc, s, p.o, x, each<multiply_add>, inst);
}

void video_simd(DecodeContext& dc, const Statement& s, const Match& m, Inst& inst) {
  Video* x = start(dc, m);
  Operands p(s);
  const std::string_view name = m.get("op");
  x->op = op_of(name);
  x->elements = name.back() == '2' ? 2 : 4;
  const char letter = x->elements == 2 ? 'h' : 'b';
  auto chosen = [&](size_t i, const char* two, const char* four) -> std::string {
    if (!p.selector[i].empty()) return p.selector[i];
    return x->elements == 2 ? two : four;
  };
  x->mask = read_mask(dc, s, chosen(0, "h10", "b3210"), letter, x->elements);
  read_places(dc, s, chosen(1, "h10", "b3210"), letter, x->elements, x->a_from);
  read_places(dc, s, chosen(2, "h32", "b7654"), letter, x->elements, x->b_from);
  finish(dc, s, p.o, x, each<simd>, inst);
}

} // namespace vgpu::ops
