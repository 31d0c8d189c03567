// What pictures and JSON of reports are made of.
#pragma once

#include <sstream>
#include <string>

namespace vgpu::check {

std::string json_text(const std::string& s); // quoted
std::string xml_text(const std::string& s);

// An SVG with boxes of two lines of text, in columns and rows, and arrows between them.
class Picture {
public:
  static constexpr int kRow = 44, kLeft = 16, kWidth = 430, kGap = 190;

  Picture(size_t rows, const std::string& title);
  void box(size_t column, size_t row, const char* fill, const std::string& one,
           const std::string& two);
  // From the right side of a box in the first column to the left side of one in the second.
  void arrow(size_t from_row, size_t to_row, bool dashed = false, const std::string& label = "");
  // A sentence, in lines, from row `row` on; rows_of: how many it takes.
  static size_t rows_of(const std::string& sentence);
  void sentence(size_t row, const std::string& text);
  std::string text() const { return out_.str() + "</svg>\n"; }

private:
  std::ostringstream out_;
};

// Writes PREFIX.json and PREFIX.svg; "" or what went wrong.
std::string write_pair(const std::string& prefix, const std::string& json, const std::string& svg);

} // namespace vgpu::check
