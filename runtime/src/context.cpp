#include "runtime/src/context.hpp"

#include "runtime/src/log.hpp"

namespace warpline {

namespace {

struct AttributeField {
  cuapi::CUdevice_attribute attribute;
  int* field;
};

} // namespace

wl_status find_device(const Driver& driver, int ordinal, cuapi::CUdevice* device) {
  int count = 0;
  WL_CHECK_CU(driver, DeviceGetCount, (&count), WL_ERROR_INTERNAL);
  if (count == 0)
    return fail(WL_ERROR_NOT_SUPPORTED, "the driver %s sees no device", driver.file.c_str());
  if (ordinal < 0 || ordinal >= count)
    return fail(WL_ERROR_INVALID_ARGUMENT,
                "device = %d must be from 0 to %d, the driver sees %d device%s (nearest: %d)",
                ordinal, count - 1, count, count == 1 ? "" : "s", ordinal < 0 ? 0 : count - 1);
  WL_CHECK_CU(driver, DeviceGet, (device, ordinal), WL_ERROR_INTERNAL);
  return WL_SUCCESS;
}

wl_status query_device(const Driver& driver, cuapi::CUdevice device, DeviceLimits* limits) {
  char name[256] = "";
  WL_CHECK_CU(driver, DeviceGetName, (name, sizeof(name), device), WL_ERROR_INTERNAL);
  limits->name = name;
  size_t memory = 0;
  WL_CHECK_CU(driver, DeviceTotalMem, (&memory, device), WL_ERROR_INTERNAL);
  limits->memory_bytes = memory;
  int cluster_launch = 0, tensor_maps = 0, pageable_memory = 0;
  const AttributeField fields[] = {
      {cuapi::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &limits->compute_major},
      {cuapi::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &limits->compute_minor},
      {cuapi::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &limits->sm_count},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       &limits->shared_bytes_per_block},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       &limits->shared_bytes_per_sm},
      {cuapi::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &limits->reserved_shared_bytes},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &limits->max_threads_per_block},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &limits->max_grid[0]},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &limits->max_grid[1]},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &limits->max_grid[2]},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &limits->max_block[0]},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &limits->max_block[1]},
      {cuapi::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &limits->max_block[2]},
      {cuapi::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &limits->l2_bytes},
      {cuapi::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, &cluster_launch},
      {cuapi::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, &tensor_maps},
      {cuapi::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, &pageable_memory},
  };
  for (const AttributeField& field : fields)
    WL_CHECK_CU(driver, DeviceGetAttribute, (field.field, field.attribute, device),
                WL_ERROR_INTERNAL);
  // No attribute reports cluster sizes. 8 CTAs are portable on every device that has clusters; 16
  // need CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED (sm_90 and sm_100 accept it).
  limits->max_cluster = cluster_launch ? 8 : 1;
  limits->max_cluster_nonportable = cluster_launch ? 16 : 1;
  limits->tensor_maps = tensor_maps != 0;
  limits->pageable_memory = pageable_memory != 0;
  return WL_SUCCESS;
}

DeviceLimits known_limits(const wl_context& context) {
  DeviceLimits limits = context.limits;
  for (int size = 0; size <= DeviceLimits::largest_cluster; ++size)
    limits.resident_clusters[size] =
        context.resident_clusters[size].load(std::memory_order_relaxed);
  return limits;
}

ContextScope::ContextScope(const wl_context& context) : context_(context), status_(WL_SUCCESS) {
  const cuapi::Functions& cu = context.driver->cu;
  cuapi::CUcontext current = nullptr;
  if (cu.CtxGetCurrent(&current) == cuapi::CUDA_SUCCESS && current == context.handle) return;
  const cuapi::CUresult result = cu.CtxPushCurrent(context.handle);
  pushed_ = result == cuapi::CUDA_SUCCESS;
  if (!pushed_)
    status_ = fail_cu(*context.driver, result, "cuCtxPushCurrent", WL_ERROR_WRONG_DEVICE);
}

ContextScope::~ContextScope() {
  cuapi::CUcontext popped = nullptr;
  if (pushed_) context_.driver->cu.CtxPopCurrent(&popped);
}

namespace {

wl_status let_go(wl_context* context) {
  if (--context->holders != 0) return WL_SUCCESS;
  const std::unique_ptr<wl_context> owned(context);
  unload_kernels(*context);
  WL_CHECK_CU(*context->driver, DevicePrimaryCtxRelease, (context->device), WL_ERROR_INTERNAL);
  return WL_SUCCESS;
}

} // namespace

ContextHold::~ContextHold() { let_go(context_); }

wl_status check_context(const wl_context* context) {
  if (context) return WL_SUCCESS;
  return fail(WL_ERROR_INVALID_ARGUMENT,
              "context: pointer is null, must be a context of wl_context_create");
}

wl_status check_stream(const wl_context& context, wl_stream stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= cuapi::stream_per_thread) return WL_SUCCESS;
  cuapi::CUcontext owner = nullptr;
  const cuapi::CUresult result =
      context.driver->cu.StreamGetCtx(static_cast<cuapi::CUstream>(stream), &owner);
  if (result != cuapi::CUDA_SUCCESS)
    return fail_cu(*context.driver, result, "cuStreamGetCtx", WL_ERROR_WRONG_DEVICE,
                   format("stream = %p must be a live stream of device %d's primary context",
                          stream, context.ordinal)
                       .c_str());
  if (owner == context.handle) return WL_SUCCESS;
  return fail(WL_ERROR_WRONG_DEVICE,
              "stream = %p belongs to another context, must be one of device %d's primary context",
              stream, context.ordinal);
}

} // namespace warpline

wl_status wl_context_create(int device, wl_context** context) {
  using namespace warpline;
  return api("wl_context_create", [&]() -> wl_status {
    if (!context)
      return fail(WL_ERROR_INVALID_ARGUMENT, "context: pointer is null, must take the result");
    *context = nullptr;
    const Driver* driver = nullptr;
    WL_TRY(open_driver(&driver));
    auto made = std::make_unique<wl_context>();
    made->driver = driver;
    made->ordinal = device;
    WL_TRY(find_device(*driver, device, &made->device));
    WL_TRY(query_device(*driver, made->device, &made->limits));
    WL_CHECK_CU(*driver, DevicePrimaryCtxRetain, (&made->handle, made->device), WL_ERROR_INTERNAL);
    WL_LOG(log_detail, "context of device %d: %s, compute capability %d.%d, %d SMs", device,
           made->limits.name.c_str(), made->limits.compute_major, made->limits.compute_minor,
           made->limits.sm_count);
    *context = made.release();
    return WL_SUCCESS;
  });
}

void wl_context_destroy(wl_context* context) {
  using namespace warpline;
  if (!context) return;
  api("wl_context_destroy", [&] { return let_go(context); });
}
