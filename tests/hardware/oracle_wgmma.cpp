// wgmma. Exact sums bit for bit: shared memory holds codes of small integers everywhere, so that
// any reading of a descriptor gives a sum that every order of accumulation agrees on, and a wrong
// reading gives another sum. Then a measurement of how the card adds, with the model that fits it
// best.
#include "ptx/layouts.hpp"
#include "tests/hardware/oracle_tile.hpp"
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/tensor/mma.hpp"

#include <bit>
#include <cmath>
#include <map>
#include <random>

namespace wltest::oracle {

namespace {

namespace num = vgpu::num;
namespace tensor = vgpu::tensor;
namespace layout = warpline::ptx;
using layout::Swizzle;

constexpr uint32_t kTile = 40960, kB = 8192; // A lies at 0

struct Element {
  const char* name;
  uint32_t bytes;
  num::Format format;
  tensor::MmaType type;
};
const Element kF16{"f16", 2, num::Format::f16, tensor::MmaType::f16};
const Element kBf16{"bf16", 2, num::Format::bf16, tensor::MmaType::bf16};
const Element kTf32{"tf32", 4, num::Format::tf32, tensor::MmaType::tf32};
const Element kE4m3{"e4m3", 1, num::Format::e4m3, tensor::MmaType::e4m3};
const Element kE5m2{"e5m2", 1, num::Format::e5m2, tensor::MmaType::e5m2};
const Element kS8{"s8", 1, num::Format::e4m3, tensor::MmaType::s8};
const Element kU8{"u8", 1, num::Format::e4m3, tensor::MmaType::u8};

bool is_integer(const Element& e) {
  return e.type == tensor::MmaType::s8 || e.type == tensor::MmaType::u8;
}

uint32_t code_of(const Element& e, double value) {
  if (is_integer(e)) return uint32_t(int32_t(value)) & 255;
  return num::encode(e.format, value);
}

void fill(std::vector<uint8_t>& image, size_t from, size_t to, const Element& e, uint32_t seed) {
  std::mt19937 g(seed);
  for (size_t i = from; i < to; i += e.bytes) {
    uint32_t code = is_integer(e) ? g() & 255 : code_of(e, double(int(g() % 9)) - 4);
    std::memcpy(&image[i], &code, e.bytes);
  }
}

std::string list(const char* name, uint32_t n) {
  std::string s = "{";
  for (uint32_t i = 0; i < n; ++i) s += (i ? "," : "") + (name + std::to_string(i));
  return s + "}";
}

std::string descriptor(const char* reg, const layout::MatrixDesc& d) {
  return std::string("  add.s64 ") + reg + ", %rd8, " +
         std::to_string(int64_t(layout::matrix_desc_wgmma(d))) + ";\n";
}

// Strides that fit the swizzle, for an operand whose rows run along K or along M and N.
layout::MatrixDesc operand(uint32_t at, Swizzle swizzle, bool mn_major) {
  layout::MatrixDesc d;
  d.address = at;
  d.layout = swizzle;
  if (swizzle == Swizzle::none) {
    d.leading_bytes = mn_major ? 2048 : 128;
    d.stride_bytes = mn_major ? 128 : 256;
  } else {
    d.stride_bytes = 8 * layout::swizzle_span(swizzle);
    d.leading_bytes = mn_major ? 2 * d.stride_bytes : 16;
  }
  return d;
}

struct Multiply {
  const char* d; // "f32", "f16", "s32"
  Element a, b;
  uint32_t n;
  Swizzle swizzle_a = Swizzle::b128, swizzle_b = Swizzle::b128;
  bool a_registers = false, a_mn = false, b_mn = false;
  bool saturate = false;
};

// D = first product, D +- products by the negations, D + product at the next K step.
void add(std::vector<Case>& cases, const Multiply& x) {
  static const char* const names[] = {"none", "32B", "64B", "128B"};
  bool integer = is_integer(x.a), halves = std::string(x.d) == "f16";
  uint32_t registers = halves ? x.n / 4 : x.n / 2;
  uint32_t k = 32 / x.a.bytes;
  Case c;
  c.family = "wgmma";
  std::string shape = "m64n" + std::to_string(x.n) + "k" + std::to_string(k);
  std::string types =
      std::string(".") + x.d + "." + x.a.name + "." + x.b.name + (x.saturate ? ".satfinite" : "");
  c.name =
      shape + types +
      (x.a_registers ? " A registers"
                     : std::string(" A ") + names[int(x.swizzle_a)] + (x.a_mn ? " M-major" : "")) +
      ", B " + names[int(x.swizzle_b)] + (x.b_mn ? " N-major" : "");
  c.block = {128, 1, 1};
  c.body = tile_head(kTile, true) + "  .reg .b32 acc<" + std::to_string(registers) +
           ">, a<4>;\n"
           "  and.b32 %r22, %r20, 0x3FFFF;\n  shr.u32 %r22, %r22, 4;\n  cvt.u64.u32 %rd8, %r22;\n"
           "  mad.lo.u32 %r23, %r0, 16, %r20;\n  ld.shared.v4.b32 {a0, a1, a2, a3}, [%r23];\n" +
           descriptor("%rd5", operand(0, x.swizzle_a, x.a_mn)) +
           descriptor("%rd6", operand(kB, x.swizzle_b, x.b_mn)) +
           "  add.s64 %rd7, %rd6, 2;\n  setp.ne.u32 %p2, %r0, %r0;\n";
  for (uint32_t i = 0; i < registers; ++i)
    c.body += "  mov.b32 acc" + std::to_string(i) + ", 0x3C003C00;\n"; // not added
  c.body += "  wgmma.fence.sync.aligned;\n";
  auto mma = [&](const char* b, const char* scale_d, int negate_a, int negate_b) {
    c.body += "  wgmma.mma_async.sync.aligned." + shape + types + " " + list("acc", registers) +
              ", " + (x.a_registers ? "{a0, a1, a2, a3}" : "%rd5") + ", " + b + ", " + scale_d;
    if (!integer) c.body += ", " + std::to_string(negate_a) + ", " + std::to_string(negate_b);
    if (x.a.bytes == 2) {
      if (!x.a_registers) c.body += x.a_mn ? ", 1" : ", 0";
      c.body += x.b_mn ? ", 1" : ", 0";
    }
    c.body += ";\n";
  };
  mma("%rd6", "%p2", 1, 1);
  mma("%rd6", "!%p2", -1, 1);
  mma("%rd6", "!%p2", 1, -1);
  mma("%rd6", "!%p2", -1, -1);
  mma("%rd6", "1", 1, 1);
  mma("%rd7", "1", 1, 1); // a step of 32 bytes
  c.body += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n"
            "  mul.wide.u32 %rd9, %r0, 4;\n  add.u64 %rd9, %rd0, %rd9;\n";
  for (uint32_t i = 0; i < registers; ++i)
    c.body +=
        "  st.global.b32 [%rd9+" + std::to_string(i * 512) + "], acc" + std::to_string(i) + ";\n";
  c.body += "  ret;";
  std::vector<uint8_t> image(kTile);
  fill(image, 0, kB, x.a, x.n);
  fill(image, kB, kTile, x.b, x.n + 1);
  c.in("in", image).out("out", registers * 512);
  cases.push_back(std::move(c));
}

void exact(std::vector<Case>& cases) {
  const Swizzle swizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
  for (uint32_t n = 8; n <= 256; n += 8) add(cases, {"f32", kF16, kF16, n});
  for (uint32_t n : {8u, 16u, 24u, 64u, 120u, 128u, 256u}) {
    add(cases, {"f16", kF16, kF16, n});
    add(cases, {"f32", kBf16, kBf16, n});
    add(cases, {"f32", kTf32, kTf32, n});
    add(cases, {"f32", kE4m3, kE4m3, n});
    add(cases, {"f16", kE4m3, kE5m2, n});
    add(cases, {"f32", kE5m2, kE4m3, n});
    add(cases, {"f32", kE5m2, kE5m2, n});
  }
  for (uint32_t n : {8u, 16u, 24u, 32u, 48u, 96u, 208u, 256u})
    for (bool saturate : {false, true}) {
      add(cases, {"s32", kS8, kS8, n, Swizzle::b128, Swizzle::b128, false, false, false, saturate});
      add(cases, {"s32", kU8, kS8, n, Swizzle::b64, Swizzle::b128, false, false, false, saturate});
      add(cases, {"s32", kU8, kU8, n, Swizzle::b128, Swizzle::b32, false, false, false, saturate});
      add(cases, {"s32", kS8, kU8, n, Swizzle::b128, Swizzle::none, true, false, false, saturate});
    }
  // Swizzles and majors.
  for (Swizzle a : swizzles)
    for (Swizzle b : swizzles) {
      for (const Element* e : {&kF16, &kTf32, &kE4m3}) add(cases, {"f32", *e, *e, 64, a, b});
      for (const Element* e : {&kF16, &kBf16})
        for (bool a_mn : {false, true})
          for (bool b_mn : {false, true})
            if (a_mn || b_mn) add(cases, {"f32", *e, *e, 128, a, b, false, a_mn, b_mn});
    }
  for (Swizzle b : swizzles) {
    for (const Element* e : {&kF16, &kBf16, &kTf32, &kE4m3, &kE5m2, &kS8})
      add(cases, {is_integer(*e) ? "s32" : "f32", *e, *e, 96, b, b, true});
    for (uint32_t n : {64u, 256u}) {
      add(cases, {"f32", kF16, kF16, n, b, b, true, false, true});
      add(cases, {"f16", kF16, kF16, n, b, b, true, false, true});
    }
  }
}

// ---- how the card adds

// One row of A against ones: D = c + sum of a. `label` groups the rows of a question.
struct Experiment {
  std::string question;
  int step = 0;
  std::vector<double> a;
  float c = 0;
};

constexpr uint32_t kBlockBytes = 2048; // A or C of 64 rows

std::vector<Experiment> experiments(const Element& e) {
  const uint32_t k = 32 / e.bytes;
  // The widest span of powers of two: products are a * 1.
  int high = e.type == tensor::MmaType::e4m3 ? 8 : e.type == tensor::MmaType::e5m2 ? 15 : 14;
  int low = e.type == tensor::MmaType::e4m3   ? -9
            : e.type == tensor::MmaType::e5m2 ? -16
            : e.type == tensor::MmaType::f16  ? -24
                                              : -30;
  double big = std::ldexp(1.0, high);
  std::vector<Experiment> v;
  auto row = [&](const std::string& question, int step) -> Experiment& {
    v.push_back({question, step, std::vector<double>(k, 0.0), 0});
    return v.back();
  };
  auto pair = [](uint32_t p, uint32_t q) { return std::to_string(p) + "," + std::to_string(q); };
  for (int s = 1; high - s >= low; ++s) {
    double small = std::ldexp(big, -s);
    // A big product, a small one, and the big one taken away again: which bits of the small
    // survive?
    for (auto [p, q] : {std::pair{1u, 2u},
                        {1u, k / 2},
                        {1u, k - 1},
                        {k / 2, k / 2 + 1},
                        {k / 2 - 1, k / 2},
                        {k - 1, 1u},
                        {3u, 4u},
                        {2u, 3u}}) {
      Experiment& x = row("kept bits below a product, small at " + pair(p, q), s);
      x.a[0] = big, x.a[p] = small, x.a[q] = -big;
    }
    Experiment& y = row("kept bits of C below a product", s);
    y.a[0] = big, y.a[1] = -big, y.c = float(small);
  }
  for (int s = 1; s <= 40; ++s) {
    // C is the big one; a product takes it away.
    if (high - s < low) break;
    Experiment& x = row("kept bits of a product below C", s);
    x.c = float(big), x.a[1] = std::ldexp(big, -s), x.a[0] = -big;
  }
  // Fractions of the result's last place (2^-23 of C = 1), in quarters, of both signs.
  for (int sign : {1, -1})
    for (int q = 1; q <= 12; ++q) {
      Experiment& x = row(sign > 0 ? "rounding of the sum, quarters of an ulp of 2^20, up"
                                   : "rounding of the sum, quarters of an ulp of -2^20, down",
                          q);
      x.c = float(sign * 0x1p20); // last place 2^-3, quarters 2^-5
      for (int i = 0; i < 4; ++i)
        if (q >> i & 1) x.a[size_t(i)] = sign * std::ldexp(1.0, i - 5);
    }
  for (int q = 1; q <= 12; ++q) {
    Experiment& x = row("rounding of the sum, quarters of an ulp of 2^20, taken away", q);
    x.c = 0x1p20f;
    for (int i = 0; i < 4; ++i)
      if (q >> i & 1) x.a[size_t(i)] = -std::ldexp(1.0, i - 5);
  }
  // At random: all elements, like exponents and wide ones.
  std::mt19937 g(31);
  for (int wide : {0, 1, 2})
    for (int i = 0; i < 256; ++i) {
      Experiment& x = row("random", wide);
      int span = wide == 0 ? 1 : wide == 1 ? 6 : high - low;
      for (double& a : x.a) {
        double m = 1.0 + double(g() % 1024) / 1024;
        a = std::ldexp(g() & 1 ? m : -m, high - 2 - int(g() % uint32_t(span)));
        a = num::decode(e.format, code_of(e, a));
      }
      x.c = i % 3 == 0
                ? 0.0f
                : std::ldexp(float(int32_t(g())), -31 + high - int(g() % uint32_t(span + 4)));
    }
  while (v.size() % 64) row("filler", 0);
  return v;
}

std::vector<float> by_model(const Element& e, const std::vector<Experiment>& v,
                            tensor::Accumulation how, int fraction_bits, double factor) {
  const uint32_t k = 32 / e.bytes;
  tensor::PlainMma op;
  op.m = 64, op.n = 8, op.k = int(k);
  op.a = op.b = e.type;
  op.accumulation = how;
  op.fraction_bits = fraction_bits;
  op.result_bits = e.bytes == 1 ? 13 : 23;
  std::vector<uint8_t> ones(8 * 32);
  uint32_t one = code_of(e, factor);
  for (size_t i = 0; i < ones.size(); i += e.bytes) std::memcpy(&ones[i], &one, e.bytes);
  std::vector<float> out;
  for (size_t first = 0; first < v.size(); first += 64) {
    std::vector<uint8_t> a(64 * 32);
    std::vector<float> d(64 * 8);
    for (size_t r = 0; r < 64; ++r) {
      for (uint32_t i = 0; i < k; ++i) {
        uint32_t code = code_of(e, v[first + r].a[i]);
        std::memcpy(&a[r * 32 + i * e.bytes], &code, e.bytes);
      }
      for (int n = 0; n < 8; ++n) d[r * 8 + size_t(n)] = v[first + r].c;
    }
    tensor::mma_plain(op, a.data(), ones.data(), d.data(), 8);
    for (size_t r = 0; r < 64; ++r) out.push_back(d[r * 8]);
  }
  return out;
}

// Column 0 of every row, from the words [block][register][thread].
std::vector<float> rows_of(const std::vector<uint8_t>& out) {
  std::vector<float> v;
  for (size_t block = 0; block < out.size(); block += kBlockBytes)
    for (uint32_t r = 0; r < 64; ++r) {
      uint32_t thread = r / 16 * 32 + r % 8 * 4, element = r % 16 / 8 * 2;
      float f;
      std::memcpy(&f, &out[block + element * 512 + thread * 4], 4);
      v.push_back(f);
    }
  return v;
}

size_t agreeing(const std::vector<float>& a, const std::vector<float>& b) {
  size_t n = 0;
  for (size_t i = 0; i < a.size(); ++i)
    n += std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
  return n;
}

std::string analyse(const Element& e, const std::vector<Experiment>& v,
                    const std::vector<uint8_t>& gpu, const std::vector<uint8_t>& simulated,
                    double factor) {
  std::vector<float> real = rows_of(gpu.empty() ? simulated : gpu);
  std::string s = gpu.empty() ? "(of the virtual GPU) " : "";
  // The largest step at which the small number was still seen.
  std::vector<std::string> order;
  std::map<std::string, std::pair<int, int>> kept; // last seen, first lost
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i].question.rfind("kept", 0) != 0) continue;
    if (!kept.count(v[i].question)) order.push_back(v[i].question), kept[v[i].question] = {0, 99};
    auto& [last, lost] = kept[v[i].question];
    if (real[i] != 0)
      last = std::max(last, v[i].step);
    else
      lost = std::min(lost, v[i].step);
  }
  for (const std::string& q : order)
    s += q + ": " + std::to_string(kept[q].first) +
         (kept[q].second == 99 ? " (never lost)"
                               : " (lost at " + std::to_string(kept[q].second) + ")") +
         "; ";
  order.clear();
  std::map<std::string, std::string> rounding;
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i].question.rfind("rounding", 0) != 0) continue;
    if (!rounding.count(v[i].question)) order.push_back(v[i].question);
    char text[32];
    std::snprintf(text, sizeof text, " %d->%g", v[i].step, double(real[i] - v[i].c) / 0x1p-5);
    rounding[v[i].question] += text;
  }
  for (const std::string& q : order) s += q + ":" + rounding[q] + "; ";
  s += "rows equal of " + std::to_string(v.size()) + ": exact " +
       std::to_string(agreeing(real, by_model(e, v, tensor::Accumulation::exact, 25, factor))) +
       ", sequential " +
       std::to_string(
           agreeing(real, by_model(e, v, tensor::Accumulation::sequential_fma, 25, factor)));
  size_t best = 0;
  int best_bits = 0;
  for (int bits = 8; bits <= 36; ++bits) {
    size_t n =
        agreeing(real, by_model(e, v, tensor::Accumulation::aligned_truncation, bits, factor));
    if (bits >= 12 && bits <= 28) s += ", " + std::to_string(bits) + " bits " + std::to_string(n);
    if (n > best) best = n, best_bits = bits;
  }
  s += "; best aligned_truncation: fraction_bits " + std::to_string(best_bits) + " with " +
       std::to_string(best);
  // The first rows that the best model gets wrong.
  std::vector<float> model =
      by_model(e, v, tensor::Accumulation::aligned_truncation, best_bits, factor);
  int shown = 0;
  for (size_t i = 0; i < v.size() && shown < 6; ++i) {
    if (std::bit_cast<uint32_t>(model[i]) == std::bit_cast<uint32_t>(real[i])) continue;
    char text[160];
    std::snprintf(text, sizeof text, "; model wrong at '%s' %d: card %a, model %a, C %a",
                  v[i].question.c_str(), v[i].step, double(real[i]), double(model[i]),
                  double(v[i].c));
    s += text;
    ++shown;
  }
  return s;
}

// A times `factor`: with 1.5 a product's significand may be 2 and above, so it shows whether
// exponents of products are compared before or after normalisation.
void measure(std::vector<Case>& cases, const Element& e, double factor) {
  const uint32_t k = 32 / e.bytes;
  std::vector<Experiment> v = experiments(e);
  uint32_t blocks = uint32_t(v.size() / 64);
  std::vector<uint8_t> a(blocks * kBlockBytes), c(blocks * kBlockBytes);
  for (size_t i = 0; i < v.size(); ++i) {
    // A: register q of a lane holds 4 bytes of row 16 w + l / 4 + 8 (q mod 2), byte
    // 4 (l mod 4) + 16 (q div 2) of K. C: register q holds column 2 (l mod 4) + q mod 2.
    uint8_t row[32];
    for (uint32_t x = 0; x < k; ++x) {
      uint32_t code = code_of(e, v[i].a[x]);
      std::memcpy(&row[x * e.bytes], &code, e.bytes);
    }
    uint32_t r = uint32_t(i % 64), block = uint32_t(i / 64) * kBlockBytes;
    for (uint32_t l = 0; l < 4; ++l)
      for (uint32_t half = 0; half < 2; ++half) {
        uint32_t thread = r / 16 * 32 + r % 8 * 4 + l, up = r % 16 / 8;
        std::memcpy(&a[block + (up + 2 * half) * 512 + thread * 4], &row[4 * l + 16 * half], 4);
        std::memcpy(&c[block + (2 * up + half) * 512 + thread * 4], &v[i].c, 4);
      }
  }
  std::vector<uint8_t> ones(1024);
  uint32_t one = code_of(e, factor);
  for (size_t i = 0; i < ones.size(); i += e.bytes) std::memcpy(&ones[i], &one, e.bytes);
  Case test;
  test.family = "wgmma accumulation";
  test.name = std::string("m64n8k") + std::to_string(k) + ".f32." + e.name;
  if (factor != 1) test.name += ", times 1.5";
  test.hopper_sums = true;
  test.scheduled = false;
  test.block = {128, 1, 1};
  test.grid = {blocks, 1, 1};
  test.body = tile_head(1024, true) + R"(
  .reg .b32 acc<4>, a<4>;
  mov.u32 %r5, %ctaid.x;
  mul.lo.u32 %r5, %r5, 2048;
  mad.lo.u32 %r5, %r0, 4, %r5;
  cvt.u64.u32 %rd10, %r5;
  ld.param.u64 %rd11, [a]; add.u64 %rd11, %rd11, %rd10;
  ld.param.u64 %rd12, [c]; add.u64 %rd12, %rd12, %rd10;
  add.u64 %rd9, %rd0, %rd10;
)";
  for (int i = 0; i < 4; ++i) {
    std::string n = std::to_string(i), at = "+" + std::to_string(512 * i) + "];\n";
    test.body +=
        "  ld.global.b32 a" + n + ", [%rd11" + at + "  ld.global.b32 acc" + n + ", [%rd12" + at;
  }
  test.body += "  and.b32 %r22, %r20, 0x3FFFF;\n  shr.u32 %r22, %r22, 4;\n"
               "  cvt.u64.u32 %rd8, %r22;\n" +
               descriptor("%rd6", operand(0, Swizzle::none, false)) +
               "  wgmma.fence.sync.aligned;\n  wgmma.mma_async.sync.aligned.m64n8k" +
               std::to_string(k) + ".f32." + e.name + "." + e.name +
               " {acc0, acc1, acc2, acc3}, {a0, a1, a2, a3}, %rd6, 1, 1, 1" +
               (e.bytes == 2 ? ", 0" : "") + R"(;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  st.global.b32 [%rd9], acc0;
  st.global.b32 [%rd9+512], acc1;
  st.global.b32 [%rd9+1024], acc2;
  st.global.b32 [%rd9+1536], acc3;
  ret;)";
  test.in("in", ones).in("a", a).in("c", c).out("out", blocks * kBlockBytes);
  test.analyse = [e, v, factor](const Case&, const std::vector<uint8_t>& gpu,
                                const std::vector<uint8_t>& simulated) {
    return analyse(e, v, gpu, simulated, factor);
  };
  cases.push_back(std::move(test));
}

} // namespace

void add_wgmma_cases(std::vector<Case>& cases) {
  exact(cases);
  for (const Element* e : {&kF16, &kBf16, &kTf32, &kE4m3, &kE5m2})
    for (double factor : {1.0, 1.5}) measure(cases, *e, factor);
}

} // namespace wltest::oracle
