// The matrix engine against naive loops that sum in 113-bit floats.
#include "tests/support/catch.hpp"
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/tensor/exact_sum.hpp"
#include "tools/vgpu/tensor/mma.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace vgpu;
using namespace vgpu::tensor;

namespace {

__extension__ typedef __float128 Quad;

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

struct Fp4Problem {
  int m, n, k, block;
  std::vector<unsigned char> a, b;
  std::vector<float> sa, sb, d;
  ptrdiff_t ld;
  bool negate_a = false, negate_b = false;

  Fp4Problem(std::mt19937& random, int m_, int n_, int k_, int block_, bool ue8m0, int spread)
      : m(m_), n(n_), k(k_), block(block_), a(size_t(m * k / 2)), b(size_t(n * k / 2)),
        sa(size_t(m * k / block)), sb(size_t(n * k / block)) {
    ld = n + int(random() % 3) * 8;
    d.resize(size_t(m) * size_t(ld));
    for (unsigned char& x : a) x = uint8_t(random());
    for (unsigned char& x : b) x = uint8_t(random());
    auto scale = [&] {
      if (!ue8m0) return num::ue4m3_table[random() % 0x7F];
      return num::ue8m0_table[127 - spread + int(random() % (2 * uint32_t(spread) + 1))];
    };
    for (float& x : sa) x = scale();
    for (float& x : sb) x = scale();
    for (float& x : d) x = std::ldexp(float(int32_t(random())), -20);
  }

  std::vector<float> run(Fp4Path path, bool accumulate) const {
    std::vector<float> out = d;
    ScaledOperand oa{a.data(), k / 2, sa.data(), k / block, negate_a};
    ScaledOperand ob{b.data(), k / 2, sb.data(), k / block, negate_b};
    mma_block_scaled(path, oa, ob, m, n, k, block, out.data(), ld, accumulate);
    return out;
  }

  std::vector<float> naive(bool accumulate) const {
    std::vector<float> out = d;
    auto value = [&](const std::vector<unsigned char>& v, int row, int i) {
      unsigned byte = v[size_t(row * k / 2 + i / 2)];
      return double(num::e2m1_table[i % 2 ? byte >> 4 : byte & 15]);
    };
    for (int r = 0; r < m; ++r) {
      for (int c = 0; c < n; ++c) {
        float acc = accumulate ? out[size_t(r * ld + c)] : 0.0f;
        for (int j = 0; j < k / block; ++j) {
          double sum = 0;
          for (int i = j * block; i < (j + 1) * block; ++i) sum += value(a, r, i) * value(b, c, i);
          if (negate_a != negate_b) sum = -sum;
          Quad term = Quad(sum) * sa[size_t(r * k / block + j)] * sb[size_t(c * k / block + j)];
          acc = float(Quad(acc) + term);
        }
        out[size_t(r * ld + c)] = canonical(acc);
      }
    }
    return out;
  }
};

const Fp4Path kPaths[] = {Fp4Path::best, Fp4Path::scalar, Fp4Path::vector, Fp4Path::avx2,
                          Fp4Path::avx512};

size_t differences(const std::vector<float>& x, const std::vector<float>& y) {
  size_t bad = 0;
  // -0 and +0 are one result: the sign of an exact zero is left open.
  for (size_t i = 0; i < x.size(); ++i)
    bad += bits_of(x[i]) != bits_of(y[i]) && !(x[i] == 0 && y[i] == 0);
  return bad;
}

// Random codes of a type without Inf and NaN, in an operand buffer, and their values.
struct Operand {
  std::vector<unsigned char> bytes;
  std::vector<double> value; // [rows][k]
};

bool usable(MmaType type, uint32_t code) {
  if (type == MmaType::e4m3) return (code & 0x7F) != 0x7F;
  if (type == MmaType::e5m2) return (code & 0x7F) < 0x7C;
  return true;
}

Operand make_operand(std::mt19937& random, MmaType type, Packing packing, int rows, int k,
                     int exponents) {
  Operand o;
  int pitch = row_bytes(type, packing, k);
  o.bytes.resize(size_t(rows * pitch));
  if (packing != Packing::natural)
    for (unsigned char& x : o.bytes) x = uint8_t(random()); // padding holds anything
  o.value.resize(size_t(rows * k));
  for (int r = 0; r < rows; ++r) {
    unsigned char* row = &o.bytes[size_t(r * pitch)];
    for (int i = 0; i < k; ++i) {
      double v = 0;
      int width = type_bits(type);
      uint32_t code = 0;
      if (width >= 16) {
        float x = std::ldexp(float(int(random() % 4001) - 2000),
                             int(random() % uint32_t(exponents)) - exponents / 2 - 10);
        num::Format format = type == MmaType::f16    ? num::Format::f16
                             : type == MmaType::bf16 ? num::Format::bf16
                                                     : num::Format::tf32;
        code = num::encode(format, x);
        v = num::decode(format, code);
        std::memcpy(row + i * width / 8, &code, size_t(width) / 8);
      } else {
        do code = random() & ((1u << width) - 1);
        while (!usable(type, code));
        switch (type) {
        case MmaType::e4m3:
          v = num::e4m3_table[code];
          break;
        case MmaType::e5m2:
          v = num::e5m2_table[code];
          break;
        case MmaType::e2m3:
          v = num::e2m3_table[code];
          break;
        case MmaType::e3m2:
          v = num::e3m2_table[code];
          break;
        case MmaType::e2m1:
          v = num::e2m1_table[code];
          break;
        case MmaType::s8:
          v = int8_t(code);
          break;
        default:
          v = code;
          break;
        }
        if (width == 8) {
          row[i] = uint8_t(code);
        } else if (packing == Packing::holders) {
          int low = width == 4 ? 2 : 0;
          uint32_t mask = ((1u << width) - 1) << low;
          row[i] = uint8_t((row[i] & ~mask) | code << low);
        } else {
          int first = packing == Packing::padded16 ? i / 16 * 128 + i % 16 * width : i * width;
          for (int b = 0; b < width; ++b) {
            int at = first + b;
            row[at / 8] = uint8_t((row[at / 8] & ~(1u << at % 8)) | (code >> b & 1) << at % 8);
          }
        }
      }
      o.value[size_t(r * k + i)] = v;
    }
  }
  return o;
}

float round_f16(Quad x) {
  // Quad to double to odd, then the encoder: one rounding.
  double high = double(x);
  Quad rest = x - Quad(high);
  double odd = round_to_odd(high, rest > 0 ? 1.0 : rest < 0 ? -1.0 : 0.0);
  return num::f16_to_f32(uint16_t(num::encode(num::Format::f16, odd)));
}

} // namespace

TEST_CASE("block-scaled FP4 equals the naive sums on every path", "[virtual][tensor][mma]") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 24; ++trial) {
    int m = trial / 3 % 2 ? 64 : 128;
    int n = 8 * (1 + int(random() % 32));
    int block = 16 << trial % 3;
    bool ue8m0 = trial % 4 == 1;
    Fp4Problem p(random, m, n, 64, block, ue8m0, 20);
    p.negate_a = random() & 1, p.negate_b = random() & 1;
    for (bool accumulate : {false, true}) {
      std::vector<float> want = p.naive(accumulate);
      for (Fp4Path path : kPaths) {
        if (!has_path(path)) continue;
        INFO("trial " << trial << " m " << m << " n " << n << " block " << block << " path "
                      << int(path) << " accumulate " << accumulate);
        REQUIRE(differences(p.run(path, accumulate), want) == 0);
      }
    }
  }
}

TEST_CASE("block-scaled FP4 with one row, odd sizes and a longer K", "[virtual][tensor][mma]") {
  std::mt19937 random(6);
  for (int m : {1, 3, 130})
    for (int n : {8, 40, 72}) {
      Fp4Problem p(random, m, n, 256, 16, false, 0);
      std::vector<float> want = p.naive(true);
      for (Fp4Path path : kPaths) {
        if (!has_path(path)) continue;
        INFO("m " << m << " n " << n << " path " << int(path));
        REQUIRE(differences(p.run(path, true), want) == 0);
      }
    }
}

TEST_CASE("block-scaled FP4 with scales from end to end of ue8m0", "[virtual][tensor][mma]") {
  std::mt19937 random(7);
  Fp4Problem p(random, 64, 32, 64, 32, true, 127);
  REQUIRE(differences(p.run(Fp4Path::best, true), p.naive(true)) == 0);
  REQUIRE(differences(p.run(Fp4Path::best, false), p.naive(false)) == 0);
}

TEST_CASE("a NaN scale reaches its row or column only", "[virtual][tensor][mma]") {
  std::mt19937 random(8);
  Fp4Problem p(random, 128, 64, 64, 16, false, 0);
  std::vector<float> clean = p.run(Fp4Path::best, true);
  p.sa[17 * 4 + 2] = num::ue4m3_table[0x7F];
  p.sb[30 * 4 + 1] = num::ue4m3_table[0xFF];
  for (Fp4Path path : kPaths) {
    if (!has_path(path)) continue;
    std::vector<float> got = p.run(path, true);
    for (int r = 0; r < 128; ++r)
      for (int c = 0; c < 64; ++c) {
        float x = got[size_t(r * p.ld + c)];
        if (r == 17 || c == 30)
          REQUIRE(bits_of(x) == num::kF32Nan);
        else
          REQUIRE(bits_of(x) == bits_of(clean[size_t(r * p.ld + c)]));
      }
  }
}

TEST_CASE("plain kinds round the exact sum once", "[virtual][tensor][mma]") {
  struct Case {
    MmaType a, b;
    int k;
    Packing packing;
    MmaResult d;
    int exponents;
  };
  using enum MmaType;
  std::vector<Case> cases = {
      {f16, f16, 16, Packing::natural, MmaResult::f32, 4},
      {f16, f16, 16, Packing::natural, MmaResult::f32, 30},
      {f16, f16, 16, Packing::natural, MmaResult::f16, 12},
      {bf16, bf16, 16, Packing::natural, MmaResult::f32, 6},
      {bf16, bf16, 16, Packing::natural, MmaResult::f32, 40},
      {f16, bf16, 16, Packing::natural, MmaResult::f32, 6},
      {tf32, tf32, 8, Packing::natural, MmaResult::f32, 6},
      {tf32, tf32, 8, Packing::natural, MmaResult::f32, 36},
      {e4m3, e4m3, 32, Packing::natural, MmaResult::f32, 0},
      {e4m3, e5m2, 32, Packing::natural, MmaResult::f16, 0},
      {e5m2, e5m2, 32, Packing::natural, MmaResult::f32, 0},
      {e2m1, e4m3, 32, Packing::padded16, MmaResult::f32, 0},
      {e2m3, e3m2, 32, Packing::padded16, MmaResult::f32, 0},
      {e3m2, e2m1, 32, Packing::holders, MmaResult::f32, 0},
      {e2m3, e5m2, 32, Packing::holders, MmaResult::f16, 0},
  };
  std::mt19937 random(9);
  int number = 0;
  for (const Case& c : cases) {
    for (int trial = 0; trial < 3; ++trial) {
      PlainMma op;
      op.m = trial == 0 ? 64 : 128;
      op.n = 8 * (1 + int(random() % (trial == 2 ? 32 : 8)));
      op.k = c.k;
      op.a = c.a, op.b = c.b, op.d = c.d;
      auto narrow = [](MmaType t) { return type_bits(t) < 8; };
      op.a_packing = narrow(c.a) ? c.packing : Packing::natural;
      op.b_packing = narrow(c.b) ? c.packing : Packing::natural;
      op.negate_a = random() & 1, op.negate_b = random() & 1;
      op.accumulate = trial != 1;
      op.scale_d = trial == 2 ? 3 : 0;
      Operand a = make_operand(random, c.a, op.a_packing, op.m, op.k, c.exponents);
      Operand b = make_operand(random, c.b, op.b_packing, op.n, op.k, c.exponents);
      ptrdiff_t ld = op.n + 8;
      std::vector<float> d(size_t(op.m) * size_t(ld));
      for (float& x : d) {
        x = std::ldexp(float(int(random() % 2001) - 1000), -8);
        if (c.d == MmaResult::f16) x = num::f16_to_f32(num::f32_to_f16(x));
      }
      std::vector<float> want = d;
      for (int r = 0; r < op.m; ++r)
        for (int n = 0; n < op.n; ++n) {
          Quad sum =
              op.accumulate ? Quad(std::ldexp(double(want[size_t(r * ld + n)]), -op.scale_d)) : 0;
          for (int i = 0; i < op.k; ++i) {
            Quad product = Quad(a.value[size_t(r * op.k + i)]) * b.value[size_t(n * op.k + i)];
            sum += op.negate_a != op.negate_b ? -product : product;
          }
          want[size_t(r * ld + n)] = c.d == MmaResult::f16 ? round_f16(sum) : float(sum);
        }
      mma_plain(op, a.bytes.data(), b.bytes.data(), d.data(), ld);
      INFO("case " << number << " trial " << trial << " m " << op.m << " n " << op.n);
      REQUIRE(differences(d, want) == 0);
    }
    ++number;
  }
}

TEST_CASE("sums whose terms cancel across a wide range stay exact", "[virtual][tensor][mma]") {
  // 2^100 - 2^100 + 2^-100 and friends, in every order of K, beside a row that is NaN.
  PlainMma op;
  op.m = 5, op.n = 8, op.k = 16;
  op.a = op.b = MmaType::bf16;
  std::vector<uint16_t> a(size_t(op.m * op.k)), b(size_t(op.n * op.k), 0x3F80);
  auto set = [&](int r, int i, float x) { a[size_t(r * op.k + i)] = num::f32_to_bf16(x); };
  set(0, 0, 0x1p100f), set(0, 1, -0x1p100f), set(0, 2, 0x1p-100f);
  set(1, 3, 0x1p-100f), set(1, 5, 0x1p100f), set(1, 9, -0x1p100f);
  set(2, 0, 0x1p60f), set(2, 1, 1.0f), set(2, 15, -0x1p60f);
  set(3, 0, 0x1p24f), set(3, 1, 1.0f), set(3, 2, 0x1p-80f); // above the middle of two floats
  set(4, 7, NAN);
  std::vector<float> d(size_t(op.m * op.n));
  op.accumulate = false;
  mma_plain(op, reinterpret_cast<unsigned char*>(a.data()),
            reinterpret_cast<unsigned char*>(b.data()), d.data(), op.n);
  for (int n = 0; n < op.n; ++n) {
    REQUIRE(d[size_t(n)] == 0x1p-100f);
    REQUIRE(d[size_t(8 + n)] == 0x1p-100f);
    REQUIRE(d[size_t(16 + n)] == 1.0f);
    REQUIRE(d[size_t(24 + n)] == 0x1p24f + 2.0f);
    REQUIRE(std::isnan(d[size_t(32 + n)]));
  }
}

TEST_CASE("Inf and NaN operands", "[virtual][tensor][mma]") {
  PlainMma op;
  op.m = 3, op.n = 8, op.k = 16;
  std::vector<uint16_t> a(size_t(op.m * op.k), 0x3C00), b(size_t(op.n * op.k), 0x3C00);
  a[0] = 0x7C00;                  // row 0: Inf
  a[16] = 0x7E01;                 // row 1: NaN
  a[32] = 0x7C00, a[33] = 0xFC00; // row 2: Inf - Inf
  std::vector<float> d(size_t(op.m * op.n), 1.0f);
  for (Accumulation policy :
       {Accumulation::exact, Accumulation::sequential_fma, Accumulation::aligned_truncation}) {
    op.accumulation = policy;
    std::vector<float> out = d;
    mma_plain(op, reinterpret_cast<unsigned char*>(a.data()),
              reinterpret_cast<unsigned char*>(b.data()), out.data(), op.n);
    INFO("policy " << int(policy));
    for (int n = 0; n < op.n; ++n) {
      REQUIRE(out[size_t(n)] == INFINITY);
      REQUIRE(bits_of(out[size_t(8 + n)]) == num::kF32Nan);
      REQUIRE(bits_of(out[size_t(16 + n)]) == num::kF32Nan);
    }
  }
}

TEST_CASE("the other accumulation policies", "[virtual][tensor][mma]") {
  std::mt19937 random(10);
  PlainMma op;
  op.m = 64, op.n = 40, op.k = 16;
  Operand a = make_operand(random, MmaType::f16, Packing::natural, op.m, op.k, 10);
  Operand b = make_operand(random, MmaType::f16, Packing::natural, op.n, op.k, 10);
  std::vector<float> start(size_t(op.m * op.n));
  for (float& x : start) x = float(int(random() % 1000)) / 7;
  {
    op.accumulation = Accumulation::sequential_fma;
    std::vector<float> d = start, want = start;
    mma_plain(op, a.bytes.data(), b.bytes.data(), d.data(), op.n);
    for (int r = 0; r < op.m; ++r)
      for (int n = 0; n < op.n; ++n)
        for (int i = 0; i < op.k; ++i)
          want[size_t(r * op.n + n)] =
              std::fma(float(a.value[size_t(r * op.k + i)]), float(b.value[size_t(n * op.k + i)]),
                       want[size_t(r * op.n + n)]);
    REQUIRE(differences(d, want) == 0);
  }
  {
    // Each of 17 terms is cut below the last kept bit of the largest, and the sum once more: but
    // for the terms' cuts never beyond the exact result, and within one unit in the last place of
    // it.
    op.accumulation = Accumulation::aligned_truncation;
    op.fraction_bits = 28;
    std::vector<float> d = start;
    mma_plain(op, a.bytes.data(), b.bytes.data(), d.data(), op.n);
    for (int r = 0; r < op.m; ++r)
      for (int n = 0; n < op.n; ++n) {
        double exact = start[size_t(r * op.n + n)], largest = std::fabs(exact);
        for (int i = 0; i < op.k; ++i) {
          const double term = a.value[size_t(r * op.k + i)] * b.value[size_t(n * op.k + i)];
          exact += term;
          largest = std::max(largest, std::fabs(term));
        }
        const double got = d[size_t(r * op.n + n)], cuts = 17 * 0x1p-28 * largest;
        REQUIRE(std::fabs(got) <= std::fabs(exact) + cuts);
        REQUIRE(std::fabs(exact - got) <= std::fabs(exact) * 0x1p-23 + cuts);
      }
  }
  {
    // 2^24 + 16 terms of 2^-2: a term below the last kept bit of the alignment vanishes.
    op.m = 1, op.n = 8;
    std::vector<uint16_t> quarter(16, num::f32_to_f16(0.25f)), one(128, num::f32_to_f16(1.0f));
    for (int bits : {24, 25, 26, 27}) {
      op.fraction_bits = bits;
      std::vector<float> d(8, 0x1p24f);
      mma_plain(op, reinterpret_cast<unsigned char*>(quarter.data()),
                reinterpret_cast<unsigned char*>(one.data()), d.data(), 8);
      REQUIRE(d[0] == (bits >= 26 ? 0x1p24f + 4.0f : 0x1p24f));
    }
  }
}

// The cancellation tests of tests/hardware/oracle_wgmma.cpp with what an H200 answered.
TEST_CASE("sums of wgmma on an H200", "[virtual][tensor][mma]") {
  auto sum = [](MmaType type, num::Format format, float c, std::vector<float> terms) {
    PlainMma op;
    op.m = 1, op.n = 1;
    op.a = op.b = type;
    size_t bytes = type == MmaType::f16 ? 2 : 1;
    op.k = int(32 / bytes);
    hopper_accumulation(op);
    unsigned char a[32] = {}, ones[32];
    uint32_t one = num::encode(format, 1.0);
    for (size_t i = 0; i < 32 / bytes; ++i) {
      uint32_t code = i < terms.size() ? num::encode(format, double(terms[i])) : 0;
      std::memcpy(a + i * bytes, &code, bytes);
      std::memcpy(ones + i * bytes, &one, bytes);
    }
    mma_plain(op, a, ones, &c, 1);
    return c;
  };
  auto f16 = [&](float c, std::vector<float> terms) {
    return sum(MmaType::f16, num::Format::f16, c, terms);
  };
  auto e4m3 = [&](float c, std::vector<float> terms) {
    return sum(MmaType::e4m3, num::Format::e4m3, c, terms);
  };
  REQUIRE(f16(0, {4.0f, 0x1p-23f, -4.0f}) == 0x1p-23f); // 25 bits below
  REQUIRE(f16(0, {4.0f, 0x1p-24f, -4.0f}) == 0.0f);
  REQUIRE(f16(0x1p-20f, {32.0f, -32.0f}) == 0x1p-20f);
  REQUIRE(f16(0x1p-21f, {32.0f, -32.0f}) == 0.0f);
  // Three quarters of the last place of the sum are cut, of both signs.
  REQUIRE(f16(0x1p20f, {0x1p-5f, 0x1p-4f}) == 0x1p20f);
  REQUIRE(f16(-0x1p20f, {-0x1p-5f, -0x1p-4f}) == -0x1p20f);
  REQUIRE(e4m3(0, {16.0f, 0x1p-9f, -16.0f}) == 0x1p-9f); // 13 bits below
  REQUIRE(e4m3(0, {32.0f, 0x1p-9f, -32.0f}) == 0.0f);
  // The sum keeps 13 bits of its own.
  REQUIRE(e4m3(1.0f + 0x1p-13f, {}) == 1.0f + 0x1p-13f);
  REQUIRE(e4m3(1.0f + 0x1p-13f, {1.0f}) == 2.0f);
  REQUIRE(e4m3(1.0f + 0x1p-12f, {1.0f}) == 2.0f + 0x1p-12f);
}

TEST_CASE("mxf8f6f4 scales whole rows and columns", "[virtual][tensor][mma]") {
  std::mt19937 random(11);
  using enum MmaType;
  for (auto [ta, tb] : {std::pair{e4m3, e5m2}, {e5m2, e5m2}, {e2m1, e4m3}, {e3m2, e2m3}}) {
    for (int spread : {6, 60}) {
      PlainMma op;
      op.m = 128, op.n = 48, op.k = 32;
      op.a = ta, op.b = tb;
      op.a_packing = type_bits(ta) < 8 ? Packing::padded16 : Packing::natural;
      op.b_packing = type_bits(tb) < 8 ? Packing::padded16 : Packing::natural;
      Operand a = make_operand(random, ta, op.a_packing, op.m, op.k, 0);
      Operand b = make_operand(random, tb, op.b_packing, op.n, op.k, 0);
      std::vector<float> sa(128), sb(48), d(size_t(op.m * op.n));
      auto scale = [&] {
        return num::ue8m0_table[127 - spread + int(random() % (2 * uint32_t(spread) + 1))];
      };
      for (float& x : sa) x = scale();
      for (float& x : sb) x = scale();
      for (float& x : d) x = float(int(random() % 100)) / 3;
      sa[5] = num::ue8m0_table[255];
      std::vector<float> want = d;
      for (int r = 0; r < op.m; ++r)
        for (int n = 0; n < op.n; ++n) {
          Quad sum = 0;
          for (int i = 0; i < op.k; ++i)
            sum += Quad(a.value[size_t(r * op.k + i)]) * b.value[size_t(n * op.k + i)];
          float& x = want[size_t(r * op.n + n)];
          x = canonical(float(Quad(x) + sum * sa[size_t(r)] * sb[size_t(n)]));
        }
      mma_mxf8(op, a.bytes.data(), b.bytes.data(), sa.data(), sb.data(), d.data(), op.n);
      INFO("types " << int(ta) << " " << int(tb) << " spread " << spread);
      REQUIRE(differences(d, want) == 0);
    }
  }
}

TEST_CASE("integers wrap or saturate", "[virtual][tensor][mma]") {
  std::mt19937 random(12);
  using enum MmaType;
  for (auto [ta, tb] : {std::pair{s8, s8}, {u8, s8}, {s8, u8}, {u8, u8}}) {
    for (bool saturate : {false, true}) {
      PlainMma op;
      op.m = 64, op.n = 32, op.k = 32;
      op.a = ta, op.b = tb;
      Operand a = make_operand(random, ta, Packing::natural, op.m, op.k, 0);
      Operand b = make_operand(random, tb, Packing::natural, op.n, op.k, 0);
      std::vector<int32_t> d(size_t(op.m * op.n));
      for (int32_t& x : d) {
        int32_t near = int32_t(random() % 1000);
        x = random() % 3 == 0 ? INT32_MAX - near : random() % 2 ? INT32_MIN + near : near;
      }
      std::vector<int32_t> got = d;
      mma_integer(op, saturate, a.bytes.data(), b.bytes.data(), got.data(), op.n);
      size_t bad = 0, beyond = 0;
      for (int r = 0; r < op.m; ++r)
        for (int n = 0; n < op.n; ++n) {
          int64_t sum = d[size_t(r * op.n + n)];
          for (int i = 0; i < op.k; ++i)
            sum += int64_t(a.value[size_t(r * op.k + i)] * b.value[size_t(n * op.k + i)]);
          beyond += sum != int32_t(sum);
          int64_t want = saturate ? std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX)
                                  : int32_t(uint32_t(uint64_t(sum)));
          bad += got[size_t(r * op.n + n)] != want;
        }
      REQUIRE(bad == 0);
      REQUIRE(beyond > 0);
    }
  }
}
