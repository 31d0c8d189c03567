// One list of facts, printed as a table for people and as JSON for programs.
#pragma once

#include "tools/cli/json.hpp"

#include <cstdio>
#include <string>
#include <vector>

namespace warpline::cli {

class Report {
public:
  // `text` is the table's value, `json` the literal for JSON; an empty label is in JSON only, an
  // empty key in the table only.
  void add(const std::string& label, const std::string& text, const std::string& key,
           const std::string& json);
  void add_text(const std::string& label, const std::string& key, const std::string& text);
  void add_integer(const std::string& label, const std::string& key, int64_t value);
  void add_real(const std::string& key, double value);
  void rule(); // a line between two parts of the table

  std::string table() const;
  std::string json() const; // one object, a line for each key

private:
  struct Row {
    std::string label, text, key, json;
    bool is_rule;
  };
  std::vector<Row> rows_;
};

// printf into a string.
std::string format(const char* format, ...) __attribute__((format(printf, 1, 2)));
// "1.234 ms", "2.50 s"
std::string duration_text(double seconds);
// "512 B", "1.50 MiB"
std::string bytes_text(double bytes);
// "[1,2,3]"
std::string json_list(const std::vector<int64_t>& values);

} // namespace warpline::cli
