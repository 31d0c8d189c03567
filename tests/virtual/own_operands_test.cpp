// wl_<op>_run: what a run with its own operands refuses, and that nothing is
// launched then. That such runs are right is for the drawn problems (tests/problems).
#include "kernels/linear/linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/plan_problem.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <string>

using wltest::ContainsSubstring;
using Args = wl_dual_gemm_args;

namespace {

struct Planned {
  explicit Planned(wltest::PlanProblem& p) {
    REQUIRE(wl_dual_gemm_plan(p.context, &p.args, &plan) == WL_SUCCESS);
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
    if (info.workspace_bytes != 0)
      REQUIRE(wl_malloc(p.context, info.workspace_bytes, &workspace) == WL_SUCCESS);
    context = p.context;
  }
  ~Planned() {
    wl_plan_destroy(plan);
    wl_free(context, workspace);
  }
  wl_status run(const wl_dual_gemm_args& args) const {
    return wl_dual_gemm_run(plan, &args, workspace, info.workspace_bytes, nullptr);
  }
  wl_context* context;
  wl_plan* plan = nullptr;
  wl_plan_info info{};
  void* workspace = nullptr;
};

void check_refusals(const char* profile, const char* config) {
  wl_context* context = wltest::virtual_context(profile);
  wltest::PlanProblem p(context);
  p.args.config = config;
  const Planned planned(p);
  const std::vector<uint8_t> before = p.result();

  const auto refused = [&](wl_status status, const char* text, const auto& change) {
    wl_dual_gemm_args args = p.args;
    change(args);
    INFO(text);
    CHECK(planned.run(args) == status);
    CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
  };
  const wl_status invalid = WL_ERROR_INVALID_ARGUMENT;
  refused(invalid, "M = 131 must be at most the rows that the plan was made for (nearest: 130)",
          [](Args& a) { a.m = 131; });
  refused(invalid, "M = 0 must be from 1 to 2^30 rows", [](Args& a) { a.m = 0; });
  refused(invalid, "N = 120 must be that of the plan (nearest: 128)", [](Args& a) { a.n = 120; });
  refused(invalid, "K = 192 must be that of the plan (nearest: 256)", [](Args& a) { a.k = 192; });
  refused(invalid, "L = 2 must be that of the plan (nearest: 1)", [](Args& a) { a.l = 2; });
  refused(invalid, "d_type = 1 must be that of the plan (nearest: 0)",
          [](Args& a) { a.d_type = WL_BF16; });
  refused(invalid, "A: address is null", [](Args& a) { a.a = nullptr; });
  refused(invalid, "ldd = 64 must be 0 or at least N elements", [](Args& a) { a.ldd = 64; });
  refused(invalid, "must not overlap SFB2", [](Args& a) { a.d = const_cast<void*>(a.sfb2); });
  refused(WL_ERROR_MISALIGNED, "must be 16-byte aligned",
          [](Args& a) { a.m = 1, a.a = static_cast<const char*>(a.a) + 8; });
  refused(WL_ERROR_WRONG_DEVICE, "must be memory that the device can reach",
          [](Args& a) { a.b1 = reinterpret_cast<const void*>(0x10); });
  refused(WL_ERROR_ABI, "struct_size of wl_dual_gemm_args = 8 bytes",
          [](Args& a) { a.struct_size = 8; });
  CHECK(wl_dual_gemm_run(nullptr, &p.args, nullptr, 0, nullptr) == invalid);
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring("plan: pointer is null"));
  CHECK(wl_dual_gemm_run(planned.plan, nullptr, nullptr, 0, nullptr) == invalid);
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring("args is null"));

  if (planned.info.workspace_bytes != 0) {
    CHECK(wl_dual_gemm_run(planned.plan, &p.args, planned.workspace,
                           planned.info.workspace_bytes - 1,
                           nullptr) == WL_ERROR_WORKSPACE_TOO_SMALL);
    // The workspace is not the plan's operand, but the run's.
    refused(invalid, "must overlap nothing that the run reads or writes",
            [&](Args& a) { a.m = 1, a.a = planned.workspace; });
  }

  // Of another operation.
  wltest::LinearCase c;
  c.m = 130, c.n = 128, c.k = 256;
  wltest::LinearRun linear(context, c);
  REQUIRE(linear.message().empty());
  CHECK(wl_dual_gemm_run(linear.plan(), &p.args, planned.workspace, planned.info.workspace_bytes,
                         nullptr) == invalid);
  CHECK_THAT(std::string(wl_last_error()),
             ContainsSubstring("must be a plan of wl_dual_gemm_plan"));
  wl_gemm_args gemm{};
  gemm.struct_size = sizeof gemm;
  CHECK(wl_gemm_run(planned.plan, &gemm, nullptr, 0, nullptr) == invalid);
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring("must be a plan of wl_gemm_plan"));
  wl_quantize_args quantisation{};
  quantisation.struct_size = sizeof quantisation;
  quantisation.m = 8, quantisation.k = 64, quantisation.l = 1;
  quantisation.x = p.bytes(8 * 64 * 2, 1), quantisation.d = p.bytes(8 * 64 / 2, 2);
  quantisation.sfd = p.scales(8);
  wl_plan* quantise = nullptr;
  REQUIRE(wl_quantize_plan(context, &quantisation, &quantise) == WL_SUCCESS);
  CHECK(wl_gemm_run(quantise, &gemm, nullptr, 0, nullptr) == invalid);
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring("must be a plan of wl_gemm_plan"));
  quantisation.m = 4;
  CHECK(wl_quantize_run(quantise, &quantisation, nullptr, 0, nullptr) == WL_SUCCESS);
  const auto refused_rows = [&](const char* text, const auto& change) {
    wl_quantize_args args = quantisation;
    change(args);
    CHECK(wl_quantize_run(quantise, &args, nullptr, 0, nullptr) == invalid);
    CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
  };
  refused_rows("M = 9 must be at most the rows that the plan was made for (nearest: 8)",
               [](wl_quantize_args& a) { a.m = 9; });
  refused_rows("K = 128 must be that of the plan (nearest: 64)",
               [](wl_quantize_args& a) { a.m = 2, a.k = 128; });
  refused_rows("x_type = 1 must be that of the plan (nearest: 0)",
               [](wl_quantize_args& a) { a.x_type = WL_BF16; });
  refused_rows("norm = 1 must be that of the plan (nearest: 0)",
               [](wl_quantize_args& a) { a.norm = WL_NORM_RMS, a.eps = 1; });
  CHECK(wl_quantize_run(planned.plan, &quantisation, nullptr, 0, nullptr) == invalid);
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring("must be a plan of wl_quantize_plan"));
  wl_plan_destroy(quantise);

  wl_norm_linear_args layer{};
  layer.struct_size = sizeof layer;
  layer.m = 8, layer.n = 64, layer.k = 64;
  layer.x = p.bytes(8 * 64 * 2, 1), layer.w = p.bytes(64 * 64 * 2, 2),
  layer.w_type = WL_OPERAND_F16;
  layer.norm = WL_NORM_LAYER, layer.eps = 1;
  layer.d = p.bytes(8 * 64 * 2, 3);
  wl_plan* normalise = nullptr;
  REQUIRE(wl_norm_linear_plan(context, &layer, &normalise) == WL_SUCCESS);
  wl_plan_info of_layer{};
  of_layer.struct_size = sizeof of_layer;
  REQUIRE(wl_plan_get_info(normalise, &of_layer) == WL_SUCCESS);
  const auto refused_layer = [&](const char* text, const auto& change) {
    wl_norm_linear_args args = layer;
    change(args);
    CHECK(wl_norm_linear_run(normalise, &args, nullptr, 0, nullptr) == invalid);
    CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
  };
  using Layer = wl_norm_linear_args;
  refused_layer("M = 9 must be at most", [](Layer& a) { a.m = 9; });
  refused_layer("N = 32 must be that of the plan", [](Layer& a) { a.n = 32; });
  refused_layer("norm = 1 must be that of the plan", [](Layer& a) { a.norm = WL_NORM_RMS; });
  refused_layer("form = 1 must be that of the plan", [](Layer& a) { a.form = WL_NORM_FOLDED; });
  refused_layer("d_type = 3 must be that of the plan", [](Layer& a) { a.d_type = WL_F32; });
  CHECK(wl_norm_linear_run(normalise, &layer, nullptr, 0, nullptr) == WL_ERROR_WORKSPACE_TOO_SMALL);
  CHECK(wl_norm_linear_run(planned.plan, &layer, nullptr, 0, nullptr) == invalid);
  wl_plan_destroy(normalise);

  CHECK((p.result() == before));
  wl_dual_gemm_args own = p.args;
  own.config = reinterpret_cast<const char*>(uintptr_t{16}); // not looked at, nor logged
  CHECK(planned.run(own) == WL_SUCCESS);
  CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
  CHECK((p.result() != before));
}

// Experts, and groups of rows.
void check_group_refusals(const char* profile) {
  wl_context* context = wltest::virtual_context(profile);
  wltest::PlanProblem p(context);
  constexpr int64_t rows = 4, n = 64, k = 64, experts = 2;
  const auto invalid = WL_ERROR_INVALID_ARGUMENT;
  wl_moe_args moe{};
  moe.struct_size = sizeof moe;
  moe.tokens = rows, moe.hidden = k, moe.intermediate = n, moe.experts = experts, moe.top_k = 1;
  moe.x = p.bytes(rows * k * 2, 1), moe.y = p.bytes(rows * k * 2, 2);
  moe.ids = static_cast<const int32_t*>(p.upload(std::vector<uint8_t>(rows * 4)));
  moe.w_gate = moe.w_up = moe.w_down = p.bytes(experts * n * k / 2, 3);
  moe.sf_gate = moe.sf_up = moe.sf_down = p.scales(experts * 128);
  moe.gate = WL_GATE_SILU;
  wl_plan* plan = nullptr;
  REQUIRE(wl_moe_plan(context, &moe, &plan) == WL_SUCCESS);
  const auto refused = [&](const char* text, const auto& change) {
    wl_moe_args args = moe;
    change(args);
    CHECK(wl_moe_run(plan, &args, nullptr, 0, nullptr) == invalid);
    CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
  };
  using Moe = wl_moe_args;
  refused("T = 5 must be at most the tokens", [](Moe& a) { a.tokens = 5; });
  refused("E = 1 must be that of the plan", [](Moe& a) { a.experts = 1; });
  refused("y_type = 1 must be that of the plan", [](Moe& a) { a.y_type = WL_BF16; });
  if (std::string(profile) == "h200")
    refused("sf_layout = 1 must be that of the plan (nearest: 0)",
            [](Moe& a) { a.sf_layout = WL_SF_PLAIN; });
  wl_plan_destroy(plan);

  wl_grouped_gemm_args groups{};
  groups.struct_size = sizeof groups;
  wl_gemm_args& g = groups.gemm;
  g.m = rows, g.n = n, g.k = k, g.l = 1;
  g.a = p.bytes(rows * k / 2, 4), g.sfa = p.scales(experts * 128);
  g.b = moe.w_up, g.sfb = moe.sf_up, g.d = moe.y, g.d_type = WL_F16;
  groups.groups.count = experts;
  groups.groups.ends = static_cast<const int32_t*>(p.upload(std::vector<uint8_t>(experts * 4)));
  const auto* const some = static_cast<const int32_t*>(p.upload(std::vector<uint8_t>(rows * 4)));
  for (const bool gathered : {false, true}) {
    groups.groups.rows = gathered ? some : nullptr;
    groups.groups.a_rows = gathered ? 1 : 0;
    REQUIRE(wl_grouped_gemm_plan(context, &groups, &plan) == WL_SUCCESS);
    wl_grouped_gemm_args other = groups;
    other.groups.rows = gathered ? nullptr : some;
    other.groups.a_rows = gathered ? 0 : 1;
    CHECK(wl_grouped_gemm_run(plan, &other, nullptr, 0, nullptr) == invalid);
    CHECK_THAT(std::string(wl_last_error()),
               ContainsSubstring(gathered ? "must not be null, as it was not for the plan"
                                          : "must be null, as it was for the plan"));
    wl_plan_destroy(plan);
  }
}

// One row's stride and one entry's lead nowhere, so any is as good as another.
void check_unused_strides(const char* profile) {
  wl_context* context = wltest::virtual_context(profile);
  wltest::PlanProblem p(context);
  constexpr int64_t m = 136, n = 128, k = 64, far = int64_t{1} << 40;
  wl_gemm_args args{};
  args.struct_size = sizeof args;
  args.n = n, args.k = k, args.l = 1;
  args.a_type = args.b_type = WL_OPERAND_F16;
  args.a = p.bytes(m * k * 2, 1), args.b = p.bytes(n * k * 2, 2);
  args.residual = p.bytes(m * n * 2, 3), args.d = p.bytes(m * n * 2, 4);
  for (const bool of_row : {true, false}) {
    args.m = of_row ? 1 : m;
    args.ldd = args.ldr = of_row ? far : 0;
    args.batch_stride_d = args.batch_stride_r = of_row ? 0 : far;
    wl_plan* plan = nullptr;
    const wl_status made = wl_gemm_plan(context, &args, &plan);
    INFO(wl_last_error());
    REQUIRE(made == WL_SUCCESS);
    CHECK(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
    CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    wl_plan_destroy(plan);
  }
}

int shared_bytes_of(const std::string& name) {
  for (const auto& config : warpline::linear::configs())
    if (config.name == name) return config.shared_bytes;
  FAIL("no configuration " + name);
  return 0;
}

// An SM has room for no more than its share of a product's CTAs, and runs of fewer rows find the
// shared memory that they then take.
void check_shares_of_sms() {
  wl_context* context = wltest::virtual_context("h200");
  wltest::PlanProblem p(context);
  constexpr int64_t n = 4096, k = 256;
  wl_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = 16, args.n = n, args.k = k, args.l = 1;
  args.a = p.bytes(args.m * k / 2, 1), args.b = p.bytes(n * k / 2, 2);
  args.sfa = p.scales(args.m), args.sfb = p.scales(n), args.d = p.bytes(args.m * n * 2, 3);
  for (const auto& [config, m] : {std::pair{"gemm_sm90_stream_t8_f16", 16},
                                  {"gemm_sm90_small_t8_f16", 16},
                                  {"gemm_sm90_t16c32_split_f16", 16},
                                  {"gemm_sm90_small_t1_split4_f16", 1}}) {
    args.config = config, args.m = m;
    wl_plan* plan = nullptr;
    REQUIRE(wl_gemm_plan(context, &args, &plan) == WL_SUCCESS);
    wl_plan_info info{};
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
    const auto ctas = static_cast<int>(info.grid[0]), hold = info.cluster[0] > 2 ? 120 : 132;
    const int share = (ctas + hold - 1) / hold, an_sm = 228 * 1024 / (info.shared_bytes + 1024);
    // Of clusters of four registers leave no room for more: the configuration's own bytes.
    if (info.cluster[0] > 2)
      CHECK(info.shared_bytes == shared_bytes_of(config));
    else
      CHECK(an_sm == share);
    void* workspace = nullptr;
    REQUIRE(wl_malloc(context, info.workspace_bytes + 256, &workspace) == WL_SUCCESS);
    args.m = 1;
    const wl_status ran = wl_gemm_run(plan, &args, workspace, info.workspace_bytes, nullptr);
    INFO(config << ": " << wl_last_error());
    CHECK(ran == WL_SUCCESS);
    CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    wl_plan_destroy(plan);
    CHECK(wl_free(context, workspace) == WL_SUCCESS);
  }
}

// 40 tiles on 66 clusters of an H200 are whole ones; 20 are shared, by more clusters, which find
// room for their sums in the workspace of the plan for 40.
void check_room_for_sums() {
  wl_context* context = wltest::virtual_context("h200");
  wltest::PlanProblem p(context);
  constexpr int64_t n = 256, k = 2048, most = 40 * 256;
  wl_gemm_args args{};
  args.struct_size = sizeof args;
  args.n = n, args.k = k, args.l = 1;
  args.a = p.bytes(most * k * 2, 1), args.b = p.bytes(n * k / 2, 2);
  const auto scales = [&](int64_t rows) {
    return p.bytes(static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, rows, k)), 4);
  };
  args.sfb = scales(n), args.d = p.bytes(most * n * 2, 3);
  args.b_type = WL_OPERAND_NVFP4;
  for (const auto& [config, type] : {std::pair{"gemm_sm90_t256_stream_k_f16", WL_OPERAND_NVFP4},
                                     {"gemm_sm90_direct_af16_t256_stream_k_f16", WL_OPERAND_F16}}) {
    args.config = config, args.a_type = type, args.m = most;
    args.sfa = type == WL_OPERAND_NVFP4 ? scales(most) : nullptr;
    wl_plan* plan = nullptr;
    REQUIRE(wl_gemm_plan(context, &args, &plan) == WL_SUCCESS);
    wl_plan_info info{};
    info.struct_size = sizeof info;
    REQUIRE(wl_plan_get_info(plan, &info) == WL_SUCCESS);
    CHECK(info.grid[0] == 80);
    void* workspace = nullptr;
    REQUIRE(wl_malloc(context, info.workspace_bytes, &workspace) == WL_SUCCESS);
    args.m = most / 2;
    const wl_status ran = wl_gemm_run(plan, &args, workspace, info.workspace_bytes, nullptr);
    INFO(config << ": " << wl_last_error());
    CHECK(ran == WL_SUCCESS);
    CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
    wl_plan_destroy(plan);
    CHECK(wl_free(context, workspace) == WL_SUCCESS);
  }
}

} // namespace

TEST_CASE("a run refuses operands that are not the plan's kind, and launches nothing",
          "[virtual][plan]") {
  for (const char* device : {"[.b200-own]", "[.h200-own]"}) {
    const wltest::ChildResult child = wltest::run_child(
        {wltest::build_file("tests/virtual"), device}, {{"WARPLINE_LOG_LEVEL", "3"}});
    INFO(child.out << child.err);
    CHECK(child.status == 0);
    CHECK(child.out.find("1 passed") != std::string::npos);
  }
}

TEST_CASE("own operands on Blackwell, in a process of their own", "[.b200-own]") {
  check_refusals("b200", nullptr);
  check_refusals("b200", "dual_gemm_sm100_pair_n64_stream_f16");
  check_group_refusals("b200");
  check_unused_strides("b200");
}

TEST_CASE("own operands on Hopper, in a process of their own", "[.h200-own]") {
  check_refusals("h200", "dual_gemm_sm90_t64_f16");
  check_refusals("h200", "dual_gemm_sm90_small_t8_f16");
  check_group_refusals("h200");
  check_shares_of_sms();
  check_room_for_sums();
  check_unused_strides("h200");
}
