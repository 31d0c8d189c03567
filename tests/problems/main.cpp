// build/tests/problems [--operation FOLDER] [--config A,B] [--seed N] [--problems N] [--only I]
//                      [--check LIST] [--jobs N] [--list] [--verbose] [--source PTX]
//                      [--schedule S] [--coverage DIRECTORY] [--kernels FILE] [--chosen FILE]
//                      [--toward EXPLAINED,STEERING [--seen DIRECTORY,...]]
//                      [--gpu [--limit SECONDS]]
// Runs the problems of all configurations on the virtual GPU, each configuration in a process of
// its own, and says which are wrong: configuration, seed and number make the problem again. A
// process that fails is counted as wrong. The last line counts; the status is 0 when nothing is
// wrong. DIRECTORY gets a file for each configuration with what ran of its kernels; FILE names
// kernels, a line each, and with it only configurations that launch one of them are run.
// --chosen runs the problems of FILE: lines "configuration, profile, seed, numbers". --toward draws
// them: of each configuration what is likely to take ways of its kernel's branches that are neither
// explained nor taken by what ran before (--seen), as long as there are any and at most --problems.
// It adds them to the file, and passes over configurations that DIRECTORY has counts of, of the
// same text, so that a run goes on where it was cut off. --gpu runs problems on the GPU of this
// machine: of what can be judged there (is_of_gpu), bit for bit but for exponentials. There a
// process opens the GPU once, takes configurations in turn, and has SECONDS (300) for each, so that
// one that hangs is named and another process goes on.
#include "runtime/src/context.hpp"
#include "tests/problems/device.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tests/virtual/coverage/toward.hpp"
#include "tools/cli/options.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace wltest::problems;

namespace {

struct Options {
  std::string operation, configs, check, source, schedule, coverage, kernels, chosen, toward, seen;
  uint64_t seed = 1;
  size_t problems = 0; // 0 = the configuration's list
  long only = -1;
  int jobs = 2;
  unsigned limit = 300; // seconds of a configuration on a GPU
  bool list = false, verbose = false, gpu = false;
};

struct Task {
  const Operation* operation;
  const Configuration* configuration;
};

// By configuration and profile: seeds and numbers of problems.
using Chosen = std::map<std::string, std::vector<std::pair<uint64_t, size_t>>>;

std::string key_of(const Configuration& c) { return c.name + " " + c.profile; }

Chosen read_chosen(const std::string& path) {
  Chosen chosen;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, profile;
    uint64_t seed = 0;
    if (line.empty() || line[0] == '#' || !(words >> name >> profile >> seed)) continue;
    for (size_t number = 0; words >> number;)
      chosen[name + " " + profile].emplace_back(seed, number);
  }
  return chosen;
}

// One problem: whether it is wrong, and whether that ends the context.
struct Verdict {
  bool wrong, lost;
};
Verdict run_one(const Task& task, const Options& o, wl_context* context, uint64_t seed, size_t i) {
  const std::clock_t start = std::clock();
  Problem p = make_problem(*task.operation, *task.configuration, seed, i);
  if (!o.check.empty()) p.checks = o.check;
  if (!o.schedule.empty()) p.schedule = o.schedule;
  const std::clock_t made = std::clock();
  const std::string said = run_on_device(context, p);
  const std::clock_t done = std::clock();
  const auto ms = [](std::clock_t d) { return 1e3 * static_cast<double>(d) / CLOCKS_PER_SEC; };
  if (!said.empty() || o.verbose)
    std::printf("%s, seed %llu, problem %zu: %s\n  %s\n", task.configuration->name.c_str(),
                static_cast<unsigned long long>(seed), i, p.text.c_str(),
                said.empty() ? "right" : said.c_str());
  if (o.verbose)
    std::printf("  made in %.0f ms of the processor, run in %.0f ms\n", ms(made - start),
                ms(done - made));
  std::fflush(stdout);
  const bool lost = said.find("vgpu: ") != std::string::npos ||
                    (!said.empty() && wl_stream_synchronize(context, nullptr) != WL_SUCCESS);
  return {!said.empty(), lost};
}

// Ten times the compute capability of the GPU of this machine; asked in a process of its own, as no
// child of one that has opened the driver can use it. Ends this process where there is none.
int compute_capability() {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    try {
      const warpline::DeviceLimits& limits = open_gpu()->limits;
      _exit(10 * limits.compute_major + limits.compute_minor);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "problems: --gpu: %s\n", e.what());
      _exit(0);
    }
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
    std::exit(2);
  return WEXITSTATUS(status);
}

// About the seconds that a problem takes.
double cost(const Configuration& c, const wltest::coverage::Choices& choices) {
  const auto size = [&](const char* name, int64_t piece) {
    const auto found = choices.find(name);
    const int64_t is = found == choices.end() ? 1 : std::atoll(found->second.begin()->c_str());
    return static_cast<double>((is + piece - 1) / piece * piece);
  };
  return 0.3 + size("m", c.rows) * size("n", c.columns) * size("k", c.tile_k) * size("l", 1) / 5e7;
}

// Draws problems by need (--toward). Number of wrong ones.
int run_toward(const Task& task, const Options& o, wl_context* context) {
  namespace coverage = wltest::coverage;
  const Configuration& c = *task.configuration;
  const std::string name = c.name + "." + c.profile + ".counts";
  const std::string whole = o.coverage + "/" + name, growing = o.coverage + "/." + name;
  const size_t comma = o.toward.find(',');
  if (comma == std::string::npos) throw std::runtime_error("--toward EXPLAINED,STEERING");
  // Kernels that many configurations launch are not each one's need.
  const bool own = std::find(c.kernels.begin(), c.kernels.end(), c.name) != c.kernels.end();
  const auto need_of_kernels = [&] {
    return coverage::Need(own ? std::vector<std::string>{c.name} : c.kernels,
                          o.toward.substr(0, comma), o.toward.substr(comma + 1));
  };
  if (std::filesystem::exists(whole)) { // of a run before, of the present text?
    coverage::Need before = need_of_kernels();
    coverage::Coverage ran;
    coverage::add_counts(o.coverage, name, &ran);
    before.look(ran);
    if (before.knows()) return 0;
  }
  coverage::Need need = need_of_kernels();
  const auto look = [&](const std::string& beginning) {
    coverage::Coverage ran;
    std::istringstream directories(o.seen);
    for (std::string directory; std::getline(directories, directory, ',');)
      coverage::add_counts(directory, c.name + "." + c.profile, &ran);
    coverage::add_counts(o.coverage, beginning, &ran);
    return need.look(ran);
  };
  std::filesystem::remove(growing);
  size_t left = look("." + name);
  const size_t limit = o.problems != 0 ? o.problems : 12;
  constexpr size_t candidates = 300;
  constexpr double too_little = 0.03;
  std::vector<coverage::Choices> choices(candidates);
  for (size_t i = 0; i < candidates; ++i)
    make_problem(*task.operation, c, o.seed, i, &choices[i], Values::none);
  std::set<size_t> ran;
  std::string useful;
  int wrong = 0;
  const size_t at_first = left;
  // Of a kernel that never ran nothing is known yet: any problem will do.
  const bool unknown = !need.knows();
  for (bool lost = false; !lost && ran.size() < limit && (left != 0 || (unknown && ran.empty()));) {
    size_t best = candidates;
    double most = 0;
    for (size_t i = 0; i < candidates; ++i) {
      const double worth = unknown && ran.empty() ? 1 : need.worth(choices[i]);
      // Large problems have their turn behind many small ones.
      const double value = worth / std::sqrt(cost(c, choices[i]));
      if (worth < too_little || value <= most || ran.count(i) != 0) continue;
      most = value, best = i;
    }
    if (best == candidates) break;
    const Verdict verdict = run_one(task, o, context, o.seed, best);
    ran.insert(best);
    wrong += verdict.wrong;
    lost = verdict.lost;
    wltest::set_option("coverage", growing); // writes what there is
    need.tried(choices[best]);
    const size_t still = look("." + name);
    if (still < left || (unknown && useful.empty())) useful += " " + std::to_string(best);
    left = still;
  }
  std::printf("%s: %zu ways left, %zu problems, %zu left now\n", c.name.c_str(), at_first,
              ran.size(), left);
  std::fflush(stdout);
  wltest::set_option("coverage", "");
  if (std::filesystem::exists(growing))
    std::filesystem::rename(growing, whole);
  else
    std::ofstream(whole) << coverage::Coverage().counts();
  if (!useful.empty() && !o.chosen.empty()) {
    std::ofstream out(o.chosen, std::ios::app);
    out << key_of(c) + " " + std::to_string(o.seed) + useful + "\n";
  }
  return wrong;
}

// Of several problems: how many are wrong, and whether one of them ended the context.
struct Verdicts {
  int wrong;
  bool lost;
};
Verdicts run_all(const Task& task, const Options& o, const Chosen& chosen, wl_context* context) {
  if (!o.source.empty() && !wltest::set_option("source", o.source)) return {1, false};
  const std::string counts =
      task.configuration->name + "." + task.configuration->profile + ".counts";
  if (!o.coverage.empty() &&
      !wltest::set_option("coverage", o.coverage + (o.toward.empty() ? "/" : "/.") + counts))
    return {1, false};
  if (!o.toward.empty()) return {run_toward(task, o, context), false};
  std::vector<std::pair<uint64_t, size_t>> problems;
  const std::vector<size_t> list = o.only >= 0       ? std::vector{static_cast<size_t>(o.only)}
                                   : o.problems != 0 ? first_problems(o.problems)
                                                     : task.configuration->problems;
  if (const auto own = chosen.find(key_of(*task.configuration)); own != chosen.end())
    problems = own->second;
  else
    for (const size_t i : list) problems.emplace_back(o.seed, i);
  Verdicts all{0, false};
  for (size_t i = 0; i < problems.size() && !all.lost; ++i) {
    const Verdict verdict = run_one(task, o, context, problems[i].first, problems[i].second);
    all.wrong += verdict.wrong;
    all.lost = verdict.lost;
    if (all.lost)
      std::printf("  %zu problems of the configuration are left out\n", problems.size() - i - 1);
  }
  if (!o.coverage.empty()) wltest::set_option("coverage", ""); // writes it
  return all;
}

// A number that this process and those that it forks have in common.
std::atomic<size_t>& common_number() {
  void* const place = mmap(nullptr, sizeof(std::atomic<size_t>), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::runtime_error("mmap failed");
  return *new (place) std::atomic<size_t>(0);
}

struct Progress {
  std::atomic<size_t>& next = common_number();  // task that no process has taken
  std::atomic<size_t>& wrong = common_number(); // problems
  std::vector<std::atomic<size_t>*> at;         // each process's task
};

// Takes tasks in turn: of the virtual GPU one, for which its device is made, of a GPU all, unless
// one ends the context.
void work(const std::vector<Task>& tasks, const Options& o, const Chosen& chosen,
          Progress& progress, size_t process) {
  wl_context* context = nullptr;
  for (size_t i = 0; (i = progress.next++) < tasks.size();) {
    const Task& task = tasks[i];
    *progress.at[process] = i;
    try {
      if (o.gpu) alarm(o.limit);
      if (context == nullptr) context = o.gpu ? open_gpu() : open_device(*task.configuration);
      const Verdicts verdicts = run_all(task, o, chosen, context);
      progress.wrong += static_cast<size_t>(verdicts.wrong);
      if (!o.gpu || verdicts.lost) return;
    } catch (const std::exception& e) {
      std::printf("%s: %s\n", task.configuration->name.c_str(), e.what());
      std::fflush(stdout);
      ++progress.wrong;
      return;
    }
  }
}

std::set<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

bool named(const std::string& list, const std::string& name) {
  return list.empty() || ("," + list + ",").find("," + name + ",") != std::string::npos;
}

} // namespace

int main(int argc, char** argv) {
  Options o;
  warpline::cli::Options options("problems", "The head of tests/problems/main.cpp says more.", "");
  options.text("--operation", "FOLDER", "of kernels/", o.operation);
  options.text("--config", "NAME,...", "configurations", o.configs);
  options.integer("--seed", "of the problems (1)", o.seed, 0);
  options.integer("--problems", "the first N instead of a configuration's list", o.problems, 1);
  options.integer("--only", "one problem", o.only, 0);
  options.text("--source", "PTX", "in the place of the kernel's", o.source);
  options.text("--schedule", "S", "of the virtual GPU", o.schedule);
  options.text("--check", "LIST", "checkers", o.check);
  options.text("--coverage", "DIRECTORY", "gets what ran", o.coverage);
  options.text("--kernels", "FILE", "of kernels that are to run", o.kernels);
  options.text("--chosen", "FILE", "of problems", o.chosen);
  options.text("--toward", "EXPLAINED,STEERING", "draws problems by need", o.toward);
  options.text("--seen", "DIRECTORY,...", "there, what ran before", o.seen);
  options.integer("--jobs", "processes at a time (2)", o.jobs, 1);
  options.flag("--list", "problems, none run", o.list);
  options.flag("--verbose", "each problem and its times", o.verbose);
  options.flag("--gpu", "on the GPU of this machine", o.gpu);
  options.integer("--limit", "there, seconds of a configuration (300)", o.limit, 1);
  options.repeated();
  parse(options, argc, argv);
  const std::set<std::string> kernels = lines_of(o.kernels);
  const auto launches = [&](const Configuration& c) {
    return o.kernels.empty() ||
           std::any_of(c.kernels.begin(), c.kernels.end(),
                       [&](const std::string& k) { return kernels.count(k) != 0; });
  };
  // With --toward the file is written, not read.
  const Chosen chosen = o.toward.empty() ? read_chosen(o.chosen) : Chosen();
  const auto wanted = [&](const Configuration& c) {
    return o.chosen.empty() || !o.toward.empty() || chosen.count(key_of(c)) != 0;
  };
  if (o.gpu && !(o.source + o.schedule + o.check + o.coverage + o.toward).empty()) {
    std::fprintf(stderr, "problems: --gpu goes with none of --source, --schedule, --check, "
                         "--coverage and --toward, which are the virtual GPU's\n");
    return 2;
  }
  const int capability = o.gpu ? compute_capability() : 0;
  std::vector<Task> tasks;
  for (const Operation& operation : operations())
    for (const Configuration& c : operation.configurations)
      if ((!o.gpu || is_of_gpu(operation, c, capability)) && named(o.operation, operation.folder) &&
          named(o.configs, c.name) && launches(c) && wanted(c))
        tasks.push_back({&operation, &c});
  const bool none_chosen = !o.chosen.empty() && o.toward.empty() && chosen.empty();
  if (tasks.empty() && !none_chosen) {
    std::string folders;
    for (const Operation& operation : operations())
      folders += (folders.empty() ? "" : ", ") + operation.folder;
    std::fprintf(stderr,
                 "problems: no such configuration of %s; operations are %s, --list shows "
                 "configurations\n",
                 o.operation.empty() ? "any operation" : o.operation.c_str(), folders.c_str());
    return 2;
  }
  if (o.list) {
    for (const Task& task : tasks)
      for (const size_t i : task.configuration->problems)
        std::printf(
            "%s %zu: %s\n", task.configuration->name.c_str(), i,
            make_problem(*task.operation, *task.configuration, o.seed, i, nullptr, Values::none)
                .text.c_str());
    return 0;
  }
  size_t count = 0;
  for (const Task& task : tasks) {
    const auto own = chosen.find(key_of(*task.configuration));
    count += own != chosen.end() ? own->second.size()
             : o.only >= 0       ? 1
             : o.problems != 0   ? o.problems
                                 : task.configuration->problems.size();
  }
  const size_t processes = std::min(static_cast<size_t>(o.jobs), tasks.size());
  Progress progress;
  for (size_t process = 0; process < processes; ++process) progress.at.push_back(&common_number());
  std::map<pid_t, size_t> running;
  std::fflush(stdout);
  const auto start = [&](size_t process) {
    const pid_t child = fork();
    if (child == 0) {
      work(tasks, o, chosen, progress, process);
      _exit(0);
    }
    if (child < 0) {
      std::perror("problems: fork");
      std::exit(2);
    }
    running[child] = process;
  };
  for (size_t process = 0; process < processes; ++process) start(process);
  while (!running.empty()) {
    int status = 0;
    const auto ended = running.find(wait(&status));
    if (ended == running.end()) continue;
    const size_t process = ended->second;
    running.erase(ended);
    if (WIFSIGNALED(status)) {
      const char* const name = tasks[*progress.at[process]].configuration->name.c_str();
      if (WTERMSIG(status) == SIGALRM)
        std::printf("%s: no end within %u s\n", name, o.limit);
      else
        std::printf("%s: its process ended with signal %d\n", name, WTERMSIG(status));
      std::fflush(stdout);
      ++progress.wrong;
    }
    if (progress.next < tasks.size()) start(process);
  }
  const size_t wrong = progress.wrong;
  if (o.toward.empty())
    std::printf("%zu problems of %zu configurations, seed %llu: %zu wrong\n", count, tasks.size(),
                static_cast<unsigned long long>(o.seed), wrong);
  else
    std::printf("%zu configurations, seed %llu: %zu wrong\n", tasks.size(),
                static_cast<unsigned long long>(o.seed), wrong);
  return wrong != 0;
}
