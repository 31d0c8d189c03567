// The gated MLP of tests/examples/pytorch_mlp.py: the library under PyTorch, on its stream and in
// its CUDA graph, with activations in NVFP4 and, on Hopper, in BF16.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/source_tree.hpp"

#include <string>
#include <vector>

using wltest::ChildResult;
using wltest::run_child;

TEST_CASE("a gated MLP in PyTorch", "[hardware]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  const wltest::HardwareContext device([](const warpline::DeviceLimits& limits) {
    return limits.compute_major == 9 || limits.compute_major == 10;
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  if (run_child({"python3", "-c", "pass"}).status != 0) WL_SKIP("no python3");
  // One launch up to 16 tokens, two above; tokens that fill no tile.
  for (const char* tokens : {"1", "16", "64", "300"}) {
    const ChildResult result = run_child(
        {"python3", wltest::source_file("tests/examples/pytorch_mlp.py"), "--tokens", tokens},
        {{"WARPLINE_LIBRARY", wltest::build_file("libwarpline.so")}}, 300);
    if (result.status == 3) WL_SKIP(result.err.substr(0, result.err.find('\n')));
    INFO(tokens << " tokens\n" << result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.out.find("PASS") != std::string::npos);
  }
}
