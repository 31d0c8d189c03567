#include "runtime/src/status.hpp"

#include "runtime/src/driver.hpp"
#include "runtime/src/log.hpp"

#include <cstdarg>
#include <cstdio>

namespace warpline {

namespace {

thread_local std::string last_message;
// Set instead of last_message when there is no memory for a string.
thread_local const char* last_fixed_message = nullptr;
thread_local const char* entry_name = "";

std::string format_list(const char* text, va_list arguments) {
  va_list counted;
  va_copy(counted, arguments);
  const int length = std::vsnprintf(nullptr, 0, text, counted);
  va_end(counted);
  if (length < 0) return text;
  std::string result(static_cast<size_t>(length), '\0');
  std::vsnprintf(result.data(), result.size() + 1, text, arguments);
  return result;
}

// The statuses that driver errors map to wherever they occur.
wl_status status_of(cuapi::CUresult result, wl_status otherwise) {
  switch (result) {
  case cuapi::CUDA_ERROR_OUT_OF_MEMORY:
    return WL_ERROR_OUT_OF_MEMORY;
  case cuapi::CUDA_ERROR_INVALID_CONTEXT:
  case cuapi::CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case cuapi::CUDA_ERROR_INVALID_DEVICE:
    return WL_ERROR_WRONG_DEVICE;
  case cuapi::CUDA_ERROR_INVALID_PTX:
  case cuapi::CUDA_ERROR_INVALID_IMAGE:
  case cuapi::CUDA_ERROR_NO_BINARY_FOR_GPU:
  case cuapi::CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  case cuapi::CUDA_ERROR_JIT_COMPILATION_DISABLED:
    return WL_ERROR_JIT;
  case cuapi::CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case cuapi::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
  case cuapi::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    return WL_ERROR_INSUFFICIENT_DRIVER;
  default:
    return otherwise;
  }
}

// The virtual GPU explains a failed kernel in a report (which access, which barrier, where).
std::string virtual_report(const Driver& driver, cuapi::CUresult result) {
  const bool kernel_failed =
      result >= cuapi::CUDA_ERROR_ILLEGAL_ADDRESS && result < cuapi::CUDA_ERROR_NOT_PERMITTED;
  if (!driver.is_virtual || !kernel_failed) return "";
  using Report = const char* (*)();
  const auto report = reinterpret_cast<Report>(driver.symbol("vgpuReport"));
  const char* text = report ? report() : nullptr;
  return text && *text ? std::string("\n") + text : "";
}

} // namespace

std::string format(const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string result = format_list(text, arguments);
  va_end(arguments);
  return result;
}

wl_status fail_with(wl_status status, const std::string& message) {
  last_message = *entry_name ? std::string(entry_name) + ": " + message : message;
  last_fixed_message = nullptr;
  WL_LOG(log_errors, "%s: %s", wl_status_string(status), last_message.c_str());
  return status;
}

wl_status fail(wl_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  const std::string message = format_list(text, arguments);
  va_end(arguments);
  return fail_with(status, message);
}

const char* current_entry() { return entry_name; }

std::string cu_error_name(const Driver& driver, cuapi::CUresult result) {
  const char* name = nullptr;
  if (driver.cu.GetErrorName && driver.cu.GetErrorName(result, &name) == cuapi::CUDA_SUCCESS &&
      name)
    return name;
  return "CUDA_ERROR_" + std::to_string(static_cast<int>(result));
}

wl_status fail_cu(const Driver& driver, cuapi::CUresult result, const char* call,
                  wl_status otherwise, const char* context) {
  const char* text = nullptr;
  if (driver.cu.GetErrorString) driver.cu.GetErrorString(result, &text);
  std::string message = format("%s failed: %s (%d)", call, cu_error_name(driver, result).c_str(),
                               static_cast<int>(result));
  if (text && *text) message += std::string(": ") + text;
  if (context && *context) message += std::string("; ") + context;
  return fail_with(status_of(result, otherwise), message + virtual_report(driver, result));
}

wl_status check_struct_size(const char* type, size_t given, size_t expected) {
  if (given == expected) return WL_SUCCESS;
  return fail(
      WL_ERROR_ABI,
      "struct_size of %s = %zu bytes must be %zu: set it to sizeof(%s), and compile with the "
      "header of library version %d.%d.%d",
      type, given, expected, type, WL_VERSION_MAJOR, WL_VERSION_MINOR, WL_VERSION_PATCH);
}

namespace detail {

EntryScope::EntryScope(const char* entry) : outer_(entry_name) {
  entry_name = entry;
  WL_LOG(log_calls, "%s", entry);
}

EntryScope::~EntryScope() { entry_name = outer_; }

wl_status fail_exception(const char* what, bool out_of_memory) noexcept {
  const wl_status status = out_of_memory ? WL_ERROR_OUT_OF_MEMORY : WL_ERROR_INTERNAL;
  try {
    return fail(status, "%s", what);
  } catch (...) {
    last_fixed_message = "host memory is exhausted";
    return WL_ERROR_OUT_OF_MEMORY;
  }
}

} // namespace detail

} // namespace warpline

const char* wl_status_string(wl_status status) {
  switch (status) {
#define WL_STATUS(name)                                                                            \
  case name:                                                                                       \
    return #name;
    WL_STATUS(WL_SUCCESS)
    WL_STATUS(WL_ERROR_INVALID_ARGUMENT)
    WL_STATUS(WL_ERROR_MISALIGNED)
    WL_STATUS(WL_ERROR_NOT_SUPPORTED)
    WL_STATUS(WL_ERROR_INSUFFICIENT_DRIVER)
    WL_STATUS(WL_ERROR_WORKSPACE_TOO_SMALL)
    WL_STATUS(WL_ERROR_OUT_OF_MEMORY)
    WL_STATUS(WL_ERROR_JIT)
    WL_STATUS(WL_ERROR_LAUNCH)
    WL_STATUS(WL_ERROR_WRONG_DEVICE)
    WL_STATUS(WL_ERROR_ABI)
    WL_STATUS(WL_ERROR_INTERNAL)
#undef WL_STATUS
  }
  return "WL_ERROR_UNKNOWN";
}

const char* wl_last_error(void) {
  using namespace warpline;
  return last_fixed_message ? last_fixed_message : last_message.c_str();
}
