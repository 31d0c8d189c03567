// The constraint table of wl_gemm: the one source of its check, documentation and tests.
#include "kernels/linear/linear.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rows.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/strided.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>

namespace warpline::linear {

namespace {

using Args = wl_gemm_args;

// Kernels count rows, columns and K in 32 bits and round up to a tile.
constexpr int64_t largest_extent = int64_t{1} << 30;
constexpr int64_t largest_batch = int64_t{1} << 20;
// cuTensorMapEncodeTiled: a stride is below 2^40 bytes.
constexpr int64_t stride_limit = int64_t{1} << 40;
constexpr int64_t tile_limit = int64_t{1} << 31;

bool sized(const Args& a) {
  return a.m >= 1 && a.m <= largest_extent && a.n >= 1 && a.n <= largest_extent && a.k >= 1 &&
         a.k <= largest_extent && a.l >= 1 && a.l <= largest_batch;
}
bool is_nvfp4(const Args& a) { return a.d_type == WL_NVFP4; }

// Bytes of the whole batch, 0 when they do not fit in 63 bits.
uint64_t batch_bytes(const Args& a, int64_t entry) {
  int64_t bytes = 0;
  return sized(a) && product({entry, a.l}, &bytes) ? static_cast<uint64_t>(bytes) : 0;
}
uint64_t operand_bytes(const Args& a, int64_t rows) {
  return batch_bytes(a, sized(a) ? rows * (a.k / 2) : 0);
}
uint64_t scale_bytes(const Args& a, int64_t rows, int64_t k) {
  return batch_bytes(a, static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, rows, k)));
}
int64_t element_bytes(wl_dtype type) { return type == WL_F32 ? 4 : 2; }

Strided strided_d(const Args& a) { return {a.m, a.n, a.l, a.ldd, a.batch_stride_d, sized(a)}; }
Strided strided_r(const Args& a) { return {a.m, a.n, a.l, a.ldr, a.batch_stride_r, sized(a)}; }

// What the arguments point to.
Extent a_of(const Args& a) { return {"A", a.a, operand_bytes(a, a.m)}; }
Extent b_of(const Args& a) { return {"B", a.b, operand_bytes(a, a.n)}; }
Extent sfa_of(const Args& a) { return {"SFA", a.sfa, scale_bytes(a, a.m, a.k)}; }
Extent sfb_of(const Args& a) { return {"SFB", a.sfb, scale_bytes(a, a.n, a.k)}; }
Extent alpha_of(const Args& a) { return {"alpha", a.alpha, sizeof(float)}; }
Extent row_of(const Args& a) { return {"row", a.row, batch_bytes(a, 4 * (sized(a) ? a.m : 0))}; }
Extent bias_of(const Args& a) {
  return {"bias", a.bias, sized(a) ? static_cast<uint64_t>(a.n * element_bytes(a.bias_type)) : 0};
}
Extent residual_of(const Args& a) {
  return {"residual", a.residual,
          static_cast<uint64_t>(strided_r(a).extent() * element_bytes(a.d_type))};
}
Extent d_scale_of(const Args& a) { return {"d_scale", a.d_scale, sizeof(float)}; }
Extent d_of(const Args& a) {
  const auto elements = static_cast<uint64_t>(strided_d(a).extent());
  return {"D", a.d,
          is_nvfp4(a) ? elements / 2 : elements * static_cast<uint64_t>(element_bytes(a.d_type))};
}
Extent sfd_of(const Args& a) { return {"SFD", a.sfd, is_nvfp4(a) ? scale_bytes(a, a.m, a.n) : 0}; }

// All but SFD and the residual.
std::array<Extent, 9> others(const Args& a) {
  return {d_of(a),   a_of(a),     b_of(a),       sfa_of(a), sfb_of(a),
          row_of(a), alpha_of(a), d_scale_of(a), bias_of(a)};
}

// A residual that is D is read where it is written, by the same thread.
Verdict residual_apart(const Args& a) {
  if (a.residual == a.d && strided_r(a).row_stride() == strided_d(a).row_stride() &&
      strided_r(a).entry_stride() == strided_d(a).entry_stride())
    return holds();
  return disjoint(d_of(a), residual_of(a));
}
Verdict residual_fits(const Args& a) {
  if (a.residual == nullptr) return holds();
  return fits_address_space(strided_r(a), element_bytes(a.d_type), "residual");
}
Verdict residual_type(const Args& a) {
  if (!is_nvfp4(a) || a.residual == nullptr) return holds();
  return violated(format(" = %p", a.residual), "null");
}

Verdict entry_below_limit(const Args& a, int64_t extent, const char* name, int64_t multiple) {
  if (!sized(a) || extent * (a.k / 2) < stride_limit) return holds();
  const int64_t most = (stride_limit - 1) / (a.k / 2) / multiple * multiple;
  return violated(format(": an entry takes %" PRId64 " bytes,", extent * (a.k / 2)),
                  format("%s = %" PRId64, name, most));
}
Verdict batch_below_limit(const Args& a, uint64_t bytes) {
  return sized(a) ? batch_fits_address_space(bytes) : holds();
}
int64_t column_multiple(const Args& a) { return is_nvfp4(a) ? 64 : 8; }
Verdict columns(const Args& a, bool nvfp4) {
  return is_nvfp4(a) == nvfp4 ? multiple_of(a.n, column_multiple(a), 8, largest_extent) : holds();
}
Verdict with_gaps(const Args& a, Verdict (*rule)(const Strided&)) {
  return is_nvfp4(a) ? holds() : rule(strided_d(a));
}
Verdict of_residual(const Args& a, Verdict (*rule)(const Strided&)) {
  return a.residual == nullptr ? holds() : rule(strided_r(a));
}
// An operand of the next product has no gaps.
Verdict nvfp4_dense(const Args& a, int64_t found, int64_t rows) {
  if (!is_nvfp4(a) || found == 0 || (found > 0 && !sized(a))) return holds();
  const int64_t dense = sized(a) ? rows * a.n : 0;
  if (found == dense) return holds();
  return violated(format(" = %" PRId64, found),
                  sized(a) ? format("0, %" PRId64, dense) : std::string("0"));
}
// The smallest tiles of the table make the most of them.
Verdict tiles_fit(const Args& a) {
  int64_t tiles = 0;
  if (!sized(a) ||
      (product({(a.m + 127) / 128, (a.n + 63) / 64, a.l}, &tiles) && tiles < tile_limit))
    return holds();
  return violated(format(" = %" PRId64 ", %" PRId64 ", %" PRId64, a.m, a.n, a.l));
}
Verdict one_of(int64_t value, std::initializer_list<int64_t> legal) {
  std::string nearest;
  for (const int64_t one : legal) {
    if (one == value) return holds();
    nearest += (nearest.empty() ? "" : ", ") + std::to_string(one);
  }
  return violated(format(" = %" PRId64, value), nearest);
}
Verdict bias_type(const Args& a) {
  return a.bias == nullptr ? holds()
                           : one_of(static_cast<int32_t>(a.bias_type), {WL_F16, WL_BF16, WL_F32});
}

auto serving(const Subject& s) {
  return [&s](const gemm::Config& config, std::string* reason) {
    return sized(s.args) ? can_run(config, problem_of(s.args), s.device, reason)
                         : can_run(config, s.args.d_type, s.device, reason);
  };
}

gemm::Activation activation_of(wl_activation activation) {
  constexpr double minus_log2e = -1.4426950408889634, tanh_c0 = -2.302208198144325;
  switch (activation) {
  case WL_ACTIVATION_SILU:
    return {.kind = WL_ACTIVATION_SILU, .c0 = static_cast<float>(minus_log2e)};
  case WL_ACTIVATION_GELU_TANH: // -2 sqrt(2 / pi) log2 e, and that times 0.044715
    return {.kind = WL_ACTIVATION_GELU_TANH,
            .c0 = static_cast<float>(tanh_c0),
            .c1 = static_cast<float>(0.044715 * tanh_c0)};
  default:
    return {.kind = static_cast<uint32_t>(activation)};
  }
}

} // namespace

std::array<Extent, 11> operands(const wl_gemm_args& args) {
  std::array<Extent, 11> all{sfd_of(args), residual_of(args)};
  std::ranges::copy(others(args), all.begin() + 2);
  return all;
}

gemm::Problem problem_of(const wl_gemm_args& a) {
  gemm::Problem problem;
  problem.m = a.m;
  problem.n = a.n;
  problem.k = a.k;
  problem.l = a.l;
  problem.d_type = a.d_type;
  problem.ldd = strided_d(a).row_stride();
  problem.batch_stride_d = strided_d(a).entry_stride();
  problem.ldr = strided_r(a).row_stride();
  problem.batch_stride_r = strided_r(a).entry_stride();
  const auto starts = static_cast<uint64_t>(problem.ldd | problem.batch_stride_d);
  problem.whole_sectors =
      ((static_cast<uint64_t>(element_bytes(a.d_type)) * starts | address_of(a.d)) & 31) == 0;
  problem.operands = {.a = a.a,
                      .sfa = a.sfa,
                      .b = {a.b, nullptr},
                      .sfb = {a.sfb, nullptr},
                      .alpha = {a.alpha, nullptr},
                      .bias = {a.bias, nullptr},
                      .row = a.row,
                      .residual = a.residual,
                      .d = a.d,
                      .sfd = a.sfd,
                      .d_scale = a.d_scale};
  problem.bias_type = a.bias_type;
  problem.activation = activation_of(a.activation);
  problem.flags = a.flags;
  return problem;
}

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_gemm",
      {
          WL_RULE("device", "device", "must run one of the library's targets", support,
                  device_supported(configs(), s.device)),

          WL_RULE("m_range", "M", "must be from 1 to 2^30 rows", range,
                  in_range(s.args.m, 1, largest_extent)),
          WL_RULE("n_range", "N", "must be from 8 to 2^30 columns", range,
                  in_range(s.args.n, 8, largest_extent, column_multiple(s.args))),
          WL_RULE("n_multiple", "N", "must be a multiple of 8 columns", multiple,
                  columns(s.args, false)),
          WL_RULE("nvfp4_columns", "N", "must be a multiple of 64 columns for WL_NVFP4", multiple,
                  columns(s.args, true)),
          WL_RULE("k_range", "K", "must be from 64 to 2^30 elements", range,
                  in_range(s.args.k, 64, largest_extent)),
          WL_RULE("k_multiple", "K", "must be a multiple of 64 elements", multiple,
                  multiple_of(s.args.k, 64, 64, largest_extent)),
          WL_RULE("l_range", "L", "must be from 1 to 2^20 batch entries", range,
                  in_range(s.args.l, 1, largest_batch)),
          WL_RULE("tiles", "M, N, L", "must make fewer than 2^31 tiles of 128 x 64", range,
                  tiles_fit(s.args)),
          WL_RULE("sf_layout", "sf_layout", "must be WL_SF_128x4 (0)", range,
                  enumerator(s.args.sf_layout, WL_SF_128x4, WL_SF_128x4)),
          WL_RULE("d_type", "d_type", "must be WL_F16 (0), WL_BF16 (1), WL_NVFP4 (2) or WL_F32 (3)",
                  range, enumerator(s.args.d_type, WL_F16, WL_F32)),
          WL_RULE("bias_type", "bias_type", "must be WL_F16 (0), WL_BF16 (1) or WL_F32 (3)", range,
                  bias_type(s.args)),
          WL_RULE("activation", "activation",
                  "must be from WL_ACTIVATION_NONE (0) to WL_ACTIVATION_GELU_ERF (5)", range,
                  enumerator(s.args.activation, WL_ACTIVATION_NONE, WL_ACTIVATION_GELU_ERF)),
          WL_RULE("flags", "flags",
                  "must be 0, WL_STATIC_WEIGHTS (1), WL_GRAPH_LAUNCH (2) or their sum", range,
                  flags_among(s.args.flags, WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH)),

          WL_RULE("a_entry", "A", "must have entries (M * K/2) below 2^40 bytes", range,
                  entry_below_limit(s.args, s.args.m, "M", 1)),
          WL_RULE("b_entry", "B", "must have entries (N * K/2) below 2^40 bytes", range,
                  entry_below_limit(s.args, s.args.n, "N", column_multiple(s.args))),
          WL_RULE("a_size", "A", "must be below 2^47 bytes", range,
                  batch_below_limit(s.args, operand_bytes(s.args, s.args.m))),
          WL_RULE("b_size", "B", "must be below 2^47 bytes", range,
                  batch_below_limit(s.args, operand_bytes(s.args, s.args.n))),

          WL_OPERAND("a", "A", a, a_of, 16),
          WL_OPERAND("b", "B", b, b_of, 16),
          WL_OPERAND("sfa", "SFA", sfa, sfa_of, 16),
          WL_OPERAND("sfb", "SFB", sfb, sfb_of, 16),
          WL_OPTIONAL_OPERAND("alpha", "alpha", alpha, alpha_of, 4),
          WL_OPTIONAL_OPERAND("row", "row", row, row_of, 4),
          WL_OPTIONAL_OPERAND("bias", "bias", bias, bias_of, 16),
          WL_OPTIONAL_OPERAND("d_scale", "d_scale", d_scale, d_scale_of, 4),

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
          WL_RULE("batch_stride_r_multiple", "batch_stride_r", "must be a multiple of 8 elements",
                  multiple, of_residual(s.args, batch_stride_multiple)),
          WL_RULE("residual_size", "residual", "must be below 2^47 bytes", range,
                  residual_fits(s.args)),

          WL_RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),
          WL_RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
          WL_RULE("d_reachable", "D", reachable_text, memory, reachable(s.context, d_of(s.args))),
          WL_RULE("sfd_null", "SFD", "must not be null for WL_NVFP4", pointer,
                  is_nvfp4(s.args) ? not_null(s.args.sfd) : holds()),
          WL_RULE("sfd_aligned", "SFD", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfd, 16)),
          WL_RULE("sfd_reachable", "SFD", reachable_text, memory,
                  reachable(s.context, sfd_of(s.args))),
          WL_RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
                  disjoint(sfd_of(s.args), others(s.args))),
          WL_RULE("ldd_covers", "ldd", "must be 0 or at least N elements", range,
                  with_gaps(s.args, ld_covers)),
          WL_RULE("ldd_multiple", "ldd", "must be a multiple of 8 elements", multiple,
                  with_gaps(s.args, ld_multiple)),
          WL_RULE("batch_stride_covers", "batch_stride_d",
                  "must be 0 or at least (M - 1) * ldd + N elements", range,
                  with_gaps(s.args, batch_stride_covers)),
          WL_RULE("batch_stride_multiple", "batch_stride_d", "must be a multiple of 8 elements",
                  multiple, with_gaps(s.args, batch_stride_multiple)),
          WL_RULE("nvfp4_ldd", "ldd", "must be 0 or N for WL_NVFP4", range,
                  nvfp4_dense(s.args, s.args.ldd, 1)),
          WL_RULE("nvfp4_batch_stride", "batch_stride_d", "must be 0 or M * N for WL_NVFP4", range,
                  nvfp4_dense(s.args, s.args.batch_stride_d, s.args.m)),
          WL_RULE("d_size", "D", "must be below 2^47 bytes", range,
                  fits_address_space(strided_d(s.args), element_bytes(s.args.d_type), "D")),

          WL_RULE("config_known", "config", "must name a configuration", range,
                  config_known(configs(), s.args.config, serving(s))),
          WL_RULE("config_runs", "config", "must be a configuration for this device and output",
                  support, config_runs(configs(), s.args.config, serving(s))),
      }};
  return table;
}

} // namespace warpline::linear
