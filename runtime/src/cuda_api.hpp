// The part of the CUDA driver API that warpline uses, declared by hand: types, enumerators, struct
// layouts and one table of function pointers. Values and layouts are those of CUDA 12.0 to 13.0, so
// neither a toolkit nor cuda.h is needed to build. The namespace keeps the names apart from a
// cuda.h that a program may include beside it. The virtual GPU (tools/vgpu) implements the same
// declarations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuapi {

// ---- handles -----------------------------------------------------------------------------------

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;

struct CUuuid {
  char bytes[16];
};

// ---- results -----------------------------------------------------------------------------------

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_TIMEOUT = 909,
  CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,
  CUDA_ERROR_UNKNOWN = 999
};

// ---- attributes --------------------------------------------------------------------------------

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
  CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
  CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
  CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
  CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12
};

enum CUmemorytype : int {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_ARRAY = 3,
  CU_MEMORYTYPE_UNIFIED = 4
};

// ---- modules -----------------------------------------------------------------------------------

// Option values travel as void*: integers by value, buffers by address.
enum CUjit_option : int {
  CU_JIT_MAX_REGISTERS = 0,
  CU_JIT_THREADS_PER_BLOCK = 1,
  CU_JIT_WALL_TIME = 2,
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_OPTIMIZATION_LEVEL = 7,
  CU_JIT_TARGET_FROM_CUCONTEXT = 8,
  CU_JIT_TARGET = 9,
  CU_JIT_FALLBACK_STRATEGY = 10,
  CU_JIT_GENERATE_DEBUG_INFO = 11,
  CU_JIT_LOG_VERBOSE = 12,
  CU_JIT_GENERATE_LINE_INFO = 13,
  CU_JIT_CACHE_MODE = 14
};

// Values for CU_JIT_TARGET: 10 * major + minor, plus one base for the `a` and `f` variants.
inline constexpr unsigned jit_accelerated_target_base = 0x10000;
inline constexpr unsigned jit_family_target_base = 0x20000;

enum CUjitInputType : int { CU_JIT_INPUT_CUBIN = 0, CU_JIT_INPUT_PTX = 1 };
using CUlinkState = struct CUlinkState_st*;

// ---- streams, events, graphs -------------------------------------------------------------------

enum : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum : unsigned { CU_EVENT_DEFAULT = 0, CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2 };

// The two stream values that are no handles: 1 legacy default, 2 per-thread default.
inline constexpr uintptr_t stream_legacy = 1;
inline constexpr uintptr_t stream_per_thread = 2;

enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};

enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};

// ---- launches ----------------------------------------------------------------------------------

enum CUlaunchAttributeID : int {
  CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
  CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
  CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
  CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11
};

union alignas(8) CUlaunchAttributeValue {
  char pad[64];
  struct {
    unsigned x, y, z;
  } clusterDim;
  int clusterSchedulingPolicyPreference;
  int cooperative;
  int programmaticStreamSerializationAllowed;
  int priority;
};

struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  CUlaunchAttributeValue value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ; // in CTAs, also with clusters
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

// ---- tensor maps -------------------------------------------------------------------------------

struct alignas(128) CUtensorMap {
  uint64_t opaque[16];
};

enum CUtensorMapDataType : int {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
  CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
  CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
  CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4,
  CU_TENSOR_MAP_DATA_TYPE_INT64 = 5,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ = 10,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ = 12,
  CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B = 13,  // packed in shared memory too
  CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B = 14, // 8 bytes of data, 8 bytes of gap
  CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B = 15  // 12 bytes of data, 4 bytes of gap
};

enum CUtensorMapInterleave : int {
  CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
  CU_TENSOR_MAP_INTERLEAVE_16B = 1,
  CU_TENSOR_MAP_INTERLEAVE_32B = 2
};

enum CUtensorMapSwizzle : int {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
  CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B = 4,
  CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B = 5,
  CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B = 6
};

enum CUtensorMapL2promotion : int {
  CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3
};

enum CUtensorMapFloatOOBfill : int {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1
};

// ---- functions ---------------------------------------------------------------------------------

// X(member, exported symbol, parameters). The symbol is the versioned name that libcuda exports;
// cuda.h hides it behind a macro (cuMemAlloc -> cuMemAlloc_v2).
//
// Without one of the first list nothing works: all of them exist since driver 12.0.
#define CUAPI_REQUIRED(X)                                                                          \
  X(Init, "cuInit", (unsigned flags))                                                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int* version))                                        \
  X(GetErrorString, "cuGetErrorString", (CUresult error, const char** text))                       \
  X(GetErrorName, "cuGetErrorName", (CUresult error, const char** name))                           \
  X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                    \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                              \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int length, CUdevice device))                   \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                      \
  X(DeviceGetAttribute, "cuDeviceGetAttribute",                                                    \
    (int* value, CUdevice_attribute attribute, CUdevice device))                                   \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))    \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                    \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                    \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                    \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                       \
  X(CtxSynchronize, "cuCtxSynchronize", ())                                                        \
  X(ModuleLoadDataEx, "cuModuleLoadDataEx",                                                        \
    (CUmodule * module, const void* image, unsigned option_count, CUjit_option* options,           \
     void** option_values))                                                                        \
  X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                             \
  X(ModuleGetFunction, "cuModuleGetFunction",                                                      \
    (CUfunction * function, CUmodule module, const char* name))                                    \
  X(FuncGetAttribute, "cuFuncGetAttribute",                                                        \
    (int* value, CUfunction_attribute attribute, CUfunction function))                             \
  X(FuncSetAttribute, "cuFuncSetAttribute",                                                        \
    (CUfunction function, CUfunction_attribute attribute, int value))                              \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                              \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr pointer))                                                \
  X(MemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr destination, const void* source, size_t bytes))    \
  X(MemcpyDtoH, "cuMemcpyDtoH_v2", (void* destination, CUdeviceptr source, size_t bytes))          \
  X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                           \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                        \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                   \
  X(StreamGetCtx, "cuStreamGetCtx", (CUstream stream, CUcontext * context))                        \
  X(LaunchKernelEx, "cuLaunchKernelEx",                                                            \
    (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))          \
  X(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                \
    (CUtensorMap * map, CUtensorMapDataType type, uint32_t rank, void* address,                    \
     const uint64_t* dims, const uint64_t* strides, const uint32_t* box,                           \
     const uint32_t* element_strides, CUtensorMapInterleave interleave,                            \
     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,                              \
     CUtensorMapFloatOOBfill oob_fill))                                                            \
  X(TensorMapReplaceAddress, "cuTensorMapReplaceAddress", (CUtensorMap * map, void* address))

// Null in the table when the driver lacks them; who calls one checks first.
#define CUAPI_OPTIONAL(X)                                                                          \
  X(FuncGetParamInfo, "cuFuncGetParamInfo",                                                        \
    (CUfunction function, size_t index, size_t * offset, size_t * size))                           \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid * uuid, CUdevice device))                         \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                    \
  X(MemsetD8, "cuMemsetD8_v2", (CUdeviceptr destination, unsigned char value, size_t count))       \
  X(MemsetD32Async, "cuMemsetD32Async",                                                            \
    (CUdeviceptr destination, unsigned value, size_t count, CUstream stream))                      \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                       \
    (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream))                  \
  X(PointerGetAttribute, "cuPointerGetAttribute",                                                  \
    (void* value, CUpointer_attribute attribute, CUdeviceptr pointer))                             \
  X(ModuleGetGlobal, "cuModuleGetGlobal_v2",                                                       \
    (CUdeviceptr * pointer, size_t * bytes, CUmodule module, const char* name))                    \
  X(StreamQuery, "cuStreamQuery", (CUstream stream))                                               \
  X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))        \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, CUstreamCaptureMode mode))    \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                    \
  X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, CUstreamCaptureStatus * status))   \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",                          \
    (CUstreamCaptureMode * mode))                                                                  \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                               \
    (CUgraphExec * executable, CUgraph graph, unsigned long long flags))                           \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec executable, CUstream stream))                       \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec executable))                              \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                               \
  X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                               \
  X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                \
  X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                       \
  X(EventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent start, CUevent end))     \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                            \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",      \
    (int* blocks, CUfunction function, int block_threads, size_t dynamic_shared_bytes))            \
  X(OccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters",                                    \
    (int* clusters, CUfunction function, const CUlaunchConfig* config))                            \
  X(LinkCreate, "cuLinkCreate_v2",                                                                 \
    (unsigned option_count, CUjit_option* options, void** option_values, CUlinkState* state))      \
  X(LinkAddData, "cuLinkAddData_v2",                                                               \
    (CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name,           \
     unsigned option_count, CUjit_option* options, void** option_values))                          \
  X(LinkComplete, "cuLinkComplete", (CUlinkState state, void** cubin, size_t* bytes))              \
  X(LinkDestroy, "cuLinkDestroy", (CUlinkState state))                                             \
  X(TensorMapEncodeIm2col, "cuTensorMapEncodeIm2col",                                              \
    (CUtensorMap * map, CUtensorMapDataType type, uint32_t rank, void* address,                    \
     const uint64_t* dims, const uint64_t* strides, const int* pixel_box_lower_corner,             \
     const int* pixel_box_upper_corner, uint32_t channels_per_pixel, uint32_t pixels_per_column,   \
     const uint32_t* element_strides, CUtensorMapInterleave interleave,                            \
     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,                              \
     CUtensorMapFloatOOBfill oob_fill))

struct Functions {
#define CUAPI_MEMBER(member, symbol, parameters) CUresult(*member) parameters = nullptr;
  CUAPI_REQUIRED(CUAPI_MEMBER)
  CUAPI_OPTIONAL(CUAPI_MEMBER)
#undef CUAPI_MEMBER
};

} // namespace cuapi
