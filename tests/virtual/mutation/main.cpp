// build/tests/mutation: mutants of the kernels on the virtual GPU; --help says what it takes. A
// mutant that several kernels have (places.hpp) is run in one of them.
#include "tests/virtual/mutation/baseline.hpp"
#include "tests/virtual/mutation/shares.hpp"
#include "tests/virtual/mutation/summary.hpp"
#include "tools/cli/options.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

using namespace wltest;

namespace {

// Enough to contradict a reason.
constexpr int kExcusedSchedules = 4;
// What a run that is cut short may lose.
constexpr std::chrono::seconds kUnsaved{60};

// "checker/rule (schedule)" -> "schedule"
std::string schedule_of(const std::string& killer) {
  const size_t at = killer.find(" (");
  return at == std::string::npos ? "" : killer.substr(at + 2, killer.size() - at - 3);
}

struct RunOptions {
  unsigned jobs = 2;
  bool print = false;
};

// Runs the mutants `left` of the kernel and keeps what comes out, with `save`, from time to time;
// false when the kernel itself is not clean.
bool run_kernel(const Kernel& kernel, const std::vector<Mutant>& mutants,
                const std::vector<size_t>& left, const RunOptions& how, Section& section,
                const std::function<void()>& save) {
  section.preface.clear();
  std::vector<std::string> all = kSchedules;
  for (const std::string& s : hold_schedules(kHoldSeeds)) all.push_back(s);
  const std::vector<std::string> few(kSchedules.begin(), kSchedules.begin() + kExcusedSchedules);
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
  // A schedule under which mutants die must leave the kernel itself alone; most die under the
  // first.
  std::set<std::string> harmless = {kSchedules[0]};
  const std::string ledger = kernel.ledger ? ",ledger" : "";
  std::string check = "all,advice" + ledger;
  Outcome clean = alone(check, {kSchedules[0]});
  if (!clean.verdict.by.empty()) {
    const std::string first = clean.verdict.by;
    check = "all" + ledger;
    clean = alone(check, {kSchedules[0]});
    if (!clean.verdict.by.empty()) return not_clean(clean);
    section.preface = "Advice against the kernel itself: " + first + "; it runs without advice.";
  }
  std::vector<Child> running;
  std::map<size_t, std::string> killers; // of those that are not in the section yet
  auto settle = [&] {
    Child ended = take_ended(running);
    const size_t i = ended.index;
    const Outcome o = finish(ended);
    const Verdict& v = o.verdict;
    if (how.print) std::cout << mutants[i].change << ": " << v.by << "\n" << o.report << "\n";
    killers[i] = v.by.empty() || v.schedule.empty() ? v.by : v.by + " (" + v.schedule + ")";
    if (v.by.empty() && equivalent_reason(kernel.name, mutants[i]).empty())
      std::cout << kernel.name << ":" << mutants[i].line << ": survived: " << mutants[i].change
                << ": " << mutants[i].instruction << std::endl;
  };
  auto last_save = std::chrono::steady_clock::now();
  for (size_t next = 0; next < left.size();) {
    while (next < left.size() && std::chrono::steady_clock::now() - last_save < kUnsaved) {
      if (running.size() == how.jobs) settle();
      const size_t i = left[next++];
      const bool excused = !equivalent_reason(kernel.name, mutants[i]).empty();
      running.push_back(
          start(kernel, mutated(kernel.text, mutants[i]), check, excused ? few : all, i));
    }
    while (!running.empty()) settle();
    std::vector<std::string> deadly;
    for (const auto& [i, killer] : killers)
      if (const std::string s = schedule_of(killer); !s.empty() && harmless.insert(s).second)
        deadly.push_back(s);
    if (!deadly.empty()) {
      clean = alone(check, deadly);
      if (!clean.verdict.by.empty()) return not_clean(clean);
    }
    for (const auto& [i, killer] : killers) section.judged[i] = true, section.killers[i] = killer;
    killers.clear();
    save();
    last_save = std::chrono::steady_clock::now();
  }
  std::cout << kernel.name << ": " << told(totals(section, mutants)) << "; " << left.size()
            << " of them now" << std::endl;
  return true;
}

// The text is there as a whole, or not at all.
void replace_file(const std::string& path, const std::string& text) {
  const std::string next = path + ".next";
  std::ofstream(next) << text;
  std::filesystem::rename(next, path);
}

struct Options {
  std::string wanted, out_path, summary_path, text_path, check = "all,ledger";
  unsigned jobs = 2;
  bool list = false, fresh = false, survivors = false, all = false;
  int seeds = 0, line = 0;
  size_t drawn = 0;
  uint64_t seed = 1;
  size_t part = 0, parts = 1; // from 0
  std::vector<std::string> from;
  bool has(size_t kernel) const { return kernel % parts == part; }
};

void read_options(int argc, char** argv, Options& o) {
  const auto take_part = [&o](std::string_view text) -> std::string {
    const auto number = [](std::string_view digits, size_t* n) {
      const char* const end = digits.data() + digits.size();
      return std::from_chars(digits.data(), end, *n) == std::from_chars_result{end, {}};
    };
    const size_t slash = text.find('/');
    size_t part = 0, parts = 0;
    if (slash == std::string_view::npos || !number(text.substr(0, slash), &part) ||
        !number(text.substr(slash + 1), &parts) || part < 1 || part > parts)
      return "I/N, I from 1 to N";
    o.part = part - 1, o.parts = parts;
    return "";
  };
  const auto take_files = [&o](std::string_view text) -> std::string {
    std::istringstream files{std::string(text)};
    for (std::string file; std::getline(files, file, ',');) {
      if (!std::filesystem::exists(file)) return "files that exist; there is no " + file;
      o.from.push_back(file);
    }
    return "";
  };
  warpline::cli::Options options(
      "mutation",
      "Runs mutants of the kernels on the virtual GPU, each in a process of its own, with all\n"
      "checkers, advice and the kernel's own BARRIER LEDGER, under several schedules, and says\n"
      "what noticed them.",
      "");
  options.text("--kernels", "NAME,...",
               "every mutant of these kernels\n(those that are in no other kernel, of all)",
               o.wanted);
  options.flag("--all", "every mutant of every kernel", o.all);
  options.integer("--line", "mutants of one line of the PTX", o.line, 1);
  options.flag("--survivors",
               "of what the files say, those that survived\nwithout a reason, nothing else",
               o.survivors);
  options.integer("--draw", "N of those that would be run", o.drawn, 1);
  options.integer("--seed", "there (1)", o.seed, 0);
  options.flag("--list", "mutants, none run", o.list);
  options.text(
      "--out", "FILE",
      "what noticed each mutant; what FILE says of\nkernels of the same PTX is kept and not "
      "run again",
      o.out_path);
  options.text("--summary", "PAGE", "a line a kernel where FILE has every mutant,\nlikewise",
               o.summary_path);
  options.flag("--fresh", "nothing is kept", o.fresh);
  options.custom({"--from", "FILE,...", "adds what the --out files of others say", take_files});
  options.custom({"--part", "I/N",
                  "every Nth kernel, from the Ith on, so that several\nprocesses share a run, each "
                  "with files of its own",
                  take_part});
  options.integer("--jobs", "processes at a time (2)", o.jobs, 1);
  options.integer("--baseline",
                  "the kernels as they are under N random schedules\nand others, silence wanted; "
                  "--out keeps likewise",
                  o.seeds, 1);
  options.text("--text", "FILE", "there, this PTX in place of the one kernel's", o.text_path);
  options.text("--check", "LIST", "there, checkers (all,ledger)", o.check);
  options.text("--driver", "PATH", "the virtual GPU's library", driver_path);
  options.repeated();
  parse(options, argc, argv);
}

// What is known of all kernels, and the files that say it.
struct Book {
  const Options& options;
  const std::vector<Kernel>& kernels;
  std::vector<Share> shares;
  std::map<std::string, Section> sections;
  std::map<std::string, SummaryLine> lines; // of an earlier run's page

  Book(const Options& o, const std::vector<Kernel>& all) : options(o), kernels(all) {
    std::vector<std::map<std::string, std::string>> before;
    if (!o.out_path.empty() && !o.fresh) before.push_back(read_sections(o.out_path));
    for (const std::string& file : o.from) before.push_back(read_sections(file));
    if (!o.fresh) lines = read_summary(o.summary_path);
    for (const Kernel& r : kernels) {
      Share share{r.name, r.work, make_mutants(r.text), {}, {}, {}, {}};
      std::pair<size_t, size_t> most; // judged, killed
      for (const auto& file : before) {
        Section s{r.name, hash_code(r.text), "", {}, {}, {}};
        const auto known = file.find(r.name);
        if (known == file.end() || !read_section(known->second, share.mutants, s)) continue;
        std::pair<size_t, size_t> has;
        for (size_t i = 0; i < s.judged.size(); ++i)
          has.first += s.judged[i], has.second += s.judged[i] && !s.killers[i].empty();
        if (sections.count(r.name) != 0 && has <= most) continue;
        most = has;
        share.told = s.judged;
        sections[r.name] = std::move(s);
      }
      if (auto line = lines.find(r.name); sections.count(r.name) == 0 && line != lines.end()) {
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
    std::vector<std::vector<bool>> judged_here;
    Counts counts{kernels.size(), 0, 0, 0, 0, 0};
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
      judged_here.push_back(std::move(here));
    }
    const SiteCounts sites = count_sites(shares, judged_here);
    counts.different = places.size(), counts.judged = judged.size();
    counts.sites = sites.all, counts.judged_sites = sites.judged;
    std::vector<StandIns> others;
    for (size_t k = 0; k < shares.size(); ++k) {
      const Share& s = shares[k];
      StandIns o{s.kernel, {}, 0, sites.open[k]};
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
      replace_file(options.out_path,
                   table_text(all, texts, missing, kSchedules.size(), kHoldSeeds));
    }
    if (!options.summary_path.empty())
      replace_file(options.summary_path,
                   summary_page(judges, others, counts, kSchedules.size(), kHoldSeeds));
  }
};

} // namespace

int main(int argc, char** argv) {
  Options o;
  read_options(argc, argv, o);
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
                        o.fresh, o.drawn, o.seed);
  }
  Book book(o, kernels);
  const Turns turns = share_out(book.shares, o.all, named);
  if (o.list) {
    size_t count = 0, ahead = 0;
    for (const size_t k : turns.all) {
      const Share& s = book.shares[k];
      if (!o.wanted.empty() && !is_named(o.wanted, s.kernel)) continue;
      for (size_t i = 0; i < s.mutants.size(); ++i) {
        if (!s.here[i]) continue;
        std::cout << s.kernel << ":" << s.mutants[i].line << ": " << s.mutants[i].change << ": "
                  << s.mutants[i].instruction << (s.ahead[i] ? " (ahead)" : "") << "\n";
        ++count, ahead += s.ahead[i];
      }
    }
    std::cout << count << " mutants in " << turns.all.size() << " kernels, " << ahead
              << " of them ahead of the rest in " << turns.ahead.size() << "\n";
    return 0;
  }
  bool clean = true;
  const auto run = [&](size_t k, const std::vector<bool>& wanted, bool again) {
    const Kernel& r = kernels[k];
    const Share& share = book.shares[k];
    const bool known = book.sections.count(r.name) != 0;
    Section section{r.name, hash_code(r.text), "", {}, {}, {}};
    if (known && !o.line) section = book.sections[r.name];
    section.judged.resize(share.mutants.size());
    section.killers.resize(share.mutants.size());
    std::vector<size_t> left;
    for (size_t i = 0; i < share.mutants.size(); ++i) {
      const bool survived = section.judged[i] && section.killers[i].empty() &&
                            equivalent_reason(r.name, share.mutants[i]).empty();
      // The page alone cannot say who killed a mutant.
      const bool lost = share.told[i] && !known && !o.line;
      if (again ? survived : (wanted[i] || lost) && !section.judged[i]) left.push_back(i);
    }
    if (left.empty()) return;
    clean &= run_kernel(r, share.mutants, left, {o.jobs, o.line != 0}, section, [&] {
      if (o.line) return; // a look at one line is no section
      book.sections[r.name] = section;
      book.write();
    });
    if (!o.line) book.sections[r.name] = std::move(section);
  };
  if (!o.survivors && !o.line)
    for (const size_t k : turns.ahead)
      if (o.has(k) && (o.wanted.empty() || is_named(o.wanted, kernels[k].name)))
        run(k, book.shares[k].ahead, false);
  for (const size_t k : turns.all) {
    const Share& share = book.shares[k];
    if (!o.has(k)) continue;
    if (!o.wanted.empty() && !is_named(o.wanted, share.kernel)) continue;
    if (o.survivors && book.sections.count(share.kernel) == 0) continue;
    if (book.is_told(share) && !o.line) continue;
    std::vector<bool> wanted = share.here;
    if (o.line)
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = share.mutants[i].line == o.line;
    run(k, wanted, o.survivors);
  }
  book.write();
  return clean ? 0 : 1;
}
