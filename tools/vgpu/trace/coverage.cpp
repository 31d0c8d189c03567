#include "tools/vgpu/trace/coverage.hpp"

#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace vgpu::trace {

namespace {

bool leaves(const std::string& word) {
  return word == "bra" || word == "ret" || word == "exit" || word == "call";
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  std::string s = line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
  return s.size() > 100 ? s.substr(0, 97) + "..." : s;
}

std::string part(size_t some, size_t all, const char* what) {
  char text[96];
  std::snprintf(text, sizeof text, "%zu of %zu %s (%.1f %%)", some, all, what,
                all ? 100.0 * double(some) / double(all) : 100.0);
  return text;
}

} // namespace

void Coverage::add(const exec::Program& program, const std::vector<Cell>& cells) {
  std::lock_guard lock(mutex_);
  Kernel& k = kernels_[program.name];
  if (k.lines.empty() && program.module) k.lines = program.module->lines;
  for (size_t pc = 0; pc < program.code.size(); ++pc) {
    const exec::Inst& inst = program.code[pc];
    if (!inst.text || inst.text->opcode.empty()) continue;
    Item& item = k.items[inst.text];
    item.line = inst.text->line;
    item.branch |= inst.guard != exec::kNoSlot && leaves(inst.text->opcode[0]);
    item.cell.ran += cells[pc].ran;
    item.cell.skipped += cells[pc].skipped;
  }
}

std::string Coverage::describe(const std::string& name, const Kernel& kernel) const {
  size_t ran = 0, ways = 0, all_ways = 0;
  std::map<int, std::string> missing;
  for (const auto& [statement, i] : kernel.items) {
    ran += i.cell.ran != 0;
    const bool reached = i.cell.ran + i.cell.skipped != 0;
    if (i.branch) {
      all_ways += 2;
      ways += (i.cell.ran != 0) + (i.cell.skipped != 0);
    }
    if (!reached)
      missing[i.line] = "never reached";
    else if (i.cell.ran == 0)
      missing[i.line] = i.branch ? "never taken" : "its guard never held";
    else if (i.branch && i.cell.skipped == 0)
      missing[i.line] = "always taken";
  }
  std::string s = exec::short_name(name) + ": " + part(ran, kernel.items.size(), "instructions") +
                  ", " + part(ways, all_ways, "ways of branches") + "\n";
  for (const auto& [line, what] : missing)
    s += "  line " + std::to_string(line) + ", " + what + ": " +
         (line > 0 && size_t(line) <= kernel.lines.size() ? trimmed(kernel.lines[size_t(line) - 1])
                                                          : "") +
         "\n";
  return s;
}

std::string Coverage::text() const {
  std::lock_guard lock(mutex_);
  std::string s;
  for (const auto& [name, kernel] : kernels_) s += describe(name, kernel);
  return s;
}

std::string Coverage::listing(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto it = kernels_.find(name);
  if (it == kernels_.end()) return "";
  const Kernel& kernel = it->second;
  struct Line {
    uint64_t ran = 0;
    bool never = false, taken_only = false, passed_only = false;
  };
  std::map<int, Line> lines;
  for (const auto& [statement, i] : kernel.items) {
    Line& l = lines[i.line];
    l.ran = std::max(l.ran, i.cell.ran);
    const bool reached = i.cell.ran + i.cell.skipped != 0;
    l.never |= !reached || (i.cell.ran == 0 && !i.branch);
    l.taken_only |= reached && i.branch && i.cell.skipped == 0;
    l.passed_only |= reached && i.branch && i.cell.ran == 0;
  }
  std::string s;
  for (size_t n = 0; n < kernel.lines.size(); ++n) {
    const auto l = lines.find(int(n) + 1);
    char head[32] = "             | ";
    if (l != lines.end())
      std::snprintf(head, sizeof head, "%c %10llu | ",
                    l->second.never         ? '-'
                    : l->second.taken_only  ? '+'
                    : l->second.passed_only ? '!'
                                            : ' ',
                    static_cast<unsigned long long>(l->second.ran));
    s += head + kernel.lines[n] + "\n";
  }
  return s;
}

std::string Coverage::write(const std::string& prefix) const {
  auto put = [](const std::string& path, const std::string& text) {
    std::ofstream out(path);
    out << text;
    return out.good() ? "" : path + " cannot be written";
  };
  std::string wrong = put(prefix + ".txt", text());
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, kernel] : kernels_) names.push_back(name);
  }
  for (const std::string& name : names) {
    // Mangled names may be longer than a file's may.
    const std::string path = prefix + "." + name.substr(0, 150) + ".ptx";
    if (wrong.empty()) wrong = put(path, listing(name));
  }
  return wrong;
}

} // namespace vgpu::trace
