// The library from Python: the structs that tests/examples/warpline_abi.py writes down by hand are
// the header's, and the examples that use them run.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "warpline/warpline.h"

#include <cstddef>
#include <sstream>

using wltest::ChildResult;
using wltest::ContainsSubstring;
using wltest::run_child;
using wltest::source_file;

namespace {

bool has_python() { return run_child({"python3", "-c", "pass"}).status == 0; }

// One line a constant, a struct and a field, as the module prints them.
std::string header_layout() {
  std::ostringstream out;
#define CONSTANT(name) out << #name << ' ' << static_cast<int>(name) << '\n'
  CONSTANT(WL_F16), CONSTANT(WL_BF16), CONSTANT(WL_NVFP4), CONSTANT(WL_F32);
  CONSTANT(WL_SF_128x4), CONSTANT(WL_SF_PLAIN), CONSTANT(WL_STATIC_WEIGHTS),
      CONSTANT(WL_GRAPH_LAUNCH);
  CONSTANT(WL_FAST_ACCUMULATION);
  CONSTANT(WL_ACTIVATION_NONE), CONSTANT(WL_ACTIVATION_GELU_ERF);
  CONSTANT(WL_GATE_SILU), CONSTANT(WL_GATE_GELU_TANH), CONSTANT(WL_GATE_CLAMPED);
#define STRUCT(type) out << #type << ' ' << sizeof(type) << '\n'
#define FIELD(type, field)                                                                         \
  out << #type "." #field << ' ' << offsetof(type, field) << ' ' << sizeof(type::field) << '\n'
  STRUCT(wl_dual_gemm_args);
#define ARGS(field) FIELD(wl_dual_gemm_args, field)
  ARGS(struct_size), ARGS(m), ARGS(n), ARGS(k), ARGS(l), ARGS(a), ARGS(b1), ARGS(b2), ARGS(sfa);
  ARGS(sfb1), ARGS(sfb2), ARGS(sf_layout), ARGS(alpha1), ARGS(alpha2), ARGS(d), ARGS(d_type);
  ARGS(ldd), ARGS(batch_stride_d), ARGS(config), ARGS(sfd), ARGS(d_scale), ARGS(flags);
  ARGS(bias1), ARGS(bias2), ARGS(bias_type), ARGS(gate), ARGS(gate_limit);
  ARGS(a_type), ARGS(b_type);
  STRUCT(wl_gemm_args);
#define GEMM(field) FIELD(wl_gemm_args, field)
  GEMM(struct_size), GEMM(m), GEMM(n), GEMM(k), GEMM(l), GEMM(a), GEMM(b), GEMM(sfa), GEMM(sfb);
  GEMM(sf_layout), GEMM(alpha), GEMM(row), GEMM(bias), GEMM(bias_type), GEMM(activation);
  GEMM(residual), GEMM(ldr), GEMM(batch_stride_r), GEMM(d), GEMM(d_type), GEMM(ldd);
  GEMM(batch_stride_d), GEMM(config), GEMM(sfd), GEMM(d_scale), GEMM(flags);
  GEMM(a_type), GEMM(b_type), GEMM(col), GEMM(a_layout), GEMM(b_layout);
  STRUCT(wl_groups);
#define GROUPS(field) FIELD(wl_groups, field)
  GROUPS(count), GROUPS(ends), GROUPS(sizes), GROUPS(row_stride), GROUPS(sf_tiles);
  GROUPS(sf_tile_count), GROUPS(rows), GROUPS(a_rows), GROUPS(b_stride_bytes);
  GROUPS(sfb_stride_bytes), GROUPS(bias_stride), GROUPS(status);
  STRUCT(wl_grouped_gemm_args);
  FIELD(wl_grouped_gemm_args, struct_size), FIELD(wl_grouped_gemm_args, gemm);
  FIELD(wl_grouped_gemm_args, groups);
  STRUCT(wl_grouped_dual_gemm_args);
  FIELD(wl_grouped_dual_gemm_args, struct_size), FIELD(wl_grouped_dual_gemm_args, gemm);
  FIELD(wl_grouped_dual_gemm_args, groups);
  STRUCT(wl_quantize_args);
#define QUANTIZE(field) FIELD(wl_quantize_args, field)
  QUANTIZE(struct_size), QUANTIZE(m), QUANTIZE(k), QUANTIZE(l), QUANTIZE(x), QUANTIZE(x_type);
  QUANTIZE(ldx), QUANTIZE(batch_stride_x), QUANTIZE(d), QUANTIZE(sfd), QUANTIZE(sf_layout);
  QUANTIZE(d_scale), QUANTIZE(config), QUANTIZE(flags), QUANTIZE(norm), QUANTIZE(eps);
  QUANTIZE(gamma_type), QUANTIZE(gamma), QUANTIZE(beta), QUANTIZE(residual), QUANTIZE(ldr);
  QUANTIZE(batch_stride_r), QUANTIZE(sum);
  STRUCT(wl_norm_linear_args);
#define NORM_LINEAR(field) FIELD(wl_norm_linear_args, field)
  NORM_LINEAR(struct_size), NORM_LINEAR(m), NORM_LINEAR(n), NORM_LINEAR(k), NORM_LINEAR(x);
  NORM_LINEAR(x_type), NORM_LINEAR(ldx), NORM_LINEAR(norm), NORM_LINEAR(form), NORM_LINEAR(eps);
  NORM_LINEAR(gamma_type), NORM_LINEAR(gamma), NORM_LINEAR(beta), NORM_LINEAR(residual);
  NORM_LINEAR(ldr), NORM_LINEAR(sum), NORM_LINEAR(w), NORM_LINEAR(w_type), NORM_LINEAR(sfw);
  NORM_LINEAR(sf_layout), NORM_LINEAR(a_scale), NORM_LINEAR(alpha), NORM_LINEAR(bias);
  NORM_LINEAR(bias_type), NORM_LINEAR(activation), NORM_LINEAR(d), NORM_LINEAR(d_type);
  NORM_LINEAR(ldd), NORM_LINEAR(config), NORM_LINEAR(flags);
  STRUCT(wl_moe_args);
#define MOE(field) FIELD(wl_moe_args, field)
  MOE(struct_size), MOE(tokens), MOE(hidden), MOE(intermediate), MOE(experts), MOE(top_k);
  MOE(first_expert), MOE(x), MOE(x_type), MOE(a_type), MOE(ids), MOE(weights), MOE(w_gate);
  MOE(w_up), MOE(w_down), MOE(sf_gate), MOE(sf_up), MOE(sf_down), MOE(sf_layout);
  MOE(w_stride_bytes), MOE(sf_stride_bytes), MOE(w_down_stride_bytes), MOE(sf_down_stride_bytes);
  MOE(alpha_gate), MOE(alpha_up), MOE(alpha_down), MOE(bias_gate), MOE(bias_up), MOE(bias_down);
  MOE(bias_type), MOE(gate), MOE(gate_limit), MOE(x_scale), MOE(h_scale), MOE(shared);
  MOE(ld_shared), MOE(y), MOE(y_type), MOE(ldy), MOE(flags), MOE(config_up), MOE(config_down);
  STRUCT(wl_plan_info);
#define INFO_FIELD(field) FIELD(wl_plan_info, field)
  INFO_FIELD(struct_size), INFO_FIELD(config), INFO_FIELD(kernel), INFO_FIELD(target);
  INFO_FIELD(grid), INFO_FIELD(block), INFO_FIELD(cluster), INFO_FIELD(tile_m), INFO_FIELD(tile_n);
  INFO_FIELD(tile_k), INFO_FIELD(stages), INFO_FIELD(shared_bytes), INFO_FIELD(registers);
  INFO_FIELD(launches), INFO_FIELD(workspace_bytes), INFO_FIELD(load_ms), INFO_FIELD(precompiled);
  return out.str();
}

} // namespace

TEST_CASE("Python's constants and structs are the header's", "[host][python]") {
  if (!has_python()) WL_SKIP("no python3");
  const ChildResult result = run_child({"python3", source_file("tests/examples/warpline_abi.py")});
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK(result.out == header_layout());
}

TEST_CASE("a Python program quantises and multiplies", "[host][python]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  if (!has_python()) WL_SKIP("no python3");
  const std::string program = source_file("tests/examples/program.py");
  for (const char* device : {"virtual:b200", "virtual:h200"}) {
    const ChildResult result = run_child(
        {"python3", program},
        {{"WARPLINE_DRIVER", device}, {"WARPLINE_LIBRARY", wltest::build_file("libwarpline.so")}});
    INFO(device << "\n" << result.out << result.err);
    CHECK(result.status == 0);
    CHECK_THAT(result.out, ContainsSubstring(": 0 of 480 outputs wrong"));
  }
}

TEST_CASE("the smallest Python program multiplies", "[host][python]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  if (!has_python()) WL_SKIP("no python3");
  for (const char* device : {"virtual:b200", "virtual:h200"}) {
    const ChildResult result = run_child(
        {"python3", source_file("tests/examples/smallest.py")},
        {{"WARPLINE_DRIVER", device}, {"WARPLINE_LIBRARY", wltest::build_file("libwarpline.so")}});
    INFO(device << "\n" << result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.out == "(15.7109375,)\n"); // silu(4) * 4, rounded to FP16
  }
}

TEST_CASE("a Python program serves a ModelOpt file", "[host][python]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  if (!has_python()) WL_SKIP("no python3");
  const ChildResult result =
      run_child({"python3", source_file("tests/examples/modelopt.py")},
                {{"WARPLINE_DRIVER", "virtual:h200"},
                 {"WARPLINE_LIBRARY", wltest::build_file("libwarpline.so")}});
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK_THAT(result.out,
             ContainsSubstring("12 tokens: 0 outputs wrong\n5 tokens: 0 outputs wrong"));
}

TEST_CASE("the PyTorch example says what it lacks", "[host][python]") {
  if (!has_python()) WL_SKIP("no python3");
  // No device is visible, so the example stops where PyTorch is installed, too.
  const ChildResult result = run_child({"python3", source_file("tests/examples/pytorch_mlp.py")},
                                       {{"CUDA_VISIBLE_DEVICES", "-1"}});
  INFO(result.out << result.err);
  CHECK(result.status == 3);
  CHECK_THAT(result.err, ContainsSubstring("PyTorch"));
}
