// What nvcc's start-up code registers, and errors. Modules are loaded by the first use.
#include "tools/vgpu/cudart/cudart.hpp"

#include <cstdio>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vgpu::cudart {

namespace {

struct Binary {
  const void* wrapper;
  CUmodule module = nullptr;
  // Of managed variables: where the program keeps their addresses, and their names.
  std::vector<std::pair<void**, std::string>> managed;
};
struct Named {
  Binary* binary;
  std::string name;
  CUfunction function = nullptr;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Named> functions, variables;
  std::set<std::string> told;
  CUcontext context = nullptr;
};
// Never destroyed: programs unregister, and free memory, as they end.
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

thread_local constinit Error last_error = kSuccess;

Error load(Binary& b) {
  if (b.module) return kSuccess;
  if (CUresult e = cuModuleLoadFatBinary(&b.module, b.wrapper)) return Error(e);
  for (const auto& [host, name] : b.managed) {
    CUdeviceptr address = 0;
    if (CUresult e = cuModuleGetGlobal_v2(&address, nullptr, b.module, name.c_str()))
      return Error(e);
    *host = reinterpret_cast<void*>(address);
  }
  return kSuccess;
}

} // namespace

Error note(Error error) {
  if (error != kSuccess && error != kNotReady) last_error = error;
  return error;
}

Error missing(const char* name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.told.insert(name).second)
    std::fprintf(stderr, "vgpu: %s is not supported by the virtual GPU's CUDA runtime\n", name);
  return note(kNotSupported);
}

Error ready() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (!r.context) {
    if (CUresult e = cuInit(0)) return Error(e);
    if (CUresult e = cuDevicePrimaryCtxRetain(&r.context, 0)) return Error(e);
  }
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  return current ? kSuccess : Error(cuCtxSetCurrent(r.context));
}

Error function_of(const void* host, CUfunction* function) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.functions.find(host);
  if (it == r.functions.end()) return kInvalidFunction;
  Named& f = it->second;
  if (!f.function) {
    if (Error e = load(*f.binary)) return e;
    if (cuModuleGetFunction(&f.function, f.binary->module, f.name.c_str())) return kInvalidFunction;
  }
  *function = f.function;
  return kSuccess;
}

Error variable_of(const void* host, CUdeviceptr* address, size_t* bytes) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.variables.find(host);
  if (it == r.variables.end()) return kInvalidSymbol;
  if (Error e = load(*it->second.binary)) return e;
  return cuModuleGetGlobal_v2(address, bytes, it->second.binary->module, it->second.name.c_str())
             ? kInvalidSymbol
             : kSuccess;
}

} // namespace vgpu::cudart

using namespace vgpu::cudart;

// ---- start-up code

CUDART_API void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(new Binary{wrapper, nullptr, {}});
}
CUDART_API void __cudaRegisterFatBinaryEnd(void**) {}
// Ahead of the program's first touch of a managed variable.
CUDART_API char __cudaInitModule(void** handle) {
  call([&] {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    return load(*reinterpret_cast<Binary*>(handle));
  });
  return 1;
}
CUDART_API void __cudaUnregisterFatBinary(void** handle) {
  auto* binary = reinterpret_cast<Binary*>(handle);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::erase_if(r.functions, [&](const auto& f) { return f.second.binary == binary; });
  std::erase_if(r.variables, [&](const auto& v) { return v.second.binary == binary; });
  if (binary->module) cuModuleUnload(binary->module);
  delete binary;
}
CUDART_API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name,
                                       int, void*, void*, void*, void*, int*) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.functions[host] = {reinterpret_cast<Binary*>(handle), name};
}
CUDART_API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t,
                                  int, int) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.variables[host] = {reinterpret_cast<Binary*>(handle), name};
}
CUDART_API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                                         size_t, int, int) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto* binary = reinterpret_cast<Binary*>(handle);
  r.variables[host] = {binary, name};
  binary->managed.emplace_back(host, name);
}

// ---- errors

CUDART_API Error cudaGetLastError() {
  const Error e = last_error;
  last_error = kSuccess;
  return e;
}
CUDART_API Error cudaPeekAtLastError() { return last_error; }

namespace {
// Those that only the runtime has.
struct Text {
  Error error;
  const char *name, *text;
};
constexpr Text kTexts[] = {
    {kSuccess, "cudaSuccess", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {kInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {kInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {kInvalidDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {kInvalidFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {201, "cudaErrorDeviceUninitialized", "invalid device context"},
    {209, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {218, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {kNotReady, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {716, "cudaErrorMisalignedAddress", "misaligned address"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {kNotSupported, "cudaErrorNotSupported", "operation not supported"},
};
} // namespace

CUDART_API const char* cudaGetErrorName(Error error) {
  for (const Text& t : kTexts)
    if (t.error == error) return t.name;
  const char* text = nullptr;
  return cuGetErrorName(error, &text) == CUDA_SUCCESS && text ? text : "unrecognized error code";
}
CUDART_API const char* cudaGetErrorString(Error error) {
  for (const Text& t : kTexts)
    if (t.error == error) return t.text;
  const char* text = nullptr;
  return cuGetErrorString(error, &text) == CUDA_SUCCESS && text ? text : "unrecognized error code";
}
