// Swizzles against the tables of PTX ISA 5.5.7, written out as tables.
#include "tests/support/catch.hpp"
#include "tools/vgpu/tensor/swizzle.hpp"

#include <vector>

using namespace vgpu::tensor;

namespace {

// Row = 128-byte line, column = 16-byte place in shared memory, entry = source chunk found there.
using Pattern = std::vector<std::vector<int>>;

const Pattern k32 = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
const Pattern k64 = {{0, 1, 2, 3, 4, 5, 6, 7},
                     {1, 0, 3, 2, 5, 4, 7, 6},
                     {2, 3, 0, 1, 6, 7, 4, 5},
                     {3, 2, 1, 0, 7, 6, 5, 4}};
const Pattern k128 = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                      {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                      {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
const Pattern k128Atom32 = {{0, 1, 2, 3, 4, 5, 6, 7},
                            {2, 3, 0, 1, 6, 7, 4, 5},
                            {4, 5, 6, 7, 0, 1, 2, 3},
                            {6, 7, 4, 5, 2, 3, 0, 1}};
const Pattern k128Atom64 = {{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}};

void check(Swizzle swizzle, const Pattern& pattern, bool flip) {
  INFO(swizzle_name(swizzle));
  REQUIRE(swizzle_period(swizzle) == pattern.size() * 128);
  for (uint32_t base : {0u, 4096u, 0x1000400u}) {
    for (uint32_t line = 0; line < 16; ++line) {
      const std::vector<int>& row = pattern[line % pattern.size()];
      for (uint32_t place = 0; place < 8; ++place) {
        for (uint32_t byte = 0; byte < 16; ++byte) {
          uint32_t source = base + line * 128 + uint32_t(row[place]) * 16 + byte;
          uint32_t at = base + line * 128 + place * 16 + (flip && line % 2 ? byte ^ 8 : byte);
          REQUIRE(swizzle_address(swizzle, source) == at);
        }
      }
    }
  }
}

} // namespace

TEST_CASE("swizzles are those of the tables", "[virtual][tensor]") {
  check(Swizzle::b32, k32, false);
  check(Swizzle::b96, k32, false);
  check(Swizzle::b64, k64, false);
  check(Swizzle::b128, k128, false);
  check(Swizzle::b128_atom32, k128Atom32, false);
  check(Swizzle::b128_atom32_flip8, k128Atom32, true);
  check(Swizzle::b128_atom64, k128Atom64, false);
}

TEST_CASE("granules stay whole and spans stay closed", "[virtual][tensor]") {
  for (int i = 0; i <= int(Swizzle::b128_atom64); ++i) {
    Swizzle s = Swizzle(i);
    uint32_t granule = swizzle_granule(s) == 0 ? 16 : swizzle_granule(s);
    for (uint32_t address = 0; address < 2048; ++address) {
      uint32_t start = swizzle_address(s, address - address % granule);
      REQUIRE(swizzle_address(s, address) == start + address % granule);
      REQUIRE(swizzle_address(s, swizzle_address(s, address)) == address);
      REQUIRE(swizzle_address(s, address) / 128 == address / 128);
    }
  }
}
