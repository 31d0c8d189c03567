// build/tests/mutation [--kernels a,b] [--line N] [--out FILE] [--summary PAGE] [--all] [--fresh]
//                      [--survivors] [--jobs N] [--list] [--baseline SEEDS] [--check LIST]
//                      [--text FILE] [--driver PATH]
// Runs mutants of the kernels on the virtual GPU, each in a process of its own, with all checkers,
// advice and the kernel's own BARRIER LEDGER, under several schedules, and writes a table of what
// noticed it. A mutant that several kernels have (places.hpp) is run in one of them; --all runs
// every mutant of every kernel, --kernels those of some.
// --out keeps what FILE says of kernels whose PTX is the same, and does not run those mutants,
// unless --fresh; the same holds of --summary, which gets a line a kernel where FILE has every
// mutant; with --survivors it runs of those the mutants that survived without a reason, and nothing
// else.
// --baseline runs the kernels as they are (or the --text FILE in place of one) and wants silence;
// the same holds for its --out.
#include "tests/virtual/mutation/baseline.hpp"
#include "tests/virtual/mutation/shares.hpp"
#include "tests/virtual/mutation/summary.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

using namespace wltest;

namespace {

// Enough to contradict a reason.
constexpr int kExcusedSchedules = 4;

// "checker/rule (schedule)" -> "schedule"
std::string schedule_of(const std::string& killer) {
  const size_t at = killer.find(" (");
  return at == std::string::npos ? "" : killer.substr(at + 2, killer.size() - at - 3);
}

// Runs those of the kernel's mutants that are judged in it and not yet known, or, of the known
// ones, those that survived without a reason; false when the kernel itself is not clean.
bool run_kernel(const Kernel& kernel, const Share& share, unsigned jobs, bool print,
                bool survivors_only, Section& section) {
  const std::vector<Mutant>& mutants = share.mutants;
  const auto equivalent = [&](size_t i) {
    return !equivalent_reason(kernel.name, mutants[i]).empty();
  };
  section.judged.resize(mutants.size());
  section.killers.resize(mutants.size());
  std::vector<size_t> left;
  for (size_t i = 0; i < mutants.size(); ++i)
    if (survivors_only ? section.judged[i] && section.killers[i].empty() && !equivalent(i)
                       : share.here[i] && !section.judged[i])
      left.push_back(i);
  if (left.empty()) {
    std::cout << kernel.name << ": as told before" << std::endl;
    return true;
  }
  section.preface.clear();
  const std::vector<std::string> few(kSchedules.begin(), kSchedules.begin() + kExcusedSchedules);
  std::vector<std::string> all = kSchedules;
  for (const std::string& s : hold_schedules(kHoldSeeds)) all.push_back(s);
  const auto alone = [&](const std::string& check, const std::vector<std::string>& schedules) {
    Child base = start(kernel, "", check, schedules, 0);
    return finish(base);
  };
  const auto not_clean = [&](const Outcome& clean) {
    section.preface = "The kernel itself is reported by " + clean.verdict.by + " (schedule " +
                      clean.verdict.schedule + "); no mutants were run.";
    section.judged.assign(mutants.size(), false);
    std::cout << kernel.name << ": not clean: " << clean.verdict.by << "\n"
              << clean.report << std::endl;
    return false;
  };
  std::string check = "all,advice,ledger";
  Outcome clean = alone(check, few);
  if (!clean.verdict.by.empty()) {
    const std::string first = clean.verdict.by;
    check = "all,ledger";
    clean = alone(check, few);
    if (!clean.verdict.by.empty()) return not_clean(clean);
    section.preface = "Advice against the kernel itself: " + first + "; it runs without advice.";
  }
  std::vector<Child> running;
  auto settle = [&] {
    Child ended = take_ended(running);
    const size_t i = ended.index;
    const Outcome o = finish(ended);
    const Verdict& v = o.verdict;
    if (print) std::cout << mutants[i].change << ": " << v.by << "\n" << o.report << "\n";
    section.killers[i] = v.by.empty() || v.schedule.empty() ? v.by : v.by + " (" + v.schedule + ")";
    section.judged[i] = true;
  };
  for (const size_t i : left) {
    if (running.size() == jobs) settle();
    running.push_back(
        start(kernel, mutated(kernel.text, mutants[i]), check, equivalent(i) ? few : all, i));
  }
  while (!running.empty()) settle();
  // A schedule under which mutants die must leave the kernel itself alone.
  std::set<std::string> deadly;
  for (const size_t i : left) deadly.insert(schedule_of(section.killers[i]));
  for (const std::string& s : few) deadly.erase(s);
  deadly.erase("");
  if (!deadly.empty()) {
    clean = alone(check, {deadly.begin(), deadly.end()});
    if (!clean.verdict.by.empty()) return not_clean(clean);
  }
  std::cout << kernel.name << ": " << told(totals(section, mutants)) << std::endl;
  return true;
}

struct Options {
  std::string wanted, out_path, summary_path, text_path, check = "all,ledger";
  unsigned jobs = 2;
  bool list = false, fresh = false, survivors = false, all = false;
  int seeds = 0, line = 0;
};

bool read_options(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (a == "--kernels")
      o.wanted = value();
    else if (a == "--out")
      o.out_path = value();
    else if (a == "--summary")
      o.summary_path = value();
    else if (a == "--jobs")
      o.jobs = static_cast<unsigned>(std::max(1, std::atoi(value().c_str())));
    else if (a == "--line")
      o.line = std::atoi(value().c_str());
    else if (a == "--fresh")
      o.fresh = true;
    else if (a == "--all")
      o.all = true;
    else if (a == "--survivors")
      o.survivors = true;
    else if (a == "--list")
      o.list = true;
    else if (a == "--driver")
      driver_path = value();
    else if (a == "--text")
      o.text_path = value();
    else if (a == "--check")
      o.check = value();
    else if (a == "--baseline")
      o.seeds = std::atoi(value().c_str());
    else {
      std::fprintf(stderr, "mutation: unknown option %s\n", a.c_str());
      return false;
    }
  }
  return true;
}

// What is known of all kernels, and the files that say it.
struct Book {
  const Options& options;
  const std::vector<Kernel>& kernels;
  std::vector<Share> shares;
  std::map<std::string, Section> sections;
  std::map<std::string, SummaryLine> lines; // of an earlier run's page

  Book(const Options& o, const std::vector<Kernel>& all) : options(o), kernels(all) {
    std::map<std::string, std::string> before;
    if (!o.out_path.empty() && !o.fresh) before = read_sections(o.out_path);
    if (!o.fresh) lines = read_summary(o.summary_path);
    for (const Kernel& r : kernels) {
      Share share{r.name, r.work, make_mutants(r.text), {}, {}, {}};
      Section s{r.name, hash_code(r.text), "", {}, {}, {}};
      if (auto known = before.find(r.name);
          known != before.end() && read_section(known->second, share.mutants, s)) {
        share.told = s.judged;
        sections[r.name] = std::move(s);
      } else if (auto line = lines.find(r.name); line != lines.end()) {
        if (line->second.hash == hash_code(r.text) &&
            line->second.judged.size() == share.mutants.size())
          share.told = line->second.judged;
        else
          lines.erase(line);
      }
      share.told.resize(share.mutants.size(), false);
      shares.push_back(std::move(share));
    }
  }

  // Whether the page alone, without the full list, says all that is judged in this kernel.
  bool is_told(const Share& s) const { return sections.count(s.kernel) == 0 && s.here == s.told; }

  void write() {
    Totals all;
    std::vector<std::string> texts, missing;
    std::vector<std::pair<std::string, SummaryLine>> judges;
    std::set<uint64_t> judged, places;
    Counts counts{kernels.size(), 0, 0, 0};
    for (const Share& s : shares) {
      std::vector<bool> here(s.mutants.size(), false);
      if (auto known = sections.find(s.kernel); known != sections.end()) {
        Section& section = known->second;
        here = section.judged;
        section.judge.clear();
        for (const size_t judge : s.judge) section.judge.push_back(shares[judge].kernel);
        texts.push_back(section_text(section, s.mutants));
        all.add(totals(section, s.mutants));
        judges.emplace_back(s.kernel, summary_of(section, s.mutants));
      } else if (auto line = lines.find(s.kernel); line != lines.end()) {
        here = line->second.judged;
        judges.emplace_back(s.kernel, line->second);
      }
      counts.mutants += s.mutants.size();
      for (size_t i = 0; i < s.mutants.size(); ++i) {
        places.insert(s.mutants[i].identity);
        if (here[i]) judged.insert(s.mutants[i].identity);
      }
    }
    counts.different = places.size(), counts.judged = judged.size();
    std::vector<StandIns> others;
    for (size_t k = 0; k < shares.size(); ++k) {
      const Share& s = shares[k];
      StandIns o{s.kernel, {}, 0};
      std::set<std::string> names;
      std::set<uint64_t> open;
      for (size_t i = 0; i < s.mutants.size(); ++i) {
        const uint64_t id = s.mutants[i].identity;
        if (judged.count(id) == 0)
          open.insert(id);
        else if (s.judge[i] != k)
          names.insert(shares[s.judge[i]].kernel);
      }
      o.judges.assign(names.begin(), names.end());
      o.open = open.size();
      if (!open.empty()) missing.push_back(s.kernel);
      if (!names.empty() || !open.empty()) others.push_back(std::move(o));
    }
    if (!options.out_path.empty()) {
      std::filesystem::create_directories(
          std::filesystem::absolute(options.out_path).parent_path());
      std::ofstream(options.out_path)
          << table_text(all, texts, missing, kSchedules.size(), kHoldSeeds);
    }
    if (!options.summary_path.empty())
      std::ofstream(options.summary_path)
          << summary_page(judges, others, counts, kSchedules.size(), kHoldSeeds);
  }
};

} // namespace

int main(int argc, char** argv) {
  Options o;
  if (!read_options(argc, argv, o)) return 2;
  std::vector<Kernel> kernels;
  std::vector<std::string> named;
  for (const warpline::Image& image : warpline::embedded_images()) {
    kernels.push_back(make_kernel(image));
    if (!o.wanted.empty() && is_named(o.wanted, image.name)) named.push_back(image.name);
  }
  if (!o.wanted.empty() && named.empty()) {
    std::fprintf(stderr, "mutation: no such kernel\n");
    return 2;
  }
  if (o.seeds) {
    std::ostringstream text;
    if (!o.text_path.empty()) text << std::ifstream(o.text_path).rdbuf();
    return run_baseline(kernels, o.wanted, text.str(), o.seeds, o.jobs, o.check, o.out_path,
                        o.fresh);
  }
  Book book(o, kernels);
  const std::vector<size_t> order = share_out(book.shares, o.all, named);
  if (o.list) {
    size_t count = 0;
    for (const size_t k : order) {
      const Share& s = book.shares[k];
      if (!o.wanted.empty() && !is_named(o.wanted, s.kernel)) continue;
      for (size_t i = 0; i < s.mutants.size(); ++i) {
        if (!s.here[i]) continue;
        std::cout << s.kernel << ":" << s.mutants[i].line << ": " << s.mutants[i].change << ": "
                  << s.mutants[i].instruction << "\n";
        ++count;
      }
    }
    std::cout << count << " mutants in " << order.size() << " kernels\n";
    return 0;
  }
  bool clean = true;
  for (const size_t k : order) {
    Share share = book.shares[k];
    const Kernel& r = kernels[k];
    if (!o.wanted.empty() && !is_named(o.wanted, r.name)) continue;
    const bool known = book.sections.count(r.name) != 0;
    if (o.survivors && !known) continue;
    if (book.is_told(share) && !o.line) {
      std::cout << r.name << ": as told before" << std::endl;
      continue;
    }
    Section section{r.name, hash_code(r.text), "", {}, {}, {}};
    if (o.line) { // a look at one line is no section
      for (size_t i = 0; i < share.mutants.size(); ++i)
        share.here[i] = share.mutants[i].line == o.line;
      clean &= run_kernel(r, share, o.jobs, true, false, section);
      continue;
    }
    if (known) section = book.sections[r.name];
    clean &= run_kernel(r, share, o.jobs, false, o.survivors, section);
    book.sections[r.name] = std::move(section);
    book.write(); // after each kernel, so that a run that is cut short leaves what it found
  }
  book.write();
  return clean ? 0 : 1;
}
