// The CUDA runtime's names over the virtual driver: what nvcc's programs with -cudart shared call.
// Types and layouts are those of CUDA 13.0, declared by hand: no toolkit is needed to build.
//
// Results are the driver's: cudaError_t and CUresult have the same numbers where both have a name.
#pragma once

#include "runtime/src/cuda_api.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#define CUDART_API extern "C" __attribute__((visibility("default")))
// The per-thread default stream's variant: every stream runs its work at once.
#define CUDART_ALIAS(name, other)                                                                  \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) other;

namespace vgpu::cudart {

using namespace cuapi;

using Error = int;
constexpr Error kSuccess = 0, kInvalidValue = 1, kInvalidConfiguration = 9, kInvalidSymbol = 13,
                kInvalidDirection = 21, kInvalidFunction = 98, kInvalidDevice = 101,
                kNotSupported = 801, kNotReady = 600;

struct Dim3 {
  unsigned x, y, z;
};
struct LaunchConfig { // cudaLaunchConfig_t
  Dim3 grid, block;
  size_t dynamic_shared;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned count;
};

// Remembers what went wrong for cudaGetLastError; returns it.
Error note(Error error);
inline Error note(CUresult result) { return note(Error(result)); }
// Says on stderr, once for each name, what the virtual GPU does not do.
Error missing(const char* name);
// The device's primary context, current in this thread; what is wrong otherwise.
Error ready();

// Functions and variables that the program's registration names, by their host addresses.
Error function_of(const void* host, CUfunction* function);
Error variable_of(const void* host, CUdeviceptr* address, size_t* bytes);

// A call with the context ready: what it returns is noted.
template <class F>
Error call(F&& f) noexcept {
  try {
    if (Error e = ready()) return note(e);
    return note(Error(f()));
  } catch (...) {
    return note(Error(CUDA_ERROR_OUT_OF_MEMORY));
  }
}

} // namespace vgpu::cudart

// The driver's functions that are called, from libcuda.so.1 beside this library.
extern "C" {
#define DRIVER(name, ...) cuapi::CUresult name(__VA_ARGS__);
DRIVER(cuInit, unsigned)
DRIVER(cuDriverGetVersion, int*)
DRIVER(cuDeviceGetCount, int*)
DRIVER(cuDeviceGetName, char*, int, int)
DRIVER(cuDeviceGetUuid_v2, cuapi::CUuuid*, int)
DRIVER(cuDeviceTotalMem_v2, size_t*, int)
DRIVER(cuDeviceGetAttribute, int*, int, int)
DRIVER(cuDeviceCanAccessPeer, int*, int, int)
DRIVER(cuDevicePrimaryCtxRetain, cuapi::CUcontext*, int)
DRIVER(cuDevicePrimaryCtxReset_v2, int)
DRIVER(cuCtxGetCurrent, cuapi::CUcontext*)
DRIVER(cuCtxSetCurrent, cuapi::CUcontext)
DRIVER(cuCtxSynchronize)
DRIVER(cuCtxSetLimit, int, size_t)
DRIVER(cuCtxGetLimit, size_t*, int)
DRIVER(cuCtxGetStreamPriorityRange, int*, int*)
DRIVER(cuGetErrorName, int, const char**)
DRIVER(cuGetErrorString, int, const char**)
DRIVER(cuGetProcAddress_v2, const char*, void**, int, uint64_t, int*)
DRIVER(cuModuleLoadFatBinary, cuapi::CUmodule*, const void*)
DRIVER(cuModuleUnload, cuapi::CUmodule)
DRIVER(cuModuleGetFunction, cuapi::CUfunction*, cuapi::CUmodule, const char*)
DRIVER(cuModuleGetGlobal_v2, cuapi::CUdeviceptr*, size_t*, cuapi::CUmodule, const char*)
DRIVER(cuFuncGetAttribute, int*, int, cuapi::CUfunction)
DRIVER(cuFuncSetAttribute, cuapi::CUfunction, int, int)
DRIVER(cuFuncSetCacheConfig, cuapi::CUfunction, int)
DRIVER(cuFuncGetName, const char**, cuapi::CUfunction)
DRIVER(cuLaunchKernelEx, const cuapi::CUlaunchConfig*, cuapi::CUfunction, void**, void**)
DRIVER(cuLaunchCooperativeKernel, cuapi::CUfunction, unsigned, unsigned, unsigned, unsigned,
       unsigned, unsigned, unsigned, cuapi::CUstream, void**)
DRIVER(cuLaunchHostFunc, cuapi::CUstream, void (*)(void*), void*)
DRIVER(cuMemAlloc_v2, cuapi::CUdeviceptr*, size_t)
DRIVER(cuMemAllocPitch_v2, cuapi::CUdeviceptr*, size_t*, size_t, size_t, unsigned)
DRIVER(cuMemFree_v2, cuapi::CUdeviceptr)
DRIVER(cuMemAllocHost_v2, void**, size_t)
DRIVER(cuMemHostAlloc, void**, size_t, unsigned)
DRIVER(cuMemFreeHost, void*)
DRIVER(cuMemHostGetDevicePointer_v2, cuapi::CUdeviceptr*, void*, unsigned)
DRIVER(cuMemHostGetFlags, unsigned*, void*)
DRIVER(cuMemAllocManaged, cuapi::CUdeviceptr*, size_t, unsigned)
DRIVER(cuMemAdvise, cuapi::CUdeviceptr, size_t, int, int)
DRIVER(cuMemPrefetchAsync, cuapi::CUdeviceptr, size_t, int, cuapi::CUstream)
DRIVER(cuStreamAttachMemAsync, cuapi::CUstream, cuapi::CUdeviceptr, size_t, unsigned)
DRIVER(cuMemHostRegister_v2, void*, size_t, unsigned)
DRIVER(cuMemHostUnregister, void*)
DRIVER(cuMemGetInfo_v2, size_t*, size_t*)
DRIVER(cuMemcpy, cuapi::CUdeviceptr, cuapi::CUdeviceptr, size_t)
DRIVER(cuMemcpyAsync, cuapi::CUdeviceptr, cuapi::CUdeviceptr, size_t, cuapi::CUstream)
DRIVER(cuMemcpy2D_v2, const void*)
DRIVER(cuMemcpy2DAsync_v2, const void*, cuapi::CUstream)
DRIVER(cuMemsetD8_v2, cuapi::CUdeviceptr, unsigned char, size_t)
DRIVER(cuMemsetD8Async, cuapi::CUdeviceptr, unsigned char, size_t, cuapi::CUstream)
DRIVER(cuMemsetD2D8_v2, cuapi::CUdeviceptr, size_t, unsigned char, size_t, size_t)
DRIVER(cuMemsetD2D8Async, cuapi::CUdeviceptr, size_t, unsigned char, size_t, size_t,
       cuapi::CUstream)
DRIVER(cuPointerGetAttribute, void*, int, cuapi::CUdeviceptr)
DRIVER(cuStreamCreateWithPriority, cuapi::CUstream*, unsigned, int)
DRIVER(cuStreamDestroy_v2, cuapi::CUstream)
DRIVER(cuStreamSynchronize, cuapi::CUstream)
DRIVER(cuStreamQuery, cuapi::CUstream)
DRIVER(cuStreamWaitEvent, cuapi::CUstream, cuapi::CUevent, unsigned)
DRIVER(cuStreamGetPriority, cuapi::CUstream, int*)
DRIVER(cuStreamGetFlags, cuapi::CUstream, unsigned*)
DRIVER(cuStreamGetId, cuapi::CUstream, unsigned long long*)
DRIVER(cuStreamAddCallback, cuapi::CUstream, void (*)(cuapi::CUstream, cuapi::CUresult, void*),
       void*, unsigned)
DRIVER(cuStreamBeginCapture_v2, cuapi::CUstream, int)
DRIVER(cuStreamEndCapture, cuapi::CUstream, cuapi::CUgraph*)
DRIVER(cuStreamIsCapturing, cuapi::CUstream, int*)
DRIVER(cuThreadExchangeStreamCaptureMode, int*)
DRIVER(cuEventCreate, cuapi::CUevent*, unsigned)
DRIVER(cuEventDestroy_v2, cuapi::CUevent)
DRIVER(cuEventRecord, cuapi::CUevent, cuapi::CUstream)
DRIVER(cuEventRecordWithFlags, cuapi::CUevent, cuapi::CUstream, unsigned)
DRIVER(cuEventSynchronize, cuapi::CUevent)
DRIVER(cuEventQuery, cuapi::CUevent)
DRIVER(cuEventElapsedTime, float*, cuapi::CUevent, cuapi::CUevent)
DRIVER(cuGraphCreate, cuapi::CUgraph*, unsigned)
DRIVER(cuGraphDestroy, cuapi::CUgraph)
DRIVER(cuGraphInstantiateWithFlags, cuapi::CUgraphExec*, cuapi::CUgraph, unsigned long long)
DRIVER(cuGraphLaunch, cuapi::CUgraphExec, cuapi::CUstream)
DRIVER(cuGraphUpload, cuapi::CUgraphExec, cuapi::CUstream)
DRIVER(cuGraphExecDestroy, cuapi::CUgraphExec)
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int*, cuapi::CUfunction, int, size_t,
       unsigned)
DRIVER(cuOccupancyAvailableDynamicSMemPerBlock, size_t*, cuapi::CUfunction, int, int)
DRIVER(cuOccupancyMaxActiveClusters, int*, cuapi::CUfunction, const cuapi::CUlaunchConfig*)
DRIVER(cuOccupancyMaxPotentialClusterSize, int*, cuapi::CUfunction, const cuapi::CUlaunchConfig*)
#undef DRIVER
}
