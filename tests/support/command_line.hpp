// The command line of a test program. A value that is missing or no number of its kind is refused
// with status 2, before anything runs.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

namespace wltest {

class CommandLine {
public:
  CommandLine(const char* program, int argc, char** argv)
      : program_(program), argc_(argc), argv_(argv) {}

  // The next option; false behind the last one.
  bool next(std::string* option) {
    if (at_ + 1 >= argc_) return false;
    option_ = *option = argv_[++at_];
    return true;
  }

  // What stands behind the option.
  std::string value() {
    if (at_ + 1 >= argc_) refuse("needs a value");
    return argv_[++at_];
  }

  // That as a whole number, decimal or behind 0x hexadecimal, not below `least`.
  template <class Number>
  Number number(Number least) {
    return number_in(value(), least);
  }

  template <class Number>
  Number number_in(const std::string& text, Number least) const {
    const bool hex = text.rfind("0x", 0) == 0;
    const std::string_view digits = std::string_view(text).substr(hex ? 2 : 0);
    const char* const end = digits.data() + digits.size();
    Number n{};
    const auto [rest, error] = std::from_chars(digits.data(), end, n, hex ? 16 : 10);
    if (error != std::errc{} || rest != end || n < least)
      refuse("\"" + text + "\": a whole number from " + std::to_string(least) + " to " +
             std::to_string(std::numeric_limits<Number>::max()));
    return n;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    std::fprintf(stderr, "%s: %s %s\n", program_, option_.c_str(), why.c_str());
    std::exit(2);
  }

  [[noreturn]] void unknown(const char* options) const {
    std::fprintf(stderr, "%s: unknown option %s (%s)\n", program_, option_.c_str(), options);
    std::exit(2);
  }

private:
  const char* program_;
  int argc_;
  char** argv_;
  int at_ = 0;
  std::string option_;
};

} // namespace wltest
