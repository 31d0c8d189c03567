// Block-scaled FP4. Twice an e2m1 value is an integer of -12..12, so a block of up to 64
// products is an exact integer sum: at most 64 * 144 = 9216, in units of 1/4. Times two scales of
// four significant bits it still fits FP32, so each block costs one rounding, whatever instruction
// set sums it.
//
// Integer paths keep B as u8 with 12 added (the unsigned side of the byte dot products) and A as
// s8: sum (b + 12) * a - 12 * sum a.
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/tensor/exact_sum.hpp"
#include "tools/vgpu/tensor/mma.hpp"

#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
// GCC 12 reports its own _mm512_undefined_ps() as uninitialized.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#define WL_X86 1
#else
#define WL_X86 0
#endif

namespace vgpu::tensor {
namespace {

constexpr int kChunk = 32; // columns a path takes at once; the B panel is padded to it

// Both halves of a packed byte as doubled values, low nibble first.
struct Doubled {
  int8_t low, high;
};

constexpr std::array<Doubled, 256> make_doubled() {
  constexpr int8_t magnitude[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  std::array<Doubled, 256> table{};
  for (int code = 0; code < 256; ++code) {
    int low = code & 15, high = code >> 4;
    table[size_t(code)] = {int8_t(low & 8 ? -magnitude[low & 7] : magnitude[low & 7]),
                           int8_t(high & 8 ? -magnitude[high & 7] : magnitude[high & 7])};
  }
  return table;
}
constexpr std::array<Doubled, 256> kDoubled = make_doubled();

constexpr std::array<int8_t, 256> make_pair_sum() {
  std::array<int8_t, 256> table{};
  for (size_t i = 0; i < 256; ++i) table[i] = int8_t(kDoubled[i].low + kDoubled[i].high);
  return table;
}
constexpr std::array<int8_t, 256> kPairSum = make_pair_sum();

// Operands of one call, decoded. Reused between calls of a thread to save the allocations.
struct Panels {
  int m, n, n_padded, k, block, blocks;
  std::vector<int8_t> a;         // [m][k], doubled, signed
  std::vector<int32_t> a_offset; // [m][blocks]: -12 * sum of a over the block
  std::vector<float> a_scale;    // [m][blocks], a quarter of the scale of A, negated if asked
  std::vector<uint32_t> b;       // [k / 4][n_padded]: four u8 of 12 + doubled value
  std::vector<float> b_scale;    // [blocks][n_padded]
  bool tame;                     // every product of scales is far from the ends of FP32

  void build(const ScaledOperand& a_operand, const ScaledOperand& b_operand, int m_rows, int n_rows,
             int k_count, int block_size);
};

// Within 2^-56..2^56, or NaN: then sum * scale_a * scale_b neither overflows nor loses bits.
bool tame_scale(float scale) {
  float magnitude = std::fabs(scale);
  return !(magnitude > 0x1p56f) && (!(magnitude < 0x1p-56f) || magnitude == 0);
}

void Panels::build(const ScaledOperand& a_operand, const ScaledOperand& b_operand, int m_rows,
                   int n_rows, int k_count, int block_size) {
  m = m_rows, n = n_rows, k = k_count, block = block_size, blocks = k / block;
  n_padded = (n + kChunk - 1) / kChunk * kChunk;
  a.resize(size_t(m) * size_t(k));
  a_offset.resize(size_t(m) * size_t(blocks));
  a_scale.resize(size_t(m) * size_t(blocks));
  b.resize(size_t(k) / 4 * size_t(n_padded));
  b_scale.assign(size_t(blocks) * size_t(n_padded), 0.0f);
  tame = true;
  float sign = a_operand.negate != b_operand.negate ? -0.25f : 0.25f;
  for (int r = 0; r < m; ++r) {
    const unsigned char* packed = a_operand.values + r * a_operand.row_bytes;
    const float* scale = a_operand.scales + r * a_operand.scale_stride;
    int8_t* row = &a[size_t(r) * size_t(k)];
    for (int i = 0; i < k / 2; ++i) std::memcpy(row + 2 * i, &kDoubled[packed[i]], 2);
    for (int j = 0; j < blocks; ++j) {
      int sum = 0;
      for (int i = j * block / 2; i < (j + 1) * block / 2; ++i) sum += kPairSum[packed[i]];
      size_t at = size_t(r) * size_t(blocks) + size_t(j);
      a_offset[at] = -12 * sum;
      a_scale[at] = scale[j] * sign;
      tame = tame && tame_scale(scale[j]);
    }
  }
  for (int r = 0; r < n; ++r) {
    const unsigned char* packed = b_operand.values + r * b_operand.row_bytes;
    const float* scale = b_operand.scales + r * b_operand.scale_stride;
    for (int i = 0; i < k / 4; ++i) {
      Doubled four[2] = {kDoubled[packed[2 * i]], kDoubled[packed[2 * i + 1]]};
      uint32_t word;
      std::memcpy(&word, four, 4);
      // Adding 12 to each byte: no carry leaves a byte when the sign bits are kept apart.
      word = ((word & 0x7F7F7F7Fu) + 0x0C0C0C0Cu) ^ (word & 0x80808080u);
      b[size_t(i) * size_t(n_padded) + size_t(r)] = word;
    }
    for (int j = 0; j < blocks; ++j) {
      b_scale[size_t(j) * size_t(n_padded) + size_t(r)] = scale[j];
      tame = tame && tame_scale(scale[j]);
    }
  }
}

int block_sum(const Panels& p, int row, int column, int j) {
  const int8_t* a = &p.a[size_t(row) * size_t(p.k)];
  int sum = 0;
  for (int i = j * p.block; i < (j + 1) * p.block; ++i) {
    uint32_t word = p.b[size_t(i / 4) * size_t(p.n_padded) + size_t(column)];
    sum += a[i] * (int(word >> (8 * (i % 4)) & 255) - 12);
  }
  return sum;
}

// Any scales: the term is exact in double, and the addition is rounded once.
void run_scalar(const Panels& p, float* d, ptrdiff_t ld) {
  for (int r = 0; r < p.m; ++r) {
    for (int c = 0; c < p.n; ++c) {
      float accumulator = d[r * ld + c];
      for (int j = 0; j < p.blocks; ++j) {
        double scale = double(p.a_scale[size_t(r) * size_t(p.blocks) + size_t(j)]) *
                       double(p.b_scale[size_t(j) * size_t(p.n_padded) + size_t(c)]);
        accumulator = float(add_to_odd(accumulator, block_sum(p, r, c, j) * scale));
      }
      d[r * ld + c] = canonical(accumulator);
    }
  }
}

// No special instructions: floats, eight columns at a time by the compiler's vectors.
void run_vector(const Panels& p, float* d, ptrdiff_t ld) {
  typedef float V __attribute__((vector_size(32), aligned(4)));
  std::vector<float> b(size_t(p.k) * 8);
  for (int c = 0; c < p.n; c += 8) {
    for (int i = 0; i < p.k; ++i)
      for (int e = 0; e < 8; ++e) {
        uint32_t word = p.b[size_t(i / 4) * size_t(p.n_padded) + size_t(c + e)];
        b[size_t(i) * 8 + size_t(e)] = float(int(word >> (8 * (i % 4)) & 255) - 12);
      }
    int columns = p.n - c < 8 ? p.n - c : 8;
    for (int r = 0; r < p.m; ++r) {
      const int8_t* a = &p.a[size_t(r) * size_t(p.k)];
      V sum_d{};
      std::memcpy(&sum_d, d + r * ld + c, size_t(columns) * sizeof(float));
      for (int j = 0; j < p.blocks; ++j) {
        V sum{}, scale;
        for (int i = j * p.block; i < (j + 1) * p.block; ++i) {
          V bv;
          std::memcpy(&bv, &b[size_t(i) * 8], sizeof bv);
          sum += float(a[i]) * bv;
        }
        std::memcpy(&scale, &p.b_scale[size_t(j) * size_t(p.n_padded) + size_t(c)], sizeof scale);
        sum_d += sum * (p.a_scale[size_t(r) * size_t(p.blocks) + size_t(j)] * scale);
      }
      for (int e = 0; e < columns; ++e) d[r * ld + c + e] = canonical(sum_d[e]);
    }
  }
}

#if WL_X86

// R rows by C vectors of columns; D stays in registers over all blocks.
template <int R, int C>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) inline void
tile_avx512(const Panels& p, int row, int column, float* d, ptrdiff_t ld) {
  __m512 result[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) result[r][c] = _mm512_loadu_ps(d + r * ld + 16 * c);
  const int8_t* a = &p.a[size_t(row) * size_t(p.k)];
  int groups = p.block / 4;
  for (int j = 0; j < p.blocks; ++j) {
    __m512i sum[R][C];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c)
        sum[r][c] = _mm512_set1_epi32(p.a_offset[size_t((row + r) * p.blocks + j)]);
    for (int g = j * groups; g < (j + 1) * groups; ++g) {
      const uint32_t* line = &p.b[size_t(g) * size_t(p.n_padded) + size_t(column)];
      __m512i b[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) b[c] = _mm512_loadu_si512(line + 16 * c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t word;
        std::memcpy(&word, a + r * p.k + 4 * g, 4);
        __m512i av = _mm512_set1_epi32(word);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r][c] = _mm512_dpbusd_epi32(sum[r][c], b[c], av);
      }
    }
    const float* scale = &p.b_scale[size_t(j) * size_t(p.n_padded) + size_t(column)];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      __m512 sb = _mm512_loadu_ps(scale + 16 * c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        __m512 sa = _mm512_set1_ps(p.a_scale[size_t((row + r) * p.blocks + j)]);
        result[r][c] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][c]), _mm512_mul_ps(sa, sb), result[r][c]);
      }
    }
  }
  __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(num::kF32Nan));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      __mmask16 is_nan = _mm512_cmp_ps_mask(result[r][c], result[r][c], _CMP_UNORD_Q);
      _mm512_storeu_ps(d + r * ld + 16 * c, _mm512_mask_mov_ps(result[r][c], is_nan, nan));
    }
}

// Pairs of byte products add in 16 bits: 2 * 24 * 12 = 576 each, 16 of them in a block of 64.
template <int R>
__attribute__((target("avx2,fma"))) inline void tile_avx2(const Panels& p, int row, int column,
                                                          float* d, ptrdiff_t ld) {
  __m256 result[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) result[r] = _mm256_loadu_ps(d + r * ld);
  const int8_t* a = &p.a[size_t(row) * size_t(p.k)];
  int groups = p.block / 4;
  __m256i ones = _mm256_set1_epi16(1);
  for (int j = 0; j < p.blocks; ++j) {
    __m256i sum[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sum[r] = _mm256_setzero_si256();
    for (int g = j * groups; g < (j + 1) * groups; ++g) {
      const uint32_t* line = &p.b[size_t(g) * size_t(p.n_padded) + size_t(column)];
      __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t word;
        std::memcpy(&word, a + r * p.k + 4 * g, 4);
        sum[r] = _mm256_add_epi16(sum[r], _mm256_maddubs_epi16(b, _mm256_set1_epi32(word)));
      }
    }
    __m256 sb = _mm256_loadu_ps(&p.b_scale[size_t(j) * size_t(p.n_padded) + size_t(column)]);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      size_t at = size_t((row + r) * p.blocks + j);
      __m256i whole =
          _mm256_add_epi32(_mm256_madd_epi16(sum[r], ones), _mm256_set1_epi32(p.a_offset[at]));
      __m256 scale = _mm256_mul_ps(_mm256_set1_ps(p.a_scale[at]), sb);
      result[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scale, result[r]);
    }
  }
  __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(num::kF32Nan));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    __m256 is_nan = _mm256_cmp_ps(result[r], result[r], _CMP_UNORD_Q);
    _mm256_storeu_ps(d + r * ld, _mm256_blendv_ps(result[r], nan, is_nan));
  }
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void
run_avx512(const Panels& p, float* d, ptrdiff_t ld) {
  for (int c = 0; c < p.n; c += 32) {
    for (int r = 0; r < p.m; r += 4) tile_avx512<4, 2>(p, r, c, d + r * ld + c, ld);
  }
}

__attribute__((target("avx2,fma"))) void run_avx2(const Panels& p, float* d, ptrdiff_t ld) {
  for (int c = 0; c < p.n; c += 8) {
    for (int r = 0; r < p.m; r += 4) tile_avx2<4>(p, r, c, d + r * ld + c, ld);
  }
}

#endif

void run(Fp4Path path, const Panels& p, float* d, ptrdiff_t ld) {
  switch (path) {
#if WL_X86
  case Fp4Path::avx512:
    return run_avx512(p, d, ld);
  case Fp4Path::avx2:
    return run_avx2(p, d, ld);
#endif
  case Fp4Path::scalar:
    return run_scalar(p, d, ld);
  default:
    return run_vector(p, d, ld);
  }
}

Fp4Path best_path() {
  static const Fp4Path best = has_path(Fp4Path::avx512) ? Fp4Path::avx512
                              : has_path(Fp4Path::avx2) ? Fp4Path::avx2
                                                        : Fp4Path::vector;
  return best;
}

} // namespace

bool has_path(Fp4Path path) {
  switch (path) {
#if WL_X86
  case Fp4Path::avx512:
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  case Fp4Path::avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  case Fp4Path::avx512:
  case Fp4Path::avx2:
    return false;
#endif
  default:
    return true;
  }
}

namespace {

struct Scratch { // of a thread, kept from one MMA to the next
  Panels panels;
  std::vector<float> tile;
};

// A function of its own: in one that holds the variables of a thread, each use asks for the
// address.
[[gnu::noipa]] void multiply(Fp4Path path, const ScaledOperand& a, const ScaledOperand& b, int m,
                             int n, int k, int block, float* d, ptrdiff_t ld, bool accumulate,
                             Scratch& scratch) {
  auto& [panels, tile] = scratch;
  panels.build(a, b, m, n, k, block);
  if (!panels.tame)
    path = Fp4Path::scalar;
  else if (path == Fp4Path::best)
    path = best_path();
  // The wide paths work on whole rows of four and whole chunks of columns.
  int m_whole = (m + 3) / 4 * 4;
  bool in_place = m == m_whole && n % kChunk == 0;
  if (m != m_whole) {
    panels.a.resize(size_t(m_whole) * size_t(k));
    panels.a_offset.resize(size_t(m_whole) * size_t(panels.blocks));
    panels.a_scale.resize(size_t(m_whole) * size_t(panels.blocks));
  }
  float* out = d;
  ptrdiff_t out_ld = ld;
  if (!in_place) {
    out_ld = panels.n_padded;
    tile.assign(size_t(m_whole) * size_t(out_ld), 0.0f);
    out = tile.data();
    if (accumulate)
      for (int r = 0; r < m; ++r)
        std::memcpy(out + r * out_ld, d + r * ld, size_t(n) * sizeof(float));
  } else if (!accumulate) {
    for (int r = 0; r < m; ++r) std::memset(d + r * ld, 0, size_t(n) * sizeof(float));
  }
  run(path, panels, out, out_ld);
  if (in_place) return;
  for (int r = 0; r < m; ++r) std::memcpy(d + r * ld, out + r * out_ld, size_t(n) * sizeof(float));
}

} // namespace

void mma_block_scaled(Fp4Path path, const ScaledOperand& a, const ScaledOperand& b, int m, int n,
                      int k, int block, float* d, ptrdiff_t ld, bool accumulate) {
  assert((block == 16 || block == 32 || block == 64) && k % block == 0 && m > 0 && n > 0);
  thread_local Scratch scratch;
  multiply(path, a, b, m, n, k, block, d, ld, accumulate, scratch);
}

void mma_block_scaled(const ScaledOperand& a, const ScaledOperand& b, int m, int n, int k,
                      int block, float* d, ptrdiff_t ld, bool accumulate) {
  mma_block_scaled(Fp4Path::best, a, b, m, n, k, block, d, ld, accumulate);
}

} // namespace vgpu::tensor
