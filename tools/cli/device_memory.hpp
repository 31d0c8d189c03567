// Owners of the C ABI's handles. A failure throws with the library's message.
#pragma once

#include "runtime/include/warpline/warpline.h"
#include "tools/cli/device.hpp"

#include <cstdint>
#include <vector>

namespace warpline::cli {

class Context {
public:
  explicit Context(int ordinal) { require(wl_context_create(ordinal, &context_)); }
  ~Context() { wl_context_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  wl_context* get() const { return context_; }

private:
  wl_context* context_ = nullptr;
};

class DeviceMemory {
public:
  DeviceMemory(wl_context* context, size_t bytes) : context_(context) {
    if (bytes > 0) require(wl_malloc(context, bytes, &pointer_));
  }
  DeviceMemory(wl_context* context, const void* contents, size_t bytes)
      : DeviceMemory(context, bytes) {
    require(wl_upload(context, pointer_, contents, bytes));
  }
  DeviceMemory(wl_context* context, const std::vector<uint8_t>& contents)
      : DeviceMemory(context, contents.data(), contents.size()) {}
  ~DeviceMemory() {
    if (pointer_) wl_free(context_, pointer_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* get() const { return pointer_; }

private:
  wl_context* context_;
  void* pointer_ = nullptr;
};

class Plan {
public:
  // make: wl_dual_gemm_plan or the like.
  template <class Args>
  Plan(wl_context* context, const Args& args,
       wl_status (*make)(wl_context*, const Args*, wl_plan**)) {
    require(make(context, &args, &plan_));
  }
  ~Plan() { wl_plan_destroy(plan_); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  wl_plan* get() const { return plan_; }
  wl_plan_info info() const {
    wl_plan_info info = {};
    info.struct_size = sizeof info;
    require(wl_plan_get_info(plan_, &info));
    return info;
  }

private:
  wl_plan* plan_ = nullptr;
};

} // namespace warpline::cli
