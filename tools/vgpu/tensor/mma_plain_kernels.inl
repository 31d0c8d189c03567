// The inner loops of mma_plain.cpp. That file includes this one several times, in a namespace of
// its own for every instruction set: function multiversioning by the linker does not run under the
// thread sanitizer.

// Sums of products of one row with all columns.
void dot_row(const double* a, const double* b, int k, int n_padded, double* out) {
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

void run_aligned(const PlainMma& op, const Panels& p, float* d, ptrdiff_t ld) {
  // Exponents of operands once; the exponent of a product is the sum of its operands' exponents.
  std::vector<int> a_exponent(p.a.size()), b_exponent(p.b.size());
  constexpr int kNone = -100000;
  // Every operand and accumulator is a normal double or zero.
  auto exponent_of = [](double x) {
    int field = int(std::bit_cast<uint64_t>(x) >> 52 & 0x7FF);
    return field == 0 || field == 0x7FF ? kNone : field - 1023;
  };
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
        // Exact: |top| < 300, so both powers and all products with them are normal or cut to 0.
        double up = power_of_two(op.fraction_bits - top),
               down = power_of_two(top - op.fraction_bits);
        double sum = std::trunc(start * up);
        for (int i = 0; i < p.k; ++i) sum += std::trunc(product[i] * up);
        result = cut_to_f32(sum * down, op.result_bits);
      }
      d[r * ld + c] = op.d == MmaResult::f16 ? num::f16_to_f32(num::f32_to_f16(result)) : result;
    }
  }
}
