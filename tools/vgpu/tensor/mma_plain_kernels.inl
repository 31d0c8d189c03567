// The inner loops of mma_plain.cpp. That file includes this one several times, in a namespace of
// its own for every instruction set: function multiversioning by the linker does not run under the
// thread sanitizer.

// What values that are not finite add to top and bottom is not read.
Range range_of(const float* values, int count) {
  constexpr int kNone = 100000;
  Ints largest = {}, lowest = kNone - Ints{};
  for (int i = 0; i < count; i += 8) {
    Ints bits = {};
    std::memcpy(&bits, values + i, size_t(std::min(count - i, 8)) * sizeof(float));
    bits &= 0x7FFFFFFF;
    const Ints exponent = bits >> 23, subnormal = exponent == 0;
    const Ints mantissa = (bits & 0x7FFFFF) | (~subnormal & 0x800000);
    // The lowest bit as a float has its place as exponent.
    const Floats lowest_bit = __builtin_convertvector(mantissa & -mantissa, Floats);
    Ints place;
    std::memcpy(&place, &lowest_bit, sizeof place);
    place = exponent - subnormal - 150 + (place >> 23) - 127;
    const Ints none = bits == 0;
    place = (none & kNone) | (~none & place);
    const Ints lower = place<lowest, larger = bits> largest;
    lowest = (lower & place) | (~lower & lowest);
    largest = (larger & bits) | (~larger & largest);
  }
  Range range;
  int size = 0;
  for (int l = 0; l < 8; ++l) {
    range.bottom = std::min(range.bottom, int(lowest[l]));
    size = std::max(size, int(largest[l]));
  }
  if (size == 0) return range;
  range.finite = size < 0x7F800000;
  range.top = size >= 0x800000 ? (size >> 23) - 127 : 31 - std::countl_zero(uint32_t(size)) - 149;
  return range;
}

// Sums of products of one row with all columns. Zeros add nothing to a sum that starts as 0.
void dot_row(const Panels& p, int row, double* out) {
  const double *a = &p.a[size_t(row * p.k)], *b = p.b.data();
  const int n_padded = p.n_padded;
  for (int c = 0; c < n_padded; c += kColumns) {
    Doubles sum[2] = {};
    const int k = p.adds_zeros(row, c) ? 0 : p.k;
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
void finish_row(const double* sum, int n_padded, double scale, float* d) {
  for (int c = 0; c < n_padded; c += 8) {
    Floats old;
    Doubles y;
    std::memcpy(&old, d + c, sizeof old);
    std::memcpy(&y, sum + c, sizeof y);
    Doubles x = __builtin_convertvector(old, Doubles) * scale;
    Doubles high = x + y;
    Doubles part = high - x;
    Doubles rest = (x - (high - part)) + (y - part);
    Longs bits, rest_bits;
    std::memcpy(&bits, &high, sizeof bits);
    std::memcpy(&rest_bits, &rest, sizeof rest_bits);
    // Masks by arithmetic: g++ 12 takes comparisons of 64-byte vectors apart.
    Longs size = rest_bits & INT64_MAX;
    Longs inexact = (size | -size) >> 63;
    Longs even = (bits & 1) - 1;
    Longs finite = ((((bits >> 52) & 0x7FF) + 1) >> 11) - 1;
    Longs step = 1 + 2 * ((rest_bits ^ bits) >> 63);
    bits += step & inexact & even & finite;
    std::memcpy(&high, &bits, sizeof bits);
    Floats result = __builtin_convertvector(high, Floats);
    Ints is_nan = result != result;
    Ints words;
    std::memcpy(&words, &result, sizeof words);
    words = (words & ~is_nan) | (is_nan & int32_t(num::kF32Nan));
    std::memcpy(d + c, &words, sizeof words);
  }
}

void run_sequential(const PlainMma& op, const Panels& p, float* d, ptrdiff_t ld) {
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

void run_aligned(const PlainMma& op, Panels& p, float* d, ptrdiff_t ld) {
  // Exponents of operands once; the exponent of a product is the sum of its operands' exponents.
  std::vector<int64_t>&a_exponent = p.a_exponent, &b_exponent = p.b_exponent;
  a_exponent.resize(p.a.size());
  b_exponent.resize(p.b.size());
  constexpr int64_t kNone = -100000;
  constexpr int kLanes = 8; // columns at a time
  // Every operand and accumulator is a normal double or zero.
  auto exponent_of = [](double x) {
    const auto field = int64_t(std::bit_cast<uint64_t>(x) >> 52 & 0x7FF);
    return field == 0 || field == 0x7FF ? kNone : field - 1023;
  };
  for (size_t i = 0; i < p.a.size(); ++i) a_exponent[i] = exponent_of(p.a[i]);
  for (size_t i = 0; i < p.b.size(); ++i) b_exponent[i] = exponent_of(p.b[i]);
  double scale_d = std::ldexp(1.0, -op.scale_d);
  std::vector<float> line(size_t(p.n_padded));
  for (int r = 0; r < p.m; ++r) {
    float* row = d + r * ld;
    std::fill(line.begin(), line.end(), 0.0f);
    if (op.accumulate) std::memcpy(line.data(), row, size_t(p.n) * sizeof(float));
    const double* a = &p.a[size_t(r * p.k)];
    const int64_t* a_exponents = &a_exponent[size_t(r * p.k)];
    for (int c = 0; c < p.n; c += kLanes) {
      double start[kLanes], plain[kLanes], product[kMaxK][kLanes];
      int64_t top[kLanes];
      bool negative_zero = false;
      for (int l = 0; l < kLanes; ++l) {
        start[l] = plain[l] = line[size_t(c + l)] * scale_d;
        top[l] = exponent_of(start[l]);
        negative_zero |= start[l] == 0 && std::signbit(start[l]);
      }
      // Zeros add nothing, but that they make a negative zero a positive one.
      const int k = p.adds_zeros(r, c) && !negative_zero ? 0 : p.k;
      for (int i = 0; i < k; ++i) {
        const double* b = &p.b[size_t(i * p.n_padded + c)];
        const int64_t* b_exponents = &b_exponent[size_t(i * p.n_padded + c)];
        for (int l = 0; l < kLanes; ++l) {
          product[i][l] = a[i] * b[l];
          plain[l] += product[i][l];
          top[l] = std::max(top[l], a_exponents[i] + b_exponents[l]);
        }
      }
      double up[kLanes], down[kLanes], total[kLanes];
      bool sums[kLanes];
      for (int l = 0; l < kLanes; ++l) {
        sums[l] = std::isfinite(plain[l]) && top[l] > kNone / 2;
        if (!sums[l]) top[l] = 0;
        // Exact: |top| < 300, so both powers and all products with them are normal or cut to 0.
        up[l] = power_of_two(int(op.fraction_bits - top[l]));
        down[l] = power_of_two(int(top[l] - op.fraction_bits));
      }
      // Cut to whole numbers by an integer: less than 2^(fraction_bits + 2), but in columns that do
      // not sum, whose total nobody reads.
      Doubles sum, scaled, ups;
      std::memcpy(&ups, up, sizeof ups);
      std::memcpy(&scaled, start, sizeof scaled);
      sum = __builtin_convertvector(__builtin_convertvector(scaled * ups, Ints), Doubles);
      for (int i = 0; i < k; ++i) {
        std::memcpy(&scaled, product[i], sizeof scaled);
        sum += __builtin_convertvector(__builtin_convertvector(scaled * ups, Ints), Doubles);
      }
      std::memcpy(total, &sum, sizeof total);
      for (int l = 0; l < kLanes; ++l) {
        const float result =
            sums[l] ? cut_to_f32(total[l] * down[l], op.result_bits) : canonical(float(plain[l]));
        line[size_t(c + l)] =
            op.d == MmaResult::f16 ? num::f16_to_f32(num::f32_to_f16(result)) : result;
      }
    }
    std::memcpy(row, line.data(), size_t(p.n) * sizeof(float));
  }
}
