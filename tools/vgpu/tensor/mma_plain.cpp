// Plain kinds and mxf8f6f4. Every product of two operands is exact in double (at most 48 bits), so
// the exact policy sums in double wherever the exponents of a row and a column show that nothing
// is lost, and falls back to an expansion for the other elements.
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/tensor/exact_sum.hpp"
#include "tools/vgpu/tensor/mma.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

namespace vgpu::tensor {
namespace {

constexpr int kMaxK = 64;
constexpr int kColumns = 16; // the B panel is padded to it

typedef double Doubles __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(32)));
typedef int64_t Longs __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(32)));

// Binary exponents of the largest value and of the lowest set bit among the values of a row.
struct Range {
  int top = -100000;
  int bottom = 100000;
  bool finite = true;
  bool zero() const { return top < bottom; }
};

struct Panels {
  int m, n, n_padded, k;
  std::vector<double> a; // [m][k]
  std::vector<double> b; // [k][n_padded]
  std::vector<Range> row, column;
  std::vector<Range> columns; // of kColumns each
  Range all_rows, all_columns;
  std::vector<int64_t> a_exponent, b_exponent; // as run_aligned needs them

  void build(const PlainMma& op, const unsigned char* a_bytes, const unsigned char* b_bytes);

  // Whether all products of this row with kColumns columns, of which this is one, are zeros: tiles
  // that reach beyond a matrix have many.
  bool adds_zeros(int r, int c) const {
    const Range &of_row = row[size_t(r)], &of_columns = columns[size_t(c / kColumns)];
    return of_row.finite && of_columns.finite && (of_row.zero() || of_columns.zero());
  }

  // Whether a double holds any partial sum of the products of this row and column exactly.
  bool fits(const Range& r, const Range& c) const {
    if (!r.finite || !c.finite || r.zero() || c.zero()) return true;
    int carry = 64 - std::countl_zero(uint64_t(k));
    return r.top + c.top + 2 + carry - (r.bottom + c.bottom) <= 53;
  }
};

void merge(Range& all, const Range& one) {
  all.top = std::max(all.top, one.top);
  all.bottom = std::min(all.bottom, one.bottom);
  all.finite = all.finite && one.finite;
}

// Zero bytes are zeros in every type.
bool is_zero(const unsigned char* bytes, int count) {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size_t(count) - 1) == 0;
}

double power_of_two(int exponent) { return std::bit_cast<double>(uint64_t(exponent + 1023) << 52); }

// Toward zero, to so many mantissa bits.
inline float cut_to_f32(double value, int bits) {
  const double size = std::fabs(value);
  if (size >= 0x1p-126 && size < 0x1p127) // a double has 29 bits more
    return std::bit_cast<float>(std::bit_cast<uint32_t>(float(std::bit_cast<double>(
                                    std::bit_cast<uint64_t>(value) & ~uint64_t{0} << 29))) &
                                ~0u << (23 - bits));
  float cut = float(value);
  if (std::isinf(cut)) return cut;
  if (std::fabs(double(cut)) > std::fabs(value)) cut = std::nextafterf(cut, 0.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(cut) & ~0u << (23 - bits));
}

namespace plain {
#include "tools/vgpu/tensor/mma_plain_kernels.inl"
}
#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
#include "tools/vgpu/tensor/mma_plain_kernels.inl"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
namespace avx512 {
#include "tools/vgpu/tensor/mma_plain_kernels.inl"
}
#pragma GCC pop_options
#endif

struct Kernels {
  decltype(&plain::range_of) range_of;
  decltype(&plain::dot_row) dot_row;
  decltype(&plain::finish_row) finish_row;
  decltype(&plain::run_sequential) run_sequential;
  decltype(&plain::run_aligned) run_aligned;
};

const Kernels& kernels() {
  static const Kernels chosen = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
      return Kernels{avx512::range_of, avx512::dot_row, avx512::finish_row, avx512::run_sequential,
                     avx512::run_aligned};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return Kernels{avx2::range_of, avx2::dot_row, avx2::finish_row, avx2::run_sequential,
                     avx2::run_aligned};
#endif
    return Kernels{plain::range_of, plain::dot_row, plain::finish_row, plain::run_sequential,
                   plain::run_aligned};
  }();
  return chosen;
}

void Panels::build(const PlainMma& op, const unsigned char* a_bytes, const unsigned char* b_bytes) {
  m = op.m, n = op.n, k = op.k;
  const int a_k = op.kept ? k / 2 : k;
  n_padded = (n + kColumns - 1) / kColumns * kColumns;
  a.resize(size_t(m) * size_t(a_k));
  b.assign(size_t(k) * size_t(n_padded), 0.0);
  row.assign(size_t(m), Range());
  column.assign(size_t(n), Range());
  columns.assign(size_t(n_padded / kColumns), Range());
  all_rows = all_columns = Range();
  float values[kMaxK];
  int a_pitch = row_bytes(op.a, op.a_packing, a_k), b_pitch = row_bytes(op.b, op.b_packing, k);
  for (int r = 0; r < m; ++r) {
    if (is_zero(a_bytes + r * a_pitch, a_pitch)) {
      std::fill_n(&a[size_t(r * a_k)], a_k, op.negate_a ? -0.0 : 0.0);
      continue;
    }
    decode_row(op.a, op.a_packing, a_bytes + r * a_pitch, a_k, values);
    for (int i = 0; i < a_k; ++i) a[size_t(r * a_k + i)] = op.negate_a ? -values[i] : values[i];
    row[size_t(r)] = kernels().range_of(values, a_k);
    merge(all_rows, row[size_t(r)]);
  }
  // Rows of b are lines of many columns: some columns at a time.
  float block[kColumns][kMaxK];
  for (int first = 0; first < n; first += kColumns) {
    const int count = std::min(kColumns, n - first);
    bool zeros = true;
    for (int l = 0; l < count; ++l) {
      const int c = first + l;
      const unsigned char* bytes = b_bytes + c * b_pitch;
      if (is_zero(bytes, b_pitch)) {
        std::fill_n(block[l], k, 0.0f);
        continue;
      }
      zeros = false;
      decode_row(op.b, op.b_packing, bytes, k, block[l]);
      column[size_t(c)] = kernels().range_of(block[l], k);
      merge(columns[size_t(first / kColumns)], column[size_t(c)]);
      merge(all_columns, column[size_t(c)]);
    }
    if (zeros && !op.negate_b) continue;
    for (int i = 0; i < k; ++i) {
      double* line = &b[size_t(i * n_padded + first)];
      for (int l = 0; l < count; ++l) line[l] = op.negate_b ? -block[l][i] : block[l][i];
    }
  }
}

// One element by an expansion, for exponents too far apart for a double.
double sum_exactly(const Panels& p, int r, int c, double scale, double start) {
  ExactSum sum;
  sum.add(start);
  for (int i = 0; i < p.k; ++i)
    sum.add(p.a[size_t(r * p.k + i)] * p.b[size_t(i * p.n_padded + c)] * scale);
  return sum.to_odd();
}

// The exact policy, with the scales of mxf8f6f4 where there are some.
void run_exact(const PlainMma& op, const Panels& p, const float* scale_a, const float* scale_b,
               float* d, ptrdiff_t ld) {
  std::vector<double> sum(size_t(p.n_padded));
  std::vector<float> line(size_t(p.n_padded));
  // Rows and columns that are finite may be far apart although others are not finite.
  const bool all_fit =
      p.all_rows.finite && p.all_columns.finite && p.fits(p.all_rows, p.all_columns);
  double scale_d = std::ldexp(1.0, -op.scale_d);
  for (int r = 0; r < p.m; ++r) {
    float* row = d + r * ld;
    kernels().dot_row(p, r, sum.data());
    if (scale_a != nullptr)
      for (int c = 0; c < p.n; ++c) sum[size_t(c)] *= double(scale_a[r]) * double(scale_b[c]);
    std::fill(line.begin(), line.end(), 0.0f);
    if (op.accumulate) std::memcpy(line.data(), row, size_t(p.n) * sizeof(float));
    if (op.d == MmaResult::f16) {
      for (int c = 0; c < p.n; ++c) {
        double start = line[size_t(c)] * scale_d;
        double odd = p.fits(p.row[size_t(r)], p.column[size_t(c)])
                         ? add_to_odd(start, sum[size_t(c)])
                         : sum_exactly(p, r, c, 1, start);
        row[c] = odd_to_f16(odd);
      }
      continue;
    }
    if (!all_fit) {
      for (int c = 0; c < p.n; ++c) {
        if (p.fits(p.row[size_t(r)], p.column[size_t(c)])) continue;
        double scale = scale_a ? double(scale_a[r]) * double(scale_b[c]) : 1.0;
        if (scale != scale) continue; // the sum is NaN already
        double odd = sum_exactly(p, r, c, scale, line[size_t(c)] * scale_d);
        // Rounded to odd already: let finish_row round it alone.
        line[size_t(c)] = 0;
        sum[size_t(c)] = odd;
      }
    }
    kernels().finish_row(sum.data(), p.n_padded, scale_d, line.data());
    std::memcpy(row, line.data(), size_t(p.n) * sizeof(float));
  }
}

void run(const PlainMma& op, Panels& p, const float* scale_a, const float* scale_b, float* d,
         ptrdiff_t ld) {
  switch (op.accumulation) {
  case Accumulation::exact:
    return run_exact(op, p, scale_a, scale_b, d, ld);
  case Accumulation::sequential_fma:
    return kernels().run_sequential(op, p, d, ld);
  case Accumulation::aligned_truncation:
    return kernels().run_aligned(op, p, d, ld);
  }
}

// The variables of a thread by a function of its own: where one is named, each use asks for the
// address.
[[gnu::noipa]] Panels& panels_of_thread() {
  thread_local Panels panels;
  return panels;
}

void run(const PlainMma& op, const unsigned char* a, const unsigned char* b, const float* scale_a,
         const float* scale_b, float* d, ptrdiff_t ld) {
  assert(op.k <= kMaxK);
  Panels& panels = panels_of_thread();
  panels.build(op, a, b);
  if (!op.kept) return run(op, panels, scale_a, scale_b, d, ld);
  // Each row of a sparse A meets rows of K of its own.
  Panels one;
  one.m = 1, one.n = op.n, one.n_padded = panels.n_padded, one.k = op.k / 2;
  one.b.resize(size_t(one.k) * size_t(one.n_padded));
  for (int r = 0; r < op.m; ++r) {
    const size_t first = size_t(r) * size_t(one.k);
    one.a.assign(panels.a.begin() + ptrdiff_t(first), panels.a.begin() + ptrdiff_t(first) + one.k);
    one.row = {panels.row[size_t(r)]};
    one.all_rows = one.row[0];
    one.column.assign(size_t(op.n), Range());
    one.all_columns = Range();
    for (int i = 0; i < one.k; ++i) {
      const double* line = &panels.b[size_t(op.kept[first + size_t(i)]) * size_t(one.n_padded)];
      std::copy_n(line, one.n_padded, &one.b[size_t(i) * size_t(one.n_padded)]);
      for (int c = 0; c < op.n; ++c) {
        const auto value = float(line[c]);
        merge(one.column[size_t(c)], kernels().range_of(&value, 1));
      }
    }
    one.columns.assign(size_t(one.n_padded / kColumns), Range());
    for (int c = 0; c < op.n; ++c) {
      merge(one.columns[size_t(c / kColumns)], one.column[size_t(c)]);
      merge(one.all_columns, one.column[size_t(c)]);
    }
    run(op, one, scale_a ? scale_a + r : nullptr, scale_b, d + r * ld, ld);
  }
}

} // namespace

int row_bytes(MmaType type, Packing packing, int k) {
  return packing == Packing::natural ? k * type_bits(type) / 8 : k;
}

void decode_row(MmaType type, Packing packing, const unsigned char* row, int k, float* out) {
  using namespace num;
  if (type_bits(type) < 8) {
    const float* table = type == MmaType::e2m1   ? e2m1_table
                         : type == MmaType::e2m3 ? e2m3_table
                                                 : e3m2_table;
    int bits = type_bits(type);
    uint32_t mask = (1u << bits) - 1;
    for (int i = 0; i < k; ++i) {
      uint32_t code;
      if (packing == Packing::holders) {
        code = row[i] >> (bits == 4 ? 2 : 0);
      } else {
        // Bit position in a packed group; padded groups start on 16-byte boundaries.
        int group = packing == Packing::padded16 ? i / 16 * 16 : 0;
        int bit = (packing == Packing::padded16 ? i % 16 : i) * bits;
        const unsigned char* at = row + group + bit / 8;
        uint32_t two = at[0] | (bit % 8 + bits > 8 ? uint32_t(at[1]) << 8 : 0);
        code = two >> (bit % 8);
      }
      out[i] = table[code & mask];
    }
    return;
  }
  for (int i = 0; i < k; ++i) {
    uint16_t half;
    uint32_t word;
    switch (type) {
    case MmaType::f16:
      std::memcpy(&half, row + 2 * i, 2);
      out[i] = f16_to_f32(half);
      break;
    case MmaType::bf16:
      std::memcpy(&half, row + 2 * i, 2);
      out[i] = bf16_to_f32(half);
      break;
    case MmaType::tf32:
      std::memcpy(&word, row + 4 * i, 4);
      out[i] = tf32_to_f32(word);
      break;
    case MmaType::e4m3:
      out[i] = e4m3_table[row[i]];
      break;
    case MmaType::e5m2:
      out[i] = e5m2_table[row[i]];
      break;
    case MmaType::s8:
      out[i] = float(int8_t(row[i]));
      break;
    default:
      out[i] = float(row[i]);
      break;
    }
  }
}

void hopper_accumulation(PlainMma& op) {
  bool narrow = op.a == MmaType::e4m3 || op.a == MmaType::e5m2;
  op.accumulation = Accumulation::aligned_truncation;
  op.fraction_bits = narrow ? 13 : 25;
  op.result_bits = narrow ? 13 : 23;
}

void mma_plain(const PlainMma& op, const unsigned char* a, const unsigned char* b, float* d,
               ptrdiff_t ld) {
  run(op, a, b, nullptr, nullptr, d, ld);
}

void mma_mxf8(const PlainMma& op, const unsigned char* a, const unsigned char* b,
              const float* scale_a, const float* scale_b, float* d, ptrdiff_t ld) {
  PlainMma exact = op;
  exact.accumulation = Accumulation::exact;
  run(exact, a, b, scale_a, scale_b, d, ld);
}

namespace {

void mma_bits(const PlainMma& op, const unsigned char* a, const unsigned char* b, int32_t* d,
              ptrdiff_t ld) {
  const int bytes = op.k / 8;
  for (int r = 0; r < op.m; ++r)
    for (int c = 0; c < op.n; ++c) {
      uint32_t sum = op.accumulate ? uint32_t(d[r * ld + c]) : 0;
      for (int i = 0; i < bytes; ++i)
        sum += uint32_t(std::popcount(uint8_t(a[r * bytes + i] & b[c * bytes + i])));
      d[r * ld + c] = int32_t(sum);
    }
}

} // namespace

void mma_integer(const PlainMma& op, bool saturate, const unsigned char* a, const unsigned char* b,
                 int32_t* d, ptrdiff_t ld) {
  if (op.a == MmaType::b1) return mma_bits(op, a, b, d, ld);
  std::vector<int32_t> b_all(size_t(op.k) * size_t(op.n));
  auto value = [](MmaType type, unsigned char byte) {
    return type == MmaType::s8 ? int32_t(int8_t(byte)) : int32_t(byte);
  };
  for (int c = 0; c < op.n; ++c)
    for (int i = 0; i < op.k; ++i) b_all[size_t(i * op.n + c)] = value(op.b, b[c * op.k + i]);
  std::vector<int32_t> sum(size_t(op.n));
  const int a_k = op.kept ? op.k / 2 : op.k;
  for (int r = 0; r < op.m; ++r) {
    std::fill(sum.begin(), sum.end(), 0);
    for (int i = 0; i < a_k; ++i) {
      int32_t x = value(op.a, a[r * a_k + i]);
      if (x == 0) continue;
      const int32_t* line = &b_all[size_t((op.kept ? op.kept[r * a_k + i] : i) * op.n)];
      for (int c = 0; c < op.n; ++c) sum[size_t(c)] += x * line[c];
    }
    for (int c = 0; c < op.n; ++c) {
      int64_t total = int64_t(sum[size_t(c)]) + (op.accumulate ? d[r * ld + c] : 0);
      if (saturate) total = std::clamp<int64_t>(total, INT32_MIN, INT32_MAX);
      d[r * ld + c] = int32_t(uint32_t(uint64_t(total)));
    }
  }
}

} // namespace vgpu::tensor
