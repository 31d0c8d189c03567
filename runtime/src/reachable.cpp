#include "runtime/src/reachable.hpp"

#include <cinttypes>
#include <cstddef>
#include <cstring>

namespace warpline {

namespace {

using Ask = decltype(cuapi::Functions::PointerGetAttribute);

bool refused(Ask ask, uint64_t address) {
  cuapi::CUdeviceptr mapped = 0;
  return ask(&mapped, cuapi::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) ==
         cuapi::CUDA_ERROR_INVALID_VALUE;
}

Verdict first_byte(const wl_context& context, Ask ask, uint64_t address) {
  if (!refused(ask, address)) return holds();
  unsigned type = 0;
  int owner = -1;
  const bool device_memory =
      ask(&type, cuapi::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == cuapi::CUDA_SUCCESS &&
      type == cuapi::CU_MEMORYTYPE_DEVICE &&
      ask(&owner, cuapi::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == cuapi::CUDA_SUCCESS;
  if (device_memory)
    return violated(
        format(": address 0x%" PRIx64 " is memory of device %d,", address, owner),
        format("a copy on device %d, or peer access to device %d", context.ordinal, owner));
  // The device pages the host's memory in; a freed address cannot be told from it.
  if (context.limits.pageable_memory) return holds();
  return violated(format(": address 0x%" PRIx64 " is the host's or was freed,", address),
                  format("an upload to device %d, or registered memory", context.ordinal));
}

Verdict whole_extent(const wl_context& context, Ask ask, uint64_t address, uint64_t bytes) {
  cuapi::CUdeviceptr start = 0;
  size_t size = 0;
  if (ask(&start, cuapi::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != cuapi::CUDA_SUCCESS ||
      ask(&size, cuapi::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != cuapi::CUDA_SUCCESS ||
      address < start || address - start >= size)
    return holds();
  const uint64_t room = size - (address - start);
  if (bytes > room)
    return violated(format(": %" PRIu64 " bytes at 0x%" PRIx64 " end %" PRIu64
                           " bytes past their allocation, %zu bytes at 0x%" PRIx64 ",",
                           bytes, address, bytes - room, size, static_cast<uint64_t>(start)),
                    format("%" PRIu64 " bytes from this address on", bytes));
  if (!refused(ask, address + bytes - 1) || context.limits.pageable_memory) return holds();
  return violated(
      format(": of %" PRIu64 " bytes at 0x%" PRIx64 " the last is not mapped,", bytes, address),
      format("%" PRIu64 " bytes from this address on", bytes));
}

} // namespace

// Each word is mixed into the mark as splitmix64 does, without loss; the last bit is given up so
// that no mark is 0.
uint64_t mark_of(const void* content, size_t bytes, uint64_t seed) {
  uint64_t mark = seed + bytes;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(content) + at, sizeof word);
    mark = (mark ^ word) + 0x9E3779B97F4A7C15u;
    mark = (mark ^ mark >> 30) * 0xBF58476D1CE4E5B9u;
    mark = (mark ^ mark >> 27) * 0x94D049BB133111EBu;
    mark ^= mark >> 31;
  }
  return mark | 1;
}

Verdict reachable(const ContextMemory& memory, const Extent& extent) {
  if (memory.context == nullptr || extent.start == nullptr) return holds();
  const uint64_t key[] = {reinterpret_cast<uintptr_t>(extent.start), extent.bytes};
  const uint64_t mark = memory.known != nullptr ? mark_of(key, sizeof key) : 0;
  if (mark != 0 && memory.known->has(mark)) return holds();
  const auto ask = memory.context->driver->cu.PointerGetAttribute;
  if (ask == nullptr) return holds();
  const uint64_t address = reinterpret_cast<uintptr_t>(extent.start);
  Verdict verdict = first_byte(*memory.context, ask, address);
  if (verdict.holds && extent.bytes > 1)
    verdict = whole_extent(*memory.context, ask, address, extent.bytes);
  if (verdict.holds && mark != 0) memory.known->note(mark);
  return verdict;
}

} // namespace warpline
