#include "runtime/src/rules.hpp"
#include "tests/support/catch.hpp"

using namespace warpline;

namespace {

struct Subject {
  int64_t k = 64;
  const void* b = nullptr;
  bool supported = true;
};

const void* address(uintptr_t value) { return reinterpret_cast<const void*>(value); }

const RuleTable<Subject>& table() {
  static const RuleTable<Subject> rules{
      "wl_example",
      {
          {"k_range", "K", "must be at least 1", RuleKind::range,
           [](const Subject& s) { return in_range(s.k, 1, INT64_MAX); }},
          {"k_multiple", "K", "must be a multiple of 64 elements", RuleKind::multiple,
           [](const Subject& s) { return multiple_of(s.k, 64); }},
          {"b_aligned", "B1", "must be 32-byte aligned", RuleKind::alignment,
           [](const Subject& s) { return aligned(s.b, 32); }},
          {"device", "device", "must be of compute capability 10.x", RuleKind::support,
           [](const Subject& s) { return s.supported ? holds() : violated(" = 9.0"); }},
      }};
  return rules;
}

} // namespace

TEST_CASE("all violated rules stand in one message", "[host][rules]") {
  CHECK(table().check({}) == WL_SUCCESS);
  CHECK(table().check({7000, address(0x1010), true}) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_last_error() ==
        std::string("wl_example: K = 7000 must be a multiple of 64 elements (nearest: 6976, 7040); "
                    "B1: address 0x1010 is 16 modulo 32, must be 32-byte aligned (nearest: 0x1000, "
                    "0x1020); 2 rules violated, nothing was launched"));
  const wl_status status = api("wl_example_check", [] {
    return table().check({0, nullptr, true});
  });
  CHECK(status == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_last_error() == std::string("wl_example_check: K = 0 must be at least 1 (nearest: 1); 1 "
                                       "rule violated, nothing was launched"));
}

TEST_CASE("the status follows the kinds of the violated rules", "[host][rules]") {
  CHECK(table().check({64, address(8), true}) == WL_ERROR_MISALIGNED);
  CHECK(table().check({64, nullptr, false}) == WL_ERROR_NOT_SUPPORTED);
  CHECK(table().check({64, address(8), false}) == WL_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("the table can be enumerated", "[host][rules]") {
  const std::vector<RuleRow> rows = table().rows();
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].id == "k_multiple");
  CHECK(rows[1].kind == RuleKind::multiple);
  CHECK(table().violations({7000, address(8), false}).size() == 3);
}

TEST_CASE("evaluators", "[host][rules]") {
  CHECK(multiple_of(128, 64).holds);
  CHECK(multiple_of(0, 64).holds); // a matter for the range rule
  CHECK(multiple_of(-3, 64).holds);
  CHECK(multiple_of(63, 64).nearest == "64");
  CHECK(multiple_of(65, 64).nearest == "64, 128");
  CHECK(multiple_of(INT64_MAX, 64).nearest == std::to_string(INT64_MAX / 64 * 64));
  CHECK(in_range(5, 1, 4).nearest == "4");
  CHECK(in_range(-5, 1, 4).nearest == "1");
  CHECK(in_range(4, 1, 4).holds);
  CHECK(flags_among(0, 3).holds);
  CHECK(flags_among(3, 3).holds);
  CHECK(flags_among(6, 3).nearest == "2");
  CHECK(flags_among(0x80000001u, 2).finding == " = 2147483649");
  CHECK(flags_among(0x80000001u, 2).nearest == "0");
  CHECK_FALSE(not_null(nullptr).holds);
  CHECK(aligned(nullptr, 16).holds);
  CHECK(aligned(address(48), 16).holds);
  CHECK_FALSE(aligned(address(56), 16).holds);
}

TEST_CASE("overlap of memory ranges", "[host][rules]") {
  CHECK(disjoint(address(100), 50, address(150), 50, "A").holds);
  CHECK(disjoint(address(150), 50, address(100), 50, "A").holds);
  CHECK_FALSE(disjoint(address(100), 51, address(150), 50, "A").holds);
  CHECK_FALSE(disjoint(address(120), 1, address(100), 50, "A").holds);
  CHECK(disjoint(nullptr, 50, address(0), 50, "A").holds);
  CHECK(disjoint(address(100), 0, address(100), 50, "A").holds);
  CHECK_FALSE(disjoint(address(UINTPTR_MAX - 7), 100, address(UINTPTR_MAX - 3), 100, "A").holds);
}

TEST_CASE("products that overflow are refused", "[host][rules]") {
  int64_t result = 0;
  CHECK(product({3, 5, 7}, &result));
  CHECK(result == 105);
  CHECK(product({INT64_MAX, 1}, &result));
  CHECK_FALSE(product({INT64_MAX, 2}, &result));
  CHECK_FALSE(product({-1, 2}, &result));
}
