#include "tests/virtual/coverage/toward.hpp"

#include "runtime/src/images.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace wltest::coverage {

namespace {

Steering::Condition condition_of(const std::string& text) {
  Steering::Condition c;
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw std::runtime_error("\"" + text + "\": choice = value");
  c.other = text[at - 1] == '!';
  c.choice = trimmed(text.substr(0, c.other ? at - 1 : at));
  if (const size_t rest = c.choice.find(" % "); rest != std::string::npos) {
    c.modulus = std::atol(c.choice.c_str() + rest + 3);
    c.choice.resize(rest);
  }
  c.values = split(text.substr(at + 1), "/");
  return c;
}

// What tells most about the ways that a problem takes: its sizes, and who waits for whom.
std::string kind_of(const Choices& choices, bool scheduled) {
  std::string kind;
  for (const char* const name : {"sizes", "schedule"})
    if (const auto found = choices.find(name);
        found != choices.end() && (scheduled || kind.empty()))
      kind += *found->second.begin() + ", ";
  return kind;
}

} // namespace

bool Steering::Condition::holds(const Choices& choices) const {
  const auto found = choices.find(choice);
  if (found == choices.end()) return false;
  const std::string& is = *found->second.begin();
  long number = std::atol(is.c_str());
  if (modulus != 0) number %= modulus;
  for (const std::string& value : values) {
    const size_t dots = value.find("..");
    const bool same =
        dots == std::string::npos
            ? (modulus != 0 ? number == std::atol(value.c_str()) : is == value)
            : std::atol(value.c_str()) <= number && number <= std::atol(value.c_str() + dots + 2);
    if (same) return !other;
  }
  return other;
}

std::vector<Steering> read_steering(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + " cannot be read");
  std::vector<Steering> all;
  for (std::string line; std::getline(in, line);) {
    if (trimmed(line).empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = split(line, " | ");
    if (fields.size() != 4) throw std::runtime_error(path + ": " + line);
    Steering s{std::regex(fields[0]), std::regex(fields[1]), fields[2], {}};
    for (const std::string& condition : split(fields[3], ";"))
      s.conditions.push_back(condition_of(condition));
    all.push_back(std::move(s));
  }
  return all;
}

Need::Need(const std::vector<std::string>& kernels, const std::string& explained,
           const std::string& steering)
    : explanations_(read_explanations(explained)), steering_(read_steering(steering)) {
  for (const warpline::Image& image : warpline::embedded_images())
    if (std::count(kernels.begin(), kernels.end(), image.name) != 0)
      texts_.emplace_back(image.entry, lines_of(image.text()));
}

size_t Need::look(const Coverage& ran) {
  std::map<std::string, Left> left;
  for (const auto& [entry, lines] : texts_) {
    Coverage::Kernel kernel;
    if (!counts_of(ran, entry, lines, &kernel)) continue;
    knows_ = true;
    std::vector<const Explanation*> reasons;
    for (const Explanation& e : explanations_)
      if (e.of(kernel)) reasons.push_back(&e);
    for (const Way& w : ways_left(kernel)) {
      if (std::any_of(reasons.begin(), reasons.end(),
                      [&](const Explanation* e) { return e->covers(w); }))
        continue;
      const std::string key = kernel.name + " " + std::to_string(w.line) + " " + w.way;
      Left& to = left[key];
      if (const auto before = left_.find(key); before != left_.end()) {
        to = before->second;
        continue;
      }
      for (const Steering& s : steering_)
        if (s.way == w.way && std::regex_match(w.label, s.labels) &&
            std::regex_match(w.statement, s.statements))
          to.steering.push_back(&s);
    }
  }
  left_ = std::move(left);
  return left_.size();
}

double Need::worth_of(const Left& left, const Choices& choices) const {
  const auto fits = [&](const Steering* s) {
    return std::all_of(s->conditions.begin(), s->conditions.end(),
                       [&](const auto& c) { return c.holds(choices); });
  };
  const bool steered = !left.steering.empty();
  if (steered && std::none_of(left.steering.begin(), left.steering.end(), fits)) return 0;
  const auto tries = [&](bool scheduled) {
    const auto found = left.tries.find(kind_of(choices, scheduled));
    return found == left.tries.end() ? 0 : found->second;
  };
  // Where the library chooses the kernel it is seldom this one.
  const auto config = choices.find("config");
  const bool chosen = config != choices.end() && config->second.count("null") != 0;
  return (steered ? 1 : 0.3) * std::pow(0.6, tries(false)) * std::pow(0.5, tries(true)) *
         (chosen ? 0.1 : 1);
}

double Need::worth(const Choices& choices) const {
  double sum = 0;
  for (const auto& [key, left] : left_) sum += worth_of(left, choices);
  return sum;
}

void Need::tried(const Choices& choices) {
  for (auto& [key, left] : left_)
    if (worth_of(left, choices) > 0)
      for (const bool scheduled : {false, true}) ++left.tries[kind_of(choices, scheduled)];
}

void add_counts(const std::string& directory, const std::string& beginning, Coverage* coverage) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".counts") || !name.starts_with(beginning)) continue;
    if (name[0] == '.' && !beginning.starts_with(".")) continue;
    std::ifstream in(entry.path());
    if (const std::string wrong = coverage->add(in); !wrong.empty())
      throw std::runtime_error(entry.path().string() + ": " + wrong);
  }
}

} // namespace wltest::coverage
