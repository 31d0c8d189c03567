// Command-line arguments: a command declares its options, parse() fills their targets. Accepted
// are "--name value", "--name=value" and "-m 256"; an option may be given once. Every refusal names
// the argument, its value and what would be right, and throws Failure(exit_usage).
#pragma once

#include "tools/cli/failure.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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
  void unsigned64(std::string name, std::string help, uint64_t& target);
  void real(std::string name, std::string help, std::optional<float>& target);
  void text(std::string name, std::string value, std::string help, std::string& target);
  void choice(std::string name, std::string help, std::string& target,
              std::vector<std::string> choices);
  void flag(std::string name, std::string help, bool& target);
  void custom(Option option);
  // A required argument without a name, in order of declaration.
  void positional(std::string value, std::string help, std::string& target);

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

  const Option& find(std::string_view name) const;
  [[noreturn]] void refuse(const std::string& what) const;
};

// "a, b or c"
std::string joined(const std::vector<std::string>& words);
// The candidate with the smallest edit distance, "" when none is near enough to be meant.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// "eager", "lazy" or "random:SEED". Returns what it must be, "" when it is right.
std::string check_schedule(std::string_view text);
// "auto", "gpu", "gpu:N", "virtual", "virtual:b200", ... Likewise.
std::string check_device(std::string_view text);

} // namespace warpline::cli
