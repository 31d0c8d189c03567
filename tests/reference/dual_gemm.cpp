#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/elements.hpp"
#include "tests/reference/linear.hpp"
#include "tests/reference/target_clones.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

namespace wltest {
namespace {

constexpr int64_t block = 16;         // elements of K that share a scale
constexpr int64_t mx_block = 32;      // of the MX types
constexpr int64_t panel_columns = 16; // columns of B in one panel
constexpr int64_t tile_rows = 4;      // rows of A that one pass over a panel serves
constexpr int64_t rows_at_once = 256; // rows of A kept decoded
constexpr int64_t k_at_once = 16384;  // and of each so many values

struct Tables {
  std::array<float, 16> value;
  std::array<float, 256> scale;
  Tables() {
    for (int i = 0; i < 16; ++i) value[i] = static_cast<float>(decode_e2m1(uint8_t(i)));
    for (int i = 0; i < 256; ++i) scale[i] = static_cast<float>(decode_ue4m3(uint8_t(i)));
  }
};

// The same of the codes of another type, without scales.
void decode_codes(wl_operand type, const uint8_t* row, int64_t k0, int64_t k_count, float* out,
                  int64_t stride) {
  const auto each = [&](const auto& value_at) {
    for (int64_t k = 0; k < k_count; ++k) out[k * stride] = value_at(k0 + k);
  };
  if (type == WL_OPERAND_TF32) {
    each([&](int64_t k) { return static_cast<float>(decode_tf32(element_at(type, row, k))); });
    return;
  }
  const float* decoded = decoded_codes(type).data();
  switch (element_bits(type)) {
  case 8:
    return each([&](int64_t k) { return decoded[row[k]]; });
  case 16:
    return each([&](int64_t k) { return decoded[row[2 * k] | row[2 * k + 1] << 8]; });
  default:
    return each([&](int64_t k) { return decoded[element_at(type, row, k)]; });
  }
}

// k_count elements from k0 on, of NVFP4 a multiple of 16, of row `row` (counted over all batch
// entries) as FP32; element k0 + k goes to out[k * stride].
void decode_row(const Tables& tables, const Operand& operand, int64_t row, int64_t k0,
                int64_t k_count, float* out, int64_t stride) {
  if (operand.type != WL_OPERAND_NVFP4) {
    const uint8_t* values = operand.values.data() + static_cast<size_t>(row) * operand.row_bytes();
    decode_codes(operand.type, values, k0, k_count, out, stride);
    if (operand.scales.empty()) return;
    const uint8_t* scales = operand.scales.data() + row * (operand.k / mx_block);
    double scale = 1;
    for (int64_t k = 0; k < k_count; ++k) {
      if (k == 0 || (k0 + k) % mx_block == 0) scale = decode_ue8m0(scales[(k0 + k) / mx_block]);
      out[k * stride] = static_cast<float>(out[k * stride] * scale);
    }
    return;
  }
  const uint8_t* values = operand.values.data() + row * (operand.k / 2) + k0 / 2;
  const uint8_t* scales = operand.scales.data() + row * (operand.k / block) + k0 / block;
  for (int64_t k = 0; k < k_count; ++k)
    out[k * stride] = tables.value[nibble(values, k)] * tables.scale[scales[k / block]];
}

typedef float Floats __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(64)));
typedef float HalfFloats __attribute__((vector_size(32)));

// sums[r][c] += sum over k of a[r][k] * panel[k][c], for tile_rows rows and panel_columns columns.
WL_TARGET_CLONES void multiply_tile(const float* a, int64_t row_stride, const float* panel,
                                    int64_t k_count, double* sums) {
  Doubles low[tile_rows], high[tile_rows];
#pragma GCC unroll 4 // all of them: arrays then stay in registers
  for (int64_t r = 0; r < tile_rows; ++r) {
    __builtin_memcpy(&low[r], sums + r * panel_columns, sizeof low[r]);
    __builtin_memcpy(&high[r], sums + r * panel_columns + panel_columns / 2, sizeof high[r]);
  }
  for (int64_t k0 = 0; k0 < k_count; k0 += block) {
    Floats partial[tile_rows] = {};
    for (int64_t k = k0; k < k0 + block; ++k) {
      Floats b;
      __builtin_memcpy(&b, panel + k * panel_columns, sizeof b);
#pragma GCC unroll 4
      for (int64_t r = 0; r < tile_rows; ++r) partial[r] += a[r * row_stride + k] * b;
    }
#pragma GCC unroll 4
    for (int64_t r = 0; r < tile_rows; ++r) {
      HalfFloats halves[2];
      __builtin_memcpy(halves, &partial[r], sizeof halves);
      low[r] += __builtin_convertvector(halves[0], Doubles);
      high[r] += __builtin_convertvector(halves[1], Doubles);
    }
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < tile_rows; ++r) {
    __builtin_memcpy(sums + r * panel_columns, &low[r], sizeof low[r]);
    __builtin_memcpy(sums + r * panel_columns + panel_columns / 2, &high[r], sizeof high[r]);
  }
}

// The same, and lost[r][c] += what the steps may lose, by their number in units of 2^-23.
WL_TARGET_CLONES void multiply_tile(const float* a, int64_t row_stride, const float* panel,
                                    int64_t k_count, double* sums, double* lost) {
  for (int64_t r = 0; r < tile_rows; ++r)
    for (int64_t k0 = 0; k0 < k_count; k0 += block) {
      float partial[panel_columns] = {}, sizes[panel_columns] = {};
      for (int64_t k = k0; k < k0 + block; ++k)
        for (int64_t c = 0; c < panel_columns; ++c) {
          const float product = a[r * row_stride + k] * panel[k * panel_columns + c];
          partial[c] += product;
          sizes[c] += std::fabs(product);
        }
      for (int64_t c = 0; c < panel_columns; ++c) {
        lost[r * panel_columns + c] += std::fabs(sums[r * panel_columns + c]) + double{sizes[c]};
        sums[r * panel_columns + c] += double{partial[c]};
      }
    }
}

} // namespace

void in_parallel(int threads, int64_t count, const std::function<void(int64_t)>& work) {
  std::mutex mutex;
  int64_t next = 0;
  std::exception_ptr failure;
  auto loop = [&] {
    for (;;) {
      int64_t mine;
      {
        std::lock_guard lock(mutex);
        mine = next++;
      }
      if (mine >= count) return;
      try {
        work(mine);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> helpers;
  const int64_t wanted = std::min<int64_t>(threads, count) - 1;
  try {
    if (wanted > 0) helpers.reserve(static_cast<size_t>(wanted));
    for (int64_t i = 0; i < wanted; ++i) helpers.emplace_back(loop);
  } catch (const std::exception&) { // no thread, or no memory for one
  }
  loop();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

namespace {

Sums empty_sums(const Problem& problem) {
  Sums sums{problem.m, problem.n, problem.l, {}, {}};
  sums.acc1.resize(static_cast<size_t>(problem.l * problem.m * problem.n));
  if (!problem.b2.values.empty()) sums.acc2.resize(sums.acc1.size());
  return sums;
}

// The sums, and with a `lost` what they may lose in units of 2^-23.
Sums accumulate(const Problem& problem, int threads, const Progress& progress, Sums* lost) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t m = problem.m, n = problem.n, k = problem.k;
  Sums sums = empty_sums(problem);
  const int products = problem.b2.values.empty() ? 1 : 2;
  const Tables tables;
  const int64_t panels = (n + panel_columns - 1) / panel_columns;
  const int64_t row_blocks = (m + rows_at_once - 1) / rows_at_once;
  const int64_t k_parts = (k + k_at_once - 1) / k_at_once;
  const int64_t steps = problem.l * row_blocks * k_parts * panels;
  int64_t steps_done = 0;
  std::mutex progress_mutex;
  std::vector<float> a;
  const auto add_part = [&](int64_t entry, int64_t row0, int64_t k0) {
    const int64_t rows = std::min(rows_at_once, m - row0), here = std::min(k_at_once, k - k0);
    const int64_t part = (here + block - 1) / block * block; // zeros beyond K
    const int64_t padded_rows = (rows + tile_rows - 1) / tile_rows * tile_rows;
    a.assign(static_cast<size_t>(padded_rows * part), 0.0f);
    for (int64_t r = 0; r < rows; ++r)
      decode_row(tables, problem.a, entry * m + row0 + r, k0, here, a.data() + r * part, 1);
    in_parallel(threads, panels, [&](int64_t index) {
      const int64_t column0 = index * panel_columns;
      const int64_t columns = std::min(panel_columns, n - column0);
      std::vector<float> panel(static_cast<size_t>(part * panel_columns), 0.0f);
      double tile[tile_rows * panel_columns] = {}, lost_of_tile[tile_rows * panel_columns] = {};
      for (int product = 0; product < products; ++product) {
        const Operand& b = product == 0 ? problem.b1 : problem.b2;
        double* acc = (product == 0 ? sums.acc1 : sums.acc2).data();
        double* losses = !lost ? nullptr : (product == 0 ? lost->acc1 : lost->acc2).data();
        for (int64_t c = 0; c < columns; ++c)
          decode_row(tables, b, entry * n + column0 + c, k0, here, panel.data() + c, panel_columns);
        for (int64_t r0 = 0; r0 < rows; r0 += tile_rows) {
          const int64_t tile_height = std::min(tile_rows, rows - r0);
          const int64_t place = (entry * m + row0 + r0) * n + column0;
          const auto take = [&](const double* from, double* into) {
            for (int64_t r = 0; r < tile_height; ++r)
              std::copy_n(from + place + r * n, columns, into + r * panel_columns);
          };
          const auto give = [&](const double* from, double* into) {
            for (int64_t r = 0; r < tile_height; ++r)
              std::copy_n(from + r * panel_columns, columns, into + place + r * n);
          };
          const float* rows_of_a = a.data() + r0 * part;
          take(acc, tile);
          if (losses) {
            take(losses, lost_of_tile);
            multiply_tile(rows_of_a, part, panel.data(), part, tile, lost_of_tile);
            give(lost_of_tile, losses);
          } else {
            multiply_tile(rows_of_a, part, panel.data(), part, tile);
          }
          give(tile, acc);
        }
      }
      std::lock_guard lock(progress_mutex);
      ++steps_done;
      if (progress) progress(static_cast<double>(steps_done) / static_cast<double>(steps));
    });
  };
  for (int64_t entry = 0; entry < problem.l; ++entry)
    for (int64_t row0 = 0; row0 < m; row0 += rows_at_once)
      for (int64_t k0 = 0; k0 < k; k0 += k_at_once) add_part(entry, row0, k0);
  return sums;
}

} // namespace

Sums accumulate(const Problem& problem, int threads, const Progress& progress) {
  return accumulate(problem, threads, progress, nullptr);
}

Sums most_lost(const Problem& problem, int threads, const Progress& progress) {
  Sums lost = empty_sums(problem);
  if (problem.a.type == WL_OPERAND_INT8) return lost;
  const Sums sums = accumulate(problem, threads, progress, &lost);
  for (size_t i = 0; i < lost.acc1.size(); ++i)
    lost.acc1[i] = std::ldexp(lost.acc1[i] + std::fabs(sums.acc1[i]) / 2, -23);
  for (size_t i = 0; i < lost.acc2.size(); ++i)
    lost.acc2[i] = std::ldexp(lost.acc2[i] + std::fabs(sums.acc2[i]) / 2, -23);
  return lost;
}

double gated(double acc1, double acc2, double alpha1, double alpha2) {
  const double x1 = acc1 * alpha1, x2 = acc2 * alpha2;
  return x1 / (1 + std::exp(-x1)) * x2;
}

std::vector<double> gated(const Sums& sums, double alpha1, double alpha2) {
  std::vector<double> d(sums.acc1.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = gated(sums.acc1[i], sums.acc2[i], alpha1, alpha2);
  return d;
}

float gated_replayed_f32(double acc1, double acc2, float alpha1, float alpha2) {
  return gated_replayed(Gate{}, GatedInputs{acc1, acc2, alpha1, alpha2});
}

uint16_t gated_replayed(double acc1, double acc2, float alpha1, float alpha2, OutputType type) {
  return encode_output(type, double{gated_replayed_f32(acc1, acc2, alpha1, alpha2)});
}

Operand quantized_replayed(const Sums& sums, float alpha1, float alpha2, float d_scale) {
  return quantized(gated_replayed(sums, GatedOperands{{}, alpha1, alpha2, {}, {}}), sums, d_scale);
}

std::vector<uint16_t> gated_replayed(const Sums& sums, float alpha1, float alpha2,
                                     OutputType type) {
  std::vector<uint16_t> d(sums.acc1.size());
  for (size_t i = 0; i < d.size(); ++i)
    d[i] = gated_replayed(sums.acc1[i], sums.acc2[i], alpha1, alpha2, type);
  return d;
}

} // namespace wltest
