#include "tests/problems/nvfp4.hpp"

#include "tests/reference/quantize.hpp"
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

std::vector<size_t> places_of_scales(size_t blocks,
                                     const std::function<Bytes(const Bytes&, uint8_t)>& pack) {
  std::vector<size_t> places(blocks, no_scale);
  // Each block's number a byte at a time: what depends on the padding is no scale.
  Bytes digit(blocks);
  std::vector<size_t> numbers;
  std::vector<bool> padding;
  for (size_t shift = 0; shift == 0 || blocks >> shift != 0; shift += 8) {
    for (size_t b = 0; b < blocks; ++b) digit[b] = static_cast<uint8_t>(b >> shift);
    const Bytes one = pack(digit, 0);
    numbers.resize(one.size());
    padding.resize(one.size());
    for (size_t i = 0; i < one.size(); ++i) numbers[i] |= size_t{one[i]} << shift;
    if (shift != 0) continue;
    const Bytes other = pack(digit, 1);
    for (size_t i = 0; i < one.size(); ++i) padding[i] = one[i] != other[i];
  }
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!padding[i]) places[numbers[i]] = i;
  return places;
}

MadeBlocks made_blocks(const std::vector<float>& values, const Operand& blocks, float d_scale) {
  const auto pack = [&](const Bytes& scales, uint8_t padding) {
    Operand of = blocks;
    of.scales = scales;
    return packed_scales(of, padding);
  };
  return {values, d_scale, places_of_scales(blocks.scales.size(), pack)};
}

void accept_near_blocks(const MadeBlocks& made, const Output& d, const Output& sfd, size_t run,
                        uint8_t* d_found, uint8_t* sfd_found) {
  const uint8_t* const codes = d.runs[run % d.runs.size()].data();
  const uint8_t* const scales = sfd.runs[run % sfd.runs.size()].data();
  const Inverse scale_of_all(made.d_scale);
  for (size_t block = 0; block < made.scales.size(); ++block) {
    const size_t at = made.scales[block];
    if (at == no_scale) continue;
    uint8_t* const found = d_found + 8 * block;
    if (std::memcmp(found, codes + 8 * block, 8) == 0 && sfd_found[at] == scales[at]) continue;
    if (!is_block_near(&made.values[16 * block], exponentials_change, scale_of_all, found,
                       sfd_found[at]))
      continue;
    std::memcpy(found, codes + 8 * block, 8);
    sfd_found[at] = scales[at];
  }
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
