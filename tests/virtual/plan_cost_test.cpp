// What wl_plan_run costs on the host: no allocation, and as few driver calls as there can be.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/plan_problem.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/bench/answers_only.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

// Allocations are counted by standing in for the C library's functions, which operator new calls as
// well. A sanitizer stands there itself.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
} // namespace

#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  allocations += counting;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations += counting;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  allocations += counting;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations += counting;
  return __libc_memalign(alignment, bytes);
}
}
#pragma GCC visibility pop

namespace {

using Stub = bench::AnswersOnly; // the driver's share is not the library's

template <class Body>
int allocations_of(const Body& body) {
  allocations = 0;
  counting = true;
  body();
  counting = false;
  return allocations;
}

} // namespace

namespace {

using Run = std::function<wl_status(const wl_plan*, void*, size_t, wl_stream)>;

// A run of a plan, on a stream of its own, on the default one, and where the library's context is
// not current. By graph it is a question more and one launch, once the graph is there. `maps` of
// them are encoded for it.
void check_run(wl_context* context, const wl_plan* plan, int launches, bool graph,
               const Run& run = wl_plan_run, int maps = 0) {
  wl_plan_info info{};
  info.struct_size = sizeof info;
  REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  INFO(info.config);
  CHECK(info.launches == launches);
  wl_stream stream = nullptr;
  REQUIRE(wl_stream_create(context, &stream) == WL_SUCCESS);
  void* workspace = nullptr;
  if (info.workspace_bytes)
    REQUIRE(wl_malloc(context, info.workspace_bytes, &workspace) == WL_SUCCESS);
  // The first run with a workspace asks about it, or makes the graph.
  REQUIRE(run(plan, workspace, info.workspace_bytes, nullptr) == WL_SUCCESS);
  const struct {
    wl_stream stream;
    bool current;
    int questions;                   // driver calls beside the launches
  } cases[] = {{stream, true, 2},    // current context, stream's context
               {nullptr, true, 1},   // current context
               {nullptr, false, 3}}; // pushed and popped too
  {
    const Stub stubbed(context);
    CHECK(allocations_of([] { std::vector<std::string> seen(3, std::string(100, 'x')); }) == 5);
    for (const auto& c : cases) {
      Stub::is_current = c.current;
      wl_status status = WL_ERROR_INTERNAL;
      Stub::calls = 0;
      CHECK(allocations_of(
                [&] { status = run(plan, workspace, info.workspace_bytes, c.stream); }) == 0);
      CHECK(status == WL_SUCCESS);
      CHECK(Stub::calls == c.questions + (graph ? 2 : launches) + maps);
    }
  }
  CHECK(wl_stream_destroy(context, stream) == WL_SUCCESS);
  CHECK(wl_free(context, workspace) == WL_SUCCESS);
}

// `activation_maps`: tensor maps of A and its scales.
void check_runs(wl_context* context, const char* config, int launches, int activation_maps) {
  wltest::PlanProblem problem(context);
  problem.args.config = config;
  wl_plan* plan = nullptr;

  wl_quantize_args quantisation{};
  quantisation.struct_size = sizeof quantisation;
  quantisation.m = 8, quantisation.k = 64, quantisation.l = 1;
  quantisation.x = problem.bytes(8 * 64 * 2, 1);
  quantisation.d = problem.bytes(8 * 64 / 2, 2);
  quantisation.sfd = problem.scales(8);
  for (const bool graph : {false, true}) {
    problem.args.flags = quantisation.flags = graph ? WL_GRAPH_LAUNCH : 0;
    REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plan) == WL_SUCCESS);
    check_run(context, plan, launches, graph);
    // With operands of its own: other activations and outputs, fewer rows, the same weights.
    wl_dual_gemm_args own = problem.args;
    own.m = 7;
    own.a = problem.bytes(7 * problem.k / 2, 9), own.sfa = problem.scales(7);
    own.d = problem.bytes(7 * problem.n * 2, 8);
    check_run(
        context, plan, launches, false,
        [&](const wl_plan* of, void* workspace, size_t bytes, wl_stream stream) {
          return wl_dual_gemm_run(of, &own, workspace, bytes, stream);
        },
        activation_maps);
    wl_plan_destroy(plan);
    REQUIRE(wl_quantize_plan(context, &quantisation, &plan) == WL_SUCCESS);
    check_run(context, plan, 1, graph);
    wl_plan_destroy(plan);
  }
}

} // namespace

TEST_CASE("plan: a run allocates nothing and asks the driver no more than it must",
          "[virtual][plan]") {
  for (const char* device : {"[.b200-run]", "[.h200-run]"}) {
    const wltest::ChildResult child =
        wltest::run_child({wltest::build_file("tests/virtual"), device});
    INFO(child.out << child.err);
    CHECK(child.status == 0);
    CHECK(child.out.find("1 passed") != std::string::npos);
  }
}

TEST_CASE("Blackwell plans, in a process of their own", "[.b200-run]") {
  check_runs(wltest::virtual_context("b200"), nullptr, 1, 2);
}

TEST_CASE("Hopper plans, in a process of their own", "[.h200-run]") {
  wl_context* context = wltest::virtual_context("h200");
  check_runs(context, "dual_gemm_sm90_t64_f16", 2, 0);
  check_runs(context, "dual_gemm_sm90_small_t8_f16", 1, 0);
}

#endif
