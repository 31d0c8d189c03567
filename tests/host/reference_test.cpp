#include "tests/reference/linear.hpp"
#include "tests/support/catch.hpp"

#include <cmath>
#include <limits>

using namespace wltest;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

double element(const Operand& operand, int64_t entry, int64_t row, int64_t k) {
  const int64_t r = entry * operand.rows + row;
  return decode_e2m1(nibble(operand.values.data() + r * operand.k / 2, k)) *
         decode_ue4m3(operand.scales[static_cast<size_t>(r * (operand.k / 16) + k / 16)]);
}

// The definition, three loops and long double.
long double naive_sum(const Problem& p, const Operand& b, int64_t entry, int64_t m, int64_t n) {
  long double sum = 0;
  for (int64_t k = 0; k < p.k; ++k)
    sum += static_cast<long double>(element(p.a, entry, m, k)) * element(b, entry, n, k);
  return sum;
}

} // namespace

TEST_CASE("accumulate against three plain loops", "[host]") {
  struct Shape {
    int64_t m, n, k, l;
  };
  for (InputKind kind :
       {InputKind::public_problem, InputKind::full_range, InputKind::exact, InputKind::extremes})
    for (Shape s :
         {Shape{1, 8, 64, 1}, Shape{5, 24, 192, 3}, Shape{259, 40, 16, 1}, Shape{4, 16, 1024, 2}}) {
      const Problem p = make_problem(s.m, s.n, s.k, s.l, kind, 17);
      const Sums sums = accumulate(p, 2);
      REQUIRE(sums.acc1.size() == static_cast<size_t>(s.l * s.m * s.n));
      int64_t wrong = 0;
      size_t i = 0;
      for (int64_t l = 0; l < s.l; ++l)
        for (int64_t m = 0; m < s.m; ++m)
          for (int64_t n = 0; n < s.n; ++n, ++i) {
            wrong += sums.acc1[i] != static_cast<double>(naive_sum(p, p.b1, l, m, n));
            wrong += sums.acc2[i] != static_cast<double>(naive_sum(p, p.b2, l, m, n));
          }
      INFO(name_of(kind) << " m " << s.m << " n " << s.n << " k " << s.k << " l " << s.l);
      CHECK(wrong == 0);
    }
}

TEST_CASE("accumulate over a long K", "[host]") {
  // Beyond what is decoded at once, and not a multiple of it; block sums of both signs and sizes.
  const Problem p = make_problem(5, 24, 2 * 16384 + 64, 1, InputKind::full_range, 18);
  double last = 0;
  int calls = 0;
  const Sums sums = accumulate(p, 2, [&](double fraction) {
    CHECK(fraction > last);
    last = fraction;
    ++calls;
  });
  CHECK(last == 1);
  CHECK(calls == 2 * 3);
  int64_t wrong = 0;
  for (int64_t i = 0; i < 5 * 24; ++i) {
    wrong += sums.acc1[static_cast<size_t>(i)] !=
             static_cast<double>(naive_sum(p, p.b1, 0, i / 24, i % 24));
    wrong += sums.acc2[static_cast<size_t>(i)] !=
             static_cast<double>(naive_sum(p, p.b2, 0, i / 24, i % 24));
  }
  CHECK(wrong == 0);
}

TEST_CASE("accumulate does not depend on the number of threads", "[host]") {
  const Problem p = make_problem(300, 72, 256, 2, InputKind::full_range, 4);
  double last = 0;
  int calls = 0;
  const Sums one = accumulate(p, 1), three = accumulate(p, 3, [&](double fraction) {
                                       CHECK(fraction > last);
                                       last = fraction;
                                       ++calls;
                                     });
  CHECK(one.acc1 == three.acc1);
  CHECK(one.acc2 == three.acc2);
  CHECK(last == 1);
  CHECK(calls > 1);
}

TEST_CASE("a NaN scale reaches every output of its row", "[host]") {
  Problem p = make_problem(4, 8, 64, 1, InputKind::public_problem, 4);
  p.a.scales[2 * 4 + 1] = nan_padding;
  const std::vector<double> d = gated(accumulate(p, 1), 1, 1);
  for (int i = 0; i < 32; ++i) CHECK(std::isnan(d[i]) == (i / 8 == 2));
}

TEST_CASE("silu: known values and limits", "[host]") {
  CHECK(gated(0, 5, 1, 1) == 0);
  CHECK(gated(1, 1, 1, 1) == Approximate(0.731058578630004879));
  CHECK(gated(2, 3, 0.5, 2) == Approximate(6 * 0.731058578630004879));
  CHECK(gated(-1, 1, 1, 1) == Approximate(-0.268941421369995121));
  CHECK(gated(1000, 2, 1, 1) == 2000);
  CHECK(std::fabs(gated(-1000, 2, 1, 1)) == 0);
}

TEST_CASE("the replayed epilogue stays next to the double result", "[host]") {
  const Random random(21, 0);
  for (OutputType type : {OutputType::f16, OutputType::bf16})
    for (uint64_t i = 0; i < 20000; ++i) {
      const float acc1 = static_cast<float>((random.uniform(2 * i) - 0.5) * 60);
      const float acc2 = static_cast<float>((random.uniform(2 * i + 1) - 0.5) * 60);
      const double out = decode_output(type, gated_replayed(acc1, acc2, 0.5f, 2.0f, type));
      const double reference = gated(acc1, acc2, 0.5, 2.0);
      if (std::fabs(out - reference) > error_bound(type, reference))
        FAIL(name_of(type) << " acc1 " << acc1 << " acc2 " << acc2 << ": " << out << " against "
                           << reference);
    }
  SUCCEED();
}

TEST_CASE("the replayed epilogue at its limits", "[host]") {
  const OutputType f16 = OutputType::f16;
  CHECK(gated_replayed(0, 7, 1, 1, f16) == 0x0000);
  CHECK(gated_replayed(-200, 1, 1, 1, f16) == 0x8000); // ex2 = inf, rcp = 0, -0 * 1
  CHECK(gated_replayed(200, 1, 1, 1, f16) == encode_f16(200));
  CHECK(gated_replayed(1000, 1000, 1, 1, f16) == 0x7C00);
  CHECK(gated_replayed(nan_value, 1, 1, 1, f16) == 0x7FFF);
  CHECK(gated_replayed(1, 1, 1, 0, f16) == 0);
}

TEST_CASE("gates: known values, limits and biases", "[host]") {
  const double sigma = 0.731058578630004879; // of 1
  const Gate silu, gelu{WL_GATE_GELU_TANH, 0}, clamped{WL_GATE_CLAMPED, 7};
  CHECK(gated(silu, {1, 3}) == Approximate(3 * sigma));
  CHECK(gated(silu, {1, 3, 2, 0.5, -1, 4}) == Approximate(5.5 * sigma));
  CHECK(gated(gelu, {1, 3}) == Approximate(3 * 0.841191990607477));
  CHECK(gated(gelu, {-1, 3}) == Approximate(3 * -0.158808009392523));
  CHECK(gated(clamped, {1 / 1.702, 3}) == Approximate(4 * sigma / 1.702));
  // x1 from above alone, x2 on both sides.
  CHECK(gated(clamped, {9, 9}) == gated(clamped, {7, 7}));
  CHECK(gated(clamped, {9, -9}) == gated(clamped, {7, -7}));
  CHECK(gated(clamped, {9, -9}) == Approximate(-42 / (1 + std::exp(-1.702 * 7))));
  CHECK(gated(clamped, {-9, 2}) == Approximate(-27 / (1 + std::exp(1.702 * 9))));
  CHECK(gated({WL_GATE_SILU, 1}, {5, -5}) == Approximate(-sigma));
  CHECK(gated({WL_GATE_SILU, 1}, {-5, 1}) == gated(silu, {-5, 1}));
  CHECK(gated({WL_GATE_GELU_TANH, 1}, {5, 5}) == Approximate(0.841191990607477));

  GatedOperands operands{clamped, 0.5f, 2, {1, 2}, {}};
  const Sums sums{2, 2, 1, {1, 2, 3, 4}, {5, 6, 7, 8}};
  const std::vector<double> d = gated(sums, operands);
  REQUIRE(d.size() == 4);
  CHECK(d[3] == gated(clamped, {4, 8, 0.5f, 2, 2}));
  CHECK(d[2] == gated(clamped, {3, 7, 0.5f, 2, 1}));
  operands.bias1.clear(), operands.bias2 = {-10, -11};
  CHECK(gated(sums, operands)[1] == gated(clamped, {2, 6, 0.5f, 2, -0.0f, -11}));
  CHECK(gated_replayed(sums, operands)[1] == gated_replayed(clamped, {2, 6, 0.5f, 2, -0.0f, -11}));
}

TEST_CASE("replayed gates stay next to the double results", "[host]") {
  const Random random(22, 0);
  const float infinity = static_cast<float>(inf);
  for (const wl_gate kind : {WL_GATE_SILU, WL_GATE_GELU_TANH, WL_GATE_CLAMPED})
    for (const float limit : {0.0f, 0.5f, 7.0f, infinity}) {
      if (kind == WL_GATE_CLAMPED && limit == 0) continue;
      for (uint64_t i = 0; i < 5000; ++i) {
        const auto number = [&](uint64_t at, double size) {
          return static_cast<float>((random.uniform(4 * i + at) - 0.5) * size);
        };
        const GatedInputs in{number(0, 60), number(1, 60), 0.5f, 2, number(2, 8), number(3, 8)};
        const double reference = gated({kind, limit}, in);
        const double out = double{gated_replayed({kind, limit}, in)};
        if (!(std::fabs(out - reference) <= 1e-5 + 1e-5 * std::fabs(reference)))
          FAIL("gate " << kind << ", " << limit << ", sums " << in.acc1 << ", " << in.acc2
                       << ", biases " << in.bias1 << ", " << in.bias2 << ": " << out << " against "
                       << reference << ", seed 22");
      }
    }
  SUCCEED();
}

TEST_CASE("gates at NaN, infinities and zeros, in double and replayed", "[host]") {
  const float infinity = static_cast<float>(inf);
  for (const wl_gate kind : {WL_GATE_SILU, WL_GATE_GELU_TANH, WL_GATE_CLAMPED})
    for (const float limit : {0.0f, 7.0f, infinity}) {
      if (kind == WL_GATE_CLAMPED && limit == 0) continue;
      INFO("gate " << kind << ", limit " << limit);
      const auto both = [&](double x1, double x2, auto is) {
        const GatedInputs in{x1, x2};
        CHECK(is(gated({kind, limit}, in)));
        CHECK(is(double{gated_replayed({kind, limit}, in)}));
      };
      const auto nan = [](double d) { return std::isnan(d); };
      const bool bounded = limit == 7, plain = kind == WL_GATE_SILU && limit == 0;
      both(nan_value, 1, nan);
      both(1, nan_value, nan);
      both(inf, 2, [&](double d) { return bounded ? d > 6 && d < 22 : d == inf; });
      both(1, inf, [&](double d) { return bounded ? d > 4 && d < 8 : d == inf; });
      both(1, -inf, [&](double d) { return bounded ? d > -8 && d < -4 : d == -inf; });
      both(-inf, 1, [&](double d) { return plain ? std::isnan(d) : d == 0 && std::signbit(d); });
      both(-inf, -inf,
           [&](double d) { return bounded ? d == 0 && !std::signbit(d) : std::isnan(d); });
      if (kind == WL_GATE_CLAMPED) continue;
      both(0, 3, [](double d) { return d == 0 && !std::signbit(d); });
      both(-0.0, 3, [](double d) { return d == 0 && std::signbit(d); });
      both(0, -0.0, [](double d) { return d == 0 && std::signbit(d); });
    }
}

TEST_CASE("the bound is the public one, with BF16's own rounding added", "[host]") {
  CHECK(error_bound(OutputType::f16, 0) == 1e-3);
  CHECK(error_bound(OutputType::f16, -100) == Approximate(0.101));
  CHECK(error_bound(OutputType::bf16, 0) == 1e-3);
  CHECK(error_bound(OutputType::bf16, 100) == Approximate(0.101 + 0.25));
}

TEST_CASE("compare finds what is wrong and where", "[host]") {
  Sums shape{3, 8, 2, {}, {}};
  const int64_t ldd = 16, stride = 64;
  std::vector<double> reference(48);
  std::vector<uint16_t> out(static_cast<size_t>(2 * stride), 0xBEEF);
  auto at = [&](int64_t l, int64_t m, int64_t n) -> uint16_t& {
    return out[static_cast<size_t>(l * stride + m * ldd + n)];
  };
  for (int64_t i = 0; i < 48; ++i) {
    reference[i] = i + 0.5;
    at(i / 24, i / 8 % 3, i % 8) = encode_f16(reference[i]);
  }
  auto run = [&] { return compare(shape, reference, out.data(), ldd, stride, OutputType::f16); };

  Comparison c = run();
  CHECK(c.count == 48);
  CHECK(c.passed());
  CHECK(c.worst_absolute == 0);
  CHECK(c.margin() == 1);

  SECTION("an error inside the bound") {
    at(0, 1, 3) = encode_f16(11.5 + 0.0078125); // one place of FP16 at 11.5; the bound is 0.0125
    c = run();
    CHECK(c.passed());
    CHECK(c.worst_absolute == 0.0078125);
    CHECK(c.worst_relative == Approximate(0.0078125 / 11.5));
    CHECK(c.worst_use == Approximate(0.625));
    CHECK(describe(c.worst_absolute_at) == "l 0, m 1, n 3");
  }
  SECTION("an error outside the bound") {
    at(1, 2, 7) = encode_f16(48);
    at(1, 0, 1) = encode_f16(25);
    c = run();
    CHECK_FALSE(c.passed());
    CHECK(c.bad == 2);
    CHECK(describe(c.first_bad) == "l 1, m 0, n 1");
    CHECK(c.first_bad_out == 25);
    CHECK(c.first_bad_reference == 25.5);
    CHECK(describe(c).find("2 of 48 outputs wrong") == 0);
  }
  SECTION("NaN and infinity patterns") {
    at(0, 0, 0) = 0x7FFF;
    CHECK(run().bad == 1);
    reference[0] = nan_value;
    CHECK(run().bad == 0);
    at(0, 0, 0) = 0;
    CHECK(run().bad == 1);
    reference[0] = 70000; // rounds to infinity in FP16
    at(0, 0, 0) = 0x7C00;
    CHECK(run().bad == 0);
    at(0, 0, 0) = 0xFC00;
    CHECK(run().bad == 1);
    reference[0] = 65519; // within the bound of the overflow threshold: either side is right
    at(0, 0, 0) = 0x7C00;
    CHECK(run().bad == 0);
    at(0, 0, 0) = 0x7BFF;
    CHECK(run().bad == 0);
    reference[0] = 60000;
    at(0, 0, 0) = 0x7C00;
    CHECK(run().bad == 1);
    reference[0] = -inf;
    at(0, 0, 0) = 0xFC00;
    CHECK(run().bad == 0);
    at(0, 0, 0) = 0xFBFF;
    CHECK(run().bad == 1);
  }
  SECTION("nothing compared is not a pass") {
    shape.m = 0;
    CHECK_FALSE(run().passed());
  }
}

TEST_CASE("compare_exact counts differing bits", "[host]") {
  Sums shape{1, 4, 1, {}, {}};
  const std::vector<uint16_t> reference = {0x3C00, 0x0000, 0x7FFF, 0x7C00};
  const std::vector<uint16_t> out = {0x3C01, 0x8000, 0xFE00, 0x7C00};
  const Comparison c = compare_exact(shape, reference, out.data(), 4, 4, OutputType::f16);
  CHECK(c.unequal == 2); // one place off, and the sign of zero; NaN equals NaN
  CHECK(c.bad == 2);
}

TEST_CASE("compare_nvfp4 takes the replay and finds what is wrong", "[host]") {
  const Problem p = make_problem(24, 64, 128, 2, InputKind::public_problem, 31);
  const Sums sums = accumulate(p);
  const std::vector<double> reference = gated(sums, p.alpha1, p.alpha2);
  for (const float d_scale : {1.0f, 0.125f, 3.0f}) {
    INFO("d_scale " << d_scale << ", seed 31");
    const Operand right = quantized_replayed(sums, p.alpha1, p.alpha2, d_scale);
    const Comparison good = compare_nvfp4(sums, reference, right, double{d_scale});
    INFO(describe(good));
    CHECK(good.passed());
    CHECK(good.count == 2 * 24 * 64);
    CHECK(count_unequal(right, right) == 0);
    for (size_t i = 0; i < right.scales.size(); i += 5) {
      Operand bent = right;
      bent.scales[i] = static_cast<uint8_t>(bent.scales[i] + 2);
      const Comparison c = compare_nvfp4(sums, reference, bent, double{d_scale});
      INFO("scale " << i);
      CHECK(c.bad >= 1);
      CHECK(count_unequal(bent, right) == 16);
      bent.scales[i] = 0x7F; // NaN
      CHECK(compare_nvfp4(sums, reference, bent, double{d_scale}).bad == 16);
    }
    for (size_t i = 0; i < right.values.size(); i += 7) {
      const auto low = static_cast<uint8_t>(right.values[i] & 15);
      if ((low & 7) < 2 || (low & 7) > 5) continue;
      Operand bent = right; // two codes away is never the nearest but one
      bent.values[i] = static_cast<uint8_t>(bent.values[i] + 2);
      INFO("value " << 2 * i);
      CHECK(compare_nvfp4(sums, reference, bent, double{d_scale}).bad == 1);
      CHECK(count_unequal(bent, right) == 1);
    }
  }
}

TEST_CASE("compare_nvfp4 holds NaN, infinity and overflow to the encoding", "[host]") {
  const float alphas[] = {1, static_cast<float>(inf), -static_cast<float>(inf),
                          static_cast<float>(nan_value)};
  Problem p = make_problem(3, 32, 64, 1, InputKind::public_problem, 32);
  p.a.scales[1 * 4 + 2] = nan_padding; // row 1 of D
  p.b1.scales[5 * 4] = nan_padding;    // column 5
  const Sums sums = accumulate(p);
  for (const float alpha1 : alphas)
    for (const float alpha2 : {1.0f, static_cast<float>(inf), 1e20f})
      for (const float d_scale : {1.0f, 1e-30f}) {
        INFO("alpha " << alpha1 << ", " << alpha2 << ", d_scale " << d_scale << ", seed 32");
        const std::vector<double> reference = gated(sums, double{alpha1}, double{alpha2});
        const Operand right = quantized_replayed(sums, alpha1, alpha2, d_scale);
        const Comparison good = compare_nvfp4(sums, reference, right, double{d_scale});
        INFO(describe(good));
        CHECK(good.passed());
        int64_t special = 0;
        for (size_t i = 0; i < reference.size(); ++i) {
          const double wanted = reference[i];
          const uint8_t code = nibble(right.values.data(), static_cast<int64_t>(i));
          special += !std::isfinite(wanted);
          if (std::isnan(wanted)) CHECK(code == 7);
          if (std::isinf(wanted)) {
            CHECK(code == (wanted < 0 ? 15 : 7));
            CHECK(right.scales[i / 16] == 0x7E);
          }
          // Any other code of such an output is wrong, and any other scale of its block.
          if (std::isfinite(wanted)) continue;
          for (uint8_t other = 0; other < 16; ++other) {
            if (other == code) continue;
            Operand bent = right;
            bent.values[i / 2] =
                static_cast<uint8_t>(i % 2 == 0 ? (bent.values[i / 2] & 0xF0) | other
                                                : (bent.values[i / 2] & 0x0F) | other << 4);
            CHECK(compare_nvfp4(sums, reference, bent, double{d_scale}).bad == 1);
          }
          if (!std::isinf(wanted)) continue;
          Operand bent = right;
          bent.scales[i / 16] = 0x7D;
          CHECK(compare_nvfp4(sums, reference, bent, double{d_scale}).bad == 16);
        }
        CHECK(good.special == special);
        CHECK(special >= 32);
      }
}

TEST_CASE("compare_nvfp4: a scale that overflows is 448, and blocks of zeros are zeros", "[host]") {
  const Sums shape{1, 16, 1, {}, {}};
  Operand d{1, 16, 1, std::vector<uint8_t>(8, 0), {0x7E}};
  std::vector<double> reference(16, 0.0);
  const auto bad = [&] { return compare_nvfp4(shape, reference, d, 1).bad; };
  reference[3] = 1e30; // far more than 6 * 448
  d.values[1] = 0x70;
  CHECK(bad() == 0);
  d.scales[0] = 0x38; // 1
  CHECK(bad() == 16);
  d.scales[0] = 0x7E;
  d.values[1] = 0x60;
  CHECK(bad() == 1);
  reference[3] = 0;
  d.scales[0] = 0;
  d.values[1] = 0x80; // zeros keep their signs
  CHECK(bad() == 0);
  d.values[1] = 0x70;
  CHECK(bad() == 1);
  d.scales[0] = 0x80; // a sign is never written
  CHECK(bad() == 16);
  for (double& wanted : reference) wanted = nan_value;
  d.scales[0] = 0;
  d.values.assign(8, 0x77);
  CHECK(bad() == 0);
  d.scales[0] = 0x38; // no number in the block: no scale
  CHECK(bad() == 16);
}
