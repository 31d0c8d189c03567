// How the program ends. Every refusal is a Failure: one message for the user and an exit status.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace warpline::cli {

enum ExitStatus {
  exit_right = 0,  // done, and right where it was compared
  exit_wrong = 1,  // results differ from the reference
  exit_usage = 2,  // wrong arguments, bad input or what no kernel does; nothing launched, nothing
                   // written
  exit_device = 3, // no driver, no device, or the device failed; nothing written
};

struct Failure : std::runtime_error {
  ExitStatus status;
  Failure(ExitStatus exit_status, const std::string& message)
      : std::runtime_error(message), status(exit_status) {}
};

// What a message may quote of a text that a user gave: long ones are cut.
inline std::string shortened(std::string_view text) {
  constexpr size_t most = 80;
  if (text.size() <= most) return std::string(text);
  size_t end = most - 3;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end; // not inside a character of UTF-8
  return std::string(text.substr(0, end)) + "...";
}

} // namespace warpline::cli
