#include "tests/problems/telling.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wltest::problems {

namespace {

float towards_zero(double exact) {
  const auto nearest = static_cast<float>(exact);
  return std::fabs(double{nearest}) > std::fabs(exact) ? std::nextafter(nearest, 0.0f) : nearest;
}

uint16_t encode(wl_dtype type, double value) {
  return type == WL_F16 ? encode_f16(value) : encode_bf16(value);
}
double decode(wl_dtype type, uint16_t code) {
  return type == WL_F16 ? decode_f16(code) : decode_bf16(code);
}

// A number whose code is not that of `from`, next to one that has it, on the way from there to
// `to`, which has another one.
template <class Code>
float beyond_edge(float from, float to, const Code& code) {
  for (const auto first = code(from);;) {
    const float middle = from + (to - from) / 2;
    if (middle == from || middle == to) return to;
    (code(middle) == first ? from : to) = middle;
  }
}

void set(Numbers* numbers, size_t at, float value) {
  numbers->values[at] = value;
  std::memcpy(&numbers->bytes[4 * at], &value, 4);
}

// Halfway between two E2M1 numbers.
constexpr double code_edges[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};

} // namespace

void tell_by_biases(const Sums& sums, const BiasedRows& rows, const Gate& gate, wl_dtype type,
                    uint64_t seed, Numbers* bias1, Numbers* bias2) {
  const Random random(seed, 86);
  const auto count = static_cast<uint64_t>(rows.end - rows.first);
  constexpr uint64_t tries = 24;
  for (size_t column = 0; column < static_cast<size_t>(sums.n) && count != 0; ++column) {
    if (random.below(4 * tries * column + 3, 8) == 0) continue; // as drawn
    // A sum of integers that FP32 does not hold, of either product, tells how it is rounded, too.
    const auto& other_sums = random.below(4 * tries * column + 7, 2) == 0 ? sums.acc1 : sums.acc2;
    const auto is_cut = [&](size_t i) {
      return double{towards_zero(other_sums[i])} != double{static_cast<float>(other_sums[i])};
    };
    const auto index_of = [&](size_t row) {
      return (static_cast<size_t>(rows.first) + row) * static_cast<size_t>(sums.n) + column;
    };
    bool some_cut = false;
    for (size_t row = 0; row < count && !some_cut; ++row) some_cut = is_cut(index_of(row));
    for (uint64_t t = 0; t < tries; ++t) {
      const uint64_t at = 4 * (tries * column + t);
      const size_t i = index_of(random.below(at, count));
      if (some_cut && t + 4 < tries && !is_cut(i)) continue;
      const auto acc1 = static_cast<float>(sums.acc1[i]), acc2 = static_cast<float>(sums.acc2[i]);
      const double exact1 = double{acc1} * rows.alpha1, exact2 = double{acc2} * rows.alpha2;
      // Smaller than the sums, so that the biases' last places are: the first bias beyond an edge
      // of D then makes a sum that is rounded away from zero across it.
      const auto first = static_cast<float>(exact1 * (random.uniform(at + 1) - 0.3));
      const float x1 = std::fma(acc1, rows.alpha1, first);
      const float cut1 = towards_zero(exact1 + first);
      // The gate's second factor, and what it is with a first one of a power of two. In every other
      // column of a clamped gate its addend tells how it is added: to less than itself.
      const bool clamped = gate.kind == WL_GATE_CLAMPED;
      const bool of_addend = clamped && column % 2 == 1;
      const auto from = static_cast<float>(of_addend ? 0.9 * random.uniform(at + 2) - exact2
                                                     : exact2 * (random.uniform(at + 2) - 0.3));
      const auto to =
          static_cast<float>(from + std::ldexp(exact2 + from + (of_addend ? 1 : 0),
                                               type == WL_F16 ? -9 : -6)); // a number of D further
      if (x1 == cut1 || !std::isfinite(x1) || !std::isfinite(to) || to == from) continue;
      const auto factor_of = [&](float value) {
        if (gate.limit != 0) value = std::clamp(value, -gate.limit, gate.limit);
        return clamped ? value + 1.0f : value;
      };
      const float unit = clamped ? 0.0f : 0.5f, units = clamped ? 1.0f : 2.0f;
      const float s = units * gated_replayed(gate, {x1, unit, 1, 1});
      const float cut_s = units * gated_replayed(gate, {cut1, unit, 1, 1});
      const auto code_of = [&](float bias) {
        return encode(type, double{s * factor_of(std::fma(acc2, rows.alpha2, bias))});
      };
      if (code_of(from) == code_of(to)) continue;
      const float second = beyond_edge(from, to, code_of);
      const float up = factor_of(std::fma(acc2, rows.alpha2, second));
      const float cut_up = of_addend
                               ? towards_zero(double{std::fma(acc2, rows.alpha2, second)} + 1.0)
                               : factor_of(towards_zero(exact2 + second));
      const uint16_t code = encode(type, double{s * up});
      if (encode(type, double{s * cut_up}) == code ||
          (!of_addend && (encode(type, double{cut_s * up}) == code ||
                          encode(type, double{towards_zero(double{s} * up)}) == code)))
        continue;
      set(bias1, rows.biases + column, first);
      set(bias2, rows.biases + column, second);
      break;
    }
  }
}

void tell_by_bias(const Sums& sums, const BiasedRows& rows, wl_dtype type, uint64_t seed,
                  Numbers* bias) {
  const Random random(seed, 89);
  const auto count = static_cast<uint64_t>(rows.end - rows.first);
  constexpr uint64_t tries = 24;
  for (size_t column = 0; column < static_cast<size_t>(sums.n) && count != 0; ++column) {
    if (random.below(4 * tries * column + 3, 8) == 0) continue; // as drawn
    for (uint64_t t = 0; t < tries; ++t) {
      const uint64_t at = 4 * (tries * column + t);
      const size_t row = static_cast<size_t>(rows.first) + random.below(at, count);
      const auto acc = static_cast<float>(sums.acc1[row * static_cast<size_t>(sums.n) + column]);
      const double exact = double{acc} * rows.alpha1;
      // Smaller than the sum, so that its last places are.
      const auto from = static_cast<float>(exact * (random.uniform(at + 1) - 0.3));
      const auto to = static_cast<float>(
          from + std::ldexp(exact + from, type == WL_F16 ? -9 : -6)); // a number of D further
      if (!std::isfinite(exact) || !std::isfinite(to) || to == from) continue;
      const auto code_of = [&](float value) {
        return encode(type, double{std::fma(acc, rows.alpha1, value)});
      };
      if (code_of(from) == code_of(to)) continue;
      const float value = beyond_edge(from, to, code_of);
      if (encode(type, double{towards_zero(exact + value)}) == code_of(value)) continue;
      set(bias, rows.biases + column, value);
      break;
    }
  }
}

void cancel(const std::vector<float>& out, wl_dtype type, Numbers* residual) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t code = encode(type, double{-out[i]});
    if (!std::isfinite(decode(type, code))) continue;
    // The number of D beyond the result, as seen from the nearest one.
    const double size = std::fabs(double{out[i]});
    const auto nearest = static_cast<uint16_t>(code & 0x7FFF);
    const auto other =
        static_cast<uint16_t>(nearest + (decode(type, nearest) > size && nearest != 0 ? -1 : 1));
    const double edge = (decode(type, nearest) + decode(type, other)) / 2;
    const double place =
        double{std::nextafter(std::fabs(out[i]), INFINITY)} - size; // FP32's last one
    for (const double beside : {-0.25, -0.5, 0.75}) {
      const uint16_t telling = encode(type, (edge + beside * place - size) * (out[i] < 0 ? -1 : 1));
      const double sum = double{out[i]} + decode(type, telling);
      if (encode(type, double{static_cast<float>(sum)}) !=
          encode(type, double{towards_zero(sum)})) {
        code = telling;
        break;
      }
    }
    residual->values[i] = static_cast<float>(decode(type, code));
    std::memcpy(&residual->bytes[2 * i], &code, 2);
  }
}

void tell_by_codes(const Matrix& x, float d_scale, uint64_t seed, Norm* norm) {
  std::vector<float>* const numbers = !norm->beta.empty() ? &norm->beta : &norm->gamma;
  if (numbers->empty()) return;
  const Random random(seed, 87);
  const auto count = static_cast<uint64_t>(x.rows * x.l);
  std::vector<NormalisedRow> rows;
  for (uint64_t i = 0; i < std::min<uint64_t>(count, 16); ++i)
    rows.push_back(normalised_row(x, random.below(i, count), *norm, d_scale));
  const bool is_beta = numbers == &norm->beta;
  for (size_t block = 0; block < numbers->size() / 16; ++block)
    for (size_t t = 0; t < rows.size(); ++t) {
      NormalisedRow& row = rows[(block + t) % rows.size()];
      float* const values = &row.values[16 * block];
      const auto largest = static_cast<size_t>(
          std::max_element(values, values + 16,
                           [](float x, float y) { return std::fabs(x) < std::fabs(y); }) -
          values);
      uint8_t scale = 0;
      float factor = block_factor(values, row.inverse, &scale);
      // The largest scale under a larger number, too, which the fast way of quantising does not
      // take.
      const bool usual = std::all_of(values, values + 16, [](float v) { return std::isfinite(v); });
      if (!usual || !std::isnormal(factor)) continue;
      // The value that a beta or gamma makes, and one of those that make a value.
      const auto value_of = [&](size_t i, float number) {
        const size_t at = 16 * block + i;
        const float gamma = norm->gamma.empty() ? 1.0f : norm->gamma[at];
        return is_beta ? std::fma(row.plain[at], gamma, number) : row.plain[at] * number;
      };
      const auto number_for = [&](size_t i, double value) {
        const size_t at = 16 * block + i;
        const float gamma = norm->gamma.empty() ? 1.0f : norm->gamma[at];
        return static_cast<float>(is_beta ? value - double{row.plain[at]} * gamma
                                          : value / row.plain[at]);
      };
      const auto tell = [&](size_t i, double least, double most, const auto& code_of) {
        const auto code = [&](float number) { return code_of(value_of(i, number)); };
        const float from = number_for(i, least), to = number_for(i, most);
        if (!std::isfinite(from) || !std::isfinite(to) || code(from) == code(to)) return;
        float& number = (*numbers)[16 * block + i];
        number = beyond_edge(from, to, code);
        // Or the last one before the edge: ties that are rounded towards zero.
        if (random.below(200 + 16 * (numbers->size() + block) + i, 2) == 0)
          number = std::nextafter(number, from);
        values[i] = value_of(i, number);
      };
      // Of the largest number the last place decides between two scales, or, under the largest
      // scale, whether the fast way takes it: it does below 7 steps.
      const double size = values[largest];
      if (random.below(50 + block, 2) != 0 && (scale & 0x7F) == 0x7E)
        tell(largest, std::copysign(6.9, size) / factor, std::copysign(7.1, size) / factor,
             [&](float value) { return std::fabs(value * factor) < 7; });
      else if (random.below(50 + block, 2) != 0 && (scale & 0x7F) >= 8 && (scale & 0x7F) < 0x7D)
        tell(largest, size, size * 1.125, [&](float value) {
          const float product = std::fabs(value) * row.inverse.sixth;
          return encode_e4m3(double{product});
        });
      factor = block_factor(values, row.inverse, &scale);
      for (size_t i = 0; i < 16; ++i) {
        const double edge =
            std::copysign(code_edges[random.below(100 + 16 * block + i, 7)], values[i]) / factor;
        if (i != largest)
          tell(i, 0.99 * edge, 1.01 * edge,
               [&](float value) { return encode_e2m1(double{value * factor}); });
      }
      break;
    }
}

void tell_by_ties(float d_scale, uint64_t seed, Matrix* x) {
  const Random random(seed, 88);
  for (size_t block = 0; block < x->codes.size() / 16; ++block) {
    const uint64_t at = 64 * block;
    if (random.below(at + 20, 2) == 0) continue;
    // A scale as the largest number asks for it, or the largest scale under a larger one.
    const bool beyond = random.below(at, 4) == 0;
    const double scale = beyond ? 448
                                : std::ldexp(static_cast<double>(8 + random.below(at + 1, 8)),
                                             static_cast<int>(random.below(at + 2, 4)) - 4);
    const size_t largest = random.below(at + 3, 16);
    uint16_t codes[16];
    bool held = true;
    for (size_t i = 0; i < 16; ++i) {
      const uint64_t drawn = random.below(at + 4 + i, 14);
      // 7 steps are the first number that the fast way does not take.
      const double steps = i == largest ? (!beyond     ? 6
                                           : drawn < 7 ? 7
                                                       : 12)
                                        : code_edges[drawn / 2];
      const double value = (drawn % 2 == 0 ? steps : -steps) * scale * d_scale;
      codes[i] = encode_output(x->type, value);
      // Or the first number beyond the tie.
      if (i != largest && random.below(at + 21 + i, 3) == 0) ++codes[i];
      held = held && (i != largest || decode_output(x->type, codes[i]) == value);
    }
    if (held) std::copy_n(codes, 16, &x->codes[16 * block]);
  }
}

} // namespace wltest::problems
