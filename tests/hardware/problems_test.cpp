// The drawn problems of every operation on a real GPU, by build/tests/problems --gpu: those without
// exponentials bit for bit, new operands in each run, guards around the outputs. Of whole layers of
// experts the kernels around the products: tools/bench/compare_moe.py compares layers with FP64.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/gpu.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using namespace wltest;

namespace {

void draw_on_gpu(const char* operation) {
  const HardwareContext device([](const warpline::DeviceLimits& found) {
    return found.compute_major == 9 || found.compute_major == 10;
  });
  if (!device.reason.empty()) WL_SKIP(device.reason);
  const unsigned cores = std::thread::hardware_concurrency();
  const std::string jobs = std::to_string(std::max(cores, 3u) - 2);
  // The first ones are of all sizes; a configuration's list has what shows most of its own kernel.
  for (const std::vector<std::string>& which :
       {std::vector<std::string>{"--problems", "16"}, std::vector<std::string>{}}) {
    std::vector<std::string> command = {build_file("tests/problems"),
                                        "--gpu",
                                        "--operation",
                                        operation,
                                        "--seed",
                                        "20261128",
                                        "--jobs",
                                        jobs};
    command.insert(command.end(), which.begin(), which.end());
    const ChildResult r = run_child(command, {}, 1200);
    INFO(r.out << r.err);
    CHECK(r.status == 0);
    CHECK_THAT(r.out, ContainsSubstring(": 0 wrong"));
  }
}

} // namespace

TEST_CASE("drawn problems of wl_gemm on a GPU", "[hardware][problems]") { draw_on_gpu("linear"); }
TEST_CASE("drawn problems of wl_dual_gemm on a GPU", "[hardware][problems]") {
  draw_on_gpu("dual_gemm");
}
TEST_CASE("drawn problems of products of groups on a GPU", "[hardware][problems]") {
  draw_on_gpu("grouped");
}
TEST_CASE("drawn problems of wl_norm_linear on a GPU", "[hardware][problems]") {
  draw_on_gpu("norm_linear");
}
TEST_CASE("drawn problems of wl_quantize on a GPU", "[hardware][problems]") {
  draw_on_gpu("quantize");
}
TEST_CASE("drawn problems around experts' products on a GPU", "[hardware][problems]") {
  draw_on_gpu("moe");
}
