// Floating-point arithmetic (bit for bit) and approximations (distances).
#include "tests/hardware/oracle_lanes.hpp"

#include <cmath>

namespace wltest::oracle {

using namespace lane_ops;

namespace {

const char* const kModes[] = {"rn", "rz", "rm", "rp"};

void single(const Lanes& l) {
  Column v = floats32(), few = floats32(14);
  for (const std::string rnd : kModes)
    for (const std::string& tail : {std::string(), std::string(".ftz"), std::string(".sat")}) {
      std::string t = "." + rnd + tail + ".f32";
      for (const char* op : {"add", "sub", "mul"})
        l.op2(op + t + " d, a, b;", "b32", "b32", "b32", v, v);
      l.op3("fma" + t + " d, a, b, c;", "b32", "b32", "b32", "b32", few, few, floats32(20));
      if (tail == ".sat") continue;
      l.op2("div" + t + " d, a, b;", "b32", "b32", "b32", v, v);
      for (const char* op : {"rcp", "sqrt"}) l.op1(op + t + " d, a;", "b32", "b32", floats32(2000));
    }
  for (const char* op : {"min.f32", "max.f32", "min.ftz.f32", "max.NaN.f32", "min.NaN.f32",
                         "min.xorsign.abs.f32", "max.NaN.xorsign.abs.f32", "copysign.f32"})
    l.op2(std::string(op) + " d, a, b;", "b32", "b32", "b32", v, v);
  for (const char* op : {"abs.f32", "neg.f32", "abs.ftz.f32", "neg.ftz.f32"})
    l.op1(std::string(op) + " d, a;", "b32", "b32", v);
  for (const char* p : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"})
    l.op1(std::string("testp.") + p + ".f32 d, a;", "pred", "b32", v);
  for (std::string cmp : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                          "geu", "num", "nan"}) {
    l.op2("setp." + cmp + ".f32 d, a, b;", "pred", "b32", "b32", few, few);
    l.op2("setp." + cmp + ".f64 d, a, b;", "pred", "b64", "b64", floats64(8), floats64(8));
    l.op2("setp." + cmp + ".f16 d, a, b;", "pred", "b16", "b16", halves(8), halves(8));
  }
  l.op2("setp.lt.ftz.f32 d, a, b;", "pred", "b32", "b32", v, v);
  l.op2("set.gt.u32.f32 d, a, b;", "b32", "b32", "b32", v, v);
  l.op2("set.gt.ftz.f32.f32 d, a, b;", "b32", "b32", "b32", v, v);
  l.op2("set.le.f16x2.f16x2 d, a, b;", "b32", "b32", "b32", v, v);
  l.op3("slct.f32.f32 d, a, b, c;", "b32", "b32", "b32", "b32", few, few, v);
}

void wide(const Lanes& l) {
  Column v = floats64(), few = floats64(14);
  for (const std::string rnd : kModes) {
    std::string t = "." + rnd + ".f64";
    for (const char* op : {"add", "sub", "mul", "div"})
      l.op2(op + t + " d, a, b;", "b64", "b64", "b64", v, v);
    l.op3("fma" + t + " d, a, b, c;", "b64", "b64", "b64", "b64", few, few, floats64(20));
    for (const char* op : {"rcp", "sqrt"}) l.op1(op + t + " d, a;", "b64", "b64", floats64(600));
  }
  for (const char* op : {"min.f64", "max.f64", "copysign.f64"})
    l.op2(std::string(op) + " d, a, b;", "b64", "b64", "b64", v, v);
  for (const char* op : {"abs.f64", "neg.f64"}) l.op1(std::string(op) + " d, a;", "b64", "b64", v);
}

void half(const Lanes& l) {
  Column v = halves(), few = halves(10), pairs, some;
  std::mt19937 g(kSeed);
  for (uint64_t x : v) pairs.push_back(x | v[g() % v.size()] << 16);
  some.assign(pairs.begin(), pairs.begin() + 24);
  for (bool packed : {false, true}) {
    std::string r = packed ? "b32" : "b16", x2 = packed ? "x2" : "";
    const Column& in = packed ? pairs : v;
    const Column& third = packed ? some : few;
    for (const char* op : {"add", "sub", "mul"}) {
      for (const char* tail : {".f16", ".ftz.f16", ".sat.f16", ".ftz.sat.f16", ".bf16"})
        l.op2(op + std::string(".rn") + tail + x2 + " d, a, b;", r, r, r, in, in);
    }
    for (const char* tail :
         {".f16", ".ftz.f16", ".sat.f16", ".relu.f16", ".ftz.relu.f16", ".bf16", ".relu.bf16"})
      l.op3(std::string("fma.rn") + tail + x2 + " d, a, b, c;", r, r, r, r, third, third, in);
    for (const char* op : {"min", "max"})
      for (const char* tail : {".f16", ".ftz.f16", ".NaN.f16", ".xorsign.abs.f16", ".bf16",
                               ".NaN.bf16", ".NaN.xorsign.abs.bf16"})
        l.op2(op + std::string(tail) + x2 + " d, a, b;", r, r, r, in, in);
    for (const char* op :
         {"neg.f16", "neg.ftz.f16", "abs.f16", "abs.ftz.f16", "neg.bf16", "abs.bf16"})
      l.op1(op + x2 + " d, a;", r, r, in);
  }
}

void approximate(const Lanes& l) {
  Column v = floats32(3000);
  for (int i = -2000; i < 2000; ++i)
    v.push_back(std::bit_cast<uint32_t>(float(i) * 0.01f + 0.003f));
  for (const char* op :
       {"ex2.approx.f32", "ex2.approx.ftz.f32", "lg2.approx.f32", "lg2.approx.ftz.f32",
        "rcp.approx.f32", "rcp.approx.ftz.f32", "rsqrt.approx.f32", "rsqrt.approx.ftz.f32",
        "sqrt.approx.f32", "sqrt.approx.ftz.f32", "tanh.approx.f32"})
    l.op1(std::string(op) + " d, a;", "b32", "b32", v);
  // Large arguments have no bound in ulp: the two functions are compared in [-pi, pi].
  Column angles;
  for (int i = -2000; i <= 2000; ++i)
    angles.push_back(std::bit_cast<uint32_t>(float(i) * 0.00157f));
  for (const char* op : {"sin.approx.f32", "cos.approx.f32", "sin.approx.ftz.f32"})
    l.op1(std::string(op) + " d, a;", "b32", "b32", angles);
  for (const char* op : {"div.approx.f32", "div.full.f32", "div.approx.ftz.f32"})
    l.op2(std::string(op) + " d, a, b;", "b32", "b32", "b32", floats32(60), floats32(60));
  Column w = floats64(1000);
  for (const char* op : {"rcp.approx.ftz.f64", "rsqrt.approx.f64", "rsqrt.approx.ftz.f64"})
    l.op1(std::string(op) + " d, a; shr.u64 d, d, 32;", "b64", "b64", w);
}

void approximate_half(const Lanes& f16, const Lanes& bf16) {
  Column all;
  for (uint64_t i = 0; i < 65536; ++i) all.push_back(i);
  for (const char* op : {"tanh.approx", "ex2.approx"})
    f16.op1(std::string(op) + ".f16 d, a;", "b16", "b16", all);
  for (const char* op : {"tanh.approx", "ex2.approx.ftz"})
    bf16.op1(std::string(op) + ".bf16 d, a;", "b16", "b16", all);
}

} // namespace

void add_float_cases(std::vector<Case>& cases) {
  single({cases, "f32 arithmetic"});
  wide({cases, "f64 arithmetic"});
  half({cases, "f16, bf16 arithmetic"});
  approximate({cases, "approximations", Compare::ulp32});
  approximate_half({cases, "approximations", Compare::ulp16},
                   {cases, "approximations", Compare::ulp_bf16});
}

} // namespace wltest::oracle
