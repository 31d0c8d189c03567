// The public functions that belong to no single operation: version, devices, memory, streams,
// plans.
#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/plan.hpp"
#include "runtime/src/reachable.hpp"
#include "warpline/warpline.h"

#include <memory>
#include <utility>

namespace warpline {

namespace {

// Families of the embedded kernels that the device can run: "sm100", "sm90", "".
std::string runnable_kernels(const DeviceLimits& limits) {
  std::string result;
  for (const Image& image : embedded_images()) {
    const std::string family = target_family(image.target);
    if (!target_runs_on(image.target, limits.compute_major, limits.compute_minor)) continue;
    if ((" " + result + " ").find(" " + family + " ") != std::string::npos) continue;
    result += (result.empty() ? "" : " ") + family;
  }
  return result;
}

cuapi::CUdeviceptr device_address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

wl_status check_copy(const wl_context* context, const char* device_name, const void* device,
                     const char* host_name, const void* host, size_t bytes) {
  WL_TRY(check_context(context));
  if (bytes == 0) return WL_SUCCESS;
  for (const auto& [name, address] : {std::pair{device_name, device}, {host_name, host}})
    if (address == nullptr)
      return fail(WL_ERROR_INVALID_ARGUMENT, "%s: address is null, must hold %zu bytes", name,
                  bytes);
  return WL_SUCCESS;
}

// What a driver that refuses an address says.
wl_status bad_address_or_launch(cuapi::CUresult result) {
  return result == cuapi::CUDA_ERROR_INVALID_VALUE ? WL_ERROR_INVALID_ARGUMENT : WL_ERROR_LAUNCH;
}

wl_status copy_failed(const Driver& driver, cuapi::CUresult result, const char* call,
                      const char* device_name, const void* device, const char* host_name,
                      const void* host, size_t bytes) {
  return fail_cu(driver, result, call, bad_address_or_launch(result),
                 format("%s = %p must be memory of the device and %s = %p of the host, %zu bytes "
                        "from each",
                        device_name, device, host_name, host, bytes)
                     .c_str());
}

} // namespace

} // namespace warpline

using namespace warpline;

int wl_version(void) { return WL_VERSION; }

// ---- devices ------------------------------------------------------------------------------------

wl_status wl_device_count(int* count) {
  return api("wl_device_count", [&]() -> wl_status {
    if (!count)
      return fail(WL_ERROR_INVALID_ARGUMENT, "count: pointer is null, must take the result");
    *count = 0;
    const Driver* driver = nullptr;
    WL_TRY(open_driver(&driver));
    WL_CHECK_CU(*driver, DeviceGetCount, (count), WL_ERROR_INTERNAL);
    return WL_SUCCESS;
  });
}

wl_status wl_device_get_info(int device, wl_device_info* info) {
  return api("wl_device_get_info", [&]() -> wl_status {
    if (!info)
      return fail(WL_ERROR_INVALID_ARGUMENT, "info: pointer is null, must take the result");
    WL_TRY(check_struct_size("wl_device_info", info->struct_size, sizeof(*info)));
    const Driver* driver = nullptr;
    WL_TRY(open_driver(&driver));
    cuapi::CUdevice handle = 0;
    WL_TRY(find_device(*driver, device, &handle));
    DeviceLimits limits;
    WL_TRY(query_device(*driver, handle, &limits));
    wl_device_info result{};
    result.struct_size = sizeof(result);
    copy_text(result.name, limits.name);
    result.compute_major = limits.compute_major;
    result.compute_minor = limits.compute_minor;
    result.sm_count = limits.sm_count;
    result.driver_version = driver->version;
    result.shared_bytes_per_block = limits.shared_bytes_per_block;
    result.max_cluster = limits.max_cluster;
    result.l2_bytes = limits.l2_bytes;
    result.memory_bytes = limits.memory_bytes;
    result.is_virtual = driver->is_virtual;
    copy_text(result.kernels, runnable_kernels(limits));
    *info = result;
    return WL_SUCCESS;
  });
}

// ---- memory -------------------------------------------------------------------------------------

wl_status wl_malloc(wl_context* context, size_t bytes, void** device_pointer) {
  return api("wl_malloc", [&]() -> wl_status {
    if (!device_pointer)
      return fail(WL_ERROR_INVALID_ARGUMENT,
                  "device_pointer: pointer is null, must take the result");
    *device_pointer = nullptr;
    WL_TRY(check_context(context));
    if (bytes == 0)
      return fail(WL_ERROR_INVALID_ARGUMENT, "bytes = 0 must be at least 1 (nearest: 1)");
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    cuapi::CUdeviceptr address = 0;
    const cuapi::CUresult result = context->driver->cu.MemAlloc(&address, bytes);
    if (result != cuapi::CUDA_SUCCESS)
      return fail_cu(*context->driver, result, "cuMemAlloc", WL_ERROR_LAUNCH,
                     format("bytes = %zu on a device of %llu bytes", bytes,
                            static_cast<unsigned long long>(context->limits.memory_bytes))
                         .c_str());
    *device_pointer = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
    return WL_SUCCESS;
  });
}

wl_status wl_free(wl_context* context, void* device_pointer) {
  return api("wl_free", [&]() -> wl_status {
    WL_TRY(check_context(context));
    if (!device_pointer) return WL_SUCCESS;
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    const cuapi::CUresult result = context->driver->cu.MemFree(device_address(device_pointer));
    if (result == cuapi::CUDA_SUCCESS) return WL_SUCCESS;
    return fail_cu(*context->driver, result, "cuMemFree", bad_address_or_launch(result),
                   format("device_pointer = %p must be the start of memory of wl_malloc that was "
                          "not freed",
                          device_pointer)
                       .c_str());
  });
}

wl_status wl_upload(wl_context* context, void* device_destination, const void* host_source,
                    size_t bytes) {
  return api("wl_upload", [&]() -> wl_status {
    WL_TRY(check_copy(context, "device_destination", device_destination, "host_source", host_source,
                      bytes));
    if (bytes == 0) return WL_SUCCESS;
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    const Driver& driver = *context->driver;
    const cuapi::CUresult result =
        driver.cu.MemcpyHtoD(device_address(device_destination), host_source, bytes);
    if (result != cuapi::CUDA_SUCCESS)
      return copy_failed(driver, result, "cuMemcpyHtoD", "device_destination", device_destination,
                         "host_source", host_source, bytes);
    // From pageable memory cuMemcpyHtoD returns once the bytes are staged; streams that do not
    // synchronise with the legacy stream could still read the old ones.
    WL_CHECK_CU(driver, StreamSynchronize, (nullptr), WL_ERROR_LAUNCH);
    return WL_SUCCESS;
  });
}

wl_status wl_download(wl_context* context, void* host_destination, const void* device_source,
                      size_t bytes) {
  return api("wl_download", [&]() -> wl_status {
    WL_TRY(check_copy(context, "device_source", device_source, "host_destination", host_destination,
                      bytes));
    if (bytes == 0) return WL_SUCCESS;
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    const Driver& driver = *context->driver;
    const cuapi::CUresult result =
        driver.cu.MemcpyDtoH(host_destination, device_address(device_source), bytes);
    if (result == cuapi::CUDA_SUCCESS) return WL_SUCCESS;
    return copy_failed(driver, result, "cuMemcpyDtoH", "device_source", device_source,
                       "host_destination", host_destination, bytes);
  });
}

// ---- streams ------------------------------------------------------------------------------------

wl_status wl_stream_create(wl_context* context, wl_stream* stream) {
  return api("wl_stream_create", [&]() -> wl_status {
    if (!stream)
      return fail(WL_ERROR_INVALID_ARGUMENT, "stream: pointer is null, must take the result");
    *stream = nullptr;
    WL_TRY(check_context(context));
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    // A stream that orders itself with the legacy stream: wl_upload and wl_download then need no
    // further synchronisation with work on it.
    cuapi::CUstream made = nullptr;
    WL_CHECK_CU(*context->driver, StreamCreate, (&made, cuapi::CU_STREAM_DEFAULT), WL_ERROR_LAUNCH);
    *stream = made;
    return WL_SUCCESS;
  });
}

wl_status wl_stream_destroy(wl_context* context, wl_stream stream) {
  return api("wl_stream_destroy", [&]() -> wl_status {
    WL_TRY(check_context(context));
    if (!stream) return WL_SUCCESS;
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    WL_TRY(check_stream(*context, stream));
    WL_CHECK_CU(*context->driver, StreamDestroy, (static_cast<cuapi::CUstream>(stream)),
                WL_ERROR_LAUNCH);
    return WL_SUCCESS;
  });
}

wl_status wl_stream_synchronize(wl_context* context, wl_stream stream) {
  return api("wl_stream_synchronize", [&]() -> wl_status {
    WL_TRY(check_context(context));
    const ContextScope scope(*context);
    WL_TRY(scope.status());
    WL_TRY(check_stream(*context, stream));
    WL_CHECK_CU(*context->driver, StreamSynchronize, (static_cast<cuapi::CUstream>(stream)),
                WL_ERROR_LAUNCH);
    return WL_SUCCESS;
  });
}

// ---- plans --------------------------------------------------------------------------------------

wl_status wl_plan_get_info(const wl_plan* plan, wl_plan_info* info) {
  return api("wl_plan_get_info", [&]() -> wl_status {
    WL_TRY(check_plan(plan));
    if (!info)
      return fail(WL_ERROR_INVALID_ARGUMENT, "info: pointer is null, must take the result");
    WL_TRY(check_struct_size("wl_plan_info", info->struct_size, sizeof(*info)));
    *info = plan->info;
    return WL_SUCCESS;
  });
}

wl_status wl_plan_run(const wl_plan* plan, void* workspace, size_t workspace_bytes,
                      wl_stream stream) {
  return api("wl_plan_run", [&]() -> wl_status {
    WL_TRY(check_plan(plan));
    // What a kept run ran with was checked.
    const bool seen =
        plan->kept && workspace_bytes >= plan->info.workspace_bytes && plan->kept->has(workspace);
    if (!seen) WL_TRY(check_workspace(*plan, workspace, workspace_bytes, plan->operands));
    const ContextScope scope(*plan->context);
    WL_TRY(scope.status());
    if (!seen) WL_TRY(check_workspace_memory(*plan, workspace));
    WL_TRY(check_stream(*plan->context, stream));
    return plan->graphs ? plan->graphs->run(workspace, stream) : plan->run(workspace, stream);
  });
}

void wl_plan_destroy(wl_plan* plan) { delete plan; }
