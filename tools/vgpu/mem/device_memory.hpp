// Global memory of a virtual device: allocations at addresses that are never used again, with
// unmapped gaps between them, so that an access past an end or after a free is found.
// Thread-safe: clusters run on several host threads; allocation takes the lock, access a snapshot.
//
// For the definedness checker it can keep, byte by byte, what has been written since the
// allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace vgpu::mem {

struct FreeBytes {
  void operator()(uint8_t* p) const { std::free(p); }
};

struct Release { // of an allocation's bytes
  enum How : uint8_t { array, aligned, none } how = array;
  void operator()(uint8_t* p) const {
    if (how == array) delete[] p;
    if (how == aligned) std::free(p);
  }
};

struct Allocation {
  uint64_t address = 0, bytes = 0;
  std::unique_ptr<uint8_t[], Release> data;
  // A flag for each byte: 1 written, 0 not. Null: all count as written. From calloc, so that the
  // host gives memory only to the parts that somebody marks.
  std::unique_ptr<uint8_t[], FreeBytes> written;
  std::string name;  // variable name, or "" for cuMemAlloc
  uint64_t heap = 0; // whose device-side malloc gave it; 0: none
  // The host's own bytes, at the host's address: it writes them without a word, so that all count
  // as written, and what lies behind them is the host's, too.
  bool visible = false;
};

// The bytes of all live allocations, by address, and which of them have been written.
struct SavedBytes {
  std::vector<uint8_t> data, written; // written: empty when all count as that
  uint64_t heap = 0;
};
using Snapshot = std::map<uint64_t, SavedBytes>;

class DeviceMemory {
public:
  explicit DeviceMemory(uint64_t capacity);
  // 0 when the capacity is used up. Fresh bytes hold a poison pattern (0xC7).
  uint64_t allocate(uint64_t bytes, uint64_t alignment = 512, const std::string& name = "");
  bool free(uint64_t address); // false: not the start of a live allocation
  // Memory that host and device reach by one address. 0 as above.
  uint64_t allocate_visible(uint64_t bytes, uint64_t alignment = 4096,
                            const std::string& name = "");
  // The host's memory at its address, until free(), which leaves it alone. False: part of it is
  // known already.
  bool adopt(void* host, uint64_t bytes);
  // In a live allocation that the host reaches by the same address.
  bool visible(uint64_t address) const;
  // Device-side malloc. A heap has a name other than 0 and hands out at most `limit` bytes, each
  // block rounded up to 16; 0 when it has no room left, and for no bytes.
  uint64_t heap_allocate(uint64_t heap, uint64_t limit, uint64_t bytes, uint64_t alignment = 16);
  bool heap_free(uint64_t heap, uint64_t address); // false: not the start of a live block of it
  void drop_heap(uint64_t heap);                   // with all its blocks
  bool in_heap(uint64_t address) const;            // in a live block of any
  // Host pointer for [address, address + bytes), null unless it lies in one live allocation. The
  // pointer stays valid until the allocation is freed.
  uint8_t* find(uint64_t address, uint64_t bytes) const;
  // Whether allocations without a name, which get no initial value, begin as bytes that nobody has
  // written. Off at first; turned off, it makes all memory count as written. No kernel may run
  // meanwhile.
  void track_writes(bool on);
  // The flags of [address, address + bytes), as Allocation::written; null when all count as written
  // or the range lies in no one allocation. They stay valid as find()'s pointer does, and until the
  // host's next write.
  uint8_t* written(uint64_t address, uint64_t bytes) const;
  // The same, with flags made where all counted as written: for who has an unwritten byte to put
  // there. Null without memory for them, or when nobody keeps flags.
  uint8_t* make_flags(uint64_t address, uint64_t bytes);
  // The host has written the range, or has copied it from another one, flags and all; addresses
  // outside of device memory are the host's own. No kernel may run meanwhile.
  void host_wrote(uint64_t address, uint64_t bytes);
  void host_copied(uint64_t to, uint64_t from, uint64_t bytes);
  // The allocation that contains or is nearest to the address; for messages and attributes.
  bool describe(uint64_t address, uint64_t* base, uint64_t* bytes, bool* live) const;
  std::string explain(uint64_t address, uint64_t bytes) const; // "16 bytes past the end of ..."
  uint64_t used() const {
    std::shared_lock lock(mutex_);
    return used_;
  }
  uint64_t capacity() const { return capacity_; }

  Snapshot snapshot() const;
  // Into the allocations of then that are still live. Heaps have the blocks of then again.
  void restore(const Snapshot& from);
  // The lowest address whose byte differs from the snapshot's; 0: none.
  uint64_t first_difference(const Snapshot& from) const;

  static constexpr uint8_t kPoison = 0xC7;

private:
  struct Found {
    uint8_t *data, *written;
  };
  Found locate(uint64_t address, uint64_t bytes) const;
  uint64_t place(uint64_t bytes, uint64_t alignment, const std::string& name, uint64_t heap);
  void erase(std::map<uint64_t, Allocation>::iterator it);
  std::map<uint64_t, Allocation>::iterator revive(uint64_t address, const SavedBytes& saved);

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> live_;
  std::map<uint64_t, uint64_t> freed_;     // address -> bytes
  std::map<uint64_t, uint64_t> heap_used_; // by heap
  uint64_t next_ = 0x0000'0200'0000'0000ull, used_ = 0, capacity_;
  std::atomic<bool> tracks_{false};
};

} // namespace vgpu::mem
