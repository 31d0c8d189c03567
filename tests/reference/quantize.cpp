#include "tests/reference/quantize.hpp"

#include <cmath>

namespace wltest {
namespace {

// One block of 16 codes.
void fill_block(uint16_t* out, OutputType type, const Random& random, uint64_t index) {
  const uint64_t at = index * 64; // draws of this block
  const auto number = [&](uint64_t i, double most) {
    return most * (2 * random.uniform(at + i) - 1);
  };
  const uint64_t kind = random.below(at, 6);
  const int exponent = static_cast<int>(random.below(at + 1, type == OutputType::f16 ? 38 : 250)) -
                       (type == OutputType::f16 ? 24 : 130);
  for (uint64_t i = 0; i < 16; ++i) {
    double value = 0;
    switch (kind) {
    case 0:
    case 1:
      value = number(2 + i, 3);
      break;
    case 2: // one binade for each block, and a few octaves below it
      value =
          std::ldexp(number(2 + i, 1), exponent - static_cast<int>(random.below(at + 20 + i, 5)));
      break;
    case 3:
      out[i] = static_cast<uint16_t>(random.bits(at + 2 + i));
      continue;
    case 4: // the largest is 6 steps, all are multiples of a quarter step
      value = std::ldexp(i == 0 ? 6.0 : static_cast<double>(random.below(at + 2 + i, 49)) / 4 - 6,
                         exponent / 4);
      break;
    default:
      out[i] =
          static_cast<uint16_t>(random.below(at + 2 + i, 4) | random.below(at + 20 + i, 2) << 15);
      continue;
    }
    out[i] = encode_output(type, value);
  }
}

} // namespace

Matrix make_matrix(int64_t rows, int64_t k, int64_t l, OutputType type, uint64_t seed) {
  Matrix x{rows, k, l, type, {}};
  x.codes.resize(static_cast<size_t>(rows * k * l));
  const Random random(seed, 77);
  for (size_t block = 0; block < x.codes.size() / 16; ++block)
    fill_block(&x.codes[16 * block], type, random, block);
  return x;
}

Matrix random_matrix(int64_t rows, int64_t k, int64_t l, OutputType type, uint64_t seed) {
  Matrix x{rows, k, l, type, {}};
  x.codes.resize(static_cast<size_t>(rows * k * l));
  const Random random(seed, 78);
  for (size_t i = 0; i < x.codes.size(); ++i)
    x.codes[i] = encode_output(type, 2 * random.uniform(i) - 1);
  return x;
}

// volatile keeps every operation a separate FP32 rounding whatever the compiler's flags are.
Inverse::Inverse(float d_scale) {
  const volatile float one_over = 1.0f / d_scale;
  const volatile float over_six = one_over * 0x1.555556p-3f; // 0x3E2AAAAB
  inverse = one_over;
  sixth = over_six;
}

namespace {

float largest_of(const float* x) {
  float largest = 0;
  for (int i = 0; i < 16; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  return largest;
}

uint8_t scale_of(float largest, const Inverse& scale_of_all) {
  const volatile float scaled = largest * scale_of_all.sixth;
  return encode_e4m3(double{scaled});
}

float factor_of(uint8_t scale, const Inverse& scale_of_all) {
  const auto decoded = static_cast<float>(decode_e4m3(scale));
  const volatile float reciprocal = decoded == 0 ? 0.0f : 1.0f / decoded;
  const volatile float factor = scale_of_all.inverse * reciprocal;
  return factor;
}

} // namespace

float block_factor(const float* x, const Inverse& scale_of_all, uint8_t* scale) {
  *scale = scale_of(largest_of(x), scale_of_all);
  return factor_of(*scale, scale_of_all);
}

void quantize_block(const float* x, const Inverse& scale_of_all, uint8_t* codes, uint8_t* scale) {
  const float factor = block_factor(x, scale_of_all, scale);
  for (int i = 0; i < 16; i += 2) {
    const volatile float low = x[i] * factor, high = x[i + 1] * factor;
    codes[i / 2] = static_cast<uint8_t>(encode_e2m1(double{low}) | encode_e2m1(double{high}) << 4);
  }
}

bool is_block_near(const float* x, float relative, const Inverse& scale_of_all,
                   const uint8_t* codes, uint8_t scale) {
  const float largest = largest_of(x);
  if (scale < scale_of(largest * (1 - relative), scale_of_all) ||
      scale > scale_of(largest * (1 + relative), scale_of_all))
    return false;
  const float factor = factor_of(scale, scale_of_all);
  for (int i = 0; i < 16; ++i) {
    const uint8_t code = codes[i / 2] >> (i % 2 * 4) & 15;
    const volatile float low = x[i] * (1 - relative) * factor;
    const volatile float high = x[i] * (1 + relative) * factor;
    // Of one sign, whose codes rise with the magnitude; of a NaN there is one code.
    if (code < encode_e2m1(double{low}) || code > encode_e2m1(double{high})) return false;
  }
  return true;
}

Operand quantize(const Matrix& x, float d_scale) {
  Operand out{x.rows, x.k, x.l, {}, {}};
  out.values.resize(x.codes.size() / 2);
  out.scales.resize(x.codes.size() / 16);
  const Inverse scale_of_all(d_scale);
  for (size_t block = 0; block < out.scales.size(); ++block) {
    float values[16];
    for (size_t i = 0; i < 16; ++i)
      values[i] = static_cast<float>(decode_output(x.type, x.codes[16 * block + i]));
    quantize_block(values, scale_of_all, &out.values[8 * block], &out.scales[block]);
  }
  return out;
}

Matrix add(const Matrix& x, const Matrix& r) {
  Matrix sum = x;
  for (size_t i = 0; i < x.codes.size(); ++i)
    sum.codes[i] = encode_output(x.type, decode_output(x.type, x.codes[i]) +
                                             decode_output(r.type, r.codes[i]));
  return sum;
}

namespace {

// Of each 16 values the first eight and the last eight one after the other, and both; of these
// those 512 values apart one after the other; of 32 such those 16 apart, 8, 4, 2, 1.
template <class Add>
float total(const float* row, int64_t k, const Add& add) {
  std::vector<float> lanes(32, 0.0f);
  for (int64_t block = 0; block < k / 16; ++block) {
    float halves[2];
    for (int half = 0; half < 2; ++half) {
      const float* values = row + 16 * block + 8 * half;
      halves[half] = add.first(values[0]);
      for (int i = 1; i < 8; ++i) halves[half] = add.next(halves[half], values[i]);
    }
    float& lane = lanes[static_cast<size_t>(block % 32)];
    lane = lane + (halves[0] + halves[1]);
  }
  for (size_t distance = 16; distance != 0; distance /= 2)
    for (size_t i = 0; i < distance; ++i) lanes[i] = lanes[i] + lanes[i + distance];
  return lanes[0];
}

struct AddValues {
  float first(float value) const { return value; }
  float next(float sum, float value) const { return sum + value; }
};
struct AddSquares {
  float mean;
  float first(float value) const { return (value - mean) * (value - mean); }
  float next(float sum, float value) const { return std::fma(value - mean, value - mean, sum); }
};

} // namespace

RowStatistics statistics(const float* row, int64_t k, const Norm& norm) {
  const auto count = static_cast<float>(k);
  const float mean = norm.kind == Norm::Kind::layer ? total(row, k, AddValues{}) / count : 0.0f;
  const float variance = total(row, k, AddSquares{mean}) / count;
  return {mean, 1.0f / std::sqrt(variance + norm.eps)};
}

namespace {

// What the kernel makes codes of: for RMSNorm without rstd.
void to_quantise(std::vector<float>* row, const RowStatistics& of_row, const Norm& norm) {
  for (size_t i = 0; i < row->size(); ++i) {
    const float gamma = norm.gamma.empty() ? 1.0f : norm.gamma[i];
    float& value = (*row)[i];
    if (norm.kind == Norm::Kind::layer)
      value = std::fma((value - of_row.mean) * of_row.rstd, gamma,
                       norm.beta.empty() ? 0.0f : norm.beta[i]);
    else
      value = value * gamma;
  }
}

void read_row(const Matrix& x, size_t first, std::vector<float>* row) {
  for (size_t i = 0; i < row->size(); ++i)
    (*row)[i] = static_cast<float>(decode_output(x.type, x.codes[first + i]));
}

} // namespace

std::vector<float> normalised(const Matrix& x, const Norm& norm) {
  std::vector<float> all, row(static_cast<size_t>(x.k));
  for (size_t first = 0; first < x.codes.size(); first += row.size()) {
    read_row(x, first, &row);
    const RowStatistics of_row = statistics(row.data(), x.k, norm);
    to_quantise(&row, of_row, norm);
    for (const float value : row)
      all.push_back(norm.kind == Norm::Kind::rms ? value * of_row.rstd : value);
  }
  return all;
}

Matrix normalised_rows(const Matrix& x, const Norm& norm) {
  Matrix rows = x;
  const std::vector<float> wide = normalised(x, norm);
  for (size_t i = 0; i < wide.size(); ++i) rows.codes[i] = encode_output(x.type, double{wide[i]});
  return rows;
}

Folded fold(const Matrix& w, const Norm& norm, const std::vector<float>& bias) {
  Folded folded{w, {}};
  std::vector<float> row(static_cast<size_t>(w.k));
  for (size_t n = 0; n < w.codes.size() / row.size(); ++n) {
    read_row(w, n * row.size(), &row);
    float totals[32] = {}, shifts[32] = {};
    for (size_t i = 0; i < row.size(); ++i) {
      float &total = totals[i / 8 % 32], &shift = shifts[i / 8 % 32];
      shift = std::fma(row[i], norm.beta.empty() ? 0.0f : norm.beta[i], shift);
      row[i] = row[i] * (norm.gamma.empty() ? 1.0f : norm.gamma[i]);
      total = total + row[i];
    }
    for (size_t distance = 16; distance != 0; distance /= 2)
      for (size_t i = 0; i < distance; ++i) {
        totals[i] = totals[i] + totals[i + distance];
        shifts[i] = shifts[i] + shifts[i + distance];
      }
    const float mean = norm.kind == Norm::Kind::layer ? totals[0] / static_cast<float>(w.k) : 0.0f;
    for (size_t i = 0; i < row.size(); ++i) {
      const float centred = row[i] - mean;
      folded.w.codes[n * row.size() + i] = encode_output(w.type, double{centred});
    }
    folded.bias.push_back(bias.empty() ? shifts[0] : shifts[0] + bias[n]);
  }
  return folded;
}

NormalisedRow normalised_row(const Matrix& x, size_t row, const Norm& norm, float d_scale) {
  NormalisedRow out{std::vector<float>(static_cast<size_t>(x.k)), {}, Inverse(d_scale)};
  read_row(x, row * out.plain.size(), &out.plain);
  const RowStatistics of_row = statistics(out.plain.data(), x.k, norm);
  const bool layer = norm.kind == Norm::Kind::layer;
  out.inverse.inverse =
      layer ? std::fma(of_row.rstd, 0.0f, out.inverse.inverse) : out.inverse.inverse * of_row.rstd;
  out.inverse.sixth = out.inverse.inverse * 0x1.555556p-3f;
  out.values = out.plain;
  to_quantise(&out.values, of_row, norm);
  for (float& value : out.plain)
    if (layer) value = (value - of_row.mean) * of_row.rstd;
  return out;
}

Operand quantize(const Matrix& x, const Norm& norm, float d_scale) {
  Operand out{x.rows, x.k, x.l, {}, {}};
  out.values.resize(x.codes.size() / 2);
  out.scales.resize(x.codes.size() / 16);
  const auto k = static_cast<size_t>(x.k);
  for (size_t first = 0; first < x.codes.size(); first += k) {
    const NormalisedRow row = normalised_row(x, first / k, norm, d_scale);
    for (size_t i = 0; i < k; i += 16)
      quantize_block(&row.values[i], row.inverse, &out.values[(first + i) / 2],
                     &out.scales[(first + i) / 16]);
  }
  return out;
}

} // namespace wltest
