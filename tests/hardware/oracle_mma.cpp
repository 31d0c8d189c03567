// wmma, mma.sync and mma.sp, with values whose sums are exact in any order.
#include "tests/hardware/oracle_lanes.hpp"
#include "tests/virtual/wmma_text.hpp"

#include <bit>

namespace wltest::oracle {

namespace {

struct Shape {
  const char *shape, *types; // d.a.b.c
  uint32_t a, b, d;          // registers
  const char* element;
  uint32_t selectors = 0; // how many there are for a sparse A
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

// A sparse A: which words hold metadata, and which codes they take.
struct Sparse {
  const char* variant;
  uint32_t selector;
};

// Every lane has a word of codes, so those that are not asked have others than those that are.
uint32_t codes(bool tf32, bool ordered, std::mt19937& g) {
  static const uint32_t any[] = {4, 8, 12, 9, 13, 14, 1, 2, 3, 6, 7, 11};
  uint32_t word = 0;
  for (uint32_t i = 0; i < 8; ++i)
    word |= (tf32 ? (g() % 2 ? 4 : 14) : any[g() % (ordered ? 6 : 12)]) << 4 * i;
  return word;
}

// The instruction on a warp's words: A, B, C, then metadata, by register and lane.
void run_mma(std::vector<Case>& cases, const Shape& s, const Sparse* sparse) {
  std::string e = s.element;
  uint32_t bits = e == "tf32" ? 32 : e == "f16" || e == "bf16" ? 16 : 8;
  std::mt19937 g(77);
  std::vector<uint32_t> words((s.a + s.b + s.d + 1) * 32);
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
  for (uint32_t lane = 0; sparse && lane < 32; ++lane)
    words[(s.a + s.b + s.d) * 32 + lane] =
        codes(e == "tf32", std::string(sparse->variant) != "sp", g);
  Case c;
  c.family = sparse ? "mma.sp" : "mma.sync";
  c.scheduled = false;
  std::string sat = "satfinite.", types = s.types, prefix;
  if (types.rfind(sat, 0) == 0) prefix = "." + sat.substr(0, 9), types = types.substr(10);
  c.name = (sparse ? "mma." + std::string(sparse->variant) : std::string("mma")) +
           ".sync.aligned." + std::string(s.shape) + ".row.col" + prefix + "." + types;
  c.body =
      "  .reg .b32 a<4>, b<4>, c<4>, e<1>;\n  mov.u32 %r0, %laneid;\n  mul.wide.u32 %rd2, %r0, 4;\n"
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
  if (sparse) load("e", s.a + s.b + s.d, 1);
  std::string tail = sparse ? ", e0, " + std::to_string(sparse->selector) : "";
  c.body += "  " + c.name + " " + list("c", s.d) + ", " + list("a", s.a) + ", " + list("b", s.b) +
            ", " + list("c", s.d) + tail + ";\n";
  if (sparse) c.name += ", selector " + std::to_string(sparse->selector);
  for (uint32_t i = 0; i < s.d; ++i)
    c.body +=
        "  st.global.b32 [%rd1+" + std::to_string(i * 128) + "], c" + std::to_string(i) + ";\n";
  c.body += "  ret;";
  c.in("in", bytes_of(words)).out("out", s.d * 128);
  cases.push_back(c);
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
  for (const Shape& s : shapes) run_mma(cases, s, nullptr);
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

void mma_sp(std::vector<Case>& cases) {
  const Shape shapes[] = {
      {"m16n8k16", "f32.f16.f16.f32", 2, 2, 4, "f16", 4},
      {"m16n8k16", "f16.f16.f16.f16", 2, 2, 2, "f16", 4},
      {"m16n8k32", "f32.f16.f16.f32", 4, 4, 4, "f16", 2},
      {"m16n8k32", "f16.f16.f16.f16", 4, 4, 2, "f16", 2},
      {"m16n8k16", "f32.bf16.bf16.f32", 2, 2, 4, "bf16", 4},
      {"m16n8k32", "f32.bf16.bf16.f32", 4, 4, 4, "bf16", 2},
      {"m16n8k8", "f32.tf32.tf32.f32", 2, 2, 4, "tf32", 4},
      {"m16n8k16", "f32.tf32.tf32.f32", 4, 4, 4, "tf32", 2},
      {"m16n8k64", "f32.e4m3.e5m2.f32", 4, 4, 4, "e4m3", 1},
      {"m16n8k64", "f32.e5m2.e5m2.f32", 4, 4, 4, "e5m2", 1},
      {"m16n8k32", "s32.s8.s8.s32", 2, 2, 4, "any", 2},
      {"m16n8k32", "satfinite.s32.u8.s8.s32", 2, 2, 4, "any", 2},
      {"m16n8k64", "s32.s8.u8.s32", 4, 4, 4, "any", 1},
      {"m16n8k64", "s32.s4.u4.s32", 2, 2, 4, "any", 2},
      {"m16n8k128", "satfinite.s32.u4.s4.s32", 4, 4, 4, "any", 1},
  };
  for (const Shape& s : shapes)
    for (const char* variant : {"sp", "sp::ordered_metadata"})
      for (uint32_t selector = 0; selector < s.selectors; ++selector) {
        const Sparse sparse{variant, selector};
        run_mma(cases, s, &sparse);
      }
}

// From memory to memory: fragments are each machine's own.
void wmma_products(std::vector<Case>& cases) {
  uint32_t seed = 5000;
  for (const wmma::Form& f : wmma::forms()) {
    const wmma::Product p(f, ++seed, 1);
    Case c;
    c.family = "wmma";
    c.scheduled = false;
    c.name = p.name() + ", C by " + f.lc + "s, D by " + f.ld + "s";
    c.body = "  .reg .b64 pa, pb, pc, pd;\n  ld.param.u64 pa, [a]; ld.param.u64 pb, [b];\n"
             "  ld.param.u64 pc, [c]; ld.param.u64 pd, [d];\n" +
             p.text("") + "  ret;";
    c.in("a", p.a.bytes).in("b", p.b.bytes).in("c", p.c.bytes);
    c.out("d", std::vector<uint8_t>(p.d.bytes.size(), 0));
    c.expected = p.d.bytes;
    cases.push_back(c);
  }
}

} // namespace

void add_mma_cases(std::vector<Case>& cases) {
  wmma_products(cases);
  mma(cases);
  mma_sp(cases);
}

} // namespace wltest::oracle
