// What wl_plan_run costs on the host: no allocation, and as few driver calls as there can be.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/plan_problem.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/bench/answers_only.hpp"

#include <cstddef>
#include <functional>
#include <iterator>
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

// A layer of experts: plans of several kernels with what they exchange in the workspace. Of more
// pairs than are multiplied without an order.
struct LayerProblem : wltest::PlanProblem {
  static constexpr int64_t experts = 3, width = k;
  LayerProblem(wl_context* c, wl_operand a_type, int64_t of) : PlanProblem(c), tokens(of) {
    layer.struct_size = sizeof layer;
    layer.tokens = tokens, layer.hidden = layer.intermediate = width;
    layer.experts = experts, layer.top_k = 2;
    x = static_cast<uint8_t*>(bytes(2 * tokens * width, 5));
    layer.x = x, layer.x_type = WL_BF16;
    std::vector<uint8_t> ids;
    const uint8_t some[] = {1, 0, 2, 1, 0, 2, 2, 1, 7, 0, 1, 0, 0, 2, 1, 2, 7, 7};
    for (int64_t pair = 0; pair < 2 * tokens; ++pair)
      ids.insert(ids.end(), {some[pair % std::size(some)], 0, 0, 0});
    layer.ids = static_cast<const int32_t*>(upload(ids));
    const void** const values[] = {&layer.w_gate, &layer.w_up, &layer.w_down};
    const void** const factors[] = {&layer.sf_gate, &layer.sf_up, &layer.sf_down};
    for (uint32_t i = 0; i < 3; ++i) {
      *values[i] = bytes(experts * width * width / 2, 10 + i);
      *factors[i] = upload(
          std::vector<uint8_t>(experts * wl_sf_bytes(WL_SF_128x4, width, width), 0x28)); // 1/4
    }
    layer.sf_layout = WL_SF_128x4;
    layer.y = bytes(2 * tokens * width, 6), layer.y_type = WL_BF16;
    layer.a_type = a_type;
  }
  // Other tokens, small numbers of BF16.
  void change_tokens(uint8_t to) {
    const std::vector<uint8_t> host(static_cast<size_t>(2 * tokens * width), to);
    REQUIRE(wl_upload(context, x, host.data(), host.size()) == WL_SUCCESS);
  }
  std::vector<uint8_t> y_of(const wl_plan* plan, void* workspace, size_t workspace_bytes) {
    std::vector<uint8_t> host(static_cast<size_t>(2 * tokens * width), 0xFF);
    REQUIRE(wl_upload(context, layer.y, host.data(), host.size()) == WL_SUCCESS);
    REQUIRE(wl_plan_run(plan, workspace, workspace_bytes, nullptr) == WL_SUCCESS);
    REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    REQUIRE(wl_download(context, host.data(), layer.y, host.size()) == WL_SUCCESS);
    return host;
  }
  std::vector<uint8_t> filled(void* memory, size_t count) {
    const std::vector<uint8_t> host(count, 0x5A);
    REQUIRE(wl_upload(context, memory, host.data(), count) == WL_SUCCESS);
    return host;
  }
  std::vector<uint8_t> read(const void* memory, size_t count) {
    std::vector<uint8_t> host(count);
    REQUIRE(wl_download(context, host.data(), memory, count) == WL_SUCCESS);
    return host;
  }
  const int64_t tokens;
  wl_moe_args layer{};
  uint8_t* x = nullptr;
};

// The launches of the first run are kept for its workspace, and others are made anew.
void check_layer(wl_context* context, wl_operand a_type, int64_t of, int launches) {
  LayerProblem problem(context, a_type, of);
  wl_plan_info info{};
  info.struct_size = sizeof info;
  const auto made = [&] {
    wl_plan* plan = nullptr;
    REQUIRE(wl_moe_plan(context, &problem.layer, &plan) == WL_SUCCESS);
    REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
    return plan;
  };
  for (const bool graph : {false, true}) {
    problem.layer.flags = graph ? WL_GRAPH_LAUNCH : 0;
    wl_plan* const plan = made();
    check_run(context, plan, launches, graph);
    const size_t bytes = info.workspace_bytes;
    void *one = problem.bytes(static_cast<int64_t>(bytes), 20),
         *other = problem.bytes(static_cast<int64_t>(bytes), 21);
    wl_plan* const kept = made();
    std::vector<std::vector<uint8_t>> seen;
    for (const uint8_t tokens : {uint8_t{0x3E}, uint8_t{0x3F}}) {
      problem.change_tokens(tokens);
      wl_plan* const once = made();
      const std::vector<uint8_t> expected = problem.y_of(once, one, bytes);
      wl_plan_destroy(once);
      for (void* workspace : {one, one, other, one, other}) {
        void* const unused = workspace == one ? other : one;
        const std::vector<uint8_t> before = problem.filled(unused, bytes);
        CHECK(problem.y_of(kept, workspace, bytes) == expected);
        CHECK(problem.read(unused, bytes) == before);
      }
      seen.push_back(expected);
    }
    CHECK(seen[0] != seen[1]);
    CHECK(wl_plan_run(kept, one, bytes - 1, nullptr) == WL_ERROR_WORKSPACE_TOO_SMALL);
    if (!graph) {
      const Stub stubbed(context);
      Stub::is_current = true;
      for (void* workspace : {one, other})
        CHECK(allocations_of([&] { wl_plan_run(kept, workspace, bytes, nullptr); }) == 0);
    }
    wl_plan_destroy(kept);
    wl_plan_destroy(plan);
  }
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
  wl_context* context = wltest::virtual_context("b200");
  check_runs(context, nullptr, 1, 2);
  check_layer(context, WL_OPERAND_NVFP4, 9, 5);
}

TEST_CASE("Hopper plans, in a process of their own", "[.h200-run]") {
  wl_context* context = wltest::virtual_context("h200");
  check_runs(context, "dual_gemm_sm90_t64_f16", 2, 0);
  check_runs(context, "dual_gemm_sm90_small_t8_f16", 1, 0);
  check_layer(context, WL_OPERAND_BF16, 9, 4);
}

#endif
