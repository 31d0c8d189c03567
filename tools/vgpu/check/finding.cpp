#include "tools/vgpu/check/finding.hpp"

#include "tools/vgpu/check/picture.hpp"

namespace vgpu::check {

using exec::Cluster;

namespace {

constexpr size_t kLetters = 56; // that a box has room for

struct Spot {
  int line = 0;
  std::string label, text;
};

Spot spot_of(const Cluster& cluster, const Who& w) {
  const exec::Program& p = *cluster.spec.program;
  Spot x;
  x.label = p.label_before(w.pc);
  if (const ptx::Statement* s = p.code[w.pc].text) {
    x.line = s->line;
    const auto& lines = p.module->lines;
    if (s->line > 0 && size_t(s->line) <= lines.size()) x.text = lines[size_t(s->line) - 1];
  }
  std::string words;
  for (char c : x.text) // a tab or blanks: one blank
    if (c != '\t' && c != ' ')
      words += c;
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  x.text = words;
  return x;
}

std::string lanes_text(uint32_t lanes) {
  std::ostringstream s;
  s << "0x" << std::hex << lanes;
  return s.str();
}

} // namespace

std::string finding_json(const Cluster& cluster, const Finding& f) {
  std::ostringstream s;
  s << "{\"kernel\": " << json_text(cluster.spec.program->name)
    << ", \"schedule\": " << json_text(cluster.spec.schedule) << ", \"cluster\": " << cluster.index
    << ",\n \"checker\": " << json_text(f.checker) << ", \"rule\": " << json_text(f.rule)
    << ", \"text\": " << json_text(f.text) << ",\n \"sites\": [";
  const char* comma = "";
  for (const auto& site : f.sites) {
    const Who& w = site.who;
    const Spot x = spot_of(cluster, w);
    s << comma << "\n  {\"what\": " << json_text(site.role) << ", \"cta\": " << w.cta
      << ", \"warp\": " << w.warp << ", \"lanes\": " << w.lanes
      << ", \"by_operation\": " << (w.op ? "true" : "false") << ", \"line\": " << x.line
      << ", \"after\": " << json_text(x.label) << ", \"instruction\": " << json_text(x.text) << "}";
    comma = ",";
  }
  s << "]}\n";
  return s.str();
}

// Sites come with the one that was noticed first, and what was there before behind it.
std::string finding_svg(const Cluster& cluster, const Finding& f) {
  const bool pair = f.sites.size() == 2;
  const size_t rows = pair ? 1 : f.sites.size();
  Picture picture(rows + Picture::rows_of(f.text), cluster.spec.program->name + ", schedule " +
                                                       cluster.spec.schedule + ", cluster " +
                                                       std::to_string(cluster.index) + ": " +
                                                       f.checker + ", " + f.rule);
  for (size_t i = 0; i < f.sites.size(); ++i) {
    const Who& w = f.sites[i].who;
    const Spot x = spot_of(cluster, w);
    std::string line = "line " + std::to_string(x.line) + ": " + x.text;
    if (line.size() > kLetters) line = line.substr(0, kLetters - 3) + "...";
    picture.box(pair ? 1 - i : 0, pair ? 0 : i, i == 0 ? "#fde" : "#fec",
                f.sites[i].role + ": CTA " + std::to_string(w.cta) + " warp " +
                    std::to_string(w.warp) + " lanes " + lanes_text(w.lanes) +
                    (w.op ? ", issued it" : ""),
                line);
  }
  if (pair) picture.arrow(0, 0, true, f.checker == "races" ? "missing order" : "");
  picture.sentence(rows, f.text);
  return picture.text();
}

std::string write_finding(const Cluster& cluster, const Finding& f, const std::string& prefix) {
  return write_pair(prefix, finding_json(cluster, f), finding_svg(cluster, f));
}

} // namespace vgpu::check
