// Global memory of a virtual device: allocations at addresses that are never used again, with
// unmapped gaps between them, so that an access past an end or after a free is found.
// Thread-safe: clusters run on several host threads; allocation takes the lock, access a snapshot.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace vgpu::mem {

struct Allocation {
  uint64_t address = 0, bytes = 0;
  std::unique_ptr<uint8_t[]> data;
  std::string name; // variable name, or "" for cuMemAlloc
};

// The bytes of all live allocations, by address.
using Snapshot = std::map<uint64_t, std::vector<uint8_t>>;

class DeviceMemory {
public:
  explicit DeviceMemory(uint64_t capacity);
  // 0 when the capacity is used up. Fresh bytes hold a poison pattern (0xC7).
  uint64_t allocate(uint64_t bytes, uint64_t alignment = 512, const std::string& name = "");
  bool free(uint64_t address); // false: not the start of a live allocation
  // Host pointer for [address, address + bytes), null unless it lies in one live allocation. The
  // pointer stays valid until the allocation is freed.
  uint8_t* find(uint64_t address, uint64_t bytes) const;
  // The allocation that contains or is nearest to the address; for messages and attributes.
  bool describe(uint64_t address, uint64_t* base, uint64_t* bytes, bool* live) const;
  std::string explain(uint64_t address, uint64_t bytes) const; // "16 bytes past the end of ..."
  uint64_t used() const {
    std::shared_lock lock(mutex_);
    return used_;
  }
  uint64_t capacity() const { return capacity_; }

  Snapshot snapshot() const;
  void restore(const Snapshot& from); // into the allocations of then that are still live
  // The lowest address whose byte differs from the snapshot's; 0: none.
  uint64_t first_difference(const Snapshot& from) const;

  static constexpr uint8_t kPoison = 0xC7;

private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> live_;
  std::map<uint64_t, uint64_t> freed_; // address -> bytes
  uint64_t next_ = 0x0000'0200'0000'0000ull, used_ = 0, capacity_;
};

} // namespace vgpu::mem
