// build/tests/mutation [--kernels a,b] [--line N] [--out FILE] [--summary PAGE] [--fresh]
// [--survivors] [--jobs N]
//                      [--list] [--baseline SEEDS] [--check LIST] [--text FILE] [--driver PATH]
// --out keeps what FILE says of kernels whose PTX is the same, and does not run those, unless
// --fresh; the same holds of --summary, which gets a line a kernel where FILE has every mutant;
// with --survivors it runs of those the mutants that survived without a reason, and nothing else.
// --baseline runs the kernels as they are (or the --text FILE in place of one) and wants silence;
// the same holds for its --out.
//
// Runs every mutant of every kernel on the virtual GPU, each in a process of its own, with all
// checkers, advice and the kernel's own BARRIER LEDGER, under several schedules, and writes a table
// of what noticed it.
#include "tests/virtual/mutation/judge.hpp"
#include "tests/virtual/mutation/mutants.hpp"
#include "tests/virtual/mutation/summary.hpp"
#include "tests/virtual/mutation/table.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

using namespace wltest;

namespace {

using Twins = std::map<std::string, std::vector<std::string>>; // kernel: others of the same PTX

// A pair of 16-bit values becomes two of FP32 in one statement in FP16 and by shifts in BF16; both
// only compute. "" = no such pair begins at line i; else one line for it, and i is its last.
std::string unpacked_pair(const std::vector<std::string>& lines, size_t& i) {
  if (lines[i].find('{') == std::string::npos && lines[i].find("shl.b32") == std::string::npos)
    return "";
  const auto words = [&](size_t at) {
    std::string text = at < lines.size() ? lines[at] : "";
    std::erase_if(text, [](char c) { return c == ',' || c == ';'; });
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto is = [&](size_t at, const std::vector<std::string>& shape,
                      std::vector<std::string>& names) {
    const std::vector<std::string> found = words(at);
    if (found.size() != shape.size()) return false;
    for (size_t k = 0; k < shape.size(); ++k)
      if (shape[k] == "?")
        names.push_back(found[k]);
      else if (shape[k] != found[k])
        return false;
    return true;
  };
  std::vector<std::string> n;
  if (is(i, {"{"}, n) && is(i + 1, {".reg", ".b16", "low_half", "high_half"}, n) &&
      is(i + 2, {"mov.b32", "{low_half", "high_half}", "?"}, n) &&
      is(i + 3, {"cvt.f32.f16", "?", "low_half"}, n) &&
      is(i + 4, {"cvt.f32.f16", "?", "high_half"}, n) && is(i + 5, {"}"}, n)) {
    i += 5;
    return "unpack " + n[1] + " " + n[2] + " " + n[0];
  }
  n.clear();
  if (is(i, {"shl.b32", "?", "?", "16"}, n) && is(i + 1, {"and.b32", "?", "?", "0xFFFF0000"}, n) &&
      n[1] == n[3]) {
    ++i;
    return "unpack " + n[0] + " " + n[2] + " " + n[1];
  }
  return "";
}

// The text of a kernel whatever 16-bit type D has: kernels that differ in nothing else are twins.
// What is put away are names and arithmetic, never an access to memory, a wait, a branch or an
// address.
std::string without_type(const std::string& ptx) {
  std::vector<std::string> lines;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string pair = unpacked_pair(lines, i);
    text += (pair.empty() ? lines[i] : pair) + "\n";
  }
  for (size_t at = 0; (at = text.find("bf16", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

// Runs the mutants of one kernel that nothing is known to kill, or of these those without a reason
// to be equivalent; false when the kernel itself is not clean.
bool run_kernel(const Kernel& kernel, const std::vector<Mutant>& mutants, unsigned jobs, bool print,
                bool survivors_only, Section& section) {
  const auto equivalent = [&](size_t i) {
    return !equivalent_reason(kernel.name, mutants[i]).empty();
  };
  const auto told_before = [&](size_t i) {
    return i < section.killers.size() &&
           (!section.killers[i].empty() || (survivors_only && equivalent(i)));
  };
  size_t left = 0;
  for (size_t i = 0; i < mutants.size(); ++i) left += !told_before(i);
  if (left == 0) {
    std::cout << kernel.name << ": as told before" << std::endl;
    return true;
  }
  section.preface.clear();
  std::vector<std::string> all = kSchedules;
  for (const std::string& s : hold_schedules(kHoldSeeds)) all.push_back(s);
  std::string check = "all,advice,ledger";
  Child base = start(kernel, "", check, all, 0);
  Outcome clean = finish(base);
  if (!clean.verdict.by.empty()) {
    const std::string first = clean.verdict.by;
    check = "all,ledger";
    Child again = start(kernel, "", check, all, 0);
    clean = finish(again);
    if (!clean.verdict.by.empty()) {
      section.preface = "The kernel itself is reported by " + clean.verdict.by + " (schedule " +
                        clean.verdict.schedule + "); no mutants were run.";
      section.killers.clear();
      std::cout << kernel.name << ": not clean: " << clean.verdict.by << "\n"
                << clean.report << "\n";
      return false;
    }
    section.preface = "Advice against the kernel itself: " + first + "; it runs without advice.";
  }
  section.killers.resize(mutants.size());
  std::vector<Child> running;
  auto settle = [&] {
    Child ended = take_ended(running);
    const size_t i = ended.index;
    const Outcome o = finish(ended);
    const Verdict& v = o.verdict;
    if (print) std::cout << mutants[i].change << ": " << v.by << "\n" << o.report << "\n";
    section.killers[i] = v.by.empty() || v.schedule.empty() ? v.by : v.by + " (" + v.schedule + ")";
  };
  for (size_t i = 0; i < mutants.size(); ++i) {
    if (told_before(i)) continue;
    if (running.size() == jobs) settle();
    running.push_back(start(kernel, mutants[i].text, check, equivalent(i) ? kSchedules : all, i));
  }
  while (!running.empty()) settle();
  std::cout << kernel.name << ": " << told(totals(section, mutants)) << std::endl;
  return true;
}

const char* const kNothing = "nothing";

// Kernels that a file of the same command calls clean, with the hash of their text.
std::map<std::string, std::string> read_clean(const std::string& path, const std::string& how) {
  std::map<std::string, std::string> clean;
  std::ifstream in(path);
  bool same = false;
  for (std::string line; std::getline(in, line);) {
    same |= line.find(how) != std::string::npos;
    std::istringstream cells(line);
    std::string bar, name, at, word, last;
    if (!(cells >> bar >> name >> bar >> word >> at)) continue;
    while (cells >> word)
      if (word != "|") last = word;
    if (same && last == kNothing) clean[name] = "text " + at;
  }
  return clean;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  return text;
}

// The unchanged kernels under many seeds: any report is a false alarm. What the file says of a
// kernel whose text is the same, that nobody reported it, stays.
int run_baseline(const std::vector<Kernel>& kernels, const std::vector<Kernel>& all_kernels,
                 const Twins& twins, const std::string& text, int seeds, unsigned jobs,
                 const std::string& check, const std::string& out_path, bool fresh) {
  std::vector<std::string> schedules = kSchedules;
  std::erase_if(schedules, [](const std::string& s) { return s.rfind("random:", 0) == 0; });
  for (int s = 1; s <= seeds; ++s) schedules.push_back("random:" + std::to_string(s));
  for (const std::string& s : hold_schedules(seeds / 4)) schedules.push_back(s);
  const std::string how =
      "`mutation --baseline " + std::to_string(seeds) + " --check " + check + "`";
  std::map<std::string, std::string> said, before; // by kernel
  if (!out_path.empty() && !fresh) before = read_clean(out_path, how);
  auto write = [&] {
    if (out_path.empty()) return;
    std::string table;
    std::vector<std::string> missing;
    size_t bad = 0;
    for (const Kernel& r : all_kernels) {
      if (!said.count(r.name)) {
        missing.push_back(r.name);
        continue;
      }
      bad += said[r.name] != kNothing;
      auto same = twins.find(r.name);
      table += "| " + r.name + " | " + hash_code(r.text) + " | " +
               (same == twins.end() ? "" : joined_names(same->second)) + " | " +
               std::to_string(r.problem.m) + " x " + std::to_string(r.problem.n) + " x " +
               std::to_string(r.problem.k) + " | " + said[r.name] + " |\n";
    }
    std::ofstream(out_path)
        << "# False alarms\n\nWritten by `make false-alarms` on " << today() << " (" << how
        << "): the shipped kernels as\nthey are, on the virtual GPU. Whatever a checker says is a "
           "false alarm, or a fault of the kernel. Results are\ncompared with the reference too. "
           "Schedules, the first four with a short K as well: "
        << joined_names(schedules) << ".\n\n**" << said.size() << " kernels, " << schedules.size()
        << " schedules each: " << bad << " reported.**\n\n"
        << (missing.empty() ? ""
                            : "Not run with their present text: " + joined_names(missing) + ".\n\n")
        << "| kernel | text | the same but for the type of D | M x N x K | reported |\n"
           "|---|---|---|---|---|\n"
        << table;
  };
  int bad = 0;
  std::vector<Child> running;
  auto settle = [&] {
    Child c = take_ended(running);
    const Outcome o = finish(c);
    const std::string& name = kernels[c.index].name;
    const bool clean = o.verdict.by.empty();
    said[name] = clean ? kNothing : o.verdict.by + " (" + o.verdict.schedule + ")";
    std::cout << name << ": " << said[name] << "\n" << (clean ? "" : o.report) << std::flush;
    bad += !clean;
    write();
  };
  for (const Kernel& r : all_kernels)
    if (auto known = before.find(r.name);
        known != before.end() && known->second == hash_code(r.text))
      said[r.name] = kNothing;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (said.count(kernels[i].name)) {
      std::cout << kernels[i].name << ": as told before" << std::endl;
      continue;
    }
    if (running.size() == jobs) settle();
    running.push_back(start(kernels[i], text, check, schedules, i));
  }
  while (!running.empty()) settle();
  write();
  std::cout << said.size() << " kernels, " << schedules.size() << " schedules each, checks "
            << check << ": " << bad << " reported\n";
  return bad != 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string wanted, out_path, summary_path, text_path, check = "all,ledger";
  unsigned jobs = 2;
  bool list = false, fresh = false, survivors = false;
  int seeds = 0, line = 0;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (a == "--kernels")
      wanted = "," + value() + ",";
    else if (a == "--out")
      out_path = value();
    else if (a == "--summary")
      summary_path = value();
    else if (a == "--jobs")
      jobs = static_cast<unsigned>(std::max(1, std::atoi(value().c_str())));
    else if (a == "--line")
      line = std::atoi(value().c_str());
    else if (a == "--fresh")
      fresh = true;
    else if (a == "--survivors")
      survivors = true;
    else if (a == "--list")
      list = true;
    else if (a == "--driver")
      driver_path = value();
    else if (a == "--text")
      text_path = value();
    else if (a == "--check")
      check = value();
    else if (a == "--baseline")
      seeds = std::atoi(value().c_str());
    else {
      std::fprintf(stderr, "mutation: unknown option %s\n", a.c_str());
      return 2;
    }
  }
  std::vector<Kernel> kernels, all_kernels; // those to run; all but twins
  Twins twins;
  std::map<std::string, std::string> first_of; // the first kernel of a text, whatever D's type
  for (const warpline::Image& image : warpline::embedded_images()) {
    Kernel kernel = make_kernel(image);
    const auto [first, is_new] = first_of.emplace(without_type(kernel.text), kernel.name);
    const bool asked = wanted.find("," + image.name + ",") != std::string::npos;
    if (asked || (wanted.empty() && is_new)) kernels.push_back(kernel);
    if (!is_new)
      twins[first->second].push_back(kernel.name);
    else
      all_kernels.push_back(std::move(kernel));
  }
  if (kernels.empty()) {
    std::fprintf(stderr, "mutation: no such kernel\n");
    return 2;
  }
  if (seeds) {
    std::ostringstream text;
    if (!text_path.empty()) text << std::ifstream(text_path).rdbuf();
    return run_baseline(kernels, all_kernels, twins, text.str(), seeds, jobs, check, out_path,
                        fresh);
  }
  if (list) {
    for (const Kernel& r : kernels)
      for (const Mutant& m : make_mutants(r.text))
        std::cout << r.name << ":" << m.line << ": " << m.change << ": " << m.instruction << "\n";
    return 0;
  }
  // What an earlier run has told of the same text stays.
  std::map<std::string, std::string> before;
  if (!out_path.empty()) before = read_sections(out_path);
  std::map<std::string, Section> sections;
  for (const Kernel& r : all_kernels) {
    Section s{r.name, hash_code(r.text), "", {}, {}};
    if (auto same = twins.find(r.name); same != twins.end()) s.twins = same->second;
    if (auto known = before.find(r.name);
        known != before.end() && read_section(known->second, make_mutants(r.text), s))
      sections[r.name] = std::move(s);
  }
  const std::map<std::string, SummaryLine> told_before = read_summary(summary_path);
  const auto told = [&](const Kernel& r) {
    const auto line = told_before.find(r.name);
    return line != told_before.end() && line->second.hash == hash_code(r.text);
  };
  auto write = [&] {
    Totals all;
    std::vector<std::string> texts, missing, not_summed;
    std::vector<std::pair<std::string, SummaryLine>> lines;
    for (const Kernel& r : all_kernels) {
      auto s = sections.find(r.name);
      if (s == sections.end()) {
        missing.push_back(r.name);
        if (told(r))
          lines.emplace_back(r.name, told_before.at(r.name));
        else
          not_summed.push_back(r.name);
        continue;
      }
      const std::vector<Mutant> mutants = make_mutants(r.text);
      texts.push_back(section_text(s->second, mutants));
      all.add(totals(s->second, mutants));
      lines.emplace_back(r.name, summary_of(s->second, mutants));
    }
    if (!out_path.empty()) {
      std::filesystem::create_directories(std::filesystem::absolute(out_path).parent_path());
      std::ofstream(out_path) << table_text(all, texts, missing, kSchedules.size(), kHoldSeeds);
    }
    if (!summary_path.empty())
      std::ofstream(summary_path) << summary_page(lines, not_summed, kSchedules.size(), kHoldSeeds);
  };
  bool clean = true;
  for (const Kernel& r : kernels) {
    const bool known = !fresh && !line && sections.count(r.name);
    if (survivors && !known) continue;
    if ((known && !survivors) || (!fresh && !line && !survivors && told(r))) {
      std::cout << r.name << ": as told before" << std::endl;
      continue;
    }
    std::vector<Mutant> mutants = make_mutants(r.text);
    if (line) std::erase_if(mutants, [&](const Mutant& m) { return m.line != line; });
    Section section{r.name, hash_code(r.text), "", {}, {}};
    if (known) section = sections[r.name];
    if (auto same = twins.find(r.name); same != twins.end()) section.twins = same->second;
    clean &= run_kernel(r, mutants, jobs, line != 0, survivors, section);
    if (line) continue; // a look at one line is no section
    sections[r.name] = std::move(section);
    write(); // after each kernel, so that a run that is cut short leaves what it found
  }
  write();
  return clean ? 0 : 1;
}
