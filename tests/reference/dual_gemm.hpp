// What the dual GEMM without biases and with the gate silu computes, in plain C++:
//
//     D = silu(alpha1 * A.B1^T) * (alpha2 * A.B2^T)        silu(x) = x / (1 + exp(-x))
//
// Its biases and other gates are in linear.hpp.
//
// Sums. An E2M1 value times its UE4M3 scale has at most 6 significant bits, so it is exact in FP32.
// The 16 terms of a scale block share the factor sa * sb (8 bits) and differ in a * b (a multiple
// of 1/4, at most 36), so a block's sum has at most 20 bits and is exact in FP32 in any order. The
// block sums, all multiples of 2^-20, are added in double: exact while the sum stays below 2^33,
// and within 2^-53 relative of every partial sum beyond that. Sums of 16-bit operands are taken
// likewise; where their elements have more bits, the 16 terms of a block are rounded to FP32.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/reference/numerics.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wltest {

// A.B1^T and A.B2^T before alpha, [l, m, n] each; without a B2 the first alone.
struct Sums {
  int64_t m = 0, n = 0, l = 0;
  std::vector<double> acc1, acc2;
};

// What Hopper's tensor core does with sums of FP8: of 32 products and of the sum before them it
// keeps the bits down to 2^-13 of the largest of these powers of two, the products' taken as those
// of their factors, cuts the rest off, and keeps 13 bits behind the first one of the new sum.
struct HopperSums {
  bool promoted; // what becomes of 128 of K is added in FP32, else all of K is one such sum
};

// fraction done, 0..1; called from one thread at a time
using Progress = std::function<void(double)>;

// threads = 0: one for each core.
Sums accumulate(const Problem& problem, int threads = 0, const Progress& progress = {});
Sums accumulate_hopper_f8(const Problem& problem, HopperSums how, int threads = 0,
                          const Progress& progress = {});

// The most that FP32 sums lose of each: a tensor core adds the products of 16 of K, or of fewer, to
// the sum before them and keeps 24 bits of the largest at least, so that a step loses less than
// 2^-23 of |the sum before| + the sum of |products|, and the last rounding 2^-24 of the sum. Zeros
// where elements are integers.
Sums most_lost(const Problem& problem, int threads = 0, const Progress& progress = {});

// Runs work(index) for 0 <= index < count on `threads` threads, each taking the next free index;
// on fewer where the system gives no more. What work throws comes out of the caller's thread.
void in_parallel(int threads, int64_t count, const std::function<void(int64_t)>& work);

// The reference value: double arithmetic throughout, no rounding to the output type.
double gated(double acc1, double acc2, double alpha1, double alpha2);
std::vector<double> gated(const Sums& sums, double alpha1, double alpha2);

// The kernels' epilogue, FP32 operation by operation (ptx/epilogue.inc, SILU), on sums
// rounded to FP32, rounded once to the output type:
//   x1 = acc1 * alpha1   x2 = acc2 * alpha2   t = x1 * -log2e   e = ex2(t)
//   q = e + 1            r = rcp(q)           s = x1 * r        d = s * x2
// ex2 and rcp are taken as the FP32 value nearest to the true one, inputs and results below 2^-126
// flushed to zero (.approx.ftz). A GPU's ex2 and rcp may differ from that in the last place.
uint16_t gated_replayed(double acc1, double acc2, float alpha1, float alpha2, OutputType type);
std::vector<uint16_t> gated_replayed(const Sums& sums, float alpha1, float alpha2, OutputType type);

// The same before the rounding to an output type.
float gated_replayed_f32(double acc1, double acc2, float alpha1, float alpha2);

// D in NVFP4, operation by operation (ptx/epilogue.inc, NVFP4_X16; quantize.hpp), as an operand of
// rows m and k = n, in plain layout. n is a multiple of 16. The value of an element is
// E2M1 * E4M3 * d_scale.
Operand quantized_replayed(const Sums& sums, float alpha1, float alpha2, float d_scale);

// The public bound |out - ref| <= 1e-3 + 1e-3 * |ref|. BF16 keeps 8 significant bits, so that the
// rounding of a right result alone may cost 2^-8 * |ref|: for BF16 half a unit in the last place of
// ref is added. (FP16's 2^-11 * |ref| is inside the public bound.)
double error_bound(OutputType type, double reference);

struct Coordinate {
  int64_t entry = 0, row = 0, column = 0; // l, m, n
};

struct Comparison {
  int64_t count = 0;    // outputs compared
  int64_t bad = 0;      // outputs outside the bound, or with another NaN or infinity pattern
  int64_t special = 0;  // outputs whose reference is NaN or infinite
  int64_t unequal = 0;  // compare_exact: outputs whose bits differ; NaNs count as equal
  Coordinate first_bad; // in memory order
  double worst_absolute = 0;
  Coordinate worst_absolute_at;
  double worst_relative = 0; // |out - ref| / |ref| where |ref| >= 1e-3
  Coordinate worst_relative_at;
  double worst_use = 0; // largest |out - ref| / bound
  Coordinate worst_use_at;
  double worst_out = 0, worst_reference = 0; // at worst_use_at
  double first_bad_out = 0, first_bad_reference = 0;
  bool passed() const { return count > 0 && bad == 0; }
  double margin() const { return 1 - worst_use; } // part of the bound that is left
};

// `out` is D as stored: row r of entry l starts at l * batch_stride + r * ldd. An output may differ
// by its `more` beside the bound; an empty one is zeros.
Comparison compare(const Sums& shape, const std::vector<double>& reference, const uint16_t* out,
                   int64_t ldd, int64_t batch_stride, OutputType type,
                   const std::vector<double>& more = {});
// Of outputs in FP32, under the public bound.
Comparison compare(const Sums& shape, const std::vector<double>& reference, const float* out,
                   int64_t ldd, int64_t batch_stride, const std::vector<double>& more = {});
// Bit for bit; every NaN equals every NaN.
Comparison compare_exact(const Sums& shape, const std::vector<uint16_t>& reference,
                         const uint16_t* out, int64_t ldd, int64_t batch_stride, OutputType type);

// D in NVFP4, plain layout, rows m and k = n; n is a multiple of 16. A block's scale must be the
// largest magnitude / (6 * d_scale) rounded to E4M3, at most 448, and each value the E2M1 number
// nearest to reference / (scale * d_scale), where the reference may move by FP16's bound before it
// is rounded: codes beside a tie may differ. The bound's use is the part of that freedom that a
// code takes. A NaN has no say in its block's scale and must be the code of 6 without a sign; an
// infinity must be 6 with its sign under the scale 448; under a scale of 0 all but NaNs must be 0.
Comparison compare_nvfp4(const Sums& shape, const std::vector<double>& reference, const Operand& d,
                         double d_scale);
// Elements whose value or whose block's scale has other bits.
int64_t count_unequal(const Operand& found, const Operand& expected);

// One or two lines for a test's or a program's message.
std::string describe(const Comparison& comparison);
std::string describe(const Coordinate& at); // "l 0, m 12, n 345"

} // namespace wltest
