// The list of configurations, through the C ABI and through `warpline configs`.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/cli/json.hpp"
#include "warpline/warpline.h"

#include <string>
#include <vector>

using namespace wltest;

namespace {

template <class Args>
using List = wl_status (*)(wl_context*, const Args*, wl_dual_gemm_config*, size_t, int*);

template <class Args>
Args problem(int64_t m, int64_t n, int64_t k, wl_dtype d_type = WL_F16) {
  Args args{};
  args.struct_size = sizeof args;
  args.m = m;
  args.n = n;
  args.k = k;
  args.l = 1;
  args.d_type = d_type;
  return args;
}

template <class Args>
std::vector<wl_dual_gemm_config> listed(List<Args> list, const Args& args) {
  wl_context* context = virtual_context("b200");
  int count = 0;
  REQUIRE(list(context, &args, nullptr, sizeof(wl_dual_gemm_config), &count) == WL_SUCCESS);
  std::vector<wl_dual_gemm_config> configs(static_cast<size_t>(count));
  REQUIRE(list(context, &args, configs.data(), sizeof(wl_dual_gemm_config), &count) == WL_SUCCESS);
  CHECK(static_cast<size_t>(count) == configs.size());
  return configs;
}

void check_order(const std::vector<wl_dual_gemm_config>& list) {
  CHECK(list[0].chosen == 1);
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

template <class Args>
void check_refusals(List<Args> list, const std::string& entry, const std::string& type) {
  wl_context* context = virtual_context("b200");
  const auto refused = [&](wl_status status, const Args* args, wl_dual_gemm_config* configs,
                           size_t size, int* count, const std::string& text) {
    INFO(text);
    CHECK(list(context, args, configs, size, count) == status);
    CHECK(std::string(wl_last_error()).rfind(entry + ": ", 0) == 0);
    CHECK(std::string(wl_last_error()).find(text) != std::string::npos);
  };
  constexpr size_t size = sizeof(wl_dual_gemm_config);
  constexpr wl_status invalid = WL_ERROR_INVALID_ARGUMENT;
  Args args = problem<Args>(256, 4100, 7000);
  int count = 0;
  refused(invalid, &args, nullptr, size, &count, "N = 4100 must be a multiple of 8");
  refused(invalid, &args, nullptr, size, &count, "K = 7000 must be a multiple of 64");
  args = problem<Args>(256, 4104, 7168, WL_NVFP4);
  refused(invalid, &args, nullptr, size, &count, "N = 4104 must be a multiple of 64");
  args = problem<Args>(256, 4096, 7168, static_cast<wl_dtype>(7));
  refused(invalid, &args, nullptr, size, &count, "d_type = 7 must be");
  args = problem<Args>(256, 4096, 7168);
  refused(WL_ERROR_ABI, &args, nullptr, 8, &count, "wl_dual_gemm_config");
  refused(invalid, nullptr, nullptr, size, &count, "args is null");
  refused(invalid, &args, nullptr, size, nullptr, "count is null");
  count = 3;
  refused(invalid, &args, nullptr, size, &count, "configs is null, but count = 3");
  count = -1;
  refused(invalid, &args, nullptr, size, &count, "count = -1 must not be negative");
  args.struct_size -= 8;
  count = 0;
  refused(WL_ERROR_ABI, &args, nullptr, size, &count, type);
}

} // namespace

TEST_CASE("configs: the list names one winner, best first", "[virtual]") {
  const auto list = listed(wl_dual_gemm_list_configs, problem<wl_dual_gemm_args>(256, 4096, 7168));
  REQUIRE(list.size() > 4);
  CHECK(list[0].cta_group == 2);
  check_order(list);
}

TEST_CASE("configs: of wl_gemm, each type of D with its own, the one that a plan takes",
          "[virtual]") {
  wl_context* context = virtual_context("b200");
  void* memory = nullptr; // for operands, which no run reads
  REQUIRE(wl_malloc(context, 1 << 20, &memory) == WL_SUCCESS);
  const auto at = [&](size_t part) { return static_cast<uint8_t*>(memory) + (part << 17); };
  for (const auto& [type, ending] : {std::pair{WL_F16, "_f16"}, std::pair{WL_BF16, "_bf16"},
                                     std::pair{WL_F32, "_f32"}, std::pair{WL_NVFP4, "_nvfp4"}}) {
    auto args = problem<wl_gemm_args>(128, 256, 512, type);
    const auto list = listed(wl_gemm_list_configs, args);
    INFO(ending);
    REQUIRE(list.size() >= 4);
    check_order(list);
    for (const wl_dual_gemm_config& c : list) {
      const std::string name = c.name;
      CHECK(name.rfind("gemm_sm", 0) == 0);
      CHECK(name.ends_with(ending));
    }
    // B is one tensor.
    CHECK(list[0].least_bytes == (128 + 256) * 512 * 9 / 16);
    args.a = at(0), args.b = at(1), args.sfa = at(2), args.sfb = at(3), args.d = at(4);
    args.sfd = at(6);
    wl_plan* plan = nullptr;
    REQUIRE(wl_gemm_plan(context, &args, &plan) == WL_SUCCESS);
    wl_plan_info info{};
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
    wl_plan_destroy(plan);
    CHECK(info.config == std::string(list[0].name));
  }
  CHECK(wl_free(context, memory) == WL_SUCCESS);
}

TEST_CASE("configs: what cannot be listed", "[virtual]") {
  check_refusals<wl_dual_gemm_args>(wl_dual_gemm_list_configs, "wl_dual_gemm_list_configs",
                                    "wl_dual_gemm_args");
  check_refusals<wl_gemm_args>(wl_gemm_list_configs, "wl_gemm_list_configs", "wl_gemm_args");
}

TEST_CASE("configs: of groups, with sizes or gathered rows, whatever the pointers lead to",
          "[virtual]") {
  wl_context* context = virtual_context("b200");
  int32_t* const nowhere = reinterpret_cast<int32_t*>(uintptr_t{16});
  const auto status = [&](const auto& args, const auto& list) {
    int count = 0;
    return list(context, &args, nullptr, sizeof(wl_dual_gemm_config), &count);
  };
  const auto both = [&](const wl_groups& groups) {
    wl_grouped_gemm_args linear{sizeof linear, problem<wl_gemm_args>(256, 768, 512), groups};
    wl_grouped_dual_gemm_args dual{sizeof dual, problem<wl_dual_gemm_args>(256, 768, 512), groups};
    linear.gemm.config = dual.gemm.config = reinterpret_cast<const char*>(nowhere);
    const wl_status of_linear = status(linear, wl_grouped_gemm_list_configs);
    CHECK(status(dual, wl_grouped_dual_gemm_list_configs) == of_linear);
    return of_linear;
  };
  wl_groups groups{};
  groups.count = 4;
  CHECK(both(groups) == WL_SUCCESS);
  groups.sizes = nowhere;
  for (const int64_t stride : {0, -5, 65}) {
    groups.row_stride = stride;
    CHECK(both(groups) == WL_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(wl_last_error()).find("row_stride") != std::string::npos);
  }
  groups.row_stride = 64;
  CHECK(both(groups) == WL_SUCCESS);
  groups.rows = nowhere;
  CHECK(both(groups) == WL_ERROR_INVALID_ARGUMENT);
  groups.a_rows = 100;
  CHECK(both(groups) == WL_SUCCESS);
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
