// The constraint table of the dual GEMM: the one source of its check, documentation and tests.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rows.hpp"
#include "runtime/src/status.hpp"
#include "runtime/src/strided.hpp"

#include <algorithm>
#include <cinttypes>

namespace warpline::dual_gemm {

namespace {

using Args = wl_dual_gemm_args;

// Kernels count rows, columns and K in 32 bits and round up to a tile.
constexpr int64_t largest_extent = int64_t{1} << 30;
constexpr int64_t largest_batch = int64_t{1} << 20;
// cuTensorMapEncodeTiled: a stride is below 2^40 bytes.
constexpr int64_t stride_limit = int64_t{1} << 40;
constexpr int64_t tile_limit = int64_t{1} << 31;

bool sizes_in_range(const Args& a) {
  return a.m >= 1 && a.m <= largest_extent && a.n >= 1 && a.n <= largest_extent && a.k >= 1 &&
         a.k <= largest_extent && a.l >= 1 && a.l <= largest_batch;
}

// Bytes of one batch entry, and of the whole batch (0 when they do not fit in 63 bits).
int64_t operand_entry_bytes(int64_t rows, int64_t k) { return rows * (k / 2); }
int64_t scale_entry_bytes(int64_t rows, int64_t k) {
  return static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, rows, k));
}
uint64_t batch_bytes(int64_t entry, int64_t l) {
  int64_t bytes = 0;
  return product({entry, l}, &bytes) ? static_cast<uint64_t>(bytes) : 0;
}
uint64_t operand_bytes(const Args& a, int64_t rows) {
  return sizes_in_range(a) ? batch_bytes(operand_entry_bytes(rows, a.k), a.l) : 0;
}
uint64_t scale_bytes(const Args& a, int64_t rows) {
  return sizes_in_range(a) ? batch_bytes(scale_entry_bytes(rows, a.k), a.l) : 0;
}

Strided strided_d(const Args& a) {
  return {a.m, a.n, a.l, a.ldd, a.batch_stride_d, sizes_in_range(a)};
}
uint64_t d_bytes(const Args& a) {
  const auto elements = static_cast<uint64_t>(strided_d(a).extent());
  return a.d_type == WL_NVFP4 ? elements / 2 : 2 * elements;
}
// Bytes of D's scales; 0 when D has none.
uint64_t sfd_bytes(const Args& a) {
  if (a.d_type != WL_NVFP4 || !sizes_in_range(a)) return 0;
  return batch_bytes(scale_entry_bytes(a.m, a.n), a.l);
}

// What N is a multiple of.
int64_t column_multiple(const Args& a) { return a.d_type == WL_NVFP4 ? 64 : 8; }

// `extent` is the operand's M or N, called `name`.
Verdict entry_below_limit(const Args& a, int64_t extent, const char* name, int64_t multiple) {
  if (!sizes_in_range(a)) return holds();
  const int64_t bytes = operand_entry_bytes(extent, a.k);
  if (bytes < stride_limit) return holds();
  const int64_t most = (stride_limit - 1) / operand_entry_bytes(1, a.k) / multiple * multiple;
  return violated(format(": an entry takes %" PRId64 " bytes,", bytes),
                  format("%s = %" PRId64, name, most));
}

Verdict tensor_below_limit(const Subject& s, uint64_t bytes) {
  return sizes_in_range(s.args) ? batch_fits_address_space(bytes) : holds();
}

Verdict sfd_given(const Subject& s) {
  return s.args.d_type == WL_NVFP4 ? not_null(s.args.sfd) : holds();
}

// One of the two speaks of an N, so that `nearest` is right for the output type.
Verdict n_multiple(const Args& a) {
  return a.d_type == WL_NVFP4 ? holds() : multiple_of(a.n, 8, 8, largest_extent);
}
Verdict nvfp4_columns(const Args& a) {
  return a.d_type == WL_NVFP4 ? multiple_of(a.n, 64, 8, largest_extent) : holds();
}

// Rules of strides that may leave gaps.
Verdict with_gaps(const Args& a, Verdict (*rule)(const Strided&)) {
  return a.d_type == WL_NVFP4 ? holds() : rule(strided_d(a));
}

// An operand of the next product has no gaps.
Verdict nvfp4_dense(const Args& a, int64_t found, int64_t rows) {
  const bool sized = sizes_in_range(a);
  if (a.d_type != WL_NVFP4 || found == 0 || (found > 0 && !sized)) return holds();
  const int64_t dense = sized ? rows * a.n : 0;
  if (found == dense) return holds();
  return violated(format(" = %" PRId64, found),
                  sized ? format("0, %" PRId64, dense) : std::string("0"));
}

// What the arguments point to.
Extent a_of(const Args& a) { return {"A", a.a, operand_bytes(a, a.m)}; }
Extent b1_of(const Args& a) { return {"B1", a.b1, operand_bytes(a, a.n)}; }
Extent b2_of(const Args& a) { return {"B2", a.b2, operand_bytes(a, a.n)}; }
Extent sfa_of(const Args& a) { return {"SFA", a.sfa, scale_bytes(a, a.m)}; }
Extent sfb1_of(const Args& a) { return {"SFB1", a.sfb1, scale_bytes(a, a.n)}; }
Extent sfb2_of(const Args& a) { return {"SFB2", a.sfb2, scale_bytes(a, a.n)}; }
Extent alpha1_of(const Args& a) { return {"alpha1", a.alpha1, sizeof(float)}; }
Extent alpha2_of(const Args& a) { return {"alpha2", a.alpha2, sizeof(float)}; }
Extent d_scale_of(const Args& a) { return {"d_scale", a.d_scale, sizeof(float)}; }
Extent d_of(const Args& a) { return {"D", a.d, d_bytes(a)}; }
Extent sfd_of(const Args& a) { return {"SFD", a.sfd, sfd_bytes(a)}; }

// All but SFD.
std::array<Extent, 10> others(const Args& a) {
  return {d_of(a),    a_of(a),    b1_of(a),     b2_of(a),     sfa_of(a),
          sfb1_of(a), sfb2_of(a), alpha1_of(a), alpha2_of(a), d_scale_of(a)};
}

// Whether a row serves the request, or the reason why not. Other rules speak of sizes out of range;
// work is counted for sizes within.
bool row_runs(const Subject& s, const Row& row, std::string* reason) {
  const Args& a = s.args;
  return sizes_in_range(a) ? can_run(row, problem_of(a), s.device, reason)
                           : can_run(row, a.d_type, s.device, reason);
}

auto row_serving(const Subject& s) {
  return [&s](const Row& row, std::string* reason) { return row_runs(s, row, reason); };
}

// The smallest tiles of the table make the most of them.
Verdict tiles_fit(const Subject& s) {
  const Args& a = s.args;
  if (!sizes_in_range(a)) return holds();
  int64_t tiles = 0;
  if (product({(a.m + 127) / 128, (a.n + 63) / 64, a.l}, &tiles) && tiles < tile_limit)
    return holds();
  return violated(format(" = %" PRId64 ", %" PRId64 ", %" PRId64, a.m, a.n, a.l));
}

} // namespace

int64_t effective_ldd(const wl_dual_gemm_args& args) { return strided_d(args).row_stride(); }
int64_t effective_batch_stride(const wl_dual_gemm_args& args) {
  return strided_d(args).entry_stride();
}

std::array<Extent, 11> operands(const wl_dual_gemm_args& args) {
  std::array<Extent, 11> all{sfd_of(args)};
  std::ranges::copy(others(args), all.begin() + 1);
  return all;
}

Problem problem_of(const wl_dual_gemm_args& args) {
  const auto starts = static_cast<uint64_t>(effective_ldd(args)) |
                      static_cast<uint64_t>(effective_batch_stride(args));
  Problem problem;
  problem.m = args.m;
  problem.n = args.n;
  problem.k = args.k;
  problem.l = args.l;
  problem.d_type = args.d_type;
  problem.whole_sectors = ((2 * starts | address_of(args.d)) & 31) == 0;
  problem.operands = {.a = args.a,
                      .sfa = args.sfa,
                      .b = {args.b1, args.b2},
                      .sfb = {args.sfb1, args.sfb2},
                      .alpha = {args.alpha1, args.alpha2},
                      .d = args.d,
                      .sfd = args.sfd,
                      .d_scale = args.d_scale};
  problem.ldd = effective_ldd(args);
  problem.batch_stride_d = effective_batch_stride(args);
  problem.flags = args.flags;
  return problem;
}

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_dual_gemm",
      {
          WL_RULE("device", "device", "must run one of the library's targets", support,
                  device_supported(rows(), s.device)),

          WL_RULE("m_range", "M", "must be from 1 to 2^30 rows", range,
                  in_range(s.args.m, 1, largest_extent)),
          WL_RULE("n_range", "N", "must be from 8 to 2^30 columns", range,
                  in_range(s.args.n, 8, largest_extent, column_multiple(s.args))),
          WL_RULE("n_multiple", "N", "must be a multiple of 8 columns", multiple,
                  n_multiple(s.args)),
          WL_RULE("k_range", "K", "must be from 64 to 2^30 elements", range,
                  in_range(s.args.k, 64, largest_extent)),
          WL_RULE("k_multiple", "K", "must be a multiple of 64 elements", multiple,
                  multiple_of(s.args.k, 64, 64, largest_extent)),
          WL_RULE("l_range", "L", "must be from 1 to 2^20 batch entries", range,
                  in_range(s.args.l, 1, largest_batch)),
          WL_RULE("tiles", "M, N, L", "must make fewer than 2^31 tiles of 128 x 64", range,
                  tiles_fit(s)),

          WL_RULE("sf_layout", "sf_layout", "must be WL_SF_128x4 (0)", range,
                  enumerator(s.args.sf_layout, WL_SF_128x4, WL_SF_128x4)),
          WL_RULE("d_type", "d_type", "must be WL_F16 (0), WL_BF16 (1) or WL_NVFP4 (2)", range,
                  enumerator(s.args.d_type, WL_F16, WL_NVFP4)),
          WL_RULE("flags", "flags",
                  "must be 0, WL_STATIC_WEIGHTS (1), WL_GRAPH_LAUNCH (2) or their sum", range,
                  flags_among(s.args.flags, WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH)),
          WL_RULE("nvfp4_columns", "N", "must be a multiple of 64 columns for WL_NVFP4", multiple,
                  nvfp4_columns(s.args)),

          WL_RULE("a_entry", "A", "must have entries (M * K/2) below 2^40 bytes", range,
                  entry_below_limit(s.args, s.args.m, "M", 1)),
          WL_RULE("b_entry", "B1, B2", "must have entries (N * K/2) below 2^40 bytes", range,
                  entry_below_limit(s.args, s.args.n, "N", column_multiple(s.args))),
          WL_RULE("a_size", "A", "must be below 2^47 bytes", range,
                  tensor_below_limit(s, operand_bytes(s.args, s.args.m))),
          WL_RULE("b_size", "B1, B2", "must be below 2^47 bytes", range,
                  tensor_below_limit(s, operand_bytes(s.args, s.args.n))),

          WL_RULE("a_null", "A", "must not be null", pointer, not_null(s.args.a)),
          WL_RULE("b1_null", "B1", "must not be null", pointer, not_null(s.args.b1)),
          WL_RULE("b2_null", "B2", "must not be null", pointer, not_null(s.args.b2)),
          WL_RULE("sfa_null", "SFA", "must not be null", pointer, not_null(s.args.sfa)),
          WL_RULE("sfb1_null", "SFB1", "must not be null", pointer, not_null(s.args.sfb1)),
          WL_RULE("sfb2_null", "SFB2", "must not be null", pointer, not_null(s.args.sfb2)),
          WL_RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),

          WL_RULE("sfd_null", "SFD", "must not be null for WL_NVFP4", pointer, sfd_given(s)),

          WL_RULE("a_aligned", "A", "must be 16-byte aligned", alignment, aligned(s.args.a, 16)),
          WL_RULE("b1_aligned", "B1", "must be 16-byte aligned", alignment, aligned(s.args.b1, 16)),
          WL_RULE("b2_aligned", "B2", "must be 16-byte aligned", alignment, aligned(s.args.b2, 16)),
          WL_RULE("sfa_aligned", "SFA", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfa, 16)),
          WL_RULE("sfb1_aligned", "SFB1", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfb1, 16)),
          WL_RULE("sfb2_aligned", "SFB2", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfb2, 16)),
          WL_RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
          WL_RULE("alpha1_aligned", "alpha1", "must be 4-byte aligned", alignment,
                  aligned(s.args.alpha1, 4)),
          WL_RULE("alpha2_aligned", "alpha2", "must be 4-byte aligned", alignment,
                  aligned(s.args.alpha2, 4)),

          WL_RULE("sfd_aligned", "SFD", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfd, 16)),
          WL_RULE("d_scale_aligned", "d_scale", "must be 4-byte aligned", alignment,
                  aligned(s.args.d_scale, 4)),

          WL_RULE("a_reachable", "A", reachable_text, memory, reachable(s.context, a_of(s.args))),
          WL_RULE("b1_reachable", "B1", reachable_text, memory,
                  reachable(s.context, b1_of(s.args))),
          WL_RULE("b2_reachable", "B2", reachable_text, memory,
                  reachable(s.context, b2_of(s.args))),
          WL_RULE("sfa_reachable", "SFA", reachable_text, memory,
                  reachable(s.context, sfa_of(s.args))),
          WL_RULE("sfb1_reachable", "SFB1", reachable_text, memory,
                  reachable(s.context, sfb1_of(s.args))),
          WL_RULE("sfb2_reachable", "SFB2", reachable_text, memory,
                  reachable(s.context, sfb2_of(s.args))),
          WL_RULE("alpha1_reachable", "alpha1", reachable_text, memory,
                  reachable(s.context, alpha1_of(s.args))),
          WL_RULE("alpha2_reachable", "alpha2", reachable_text, memory,
                  reachable(s.context, alpha2_of(s.args))),
          WL_RULE("d_reachable", "D", reachable_text, memory, reachable(s.context, d_of(s.args))),
          WL_RULE("sfd_reachable", "SFD", reachable_text, memory,
                  reachable(s.context, sfd_of(s.args))),
          WL_RULE("d_scale_reachable", "d_scale", reachable_text, memory,
                  reachable(s.context, d_scale_of(s.args))),

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
                  fits_address_space(strided_d(s.args), 2, "D")),

          WL_RULE("d_overlaps_a", "D", "must not overlap A", overlap,
                  disjoint(d_of(s.args), a_of(s.args))),
          WL_RULE("d_overlaps_b1", "D", "must not overlap B1", overlap,
                  disjoint(d_of(s.args), b1_of(s.args))),
          WL_RULE("d_overlaps_b2", "D", "must not overlap B2", overlap,
                  disjoint(d_of(s.args), b2_of(s.args))),
          WL_RULE("d_overlaps_sfa", "D", "must not overlap SFA", overlap,
                  disjoint(d_of(s.args), sfa_of(s.args))),
          WL_RULE("d_overlaps_sfb1", "D", "must not overlap SFB1", overlap,
                  disjoint(d_of(s.args), sfb1_of(s.args))),
          WL_RULE("d_overlaps_sfb2", "D", "must not overlap SFB2", overlap,
                  disjoint(d_of(s.args), sfb2_of(s.args))),
          WL_RULE("d_overlaps_alpha1", "D", "must not overlap alpha1", overlap,
                  disjoint(d_of(s.args), alpha1_of(s.args))),
          WL_RULE("d_overlaps_alpha2", "D", "must not overlap alpha2", overlap,
                  disjoint(d_of(s.args), alpha2_of(s.args))),

          WL_RULE("d_overlaps_d_scale", "D", "must not overlap d_scale", overlap,
                  disjoint(d_of(s.args), d_scale_of(s.args))),
          WL_RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
                  disjoint(sfd_of(s.args), others(s.args))),

          WL_RULE("config_known", "config", "must name a configuration", range,
                  config_known(rows(), s.args.config, row_serving(s))),
          WL_RULE("config_runs", "config", "must be a configuration for this device and output",
                  support, config_runs(rows(), s.args.config, row_serving(s))),
      }};
  return table;
}

} // namespace warpline::dual_gemm
