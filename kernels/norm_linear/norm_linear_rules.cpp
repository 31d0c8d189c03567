// The constraint table of wl_norm_linear: the one source of its check, documentation and tests.
#include "kernels/gemm/rules.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/norm/rows.hpp"
#include "kernels/norm_linear/norm_linear.hpp"
#include "runtime/src/configs.hpp"

#include <cmath>
#include <span>

namespace warpline::norm_linear {

namespace {

using Args = wl_norm_linear_args;
using gemm::largest_extent, gemm::element_bytes;

bool folded(const Args& a) { return a.form == WL_NORM_FOLDED; }
bool nvfp4(const Args& a) { return a.w_type == WL_OPERAND_NVFP4; }

bool sized(const Args& a) {
  return a.m >= 1 && a.m <= largest_extent && a.n >= 8 && a.n <= largest_extent && a.k >= 64 &&
         a.k <= norm::largest_row && gemm::known(a.w_type);
}

// What the arguments point to.
uint64_t elements(const Args& a, const Strided& tensor, wl_dtype type) {
  return sized(a) ? static_cast<uint64_t>(tensor.extent() * element_bytes(type)) : 0;
}
uint64_t numbers(const Args& a, int64_t count, wl_dtype type) {
  return sized(a) ? static_cast<uint64_t>(count * element_bytes(type)) : 0;
}
Extent x_of(const Args& a) { return {"X", a.x, elements(a, strided_x(a), a.x_type)}; }
Extent residual_of(const Args& a) {
  return {"residual", a.residual, elements(a, strided_r(a), a.x_type)};
}
Extent sum_of(const Args& a) { return {"sum", a.sum, elements(a, strided_r(a), a.x_type)}; }
Extent gamma_of(const Args& a) { return {"gamma", a.gamma, numbers(a, a.k, a.gamma_type)}; }
Extent beta_of(const Args& a) { return {"beta", a.beta, numbers(a, a.k, a.gamma_type)}; }
Extent w_of(const Args& a) {
  return {"W", a.w, sized(a) ? gemm::operand_bytes(a.w_type, a.n, a.k, 1) : 0};
}
Extent sfw_of(const Args& a) {
  return {"SFW", a.sfw, sized(a) ? gemm::scale_bytes(a.w_type, a.n, a.k, 1, a.sf_layout) : 0};
}
Extent a_scale_of(const Args& a) { return {"a_scale", a.a_scale, sizeof(float)}; }
Extent alpha_of(const Args& a) { return {"alpha", a.alpha, sizeof(float)}; }
Extent bias_of(const Args& a) { return {"bias", a.bias, numbers(a, a.n, a.bias_type)}; }
Extent d_of(const Args& a) { return {"D", a.d, elements(a, strided_d(a), a.d_type)}; }

gemm::Types types_of(const Args& a) { return problem_of(a).types; }

// Null, because of what else the arguments say.
Verdict null_where(bool applies, const void* pointer) {
  return !applies || pointer == nullptr ? holds() : violated(format(" = %p", pointer), "null");
}
Verdict weight_type(const Args& a) {
  const wl_operand same = a.x_type == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  if ((a.x_type != WL_F16 && a.x_type != WL_BF16) || a.w_type == same || nvfp4(a)) return holds();
  return violated(format(" = %d", static_cast<int>(a.w_type)), format("0, %d", same));
}
Verdict folded_weights(const Args& a) {
  if (!folded(a) || !nvfp4(a)) return holds();
  return violated(" = 0", a.x_type == WL_F16 ? "1" : "2");
}
Verdict numbers_type(const Args& a) {
  if ((a.gamma == nullptr && a.beta == nullptr) || a.gamma_type == a.x_type ||
      a.gamma_type == WL_F32)
    return holds();
  return violated(format(" = %d", static_cast<int>(a.gamma_type)),
                  format("%d, 3", static_cast<int>(a.x_type)));
}
Verdict eps_positive(const Args& a) {
  if (a.eps > 0 && std::isfinite(a.eps)) return holds();
  return violated(format(" = %g", static_cast<double>(a.eps)), "1e-06");
}
Verdict dense_where_folded(const Args& a, const Strided& tensor) {
  if (!folded(a) || tensor.ld == 0 || tensor.ld == a.k) return holds();
  return violated(format(" = %lld", static_cast<long long>(tensor.ld)),
                  format("0, %lld", static_cast<long long>(a.k)));
}
Verdict sum_with_residual(const Args& a) { return null_where(a.residual == nullptr, a.sum); }
Verdict sum_for_folded(const Args& a) {
  if (!folded(a) || a.residual == nullptr || a.sum != nullptr) return holds();
  return violated(" is null", "the residual's address");
}
Verdict of_residual(const Args& a, Verdict (*rule)(const Strided&)) {
  return a.residual == nullptr ? holds() : rule(strided_r(a));
}
Verdict residual_fits(const Args& a) {
  return a.residual == nullptr ? holds() : fits_address_space(strided_r(a), 2, "residual");
}
Verdict sum_apart(const Args& a) {
  const std::array others{x_of(a),    gamma_of(a), beta_of(a),    w_of(a),       sfw_of(a),
                          bias_of(a), alpha_of(a), a_scale_of(a), residual_of(a)};
  const size_t count = a.sum == a.residual ? others.size() - 1 : others.size();
  return disjoint(sum_of(a), std::span(others.data(), count));
}
// The types that a product behind the norm may have; other rules speak of wrong enumerators.
Verdict product_exists(const Subject& s) {
  const Args& a = s.args;
  if (!gemm::known(a.w_type) || !weight_type(a).holds || !folded_weights(a).holds ||
      (a.x_type != WL_F16 && a.x_type != WL_BF16) || !device_supported(configs(), s.device).holds)
    return holds();
  for (const gemm::Config& config : linear::configs())
    if (gemm::can_run(config, types_of(a), a.d_type, s.device, nullptr)) return holds();
  std::string makes;
  for (const wl_dtype type : {WL_F16, WL_BF16, WL_F32})
    for (const gemm::Config& config : linear::configs())
      if (gemm::can_run(config, types_of(a), type, s.device, nullptr)) {
        makes += (makes.empty() ? "" : ", ") + std::string(gemm::dtype_name(type));
        break;
      }
  return violated(format(" = %s", gemm::dtype_name(a.d_type)), makes);
}
Verdict tiles_fit(const Args& a) {
  return sized(a)
             ? gemm::tiles_fit({a.m, a.n, a.k, 1, a.d_type, a.ldd, 0, types_of(a), a.sf_layout})
             : holds();
}

auto config_serving(const Subject& s) {
  return [&s](const gemm::Config& config, std::string* reason) {
    return sized(s.args) ? gemm::can_run(config, problem_of(s.args), s.device, reason)
                         : gemm::can_run(config, types_of(s.args), s.args.d_type, s.device, reason);
  };
}

} // namespace

Strided strided_x(const Args& a) { return {a.m, a.k, 1, a.ldx, 0, sized(a)}; }
Strided strided_r(const Args& a) { return {a.m, a.k, 1, a.ldr, 0, sized(a)}; }
Strided strided_d(const Args& a) { return {a.m, a.n, 1, a.ldd, 0, sized(a)}; }

std::array<Extent, 11> operands(const Args& a) {
  return {x_of(a),   residual_of(a), sum_of(a),   gamma_of(a), beta_of(a), w_of(a),
          sfw_of(a), a_scale_of(a),  alpha_of(a), bias_of(a),  d_of(a)};
}

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_norm_linear",
      {
          WL_RULE("device", "device", "must run one of the library's targets", support,
                  device_supported(configs(), s.device)),
          WL_RULE("m_range", "M", "must be from 1 to 2^30 rows", range,
                  in_range(s.args.m, 1, largest_extent)),
          WL_RULE("n_range", "N", "must be from 8 to 2^30 columns", range,
                  in_range(s.args.n, 8, largest_extent)),
          WL_RULE("n_multiple", "N", "must be a multiple of 8 columns", multiple,
                  multiple_of(s.args.n, 8, 8, largest_extent)),
          WL_RULE("k_range", "K", "must be from 64 to 32768 elements", range,
                  in_range(s.args.k, 64, norm::largest_row)),
          WL_RULE("k_multiple", "K", "must be a multiple of 64 elements", multiple,
                  multiple_of(s.args.k, 64, 64, norm::largest_row)),
          WL_RULE("tiles", "M, N", "must make fewer than 2^31 tiles of 128 x 64", range,
                  tiles_fit(s.args)),
          WL_RULE("x_type", "x_type", "must be WL_F16 (0) or WL_BF16 (1)", range,
                  enumerator(s.args.x_type, WL_F16, WL_BF16)),
          WL_RULE("w_type", "w_type", "must be x_type's operand type or WL_OPERAND_NVFP4 (0)",
                  range, weight_type(s.args)),
          WL_RULE("d_type", "d_type", "must be a type that the device makes of W's", support,
                  product_exists(s)),
          WL_RULE("norm", "norm", "must be WL_NORM_RMS (1) or WL_NORM_LAYER (2)", range,
                  enumerator(s.args.norm, WL_NORM_RMS, WL_NORM_LAYER)),
          WL_RULE("form", "form", "must be WL_NORM_PLAIN (0) or WL_NORM_FOLDED (1)", range,
                  enumerator(s.args.form, WL_NORM_PLAIN, WL_NORM_FOLDED)),
          WL_RULE("activation", "activation",
                  "must be from WL_ACTIVATION_NONE (0) to WL_ACTIVATION_GELU_ERF (5)", range,
                  enumerator(s.args.activation, WL_ACTIVATION_NONE, WL_ACTIVATION_GELU_ERF)),
          WL_RULE("sf_layout", "sf_layout", gemm::scale_layout_text, range,
                  gemm::scale_layout(s.args.sf_layout, s.device)),
          WL_RULE("flags", "flags", "must be 0 or WL_GRAPH_LAUNCH (2)", range,
                  flags_among(s.args.flags, WL_GRAPH_LAUNCH)),
          WL_RULE("eps", "eps", "must be positive and finite", range, eps_positive(s.args)),
          WL_RULE("gamma_type", "gamma_type", "must be x_type or WL_F32 (3)", range,
                  numbers_type(s.args)),
          WL_RULE("bias_type", "bias_type", gemm::bias_type_text, range,
                  gemm::bias_type(s.args.bias_type, s.args.bias != nullptr)),

          WL_OPERAND("x", "X", x, x_of, 16),
          WL_OPERAND("w", "W", w, w_of, 16),
          WL_RULE("sfw_null", "SFW", "must not be null", pointer,
                  nvfp4(s.args) ? not_null(s.args.sfw) : holds()),
          WL_RULE("sfw_unused", "SFW", "must be null for a type without block scales", pointer,
                  null_where(!nvfp4(s.args), s.args.sfw)),
          WL_OPTIONAL_OPERAND("sfw", "SFW", sfw, sfw_of, 16),
          WL_RULE("a_scale_unused", "a_scale", "must be null for a type without block scales",
                  pointer, null_where(!nvfp4(s.args), s.args.a_scale)),
          WL_OPTIONAL_OPERAND("a_scale", "a_scale", a_scale, a_scale_of, 4),
          WL_OPTIONAL_OPERAND("alpha", "alpha", alpha, alpha_of, 4),
          WL_OPTIONAL_OPERAND("gamma", "gamma", gamma, gamma_of, 16),
          WL_OPTIONAL_OPERAND("beta", "beta", beta, beta_of, 16),
          WL_RULE("beta_layer", "beta", "must be null for WL_NORM_RMS", pointer,
                  null_where(s.args.norm == WL_NORM_RMS, s.args.beta)),
          WL_OPTIONAL_OPERAND("bias", "bias", bias, bias_of, 16),
          WL_OPTIONAL_OPERAND("residual", "residual", residual, residual_of, 16),
          WL_RULE("sum_residual", "sum", "must be null without a residual", pointer,
                  sum_with_residual(s.args)),
          WL_OPTIONAL_OPERAND("sum", "sum", sum, sum_of, 16),
          WL_RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),
          WL_RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
          WL_RULE("d_reachable", "D", reachable_text, memory, reachable(s.context, d_of(s.args))),
          WL_RULE("sum_overlaps", "sum", "must overlap no other operand, unless it is the residual",
                  overlap, sum_apart(s.args)),

          WL_RULE("folded_weights", "w_type", "must have no block scales in the folded form", range,
                  folded_weights(s.args)),
          WL_RULE("folded_gamma", "gamma", "must be null in the folded form", pointer,
                  null_where(folded(s.args), s.args.gamma)),
          WL_RULE("folded_beta", "beta", "must be null in the folded form", pointer,
                  null_where(folded(s.args) && s.args.norm == WL_NORM_LAYER, s.args.beta)),
          WL_RULE("folded_ldx", "ldx", "must be 0 or K in the folded form", range,
                  dense_where_folded(s.args, strided_x(s.args))),
          WL_RULE("folded_ldr", "ldr", "must be 0 or K in the folded form", range,
                  s.args.residual == nullptr ? holds()
                                             : dense_where_folded(s.args, strided_r(s.args))),
          WL_RULE("folded_sum", "sum", "must not be null in the folded form with a residual",
                  pointer, sum_for_folded(s.args)),

          WL_RULE("ldx_covers", "ldx", "must be 0 or at least K elements", range,
                  ld_covers(strided_x(s.args))),
          WL_RULE("ldx_multiple", "ldx", "must be a multiple of 8 elements", multiple,
                  ld_multiple(strided_x(s.args))),
          WL_RULE("ldr_covers", "ldr", "must be 0 or at least K elements", range,
                  of_residual(s.args, ld_covers)),
          WL_RULE("ldr_multiple", "ldr", "must be a multiple of 8 elements", multiple,
                  of_residual(s.args, ld_multiple)),
          WL_RULE("ldd_covers", "ldd", "must be 0 or at least N elements", range,
                  ld_covers(strided_d(s.args))),
          WL_RULE("ldd_multiple", "ldd", "must be a multiple of 8 elements", multiple,
                  ld_multiple(strided_d(s.args))),
          WL_RULE("x_size", "X", "must be below 2^47 bytes", range,
                  fits_address_space(strided_x(s.args), 2, "X")),
          WL_RULE("residual_size", "residual", "must be below 2^47 bytes", range,
                  residual_fits(s.args)),
          WL_RULE("d_size", "D", "must be below 2^47 bytes", range,
                  fits_address_space(strided_d(s.args), element_bytes(s.args.d_type), "D")),

          WL_RULE("config_known", "config", "must name a configuration of wl_gemm", range,
                  config_known(linear::configs(), s.args.config, config_serving(s))),
          WL_RULE("config_runs", "config",
                  "must be a configuration of wl_gemm for this device and these types", support,
                  config_runs(linear::configs(), s.args.config, config_serving(s))),
      }};
  return table;
}

} // namespace warpline::norm_linear
