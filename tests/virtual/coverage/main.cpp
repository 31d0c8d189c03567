// Which branches of the shipped kernels the tests' problems take, both ways: adds up what
// build/tests/problems and build/tests/sweep counted (--coverage DIRECTORY), for every kernel that
// the library carries.
//
//   build/tests/kernel-coverage --explained FILE [--out PAGE] [--detail FILE] DIRECTORY...
// A way that nothing took must be explained in FILE (ways.hpp), or be known to be open: --open
// FILE, which
// --record writes. The status is 1 when a way is neither, or an explanation explains nothing; a
// kernel that never ran is a way, too. PAGE gets the tables, --detail every line
// that did not run, --missing the kernels that have such ways.
#include "runtime/src/images.hpp"
#include "tests/virtual/coverage/toward.hpp"

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

using namespace wltest::coverage;

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
  const std::vector<std::string> labels = labels_of(kernel.lines);
  std::string lines;
  for (const auto& [place, item] : kernel.items) {
    ++t.instructions;
    t.ran += item.cell.ran != 0;
    t.ways += item.branch ? 2 : 0;
    const auto line = size_t(place.first);
    if (*item.missing() && line <= kernel.lines.size())
      lines += "  line " + std::to_string(line) + " (after " + labels[line] + "), " +
               item.missing() + ": " + trimmed(kernel.lines[line - 1]) + "\n";
  }
  std::vector<Explanation*> reasons;
  for (Explanation& e : explanations)
    if (e.of(kernel)) reasons.push_back(&e);
  std::set<const Explanation*> used;
  std::set<std::string> here;
  const std::vector<Way> left = ways_left(kernel);
  t.taken = t.ways - left.size();
  for (const Way& w : left) {
    const auto reason = std::find_if(reasons.begin(), reasons.end(),
                                     [&](const Explanation* e) { return e->covers(w); });
    if (reason != reasons.end()) {
      ++t.explained, ++(*reason)->ways;
      (*reason)->in_kernels += used.insert(*reason).second;
      continue;
    }
    if (here.insert(w.name()).second) ++out.open[w.name()];
    out.first.emplace(w.name(), kernel.name + ", line " + std::to_string(w.line));
  }
  out.detail += kernel.name + ": " + std::to_string(t.taken) + " of " + std::to_string(t.ways) +
                " ways of branches, " + std::to_string(t.explained) + " explained, " +
                std::to_string(t.ran) + " of " + std::to_string(t.instructions) +
                " instructions\n" + lines;
  if (t.taken + t.explained != t.ways) out.missing += kernel.name + "\n";
  out.families[family(kernel.name)].add(t);
  out.all.add(t);
}

std::string in_table(const std::string& expression) {
  return std::regex_replace(expression, std::regex(R"(\|)"), R"(\|)");
}

std::string page(const Report& r, const std::vector<Explanation>& explanations) {
  std::string s =
      "# Branches of the shipped kernels that tests take\n\n"
      "Written by `make kernel-coverage`: the drawn problems of `make test`, those of "
      "`coverage/chosen.txt`, and others drawn by\nneed, on the virtual GPU, with every statement "
      "of "
      "the kernels' PTX counted. A branch with a guard has two ways, taken\nand passed. "
      "`build/kernel-coverage/detail.txt` names every line that did not run. A way that nothing "
      "took "
      "is explained\nbelow, or open: `coverage/open.txt`. The target fails when there is another "
      "one.\n\n"
      "| kernels | how many | instructions that ran | ways of branches | explained | open |\n"
      "|---|---|---|---|---|---|\n";
  for (const auto& [name, t] : r.families) s += row("`" + name + "`", t);
  s += row("all", r.all);
  if (explanations.empty()) return s;
  s += "\n## Ways that nothing takes\n\n"
       "| kernels | behind | branch | way | how many | why |\n|---|---|---|---|---|---|\n";
  for (const Explanation& e : explanations)
    s += "| `" + in_table(e.kernels) + "` | `" + in_table(e.label) + "` | `" +
         in_table(e.statement) + "` | " + e.way + " | " + std::to_string(e.ways) + " in " +
         std::to_string(e.in_kernels) + " kernels | " + e.reason + " |\n";
  return s;
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
      add_counts(a, "", &coverage);
    else if (i + 1 == arguments.size())
      throw std::runtime_error(a + " needs a value");
    else
      *value = arguments[++i];
  }
  std::vector<Explanation> explanations;
  if (!explained.empty()) explanations = read_explanations(explained);

  Report report;
  for (const warpline::Image& image : warpline::embedded_images()) {
    if (Coverage::Kernel kernel;
        counts_of(coverage, image.entry, lines_of(image.text()), &kernel)) {
      judge(kernel, explanations, report);
      continue;
    }
    const std::string name = "all of " + image.name + " | never ran | both";
    ++report.open[name];
    report.first[name] = image.name;
    report.missing += image.name + "\n";
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
