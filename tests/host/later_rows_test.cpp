// Where Hopper's products decode activations of later rows under the product, and where the launch
// ahead decodes all: by the workspace, which has a counter for each 1024 rows and 128 of K then.
#include "tests/support/fake_gpu.hpp"
#include "warpline/warpline.h"

using wltest::FakeGpu;

namespace {

// Workspace of a plan of 4096 rows and K 7168, which no kernel sees.
size_t workspace_bytes(int64_t n, const char* config) {
  FakeGpu gpu;
  gpu.fake->compute_major = 9, gpu.fake->compute_minor = 0;
  gpu.fake->max_threads = 1024;
  warpline::Driver driver = *gpu.context().driver;
  driver.cu.FuncGetParamInfo = nullptr; // the fake does not know the kernels' parameters
  gpu.context().driver = &driver;
  void* memory = nullptr;
  REQUIRE(wl_malloc(&gpu.context(), size_t{1} << 28, &memory) == WL_SUCCESS);
  const auto part = [&](size_t i) { return static_cast<uint8_t*>(memory) + (i << 25); };
  wl_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = 4096, args.n = n, args.k = 7168, args.l = 1;
  args.a = part(0), args.sfa = part(1), args.b = part(2), args.sfb = part(3), args.d = part(4);
  args.config = config;
  wl_plan* plan = nullptr;
  const wl_status status = wl_gemm_plan(&gpu.context(), &args, &plan);
  INFO(wl_last_error());
  REQUIRE(status == WL_SUCCESS);
  wl_plan_info info{};
  info.struct_size = sizeof info;
  REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  wl_plan_destroy(plan);
  wl_free(&gpu.context(), memory);
  return info.workspace_bytes;
}

} // namespace

TEST_CASE("activations of later rows are decoded under products that are wide enough",
          "[host][linear]") {
  for (const char* config : {"gemm_sm90_t128_f16", "gemm_sm90_t256_f16"}) {
    INFO(config);
    const size_t all = workspace_bytes(512, config), counters = 4096 / 1024 * (7168 / 128) * 4;
    CHECK(all == size_t{4096} * 7168 * 2);
    CHECK(workspace_bytes(3064, config) == all);
    CHECK(workspace_bytes(3072, config) == all + counters);
    CHECK(workspace_bytes(8192, config) == all + counters);
  }
}
