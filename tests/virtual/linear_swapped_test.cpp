// wl_gemm's configurations with swapped operands on the virtual B200: every number of tokens, the
// shapes of GPT-OSS, what moves. All that arguments allow is drawn by tests/problems.
#include "kernels/linear/linear.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/driver.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/cli/json.hpp"

#include <array>
#include <string>
#include <vector>

using namespace wltest;
using warpline::gemm::Config;

namespace {

std::vector<const Config*> swapped_configs() {
  std::vector<const Config*> all;
  for (const Config& config : warpline::linear::configs())
    if (config.swapped) all.push_back(&config);
  REQUIRE(all.size() >= 4);
  return all;
}

void expect_right(const LinearCase& c, const std::string& schedule) {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule(schedule));
  INFO(c.config << ", " << c.m << " x " << c.n << " x " << c.k << ", L " << c.l << ", schedule "
                << schedule << ", seed " << c.seed);
  const LinearRun run(context, c);
  REQUIRE(run.message() == "");
  for (int turn = 0; turn < 2; ++turn) REQUIRE(run.run(nullptr) == WL_SUCCESS);
  const wl_status status = wl_stream_synchronize(context, nullptr);
  INFO(virtual_report());
  REQUIRE(status == WL_SUCCESS);
  CHECK(run.check() == "");
}

} // namespace

// Slices of 16 tokens that end anywhere, a second tile of tokens, which reads the other half of
// its scale atoms; shares of K that are whole, short of K tiles or beyond K.
TEST_CASE("swapped operands at every M from 1 to 68", "[virtual][linear][swapped]") {
  const std::vector<const Config*> configs = swapped_configs();
  constexpr std::array<int64_t, 4> n = {96, 264, 8, 360}, k = {1088, 64, 1344, 320};
  const std::array<std::string, 5> schedules = {"lazy", "eager", "random:3", "hold:2", "stagger:4"};
  virtual_context("b200");
  REQUIRE(set_checks("all,advice"));
  for (size_t m = 1; m <= 68; ++m)
    for (size_t turn = 0; turn < (m % 9 == 0 ? 2 : 1); ++turn) {
      const Config& config = *configs[(3 * m + 5 * turn) % configs.size()];
      LinearCase c{static_cast<int64_t>(m),
                   n[(m + turn) % n.size()],
                   k[(m / 4 + turn) % k.size()],
                   m % 5 == 0 ? 2 : 1,
                   config.d_type,
                   config.name,
                   300 + m};
      if (config.d_type == WL_NVFP4) c.n = (c.n + 63) / 64 * 64;
      expect_right(c, schedules[(m + 2 * turn) % schedules.size()]);
    }
  REQUIRE(set_checks("off"));
}

// All warps of a cluster's four CTAs, in every configuration.
TEST_CASE("swapped operands: GPT-OSS, whole and in slices of tensor parallelism",
          "[virtual][linear][swapped]") {
  uint64_t seed = 500;
  for (const Config* config : swapped_configs())
    for (const auto& [m, columns] : {std::pair<int64_t, int64_t>{1, 2880}, {64, 96}, {37, 96}}) {
      int64_t n = columns;
      if (config->d_type == WL_NVFP4) n = (n + 63) / 64 * 64;
      expect_right({m, n, 2880, 1, config->d_type, config->name, seed}, "lazy");
      expect_right({m, n, 2880, 1, config->d_type, config->name, seed++}, "random:9");
    }
}

TEST_CASE("swapped operands: what the virtual GPU counts is what the cost model says",
          "[virtual][linear][swapped]") {
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule("lazy"));
  const auto reset = reinterpret_cast<void (*)()>(warpline::driver_symbol("vgpuResetStats"));
  const auto stats = reinterpret_cast<const char* (*)()>(warpline::driver_symbol("vgpuStatsJson"));
  REQUIRE(reset != nullptr);
  REQUIRE(stats != nullptr);
  for (const Config* config : swapped_configs())
    for (const int64_t m : {1, 16, 17, 64, 100}) {
      const LinearCase c{m, 320, 832, 2, config->d_type, config->name, 7};
      INFO(c.config << ", M " << m);
      const LinearRun run(context, c);
      REQUIRE(run.message() == "");
      reset();
      REQUIRE(run.run(nullptr) == WL_SUCCESS);
      REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
      const warpline::cli::Json counted = warpline::cli::parse_json(stats());
      int64_t read = 0, delivered = 0;
      REQUIRE(counted.find("tensors")->items.size() == 4);
      for (const warpline::cli::Json& tensor : counted.find("tensors")->items) {
        read += static_cast<int64_t>(tensor.find("read_bytes")->integer);
        delivered += static_cast<int64_t>(tensor.find("delivered_bytes")->integer);
      }
      const warpline::gemm::Traffic model =
          warpline::gemm::traffic(*config, {c.m, c.n, c.k, c.l, c.d_type});
      CHECK(read == model.total());
      CHECK(delivered == model.delivered);
    }
}

TEST_CASE("few tokens take swapped operands, many do not", "[virtual][linear][swapped]") {
  wl_context* context = virtual_context("b200");
  const warpline::gemm::Table& table = warpline::linear::configs();
  for (const wl_dtype type : {WL_F16, WL_BF16, WL_F32, WL_NVFP4})
    for (const int64_t m : {1, 4, 16, 33, 64, 4096}) {
      const LinearCase c{m, 2880, 512, 1, type, "", 9};
      INFO("M " << m << ", d_type " << type);
      const LinearRun run(context, c);
      REQUIRE(run.message() == "");
      wl_plan_info info{};
      info.struct_size = sizeof info;
      REQUIRE(wl_plan_get_info(run.plan(), &info) == WL_SUCCESS);
      const auto* config = warpline::find_config(table, info.config);
      REQUIRE(config != nullptr);
      CHECK(config->swapped == (m <= 64));
    }
}
