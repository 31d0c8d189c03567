// How the program ends. Every refusal is a Failure: one message for the user and an exit status.
#pragma once

#include <stdexcept>
#include <string>

namespace warpline::cli {

enum ExitStatus {
  exit_right = 0,  // done, and right where it was compared
  exit_wrong = 1,  // results differ from the reference
  exit_usage = 2,  // wrong arguments or bad input; nothing launched, nothing written
  exit_device = 3, // no driver, no device, or the device failed; nothing written
};

struct Failure : std::runtime_error {
  ExitStatus status;
  Failure(ExitStatus exit_status, const std::string& message)
      : std::runtime_error(message), status(exit_status) {}
};

} // namespace warpline::cli
