// How the commands of products end: what a verdict makes of the status, the report and the file.
#include "tests/reference/inputs.hpp"
#include "tests/reference/linear.hpp"
#include "tests/support/catch.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/product.hpp"

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
