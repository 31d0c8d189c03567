// The dual GEMM's tables without a device: every rule refuses what it names and nothing else, and
// the cost function chooses as it says.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_limits.hpp"
#include "tests/support/stub_memory.hpp"

#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace warpline;
using namespace warpline::dual_gemm;

namespace {

DeviceLimits b200() { return wltest::b200_limits(); }

template <class T>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

// A legal call: 256 x 4096 x 7168, one batch entry.
wl_dual_gemm_args legal() {
  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = 256;
  args.n = 4096;
  args.k = 7168;
  args.l = 1;
  args.a = at<void>(0x10000000);
  args.b1 = at<void>(0x20000000);
  args.b2 = at<void>(0x30000000);
  args.sfa = at<void>(0x40000000);
  args.sfb1 = at<void>(0x50000000);
  args.sfb2 = at<void>(0x60000000);
  args.alpha1 = at<float>(0x70000000);
  args.alpha2 = at<float>(0x70000004);
  args.d = at<void>(0x80000000);
  args.sf_layout = WL_SF_128x4;
  args.d_type = WL_F16;
  return args;
}

std::set<std::string> violated_ids(const wl_dual_gemm_args& args, const DeviceLimits& device) {
  std::set<std::string> ids;
  for (const Violation& violation : rules().violations({args, device, wltest::stub_memory()})) {
    INFO(violation.sentence());
    CHECK(violation.sentence().find("must") != std::string::npos);
    ids.insert(violation.rule.id);
  }
  return ids;
}

} // namespace

TEST_CASE("a legal dual GEMM violates no rule", "[host][dual_gemm]") {
  CHECK(violated_ids(legal(), b200()).empty());

  wl_dual_gemm_args args = legal();
  args.m = 1;
  args.n = 8;
  args.k = 64;
  args.l = 3;
  args.alpha1 = args.alpha2 = nullptr;
  args.ldd = 16;
  args.batch_stride_d = 8;
  args.d_type = WL_BF16;
  CHECK(violated_ids(args, b200()).empty());

  args = legal();
  args.d_type = WL_NVFP4;
  args.sfd = at<void>(0x80000000 + 256 * 4096 / 2); // D takes half a byte an element
  args.ldd = 4096;
  args.batch_stride_d = 256 * 4096;
  CHECK(violated_ids(args, b200()).empty());

  args = legal();
  args.bias1 = args.bias2 = at<void>(0x80000000 - 2 * 4096); // of 16 bits, right before D
  args.gate = WL_GATE_CLAMPED;
  args.gate_limit = 7;
  CHECK(violated_ids(args, b200()).empty());
  args.bias_type = WL_F32; // and of 32 bits reaching into D
  CHECK(violated_ids(args, b200()) ==
        std::set<std::string>{"d_overlaps_bias1", "d_overlaps_bias2"});

  args = legal();
  args.b2 = args.b1;
  args.config = "dual_gemm_sm100_n64_f16";
  CHECK(violated_ids(args, b200()).empty());

  DeviceLimits b300 = b200();
  b300.compute_minor = 3;
  CHECK(violated_ids(legal(), b300).empty());
}

TEST_CASE("every rule of the dual GEMM refuses what it names and nothing else",
          "[host][dual_gemm]") {
  using Change = std::function<void(wl_dual_gemm_args&)>;
  struct Case {
    std::string id;
    Change change;
  };
  const int64_t huge = int64_t{1} << 40;
  const auto nvfp4 = [](wl_dual_gemm_args& a) {
    a.d_type = WL_NVFP4;
    a.sfd = at<void>(0x90000000);
    a.d_scale = at<float>(0xA0000000);
  };
  const std::vector<Case> cases = {
      {"m_range", [](auto& a) { a.m = 0; }},
      {"m_range", [](auto& a) { a.m = -5; }},
      {"m_range", [&](auto& a) { a.m = huge; }},
      {"m_range", [](auto& a) { a.m = INT64_MAX; }},
      {"n_range", [](auto& a) { a.n = 0; }},
      {"n_range", [](auto& a) { a.n = INT64_MIN; }},
      {"n_range", [](auto& a) { a.n = 4; }},
      {"n_range", [&](auto& a) { a.n = huge; }},
      {"n_multiple", [](auto& a) { a.n = 4100; }},
      {"k_range", [](auto& a) { a.k = 0; }},
      {"k_range", [](auto& a) { a.k = 32; }},
      {"k_range", [](auto& a) { a.k = INT64_MAX - 63; }},
      {"k_multiple", [](auto& a) { a.k = 7000; }},
      {"a_type", [](auto& a) { a.a_type = static_cast<wl_operand>(12); }},
      {"b_type", [](auto& a) { a.b_type = static_cast<wl_operand>(-1); }},
      {"types", [](auto& a) { a.b_type = WL_OPERAND_TF32, a.sfb1 = a.sfb2 = nullptr; }},
      {"l_range", [](auto& a) { a.l = 0; }},
      {"l_range", [&](auto& a) { a.l = huge; }},
      {"tiles",
       [](auto& a) {
         a.m = 1 << 20;
         a.n = 1 << 20;
         a.k = 64;
         a.l = 16;
         a.a = at<void>(0x1000000000000);
         a.b1 = a.b2 = at<void>(0x1100000000000);
         a.sfa = at<void>(0x1200000000000);
         a.sfb1 = a.sfb2 = at<void>(0x1300000000000);
         a.batch_stride_d = int64_t{1} << 40;
         a.ldd = 1 << 20;
         a.d = at<void>(0x400000000000);
       }},
      {"sf_layout", [](auto& a) { a.sf_layout = static_cast<wl_sf_layout>(7); }},
      {"d_type", [](auto& a) { a.d_type = static_cast<wl_dtype>(3); }},
      {"flags", [](auto& a) { a.flags = 8; }},
      {"gate", [](auto& a) { a.gate = static_cast<wl_gate>(-1); }},
      {"gate_limit", [](auto& a) { a.gate_limit = -7; }},
      {"clamped_limit", [](auto& a) { a.gate = WL_GATE_CLAMPED, a.gate_limit = -7; }},
      {"bias_type", [](auto& a) { a.bias1 = at<void>(0xB0000000), a.bias_type = WL_NVFP4; }},
      {"bias1_aligned", [](auto& a) { a.bias1 = at<void>(0xB0000004); }},
      {"bias2_aligned", [](auto& a) { a.bias2 = at<void>(0xB0000008); }},
      {"bias1_reachable", [](auto& a) { a.bias1 = at<void>(wltest::host_window); }},
      {"bias2_reachable", [](auto& a) { a.bias2 = at<void>(wltest::host_window); }},
      {"d_overlaps_bias1", [](auto& a) { a.bias1 = at<void>(0x80000000 - 16); }},
      {"d_overlaps_bias2", [](auto& a) { a.bias2 = a.d; }},
      {"sfd_overlaps",
       [&](auto& a) {
         nvfp4(a);
         a.bias2 = at<void>(0x90000010);
       }},
      {"nvfp4_columns",
       [&](auto& a) {
         nvfp4(a);
         a.n = 4064;
       }},
      {"sfd_null",
       [&](auto& a) {
         nvfp4(a);
         a.sfd = nullptr;
       }},
      {"sfd_aligned",
       [&](auto& a) {
         nvfp4(a);
         a.sfd = at<void>(0x90000008);
       }},
      {"d_scale_aligned",
       [&](auto& a) {
         nvfp4(a);
         a.d_scale = at<float>(0xA0000002);
       }},
      {"nvfp4_ldd",
       [&](auto& a) {
         nvfp4(a);
         a.ldd = 4104;
       }},
      {"nvfp4_batch_stride",
       [&](auto& a) {
         nvfp4(a);
         a.batch_stride_d = 256 * 4096 + 8;
       }},
      {"d_overlaps_d_scale", [](auto& a) { a.d_scale = at<float>(0x80000010); }},
      {"sfd_overlaps",
       [&](auto& a) {
         nvfp4(a);
         a.sfd = at<void>(0x80000000 + 256 * 4096 / 2 - 16);
       }},
      {"sfd_overlaps",
       [&](auto& a) {
         nvfp4(a);
         a.sfd = at<void>(0x60000000);
       }},
      {"a_null", [](auto& a) { a.a = nullptr; }},
      {"b1_null", [](auto& a) { a.b1 = nullptr; }},
      {"b2_null", [](auto& a) { a.b2 = nullptr; }},
      {"sfa_null", [](auto& a) { a.sfa = nullptr; }},
      {"sfb1_null", [](auto& a) { a.sfb1 = nullptr; }},
      {"sfb2_null", [](auto& a) { a.sfb2 = nullptr; }},
      {"d_null", [](auto& a) { a.d = nullptr; }},
      {"a_unpacked",
       [](auto& a) { a.a_type = a.b_type = WL_OPERAND_MXFP4, a.a = at<void>(0x10000010); }},
      {"b1_unpacked",
       [](auto& a) { a.a_type = a.b_type = WL_OPERAND_MXFP6_E2M3, a.b1 = at<void>(0x20000030); }},
      {"b2_unpacked",
       [](auto& a) { a.a_type = a.b_type = WL_OPERAND_MXFP4, a.b2 = at<void>(0x30000010); }},
      {"a_aligned", [](auto& a) { a.a = at<void>(0x10000008); }},
      {"b1_aligned", [](auto& a) { a.b1 = at<void>(0x20000001); }},
      {"b2_aligned", [](auto& a) { a.b2 = at<void>(0x30000004); }},
      {"sfa_aligned", [](auto& a) { a.sfa = at<void>(0x40000008); }},
      {"sfb1_aligned", [](auto& a) { a.sfb1 = at<void>(0x50000008); }},
      {"sfb2_aligned", [](auto& a) { a.sfb2 = at<void>(0x60000008); }},
      {"d_aligned", [](auto& a) { a.d = at<void>(0x80000002); }},
      {"alpha1_aligned", [](auto& a) { a.alpha1 = at<float>(0x70000002); }},
      {"alpha2_aligned", [](auto& a) { a.alpha2 = at<float>(0x70000001); }},
      {"a_reachable", [](auto& a) { a.a = at<void>(wltest::host_window); }},
      {"b1_reachable", [](auto& a) { a.b1 = at<void>(wltest::host_window); }},
      {"b2_reachable", [](auto& a) { a.b2 = at<void>(wltest::host_window); }},
      {"sfa_reachable", [](auto& a) { a.sfa = at<void>(wltest::host_window); }},
      {"sfb1_reachable", [](auto& a) { a.sfb1 = at<void>(wltest::host_window); }},
      {"sfb2_reachable", [](auto& a) { a.sfb2 = at<void>(wltest::host_window); }},
      {"d_reachable", [](auto& a) { a.d = at<void>(wltest::host_window); }},
      {"alpha1_reachable", [](auto& a) { a.alpha1 = at<float>(wltest::host_window); }},
      {"alpha2_reachable", [](auto& a) { a.alpha2 = at<float>(wltest::host_window); }},
      {"sfd_reachable", [](auto& a) { a.sfd = at<void>(wltest::host_window); }},
      {"d_scale_reachable", [](auto& a) { a.d_scale = at<float>(wltest::host_window); }},
      {"ldd_covers", [](auto& a) { a.ldd = 4088; }},
      {"ldd_covers", [](auto& a) { a.ldd = -8; }},
      {"ldd_multiple", [](auto& a) { a.ldd = 4100; }},
      {"batch_stride_covers",
       [](auto& a) {
         a.l = 2;
         a.batch_stride_d = 255 * 4096;
       }},
      {"batch_stride_covers", [](auto& a) { a.batch_stride_d = -8; }},
      {"batch_stride_covers", [](auto& a) { a.batch_stride_d = 8; }},
      {"nvfp4_ldd",
       [&](auto& a) {
         nvfp4(a);
         a.ldd = -4;
       }},
      {"batch_stride_multiple", [](auto& a) { a.batch_stride_d = 256 * 4096 + 4; }},
      {"d_size", [](auto& a) { a.ldd = int64_t{1} << 47; }},
      {"d_size", [](auto& a) { a.ldd = INT64_MAX - 7; }},
      {"d_overlaps_a", [](auto& a) { a.a = at<void>(0x80000000 + 2 * 256 * 4096 - 16); }},
      {"d_overlaps_b1", [](auto& a) { a.b1 = at<void>(0x80000000 - 16); }},
      {"d_overlaps_b2", [](auto& a) { a.b2 = a.d; }},
      {"d_overlaps_sfa", [](auto& a) { a.sfa = at<void>(0x80000000 - 16); }},
      {"d_overlaps_sfb1", [](auto& a) { a.sfb1 = at<void>(0x80000000 + 16); }},
      {"d_overlaps_sfb2", [](auto& a) { a.sfb2 = at<void>(0x80000000 + 4096); }},
      {"d_overlaps_alpha1", [](auto& a) { a.alpha1 = at<float>(0x80000004); }},
      {"d_overlaps_alpha2", [](auto& a) { a.alpha2 = at<float>(0x80000008); }},
      {"config_known", [](auto& a) { a.config = "dual_gemm_sm100_n80_f16"; }},
      {"config_runs", [](auto& a) { a.config = "dual_gemm_sm100_n128_bf16"; }},
  };
  std::set<std::string> tried;
  for (const Case& c : cases) {
    wl_dual_gemm_args args = legal();
    c.change(args);
    INFO("rule " << c.id);
    CHECK(violated_ids(args, b200()) == std::set<std::string>{c.id});
    tried.insert(c.id);
  }

  // A device of another kind has no row at all, so a forced row cannot run either.
  DeviceLimits h100 = b200();
  h100.compute_major = 9;
  if (choose_config({256, 4096, 7168, 1, WL_F16}, h100) == nullptr)
    CHECK(violated_ids(legal(), h100) == std::set<std::string>{"device"});
  DeviceLimits turing = b200();
  turing.compute_major = 7;
  turing.compute_minor = 5;
  CHECK(violated_ids(legal(), turing) == std::set<std::string>{"device"});
  tried.insert("device");

  // Entries and tensors beyond the address space break several rules of size together.
  wl_dual_gemm_args args = legal();
  args.m = args.k = 1 << 30;
  CHECK(violated_ids(args, b200()).count("a_entry") == 1);
  CHECK(violated_ids(args, b200()).count("a_size") == 1);
  args = legal();
  args.n = args.k = 1 << 30;
  CHECK(violated_ids(args, b200()).count("b_entry") == 1);
  CHECK(violated_ids(args, b200()).count("b_size") == 1);
  args = legal();
  args.a_type = WL_OPERAND_F16, args.sfa = nullptr;
  args.n = 1 << 20, args.k = 1 << 19;
  CHECK(violated_ids(args, b200()).count("b_decoded") == 1);
  CHECK(violated_ids(args, b200()).count("b_entry") == 0);
  tried.insert({"a_entry", "a_size", "b_entry", "b_size", "b_decoded"});
  // Types that the device has no kernels for, and with them rules of K and of scales.
  args = legal();
  args.a_type = args.b_type = WL_OPERAND_INT8;
  args.k = 24;
  const std::set<std::string> of_types = {"types", "type_k_multiple", "sfa_unused", "sfb1_unused",
                                          "sfb2_unused"};
  DeviceLimits b300 = b200();
  b300.compute_minor = 3;
  CHECK(violated_ids(args, b300) == of_types);
  args.k = -4;
  CHECK(violated_ids(args, b300).count("type_k_range") == 1);
  tried.insert(of_types.begin(), of_types.end());
  tried.insert("type_k_range");

  for (const RuleRow& row : rules().rows()) {
    INFO("rule " << row.id << " has no refusing case");
    CHECK(tried.count(row.id) == 1);
  }
}

TEST_CASE("a forced row that cannot run names the reason, an unknown one the choices",
          "[host][dual_gemm]") {
  wl_dual_gemm_args args = legal();
  args.config = "fastest";
  std::vector<Violation> found = rules().violations({args, b200()});
  REQUIRE(found.size() == 1);
  std::istringstream names(found[0].verdict.nearest);
  int named = 0;
  for (std::string name; std::getline(names >> std::ws, name, ','); ++named) {
    const Config* row = find_config(name);
    INFO(name);
    REQUIRE(row != nullptr);
    CHECK(can_run(*row, {256, 4096, 7168, 1, WL_F16}, b200(), nullptr));
  }
  CHECK(named == 3);

  args.config = "dual_gemm_sm100_pair_n64_stream_f16";
  args.n = 1 << 20;
  args.k = 1 << 25;
  args.m = 512;
  found = rules().violations({args, b200()});
  bool told = false;
  for (const Violation& violation : found)
    told = told || violation.sentence().find("fewer than 2^31 K tiles of 256, the problem has "
                                             "4294967296") != std::string::npos;
  CHECK(told);

  args = legal();
  args.config = "dual_gemm_sm100_n64_bf16";
  found = rules().violations({args, b200()});
  REQUIRE(found.size() == 1);
  CHECK(found[0].sentence().find("WL_BF16") != std::string::npos);
  CHECK(found[0].sentence().find("dual_gemm_sm100_n64_f16") != std::string::npos);
}

TEST_CASE("the cost function chooses rows as its model says", "[host][dual_gemm]") {
  const DeviceLimits device = b200();
  // The public benchmark shapes: pairs; 128-wide tiles where 64-wide ones need a second wave.
  const struct {
    int64_t m, n, k;
    int tile_n;
  } shapes[] = {
      {256, 4096, 7168, 64}, {512, 4096, 7168, 128}, {256, 3072, 4096, 64}, {512, 3072, 7168, 128}};
  for (const auto& shape : shapes)
    for (wl_dtype type : {WL_F16, WL_BF16}) {
      const Config* row = choose_config({shape.m, shape.n, shape.k, 1, type}, device);
      REQUIRE(row != nullptr);
      INFO(row->name);
      CHECK(row->cta_group == 2);
      CHECK(row->tile_n == shape.tile_n);
      CHECK(row->d_type == type);
    }

  const Config* row = find_config("dual_gemm_sm100_n128_f16");
  REQUIRE(row != nullptr);
  const Cost one = cost(*row, {512, 4096, 7168, 1, WL_F16}, device);
  CHECK(one.tiles == 128);
  CHECK(one.waves == 1);
  CHECK(one.tile_clocks == 28 * 864); // (16384 + 32768 + 6144) / 64
  const Cost batch = cost(*row, {512, 4096, 7168, 3, WL_F16}, device);
  CHECK(batch.tiles == 384);
  CHECK(batch.waves == 3);
  CHECK(batch.total > one.total);

  // 76 pairs of tiles on 74 pairs of SMs: even shares of K instead of a second wave. The best row
  // without them is more than 5 % slower.
  const Problem overflow{256, 4864, 7168, 1, WL_F16};
  const Config* stream = choose_config(overflow, device);
  REQUIRE(stream != nullptr);
  INFO(stream->name);
  CHECK(stream->grid == Grid::stream_k);
  CHECK(sm100_clusters(*stream, overflow, device) == 74);
  CHECK(sm100_all_k_tiles(*stream, overflow) == 4864 / stream->tile_n * 28);
  for (const Config& other : configs())
    if (other.grid != Grid::stream_k && can_run(other, overflow, device, nullptr))
      CHECK(cost(other, overflow, device).total >= cost(*stream, overflow, device).total);
  // At least sm100_least_share K tiles for each cluster.
  CHECK(sm100_clusters(*stream, {1, 64, 7168, 1, WL_F16}, device) == 7);
  CHECK(sm100_clusters(*stream, {1, 64, 64, 1, WL_F16}, device) == 1);

  // 74 pairs are resident on 148 SMs, 32 clusters of 4, 16 of 8.
  CHECK(resident_clusters(1, device) == 148);
  CHECK(resident_clusters(2, device) == 74);
  CHECK(resident_clusters(4, device) == 32);
  CHECK(resident_clusters(8, device) == 16);

  // A second accumulator set hides an epilogue no longer than the main loop beside it; one
  // warpgroup alone is slower at the end.
  const Config* both = find_config("dual_gemm_sm100_pair_n64_f16");
  const Config* in_turn = find_config("dual_gemm_sm100_pair_n64_pingpong_f16");
  REQUIRE(both != nullptr);
  REQUIRE(in_turn != nullptr);
  const Problem flat{4096, 4096, 256, 1, WL_F16}, deep{4096, 4096, 7168, 1, WL_F16};
  CHECK(cost(*both, flat, device).waves == 14);
  CHECK(cost(*both, flat, device).total - cost(*both, flat, device).loop_clocks ==
        wltest::Approximate(1900 + 14 * 1024 - 13 * cost(*both, flat, device).tile_clocks));
  CHECK(cost(*both, deep, device).total - cost(*both, deep, device).loop_clocks ==
        wltest::Approximate(1900 + 1024));
  for (const Problem& problem : {flat, deep})
    CHECK(cost(*in_turn, problem, device).total - cost(*both, problem, device).total ==
          wltest::Approximate(4 * 64));

  // Rows of D that do not start on 32 bytes go through TMA, which writes fewer sectors in part; by
  // N, by ldd or by D's address.
  for (const int64_t n : {4096, 4104}) {
    wl_dual_gemm_args args{};
    args.m = 1000, args.n = n, args.k = 7168, args.l = 1, args.d_type = WL_F16;
    const auto stores = [&] { return choose_config(problem_of(args), device)->store; };
    CHECK(stores() == (n == 4096 ? Store::direct : Store::bulk));
    args.ldd = 4112;
    CHECK(stores() == Store::direct);
    args.d = reinterpret_cast<void*>(16);
    CHECK(stores() == Store::bulk);
  }

  DeviceLimits small = device;
  small.shared_bytes_per_block = 200000;
  std::string reason;
  CHECK_FALSE(can_run(*row, {}, WL_F16, small, &reason));
  CHECK(reason.find("shared memory") != std::string::npos);
  small = device;
  small.max_cluster = 2;
  const Config* wide = find_config("dual_gemm_sm100_pair_2x2_n64_f16");
  REQUIRE(wide != nullptr);
  CHECK_FALSE(can_run(*wide, {}, WL_F16, small, &reason));
  CHECK(reason.find("cluster of 4 CTAs is larger than the device's limit of 2") !=
        std::string::npos);
}

TEST_CASE("pairs and multicast move less from L2", "[host][dual_gemm]") {
  // 256 x 4096 x 7168: each step of the ladder, in MiB; the figures of gemm/README's table.
  const Problem problem{256, 4096, 7168, 1, WL_F16};
  const auto mib = [&](const char* name) {
    const Config* row = find_config(name);
    REQUIRE(row != nullptr);
    return static_cast<double>(traffic(*row, problem).total()) / (1 << 20);
  };
  CHECK(mib("dual_gemm_sm100_n64_f16") == 133);
  CHECK(mib("dual_gemm_sm100_pair_n64_f16") == 98);
  CHECK(mib("dual_gemm_sm100_pair_2x2_n64_f16") == 66.5);
  // One K tile of one tile, by hand: A 128 x 128 B, B1 and B2 64 x 128 B, three scale atoms x 4.
  const Config* row = find_config("dual_gemm_sm100_n64_f16");
  const Traffic one = traffic(*row, {128, 64, 256, 1, WL_F16});
  CHECK(one.a == 16384);
  CHECK(one.b == 16384);
  CHECK(one.sfa == 2048);
  CHECK(one.sfb == 4096);
  CHECK(one.delivered == one.total());
  CHECK(least_traffic({128, 64, 256, 1, WL_F16}) == (128 + 128) * 256 / 16 * 9);
}
