// build/tests/problems [--operation FOLDER] [--config A,B] [--seed N] [--problems N] [--only I]
//                      [--check LIST] [--jobs N] [--list] [--verbose] [--source PTX]
//                      [--schedule S] [--coverage DIRECTORY] [--kernels FILE]
// Runs the problems of all configurations on the virtual GPU, each configuration in a process of
// its own, and says which are wrong: configuration, seed and number make the problem again. A
// process that fails is counted as wrong. The last line counts; the status is 0 when nothing is
// wrong. DIRECTORY gets a file for each configuration with what ran of its kernels; FILE names
// kernels, a line each, and with it only configurations that launch one of them are run.
#include "tests/problems/device.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <string>
#include <vector>

using namespace wltest::problems;

namespace {

struct Options {
  std::string operation, configs, check, source, schedule, coverage, kernels;
  uint64_t seed = 1;
  size_t problems = 0; // 0 = the configuration's list
  long only = -1;
  int jobs = 2;
  bool list = false, verbose = false;
};

struct Task {
  const Operation* operation;
  const Configuration* configuration;
};

// The problems of one configuration, in this process. Number of wrong ones.
int run_all(const Task& task, const Options& o) {
  wl_context* const context = open_device(*task.configuration);
  if (!o.source.empty() && !wltest::set_option("source", o.source)) return 1;
  if (!o.coverage.empty() &&
      !wltest::set_option("coverage", o.coverage + "/" + task.configuration->name + "." +
                                          task.configuration->profile + ".counts"))
    return 1;
  int wrong = 0;
  const size_t count = o.problems != 0 ? o.problems : task.configuration->problems;
  for (size_t i = 0; i < count; ++i) {
    if (o.only >= 0 && i != static_cast<size_t>(o.only)) continue;
    const std::clock_t start = std::clock();
    Problem p = make_problem(*task.operation, *task.configuration, o.seed, i);
    if (!o.check.empty()) p.checks = o.check;
    if (!o.schedule.empty()) p.schedule = o.schedule;
    const std::clock_t made = std::clock();
    const std::string said = run_on_device(context, p);
    const std::clock_t done = std::clock();
    const auto ms = [](std::clock_t d) { return 1e3 * static_cast<double>(d) / CLOCKS_PER_SEC; };
    wrong += !said.empty();
    const bool lost = said.find("vgpu: ") != std::string::npos; // a fault ends the context
    if (!said.empty() || o.verbose)
      std::printf("%s, seed %llu, problem %zu: %s\n  %s\n", task.configuration->name.c_str(),
                  static_cast<unsigned long long>(o.seed), i, p.text.c_str(),
                  said.empty() ? "right" : said.c_str());
    if (o.verbose)
      std::printf("  made in %.0f ms of the processor, run in %.0f ms\n", ms(made - start),
                  ms(done - made));
    std::fflush(stdout);
    if (lost) {
      std::printf("  %zu problems of the configuration are left out\n", count - i - 1);
      break;
    }
  }
  if (!o.coverage.empty()) wltest::set_option("coverage", ""); // writes it
  return wrong;
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
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (a == "--operation")
      o.operation = value();
    else if (a == "--config")
      o.configs = value();
    else if (a == "--seed")
      o.seed = std::strtoull(value().c_str(), nullptr, 0);
    else if (a == "--problems")
      o.problems = std::strtoull(value().c_str(), nullptr, 0);
    else if (a == "--only")
      o.only = std::atol(value().c_str());
    else if (a == "--source")
      o.source = value();
    else if (a == "--schedule")
      o.schedule = value();
    else if (a == "--check")
      o.check = value();
    else if (a == "--coverage")
      o.coverage = value();
    else if (a == "--kernels")
      o.kernels = value();
    else if (a == "--jobs")
      o.jobs = std::max(1, std::atoi(value().c_str()));
    else if (a == "--list")
      o.list = true;
    else if (a == "--verbose")
      o.verbose = true;
    else {
      std::fprintf(stderr, "problems: unknown option %s\n", a.c_str());
      return 2;
    }
  }
  const std::set<std::string> kernels = lines_of(o.kernels);
  const auto launches = [&](const Configuration& c) {
    return o.kernels.empty() ||
           std::any_of(c.kernels.begin(), c.kernels.end(),
                       [&](const std::string& k) { return kernels.count(k) != 0; });
  };
  std::vector<Task> tasks;
  for (const Operation& operation : operations())
    for (const Configuration& c : operation.configurations)
      if (named(o.operation, operation.folder) && named(o.configs, c.name) && launches(c))
        tasks.push_back({&operation, &c});
  if (tasks.empty()) {
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
      for (size_t i = 0; i < task.configuration->problems; ++i)
        std::printf(
            "%s %zu: %s\n", task.configuration->name.c_str(), i,
            make_problem(*task.operation, *task.configuration, o.seed, i, nullptr, Values::none)
                .text.c_str());
    return 0;
  }
  int running = 0, wrong = 0;
  size_t count = 0;
  const auto settle = [&] {
    int status = 0;
    if (wait(&status) < 0) return;
    --running;
    if (WIFSIGNALED(status)) {
      std::printf("a process ended with signal %d\n", WTERMSIG(status));
      ++wrong;
    } else {
      wrong += WEXITSTATUS(status);
    }
  };
  for (const Task& task : tasks) {
    if (running == o.jobs) settle();
    count += o.only >= 0 ? 1 : o.problems != 0 ? o.problems : task.configuration->problems;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) {
      std::perror("problems: fork");
      return 2;
    }
    ++running;
    if (child != 0) continue;
    try {
      _exit(std::min(run_all(task, o), 200));
    } catch (const std::exception& e) {
      std::printf("%s: %s\n", task.configuration->name.c_str(), e.what());
      std::fflush(stdout);
      _exit(1);
    }
  }
  while (running > 0) settle();
  std::printf("%zu problems of %zu configurations, seed %llu: %d wrong\n", count, tasks.size(),
              static_cast<unsigned long long>(o.seed), wrong);
  return wrong != 0;
}
