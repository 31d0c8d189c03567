// The constraint table of the quantiser: the one source of its check, documentation and tests.
#include "kernels/gemm/rules.hpp"
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/configs.hpp"

namespace warpline::quantize {

namespace {

using Args = wl_quantize_args;

using gemm::largest_batch, gemm::largest_extent;

bool sizes_in_range(const Args& a) {
  return a.m >= 1 && a.m <= largest_extent && a.k >= 1 && a.k <= largest_extent && a.l >= 1 &&
         a.l <= largest_batch;
}

Strided strided_x(const Args& a) {
  return {a.m, a.k, a.l, a.ldx, a.batch_stride_x, sizes_in_range(a)};
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

auto config_serving(const Subject& s) {
  return [&s](const Config& config, std::string* reason) {
    return can_run(config, s.args.x_type, s.device, reason);
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

          WL_RULE(
              "sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
              disjoint(sfd_of(s.args), std::array{d_of(s.args), x_of(s.args), d_scale_of(s.args)})),

          WL_RULE("config_known", "config", "must name a configuration", range,
                  config_known(configs(), s.args.config, config_serving(s))),
          WL_RULE("config_runs", "config", "must be a configuration for this device and input",
                  support, config_runs(configs(), s.args.config, config_serving(s))),
      }};
  return table;
}

} // namespace warpline::quantize
