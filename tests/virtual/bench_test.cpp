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
  const wltest::ChildResult child =
      wltest::run_child({wltest::build_file("host-cost"), "--m", "8", "--n", "64", "--k", "128",
                         "--starts", "2", "--calls", "2", "--batches", "2", "--json", file},
                        {{"WARPLINE_DRIVER", "virtual:h200"}});
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("wl_plan_run") && ContainsSubstring("us, 1 launches") &&
                            ContainsSubstring("cold start, JIT") &&
                            ContainsSubstring("cold start, machine code: the library holds none"));
  const Json json = warpline::cli::parse_json(wltest::read_text(file));
  CHECK(json.find("own_us")->find("median")->number >= 0);
  CHECK(json.find("run_us")->find("median")->number > 0);
  const Json* jit = json.find("start_jit_ms");
  REQUIRE(jit);
  CHECK(jit->find("least")->number <= jit->find("most")->number);
}

TEST_CASE("bench: host-cost refuses what it cannot read", "[virtual][bench]") {
  const auto refused = [](const std::string& name, const std::string& value) {
    return wltest::run_child({wltest::build_file("host-cost"), name, value},
                             {{"WARPLINE_DRIVER", "virtual:h200"}});
  };
  CHECK_THAT(refused("--m", "0").err, ContainsSubstring("\"0\" is no positive number"));
  CHECK_THAT(refused("--what", "1").err, ContainsSubstring("unknown option --what"));
  CHECK(refused("--m", "0").status == 1);
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
      {wltest::build_file("driver-cost"), "--rows", "dual_gemm_sm90_decode,no_such_row"},
      {{"WARPLINE_DRIVER", "virtual:h200"}});
  CHECK(child.status == 1);
  CHECK_THAT(child.err, ContainsSubstring("no row no_such_row"));
}
