// Runs of a plan with WL_GRAPH_LAUNCH, on the fake driver: what the driver is asked, and what
// happens when it refuses.
#include "runtime/src/graph_runs.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/plan.hpp"
#include "tests/support/example_kernel.hpp"
#include "tests/support/log_file.hpp"
#include "tests/support/temporary.hpp"

#include <set>
#include <thread>
#include <vector>

using namespace warpline;
using wltest::ContainsSubstring;
using wltest::FakeGpu;

namespace {

// Two launches of one kernel; the workspace is their parameter.
struct TwoLaunches : wl_plan {
  explicit TwoLaunches(FakeGpu& gpu, size_t workspace_bytes = 256)
      : wl_plan(&gpu.paging_context()) {
    const Kernel& kernel = wltest::example_kernel(gpu);
    copy_text(info.config, "example_config");
    info.workspace_bytes = workspace_bytes;
    for (int i = 0; i < 2; ++i) REQUIRE(add(kernel, {}, uint64_t{0}, 0) == WL_SUCCESS);
    CHECK(info.launches == 2);
  }
};

struct alignas(256) Workspace {
  char bytes[256];
};

struct GraphGpu : FakeGpu {
  TwoLaunches plan{*this};
  Workspace spaces[GraphRuns::most_graphs + 1];
  GraphGpu() { REQUIRE(GraphRuns::make(plan, &plan.graphs) == WL_SUCCESS); }
  wl_status run(size_t space = 0, wl_stream stream = nullptr) {
    return wl_plan_run(&plan, &spaces[space], 256, stream);
  }
};

} // namespace

TEST_CASE("a graph is made once for a workspace and launched by each run", "[host][graph]") {
  GraphGpu gpu;
  for (int run = 1; run <= 3; ++run) {
    REQUIRE(gpu.run() == WL_SUCCESS);
    CHECK(gpu.fake->graph_launches == run);
  }
  CHECK(gpu.fake->captured == 2);
  CHECK(gpu.fake->launches == 2);
  CHECK(gpu.fake->live_executables == 1);
  // Other threads' captures are left alone, and nothing but the executable graph stays.
  CHECK(gpu.fake->mode_of_capture == cuapi::CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(gpu.fake->thread_mode == cuapi::CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(gpu.fake->live_graphs == 0);
  CHECK(gpu.fake->live_streams == 0);
  CHECK(gpu.fake->pushed == 0);
  gpu.plan.graphs.reset();
  CHECK(gpu.fake->live_executables == 0);
  CHECK(gpu.fake->pushed == 0);
}

TEST_CASE("a plan keeps the graphs of its last workspaces", "[host][graph]") {
  GraphGpu gpu;
  std::set<cuapi::CUgraphExec> graphs;
  for (size_t space = 0; space < GraphRuns::most_graphs; ++space) {
    REQUIRE(gpu.run(space) == WL_SUCCESS);
    CHECK(gpu.fake->first_param == reinterpret_cast<uint64_t>(&gpu.spaces[space]));
    graphs.insert(gpu.fake->launched_graph);
  }
  CHECK(graphs.size() == GraphRuns::most_graphs);
  const int captured = gpu.fake->captured;
  REQUIRE(gpu.run(0) == WL_SUCCESS);
  CHECK(gpu.fake->captured == captured);
  // A further one takes the place of 1, which has not run for longest.
  REQUIRE(gpu.run(GraphRuns::most_graphs) == WL_SUCCESS);
  CHECK(gpu.fake->captured == captured + 2);
  CHECK(gpu.fake->live_executables == GraphRuns::most_graphs);
  for (const size_t space : {size_t{0}, size_t{2}, size_t{3}})
    REQUIRE(gpu.run(space) == WL_SUCCESS);
  CHECK(gpu.fake->captured == captured + 2);
  REQUIRE(gpu.run(1) == WL_SUCCESS);
  CHECK(gpu.fake->captured == captured + 4);
}

TEST_CASE("a plan without workspace has one graph", "[host][graph]") {
  FakeGpu gpu;
  TwoLaunches plan(gpu, 0);
  REQUIRE(GraphRuns::make(plan, &plan.graphs) == WL_SUCCESS);
  Workspace spaces[2];
  for (void* space : {static_cast<void*>(nullptr), static_cast<void*>(&spaces[0]),
                      static_cast<void*>(&spaces[1])})
    REQUIRE(wl_plan_run(&plan, space, 0, nullptr) == WL_SUCCESS);
  CHECK(gpu.fake->captured == 2);
  CHECK(gpu.fake->graph_launches == 3);
}

TEST_CASE("in a stream under capture a run enqueues its kernels", "[host][graph]") {
  GraphGpu gpu;
  for (const auto status :
       {cuapi::CU_STREAM_CAPTURE_STATUS_ACTIVE, cuapi::CU_STREAM_CAPTURE_STATUS_INVALIDATED}) {
    gpu.fake->capturing = status;
    gpu.fake->launches = 0;
    REQUIRE(gpu.run() == WL_SUCCESS);
    CHECK(gpu.fake->launches == 2);
  }
  CHECK(gpu.fake->graph_launches == 0);
  CHECK(gpu.fake->live_executables == 0);
}

TEST_CASE("what the driver refuses of a graph is a status and a sentence", "[host][graph]") {
  const struct {
    cuapi::CUresult wltest::FakeDriver::*answer;
    const char* call;
  } cases[] = {{&wltest::FakeDriver::question_result, "cuStreamIsCapturing failed"},
               {&wltest::FakeDriver::begin_result, "cuStreamBeginCapture failed"},
               {&wltest::FakeDriver::launch_result, "cuLaunchKernelEx failed"},
               {&wltest::FakeDriver::end_result, "cuStreamEndCapture failed"},
               {&wltest::FakeDriver::instantiate_result, "cuGraphInstantiateWithFlags failed"},
               {&wltest::FakeDriver::graph_result, "cuGraphLaunch failed"}};
  for (const auto& c : cases) {
    GraphGpu gpu;
    INFO(c.call);
    gpu.fake->*c.answer = cuapi::CUDA_ERROR_LAUNCH_FAILED;
    CHECK(gpu.run() == WL_ERROR_LAUNCH);
    CHECK_THAT(wl_last_error(), ContainsSubstring("wl_plan_run: " + std::string(c.call)));
    CHECK_THAT(wl_last_error(), ContainsSubstring("CUDA_ERROR_LAUNCH_FAILED"));
    if (std::string(c.call).find("Capture ") != std::string::npos ||
        std::string(c.call).find("Graph") != std::string::npos)
      CHECK_THAT(wl_last_error(), ContainsSubstring("example_config: graph of 2 launches"));
    CHECK(gpu.fake->live_graphs == 0);
    CHECK(gpu.fake->live_streams == 0);
    CHECK(gpu.fake->thread_mode == cuapi::CU_STREAM_CAPTURE_MODE_GLOBAL);
    // The next run starts anew.
    gpu.fake->*c.answer = cuapi::CUDA_SUCCESS;
    CHECK(gpu.run() == WL_SUCCESS);
    CHECK(gpu.fake->live_executables == 1);
  }
}

TEST_CASE("a driver without graphs is refused with the names of what it lacks", "[host][graph]") {
  FakeGpu gpu;
  TwoLaunches plan(gpu);
  auto* driver = const_cast<Driver*>(gpu.context().driver);
  driver->cu.GraphLaunch = nullptr;
  driver->cu.StreamIsCapturing = nullptr;
  std::unique_ptr<GraphRuns> graphs;
  CHECK(GraphRuns::make(plan, &graphs) == WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK(!graphs);
  CHECK_THAT(wl_last_error(), ContainsSubstring("flags has WL_GRAPH_LAUNCH (2)") &&
                                  ContainsSubstring("(version 13.0)") &&
                                  ContainsSubstring("cuStreamIsCapturing, cuGraphLaunch;"));
}

TEST_CASE("the log has a graph's arguments when it is made, and each of its launches",
          "[host][graph]") {
  const auto count_of = [](const std::string& text, const std::string& what) {
    int count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++count;
    return count;
  };
  GraphGpu gpu;
  const wltest::LogFile log("3");
  for (int run = 0; run < 3; ++run) REQUIRE(gpu.run() == WL_SUCCESS);
  const std::string text = wltest::read_text(log.path);
  CHECK(count_of(text, "example_config: graph of 2 launches is made for workspace") == 1);
  CHECK(count_of(text, "  count = 0x") == 2);
  CHECK(count_of(text, "example_config: graph of 2 launches, workspace") == 3);
}

TEST_CASE("threads take turns at a plan's graphs", "[host][graph]") {
  GraphGpu gpu;
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) wrong[t] += gpu.run(t % 2) != WL_SUCCESS;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
  CHECK(gpu.fake->graph_launches == 2000);
  CHECK(gpu.fake->captured == 4);
  CHECK(gpu.fake->live_executables == 2);
}
