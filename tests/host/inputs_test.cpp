#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/elements.hpp"
#include "tests/reference/inputs.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

using namespace wltest;

namespace {

constexpr InputKind all_kinds[] = {InputKind::public_problem, InputKind::full_range,
                                   InputKind::exact, InputKind::one_hot, InputKind::extremes};

bool is_nan_scale(uint8_t code) { return (code & 0x7F) == 0x7F; }

} // namespace

TEST_CASE("the generator is a function of seed, stream and index", "[host]") {
  const Random random(7, 0), same(7, 0), other_seed(8, 0), other_stream(7, 1);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    CHECK(random.bits(i) == same.bits(i));
    seen.insert(random.bits(i));
    seen.insert(other_seed.bits(i));
    seen.insert(other_stream.bits(i));
  }
  CHECK(seen.size() == 3000);
}

TEST_CASE("known first draws pin the generator down", "[host]") {
  // SplitMix64 seeded with 0 begins with this value: key 0 is its state.
  Random random(0, 0);
  random.key = 0;
  CHECK(random.bits(0) == 0xE220A8397B1DCDAFull);
  CHECK(random.bits(1) == 0x6E789E6AA1B965F4ull);
}

TEST_CASE("draws fill their range evenly", "[host]") {
  const Random random(3, 5);
  std::array<int, 10> bins{};
  double sum = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    ++bins.at(random.below(i, 10));
    const double u = random.uniform(i);
    REQUIRE((u >= 0 && u < 1));
    sum += u;
  }
  for (int bin : bins) CHECK(std::abs(bin - 10000) < 500);
  CHECK(std::fabs(sum / 100000 - 0.5) < 0.01);
}

TEST_CASE("problems have the right sizes and repeat from their seed", "[host]") {
  for (InputKind kind : all_kinds) {
    INFO(name_of(kind));
    const Problem p = make_problem(5, 24, 128, 3, kind, 11);
    CHECK(p.a.values.size() == 3 * 5 * 64);
    CHECK(p.a.scales.size() == 3 * 5 * 8);
    CHECK(p.b1.values.size() == 3 * 24 * 64);
    CHECK(p.b2.scales.size() == 3 * 24 * 8);
    const Problem same = make_problem(5, 24, 128, 3, kind, 11);
    const Problem other = make_problem(5, 24, 128, 3, kind, 12);
    CHECK(p.b1.values == same.b1.values);
    CHECK(p.b2.scales == same.b2.scales);
    CHECK(p.b1.values != other.b1.values);
    CHECK(p.b1.values != p.b2.values);
    for (const Operand* operand : {&p.a, &p.b1, &p.b2})
      for (uint8_t scale : operand->scales) REQUIRE_FALSE(is_nan_scale(scale));
  }
  // A row of 136 numbers would read the ninth scale from its neighbour, the last from nowhere.
  for (int64_t k : {-16, 0, 8, 136}) CHECK_THROWS(make_problem(5, 24, k, 1, InputKind::exact, 11));
}

TEST_CASE("public problem: small values, scales in [0, 1]", "[host]") {
  const Problem p = make_problem(64, 64, 256, 1, InputKind::public_problem, 1);
  std::set<int> codes;
  for (uint8_t byte : p.a.values) {
    codes.insert(byte & 0xF);
    codes.insert(byte >> 4);
  }
  CHECK(codes == std::set<int>{0, 1, 2, 3, 8, 9, 10, 11});
  double largest = 0;
  for (uint8_t scale : p.a.scales) largest = std::max(largest, decode_e4m3(scale));
  CHECK(largest <= 1);
  CHECK(largest > 0.9);
  CHECK(p.alpha1 == 1);
}

TEST_CASE("full range uses every code, extremes only the outer ones", "[host]") {
  const Problem full = make_problem(64, 64, 256, 1, InputKind::full_range, 1);
  std::set<int> values, scales;
  for (uint8_t byte : full.a.values) values.insert(byte & 0xF);
  for (uint8_t scale : full.b1.scales) scales.insert(scale);
  CHECK(values.size() == 16);
  CHECK(scales.size() > 120);
  const Problem extremes = make_problem(64, 64, 256, 1, InputKind::extremes, 1);
  scales = {extremes.a.scales.begin(), extremes.a.scales.end()};
  CHECK(scales == std::set<int>{0x00, 0x01, 0x38, 0x7E});
}

TEST_CASE("exact: every partial sum fits FP32", "[host]") {
  // Terms are multiples of 1/16 and at most 1.5 * 2 * 1.5 * 2 = 9, so any partial sum over k terms
  // is a multiple of 1/16 below 9 k: k up to 2^24 / 16 / 9 = 116508 is exact.
  const Problem p = make_problem(9, 16, 7168, 1, InputKind::exact, 1);
  const Sums sums = accumulate(p, 1);
  for (double sum : sums.acc1) {
    REQUIRE(sum * 16 == std::nearbyint(sum * 16));
    REQUIRE(std::fabs(sum) <= 9 * 7168);
  }
  CHECK(std::exp2(std::round(std::log2(p.alpha1))) == p.alpha1);
}

TEST_CASE("results stay inside FP16 for all kinds", "[host]") {
  for (InputKind kind : all_kinds)
    for (int64_t k : {64, 192, 7168}) {
      INFO(name_of(kind) << " k " << k);
      const Problem p = make_problem(40, 48, k, 1, kind, 5);
      const std::vector<double> d = gated(accumulate(p, 2), p.alpha1, p.alpha2);
      double largest = 0;
      for (double value : d) largest = std::max(largest, std::fabs(value));
      CHECK(largest < 65504);
      CHECK(largest > 0.01);
    }
}

TEST_CASE("an NVFP4 operand in another type: no element is nearer", "[host]") {
  for (InputKind kind : {InputKind::public_problem, InputKind::exact}) {
    const Operand from = make_problem(3, 8, 128, 2, kind, 11).a;
    for (int number = WL_OPERAND_F16; number <= WL_OPERAND_MXFP4; ++number) {
      const auto type = static_cast<wl_operand>(number);
      const bool mx = type >= WL_OPERAND_MXFP8_E4M3;
      const Operand to = in_type(from, type, 96);
      INFO(name_of(kind) << " type " << number);
      REQUIRE((to.type == type && to.rows == 3 && to.l == 2 && to.k == 96));
      REQUIRE(to.values.size() == 6 * to.row_bytes());
      REQUIRE(to.scales.size() == (mx ? 6 * 3 : 0));
      const int bits = element_bits(type);
      for (int64_t row = 0; row < 6; ++row)
        for (int64_t block = 0; block < 3; ++block) {
          const double scale = mx ? decode_ue8m0(to.scales[static_cast<size_t>(3 * row + block)])
                               : type == WL_OPERAND_INT8 ? double{int8_unit}
                                                         : 1;
          double largest = 0, most = 0;
          for (int64_t i = 32 * block; i < 32 * block + 32; ++i) {
            const double number_of = decode_e2m1(nibble(&from.values[row * 64], i)) *
                                     decode_ue4m3(from.scales[row * 8 + i / 16]);
            const auto at = [&](uint32_t code) { return decode_element(type, code) * scale; };
            const double got =
                at(element_at(type, &to.values[static_cast<size_t>(row) * to.row_bytes()], i));
            double least = bits > 8 ? 0 : HUGE_VAL;
            for (uint32_t code = 0; bits <= 8 && code < 1u << bits; ++code)
              if (std::isfinite(at(code))) {
                least = std::min(least, std::fabs(at(code) - number_of));
                most = std::max(most, std::fabs(at(code)));
              }
            REQUIRE(std::fabs(got - number_of) == least);
            largest = std::max(largest, std::fabs(number_of));
          }
          // The scale makes the most of the elements.
          if (mx && largest > 0) CHECK(std::ilogb(largest) == std::ilogb(most));
        }
    }
    CHECK(in_type(from, WL_OPERAND_NVFP4).scales == from.scales);
    CHECK(in_type(from, WL_OPERAND_F16).k == 128);
    CHECK_THROWS(in_type(from, WL_OPERAND_F16, 136));
  }
}

TEST_CASE("one_hot: a row of sums is a column of B", "[host]") {
  const Problem p = make_problem(300, 8, 128, 2, InputKind::one_hot, 9);
  const Sums sums = accumulate(p, 2);
  std::set<int64_t> positions;
  for (int64_t entry = 0; entry < 2; ++entry)
    for (int64_t row = 0; row < 300; ++row) {
      const int64_t k = one_hot_position(p, entry, row);
      positions.insert(k);
      for (int64_t n = 0; n < 8; ++n) {
        const int64_t b_row = entry * 8 + n;
        const double b = decode_e2m1(nibble(p.b1.values.data() + b_row * 64, k)) *
                         decode_ue4m3(p.b1.scales[b_row * 8 + k / 16]);
        REQUIRE(sums.acc1[(entry * 300 + row) * 8 + n] == b);
      }
    }
  CHECK(positions.size() == 128);
}
