// build/tests/semantic [--kernels A,B] [--line N] [--out PAGE] [--results FILE] [--fresh]
//                      [--survivors] [--compare] [--rounds N] [--jobs N] [--seed N] [--driver PATH]
//                      [--problems I,J] [--draw N [--draw-seed N]] [--list]
// Runs the semantic mutants of all kernels against the problems of tests/problems. FILE keeps what
// each mutant came to, so that a run that is cut short goes on where it was and kernels that have
// not changed are not run again; PAGE gets the summary, and keeps what it says of kernels whose
// mutants are the same when FILE knows nothing of them. --fresh forgets both for the kernels named;
// --survivors runs again those that nobody killed, --compare only looks for those of them whose
// machine code is the kernel's; --rounds is in how many other kernels with the same text survivors
// are tried; --draw judges N of those left, chosen by a seed of its own, so that the problems stay
// those of `make test`: of all mutants with a new FILE, no PAGE and --fresh.
#include "runtime/src/images.hpp"
#include "tests/virtual/mutation/draw.hpp"
#include "tests/virtual/semantic/judge.hpp"
#include "tests/virtual/semantic/page.hpp"
#include "tools/cli/options.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>

using namespace wltest;

namespace {

std::vector<Kernel> all_kernels() {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const warpline::Image& image : warpline::embedded_images())
    texts.emplace_back(image.name, image.text());
  const auto shares = shared_out(texts);
  std::vector<Kernel> kernels;
  for (size_t i = 0; i < texts.size(); ++i)
    kernels.push_back({texts[i].first, texts[i].second, shares[i]});
  return kernels;
}

} // namespace

int main(int argc, char** argv) {
  std::string wanted, out, results_path = "build/mutation/semantic.txt";
  int jobs = 2, line = 0;
  size_t rounds = most_elsewhere, drawn = 0;
  uint64_t draw_seed = 1;
  bool fresh = false, survivors = false, compare = false, list = false;
  JudgeOptions options;
  warpline::cli::Options said("semantic", "The head of tests/virtual/semantic/main.cpp says more.",
                              "");
  said.text("--kernels", "NAME,...", "these alone", wanted);
  said.integer("--line", "mutants of one line, told one by one", line, 1);
  said.text("--out", "PAGE", "gets the summary", out);
  said.text("--results", "FILE", "what each mutant came to (build/mutation/semantic.txt)",
            results_path);
  said.flag("--fresh", "nothing is kept", fresh);
  said.flag("--survivors", "those that nobody killed, again", survivors);
  said.integer("--jobs", "processes at a time (2)", jobs, 1);
  said.integer("--seed", "of the problems (1)", options.seed, 0);
  said.text("--driver", "PATH", "the virtual GPU's library", options.driver);
  said.flag("--compare", "survivors whose machine code is the kernel's", compare);
  said.text("--problems", "I,...", "numbers of problems", options.only);
  said.integer("--rounds", "other kernels of the same text for survivors", rounds, 0);
  said.integer("--draw", "as many of those left", drawn, 1);
  said.integer("--draw-seed", "there (1)", draw_seed, 0);
  said.flag("--list", "mutants, none run", list);
  said.repeated();
  parse(said, argc, argv);
  if (!wanted.empty()) wanted = "," + wanted + ",";
  survivors |= compare;
  options.print = line != 0;
  const std::vector<Kernel> kernels = all_kernels();
  if (list) {
    for (const Kernel& k : kernels)
      for (const SemanticMutant& m : k.mutants)
        std::cout << k.name << ":" << m.line << ": " << m.instruction << ": " << m.change << "\n";
    return 0;
  }
  std::filesystem::create_directories(std::filesystem::absolute(results_path).parent_path());
  Results results(results_path);
  SemanticPage page(out);
  std::map<uint64_t, Elsewhere> elsewhere;
  bool clean = true;
  size_t running = 0;
  const auto settle = [&] {
    int status = 0;
    if (wait(&status) > 0) {
      --running;
      clean &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    results.read();
    page.write(kernels, results, elsewhere);
  };
  const auto judge = [&](const Kernel& k, const std::vector<const SemanticMutant*>& mutants) {
    if (mutants.empty()) return;
    if (running == static_cast<size_t>(jobs)) settle();
    std::cout << k.name << " (" << &k - kernels.data() + 1 << " of " << kernels.size()
              << " kernels): " << mutants.size() << " mutants" << std::endl;
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("no process");
    ++running;
    if (child != 0) return;
    try {
      if (compare) compare_kernel(k, mutants, results);
      _exit(compare || judge_kernel(k, mutants, options, results) ? 0 : 1);
    } catch (const std::exception& e) {
      std::cout << k.name << ": " << e.what() << std::endl;
      _exit(1);
    }
  };
  std::vector<const Kernel*> asked;
  for (const Kernel& k : kernels)
    if (wanted.empty() || wanted.find("," + k.name + ",") != std::string::npos) asked.push_back(&k);
  if (asked.empty()) {
    std::fprintf(stderr, "semantic: no such kernel\n");
    return 2;
  }
  // What nothing noticed, in other kernels with the same text.
  const auto find_elsewhere = [&] {
    std::vector<std::pair<std::string, std::string>> texts;
    for (const Kernel& k : kernels) texts.emplace_back(k.name, k.text);
    std::vector<const SemanticMutant*> silent;
    for (const Kernel& k : kernels)
      for (const SemanticMutant& m : k.mutants)
        if (const std::string* known = results.find(m);
            known != nullptr && known->empty() && no_effect(k.name, m).empty() &&
            equivalent_reason(k.name, m).empty() && line == 0)
          silent.push_back(&m);
    const std::vector<Elsewhere> others = places_elsewhere(texts, silent);
    for (size_t i = 0; i < silent.size(); ++i) elsewhere[silent[i]->key] = others[i];
  };
  std::set<uint64_t> asked_keys;
  for (const Kernel* k : asked)
    for (const SemanticMutant& m : k->mutants) asked_keys.insert(m.key);
  const auto killed_there = [&](const SemanticMutant& m) {
    const auto found = elsewhere.find(m.key);
    return found != elsewhere.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](const auto& place) { return killed(results.find(place.second)); });
  };
  if (survivors) find_elsewhere();
  const auto told = [&](const Kernel& k) { return !fresh && !survivors && !line && page.tells(k); };
  std::vector<std::pair<const Kernel*, const SemanticMutant*>> left;
  for (const Kernel* k : asked)
    for (const SemanticMutant& m : k->mutants) {
      const std::string* known = results.find(m);
      if (!told(*k) && no_effect(k->name, m).empty() &&
          (line != 0   ? m.line == line
           : fresh     ? true
           : survivors ? known != nullptr && known->empty() && !killed_there(m) &&
                             equivalent_reason(k->name, m).empty()
                       : known == nullptr))
        left.emplace_back(k, &m);
    }
  if (drawn != 0) {
    std::cout << drawn << " drawn with seed " << draw_seed << " from " << left.size() << " mutants"
              << std::endl;
    draw(&left, drawn, draw_seed);
  }
  for (const Kernel* k : asked) {
    std::vector<const SemanticMutant*> its;
    for (const auto& [kernel, mutant] : left)
      if (kernel == k) its.push_back(mutant);
    judge(*k, its);
  }
  while (running > 0) settle();
  results.read();
  find_elsewhere();
  for (size_t round = 0; round < rounds && !compare; ++round) {
    std::map<size_t, std::vector<const SemanticMutant*>> by_kernel;
    for (const auto& [key, places] : elsewhere) {
      if (!asked_keys.count(key)) continue;
      const auto told = [&](const auto& place) { return killed(results.find(place.second)); };
      if (round >= places.size() || std::any_of(places.begin(), places.end(), told)) continue;
      const std::string* known = results.find(places[round].second);
      if (known == nullptr || ((fresh || survivors) && known->empty()))
        by_kernel[places[round].first].push_back(&places[round].second);
    }
    for (const auto& [k, mutants] : by_kernel) judge(kernels[k], mutants);
    while (running > 0) settle();
    results.read();
  }
  page.write(kernels, results, elsewhere);
  std::cout << page.told() << "\n";
  return clean ? 0 : 1;
}
