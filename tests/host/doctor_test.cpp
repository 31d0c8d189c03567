// warpline doctor and warpline rules, as their users run them.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/json.hpp"

using warpline::cli::Json;
using warpline::cli::parse_json;
using wltest::ChildResult;
using wltest::ContainsSubstring;

namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

ChildResult doctor(std::vector<std::string> arguments, Environment environment = {}) {
  arguments.insert(arguments.begin(), {wltest::build_file("warpline"), "doctor"});
  environment.insert(environment.begin(), {"WARPLINE_DRIVER", ""});
  return wltest::run_child(arguments, environment);
}

bool contains(const Json& list, const std::string& text) {
  for (const Json& item : list.items)
    if (item.text.find(text) != std::string::npos) return true;
  return false;
}

} // namespace

TEST_CASE("doctor runs a kernel on every device and finds nothing wrong", "[host][doctor]") {
  wltest::TemporaryDirectory directory;
  const ChildResult child = doctor({"--json", directory / "doctor.json"});
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("probe virtual:b200"));
  CHECK_THAT(child.out, ContainsSubstring("no problem found"));
  const Json json = parse_json(wltest::read_text(directory / "doctor.json"));
  CHECK_FALSE(json.find("version")->text.empty());
  CHECK_THAT(json.find("kernels")->text, ContainsSubstring("sm_100f (PTX"));
  CHECK(json.find("devices")->items.size() >= 4);
  CHECK(json.find("problems")->items.empty());
  REQUIRE_FALSE(json.find("probes")->items.empty());
  for (const Json& probe : json.find("probes")->items) CHECK(probe.find("pass")->boolean);
}

TEST_CASE("doctor names what is wrong", "[host][doctor]") {
  const ChildResult child =
      doctor({"--no-probe", "--json", "-"}, {{"WARPLINE_LOG_LEVEL", "loud"},
                                             {"WARPLINE_DUMP_DIR", "/dev/null/dump"},
                                             {"CUDA_DISABLE_PTX_JIT", "1"},
                                             {"CUDA_VISIBLE_DEVICES", "-1"}});
  INFO(child.out << child.err);
  CHECK(child.status == 3);
  const Json json = parse_json(child.out);
  const Json& problems = *json.find("problems");
  CHECK(contains(problems, "WARPLINE_LOG_LEVEL = \"loud\" must be"));
  CHECK(contains(problems, "WARPLINE_DUMP_DIR = \"/dev/null/dump\" cannot be written"));
  CHECK(contains(problems, "CUDA_DISABLE_PTX_JIT"));
  CHECK(contains(*json.find("notes"), "hides every GPU"));
  CHECK(json.find("CUDA_DISABLE_PTX_JIT")->text == "1");
  CHECK(json.find("probes")->items.empty());
}

TEST_CASE("doctor reports a driver that cannot be opened", "[host][doctor]") {
  const ChildResult child = doctor({"--no-probe"}, {{"WARPLINE_DRIVER", "/no/such/driver.so"}});
  INFO(child.out << child.err);
  CHECK(child.status == 3);
  CHECK_THAT(child.out, ContainsSubstring("WARPLINE_DRIVER=/no/such/driver.so"));
  CHECK_THAT(child.out, ContainsSubstring("problem  gpu: "));
}

TEST_CASE("doctor takes the virtual GPU for a driver, and says which profiles there are",
          "[host][doctor]") {
  const ChildResult good = doctor({"--no-probe"}, {{"WARPLINE_DRIVER", "virtual:h200"}});
  INFO(good.out << good.err);
  CHECK(good.status == 0);
  CHECK_THAT(good.out, ContainsSubstring("note     gpu: ") || !ContainsSubstring("not available"));
  const ChildResult bad = doctor({"--no-probe"}, {{"WARPLINE_DRIVER", "virtual:h100"}});
  INFO(bad.out << bad.err);
  CHECK(bad.status == 3);
  CHECK_THAT(bad.out, ContainsSubstring("problem  ") &&
                          ContainsSubstring("profile \"h100\" of the virtual GPU must be b200"));
}

TEST_CASE("the tables of types on the engine's page are the configurations'", "[host][readme]") {
  const std::string page = wltest::read_text(wltest::source_file("kernels/gemm/README.md"));
  for (const char* operation : {"dual-gemm", "gemm"}) {
    const ChildResult child =
        wltest::run_child({wltest::build_file("warpline"), "types", "--operation", operation});
    REQUIRE(child.status == 0);
    INFO("replace the table in kernels/gemm/README.md by what prints: build/warpline types "
         "--operation "
         << operation);
    CHECK(page.find(child.out) != std::string::npos);
  }
  CHECK(wltest::run_child({wltest::build_file("warpline"), "types", "--operation", "quantize"})
            .status == 2);
}

TEST_CASE("the tables on the page of rules are the constraint tables", "[host][readme]") {
  for (const char* operation : {"dual-gemm", "gemm", "grouped-gemm", "grouped-dual-gemm",
                                "quantize", "norm-linear", "moe"}) {
    const ChildResult child =
        wltest::run_child({wltest::build_file("warpline"), "rules", "--operation", operation});
    REQUIRE(child.status == 0);
    const std::string page = wltest::read_text(wltest::source_file("kernels/RULES.md"));
    INFO("replace the table in kernels/RULES.md by what prints: build/warpline rules --operation "
         << operation);
    CHECK(page.find(child.out) != std::string::npos);
  }
}
