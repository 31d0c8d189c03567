// Device and pinned host memory, copies and fills.
#include "tools/vgpu/driver/context.hpp"
#include "tools/vgpu/driver/state.hpp"

#include <cstdlib>
#include <cstring>

namespace vgpu::driver {

namespace {

constexpr uint64_t kAlignment = 512; // of every allocation, as cuMemAlloc's

// The caller's memory; a device address there would be a crash, so it is refused.
void* host_bytes(Call& c, const void* pointer, size_t bytes, const char* argument) {
  c.require(pointer || bytes == 0, std::string(argument) + " is null");
  uint64_t base = 0, size = 0;
  bool live = false;
  if (c.s.memory->describe(reinterpret_cast<uint64_t>(pointer), &base, &size, &live) &&
      !c.s.memory->visible(reinterpret_cast<uint64_t>(pointer)))
    c.refuse(CUDA_ERROR_INVALID_VALUE, std::string(argument) + " = " +
                                           hex(reinterpret_cast<uint64_t>(pointer)) +
                                           " must be host memory, and is device memory");
  return const_cast<void*>(pointer);
}

bool is_device(Call& c, CUdeviceptr pointer) {
  uint64_t base = 0, size = 0;
  bool live = false;
  return c.s.memory->describe(pointer, &base, &size, &live);
}

// Unified addressing: device memory by its address, anything else is the host's.
void* any_bytes(Call& c, CUdeviceptr pointer, size_t bytes, const char* argument) {
  if (is_device(c, pointer)) return device_bytes(c, pointer, bytes, argument);
  return host_bytes(c, reinterpret_cast<const void*>(pointer), bytes, argument);
}

// Checks now, copies in stream order. Both ends are looked up again when the work runs (a captured
// copy may run much later), so a freed allocation is a refusal and no crash.
struct CopyEnd {
  enum Kind { Device, Host, Any } kind;
  uint64_t address;
  const char* name;
};

uint8_t* resolve(const State& s, const CopyEnd& end, size_t bytes) {
  bool device = end.kind == CopyEnd::Device;
  if (end.kind == CopyEnd::Any) {
    uint64_t base = 0, size = 0;
    bool live = false;
    device = s.memory->describe(end.address, &base, &size, &live);
  }
  if (!device) return reinterpret_cast<uint8_t*>(end.address);
  uint8_t* p = s.memory->find(end.address, bytes ? bytes : 1);
  if (!p)
    throw Refusal{CUDA_ERROR_INVALID_VALUE,
                  std::string(end.name) + " = " + s.memory->explain(end.address, bytes), false};
  return p;
}

void check_end(Call& c, const CopyEnd& end, size_t bytes) {
  switch (end.kind) {
  case CopyEnd::Device:
    device_bytes(c, end.address, bytes, end.name);
    break;
  case CopyEnd::Host:
    host_bytes(c, reinterpret_cast<const void*>(end.address), bytes, end.name);
    break;
  case CopyEnd::Any:
    any_bytes(c, end.address, bytes, end.name);
    break;
  }
}

CopyEnd device_end(CUdeviceptr p, const char* name) { return {CopyEnd::Device, p, name}; }
CopyEnd host_end(const void* p, const char* name) {
  return {CopyEnd::Host, reinterpret_cast<uint64_t>(p), name};
}
CopyEnd any_end(CUdeviceptr p, const char* name) { return {CopyEnd::Any, p, name}; }

CUresult copy(const char* name, CopyEnd to, CopyEnd from, size_t bytes, CUstream stream,
              bool async) {
  return entry(name, Need::Context, [&](Call& c) {
    if (!async) {
      // What comes from the host is staged, nobody waits for it.
      if (from.kind != CopyEnd::Host) forbid_in_capture(c);
      forbid_implicit(c);
    }
    if (bytes == 0) return;
    check_end(c, to, bytes);
    check_end(c, from, bytes);
    enqueue(c, stream, Work{name, [to, from, bytes] {
                              State& s = state();
                              std::memmove(resolve(s, to, bytes), resolve(s, from, bytes), bytes);
                              s.memory->host_copied(to.address, from.address, bytes);
                            }});
  });
}

// width x height elements of `value`, rows `pitch` bytes apart.
template <class T>
CUresult fill(const char* name, CUdeviceptr to, size_t pitch, T value, size_t width, size_t height,
              CUstream stream, bool async) {
  return entry(name, Need::Context, [&](Call& c) {
    if (!async) {
      forbid_in_capture(c);
      forbid_implicit(c);
    }
    if (width == 0 || height == 0) return;
    c.require(to % sizeof(T) == 0, "dstDevice = " + hex(to) + " must be a multiple of " +
                                       std::to_string(sizeof(T)) + " bytes");
    c.require(width <= SIZE_MAX / sizeof(T), "the width overflows");
    size_t row = width * sizeof(T);
    c.require(height == 1 || pitch >= row, "dstPitch = " + std::to_string(pitch) +
                                               " is less than a row of " + std::to_string(row) +
                                               " bytes");
    c.require(height == 1 || pitch % sizeof(T) == 0,
              "dstPitch = " + std::to_string(pitch) + " must be a multiple of the element");
    size_t span = 0;
    c.require(!__builtin_mul_overflow(height - 1, pitch, &span) &&
                  !__builtin_add_overflow(span, row, &span),
              "the area overflows");
    device_bytes(c, to, span, "dstDevice");
    enqueue(c, stream, Work{name, [=] {
                              uint8_t* base = resolve(state(), device_end(to, "dstDevice"), span);
                              for (size_t y = 0; y < height; ++y) {
                                uint8_t* p = base + y * pitch;
                                for (size_t x = 0; x < width; ++x, p += sizeof(T))
                                  std::memcpy(p, &value, sizeof(T));
                                state().memory->host_wrote(to + y * pitch, row);
                              }
                            }});
  });
}

CUresult copy_2d(const char* name, const CUDA_MEMCPY2D* p, CUstream stream, bool async) {
  return entry(name, Need::Context, [&](Call& c) {
    if (!async) {
      forbid_in_capture(c);
      forbid_implicit(c);
    }
    c.require(p, "pCopy is null");
    if (p->WidthInBytes == 0 || p->Height == 0) return;
    const size_t width = p->WidthInBytes, height = p->Height;
    auto make_end = [&](CUmemorytype type, uint64_t host, CUdeviceptr device, const char* what) {
      switch (type) {
      case CU_MEMORYTYPE_HOST:
        return CopyEnd{CopyEnd::Host, host, what};
      case CU_MEMORYTYPE_DEVICE:
        return CopyEnd{CopyEnd::Device, device, what};
      case CU_MEMORYTYPE_UNIFIED:
        return CopyEnd{CopyEnd::Any, device, what};
      case CU_MEMORYTYPE_ARRAY:
        c.refuse(CUDA_ERROR_NOT_SUPPORTED, "arrays are not supported by the virtual GPU", true);
      }
      c.refuse(CUDA_ERROR_INVALID_VALUE,
               std::string(what) + "MemoryType = " + std::to_string(int(type)) + " is unknown");
    };
    CopyEnd to =
        make_end(p->dstMemoryType, reinterpret_cast<uint64_t>(p->dstHost), p->dstDevice, "dst");
    CopyEnd from =
        make_end(p->srcMemoryType, reinterpret_cast<uint64_t>(p->srcHost), p->srcDevice, "src");
    // First byte and length of the rows' hull; a pitch of 0 stands for tight rows.
    auto hull = [&](CopyEnd& end, size_t& pitch, size_t x, size_t y) {
      if (pitch == 0) pitch = width + x;
      size_t start = 0, span = 0;
      bool fits = pitch >= width + x && !__builtin_mul_overflow(y, pitch, &start) &&
                  !__builtin_add_overflow(start, x, &start) &&
                  !__builtin_mul_overflow(height - 1, pitch, &span) &&
                  !__builtin_add_overflow(span, width, &span);
      c.require(fits, std::string(end.name) + "Pitch = " + std::to_string(pitch) +
                          " does not hold rows of " + std::to_string(width) + " bytes at " +
                          std::to_string(x));
      end.address += start;
      check_end(c, end, span);
      return span;
    };
    size_t to_pitch = p->dstPitch, from_pitch = p->srcPitch;
    size_t to_span = hull(to, to_pitch, p->dstXInBytes, p->dstY);
    size_t from_span = hull(from, from_pitch, p->srcXInBytes, p->srcY);
    enqueue(c, stream, Work{name, [=] {
                              State& s = state();
                              uint8_t* d = resolve(s, to, to_span);
                              const uint8_t* f = resolve(s, from, from_span);
                              for (size_t y = 0; y < height; ++y) {
                                std::memmove(d + y * to_pitch, f + y * from_pitch, width);
                                s.memory->host_copied(to.address + y * to_pitch,
                                                      from.address + y * from_pitch, width);
                              }
                            }});
  });
}

CUdeviceptr allocate(Call& c, size_t bytes, bool managed = false) {
  forbid_in_capture(c);
  c.require(bytes > 0, "bytesize is 0");
  uint64_t address =
      managed ? c.s.memory->allocate_visible(bytes) : c.s.memory->allocate(bytes, kAlignment);
  c.require(address != 0,
            std::to_string(bytes) + " bytes wanted, " +
                std::to_string(c.s.memory->capacity() - c.s.memory->used()) +
                " free on the device, or the host has no memory left",
            CUDA_ERROR_OUT_OF_MEMORY);
  c.s.allocations[address] = c.context->handle;
  return address;
}

CUresult host_allocate(const char* name, void** pointer, size_t bytes, unsigned flags) {
  return entry(name, Need::Context, [&](Call& c) {
    forbid_in_capture(c);
    c.require(pointer, "pp is null");
    c.require(bytes > 0, "bytesize is 0");
    c.require((flags & ~7u) == 0, "flags = " + hex(flags) + " has unknown bits");
    c.require(bytes <= SIZE_MAX - 4095, "bytesize is too large", CUDA_ERROR_OUT_OF_MEMORY);
    void* p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    c.require(p, std::to_string(bytes) + " bytes of host memory", CUDA_ERROR_OUT_OF_MEMORY);
    c.s.host_blocks[reinterpret_cast<uintptr_t>(p)] =
        HostBlock{bytes, flags, false, c.context->handle};
    c.s.memory->adopt(p, bytes);
    *pointer = p;
  });
}

std::map<uintptr_t, HostBlock>::iterator find_host_block(Call& c, const void* p) {
  auto address = reinterpret_cast<uintptr_t>(p);
  auto it = c.s.host_blocks.upper_bound(address);
  if (it == c.s.host_blocks.begin()) return c.s.host_blocks.end();
  --it;
  return address - it->first < it->second.bytes ? it : c.s.host_blocks.end();
}

// False when the pointer is unknown or has no such attribute; `value` is then left alone.
bool pointer_attribute(Call& c, void* value, int which, CUdeviceptr pointer) {
  uint64_t base = 0, bytes = 0;
  bool live = false;
  auto block = find_host_block(c, reinterpret_cast<const void*>(pointer));
  const bool device = block == c.s.host_blocks.end();
  if (device &&
      !(c.s.memory->describe(pointer, &base, &bytes, &live) && live && pointer - base < bytes))
    return false;
  const bool managed = device && c.s.memory->visible(pointer);
  if (!device) {
    base = block->first;
    bytes = block->second.bytes;
  }
  switch (which) {
  case 1: { // CONTEXT
    CUcontext context = nullptr;
    if (!device)
      context = block->second.context;
    else if (auto it = c.s.allocations.find(base); it != c.s.allocations.end())
      context = it->second;
    else
      context = current_context(); // a module's variable
    *static_cast<CUcontext*>(value) = context;
    return true;
  }
  case 2: // MEMORY_TYPE
    *static_cast<unsigned*>(value) = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return true;
  case 3: // DEVICE_POINTER
    *static_cast<CUdeviceptr*>(value) = pointer;
    return true;
  case 4: // HOST_POINTER
    if (device && !managed) return false;
    *static_cast<void**>(value) = reinterpret_cast<void*>(pointer);
    return true;
  case 6:  // SYNC_MEMOPS
  case 8:  // IS_MANAGED
  case 10: // IS_LEGACY_CUDA_IPC_CAPABLE
  case 15: // IS_GPU_DIRECT_RDMA_CAPABLE
    *static_cast<unsigned char*>(value) = which == 6 || (which == 8 && managed);
    return true;
  case 7:
    *static_cast<uint64_t*>(value) = base;
    return true; // BUFFER_ID: addresses are unique
  case 9:
    *static_cast<int*>(value) = 0;
    return true; // DEVICE_ORDINAL
  case 11:
    *static_cast<CUdeviceptr*>(value) = base;
    return true;
  case 12:
    *static_cast<size_t*>(value) = bytes;
    return true;
  case 13:
    *static_cast<unsigned char*>(value) = 1;
    return true; // MAPPED
  default:
    return false;
  }
}

} // namespace

// ---- allocation

VGPU_API CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  return entry("cuMemAlloc_v2", Need::Context, [&](Call& c) {
    c.require(pointer, "dptr is null");
    *pointer = allocate(c, bytes);
  });
}

VGPU_API CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width,
                                     size_t height, unsigned element) {
  return entry("cuMemAllocPitch_v2", Need::Context, [&](Call& c) {
    c.require(pointer && pitch, "dptr or pPitch is null");
    c.require(element == 4 || element == 8 || element == 16,
              "ElementSizeBytes = " + std::to_string(element) + " must be 4, 8 or 16");
    c.require(width > 0 && height > 0 && width <= SIZE_MAX - kAlignment, "width or height is 0");
    size_t rows = (width + kAlignment - 1) / kAlignment * kAlignment, bytes = 0;
    c.require(!__builtin_mul_overflow(rows, height, &bytes), "the area overflows",
              CUDA_ERROR_OUT_OF_MEMORY);
    *pointer = allocate(c, bytes);
    *pitch = rows;
  });
}

VGPU_API CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return entry("cuMemFree_v2", Need::Context, [&](Call& c) {
    if (!pointer) return;
    forbid_in_capture(c);
    auto it = c.s.allocations.find(pointer);
    c.require(it != c.s.allocations.end(),
              "dptr = " + hex(pointer) + " is not the start of a live cuMemAlloc allocation: " +
                  c.s.memory->explain(pointer, 1));
    c.s.allocations.erase(it);
    c.execute([&] { c.s.memory->free(pointer); }); // after all work under way
  });
}

// ---- managed memory: host memory that kernels reach, whoever touches it

VGPU_API CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned flags) {
  return entry("cuMemAllocManaged", Need::Context, [&](Call& c) {
    c.require(pointer, "dptr is null");
    c.require(flags == 1 || flags == 2, "flags = " + hex(flags) + " must be GLOBAL or HOST");
    *pointer = allocate(c, bytes, true);
  });
}

namespace {
struct Location { // CUmemLocation
  int type, id;
};
// Where pages lie changes nothing here.
CUresult advise(const char* name, CUdeviceptr pointer, size_t bytes) {
  return entry(name, Need::Context, [&](Call& c) {
    device_bytes(c, pointer, bytes, "dptr");
    c.require(c.s.memory->visible(pointer), hex(pointer) + " is no managed memory");
  });
}
} // namespace

VGPU_API CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, int, CUdevice) {
  return advise("cuMemAdvise", pointer, bytes);
}
VGPU_API CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, int, Location) {
  return advise("cuMemAdvise_v2", pointer, bytes);
}
VGPU_API CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice, CUstream) {
  return advise("cuMemPrefetchAsync", pointer, bytes);
}
VGPU_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, Location, unsigned,
                                        CUstream) {
  return advise("cuMemPrefetchAsync_v2", pointer, bytes);
}
VGPU_API CUresult cuStreamAttachMemAsync(CUstream, CUdeviceptr pointer, size_t, unsigned) {
  return advise("cuStreamAttachMemAsync", pointer, 1);
}

VGPU_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* pointer, unsigned flags) {
  return entry("cuMemHostGetDevicePointer_v2", Need::Context, [&](Call& c) {
    c.require(device && flags == 0, "pdptr is null or flags are not 0");
    c.require(find_host_block(c, pointer) != c.s.host_blocks.end(), "p is no pinned memory");
    *device = reinterpret_cast<CUdeviceptr>(pointer);
  });
}

VGPU_API CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return entry("cuMemGetInfo_v2", Need::Context, [&](Call& c) {
    c.require(free_bytes && total, "free or total is null");
    *total = c.s.memory->capacity();
    *free_bytes = c.s.memory->capacity() - c.s.memory->used();
  });
}

VGPU_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  return entry("cuMemGetAddressRange_v2", Need::Context, [&](Call& c) {
    device_bytes(c, pointer, 1, "dptr");
    uint64_t b = 0, n = 0;
    bool live = false;
    c.s.memory->describe(pointer, &b, &n, &live);
    if (base) *base = b;
    if (bytes) *bytes = n;
  });
}

VGPU_API CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return host_allocate("cuMemHostAlloc", pointer, bytes, flags);
}
VGPU_API CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return host_allocate("cuMemAllocHost_v2", pointer, bytes, 0);
}

VGPU_API CUresult cuMemFreeHost(void* pointer) {
  return entry("cuMemFreeHost", Need::Context, [&](Call& c) {
    if (!pointer) return;
    forbid_in_capture(c);
    auto it = c.s.host_blocks.find(reinterpret_cast<uintptr_t>(pointer));
    c.require(it != c.s.host_blocks.end() && !it->second.registered,
              "p was not allocated by cuMemHostAlloc, or is freed already");
    c.s.host_blocks.erase(it);
    c.execute([&] {
      c.s.memory->free(reinterpret_cast<uint64_t>(pointer));
      std::free(pointer);
    });
  });
}

VGPU_API CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  return entry("cuMemHostRegister_v2", Need::Context, [&](Call& c) {
    c.require(pointer && bytes > 0, "p is null or bytesize is 0");
    c.require(find_host_block(c, pointer) == c.s.host_blocks.end(), "the memory is registered",
              kHostMemoryAlreadyRegistered);
    c.require(c.s.memory->adopt(pointer, bytes), "the memory is registered, or managed, in part",
              kHostMemoryAlreadyRegistered);
    c.s.host_blocks[reinterpret_cast<uintptr_t>(pointer)] =
        HostBlock{bytes, flags, true, c.context->handle};
  });
}

VGPU_API CUresult cuMemHostUnregister(void* pointer) {
  return entry("cuMemHostUnregister", Need::Context, [&](Call& c) {
    auto it = c.s.host_blocks.find(reinterpret_cast<uintptr_t>(pointer));
    c.require(it != c.s.host_blocks.end() && it->second.registered, "p is not registered",
              kHostMemoryNotRegistered);
    c.s.host_blocks.erase(it);
    c.execute([&] { c.s.memory->free(reinterpret_cast<uint64_t>(pointer)); });
  });
}

VGPU_API CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return entry("cuMemHostGetFlags", Need::Context, [&](Call& c) {
    auto it = find_host_block(c, pointer);
    c.require(flags && it != c.s.host_blocks.end(), "p is no pinned memory");
    *flags = it->second.flags;
  });
}

// ---- pointers

VGPU_API CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which,
                                        CUdeviceptr pointer) {
  return entry("cuPointerGetAttribute", Need::Init, [&](Call& c) {
    c.require(value, "data is null");
    c.require(int(which) != 3 || current_context(), "DEVICE_POINTER without a current context",
              CUDA_ERROR_INVALID_CONTEXT);
    c.require(pointer_attribute(c, value, int(which), pointer),
              hex(pointer) + " is no memory that the driver knows, or has no attribute " +
                  std::to_string(int(which)));
  });
}

VGPU_API CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** values,
                                         CUdeviceptr pointer) {
  return entry("cuPointerGetAttributes", Need::Init, [&](Call& c) {
    c.require(count == 0 || (which && values), "attributes or data is null");
    for (unsigned i = 0; i < count; ++i) {
      if (pointer_attribute(c, values[i], int(which[i]), pointer)) continue;
      // Unknown to the driver: the documented null of each attribute's type.
      switch (int(which[i])) {
      case 1:
        *static_cast<CUcontext*>(values[i]) = nullptr;
        break;
      case 2:
        *static_cast<unsigned*>(values[i]) = 0;
        break;
      case 3:
      case 4:
      case 7:
      case 11:
      case 12:
        *static_cast<uint64_t*>(values[i]) = 0;
        break;
      case 9:
        *static_cast<int*>(values[i]) = -2;
        break;
      case 6:
      case 8:
      case 10:
      case 13:
      case 15:
        *static_cast<unsigned char*>(values[i]) = 0;
        break;
      default:
        c.refuse(CUDA_ERROR_INVALID_VALUE,
                 "attribute " + std::to_string(int(which[i])) + " is not supported");
      }
    }
  });
}

// ---- copies

VGPU_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpy", any_end(to, "dst"), any_end(from, "src"), bytes, nullptr, false);
}
VGPU_ALIAS(cuMemcpy, cuMemcpy_ptds)
VGPU_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyAsync", any_end(to, "dst"), any_end(from, "src"), bytes, stream, true);
}
VGPU_ALIAS(cuMemcpyAsync, cuMemcpyAsync_ptsz)
VGPU_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy("cuMemcpyHtoD_v2", device_end(to, "dstDevice"), host_end(from, "srcHost"), bytes,
              nullptr, false);
}
VGPU_ALIAS(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds)
VGPU_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                       CUstream stream) {
  return copy("cuMemcpyHtoDAsync_v2", device_end(to, "dstDevice"), host_end(from, "srcHost"), bytes,
              stream, true);
}
VGPU_ALIAS(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz)
VGPU_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpyDtoH_v2", host_end(to, "dstHost"), device_end(from, "srcDevice"), bytes,
              nullptr, false);
}
VGPU_ALIAS(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds)
VGPU_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoHAsync_v2", host_end(to, "dstHost"), device_end(from, "srcDevice"), bytes,
              stream, true);
}
VGPU_ALIAS(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz)
VGPU_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpyDtoD_v2", device_end(to, "dstDevice"), device_end(from, "srcDevice"), bytes,
              nullptr, false);
}
VGPU_ALIAS(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds)
VGPU_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                       CUstream stream) {
  return copy("cuMemcpyDtoDAsync_v2", device_end(to, "dstDevice"), device_end(from, "srcDevice"),
              bytes, stream, true);
}
VGPU_ALIAS(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz)

VGPU_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
  return copy_2d("cuMemcpy2D_v2", p, nullptr, false);
}
VGPU_ALIAS(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds)
VGPU_ALIAS(cuMemcpy2D_v2, cuMemcpy2DUnaligned_v2)
VGPU_ALIAS(cuMemcpy2D_v2, cuMemcpy2DUnaligned_v2_ptds)
VGPU_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream stream) {
  return copy_2d("cuMemcpy2DAsync_v2", p, stream, true);
}
VGPU_ALIAS(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz)

// ---- fills

#define VGPU_MEMSET(bits, type)                                                                    \
  VGPU_API CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {               \
    return fill<type>("cuMemsetD" #bits "_v2", to, 0, value, count, 1, nullptr, false);            \
  }                                                                                                \
  VGPU_ALIAS(cuMemsetD##bits##_v2, cuMemsetD##bits##_v2_ptds)                                      \
  VGPU_API CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count,               \
                                           CUstream stream) {                                      \
    return fill<type>("cuMemsetD" #bits "Async", to, 0, value, count, 1, stream, true);            \
  }                                                                                                \
  VGPU_ALIAS(cuMemsetD##bits##Async, cuMemsetD##bits##Async_ptsz)                                  \
  VGPU_API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, \
                                           size_t height) {                                        \
    return fill<type>("cuMemsetD2D" #bits "_v2", to, pitch, value, width, height, nullptr, false); \
  }                                                                                                \
  VGPU_ALIAS(cuMemsetD2D##bits##_v2, cuMemsetD2D##bits##_v2_ptds)                                  \
  VGPU_API CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value,             \
                                             size_t width, size_t height, CUstream stream) {       \
    return fill<type>("cuMemsetD2D" #bits "Async", to, pitch, value, width, height, stream, true); \
  }                                                                                                \
  VGPU_ALIAS(cuMemsetD2D##bits##Async, cuMemsetD2D##bits##Async_ptsz)

VGPU_MEMSET(8, unsigned char)
VGPU_MEMSET(16, unsigned short)
VGPU_MEMSET(32, unsigned)
#undef VGPU_MEMSET

} // namespace vgpu::driver
