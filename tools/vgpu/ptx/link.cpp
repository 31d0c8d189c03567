#include "tools/vgpu/ptx/link.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace vgpu::ptx {

namespace {

using Names = std::unordered_map<std::string, std::string>;

void rename(std::string& name, const Names& names) {
  if (const auto to = names.find(name); to != names.end()) name = to->second;
}

void rename(Operand& o, const Names& names) {
  rename(o.name, names);
  for (Operand& item : o.items) rename(item, names);
}

void rename(Module& m, const Names& names) {
  if (names.empty()) return;
  for (Variable& v : m.variables) {
    rename(v.name, names);
    for (Operand& o : v.init) rename(o, names);
  }
  for (auto& [name, function] : m.aliases) {
    rename(name, names);
    rename(function, names);
  }
  for (Function& f : m.functions) {
    rename(f.name, names);
    // A function's own names hide the module's.
    Names here = names;
    for (const auto* list : {&f.params, &f.returns, &f.variables})
      for (const Variable& v : *list) here.erase(v.name);
    for (Statement& s : f.statements)
      for (auto* list : {&s.operands, &s.call_returns, &s.call_arguments})
        for (Operand& o : *list) rename(o, here);
    for (auto& [label, targets] : f.call_targets)
      for (std::string& t : targets) rename(t, here);
    for (Variable& v : f.variables)
      for (Operand& o : v.init) rename(o, here);
  }
}

void shift(Module& m, int lines) {
  for (Variable& v : m.variables) v.line += lines;
  for (Function& f : m.functions) {
    f.line += lines;
    for (auto* list : {&f.params, &f.returns, &f.variables})
      for (Variable& v : *list) v.line += lines;
    for (Label& l : f.labels) l.line += lines;
    for (Statement& s : f.statements) s.line += lines;
  }
}

// Definitions for all modules, and for one alone.
struct Definitions {
  std::set<std::string> shared, own;
};

template <class T>
bool shared(const T& t) {
  return t.is_visible || t.is_weak;
}

Definitions definitions(const Module& m) {
  Definitions d;
  for (const Variable& v : m.variables)
    if (!v.is_extern) (shared(v) ? d.shared : d.own).insert(v.name);
  for (const Function& f : m.functions)
    if (f.has_body) (shared(f) || f.is_entry ? d.shared : d.own).insert(f.name);
  return d;
}

template <class T, class IsDefinition>
void append(std::vector<T>& to, std::vector<T>& from, const std::set<std::string>& there,
            IsDefinition&& defines) {
  for (T& t : from) {
    const bool twice = defines(t) && there.contains(t.name);
    if (twice && !t.is_weak)
      throw LinkError("'" + t.name + "' is defined by two of the linked modules");
    if (!twice) to.push_back(std::move(t));
  }
}

} // namespace

Module link(std::vector<Module> modules) {
  Module all = std::move(modules.at(0));
  for (size_t k = 1; k < modules.size(); ++k) {
    Module& next = modules[k];
    const Definitions before = definitions(all), mine = definitions(next);
    Names names;
    for (const std::string& name : mine.own)
      if (before.own.contains(name) || before.shared.contains(name))
        names[name] = name + "$" + std::to_string(k);
    rename(next, names);
    // The other way round: what is already there was its module's own.
    Names ours;
    for (const std::string& name : mine.shared)
      if (before.own.contains(name)) ours[name] = name + "$0." + std::to_string(k);
    rename(all, ours);
    shift(next, int(all.lines.size()));
    append(all.variables, next.variables, before.shared,
           [](const Variable& v) { return !v.is_extern; });
    append(all.functions, next.functions, before.shared,
           [](const Function& f) { return f.has_body; });
    all.aliases.insert(all.aliases.end(), next.aliases.begin(), next.aliases.end());
    all.lines.insert(all.lines.end(), next.lines.begin(), next.lines.end());
    // The newest version speaks for all.
    if (next.version.size() > all.version.size() ||
        (next.version.size() == all.version.size() && next.version > all.version))
      all.version = next.version;
  }
  return all;
}

} // namespace vgpu::ptx
