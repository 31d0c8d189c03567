// Statuses and messages. Every failure inside the library is made by fail(): it stores the sentence
// for wl_last_error(), logs it, and hands the status back, so that `return fail(...)` is one line.
#pragma once

#include "runtime/src/cuda_api.hpp"
#include "warpline/warpline.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace warpline {

struct Driver;

#define WL_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

std::string format(const char* text, ...) WL_PRINTF(1, 2);

// Stores "<entry>: <message>" as the thread's last error, logs it at level 1, and returns `status`.
// The entry is the public function that api() entered; without one the message stands alone.
wl_status fail(wl_status status, const char* text, ...) WL_PRINTF(2, 3);
wl_status fail_with(wl_status status, const std::string& message);

// The name of the public entry the calling thread is in, "" outside of one.
const char* current_entry();

// A driver call failed: the message has the call, the error's name, number and text, and `context`
// (may be null). `otherwise` is the status for errors that say nothing by themselves.
wl_status fail_cu(const Driver& driver, cuapi::CUresult result, const char* call,
                  wl_status otherwise, const char* context = nullptr);

// The name of a driver error, "CUDA_ERROR_..." as the driver spells it.
std::string cu_error_name(const Driver& driver, cuapi::CUresult result);

// Calls driver.cu.<function> <arguments> and returns from the enclosing function when it fails:
//   WL_CHECK_CU(driver, MemAlloc, (&pointer, bytes), WL_ERROR_LAUNCH);
#define WL_CHECK_CU(driver_, function, arguments, otherwise)                                       \
  do {                                                                                             \
    const ::cuapi::CUresult wl_result_ = (driver_).cu.function arguments;                          \
    if (wl_result_ != ::cuapi::CUDA_SUCCESS)                                                       \
      return ::warpline::fail_cu((driver_), wl_result_, "cu" #function, (otherwise));              \
  } while (0)

// Returns the status of `expression` from the enclosing function unless it is WL_SUCCESS.
#define WL_TRY(expression)                                                                         \
  do {                                                                                             \
    const wl_status wl_status_ = (expression);                                                     \
    if (wl_status_ != WL_SUCCESS) return wl_status_;                                               \
  } while (0)

// struct_size must be exactly what the library was compiled with: fields are only ever appended,
// and an old caller's missing fields have no safe default (a null output pointer is none).
wl_status check_struct_size(const char* type, size_t given, size_t expected);

namespace detail {
class EntryScope {
public:
  explicit EntryScope(const char* entry);
  ~EntryScope();
  EntryScope(const EntryScope&) = delete;
  EntryScope& operator=(const EntryScope&) = delete;

private:
  const char* outer_;
};
wl_status fail_exception(const char* what, bool out_of_memory) noexcept;
} // namespace detail

// The frame of every public function: names the entry for messages and the log (level 2) and keeps
// exceptions inside the C ABI.
template <class Body>
wl_status api(const char* entry, Body&& body) noexcept {
  detail::EntryScope scope(entry);
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return detail::fail_exception("host memory is exhausted", true);
  } catch (const std::exception& error) {
    return detail::fail_exception(error.what(), false);
  } catch (...) {
    return detail::fail_exception("unknown exception", false);
  }
}

} // namespace warpline
