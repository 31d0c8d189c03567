// The constraint table of the quantiser: the one source of its check, documentation and tests.
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rows.hpp"
#include "runtime/src/strided.hpp"

namespace warpline::quantize {

namespace {

using Args = wl_quantize_args;

// The kernel counts rows, atoms and entries in 32 bits.
constexpr int64_t largest_extent = int64_t{1} << 30;
constexpr int64_t largest_batch = int64_t{1} << 20;

bool sizes_in_range(const Args& a) {
  return a.m >= 1 && a.m <= largest_extent && a.k >= 1 && a.k <= largest_extent && a.l >= 1 &&
         a.l <= largest_batch;
}

Strided strided_x(const Args& a) {
  return {a.m, a.k, a.l, a.ldx, a.batch_stride_x, sizes_in_range(a)};
}

// Bytes of the whole batch, 0 when they do not fit in 63 bits.
uint64_t batch_bytes(const Args& a, int64_t entry) {
  int64_t bytes = 0;
  return product({entry, a.l}, &bytes) ? static_cast<uint64_t>(bytes) : 0;
}
uint64_t x_bytes(const Args& a) { return 2 * static_cast<uint64_t>(strided_x(a).extent()); }
uint64_t d_bytes(const Args& a) { return sizes_in_range(a) ? batch_bytes(a, a.m * (a.k / 2)) : 0; }
uint64_t sfd_bytes(const Args& a) {
  if (!sizes_in_range(a)) return 0;
  return batch_bytes(a, static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, a.m, a.k)));
}

Verdict sfd_below_limit(const Args& a) {
  return sizes_in_range(a) ? batch_fits_address_space(sfd_bytes(a)) : holds();
}

// What the arguments point to.
Extent x_of(const Args& a) { return {"X", a.x, x_bytes(a)}; }
Extent d_of(const Args& a) { return {"D", a.d, d_bytes(a)}; }
Extent sfd_of(const Args& a) { return {"SFD", a.sfd, sfd_bytes(a)}; }
Extent d_scale_of(const Args& a) { return {"d_scale", a.d_scale, sizeof(float)}; }

auto row_serving(const Subject& s) {
  return [&s](const Row& row, std::string* reason) {
    return can_run(row, s.args.x_type, s.device, reason);
  };
}

} // namespace

int64_t effective_ldx(const wl_quantize_args& args) { return strided_x(args).row_stride(); }
int64_t effective_batch_stride(const wl_quantize_args& args) {
  return strided_x(args).entry_stride();
}

std::vector<Extent> operands(const wl_quantize_args& args) {
  return {x_of(args), d_of(args), sfd_of(args), d_scale_of(args)};
}

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_quantize",
      {
          WL_RULE("device", "device", "must run one of the library's targets", support,
                  device_supported(rows(), s.device)),
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

          WL_RULE("x_null", "X", "must not be null", pointer, not_null(s.args.x)),
          WL_RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),
          WL_RULE("sfd_null", "SFD", "must not be null", pointer, not_null(s.args.sfd)),
          WL_RULE("x_aligned", "X", "must be 16-byte aligned", alignment, aligned(s.args.x, 16)),
          WL_RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
          WL_RULE("sfd_aligned", "SFD", "must be 16-byte aligned", alignment,
                  aligned(s.args.sfd, 16)),
          WL_RULE("d_scale_aligned", "d_scale", "must be 4-byte aligned", alignment,
                  aligned(s.args.d_scale, 4)),

          WL_RULE("x_reachable", "X", reachable_text, memory, reachable(s.context, x_of(s.args))),
          WL_RULE("d_reachable", "D", reachable_text, memory, reachable(s.context, d_of(s.args))),
          WL_RULE("sfd_reachable", "SFD", reachable_text, memory,
                  reachable(s.context, sfd_of(s.args))),
          WL_RULE("d_scale_reachable", "d_scale", reachable_text, memory,
                  reachable(s.context, d_scale_of(s.args))),

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

          WL_RULE("d_overlaps_x", "D", "must not overlap X", overlap,
                  disjoint(d_of(s.args), x_of(s.args))),
          WL_RULE("d_overlaps_d_scale", "D", "must not overlap d_scale", overlap,
                  disjoint(d_of(s.args), d_scale_of(s.args))),
          WL_RULE(
              "sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
              disjoint(sfd_of(s.args), std::array{d_of(s.args), x_of(s.args), d_scale_of(s.args)})),

          WL_RULE("config_known", "config", "must name a configuration", range,
                  config_known(rows(), s.args.config, row_serving(s))),
          WL_RULE("config_runs", "config", "must be a configuration for this device and input",
                  support, config_runs(rows(), s.args.config, row_serving(s))),
      }};
  return table;
}

} // namespace warpline::quantize
