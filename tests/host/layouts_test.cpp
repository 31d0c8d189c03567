// The bit layouts of ptx/layouts.hpp against literal constants and against the address formulas of
// the tables, written a second way: bits are set one by one, addresses found by walking.
#include "ptx/layouts.hpp"
#include "tests/support/catch.hpp"

#include <set>
#include <vector>

using namespace warpline::ptx;

namespace {

// A value from {first bit, width, value} fields; a value that does not fit breaks the test.
struct Field {
  unsigned bit, width;
  uint64_t value;
};
uint64_t assemble(const std::vector<Field>& fields) {
  uint64_t word = 0;
  for (const Field& field : fields) {
    REQUIRE(field.value < (uint64_t{1} << field.width));
    for (unsigned i = 0; i < field.width; ++i)
      if (field.value & (uint64_t{1} << i)) word += uint64_t{1} << (field.bit + i);
  }
  return word;
}

} // namespace

TEST_CASE("shared-memory descriptors have the constants seen in generated PTX", "[host][layouts]") {
  MatrixDesc operand;
  operand.stride_bytes = 1024;
  operand.layout = Swizzle::b128;
  CHECK(matrix_desc_tcgen05(operand) == 0x4000404000010000);
  CHECK(matrix_desc_wgmma(operand) == 0x4000004000010000);

  MatrixDesc scales;
  scales.stride_bytes = 128;
  CHECK(matrix_desc_tcgen05(scales) == 0x0000400800010000);

  // The kernel builds the same from high and low words.
  CHECK(matrix_desc_tcgen05(operand) >> 32 == 0x40004040);
  CHECK(matrix_desc_tcgen05(scales) >> 32 == 0x00004008);
  CHECK((matrix_desc_tcgen05(operand) & 0xFFFFFFFF) == 0x00010000);
}

TEST_CASE("every field of a shared-memory descriptor has its bits", "[host][layouts]") {
  const Swizzle modes[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128,
                           Swizzle::b128_atom32};
  const uint64_t tcgen05_codes[] = {0, 6, 4, 2, 1};
  const uint64_t wgmma_codes[] = {0, 3, 2, 1};
  for (unsigned i = 0; i < 5; ++i) {
    for (uint32_t address : {0x0u, 0x400u, 0x1C30u, 0x36000u, 0x3FFF0u}) {
      for (uint32_t rank : {0u, 1u, 7u}) {
        MatrixDesc desc;
        desc.address = cluster_address(rank, address);
        desc.leading_bytes = 8192;
        desc.stride_bytes = 2048;
        desc.base_offset = 5;
        desc.leading_absolute = i == 3;
        desc.layout = modes[i];
        const std::vector<Field> common = {
            {0, 14, address / 16}, {16, 14, 8192 / 16}, {32, 14, 2048 / 16}, {49, 3, 5}};
        std::vector<Field> fields = common;
        fields.push_back({46, 3, 1});
        fields.push_back({52, 1, i == 3 ? 1u : 0u});
        fields.push_back({61, 3, tcgen05_codes[i]});
        CHECK(matrix_desc_tcgen05(desc) == assemble(fields));
        if (i < 4) {
          std::vector<Field> hopper = common;
          hopper.push_back({62, 2, wgmma_codes[i]});
          CHECK(matrix_desc_wgmma(desc) == assemble(hopper));
        }
        const MatrixDescFields back = decode_matrix_desc_tcgen05(matrix_desc_tcgen05(desc));
        CHECK(back.address == address);
        CHECK(back.leading_bytes == 8192);
        CHECK(back.stride_bytes == 2048);
        CHECK(back.version == 1);
        CHECK(back.base_offset == 5);
        CHECK(back.leading_absolute == (i == 3 ? 1u : 0u));
        CHECK(back.layout_code == tcgen05_codes[i]);
      }
    }
  }
}

TEST_CASE("instruction descriptors have the constants seen in generated PTX", "[host][layouts]") {
  const auto f16 = DenseType::f16;
  const auto bf16 = DenseType::bf16;
  const auto f32 = AccumulatorType::f32;
  CHECK(dense_instruction_desc(f16, f16, f32, 128, 256) == 0x08400010);
  CHECK(dense_instruction_desc(bf16, bf16, f32, 128, 256, false, true) == 0x08410490);
  CHECK(dense_instruction_desc(f16, f16, f32, 256, 256) == 0x10400010);
  CHECK(fp4_instruction_desc(ScaleType::ue4m3, 128, 128) == 0x08200480);
  CHECK(fp4_instruction_desc(ScaleType::ue4m3, 128, 256) == 0x08400480);
  CHECK(fp4_instruction_desc(ScaleType::ue4m3, 256, 256) == 0x10400480);
  CHECK(fp4_instruction_desc(ScaleType::ue8m0, 128, 128) == 0x08a00480);
  CHECK(mxf8_instruction_desc(Fp8Type::e4m3, Fp8Type::e5m2, 128, 128) == 0x08a00400);
  // The value of the tiles of 64 columns in kernels/gemm/sm100.ptx.
  CHECK(fp4_instruction_desc(ScaleType::ue4m3, 128, 64) == 0x08100480);
}

TEST_CASE("every field of a block-scaled instruction descriptor has its bits", "[host][layouts]") {
  for (uint32_t m : {128u, 256u}) {
    for (uint32_t n = 8; n <= 256; n += 8) {
      for (uint32_t id : {0u, 2u}) {
        for (uint64_t scale : {0u, 1u}) {
          const uint64_t expected = assemble({{4, 2, id},
                                              {7, 3, 1},
                                              {10, 2, 1},
                                              {17, 6, n / 8},
                                              {23, 1, scale},
                                              {27, 2, m / 128},
                                              {29, 2, 2 - id}});
          CHECK(fp4_instruction_desc(static_cast<ScaleType>(scale), m, n, 2 - id, id) == expected);
        }
      }
    }
  }
  for (uint32_t id = 0; id < 4; ++id) {
    const uint64_t expected = assemble(
        {{4, 2, id}, {7, 3, 5}, {10, 3, 4}, {17, 6, 24}, {23, 1, 1}, {27, 2, 1}, {29, 2, 3 - id}});
    CHECK(mxf8_instruction_desc(Fp8Type::e2m1, Fp8Type::e3m2, 128, 192, 3 - id, id) == expected);
  }
}

TEST_CASE("swizzles permute 16-byte units inside their pattern", "[host][layouts]") {
  struct Case {
    Swizzle mode;
    uint32_t pattern, rows, units;
  };
  // Row r of a pattern XORs its unit index with r counted in 128-byte lines.
  const Case cases[] = {{Swizzle::none, 128, 8, 1},
                        {Swizzle::b32, 256, 8, 2},
                        {Swizzle::b64, 512, 8, 4},
                        {Swizzle::b128, 1024, 8, 8}};
  for (const Case& c : cases) {
    CHECK(swizzle_span(c.mode) == c.units * 16);
    std::set<uint32_t> seen;
    for (uint32_t base : {0u, 4u * c.pattern * 8, 0x36000u}) {
      seen.clear();
      for (uint32_t row = 0; row < c.rows; ++row) {
        for (uint32_t unit = 0; unit < c.units; ++unit) {
          const uint32_t line = row * c.units * 16 / 128;
          const uint32_t expected = base + row * c.units * 16 + (unit ^ (line % c.units)) * 16;
          CHECK(swizzle(c.mode, base + row * c.units * 16 + unit * 16) == expected);
          seen.insert(expected);
          MatrixDesc desc;
          desc.address = base;
          desc.stride_bytes = c.pattern;
          desc.layout = c.mode;
          CHECK(k_major_address(desc, row, unit) == expected);
          // Eight rows on lies one stride on.
          CHECK(k_major_address(desc, row + 24, unit) == expected + 3 * c.pattern);
        }
      }
      CHECK(seen.size() == c.rows * c.units);
    }
  }
  // 128-byte rows with 32-byte atoms: pairs of units move together, over four lines.
  for (uint32_t line = 0; line < 8; ++line)
    for (uint32_t unit = 0; unit < 8; ++unit)
      CHECK(swizzle(Swizzle::b128_atom32, line * 128 + unit * 16) ==
            line * 128 + ((unit / 2) ^ (line % 4)) * 32 + unit % 2 * 16);
}

TEST_CASE("a K step of a 128-byte swizzled operand is two units on in every row",
          "[host][layouts]") {
  // The MMA adds 32 bytes of K to the start address; units 0 and 1 of the stepped descriptor must
  // be units 2j and 2j+1 of the tile that TMA wrote with the swizzle of the unstepped one.
  MatrixDesc tile;
  tile.address = 0x8000;
  tile.stride_bytes = 1024;
  tile.layout = Swizzle::b128;
  for (uint32_t j = 0; j < 4; ++j) {
    MatrixDesc step = tile;
    step.address += 32 * j;
    CHECK(matrix_desc_tcgen05(step) == matrix_desc_tcgen05(tile) + j * operand_desc_step);
    for (uint32_t row = 0; row < 128; ++row)
      for (uint32_t unit = 0; unit < 2; ++unit)
        CHECK(k_major_address(step, row, unit) == k_major_address(tile, row, 2 * j + unit));
  }
}

TEST_CASE("scale atoms fill their 512 bytes and meet tensor memory as the copy does",
          "[host][layouts]") {
  std::set<uint32_t> bytes;
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t column = 0; column < 4; ++column) {
      const uint32_t offset = scale_atom_offset(row, column);
      CHECK(offset < scale_atom_bytes);
      bytes.insert(offset);
      // Copy 32x128b: 16-byte row i to lane i, its 32-bit word w to column w.
      CHECK(offset / 16 == scale_tmem_lane(row));
      CHECK(offset % 16 / 4 == scale_tmem_column(row));
      CHECK(offset % 4 == column);
    }
  }
  CHECK(bytes.size() == scale_atom_bytes);
  CHECK(scale_atom_offset(33, 2) == 16 + 4 + 2);
  CHECK(scale_atom_offset(127, 3) == 31 * 16 + 3 * 4 + 3);
  // Rows 64 to 127 start two columns further: the second half of an atom.
  CHECK(scale_tmem_column(64) == 2);
}

TEST_CASE("tensor memory and cluster addresses", "[host][layouts]") {
  CHECK(tmem_address(32, 256) == 0x00200100);
  CHECK(tmem_lane(0x00600130) == 96);
  CHECK(tmem_column(0x00600130) == 0x130);
  CHECK(tmem_column(0xC0000130) == 0x130);
  CHECK(tmem_lane(0xC0000130) == 0);
  CHECK(cluster_address(3, 0x36040) == 0x03036040);
  CHECK(pair_leader(0x03036040) == 0x02036040);
  CHECK(pair_leader(0x02036040) == 0x02036040);
}

TEST_CASE("tensor map codes are those of the driver API", "[host][layouts]") {
  CHECK(static_cast<int>(TensorMapType::u16) == 1);
  CHECK(static_cast<int>(TensorMapType::bf16) == 9);
  CHECK(static_cast<int>(TensorMapType::u4_align8) == 13);
  CHECK(static_cast<int>(TensorMapType::u6_align16) == 15);
  CHECK(static_cast<int>(TensorMapSwizzle::b128) == 3);
  CHECK(static_cast<int>(TensorMapL2::b256) == 3);
}
