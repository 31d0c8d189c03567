// The four benchmark problems of grouped GEMM in NVFP4 on the virtual B200: exact, with the bits of
// a product for each group by itself, and counted in their full sizes. On the virtual H200 groups
// of few rows, whose tiles of 16 rows are narrow or not.
#include "kernels/grouped/grouped.hpp"
#include "tests/reference/grouped.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/cli/json.hpp"

#include <numeric>
#include <string>
#include <vector>

using namespace wltest;

namespace {

struct Case {
  std::vector<int64_t> rows;
  int64_t n, k;
  int64_t m() const { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }
};
const std::vector<Case> cases = {{{80, 176, 128, 72, 64, 248, 96, 160}, 4096, 7168},
                                 {{40, 76, 168, 72, 164, 148, 196, 160}, 7168, 2048},
                                 {{192, 320}, 3072, 4096},
                                 {{128, 384}, 4096, 1536}};

GroupTable table_of(const Case& c) {
  GroupTable table;
  table.count = static_cast<int64_t>(c.rows.size());
  int64_t end = 0;
  for (const int64_t rows : c.rows) table.ends.push_back(static_cast<int32_t>(end += rows));
  return table;
}

// Runs a plan of any operation.
template <class Args>
void run(wl_context* context, wl_status (*make)(wl_context*, const Args*, wl_plan**),
         const Args& args) {
  wl_plan* plan = nullptr;
  REQUIRE(make(context, &args, &plan) == WL_SUCCESS);
  wl_plan_info info{};
  info.struct_size = sizeof info;
  REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
  const DeviceBuffer workspace(context, info.workspace_bytes);
  CHECK(wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr) == WL_SUCCESS);
  CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
  wl_plan_destroy(plan);
}

// D of all groups by each configuration that makes FP16 and that `tried` names, and of each group
// by wl_gemm.
template <class Tried>
void check_exact(wl_context* context, const Case& c, uint64_t seed, int count, const Tried& tried) {
  const GroupTable table = table_of(c);
  const int64_t m = c.m();
  INFO("m " << m << ", n " << c.n << ", k " << c.k << ", seed " << seed);
  Problem p = make_problem(1, c.n, c.k, table.count, InputKind::exact, seed, 1);
  p.a = make_problem(m, 8, c.k, 1, InputKind::exact, seed + 1, 1).a;
  p.m = m, p.l = 1;
  const std::vector<GroupRange> ranges = ranges_of(table, m);
  GroupedLinear beside;
  beside.alpha.assign(c.rows.size(), 1.0f);
  const std::vector<uint8_t> wanted =
      rounded(grouped_linear_replayed(accumulate_groups(p, table), ranges, beside), WL_F16);

  const DeviceBuffer a(context, p.a.values), b(context, p.b1.values), ends(context, table.ends),
      sfa(context, packed_group_scales(table, m, c.k, p.a.scales, nan_padding)),
      sfb(context, packed_scales(p.b1)), d(context, wanted.size());
  wl_grouped_gemm_args args{};
  args.struct_size = sizeof args;
  args.gemm.m = m, args.gemm.n = c.n, args.gemm.k = c.k, args.gemm.l = 1;
  args.gemm.a = a.pointer, args.gemm.sfa = sfa.pointer;
  args.gemm.b = b.pointer, args.gemm.sfb = sfb.pointer, args.gemm.d = d.pointer;
  args.groups.count = static_cast<int32_t>(table.count);
  args.groups.ends = static_cast<const int32_t*>(ends.pointer);
  int ran = 0;
  for (const auto& config : warpline::grouped::linear_configs()) {
    if (!tried(config) || config.d_type != WL_F16 ||
        !config.takes({WL_OPERAND_NVFP4, WL_OPERAND_NVFP4}))
      continue;
    INFO(config.name);
    const std::vector<uint8_t> poison(wanted.size(), 0xFF);
    wl_upload(context, d.pointer, poison.data(), poison.size());
    args.gemm.config = config.name;
    run(context, wl_grouped_gemm_plan, args);
    CHECK(d.read(wanted.size()) == wanted);
    ++ran;
  }
  CHECK(ran == count);

  const size_t tile = wl_sf_bytes(WL_SF_128x4, 128, c.k);
  const size_t b_entry = p.b1.values.size() / c.rows.size();
  for (size_t g = 0; g < c.rows.size(); ++g) {
    if (c.rows[g] == 0) continue;
    wl_gemm_args one = args.gemm;
    one.struct_size = sizeof one;
    one.config = nullptr;
    const auto first = static_cast<size_t>(ranges[g].first);
    const auto tiles =
        static_cast<size_t>(first_scale_tile(table, ranges, static_cast<int64_t>(g)));
    one.m = c.rows[g];
    one.a = a.at(first * p.a.row_bytes()), one.sfa = sfa.at(tiles * tile);
    one.b = b.at(g * b_entry);
    one.sfb = sfb.at(g * wl_sf_bytes(WL_SF_128x4, c.n, c.k));
    const size_t row_bytes = 2 * static_cast<size_t>(c.n);
    const DeviceBuffer alone(context, static_cast<size_t>(one.m) * row_bytes);
    one.d = alone.pointer;
    run(context, wl_gemm_plan, one);
    const std::vector<uint8_t> got = alone.read(static_cast<size_t>(one.m) * row_bytes);
    CHECK(std::equal(got.begin(), got.end(),
                     wanted.begin() + static_cast<std::ptrdiff_t>(first * row_bytes)));
  }
}

double number(const warpline::cli::Json& object, const char* key) {
  const auto* value = object.find(key);
  REQUIRE(value != nullptr);
  return value->number;
}

} // namespace

// An eighth of N: the reference takes the time. Sums are exact, so that bits are.
TEST_CASE("grouped GEMM: the benchmark problems are exact, as each group by itself",
          "[virtual][grouped]") {
  for (size_t i = 0; i < cases.size(); ++i)
    check_exact(context_of_process(), {cases[i].rows, cases[i].n / 8, cases[i].k}, 71 + 10 * i, 3,
                [](const auto& config) { return config.blackwell(); });
}

// Narrow tiles stand beside wide ones, alone and as a group's last; K ends within a block of 256.
TEST_CASE("grouped GEMM on Hopper: tiles of 16 rows with up to 8 and with more in one kernel",
          "[virtual][grouped]") {
  const ChildResult child = run_child({build_file("tests/virtual"), "[.h200-narrow]"});
  INFO(child.out << child.err);
  CHECK(child.status == 0);
  CHECK(child.out.find("1 passed") != std::string::npos);
}

TEST_CASE("narrow tiles on Hopper, in a process of their own", "[.h200-narrow]") {
  wl_context* const context = virtual_context("h200");
  const auto small = [](const warpline::gemm::Config& config) {
    return config.family == warpline::gemm::Family::sm90_small;
  };
  check_exact(context, {{8, 9, 16, 1, 0, 17, 7, 24, 15, 40, 3}, 136, 832}, 1201, 2, small);
  check_exact(context, {{16, 8}, 264, 256}, 1301, 2, small);
  check_exact(context, {{2, 8, 5, 1}, 64, 320}, 1401, 2, small);
}

TEST_CASE("grouped GEMM: the benchmark problems read weights once and pad each group once",
          "[virtual][grouped][cli]") {
  for (const Case& c : cases) {
    std::string sizes;
    for (const int64_t rows : c.rows) sizes += (sizes.empty() ? "" : ",") + std::to_string(rows);
    const ChildResult r = warpline_cli({"grouped-gemm", "--sizes", sizes, "-n", std::to_string(c.n),
                                        "-k", std::to_string(c.k), "--out", "f16", "--device",
                                        "virtual:b200", "--stats", "--json", "-"});
    INFO(sizes << "\n" << r.err);
    REQUIRE(r.status == 0);
    const warpline::cli::Json report = warpline::cli::parse_json(r.out);
    CHECK(number(report, "wrong") == 0);
    // A configuration's row tile is 128 rows, of a pair 256.
    const bool pair = report.find("config")->text.find("_pair_") != std::string::npos;
    const int64_t tile = pair ? 256 : 128;
    const double b = static_cast<double>(c.n) * static_cast<double>(c.k) / 2;
    int64_t tiles = 0;
    for (const int64_t rows : c.rows) tiles += (rows + tile - 1) / tile;
    // From L2 once for each row tile. Row tiles of a group that are neighbours walk the same
    // columns side by side, so that DRAM gives them once.
    CHECK(number(*report.find("tma_B"), "read_bytes") == static_cast<double>(tiles) * b);
    // An MMA is 64 of K of a tile of 128 columns.
    CHECK(number(report, "mma") == static_cast<double>(tiles * (c.n / 128) * ((c.k + 63) / 64)));
  }
}
