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

#if defined(__x86_64__)
#define WL_CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define WL_CLONES
#endif

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
  void include(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
    if (bits == 0) return;
    int exponent = int(bits >> 23);
    uint32_t mantissa = bits & 0x7FFFFFu;
    if (exponent == 255) {
      finite = false;
      return;
    }
    if (exponent == 0)
      exponent = 1;
    else
      mantissa |= 0x800000u;
    top = std::max(top, exponent - 150 + 31 - std::countl_zero(mantissa));
    bottom = std::min(bottom, exponent - 150 + std::countr_zero(mantissa));
  }
  bool zero() const { return top < bottom; }
};

struct Panels {
  int m, n, n_padded, k;
  std::vector<double> a; // [m][k]
  std::vector<double> b; // [k][n_padded]
  std::vector<Range> row, column;
  Range all_rows, all_columns;

  void build(const PlainMma& op, const unsigned char* a_bytes, const unsigned char* b_bytes);

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

void Panels::build(const PlainMma& op, const unsigned char* a_bytes, const unsigned char* b_bytes) {
  m = op.m, n = op.n, k = op.k;
  n_padded = (n + kColumns - 1) / kColumns * kColumns;
  a.resize(size_t(m) * size_t(k));
  b.assign(size_t(k) * size_t(n_padded), 0.0);
  row.assign(size_t(m), Range());
  column.assign(size_t(n), Range());
  all_rows = all_columns = Range();
  float values[kMaxK];
  int a_pitch = row_bytes(op.a, op.a_packing, k), b_pitch = row_bytes(op.b, op.b_packing, k);
  for (int r = 0; r < m; ++r) {
    decode_row(op.a, op.a_packing, a_bytes + r * a_pitch, k, values);
    for (int i = 0; i < k; ++i) {
      a[size_t(r * k + i)] = op.negate_a ? -values[i] : values[i];
      row[size_t(r)].include(values[i]);
    }
    merge(all_rows, row[size_t(r)]);
  }
  for (int c = 0; c < n; ++c) {
    decode_row(op.b, op.b_packing, b_bytes + c * b_pitch, k, values);
    for (int i = 0; i < k; ++i) {
      b[size_t(i * n_padded + c)] = op.negate_b ? -values[i] : values[i];
      column[size_t(c)].include(values[i]);
    }
    merge(all_columns, column[size_t(c)]);
  }
}

// Sums of products of one row with all columns.
WL_CLONES void dot_row(const double* a, const double* b, int k, int n_padded, double* out) {
  for (int c = 0; c < n_padded; c += kColumns) {
    Doubles sum[2] = {};
    for (int i = 0; i < k; ++i) {
      Doubles b0, b1;
      std::memcpy(&b0, b + i * n_padded + c, sizeof b0);
      std::memcpy(&b1, b + i * n_padded + c + 8, sizeof b1);
      sum[0] += a[i] * b0;
      sum[1] += a[i] * b1;
    }
    std::memcpy(out + c, sum, sizeof sum);
  }
}

// d = d * scale + sum with one rounding to FP32; add_to_odd() eight at a time.
WL_CLONES void finish_row(const double* sum, int n_padded, double scale, float* d) {
  for (int c = 0; c < n_padded; c += 8) {
    Floats old;
    Doubles y;
    std::memcpy(&old, d + c, sizeof old);
    std::memcpy(&y, sum + c, sizeof y);
    Doubles x = __builtin_convertvector(old, Doubles) * scale;
    Doubles high = x + y;
    Doubles part = high - x;
    Doubles rest = (x - (high - part)) + (y - part);
    Longs bits;
    std::memcpy(&bits, &high, sizeof bits);
    Longs inexact = ((rest < 0) | (rest > 0)) & ((bits & 1) == 0);
    Longs up = (rest > 0) == (high > 0);
    bits += (-1 - 2 * up) & inexact;
    std::memcpy(&high, &bits, sizeof bits);
    Floats result = __builtin_convertvector(high, Floats);
    Ints is_nan = result != result;
    Ints words;
    std::memcpy(&words, &result, sizeof words);
    words = (words & ~is_nan) | (is_nan & int32_t(num::kF32Nan));
    std::memcpy(d + c, &words, sizeof words);
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
  bool all_fit = p.fits(p.all_rows, p.all_columns);
  double scale_d = std::ldexp(1.0, -op.scale_d);
  for (int r = 0; r < p.m; ++r) {
    float* row = d + r * ld;
    dot_row(&p.a[size_t(r * p.k)], p.b.data(), p.k, p.n_padded, sum.data());
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
    finish_row(sum.data(), p.n_padded, scale_d, line.data());
    std::memcpy(row, line.data(), size_t(p.n) * sizeof(float));
  }
}

WL_CLONES void run_sequential(const PlainMma& op, const Panels& p, float* d, ptrdiff_t ld) {
  float scale_d = std::ldexp(1.0f, -op.scale_d);
  for (int r = 0; r < p.m; ++r) {
    float* row = d + r * ld;
    for (int c = 0; c < p.n; ++c) row[c] = op.accumulate ? row[c] * scale_d : 0.0f;
    for (int i = 0; i < p.k; ++i) {
      float a = float(p.a[size_t(r * p.k + i)]);
      const double* b = &p.b[size_t(i * p.n_padded)];
      for (int c = 0; c < p.n; ++c) row[c] = __builtin_fmaf(a, float(b[c]), row[c]);
    }
    for (int c = 0; c < p.n; ++c) {
      row[c] =
          op.d == MmaResult::f16 ? num::f16_to_f32(num::f32_to_f16(row[c])) : canonical(row[c]);
    }
  }
}

float cut_to_f32(double value) {
  float nearest = float(value);
  if (std::isinf(nearest) || std::fabs(double(nearest)) <= std::fabs(value)) return nearest;
  return std::nextafterf(nearest, 0.0f);
}

void run_aligned(const PlainMma& op, const Panels& p, float* d, ptrdiff_t ld) {
  // Exponents of operands once; the exponent of a product is the sum of its operands' exponents.
  std::vector<int> a_exponent(p.a.size()), b_exponent(p.b.size());
  constexpr int kNone = -100000;
  auto exponent_of = [](double x) { return x == 0 || !std::isfinite(x) ? kNone : std::ilogb(x); };
  for (size_t i = 0; i < p.a.size(); ++i) a_exponent[i] = exponent_of(p.a[i]);
  for (size_t i = 0; i < p.b.size(); ++i) b_exponent[i] = exponent_of(p.b[i]);
  double scale_d = std::ldexp(1.0, -op.scale_d);
  for (int r = 0; r < p.m; ++r) {
    for (int c = 0; c < p.n; ++c) {
      double start = op.accumulate ? d[r * ld + c] * scale_d : 0.0;
      double product[kMaxK], plain = start;
      int top = exponent_of(start);
      for (int i = 0; i < p.k; ++i) {
        size_t ai = size_t(r * p.k + i), bi = size_t(i * p.n_padded + c);
        product[i] = p.a[ai] * p.b[bi];
        plain += product[i];
        top = std::max(top, a_exponent[ai] + b_exponent[bi]);
      }
      float result;
      if (!std::isfinite(plain) || top <= kNone / 2) {
        result = canonical(float(plain));
      } else {
        int shift = op.fraction_bits - top;
        double sum = std::trunc(std::ldexp(start, shift));
        for (int i = 0; i < p.k; ++i) sum += std::trunc(std::ldexp(product[i], shift));
        result = cut_to_f32(std::ldexp(sum, -shift));
      }
      d[r * ld + c] = op.d == MmaResult::f16 ? num::f16_to_f32(num::f32_to_f16(result)) : result;
    }
  }
}

thread_local Panels panels;

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
        code = row[i] >> (bits == 4 ? 2 : 1);
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

void mma_plain(const PlainMma& op, const unsigned char* a, const unsigned char* b, float* d,
               ptrdiff_t ld) {
  assert(op.k <= kMaxK);
  panels.build(op, a, b);
  switch (op.accumulation) {
  case Accumulation::exact:
    run_exact(op, panels, nullptr, nullptr, d, ld);
    break;
  case Accumulation::sequential_fma:
    run_sequential(op, panels, d, ld);
    break;
  case Accumulation::aligned_truncation:
    run_aligned(op, panels, d, ld);
    break;
  }
}

void mma_mxf8(const PlainMma& op, const unsigned char* a, const unsigned char* b,
              const float* scale_a, const float* scale_b, float* d, ptrdiff_t ld) {
  assert(op.k <= kMaxK);
  panels.build(op, a, b);
  run_exact(op, panels, scale_a, scale_b, d, ld);
}

void mma_integer(const PlainMma& op, bool saturate, const unsigned char* a, const unsigned char* b,
                 int32_t* d, ptrdiff_t ld) {
  std::vector<int32_t> b_all(size_t(op.k) * size_t(op.n));
  auto value = [](MmaType type, unsigned char byte) {
    return type == MmaType::s8 ? int32_t(int8_t(byte)) : int32_t(byte);
  };
  for (int c = 0; c < op.n; ++c)
    for (int i = 0; i < op.k; ++i) b_all[size_t(i * op.n + c)] = value(op.b, b[c * op.k + i]);
  std::vector<int32_t> sum(size_t(op.n));
  for (int r = 0; r < op.m; ++r) {
    std::fill(sum.begin(), sum.end(), 0);
    for (int i = 0; i < op.k; ++i) {
      int32_t x = value(op.a, a[r * op.k + i]);
      const int32_t* line = &b_all[size_t(i * op.n)];
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
