// The constraint table of wl_gemm: the one source of its check, documentation and tests.
#include "kernels/gemm/rules.hpp"
#include "kernels/linear/linear.hpp"
#include "runtime/src/configs.hpp"

#include <algorithm>
#include <array>

namespace warpline::linear {

namespace {

using gemm::a_of, gemm::d_of, gemm::d_scale_of, gemm::sfa_of, gemm::sfd_of;
using gemm::shape_of, gemm::element_bytes;
using Args = wl_gemm_args;

Strided strided_r(const Args& a) { return shape_of(a).strided(a.ldr, a.batch_stride_r); }

// What the arguments point to.
Extent b_of(const Args& a) { return {"B", a.b, shape_of(a).b_bytes()}; }
Extent sfb_of(const Args& a) { return {"SFB", a.sfb, shape_of(a).sfb_bytes()}; }
Extent alpha_of(const Args& a) { return {"alpha", a.alpha, sizeof(float)}; }
Extent row_of(const Args& a) {
  return {"row", a.row, shape_of(a).sized() ? static_cast<uint64_t>(a.l * a.m) * 4 : 0};
}
Extent col_of(const Args& a) { return {"col", a.col, shape_of(a).vector_bytes(WL_F32)}; }
Extent bias_of(const Args& a) { return {"bias", a.bias, shape_of(a).vector_bytes(a.bias_type)}; }
Extent residual_of(const Args& a) {
  return {"residual", a.residual,
          static_cast<uint64_t>(strided_r(a).extent() * element_bytes(a.d_type))};
}

// All but SFD and the residual.
std::array<Extent, 10> others(const Args& a) {
  return {d_of(a),   a_of(a),   b_of(a),     sfa_of(a),     sfb_of(a),
          row_of(a), col_of(a), alpha_of(a), d_scale_of(a), bias_of(a)};
}

// A residual that is D is read where it is written, by the same thread.
Verdict residual_apart(const Args& a) {
  const Strided d = shape_of(a).d(), r = strided_r(a);
  if (a.residual == a.d && r.row_stride() == d.row_stride() && r.entry_stride() == d.entry_stride())
    return holds();
  return disjoint(d_of(a), residual_of(a));
}
Verdict residual_fits(const Args& a) {
  if (a.residual == nullptr) return holds();
  return fits_address_space(strided_r(a), element_bytes(a.d_type), "residual");
}
Verdict residual_type(const Args& a) {
  if (a.d_type != WL_NVFP4 || a.residual == nullptr) return holds();
  return violated(format(" = %p", a.residual), "null");
}
Verdict of_residual(const Args& a, Verdict (*rule)(const Strided&)) {
  return a.residual == nullptr ? holds() : rule(strided_r(a));
}

} // namespace

std::array<Extent, 12> operands(const wl_gemm_args& args) {
  std::array<Extent, 12> all{sfd_of(args), residual_of(args)};
  std::ranges::copy(others(args), all.begin() + 2);
  return all;
}

gemm::Problem problem_of(const wl_gemm_args& a) {
  gemm::Problem problem = gemm::product_of(a);
  gemm::Operands& o = problem.operands;
  o.b[0] = a.b;
  o.sfb[0] = a.sfb;
  o.alpha[0] = a.alpha;
  o.bias[0] = a.bias;
  o.row = a.row;
  o.column = a.col;
  o.residual = a.residual;
  problem.ldr = strided_r(a).map_row_stride();
  problem.batch_stride_r = strided_r(a).map_entry_stride();
  problem.bias_type = a.bias_type;
  problem.activation = gemm::activation_of(a.activation);
  return problem;
}

const RuleTable<Subject>& rules() {
  using Rules = gemm::Rules<Subject>;
  static const RuleTable<Subject> table{
      "wl_gemm",
      gemm::joined<Subject>({
          Rules{WL_RULE("device", "device", "must run one of the library's targets", support,
                        device_supported(configs(), s.device))},
          gemm::size_rules<Subject>(),
          Rules{
              WL_RULE("d_type", "d_type",
                      "must be WL_F16 (0), WL_BF16 (1), WL_NVFP4 (2) or WL_F32 (3)", range,
                      enumerator(s.args.d_type, WL_F16, WL_F32)),
              WL_RULE("activation", "activation",
                      "must be from WL_ACTIVATION_NONE (0) to WL_ACTIVATION_GELU_ERF (5)", range,
                      enumerator(s.args.activation, WL_ACTIVATION_NONE, WL_ACTIVATION_GELU_ERF)),
          },
          gemm::operand_rules<Subject, configs>("B"),
          Rules{
              WL_RULE("a_layout", "a_layout", "must be WL_K_MAJOR (0) or WL_MN_MAJOR (1)", range,
                      enumerator(s.args.a_layout, WL_K_MAJOR, WL_MN_MAJOR)),
              WL_RULE("b_layout", "b_layout", "must be WL_K_MAJOR (0) or WL_MN_MAJOR (1)", range,
                      enumerator(s.args.b_layout, WL_K_MAJOR, WL_MN_MAJOR)),
              WL_RULE("mn_major_m", "M", "must be a multiple of 8 rows where A is MN-major",
                      multiple, gemm::mn_major_rows(shape_of(s.args))),
              WL_DECODED("b_decoded", "B"),
              WL_OPERAND("b", "B", b, b_of, 16),
              WL_SCALES("sfb", "SFB", sfb, sfb_of, b_type),
              WL_UNPACKED("a_unpacked", "A", a, a_type),
              WL_UNPACKED("b_unpacked", "B", b, b_type),
              WL_OPTIONAL_OPERAND("alpha", "alpha", alpha, alpha_of, 4),
              WL_OPTIONAL_OPERAND("row", "row", row, row_of, 4),
              WL_RULE("col_taken", "col", "must be null but for FP8 and INT8 operands", support,
                      gemm::columns_taken(shape_of(s.args), configs(), s.device, s.args.col)),
              WL_OPTIONAL_OPERAND("col", "col", col, col_of, 4),
              WL_OPTIONAL_OPERAND("bias", "bias", bias, bias_of, 16),
              WL_RULE("bias_type", "bias_type", gemm::bias_type_text, range,
                      gemm::bias_type(s.args.bias_type, s.args.bias != nullptr)),
          },
          gemm::output_rules<Subject>(),
          Rules{
              WL_RULE("residual_aligned", "residual", "must be 16-byte aligned", alignment,
                      aligned(s.args.residual, 16)),
              WL_RULE("residual_reachable", "residual", reachable_text, memory,
                      reachable(s.context, residual_of(s.args))),
              WL_RULE("d_overlaps_residual", "D",
                      "must not overlap the residual, unless it is the residual, with its strides",
                      overlap, residual_apart(s.args)),
              WL_RULE("nvfp4_residual", "residual", "must be null for WL_NVFP4", pointer,
                      residual_type(s.args)),
              WL_RULE("ldr_covers", "ldr", "must be 0 or at least N elements", range,
                      of_residual(s.args, ld_covers)),
              WL_RULE("ldr_multiple", "ldr", "must be a multiple of 8 elements", multiple,
                      of_residual(s.args, ld_multiple)),
              WL_RULE("batch_stride_r_covers", "batch_stride_r",
                      "must be 0 or at least (M - 1) * ldr + N elements", range,
                      of_residual(s.args, batch_stride_covers)),
              WL_RULE("batch_stride_r_multiple", "batch_stride_r",
                      "must be a multiple of 8 elements", multiple,
                      of_residual(s.args, batch_stride_multiple)),
              WL_RULE("residual_size", "residual", "must be below 2^47 bytes", range,
                      residual_fits(s.args)),

              WL_RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
                      disjoint(sfd_of(s.args), others(s.args))),
              WL_RULE("config_known", "config", "must name a configuration", range,
                      config_known(configs(), s.args.config, gemm::serving(s, problem_of))),
              WL_RULE("config_runs", "config", "must be a configuration for this device and output",
                      support, config_runs(configs(), s.args.config, gemm::serving(s, problem_of))),
          },
      })};
  return table;
}

} // namespace warpline::linear
