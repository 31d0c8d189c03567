// The constraint tables of wl_grouped_gemm and wl_grouped_dual_gemm: the one source of their
// checks, documentation and tests.
#include "kernels/gemm/rules.hpp"
#include "kernels/grouped/grouped.hpp"
#include "runtime/src/configs.hpp"

#include <algorithm>
#include <cinttypes>

namespace warpline::grouped {

namespace {

using gemm::a_of, gemm::d_of, gemm::d_scale_of;
using gemm::element_bytes, gemm::Shape, gemm::shape_of, gemm::stride_limit;

bool counted(const wl_groups& g) { return g.count >= 1 && g.count <= most_groups; }

// ---- sizes and strides --------------------------------------------------------------------------

// Of one group; 0 where another rule speaks of a size or type.
int64_t b_entry(const Shape& s) { return s.sized() ? gemm::entry_bytes(s.types.b, s.n, s.k) : 0; }
int64_t sfb_entry(const Shape& s) {
  return s.sized() ? static_cast<int64_t>(gemm::scale_bytes(s.types.b, s.n, s.k, 1, s.sf_layout))
                   : 0;
}
int64_t b_stride(const Shape& s, const wl_groups& g) {
  return g.b_stride_bytes != 0 ? g.b_stride_bytes : b_entry(s);
}
int64_t sfb_stride(const Shape& s, const wl_groups& g) {
  return g.sfb_stride_bytes != 0 ? g.sfb_stride_bytes : sfb_entry(s);
}
int64_t bias_stride(const Shape& s, const wl_groups& g) {
  return g.bias_stride != 0 ? g.bias_stride : s.n;
}

// From the first byte of the first group to the last of the last one; 0 where another rule speaks
// of a size.
uint64_t of_groups(const Shape& s, const wl_groups& g, int64_t stride, int64_t entry) {
  int64_t bytes = 0;
  if (!s.sized() || !counted(g) || entry <= 0 || stride < entry || stride >= stride_limit) return 0;
  return product({g.count - 1, stride}, &bytes) ? static_cast<uint64_t>(bytes + entry) : 0;
}
uint64_t b_bytes(const Shape& s, const wl_groups& g) {
  return s.sized() ? of_groups(s, g, b_stride(s, g), b_entry(s)) : 0;
}
uint64_t sfb_bytes(const Shape& s, const wl_groups& g) {
  if (!s.sized() || !gemm::has_scales(s.types.b)) return 0;
  return of_groups(s, g, sfb_stride(s, g), sfb_entry(s));
}
uint64_t bias_bytes(const Shape& s, const wl_groups& g, wl_dtype type) {
  if (!s.sized()) return 0;
  return of_groups(s, g, bias_stride(s, g) * element_bytes(type), s.n * element_bytes(type));
}
uint64_t each_group(const wl_groups& g, size_t bytes) {
  return counted(g) ? static_cast<uint64_t>(g.count) * bytes : 0;
}
uint64_t each_row(const Shape& s) { return s.sized() ? static_cast<uint64_t>(s.m) * 4 : 0; }

bool rows_known(const wl_groups& g) { return g.a_rows >= 1 && g.a_rows <= gemm::largest_extent; }

// Scales of `k` elements in the tiles of groups.
uint64_t tile_bytes(const Shape& s, const wl_groups& g, int64_t k) {
  if (!s.sized() || !counted(g)) return 0;
  const int64_t tiles = g.sf_tiles != nullptr ? g.sf_tile_count : (s.m + 127) / 128 + g.count - 1;
  int64_t bytes = 0;
  const auto tile = static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, 128, k));
  return tiles > 0 && product({tiles, tile}, &bytes) ? static_cast<uint64_t>(bytes) : 0;
}

} // namespace

// ---- what the arguments point to
// ------------------------------------------------------------------

template <class Args>
Extent a_extent(const Args& a) {
  const Shape s = shape_of(a);
  if (a.groups.rows == nullptr) return {"A", a.a, s.a_bytes()};
  const bool known = s.sized() && rows_known(a.groups);
  return {"A", a.a, known ? gemm::operand_bytes(s.types.a, a.groups.a_rows, s.k, 1) : 0};
}
template <class Args>
Extent sfa_extent(const Args& a) {
  const Shape s = shape_of(a);
  if (!gemm::has_scales(s.types.a)) return {"SFA", a.sfa, 0};
  if (a.groups.rows == nullptr) return {"SFA", a.sfa, tile_bytes(s, a.groups, s.k)};
  const bool known = s.sized() && rows_known(a.groups);
  return {"SFA", a.sfa, known ? gemm::scale_bytes(s.types.a, a.groups.a_rows, s.k, 1) : 0};
}
template <class Args>
Extent sfd_extent(const Args& a) {
  const Shape s = shape_of(a);
  return {"SFD", a.sfd, s.nvfp4() ? tile_bytes(s, a.groups, s.n) : 0};
}

// Found for the macros and templates of every product's rules, by the arguments' namespace.
Extent a_of(const LinearArgs& a) { return a_extent(a); }
Extent a_of(const DualArgs& a) { return a_extent(a); }
Extent sfa_of(const LinearArgs& a) { return sfa_extent(a); }
Extent sfa_of(const DualArgs& a) { return sfa_extent(a); }
Extent sfd_of(const LinearArgs& a) { return sfd_extent(a); }
Extent sfd_of(const DualArgs& a) { return sfd_extent(a); }

namespace {

#define WL_OF_GROUPS(function, name, field, bytes)                                                 \
  template <class Args>                                                                            \
  Extent function(const Args& a) {                                                                 \
    return {name, a.field, bytes};                                                                 \
  }
WL_OF_GROUPS(b_of, "B", b, b_bytes(shape_of(a), a.groups))
WL_OF_GROUPS(b1_of, "B1", b1, b_bytes(shape_of(a), a.groups))
WL_OF_GROUPS(b2_of, "B2", b2, b_bytes(shape_of(a), a.groups))
WL_OF_GROUPS(sfb_of, "SFB", sfb, sfb_bytes(shape_of(a), a.groups))
WL_OF_GROUPS(sfb1_of, "SFB1", sfb1, sfb_bytes(shape_of(a), a.groups))
WL_OF_GROUPS(sfb2_of, "SFB2", sfb2, sfb_bytes(shape_of(a), a.groups))
WL_OF_GROUPS(alpha_of, "alpha", alpha, each_group(a.groups, sizeof(float)))
WL_OF_GROUPS(alpha1_of, "alpha1", alpha1, each_group(a.groups, sizeof(float)))
WL_OF_GROUPS(alpha2_of, "alpha2", alpha2, each_group(a.groups, sizeof(float)))
WL_OF_GROUPS(bias_of, "bias", bias, bias_bytes(shape_of(a), a.groups, a.bias_type))
WL_OF_GROUPS(bias1_of, "bias1", bias1, bias_bytes(shape_of(a), a.groups, a.bias_type))
WL_OF_GROUPS(bias2_of, "bias2", bias2, bias_bytes(shape_of(a), a.groups, a.bias_type))
WL_OF_GROUPS(row_of, "row", row, each_row(shape_of(a)))
WL_OF_GROUPS(ends_of, "ends", groups.ends, each_group(a.groups, sizeof(int32_t)))
WL_OF_GROUPS(sizes_of, "sizes", groups.sizes, each_group(a.groups, sizeof(int32_t)))
WL_OF_GROUPS(sf_tiles_of, "sf_tiles", groups.sf_tiles, each_group(a.groups, sizeof(int32_t)))
WL_OF_GROUPS(rows_of, "rows", groups.rows, each_row(shape_of(a)))
WL_OF_GROUPS(status_of, "status", groups.status, sizeof(uint32_t))
#undef WL_OF_GROUPS

Strided strided_r(const LinearArgs& a) { return shape_of(a).strided(a.ldr, a.batch_stride_r); }
Extent residual_of(const LinearArgs& a) {
  return {"residual", a.residual,
          static_cast<uint64_t>(strided_r(a).extent() * element_bytes(a.d_type))};
}

template <class Args>
std::vector<Extent> of_groups(const Args& a) {
  return {a_of(a), sfa_of(a), ends_of(a), sizes_of(a), sf_tiles_of(a), rows_of(a), d_scale_of(a)};
}
// What is read beside D's place.
std::vector<Extent> inputs(const LinearArgs& a) {
  std::vector<Extent> all = of_groups(a);
  for (const Extent& e : {b_of(a), sfb_of(a), alpha_of(a), row_of(a), bias_of(a)}) all.push_back(e);
  return all;
}
std::vector<Extent> inputs(const DualArgs& a) {
  std::vector<Extent> all = of_groups(a);
  for (const Extent& e : {b1_of(a), b2_of(a), sfb1_of(a), sfb2_of(a), alpha1_of(a), alpha2_of(a),
                          bias1_of(a), bias2_of(a)})
    all.push_back(e);
  return all;
}
template <class Args>
std::vector<Extent> others(const Args& a, Extent first, Extent second = {}) {
  std::vector<Extent> all = inputs(a);
  all.push_back(first);
  if (second.name != nullptr) all.push_back(second);
  if constexpr (requires { a.residual; }) all.push_back(residual_of(a));
  return all;
}

// ---- evaluators
// -----------------------------------------------------------------------------------

Verdict one_of_two(const wl_groups& g) {
  if ((g.ends != nullptr) != (g.sizes != nullptr)) return holds();
  return violated(g.ends != nullptr ? ": both are given," : ": both are null,");
}
Verdict count_range(const wl_groups& g) { return in_range(g.count, 1, most_groups); }
Verdict l_is_one(const Shape& s) {
  return s.l < 1 || s.l == 1 ? holds() : violated(format(" = %" PRId64, s.l), "1");
}
// A number that stands beside a pointer.
Verdict beside(bool given, int64_t value, int64_t most) {
  return given ? in_range(value, 1, most) : in_range(value, 0, 0);
}
Verdict row_stride(const Shape& s, const wl_groups& g) {
  if (!s.sized() || !counted(g)) return holds();
  if (g.sizes != nullptr && s.m < g.count)
    return violated(format(" = %" PRId64 ": %d groups have no room in M = %" PRId64 " rows,",
                           g.row_stride, g.count, s.m));
  return beside(g.sizes != nullptr, g.row_stride, s.m / g.count);
}
Verdict stride_covers(const Shape& s, const wl_groups& g, int64_t stride, int64_t least,
                      int64_t multiple, int64_t limit) {
  if (!s.sized() || !counted(g) || stride == 0) return holds();
  return in_range(stride, least, limit - multiple, (least + multiple - 1) / multiple * multiple);
}
Verdict stride_multiple_of(int64_t stride, int64_t multiple) {
  return stride > 0 ? multiple_of(stride, multiple) : holds();
}
Verdict below_address_space(const Shape& s, const wl_groups& g) {
  const int64_t stride = s.sized() ? b_stride(s, g) : 0;
  if (!counted(g) || stride < (s.sized() ? b_entry(s) : 1) || stride >= stride_limit)
    return holds();
  return batch_fits_address_space(b_bytes(s, g));
}
Verdict tiles_fit(const Shape& s, const wl_groups& g) {
  int64_t tiles = 0;
  if (!s.sized() || !counted(g) ||
      (product({s.m / 8 + g.count, (s.n + 31) / 32}, &tiles) && tiles < int64_t{1} << 31))
    return holds();
  return violated(format(" = %" PRId64 ", %" PRId64, s.m, s.n));
}
Verdict a_below_limit(const Shape& s, const wl_groups& g) {
  if (g.rows == nullptr || !rows_known(g)) return holds();
  return gemm::entry_below_limit(s, s.types.a, g.a_rows, "a_rows", 1);
}

template <class Subject>
gemm::Rules<Subject> group_rules() {
  return {
      WL_RULE("l_one", "L", "must be 1 with groups", range, l_is_one(shape_of(s.args))),
      WL_RULE("count", "count", "must be from 1 to 512 groups", range, count_range(s.args.groups)),
      WL_RULE("group_tiles", "M, N", "must make fewer than 2^31 tiles of 8 x 32", range,
              tiles_fit(shape_of(s.args), s.args.groups)),
      WL_RULE("ends_sizes", "ends, sizes", "must be one address and one null", pointer,
              one_of_two(s.args.groups)),
      WL_OPTIONAL_OPERAND("ends", "ends", groups.ends, ends_of, 4),
      WL_OPTIONAL_OPERAND("sizes", "sizes", groups.sizes, sizes_of, 4),
      WL_RULE("row_stride", "row_stride", "must be from 1 to M / count rows with sizes, 0 without",
              range, row_stride(shape_of(s.args), s.args.groups)),
      WL_OPTIONAL_OPERAND("sf_tiles", "sf_tiles", groups.sf_tiles, sf_tiles_of, 4),
      WL_RULE("sf_tile_count", "sf_tile_count",
              "must be from 1 to 2^30 tiles with sf_tiles, 0 without", range,
              beside(s.args.groups.sf_tiles != nullptr, s.args.groups.sf_tile_count,
                     gemm::largest_extent)),
      WL_OPTIONAL_OPERAND("rows", "rows", groups.rows, rows_of, 4),
      WL_RULE("a_rows", "a_rows", "must be from 1 to 2^30 rows with rows, 0 without", range,
              beside(s.args.groups.rows != nullptr, s.args.groups.a_rows, gemm::largest_extent)),
      WL_RULE("a_rows_size", "A", "must have fewer than 2^40 bytes in its a_rows rows", range,
              a_below_limit(shape_of(s.args), s.args.groups)),
      WL_RULE("b_stride_covers", "b_stride_bytes",
              "must be 0 or from N rows of K to 2^40 - 16 bytes", range,
              stride_covers(shape_of(s.args), s.args.groups, s.args.groups.b_stride_bytes,
                            b_entry(shape_of(s.args)), 16, stride_limit)),
      WL_RULE("b_stride_multiple", "b_stride_bytes", "must be a multiple of 16 bytes", multiple,
              stride_multiple_of(s.args.groups.b_stride_bytes, 16)),
      WL_RULE("sfb_stride_covers", "sfb_stride_bytes",
              "must be 0 or from the scales of N rows of K to 2^40 - 16 bytes", range,
              stride_covers(shape_of(s.args), s.args.groups, s.args.groups.sfb_stride_bytes,
                            sfb_entry(shape_of(s.args)), 16, stride_limit)),
      WL_RULE("sfb_stride_multiple", "sfb_stride_bytes", "must be a multiple of 16 bytes", multiple,
              stride_multiple_of(s.args.groups.sfb_stride_bytes, 16)),
      WL_RULE("bias_stride_covers", "bias_stride", "must be 0 or from N to 2^31 - 8 elements",
              range,
              stride_covers(shape_of(s.args), s.args.groups, s.args.groups.bias_stride, s.args.n, 8,
                            int64_t{1} << 31)),
      WL_RULE("bias_stride_multiple", "bias_stride", "must be a multiple of 8 elements", multiple,
              stride_multiple_of(s.args.groups.bias_stride, 8)),
      WL_RULE("groups_size", "B", "must be below 2^47 bytes, all groups together", range,
              below_address_space(shape_of(s.args), s.args.groups)),
      WL_OPTIONAL_OPERAND("status", "status", groups.status, status_of, 4),
      WL_RULE("status_overlaps", "status", "must not overlap an input or SFD", overlap,
              disjoint(status_of(s.args), others(s.args, sfd_of(s.args)))),
  };
}

// As the rules of wl_gemm and wl_dual_gemm, in their words.
Verdict residual_apart(const LinearArgs& a) {
  const Strided d = shape_of(a).d(), r = strided_r(a);
  if (a.residual == a.d && r.row_stride() == d.row_stride()) return holds();
  return disjoint(d_of(a), residual_of(a));
}
Verdict of_residual(const LinearArgs& a, Verdict (*rule)(const Strided&)) {
  return a.residual == nullptr ? holds() : rule(strided_r(a));
}
Verdict no_column(const void* factors) {
  return factors == nullptr ? holds() : violated(format(" = %p", factors), "null");
}
Verdict residual_type(const LinearArgs& a) {
  if (a.d_type != WL_NVFP4 || a.residual == nullptr) return holds();
  return violated(format(" = %p", a.residual), "null");
}
Verdict residual_fits(const LinearArgs& a) {
  if (a.residual == nullptr) return holds();
  return fits_address_space(strided_r(a), element_bytes(a.d_type), "residual");
}
Verdict limit_of_any(const DualArgs& a) {
  if (a.gate == WL_GATE_CLAMPED || a.gate_limit >= 0) return holds();
  return violated(format(" = %g", double{a.gate_limit}), "0");
}
Verdict limit_of_clamped(const DualArgs& a) {
  if (a.gate != WL_GATE_CLAMPED || a.gate_limit > 0) return holds();
  return violated(format(" = %g", double{a.gate_limit}), "7, as GPT-OSS has it");
}

template <class Subject, const gemm::Table& (*table)(), class Args>
gemm::Rules<Subject> last_rules() {
  constexpr gemm::Problem (*of)(const Args&) = problem_of;
  return {
      WL_RULE("sfd_overlaps", "SFD", "must overlap neither D nor an input", overlap,
              disjoint(sfd_of(s.args), others(s.args, d_of(s.args)))),
      WL_RULE("config_known", "config", "must name a configuration", range,
              config_known(table(), s.args.config, gemm::serving(s, of))),
      WL_RULE("config_runs", "config", "must be a configuration for this device and output",
              support, config_runs(table(), s.args.config, gemm::serving(s, of))),
  };
}

template <class Args>
void add_groups(const Args& a, gemm::Problem* problem) {
  const Shape s = shape_of(a);
  const wl_groups& from = a.groups;
  gemm::Groups& g = problem->groups;
  g.count = from.count;
  g.ends = from.ends, g.sizes = from.sizes, g.sf_tiles = from.sf_tiles, g.rows = from.rows;
  g.row_stride = from.row_stride, g.a_rows = from.a_rows;
  g.sf_tile_count =
      from.sf_tiles != nullptr ? from.sf_tile_count : (s.m + 127) / 128 + from.count - 1;
  g.b_stride = b_stride(s, from);
  g.sfb_stride = sfb_stride(s, from);
  g.bias_stride = bias_stride(s, from);
  g.status = from.status;
  problem->plain_sfa = false; // those lie in atoms of groups' tiles in any case
}

template <class Args>
std::vector<Extent> all_operands(const Args& a) {
  std::vector<Extent> all = others(a, d_of(a), sfd_of(a));
  all.push_back(status_of(a));
  return all;
}

} // namespace

std::vector<Extent> operands(const wl_grouped_gemm_args& args) {
  return all_operands(LinearArgs(args));
}
std::vector<Extent> operands(const wl_grouped_dual_gemm_args& args) {
  return all_operands(DualArgs(args));
}

gemm::Problem problem_of(const LinearArgs& a) {
  gemm::Problem problem = gemm::product_of(a);
  gemm::Operands& o = problem.operands;
  o.b[0] = a.b;
  o.sfb[0] = a.sfb;
  o.alpha[0] = a.alpha;
  o.bias[0] = a.bias;
  o.row = a.row;
  o.residual = a.residual;
  problem.ldr = strided_r(a).map_row_stride();
  problem.bias_type = a.bias_type;
  problem.activation = gemm::activation_of(a.activation);
  add_groups(a, &problem);
  return problem;
}

gemm::Problem problem_of(const DualArgs& a) {
  gemm::Problem problem = gemm::product_of(a);
  gemm::Operands& o = problem.operands;
  o.b[0] = a.b1, o.b[1] = a.b2;
  o.sfb[0] = a.sfb1, o.sfb[1] = a.sfb2;
  o.alpha[0] = a.alpha1, o.alpha[1] = a.alpha2;
  o.bias[0] = a.bias1, o.bias[1] = a.bias2;
  problem.bias_type = a.bias_type;
  problem.activation = gemm::gate_of(a.gate, a.gate_limit);
  add_groups(a, &problem);
  return problem;
}

const RuleTable<LinearSubject>& linear_rules() {
  using Subject = LinearSubject;
  using Rules = gemm::Rules<Subject>;
  static const RuleTable<Subject> table{
      "wl_grouped_gemm",
      gemm::joined<Subject>({
          Rules{WL_RULE("device", "device", "must run one of the library's targets", support,
                        device_supported(linear_configs(), s.device))},
          gemm::size_rules<Subject>(),
          group_rules<Subject>(),
          Rules{
              WL_RULE("d_type", "d_type",
                      "must be WL_F16 (0), WL_BF16 (1), WL_NVFP4 (2) or WL_F32 (3)", range,
                      enumerator(s.args.d_type, WL_F16, WL_F32)),
              WL_RULE("activation", "activation",
                      "must be from WL_ACTIVATION_NONE (0) to WL_ACTIVATION_GELU_ERF (5)", range,
                      enumerator(s.args.activation, WL_ACTIVATION_NONE, WL_ACTIVATION_GELU_ERF)),
          },
          gemm::operand_rules<Subject, linear_configs>("B"),
          Rules{
              WL_OPERAND("b", "B", b, b_of, 16),
              WL_SCALES("sfb", "SFB", sfb, sfb_of, b_type),
              WL_OPTIONAL_OPERAND("alpha", "alpha", alpha, alpha_of, 4),
              WL_OPTIONAL_OPERAND("row", "row", row, row_of, 4),
              WL_RULE("col", "col", "must be null with groups", pointer, no_column(s.args.col)),
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
          },
          last_rules<Subject, linear_configs, LinearArgs>(),
      })};
  return table;
}

const RuleTable<DualSubject>& dual_rules() {
  using Subject = DualSubject;
  using Rules = gemm::Rules<Subject>;
  static const RuleTable<Subject> table{
      "wl_grouped_dual_gemm",
      gemm::joined<Subject>({
          Rules{WL_RULE("device", "device", "must run one of the library's targets", support,
                        device_supported(dual_configs(), s.device))},
          gemm::size_rules<Subject>(),
          group_rules<Subject>(),
          Rules{
              WL_RULE("d_type", "d_type", "must be WL_F16 (0), WL_BF16 (1) or WL_NVFP4 (2)", range,
                      enumerator(s.args.d_type, WL_F16, WL_NVFP4)),
              WL_RULE("gate", "gate", "must be from WL_GATE_SILU (0) to WL_GATE_CLAMPED (2)", range,
                      enumerator(s.args.gate, WL_GATE_SILU, WL_GATE_CLAMPED)),
              WL_RULE("gate_limit", "gate_limit", "must be positive, or 0 for none", range,
                      limit_of_any(s.args)),
              WL_RULE("clamped_limit", "gate_limit", "must be positive for WL_GATE_CLAMPED", range,
                      limit_of_clamped(s.args)),
          },
          gemm::operand_rules<Subject, dual_configs>("B1, B2"),
          Rules{
              WL_OPERAND("b1", "B1", b1, b1_of, 16),
              WL_OPERAND("b2", "B2", b2, b2_of, 16),
              WL_SCALES("sfb1", "SFB1", sfb1, sfb1_of, b_type),
              WL_SCALES("sfb2", "SFB2", sfb2, sfb2_of, b_type),
              WL_OPTIONAL_OPERAND("alpha1", "alpha1", alpha1, alpha1_of, 4),
              WL_OPTIONAL_OPERAND("alpha2", "alpha2", alpha2, alpha2_of, 4),
              WL_OPTIONAL_OPERAND("bias1", "bias1", bias1, bias1_of, 16),
              WL_OPTIONAL_OPERAND("bias2", "bias2", bias2, bias2_of, 16),
              WL_RULE("bias_type", "bias_type", gemm::bias_type_text, range,
                      gemm::bias_type(s.args.bias_type, s.args.bias1 || s.args.bias2)),
          },
          gemm::output_rules<Subject>(),
          last_rules<Subject, dual_configs, DualArgs>(),
      })};
  return table;
}

} // namespace warpline::grouped
