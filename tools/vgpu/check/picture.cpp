#include "tools/vgpu/check/picture.hpp"

#include <fstream>
#include <vector>

namespace vgpu::check {

namespace {

int top_of(size_t row) { return 40 + Picture::kRow * static_cast<int>(row); }
int left_of(size_t column) {
  return Picture::kLeft + (Picture::kWidth + Picture::kGap) * static_cast<int>(column);
}

constexpr size_t kLetters = 140; // of a sentence's line
constexpr int kLine = 18;

std::vector<std::string> wrapped(const std::string& sentence) {
  std::vector<std::string> lines(1);
  std::istringstream in(sentence);
  for (std::string word; in >> word;) {
    if (!lines.back().empty() && lines.back().size() + word.size() >= kLetters)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

} // namespace

std::string json_text(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

std::string xml_text(const std::string& s) {
  std::string out;
  for (char c : s)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

Picture::Picture(size_t rows, const std::string& title) {
  out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << left_of(1) + kWidth + 16
       << "\" height=\"" << 60 + kRow * static_cast<int>(rows)
       << "\" font-family=\"monospace\" font-size=\"12\">\n"
       << "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
          "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#b00\"/></marker>"
       << "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"" << kLeft
       << "\" y=\"24\" font-weight=\"bold\">" << xml_text(title) << "</text>\n";
}

void Picture::box(size_t column, size_t row, const char* fill, const std::string& one,
                  const std::string& two) {
  const int x = left_of(column), y = top_of(row);
  out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << kWidth << "\" height=\""
       << kRow - 8 << "\" rx=\"4\" fill=\"" << fill << "\" stroke=\"#444\"/>\n<text x=\"" << x + 8
       << "\" y=\"" << y + 15 << "\">" << xml_text(one) << "</text>\n<text x=\"" << x + 8
       << "\" y=\"" << y + 30 << "\" fill=\"#444\">" << xml_text(two) << "</text>\n";
}

void Picture::arrow(size_t from_row, size_t to_row, bool dashed, const std::string& label) {
  const int from = left_of(0) + kWidth, to = left_of(1);
  out_ << "<line x1=\"" << from << "\" y1=\"" << top_of(from_row) + 18 << "\" x2=\"" << to
       << "\" y2=\"" << top_of(to_row) + 18 << "\" stroke=\"#b00\""
       << (dashed ? " stroke-dasharray=\"6 4\"" : "") << " marker-end=\"url(#tip)\"/>\n";
  if (!label.empty())
    out_ << "<text x=\"" << (from + to) / 2 << "\" y=\"" << top_of(from_row) + 10
         << "\" fill=\"#b00\" text-anchor=\"middle\">" << xml_text(label) << "</text>\n";
}

size_t Picture::rows_of(const std::string& sentence) {
  return (wrapped(sentence).size() * kLine + kRow - 1) / kRow;
}

void Picture::sentence(size_t row, const std::string& text) {
  int y = top_of(row) + 15;
  for (const std::string& line : wrapped(text)) {
    out_ << "<text x=\"" << kLeft << "\" y=\"" << y << "\">" << xml_text(line) << "</text>\n";
    y += kLine;
  }
}

std::string write_pair(const std::string& prefix, const std::string& json, const std::string& svg) {
  std::ofstream j(prefix + ".json"), s(prefix + ".svg");
  j << json;
  s << svg;
  j.flush();
  s.flush();
  return j && s ? "" : prefix + ".json or .svg cannot be written";
}

} // namespace vgpu::check
