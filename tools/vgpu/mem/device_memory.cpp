#include "tools/vgpu/mem/device_memory.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

namespace vgpu::mem {

namespace {
// Bumped by every allocation and free of any device, and when flags go: invalidates the threads'
// caches.
std::atomic<uint64_t> generation{1};

struct CacheLine {
  const DeviceMemory* memory = nullptr;
  uint64_t generation = 0, address = 0, bytes = 0;
  uint8_t *data = nullptr, *written = nullptr;
};
constexpr size_t kCacheLines = 4;
thread_local CacheLine cache[kCacheLines];
thread_local size_t cache_next = 0;

// Device memory is host memory that is written at once. More than the host has would not fail here:
// the host's kernel would end the process later.
bool host_has(uint64_t bytes) {
  if (bytes < (uint64_t(64) << 20)) return true;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;)
    if (word == "MemAvailable:") {
      uint64_t kib = 0;
      meminfo >> kib;
      return bytes / 1024 < kib;
    }
  return true;
}

uint64_t rounded(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

constexpr uint64_t kGap = 64 * 1024; // unmapped bytes after each allocation, at least
} // namespace

DeviceMemory::DeviceMemory(uint64_t capacity) : capacity_(capacity) {}

uint64_t DeviceMemory::allocate(uint64_t bytes, uint64_t alignment, const std::string& name) {
  if (bytes == 0) return 0;
  std::unique_lock lock(mutex_);
  return place(bytes, alignment, name, 0);
}

uint64_t DeviceMemory::place(uint64_t bytes, uint64_t alignment, const std::string& name,
                             uint64_t heap) {
  if (bytes > capacity_ || used_ > capacity_ - bytes) return 0;
  if (!host_has(bytes)) return 0;
  std::unique_ptr<uint8_t[], Release> data;
  try {
    data.reset(new uint8_t[bytes]);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  std::memset(data.get(), kPoison, bytes);
  uint64_t address = (next_ + alignment - 1) / alignment * alignment;
  next_ = address + bytes + kGap;
  used_ += bytes;
  Allocation& a = live_[address];
  a = Allocation{address, bytes, std::move(data), nullptr, name, heap};
  if (heap) heap_used_[heap] += rounded(bytes);
  // Without host memory for flags the bytes count as written.
  if (tracks_ && name.empty()) a.written.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  generation.fetch_add(1);
  return address;
}

uint64_t DeviceMemory::allocate_visible(uint64_t bytes, uint64_t alignment,
                                        const std::string& name) {
  std::unique_lock lock(mutex_);
  if (bytes == 0 || bytes > capacity_ || used_ > capacity_ - bytes || !host_has(bytes)) return 0;
  alignment = std::max<uint64_t>(alignment, 16);
  auto* p = static_cast<uint8_t*>(
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
  if (!p) return 0;
  std::memset(p, kPoison, bytes);
  used_ += bytes;
  const auto address = reinterpret_cast<uint64_t>(p);
  live_[address] = Allocation{address, bytes, {p, {Release::aligned}}, nullptr, name, 0, true};
  generation.fetch_add(1);
  return address;
}

bool DeviceMemory::adopt(void* host, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const auto address = reinterpret_cast<uint64_t>(host);
  auto next = live_.lower_bound(address + bytes);
  if (next != live_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address)
    return false;
  live_[address] = Allocation{
      address, bytes, {static_cast<uint8_t*>(host), {Release::none}}, nullptr, "", 0, true};
  generation.fetch_add(1);
  return true;
}

bool DeviceMemory::visible(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return false;
  const Allocation& a = std::prev(it)->second;
  return a.visible && address - a.address < a.bytes;
}

bool DeviceMemory::free(uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end()) return false;
  erase(it);
  return true;
}

void DeviceMemory::erase(std::map<uint64_t, Allocation>::iterator it) {
  const Allocation& a = it->second;
  if (!a.visible) freed_[a.address] = a.bytes; // else the host may use the address again
  if (a.data.get_deleter().how != Release::none) used_ -= a.bytes;
  if (a.heap) heap_used_[a.heap] -= rounded(a.bytes);
  live_.erase(it);
  generation.fetch_add(1);
}

uint64_t DeviceMemory::heap_allocate(uint64_t heap, uint64_t limit, uint64_t bytes,
                                     uint64_t alignment) {
  std::unique_lock lock(mutex_);
  const uint64_t used = heap_used_[heap];
  if (bytes == 0 || bytes > limit || used > limit || rounded(bytes) > limit - used) return 0;
  return place(bytes, alignment, "", heap);
}

bool DeviceMemory::heap_free(uint64_t heap, uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end() || it->second.heap != heap) return false;
  erase(it);
  return true;
}

void DeviceMemory::drop_heap(uint64_t heap) {
  std::unique_lock lock(mutex_);
  for (auto it = live_.begin(); it != live_.end();) {
    auto here = it++;
    if (here->second.heap == heap) erase(here);
  }
  heap_used_.erase(heap);
}

bool DeviceMemory::in_heap(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return false;
  const Allocation& a = std::prev(it)->second;
  return a.heap && address - a.address < a.bytes;
}

DeviceMemory::Found DeviceMemory::locate(uint64_t address, uint64_t bytes) const {
  auto part = [&](const CacheLine& c) -> Found {
    const uint64_t at = address - c.address;
    if (bytes > c.bytes - at) return {nullptr, nullptr};
    return {c.data + at, c.written ? c.written + at : nullptr};
  };
  uint64_t g = generation.load(std::memory_order_acquire);
  for (const CacheLine& c : cache)
    if (c.memory == this && c.generation == g && address - c.address < c.bytes) return part(c);
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return {nullptr, nullptr};
  --it;
  const Allocation& a = it->second;
  if (address - a.address >= a.bytes) return {nullptr, nullptr};
  CacheLine& line = cache[cache_next];
  line = CacheLine{this, g, a.address, a.bytes, a.data.get(), a.written.get()};
  cache_next = (cache_next + 1) % kCacheLines;
  return part(line);
}

uint8_t* DeviceMemory::find(uint64_t address, uint64_t bytes) const {
  return locate(address, bytes).data;
}

uint8_t* DeviceMemory::written(uint64_t address, uint64_t bytes) const {
  return locate(address, bytes).written;
}

uint8_t* DeviceMemory::make_flags(uint64_t address, uint64_t bytes) {
  if (uint8_t* flags = written(address, bytes)) return flags;
  {
    std::unique_lock lock(mutex_);
    auto it = live_.upper_bound(address);
    if (!tracks_ || it == live_.begin()) return nullptr;
    Allocation& a = std::prev(it)->second;
    if (a.visible) return nullptr;
    if (address - a.address < a.bytes && !a.written) {
      a.written.reset(static_cast<uint8_t*>(std::malloc(a.bytes)));
      if (a.written) std::memset(a.written.get(), 1, a.bytes);
      generation.fetch_add(1);
    }
  }
  return written(address, bytes);
}

void DeviceMemory::track_writes(bool on) {
  std::unique_lock lock(mutex_);
  tracks_ = on;
  if (on) return;
  for (auto& [address, a] : live_) a.written.reset();
  generation.fetch_add(1);
}

void DeviceMemory::host_wrote(uint64_t address, uint64_t bytes) {
  uint8_t* flags = written(address, bytes);
  if (!flags) return;
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end() || it->second.bytes != bytes) {
    std::memset(flags, 1, bytes);
    return;
  }
  it->second.written.reset();
  generation.fetch_add(1);
}

void DeviceMemory::host_copied(uint64_t to, uint64_t from, uint64_t bytes) {
  const uint8_t* source = written(from, bytes);
  if (!source) return host_wrote(to, bytes);
  uint8_t* flags = make_flags(to, bytes);
  if (flags) std::memmove(flags, source, bytes);
}

bool DeviceMemory::describe(uint64_t address, uint64_t* base, uint64_t* bytes, bool* live) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it != live_.begin()) {
    --it;
    if (address - it->first < it->second.bytes + (it->second.visible ? 0 : kGap)) {
      *base = it->first;
      *bytes = it->second.bytes;
      *live = true;
      return true;
    }
  }
  auto fr = freed_.upper_bound(address);
  if (fr != freed_.begin()) {
    --fr;
    if (address - fr->first < fr->second + kGap) {
      *base = fr->first;
      *bytes = fr->second;
      *live = false;
      return true;
    }
  }
  return false;
}

std::string DeviceMemory::explain(uint64_t address, uint64_t bytes) const {
  std::ostringstream s;
  s << std::hex << "0x" << address << std::dec << " (" << bytes << " bytes) ";
  uint64_t base = 0, size = 0;
  bool live = false;
  if (!describe(address, &base, &size, &live)) {
    s << "lies in no allocation";
    return s.str();
  }
  std::ostringstream where;
  where << std::hex << "0x" << base << std::dec << ", " << size << " bytes";
  if (!live) {
    s << "lies in freed memory (" << where.str() << ")";
  } else if (address - base >= size) {
    s << "begins " << address - base - size << " bytes past the end of the allocation ("
      << where.str() << ")";
  } else if (address - base + bytes <= size) {
    s << "lies " << address - base << " bytes into the allocation (" << where.str() << ")";
  } else {
    s << "crosses the end of the allocation (" << where.str() << ") by "
      << address - base + bytes - size << " bytes";
  }
  return s.str();
}

// A block that was freed since, at its place of then.
std::map<uint64_t, Allocation>::iterator DeviceMemory::revive(uint64_t address,
                                                              const SavedBytes& saved) {
  const uint64_t bytes = saved.data.size();
  Allocation a{address, bytes, {new uint8_t[bytes](), {}}, nullptr, "", saved.heap};
  if (!saved.written.empty()) a.written.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  used_ += bytes;
  heap_used_[saved.heap] += rounded(bytes);
  freed_.erase(address);
  generation.fetch_add(1);
  return live_.emplace(address, std::move(a)).first;
}

Snapshot DeviceMemory::snapshot() const {
  std::shared_lock lock(mutex_);
  Snapshot all;
  for (const auto& [address, a] : live_) {
    SavedBytes& saved = all[address];
    saved.data.assign(a.data.get(), a.data.get() + a.bytes);
    if (a.written) saved.written.assign(a.written.get(), a.written.get() + a.bytes);
    saved.heap = a.heap;
  }
  return all;
}

void DeviceMemory::restore(const Snapshot& from) {
  std::unique_lock lock(mutex_);
  for (auto it = live_.begin(); it != live_.end();) {
    auto here = it++;
    if (here->second.heap && !from.count(here->first)) erase(here);
  }
  for (const auto& [address, saved] : from) {
    auto it = live_.find(address);
    if (it == live_.end() && saved.heap) it = revive(address, saved);
    if (it == live_.end()) continue;
    std::memcpy(it->second.data.get(), saved.data.data(), saved.data.size());
    if (it->second.written && !saved.written.empty())
      std::memcpy(it->second.written.get(), saved.written.data(), saved.written.size());
  }
}

uint64_t DeviceMemory::first_difference(const Snapshot& from) const {
  std::shared_lock lock(mutex_);
  for (const auto& [address, saved] : from) {
    auto it = live_.find(address);
    if (it == live_.end()) continue;
    const uint8_t* now = it->second.data.get();
    const auto [a, b] = std::mismatch(saved.data.begin(), saved.data.end(), now);
    if (a != saved.data.end()) return address + static_cast<uint64_t>(b - now);
  }
  return 0;
}

} // namespace vgpu::mem
