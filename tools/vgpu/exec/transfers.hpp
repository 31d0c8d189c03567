// What accesses of a warp cost beyond their bytes: sectors of global memory, turns at the banks of
// shared memory.
#pragma once

#include <cstdint>
#include <map>

namespace vgpu::exec {

// Bytes written by sector of 32 bytes. One instruction of a warp, or one copy, is one transfer:
// what it writes of a sector goes to L2 together.
class Sectors {
public:
  void add(uint64_t address, uint64_t bytes);
  uint64_t touched() const { return bytes_.size(); }
  uint64_t partial() const; // those of which less than all was written

private:
  std::map<uint64_t, uint64_t> bytes_;
};

// Shared memory has 32 banks of 4 bytes. A turn serves each bank once, and lanes of 4, 8 and 16
// bytes in groups of 32, 16 and 8; the same word for several lanes is one access.
struct Turns {
  uint64_t taken = 0, least = 0;
};
Turns bank_turns(const uint64_t* addresses, uint32_t mask, uint32_t bytes);

} // namespace vgpu::exec
