// WL_GRAPH_LAUNCH on the virtual GPU: plans with and without workspace, of one and two kernels.
#include "tests/support/capture_rules.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/graph_launch_run.hpp"
#include "tests/support/virtual_gpu.hpp"

TEST_CASE("plan: runs by graph write what runs by kernel write", "[virtual][plan]") {
  for (const char* device : {"[.b200-graph]", "[.h200-graph]"}) {
    const wltest::ChildResult child =
        wltest::run_child({wltest::build_file("tests/virtual"), device});
    INFO(child.out << child.err);
    CHECK(child.status == 0);
    CHECK(child.out.find("1 passed") != std::string::npos);
  }
}

TEST_CASE("Blackwell plans by graph, in a process of their own", "[.b200-graph]") {
  wl_context* context = wltest::virtual_context("b200");
  wltest::check_graph_launch(context, "dual_gemm_sm100_n64_f16", 0, 1, false);
  wltest::check_graph_launch(context, "dual_gemm_sm100_pair_n64_stream_f16", WL_STATIC_WEIGHTS, 1,
                             true);
  wltest::check_graph_launch_of_quantize(context);
}

TEST_CASE("Hopper plans by graph, in a process of their own", "[.h200-graph]") {
  wl_context* context = wltest::virtual_context("h200");
  wltest::check_capture_rules(context);
  wltest::check_graph_launch(context, "dual_gemm_sm90_t64_f16", 0, 2, true);
  wltest::check_graph_launch(context, "dual_gemm_sm90_small_t8_f16", WL_STATIC_WEIGHTS, 1, false);
  wltest::check_graph_launch_of_quantize(context);
}
