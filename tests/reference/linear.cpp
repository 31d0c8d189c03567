#include "tests/reference/linear.hpp"

#include "tests/reference/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace wltest {

namespace {

constexpr double log2e = 1.4426950408889634;

float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// max.NaN and min.NaN: of zeros the positive one is the larger.
float max_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
float min_nan(float a, float b) { return -max_nan(-a, -b); }

// x sigma(inner), where inner has the sign of x.
double times_sigma(double x, double inner) {
  return inner < -1400 ? -0.0 : x / (1 + std::exp(-inner));
}
double gelu_inner(double x) {
  return 2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
}

// volatile keeps every operation a rounding of its own, whatever the compiler's flags are.
float sigmoid_times_replayed(float x, const SigmoidFactors& f) {
  const float l = max_nan(x, -100.0f), s = min_nan(l, 100.0f);
  volatile float t = s * s;
  t = std::fma(static_cast<float>(t), f.c1, f.c0);
  t = t * s;
  t = ex2_ftz(t);
  t = t + 1.0f;
  t = rcp_ftz(t);
  volatile float result = l * t;
  return result;
}

float gelu_erf_replayed(float x) {
  const float w = min_nan(std::fabs(x), 100.0f);
  volatile float z = w * of_bits(0x3F3504F3);
  volatile float t = std::fma(static_cast<float>(z), of_bits(0x3EA7BA05), 1.0f);
  t = rcp_ftz(t);
  volatile float e = z * z;
  e = e * of_bits(0xBFB8AA3B);
  e = ex2_ftz(e);
  volatile float h = std::fma(static_cast<float>(t), of_bits(0x3F87DC22), of_bits(0xBFBA00E3));
  h = std::fma(static_cast<float>(h), static_cast<float>(t), of_bits(0x3FB5F0E3));
  h = std::fma(static_cast<float>(h), static_cast<float>(t), of_bits(0xBE91A98E));
  h = std::fma(static_cast<float>(h), static_cast<float>(t), of_bits(0x3E827906));
  h = h * t;
  h = h * e;
  volatile float half = w * 0.5f;
  h = h * half;
  volatile float result = max_nan(x, 0.0f) - h;
  return result;
}

} // namespace

SigmoidFactors sigmoid_factors(wl_activation activation) {
  if (activation == WL_ACTIVATION_SILU) return {static_cast<float>(-log2e), 0};
  if (activation != WL_ACTIVATION_GELU_TANH) return {};
  const double c0 = -2 * std::sqrt(2 / std::acos(-1.0)) * log2e;
  return {static_cast<float>(c0), static_cast<float>(0.044715 * c0)};
}

double activated(wl_activation activation, double x) {
  switch (activation) {
  case WL_ACTIVATION_NONE:
    return x;
  case WL_ACTIVATION_RELU:
    return std::isnan(x) ? x : std::max(x, 0.0);
  case WL_ACTIVATION_RELU_SQUARED:
    return std::isnan(x) ? x : std::max(x, 0.0) * std::max(x, 0.0);
  case WL_ACTIVATION_SILU:
    return x / (1 + std::exp(-x));
  case WL_ACTIVATION_GELU_TANH:
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  default:
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  }
}

float activated_replayed(wl_activation activation, float x) {
  volatile float positive = max_nan(x, 0.0f);
  switch (activation) {
  case WL_ACTIVATION_NONE:
    return x;
  case WL_ACTIVATION_RELU:
    return positive;
  case WL_ACTIVATION_RELU_SQUARED:
    positive = positive * positive;
    return positive;
  case WL_ACTIVATION_GELU_ERF:
    return gelu_erf_replayed(x);
  default:
    return sigmoid_times_replayed(x, sigmoid_factors(activation));
  }
}

double linear(wl_activation activation, const LinearInputs& in) {
  const double x = double{in.row} * in.col * in.alpha * in.acc + in.bias;
  // Of -infinity the kernels make the limit; the formulas make NaN of it.
  const bool limit = std::isinf(x) && x < 0 && activation >= WL_ACTIVATION_SILU;
  const double y = limit ? -0.0 : activated(activation, x);
  return in.residual != nullptr ? y + *in.residual : y;
}

float linear_replayed(wl_activation activation, const LinearInputs& in) {
  volatile float factor = in.alpha * in.col;
  factor = factor * in.row;
  const float y = std::fma(static_cast<float>(in.acc), static_cast<float>(factor), in.bias);
  volatile float result = activated_replayed(activation, y);
  if (in.residual != nullptr) result = result + *in.residual;
  return result;
}

namespace {

// one(activation, inputs) of every output.
template <class Value, class One>
std::vector<Value> each_output(const Sums& sums, const LinearOperands& operands, One one) {
  std::vector<Value> out(sums.acc1.size());
  const auto n = static_cast<size_t>(sums.n);
  for (size_t i = 0; i < out.size(); ++i) {
    LinearInputs in;
    in.acc = sums.acc1[i];
    in.alpha = operands.alpha;
    if (!operands.row.empty()) in.row = operands.row[i / n];
    if (!operands.col.empty()) in.col = operands.col[i % n];
    if (!operands.bias.empty()) in.bias = operands.bias[i % n];
    if (!operands.residual.empty()) in.residual = &operands.residual[i];
    out[i] = one(operands.activation, in);
  }
  return out;
}

} // namespace

std::vector<double> linear(const Sums& sums, const LinearOperands& operands) {
  return each_output<double>(sums, operands, [](wl_activation activation, const LinearInputs& in) {
    return linear(activation, in);
  });
}

std::vector<float> linear_replayed(const Sums& sums, const LinearOperands& operands) {
  return each_output<float>(sums, operands, [](wl_activation activation, const LinearInputs& in) {
    return linear_replayed(activation, in);
  });
}

std::vector<uint8_t> rounded(const std::vector<float>& values, wl_dtype type) {
  const size_t element = type == WL_F32 ? 4 : 2;
  std::vector<uint8_t> bytes(element * values.size());
  if (values.empty()) return bytes;
  if (type == WL_F32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t code =
        type == WL_F16 ? encode_f16(double{values[i]}) : encode_bf16(double{values[i]});
    std::memcpy(&bytes[2 * i], &code, 2);
  }
  return bytes;
}

int64_t count_unequal(const std::vector<uint8_t>& found, const std::vector<uint8_t>& expected,
                      wl_dtype type) {
  const size_t element = type == WL_F32 ? 4 : 2;
  const uint32_t infinity = type == WL_F16 ? 0x7C00 : type == WL_BF16 ? 0x7F80 : 0x7F800000;
  const uint32_t magnitude = type == WL_F32 ? 0x7FFFFFFF : 0x7FFF;
  int64_t count = 0;
  for (size_t at = 0; at < expected.size(); at += element) {
    uint32_t bits[2] = {};
    std::memcpy(&bits[0], &found[at], element);
    std::memcpy(&bits[1], &expected[at], element);
    const auto is_nan = [&](uint32_t code) { return (code & magnitude) > infinity; };
    count += bits[0] != bits[1] && !(is_nan(bits[0]) && is_nan(bits[1]));
  }
  return count;
}

Operand quantized(const std::vector<float>& values, const Sums& shape, float d_scale) {
  Operand out{shape.m, shape.n, shape.l, {}, {}};
  out.values.resize(values.size() / 2);
  out.scales.resize(values.size() / 16);
  const Inverse scale_of_all(d_scale);
  for (size_t block = 0; block < out.scales.size(); ++block)
    quantize_block(&values[16 * block], scale_of_all, &out.values[8 * block], &out.scales[block]);
  return out;
}

double gated(const Gate& gate, const GatedInputs& in) {
  double x1 = in.acc1 * in.alpha1 + in.bias1, x2 = in.acc2 * in.alpha2 + in.bias2;
  if (gate.limit != 0) {
    const double limit = gate.limit;
    x1 = std::min(x1, limit); // both leave a NaN as it is
    x2 = std::clamp(x2, -limit, limit);
  } else if (gate.kind == WL_GATE_SILU) {
    return activated(WL_ACTIVATION_SILU, x1) * x2;
  }
  switch (gate.kind) {
  case WL_GATE_SILU:
    return times_sigma(x1, x1) * x2;
  case WL_GATE_GELU_TANH:
    return times_sigma(x1, gelu_inner(x1)) * x2;
  default:
    return times_sigma(x1, 1.702 * x1) * (x2 + 1);
  }
}

float gated_replayed(const Gate& gate, const GatedInputs& in) {
  float x1 = std::fma(static_cast<float>(in.acc1), in.alpha1, in.bias1);
  float x2 = std::fma(static_cast<float>(in.acc2), in.alpha2, in.bias2);
  volatile float s, d;
  if (gate.kind == WL_GATE_SILU && gate.limit == 0) {
    volatile float t = x1 * of_bits(0xBFB8AA3B);
    t = ex2_ftz(t);
    t = t + 1.0f;
    s = x1 * rcp_ftz(t);
    d = s * x2;
    return d;
  }
  if (gate.limit != 0) {
    x1 = min_nan(x1, gate.limit);
    x2 = max_nan(min_nan(x2, gate.limit), -gate.limit);
  }
  const bool clamped = gate.kind == WL_GATE_CLAMPED;
  s = sigmoid_times_replayed(x1, clamped ? SigmoidFactors{static_cast<float>(-1.702 * log2e), 0}
                                         : sigmoid_factors(gate.kind == WL_GATE_SILU
                                                               ? WL_ACTIVATION_SILU
                                                               : WL_ACTIVATION_GELU_TANH));
  volatile float up = x2;
  if (clamped) up = up + 1.0f;
  d = s * up;
  return d;
}

namespace {

GatedInputs inputs_of(const Sums& sums, const GatedOperands& operands, size_t i) {
  const size_t column = i % static_cast<size_t>(sums.n);
  GatedInputs in{sums.acc1[i], sums.acc2[i], operands.alpha1, operands.alpha2};
  if (!operands.bias1.empty()) in.bias1 = operands.bias1[column];
  if (!operands.bias2.empty()) in.bias2 = operands.bias2[column];
  return in;
}

} // namespace

std::vector<double> gated(const Sums& sums, const GatedOperands& operands) {
  std::vector<double> d(sums.acc1.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = gated(operands.gate, inputs_of(sums, operands, i));
  return d;
}

std::vector<float> gated_replayed(const Sums& sums, const GatedOperands& operands) {
  std::vector<float> d(sums.acc1.size());
  for (size_t i = 0; i < d.size(); ++i)
    d[i] = gated_replayed(operands.gate, inputs_of(sums, operands, i));
  return d;
}

} // namespace wltest
