#include "tools/cli/options.hpp"

#include "runtime/src/rules.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace warpline::cli {
namespace {

template <class Number>
std::errc parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return error;
  return end == text.data() + text.size() ? std::errc{} : std::errc::invalid_argument;
}

} // namespace

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near =
      nearest_names(word, candidates, 1, std::max<size_t>(2, word.size() / 3));
  return near.empty() ? "" : near[0];
}

std::string check_schedule(std::string_view text) {
  if (text == "eager" || text == "lazy" || text == "reverse") return "";
  uint64_t number = 0;
  for (const std::string_view prefix : {"random:", "starve:", "hold:", "stagger:", "explore:"})
    if (text.starts_with(prefix) &&
        parse_number(text.substr(prefix.size()), number) == std::errc{} &&
        (prefix != "explore:" || number > 0))
      return "";
  if (text.starts_with("explore:@")) {
    std::string_view points = text.substr(9);
    bool numbers = true;
    while (numbers && !points.empty()) {
      const size_t comma = points.find(',');
      numbers = parse_number(points.substr(0, comma), number) == std::errc{} &&
                comma + 1 != points.size();
      points = comma == std::string_view::npos ? "" : points.substr(comma + 1);
    }
    if (numbers) return "";
  }
  return "eager, lazy, reverse, random:SEED, starve:WARP, hold:SEED, stagger:SEED, "
         "explore:RUNS or explore:@POINT,POINT... with whole numbers";
}

std::string check_device(std::string_view text) {
  static const std::vector<std::string> names = {"auto",         "gpu",          "virtual",
                                                 "virtual:b200", "virtual:b300", "virtual:h200"};
  if (std::find(names.begin(), names.end(), text) != names.end()) return "";
  int ordinal = -1;
  if (text.starts_with("gpu:") && parse_number(text.substr(4), ordinal) == std::errc{} &&
      ordinal >= 0)
    return "";
  const std::string near = nearest_name(text, names);
  return joined(names) + ", or gpu:N with the GPU's number" +
         (near.empty() ? "" : " (did you mean " + near + "?)");
}

Options::Options(std::string command, std::string summary, std::string program)
    : command_(std::move(command)), summary_(std::move(summary)), program_(std::move(program)) {}

void Options::custom(Option option) { options_.push_back(std::move(option)); }

void Options::integer(std::string name, std::string help, int64_t& target, int64_t least,
                      int64_t most) {
  whole(std::move(name), std::move(help), least, most,
        [&target](int64_t number) { target = number; });
}

void Options::whole(std::string name, std::string help, int64_t least, int64_t most,
                    std::function<void(int64_t)> put) {
  custom({std::move(name), "N", std::move(help),
          [put = std::move(put), least, most](std::string_view value) {
            const std::string rule =
                "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
            int64_t number = 0;
            if (parse_number(value, number) != std::errc{} || number < least || number > most)
              return rule;
            put(number);
            return std::string();
          }});
}

void Options::unsigned64(std::string name, std::string help, uint64_t& target) {
  custom({std::move(name), "N", std::move(help), [&target](std::string_view value) {
            return parse_number(value, target) == std::errc{}
                       ? std::string()
                       : std::string("a whole number from 0 to 18446744073709551615");
          }});
}

void Options::real(std::string name, std::string help, std::optional<float>& target) {
  custom({std::move(name), "X", std::move(help), [&target](std::string_view value) {
            float number = 0;
            if (parse_number(value, number) != std::errc{} || !std::isfinite(number))
              return std::string("a finite number that fits FP32");
            target = number;
            return std::string();
          }});
}

void Options::text(std::string name, std::string value, std::string help, std::string& target) {
  custom({std::move(name), std::move(value), std::move(help), [&target](std::string_view given) {
            if (given.empty()) return std::string("not empty");
            target = given;
            return std::string();
          }});
}

void Options::choice(std::string name, std::string help, std::string& target,
                     std::vector<std::string> choices) {
  std::string value;
  for (const std::string& word : choices) value += (value.empty() ? "" : "|") + word;
  custom({std::move(name), value, std::move(help),
          [&target, choices = std::move(choices)](std::string_view given) {
            if (std::find(choices.begin(), choices.end(), given) == choices.end())
              return joined(choices);
            target = given;
            return std::string();
          }});
}

void Options::flag(std::string name, std::string help, bool& target) {
  custom({std::move(name), "", std::move(help), [&target](std::string_view) {
            target = true;
            return std::string();
          }});
}

void Options::positional(std::string value, std::string help, std::string& target) {
  positionals_.push_back({std::move(value), std::move(help), &target});
}

void Options::refuse(const std::string& what) const {
  throw Failure(exit_usage, command_ + ": " + what + "\nSee: " + program_ + command_ + " --help");
}

const Option& Options::find(std::string_view name) const {
  std::vector<std::string> names = {"--help"};
  for (const Option& option : options_) {
    if (option.name == name) return option;
    names.push_back(option.name);
  }
  // A one-letter option is one edit away from any other, so no guess is made for it.
  const std::string near = name.starts_with("--") ? nearest_name(name, names) : "";
  refuse("unknown option " + shortened(name) +
         (near.empty() ? "" : " (did you mean " + near + "?)"));
}

bool Options::parse(const std::vector<std::string>& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  for (auto argument = arguments.begin(); argument != end; ++argument)
    if (*argument == "--help" || *argument == "-h") return false;
  size_t positionals = 0;
  bool only_positionals = false; // behind "--"
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--" && !only_positionals) {
      only_positionals = true;
      continue;
    }
    if (argument.size() < 2 || argument[0] != '-' || only_positionals) {
      if (positionals == positionals_.size())
        refuse("unexpected argument '" + shortened(argument) + "'");
      *positionals_[positionals++].target = argument;
      continue;
    }
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, equals);
    if (name == "--help") refuse("option --help takes no value");
    const Option& option = find(name);
    if (given(name) && !repeated_) refuse("option " + name + " is given twice");
    given_.push_back(name);
    std::string value;
    if (equals != std::string::npos) {
      if (option.value.empty()) refuse("option " + name + " takes no value");
      value = argument.substr(equals + 1);
    } else if (!option.value.empty()) {
      if (i + 1 == arguments.size()) refuse("option " + name + " needs a value: " + option.value);
      value = arguments[++i];
    }
    const std::string rule = option.take(value);
    if (!rule.empty()) refuse("option " + name + " is '" + shortened(value) + "', must be " + rule);
  }
  if (positionals < positionals_.size())
    refuse("missing argument " + positionals_[positionals].value + ": " +
           positionals_[positionals].help);
  return true;
}

void parse(Options& options, int argc, char** argv) {
  try {
    if (options.parse({argv + 1, argv + argc})) return;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    std::exit(failure.status);
  }
  std::fputs(options.help().c_str(), stdout);
  std::exit(exit_right);
}

bool Options::given(std::string_view name) const {
  return std::find(given_.begin(), given_.end(), name) != given_.end();
}

std::string Options::help() const {
  std::vector<std::pair<std::string, std::string>> lines;
  std::string usage = "Usage: " + program_ + command_;
  for (const Positional& argument : positionals_) {
    usage += " " + argument.value;
    lines.emplace_back(argument.value, argument.help);
  }
  for (const Option& option : options_)
    lines.emplace_back(option.name + (option.value.empty() ? "" : " " + option.value), option.help);
  lines.emplace_back("-h, --help", "print this text");
  size_t width = 0;
  for (const auto& line : lines)
    if (line.first.size() <= 30) width = std::max(width, line.first.size());
  std::string page = usage + " [options]\n\n" + summary_ + "\n\n";
  const std::string indent(width + 4, ' ');
  for (const auto& [left, right] : lines) {
    page += "  " + left;
    page += left.size() > width ? "\n" + indent : std::string(width + 2 - left.size(), ' ');
    for (char c : right) {
      page += c;
      if (c == '\n') page += indent;
    }
    page += '\n';
  }
  return page;
}

} // namespace warpline::cli
