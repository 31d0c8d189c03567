// A fault ends a launch: it carries CUDA's error code and the whole report.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vgpu::exec {

enum class FaultCode : int { // CUresult values
  illegal_address = 700,
  launch_timeout = 702, // deadlock, livelock
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  asserted = 710,
};

struct Fault : std::runtime_error {
  FaultCode code;
  std::string checker; // which rule found it: "bounds", "alignment", "pending", "deadlock", ...
  // What the run was told of before, by rule and place.
  std::vector<std::pair<std::string, std::string>> told;
  Fault(FaultCode code_, std::string checker_, const std::string& report)
      : std::runtime_error(report), code(code_), checker(std::move(checker_)) {}
};

} // namespace vgpu::exec
