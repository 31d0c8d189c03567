// The constraint table of the dual GEMM: the one source of its check, documentation and tests.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "runtime/src/status.hpp"

#include <cinttypes>

namespace warpline::dual_gemm {

namespace {

using Args = wl_dual_gemm_args;

// Kernels count rows, columns and K in 32 bits and round up to a tile.
constexpr int64_t largest_extent = int64_t{1} << 30;
constexpr int64_t largest_batch = int64_t{1} << 20;
// cuTensorMapEncodeTiled: a stride is below 2^40 bytes.
constexpr int64_t stride_limit = int64_t{1} << 40;
// Device addresses have 47 usable bits.
constexpr int64_t tensor_limit = int64_t{1} << 47;
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

// Elements from the first to one past the last of D; 0 when it does not fit.
int64_t d_extent(const Args& a) {
  if (!sizes_in_range(a)) return 0;
  const int64_t ldd = effective_ldd(a), batch_stride = effective_batch_stride(a);
  int64_t rows = 0, entries = 0;
  if (ldd < a.n || batch_stride < 0) return 0;
  if (!product({a.m - 1, ldd}, &rows) || !product({a.l - 1, batch_stride}, &entries)) return 0;
  if (rows > tensor_limit || entries > tensor_limit) return 0;
  return entries + rows + a.n;
}
uint64_t d_bytes(const Args& a) {
  const auto elements = static_cast<uint64_t>(d_extent(a));
  return a.d_type == WL_NVFP4 ? elements / 2 : 2 * elements;
}
// Bytes of D's scales; 0 when D has none.
uint64_t sfd_bytes(const Args& a) {
  if (a.d_type != WL_NVFP4 || !sizes_in_range(a)) return 0;
  return batch_bytes(scale_entry_bytes(a.m, a.n), a.l);
}

Verdict below(int64_t value, int64_t limit, const char* what, const char* unit) {
  if (value < limit) return holds();
  return violated(format(": %s takes %" PRId64 " %s,", what, value, unit),
                  format("%" PRId64, limit - 1));
}

Verdict entry_below_limit(const Subject& s, int64_t rows, const char* what) {
  if (!sizes_in_range(s.args)) return holds();
  return below(operand_entry_bytes(rows, s.args.k), stride_limit, what, "bytes");
}

Verdict tensor_below_limit(const Subject& s, uint64_t bytes) {
  if (!sizes_in_range(s.args)) return holds();
  if (bytes != 0 && bytes < static_cast<uint64_t>(tensor_limit)) return holds();
  return violated(bytes == 0 ? std::string(": the batch takes 2^63 bytes or more,")
                             : format(": the batch takes %" PRIu64 " bytes,", bytes));
}

Verdict d_disjoint(const Subject& s, const void* input, uint64_t bytes, const char* name) {
  return disjoint(s.args.d, d_bytes(s.args), input, bytes, name);
}

Verdict sfd_given(const Subject& s) {
  return s.args.d_type == WL_NVFP4 ? not_null(s.args.sfd) : holds();
}

Verdict nvfp4_columns(const Subject& s) {
  const Args& a = s.args;
  return a.d_type == WL_NVFP4 && a.n % 8 == 0 ? multiple_of(a.n, 64, 8) : holds();
}

// An operand of the next product has no gaps.
Verdict nvfp4_dense(const Subject& s, int64_t found, int64_t dense) {
  if (s.args.d_type != WL_NVFP4 || found == 0 || !sizes_in_range(s.args) || found == dense)
    return holds();
  return violated(format(" = %" PRId64, found), format("0, %" PRId64, dense));
}

Verdict sfd_disjoint(const Subject& s) {
  const Args& a = s.args;
  const struct {
    const void* start;
    uint64_t bytes;
    const char* name;
  } others[] = {{a.d, d_bytes(a), "D"},
                {a.a, operand_bytes(a, a.m), "A"},
                {a.b1, operand_bytes(a, a.n), "B1"},
                {a.b2, operand_bytes(a, a.n), "B2"},
                {a.sfa, scale_bytes(a, a.m), "SFA"},
                {a.sfb1, scale_bytes(a, a.n), "SFB1"},
                {a.sfb2, scale_bytes(a, a.n), "SFB2"},
                {a.alpha1, sizeof(float), "alpha1"},
                {a.alpha2, sizeof(float), "alpha2"},
                {a.d_scale, sizeof(float), "d_scale"}};
  for (const auto& other : others) {
    Verdict verdict = disjoint(a.sfd, sfd_bytes(a), other.start, other.bytes, other.name);
    if (!verdict.holds) return verdict;
  }
  return holds();
}

// The reason why a row cannot serve the request. Other rules speak of sizes out of range; work is
// counted for sizes within.
bool row_runs(const Subject& s, const Row& row, std::string* reason) {
  const wl_dual_gemm_args& a = s.args;
  return sizes_in_range(a) ? can_run(row, {a.m, a.n, a.k, a.l, a.d_type}, s.device, reason)
                           : can_run(row, a.d_type, s.device, reason);
}

// Rows that serve the request, with names like the one given.
std::string rows_like(const Subject& s) {
  std::vector<std::string> runnable;
  for (const Row& row : rows())
    if (row_runs(s, row, nullptr)) runnable.emplace_back(row.name);
  std::string names;
  for (const std::string& name : nearest_names(s.args.config, runnable, 3))
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

Verdict config_known(const Subject& s) {
  if (s.args.config == nullptr || find_row(s.args.config) != nullptr) return holds();
  return violated(format(" = \"%s\"", s.args.config), rows_like(s));
}

Verdict config_runs(const Subject& s) {
  if (s.args.config == nullptr) return holds();
  const Row* row = find_row(s.args.config);
  std::string reason;
  if (row == nullptr || row_runs(s, *row, &reason)) return holds();
  return violated(format(" = \"%s\", but %s,", row->name, reason.c_str()), rows_like(s));
}

Verdict device_supported(const Subject& s) {
  std::string targets;
  for (const Row& row : rows()) {
    if (target_runs_on(row.target, s.device.compute_major, s.device.compute_minor)) return holds();
    if (targets.find(row.target) == std::string::npos)
      targets += (targets.empty() ? "" : ", ") + std::string(row.target);
  }
  return violated(format(" %s has compute capability %d.%d, which", s.device.name.c_str(),
                         s.device.compute_major, s.device.compute_minor),
                  targets);
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

Verdict ldd_covers_n(const Subject& s) {
  const Args& a = s.args;
  if (a.ldd == 0) return holds();
  if (a.ldd < 0 || (sizes_in_range(a) && a.ldd < a.n))
    return violated(format(" = %" PRId64, a.ldd),
                    sizes_in_range(a) ? format("0, %" PRId64, a.n) : std::string("0"));
  return holds();
}

Verdict batch_stride_covers(const Subject& s) {
  const Args& a = s.args;
  if (a.batch_stride_d == 0) return holds();
  const std::string found = format(" = %" PRId64, a.batch_stride_d);
  if (a.batch_stride_d < 0) return violated(found, "0");
  const int64_t ldd = effective_ldd(a);
  int64_t rows = 0;
  if (a.l <= 1 || !sizes_in_range(a) || ldd < a.n || !product({a.m - 1, ldd}, &rows))
    return holds();
  if (a.batch_stride_d >= rows + a.n) return holds();
  return violated(found, format("0, %" PRId64, a.m * ldd));
}

Verdict d_below_limit(const Subject& s) {
  const Args& a = s.args;
  if (!sizes_in_range(a) || effective_ldd(a) < a.n || effective_batch_stride(a) < 0) return holds();
  const int64_t extent = d_extent(a);
  if (extent != 0 && 2 * extent < tensor_limit) return holds();
  return violated(": D takes 2^47 bytes or more,");
}

} // namespace

int64_t effective_ldd(const wl_dual_gemm_args& args) { return args.ldd != 0 ? args.ldd : args.n; }

int64_t effective_batch_stride(const wl_dual_gemm_args& args) {
  if (args.batch_stride_d != 0) return args.batch_stride_d;
  int64_t stride = 0;
  return product({args.m, effective_ldd(args)}, &stride) ? stride : 0;
}

#define RULE(id, argument, text, kind, expression)                                                 \
  {                                                                                                \
    id, argument, text, RuleKind::kind, [](const Subject& s) -> Verdict { return expression; }     \
  }

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_dual_gemm",
      {
          RULE("device", "device", "must run one of the library's targets", support,
               device_supported(s)),

          RULE("m_range", "M", "must be from 1 to 2^30 rows", range,
               in_range(s.args.m, 1, largest_extent)),
          RULE("n_range", "N", "must be from 8 to 2^30 columns", range,
               in_range(s.args.n, 8, largest_extent)),
          RULE("n_multiple", "N", "must be a multiple of 8 columns", multiple,
               multiple_of(s.args.n, 8, 8)),
          RULE("k_range", "K", "must be from 64 to 2^30 elements", range,
               in_range(s.args.k, 64, largest_extent)),
          RULE("k_multiple", "K", "must be a multiple of 64 elements", multiple,
               multiple_of(s.args.k, 64, 64)),
          RULE("l_range", "L", "must be from 1 to 2^20 batch entries", range,
               in_range(s.args.l, 1, largest_batch)),
          RULE("tiles", "M, N, L", "must make fewer than 2^31 tiles of 128 x 64", range,
               tiles_fit(s)),

          RULE("sf_layout", "sf_layout", "must be WL_SF_128x4 (0)", range,
               in_range(static_cast<int64_t>(s.args.sf_layout), WL_SF_128x4, WL_SF_128x4)),
          RULE("d_type", "d_type", "must be WL_F16 (0), WL_BF16 (1) or WL_NVFP4 (2)", range,
               in_range(static_cast<int64_t>(s.args.d_type), WL_F16, WL_NVFP4)),
          RULE("flags", "flags", "must be 0 or WL_STATIC_WEIGHTS (1)", range,
               in_range(static_cast<int64_t>(s.args.flags), 0, WL_STATIC_WEIGHTS)),
          RULE("nvfp4_columns", "N", "must be a multiple of 64 columns for WL_NVFP4", multiple,
               nvfp4_columns(s)),

          RULE("a_entry", "A", "must have entries (M * K/2) below 2^40 bytes", range,
               entry_below_limit(s, s.args.m, "an entry")),
          RULE("b_entry", "B1, B2", "must have entries (N * K/2) below 2^40 bytes", range,
               entry_below_limit(s, s.args.n, "an entry")),
          RULE("a_size", "A", "must be below 2^47 bytes", range,
               tensor_below_limit(s, operand_bytes(s.args, s.args.m))),
          RULE("b_size", "B1, B2", "must be below 2^47 bytes", range,
               tensor_below_limit(s, operand_bytes(s.args, s.args.n))),

          RULE("a_null", "A", "must not be null", pointer, not_null(s.args.a)),
          RULE("b1_null", "B1", "must not be null", pointer, not_null(s.args.b1)),
          RULE("b2_null", "B2", "must not be null", pointer, not_null(s.args.b2)),
          RULE("sfa_null", "SFA", "must not be null", pointer, not_null(s.args.sfa)),
          RULE("sfb1_null", "SFB1", "must not be null", pointer, not_null(s.args.sfb1)),
          RULE("sfb2_null", "SFB2", "must not be null", pointer, not_null(s.args.sfb2)),
          RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),

          RULE("sfd_null", "SFD", "must not be null for WL_NVFP4", pointer, sfd_given(s)),

          RULE("a_aligned", "A", "must be 16-byte aligned", alignment, aligned(s.args.a, 16)),
          RULE("b1_aligned", "B1", "must be 16-byte aligned", alignment, aligned(s.args.b1, 16)),
          RULE("b2_aligned", "B2", "must be 16-byte aligned", alignment, aligned(s.args.b2, 16)),
          RULE("sfa_aligned", "SFA", "must be 16-byte aligned", alignment, aligned(s.args.sfa, 16)),
          RULE("sfb1_aligned", "SFB1", "must be 16-byte aligned", alignment,
               aligned(s.args.sfb1, 16)),
          RULE("sfb2_aligned", "SFB2", "must be 16-byte aligned", alignment,
               aligned(s.args.sfb2, 16)),
          RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
          RULE("alpha1_aligned", "alpha1", "must be 4-byte aligned", alignment,
               aligned(s.args.alpha1, 4)),
          RULE("alpha2_aligned", "alpha2", "must be 4-byte aligned", alignment,
               aligned(s.args.alpha2, 4)),

          RULE("sfd_aligned", "SFD", "must be 16-byte aligned", alignment, aligned(s.args.sfd, 16)),
          RULE("d_scale_aligned", "d_scale", "must be 4-byte aligned", alignment,
               aligned(s.args.d_scale, 4)),

          RULE("ldd_covers", "ldd", "must be 0 or at least N elements", range, ldd_covers_n(s)),
          RULE("ldd_multiple", "ldd", "must be a multiple of 8 elements", multiple,
               multiple_of(s.args.ldd, 8)),
          RULE("batch_stride_covers", "batch_stride_d",
               "must be 0 or at least (M - 1) * ldd + N elements", range, batch_stride_covers(s)),
          RULE("batch_stride_multiple", "batch_stride_d", "must be a multiple of 8 elements",
               multiple, multiple_of(s.args.batch_stride_d, 8)),
          RULE("nvfp4_ldd", "ldd", "must be 0 or N for WL_NVFP4", range,
               nvfp4_dense(s, s.args.ldd, s.args.n)),
          RULE("nvfp4_batch_stride", "batch_stride_d", "must be 0 or M * N for WL_NVFP4", range,
               nvfp4_dense(s, s.args.batch_stride_d, s.args.m * s.args.n)),
          RULE("d_size", "D", "must be below 2^47 bytes", range, d_below_limit(s)),

          RULE("d_overlaps_a", "D", "must not overlap A", overlap,
               d_disjoint(s, s.args.a, operand_bytes(s.args, s.args.m), "A")),
          RULE("d_overlaps_b1", "D", "must not overlap B1", overlap,
               d_disjoint(s, s.args.b1, operand_bytes(s.args, s.args.n), "B1")),
          RULE("d_overlaps_b2", "D", "must not overlap B2", overlap,
               d_disjoint(s, s.args.b2, operand_bytes(s.args, s.args.n), "B2")),
          RULE("d_overlaps_sfa", "D", "must not overlap SFA", overlap,
               d_disjoint(s, s.args.sfa, scale_bytes(s.args, s.args.m), "SFA")),
          RULE("d_overlaps_sfb1", "D", "must not overlap SFB1", overlap,
               d_disjoint(s, s.args.sfb1, scale_bytes(s.args, s.args.n), "SFB1")),
          RULE("d_overlaps_sfb2", "D", "must not overlap SFB2", overlap,
               d_disjoint(s, s.args.sfb2, scale_bytes(s.args, s.args.n), "SFB2")),
          RULE("d_overlaps_alpha1", "D", "must not overlap alpha1", overlap,
               d_disjoint(s, s.args.alpha1, sizeof(float), "alpha1")),
          RULE("d_overlaps_alpha2", "D", "must not overlap alpha2", overlap,
               d_disjoint(s, s.args.alpha2, sizeof(float), "alpha2")),

          RULE("d_overlaps_d_scale", "D", "must not overlap d_scale", overlap,
               d_disjoint(s, s.args.d_scale, sizeof(float), "d_scale")),
          RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
               sfd_disjoint(s)),

          RULE("config_known", "config", "must name a configuration row", range, config_known(s)),
          RULE("config_runs", "config", "must be a row for this device and output", support,
               config_runs(s)),
      }};
  return table;
}

} // namespace warpline::dual_gemm
