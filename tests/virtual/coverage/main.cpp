// Which branches of the shipped kernels the tests' problems take, both ways: adds up what
// build/tests/problems and build/tests/sweep counted (--coverage DIRECTORY), for every kernel that
// the library carries.
//
//   build/tests/kernel-coverage --explained FILE [--out PAGE] [--detail FILE] DIRECTORY...
// A way that nothing took must be explained in FILE: lines "kernels | label | statement | way |
// reason", where kernels is a regular expression of their whole names, label is the last one ahead
// of the branch, and way is taken, passed or both; or be known to be open: --open FILE, which
// --record writes. The status is 1 when a way is neither, or an explanation explains nothing; a
// kernel that never ran is a way, too. PAGE gets the tables, --detail every line
// that did not run, --missing the kernels that have such ways.
#include "runtime/src/images.hpp"
#include "tools/vgpu/trace/coverage.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using vgpu::trace::Coverage;

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t\r") + 1 - first);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Without the ends of the lines and empty lines at the end.
std::string joined(const std::vector<std::string>& lines) {
  std::string s;
  for (const std::string& line : lines) s += line + "\n";
  return s.substr(0, s.find_last_not_of('\n') + 1);
}

struct Explanation {
  std::string kernels, label, statement, way, reason;
  std::regex pattern;
  size_t ways = 0, in_kernels = 0;
  bool covers(const std::string& kernel, const std::string& at, const std::string& text,
              const std::string& which) const {
    return at == label && text == statement && (way == "both" || way == which) &&
           std::regex_match(kernel, pattern);
  }
};

std::vector<Explanation> read_explanations(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + " cannot be read");
  std::vector<Explanation> all;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trimmed(line).empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    std::istringstream parts(line);
    for (std::string field; std::getline(parts, field, '|');) fields.push_back(trimmed(field));
    const bool way = fields.size() == 5 &&
                     (fields[3] == "taken" || fields[3] == "passed" || fields[3] == "both");
    if (!way || fields[4].empty())
      throw std::runtime_error(path + ":" + std::to_string(number) +
                               ": kernels | label | statement | taken, passed or both | reason");
    all.push_back({fields[0], fields[1], fields[2], fields[3], fields[4], std::regex(fields[0])});
  }
  return all;
}

// "dual_gemm_sm90_t32_f16": the operation and the architecture.
std::string family(const std::string& kernel) {
  const size_t at = kernel.find("_sm");
  if (at == std::string::npos) return kernel;
  return kernel.substr(0, kernel.find('_', at + 1));
}

struct Tally {
  size_t kernels = 0, instructions = 0, ran = 0, ways = 0, taken = 0, explained = 0;
  void add(const Tally& o) {
    kernels += o.kernels, instructions += o.instructions, ran += o.ran;
    ways += o.ways, taken += o.taken, explained += o.explained;
  }
};

std::string percent(size_t some, size_t all) {
  char text[32];
  // Never rounded up to all of them.
  std::snprintf(text, sizeof text, "%.2f %%", all ? double(10000 * some / all) / 100 : 100.0);
  return text;
}

std::string row(const std::string& name, const Tally& t) {
  return "| " + name + " | " + std::to_string(t.kernels) + " | " + std::to_string(t.ran) + " of " +
         std::to_string(t.instructions) + " (" + percent(t.ran, t.instructions) + ") | " +
         std::to_string(t.taken) + " of " + std::to_string(t.ways) + " (" +
         percent(t.taken, t.ways) + ") | " + std::to_string(t.explained) + " | " +
         std::to_string(t.ways - t.taken - t.explained) + " |\n";
}

// Ways that nothing takes and no reason forbids: "label | statement | way" and of how many kernels.
using Open = std::map<std::string, size_t>;

Open read_open(const std::string& path) {
  Open open;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t bar = line.rfind(" | ");
    if (bar != std::string::npos && line[0] != '#')
      open[line.substr(0, bar)] = std::stoul(line.substr(bar + 3));
  }
  return open;
}

std::string text_of(const Open& open) {
  std::string s =
      "# Ways of branches that no problem of `make kernel-coverage` takes, and nothing says "
      "that none can:\n# label | statement | way | in how many kernels. Written by "
      "build/tests/kernel-coverage --record.\n";
  for (const auto& [way, kernels] : open) s += way + " | " + std::to_string(kernels) + "\n";
  return s;
}

struct Report {
  Open open;
  std::map<std::string, std::string> first; // an example of each: kernel and line
  std::map<std::string, Tally> families;
  Tally all;
  std::string detail, missing;
  std::vector<std::string> wrong;
};

void judge(const Coverage::Kernel& kernel, std::vector<Explanation>& explanations, Report& out) {
  Tally t;
  t.kernels = 1;
  // The label ahead of each line.
  std::vector<std::string> labels(kernel.lines.size() + 1);
  static const std::regex label_line(R"(\s*([$%\w]+):.*)");
  for (size_t n = 0; n < kernel.lines.size(); ++n) {
    std::smatch m;
    labels[n + 1] = std::regex_match(kernel.lines[n], m, label_line) ? m[1].str() : labels[n];
  }
  std::string lines;
  std::vector<bool> used(explanations.size());
  std::set<std::string> here;
  for (const auto& [place, item] : kernel.items) {
    ++t.instructions;
    t.ran += item.cell.ran != 0;
    const auto line = size_t(place.first);
    const std::string text = line <= kernel.lines.size() ? trimmed(kernel.lines[line - 1]) : "";
    if (*item.missing())
      lines += "  line " + std::to_string(line) + " (after " + labels[line] + "), " +
               item.missing() + ": " + text + "\n";
    if (!item.branch) continue;
    for (const bool taken : {true, false}) {
      ++t.ways;
      if ((taken ? item.cell.ran : item.cell.skipped) != 0) {
        ++t.taken;
        continue;
      }
      const std::string way = taken ? "taken" : "passed";
      bool explained = false;
      for (size_t i = 0; i < explanations.size() && !explained; ++i) {
        Explanation& e = explanations[i];
        explained = e.covers(kernel.name, labels[line], text, way);
        if (!explained) continue;
        ++e.ways;
        e.in_kernels += !used[i];
        used[i] = true;
      }
      t.explained += explained;
      if (explained) continue;
      const std::string name = labels[line] + " | " + text + " | " + way;
      if (here.insert(name).second) ++out.open[name];
      out.first.emplace(name, kernel.name + ", line " + std::to_string(line));
    }
  }
  out.detail += kernel.name + ": " + std::to_string(t.taken) + " of " + std::to_string(t.ways) +
                " ways of branches, " + std::to_string(t.ran) + " of " +
                std::to_string(t.instructions) + " instructions\n" + lines;
  if (t.taken + t.explained != t.ways) out.missing += kernel.name + "\n";
  out.families[family(kernel.name)].add(t);
  out.all.add(t);
}

std::string page(const Report& r, const std::vector<Explanation>& explanations) {
  std::string s =
      "# Branches of the shipped kernels that tests take\n\n"
      "Written by `make kernel-coverage`: the drawn problems of `make test`, and further ones of "
      "kernels that want them,\non the virtual GPU, with every statement of the kernels' PTX "
      "counted. A branch with a guard has two ways, taken\nand passed. "
      "`build/kernel-coverage/detail.txt` names "
      "every line that did not run. A way that nothing took is explained\nbelow, or open: "
      "`coverage/open.txt`. The target fails when there is another one.\n\n"
      "| kernels | how many | instructions that ran | ways of branches | explained | open |\n"
      "|---|---|---|---|---|---|\n";
  for (const auto& [name, t] : r.families) s += row("`" + name + "`", t);
  s += row("all", r.all);
  if (explanations.empty()) return s;
  s += "\n## Ways that nothing takes\n\n"
       "| kernels | behind | branch | way | how many | why |\n|---|---|---|---|---|---|\n";
  for (const Explanation& e : explanations)
    s += "| `" + std::regex_replace(e.kernels, std::regex(R"(\|)"), "\\|") + "` | `" + e.label +
         "` | `" + e.statement + "` | " + e.way + " | " + std::to_string(e.ways) + " in " +
         std::to_string(e.in_kernels) + " kernels | " + e.reason + " |\n";
  return s;
}

void read_counts(Coverage& coverage, const std::string& directory) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".counts") continue;
    ++files;
    std::ifstream in(entry.path());
    if (const std::string wrong = coverage.add(in); !wrong.empty())
      throw std::runtime_error(entry.path().string() + ": " + wrong);
  }
  if (files == 0) throw std::runtime_error(directory + " has no .counts files");
}

void put(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.good()) throw std::runtime_error(path + " cannot be written");
}

int run(const std::vector<std::string>& arguments) {
  std::string explained, out, detail, missing, open, record;
  Coverage coverage;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    std::string* const value = a == "--explained" ? &explained
                               : a == "--out"     ? &out
                               : a == "--detail"  ? &detail
                               : a == "--missing" ? &missing
                               : a == "--open"    ? &open
                               : a == "--record"  ? &record
                                                  : nullptr;
    if (!value)
      read_counts(coverage, a);
    else if (i + 1 < arguments.size())
      *value = arguments[++i];
  }
  std::vector<Explanation> explanations;
  if (!explained.empty()) explanations = read_explanations(explained);

  Report report;
  for (const warpline::Image& image : warpline::embedded_images()) {
    // Of the text that the library has now.
    const std::string text = joined(lines_of(image.text()));
    const auto same = std::find_if(coverage.kernels().begin(), coverage.kernels().end(),
                                   [&](const Coverage::Kernel& k) {
                                     return k.name == image.entry && joined(k.lines) == text;
                                   });
    if (same == coverage.kernels().end()) {
      const std::string name = "all of " + image.name + " | never ran | both";
      ++report.open[name];
      report.first[name] = image.name;
      report.missing += image.name + "\n";
    } else {
      judge(*same, explanations, report);
    }
  }
  for (const Explanation& e : explanations)
    if (e.ways == 0)
      report.wrong.push_back("explains nothing: " + e.kernels + " | " + e.label + " | " +
                             e.statement + " | " + e.way);
  const Open known = read_open(open);
  for (const auto& [way, kernels] : report.open) {
    const auto before = known.find(way);
    if (before == known.end() || before->second < kernels)
      report.wrong.push_back(std::to_string(kernels) + " kernels, " +
                             std::to_string(before == known.end() ? 0 : before->second) +
                             " before: " + way + " (" + report.first.at(way) + ")");
  }
  if (!record.empty()) put(record, text_of(report.open));
  if (!out.empty()) put(out, page(report, explanations));
  if (!detail.empty()) put(detail, report.detail);
  if (!missing.empty()) put(missing, report.missing);
  for (const std::string& w : report.wrong) std::printf("%s\n", w.c_str());
  std::printf("%zu kernels: %zu of %zu ways of branches taken (%s), %zu explained, %zu neither; "
              "%zu of %zu instructions ran (%s)\n",
              report.all.kernels, report.all.taken, report.all.ways,
              percent(report.all.taken, report.all.ways).c_str(), report.all.explained,
              report.all.ways - report.all.taken - report.all.explained, report.all.ran,
              report.all.instructions, percent(report.all.ran, report.all.instructions).c_str());
  return report.wrong.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kernel-coverage: %s\n", e.what());
    return 2;
  }
}
