// Shuffles, votes, matches, reductions of a warp, matrix loads and stores, mma.sync.
#include "tests/hardware/oracle_lanes.hpp"

#include <cmath>

namespace wltest::oracle {

using namespace lane_ops;

namespace {

Column random_words(size_t n, uint32_t seed, uint32_t mask = ~0u) {
  std::mt19937 g(seed);
  Column v(n);
  for (uint64_t& x : v) x = g() & mask;
  return v;
}

void exchange(const Lanes& l) {
  Column v = random_words(512, 1), small = random_words(512, 2, 3),
         index = random_words(512, 3, 63), bit = random_words(512, 4, 1);
  for (const char* mode : {"up", "down", "bfly", "idx"})
    for (const char* clamp : {"0", "0x1f", "0x181f", "0x1c03", "0x101f", "0x1e00", "0x1807"}) {
      std::string op = std::string("shfl.sync.") + mode + ".b32 d|p, a, ";
      for (const char* lane : {"1", "4", "17", "b"})
        l.row(".reg .pred p; " + op + lane + ", " + clamp + ", -1; @!p add.u32 d, d, 0x1000000;",
              "b32", {"b32", "b32"}, {v, index});
    }
  // Half of the warp, each half with its own mask.
  l.row(".reg .pred q; .reg .b32 t; mov.u32 t, %laneid; setp.lt.u32 q, t, 16; mov.u32 d, 0; @q bra "
        "low; shfl.sync.bfly.b32 d, a, 3, 0x1f, 0xFFFF0000; bra join;\nlow: shfl.sync.idx.b32 d, "
        "a, 5, 0x1f, 0x0000FFFF;\njoin: bar.warp.sync -1;",
        "b32", {"b32"}, {v});
  for (const char* mode : {"all", "any", "uni"})
    for (const char* source : {"b", "!b"})
      l.row(std::string("vote.sync.") + mode + ".pred d, " + source + ", -1;", "pred",
            {"b32", "pred"}, {v, bit});
  l.row("vote.sync.ballot.b32 d, b, -1;", "b32", {"b32", "pred"}, {v, bit});
  l.row("vote.sync.all.pred d, b, -1;", "pred", {"b32", "pred"}, {v, {1}});
  l.row("match.any.sync.b32 d, a, -1;", "b32", {"b32"}, {small});
  l.row(".reg .b64 x; cvt.u64.u32 x, a; shl.b64 x, x, 33; match.any.sync.b64 d, x, -1;", "b32",
        {"b32"}, {small});
  l.row(".reg .pred p; match.all.sync.b32 d|p, a, -1; @p add.u32 d, d, 5;", "b32", {"b32"},
        {small});
  l.row(".reg .pred p; match.all.sync.b32 d|p, a, -1; @p add.u32 d, d, 5;", "b32", {"b32"}, {{9}});
  for (const char* op : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32",
                         "and.b32", "or.b32", "xor.b32"})
    l.row(std::string("redux.sync.") + op + " d, a, -1;", "b32", {"b32"}, {v});
  l.row(".reg .pred p; elect.sync d|p, -1; @p add.u32 d, d, 100;", "b32", {"b32"}, {v});
  l.row("activemask.b32 d;", "b32", {"b32"}, {v});
  for (const char* s : {"laneid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt",
                        "lanemask_ge", "tid.x", "ntid.x", "ctaid.x", "nctaid.x"})
    l.row(std::string("mov.u32 d, %") + s + ";", "b32", {"b32"}, {v});
  // Which warp slot of the multiprocessor is a matter of the card.
  l.row(".reg .b32 w, n; .reg .pred p; mov.u32 w, %warpid; mov.u32 n, %nwarpid; "
        "setp.lt.u32 p, w, n; selp.u32 d, 1, 0, p;",
        "b32", {"b32"}, {v});
}

std::string list(const char* name, uint32_t n) {
  std::string s = "{";
  for (uint32_t i = 0; i < n; ++i) s += (i ? ", " : "") + (name + std::to_string(i));
  return s + "}";
}

// One warp: 16 bytes a lane go to shared memory and come back through ldmatrix, and the other way.
void matrices(std::vector<Case>& cases) {
  const std::string head = R"(
  .shared .align 128 .b8 s[1024];
  .reg .b32 w<4>;
  mov.u32 %r0, %laneid;
  mov.u32 %r1, s;
  mad.lo.u32 %r2, %r0, 16, %r1;
  ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r0, 16; add.u64 %rd0, %rd0, %rd2; add.u64 %rd1, %rd1, %rd2;
  ld.global.v4.b32 {w0, w1, w2, w3}, [%rd0];
  // Rows in an order of their own: row i of the matrices at 16 ((5 i + 3) mod 32).
  mad.lo.u32 %r3, %r0, 5, 3; and.b32 %r3, %r3, 31; mad.lo.u32 %r3, %r3, 16, %r1;
)";
  for (uint32_t n : {1u, 2u, 4u})
    for (std::string trans : {"", ".trans"}) {
      std::string op = ".sync.aligned.m8n8.x" + std::to_string(n) + trans + ".shared.b16 ";
      Case c;
      c.family = "matrix loads and stores";
      c.scheduled = false;
      c.in("in", random_bytes(512, n)).out("out", 512);
      c.name = "ldmatrix" + op;
      c.body = head + "  st.shared.v4.b32 [%r2], {w0, w1, w2, w3};\n  bar.sync 0;\n  ldmatrix" +
               op + list("w", n) + ", [%r3];\n  st.global.v4.b32 [%rd1], {w0, w1, w2, w3};\n  ret;";
      cases.push_back(c);
      c.name = "stmatrix" + op;
      c.body = head + "  st.shared.v4.b32 [%r2], {0, 0, 0, 0};\n  bar.sync 0;\n  stmatrix" + op +
               "[%r3], " + list("w", n) +
               ";\n  bar.sync 0;\n  ld.shared.v4.b32 {w0, w1, w2, w3}, [%r2];\n"
               "  st.global.v4.b32 [%rd1], {w0, w1, w2, w3};\n  ret;";
      cases.push_back(c);
    }
  Lanes{cases, "matrix loads and stores"}.row("movmatrix.sync.aligned.m8n8.trans.b16 d, a;", "b32",
                                              {"b32"}, {random_words(512, 9)});
}

// ---- mma.sync

struct Shape {
  const char *shape, *types; // d.a.b.c
  uint32_t a, b, d;          // registers
  const char* element;
};

// Codes of integers from -4 to 4, packed into words.
uint32_t small_code(const std::string& e, int x) {
  static const uint16_t f16[] = {0, 0x3C00, 0x4000, 0x4200, 0x4400};
  static const uint16_t bf16[] = {0, 0x3F80, 0x4000, 0x4040, 0x4080};
  static const uint8_t e4m3[] = {0, 0x38, 0x40, 0x44, 0x48}, e5m2[] = {0, 0x3C, 0x40, 0x42, 0x44};
  int m = x < 0 ? -x : x;
  if (e == "f16") return uint32_t(f16[m] | (x < 0 ? 0x8000 : 0));
  if (e == "bf16") return uint32_t(bf16[m] | (x < 0 ? 0x8000 : 0));
  if (e == "e4m3") return uint32_t(e4m3[m] | (x < 0 ? 0x80 : 0));
  if (e == "e5m2") return uint32_t(e5m2[m] | (x < 0 ? 0x80 : 0));
  if (e == "tf32") return std::bit_cast<uint32_t>(float(x));
  return uint32_t(x) & 255;
}

void mma(std::vector<Case>& cases) {
  const Shape shapes[] = {
      {"m16n8k8", "f32.f16.f16.f32", 2, 1, 4, "f16"},
      {"m16n8k8", "f16.f16.f16.f16", 2, 1, 2, "f16"},
      {"m16n8k16", "f32.f16.f16.f32", 4, 2, 4, "f16"},
      {"m16n8k16", "f16.f16.f16.f16", 4, 2, 2, "f16"},
      {"m16n8k8", "f32.bf16.bf16.f32", 2, 1, 4, "bf16"},
      {"m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, "bf16"},
      {"m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4, "tf32"},
      {"m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, "tf32"},
      {"m16n8k32", "f32.e4m3.e5m2.f32", 4, 2, 4, "e4m3"},
      {"m16n8k32", "f32.e5m2.e5m2.f32", 4, 2, 4, "e5m2"},
      {"m16n8k16", "s32.s8.s8.s32", 2, 1, 4, "any"},
      {"m16n8k16", "s32.u8.s8.s32", 2, 1, 4, "any"},
      {"m16n8k32", "s32.u8.u8.s32", 4, 2, 4, "any"},
      {"m16n8k32", "satfinite.s32.s8.s8.s32", 4, 2, 4, "any"},
      {"m8n8k16", "s32.s8.s8.s32", 1, 1, 2, "any"},
      {"m16n8k32", "s32.s4.s4.s32", 2, 1, 4, "any"},
      {"m16n8k64", "s32.u4.s4.s32", 4, 2, 4, "any"},
      {"m16n8k128", "s32.b1.b1.s32.xor.popc", 2, 1, 4, "any"},
      {"m16n8k256", "s32.b1.b1.s32.and.popc", 4, 2, 4, "any"},
  };
  for (const Shape& s : shapes) {
    std::string e = s.element;
    uint32_t bits = e == "tf32" ? 32 : e == "f16" || e == "bf16" ? 16 : 8;
    std::mt19937 g(77);
    // A warp's words: A, B, C by register and lane.
    std::vector<uint32_t> words((s.a + s.b + s.d) * 32);
    for (uint32_t r = 0; r < s.a + s.b + s.d; ++r)
      for (uint32_t lane = 0; lane < 32; ++lane) {
        uint32_t& w = words[r * 32 + lane];
        if (e == "any")
          w = g();
        else if (r >= s.a + s.b && s.d == 4)
          w = std::bit_cast<uint32_t>(float(int(g() % 65) - 32));
        else if (r >= s.a + s.b)
          w = 0x3C004400 ^ (g() & 0x80008000);
        else
          for (uint32_t k = 0; k < 32; k += bits) {
            std::string code = r >= s.a && e == "e4m3" ? "e5m2" : e;
            w |= small_code(code, int(g() % 9) - 4) << k;
          }
      }
    Case c;
    c.family = "mma.sync";
    c.scheduled = false;
    std::string sat = "satfinite.", types = s.types, prefix;
    if (types.rfind(sat, 0) == 0) prefix = "." + sat.substr(0, 9), types = types.substr(10);
    c.name = "mma.sync.aligned." + std::string(s.shape) + ".row.col" + prefix + "." + types;
    c.body =
        "  .reg .b32 a<4>, b<4>, c<4>;\n  mov.u32 %r0, %laneid;\n  mul.wide.u32 %rd2, %r0, 4;\n"
        "  ld.param.u64 %rd0, [in]; add.u64 %rd0, %rd0, %rd2;\n"
        "  ld.param.u64 %rd1, [out]; add.u64 %rd1, %rd1, %rd2;\n";
    auto load = [&](const char* name, uint32_t first, uint32_t n) {
      for (uint32_t i = 0; i < n; ++i)
        c.body += "  ld.global.b32 " + (name + std::to_string(i)) + ", [%rd0+" +
                  std::to_string((first + i) * 128) + "];\n";
    };
    load("a", 0, s.a);
    load("b", s.a, s.b);
    load("c", s.a + s.b, s.d);
    c.body += "  " + c.name + " " + list("c", s.d) + ", " + list("a", s.a) + ", " + list("b", s.b) +
              ", " + list("c", s.d) + ";\n";
    for (uint32_t i = 0; i < s.d; ++i)
      c.body +=
          "  st.global.b32 [%rd1+" + std::to_string(i * 128) + "], c" + std::to_string(i) + ";\n";
    c.body += "  ret;";
    c.in("in", bytes_of(words)).out("out", s.d * 128);
    cases.push_back(c);
  }
  // f64: fused in some order; products of small integers are exact in any.
  for (auto [shape, a, b, d] :
       {std::tuple{"m8n8k4", 1u, 1u, 2u}, std::tuple{"m16n8k4", 2u, 1u, 4u},
        std::tuple{"m16n8k8", 4u, 2u, 4u}, std::tuple{"m16n8k16", 8u, 4u, 4u}}) {
    std::mt19937 g(5);
    std::vector<double> words((a + b + d) * 32);
    for (double& x : words) x = int(g() % 19) - 9;
    Case c;
    c.family = "mma.sync";
    c.scheduled = false;
    c.name = "mma.sync.aligned." + std::string(shape) + ".row.col.f64.f64.f64.f64";
    c.body =
        "  .reg .f64 a<8>, b<4>, c<4>;\n  mov.u32 %r0, %laneid;\n  mul.wide.u32 %rd2, %r0, 8;\n"
        "  ld.param.u64 %rd0, [in]; add.u64 %rd0, %rd0, %rd2;\n"
        "  ld.param.u64 %rd1, [out]; add.u64 %rd1, %rd1, %rd2;\n";
    uint32_t at = 0;
    for (auto [name, n] : {std::pair{"a", a}, std::pair{"b", b}, std::pair{"c", d}})
      for (uint32_t i = 0; i < n; ++i, at += 256)
        c.body += "  ld.global.f64 " + (name + std::to_string(i)) + ", [%rd0+" +
                  std::to_string(at) + "];\n";
    c.body += "  " + c.name + " " + list("c", d) + ", " + list("a", a) + ", " + list("b", b) +
              ", " + list("c", d) + ";\n";
    for (uint32_t i = 0; i < d; ++i)
      c.body +=
          "  st.global.f64 [%rd1+" + std::to_string(i * 256) + "], c" + std::to_string(i) + ";\n";
    c.body += "  ret;";
    c.in("in", bytes_of(words)).out("out", d * 256);
    cases.push_back(c);
  }
}

} // namespace

void add_warp_cases(std::vector<Case>& cases) {
  exchange({cases, "shuffles, votes, matches"});
  matrices(cases);
  mma(cases);
}

} // namespace wltest::oracle
