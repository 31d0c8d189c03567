// Driver calls about memory and tensor maps.
#include "tests/fuzz/driver_session.hpp"

namespace wlfuzz {

// Both ends have room for what is not refused.
CUDA_MEMCPY2D Session::area() {
  CUDA_MEMCPY2D a{};
  a.srcMemoryType = CUmemorytype(c.below(6));
  a.dstMemoryType = CUmemorytype(c.below(6));
  a.srcHost = room.data();
  a.dstHost = other.data();
  a.srcDevice = pointer(false);
  a.dstDevice = pointer(false);
  a.srcPitch = c.below(512);
  a.dstPitch = c.below(512);
  a.WidthInBytes = c.below(300);
  a.Height = c.below(64);
  a.srcXInBytes = c.below(64);
  a.dstXInBytes = c.below(64);
  a.srcY = c.below(8);
  a.dstY = c.below(8);
  const bool checked =
      a.dstMemoryType == CU_MEMORYTYPE_DEVICE || a.srcMemoryType == CU_MEMORYTYPE_DEVICE;
  if (checked && c.below(4) == 0) {
    size_t* fields[] = {&a.srcPitch, &a.dstPitch, &a.WidthInBytes, &a.Height, &a.srcY, &a.dstY};
    *fields[c.below(6)] = SIZE_MAX - c.below(300);
  }
  return a;
}

void Session::memory_call() {
  CUdeviceptr p = 0;
  void* h = nullptr;
  size_t n = 0, n2 = 0;
  CUstream s = handle<CUstream>();
  switch (c.below(16)) {
  case 0:
  case 1:
  case 2:
    if (call("cuMemAlloc_v2", c.below(16) ? &p : nullptr, bytes()) == CUDA_SUCCESS && p)
      pointers.push_back(p);
    return;
  case 3:
    call("cuMemFree_v2", pointer());
    return;
  case 4: {
    const size_t width = bytes(), height = c.word();
    if (width < 1 << 20 && width * height > 1 << 22) return;
    if (call("cuMemAllocPitch_v2", &p, &n, width, height, integer()) == CUDA_SUCCESS)
      pointers.push_back(p);
    return;
  }
  case 5:
    p = pointer(), h = host();
    call("cuMemcpyHtoD_v2", p, static_cast<const void*>(h), host_size());
    return;
  case 6:
    p = pointer(), h = host();
    call("cuMemcpyDtoHAsync_v2", h, p, host_size(), s);
    return;
  case 7: {
    p = pointer();
    const CUdeviceptr q = pointer();
    call("cuMemcpyDtoDAsync_v2", p, q, bytes(), s);
    return;
  }
  case 8: {
    const CUDA_MEMCPY2D a = area();
    call("cuMemcpy2DAsync_v2", &a, s);
    return;
  }
  case 9:
    p = pointer();
    call("cuMemsetD32Async", p, integer(), bytes(), s);
    return;
  case 10: {
    p = pointer();
    const size_t pitch = bytes(), width = bytes();
    call("cuMemsetD2D16_v2", p, pitch, static_cast<unsigned short>(7), width, bytes());
    return;
  }
  case 11: {
    uint64_t value[8] = {};
    p = pointer();
    call("cuPointerGetAttribute", static_cast<void*>(value), int(integer()), p);
    return;
  }
  case 12:
    p = pointer();
    call("cuMemGetAddressRange_v2", &p, &n, p);
    call("cuMemGetInfo_v2", &n, c.below(4) ? &n2 : nullptr);
    return;
  case 13:
    n = bytes();
    if (call("cuMemHostAlloc", &h, n > kRoom && n < size_t(1) << 40 ? kRoom : n, integer()) ==
        CUDA_SUCCESS)
      handles.push_back(h);
    return;
  case 14:
    call("cuMemFreeHost", handle<void*>());
    return;
  default:
    h = room.data() + c.word();
    call("cuMemHostRegister_v2", h, size_t(c.word()), integer());
    call("cuMemHostUnregister", c.below(2) ? h : handle<void*>());
  }
}

void Session::tensor_call() {
  alignas(128) CUtensorMap map{};
  uint64_t dims[5], strides[5];
  uint32_t box[5], steps[5];
  int lower[3], upper[3];
  for (int i = 0; i < 5; ++i) {
    dims[i] = c.below(4) ? integer() : bytes();
    strides[i] = c.below(4) ? 16 * c.byte() : bytes();
    box[i] = integer();
    steps[i] = c.below(4) ? 1 : integer();
  }
  for (int i = 0; i < 3; ++i) lower[i] = int(integer()), upper[i] = int(integer());
  const int type = int(c.below(18)) - 1;
  const uint32_t rank = uint32_t(c.below(8));
  void* address = reinterpret_cast<void*>(pointer());
  auto pick = [&](auto* p) { return c.below(32) ? p : nullptr; };
  CUtensorMap* to =
      c.below(16) ? &map : reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(&map) + 8);
  const int interleave = int(c.below(4)), swizzle = int(c.below(8)), promotion = int(c.below(5)),
            fill = int(c.below(3));
  if (c.below(2))
    call("cuTensorMapEncodeTiled", to, type, rank, address,
         static_cast<const uint64_t*>(pick(dims)), static_cast<const uint64_t*>(pick(strides)),
         static_cast<const uint32_t*>(pick(box)), static_cast<const uint32_t*>(pick(steps)),
         interleave, swizzle, promotion, fill);
  else
    call("cuTensorMapEncodeIm2col", to, type, rank, address,
         static_cast<const uint64_t*>(pick(dims)), static_cast<const uint64_t*>(pick(strides)),
         static_cast<const int*>(pick(lower)), static_cast<const int*>(pick(upper)), box[0], box[1],
         static_cast<const uint32_t*>(pick(steps)), interleave, swizzle, promotion, fill);
  call("cuTensorMapReplaceAddress", &map, address);
}

} // namespace wlfuzz
