#include "tests/problems/nvfp4.hpp"

#include "tests/support/device_buffer.hpp"

#include <cstring>

namespace wltest::problems {

namespace {

enum class Scales { plain, subnormal, largest, zero, one_nan };

Scales kind_of_row(const Random& random, uint64_t row) {
  const uint64_t draw = random.below(row, 64);
  if (draw < 48) return Scales::plain;
  if (draw < 54) return Scales::subnormal;
  if (draw < 60) return Scales::largest;
  return draw < 62 ? Scales::zero : draw == 62 ? Scales::one_nan : Scales::plain;
}

} // namespace

Operand draw_operand(int64_t rows, int64_t k, int64_t l, uint8_t base, uint64_t seed,
                     uint64_t codes, Rows of) {
  Operand o{rows, k, l, {}, {}};
  o.values.resize(static_cast<size_t>(l * rows * (k / 2)));
  o.scales.resize(static_cast<size_t>(l * rows * (k / 16)));
  const Random values(seed, 0), scales(seed, 1), kinds(seed, 2), signs(seed, 3);
  for (size_t i = 0; i < o.values.size(); ++i)
    o.values[i] = static_cast<uint8_t>(values.bits(i) >> 56);
  const auto blocks = static_cast<uint64_t>(k / 16);
  Scales kind = Scales::plain;
  for (size_t i = 0; i < o.scales.size(); ++i) {
    const uint64_t row = i / blocks;
    uint8_t code = static_cast<uint8_t>(base + scales.below(i, codes));
    if (i % blocks == 0) kind = kind_of_row(kinds, row);
    if (of == Rows::finite && (kind == Scales::largest || kind == Scales::one_nan))
      kind = Scales::plain;
    switch (kind) {
    case Scales::plain:
      break;
    case Scales::subnormal:
      code = static_cast<uint8_t>(scales.below(i, 8));
      break;
    case Scales::largest:
      code = static_cast<uint8_t>(0x78 + scales.below(i, 7));
      break;
    case Scales::zero:
      code = 0;
      break;
    case Scales::one_nan:
      // Often the last one: what a lane keeps of it meets what lies beyond K.
      if (i % blocks == (row % 2 == 0 ? row / 2 % blocks : blocks - 1)) code = 0x7F;
      break;
    }
    if (signs.below(i, 4) == 0) code |= 0x80;
    o.scales[i] = code;
  }
  return o;
}

Bytes scale_bytes(const Operand& operand, uint8_t padding, wl_sf_layout layout) {
  return layout == WL_SF_PLAIN ? operand.scales : packed_scales(operand, padding);
}

void expect_scales(const Operand& operand, Output* output) {
  const Bytes one = packed_scales(operand, 0), other = packed_scales(operand, 1);
  output->runs.push_back(one);
  output->written.resize(one.size());
  for (size_t i = 0; i < one.size(); ++i) output->written[i] = one[i] == other[i];
}

size_t draw_alignment(Draw& draw, const std::string& field) {
  return draw.pick<size_t>(field, {0, 16, 32, 48, 112, 80});
}

size_t draw_float_alignment(Draw& draw, const std::string& field) {
  return draw.pick<size_t>(field, {0, 4, 8, 12, 20});
}

Bytes bytes_of(float value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

void draw_way(Draw& draw, Problem* problem, int64_t products) {
  problem->runs = 2;
  constexpr int64_t few = 1 << 17;
  problem->in_a_row = draw.pick("in a row", {1, 1, 2});
  if (products > few) problem->in_a_row = draw.note("in a row", 1);
  const auto way =
      draw.pick<const char*>("way", {"default stream", "own stream", "captured graph"});
  problem->way = way[0] == 'd'   ? Way::default_stream
                 : way[0] == 'o' ? Way::own_stream
                                 : Way::captured;
  problem->workspace_misalignment = draw.pick<size_t>("workspace", {0, 256});
}

} // namespace wltest::problems
