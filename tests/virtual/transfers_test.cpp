// What accesses of a warp cost: sectors of global memory, turns at the banks of shared memory.
#include "tests/support/catch.hpp"
#include "tools/vgpu/exec/transfers.hpp"

#include <functional>

using vgpu::exec::bank_turns;
using vgpu::exec::Sectors;
using vgpu::exec::Turns;

namespace {

Turns turns_of(uint32_t bytes, const std::function<uint64_t(uint32_t)>& address,
               uint32_t mask = 0xFFFFFFFF) {
  uint64_t addresses[32];
  for (uint32_t lane = 0; lane < 32; ++lane) addresses[lane] = address(lane);
  return bank_turns(addresses, mask, bytes);
}

} // namespace

TEST_CASE("turns at the banks of shared memory", "[virtual]") {
  const auto check = [](const Turns& turns, uint64_t taken, uint64_t least) {
    CHECK(turns.taken == taken);
    CHECK(turns.least == least);
  };
  check(turns_of(4, [](uint32_t l) { return 1024 + 4 * l; }), 1, 1);
  check(turns_of(4, [](uint32_t) { return 1024; }), 1, 1);
  check(turns_of(2, [](uint32_t l) { return 1024 + 2 * l; }), 1, 1);
  check(turns_of(4, [](uint32_t l) { return 1024 + 8 * l; }), 2, 1);
  check(turns_of(4, [](uint32_t l) { return 1024 + 128 * l; }), 32, 1);
  check(turns_of(
            4, [](uint32_t l) { return 1024 + 128 * l; }, 0x10),
        1, 1);
  check(turns_of(
            4, [](uint32_t l) { return 1024 + 4 * l; }, 0),
        0, 0);
  check(turns_of(8, [](uint32_t l) { return 1024 + 8 * l; }), 2, 2);
  check(turns_of(16, [](uint32_t l) { return 1024 + 16 * l; }), 4, 4);
  // Rows of 128 bytes, a unit of 16 bytes each: as they are, and with the 128-byte swizzle.
  check(turns_of(16, [](uint32_t l) { return 1024 + 128 * l + 16 * 3; }), 32, 4);
  check(turns_of(16, [](uint32_t l) { return 1024 + 128 * l + 16 * (3 ^ (l % 8)); }), 4, 4);
}

TEST_CASE("sectors of global memory", "[virtual]") {
  const auto check = [](uint64_t start, uint64_t stride, uint64_t bytes, uint64_t touched,
                        uint64_t partial) {
    Sectors sectors;
    for (uint64_t lane = 0; lane < 32; ++lane) sectors.add(start + stride * lane, bytes);
    CHECK(sectors.touched() == touched);
    CHECK(sectors.partial() == partial);
  };
  check(4096, 4, 4, 4, 0);
  check(4096, 256, 32, 32, 0);
  check(4096, 256, 16, 32, 32);
  check(4096 + 16, 256, 32, 64, 64);
  check(4096 + 16, 32, 32, 33, 2);
}
