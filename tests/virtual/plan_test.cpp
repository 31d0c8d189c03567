// A dual GEMM plan through the public ABI on the virtual GPU: misuse gets a status and a sentence,
// several threads and streams may run one plan.
#include "tests/support/captured_graph.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/plan_problem.hpp"
#include "tests/support/unreachable_run.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <thread>
#include <vector>

using wltest::ContainsSubstring;
using Problem = wltest::PlanProblem;

namespace {

void check_message(const char* text) {
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
}

} // namespace

TEST_CASE("plan: misuse gets a status and a sentence", "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  const Problem problem(context);
  wl_plan* plan = nullptr;

  CHECK(wl_dual_gemm_plan(context, nullptr, &plan) == WL_ERROR_INVALID_ARGUMENT);
  check_message("args is null");
  CHECK(wl_dual_gemm_plan(context, &problem.args, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  check_message("plan is null");
  CHECK(wl_dual_gemm_plan(nullptr, &problem.args, &plan) == WL_ERROR_INVALID_ARGUMENT);
  check_message("context");
  for (const size_t size : {size_t{0}, sizeof(wl_dual_gemm_args) - 8, size_t{4096}}) {
    wl_dual_gemm_args args = problem.args;
    args.struct_size = size;
    CHECK(wl_dual_gemm_check(context, &args) == WL_ERROR_ABI);
    check_message("wl_dual_gemm_args");
    CHECK(wl_dual_gemm_plan(context, &args, &plan) == WL_ERROR_ABI);
    CHECK(plan == nullptr);
  }
  CHECK(wl_plan_run(nullptr, nullptr, 0, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  check_message("plan: pointer is null");

  // What is refused is neither launched nor written.
  const std::vector<uint8_t> before = problem.result();
  wl_dual_gemm_args args = problem.args;
  args.k = 100;
  CHECK(wl_dual_gemm_plan(context, &args, &plan) == WL_ERROR_INVALID_ARGUMENT);
  check_message("nothing was launched");
  CHECK(problem.result() == before);

  REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plan) == WL_SUCCESS);
  int dummy = 0; // an address that is no stream
  CHECK(wl_plan_run(plan, nullptr, 0, &dummy) == WL_ERROR_WRONG_DEVICE);
  CHECK(problem.result() == before);
  wl_plan_destroy(plan);
}

TEST_CASE("plan: operands that the device cannot reach are refused, and it goes on",
          "[virtual][plan]") {
  wltest::check_unreachable(wltest::virtual_context("b200"));
}

TEST_CASE("plan: operands and workspace to their last byte, apart from each other",
          "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  Problem problem(context);
  const std::vector<uint8_t> before = problem.result();
  // Rows of D at a distance for which there is no memory.
  wl_dual_gemm_args args = problem.args;
  args.ldd = Problem::n + 8;
  CHECK(wl_dual_gemm_check(context, &args) == WL_ERROR_WRONG_DEVICE);
  check_message("D: ");
  check_message("bytes past their allocation, 33280 bytes at");

  args = problem.args;
  args.config = "dual_gemm_sm100_pair_n64_stream_f16";
  wl_plan* plan = nullptr;
  REQUIRE(wl_dual_gemm_plan(context, &args, &plan) == WL_SUCCESS);
  wl_plan_info info{};
  info.struct_size = sizeof info;
  REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  REQUIRE(info.workspace_bytes > 0);
  const auto run = [&](void* workspace) {
    return wl_plan_run(plan, workspace, info.workspace_bytes, nullptr);
  };
  const wltest::DeviceBuffer space(context, info.workspace_bytes + 256);
  CHECK(run(args.d) == WL_ERROR_INVALID_ARGUMENT);
  check_message("overlap D, 33280 bytes at");
  CHECK(run(space.at(512)) == WL_ERROR_WRONG_DEVICE);
  check_message("end 256 bytes past their allocation");
  alignas(256) static uint8_t host[256];
  CHECK(run(host) == WL_ERROR_WRONG_DEVICE);
  check_message("is the host's or was freed");
  CHECK(problem.result() == before);
  CHECK(run(space.at(256)) == WL_SUCCESS);
  CHECK(problem.result() != before);
  wl_plan_destroy(plan);
}

TEST_CASE("plan: it outlives its context", "[virtual][plan]") {
  wltest::virtual_context("b200");
  wl_context* context = nullptr;
  REQUIRE(wl_context_create(0, &context) == WL_SUCCESS);
  const Problem problem(wltest::virtual_context("b200"));
  wl_plan* plan = nullptr;
  wl_dual_gemm_args args = problem.args;
  for (const uint32_t flags : {0u, static_cast<unsigned>(WL_GRAPH_LAUNCH)}) {
    if (context == nullptr) REQUIRE(wl_context_create(0, &context) == WL_SUCCESS);
    args.flags = flags;
    REQUIRE(wl_dual_gemm_plan(context, &args, &plan) == WL_SUCCESS);
    REQUIRE(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
    const std::vector<uint8_t> expected = problem.result();
    wl_context_destroy(context);
    context = nullptr;
    REQUIRE(wl_upload(problem.context, args.d, std::vector<uint8_t>(expected.size()).data(),
                      expected.size()) == WL_SUCCESS);
    CHECK(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
    CHECK(problem.result() == expected);
    wl_plan_destroy(plan);
  }
}

TEST_CASE("plan: two threads run one plan on streams of their own", "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  const Problem problem(context);
  wl_plan* plan = nullptr;
  REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plan) == WL_SUCCESS);
  REQUIRE(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
  const std::vector<uint8_t> expected = problem.result();

  std::vector<wl_status> statuses(8, WL_ERROR_INTERNAL), ended(2, WL_ERROR_INTERNAL);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      wl_stream stream = nullptr;
      if (wl_stream_create(context, &stream) != WL_SUCCESS) return;
      for (size_t i = 0; i < 4; ++i) statuses[4 * t + i] = wl_plan_run(plan, nullptr, 0, stream);
      ended[t] = wl_stream_synchronize(context, stream);
      if (ended[t] == WL_SUCCESS) ended[t] = wl_stream_destroy(context, stream);
    });
  for (std::thread& thread : threads) thread.join();
  for (const wl_status status : statuses) CHECK(status == WL_SUCCESS);
  for (const wl_status status : ended) CHECK(status == WL_SUCCESS);
  CHECK(problem.result() == expected);
  wl_plan_destroy(plan);
}

TEST_CASE("plan: a run is captured in a graph", "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  const Problem problem(context);
  wl_plan* plan = nullptr;
  REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plan) == WL_SUCCESS);
  REQUIRE(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
  const std::vector<uint8_t> expected = problem.result();
  const std::vector<uint8_t> poison(expected.size(), 0xFF);
  REQUIRE(wl_upload(context, problem.args.d, poison.data(), poison.size()) == WL_SUCCESS);

  {
    wltest::CapturedGraph graph(context);
    REQUIRE(graph.capture([&](wl_stream s) { return wl_plan_run(plan, nullptr, 0, s); }) ==
            WL_SUCCESS);
    CHECK(problem.result() == poison); // enqueued, not run
    REQUIRE(graph.launch() == WL_SUCCESS);
  }
  CHECK(problem.result() == expected);
  wl_plan_destroy(plan);
}
