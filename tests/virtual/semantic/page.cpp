#include "tests/virtual/semantic/page.hpp"
#include "tests/support/fnv.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace wltest {

namespace {

std::string hash_of(const Kernel& kernel) {
  uint64_t h = fnv_basis;
  for (const SemanticMutant& m : kernel.mutants) h = fnv_step(h, m.key);
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  if (line.rfind("| ", 0) != 0) return out;
  for (size_t at = 2, end; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
    out.push_back(line.substr(at, end - at));
  return out;
}

std::string percent(int part, int whole) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", whole == 0 ? 0.0 : 100.0 * part / whole);
  return text;
}

// What a person writes of draws, which stays.
constexpr char drawn_heading[] = "## Drawn";

bool killed_elsewhere(const SemanticMutant& m, const Results& results,
                      const std::map<uint64_t, Elsewhere>& elsewhere) {
  const auto found = elsewhere.find(m.key);
  if (found == elsewhere.end()) return false;
  for (const auto& [kernel, other] : found->second) {
    if (killed(results.find(other))) return true;
  }
  return false;
}

} // namespace

SemanticPage::SemanticPage(std::string path) : path_(std::move(path)) {
  std::ifstream in(path_);
  bool drawn = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("## ", 0) == 0) drawn = line == drawn_heading;
    if (drawn) {
      drawn_ += line + "\n";
      continue;
    }
    const std::vector<std::string> c = cells(line);
    if (c.size() == 7 && c[1].size() == 16 &&
        c[2].find_first_not_of("0123456789") == std::string::npos) {
      Line& l = before_[c[0]];
      l.hash = c[1];
      l.killed = std::atoi(c[2].c_str());
      l.survived = std::atoi(c[3].c_str());
      l.without_effect = std::atoi(c[4].c_str());
      l.refused = std::atoi(c[5].c_str());
      l.left = std::atoi(c[6].c_str());
    } else if (c.size() == 5 && before_.count(c[0])) {
      before_[c[0]].survivors.push_back(line);
    } else if (c.size() == 3 && before_.count(c[0])) {
      before_[c[0]].reasons[c[1]] = std::atoi(c[2].c_str());
    }
  }
}

bool SemanticPage::tells(const Kernel& kernel) const {
  const auto found = before_.find(kernel.name);
  return found != before_.end() && found->second.hash == hash_of(kernel) && found->second.left == 0;
}

void SemanticPage::write(const std::vector<Kernel>& kernels, const Results& results,
                         const std::map<uint64_t, Elsewhere>& elsewhere) {
  std::ostringstream table, survivors, reasons;
  std::string missing;
  Line sum, some; // of all kernels; of those of which a part is judged
  int bent = 0, in_part = 0;
  for (const Kernel& k : kernels) {
    if (k.mutants.empty()) continue;
    Line l;
    l.hash = hash_of(k);
    for (const SemanticMutant& m : k.mutants) {
      if (const std::string why = no_effect(k.name, m); !why.empty()) {
        ++l.without_effect;
        ++l.reasons[why];
        continue;
      }
      const std::string* verdict = results.find(m);
      if (verdict == nullptr) {
        ++l.left;
      } else if (*verdict == no_ptx) {
        ++l.refused;
      } else if (killed(verdict) || killed_elsewhere(m, results, elsewhere)) {
        ++l.killed;
      } else if (const std::string why = *verdict == same_code ? "ptxas makes the same machine code"
                                                               : equivalent_reason(k.name, m);
                 !why.empty()) {
        ++l.without_effect;
        ++l.reasons[why];
      } else {
        ++l.survived;
        l.survivors.push_back("| " + k.name + " | " + std::to_string(m.line) + ", " + m.label +
                              " | `" + m.instruction + "` | " + m.change + " | " +
                              survivor_reason(m) + " |");
      }
    }
    if (const auto found = before_.find(k.name);
        found != before_.end() && found->second.hash == l.hash && found->second.left < l.left)
      l = found->second;
    if (l.left != 0 && l.killed + l.survived == 0) {
      missing += (missing.empty() ? "" : ", ") + k.name;
      sum.left += l.left;
      continue;
    }
    ++bent;
    table << "| " << k.name << " | " << l.hash << " | " << l.killed << " | " << l.survived << " | "
          << l.without_effect << " | " << l.refused << " | " << l.left << " |\n";
    for (const std::string& line : l.survivors) survivors << line << "\n";
    for (const auto& [why, count] : l.reasons)
      reasons << "| " << k.name << " | " << why << " | " << count << " |\n";
    sum.killed += l.killed;
    sum.survived += l.survived;
    sum.without_effect += l.without_effect;
    sum.refused += l.refused;
    sum.left += l.left;
    if (l.left == 0) continue;
    ++in_part;
    some.killed += l.killed;
    some.survived += l.survived;
  }
  std::ostringstream told;
  told << sum.killed << " of " << sum.killed + sum.survived << " semantic mutants killed ("
       << percent(sum.killed, sum.killed + sum.survived) << "), " << sum.survived << " survived, "
       << sum.without_effect << " without effect, in " << bent << " kernels";
  if (sum.left != 0)
    told << "; " << sum.left << " not judged: of " << in_part << " kernels judged in part "
         << some.killed << " of " << some.killed + some.survived << " killed ("
         << percent(some.killed, some.killed + some.survived) << ")";
  told_ = told.str();
  if (path_.empty()) return;
  std::ofstream page(path_);
  page
      << "# Semantic mutants of the shipped kernels\n\n"
         "Written by `make mutation`: every instruction that computes, addresses, compares, "
         "converts, loads or stores is\ndeleted or bent (another operation, operands exchanged, a "
         "constant or an address by one step, another rounding, a\npredicate inverted or "
         "dropped), one at a time, and the mutant runs the problems of its configuration that "
         "`make test`\nruns (`tests/problems`, seed 1) on the virtual GPU. Kernels share their "
         "text: of a family, a statement is bent in the\nfirst kernel that has it, in the first "
         "and the last place where a macro puts it there; statements that differ in their\nnumbers "
         "only are one. The list of all mutants is `build/mutation/semantic.txt`. What the "
         "parser refuses is no mutant.\nOf survivors, ptxas makes machine code where there is one: "
         "where it is the kernel's own, no input tells them apart: a right compiler makes one code "
         "of two texts only then.\nA sum over K that is rounded towards zero keeps the contract, "
         "which leaves order and rounding of FP32 sums open: its\nbits may differ, and no test may "
         "ask for them; such mutants count as without effect too.\n\n**"
      << told_ << ".**\n\n";
  if (!missing.empty())
    page << "Of these no mutant of their present text is judged: " << missing << ".\n\n";
  page << "| kernel | mutants, hash | killed | survived | without effect | refused | not judged |\n"
          "|---|---|---|---|---|---|---|\n"
       << table.str()
       << "\n## Survivors\n\n| kernel | line, label | instruction | change | left because |\n"
          "|---|---|---|---|---|\n"
       << survivors.str() << "\n"
       << drawn_ << "## Without effect\n\n| kernel | reason | mutants |\n|---|---|---|\n"
       << reasons.str();
}

} // namespace wltest
