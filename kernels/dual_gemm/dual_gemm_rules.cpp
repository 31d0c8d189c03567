// The constraint table of the dual GEMM: the one source of its check, documentation and tests.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/gemm/rules.hpp"
#include "runtime/src/configs.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>
#include <array>

namespace warpline::dual_gemm {

namespace {

using Args = wl_dual_gemm_args;

// What the arguments point to.
Extent b1_of(const Args& a) { return {"B1", a.b1, shape_of(a).b_bytes()}; }
Extent b2_of(const Args& a) { return {"B2", a.b2, shape_of(a).b_bytes()}; }
Extent sfb1_of(const Args& a) { return {"SFB1", a.sfb1, shape_of(a).sfb_bytes()}; }
Extent sfb2_of(const Args& a) { return {"SFB2", a.sfb2, shape_of(a).sfb_bytes()}; }
Extent alpha1_of(const Args& a) { return {"alpha1", a.alpha1, sizeof(float)}; }
Extent alpha2_of(const Args& a) { return {"alpha2", a.alpha2, sizeof(float)}; }
Extent bias1_of(const Args& a) { return {"bias1", a.bias1, shape_of(a).vector_bytes(a.bias_type)}; }
Extent bias2_of(const Args& a) { return {"bias2", a.bias2, shape_of(a).vector_bytes(a.bias_type)}; }

// All but SFD.
std::array<Extent, 12> others(const Args& a) {
  return {d_of(a),    a_of(a),      b1_of(a),     b2_of(a),      sfa_of(a),   sfb1_of(a),
          sfb2_of(a), alpha1_of(a), alpha2_of(a), d_scale_of(a), bias1_of(a), bias2_of(a)};
}

// One of the two speaks of a limit, so that `nearest` is right for the gate. A NaN breaks them.
Verdict limit_of_any(const Args& a) {
  if (a.gate == WL_GATE_CLAMPED || a.gate_limit >= 0) return holds();
  return violated(format(" = %g", double{a.gate_limit}), "0");
}
Verdict limit_of_clamped(const Args& a) {
  if (a.gate != WL_GATE_CLAMPED || a.gate_limit > 0) return holds();
  return violated(format(" = %g", double{a.gate_limit}), "7, as GPT-OSS has it");
}

} // namespace

std::array<Extent, 13> operands(const wl_dual_gemm_args& args) {
  std::array<Extent, 13> all{sfd_of(args)};
  std::ranges::copy(others(args), all.begin() + 1);
  return all;
}

Problem problem_of(const wl_dual_gemm_args& a) {
  Problem problem = product_of(a);
  Operands& o = problem.operands;
  o.b[0] = a.b1, o.b[1] = a.b2;
  o.sfb[0] = a.sfb1, o.sfb[1] = a.sfb2;
  o.alpha[0] = a.alpha1, o.alpha[1] = a.alpha2;
  o.bias[0] = a.bias1, o.bias[1] = a.bias2;
  problem.bias_type = a.bias_type;
  problem.activation = gate_of(a.gate, a.gate_limit);
  return problem;
}

const RuleTable<Subject>& rules() {
  using List = Rules<Subject>;
  static const RuleTable<Subject> table{
      "wl_dual_gemm",
      joined<Subject>({
          List{WL_RULE("device", "device", "must run one of the library's targets", support,
                       device_supported(configs(), s.device))},
          size_rules<Subject>(),
          List{
              WL_RULE("d_type", "d_type", "must be WL_F16 (0), WL_BF16 (1) or WL_NVFP4 (2)", range,
                      enumerator(s.args.d_type, WL_F16, WL_NVFP4)),
              WL_RULE("gate", "gate", "must be from WL_GATE_SILU (0) to WL_GATE_CLAMPED (2)", range,
                      enumerator(s.args.gate, WL_GATE_SILU, WL_GATE_CLAMPED)),
              WL_RULE("gate_limit", "gate_limit", "must be positive, or 0 for none", range,
                      limit_of_any(s.args)),
              WL_RULE("clamped_limit", "gate_limit", "must be positive for WL_GATE_CLAMPED", range,
                      limit_of_clamped(s.args)),
          },
          operand_rules<Subject, configs>("B1, B2"),
          List{
              WL_OPERAND("b1", "B1", b1, b1_of, 16),
              WL_OPERAND("b2", "B2", b2, b2_of, 16),
              WL_SCALES("sfb1", "SFB1", sfb1, sfb1_of, b_type),
              WL_SCALES("sfb2", "SFB2", sfb2, sfb2_of, b_type),
              WL_DECODED("b_decoded", "B1, B2"),
              WL_UNPACKED("a_unpacked", "A", a, a_type),
              WL_UNPACKED("b1_unpacked", "B1", b1, b_type),
              WL_UNPACKED("b2_unpacked", "B2", b2, b_type),
              WL_OPTIONAL_OPERAND("alpha1", "alpha1", alpha1, alpha1_of, 4),
              WL_OPTIONAL_OPERAND("alpha2", "alpha2", alpha2, alpha2_of, 4),
              WL_OPTIONAL_OPERAND("bias1", "bias1", bias1, bias1_of, 16),
              WL_OPTIONAL_OPERAND("bias2", "bias2", bias2, bias2_of, 16),
              WL_RULE("bias_type", "bias_type", bias_type_text, range,
                      bias_type(s.args.bias_type, s.args.bias1 || s.args.bias2)),
          },
          output_rules<Subject>(),
          List{
              WL_RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
                      disjoint(sfd_of(s.args), others(s.args))),
              WL_RULE("config_known", "config", "must name a configuration", range,
                      config_known(configs(), s.args.config, serving(s, problem_of))),
              WL_RULE("config_runs", "config", "must be a configuration for this device and output",
                      support, config_runs(configs(), s.args.config, serving(s, problem_of))),
          },
      })};
  return table;
}

} // namespace warpline::dual_gemm
