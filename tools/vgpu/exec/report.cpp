// Texts: where something happened, faults, and the wait-for graph of a stuck cluster.
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <cstdlib>
#include <sstream>

#include <cxxabi.h>

namespace vgpu::exec {

std::string Program::label_before(uint32_t pc) const {
  auto it = labels.upper_bound(pc);
  return it == labels.begin() ? "" : std::prev(it)->second;
}

// "cutlass::device_kernel<...>" of the mangled name that a C++ compiler gave; other names as they
// are.
std::string short_name(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  if (!text) return name;
  const std::string full = text;
  std::free(text);
  const std::string hidden = "(anonymous namespace)";
  std::string s;
  int depth = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    if (full[i] == '<' && depth++ == 0) s += "<...>";
    if (depth == 0 && full.compare(i, hidden.size(), hidden) == 0) {
      s += hidden;
      i += hidden.size() - 1;
      continue;
    }
    if (depth == 0 && full[i] == '(') break; // the parameters
    if (depth == 0 && full[i] == ' ') {      // what came before is the type of the result
      s.clear();
      continue;
    }
    if (depth == 0) s += full[i];
    if (full[i] == '>' && depth > 0) --depth;
  }
  return s.empty() ? name : s;
}

namespace {

std::string statement_text(const Program& p, const Inst& inst) {
  if (!inst.text) return "end of kernel";
  size_t line = static_cast<size_t>(inst.text->line);
  if (line == 0 || line > p.module->lines.size()) return inst.text->opcode.empty() ? "" : "?";
  std::string s = p.module->lines[line - 1];
  size_t b = s.find_first_not_of(" \t"), e = s.find_last_not_of(" \t\r");
  s = b == std::string::npos ? "" : s.substr(b, e - b + 1);
  return s.size() > 160 ? s.substr(0, 157) + "..." : s;
}

std::string index_text(const uint32_t* v) {
  return "(" + std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]) + ")";
}

// "full_barrier+8" when the offset lies in a shared variable, else the bare offset.
std::string shared_name(const Program& p, uint64_t offset) {
  std::ostringstream s;
  for (const SharedSymbol& v : p.shared_symbols) {
    if (offset < v.offset || offset >= uint64_t(v.offset) + std::max(1u, v.bytes)) continue;
    s << v.name;
    if (offset != v.offset) s << "+" << offset - v.offset;
    s << " ";
    break;
  }
  s << "(shared 0x" << std::hex << offset << ")";
  return s.str();
}

} // namespace

std::string Cluster::where(const Inst& inst) const {
  const Program& p = *spec.program;
  std::ostringstream s;
  s << short_name(p.name);
  if (inst.text) s << ", line " << inst.text->line;
  std::string label = p.label_before(inst.pc);
  if (!label.empty()) s << " (after " << label << ")";
  s << ": " << statement_text(p, inst);
  return s.str();
}

std::string Cluster::where(const Origin& o) const {
  std::ostringstream s;
  if (o.inst) s << where(*o.inst) << "\n      ";
  if (o.cta < ctas.size()) s << "CTA " << index_text(ctas[o.cta]->index);
  if (ctas.size() > 1) s << " rank " << o.cta;
  s << ", warp " << o.warp << ", lane " << o.lane;
  return s.str();
}

void Cluster::fault(const Origin& origin, FaultCode code, const char* checker,
                    const std::string& what) const {
  std::ostringstream s;
  s << "vgpu: " << checker << ": " << what << "\n  at " << where(origin) << "\n  schedule "
    << spec.schedule << ", cluster " << index << ", device " << spec.profile->name << "\n";
  throw Fault(code, checker, s.str());
}

check::Action Cluster::action_of(check::Rule rule) const {
  // Advice that was asked for ends the launch.
  const check::Action action = spec.rules[rule];
  const bool asked = spec.checks & check::kAdvice;
  return asked && action == check::Action::Tell &&
                 check::entry_of(rule).grade == check::Grade::Advice
             ? check::Action::Stop
             : action;
}

bool Cluster::first_time(const std::string& place) {
  auto it = stats.told.find(place);
  if (it == stats.told.end()) return true;
  ++it->second.count;
  return false;
}

void Cluster::violated(const Origin& origin, check::Rule rule, FaultCode code,
                       const std::string& place, const std::string& what) {
  const check::RuleEntry& e = check::entry_of(rule);
  if (action_of(rule) == check::Action::Stop) fault(origin, code, e.checker, what);
  stats.told[place] =
      Told{e.grade, std::string("vgpu: ") + e.checker + " (" + check::grade_name(e.grade) +
                        ", rule " + e.name + "): " + what + "\n  at " + where(origin)};
}

std::string Cluster::wait_graph() const {
  const Program& p = *spec.program;
  std::ostringstream s;
  s << "  kernel " << short_name(p.name) << ", schedule " << spec.schedule << ", cluster " << index
    << " of " << uint64_t(spec.grid[0]) * spec.grid[1] * spec.grid[2] / ctas.size() << "\n";
  for (const auto& cta : ctas) {
    s << "  CTA " << index_text(cta->index) << " rank " << cta->rank << ": " << cta->live_warps
      << " of " << cta->warps.size() << " warps live\n";
    for (const auto& w : cta->warps) {
      if (w->done()) {
        s << "    warp " << w->index << ": exited\n";
        continue;
      }
      for (const auto& f : w->fragments()) {
        const Inst& inst = p.code[f->pc];
        s << "    warp " << w->index << " lanes 0x" << std::hex << f->mask << std::dec
          << " at line " << (inst.text ? inst.text->line : 0);
        std::string label = p.label_before(f->pc);
        if (!label.empty()) s << " (after " << label << ")";
        s << ": " << statement_text(p, inst) << "\n      ";
        if (f->state == Fragment::State::Ready) {
          s << (w->polling ? "polls\n" : "can run\n");
          continue;
        }
        const WaitInfo& i = f->wait;
        switch (i.kind) {
        case WaitInfo::Kind::Mbarrier: {
          s << "waits for parity " << i.value << " of mbarrier " << shared_name(p, i.address);
          if (i.cta != cta->rank) s << " of CTA rank " << i.cta;
          auto it = ctas[i.cta]->mbarriers.find(static_cast<uint32_t>(i.address));
          if (it == ctas[i.cta]->mbarriers.end()) {
            s << ", which is not initialised";
          } else {
            const Mbarrier& b = it->second;
            s << ": phase " << b.phase << " (parity " << (b.phase & 1) << ") awaits " << b.pending
              << " of " << b.expected << " arrivals and " << b.tx << " of " << b.tx_expected_total
              << " announced bytes";
            if (b.init && b.init->text) s << "; initialised at line " << b.init->text->line;
          }
          break;
        }
        case WaitInfo::Kind::NamedBarrier: {
          const NamedBarrier& b = cta->named[i.address & 15];
          s << "waits at barrier " << i.address << ": " << b.arrived << " of " << b.expected
            << " threads have arrived";
          break;
        }
        case WaitInfo::Kind::ClusterBarrier: {
          s << "waits at the cluster barrier; not arrived:";
          for (const auto& c : ctas)
            for (const auto& v : c->warps) {
              uint32_t arrived =
                  v->cluster_generation == barrier.generation ? v->cluster_arrived : 0;
              if (v->live_mask & ~arrived) s << " CTA " << c->rank << " warp " << v->index << ";";
            }
          break;
        }
        case WaitInfo::Kind::RegisterPool:
          s << "waits for " << i.address << " registers in setmaxnreg.inc; " << cta->pool_free
            << " are free in the CTA's pool";
          break;
        case WaitInfo::Kind::TensorAlloc:
          s << "waits in tcgen05.alloc for " << i.address << " tensor memory columns";
          break;
        case WaitInfo::Kind::Converge:
          s << "waits for the other lanes of the warp (live lanes 0x" << std::hex << w->live_mask
            << std::dec << ") at an .aligned instruction";
          break;
        case WaitInfo::Kind::BulkGroup:
          s << "waits for bulk async-groups";
          break;
        case WaitInfo::Kind::CpAsyncGroup:
          s << "waits for cp.async groups";
          break;
        case WaitInfo::Kind::WgmmaGroup:
          s << "waits for wgmma groups";
          break;
        case WaitInfo::Kind::TensorLoad:
          s << "waits for its tcgen05.ld";
          break;
        case WaitInfo::Kind::TensorStore:
          s << "waits for its tcgen05.st";
          break;
        case WaitInfo::Kind::Poll:
          s << "polls";
          break;
        case WaitInfo::Kind::None:
          s << "parked";
          break;
        }
        s << "\n";
      }
    }
    for (const auto& [offset, b] : cta->mbarriers) {
      if (b.pending == b.expected && b.tx == 0) continue;
      s << "    mbarrier " << shared_name(p, offset) << ": phase " << b.phase << " awaits "
        << b.pending << " of " << b.expected << " arrivals and " << b.tx << " bytes ("
        << b.tx_expected_total << " announced)\n";
    }
  }
  if (operations_.empty()) {
    s << "  no operation is in flight\n";
  } else {
    for (const auto& [id, op] : operations_)
      s << "  in flight: " << op->describe() << " from " << where(op->origin) << "\n";
  }
  return s.str();
}

} // namespace vgpu::exec
