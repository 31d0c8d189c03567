// See fake_driver.hpp. Built to build/tests/libfakecuda.so and opened through WARPLINE_DRIVER.
#include "tests/support/fake_driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

using namespace cuapi;

namespace {

wltest::FakeDriver fake;
CUstream captured_stream = nullptr;
std::mutex memory_mutex;
std::map<CUdeviceptr, size_t> memory; // live allocations
char context_object, other_context_object, module_object, function_object;

struct Defaults {
  Defaults() { fakeReset(); }
} const defaults;

template <class Handle>
Handle handle_of(char& object) {
  return reinterpret_cast<Handle>(&object);
}

int device_attribute(CUdevice_attribute attribute) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return fake.compute_major;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return fake.compute_minor;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return 148;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return 232448;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return 233472;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return 2147483647;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return 65535;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return 64;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    return 132644864;
  case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    return fake.compute_major >= 9;
  case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    return fake.pageable_memory;
  default:
    return 0;
  }
}

// Whether an allocation holds the address, and which.
bool is_live(CUdeviceptr pointer, CUdeviceptr* start, size_t* bytes) {
  const std::lock_guard guard(memory_mutex);
  const auto after = memory.upper_bound(pointer);
  if (after == memory.begin()) return false;
  *start = std::prev(after)->first;
  *bytes = std::prev(after)->second;
  return pointer - *start < *bytes;
}

} // namespace

#pragma GCC visibility push(default)

wltest::FakeDriver* fakeDriver() { return &fake; }

void fakeReset() {
  fake = {};
  fake.version = 13000;
  fake.device_count = 1;
  fake.compute_major = 10;
  fake.load_log = "";
  fake.registers = 168;
  fake.max_threads = 384;
  fake.resident_clusters = -1;
}

extern "C" {

CUresult cuInit(unsigned) { return fake.init_result; }

CUresult cuDriverGetVersion(int* version) {
  *version = fake.version;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  case CUDA_ERROR_NO_DEVICE:
    *name = "CUDA_ERROR_NO_DEVICE";
    return CUDA_SUCCESS;
  case CUDA_ERROR_INVALID_PTX:
    *name = "CUDA_ERROR_INVALID_PTX";
    return CUDA_SUCCESS;
  case CUDA_ERROR_NOT_FOUND:
    *name = "CUDA_ERROR_NOT_FOUND";
    return CUDA_SUCCESS;
  case CUDA_ERROR_LAUNCH_FAILED:
    *name = "CUDA_ERROR_LAUNCH_FAILED";
    return CUDA_SUCCESS;
  default:
    *name = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "the fake driver fails on request";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = fake.device_count;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 34;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = device_attribute(attribute);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = handle_of<CUcontext>(context_object);
  ++fake.retained;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  --fake.retained;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext) {
  __atomic_add_fetch(&fake.pushed, 1, __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext*) {
  __atomic_sub_fetch(&fake.pushed, 1, __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const bool current = __atomic_load_n(&fake.pushed, __ATOMIC_RELAXED) != 0;
  *context = current ? handle_of<CUcontext>(context_object) : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                            CUjit_option* options, void** values) {
  ++fake.loads;
  std::snprintf(fake.loaded_text, sizeof(fake.loaded_text), "%s", static_cast<const char*>(image));
  char* log = nullptr;
  size_t size = 0;
  fake.verbose_log = false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_LOG_VERBOSE) fake.verbose_log = values[i] != nullptr;
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      size = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (log && size) std::snprintf(log, size, "%s", fake.load_log);
  *module = handle_of<CUmodule>(module_object);
  const bool machine_code = std::memcmp(image, "\177ELF", 4) == 0;
  return machine_code ? fake.binary_result : fake.load_result;
}

CUresult cuModuleUnload(CUmodule) {
  ++fake.unloads;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  *function = handle_of<CUfunction>(function_object);
  return fake.function_result;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                ? fake.registers
           : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES     ? fake.static_shared_bytes
           : attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? fake.max_threads
                                                                  : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    fake.dynamic_shared_limit = value;
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) fake.nonportable = value;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction, size_t index, size_t* offset, size_t* size) {
  if (index >= fake.param_count) return CUDA_ERROR_INVALID_VALUE;
  *offset = fake.param_offset[index];
  *size = fake.param_size[index];
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  if (fake.alloc_result != CUDA_SUCCESS) return fake.alloc_result;
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<uintptr_t>(block);
  const std::lock_guard guard(memory_mutex);
  memory[*pointer] = bytes;
  ++fake.live_allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  const std::lock_guard guard(memory_mutex);
  if (memory.erase(pointer) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void*>(static_cast<uintptr_t>(pointer)));
  --fake.live_allocations;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr pointer) {
  __atomic_add_fetch(&fake.pointer_questions, 1, __ATOMIC_RELAXED);
  if (fake.pointer_result != CUDA_SUCCESS) return fake.pointer_result;
  if (which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER &&
      __atomic_load_n(&fake.pushed, __ATOMIC_RELAXED) == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  if (!is_live(pointer, &start, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    if (fake.memory_owner != 0) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<CUdeviceptr*>(value) = pointer;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *static_cast<int*>(value) = fake.memory_owner;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *static_cast<CUdeviceptr*>(value) = start;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *static_cast<size_t*>(value) = fake.reservation != 0 ? fake.reservation : bytes;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) {
  if (fake.copy_result != CUDA_SUCCESS) return fake.copy_result;
  std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(destination)), source, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) {
  if (fake.copy_result != CUDA_SUCCESS) return fake.copy_result;
  std::memcpy(destination, reinterpret_cast<void*>(static_cast<uintptr_t>(source)), bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  ++fake.live_streams;
  *stream = reinterpret_cast<CUstream>(std::malloc(16));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  --fake.live_streams;
  std::free(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }

CUresult cuStreamGetCtx(CUstream, CUcontext* context) {
  *context = handle_of<CUcontext>(fake.foreign_streams ? other_context_object : context_object);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void** parameters, void**) {
  if (config->hStream && config->hStream == captured_stream) ++fake.captured;
  __atomic_add_fetch(&fake.launches, 1, __ATOMIC_RELAXED);
  if (fake.launch_result != CUDA_SUCCESS) return fake.launch_result;
  fake.launch = *config;
  for (unsigned i = 0; i < config->numAttrs && i < 4; ++i) fake.attributes[i] = config->attrs[i];
  if (parameters && fake.param_count && fake.param_size[0] <= sizeof(uint64_t))
    std::memcpy(&fake.first_param, parameters[0], fake.param_size[0]);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  ++fake.cluster_questions;
  if (fake.resident_clusters < 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  *clusters = fake.resident_clusters;
  return CUDA_SUCCESS;
}

// One capture at a time: `captured_stream`.
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const CUstreamCaptureMode before = fake.thread_mode;
  fake.thread_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = stream && stream == captured_stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE : fake.capturing;
  return fake.question_result;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  if (fake.begin_result != CUDA_SUCCESS) return fake.begin_result;
  fake.mode_of_capture = fake.thread_mode;
  captured_stream = stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  captured_stream = nullptr;
  *graph = nullptr;
  if (fake.end_result != CUDA_SUCCESS) return fake.end_result;
  ++fake.live_graphs;
  *graph = reinterpret_cast<CUgraph>(std::malloc(16));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  --fake.live_graphs;
  std::free(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph, unsigned long long) {
  if (fake.instantiate_result != CUDA_SUCCESS) return fake.instantiate_result;
  ++fake.live_executables;
  *executable = reinterpret_cast<CUgraphExec>(std::malloc(16));
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  --fake.live_executables;
  std::free(executable);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream) {
  ++fake.graph_launches; // not atomic: the library lets one thread in at a time
  fake.launched_graph = executable;
  return fake.graph_result;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, uint32_t, void*,
                                const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  ++fake.encodes;
  std::memset(map, 0xA5, sizeof(*map));
  return fake.encode_result;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap*, void*) { return fake.encode_result; }

} // extern "C"

#pragma GCC visibility pop
