#include "tools/vgpu/exec/transfers.hpp"

#include <algorithm>
#include <set>

namespace vgpu::exec {

namespace {
constexpr uint64_t kSector = 32, kBanks = 32, kWord = 4;
}

void Sectors::add(uint64_t address, uint64_t bytes) {
  for (const uint64_t end = address + bytes; address < end;) {
    const uint64_t next = std::min(end, (address / kSector + 1) * kSector);
    bytes_[address / kSector] += next - address;
    address = next;
  }
}

uint64_t Sectors::partial() const {
  return static_cast<uint64_t>(std::count_if(bytes_.begin(), bytes_.end(),
                                             [](const auto& s) { return s.second < kSector; }));
}

Turns bank_turns(const uint64_t* addresses, uint32_t mask, uint32_t bytes) {
  Turns turns;
  const uint32_t group = std::max<uint32_t>(32 * kWord / std::max<uint32_t>(bytes, kWord), 1);
  for (uint32_t first = 0; first < 32; first += group) {
    std::set<uint64_t> words[kBanks];
    size_t most = 0;
    for (uint32_t lane = first; lane < first + group; ++lane) {
      if (!(mask >> lane & 1)) continue;
      for (uint64_t word = addresses[lane] / kWord; word * kWord < addresses[lane] + bytes;
           ++word) {
        std::set<uint64_t>& bank = words[word % kBanks];
        bank.insert(word);
        most = std::max(most, bank.size());
      }
    }
    turns.taken += most;
    turns.least += most != 0;
  }
  return turns;
}

} // namespace vgpu::exec
