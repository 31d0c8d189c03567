// Operands that the device cannot reach: each is refused with its name, and the context goes on
// working. The same on a GPU and on the virtual one. Inside a test case.
#pragma once

#include "runtime/src/context.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/plan_problem.hpp"

#include <string>

namespace wltest {

// Legal calls of both operations.
class OperandChecks {
public:
  explicit OperandChecks(wl_context* context);
  // Puts `address`, a multiple of 16, in the place of each pointer argument in turn. Refused: every
  // sentence holds `reason`; else every check passes. Nothing is launched.
  void check(void* address, bool refused, const std::string& reason) const;

private:
  PlanProblem problem_;
  DeviceBuffer x_, d_, sfd_;
  wl_quantize_args quantise_{};
};

// Host memory, which passes where the device pages it in, and freed memory; a plan runs before and
// behind.
void check_unreachable(wl_context* context);

} // namespace wltest
