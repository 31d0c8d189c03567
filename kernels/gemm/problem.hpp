// What the engine computes: one problem of one or two products, in the terms that every operation
// on it shares. kernels/<op>/<op>.cpp makes it of checked arguments.
//
//     y_p[m,n] = row[m] * column[n] * alpha_p * sum_k A[m,k] B_p[n,k] + bias_p[n]       p = 0, or 0
//     and 1 D        = form(y_0) + residual, or form(y_0, y_1), rounded once
#pragma once

#include "kernels/gemm/operand.hpp"
#include "warpline/warpline.h"

#include <cstdint>

namespace warpline::gemm {

// What the form's kernels do with y. `kind` of one product is a wl_activation; of two it is 0 for
// SILU(y_0) * y_1 and 1 for GATE_LIMITED(y_0, y_1).
struct Activation {
  uint32_t kind = 0;
  // SIGMOID_TIMES and GATE_LIMITED of ptx/epilogue.inc; see there.
  float c0 = 0, c1 = 0, limit = 0, up_limit = 0, up_offset = 0;
};
Activation activation_of(wl_activation activation);
Activation gate_of(wl_gate gate, float limit); // 0: no limit

struct Operands {
  const void *a = nullptr, *sfa = nullptr;
  const void *b[2] = {}, *sfb[2] = {};
  const float* alpha[2] = {};
  const void* bias[2] = {};
  const float *row = nullptr, *column = nullptr;
  const void* residual = nullptr;
  void *d = nullptr, *sfd = nullptr;
  const float* d_scale = nullptr;
};

// Groups of rows with a B of their own, as wl_groups; b and sfb of Operands are of all groups, and
// alpha and bias have an entry for each.
struct Groups {
  int count = 0; // 0: the problem has none
  const int32_t *ends = nullptr, *sizes = nullptr, *sf_tiles = nullptr, *rows = nullptr;
  int64_t row_stride = 0, a_rows = 0;
  int64_t sf_tile_count = 0;                             // never left out
  int64_t b_stride = 0, sfb_stride = 0, bias_stride = 0; // likewise; bytes, bytes, elements
  uint32_t* status = nullptr;
  // Grids that may still run write A, SFA, `rows` and *next_tile alone of what the product reads,
  // and B and SFB unless the problem's flags say that they are static, and read no D.
  bool known = false;
  // A number that is 0 when the product starts: CTAs may draw tiles from it. Null: there is none.
  // Of an A in_order it stands behind sm90_group_zero_bytes of zeros, which are aligned to 16
  // bytes.
  uint32_t* next_tile = nullptr;
  // On Hopper, scales in atoms: D of a product of two tensors, or A of one of one behind it with
  // the same groups, which are known there, lies in the order in which that one multiplies it:
  // sm90_image_bytes. N of the one, K of the other, is a multiple of 128.
  bool in_order = false;

  // In the place of all that but count and the strides: row r, one of at most most_routed, is
  // multiplied with matrix ids[r] - first_id, and rows_each rows are one of A. `positions`, null or
  // [m], gets r, or -1 where there is no such matrix; rows without are not written. A product of
  // one tensor stands behind one of two with the same ids: it writes no positions, and no grid that
  // may still run writes ids, as the one ahead lets it start when it has waited for who did.
  static constexpr int64_t most_routed = 64;
  const int32_t* ids = nullptr;
  int32_t* positions = nullptr;
  int64_t first_id = 0, rows_each = 1;
  // With `counted` D's rows, at most most_counted, stand in the order of matrices and, of one
  // matrix, of r. A's rows are D's, or `rows` says which of a_rows each of D's is.
  static constexpr int64_t most_counted = 1024;
  bool counted = false;
  // An A of NVFP4 is in memory as 16 bits of D's type and quantised on its way, as wl_quantize does
  // with *a_scale, null = 1.
  const float* a_scale = nullptr;
  // Each `each` of such rows, one behind the other, become one of y in D's place: the sum, in FP32
  // and in their order, of weights[r] (null = 1) times row r rounded to D's type, of those that
  // have a matrix, and of the addend's. Weights are known as the ids are.
  struct Sum {
    static constexpr int64_t most = 8; // rows: a cluster that every device has
    int64_t each = 0;                  // 0: rows are D's
    const float* weights = nullptr;
    const void* addend = nullptr; // of y_type, null = none
    int64_t ld_addend = 0;
    void* y = nullptr;
    int64_t ldy = 0;
    wl_dtype y_type = WL_F16;
  } sum{};

  // Rows of A in memory, and most rows of a group.
  int64_t rows_of_a(int64_t m) const { return rows != nullptr ? a_rows : m; }
  // Each row says which matrix it is multiplied with, and becomes the row of D that it is.
  bool routed() const { return ids != nullptr && !counted; }
  int64_t most_rows(int64_t m) const { return sizes != nullptr ? row_stride : m; }
  // The most tiles of `tile` rows that all groups may have together.
  int64_t most_tiles(int64_t m, int64_t tile) const;
};

struct Problem {
  int64_t m = 0, n = 0, k = 0, l = 1;
  wl_dtype d_type = WL_F16;
  bool whole_sectors = true; // every row of D starts on 32 bytes
  Operands operands{};
  int64_t ldd = 0, batch_stride_d = 0; // never left out
  int64_t ldr = 0, batch_stride_r = 0;
  wl_dtype bias_type = WL_F32;
  Activation activation{};
  uint32_t flags = 0;
  Types types{};                             // of A and of the tensors of B
  bool plain_sfa = false, plain_sfb = false; // scales that are there lie in WL_SF_PLAIN
  Groups groups{};
  // The grid ahead makes the factors of rows and nothing else that the product reads or writes, and
  // lets it start only when what is ahead of that grid has ended.
  bool factors_later = false;

  // Matrices B of a tensor, and bytes from one to the next, of B and of its scales.
  int64_t b_entries() const { return groups.count != 0 ? groups.count : l; }
  int64_t b_stride() const;
  int64_t sfb_stride() const;
};

} // namespace warpline::gemm
