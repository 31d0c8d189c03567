// build/host-cost and build/driver-cost on the virtual GPU: no figure of them means anything here,
// their output and their processes do.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/json.hpp"

using warpline::cli::Json;
using wltest::ContainsSubstring;

TEST_CASE("bench: host-cost measures runs and cold starts", "[virtual][bench]") {
  const wltest::TemporaryDirectory directory;
  const std::string file = directory / "cost.json";
  const wltest::ChildResult child = wltest::run_child(
      {wltest::build_file("host-cost"), "--m", "8", "--n", "64", "--k", "128", "--starts", "2",
       "--calls", "2", "--batches", "2", "--row", "3", "--json", file},
      {{"WARPLINE_DRIVER", "virtual:h200"}, {"VGPU_SMS", "4"}});
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("wl_plan_run") && ContainsSubstring("us, 1 launches") &&
                            ContainsSubstring("wl_plan_run, WL_GRAPH_LAUNCH") &&
                            ContainsSubstring("cold start, JIT") &&
                            ContainsSubstring("cold start, machine code: the library holds none"));
  const Json json = warpline::cli::parse_json(wltest::read_text(file));
  for (const char* name : {"own_us", "graph_own_us"})
    CHECK(json.find(name)->find("median")->number >= 0);
  for (const char* name : {"run_us", "row_us", "graph_run_us", "graph_row_us"})
    CHECK(json.find(name)->find("median")->number > 0);
  CHECK(json.find("graph_first_us")->number > 0);
  const Json* jit = json.find("start_jit_ms");
  REQUIRE(jit);
  CHECK(jit->find("least")->number <= jit->find("most")->number);
}

TEST_CASE("bench: products of every kind of operand, and the quantiser", "[virtual][bench]") {
  const wltest::TemporaryDirectory directory;
  const std::string file = directory / "times.json";
  const struct {
    std::vector<std::string> options;
    std::string config;
  } cases[] = {{{}, "dual_gemm_sm90_"},
               {{"--epilogue", "bias"}, "dual_gemm_sm90_"},
               {{"--gemm"}, "gemm_sm90_"},
               {{"--gemm", "--epilogue", "gelu"}, "gemm_sm90_"},
               {{"--gemm", "--a-type", "bf16", "--d-type", "bf16"}, "gemm_sm90_stream_abf16"},
               {{"--gemm", "--a-type", "e4m3", "--b-type", "e5m2"}, "gemm_sm90_f8_"},
               {{"--quantize", "--norm", "rms"}, "quantize_rms_sm90"}};
  for (const auto& c : cases) {
    std::vector<std::string> command = {wltest::build_file("bench"),
                                        "--m",
                                        "3",
                                        "--n",
                                        "64",
                                        "--k",
                                        "128",
                                        "--replays",
                                        "1",
                                        "--json",
                                        file};
    command.insert(command.end(), c.options.begin(), c.options.end());
    const wltest::ChildResult child =
        wltest::run_child(command, {{"WARPLINE_DRIVER", "virtual:h200"}});
    INFO(c.config << "\n" << child.out << child.err);
    REQUIRE(child.status == 0);
    const Json json = warpline::cli::parse_json(wltest::read_text(file));
    REQUIRE(json.items.size() == 1);
    CHECK(json.items[0].find("us")->number > 0);
    CHECK(json.items[0].find("config")->text.rfind(c.config, 0) == 0);
  }
}

TEST_CASE("bench: host-cost measures runs of a layer of experts", "[virtual][bench][moe]") {
  const wltest::TemporaryDirectory directory;
  const std::string file = directory / "cost.json";
  const wltest::ChildResult child =
      wltest::run_child({wltest::build_file("host-cost"), "--layer", "9,256,64,8,2", "--quantised",
                         "--calls", "2", "--batches", "2", "--row", "3", "--json", file},
                        {{"WARPLINE_DRIVER", "virtual:h200"}, {"VGPU_SMS", "8"}});
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("wl_moe T 9") && ContainsSubstring("us, 5 launches") &&
                            ContainsSubstring("wl_plan_run, WL_GRAPH_LAUNCH"));
  const Json json = warpline::cli::parse_json(wltest::read_text(file));
  for (const char* name : {"run_us", "row_us", "graph_run_us", "graph_row_us"})
    CHECK(json.find(name)->find("median")->number > 0);
}

TEST_CASE("bench: wrong options are refused, and help lists the right ones", "[virtual][bench]") {
  const auto said = [](const char* program, const std::vector<std::string>& options, int status) {
    std::vector<std::string> command{wltest::build_file(program)};
    command.insert(command.end(), options.begin(), options.end());
    const wltest::ChildResult child =
        wltest::run_child(command, {{"WARPLINE_DRIVER", "virtual:h200"}});
    INFO(program << child.out << child.err);
    CHECK(child.status == status);
    return status ? child.err : child.out;
  };
  CHECK_THAT(said("host-cost", {"--m", "0"}, 2),
             ContainsSubstring("host-cost: option --m is '0', must be a whole number from 1 to ") &&
                 ContainsSubstring("\nSee: host-cost --help"));
  CHECK_THAT(said("host-cost", {"--layer", "1,2"}, 1), ContainsSubstring("must be five"));
  CHECK_THAT(said("host-cost", {"--quantised"}, 1),
             ContainsSubstring("host-cost: --quantised is of --layer"));
  CHECK_THAT(said("host-cost", {"--col", "1"}, 2), ContainsSubstring("unknown option --col"));
  CHECK_THAT(said("driver-cost", {"--loads"}, 2),
             ContainsSubstring("driver-cost: option --loads needs a value: N"));
  CHECK_THAT(said("bench", {"--epilogue", "gelu"}, 1),
             ContainsSubstring("--epilogue gelu is of --gemm"));
  CHECK_THAT(said("bench", {"--quantize", "--epilogue", "alpha"}, 1),
             ContainsSubstring("--epilogue is of products"));
  CHECK_THAT(said("host-cost", {"--help"}, 0), ContainsSubstring("Usage: host-cost [options]"));
  CHECK_THAT(said("driver-cost", {"-h"}, 0), ContainsSubstring("--kernels NAME,NAME,..."));
}

TEST_CASE("bench: driver-cost asks the driver for all that it lists", "[virtual][bench]") {
  for (const char* device : {"virtual:b200", "virtual:h200"}) {
    const wltest::ChildResult child = wltest::run_child(
        {wltest::build_file("driver-cost"), "--calls", "2", "--batches", "2", "--loads", "1"},
        {{"WARPLINE_DRIVER", device}});
    INFO(device << child.out << child.err);
    CHECK(child.status == 0);
    CHECK_THAT(child.out, ContainsSubstring("at the same time, a thread each") &&
                              ContainsSubstring("cuStreamGetCtx") &&
                              ContainsSubstring("a graph of both"));
    CHECK(child.out.find("refuses") == std::string::npos);
  }
  const wltest::ChildResult child = wltest::run_child(
      {wltest::build_file("driver-cost"), "--kernels", "dual_gemm_sm90_decode,no_such_kernel"},
      {{"WARPLINE_DRIVER", "virtual:h200"}});
  CHECK(child.status == 1);
  CHECK_THAT(child.err, ContainsSubstring("no kernel no_such_kernel"));
}

TEST_CASE("bench: every schedule that is compared multiplies right", "[virtual][bench]") {
  if (wltest::run_child({"python3", "-c", "pass"}).status != 0) WL_SKIP("no python3");
  const std::string driver = wltest::build_file("libvgpu.so");
  const std::string build = driver.substr(0, driver.rfind('/'));
  const wltest::ChildResult child =
      wltest::run_child({"python3", "tools/bench/schedules/run.py", "--driver", driver, "--check"},
                        {{"VGPU_PROFILE", "h200"}, {"VGPU_SMS", "2"}, {"BUILD", build}});
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  size_t right = 0;
  for (size_t at = child.out.find(": PASS"); at != std::string::npos;
       at = child.out.find(": PASS", at + 1))
    ++right;
  CHECK(right == 9);
}
