#include "tools/vgpu/check/deadlock.hpp"

#include "tools/vgpu/check/picture.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

namespace vgpu::check {

using exec::Cluster;
using exec::Fragment;
using exec::Mbarrier;
using exec::WaitInfo;

namespace {

struct Stopped { // a warp's lanes, where they are
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
  std::vector<Stopped> places;
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
        Stopped x{cta->rank,
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

} // namespace

std::string wait_graph_json(const Cluster& cluster) {
  Graph g = collect(cluster);
  std::ostringstream s;
  s << "{\"kernel\": " << json_text(cluster.spec.program->name)
    << ", \"schedule\": " << json_text(cluster.spec.schedule) << ", \"cluster\": " << cluster.index
    << ",\n \"warps\": [";
  const char* comma = "";
  for (const Stopped& x : g.places) {
    s << comma << "\n  {\"cta\": " << x.cta << ", \"warp\": " << x.warp << ", \"lanes\": " << x.mask
      << ", \"line\": " << x.line << ", \"after\": " << json_text(x.label)
      << ", \"instruction\": " << json_text(x.text) << ", \"waits_for\": ";
    if (x.runs)
      s << "null";
    else
      s << "{\"kind\": " << json_text(kind_name(x.wait.kind)) << ", \"cta\": " << x.wait.cta
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
  Picture picture(std::max(g.places.size(), g.barriers.size()),
                  cluster.spec.program->name + ", schedule " + cluster.spec.schedule +
                      ", cluster " + std::to_string(cluster.index));
  for (size_t i = 0; i < g.places.size(); ++i) {
    const Stopped& x = g.places[i];
    std::ostringstream one, two;
    one << "CTA " << x.cta << " warp " << x.warp << " lanes 0x" << std::hex << x.mask << std::dec
        << " " << x.label;
    two << "line " << x.line << ": " << x.text;
    if (!x.runs && x.wait.kind != WaitInfo::Kind::Mbarrier)
      two << " (waits for " << kind_name(x.wait.kind) << " " << x.wait.address << ")";
    picture.box(0, i, x.runs ? "#dfd" : "#fde", one.str(), two.str());
  }
  for (size_t k = 0; k < g.barriers.size(); ++k) {
    const Barrier& b = g.barriers[k];
    std::ostringstream one, two;
    one << "mbarrier 0x" << std::hex << b.offset << std::dec << " of CTA " << b.cta
        << ", initialised at line " << b.line;
    two << "phase " << b.phase << " awaits " << b.pending << " of " << b.expected << " arrivals, "
        << b.bytes << " bytes";
    picture.box(1, k, b.awaited ? "#fec" : "#eee", one.str(), two.str());
    for (size_t i = 0; i < g.places.size(); ++i) {
      const WaitInfo& w = g.places[i].wait;
      if (!g.places[i].runs && w.kind == WaitInfo::Kind::Mbarrier && w.cta == b.cta &&
          w.address == b.offset)
        picture.arrow(i, k);
    }
  }
  return picture.text();
}

std::string write_wait_graph(const Cluster& cluster, const std::string& prefix) {
  return write_pair(prefix, wait_graph_json(cluster), wait_graph_svg(cluster));
}

} // namespace vgpu::check
