// Both sides of every rule of the dual GEMM: the last legal value passes, the first illegal one is
// refused with this sentence.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/product_sides.hpp"

#include <cmath>

using namespace warpline;
using namespace warpline::dual_gemm;
using wltest::at;

namespace {

// Operands far from each other, so that sizes may grow.
wl_dual_gemm_args legal() {
  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = 256, args.n = 4096, args.k = 7168, args.l = 1;
  args.a = at(0x010000000000), args.b1 = at(0x110000000000), args.b2 = at(0x210000000000);
  args.sfa = at(0x310000000000), args.sfb1 = at(0x410000000000), args.sfb2 = at(0x510000000000);
  args.alpha1 = at<float>(0x610000000000), args.alpha2 = at<float>(0x610000000004);
  args.bias1 = at(0x630000000000), args.bias2 = at(0x640000000000), args.bias_type = WL_F32;
  args.d = at(0x710000000000);
  args.d_type = WL_F16;
  return args;
}

using Case = wltest::RuleCase<wl_dual_gemm_args>;
using Sides = wltest::RuleSides<wl_dual_gemm_args>;

// All operands of a type, with scales where it has them.
wltest::RuleChange<wl_dual_gemm_args> typed(wl_operand type,
                                            const wltest::RuleChange<wl_dual_gemm_args>& change) {
  return [type, change](Case& s) {
    s.args.a_type = s.args.b_type = type;
    if (!gemm::has_scales(type)) s.args.sfa = s.args.sfb1 = s.args.sfb2 = nullptr;
    change(s);
  };
}

// Of weights that Blackwell decodes.
wltest::RuleChange<wl_dual_gemm_args> decoded(int64_t k,
                                              const wltest::RuleChange<wl_dual_gemm_args>& change) {
  return [k, change](Case& s) {
    s.args.a_type = WL_OPERAND_F16, s.args.sfa = nullptr;
    s.args.m = 1, s.args.k = k;
    change(s);
  };
}

#define SET(statement) [](Case& s) { s.args.statement; }
#define ON(major, minor, statement)                                                                \
  [](Case& s) {                                                                                    \
    s.device.compute_major = major, s.device.compute_minor = minor;                                \
    s.args.statement;                                                                              \
  }
#define OPERAND(id, name, field, alignment, bytes, optional)                                       \
  WL_OPERAND_SIDES(wl_dual_gemm_args, id, name, field, alignment, bytes, optional, d_bytes)

std::vector<Sides> make_sides() {
  std::vector<Sides> all = {
      {"device",
       {[](Case& s) { s.device.compute_minor = 3; }, [](Case& s) { s.device.compute_major = 9; }},
       [](Case& s) { s.device.compute_major = 8; },
       "device B200 has compute capability 8.0, which must run one of the library's targets "
       "(nearest: sm_100f, sm_100a, sm_90a)"},
      {"d_type",
       {SET(d_type = WL_BF16), wltest::nvfp4<wl_dual_gemm_args>},
       SET(d_type = static_cast<wl_dtype>(3)),
       "d_type = 3 must be WL_F16 (0), WL_BF16 (1) or WL_NVFP4 (2)"},
      {"sfb1_unused",
       {},
       SET(b_type = WL_OPERAND_BF16),
       "SFB1: address 0x410000000000 is given, must be null for a type without block scales"},
      {"sfb2_unused",
       {},
       SET(b_type = WL_OPERAND_INT8),
       "SFB2: address 0x510000000000 is given, must be null for a type without block scales"},
      {"types",
       {typed(WL_OPERAND_F16, SET(k = 7168)), typed(WL_OPERAND_BF16, SET(k = 7176)),
        typed(WL_OPERAND_TF32, ON(10, 3, k = 4)), typed(WL_OPERAND_INT8, SET(k = 7168)),
        typed(WL_OPERAND_E4M3, SET(b_type = WL_OPERAND_E5M2)),
        typed(WL_OPERAND_MXFP8_E5M2, ON(10, 3, b_type = WL_OPERAND_MXFP4)),
        typed(WL_OPERAND_E5M2, ON(9, 0, b_type = WL_OPERAND_E4M3)),
        typed(WL_OPERAND_TF32, ON(9, 0, k = 4)), typed(WL_OPERAND_INT8, ON(9, 0, k = 7168))},
       typed(WL_OPERAND_INT8, ON(10, 3, k = 7168)), // B300's tensor cores have no INT8
       "a_type, b_type = WL_OPERAND_INT8 (6), WL_OPERAND_INT8 (6) must be types that the device "
       "has kernels for (nearest: WL_OPERAND_NVFP4 (0), WL_OPERAND_NVFP4 (0))"},
      {"types",
       {},
       typed(WL_OPERAND_F16, SET(b_type = WL_OPERAND_BF16)),
       "a_type, b_type = WL_OPERAND_F16 (1), WL_OPERAND_BF16 (2) must be types that the device has "
       "kernels for (nearest: WL_OPERAND_F16 (1), WL_OPERAND_NVFP4 (0); WL_OPERAND_F16 (1), "
       "WL_OPERAND_F16 (1); WL_OPERAND_BF16 (2), WL_OPERAND_BF16 (2))"},
      {"types",
       {},
       typed(WL_OPERAND_E4M3, SET(b_type = WL_OPERAND_MXFP4)),
       "(nearest: WL_OPERAND_E4M3 (4), WL_OPERAND_E4M3 (4); WL_OPERAND_E4M3 (4), WL_OPERAND_E5M2 "
       "(5); WL_OPERAND_MXFP8_E4M3 (7), WL_OPERAND_MXFP4 (11); "},
      {"types",
       {decoded(7168, SET(a_type = WL_OPERAND_BF16)), decoded(64, ON(10, 3, n = 8))},
       decoded(7168, SET(a_type = WL_OPERAND_E4M3)),
       "a_type, b_type = WL_OPERAND_E4M3 (4), WL_OPERAND_NVFP4 (0) must be types that the device "
       "has kernels for (nearest: "},
      {"b_decoded",
       {decoded((1 << 19) - 64, SET(n = 1 << 20)), decoded(1 << 19, ON(9, 0, n = 1 << 20))},
       decoded(1 << 19, SET(n = 1 << 20)),
       "B1, B2: an entry takes 1099511627776 bytes, must have entries below 2^40 bytes as "
       "Blackwell decodes them (nearest: N = 1048568)"},
      {"a_unpacked",
       {typed(WL_OPERAND_MXFP6_E3M2, SET(a = at(0x010000000020))),
        typed(WL_OPERAND_MXFP8_E5M2, SET(a = at(0x010000000010)))},
       typed(WL_OPERAND_MXFP6_E3M2, SET(a = at(0x010000000010))),
       "A: address 0x10000000010 is 16 modulo 32, must be 32-byte aligned with MXFP6 or MXFP4"},
      {"b1_unpacked",
       {typed(WL_OPERAND_MXFP4, SET(b1 = at(0x110000000020))),
        typed(WL_OPERAND_MXFP8_E4M3, SET(b1 = at(0x110000000010)))},
       typed(WL_OPERAND_MXFP4, SET(b1 = at(0x110000000030))),
       "B1: address 0x110000000030 is 16 modulo 32, must be 32-byte aligned with MXFP6 or MXFP4"},
      {"b2_unpacked",
       {typed(WL_OPERAND_MXFP4, SET(b2 = at(0x210000000020)))},
       typed(WL_OPERAND_MXFP6_E2M3, SET(b2 = at(0x210000000010))),
       "B2: address 0x210000000010 is 16 modulo 32, must be 32-byte aligned with MXFP6 or MXFP4"},
      {"bias_type",
       {SET(bias_type = WL_F16), SET(bias_type = WL_BF16), SET(bias1 = nullptr),
        [](Case& s) {
          s.args.bias1 = s.args.bias2 = nullptr, s.args.bias_type = static_cast<wl_dtype>(9);
        }},
       [](Case& s) { s.args.bias1 = nullptr, s.args.bias_type = WL_NVFP4; },
       "bias_type = 2 must be WL_F16 (0), WL_BF16 (1) or WL_F32 (3) (nearest: 0, 1, 3)"},
      {"bias_type", {}, SET(bias_type = static_cast<wl_dtype>(4)), "bias_type = 4 must be"},
      {"gate",
       {SET(gate = WL_GATE_GELU_TANH),
        [](Case& s) { s.args.gate = WL_GATE_CLAMPED, s.args.gate_limit = 7; }},
       SET(gate = static_cast<wl_gate>(3)),
       "gate = 3 must be from WL_GATE_SILU (0) to WL_GATE_CLAMPED (2) (nearest: 2)"},
      {"gate_limit",
       {SET(gate_limit = 0), SET(gate_limit = 1e-45f), SET(gate_limit = INFINITY)},
       SET(gate_limit = -1e-45f),
       "gate_limit = -1.4013e-45 must be positive, or 0 for none (nearest: 0)"},
      {"gate_limit",
       {},
       [](Case& s) { s.args.gate = WL_GATE_GELU_TANH, s.args.gate_limit = NAN; },
       "gate_limit = nan must be positive, or 0 for none (nearest: 0)"},
      {"clamped_limit",
       {[](Case& s) { s.args.gate = WL_GATE_CLAMPED, s.args.gate_limit = 1e-45f; },
        [](Case& s) { s.args.gate = WL_GATE_CLAMPED, s.args.gate_limit = INFINITY; }},
       SET(gate = WL_GATE_CLAMPED),
       "gate_limit = 0 must be positive for WL_GATE_CLAMPED (nearest: 7, as GPT-OSS has it)"},
      {"clamped_limit",
       {},
       [](Case& s) { s.args.gate = WL_GATE_CLAMPED, s.args.gate_limit = NAN; },
       "gate_limit = nan must be positive for WL_GATE_CLAMPED"},
      {"config_known",
       {SET(config = "dual_gemm_sm100_n64_f16"), SET(config = nullptr)},
       SET(config = "dual_gemm_sm100_n65_f16"),
       "config = \"dual_gemm_sm100_n65_f16\" must name a configuration (nearest: "
       "dual_gemm_sm100_n64_f16, "},
      {"config_runs",
       {SET(config = "dual_gemm_sm100_n128_f16")},
       SET(config = "dual_gemm_sm100_n128_bf16"),
       "config = \"dual_gemm_sm100_n128_bf16\", but it writes WL_BF16, must be a configuration for "
       "this device and output (nearest: dual_gemm_sm100_n128_f16, "},
  };
  // An operand a line: alignment, bytes, and whether it may be null.
  constexpr uint64_t d_bytes = 256 * 4096 * 2;
  const std::vector<Sides> operands[] = {
      OPERAND("a", "A", a, 16, 256 * 7168 / 2, false),
      OPERAND("b1", "B1", b1, 16, 4096 * 7168 / 2, false),
      OPERAND("b2", "B2", b2, 16, 4096 * 7168 / 2, false),
      OPERAND("sfa", "SFA", sfa, 16, 256 * 7168 / 16, false),
      OPERAND("sfb1", "SFB1", sfb1, 16, 4096 * 7168 / 16, false),
      OPERAND("sfb2", "SFB2", sfb2, 16, 4096 * 7168 / 16, false),
      OPERAND("alpha1", "alpha1", alpha1, 4, 4, true),
      OPERAND("alpha2", "alpha2", alpha2, 4, 4, true),
      OPERAND("bias1", "bias1", bias1, 16, 4096 * 4, true),
      OPERAND("bias2", "bias2", bias2, 16, 4096 * 4, true),
      OPERAND("d_scale", "d_scale", d_scale, 4, 4, true),
  };
  for (const std::vector<Sides>& one : operands) all.insert(all.end(), one.begin(), one.end());
  const std::vector<Sides> shared = wltest::product_sides<wl_dual_gemm_args>("B1, B2");
  all.insert(all.end(), shared.begin(), shared.end());
  return all;
}

wltest::RuleLimits<wl_dual_gemm_args, Subject> limits() {
  static const std::vector<Sides> sides = make_sides();
  return {rules(), legal(), sides};
}

} // namespace

TEST_CASE("each rule of the dual GEMM accepts the legal value at its limit", "[host][dual_gemm]") {
  limits().accepts_the_last_legal_values();
}

TEST_CASE("each rule of the dual GEMM refuses with its sentence", "[host][dual_gemm]") {
  limits().refuses_with_its_sentence();
}
