// How the commands of products end: what a verdict makes of the status, the report and the file.
#include "tests/reference/inputs.hpp"
#include "tests/reference/linear.hpp"
#include "tests/support/catch.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/product.hpp"

#include <cmath>

using namespace warpline::cli;
namespace {

struct Seen {
  ExitStatus status;
  std::string result;
  bool written;
  Json json;
};

Seen end_of(const std::optional<Verdict>& verdict, const std::string& out = "f16") {
  ProductRequest r;
  r.out = out;
  r.output = "d";
  Report report;
  bool written = false;
  const End end = conclude(report, r, verdict, [&] { written = true; });
  return {end.status, end.result, written, parse_json(report.json())};
}

Verdict right() {
  Verdict v;
  v.comparison.count = 100;
  v.comparison.worst_use = 0.25;
  v.unequal = 10;
  return v;
}

} // namespace

TEST_CASE("products: what a verdict makes of the end", "[host]") {
  const Seen good = end_of(right());
  CHECK(good.status == exit_right);
  CHECK(good.written);
  CHECK(good.result == "PASS");
  CHECK(good.json.find("result")->text == "PASS");
  CHECK(good.json.find("output") != nullptr);
  CHECK(good.json.find("margin")->number == 0.75);
  CHECK(good.json.find("same_bits")->integer == 90);
  CHECK(good.json.find("strayed") == nullptr);
  CHECK(good.json.find("first_wrong") == nullptr);
  // A code leaves no margin.
  CHECK(end_of(right(), "nvfp4").json.find("margin") == nullptr);

  Verdict wrong = right();
  wrong.comparison.bad = 1;
  wrong.comparison.first_bad = {1, 2, 3};
  const Seen bad = end_of(wrong);
  CHECK(bad.status == exit_wrong);
  CHECK_FALSE(bad.written);
  CHECK(bad.result == "FAIL");
  CHECK(bad.json.find("result")->text == "FAIL");
  CHECK(bad.json.find("output") == nullptr);
  REQUIRE(bad.json.find("first_wrong") != nullptr);
  CHECK(bad.json.find("first_wrong")->find("at")->items[2].integer == 3);

  // Outputs that are right, and bytes written between rows.
  Verdict astray = right();
  astray.strayed = 3;
  const Seen strayed = end_of(astray);
  CHECK(strayed.status == exit_wrong);
  CHECK_FALSE(strayed.written);
  CHECK(strayed.json.find("strayed")->integer == 3);

  const Seen unjudged = end_of(std::nullopt);
  CHECK(unjudged.status == exit_right);
  CHECK(unjudged.written);
  CHECK(unjudged.result.rfind("DONE, not verified", 0) == 0);
  CHECK(unjudged.json.find("result")->text == "NOT VERIFIED");

  Verdict nothing = right();
  nothing.comparison.count = nothing.unequal = 0;
  CHECK(end_of(nothing).status == exit_wrong);
}

TEST_CASE("products: names of types", "[host]") {
  for (const char* name : {"f16", "bf16", "f32", "nvfp4"})
    CHECK(name_of(dtype_of(name)) == std::string(name));
  CHECK(dtype_of("f32") == WL_F32);
  CHECK(element_bytes(WL_F32) == 4);
  CHECK(element_bytes(WL_BF16) == 2);
}

// On a card 16 of 8712 such outputs lie beyond the public bound; the virtual GPU adds exactly.
TEST_CASE("products: FP8 on Hopper is judged with what its sums lose", "[host]") {
  const wltest::Random random(7, 91);
  uint64_t drawn = 0;
  const auto operand = [&](int64_t rows, int64_t k, wl_operand type) {
    wltest::Operand o{rows, k, 1, {}, {}, type};
    for (int64_t i = 0; i < rows * k; ++i, ++drawn)
      o.values.push_back(
          static_cast<uint8_t>(random.below(drawn, 0x50) | (drawn * 0x9E37 >> 8 & 1) << 7));
    return o;
  };
  wltest::Problem p{16, 24, 640, 1, {}, {}, {}, 1, 1};
  p.a = operand(p.m, p.k, WL_OPERAND_E4M3);
  p.b1 = operand(p.n, p.k, WL_OPERAND_E5M2);
  const auto linear = [&](const wltest::Sums& sums) {
    return wltest::linear(sums, {WL_ACTIVATION_NONE, 1, {}, {}, {}});
  };
  const auto replayed = [&](const wltest::Sums& sums) {
    return wltest::linear_replayed(sums, {WL_ACTIVATION_NONE, 1, {}, {}, {}});
  };
  ProductRequest r;
  r.out = "f32";
  const auto passes = [&](const char* config, const wltest::Sums& sums, float wrong = 0) {
    Outcome outcome;
    snprintf(outcome.plan.config, sizeof outcome.plan.config, "%s", config);
    std::vector<float> d = replayed(sums);
    d[5] += wrong;
    outcome.d = wltest::rounded(d, WL_F32);
    return judge(r, p, outcome, linear, replayed).passed();
  };
  const wltest::Sums exact = wltest::accumulate(p), fast = accumulate_hopper_f8(p, {false}),
                     promoted = accumulate_hopper_f8(p, {true});
  CHECK(passes("gemm_sm90_f8_t64_f32", exact));
  CHECK(passes("gemm_sm90_f8_t64_f32", promoted));
  CHECK_FALSE(passes("gemm_sm90_f8_t64_f32", fast));
  CHECK(passes("gemm_sm90_f8fast_t64_f32", fast));
  CHECK_FALSE(passes("gemm_sm100_n128_f8_f32", promoted));
  CHECK_FALSE(passes("gemm_sm90_f8_t64_f32", promoted, static_cast<float>(exact.acc1[5])));
}

// On an H200, 24 of 1000000 such outputs of K 8192 lie beyond the public bound: where the gate's
// sum is near 0 and the other is not, what a sum lost is multiplied.
TEST_CASE("products: outputs may differ by what FP32 sums lose, and by no more", "[host]") {
  const wltest::Random random(8, 92);
  uint64_t drawn = 0;
  const auto operand = [&](int64_t rows, int64_t k) {
    wltest::Operand o{rows, k, 1, {}, {}, WL_OPERAND_F16};
    for (int64_t i = 0; i < rows * k; ++i, ++drawn) {
      const uint16_t code = wltest::encode_output(
          wltest::OutputType::f16, (double(random.below(drawn, 4001)) - 2000) / 1000);
      o.values.push_back(static_cast<uint8_t>(code));
      o.values.push_back(static_cast<uint8_t>(code >> 8));
    }
    return o;
  };
  wltest::Problem p{8, 16, 20000, 1, {}, {}, {}, 1, 1};
  p.a = operand(p.m, p.k);
  p.b1 = operand(p.n, p.k);
  p.b2 = operand(p.n, p.k);
  // A gate of no sum: pairs of row 0 of A times row 0 of B1 cancel.
  for (int64_t k = 1; k < p.k; k += 2)
    for (int64_t byte = 0; byte < 2; ++byte) {
      const auto at = static_cast<size_t>(2 * k + byte);
      p.a.values[at] = p.a.values[at - 2];
      p.b1.values[at] = static_cast<uint8_t>(p.b1.values[at - 2] ^ (byte == 1 ? 0x80 : 0));
    }
  const wltest::Sums exact = wltest::accumulate(p), lost = wltest::most_lost(p);
  REQUIRE(exact.acc1[0] == 0);
  REQUIRE(lost.acc1[0] > 0);
  const auto gated = [&](const wltest::Sums& sums) { return wltest::gated(sums, 1, 1); };
  const auto replayed = [&](const wltest::Sums& sums) {
    std::vector<float> d;
    for (size_t i = 0; i < sums.acc1.size(); ++i)
      d.push_back(wltest::gated_replayed_f32(sums.acc1[i], sums.acc2[i], 1, 1));
    return d;
  };
  ProductRequest r;
  r.out = "f32";
  const auto verdict = [&](double part1, double part2) {
    wltest::Sums sums = exact;
    sums.acc1[0] += part1 * lost.acc1[0];
    sums.acc2[0] += part2 * lost.acc2[0];
    Outcome outcome;
    snprintf(outcome.plan.config, sizeof outcome.plan.config, "dual_gemm_sm90_af16_t64_f32");
    outcome.d = wltest::rounded(replayed(sums), WL_F32);
    return judge(r, p, outcome, gated, replayed);
  };
  CHECK(verdict(0, 0).passed());
  CHECK(verdict(0, 0).by_sums == 0);
  for (const double part : {-0.9, 0.9}) {
    CAPTURE(part, lost.acc1[0], exact.acc2[0]);
    CHECK(verdict(part, part).passed());
    CHECK(verdict(part, -part).passed());
    CHECK(verdict(part, part).by_sums == 1);
    CHECK_FALSE(verdict(2 * part, 0).passed());
  }
  CHECK(verdict(0, 1000).passed()); // a gate of 0 whatever the other

  // What the hardware may do: each step of 16 cut to 24 bits.
  for (const wltest::Operand* b : {&p.b1, &p.b2})
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        const auto value = [&](const wltest::Operand& o, int64_t row, int64_t k) {
          const auto at = static_cast<size_t>(2 * (row * p.k + k));
          return wltest::decode_f16(static_cast<uint16_t>(o.values[at] | o.values[at + 1] << 8));
        };
        double sum = 0;
        for (int64_t k0 = 0; k0 < p.k; k0 += 16) {
          for (int64_t k = k0; k < k0 + 16; ++k) sum += value(p.a, m, k) * value(*b, n, k);
          const double unit = sum == 0 ? 1 : std::ldexp(1.0, std::ilogb(sum) - 23);
          sum = std::trunc(sum / unit) * unit;
        }
        const auto at = static_cast<size_t>(m * p.n + n);
        const bool first = b == &p.b1;
        const double off = std::fabs(sum - (first ? exact.acc1 : exact.acc2)[at]);
        CAPTURE(first, m, n, off);
        CHECK(off <= (first ? lost.acc1 : lost.acc2)[at]);
      }
}
