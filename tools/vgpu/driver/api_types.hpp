// Types of the driver API that only the virtual GPU needs, beside those the runtime declares
// (runtime/src/cuda_api.hpp), and the export macros. Values and layouts as in CUDA 13.0.
#pragma once

#include "runtime/src/cuda_api.hpp"

#define VGPU_API extern "C" __attribute__((visibility("default")))
// A second exported name for a function of the same file: the variants for the per-thread default
// stream (_ptsz, _ptds), which do the same here because every stream runs its work at once, and
// versions of one function that do not differ.
#define VGPU_ALIAS(name, other)                                                                    \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) other;

namespace vgpu::driver {

using namespace cuapi;

using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUhostFn = void (*)(void* user_data);
using CUstreamCallback = void (*)(CUstream stream, CUresult status, void* user_data);
using CUoccupancyB2DSize = size_t (*)(int block_size);

// Results that the runtime has no name for.
constexpr CUresult kUnsupportedLimit = CUresult(215);
constexpr CUresult kPrimaryContextActive = CUresult(708);
constexpr CUresult kHostMemoryAlreadyRegistered = CUresult(712);
constexpr CUresult kHostMemoryNotRegistered = CUresult(713);
constexpr CUresult kCaptureMerge = CUresult(902);
constexpr CUresult kCaptureUnjoined = CUresult(904);
constexpr CUresult kCaptureIsolation = CUresult(905);
constexpr CUresult kCapturedEvent = CUresult(907);
constexpr CUresult kCaptureWrongThread = CUresult(908);

// Stream values that are no handles: 0 and 1 the legacy default stream, 2 the per-thread one.
constexpr uintptr_t kPerThreadStream = 2;

struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};

} // namespace vgpu::driver
