// Integer, bit, carry, comparison, selection and permutation instructions.
#include "tests/hardware/oracle_lanes.hpp"

namespace wltest::oracle {

using lane_ops::integers;

namespace {

struct Type {
  std::string name;
  uint32_t bits;
  std::string reg() const { return "b" + std::to_string(bits); }
};
const std::vector<Type> kIntegers = {{"u16", 16}, {"s16", 16}, {"u32", 32},
                                     {"s32", 32}, {"u64", 64}, {"s64", 64}};

void arithmetic(const Lanes& l) {
  for (const Type& t : kIntegers) {
    const std::string r = t.reg(), n = "." + t.name;
    Column v = integers(t.bits), few = integers(t.bits, 12), nonzero;
    for (uint64_t x : v)
      if (x) nonzero.push_back(x);
    for (const char* op : {"add", "sub", "mul.lo", "mul.hi", "min", "max"})
      l.op2(op + n + " d, a, b;", r, r, r, v, v);
    for (const char* op : {"div", "rem"}) l.op2(op + n + " d, a, b;", r, r, r, v, nonzero);
    l.op2("div" + n + " d, a, b;", r, r, r, v, {0}); // undefined by the ISA: what the card does
    l.op2("rem" + n + " d, a, b;", r, r, r, v, {0});
    for (const char* op : {"mad.lo", "mad.hi", "sad"})
      l.op3(op + n + " d, a, b, c;", r, r, r, r, few, few, few);
    if (t.bits < 64) {
      std::string wide = "b" + std::to_string(2 * t.bits);
      l.op2("mul.wide" + n + " d, a, b;", wide, r, r, v, v);
      l.op3("mad.wide" + n + " d, a, b, c;", wide, r, r, wide, few, few, integers(2 * t.bits));
    }
    if (t.name[0] == 's')
      for (const char* op : {"abs", "neg"}) l.op1(op + n + " d, a;", r, r, v);
  }
  Column v = integers(32), few = integers(32, 8);
  for (const char* op : {"add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32", "add.s16x2",
                         "add.u16x2", "min.s16x2", "max.u16x2", "min.relu.s16x2", "max.relu.s16x2",
                         "mul24.hi.s32", "mul24.lo.u32", "mul24.lo.s32", "mul24.hi.u32"})
    l.op2(std::string(op) + " d, a, b;", "b32", "b32", "b32", v, v);
  for (const char* op : {"mad24.lo.u32", "mad24.hi.s32", "mad24.hi.sat.s32", "mad.hi.sat.s32",
                         "dp4a.u32.u32", "dp4a.s32.s32", "dp4a.u32.s32", "dp4a.s32.u32",
                         "dp2a.lo.u32.s32", "dp2a.hi.s32.s32", "dp2a.hi.u32.u32"})
    l.op3(std::string(op) + " d, a, b, c;", "b32", "b32", "b32", "b32", few, few, few);
}

void bits(const Lanes& l) {
  for (uint32_t bits : {16u, 32u, 64u}) {
    std::string r = "b" + std::to_string(bits);
    Column v = integers(bits),
           amounts = {0, 1, 5, bits - 1, bits, bits + 1, 63, 64, 255, 256, 0xFFFFFFFF};
    l.op2("shl." + r + " d, a, b;", r, r, "b32", v, amounts);
    for (const char* sign : {"s", "u"})
      l.op2(std::string("shr.") + sign + std::to_string(bits) + " d, a, b;", r, r, "b32", v,
            amounts);
    for (const char* op : {"and.", "or.", "xor."})
      l.op2(op + r + " d, a, b;", r, r, r, v, integers(bits, 8));
    for (const char* op : {"not.", "cnot."}) l.op1(op + r + " d, a;", r, r, v);
    if (bits == 16) continue;
    for (const char* op : {"popc.", "clz."}) l.op1(op + r + " d, a;", "b32", r, v);
    l.op1("brev." + r + " d, a;", r, r, v);
    for (const char* sign : {"s", "u"}) {
      std::string t = sign + std::to_string(bits);
      for (const char* op : {"bfind.", "bfind.shiftamt."}) l.op1(op + t + " d, a;", "b32", r, v);
      l.op3("bfe." + t + " d, a, b, c;", r, r, "b32", "b32", v,
            {0, 3, 31, 32, 40, 63, 70, 255, 256}, {0, 1, 5, 16, 32, 64, 255, 256});
    }
    Column a, b, position, length;
    for (uint64_t x : integers(bits, 6))
      for (uint64_t y : integers(bits, 2))
        for (uint64_t p : {0, 7, 31, 63, 64, 255, 256})
          for (uint64_t n : {0, 1, 9, 32, 64, 200, 256})
            a.push_back(x), b.push_back(y), position.push_back(p), length.push_back(n);
    l.row("bfi." + r + " d, a, b, c, e;", r, {r, r, "b32", "b32"}, {a, b, position, length});
  }
  Column v = integers(32, 12), n = {0, 1, 9, 31, 32, 33, 63, 100, 255, 0xFFFFFFFF};
  for (const char* mode : {"l.clamp", "l.wrap", "r.clamp", "r.wrap"})
    l.op3(std::string("shf.") + mode + ".b32 d, a, b, c;", "b32", "b32", "b32", "b32", v, v, n);
  for (uint32_t t : {0x80u, 0xFEu, 0x40u, 0x1Au, 0x96u, 0xE8u, 0xCAu, 0x00u, 0xFFu})
    l.op3("lop3.b32 d, a, b, c, " + std::to_string(t) + ";", "b32", "b32", "b32", "b32", v, v, v);
  l.op2(".reg .b32 x; .reg .pred p; setp.ne.u32 p, a, 0;\nlop3.or.b32 x|d, a, b, b, 0xC0, !p;",
        "pred", "b32", "b32", v, v);
  for (const char* op : {"szext.clamp.s32", "szext.wrap.s32", "szext.clamp.u32", "szext.wrap.u32"})
    l.op2(std::string(op) + " d, a, b;", "b32", "b32", "b32", v, n);
  for (const char* op : {"bmsk.clamp.b32", "bmsk.wrap.b32"})
    l.op2(std::string(op) + " d, a, b;", "b32", "b32", "b32", n, n);
  l.op3("fns.b32 d, a, b, c;", "b32", "b32", "b32", "b32", v, {0, 5, 17, 31},
        {0, 1, 2, 5, 0xFFFFFFFF, 0xFFFFFFFD});
  Column selectors = {0x3210, 0x7654, 0xFEDC, 0x0123, 0x89AB, 0x5140, 0xFFFF7654};
  l.op3("prmt.b32 d, a, b, c;", "b32", "b32", "b32", "b32", v, integers(32, 4), selectors);
  for (const char* mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"})
    l.op3(std::string("prmt.b32.") + mode + " d, a, b, c;", "b32", "b32", "b32", "b32", v,
          integers(32, 2), {0, 1, 2, 3, 7, 0xFFFFFFFE});
}

void carries(const Lanes& l) {
  Column v = integers(64, 10), a, b;
  lane_ops::cross(v, v, a, b);
  for (const char* t : {"u64", "s64", "u32", "s32"}) {
    std::string n = t, r = n.substr(1) == "64" ? "b64" : "b32", x = ".reg ." + r + " x; ";
    l.row(x + "add.cc." + n + " x, a, b; addc." + n + " d, a, b;", r, {r, r}, {a, b});
    l.row(x + "add.cc." + n + " x, a, b; addc.cc." + n + " x, b, x; addc." + n + " d, 5, 0;", r,
          {r, r}, {a, b});
    l.row(x + "sub.cc." + n + " x, a, b; subc.cc." + n + " x, x, a; subc." + n + " d, x, 0;", r,
          {r, r}, {a, b});
    l.row(x + "mad.lo.cc." + n + " x, a, b, b; madc.hi." + n + " d, a, b, x;", r, {r, r}, {a, b});
  }
}

void comparisons(const Lanes& l) {
  for (const Type& t : kIntegers) {
    Column v = integers(t.bits, 8);
    for (std::string cmp : {"eq", "ne", "lt", "le", "gt", "ge"})
      l.op2("setp." + cmp + "." + t.name + " d, a, b;", "pred", t.reg(), t.reg(), v, v);
  }
  Column v = integers(32, 8);
  for (std::string cmp : {"lo", "ls", "hi", "hs"})
    l.op2("setp." + cmp + ".u32 d, a, b;", "pred", "b32", "b32", v, v);
  for (const char* b : {"and", "or", "xor"})
    l.op2(".reg .pred p, q; setp.gt.s32 p, a, 7; setp.lt." + std::string(b) +
              ".s32 d|q, a, b, p; @q not.pred d, d;",
          "pred", "b32", "b32", v, v);
  for (const char* t : {"set.lt.u32.s32", "set.ge.s32.u32", "set.eq.f32.s32"})
    l.op2(std::string(t) + " d, a, b;", "b32", "b32", "b32", v, v);
  l.op3("selp.b32 d, a, b, c;", "b32", "b32", "b32", "pred", v, v, {0, 1});
  l.op3("selp.b64 d, a, b, c;", "b64", "b64", "b64", "pred", integers(64, 8), integers(64, 8),
        {0, 1});
  l.op3("slct.u32.s32 d, a, b, c;", "b32", "b32", "b32", "b32", v, v, v);
  l.op3("slct.b64.s32 d, a, b, c;", "b64", "b64", "b64", "b32", integers(64, 4), integers(64, 4),
        v);
}

void video(const Lanes& l) {
  const Column v = integers(32, 8), c = integers(32, 3);
  auto row = [&](const std::string& op) { l.op3(op + ";", "b32", "b32", "b32", "b32", v, v, c); };
  const std::string types[] = {".u32.u32.u32", ".s32.s32.s32", ".s32.u32.s32", ".u32.s32.u32"};
  for (const char* op : {"vadd", "vsub", "vabsdiff", "vmin", "vmax"})
    for (const std::string& t : types) {
      row(op + t + " d, a, b");
      row(op + t + ".sat d, a.h1, b.b2");
      row(op + t + ".sat d.b1, a, b.h0, c");
      row(op + t + " d.h1, a.b3, b, c");
      for (const char* second : {".add", ".min", ".max"}) {
        row(op + t + second + " d, a, b.b0, c");
        row(op + t + ".sat" + second + " d, a.h0, b, c");
      }
    }
  for (const char* op : {"vshl", "vshr"})
    for (const char* t : {".u32.u32.u32", ".s32.s32.u32", ".u32.s32.u32"})
      for (const char* mode : {".clamp", ".wrap"}) {
        row(std::string(op) + t + mode + " d, a, b.b0");
        row(std::string(op) + t + mode + ".add d, a.h1, b, c");
        row(std::string(op) + t + ".sat" + mode + " d.h0, a.b1, b.b3, c");
      }
  for (const char* cmp : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (const char* t : {".u32.u32.", ".s32.s32.", ".s32.u32."}) {
      row(std::string("vset") + t + cmp + " d, a, b");
      row(std::string("vset") + t + cmp + ".max d, a.b1, b.b2, c");
      row(std::string("vset2") + t + cmp + " d, a, b, c");
      row(std::string("vset4") + t + cmp + ".add d, a, b, c");
    }
  for (const std::string& t : types) {
    row("vmad" + t + " d, a.h0, b.h1, c");
    row("vmad" + t + ".sat.shr7 d, a.b3, b.h0, c");
    row("vmad" + t + ".po.shr15 d, a.h1, b.h1, c");
  }
  row("vmad.s32.s32.s32 d, -a.h0, b.h1, c");
  row("vmad.s32.s32.s32.sat d, a.h0, b.h1, -c");
  for (const char* n : {"2", "4"})
    for (const char* op : {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"})
      for (const std::string& t : types) {
        const std::string name = op + std::string(n) + t;
        row(name + " d, a, b, c");
        row(name + ".sat d, a, b, c");
        row(name + ".add d, a, b, c");
        row(name + (n[0] == '2' ? " d.h1, a.h21, b.h03, c" : " d.b31, a.b7120, b.b0456, c"));
      }
}

} // namespace

void add_integer_cases(std::vector<Case>& cases) {
  arithmetic({cases, "integer arithmetic"});
  bits({cases, "bits, shifts, permutation"});
  carries({cases, "carry chains"});
  comparisons({cases, "comparison, selection"});
  video({cases, "video"});
}

} // namespace wltest::oracle
