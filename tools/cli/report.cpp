#include "tools/cli/report.hpp"

#include <algorithm>
#include <cstdarg>

namespace warpline::cli {

void Report::add(const std::string& label, const std::string& text, const std::string& key,
                 const std::string& json) {
  rows_.push_back({label, text, key, json, false});
}

void Report::add_text(const std::string& label, const std::string& key, const std::string& text) {
  add(label, text, key, json_string(text));
}

void Report::add_integer(const std::string& label, const std::string& key, int64_t value) {
  add(label, std::to_string(value), key, std::to_string(value));
}

void Report::add_real(const std::string& key, double value) {
  add("", "", key, json_number(value));
}

void Report::rule() { rows_.push_back({"", "", "", "", true}); }

std::string Report::table() const {
  size_t width = 0;
  for (const Row& row : rows_) width = std::max(width, row.label.size());
  std::string out;
  for (const Row& row : rows_) {
    if (row.is_rule)
      out += std::string(72, '-') + "\n";
    else if (!row.label.empty())
      out += row.label + std::string(width + 2 - row.label.size(), ' ') + row.text + "\n";
  }
  return out;
}

std::string Report::json() const {
  std::string out;
  for (const Row& row : rows_)
    if (!row.key.empty())
      out += (out.empty() ? "{\n  " : ",\n  ") + json_string(row.key) + ": " + row.json;
  return out.empty() ? "{}\n" : out + "\n}\n";
}

std::string format(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return format("%.1f us", seconds * 1e6);
  if (seconds < 1) return format("%.1f ms", seconds * 1e3);
  return format("%.2f s", seconds);
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 6) {
    bytes /= 1024;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

std::string json_list(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return text + "]";
}

} // namespace warpline::cli
