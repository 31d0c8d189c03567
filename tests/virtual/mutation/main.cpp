// build/tests/mutation [--rows a,b] [--line N] [--out FILE] [--jobs N] [--list]
//                      [--baseline SEEDS] [--check LIST] [--text FILE] [--driver PATH]
// --baseline runs the kernels as they are (or FILE in place of one) and wants silence.
//
// Runs every mutant of every kernel row on the virtual GPU, each in a process of its own, with all
// checkers and advice, under several schedules, and writes a table of what noticed it.
#include "runtime/src/driver.hpp"
#include "runtime/src/images.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/virtual/mutation/mutants.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace wltest;

namespace {

struct Row {
  std::string name, config, profile;
  std::string text;
  DualGemmCase problem;
  int sms = 1;
};

struct Verdict {
  std::string by; // checker/rule, "result", "ptx", "time", "crash"; "" = survived
  std::string schedule;
};

const char* const kNoDriver = "no virtual GPU";
std::string driver_path;

// starve: a role, and consumer warps of every kind, lag behind.
const std::vector<std::string> kSchedules = {"lazy",     "random:1", "eager",    "random:2",
                                             "random:3", "starve:2", "starve:4", "starve:5",
                                             "starve:6", "starve:7", "starve:8"};

bool contains(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

// A problem of a few tiles with an edge in every direction, on a device so small that each cluster
// makes several of them.
Row make_row(const warpline::Image& image) {
  Row r;
  r.name = r.config = image.name;
  r.text = image.text();
  bool sm100 = contains(r.name, "sm100");
  r.profile = sm100 ? "b200" : "h200";
  DualGemmCase& c = r.problem;
  c.seed = 11;
  c.m = contains(r.name, "4x") ? 520 : 300;
  if (!sm100) c.m = contains(r.name, "t256") ? 300 : contains(r.name, "t128") ? 150 : 70;
  // More K tiles than stages, or than scale sets, where one tile has to show it.
  c.k = !sm100                      ? (c.m < 80 ? 5440 : 2240)
        : contains(r.name, "_once") ? 2112
        : contains(r.name, "pair")  ? 1728
                                    : 832;
  // Several column tiles of the cluster.
  bool wide = contains(r.name, "x2_n128") || contains(r.name, "x4_");
  c.n = wide ? 600 : 200;
  c.out = contains(r.name, "bf16") ? OutputType::bf16 : OutputType::f16;
  if (contains(r.name, "decode")) r.config = "dual_gemm_sm90_t16_f16";
  c.config = r.config;
  size_t at = r.name.find('x');
  if (at != std::string::npos && at > 0 && std::isdigit(r.name[at - 1]) &&
      std::isdigit(r.name[at + 1]))
    r.sms = (r.name[at - 1] - '0') * (r.name[at + 1] - '0');
  if (contains(r.name, "pair_n")) r.sms = 2;
  if (!sm100) r.sms = 2;
  return r;
}

// "vgpu: races: order: write of ..." -> "races/order".
std::string checker_of(const std::string& report) {
  size_t a = report.find("vgpu: ");
  if (a == std::string::npos) return "";
  size_t b = report.find(": ", a + 6);
  if (b == std::string::npos) return "";
  std::string checker = report.substr(a + 6, b - a - 6);
  if (checker == "races" || checker == "barriers" || checker == "definedness") {
    size_t c = report.find(": ", b + 2);
    if (c != std::string::npos && c - b < 24) checker += "/" + report.substr(b + 2, c - b - 2);
  }
  return checker;
}

// In a child process. Returns what noticed something wrong, and when.
Verdict judge(const Row& row, const std::string& source, const std::string& check,
              const std::vector<std::string>& schedules, std::string* report_text) {
  // --driver: a copy that nobody rebuilds meanwhile.
  if (driver_path.empty()) {
    setenv("WARPLINE_DRIVER", ("virtual:" + row.profile).c_str(), 1);
  } else {
    setenv("WARPLINE_DRIVER", driver_path.c_str(), 1);
    setenv("VGPU_PROFILE", row.profile.c_str(), 1);
  }
  int devices = 0;
  if (wl_device_count(&devices) != WL_SUCCESS) return {kNoDriver, wl_last_error()};
  using SetOption = int (*)(const char*, const char*);
  using Text = const char* (*)();
  auto set = reinterpret_cast<SetOption>(warpline::driver_symbol("vgpuSetOption"));
  auto report = reinterpret_cast<Text>(warpline::driver_symbol("vgpuReport"));
  auto option = [&](const char* key, const std::string& value) {
    if (set(key, value.c_str()) == 0) return;
    std::fprintf(stderr, "mutation: option %s = %s is refused\n", key, value.c_str());
    _exit(3);
  };
  option("report", "none");
  option("sms", std::to_string(row.sms));
  option("check", check);
  option("threads", "1");
  option("instruction_limit", "4000000");
  if (!source.empty()) option("source", source);
  wl_context* context = nullptr;
  if (wl_context_create(0, &context) != WL_SUCCESS) return {kNoDriver, wl_last_error()};
  for (const std::string& schedule : schedules) {
    option("schedule", schedule);
    DualGemmResult r = run_dual_gemm(context, row.problem);
    *report_text = report();
    if (r.status != WL_SUCCESS) {
      std::string by = checker_of(*report_text);
      if (by.empty()) {
        *report_text = r.message;
        by = "ptx";
      }
      return {by, schedule};
    }
    if (!r.guards_intact || !r.bound.passed() || r.exact.unequal != 0) return {"result", schedule};
  }
  return {};
}

struct Child {
  pid_t pid = 0;
  int pipe = -1;
  size_t index = 0;
  std::string output;
  std::chrono::steady_clock::time_point start;
};

Child start(const Row& row, const std::string& text, const std::string& check,
            const std::vector<std::string>& schedules, size_t index) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::cout.flush();
  Child c;
  c.index = index;
  c.pipe = ends[0];
  c.start = std::chrono::steady_clock::now();
  c.pid = fork();
  if (c.pid == 0) {
    close(ends[0]);
    alarm(900); // the instruction limit ends endless loops long before
    std::string path;
    if (!text.empty()) {
      path = "/tmp/warpline_mutant_" + std::to_string(getpid()) + ".ptx";
      std::ofstream(path) << text;
    }
    std::string report;
    Verdict v = judge(row, path, check, schedules, &report);
    if (!path.empty()) unlink(path.c_str());
    std::string line = v.by + "\n" + v.schedule + "\n" + report;
    for (size_t done = 0; done < line.size();) {
      ssize_t n = write(ends[1], line.data() + done, line.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  return c;
}

struct Outcome {
  Verdict verdict;
  std::string report;
};

Outcome finish(Child& c) {
  char buffer[4096];
  while (ssize_t n = read(c.pipe, buffer, sizeof buffer)) {
    if (n < 0) break;
    c.output.append(buffer, static_cast<size_t>(n));
  }
  close(c.pipe);
  int status = 0;
  waitpid(c.pid, &status, 0);
  unlink(("/tmp/warpline_mutant_" + std::to_string(c.pid) + ".ptx").c_str());
  Outcome o;
  if (WIFSIGNALED(status)) {
    o.verdict.by = WTERMSIG(status) == SIGALRM ? "time" : "crash";
    return o;
  }
  size_t a = c.output.find('\n'), b = a == std::string::npos ? a : c.output.find('\n', a + 1);
  if (b == std::string::npos) {
    o.verdict.by = "crash";
    return o;
  }
  o.verdict.by = c.output.substr(0, a);
  o.verdict.schedule = c.output.substr(a + 1, b - a - 1);
  o.report = c.output.substr(b + 1);
  if (o.verdict.by == kNoDriver) { // says nothing about the mutant
    std::fprintf(stderr, "mutation: %s\n", o.verdict.schedule.c_str());
    std::exit(2);
  }
  return o;
}

std::string cell(std::string s) {
  if (s.size() > 96) s = s.substr(0, 93) + "...";
  for (size_t at = 0; (at = s.find('|', at)) != std::string::npos; at += 2) s.insert(at, "\\");
  return s;
}

struct Totals {
  int killed = 0, survived = 0, equivalent = 0;
  std::map<std::string, int> by;
};

// The table of one row; false when the kernel itself is not clean.
bool run_row(const Row& row, unsigned jobs, int line, std::ostream& out, Totals& all) {
  std::string check = "all,advice";
  Child base = start(row, "", check, kSchedules, 0);
  Outcome clean = finish(base);
  if (!clean.verdict.by.empty()) {
    std::string first = clean.verdict.by;
    check = "all";
    Child again = start(row, "", check, kSchedules, 0);
    clean = finish(again);
    if (!clean.verdict.by.empty()) {
      out << "\n## " << row.name << "\n\nThe kernel itself is reported by " << clean.verdict.by
          << " (schedule " << clean.verdict.schedule << "); no mutants were run.\n\n```\n"
          << clean.report << "```\n";
      std::cout << row.name << ": not clean: " << clean.verdict.by << "\n" << clean.report << "\n";
      return false;
    }
    out << "\nAdvice against " << row.name << " itself: " << first << "; it runs without advice.\n";
  }
  std::vector<Mutant> mutants = make_mutants(row.text);
  if (line) std::erase_if(mutants, [&](const Mutant& m) { return m.line != line; });
  std::vector<Outcome> outcomes(mutants.size());
  std::vector<Child> running;
  for (size_t next = 0; next < mutants.size() || !running.empty();) {
    while (next < mutants.size() && running.size() < jobs) {
      running.push_back(start(row, mutants[next].text, check, kSchedules, next));
      ++next;
    }
    outcomes[running.front().index] = finish(running.front());
    running.erase(running.begin());
  }
  Totals t;
  std::ostringstream table;
  for (size_t i = 0; i < mutants.size(); ++i) {
    const Mutant& m = mutants[i];
    const Verdict& v = outcomes[i].verdict;
    if (line) std::cout << m.change << ": " << v.by << "\n" << outcomes[i].report << "\n";
    std::string verdict;
    if (!v.by.empty()) {
      verdict = v.by + (v.schedule.empty() ? "" : " (" + v.schedule + ")");
      ++t.killed;
      ++t.by[v.by];
    } else if (std::string why = equivalent_reason(row.name, m); !why.empty()) {
      verdict = "equivalent: " + why;
      ++t.equivalent;
    } else {
      verdict = "**survived**";
      ++t.survived;
    }
    table << "| " << m.line << " | " << cell(m.label) << " | `" << cell(m.instruction) << "` | "
          << m.change << " | " << verdict << " |\n";
  }
  int judged = t.killed + t.survived;
  std::cout << row.name << ": " << t.killed << " of " << judged << " killed, " << t.survived
            << " survived, " << t.equivalent << " equivalent\n";
  out << "\n## " << row.name << "\n\n"
      << t.killed << " of " << judged << " mutants killed, " << t.survived << " survived, "
      << t.equivalent << " equivalent.\n\n| line | after | instruction | change | killed by |\n"
      << "|---|---|---|---|---|\n"
      << table.str();
  all.killed += t.killed;
  all.survived += t.survived;
  all.equivalent += t.equivalent;
  for (const auto& [by, n] : t.by) all.by[by] += n;
  return true;
}

std::string table_text(const Totals& all, const std::string& body) {
  std::ostringstream text;
  int judged = all.killed + all.survived;
  text << "# Mutants of the shipped kernels\n\n"
       << "Written by `make mutation`: every synchronising instruction of a kernel is deleted or "
          "bent, one at a time,\nand the mutant runs on the virtual GPU with all checkers and "
          "advice, under "
       << kSchedules.size()
       << " schedules. *result*: no checker spoke, but D was wrong.\nEverything here ran on the "
          "virtual GPU only.\n\n"
       << "**" << all.killed << " of " << judged << " killed ("
       << (judged ? all.killed * 1000 / judged / 10.0 : 0) << " %), " << all.survived
       << " survived, " << all.equivalent
       << " equivalent.**\n\n| killed by | mutants |\n|---|---|\n";
  for (const auto& [by, n] : all.by) text << "| " << by << " | " << n << " |\n";
  text << body;
  return text.str();
}

// The unchanged kernels under many seeds: any report is a false alarm.
int run_baseline(const std::vector<Row>& rows, const std::string& text, int seeds, unsigned jobs,
                 const std::string& check) {
  std::vector<std::string> schedules{"eager", "lazy"};
  for (int s = 1; s <= seeds; ++s) schedules.push_back("random:" + std::to_string(s));
  int bad = 0;
  std::vector<Child> running;
  auto settle = [&] {
    Child c = running.front();
    running.erase(running.begin());
    Outcome o = finish(c);
    std::cout << rows[c.index].name << ": "
              << (o.verdict.by.empty()
                      ? "clean"
                      : o.verdict.by + " under " + o.verdict.schedule + "\n" + o.report)
              << std::endl;
    bad += !o.verdict.by.empty();
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (running.size() == jobs) settle();
    running.push_back(start(rows[i], text, check, schedules, i));
  }
  while (!running.empty()) settle();
  std::cout << rows.size() << " kernels, " << schedules.size() << " schedules, " << bad
            << " reported\n";
  return bad != 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string wanted, out_path, text_path, check = "all";
  unsigned jobs = 2;
  bool list = false;
  int seeds = 0, line = 0;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (a == "--rows")
      wanted = "," + value() + ",";
    else if (a == "--out")
      out_path = value();
    else if (a == "--jobs")
      jobs = static_cast<unsigned>(std::max(1, std::atoi(value().c_str())));
    else if (a == "--line")
      line = std::atoi(value().c_str());
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
  std::vector<Row> rows;
  for (const warpline::Image& image : warpline::embedded_images()) {
    if (!wanted.empty() && !contains(wanted, ("," + image.name + ",").c_str())) continue;
    // The test problem has no FP4 output to compare with.
    if (contains(image.name, "nvfp4")) {
      std::cout << image.name << ": not run, the test problem has no NVFP4 output\n";
      continue;
    }
    rows.push_back(make_row(image));
  }
  if (rows.empty()) {
    std::fprintf(stderr, "mutation: no such row\n");
    return 2;
  }
  if (seeds) {
    std::ostringstream text;
    if (!text_path.empty()) text << std::ifstream(text_path).rdbuf();
    return run_baseline(rows, text.str(), seeds, jobs, check);
  }
  if (list) {
    for (const Row& r : rows)
      for (const Mutant& m : make_mutants(r.text))
        std::cout << r.name << ":" << m.line << ": " << m.change << ": " << m.instruction << "\n";
    return 0;
  }
  std::ostringstream body;
  Totals all;
  bool clean = true;
  for (const Row& r : rows) {
    clean &= run_row(r, jobs, line, body, all);
    // After each row, so that a run that is cut short leaves what it found.
    if (!out_path.empty()) std::ofstream(out_path) << table_text(all, body.str());
  }
  int judged = all.killed + all.survived;
  std::cout << all.killed << " of " << judged << " killed, " << all.survived << " survived, "
            << all.equivalent << " equivalent\n";
  return clean ? 0 : 1;
}
