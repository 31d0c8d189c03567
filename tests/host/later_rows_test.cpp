// Where Hopper's products make activations of later rows ready under the product, and where the
// launch ahead makes all: by the workspace, which has a counter for some rows and 512 of K then, of
// groups for each 256 rows of the image.
#include "tests/support/fake_gpu.hpp"
#include "warpline/warpline.h"

using wltest::FakeGpu;

namespace {

// Workspace of a plan of 4096 rows, which no kernel sees; with `groups`, of a grouped one.
size_t workspace_bytes(int64_t n, int64_t k, const char* config, int groups = 0,
                       wl_operand a_type = WL_OPERAND_NVFP4) {
  FakeGpu gpu;
  gpu.fake->compute_major = 9, gpu.fake->compute_minor = 0;
  gpu.fake->max_threads = 1024;
  warpline::Driver driver = *gpu.context().driver;
  driver.cu.FuncGetParamInfo = nullptr; // the fake does not know the kernels' parameters
  gpu.context().driver = &driver;
  void* memory = nullptr;
  REQUIRE(wl_malloc(&gpu.context(), size_t{1} << 28, &memory) == WL_SUCCESS);
  const auto part = [&](size_t i) { return static_cast<uint8_t*>(memory) + (i << 25); };
  wl_grouped_gemm_args grouped{};
  grouped.struct_size = sizeof grouped;
  grouped.groups.count = groups, grouped.groups.ends = reinterpret_cast<const int32_t*>(part(5));
  wl_gemm_args& args = grouped.gemm;
  args.struct_size = sizeof args;
  args.m = 4096, args.n = n, args.k = k, args.l = 1;
  args.a = part(0), args.sfa = part(1), args.b = part(2), args.sfb = part(3), args.d = part(4);
  args.config = config;
  args.a_type = a_type, args.b_type = WL_OPERAND_NVFP4;
  if (a_type != WL_OPERAND_NVFP4) args.sfa = nullptr;
  args.d_type = a_type == WL_OPERAND_BF16 ? WL_BF16 : WL_F16;
  wl_plan* plan = nullptr;
  const wl_status status = groups > 0 ? wl_grouped_gemm_plan(&gpu.context(), &grouped, &plan)
                                      : wl_gemm_plan(&gpu.context(), &args, &plan);
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

TEST_CASE("activations of later rows are made ready under products that are wide enough",
          "[host][linear]") {
  struct Case {
    const char* config;
    size_t rows;           // of the tiles that are visited together
    size_t of_few_columns; // likewise of 2560 columns: enough for all clusters
    wl_operand a_type = WL_OPERAND_NVFP4;
  };
  for (const Case& c : {Case{"gemm_sm90_t128_f16", 1024, 1024},
                        {"gemm_sm90_t256_fitted_f16", 1024, 7 * 208},
                        {"gemm_sm90_t128c96_f16", 1024, 1024, WL_OPERAND_F16},
                        {"gemm_sm90_t256_f16", 1024, 1024, WL_OPERAND_F16},
                        {"gemm_sm90_abf16_t128c96_bf16", 1024, 1024, WL_OPERAND_BF16}}) {
    INFO(c.config << ", A " << c.a_type);
    const auto bytes = [&](int64_t n) { return workspace_bytes(n, 7168, c.config, 0, c.a_type); };
    const auto counters = [](size_t rows) { return (4096 + rows - 1) / rows * (7168 / 512) * 4; };
    const size_t all = bytes(512);
    CHECK(all == size_t{4096} * 7168 * 2);
    CHECK(bytes(2552) == all);
    CHECK(bytes(2560) == all + counters(c.of_few_columns));
    CHECK(bytes(8192) == all + counters(c.rows));
  }
  // 8 rows of the image more for each group but the first.
  const char* config = "grouped_gemm_sm90_t144_f16";
  const size_t rows = 4096 + 8 * 15, all = workspace_bytes(512, 2048, config, 16);
  const size_t counters = (rows + 255) / 256 * (2048 / 512) * 4;
  // And the zeros for tokens that a tile does not have, the word that counts tiles.
  CHECK(all == rows * 2048 * 2 + 80 * 128 + 4);
  CHECK(workspace_bytes(760, 2048, config, 16) == all);
  CHECK(workspace_bytes(768, 2048, config, 16) == all + counters);
  CHECK(workspace_bytes(2048, 2048, config, 16) == all + counters);
  // FP16 rows of groups all come to their order ahead.
  CHECK(workspace_bytes(2048, 2048, config, 16, WL_OPERAND_F16) == all);
}
