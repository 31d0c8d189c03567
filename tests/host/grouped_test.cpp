// wl_grouped_gemm and wl_grouped_dual_gemm: both sides of the rules that groups bring, the choice
// of a configuration, and the reference's reading of offsets.
#include "kernels/grouped/grouped.hpp"
#include "tests/reference/grouped.hpp"
#include "tests/support/rule_sides.hpp"

#include <limits>

using namespace warpline;
using wltest::at;

namespace {

wltest::RuleCase<wl_grouped_gemm_args> legal_linear() {
  wltest::RuleCase<wl_grouped_gemm_args> c{};
  c.device.compute_major = 9;
  c.args.struct_size = sizeof c.args;
  wl_gemm_args& g = c.args.gemm;
  g.m = 1024, g.n = 256, g.k = 512, g.l = 1;
  g.a = at(0x010000000000), g.sfa = at(0x110000000000);
  g.b = at(0x210000000000), g.sfb = at(0x310000000000);
  g.d = at(0x410000000000);
  c.args.groups.count = 8;
  c.args.groups.ends = at<int32_t>(0x510000000000);
  return c;
}
wltest::RuleCase<wl_grouped_dual_gemm_args> legal_dual() {
  const auto from = legal_linear();
  wltest::RuleCase<wl_grouped_dual_gemm_args> c{};
  c.device = from.device;
  c.args.struct_size = sizeof c.args;
  wl_dual_gemm_args& g = c.args.gemm;
  g.m = 1024, g.n = 256, g.k = 512, g.l = 1;
  g.a = from.args.gemm.a, g.sfa = from.args.gemm.sfa, g.d = from.args.gemm.d;
  g.b1 = from.args.gemm.b, g.b2 = at(0x220000000000);
  g.sfb1 = from.args.gemm.sfb, g.sfb2 = at(0x320000000000);
  c.args.groups = from.args.groups;
  return c;
}

template <class Rules, class Case>
std::string broken(const Rules& rules, const Case& c) {
  std::string ids;
  for (const Violation& v : rules.violations({c.args, c.device, wltest::stub_memory()}))
    ids += (ids.empty() ? "" : " ") + std::string(v.rule.id);
  return ids;
}

// Changes that every rule accepts, and one that only the named rule refuses.
struct Side {
  const char* id;
  std::vector<void (*)(wl_groups&)> accepted;
  void (*refused)(wl_groups&);
};
#define TO(statement) [](wl_groups& g) { statement; }

const std::vector<Side> sides = {
    {"count", {TO(g.count = 1), TO(g.count = 512)}, TO(g.count = 513)},
    {"count", {}, TO(g.count = 0)},
    {"ends_sizes",
     {TO(g.sizes = g.ends; g.ends = nullptr; g.row_stride = 1)},
     TO(g.ends = nullptr)},
    {"ends_sizes", {}, TO(g.sizes = g.ends; g.row_stride = 1)},
    {"ends_aligned", {TO(g.ends += 1)}, TO(g.ends = at<int32_t>(0x510000000002))},
    {"row_stride",
     {TO(g.sizes = g.ends; g.ends = nullptr; g.row_stride = 128)},
     TO(g.sizes = g.ends; g.ends = nullptr; g.row_stride = 129)},
    {"row_stride", {}, TO(g.row_stride = 1)},
    {"sf_tiles_aligned",
     {TO(g.sf_tiles = at<int32_t>(0x520000000004); g.sf_tile_count = 1)},
     TO(g.sf_tiles = at<int32_t>(0x520000000001); g.sf_tile_count = 1)},
    {"sf_tile_count", {}, TO(g.sf_tiles = at<int32_t>(0x520000000000))},
    {"sf_tile_count", {}, TO(g.sf_tile_count = 1)},
    {"rows_aligned",
     {TO(g.rows = at<int32_t>(0x530000000004); g.a_rows = 1)},
     TO(g.rows = at<int32_t>(0x530000000003); g.a_rows = 1)},
    {"a_rows", {TO(g.rows = at<int32_t>(0x530000000000); g.a_rows = 1 << 30)}, TO(g.a_rows = 1)},
    {"a_rows", {}, TO(g.rows = at<int32_t>(0x530000000000))},
    {"b_stride_covers", {TO(g.b_stride_bytes = 256 * 256)}, TO(g.b_stride_bytes = 256 * 256 - 16)},
    {"b_stride_multiple", {}, TO(g.b_stride_bytes = 256 * 256 + 8)},
    {"sfb_stride_covers",
     {TO(g.sfb_stride_bytes = 256 * 32)},
     TO(g.sfb_stride_bytes = 256 * 32 - 16)},
    {"sfb_stride_multiple", {}, TO(g.sfb_stride_bytes = 256 * 32 + 4)},
    {"bias_stride_covers", {TO(g.bias_stride = 256)}, TO(g.bias_stride = 248)},
    {"bias_stride_multiple", {}, TO(g.bias_stride = 260)},
    {"status_aligned",
     {TO(g.status = at<uint32_t>(0x540000000004))},
     TO(g.status = at<uint32_t>(0x540000000002))},
    {"status_overlaps", {}, TO(g.status = at<uint32_t>(0x510000000004))},
    {"d_overlaps_ends", {}, TO(g.ends = at<int32_t>(0x410000000000))},
    {"d_overlaps_status", {}, TO(g.status = at<uint32_t>(0x410000000000))},
};

template <class Rules, class Case>
void check_sides(const Rules& rules, const Case& legal) {
  CHECK(broken(rules, legal) == "");
  for (const Side& side : sides) {
    INFO(side.id);
    for (const auto& change : side.accepted) {
      Case c = legal;
      change(c.args.groups);
      CHECK(broken(rules, c) == "");
    }
    Case c = legal;
    side.refused(c.args.groups);
    CHECK(broken(rules, c) == side.id);
  }
  if constexpr (requires { legal.args.gemm.a_layout; }) {
    for (wl_layout wl_gemm_args::*layout : {&wl_gemm_args::a_layout, &wl_gemm_args::b_layout}) {
      Case mn = legal;
      mn.args.gemm.*layout = WL_MN_MAJOR;
      CHECK(broken(rules, mn) == "types");
    }
  }
  Case c = legal;
  c.args.gemm.l = 2;
  CHECK_THAT(broken(rules, c), wltest::ContainsSubstring("l_one"));
}

std::string chosen(int64_t m, int64_t n, int64_t k, int count, wl_operand a, bool dual) {
  DeviceLimits h200 = wltest::b200_limits();
  h200.compute_major = 9, h200.sm_count = 132;
  gemm::Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.types = {a, WL_OPERAND_NVFP4};
  problem.d_type = WL_BF16;
  problem.groups.count = count;
  const gemm::Config* config =
      gemm::choose(dual ? grouped::dual_configs() : grouped::linear_configs(), problem, h200);
  return config == nullptr ? "none" : config->name;
}

} // namespace

TEST_CASE("rules of groups, from both sides", "[host][grouped]") {
  check_sides(grouped::linear_rules(), legal_linear());
  check_sides(grouped::dual_rules(), legal_dual());
  auto with_col = legal_linear();
  with_col.args.gemm.col = at<float>(0x610000000000);
  CHECK(broken(grouped::linear_rules(), with_col) == "col");
  for (const int number : {-1, 12, INT32_MAX}) {
    auto unknown = legal_linear();
    unknown.args.gemm.b_type = static_cast<wl_operand>(number);
    CHECK_THAT(broken(grouped::linear_rules(), unknown), wltest::ContainsSubstring("b_type"));
  }
}

TEST_CASE("configurations of groups are those that an H200 or H100 timed as fastest",
          "[host][grouped]") {
  const wl_operand bf16 = WL_OPERAND_BF16, nvfp4 = WL_OPERAND_NVFP4;
  // Tiles of 16 take the time of 8 where they have no more, and some have where routing is skewed.
  CHECK(chosen(8, 768, 2048, 128, bf16, true) == "grouped_dual_gemm_sm90_small_abf16_t16_bf16");
  CHECK(chosen(128, 2048, 768, 128, nvfp4, false) == "grouped_gemm_sm90_small_t16_wide_bf16");
  CHECK(chosen(512, 768, 2048, 128, bf16, true) == "grouped_dual_gemm_sm90_small_abf16_t16_bf16");
  CHECK(chosen(512, 2048, 768, 128, bf16, false) == "grouped_gemm_sm90_small_abf16_t16_wide_bf16");
  CHECK(chosen(256, 2880, 2880, 128, bf16, false) == "grouped_gemm_sm90_small_abf16_t16_wide_bf16");
  CHECK(chosen(64, 2048, 7168, 32, nvfp4, true) == "grouped_dual_gemm_sm90_small_t16_bf16");
  // Layers took 127 us of these two products, 153 of tiles of 64; of half as many rows more 160,
  // 154.
  CHECK(chosen(1024, 768, 2048, 128, bf16, true) == "grouped_dual_gemm_sm90_small_abf16_t16_bf16");
  CHECK(chosen(1024, 2048, 768, 128, bf16, false) == "grouped_gemm_sm90_small_abf16_t16_wide_bf16");
  CHECK(chosen(1536, 768, 2048, 128, bf16, true) == "grouped_dual_gemm_sm90_abf16_t64_bf16");
  CHECK(chosen(1536, 2048, 768, 128, bf16, false) == "grouped_gemm_sm90_abf16_t64_bf16");
  CHECK(chosen(768, 2880, 2880, 128, nvfp4, true) == "grouped_dual_gemm_sm90_small_t16_bf16");
  CHECK(chosen(512, 2048, 7168, 32, bf16, true) == "grouped_dual_gemm_sm90_abf16_t64_bf16");
  CHECK(chosen(4096, 768, 2048, 128, nvfp4, true) == "grouped_dual_gemm_sm90_t64_bf16");
  CHECK(chosen(16384, 768, 2048, 128, bf16, true) == "grouped_dual_gemm_sm90_abf16_t144_bf16");
  // Of NVFP4 rows, 256 a group, tiles of 288 are faster for two tensors where groups are alike,
  // slower elsewhere.
  CHECK(chosen(32768, 768, 2048, 128, nvfp4, true) == "grouped_dual_gemm_sm90_t144_bf16");
  CHECK(chosen(32768, 2048, 768, 128, nvfp4, false) == "grouped_gemm_sm90_t288_bf16");
  CHECK(chosen(32768, 768, 2048, 128, bf16, true) == "grouped_dual_gemm_sm90_abf16_t288_bf16");
  CHECK(chosen(32768, 2048, 768, 128, bf16, false) == "grouped_gemm_sm90_abf16_t288_bf16");
  CHECK(chosen(65536, 768, 2048, 128, nvfp4, true) == "grouped_dual_gemm_sm90_t288_bf16");
  CHECK(chosen(65536, 2048, 768, 128, bf16, false) == "grouped_gemm_sm90_abf16_t288_bf16");
  CHECK(chosen(8192, 2048, 7168, 32, bf16, true) == "grouped_dual_gemm_sm90_abf16_t288_bf16");
  CHECK(chosen(16384, 2880, 2880, 128, bf16, true) == "grouped_dual_gemm_sm90_abf16_t144_bf16");
  CHECK(chosen(4096, 7168, 2048, 32, bf16, false) == "grouped_gemm_sm90_abf16_t144_bf16");
  CHECK(chosen(4096, 7168, 2048, 32, nvfp4, false) == "grouped_gemm_sm90_t144_bf16");
}

TEST_CASE("rows are gathered by all configurations of groups", "[host][grouped]") {
  const std::vector<int32_t> rows(64);
  size_t gathering = 0;
  for (const gemm::Table* table : {&grouped::linear_configs(), &grouped::dual_configs()})
    for (const gemm::Config& config : *table) {
      INFO(config.name);
      DeviceLimits device = wltest::b200_limits();
      if (!config.blackwell()) device.compute_major = 9, device.sm_count = 132;
      gemm::Problem problem;
      problem.m = 64, problem.n = 256, problem.k = 512;
      problem.types = config.first_types();
      problem.d_type = config.d_type;
      problem.groups.count = 4;
      std::string reason;
      REQUIRE(gemm::can_run(config, problem, device, &reason));
      problem.groups.rows = rows.data(), problem.groups.a_rows = 64;
      CHECK(gemm::can_run(config, problem, device, &reason));
      ++gathering;
    }
  CHECK(gathering > 60);
}

TEST_CASE("wrong offsets of groups are taken as the header says", "[host][grouped][reference]") {
  wltest::GroupTable t;
  t.count = 5;
  const auto ends = [&](std::vector<int32_t> numbers, uint32_t* status) {
    t.ends = std::move(numbers);
    std::vector<int64_t> all;
    for (const wltest::GroupRange& r : wltest::ranges_of(t, 100, status)) {
      all.push_back(r.first);
      all.push_back(r.end);
    }
    return all;
  };
  uint32_t status = 0;
  using Rows = std::vector<int64_t>;
  CHECK(ends({0, 10, 10, 99, 100}, &status) == Rows{0, 0, 0, 10, 10, 10, 10, 99, 99, 100});
  CHECK(status == 0);
  CHECK(ends({5, 3, 7, 7, 7}, &status) == Rows{0, 5, 5, 5, 5, 7, 7, 7, 7, 7});
  CHECK(status == WL_GROUPS_DECREASE);
  CHECK(ends({-1, 0, 200, 200, 200}, &status) == Rows{0, 0, 0, 0, 0, 100, 100, 100, 100, 100});
  CHECK(status == (WL_GROUPS_DECREASE | WL_GROUPS_BEYOND_M));
  t.ends.clear();
  t.sizes = {3, -2, 30, 20, 0};
  t.row_stride = 20;
  const auto ranges = wltest::ranges_of(t, 100, &status);
  CHECK(status == (WL_GROUPS_DECREASE | WL_GROUPS_BEYOND_M));
  CHECK(ranges[1].rows() == 0);
  CHECK(ranges[2].end == 60);
  CHECK(ranges[4].first == 80);
}
