#include "runtime/src/launch.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/plan.hpp"
#include "tests/support/example_kernel.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

using namespace warpline;
using wltest::ContainsSubstring;
using wltest::FakeGpu;

namespace {

LaunchConfig example_config() {
  LaunchConfig config;
  config.grid[0] = 148;
  config.block[0] = 384;
  config.dynamic_shared_bytes = 100000;
  return config;
}

struct ExamplePlan : wl_plan {
  ExamplePlan(wl_context* owner, const Kernel& kernel) : wl_plan(owner) {
    copy_text(info.config, "example_config");
    info.workspace_bytes = 512;
    REQUIRE(add(kernel, example_config(), uint64_t{42}) == WL_SUCCESS);
  }
};

} // namespace

TEST_CASE("a launch passes its configuration and attributes", "[host][launch]") {
  FakeGpu gpu;
  const Kernel& kernel = example_kernel(gpu);
  LaunchConfig config = example_config();
  config.cluster[0] = 4;
  config.programmatic_dependent = true;
  REQUIRE(check_launch(gpu.context(), kernel, config) == WL_SUCCESS);
  uint64_t count = 42;
  void* params[] = {&count};
  REQUIRE(launch(gpu.context(), kernel, config, params, nullptr) == WL_SUCCESS);
  CHECK(gpu.fake->launch.gridDimX == 148);
  CHECK(gpu.fake->launch.blockDimX == 384);
  CHECK(gpu.fake->launch.sharedMemBytes == 100000);
  CHECK(gpu.fake->first_param == 42);
  REQUIRE(gpu.fake->launch.numAttrs == 2);
  CHECK(gpu.fake->attributes[0].id == cuapi::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  CHECK(gpu.fake->attributes[0].value.clusterDim.x == 4);
  CHECK(gpu.fake->attributes[0].value.clusterDim.z == 1);
  CHECK(gpu.fake->attributes[1].id == cuapi::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

  REQUIRE(launch(gpu.context(), kernel, example_config(), params, nullptr) == WL_SUCCESS);
  CHECK(gpu.fake->launch.numAttrs == 0);
  CHECK(gpu.fake->launch.attrs == nullptr);
}

TEST_CASE("every limit of a launch is checked, all at once", "[host][launch]") {
  FakeGpu gpu;
  const Kernel& kernel = example_kernel(gpu);
  const struct {
    const char* name;
    void (*bend)(LaunchConfig&);
    const char* message;
  } cases[] = {
      {"empty grid", [](LaunchConfig& c) { c.grid[0] = 0; }, "grid.x = 0 CTAs must be from 1"},
      {"grid too high", [](LaunchConfig& c) { c.grid[1] = 65536; }, "grid.y = 65536 CTAs"},
      {"block too deep", [](LaunchConfig& c) { c.block[2] = 65; }, "block.z = 65 threads"},
      {"too many threads", [](LaunchConfig& c) { c.block[0] = 385; },
       "block = 385 threads must be at most 384"},
      {"no cluster", [](LaunchConfig& c) { c.cluster[1] = 0; }, "cluster.y = 0 CTAs"},
      {"ragged clusters", [](LaunchConfig& c) { c.cluster[0] = 3; },
       "grid.x = 148 CTAs must be a multiple of cluster.x = 3"},
      {"large cluster", [](LaunchConfig& c) { c.grid[0] = c.cluster[0] = 17; },
       "cluster = 17 CTAs must be at most 16"},
      {"much shared memory", [](LaunchConfig& c) { c.dynamic_shared_bytes = 232449; },
       "must be at most 232448"},
      {"more shared memory than opted into",
       [](LaunchConfig& c) { c.dynamic_shared_bytes = 100001; },
       "must be at most the 100000 bytes"},
  };
  for (const auto& one : cases) {
    INFO(one.name);
    LaunchConfig config = example_config();
    one.bend(config);
    CHECK(check_launch(gpu.context(), kernel, config) == WL_ERROR_NOT_SUPPORTED);
    CHECK_THAT(wl_last_error(), ContainsSubstring(one.message));
  }
  LaunchConfig config = example_config();
  config.cluster[0] = 3;
  config.block[0] = 385;
  CHECK(check_launch(gpu.context(), kernel, config) == WL_ERROR_NOT_SUPPORTED);
  CHECK_THAT(wl_last_error(), ContainsSubstring("2 rules violated, nothing was launched"));
  CHECK(gpu.fake->launches == 0);
}

TEST_CASE("a failed launch names the kernel and its configuration", "[host][launch]") {
  FakeGpu gpu;
  const Kernel& kernel = example_kernel(gpu);
  gpu.fake->launch_result = cuapi::CUDA_ERROR_LAUNCH_FAILED;
  uint64_t count = 0;
  void* params[] = {&count};
  CHECK(launch(gpu.context(), kernel, example_config(), params, nullptr) == WL_ERROR_LAUNCH);
  CHECK_THAT(wl_last_error(), ContainsSubstring("cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_FAILED "
                                                "(719)") &&
                                  ContainsSubstring("kernel example: grid 148 x 1 x 1"));
}

TEST_CASE("arguments are on record before a launch that fails", "[host][launch]") {
  FakeGpu gpu;
  const Kernel& kernel = example_kernel(gpu);
  gpu.fake->launch_result = cuapi::CUDA_ERROR_LAUNCH_FAILED;
  const std::string path = "/tmp/warpline_launch_test_" + std::to_string(getpid());
  {
    const wltest::ScopedEnv level("WARPLINE_LOG_LEVEL", "3"), file("WARPLINE_LOG_DEST", path);
    log_reload();
    uint64_t count = 42;
    void* params[] = {&count};
    CHECK(launch(gpu.context(), kernel, example_config(), params, nullptr) == WL_ERROR_LAUNCH);
  }
  log_reload();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  const size_t arguments = text.str().find("  count = 0x2a (42)");
  CHECK(text.str().find("kernel example: grid 148 x 1 x 1, block 384 x 1 x 1") < arguments);
  CHECK(arguments < text.str().find("warpline[error]"));
  CHECK(text.str().find("warpline[error]") != std::string::npos);
}

TEST_CASE("a plan's run checks workspace and stream", "[host][plan]") {
  FakeGpu gpu;
  ExamplePlan plan(&gpu.context(), example_kernel(gpu));
  void* memory = nullptr;
  REQUIRE(wl_malloc(&gpu.context(), 1024, &memory) == WL_SUCCESS);
  char* const workspace = static_cast<char*>(memory);
  CHECK(wl_plan_run(&plan, workspace, 512, nullptr) == WL_SUCCESS);
  CHECK(wl_plan_run(nullptr, workspace, 512, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_plan_run(&plan, workspace, 511, nullptr) == WL_ERROR_WORKSPACE_TOO_SMALL);
  CHECK_THAT(wl_last_error(), ContainsSubstring("workspace_bytes = 511 must be at least 512"));
  CHECK(wl_plan_run(&plan, nullptr, 512, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_plan_run(&plan, workspace + 16, 512, nullptr) == WL_ERROR_MISALIGNED);
  CHECK(gpu.fake->launches == 1);

  wl_stream stream = nullptr;
  REQUIRE(wl_stream_create(&gpu.context(), &stream) == WL_SUCCESS);
  CHECK(wl_plan_run(&plan, workspace, 512, stream) == WL_SUCCESS);
  gpu.fake->foreign_streams = true;
  CHECK(wl_plan_run(&plan, workspace, 512, stream) == WL_ERROR_WRONG_DEVICE);
  gpu.fake->foreign_streams = false;
  REQUIRE(wl_stream_destroy(&gpu.context(), stream) == WL_SUCCESS);
  CHECK(gpu.fake->pushed == 0);
  REQUIRE(wl_free(&gpu.context(), memory) == WL_SUCCESS);

  wl_plan_info info{};
  info.struct_size = sizeof(info);
  CHECK(wl_plan_get_info(&plan, &info) == WL_SUCCESS);
  CHECK(info.config == std::string("example_config"));
  CHECK(info.struct_size == sizeof(info));
  info.struct_size = 8;
  CHECK(wl_plan_get_info(&plan, &info) == WL_ERROR_ABI);
  CHECK(wl_plan_get_info(&plan, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  wl_plan_destroy(nullptr);
}

TEST_CASE("a workspace is memory that the device reaches, apart from the operands",
          "[host][plan]") {
  FakeGpu gpu;
  ExamplePlan plan(&gpu.context(), example_kernel(gpu));
  void* memory = nullptr;
  REQUIRE(wl_malloc(&gpu.context(), 4096, &memory) == WL_SUCCESS);
  const auto at = [&](size_t offset) { return static_cast<char*>(memory) + offset; };
  const auto run = [&](const void* workspace) {
    return wl_plan_run(&plan, const_cast<void*>(workspace), 1 << 20, nullptr);
  };
  // 512 bytes are needed.
  CHECK(run(at(4096 - 512)) == WL_SUCCESS);
  CHECK(run(at(4096 - 256)) == WL_ERROR_WRONG_DEVICE);
  CHECK_THAT(wl_last_error(),
             ContainsSubstring(format("wl_plan_run: workspace: 512 bytes at %p end 256 bytes past "
                                      "their allocation, 4096 bytes at %p, must be memory that "
                                      "the device can reach",
                                      static_cast<void*>(at(4096 - 256)), memory)));
  alignas(256) static char host[512];
  CHECK(run(host) == WL_ERROR_WRONG_DEVICE);
  CHECK_THAT(wl_last_error(), ContainsSubstring("is the host's or was freed"));

  // Of a workspace that the run before had, nothing is asked.
  CHECK(run(memory) == WL_SUCCESS);
  const int questions = gpu.fake->pointer_questions;
  CHECK(questions > 0);
  CHECK(run(memory) == WL_SUCCESS);
  CHECK(gpu.fake->pointer_questions == questions);
  CHECK(run(at(512)) == WL_SUCCESS);
  CHECK(gpu.fake->pointer_questions > questions);
  CHECK(gpu.fake->launches == 4);

  plan.operands = {{"A", nullptr, 0}, {"D", at(1024), 512}};
  CHECK(run(at(512)) == WL_SUCCESS);
  CHECK(run(at(1536)) == WL_SUCCESS);
  for (const size_t offset : {768, 1024, 1280}) {
    CHECK(run(at(offset)) == WL_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(wl_last_error(), ContainsSubstring(format(
                                    "workspace: 512 bytes at %p overlap D, 512 bytes at %p, "
                                    "must overlap nothing that the run reads or writes",
                                    static_cast<void*>(at(offset)), static_cast<void*>(at(1024)))));
  }
  CHECK(gpu.fake->launches == 6);
  REQUIRE(wl_free(&gpu.context(), memory) == WL_SUCCESS);
}

TEST_CASE("a plan outlives its context", "[host][plan][context]") {
  FakeGpu gpu;
  const Kernel& kernel = example_kernel(gpu);
  wl_context* context = gpu.give_context();
  auto* plan = new wl_plan(context);
  auto* other = new wl_plan(context);
  REQUIRE(plan->add(kernel, example_config(), uint64_t{42}) == WL_SUCCESS);
  wl_context_destroy(context);
  CHECK(gpu.fake->retained == 1);
  CHECK(gpu.fake->unloads == 0);
  CHECK(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
  CHECK(gpu.fake->launches == 1);
  wl_plan_destroy(plan);
  CHECK(gpu.fake->retained == 1);
  wl_plan_destroy(other);
  CHECK(gpu.fake->unloads == 1);
  CHECK(gpu.fake->retained == 0);
  CHECK(gpu.fake->pushed == 0);
}

TEST_CASE("the driver is asked once for each kernel how many clusters are resident",
          "[host][launch]") {
  for (const int answer : {30, 0, -1}) {
    FakeGpu gpu;
    gpu.fake->resident_clusters = answer;
    const Kernel& kernel = example_kernel(gpu);
    for (int i = 0; i < 3; ++i)
      CHECK(resident_clusters(gpu.context(), kernel, example_config()) == std::max(answer, 0));
    CHECK(gpu.fake->cluster_questions == 1);
  }
}

TEST_CASE("a plan's kernels are checked and counted as they are added", "[host][plan]") {
  FakeGpu gpu;
  const Kernel& kernel = example_kernel(gpu);
  wl_plan plan(&gpu.context());
  LaunchConfig config = example_config();
  config.grid[0] = 0;
  CHECK(plan.add(kernel, config, uint64_t{1}) == WL_ERROR_NOT_SUPPORTED);
  CHECK(plan.add(kernel, example_config(), uint64_t{1}, 4) == WL_ERROR_INTERNAL);
  CHECK_THAT(wl_last_error(), ContainsSubstring("64-bit ones among them at the offsets"));
  CHECK(plan.info.launches == 0);
  REQUIRE(plan.add(kernel, example_config(), uint64_t{1}, 0) == WL_SUCCESS);
  REQUIRE(plan.add(kernel, example_config(), uint64_t{43}) == WL_SUCCESS);
  CHECK(plan.info.launches == 2);
  CHECK(plan.info.precompiled == 0);
  CHECK(plan.info.load_ms == 2 * kernel.load_ms);
  // The second does not take the workspace.
  char workspace[8];
  REQUIRE(plan.run(workspace, nullptr) == WL_SUCCESS);
  CHECK(gpu.fake->launches == 2);
  CHECK(gpu.fake->first_param == 43);
}

TEST_CASE("several threads run one plan", "[host][plan]") {
  FakeGpu gpu;
  wl_context* context = &gpu.paging_context();
  const ExamplePlan plan(context, example_kernel(gpu));
  std::vector<wl_status> results(4, WL_ERROR_INTERNAL);
  // The fake records each launch in one place, so the runs themselves are made to fail: what is
  // tested is that statuses and messages stay with their threads.
  gpu.fake->launch_result = cuapi::CUDA_ERROR_LAUNCH_FAILED;
  std::vector<std::string> messages(results.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      alignas(256) char workspace[512];
      for (int repeat = 0; repeat < 50; ++repeat)
        results[i] = wl_plan_run(&plan, i % 2 ? workspace : nullptr, 512, nullptr);
      messages[i] = wl_last_error();
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i] == (i % 2 ? WL_ERROR_LAUNCH : WL_ERROR_INVALID_ARGUMENT));
    CHECK_THAT(messages[i], ContainsSubstring(i % 2 ? "cuLaunchKernelEx" : "workspace"));
  }
  CHECK(gpu.fake->launches == 100);
}
