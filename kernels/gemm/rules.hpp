// What the arguments of every product have in common: the rules for them, and how they become a
// Problem. `Args` is a struct of warpline.h with the sizes m, n, k, l, an A with scales, and a D
// with strides and scales; a `Subject` holds one beside the device and the context.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/strided.hpp"

#include <initializer_list>
#include <string>
#include <vector>

namespace warpline::gemm {

// Kernels count rows, columns and K in 32 bits and round up to a tile.
constexpr int64_t largest_extent = int64_t{1} << 30;
constexpr int64_t largest_batch = int64_t{1} << 20;

// cuTensorMapEncodeTiled: a stride is below 2^40 bytes.
constexpr int64_t stride_limit = int64_t{1} << 40;

// Bytes of an operand's entry, of L operands, and of their scales; 0 when they do not fit in 63
// bits or there are none. Sizes are in their ranges.
int64_t entry_bytes(wl_operand type, int64_t rows, int64_t k);
uint64_t operand_bytes(wl_operand type, int64_t rows, int64_t k, int64_t l);
uint64_t scale_bytes(wl_operand type, int64_t rows, int64_t k, int64_t l,
                     wl_sf_layout layout = WL_SF_128x4);

inline int64_t element_bytes(wl_dtype type) { return type == WL_F32 ? 4 : 2; }

// Of biases; where there is none its type means nothing.
constexpr const char* bias_type_text = "must be WL_F16 (0), WL_BF16 (1) or WL_F32 (3)";
Verdict bias_type(wl_dtype type, bool given);

constexpr const char* operand_type_text =
    "must be from WL_OPERAND_NVFP4 (0) to WL_OPERAND_MXFP4 (11)";

struct Shape {
  int64_t m, n, k, l;
  wl_dtype d_type;
  int64_t ldd, batch_stride_d; // as the caller gave them
  Types types;                 // likewise
  wl_sf_layout sf_layout;      // likewise

  bool sized() const; // all four are in their ranges, the types known
  // K counts blocks of 64 where an operand is NVFP4.
  bool nvfp4_k() const { return types.a == WL_OPERAND_NVFP4 || types.b == WL_OPERAND_NVFP4; }
  bool nvfp4() const { return d_type == WL_NVFP4; }
  int64_t column_multiple() const { return nvfp4() ? 64 : 8; }
  int64_t row_multiple() const { return types.a_layout == WL_MN_MAJOR ? 8 : 1; }
  // A tensor [L, M, N] at these strides.
  Strided strided(int64_t ld, int64_t batch_stride) const {
    return {m, n, l, ld, batch_stride, sized()};
  }
  Strided d() const { return strided(ldd, batch_stride_d); }
  // Of A, of a tensor of B, of their scales and of D; 0 where another rule speaks of the sizes.
  uint64_t a_bytes() const { return sized() ? operand_bytes(types.a, m, k, l) : 0; }
  uint64_t b_bytes() const { return sized() ? operand_bytes(types.b, n, k, l) : 0; }
  uint64_t sfa_bytes() const { return sized() ? scale_bytes(types.a, m, k, l, sf_layout) : 0; }
  uint64_t sfb_bytes() const { return sized() ? scale_bytes(types.b, n, k, l, sf_layout) : 0; }
  uint64_t d_bytes() const;
  uint64_t sfd_bytes() const {
    return nvfp4() && sized() ? scale_bytes(WL_OPERAND_NVFP4, m, n, l) : 0;
  }
  // The bytes of a vector of N numbers.
  uint64_t vector_bytes(wl_dtype type) const {
    return sized() ? static_cast<uint64_t>(n * element_bytes(type)) : 0;
  }
};
// Of an argument struct without layouts both are K-major.
template <class Args>
Types types_of(const Args& a) {
  if constexpr (requires { a.a_layout; }) return {a.a_type, a.b_type, a.a_layout, a.b_layout};
  return {a.a_type, a.b_type};
}
template <class Args>
Shape shape_of(const Args& a) {
  return {a.m, a.n, a.k, a.l, a.d_type, a.ldd, a.batch_stride_d, types_of(a), a.sf_layout};
}

// `extent` is the M or N of an operand of that type, called `name`.
Verdict entry_below_limit(const Shape& s, wl_operand type, int64_t extent, const char* name,
                          int64_t multiple);
// Such an entry of B as the kernels of the table multiply it on the device.
Verdict decoded_entry(const Shape& s, const Table& table, const DeviceLimits& device);
Verdict batch_below_limit(const Shape& s, wl_operand type, int64_t extent);
// One of the two speaks of a K: the one for NVFP4, or the one for all other types.
Verdict k_in_range(const Shape& s, bool nvfp4);
Verdict k_multiple(const Shape& s, bool nvfp4);
// Scales of an operand: there where it has them, else null.
Verdict scales_given(wl_operand type, const void* scales);
Verdict scales_left_out(wl_operand type, const void* scales);
constexpr const char* scale_layout_text = "must be WL_SF_128x4 (0), or on Hopper WL_SF_PLAIN (1)";
Verdict scale_layout(wl_sf_layout layout, const DeviceLimits& device);
// Factors of columns are null, or a configuration of the table takes them on the device.
Verdict columns_taken(const Shape& s, const Table& table, const DeviceLimits& device,
                      const float* factors);
// Rows of memory of an MN-major A start on 16 bytes.
Verdict mn_major_rows(const Shape& s);
// The table has a configuration for the device that takes the types; which the nearest are.
Verdict types_taken(const Shape& s, const Table& table, const DeviceLimits& device);
// One of the two speaks of an N, so that `nearest` is right for the output's type.
Verdict columns(const Shape& s, bool nvfp4);
// The smallest tiles of the tables make the most of them.
Verdict tiles_fit(const Shape& s);
// Rules of strides that may leave gaps.
Verdict with_gaps(const Shape& s, Verdict (*rule)(const Strided&));
// An operand of the next product has no gaps: `found` is a stride of D, `rows` times N dense.
Verdict nvfp4_dense(const Shape& s, int64_t found, int64_t rows);

// What the arguments point to.
template <class Args>
Extent a_of(const Args& a) {
  return {"A", a.a, shape_of(a).a_bytes()};
}
template <class Args>
Extent sfa_of(const Args& a) {
  return {"SFA", a.sfa, shape_of(a).sfa_bytes()};
}
template <class Args>
Extent d_scale_of(const Args& a) {
  return {"d_scale", a.d_scale, sizeof(float)};
}
template <class Args>
Extent d_of(const Args& a) {
  return {"D", a.d, shape_of(a).d_bytes()};
}
template <class Args>
Extent sfd_of(const Args& a) {
  return {"SFD", a.sfd, shape_of(a).sfd_bytes()};
}

template <class Subject>
using Rules = std::vector<Rule<Subject>>;

template <class Subject>
Rules<Subject> joined(std::initializer_list<Rules<Subject>> lists) {
  Rules<Subject> all;
  for (const Rules<Subject>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

template <class Subject>
Rules<Subject> size_rules() {
  return {
      WL_RULE("m_range", "M", "must be from 1 to 2^30 rows", range,
              in_range(s.args.m, 1, largest_extent, shape_of(s.args).row_multiple())),
      WL_RULE("n_range", "N", "must be from 8 to 2^30 columns", range,
              in_range(s.args.n, 8, largest_extent, shape_of(s.args).column_multiple())),
      WL_RULE("n_multiple", "N", "must be a multiple of 8 columns", multiple,
              columns(shape_of(s.args), false)),
      WL_RULE("nvfp4_columns", "N", "must be a multiple of 64 columns for WL_NVFP4", multiple,
              columns(shape_of(s.args), true)),
      WL_RULE("k_range", "K", "must be from 64 to 2^30 elements with NVFP4", range,
              k_in_range(shape_of(s.args), true)),
      WL_RULE("k_multiple", "K", "must be a multiple of 64 elements with NVFP4", multiple,
              k_multiple(shape_of(s.args), true)),
      WL_RULE("type_k_range", "K",
              "must be from 1 to 2^30 elements without NVFP4, to 131056 where sums are INT32",
              range, k_in_range(shape_of(s.args), false)),
      WL_RULE("type_k_multiple", "K",
              "must be a multiple of 4 elements of 32 bits, 8 of 16, 16 of 8, 32 of MXFP8 and 128 "
              "of MXFP6 and MXFP4, without NVFP4",
              multiple, k_multiple(shape_of(s.args), false)),
      WL_RULE("l_range", "L", "must be from 1 to 2^20 batch entries", range,
              in_range(s.args.l, 1, largest_batch)),
      WL_RULE("tiles", "M, N, L", "must make fewer than 2^31 tiles of 128 x 64", range,
              tiles_fit(shape_of(s.args))),
  };
}

// The rules of block scales of an operand of the type `kind`.
#define WL_SCALES(id, name, field, extent, kind)                                                   \
  WL_RULE(id "_null", name, "must not be null", pointer,                                           \
          ::warpline::gemm::scales_given(s.args.kind, s.args.field)),                              \
      WL_RULE(id "_unused", name, "must be null for a type without block scales", pointer,         \
              ::warpline::gemm::scales_left_out(s.args.kind, s.args.field)),                       \
      WL_OPTIONAL_OPERAND(id, name, field, extent, 16)

// Weights that a launch ahead decodes, for the `configs` of an operation.
#define WL_DECODED(id, name)                                                                       \
  WL_RULE(id, name, "must have entries below 2^40 bytes as Blackwell decodes them", range,         \
          ::warpline::gemm::decoded_entry(shape_of(s.args), configs(), s.device))

// An operand that TMA unpacks.
#define WL_UNPACKED(id, name, field, kind)                                                         \
  WL_RULE(id, name, "must be 32-byte aligned with MXFP6 or MXFP4", alignment,                      \
          ::warpline::gemm::unpacked(s.args.kind) ? aligned(s.args.field, 32) : holds())

// `b` is what the tensors of B are called; `table` is the operation's.
template <class Subject, const Table& (*table)()>
Rules<Subject> operand_rules(const char* b) {
  return {
      WL_RULE("a_type", "a_type", operand_type_text, range,
              enumerator(s.args.a_type, WL_OPERAND_NVFP4, WL_OPERAND_MXFP4)),
      WL_RULE("b_type", "b_type", operand_type_text, range,
              enumerator(s.args.b_type, WL_OPERAND_NVFP4, WL_OPERAND_MXFP4)),
      WL_RULE("types", "a_type, b_type", "must be types that the device has kernels for", support,
              types_taken(shape_of(s.args), table(), s.device)),
      WL_RULE("sf_layout", "sf_layout", scale_layout_text, range,
              scale_layout(s.args.sf_layout, s.device)),
      WL_RULE(
          "flags", "flags",
          "must be 0, WL_STATIC_WEIGHTS (1), WL_GRAPH_LAUNCH (2), WL_FAST_ACCUMULATION (4) or "
          "a sum of them",
          range,
          flags_among(s.args.flags, WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH | WL_FAST_ACCUMULATION)),
      WL_RULE("a_entry", "A", "must have entries (M rows of K) below 2^40 bytes", range,
              entry_below_limit(shape_of(s.args), s.args.a_type, s.args.m, "M", 1)),
      WL_RULE("b_entry", b, "must have entries (N rows of K) below 2^40 bytes", range,
              entry_below_limit(shape_of(s.args), s.args.b_type, s.args.n, "N",
                                shape_of(s.args).column_multiple())),
      WL_RULE("a_size", "A", "must be below 2^47 bytes", range,
              batch_below_limit(shape_of(s.args), s.args.a_type, s.args.m)),
      WL_RULE("b_size", b, "must be below 2^47 bytes", range,
              batch_below_limit(shape_of(s.args), s.args.b_type, s.args.n)),
      WL_OPERAND("a", "A", a, a_of, 16),
      WL_SCALES("sfa", "SFA", sfa, sfa_of, a_type),
  };
}

// Of D, its strides and its scales, but for what SFD may not overlap.
template <class Subject>
Rules<Subject> output_rules() {
  return {
      WL_RULE("d_null", "D", "must not be null", pointer, not_null(s.args.d)),
      WL_RULE("d_aligned", "D", "must be 16-byte aligned", alignment, aligned(s.args.d, 16)),
      WL_RULE("d_reachable", "D", reachable_text, memory, reachable(s.context, d_of(s.args))),
      WL_RULE("ldd_covers", "ldd", "must be 0 or at least N elements", range,
              with_gaps(shape_of(s.args), ld_covers)),
      WL_RULE("ldd_multiple", "ldd", "must be a multiple of 8 elements", multiple,
              with_gaps(shape_of(s.args), ld_multiple)),
      WL_RULE("batch_stride_covers", "batch_stride_d",
              "must be 0 or at least (M - 1) * ldd + N elements", range,
              with_gaps(shape_of(s.args), batch_stride_covers)),
      WL_RULE("batch_stride_multiple", "batch_stride_d", "must be a multiple of 8 elements",
              multiple, with_gaps(shape_of(s.args), batch_stride_multiple)),
      WL_RULE("d_size", "D", "must be below 2^47 bytes", range,
              fits_address_space(shape_of(s.args).d(), element_bytes(s.args.d_type), "D")),
      WL_RULE("sfd_null", "SFD", "must not be null for WL_NVFP4", pointer,
              shape_of(s.args).nvfp4() ? not_null(s.args.sfd) : holds()),
      WL_RULE("sfd_aligned", "SFD", "must be 16-byte aligned", alignment, aligned(s.args.sfd, 16)),
      WL_RULE("sfd_reachable", "SFD", reachable_text, memory, reachable(s.context, sfd_of(s.args))),
      WL_OPTIONAL_OPERAND("d_scale", "d_scale", d_scale, d_scale_of, 4),
      WL_RULE("nvfp4_ldd", "ldd", "must be 0 or N for WL_NVFP4", range,
              nvfp4_dense(shape_of(s.args), s.args.ldd, 1)),
      WL_RULE("nvfp4_batch_stride", "batch_stride_d", "must be 0 or M * N for WL_NVFP4", range,
              nvfp4_dense(shape_of(s.args), s.args.batch_stride_d, s.args.m)),
  };
}

// A call of an operation for config_known and config_runs: whether a configuration serves the
// request, or the reason why not. Other rules speak of sizes out of range; work is counted for
// sizes within.
template <class Subject, class ProblemOf>
auto serving(const Subject& s, ProblemOf problem_of) {
  return [&s, problem_of](const Config& config, std::string* reason) {
    return shape_of(s.args).sized()
               ? can_run(config, problem_of(s.args), s.device, reason)
               : can_run(config, shape_of(s.args).types, s.args.d_type, s.device, reason);
  };
}

// Sizes, A, D and flags; the operation adds B, factors and what its form reads.
template <class Args>
Problem product_of(const Args& a) {
  Problem problem;
  problem.m = a.m;
  problem.n = a.n;
  problem.k = a.k;
  problem.l = a.l;
  problem.types = types_of(a);
  problem.plain_sfa = has_scales(a.a_type) && a.sf_layout == WL_SF_PLAIN;
  problem.plain_sfb = has_scales(a.b_type) && a.sf_layout == WL_SF_PLAIN;
  problem.d_type = a.d_type;
  const Strided d = shape_of(a).d();
  problem.ldd = d.map_row_stride();
  problem.batch_stride_d = d.map_entry_stride();
  const auto starts = static_cast<uint64_t>(problem.ldd | problem.batch_stride_d);
  problem.whole_sectors =
      ((static_cast<uint64_t>(element_bytes(a.d_type)) * starts | address_of(a.d)) & 31) == 0;
  problem.operands.a = a.a;
  problem.operands.sfa = a.sfa;
  problem.operands.d = a.d;
  problem.operands.sfd = a.sfd;
  problem.operands.d_scale = a.d_scale;
  problem.flags = a.flags;
  return problem;
}

} // namespace warpline::gemm
