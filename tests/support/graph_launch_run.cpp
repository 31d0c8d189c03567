#include "tests/support/graph_launch_run.hpp"

#include "runtime/src/context.hpp"
#include "tests/support/captured_graph.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/plan_runs.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace wltest {

namespace {

void check_streams_and_workspaces(wl_context* context, const PlanProblem& problem, PlanRuns& graph,
                                  const std::vector<uint8_t>& expected) {
  wl_stream streams[2] = {};
  for (wl_stream& stream : streams) REQUIRE(wl_stream_create(context, &stream) == WL_SUCCESS);
  std::vector<void*> spaces;
  for (int i = 0; i < 6; ++i) spaces.push_back(graph.workspace()); // more than graphs are kept
  for (void* space : spaces)
    for (wl_stream stream : {wl_stream{nullptr}, streams[0], streams[1], streams[0]})
      CHECK(graph.result(space, stream) == expected);

  // Two threads, each with a stream and a workspace of its own, and both with the same workspace.
  for (const size_t other : {size_t{1}, size_t{0}}) {
    graph.poison();
    std::vector<wl_status> statuses(8, WL_ERROR_INTERNAL);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 4; ++i)
          statuses[4 * t + i] = graph.run(spaces[t * other], streams[t]);
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(statuses == std::vector<wl_status>(8, WL_SUCCESS));
    CHECK(problem.result() == expected);
  }
  for (wl_stream stream : streams) CHECK(wl_stream_destroy(context, stream) == WL_SUCCESS);
}

void check_captures(wl_context* context, const PlanProblem& problem, PlanRuns& graph,
                    const std::vector<uint8_t>& expected) {
  void* space = graph.workspace();
  graph.poison();
  const std::vector<uint8_t> poison = problem.result();
  CapturedGraph captured(context);
  REQUIRE(captured.capture([&](wl_stream s) { return graph.run(space, s); }) == WL_SUCCESS);
  CHECK(problem.result() == poison); // enqueued, not run
  REQUIRE(captured.launch() == WL_SUCCESS);
  CHECK(problem.result() == expected);

  // A graph is made and launched while the same thread captures another stream.
  wl_stream other = nullptr;
  REQUIRE(wl_stream_create(context, &other) == WL_SUCCESS);
  graph.poison();
  CapturedGraph outer(context);
  void* fresh = graph.workspace();
  std::string error;
  const wl_status status = outer.capture([&](wl_stream s) {
    wl_status captured_run = graph.run(space, s);
    if (captured_run == WL_SUCCESS) captured_run = graph.run(fresh, other);
    if (captured_run != WL_SUCCESS) error = wl_last_error();
    return captured_run;
  });
  INFO(error);
  REQUIRE(status == WL_SUCCESS);
  CHECK(wl_stream_synchronize(context, other) == WL_SUCCESS);
  CHECK(problem.result() == expected);
  graph.poison();
  REQUIRE(outer.launch() == WL_SUCCESS);
  CHECK(problem.result() == expected);
  CHECK(wl_stream_destroy(context, other) == WL_SUCCESS);
}

// A stream under capture that the default stream would wait for: refused, and the capture goes on.
void check_implicit(wl_context* context, PlanRuns& graph) {
  const cuapi::Functions& cu = context->driver->cu;
  const warpline::ContextScope scope(*context);
  cuapi::CUstream blocking = nullptr;
  cuapi::CUgraph captured = nullptr;
  void* space = graph.workspace();
  REQUIRE(cu.StreamCreate(&blocking, cuapi::CU_STREAM_DEFAULT) == cuapi::CUDA_SUCCESS);
  REQUIRE(cu.StreamBeginCapture(blocking, cuapi::CU_STREAM_CAPTURE_MODE_GLOBAL) ==
          cuapi::CUDA_SUCCESS);
  CHECK(graph.run(space, nullptr) == WL_ERROR_LAUNCH);
  CHECK_THAT(wl_last_error(), ContainsSubstring("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"));
  CHECK(cu.StreamEndCapture(blocking, &captured) == cuapi::CUDA_SUCCESS);
  cu.GraphDestroy(captured);
  cu.StreamDestroy(blocking);
}

} // namespace

void check_graph_launch(wl_context* context, const char* config, uint32_t more_flags, int launches,
                        bool workspace) {
  const PlanProblem problem(context);
  PlanRuns plain(problem, config, more_flags);
  PlanRuns graph(problem, config, more_flags | WL_GRAPH_LAUNCH);
  INFO(graph.info.config);
  CHECK(graph.info.launches == launches);
  CHECK((graph.info.workspace_bytes > 0) == workspace);
  const std::vector<uint8_t> expected = plain.result(plain.workspace(), nullptr);
  check_streams_and_workspaces(context, problem, graph, expected);
  check_captures(context, problem, graph, expected);
  check_implicit(context, graph);

  // What lies in the operands is read when the graph runs.
  REQUIRE(wl_upload(context, const_cast<void*>(problem.args.a),
                    std::vector<uint8_t>(PlanProblem::m * PlanProblem::k / 2, 0x21).data(),
                    PlanProblem::m * PlanProblem::k / 2) == WL_SUCCESS);
  void* space = graph.workspace();
  const std::vector<uint8_t> changed = graph.result(space, nullptr);
  CHECK(changed != expected);
  CHECK(changed == plain.result(plain.workspace(), nullptr));
}

void check_graph_launch_of_quantize(wl_context* context) {
  PlanProblem memory(context);
  wl_quantize_args args{};
  args.struct_size = sizeof args;
  args.m = PlanProblem::m, args.k = PlanProblem::k, args.l = 1;
  args.x = memory.bytes(PlanProblem::m * PlanProblem::k * 2, 7);
  args.d = memory.bytes(PlanProblem::m * PlanProblem::k / 2, 8);
  args.sfd = memory.scales(PlanProblem::m);
  const auto result = [&](uint32_t flags) {
    wl_plan* plan = nullptr;
    args.flags = flags;
    REQUIRE(wl_quantize_plan(context, &args, &plan) == WL_SUCCESS);
    std::vector<uint8_t> d(PlanProblem::m * PlanProblem::k / 2, 0xFF);
    for (int run = 0; run < 2; ++run) {
      std::fill(d.begin(), d.end(), uint8_t{0xFF});
      CHECK(wl_upload(context, args.d, d.data(), d.size()) == WL_SUCCESS);
      CHECK(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
      CHECK(wl_download(context, d.data(), args.d, d.size()) == WL_SUCCESS);
    }
    wl_plan_destroy(plan);
    return d;
  };
  CHECK(result(WL_GRAPH_LAUNCH) == result(0));
}

} // namespace wltest
