#include "tests/virtual/semantic/judge.hpp"

#include "tests/problems/device.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tests/virtual/semantic/assemble.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace wltest {

namespace {

using problems::Configuration;
using Clock = std::chrono::steady_clock;

// A problem and what it has told so far.
struct Question {
  problems::Problem problem;
  std::string name;
  double seconds = 0;
  int asked = 1, killed = 1; // as if it had killed one of one, so that each gets its turn
  // Mutants that it kills in a second: those with the most come first.
  double worth() const { return killed / (asked * (seconds + 0.01)); }
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<Question> questions_of(const Kernel& kernel, const JudgeOptions& options,
                                   Configuration* device) {
  std::vector<Question> questions;
  for (const problems::Operation& operation : problems::operations()) {
    std::vector<const Configuration*> users;
    for (const Configuration& c : operation.configurations)
      if (std::find(c.kernels.begin(), c.kernels.end(), kernel.name) != c.kernels.end())
        users.push_back(&c);
    // A kernel of several configurations: those that differ most, one of them with activations that
    // are decoded later where there is one, and no copies for other types.
    if (users.size() > 2) {
      const auto later = [](const Configuration* c) { return c->later; };
      const auto found = std::find_if(users.begin(), users.end(), later);
      const Configuration* const one = found != users.end() ? *found : nullptr;
      users = {users.front(), users[users.size() / 2 - 1]};
      if (one != nullptr && std::none_of(users.begin(), users.end(), later)) users.push_back(one);
    }
    for (const Configuration* c : users) {
      *device = *c;
      for (const size_t i : c->problems) {
        if (!options.only.empty() &&
            ("," + options.only + ",").find("," + std::to_string(i) + ",") == std::string::npos)
          continue;
        Question q;
        q.problem = problems::make_problem(operation, *c, options.seed, i);
        q.name = (users.size() > 1 ? c->name + " " : "") + "problem " + std::to_string(i);
        // What a problem of norm_linear names is its product's, and of moe the gate and up's.
        if (q.problem.config == c->name || operation.folder == "norm_linear" ||
            operation.folder == "moe")
          questions.push_back(std::move(q));
      }
    }
  }
  return questions;
}

// The report's own words, else what differs.
std::string short_form(const std::string& wrong) {
  size_t at = wrong.find("vgpu: ");
  std::string text = at == std::string::npos ? wrong : wrong.substr(at + 6);
  text = text.substr(0, text.find('\n'));
  std::replace(text.begin(), text.end(), '\t', ' ');
  std::replace(text.begin(), text.end(), '|', '/');
  return text.substr(0, 60);
}

// In a child of its own: "N what" of the first problem that tells the mutant, "" when none does.
std::string ask(wl_context* context, std::vector<Question>& questions, const std::string& text,
                unsigned limit_s) {
  const std::string path = "/tmp/warpline_semantic_" + std::to_string(getpid()) + ".ptx";
  std::ofstream(path) << text;
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    alarm(limit_s);
    std::string said = "- refused option source";
    if (set_option("source", path)) {
      said.clear();
      for (size_t i = 0; i < questions.size() && said.empty(); ++i) {
        const std::string wrong = problems::run_on_device(context, questions[i].problem);
        if (!wrong.empty()) said = std::to_string(i) + " " + wrong;
      }
    }
    said = said.substr(0, 4000);
    const ssize_t done = write(ends[1], said.data(), said.size());
    _exit(done == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  unlink(path.c_str());
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "- time" : "- crash";
  return said;
}

} // namespace

Results::Results(std::string path) : path_(std::move(path)) { read(); }

void Results::read() {
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    const size_t a = line.find('\t'), b = line.find('\t', a + 1);
    if (a == std::string::npos || b == std::string::npos) continue;
    known_[std::strtoull(line.c_str(), nullptr, 16)] = line.substr(a + 1, b - a - 1);
  }
}

const std::string* Results::find(const SemanticMutant& mutant) const {
  const auto found = known_.find(mutant.key);
  return found == known_.end() ? nullptr : &found->second;
}

void Results::add(const Kernel& kernel, const SemanticMutant& m, const std::string& verdict) {
  known_[m.key] = verdict;
  char key[20];
  std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(m.key));
  std::ofstream(path_, std::ios::app) << std::string(key) + "\t" + verdict + "\t" + kernel.name +
                                             ":" + std::to_string(m.line) + "\t" + m.label + "\t" +
                                             m.instruction + "\t" + m.change + "\n";
}

void compare_kernel(const Kernel& kernel, const std::vector<const SemanticMutant*>& mutants,
                    Results& results) {
  const std::string code = machine_code(kernel.text);
  if (code.empty()) return;
  for (const SemanticMutant* m : mutants)
    if (machine_code(text_of(*m, kernel.text)) == code) results.add(kernel, *m, same_code);
}

bool judge_kernel(const Kernel& kernel, const std::vector<const SemanticMutant*>& mutants,
                  const JudgeOptions& options, Results& results) {
  Configuration device;
  std::vector<Question> questions = questions_of(kernel, options, &device);
  if (questions.empty()) {
    std::cout << kernel.name
              << ": no configuration in tests/problems runs this kernel, so its mutants cannot be "
                 "judged: an operation's configurations name their kernels"
              << std::endl;
    return false;
  }
  wl_context* const context = problems::open_device(device, options.driver);
  // As it is, to see that it passes and what each problem takes. Mutants that never end come soon
  // to a limit that most kernels keep; others get that of tests/problems.
  const auto passes = [&](const char* limit) {
    if (!set_option("instruction_limit", limit)) return std::string("no limit can be set");
    for (Question& q : questions) {
      const Clock::time_point start = Clock::now();
      std::vector<Question> one = {q};
      const std::string said = ask(context, one, kernel.text, 300);
      q.seconds = since(start);
      if (!said.empty()) return q.name + ": " + said;
    }
    return std::string();
  };
  std::string wrong = passes("6000000");
  if (!wrong.empty()) wrong = passes("20000000");
  if (!wrong.empty()) {
    std::cout << kernel.name << " as it is: " << wrong << std::endl;
    return false;
  }
  double all = 0;
  for (const Question& q : questions) all += q.seconds;
  const auto limit = static_cast<unsigned>(30 + 10 * all);
  std::vector<const SemanticMutant*> silent;
  for (const SemanticMutant* m : mutants) {
    const std::string text = text_of(*m, kernel.text);
    std::stable_sort(questions.begin(), questions.end(),
                     [](const Question& a, const Question& b) { return a.worth() > b.worth(); });
    const std::string said = ask(context, questions, text, limit);
    std::string verdict;
    if (!said.empty()) {
      const size_t blank = said.find(' ');
      const std::string what = said.substr(blank + 1);
      const bool told = said[0] != '-';
      const size_t by = told ? std::stoul(said) : questions.size();
      for (size_t i = 0; i < questions.size() && i <= by; ++i) ++questions[i].asked;
      if (told) ++questions[by].killed;
      verdict = what.rfind(problems::no_plan, 0) == 0
                    ? no_ptx
                    : (told ? questions[by].name + ": " : "") + short_form(what);
    } else {
      for (Question& q : questions) ++q.asked;
      silent.push_back(m);
    }
    if (options.only.empty() || !verdict.empty()) results.add(kernel, *m, verdict);
    if (options.print)
      std::cout << m->line << ": " << m->instruction << ": " << m->change << ": "
                << (verdict.empty() ? "survived" : verdict) << std::endl;
  }
  compare_kernel(kernel, silent, results);
  return true;
}

} // namespace wltest
