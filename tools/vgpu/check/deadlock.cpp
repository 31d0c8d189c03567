#include "tools/vgpu/check/deadlock.hpp"

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace vgpu::check {

using exec::Cluster;
using exec::Fragment;
using exec::Mbarrier;
using exec::WaitInfo;

namespace {

struct Place { // a warp's lanes, where they are
  uint32_t cta, warp, mask;
  int line;
  std::string label, text;
  bool runs;
  WaitInfo wait;
};

struct Barrier {
  uint32_t cta, offset, expected, pending;
  int64_t bytes;
  uint64_t phase;
  int line; // of its initialisation
  bool awaited;
};

struct Graph {
  std::vector<Place> places;
  std::vector<Barrier> barriers;
  std::vector<std::string> flying;
};

const char* kind_name(WaitInfo::Kind k) {
  using Kind = WaitInfo::Kind;
  switch (k) {
  case Kind::Mbarrier:
    return "mbarrier";
  case Kind::NamedBarrier:
    return "barrier";
  case Kind::ClusterBarrier:
    return "cluster barrier";
  case Kind::BulkGroup:
    return "bulk groups";
  case Kind::CpAsyncGroup:
    return "cp.async groups";
  case Kind::WgmmaGroup:
    return "wgmma groups";
  case Kind::TensorLoad:
    return "tcgen05.ld";
  case Kind::TensorStore:
    return "tcgen05.st";
  case Kind::TensorAlloc:
    return "tensor memory columns";
  case Kind::RegisterPool:
    return "registers";
  case Kind::Converge:
    return "other lanes";
  case Kind::Poll:
    return "poll";
  case Kind::None:
    return "nothing";
  }
  return "nothing";
}

Graph collect(const Cluster& cluster) {
  Graph g;
  const exec::Program& p = *cluster.spec.program;
  std::map<std::pair<uint32_t, uint32_t>, bool> awaited;
  for (const auto& cta : cluster.ctas)
    for (const auto& w : cta->warps)
      for (const auto& f : w->fragments()) {
        const exec::Inst& inst = p.code[f->pc];
        Place x{cta->rank,
                w->index,
                f->mask,
                inst.text ? inst.text->line : 0,
                p.label_before(f->pc),
                "",
                f->state == Fragment::State::Ready,
                f->wait};
        if (inst.text)
          for (const std::string& token : inst.text->opcode)
            x.text += (x.text.empty() ? "" : ".") + token;
        if (!x.runs && x.wait.kind == WaitInfo::Kind::Mbarrier)
          awaited[{x.wait.cta, static_cast<uint32_t>(x.wait.address)}] = true;
        g.places.push_back(std::move(x));
      }
  for (const auto& cta : cluster.ctas)
    for (const auto& [offset, b] : cta->mbarriers) {
      bool waits = awaited.contains({cta->rank, offset});
      if (!waits && b.pending == b.expected && b.tx == 0) continue;
      g.barriers.push_back({cta->rank, offset, b.expected, b.pending, b.tx, b.phase,
                            b.init && b.init->text ? b.init->text->line : 0, waits});
    }
  return g;
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

} // namespace

std::string wait_graph_json(const Cluster& cluster) {
  Graph g = collect(cluster);
  std::ostringstream s;
  s << "{\"kernel\": " << quoted(cluster.spec.program->name)
    << ", \"schedule\": " << quoted(cluster.spec.schedule) << ", \"cluster\": " << cluster.index
    << ",\n \"warps\": [";
  const char* comma = "";
  for (const Place& x : g.places) {
    s << comma << "\n  {\"cta\": " << x.cta << ", \"warp\": " << x.warp << ", \"lanes\": " << x.mask
      << ", \"line\": " << x.line << ", \"after\": " << quoted(x.label)
      << ", \"instruction\": " << quoted(x.text) << ", \"waits_for\": ";
    if (x.runs)
      s << "null";
    else
      s << "{\"kind\": " << quoted(kind_name(x.wait.kind)) << ", \"cta\": " << x.wait.cta
        << ", \"address\": " << x.wait.address << ", \"value\": " << x.wait.value << "}";
    s << "}";
    comma = ",";
  }
  s << "],\n \"mbarriers\": [";
  comma = "";
  for (const Barrier& b : g.barriers) {
    s << comma << "\n  {\"cta\": " << b.cta << ", \"offset\": " << b.offset
      << ", \"phase\": " << b.phase << ", \"count\": " << b.expected
      << ", \"pending_arrivals\": " << b.pending << ", \"pending_bytes\": " << b.bytes
      << ", \"initialised_at_line\": " << b.line << "}";
    comma = ",";
  }
  s << "],\n \"operations_in_flight\": " << cluster.operations_in_flight() << "}\n";
  return s.str();
}

std::string wait_graph_svg(const Cluster& cluster) {
  Graph g = collect(cluster);
  const int row = 44, left = 16, width = 430, gap = 190;
  size_t rows = std::max(g.places.size(), g.barriers.size());
  int height = 60 + row * static_cast<int>(rows), right = left + width + gap;
  std::ostringstream s;
  s << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << right + width + 16 << "\" height=\""
    << height << "\" font-family=\"monospace\" font-size=\"12\">\n"
    << "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
       "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#b00\"/></marker>"
    << "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"" << left
    << "\" y=\"24\" font-weight=\"bold\">" << escaped(cluster.spec.program->name) << ", schedule "
    << escaped(cluster.spec.schedule) << ", cluster " << cluster.index << "</text>\n";
  auto box = [&](int x, size_t i, const char* fill, const std::string& one,
                 const std::string& two) {
    int y = 40 + row * static_cast<int>(i);
    s << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << row - 8
      << "\" rx=\"4\" fill=\"" << fill << "\" stroke=\"#444\"/>\n<text x=\"" << x + 8 << "\" y=\""
      << y + 15 << "\">" << escaped(one) << "</text>\n<text x=\"" << x + 8 << "\" y=\"" << y + 30
      << "\" fill=\"#444\">" << escaped(two) << "</text>\n";
  };
  for (size_t i = 0; i < g.places.size(); ++i) {
    const Place& x = g.places[i];
    std::ostringstream one, two;
    one << "CTA " << x.cta << " warp " << x.warp << " lanes 0x" << std::hex << x.mask << std::dec
        << " " << x.label;
    two << "line " << x.line << ": " << x.text;
    if (!x.runs && x.wait.kind != WaitInfo::Kind::Mbarrier)
      two << " (waits for " << kind_name(x.wait.kind) << " " << x.wait.address << ")";
    box(left, i, x.runs ? "#dfd" : "#fde", one.str(), two.str());
  }
  for (size_t k = 0; k < g.barriers.size(); ++k) {
    const Barrier& b = g.barriers[k];
    std::ostringstream one, two;
    one << "mbarrier 0x" << std::hex << b.offset << std::dec << " of CTA " << b.cta
        << ", initialised at line " << b.line;
    two << "phase " << b.phase << " awaits " << b.pending << " of " << b.expected << " arrivals, "
        << b.bytes << " bytes";
    box(right, k, b.awaited ? "#fec" : "#eee", one.str(), two.str());
    for (size_t i = 0; i < g.places.size(); ++i) {
      const WaitInfo& w = g.places[i].wait;
      if (g.places[i].runs || w.kind != WaitInfo::Kind::Mbarrier || w.cta != b.cta ||
          w.address != b.offset)
        continue;
      s << "<line x1=\"" << left + width << "\" y1=\"" << 58 + row * static_cast<int>(i)
        << "\" x2=\"" << right << "\" y2=\"" << 58 + row * static_cast<int>(k)
        << "\" stroke=\"#b00\" marker-end=\"url(#tip)\"/>\n";
    }
  }
  s << "</svg>\n";
  return s.str();
}

std::string write_wait_graph(const Cluster& cluster, const std::string& prefix) {
  std::ofstream json(prefix + ".json"), svg(prefix + ".svg");
  json << wait_graph_json(cluster);
  svg << wait_graph_svg(cluster);
  json.flush();
  svg.flush();
  return json && svg ? "" : prefix + ".json or .svg cannot be written";
}

} // namespace vgpu::check
