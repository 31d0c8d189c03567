// Every Blackwell configuration of the dual GEMM (one CTA, pairs, clusters with multicast) on the
// virtual B200: the edges of its tiles and clusters under eager, lazy and eight random schedules.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/driver.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/cli/json.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace wltest;
using warpline::dual_gemm::Config;

namespace {

const std::vector<std::string> kSchedules = {"lazy",     "random:1", "random:2", "eager",
                                             "random:3", "random:4", "random:5", "random:6",
                                             "random:7", "random:8"};
const std::vector<int64_t> kM = {1, 127, 128, 129, 255, 256, 257, 300, 520};
const std::vector<int64_t> kN = {8, 120, 128, 136, 264, 384};
const std::vector<int64_t> kK = {64, 192, 256, 1472, 7168};

// NVFP4 outputs have their own test.
std::vector<const Config*> blackwell_configs() {
  std::vector<const Config*> result;
  for (const Config& config : warpline::dual_gemm::configs())
    if (std::string(config.target) == "sm_100f" && config.d_type != WL_NVFP4)
      result.push_back(&config);
  return result;
}

void expect_exact(const DualGemmCase& c, const std::string& schedule) {
  INFO(describe(c) << ", schedule " << schedule);
  wl_context* context = virtual_context("b200");
  REQUIRE(set_schedule(schedule));
  const DualGemmResult r = run_dual_gemm(context, c);
  INFO(r.message);
  REQUIRE(r.status == WL_SUCCESS);
  CHECK(r.guards_intact);
  CHECK(r.runs_agree);
  INFO(describe(r.bound));
  CHECK(r.bound.passed());
  INFO(describe(r.exact));
  CHECK(r.exact.unequal == 0);
}

DualGemmCase make_case(const Config& config, int64_t m, int64_t n, int64_t k, int64_t l, size_t i) {
  DualGemmCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.l = l;
  c.out = config.d_type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  c.config = config.name;
  c.seed = 4000 + i;
  c.ldd = i % 3 == 0 ? n + 24 : 0;
  c.entry_gap = i % 5 == 0 ? 40 : 0;
  return c;
}

// What the virtual GPU counts while it runs a case.
warpline::cli::Json count(const DualGemmCase& c) {
  wl_context* context = virtual_context("b200");
  const auto reset = reinterpret_cast<void (*)()>(warpline::driver_symbol("vgpuResetStats"));
  const auto stats = reinterpret_cast<const char* (*)()>(warpline::driver_symbol("vgpuStatsJson"));
  REQUIRE(reset != nullptr);
  REQUIRE(stats != nullptr);
  reset();
  REQUIRE(run_dual_gemm(context, c).status == WL_SUCCESS);
  return warpline::cli::parse_json(stats());
}

} // namespace

// Steps that share no factor with the lists' lengths, so that cases mix all values of M, N, K and
// the schedules over the configurations.
TEST_CASE("every Blackwell configuration at its edges", "[virtual]") {
  size_t i = 0;
  for (const Config* config : blackwell_configs())
    for (size_t s = 0; s < (config->d_type == WL_F16 && i % 2 == 0 ? 2 : 1); ++s, ++i) {
      const int64_t m = kM[(5 * i + 2 * s) % kM.size()], n = kN[(5 * i + s) % kN.size()];
      int64_t k = kK[(3 * i + s) % kK.size()];
      const int64_t l = i % 7 == 3 ? 3 : 1;
      if (k == 7168 && m * n * l > 10000) k = 1472;
      expect_exact(make_case(*config, m, n, k, l, i), kSchedules[(i / 2 + s) % kSchedules.size()]);
    }
}

// Lone rows, whole warps and whole CTAs of a tile beyond M; every N of kN leaves columns over.
TEST_CASE("Blackwell configurations at every M from 1 to 129", "[virtual]") {
  const std::vector<const Config*> configs = blackwell_configs();
  for (size_t m = 1; m <= 129; ++m) {
    const Config& config = *configs[17 * m % configs.size()];
    const int64_t n = kN[m % kN.size()], k = m % 4 == 1 ? 1472 : 320;
    expect_exact(make_case(config, static_cast<int64_t>(m), n, k, 1, m),
                 kSchedules[m % kSchedules.size()]);
  }
}

TEST_CASE("Blackwell configurations run twice over more tiles than clusters are resident",
          "[virtual]") {
  // Ring slots, stages and accumulator sets wrap at odd places. Of all configurations the problems
  // of tests/problems do so on a device of one cluster.
  size_t i = 0;
  for (const Config* config : blackwell_configs()) {
    if (config->d_type != WL_F16 || i++ % 8 != 0) continue;
    DualGemmCase c = make_case(*config, 1100, 3104, 320, 1, i);
    c.runs = i % 4 == 1 ? 2 : 1;
    expect_exact(c, kSchedules[i % kSchedules.size()]);
  }
}

// Every way to lag: the leader of a pair, its peer, several CTAs of a larger cluster.
TEST_CASE("Blackwell configurations whose CTAs start at different times", "[virtual][stagger]") {
  size_t i = 0;
  for (const Config* config : blackwell_configs()) {
    if (config->d_type != WL_F16 || config->cluster[0] * config->cluster[1] == 1) continue;
    for (int s = 0; s < 3; ++s, ++i)
      expect_exact(make_case(*config, kM[(5 * i + 2) % kM.size()], kN[(5 * i) % kN.size()],
                             kK[i % 4], i % 7 == 3 ? 3 : 1, i),
                   "stagger:" + std::to_string(i));
  }
}

// Tiles in one to eight parts, of one cluster's share and of several; nothing is cleared between
// the runs of a plan, and a graph's launches have the same parameters.
TEST_CASE("STREAM_K configurations run again and again in a workspace that nobody clears",
          "[virtual]") {
  wl_context* context = virtual_context("b200");
  size_t i = 0;
  for (const Config* config : blackwell_configs()) {
    if (config->grid != warpline::dual_gemm::Grid::stream_k) continue;
    // How K is shared is the same text for all types: less of others than NVFP4 and FP16.
    const bool nvfp4 = config->kind == warpline::gemm::Kind::nvfp4;
    const bool in_f16 = config->d_type == WL_F16;
    if (!nvfp4 && !in_f16) continue;
    for (int64_t k : {1472, 4160})
      for (bool graph : {false, true}) {
        if (!(nvfp4 && in_f16) && graph != (k == 4160)) continue;
        DualGemmCase c =
            make_case(*config, i % 2 == 0 ? 300 : 129, i % 3 == 0 ? 264 : 136, k, 1, i);
        // Where sums round, they do so in the same order every time.
        c.kind = i % 2 == 0 ? InputKind::exact : InputKind::public_problem;
        c.runs = 3;
        c.graph = graph;
        INFO(describe(c) << ", graph " << graph << ", schedule " << kSchedules[i % 10]);
        REQUIRE(set_schedule(kSchedules[i % kSchedules.size()]));
        const DualGemmResult r = run_dual_gemm(context, c);
        INFO(r.message);
        REQUIRE(r.status == WL_SUCCESS);
        CHECK(r.info.workspace_bytes > 0);
        CHECK(r.guards_intact);
        CHECK(r.runs_agree);
        CHECK(r.bound.passed());
        if (c.kind == InputKind::exact) CHECK(r.exact.unequal == 0);
        ++i;
      }
  }
}

TEST_CASE("what the virtual GPU counts is what the cost model says", "[virtual]") {
  for (const Config* config : blackwell_configs()) {
    if (config->d_type != WL_F16) continue;
    const DualGemmCase c = make_case(*config, 300, 264, 448, 2, 1);
    INFO(describe(c));
    const warpline::cli::Json counted = count(c);
    int64_t read = 0, delivered = 0;
    const bool scales = warpline::gemm::sm100_sfa_bytes(*config) != 0;
    REQUIRE(counted.find("tensors")->items.size() == (scales ? 6 : 3));
    for (const warpline::cli::Json& tensor : counted.find("tensors")->items) {
      read += static_cast<int64_t>(tensor.find("read_bytes")->integer);
      delivered += static_cast<int64_t>(tensor.find("delivered_bytes")->integer);
    }
    warpline::dual_gemm::Problem problem{c.m, c.n, c.k, c.l, config->d_type};
    problem.types = config->first_types();
    const warpline::dual_gemm::Traffic model = warpline::dual_gemm::traffic(*config, problem);
    CHECK(read == model.total());
    CHECK(delivered == model.delivered);
  }
}

// PING_PONG: one warpgroup reads the tile ring, waits and releases for a tile, instead of two.
TEST_CASE("a tile that one warpgroup drains takes fewer instructions", "[virtual]") {
  for (const Config* config : blackwell_configs()) {
    std::string twin = config->name;
    const size_t part = twin.find("_pingpong");
    if (part == std::string::npos || config->d_type != WL_F16) continue;
    twin.erase(part, std::strlen("_pingpong"));
    const Config* both = warpline::dual_gemm::find_config(twin);
    REQUIRE(both != nullptr);
    const auto instructions = [](const Config& of) {
      return count(make_case(of, 300, 3104, 320, 2, 1)).find("warp_instructions")->integer;
    };
    INFO(config->name);
    CHECK(instructions(*config) < instructions(*both));
  }
}

// WARPLINE_SWEEP=from:count runs that many cases of the full cross product of configurations, edges
// and schedules, in a fixed pseudo-random order.
TEST_CASE("sweep of the cross product", "[virtual][.sweep]") {
  const char* range = std::getenv("WARPLINE_SWEEP");
  const std::string text = range != nullptr ? range : "0:100";
  const size_t from = std::stoul(text), count = std::stoul(text.substr(text.find(':') + 1));
  const std::vector<const Config*> configs = blackwell_configs();
  for (size_t i = from; i < from + count; ++i) {
    uint64_t x = i * 0x9E3779B97F4A7C15ull + 12345;
    const auto pick = [&x](size_t n) {
      x = (x ^ x >> 31) * 0xD6E8FEB86659FD93ull;
      return static_cast<size_t>(x >> 33) % n;
    };
    const Config& config = *configs[pick(configs.size())];
    const int64_t m = kM[pick(kM.size())], n = kN[pick(kN.size())], l = pick(4) == 0 ? 3 : 1;
    int64_t k = kK[pick(kK.size())];
    if (k == 7168 && m * n * l > 80000) k = 1472;
    expect_exact(make_case(config, m, n, k, l, i), kSchedules[pick(kSchedules.size())]);
  }
}
