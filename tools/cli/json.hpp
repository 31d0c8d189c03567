// A small JSON reader that is safe on hostile text, and the string writer. RFC 8259 without
// extensions; a name that appears twice in an object is an error.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::cli {

struct JsonMember;

struct Json {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;
  bool is_unsigned = false; // the number is written as digits only and fits 64 bits
  uint64_t integer = 0;
  std::string text;
  std::vector<Json> items;
  std::vector<JsonMember> members; // in the order of the text

  const Json* find(std::string_view name) const; // null when absent or not an object
};

struct JsonMember {
  std::string name;
  Json value;
};

const char* name_of(Json::Kind kind);

struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error; // "... at byte N"
};

struct JsonLimits {
  int depth = 32;
  size_t values = 1000000;
};

// Throws JsonError. The whole text must be one value; white space may surround it.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

// With quotes; bytes that are not valid UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// The same for a message: what is long is cut.
std::string shown_name(std::string_view name);
// Shortest text that reads back as the same double; null for NaN and infinities.
std::string json_number(double value);

} // namespace warpline::cli
