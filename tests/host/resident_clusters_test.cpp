// How many clusters are resident at once: what the driver says decides grids and the choice of a
// configuration, and is asked for once.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/gemm/sm90_plan.hpp"
#include "tests/support/device_limits.hpp"
#include "tests/support/fake_gpu.hpp"

#include <vector>

using namespace warpline;
using namespace warpline::dual_gemm;
using wltest::FakeGpu;

namespace {

// Plans of the dual GEMM on a driver that answers `clusters`. The fake does not know the kernels'
// parameters.
class Plans {
public:
  explicit Plans(int clusters) {
    gpu.fake->resident_clusters = clusters;
    gpu.fake->max_threads = 1024;
    driver_ = *gpu.context().driver;
    driver_.cu.FuncGetParamInfo = nullptr;
    context().driver = &driver_;
    REQUIRE(wl_malloc(&context(), 1 << 28, &memory_) == WL_SUCCESS);
  }
  ~Plans() { wl_free(&context(), memory_); }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  wl_context& context() { return gpu.context(); }

  wl_plan_info plan(int64_t m, int64_t n, int64_t k, const char* config) {
    const auto part = [&](size_t i) { return static_cast<uint8_t*>(memory_) + (i << 24); };
    wl_dual_gemm_args args{};
    args.struct_size = sizeof args;
    args.m = m, args.n = n, args.k = k, args.l = 1;
    args.a = part(0), args.b1 = part(1), args.b2 = part(2);
    args.sfa = part(3), args.sfb1 = part(4), args.sfb2 = part(5);
    args.d = part(6), args.config = config;
    wl_plan* made = nullptr;
    INFO(wl_last_error());
    REQUIRE(wl_dual_gemm_plan(&context(), &args, &made) == WL_SUCCESS);
    wl_plan_info info{};
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(made, &info) == WL_SUCCESS);
    wl_plan_destroy(made);
    return info;
  }

  FakeGpu gpu;

private:
  Driver driver_;
  void* memory_ = nullptr;
};

} // namespace

TEST_CASE("grids of resident clusters follow the driver's answer", "[host][dual_gemm]") {
  struct Case {
    const char* config;
    int answer;
    unsigned clusters, cluster;
  };
  const std::vector<Case> cases = {
      {"dual_gemm_sm100_pair_2x2_n64_f16", 29, 29, 4},
      {"dual_gemm_sm100_pair_2x2_n64_f16", 33, 32, 4}, // no more than the estimate
      {"dual_gemm_sm100_pair_2x2_n64_f16", 0, 32, 4},
      {"dual_gemm_sm100_pair_2x2_n64_f16", -1, 32, 4},
      {"dual_gemm_sm100_pair_n64_f16", 70, 70, 2},
      // Shares of K, and with them the rounding of sums, do not depend on it.
      {"dual_gemm_sm100_pair_n64_stream_f16", 70, 74, 2},
  };
  for (const Case& c : cases) {
    INFO(c.config << ", answer " << c.answer);
    Plans plans(c.answer);
    for (int i = 0; i < 2; ++i) {
      const wl_plan_info info = plans.plan(2048, 4096, 256, c.config);
      CHECK(info.cluster[0] == c.cluster);
      CHECK(info.grid[0] == c.clusters * c.cluster);
    }
    CHECK(plans.gpu.fake->cluster_questions == 1);
    // A grid of fewer tiles stays as small as it is.
    CHECK(plans.plan(256, 128, 256, c.config).grid[0] <= 2 * c.cluster);
  }
  // A CTA alone is no cluster to ask about.
  Plans plans(10);
  CHECK(plans.plan(2048, 4096, 256, "dual_gemm_sm100_n64_f16").grid[0] == 148);
  CHECK(plans.gpu.fake->cluster_questions == 0);
}

TEST_CASE("the choice rests on the answer, whatever was planned before", "[host][dual_gemm]") {
  // The best by the estimate has clusters; with 5 of them on the device it is not.
  DeviceLimits known;
  const Problem problem{256, 4096, 7168, 1, WL_F16};
  {
    Plans plans(-1);
    known = plans.context().limits;
  }
  const Config* estimated = choose_config(problem, known);
  REQUIRE(estimated != nullptr);
  for (int size = 2; size <= DeviceLimits::largest_cluster; ++size)
    known.resident_clusters[size] = 5;
  const Config* expected = choose_config(problem, known);
  REQUIRE(expected != nullptr);
  INFO(estimated->name << ", then " << expected->name);
  REQUIRE(estimated->cluster[0] > 1);
  REQUIRE(expected != estimated);

  for (const bool other_first : {false, true}) {
    Plans plans(5);
    if (other_first) plans.plan(256, 4096, 512, "dual_gemm_sm100_pair_4x2_n128_f16");
    for (int i = 0; i < 2; ++i)
      CHECK(plans.plan(problem.m, problem.n, problem.k, nullptr).config ==
            std::string(expected->name));
    const int questions = plans.gpu.fake->cluster_questions, loads = plans.gpu.fake->loads;
    plans.plan(problem.m, problem.n, problem.k, nullptr);
    CHECK(plans.gpu.fake->cluster_questions == questions);
    CHECK(plans.gpu.fake->loads == loads);

    // The list of configurations counts with what was learned.
    wl_dual_gemm_args args{};
    args.struct_size = sizeof args;
    args.m = problem.m, args.n = problem.n, args.k = problem.k, args.l = 1;
    std::vector<wl_dual_gemm_config> configs(200);
    int count = static_cast<int>(configs.size());
    REQUIRE(wl_dual_gemm_list_configs(&plans.context(), &args, configs.data(),
                                      sizeof(wl_dual_gemm_config), &count) == WL_SUCCESS);
    CHECK(configs[0].name == std::string(expected->name));
    CHECK(configs[0].chosen == 1);
  }
}

// Clusters of `size` that an H200 holds where shared memory lets an SM hold 1, 2 .. CTAs, as its
// driver says.
TEST_CASE("a launch takes the shared memory that spreads its clusters evenly", "[host][gemm]") {
  DeviceLimits h200 = wltest::b200_limits();
  h200.sm_count = 132;
  h200.shared_bytes_per_sm = 233472, h200.shared_bytes_per_block = 232448;
  h200.reserved_shared_bytes = 1024;
  const auto held = [](unsigned size, int64_t share) -> int64_t {
    static constexpr int of_4[] = {30, 62, 92, 124, 154}, of_8[] = {15, 30, 45, 62, 77};
    if (share > 5) return size == 4 ? 186 : 92;
    return size == 4 ? of_4[share - 1] : size == 8 ? of_8[share - 1] : 132 * share / size;
  };
  const auto bytes_of = [&](unsigned size, unsigned clusters, unsigned own, int64_t own_share) {
    LaunchConfig launch;
    launch.grid[0] = size * clusters, launch.cluster[0] = size;
    launch.dynamic_shared_bytes = own;
    gemm::share_sms(h200, &launch, [&](unsigned bytes, int64_t share) {
      if (share == 0) return held(size, own_share);
      CHECK(bytes >= own);
      return held(size, std::min(share, own_share));
    });
    return launch.dynamic_shared_bytes;
  };
  // What leaves no room for a CTA more than the share, and room for the share.
  const auto spread_by = [&](unsigned bytes, unsigned share) {
    const unsigned each = bytes + 1024;
    return each * share <= 233472 && each * (share + 1) > 233472;
  };
  CHECK(spread_by(bytes_of(4, 92, 37000, 5), 3)); // GPT-OSS's down product: 92 fit
  CHECK(spread_by(bytes_of(4, 93, 37000, 5), 4));
  CHECK(spread_by(bytes_of(4, 64, 54000, 4), 3)); // two CTAs an SM hold 62
  CHECK(spread_by(bytes_of(2, 64, 54000, 4), 1));
  CHECK(spread_by(bytes_of(1, 256, 54000, 4), 2));
  CHECK(bytes_of(8, 64, 37000, 5) == 37000); // five CTAs hold 77: there is no room for a sixth
  CHECK(bytes_of(8, 64, 37000, 4) == 37000); // four hold 62: in two waves, as it is
  CHECK(spread_by(bytes_of(8, 62, 37000, 5), 4));
  CHECK(bytes_of(1, 132 * 9, 8000, 20) == 8000); // one CTA more or less is little
}
