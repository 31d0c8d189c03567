// Both sides of every rule of wl_gemm.
#include "kernels/linear/linear.hpp"
#include "tests/support/product_sides.hpp"

using namespace warpline;
using namespace warpline::linear;
using wltest::at;

namespace {

using Args = wl_gemm_args;
using Case = wltest::RuleCase<Args>;
using Sides = wltest::RuleSides<Args>;

// Operands far from each other, so that sizes may grow.
Args legal() {
  Args args{};
  args.struct_size = sizeof args;
  args.m = 256, args.n = 4096, args.k = 7168, args.l = 1;
  args.a = at(0x010000000000), args.b = at(0x110000000000);
  args.sfa = at(0x310000000000), args.sfb = at(0x410000000000);
  args.alpha = at<float>(0x610000000000), args.row = at<float>(0x620000000000);
  args.bias = at(0x630000000000), args.bias_type = WL_F32;
  args.activation = WL_ACTIVATION_SILU;
  args.d = at(0x710000000000);
  args.d_type = WL_F16;
  return args;
}

// Both operands of a type, with scales where it has them.
wltest::RuleChange<Args> typed(wl_operand type, const wltest::RuleChange<Args>& change) {
  return [type, change](Case& s) {
    s.args.a_type = s.args.b_type = type;
    if (!gemm::has_scales(type)) s.args.sfa = s.args.sfb = nullptr;
    change(s);
  };
}

// Of FP8 operands on Hopper.
wltest::RuleChange<Args> on_h200(const wltest::RuleChange<Args>& change) {
  return typed(WL_OPERAND_E5M2, [change](Case& s) {
    s.device.compute_major = 9, s.device.compute_minor = 0;
    change(s);
  });
}

// Of BF16 operands there.
wltest::RuleChange<Args> on_hopper(const wltest::RuleChange<Args>& change) {
  return typed(WL_OPERAND_BF16, [change](Case& s) {
    s.device.compute_major = 9, s.device.compute_minor = 0;
    change(s);
  });
}

// Of weights that Blackwell decodes: 2^20 columns.
wltest::RuleChange<Args> decoded(int64_t k, const wltest::RuleChange<Args>& change) {
  return [k, change](Case& s) {
    s.args.a_type = WL_OPERAND_F16, s.args.sfa = nullptr;
    s.args.m = 1, s.args.n = 1 << 20, s.args.k = k;
    change(s);
  };
}

#define SET(statement) [](Case& s) { s.args.statement; }
#define RESIDUAL(statement) [](Case& s) { s.args.residual = at(0x740000000000), s.args.statement; }
#define OPERAND(id, name, field, alignment, bytes, optional)                                       \
  WL_OPERAND_SIDES(Args, id, name, field, alignment, bytes, optional, d_bytes)

std::vector<Sides> make_sides() {
  std::vector<Sides> all = {
      {"device",
       {[](Case& s) { s.device.compute_minor = 3; }},
       [](Case& s) { s.device.compute_major = 8; },
       "device B200 has compute capability 8.0, which must run one of the library's targets "
       "(nearest: sm_100f"},
      {"d_type",
       {SET(d_type = WL_BF16), SET(d_type = WL_F32), wltest::nvfp4<Args>},
       SET(d_type = static_cast<wl_dtype>(4)),
       "d_type = 4 must be WL_F16 (0), WL_BF16 (1), WL_NVFP4 (2) or WL_F32 (3) (nearest: 3)"},
      {"bias_type",
       {SET(bias_type = WL_F16), SET(bias_type = WL_BF16),
        [](Case& s) { s.args.bias = nullptr, s.args.bias_type = static_cast<wl_dtype>(9); }},
       SET(bias_type = WL_NVFP4),
       "bias_type = 2 must be WL_F16 (0), WL_BF16 (1) or WL_F32 (3) (nearest: 0, 1, 3)"},
      {"col_taken",
       {on_h200(SET(col = at<float>(0x640000000000))), on_h200([](Case& s) {
          s.args.a_type = s.args.b_type = WL_OPERAND_INT8, s.args.col = at<float>(0x640000000000);
        }),
        typed(WL_OPERAND_E4M3, SET(col = at<float>(0x640000000000))),
        typed(WL_OPERAND_INT8, SET(col = at<float>(0x640000000000)))},
       typed(WL_OPERAND_BF16, SET(col = at<float>(0x640000000000))),
       "col: address 0x640000000000 is given, must be null but for FP8 and INT8 operands "
       "(nearest: null)"},
      {"a_layout",
       {on_hopper(SET(a_layout = WL_MN_MAJOR)), SET(a_layout = WL_K_MAJOR)},
       SET(a_layout = static_cast<wl_layout>(2)),
       "a_layout = 2 must be WL_K_MAJOR (0) or WL_MN_MAJOR (1) (nearest: 1)"},
      {"b_layout",
       {on_hopper(SET(b_layout = WL_MN_MAJOR)),
        on_hopper([](Case& s) { s.args.a_layout = s.args.b_layout = WL_MN_MAJOR, s.args.k = 7; })},
       SET(b_layout = static_cast<wl_layout>(-1)),
       "b_layout = -1 must be WL_K_MAJOR (0) or WL_MN_MAJOR (1) (nearest: 0)"},
      {"mn_major_m",
       {on_hopper([](Case& s) { s.args.a_layout = WL_MN_MAJOR, s.args.m = 248; }),
        on_hopper([](Case& s) { s.args.b_layout = WL_MN_MAJOR, s.args.m = 255; })},
       on_hopper([](Case& s) { s.args.a_layout = WL_MN_MAJOR, s.args.m = 252; }),
       "M = 252 must be a multiple of 8 rows where A is MN-major (nearest: 248, 256)"},
      {"mn_major_m",
       {},
       on_hopper([](Case& s) { s.args.a_layout = WL_MN_MAJOR, s.args.m = 4; }),
       "M = 4 must be a multiple of 8 rows where A is MN-major (nearest: 8)"},
      {"sfb_unused",
       {},
       SET(b_type = WL_OPERAND_E4M3),
       "SFB: address 0x410000000000 is given, must be null for a type without block scales"},
      {"a_unpacked",
       {typed(WL_OPERAND_MXFP6_E3M2, SET(a = at(0x010000000020))),
        typed(WL_OPERAND_MXFP8_E5M2, SET(a = at(0x010000000010)))},
       typed(WL_OPERAND_MXFP6_E3M2, SET(a = at(0x010000000010))),
       "A: address 0x10000000010 is 16 modulo 32, must be 32-byte aligned with MXFP6 or MXFP4"},
      {"b_unpacked",
       {typed(WL_OPERAND_MXFP4, SET(b = at(0x110000000020))),
        typed(WL_OPERAND_MXFP8_E4M3, SET(b = at(0x110000000010)))},
       typed(WL_OPERAND_MXFP4, SET(b = at(0x110000000030))),
       "B: address 0x110000000030 is 16 modulo 32, must be 32-byte aligned with MXFP6 or MXFP4"},
      {"b_decoded",
       {decoded((1 << 19) - 64, SET(a_type = WL_OPERAND_BF16)),
        decoded(1 << 19, [](Case& s) { s.device.compute_major = 9, s.device.compute_minor = 0; })},
       decoded(1 << 19, SET(l = 1)),
       "B: an entry takes 1099511627776 bytes, must have entries below 2^40 bytes as Blackwell "
       "decodes them (nearest: N = 1048568)"},
      {"type_k_range",
       {typed(WL_OPERAND_INT8, SET(k = 131056)), typed(WL_OPERAND_E4M3, SET(k = 131072)),
        typed(WL_OPERAND_TF32, SET(k = 4))},
       typed(WL_OPERAND_INT8, SET(k = 131072)),
       "K = 131072 must be from 1 to 2^30 elements without NVFP4, to 131056 where sums are INT32 "
       "(nearest: 131056)"},
      {"type_k_multiple",
       {typed(WL_OPERAND_BF16, SET(k = 7176)), typed(WL_OPERAND_E5M2, SET(k = 7184)),
        typed(WL_OPERAND_MXFP8_E4M3, SET(k = 7200)), typed(WL_OPERAND_MXFP4, SET(k = 7296))},
       typed(WL_OPERAND_MXFP6_E2M3, SET(k = 7200)),
       "32 of MXFP8 and 128 of MXFP6 and MXFP4, without NVFP4 (nearest: 7168, 7296)"},
      {"type_k_multiple",
       {},
       typed(WL_OPERAND_MXFP4, SET(k = 48)),
       "K = 48 must be a multiple of 4 elements of 32 bits, 8 of 16, 16 of 8, 32 of MXFP8 and 128 "
       "of MXFP6 and MXFP4, without NVFP4 (nearest: 128)"},
      {"types",
       {typed(WL_OPERAND_INT8, SET(k = 7168)),
        [](Case& s) {
          typed(WL_OPERAND_MXFP8_E5M2, SET(b_type = WL_OPERAND_MXFP4))(s);
          s.device.compute_minor = 3;
        },
        typed(WL_OPERAND_E4M3, SET(b_type = WL_OPERAND_E5M2)),
        on_hopper(SET(b_layout = WL_MN_MAJOR))},
       [](Case& s) { // B300's tensor cores have no INT8
         typed(WL_OPERAND_INT8, SET(k = 7168))(s);
         s.device.compute_minor = 3;
       },
       "a_type, b_type = WL_OPERAND_INT8 (6), WL_OPERAND_INT8 (6) must be types that the device "
       "has "
       "kernels for"},
      {"activation",
       {SET(activation = WL_ACTIVATION_NONE), SET(activation = WL_ACTIVATION_GELU_ERF)},
       SET(activation = static_cast<wl_activation>(6)),
       "activation = 6 must be from WL_ACTIVATION_NONE (0) to WL_ACTIVATION_GELU_ERF (5) "
       "(nearest: 5)"},

      {"residual_aligned",
       {SET(residual = at(0x10010)), SET(residual = nullptr)},
       SET(residual = at(0x10008)),
       "residual: address 0x10008 is 8 modulo 16, must be 16-byte aligned (nearest: 0x10000, "
       "0x10010)"},
      {"residual_reachable",
       {SET(residual = at(wltest::host_window - (1 << 24)))},
       SET(residual = at(wltest::host_window)),
       "residual: address 0x7fff00000000 is the host's or was freed, must be memory that the "
       "device "
       "can reach"},
      // D itself, and beside it.
      {"d_overlaps_residual",
       {SET(residual = s.args.d), SET(residual = at(0x710000000000 + 256 * 4096 * 2)),
        [](Case& s) { s.args.residual = s.args.d, s.args.ldr = s.args.n; },
        [](Case& s) {
          s.args.residual = s.args.d, s.args.ldr = s.args.ldd = 4104;
          s.args.batch_stride_d = 256 * 4104;
        }},
       [](Case& s) { s.args.residual = s.args.d, s.args.ldr = 4104; },
       "overlap residual, 2101232 bytes at 0x710000000000, must not overlap the residual, unless "
       "it "
       "is the residual, with its strides"},
      {"d_overlaps_residual",
       {},
       SET(residual = at(0x710000000010)),
       "overlap residual, 2097152 bytes at 0x710000000010"},
      {"d_overlaps_residual", // entries at other strides
       {},
       [](Case& s) {
         s.args.residual = s.args.d, s.args.l = 2, s.args.batch_stride_r = 257 * 4096;
       },
       "must not overlap the residual, unless it is the residual, with its strides"},
      {"nvfp4_residual",
       {wltest::nvfp4<Args>},
       [](Case& s) { wltest::nvfp4(s), s.args.residual = at(0x740000000000); },
       "residual = 0x740000000000 must be null for WL_NVFP4 (nearest: null)"},
      {"ldr_covers",
       {RESIDUAL(ldr = 4096), RESIDUAL(ldr = 0), SET(ldr = -8)},
       RESIDUAL(ldr = 4088),
       "ldr = 4088 must be 0 or at least N elements (nearest: 0, 4096)"},
      {"ldr_multiple",
       {RESIDUAL(ldr = 4104), SET(ldr = 4100)},
       RESIDUAL(ldr = 4100),
       "ldr = 4100 must be a multiple of 8 elements (nearest: 4096, 4104)"},
      {"batch_stride_r_covers",
       {[](Case& s) {
          s.args.residual = at(0x740000000000), s.args.l = 2, s.args.batch_stride_r = 256 * 4096;
        },
        RESIDUAL(batch_stride_r = 0), SET(batch_stride_r = 8)},
       [](Case& s) {
         s.args.residual = at(0x740000000000), s.args.l = 2, s.args.batch_stride_r = 255 * 4096;
       },
       "batch_stride_r = 1044480 must be 0 or at least (M - 1) * ldr + N elements (nearest: 0, "
       "1048576)"},
      {"batch_stride_r_multiple",
       {RESIDUAL(batch_stride_r = 256 * 4096 + 8), SET(batch_stride_r = 256 * 4096 + 4)},
       RESIDUAL(batch_stride_r = 256 * 4096 + 4),
       "batch_stride_r = 1048580 must be a multiple of 8 elements (nearest: 1048576, 1048584)"},
      {"residual_size",
       {RESIDUAL(ldr = int64_t{1} << 30), SET(ldr = int64_t{1} << 47)},
       RESIDUAL(ldr = int64_t{1} << 47),
       "residual: residual takes 2^47 bytes or more, must be below 2^47 bytes"},
      // An output of four bytes.
      {"d_size",
       {[](Case& s) { s.args.d_type = WL_F32, s.args.ldd = int64_t{1} << 37; }},
       [](Case& s) { s.args.d_type = WL_F32, s.args.ldd = (int64_t{1} << 37) + (1 << 30); },
       "D: D takes 2^47 bytes or more, must be below 2^47 bytes"},

      {"config_known",
       {SET(config = "gemm_sm100_n64_f16"), SET(config = nullptr)},
       SET(config = "gemm_sm100_n65_f16"),
       "config = \"gemm_sm100_n65_f16\" must name a configuration (nearest: gemm_sm100_n64_f16, "},
      {"config_runs",
       {SET(config = "gemm_sm100_n128_f16")},
       SET(config = "gemm_sm100_n64_f32"),
       "config = \"gemm_sm100_n64_f32\", but it writes WL_F32, must be a configuration for this "
       "device and output (nearest: gemm_sm100_n64_f16, "},
  };
  // An operand a line: alignment, bytes, and whether it may be null.
  constexpr uint64_t d_bytes = 256 * 4096 * 2;
  const std::vector<Sides> operands[] = {
      OPERAND("a", "A", a, 16, 256 * 7168 / 2, false),
      OPERAND("b", "B", b, 16, 4096 * 7168 / 2, false),
      OPERAND("sfa", "SFA", sfa, 16, 256 * 7168 / 16, false),
      OPERAND("sfb", "SFB", sfb, 16, 4096 * 7168 / 16, false),
      OPERAND("alpha", "alpha", alpha, 4, 4, true),
      OPERAND("row", "row", row, 4, 256 * 4, true),
      OPERAND("bias", "bias", bias, 16, 4096 * 4, true),
      OPERAND("d_scale", "d_scale", d_scale, 4, 4, true),
  };
  const std::vector<Sides> col = OPERAND("col", "col", col, 4, 4096 * 4, true);
  for (Sides side : col) {
    for (wltest::RuleChange<Args>& change : side.accepted) change = on_h200(change);
    side.refused = on_h200(side.refused);
    all.push_back(side);
  }
  for (const std::vector<Sides>& one : operands) all.insert(all.end(), one.begin(), one.end());
  const std::vector<Sides> shared = wltest::product_sides<Args>("B");
  all.insert(all.end(), shared.begin(), shared.end());
  return all;
}

wltest::RuleLimits<Args, Subject> limits() {
  static const std::vector<Sides> sides = make_sides();
  return {rules(), legal(), sides};
}

} // namespace

TEST_CASE("each rule of wl_gemm accepts the legal value at its limit", "[host][linear]") {
  limits().accepts_the_last_legal_values();
}

TEST_CASE("each rule of wl_gemm refuses with its sentence", "[host][linear]") {
  limits().refuses_with_its_sentence();
}
