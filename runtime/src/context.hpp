// wl_context: the retained primary context of one device, what the device can do, and the kernels
// loaded into it.
#pragma once

#include "runtime/src/driver.hpp"
#include "runtime/src/module.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace warpline {

struct DeviceLimits {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  int shared_bytes_per_block = 0; // largest opt-in, static and dynamic together
  int shared_bytes_per_sm = 0;
  int reserved_shared_bytes = 0; // taken from each CTA by the driver, not in the figure above
  int max_threads_per_block = 0;
  int max_grid[3] = {0, 0, 0};
  int max_block[3] = {0, 0, 0};
  int max_cluster = 1;             // largest portable cluster: 8 with cluster launch, else 1
  int max_cluster_nonportable = 1; // 16 with cluster launch, else 1
  int l2_bytes = 0;
  bool tensor_maps = false;
  bool pageable_memory = false; // kernels reach plain host memory
  uint64_t memory_bytes = 0;
  // Clusters of so many CTAs that are resident at once when a CTA fills an SM, as the driver said
  // of a kernel; 0: not known. Of a context see known_limits().
  static constexpr int largest_cluster = 8;
  int resident_clusters[largest_cluster + 1] = {};
};

// The driver's device number `ordinal`.
wl_status find_device(const Driver& driver, int ordinal, cuapi::CUdevice* device);
wl_status query_device(const Driver& driver, cuapi::CUdevice device, DeviceLimits* limits);

} // namespace warpline

// In the global namespace because the public header declares it there.
struct wl_context {
  const warpline::Driver* driver = nullptr;
  int ordinal = 0;
  cuapi::CUdevice device = 0;
  cuapi::CUcontext handle = nullptr;
  warpline::DeviceLimits limits;
  // The caller of wl_context_create and each plan. The last to let go releases the context, so a
  // plan outlives wl_context_destroy.
  std::atomic<int> holders{1};
  // Of DeviceLimits; fills as plans ask.
  std::atomic<int> resident_clusters[warpline::DeviceLimits::largest_cluster + 1] = {};

  // Loaded kernels by image name; they stay until the context is destroyed.
  std::mutex kernels_mutex;
  std::map<std::string, std::unique_ptr<warpline::Kernel>> kernels;
  // For tools that measure inside kernels: takes a kernel's name and PTX, gives the PTX to compile.
  // Machine code is passed over then. Set before the first plan.
  std::function<std::string(const std::string& name, const std::string& ptx)> rewrite;
};

namespace warpline {

// The limits with what the context learned since it was made.
DeviceLimits known_limits(const wl_context& context);

// Makes the context current for a block and restores what was current before. Where it is current
// already, as under a framework, that is one question to the driver.
class ContextScope {
public:
  explicit ContextScope(const wl_context& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  wl_status status() const { return status_; }

private:
  const wl_context& context_;
  wl_status status_;
  bool pushed_ = false;
};

// One of the context's holders.
class ContextHold {
public:
  explicit ContextHold(wl_context* context) : context_(context) { ++context->holders; }
  ~ContextHold();
  ContextHold(const ContextHold&) = delete;
  ContextHold& operator=(const ContextHold&) = delete;
  wl_context& operator*() const { return *context_; }
  wl_context* operator->() const { return context_; }

private:
  wl_context* context_;
};

// Null and foreign pointers cannot be told apart from good ones by C callers; null can.
wl_status check_context(const wl_context* context);

// The stream belongs to the context, or is one of the two default streams (null, 1, 2).
wl_status check_stream(const wl_context& context, wl_stream stream);

} // namespace warpline
