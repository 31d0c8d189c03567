// The device, versions, limits.
#include "tools/vgpu/cudart/cudart.hpp"

#include <cstring>

using namespace vgpu::cudart;

namespace {

constexpr int kRuntimeVersion = 13000;

// cudaDeviceProp of CUDA 13.0: the fields that are filled, by their offsets; the rest is zero,
// which for capabilities means that the device does not have them.
constexpr size_t kPropBytes = 1008;
struct Field {
  size_t offset;
  int attribute; // CUdevice_attribute
  bool wide;
};
constexpr Field kFields[] = {
    {296, 8, true},    // sharedMemPerBlock
    {304, 12, false},  // regsPerBlock
    {308, 10, false},  // warpSize
    {312, 11, true},   // memPitch
    {320, 1, false},   // maxThreadsPerBlock
    {324, 2, false},   // maxThreadsDim
    {328, 3, false},   //
    {332, 4, false},   //
    {336, 5, false},   // maxGridSize
    {340, 6, false},   //
    {344, 7, false},   //
    {352, 9, true},    // totalConstMem
    {360, 75, false},  // major
    {364, 76, false},  // minor
    {368, 14, true},   // textureAlignment
    {384, 16, false},  // multiProcessorCount
    {388, 18, false},  // integrated
    {392, 19, false},  // canMapHostMemory
    {560, 31, false},  // concurrentKernels
    {564, 32, false},  // ECCEnabled
    {584, 40, false},  // asyncEngineCount
    {588, 41, false},  // unifiedAddressing
    {592, 37, false},  // memoryBusWidth
    {596, 38, false},  // l2CacheSize
    {604, 39, false},  // maxThreadsPerMultiProcessor
    {608, 78, false},  // streamPrioritiesSupported
    {612, 79, false},  // globalL1CacheSupported
    {616, 80, false},  // localL1CacheSupported
    {624, 81, true},   // sharedMemPerMultiprocessor
    {632, 82, false},  // regsPerMultiprocessor
    {668, 95, false},  // cooperativeLaunch
    {672, 97, true},   // sharedMemPerBlockOptin
    {688, 106, false}, // maxBlocksPerMultiProcessor
    {696, 111, true},  // reservedSharedMemPerBlock
    {748, 120, false}, // clusterLaunch
};

} // namespace

CUDART_API Error cudaGetDeviceProperties(void* properties, int device) {
  return call([&] {
    if (device != 0) return kInvalidDevice;
    auto* to = static_cast<unsigned char*>(properties);
    std::memset(to, 0, kPropBytes);
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
      if (f.wide)
        std::memcpy(to + f.offset, &wide, sizeof wide);
      else
        std::memcpy(to + f.offset, &value, sizeof value);
    }
    return kSuccess;
  });
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
  *version = kRuntimeVersion;
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
  return cudaGetDriverEntryPointByVersion(name, function, kRuntimeVersion, flags, status);
}
CUDART_ALIAS(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz)
CUDART_API Error cudaProfilerStart() { return kSuccess; }
CUDART_API Error cudaProfilerStop() { return kSuccess; }
