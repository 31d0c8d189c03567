// WL_GRAPH_LAUNCH on a real GPU.
#include "tests/support/capture_rules.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/graph_launch_run.hpp"

using namespace wltest;

TEST_CASE("runs by graph write what runs by kernel write", "[hardware][dual_gemm][quantize]") {
  HardwareContext device([](const warpline::DeviceLimits& limits) {
    return limits.compute_major == 9 || limits.compute_major == 10;
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  if (device.context->limits.compute_major == 9) {
    check_graph_launch(device.context, "dual_gemm_sm90_t64_f16", 0, 2, true);
    check_graph_launch(device.context, "dual_gemm_sm90_small_t8_f16", WL_STATIC_WEIGHTS, 1, false);
  } else {
    check_graph_launch(device.context, "dual_gemm_sm100_n64_f16", 0, 1, false);
    check_graph_launch(device.context, "dual_gemm_sm100_pair_n64_stream_f16", 0, 1, true);
  }
  check_graph_launch_of_quantize(device.context);
}

TEST_CASE("what a thread may call while it captures a stream", "[hardware][runtime]") {
  HardwareContext device([](const warpline::DeviceLimits&) { return true; });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  check_capture_rules(device.context);
}
