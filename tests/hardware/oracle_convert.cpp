// Conversions: 8- and 16-bit formats exhaustively, wider ones at their edges and at random.
#include "tests/hardware/oracle_lanes.hpp"

namespace wltest::oracle {

using namespace lane_ops;

namespace {

struct Type {
  std::string name;
  uint32_t bits;
  std::string reg() const { return bits == 8 ? "b16" : "b" + std::to_string(bits); }
};
const std::vector<Type> kIntegers = {{"u8", 8},   {"s8", 8},   {"u16", 16}, {"s16", 16},
                                     {"u32", 32}, {"s32", 32}, {"u64", 64}, {"s64", 64}};
const char* const kModes[] = {"rn", "rz", "rm", "rp"};

Column counted(uint64_t n) {
  Column all;
  for (uint64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

// Values near every rounding and saturation boundary of a narrow format, and random ones.
Column narrow_inputs() {
  Column v = floats32(1500);
  std::mt19937 g(kSeed + 1);
  for (float scale :
       {448.0f, 57344.0f, 65504.0f, 1.0f, 0x1p-6f, 0x1p-9f, 0x1p-14f, 0x1p-16f, 0x1p-24f})
    for (int i = 0; i < 80; ++i) {
      float f = scale * (1.0f + float(int(g() % 65) - 32) / 128.0f);
      v.push_back(std::bit_cast<uint32_t>(i & 1 ? -f : f));
    }
  return v;
}

void integers_and_floats(const Lanes& l) {
  Column single = floats32(300), wide = floats64(300), all16 = counted(65536);
  for (double x : {2147483647.5, -2147483648.5, 255.5, -0.5, 1e10, 9.3e18, -9.3e18, 1.9e19})
    wide.push_back(std::bit_cast<uint64_t>(x));
  for (const Type& from : kIntegers) {
    for (const Type& to : kIntegers)
      for (const char* sat : {"cvt.", "cvt.sat."}) {
        // .sat is for destinations that do not hold every value of the source.
        bool holds = from.name[0] == to.name[0] ? to.bits >= from.bits
                                                : to.name[0] == 's' && to.bits > from.bits;
        if (from.name != to.name && !(holds && sat[4] != 0))
          l.op1(sat + to.name + "." + from.name + " d, a;", to.reg(), from.reg(),
                integers(from.bits));
      }
    for (const std::string m : kModes)
      for (std::string to : {"f32", "f64", "f16"})
        l.op1("cvt." + m + "." + to + "." + from.name + " d, a;",
              to == "f32"   ? "b32"
              : to == "f64" ? "b64"
                            : "b16",
              from.reg(), integers(from.bits, 200));
    if (from.bits > 8)
      l.op1("cvt.rn.bf16." + from.name + " d, a;", "b16", from.reg(), integers(from.bits, 200));
  }
  for (const Type& to : kIntegers)
    for (const std::string m : kModes) {
      std::string op = "cvt." + m + "i.";
      l.op1(op + to.name + ".f32 d, a;", to.reg(), "b32", single);
      l.op1(op + to.name + ".f64 d, a;", to.reg(), "b64", wide);
      if (m == "rn" || m == "rz") {
        l.op1(op + "ftz." + to.name + ".f32 d, a;", to.reg(), "b32", single);
        l.op1(op + to.name + ".f16 d, a;", to.reg(), "b16", all16);
        if (to.bits > 8) l.op1(op + to.name + ".bf16 d, a;", to.reg(), "b16", all16);
      }
    }
}

void floats(const Lanes& l) {
  Column v = narrow_inputs(), g = floats64(600), all16 = counted(65536);
  for (double x : {1e-45, 1e-40, -3e38, 3.4028235677973366e38, 1e39, 65519.0, 65520.0, 2.98e-8,
                   0x1p-126, 0x1.fffffep-127, 0x1.fffffffp-127, 0x1.fffffdp-127})
    for (double s : {1.0, -1.0}) g.push_back(std::bit_cast<uint64_t>(x * s));
  for (const std::string m : kModes) {
    l.op1("cvt." + m + ".f32.f64 d, a;", "b32", "b64", g);
    l.op1("cvt." + m + ".ftz.f32.f64 d, a;", "b32", "b64", g);
    l.op1("cvt." + m + ".f16.f32 d, a;", "b16", "b32", v);
    l.op1("cvt." + m + ".f16.f64 d, a;", "b16", "b64", g);
    l.op1("cvt." + m + ".bf16.f32 d, a;", "b16", "b32", v);
    l.op1("cvt." + m + "i.f32.f32 d, a;", "b32", "b32", v);
    l.op1("cvt." + m + "i.f64.f64 d, a;", "b64", "b64", g);
    l.op1("cvt." + m + "i.f16.f16 d, a;", "b16", "b16", all16);
  }
  l.op1("cvt.f32.f16 d, a;", "b32", "b16", all16);
  l.op1("cvt.ftz.f32.f16 d, a;", "b32", "b16", all16);
  l.op1("cvt.f64.f16 d, a;", "b64", "b16", all16);
  l.op1("cvt.f32.bf16 d, a;", "b32", "b16", all16);
  l.op1("cvt.f64.f32 d, a;", "b64", "b32", v);
  l.op1("cvt.sat.f32.f32 d, a;", "b32", "b32", v);
  l.op1("cvt.ftz.f32.f32 d, a;", "b32", "b32", v);
  l.op1("cvt.sat.f16.f16 d, a;", "b16", "b16", all16);
  for (const char* op : {"cvt.rn.relu.f16.f32", "cvt.rz.relu.bf16.f32"})
    l.op1(std::string(op) + " d, a;", "b16", "b32", v);
  for (const char* op :
       {"cvt.rna.tf32.f32", "cvt.rn.tf32.f32", "cvt.rz.tf32.f32", "cvt.rn.relu.tf32.f32",
        "cvt.rz.relu.tf32.f32", "cvt.rna.satfinite.tf32.f32"})
    l.op1(std::string(op) + " d, a;", "b32", "b32", v);
}

void pairs(const Lanes& l) {
  Column v = narrow_inputs(), w(v.rbegin(), v.rend()), all16 = counted(65536);
  for (const char* op : {"cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", "cvt.rn.relu.f16x2.f32",
                         "cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32", "cvt.rz.relu.bf16x2.f32"})
    l.row(std::string(op) + " d, a, b;", "b32", {"b32", "b32"}, {v, w});
  for (const char* op : {"cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32",
                         "cvt.rn.satfinite.relu.e4m3x2.f32", "cvt.rn.satfinite.relu.e5m2x2.f32"})
    l.row(std::string(op) + " d, a, b;", "b16", {"b32", "b32"}, {v, w});
  for (const char* f : {"e4m3x2", "e5m2x2"}) {
    std::string n = f;
    l.op1("cvt.rn.f16x2." + n + " d, a;", "b32", "b16", all16);
    l.op1("cvt.rn.relu.f16x2." + n + " d, a;", "b32", "b16", all16);
    // Every f16 in both halves.
    for (const char* relu : {"", "relu."})
      l.op1(".reg .b32 x; .reg .b16 y; not.b16 y, a; mov.b32 x, {a, y}; cvt.rn.satfinite." +
                (relu + n) + ".f16x2 d, x;",
            "b16", "b16", all16);
  }
  Column words = integers(32, 60);
  for (const char* op : {"cvt.pack.sat.s16.s32", "cvt.pack.sat.u16.s32"})
    l.op2(std::string(op) + " d, a, b;", "b32", "b32", "b32", words, words);
  for (const char* t : {"u8", "s8", "u4", "s4", "u2", "s2"})
    l.op3(std::string("cvt.pack.sat.") + t + ".s32.b32 d, a, b, c;", "b32", "b32", "b32", "b32",
          integers(32, 8), integers(32, 8), words);
  Column h = integers(16, 10);
  l.op2("mov.b32 d, {a, b};", "b32", "b16", "b16", h, h);
  l.op1(".reg .b16 x, y; mov.b32 {x, y}, a; mov.b32 d, {y, x};", "b32", "b32", words);
  l.op2("mov.b64 d, {a, b, b, a};", "b64", "b16", "b16", h, h);
}

} // namespace

void add_convert_cases(std::vector<Case>& cases) {
  integers_and_floats({cases, "conversions"});
  floats({cases, "conversions"});
  pairs({cases, "conversions"});
}

} // namespace wltest::oracle
