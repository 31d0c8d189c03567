#include "tests/support/catch.hpp"
#include "tools/cli/json.hpp"

#include <cmath>
#include <limits>

using namespace warpline::cli;

namespace {

std::string error_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, limits);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "accepted";
}

} // namespace

TEST_CASE("JSON: every kind of value", "[host]") {
  const Json root =
      parse_json(" {\"a\": [1, -2.5e1, true, false, null], \"b\": {}, \"c\": \"x\"} ");
  REQUIRE(root.kind == Json::Kind::object);
  const Json& a = *root.find("a");
  REQUIRE(a.items.size() == 5);
  CHECK(a.items[0].is_unsigned);
  CHECK(a.items[0].integer == 1);
  CHECK(a.items[1].number == -25);
  CHECK_FALSE(a.items[1].is_unsigned);
  CHECK(a.items[2].boolean);
  CHECK(a.items[3].kind == Json::Kind::boolean);
  CHECK_FALSE(a.items[3].boolean);
  CHECK(a.items[4].kind == Json::Kind::null);
  CHECK(root.find("b")->members.empty());
  CHECK(root.find("c")->text == "x");
  CHECK(root.find("d") == nullptr);
}

TEST_CASE("JSON: 64-bit integers are exact", "[host]") {
  CHECK(parse_json("18446744073709551615").integer == std::numeric_limits<uint64_t>::max());
  CHECK(parse_json("9007199254740993").integer == 9007199254740993u);
  CHECK_FALSE(parse_json("18446744073709551616").is_unsigned);
  CHECK_FALSE(parse_json("1.0").is_unsigned);
  CHECK_FALSE(parse_json("-1").is_unsigned);
  CHECK(std::isinf(parse_json("1e999").number));
}

TEST_CASE("JSON: strings", "[host]") {
  CHECK(parse_json(R"("\"\\\/\b\f\n\r\tA\u00e9\u20ac\ud83d\ude00")").text ==
        "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(error_of("\"a") == "a string without its closing quote at byte 2");
  CHECK(error_of("\"\n\"") == "a control character inside a string at byte 1");
  CHECK(error_of(R"("\x")") == "an unknown escape inside a string at byte 2");
  CHECK(error_of(R"("\ud800")") == "half of a surrogate pair at byte 7");
  CHECK(error_of(R"("\udc00")") == "half of a surrogate pair at byte 7");
  CHECK(error_of(R"("\u12)") == "the text ends too early at byte 3");
  CHECK(error_of(R"("\u12zz")") == "\\u needs four hexadecimal digits at byte 3");
  // over-long, surrogate, beyond U+10FFFF, cut short, lone continuation
  for (const char* bytes : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"})
    CHECK(error_of("\"" + std::string(bytes) + "\"") ==
          "a string that is not valid UTF-8 at byte 1");
}

TEST_CASE("JSON: malformed text is refused with its place", "[host]") {
  CHECK(error_of("") == "the text ends too early at byte 0");
  CHECK(error_of("{") == "expected a name in quotes at byte 1");
  CHECK(error_of("{\"a\"") == "the text ends too early at byte 4");
  CHECK(error_of("{\"a\":1,}") == "expected a name in quotes at byte 7");
  CHECK(error_of("[1,]") == "not a JSON value at byte 3");
  CHECK(error_of("[1 2]") == "expected ']' at byte 3");
  CHECK(error_of("[1") == "the text ends too early at byte 2");
  CHECK(error_of("nul") == "not a JSON value at byte 0");
  CHECK(error_of("1 x") == "text after the end of the JSON value at byte 2");
  CHECK(error_of("01") == "a number with a leading zero at byte 2");
  CHECK(error_of("-") == "a number without digits at byte 1");
  CHECK(error_of("1.") == "a number without digits behind its point at byte 2");
  CHECK(error_of("1e+") == "a number without digits in its exponent at byte 3");
  CHECK(error_of("{\"a\":1,\"a\":2}") == "the name \"a\" appears twice at byte 10");
  CHECK(error_of(std::string("1\0", 2)) == "text after the end of the JSON value at byte 1");
}

TEST_CASE("JSON: depth and size are limited", "[host]") {
  CHECK(error_of(std::string(1000000, '[')) == "nesting deeper than 32 levels at byte 33");
  CHECK(error_of("[1,2,3]", {.depth = 8, .values = 3}) == "more than 3 values at byte 5");
  CHECK(error_of("[1,2]", {.depth = 8, .values = 3}) == "accepted");
}

TEST_CASE("JSON: what is written reads back", "[host]") {
  const char bytes[] = "quote \" back \\ line \n tab \t nul \0 del \x7F e\xCC\x81";
  const std::string text(bytes, sizeof bytes - 1);
  CHECK(parse_json(json_string(text)).text == text);
  CHECK(parse_json(json_string("a\xFF"
                               "b"))
            .text == "a\xEF\xBF\xBD"
                     "b");
  for (double value : {0.0, 1.0, -0.1, 1e-300, 6.02214076e23, 1.0 / 3})
    CHECK(parse_json(json_number(value)).number == value);
  CHECK(json_number(std::numeric_limits<double>::infinity()) == "null");
}
