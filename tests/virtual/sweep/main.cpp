// Every Blackwell configuration of the dual GEMM at the edges of its tiles, stages and clusters:
// each M with each N with each K under `lazy` and two random schedules, so that each M with each N
// meets all eight seeds; batches, gaps between rows and entries, and alpha pointers in turn. Every
// output must have the bits of the replayed epilogue on exact sums. A smaller pass runs on the
// virtual B300.
//
//   build/tests/sweep [--configs A,B] [--draw N] [--seed N] [--jobs N] [--out FILE] [--fresh]
//                     [--sizes N]
// FILE gets the table. Configurations that it says are right, of the text that they have now, are
// not run again, unless --fresh is given or they are named. --draw takes N of those that would be
// run, by the seed. --sizes takes the first N of M, N and K
// alone; FILE, which speaks of all of them, is neither read nor written then.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/images.hpp"
#include "tests/support/dual_gemm_nvfp4_run.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tests/virtual/mutation/draw.hpp"
#include "tests/virtual/mutation/table.hpp"
#include "tools/cli/options.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace wltest;
using warpline::dual_gemm::Config;
using warpline::gemm::Kind;

namespace {

std::vector<int64_t> kM = {1, 127, 128, 129, 255, 256, 257, 300};
std::vector<int64_t> kN = {8, 72, 120, 128, 136, 200, 384};
std::vector<int64_t> kNvfp4N = {64, 128, 192, 320, 384};
// The last one is longer than the stage ring, or than those of both halves that share K, and leaves
// a K step over.
std::vector<int64_t> kK = {64, 192, 256, 2112};
constexpr int64_t kLongSplitK = 3392;
const float kScales[] = {1, 0.25f, 3, 0.0078125f}; // of D in NVFP4

struct Tally {
  int64_t cases = 0, outputs = 0, wrong = 0, unequal = 0, guards = 0, failed = 0;
  bool clean() const { return cases > 0 && wrong + unequal + guards + failed == 0; }
};
struct Pass {
  const char* profile;
  bool full; // each M, N with every K and three schedules; else with one K and two schedules
  std::map<std::string, Tally> tallies;
  std::vector<std::string> failures;
};

struct Place { // in the lists
  size_t m, n, k;
};

int64_t k_of(const Config& config, size_t index) {
  return index == 3 && config.split_k == 2 ? kLongSplitK : kK[index];
}

// One problem of the configurations that make `type` of the same types of operands with this K,
// under the place's schedules.
void run_problem(wl_context* context, const std::vector<const Config*>& configs, const Place& at,
                 int64_t k, wl_dtype type, Pass& pass) {
  const bool nvfp4 = type == WL_NVFP4;
  DualGemmCase c;
  c.m = kM[at.m];
  c.n = (nvfp4 ? kNvfp4N : kN)[at.n];
  c.k = k;
  c.l = (at.m + 2 * at.n + at.k) % 3 == 0 ? 3 : 1;
  c.seed = 7000 + 100 * at.m + 10 * at.n + at.k;
  c.out = type == WL_BF16 ? OutputType::bf16 : OutputType::f16;
  c.config = configs.front()->name;
  const Problem p = problem_of(c);
  const Sums sums = accumulate(p);
  const float d_scale = kScales[(at.m + at.n) % 4];
  const Operand expected =
      nvfp4 ? quantized_replayed(sums, p.alpha1, p.alpha2, d_scale) : Operand{};

  const size_t turn = (at.m + at.n + at.k) % 4;
  std::vector<std::string> schedules = {"lazy", "random:" + std::to_string(1 + turn)};
  if (pass.full) schedules.push_back("random:" + std::to_string(5 + turn));
  size_t i = at.m + 3 * at.n + at.k;
  for (const Config* config : configs)
    for (const std::string& schedule : schedules) {
      Tally& tally = pass.tallies[config->name];
      const Tally before = tally;
      ++tally.cases;
      set_schedule(schedule);
      c.config = config->name;
      std::string message;
      if (nvfp4) {
        const Nvfp4Result r = run_dual_gemm_nvfp4(context, p, d_scale, config->name);
        message = r.message;
        tally.failed += r.status != WL_SUCCESS;
        tally.guards += r.status == WL_SUCCESS && !r.guards_intact;
        if (r.status == WL_SUCCESS) tally.outputs += p.l * p.m * p.n;
        for (size_t j = 0; j < r.d.values.size(); ++j)
          tally.unequal += r.d.values[j] != expected.values[j];
        for (size_t j = 0; j < r.d.scales.size(); ++j)
          tally.unequal += r.d.scales[j] != expected.scales[j];
      } else {
        c.ldd = i % 2 == 0 ? 0 : c.n + (i % 4 == 1 ? 8 : 16); // rows on 16 bytes, or on 32
        c.entry_gap = i % 3 == 0 ? 40 : 0;
        c.alphas = i % 5 == 0;
        ++i;
        const DualGemmResult r = run_dual_gemm(context, c, p, sums);
        message = r.message;
        tally.failed += r.status != WL_SUCCESS;
        tally.guards += r.status == WL_SUCCESS && !r.guards_intact;
        tally.outputs += r.bound.count;
        tally.wrong += r.bound.bad;
        tally.unequal += r.exact.unequal;
      }
      if (tally.wrong + tally.unequal + tally.guards + tally.failed >
          before.wrong + before.unequal + before.guards + before.failed)
        pass.failures.push_back(std::string(pass.profile) + ", " + schedule + ": " + describe(c) +
                                (message.empty() ? "" : ": " + message));
    }
}

// INT8 is of the B200 alone.
bool runs_on(const Config& config, const std::string& profile) {
  return config.kind != Kind::i8 || profile != "b300";
}

// In a process of its own: a process holds one profile.
void run_pass(const std::vector<const Config*>& configs, Pass& pass) {
  setenv("WARPLINE_DRIVER", ("virtual:" + std::string(pass.profile)).c_str(), 1);
  wl_context* context = nullptr;
  if (wl_context_create(0, &context) != WL_SUCCESS) {
    pass.failures.push_back(wl_last_error());
    return;
  }
  for (wl_dtype type : {WL_F16, WL_BF16, WL_NVFP4})
    for (Place at{0, 0, 0}; at.m < kM.size(); ++at.m)
      for (at.n = 0; at.n < (type == WL_NVFP4 ? kNvfp4N : kN).size(); ++at.n)
        for (at.k = 0; at.k < kK.size(); ++at.k) {
          if (!pass.full && at.k != (at.m + at.n) % kK.size()) continue;
          std::map<std::pair<int64_t, Kind>, std::vector<const Config*>> alike;
          for (const Config* config : configs)
            if (config->d_type == type && runs_on(*config, pass.profile))
              alike[{k_of(*config, at.k), config->kind}].push_back(config);
          for (const auto& [key, those] : alike)
            run_problem(context, those, at, key.first, type, pass);
        }
  wl_context_destroy(context);
}

void write_pass(const Pass& pass, std::ostream& out) {
  for (const auto& [config, t] : pass.tallies)
    out << config << ' ' << t.cases << ' ' << t.outputs << ' ' << t.wrong << ' ' << t.unequal << ' '
        << t.guards << ' ' << t.failed << '\n';
  for (std::string failure : pass.failures) {
    for (char& ch : failure)
      if (ch == '\n') ch = ' ';
    out << "! " << failure << '\n';
  }
}

void read_pass(const std::string& text, Pass& pass) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("! ", 0) == 0) {
      pass.failures.push_back(line.substr(2));
      continue;
    }
    std::istringstream words(line);
    std::string config;
    Tally t;
    if (words >> config >> t.cases >> t.outputs >> t.wrong >> t.unequal >> t.guards >> t.failed)
      pass.tallies[config] = t;
  }
}

// `jobs` processes at once, each with every jobs-th configuration.
void run_in_children(const std::vector<const Config*>& configs, size_t jobs, Pass& pass) {
  std::vector<std::pair<pid_t, FILE*>> children;
  for (size_t job = 0; job < jobs; ++job) {
    std::vector<const Config*> mine;
    for (size_t i = job; i < configs.size(); i += jobs) mine.push_back(configs[i]);
    FILE* file = std::tmpfile();
    const pid_t pid = fork();
    if (pid == 0) {
      run_pass(mine, pass);
      std::ostringstream text;
      write_pass(pass, text);
      std::fputs(text.str().c_str(), file);
      std::fflush(file);
      _exit(0);
    }
    children.emplace_back(pid, file);
  }
  for (const auto& [pid, file] : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0)
      pass.failures.push_back(std::string(pass.profile) + ": a process ended with status " +
                              std::to_string(status));
    std::rewind(file);
    std::string text;
    char part[4096];
    for (size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, got);
    std::fclose(file);
    read_pass(text, pass);
  }
}

// The right configurations of an earlier table, by name, where the text is the present one.
struct Known {
  Tally b200, b300;
};
std::string text_hash(const Config& config) { return hash_code(config.image().text()).substr(5); }
std::map<std::string, Known> read_table(const std::string& path,
                                        const std::vector<const Config*>& configs) {
  std::map<std::string, std::string> texts;
  for (const Config* config : configs) texts[config->name] = text_hash(*config);
  std::map<std::string, Known> known;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    for (char& ch : line)
      if (ch == '|') ch = ' ';
    std::istringstream cells(line);
    std::string name, text;
    Known k;
    int64_t unequal = -1, wrong = -1, guards = -1, failed = -1;
    if (cells >> name >> text >> k.b200.cases >> k.b200.outputs >> k.b300.cases >> k.b300.outputs >>
            unequal >> wrong >> guards >> failed &&
        texts.count(name) != 0 && texts[name] == text && unequal == 0 && wrong == 0 &&
        guards == 0 && failed == 0)
      known[name] = k;
  }
  return known;
}

std::string list(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

// The table; whether everything is right.
bool report(const std::vector<const Config*>& configs, const Pass& b200, const Pass& b300,
            const std::string& run, std::ostream& out) {
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  out << "# Every Blackwell configuration of the dual GEMM at its edges\n\nWritten by `make "
         "sweep`, on the virtual GPU only. The last run: "
      << run << ", " << date
      << ".\nA configuration keeps its result while its PTX is the same.\n\nM " << list(kM)
      << "; N " << list(kN) << " (NVFP4: " << list(kNvfp4N) << "); K " << list(kK) << " ("
      << kLongSplitK
      << " where K is split); L 1 and 3; rows of D without and\nwith gaps of 8 and 16 elements, "
         "entries with gaps of 40. On B200 every M with every N with every K under `lazy` and two "
         "of the\nseeds 1 to 8, so that every M with every N meets all eight; on B300 every M with "
         "every N, one K, `lazy` and one seed; INT8 is not B300's.\nInputs whose sums FP32 holds "
         "exactly: every output "
         "must have the bits of the replayed epilogue. *text*: hash of the PTX.\n\n"
      << "| configuration | text | B200 cases | outputs | B300 cases | outputs | other bits | "
         "outside the "
         "bound | guards broken | did not run |\n|---|---|---|---|---|---|---|---|---|---|\n";
  bool clean = b200.failures.empty() && b300.failures.empty();
  Tally sum;
  std::vector<std::string> missing;
  for (const Config* config : configs) {
    const auto found = [&](const Pass& pass) {
      const auto at = pass.tallies.find(config->name);
      return at == pass.tallies.end() ? Tally{} : at->second;
    };
    const Tally x = found(b200), y = found(b300);
    if (x.cases + y.cases == 0) {
      missing.push_back(config->name);
      continue;
    }
    clean = clean && x.clean() && (y.clean() || !runs_on(*config, b300.profile));
    sum.cases += x.cases + y.cases;
    sum.outputs += x.outputs + y.outputs;
    out << "| " << config->name << " | " << text_hash(*config) << " | " << x.cases << " | "
        << x.outputs << " | " << y.cases << " | " << y.outputs << " | " << x.unequal + y.unequal
        << " | " << x.wrong + y.wrong << " | " << x.guards + y.guards << " | "
        << x.failed + y.failed << " |\n";
  }
  out << "\n"
      << configs.size() - missing.size() << " configurations, " << sum.cases << " cases, "
      << sum.outputs << " outputs: " << (clean ? "all right, bit for bit." : "not all right.")
      << "\n";
  if (!missing.empty())
    out << "\nNot run with their present text: " << joined_names(missing) << ".\n";
  size_t shown = 0;
  for (const Pass* pass : {&b200, &b300})
    for (const std::string& failure : pass->failures)
      if (++shown <= 40) out << "\n- " << failure << "\n";
  return clean;
}

} // namespace

int main(int argc, char** argv) {
  std::string wanted, out_path;
  size_t jobs = 1, sizes = 0, drawn = 0;
  uint64_t seed = 1;
  bool fresh = false;
  warpline::cli::Options options("sweep", "The head of tests/virtual/sweep/main.cpp says more.",
                                 "");
  options.text("--configs", "NAME,...", "these alone", wanted);
  options.integer("--draw", "N configurations", drawn, 1);
  options.integer("--seed", "there (1)", seed, 0);
  options.integer("--jobs", "processes at a time (1)", jobs, 1);
  options.text("--out", "FILE", "the page", out_path);
  options.flag("--fresh", "nothing is kept", fresh);
  options.integer("--sizes", "the first N of M, of N and of K", sizes, 1);
  options.repeated();
  parse(options, argc, argv);
  if (sizes != 0) {
    out_path.clear();
    for (std::vector<int64_t>* list : {&kM, &kN, &kNvfp4N, &kK})
      list->resize(std::min(list->size(), sizes));
  }
  std::vector<const Config*> all, chosen; // those to run
  for (const Config& config : warpline::dual_gemm::configs())
    if (config.blackwell()) all.push_back(&config);
  std::map<std::string, Known> known;
  if (!out_path.empty() && !fresh) known = read_table(out_path, all);
  Pass b200{"b200", true, {}, {}}, b300{"b300", false, {}, {}};
  for (const Config* config : all) {
    const bool named =
        ("," + wanted + ",").find("," + std::string(config->name) + ",") != std::string::npos;
    if (named || (wanted.empty() && known.count(config->name) == 0)) {
      chosen.push_back(config);
    } else if (known.count(config->name) != 0) {
      b200.tallies[config->name] = known[config->name].b200;
      b300.tallies[config->name] = known[config->name].b300;
    }
  }
  if (chosen.empty() && !wanted.empty()) {
    std::fprintf(stderr, "sweep: no such configuration\n");
    return 2;
  }
  const size_t open = chosen.size();
  if (drawn != 0) draw(&chosen, drawn, seed);
  if (!chosen.empty()) {
    run_in_children(chosen, jobs, b200);
    run_in_children(chosen, jobs, b300);
  }
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const std::string run =
      std::to_string(chosen.size()) + " configurations " +
      (drawn != 0
           ? "drawn with seed " + std::to_string(seed) + " from " + std::to_string(open) + " "
           : "") +
      "in " + std::to_string((used.ru_utime.tv_sec + used.ru_stime.tv_sec + 30) / 60) +
      " minutes of processor time";
  std::ostringstream text;
  const bool clean = report(out_path.empty() ? chosen : all, b200, b300, run, text);
  if (out_path.empty())
    std::cout << text.str();
  else
    std::ofstream(out_path) << text.str();
  std::cout << (clean ? "sweep: all right" : "sweep: not all right") << std::endl;
  return clean ? 0 : 1;
}
