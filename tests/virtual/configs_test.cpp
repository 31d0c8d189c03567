// The list of configuration rows, through the C ABI and through `warpline configs`.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/cli/json.hpp"
#include "warpline/warpline.h"

#include <string>
#include <vector>

using namespace wltest;

namespace {

wl_dual_gemm_args problem(int64_t m, int64_t n, int64_t k) {
  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = m;
  args.n = n;
  args.k = k;
  args.l = 1;
  args.d_type = WL_F16;
  return args;
}

} // namespace

TEST_CASE("configs: the list names one winner, best first", "[virtual]") {
  wl_context* context = virtual_context("b200");
  const wl_dual_gemm_args args = problem(256, 4096, 7168);
  int count = 0;
  REQUIRE(wl_dual_gemm_list_configs(context, &args, nullptr, sizeof(wl_dual_gemm_config), &count) ==
          WL_SUCCESS);
  REQUIRE(count > 4);
  std::vector<wl_dual_gemm_config> list(static_cast<size_t>(count));
  REQUIRE(wl_dual_gemm_list_configs(context, &args, list.data(), sizeof(wl_dual_gemm_config),
                                    &count) == WL_SUCCESS);
  CHECK(list[0].chosen == 1);
  CHECK(list[0].cta_group == 2);
  CHECK(list[0].runs == 1);
  double last = 0;
  bool refused = false;
  for (const wl_dual_gemm_config& c : list) {
    INFO(c.name << ": " << c.reason);
    CHECK(c.reason[0] != '\0');
    CHECK(c.chosen == (&c == &list[0]));
    refused = refused || !c.runs;
    CHECK(refused == !c.runs);
    if (!c.runs) continue;
    CHECK(c.total_clocks >= last);
    last = c.total_clocks;
    const int64_t read = c.a_bytes + c.b_bytes + c.sfa_bytes + c.sfb_bytes;
    CHECK(read >= c.least_bytes);
    CHECK(c.delivered_bytes >= read);
    CHECK(c.tmem_columns <= 512);
  }
}

TEST_CASE("configs: what cannot be listed", "[virtual]") {
  wl_context* context = virtual_context("b200");
  wl_dual_gemm_args args = problem(256, 4100, 7000);
  int count = 0;
  CHECK(wl_dual_gemm_list_configs(context, &args, nullptr, sizeof(wl_dual_gemm_config), &count) ==
        WL_ERROR_INVALID_ARGUMENT);
  CHECK(std::string(wl_last_error()).find("N = 4100") != std::string::npos);
  CHECK(std::string(wl_last_error()).find("K = 7000") != std::string::npos);
  args = problem(256, 4096, 7168);
  CHECK(wl_dual_gemm_list_configs(context, &args, nullptr, 8, &count) == WL_ERROR_ABI);
  count = 3;
  CHECK(wl_dual_gemm_list_configs(context, &args, nullptr, sizeof(wl_dual_gemm_config), &count) ==
        WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_dual_gemm_list_configs(context, &args, nullptr, sizeof(wl_dual_gemm_config), nullptr) ==
        WL_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("cli: configs prints the winner and its reasons", "[virtual][cli]") {
  const auto cli = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {build_file("warpline"), "configs"});
    return run_child(arguments, {{"WARPLINE_DRIVER", ""}});
  };
  const std::vector<std::string> shape = {"-m", "512",  "-n",       "4096",
                                          "-k", "7168", "--device", "virtual:b300"};
  ChildResult child = cli(shape);
  INFO(child.out << child.err);
  CHECK(child.status == 0);
  CHECK(child.out.find("chosen: ") != std::string::npos);
  CHECK(child.out.find("cannot run") != std::string::npos);

  std::vector<std::string> arguments = shape;
  arguments.insert(arguments.end(), {"--json", "-"});
  child = cli(arguments);
  const warpline::cli::Json json = warpline::cli::parse_json(child.out);
  REQUIRE(json.kind == warpline::cli::Json::Kind::array);
  REQUIRE(!json.items.empty());
  CHECK(json.items[0].find("chosen")->boolean);
  CHECK(json.items[0].find("cta_group")->integer == 2);

  child = cli({"-m", "512", "-n", "4096"});
  CHECK(child.status == 2);
  CHECK(child.err.find("-k") != std::string::npos);
  child = cli({"-m", "512", "-n", "4096", "-k", "100", "--device", "virtual:b200"});
  CHECK(child.status == 2);
  CHECK(child.err.find("K = 100") != std::string::npos);
}
