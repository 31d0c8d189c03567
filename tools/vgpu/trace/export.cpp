// The two forms of a recording.
#include "tools/vgpu/trace/recording.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace vgpu::trace {

namespace {

constexpr double kWidth = 1500, kLabels = 180, kRowHeight = 18, kTop = 64;
// Spans below this many pixels are drawn together.
constexpr double kLeastWidth = 0.4;
const char* const kStages[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                               "#edc948", "#76b7b2", "#ff9da7", "#9c755f"};
const char kNoStage[] = "#8a8a8a", kWait[] = "#e4e4e4";

std::string escaped(const std::string& text, bool xml) {
  std::string result;
  for (const char c : text) {
    if (xml && c == '<')
      result += "&lt;";
    else if (xml && c == '&')
      result += "&amp;";
    else if (!xml && (c == '"' || c == '\\'))
      result += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 32)
      result += ' ';
    else
      result += c;
  }
  return result;
}

std::string colour(const Span& span) {
  if (span.wait) return kWait;
  return span.stage < 0 ? kNoStage : kStages[static_cast<size_t>(span.stage) % std::size(kStages)];
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string tip(const Span& span, const char* unit) {
  std::string text = (span.wait ? "waits for " : "") + span.name;
  if (!span.wait && span.stage >= 0) text += ", stage " + std::to_string(span.stage);
  text += std::string(": ") + unit + " " + std::to_string(span.begin) + " to " +
          std::to_string(span.end);
  if (span.line > 0) text += ", PTX line " + std::to_string(span.line);
  return text;
}

// 1, 2 or 5 times a power of ten, for about ten marks.
uint64_t mark_step(uint64_t end) {
  uint64_t step = 1;
  while (step * 10 < end) {
    if (step * 20 >= end) return step * 2;
    if (step * 50 >= end) return step * 5;
    step *= 10;
  }
  return step;
}

} // namespace

std::string to_chrome_json(const Recording& recording, const std::string& title) {
  const auto microseconds = [&](uint64_t time) {
    return recording.microseconds == 1 ? std::to_string(time)
                                       : number(static_cast<double>(time) * recording.microseconds);
  };
  std::ostringstream out;
  out << "{\"otherData\": {\"title\": \"" << escaped(title, false) << "\", \"clock\": \""
      << escaped(recording.clock, false)
      << "\", \"truncated\": " << (recording.truncated ? "true" : "false")
      << "},\n\"traceEvents\": [\n";
  for (size_t i = 0; i < recording.rows.size(); ++i) {
    const Row& row = recording.rows[i];
    if (i == 0 || recording.rows[i - 1].cta != row.cta)
      out << "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": " << row.cta
          << ", \"args\": {\"name\": \"CTA " << row.cta << "\"}},\n";
    out << "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": " << row.cta << ", \"tid\": " << i
        << ", \"args\": {\"name\": \"" << escaped(row.name, false) << "\"}},\n"
        << "{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": " << row.cta
        << ", \"tid\": " << i << ", \"args\": {\"sort_index\": " << i << "}}"
        << (i + 1 == recording.rows.size() && recording.spans.empty() ? "\n" : ",\n");
  }
  for (size_t i = 0; i < recording.spans.size(); ++i) {
    const Span& s = recording.spans[i];
    out << "{\"ph\": \"X\", \"name\": \"" << escaped(s.name, false) << "\", \"cat\": \""
        << (s.wait ? "wait" : "work") << "\", \"pid\": " << recording.rows[s.row].cta
        << ", \"tid\": " << s.row << ", \"ts\": " << microseconds(s.begin)
        << ", \"dur\": " << microseconds(s.end - s.begin) << ", \"args\": {\"stage\": " << s.stage
        << ", \"ptx_line\": " << s.line << "}}" << (i + 1 == recording.spans.size() ? "\n" : ",\n");
  }
  out << "]}\n";
  return out.str();
}

std::string to_svg(const Recording& recording, const std::string& title) {
  const double scale =
      (kWidth - kLabels - 10) / static_cast<double>(std::max<uint64_t>(recording.end, 1));
  const auto x = [&](uint64_t tick) { return kLabels + static_cast<double>(tick) * scale; };
  // A gap above each CTA.
  std::vector<double> top(recording.rows.size());
  double y = kTop;
  std::ostringstream body;
  for (size_t i = 0; i < top.size(); ++i) {
    if (i == 0 || recording.rows[i].cta != recording.rows[i - 1].cta) {
      y += kRowHeight;
      body << "<text x=\"4\" y=\"" << number(y - 4) << "\" font-weight=\"bold\">CTA "
           << recording.rows[i].cta << "</text>\n";
    }
    top[i] = y;
    body << "<text x=\"12\" y=\"" << number(y + kRowHeight - 5) << "\">"
         << escaped(recording.rows[i].name, true) << "</text>\n";
    y += kRowHeight;
  }

  std::vector<Span> spans = recording.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.row != b.row ? a.row < b.row : a.begin < b.begin;
  });
  double drawn = 0; // where the row's last rectangle ends
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& s = spans[i];
    if (i == 0 || spans[i - 1].row != s.row) drawn = 0;
    if (x(s.end) < drawn + kLeastWidth) continue;
    // Copies of one unit overlap: a later one is drawn over the end of the one before.
    const double left = x(s.begin), width = std::max(x(s.end) - left, kLeastWidth);
    drawn = left + width;
    const double inset = s.wait ? 6 : 2;
    body << "<rect x=\"" << number(left) << "\" y=\"" << number(top[s.row] + inset) << "\" width=\""
         << number(width) << "\" height=\"" << number(kRowHeight - 2 * inset) << "\" fill=\""
         << colour(s) << "\"><title>" << escaped(tip(s, recording.unit), true)
         << "</title></rect>\n";
  }

  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\""
      << number(y + 12) << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"4\" y=\"16\" "
      << "font-size=\"14\">" << escaped(title, true) << "</text>\n"
      << "<text x=\"4\" y=\"32\">" << escaped(recording.clock, true)
      << " Colours: stages. Thin and light: waiting."
      << (recording.truncated ? " Cut: the run went on." : "") << "</text>\n";
  const uint64_t step = mark_step(recording.end);
  for (uint64_t tick = 0; tick <= recording.end; tick += step)
    out << "<line x1=\"" << number(x(tick)) << "\" y1=\"50\" x2=\"" << number(x(tick)) << "\" y2=\""
        << number(y) << "\" stroke=\"#dddddd\"/><text x=\"" << number(x(tick) + 2)
        << "\" y=\"48\" fill=\"#777777\">" << tick << "</text>\n";
  out << body.str() << "</svg>\n";
  return out.str();
}

std::string write_files(const Recording& recording, const std::string& title,
                        const std::string& stem) {
  for (const bool svg : {false, true}) {
    const std::string file = stem + (svg ? ".svg" : ".json");
    std::ofstream out(file, std::ios::binary);
    out << (svg ? to_svg(recording, title) : to_chrome_json(recording, title));
    if (!out.flush()) return "the timeline " + file + " cannot be written";
  }
  return "";
}

void keep_used_rows(Recording* recording) {
  std::vector<bool> used(recording->rows.size());
  for (const Span& s : recording->spans) used[s.row] = true;
  std::vector<uint32_t> place(recording->rows.size());
  std::vector<Row> rows;
  for (size_t i = 0; i < used.size(); ++i) {
    place[i] = static_cast<uint32_t>(rows.size());
    if (used[i]) rows.push_back(recording->rows[i]);
  }
  for (Span& s : recording->spans) s.row = place[s.row];
  recording->rows = std::move(rows);
}

} // namespace vgpu::trace
