// Command-line arguments: a command declares its options, parse() fills their targets. Accepted
// are "--name value", "--name=value" and "-m 256"; an option may be given once, but where
// repeated() allows more. Every refusal names the argument, its value and what would be right, and
// throws Failure(exit_usage).
#pragma once

#include "tools/cli/failure.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warpline::cli {

struct Option {
  std::string name;  // "--seed" or "-m"
  std::string value; // what help prints for the value, "" for a flag
  std::string help;
  // Takes the value; returns what it must be when it is refused, "" when it is taken.
  std::function<std::string(std::string_view)> take;
};

class Options {
public:
  // `program` is what stands before the command where a user types it.
  Options(std::string command, std::string summary, std::string program = "warpline ");

  void integer(std::string name, std::string help, int64_t& target, int64_t least, int64_t most);
  // Of another type, up to what it holds or 2^63 - 1.
  template <std::integral Number>
  void integer(std::string name, std::string help, Number& target, int64_t least) {
    whole(std::move(name), std::move(help), least,
          static_cast<int64_t>(std::min<uint64_t>(std::numeric_limits<Number>::max(), INT64_MAX)),
          [&target](int64_t number) { target = static_cast<Number>(number); });
  }
  void unsigned64(std::string name, std::string help, uint64_t& target);
  void real(std::string name, std::string help, std::optional<float>& target);
  void text(std::string name, std::string value, std::string help, std::string& target);
  void choice(std::string name, std::string help, std::string& target,
              std::vector<std::string> choices);
  void flag(std::string name, std::string help, bool& target);
  void custom(Option option);
  // A required argument without a name, in order of declaration.
  void positional(std::string value, std::string help, std::string& target);

  // The last of an option's values counts: what a make target says, its FLAGS may say otherwise.
  void repeated() { repeated_ = true; }

  // False when --help or -h was among the arguments (nothing is checked then).
  bool parse(const std::vector<std::string>& arguments);
  bool given(std::string_view name) const;
  std::string help() const;

private:
  struct Positional {
    std::string value, help;
    std::string* target;
  };
  std::string command_, summary_, program_;
  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<std::string> given_;
  bool repeated_ = false;

  void whole(std::string name, std::string help, int64_t least, int64_t most,
             std::function<void(int64_t)> put);
  const Option& find(std::string_view name) const;
  [[noreturn]] void refuse(const std::string& what) const;
};

// For a program of one command: what is refused goes to stderr, help to stdout, and the program
// ends there.
void parse(Options& options, int argc, char** argv);

// "a, b or c"
std::string joined(const std::vector<std::string>& words);
// The candidate with the smallest edit distance, "" when none is near enough to be meant.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// "eager", "lazy" or "random:SEED". Returns what it must be, "" when it is right.
std::string check_schedule(std::string_view text);
// "auto", "gpu", "gpu:N", "virtual", "virtual:b200", ... Likewise.
std::string check_device(std::string_view text);

} // namespace warpline::cli
