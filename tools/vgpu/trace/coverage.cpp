#include "tools/vgpu/trace/coverage.hpp"

#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <unistd.h>

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

std::string describe(const Coverage::Kernel& kernel) {
  size_t ran = 0, ways = 0, all_ways = 0;
  std::map<int, const char*> missing;
  for (const auto& [place, i] : kernel.items) {
    ran += i.cell.ran != 0;
    if (i.branch) {
      all_ways += 2;
      ways += (i.cell.ran != 0) + (i.cell.skipped != 0);
    }
    if (*i.missing()) missing[place.first] = i.missing();
  }
  std::string s = exec::short_name(kernel.name) + ": " +
                  part(ran, kernel.items.size(), "instructions") + ", " +
                  part(ways, all_ways, "ways of branches") + "\n";
  for (const auto& [line, what] : missing)
    s += "  line " + std::to_string(line) + ", " + what + ": " +
         (line > 0 && size_t(line) <= kernel.lines.size() ? trimmed(kernel.lines[size_t(line) - 1])
                                                          : "") +
         "\n";
  return s;
}

std::string listed(const Coverage::Kernel& kernel) {
  struct Line {
    uint64_t ran = 0;
    bool never = false, taken_only = false, passed_only = false;
  };
  std::map<int, Line> lines;
  for (const auto& [place, i] : kernel.items) {
    Line& l = lines[place.first];
    l.ran = std::max(l.ran, i.cell.ran);
    l.never |= !i.reached() || (i.cell.ran == 0 && !i.branch);
    l.taken_only |= i.reached() && i.branch && i.cell.skipped == 0;
    l.passed_only |= i.reached() && i.branch && i.cell.ran == 0;
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

constexpr const char* kCountsHead = "vgpu coverage 1";

} // namespace

const char* Coverage::Item::missing() const {
  if (!reached()) return "never reached";
  if (cell.ran == 0) return branch ? "never taken" : "its guard never held";
  return branch && cell.skipped == 0 ? "always taken" : "";
}

Coverage::Kernel& Coverage::kernel(const std::string& name, const std::vector<std::string>& lines) {
  for (Kernel& k : kernels_)
    if (k.name == name && k.lines == lines) return k;
  kernels_.push_back({name, lines, {}});
  return kernels_.back();
}

void Coverage::add(const exec::Program& program, const std::vector<Cell>& cells) {
  static const std::vector<std::string> none;
  std::lock_guard lock(mutex_);
  Kernel& k = kernel(program.name, program.module ? program.module->lines : none);
  // A statement may stand at several pcs.
  std::map<const ptx::Statement*, Item*> seen;
  std::map<int, int> in_line;
  for (size_t pc = 0; pc < program.code.size(); ++pc) {
    const exec::Inst& inst = program.code[pc];
    if (!inst.text || inst.text->opcode.empty()) continue;
    Item*& item = seen[inst.text];
    if (!item) item = &k.items[{inst.text->line, in_line[inst.text->line]++}];
    item->branch |= inst.guard != exec::kNoSlot && leaves(inst.text->opcode[0]);
    item->cell.ran += cells[pc].ran;
    item->cell.skipped += cells[pc].skipped;
  }
}

std::string Coverage::add(std::istream& in) {
  std::lock_guard lock(mutex_);
  std::string line;
  if (!std::getline(in, line) || line != kCountsHead)
    return std::string("the first line is not \"") + kCountsHead + "\"";
  size_t number = 1;
  while (std::getline(in, line)) {
    ++number;
    Kernel read;
    size_t lines = 0, items = 0;
    std::istringstream head(line);
    std::string word;
    if (!(head >> word >> lines >> items >> read.name) || word != "kernel")
      return "line " + std::to_string(number) + " begins no kernel";
    for (size_t i = 0; i < lines && std::getline(in, line); ++i, ++number)
      read.lines.push_back(line);
    for (size_t i = 0; i < items && std::getline(in, line); ++i, ++number) {
      std::istringstream s(line);
      std::pair<int, int> place;
      Item item;
      if (!(s >> place.first >> place.second >> item.branch >> item.cell.ran >> item.cell.skipped))
        return "line " + std::to_string(number + 1) + " is no count";
      read.items[place] = item;
    }
    if (read.lines.size() != lines || read.items.size() != items)
      return "the file ends inside " + read.name;
    Kernel& k = kernel(read.name, read.lines);
    for (const auto& [place, item] : read.items) {
      Item& to = k.items[place];
      to.branch |= item.branch;
      to.cell.ran += item.cell.ran;
      to.cell.skipped += item.cell.skipped;
    }
  }
  return "";
}

std::string Coverage::text() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> parts;
  for (const Kernel& k : kernels_) parts.push_back(describe(k));
  std::sort(parts.begin(), parts.end());
  std::string s;
  for (const std::string& p : parts) s += p;
  return s;
}

std::string Coverage::listing(const std::string& name) const {
  std::lock_guard lock(mutex_);
  std::string s;
  for (const Kernel& k : kernels_)
    if (k.name == name) s += listed(k);
  return s;
}

std::string Coverage::counts() const {
  std::lock_guard lock(mutex_);
  std::ostringstream s;
  s << kCountsHead << "\n";
  for (const Kernel& k : kernels_) {
    s << "kernel " << k.lines.size() << " " << k.items.size() << " " << k.name << "\n";
    for (const std::string& line : k.lines) s << line << "\n";
    for (const auto& [place, i] : k.items)
      s << place.first << " " << place.second << " " << i.branch << " " << i.cell.ran << " "
        << i.cell.skipped << "\n";
  }
  return s.str();
}

std::string Coverage::write(std::string prefix) const {
  if (const size_t at = prefix.find('%'); at != std::string::npos)
    prefix.replace(at, 1, std::to_string(getpid()));
  auto put = [](const std::string& path, const std::string& text) {
    std::ofstream out(path);
    out << text;
    return out.good() ? "" : path + " cannot be written";
  };
  if (prefix.ends_with(".counts")) return put(prefix, counts());
  std::string wrong = put(prefix + ".txt", text());
  if (wrong.empty()) wrong = put(prefix + ".counts", counts());
  std::set<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const Kernel& k : kernels_) names.insert(k.name);
  }
  for (const std::string& name : names) {
    // Mangled names may be longer than a file's may.
    const std::string path = prefix + "." + name.substr(0, 150) + ".ptx";
    if (wrong.empty()) wrong = put(path, listing(name));
  }
  return wrong;
}

} // namespace vgpu::trace
