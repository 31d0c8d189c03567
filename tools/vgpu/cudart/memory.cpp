// Memory, copies, symbols.
#include "tools/vgpu/cudart/cudart.hpp"

using namespace vgpu::cudart;

namespace {

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

struct Copy2D { // CUDA_MEMCPY2D; memory type 4: the address says where it lies
  size_t src_x, src_y;
  int src_type;
  const void* src_host;
  CUdeviceptr src;
  void* src_array;
  size_t src_pitch, dst_x, dst_y;
  int dst_type;
  void* dst_host;
  CUdeviceptr dst;
  void* dst_array;
  size_t dst_pitch, width, height;
};
Copy2D copy2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
              size_t height) {
  Copy2D c{};
  c.src_type = c.dst_type = 4;
  c.src = address(from);
  c.src_pitch = from_pitch;
  c.dst = address(to);
  c.dst_pitch = to_pitch;
  c.width = width;
  c.height = height;
  return c;
}

// cudaMemcpyKind: 0 host to host, 1 to the device, 2 from it, 3 within it, 4 as the addresses say.
bool is_kind(int kind) { return kind >= 0 && kind <= 4; }

Error symbol_place(const void* symbol, size_t bytes, size_t offset, CUdeviceptr* at) {
  size_t size = 0;
  if (Error e = variable_of(symbol, at, &size)) return e;
  if (offset > size || bytes > size - offset) return kInvalidValue;
  *at += offset;
  return kSuccess;
}

} // namespace

CUDART_API Error cudaMalloc(void** p, size_t bytes) {
  return call([&] {
    if (!p) return kInvalidValue;
    *p = nullptr;
    if (bytes == 0) return kSuccess;
    return Error(cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(p), bytes));
  });
}
// Streams run their work at once, so that the place in the stream is that of the call.
CUDART_API Error cudaMallocAsync(void** p, size_t bytes, CUstream) { return cudaMalloc(p, bytes); }
CUDART_ALIAS(cudaMallocAsync, cudaMallocAsync_ptsz)
CUDART_API Error cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
  return call([&] {
    return cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr*>(p), pitch, width, height, 16);
  });
}
CUDART_API Error cudaFree(void* p) {
  return call([&] { return p ? cuMemFree_v2(address(p)) : CUDA_SUCCESS; });
}
CUDART_API Error cudaFreeAsync(void* p, CUstream) { return cudaFree(p); }
CUDART_ALIAS(cudaFreeAsync, cudaFreeAsync_ptsz)
CUDART_API Error cudaMallocHost(void** p, size_t bytes) {
  return call([&] { return cuMemAllocHost_v2(p, bytes); });
}
CUDART_API Error cudaHostAlloc(void** p, size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostAlloc(p, bytes, flags); });
}
CUDART_API Error cudaFreeHost(void* p) {
  return call([&] { return p ? cuMemFreeHost(p) : CUDA_SUCCESS; });
}
CUDART_API Error cudaHostRegister(void* p, size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostRegister_v2(p, bytes, flags); });
}
CUDART_API Error cudaHostUnregister(void* p) {
  return call([&] { return cuMemHostUnregister(p); });
}
CUDART_API Error cudaHostGetDevicePointer(void** device, void* p, unsigned flags) {
  return call([&] {
    return cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(device), p, flags);
  });
}
CUDART_API Error cudaHostGetFlags(unsigned* flags, void* p) {
  return call([&] { return cuMemHostGetFlags(flags, p); });
}
CUDART_API Error cudaMallocManaged(void** p, size_t bytes, unsigned flags) {
  return call([&] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(p), bytes, flags); });
}
// Where, in which stream and how: of no matter here, and other arguments in CUDA 12.
CUDART_API Error cudaMemAdvise(const void* p, size_t bytes) {
  return call([&] { return cuMemAdvise(address(p), bytes, 0, 0); });
}
CUDART_API Error cudaMemPrefetchAsync(const void* p, size_t bytes) {
  return call([&] { return cuMemPrefetchAsync(address(p), bytes, 0, nullptr); });
}
CUDART_ALIAS(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz)
CUDART_API Error cudaStreamAttachMemAsync(CUstream stream, void* p, size_t bytes, unsigned flags) {
  return call([&] { return cuStreamAttachMemAsync(stream, address(p), bytes, flags); });
}
CUDART_ALIAS(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz)
CUDART_API Error cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&] { return cuMemGetInfo_v2(free, total); });
}

CUDART_API Error cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  if (!is_kind(kind)) return note(kInvalidDirection);
  return call([&] { return bytes ? cuMemcpy(address(to), address(from), bytes) : CUDA_SUCCESS; });
}
CUDART_ALIAS(cudaMemcpy, cudaMemcpy_ptds)
CUDART_API Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind,
                                 CUstream stream) {
  if (!is_kind(kind)) return note(kInvalidDirection);
  return call([&] {
    return bytes ? cuMemcpyAsync(address(to), address(from), bytes, stream) : CUDA_SUCCESS;
  });
}
CUDART_ALIAS(cudaMemcpyAsync, cudaMemcpyAsync_ptsz)
CUDART_API Error cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, int kind) {
  if (!is_kind(kind)) return note(kInvalidDirection);
  const Copy2D c = copy2d(to, to_pitch, from, from_pitch, width, height);
  return call([&] { return cuMemcpy2D_v2(&c); });
}
CUDART_ALIAS(cudaMemcpy2D, cudaMemcpy2D_ptds)
CUDART_API Error cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, int kind, CUstream stream) {
  if (!is_kind(kind)) return note(kInvalidDirection);
  const Copy2D c = copy2d(to, to_pitch, from, from_pitch, width, height);
  return call([&] { return cuMemcpy2DAsync_v2(&c, stream); });
}
CUDART_ALIAS(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz)
CUDART_API Error cudaMemset(void* to, int value, size_t bytes) {
  return call([&] {
    return bytes ? cuMemsetD8_v2(address(to), static_cast<unsigned char>(value), bytes)
                 : CUDA_SUCCESS;
  });
}
CUDART_ALIAS(cudaMemset, cudaMemset_ptds)
CUDART_API Error cudaMemsetAsync(void* to, int value, size_t bytes, CUstream stream) {
  return call([&] {
    return bytes ? cuMemsetD8Async(address(to), static_cast<unsigned char>(value), bytes, stream)
                 : CUDA_SUCCESS;
  });
}
CUDART_ALIAS(cudaMemsetAsync, cudaMemsetAsync_ptsz)
CUDART_API Error cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return call([&] {
    return cuMemsetD2D8_v2(address(to), pitch, static_cast<unsigned char>(value), width, height);
  });
}
CUDART_API Error cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                   CUstream stream) {
  return call([&] {
    return cuMemsetD2D8Async(address(to), pitch, static_cast<unsigned char>(value), width, height,
                             stream);
  });
}

// ---- symbols

CUDART_API Error cudaGetSymbolAddress(void** p, const void* symbol) {
  return call([&] { return symbol_place(symbol, 0, 0, reinterpret_cast<CUdeviceptr*>(p)); });
}
CUDART_API Error cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return call([&] {
    CUdeviceptr at = 0;
    return variable_of(symbol, &at, bytes);
  });
}
CUDART_API Error cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                         size_t offset, int kind, CUstream stream) {
  return call([&] {
    CUdeviceptr at = 0;
    if (Error e = symbol_place(symbol, bytes, offset, &at)) return e;
    return cudaMemcpyAsync(reinterpret_cast<void*>(at), from, bytes, kind, stream);
  });
}
CUDART_API Error cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, int kind) {
  return call([&] {
    CUdeviceptr at = 0;
    if (Error e = symbol_place(symbol, bytes, offset, &at)) return e;
    return cudaMemcpy(reinterpret_cast<void*>(at), from, bytes, kind);
  });
}
CUDART_API Error cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes,
                                           size_t offset, int kind, CUstream stream) {
  return call([&] {
    CUdeviceptr at = 0;
    if (Error e = symbol_place(symbol, bytes, offset, &at)) return e;
    return cudaMemcpyAsync(to, reinterpret_cast<const void*>(at), bytes, kind, stream);
  });
}
CUDART_API Error cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                      int kind) {
  return call([&] {
    CUdeviceptr at = 0;
    if (Error e = symbol_place(symbol, bytes, offset, &at)) return e;
    return cudaMemcpy(to, reinterpret_cast<const void*>(at), bytes, kind);
  });
}

// ---- pointers

struct PointerAttributes { // cudaPointerAttributes
  int type;                // 0 unregistered, 1 host, 2 device, 3 managed
  int device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};
static_assert(sizeof(PointerAttributes) == 88);

CUDART_API Error cudaPointerGetAttributes(PointerAttributes* to, const void* p) {
  return call([&] {
    *to = {};
    to->device = -2;   // invalid, as for memory that CUDA does not know
    unsigned type = 0; // CUmemorytype: 1 host, 2 device
    if (cuPointerGetAttribute(&type, 2, address(p)) != CUDA_SUCCESS) {
      to->host_pointer = const_cast<void*>(p);
      return kSuccess;
    }
    unsigned char managed = 0;
    cuPointerGetAttribute(&managed, 8, address(p)); // IS_MANAGED
    to->type = managed ? 3 : int(type);
    to->device = 0;
    to->device_pointer = const_cast<void*>(p);
    if (type == 1 || managed) to->host_pointer = const_cast<void*>(p);
    return kSuccess;
  });
}
