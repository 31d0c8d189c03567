// wl_gemm through the C ABI, on the driver that WARPLINE_DRIVER names: mostly with GELU and a
// bias. Other arguments are varied by tests/problems.
#pragma once

#include "tests/reference/linear.hpp"
#include "tests/support/device_buffer.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace wltest {

struct LinearCase {
  int64_t m = 1, n = 64, k = 64, l = 1;
  wl_dtype d_type = WL_F16;
  std::string config; // to force, "" = the library's choice
  uint64_t seed = 1;
  bool bias = true, residual = false; // a residual: D of 16 or 32 bits
  bool static_weights = false;
  bool row = false, col = false; // factors
  // Of a configuration for MN-major operands those that are, 1: A, 2: B; 0: its first pair.
  int mn_major = 0;
  int a_type = -1;  // wl_operand; -1: the first that the configuration takes
  bool gelu = true; // else no activation
};

// A plan and its operands, of exact sums. A may be what another one writes, in NVFP4 or FP16.
class LinearRun {
public:
  LinearRun(wl_context* context, const LinearCase& c, const LinearRun* before = nullptr);
  ~LinearRun() { wl_plan_destroy(plan_); }
  LinearRun(const LinearRun&) = delete;
  LinearRun& operator=(const LinearRun&) = delete;

  const std::string& message() const { return message_; } // why there is no plan, "" = there is one
  const wl_plan* plan() const { return plan_; }
  wl_status run(wl_stream stream) const;
  // The first thing wrong with D, "" for nothing; the run before has ended.
  std::string check() const;
  Operand nvfp4(bool* intact) const { return d_.read(intact); } // D
  std::vector<uint8_t> bytes() const;                           // D of another type
  // A, B that may be written, a residual and D of another type than NVFP4.
  std::vector<std::pair<void*, size_t>> memory() const;

private:
  wl_context* context_;
  LinearCase case_;
  const LinearRun* before_;
  Problem problem_;
  LinearOperands operands_;
  DeviceBuffer a_, b_, factors_, bias_, residual_, row_, col_;
  ScaleBuffer sfa_, sfb_;
  GuardedOperand d_; // of NVFP4
  DeviceBuffer plain_;
  std::unique_ptr<DeviceBuffer> workspace_;
  size_t workspace_bytes_ = 0;
  wl_plan* plan_ = nullptr;
  std::string message_;
};

} // namespace wltest
