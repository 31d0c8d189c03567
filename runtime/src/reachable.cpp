#include "runtime/src/reachable.hpp"

#include <cinttypes>

namespace warpline {

Verdict reachable(const wl_context* context, const void* pointer) {
  if (context == nullptr || pointer == nullptr) return holds();
  const auto ask = context->driver->cu.PointerGetAttribute;
  if (ask == nullptr) return holds();
  const uint64_t address = reinterpret_cast<uintptr_t>(pointer);
  cuapi::CUdeviceptr mapped = 0;
  if (ask(&mapped, cuapi::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) !=
      cuapi::CUDA_ERROR_INVALID_VALUE)
    return holds();

  unsigned type = 0;
  int owner = -1;
  const bool device_memory =
      ask(&type, cuapi::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == cuapi::CUDA_SUCCESS &&
      type == cuapi::CU_MEMORYTYPE_DEVICE &&
      ask(&owner, cuapi::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == cuapi::CUDA_SUCCESS;
  if (device_memory)
    return violated(
        format(": address 0x%" PRIx64 " is memory of device %d,", address, owner),
        format("a copy on device %d, or peer access to device %d", context->ordinal, owner));
  // The device pages the host's memory in; a freed address cannot be told from it.
  if (context->limits.pageable_memory) return holds();
  return violated(format(": address 0x%" PRIx64 " is the host's or was freed,", address),
                  format("an upload to device %d, or registered memory", context->ordinal));
}

} // namespace warpline
