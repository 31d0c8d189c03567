// The constraint table of the quantiser: the one source of its check, documentation and tests.
#include "kernels/gemm/rules.hpp"
#include "kernels/norm/rows.hpp"
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/configs.hpp"

#include <array>
#include <cmath>
#include <span>

namespace warpline::quantize {

namespace {

using Args = wl_quantize_args;

using gemm::largest_batch, gemm::largest_extent;

bool sizes_in_range(const Args& a) {
  return a.m >= 1 && a.m <= largest_extent && a.k >= 1 && a.k <= largest_extent && a.l >= 1 &&
         a.l <= largest_batch;
}

uint64_t x_bytes(const Args& a) { return 2 * static_cast<uint64_t>(strided_x(a).extent()); }
uint64_t d_bytes(const Args& a) {
  return sizes_in_range(a) ? gemm::operand_bytes(WL_OPERAND_NVFP4, a.m, a.k, a.l) : 0;
}
uint64_t sfd_bytes(const Args& a) {
  return sizes_in_range(a) ? gemm::scale_bytes(WL_OPERAND_NVFP4, a.m, a.k, a.l) : 0;
}

Verdict sfd_below_limit(const Args& a) {
  return sizes_in_range(a) ? batch_fits_address_space(sfd_bytes(a)) : holds();
}

// What the arguments point to.
Extent x_of(const Args& a) { return {"X", a.x, x_bytes(a)}; }
Extent d_of(const Args& a) { return {"D", a.d, d_bytes(a)}; }
Extent sfd_of(const Args& a) { return {"SFD", a.sfd, sfd_bytes(a)}; }
Extent d_scale_of(const Args& a) { return {"d_scale", a.d_scale, sizeof(float)}; }
uint64_t numbers_bytes(const Args& a) {
  return sizes_in_range(a) ? static_cast<uint64_t>(a.k * (a.gamma_type == WL_F32 ? 4 : 2)) : 0;
}
uint64_t r_bytes(const Args& a) { return 2 * static_cast<uint64_t>(strided_r(a).extent()); }
Extent gamma_of(const Args& a) { return {"gamma", a.gamma, numbers_bytes(a)}; }
Extent beta_of(const Args& a) { return {"beta", a.beta, numbers_bytes(a)}; }
Extent residual_of(const Args& a) { return {"residual", a.residual, r_bytes(a)}; }
Extent sum_of(const Args& a) { return {"sum", a.sum, r_bytes(a)}; }

bool normalises(const Args& a) { return a.norm == WL_NORM_RMS || a.norm == WL_NORM_LAYER; }
// Of what only a norm reads.
Verdict null_without_norm(const Args& a, const void* pointer) {
  if (normalises(a) || a.norm != WL_NORM_NONE || pointer == nullptr) return holds();
  return violated(format(" = %p", pointer), "null");
}
Verdict k_of_norm(const Args& a) {
  if (!normalises(a) || a.k > largest_extent) return holds();
  return in_range(a.k, INT64_MIN, norm::largest_row);
}
Verdict eps_of_norm(const Args& a) {
  if (!normalises(a) || (a.eps > 0 && std::isfinite(a.eps))) return holds();
  return violated(format(" = %g", static_cast<double>(a.eps)), "1e-06");
}
Verdict numbers_type(const Args& a) {
  if (!normalises(a) || (a.gamma == nullptr && a.beta == nullptr) || a.gamma_type == a.x_type ||
      a.gamma_type == WL_F32)
    return holds();
  return violated(format(" = %d", static_cast<int>(a.gamma_type)),
                  std::to_string(static_cast<int>(a.x_type)) + ", 3");
}
Verdict beta_of_layer(const Args& a) {
  if (a.norm != WL_NORM_RMS || a.beta == nullptr) return holds();
  return violated(format(" = %p", a.beta), "null");
}
Verdict of_residual(const Args& a, Verdict (*rule)(const Strided&)) {
  return a.residual == nullptr ? holds() : rule(strided_r(a));
}
Verdict residual_fits(const Args& a) {
  return a.residual == nullptr ? holds() : fits_address_space(strided_r(a), 2, "residual");
}
Verdict sum_of_residual(const Args& a) {
  if (a.sum == nullptr || a.residual != nullptr || !normalises(a)) return holds();
  return violated(format(" = %p without a residual", a.sum), "null");
}
// A row of the residual is read before its sums are written.
Verdict sum_apart(const Args& a) {
  const std::array others{x_of(a),     d_of(a),    sfd_of(a),     d_scale_of(a),
                          gamma_of(a), beta_of(a), residual_of(a)};
  const size_t count = a.sum == a.residual ? others.size() - 1 : others.size();
  return disjoint(sum_of(a), std::span(others.data(), count));
}

auto config_serving(const Subject& s) {
  return [&s](const Config& config, std::string* reason) {
    return can_run(config, s.args, s.device, reason);
  };
}

} // namespace

Strided strided_x(const Args& a) {
  return {a.m, a.k, a.l, a.ldx, a.batch_stride_x, sizes_in_range(a)};
}
Strided strided_r(const Args& a) {
  return {a.m, a.k, a.l, a.ldr, a.batch_stride_r, sizes_in_range(a)};
}

std::vector<Extent> operands(const wl_quantize_args& args) {
  return {x_of(args),     d_of(args),    sfd_of(args),      d_scale_of(args),
          gamma_of(args), beta_of(args), residual_of(args), sum_of(args)};
}

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_quantize",
      {
          WL_RULE("device", "device", "must run one of the library's targets", support,
                  device_supported(configs(), s.device)),
          WL_RULE("m_range", "M", "must be from 1 to 2^30 rows", range,
                  in_range(s.args.m, 1, largest_extent)),
          WL_RULE("k_range", "K", "must be from 64 to 2^30 elements", range,
                  in_range(s.args.k, 64, largest_extent)),
          WL_RULE("k_multiple", "K", "must be a multiple of 64 elements", multiple,
                  multiple_of(s.args.k, 64, 64, largest_extent)),
          WL_RULE("l_range", "L", "must be from 1 to 2^20 batch entries", range,
                  in_range(s.args.l, 1, largest_batch)),
          WL_RULE("x_type", "x_type", "must be WL_F16 (0) or WL_BF16 (1)", range,
                  enumerator(s.args.x_type, WL_F16, WL_BF16)),
          WL_RULE("sf_layout", "sf_layout", "must be WL_SF_128x4 (0)", range,
                  enumerator(s.args.sf_layout, WL_SF_128x4, WL_SF_128x4)),

          WL_RULE("flags", "flags", "must be 0 or WL_GRAPH_LAUNCH (2)", range,
                  flags_among(s.args.flags, WL_GRAPH_LAUNCH)),

          WL_OPERAND("x", "X", x, x_of, 16),
          WL_OPTIONAL_OPERAND("d_scale", "d_scale", d_scale, d_scale_of, 4),
          WL_RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),
          WL_RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
          WL_RULE("d_reachable", "D", reachable_text, memory, reachable(s.context, d_of(s.args))),
          WL_RULE("sfd_null", "SFD", "must not be null", pointer, not_null(s.args.sfd)),
          WL_RULE("sfd_aligned", "SFD", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfd, 16)),
          WL_RULE("sfd_reachable", "SFD", reachable_text, memory,
                  reachable(s.context, sfd_of(s.args))),

          WL_RULE("ldx_covers", "ldx", "must be 0 or at least K elements", range,
                  ld_covers(strided_x(s.args))),
          WL_RULE("ldx_multiple", "ldx", "must be a multiple of 8 elements", multiple,
                  ld_multiple(strided_x(s.args))),
          WL_RULE("batch_stride_covers", "batch_stride_x",
                  "must be 0 or at least (M - 1) * ldx + K elements", range,
                  batch_stride_covers(strided_x(s.args))),
          WL_RULE("batch_stride_multiple", "batch_stride_x", "must be a multiple of 8 elements",
                  multiple, batch_stride_multiple(strided_x(s.args))),
          // D takes a quarter of X at most.
          WL_RULE("x_size", "X", "must be below 2^47 bytes", range,
                  fits_address_space(strided_x(s.args), 2, "X")),
          WL_RULE("sfd_size", "SFD", "must be below 2^47 bytes", range, sfd_below_limit(s.args)),

          WL_RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
                  disjoint(sfd_of(s.args),
                           std::array{d_of(s.args), x_of(s.args), d_scale_of(s.args),
                                      gamma_of(s.args), beta_of(s.args), residual_of(s.args)})),

          WL_RULE("norm", "norm", "must be from WL_NORM_NONE (0) to WL_NORM_LAYER (2)", range,
                  enumerator(s.args.norm, WL_NORM_NONE, WL_NORM_LAYER)),
          WL_RULE("norm_k", "K", "must be at most 32768 elements with a norm", range,
                  k_of_norm(s.args)),
          WL_RULE("eps", "eps", "must be positive and finite with a norm", range,
                  eps_of_norm(s.args)),
          WL_RULE("gamma_type", "gamma_type", "must be x_type or WL_F32 (3)", range,
                  numbers_type(s.args)),
          WL_RULE("gamma_unused", "gamma", "must be null without a norm", pointer,
                  null_without_norm(s.args, s.args.gamma)),
          WL_RULE("beta_unused", "beta", "must be null without a norm", pointer,
                  null_without_norm(s.args, s.args.beta)),
          WL_RULE("beta_layer", "beta", "must be null for WL_NORM_RMS", pointer,
                  beta_of_layer(s.args)),
          WL_RULE("residual_unused", "residual", "must be null without a norm", pointer,
                  null_without_norm(s.args, s.args.residual)),
          WL_RULE("sum_unused", "sum", "must be null without a norm", pointer,
                  null_without_norm(s.args, s.args.sum)),
          WL_RULE("sum_residual", "sum", "must be null without a residual", pointer,
                  sum_of_residual(s.args)),
          WL_OPTIONAL_OPERAND("gamma", "gamma", gamma, gamma_of, 16),
          WL_OPTIONAL_OPERAND("beta", "beta", beta, beta_of, 16),
          WL_OPTIONAL_OPERAND("residual", "residual", residual, residual_of, 16),
          WL_RULE("sum_aligned", "sum", "must be 16-byte aligned", alignment,
                  aligned(s.args.sum, 16)),
          WL_RULE("sum_reachable", "sum", reachable_text, memory,
                  reachable(s.context, sum_of(s.args))),
          WL_RULE("ldr_covers", "ldr", "must be 0 or at least K elements", range,
                  of_residual(s.args, ld_covers)),
          WL_RULE("ldr_multiple", "ldr", "must be a multiple of 8 elements", multiple,
                  of_residual(s.args, ld_multiple)),
          WL_RULE("batch_stride_r_covers", "batch_stride_r",
                  "must be 0 or at least (M - 1) * ldr + K elements", range,
                  of_residual(s.args, batch_stride_covers)),
          WL_RULE("batch_stride_r_multiple", "batch_stride_r", "must be a multiple of 8 elements",
                  multiple, of_residual(s.args, batch_stride_multiple)),
          WL_RULE("residual_size", "residual", "must be below 2^47 bytes", range,
                  residual_fits(s.args)),
          WL_RULE("sum_overlaps", "sum", "must overlap no other operand, unless it is the residual",
                  overlap, sum_apart(s.args)),

          WL_RULE("config_known", "config", "must name a configuration", range,
                  config_known(configs(), s.args.config, config_serving(s))),
          WL_RULE("config_runs", "config",
                  "must be a configuration for this device, input, norm and K", support,
                  config_runs(configs(), s.args.config, config_serving(s))),
      }};
  return table;
}

} // namespace warpline::quantize
