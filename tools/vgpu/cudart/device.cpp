// The device, versions, limits.
#include "tools/vgpu/cudart/cudart.hpp"

#include <cstring>
#include <dlfcn.h>
#include <string_view>

using namespace vgpu::cudart;

namespace {

// The same code is libcudart.so.13 and .12: programs of either find it by its name.
bool is_twelve() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&is_twelve), &info) != 0 && info.dli_fname &&
         std::string_view(info.dli_fname).find("libcudart.so.12") != std::string_view::npos;
}
int runtime_version() { return is_twelve() ? 12090 : 13000; }

// cudaDeviceProp: the fields that are filled, by their offsets in CUDA 13 and 12; the rest is zero,
// which for capabilities means that the device does not have them.
constexpr size_t kPropBytes[] = {1008, 1032};
struct Field {
  size_t offset, offset_12;
  int attribute; // CUdevice_attribute
  bool wide;
};
constexpr Field kFields[] = {
    {296, 296, 8, true},    // sharedMemPerBlock
    {304, 304, 12, false},  // regsPerBlock
    {308, 308, 10, false},  // warpSize
    {312, 312, 11, true},   // memPitch
    {320, 320, 1, false},   // maxThreadsPerBlock
    {324, 324, 2, false},   // maxThreadsDim
    {328, 328, 3, false},   //
    {332, 332, 4, false},   //
    {336, 336, 5, false},   // maxGridSize
    {340, 340, 6, false},   //
    {344, 344, 7, false},   //
    {352, 352, 9, true},    // totalConstMem
    {360, 360, 75, false},  // major
    {364, 364, 76, false},  // minor
    {368, 368, 14, true},   // textureAlignment
    {384, 388, 16, false},  // multiProcessorCount
    {388, 396, 18, false},  // integrated
    {392, 400, 19, false},  // canMapHostMemory
    {560, 576, 31, false},  // concurrentKernels
    {564, 580, 32, false},  // ECCEnabled
    {584, 600, 40, false},  // asyncEngineCount
    {588, 604, 41, false},  // unifiedAddressing
    {592, 612, 37, false},  // memoryBusWidth
    {596, 616, 38, false},  // l2CacheSize
    {604, 624, 39, false},  // maxThreadsPerMultiProcessor
    {608, 628, 78, false},  // streamPrioritiesSupported
    {612, 632, 79, false},  // globalL1CacheSupported
    {616, 636, 80, false},  // localL1CacheSupported
    {624, 640, 81, true},   // sharedMemPerMultiprocessor
    {632, 648, 82, false},  // regsPerMultiprocessor
    {668, 688, 95, false},  // cooperativeLaunch
    {672, 696, 97, true},   // sharedMemPerBlockOptin
    {688, 712, 106, false}, // maxBlocksPerMultiProcessor
    {696, 720, 111, true},  // reservedSharedMemPerBlock
    {748, 772, 120, false}, // clusterLaunch
    {636, 652, 83, false},  // managedMemory
    {656, 676, 89, false},  // concurrentManagedAccess
    {664, 684, 91, false},  // canUseHostPointerForRegisteredMem
    {704, 728, 99, false},  // hostRegisterSupported
};

} // namespace

namespace {
Error device_properties(void* properties, int device, bool twelve) {
  return call([&] {
    if (device != 0) return kInvalidDevice;
    auto* to = static_cast<unsigned char*>(properties);
    std::memset(to, 0, kPropBytes[twelve]);
    if (CUresult e = cuDeviceGetName(reinterpret_cast<char*>(to), 256, device)) return Error(e);
    CUuuid uuid{};
    cuDeviceGetUuid_v2(&uuid, device);
    std::memcpy(to + 256, &uuid, sizeof uuid);
    size_t bytes = 0;
    cuDeviceTotalMem_v2(&bytes, device);
    std::memcpy(to + 288, &bytes, sizeof bytes);
    for (const Field& f : kFields) {
      int value = 0;
      if (CUresult e = cuDeviceGetAttribute(&value, f.attribute, device)) return Error(e);
      const size_t wide = size_t(value);
      unsigned char* const at = to + (twelve ? f.offset_12 : f.offset);
      if (f.wide)
        std::memcpy(at, &wide, sizeof wide);
      else
        std::memcpy(at, &value, sizeof value);
    }
    return kSuccess;
  });
}
} // namespace

// CUDA 12 calls it _v2; the one without is CUDA 11's there, of yet another layout.
CUDART_API Error cudaGetDeviceProperties(void* properties, int device) {
  return is_twelve() ? missing("cudaGetDeviceProperties of CUDA 11")
                     : device_properties(properties, device, false);
}
CUDART_API Error cudaGetDeviceProperties_v2(void* properties, int device) {
  return device_properties(properties, device, true);
}

CUDART_API Error cudaGetDeviceCount(int* count) {
  return call([&] { return cuDeviceGetCount(count); });
}
CUDART_API Error cudaGetDevice(int* device) {
  return call([&] {
    *device = 0;
    return kSuccess;
  });
}
CUDART_API Error cudaSetDevice(int device) {
  return call([&] { return device == 0 ? kSuccess : kInvalidDevice; });
}
CUDART_API Error cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
CUDART_API Error cudaSetDeviceFlags(unsigned) {
  return call([] { return kSuccess; });
}
CUDART_API Error cudaGetDeviceFlags(unsigned* flags) {
  return call([&] {
    *flags = 0;
    return kSuccess;
  });
}
CUDART_API Error cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return call([&] { return cuDeviceGetAttribute(value, attribute, device); });
}
CUDART_API Error cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}
CUDART_API Error cudaDeviceSynchronize() {
  return call([] { return cuCtxSynchronize(); });
}
CUDART_API Error cudaDeviceReset() {
  return call([] { return cuDevicePrimaryCtxReset_v2(0); });
}
// Names of before, which CUDA 12 still has.
CUDART_ALIAS(cudaDeviceSynchronize, cudaThreadSynchronize)
CUDART_ALIAS(cudaDeviceReset, cudaThreadExit)
CUDART_API Error cudaDeviceSetLimit(int limit, size_t value) {
  return call([&] { return cuCtxSetLimit(limit, value); });
}
CUDART_API Error cudaDeviceGetLimit(size_t* value, int limit) {
  return call([&] { return cuCtxGetLimit(value, limit); });
}
CUDART_API Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}
CUDART_API Error cudaDeviceSetCacheConfig(int) {
  return call([] { return kSuccess; });
}
CUDART_API Error cudaRuntimeGetVersion(int* version) {
  if (!version) return note(kInvalidValue);
  *version = runtime_version();
  return kSuccess;
}
CUDART_API Error cudaDriverGetVersion(int* version) { return note(cuDriverGetVersion(version)); }
CUDART_API Error cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                  unsigned version, unsigned long long flags,
                                                  int* status) {
  return call([&] {
    int found = 0;
    const CUresult e = cuGetProcAddress_v2(name, function, int(version), flags, &found);
    if (status) *status = found;
    return status && e == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : e;
  });
}
CUDART_ALIAS(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz)
CUDART_API Error cudaGetDriverEntryPoint(const char* name, void** function,
                                         unsigned long long flags, int* status) {
  return cudaGetDriverEntryPointByVersion(name, function, unsigned(runtime_version()), flags,
                                          status);
}
CUDART_ALIAS(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz)
CUDART_API Error cudaProfilerStart() { return kSuccess; }
CUDART_API Error cudaProfilerStop() { return kSuccess; }
