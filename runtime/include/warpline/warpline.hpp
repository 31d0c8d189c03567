// The C++ layer over warpline.h: owners that release, and exceptions instead of statuses. Header
// only; it adds no state and no behaviour. Needs C++17.
#ifndef WARPLINE_WARPLINE_HPP
#define WARPLINE_WARPLINE_HPP

#include "warpline/warpline.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace warpline {

class Error : public std::runtime_error {
public:
  Error(wl_status status, const std::string& message)
      : std::runtime_error(std::string(wl_status_string(status)) + ": " + message),
        status_(status) {}
  wl_status status() const noexcept { return status_; }

private:
  wl_status status_;
};

inline void check(wl_status status) {
  if (status != WL_SUCCESS) throw Error(status, wl_last_error());
}

inline int device_count() {
  int count = 0;
  check(wl_device_count(&count));
  return count;
}

inline wl_device_info device_info(int device) {
  wl_device_info info{};
  info.struct_size = sizeof(info);
  check(wl_device_get_info(device, &info));
  return info;
}

// Arguments with struct_size set and every field else zero.
inline wl_dual_gemm_args dual_gemm_args() {
  wl_dual_gemm_args args{};
  args.struct_size = sizeof(args);
  return args;
}

inline wl_gemm_args gemm_args() {
  wl_gemm_args args{};
  args.struct_size = sizeof(args);
  return args;
}

inline wl_grouped_gemm_args grouped_gemm_args() {
  wl_grouped_gemm_args args{};
  args.struct_size = sizeof(args);
  return args;
}

inline wl_grouped_dual_gemm_args grouped_dual_gemm_args() {
  wl_grouped_dual_gemm_args args{};
  args.struct_size = sizeof(args);
  return args;
}

inline wl_norm_linear_args norm_linear_args() {
  wl_norm_linear_args args{};
  args.struct_size = sizeof(args);
  return args;
}

inline wl_quantize_args quantize_args() {
  wl_quantize_args args{};
  args.struct_size = sizeof(args);
  return args;
}

inline wl_moe_args moe_args() {
  wl_moe_args args{};
  args.struct_size = sizeof(args);
  return args;
}

class Context {
public:
  explicit Context(int device = 0) {
    wl_context* context = nullptr;
    check(wl_context_create(device, &context));
    context_.reset(context);
  }
  wl_context* get() const noexcept { return context_.get(); }

private:
  struct Release {
    void operator()(wl_context* context) const noexcept { wl_context_destroy(context); }
  };
  std::unique_ptr<wl_context, Release> context_;
};

// Device memory; does not outlive its context. Move-only.
class Memory {
public:
  Memory() = default;
  Memory(const Context& context, size_t bytes) : context_(context.get()), bytes_(bytes) {
    check(wl_malloc(context_, bytes, &data_));
  }
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory(std::move(other)).swap(*this);
    return *this;
  }
  ~Memory() {
    if (data_) wl_free(context_, data_);
  }

  void* data() const noexcept { return data_; }
  size_t bytes() const noexcept { return bytes_; }

  void upload(const void* host, size_t bytes) { check(wl_upload(context_, data_, host, bytes)); }
  void download(void* host, size_t bytes) const {
    check(wl_download(context_, host, data_, bytes));
  }

  void swap(Memory& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

private:
  wl_context* context_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

template <class T>
Memory to_device(const Context& context, const std::vector<T>& values) {
  Memory memory(context, values.size() * sizeof(T));
  memory.upload(values.data(), memory.bytes());
  return memory;
}

template <class T>
std::vector<T> to_host(const Memory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  memory.download(values.data(), values.size() * sizeof(T));
  return values;
}

// A stream; does not outlive its context. Move-only.
class Stream {
public:
  explicit Stream(const Context& context) : context_(context.get()) {
    check(wl_stream_create(context_, &stream_));
  }
  Stream(Stream&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_) wl_stream_destroy(context_, stream_);
  }

  wl_stream get() const noexcept { return stream_; }
  void synchronize() const { check(wl_stream_synchronize(context_, stream_)); }

private:
  wl_context* context_ = nullptr;
  wl_stream stream_ = nullptr;
};

// A plan; does not outlive its context. Move-only.
class Plan {
public:
  explicit Plan(wl_plan* plan) : plan_(plan) {}

  wl_plan* get() const noexcept { return plan_.get(); }

  wl_plan_info info() const {
    wl_plan_info info{};
    info.struct_size = sizeof(info);
    check(wl_plan_get_info(plan_.get(), &info));
    return info;
  }

  void run(void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_plan_run(plan_.get(), workspace, workspace_bytes, stream));
  }
  // With operands of the run's own.
  void run(const wl_dual_gemm_args& args, void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_dual_gemm_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }
  void run(const wl_gemm_args& args, void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_gemm_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }
  void run(const wl_grouped_gemm_args& args, void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_grouped_gemm_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }
  void run(const wl_grouped_dual_gemm_args& args, void* workspace = nullptr,
           size_t workspace_bytes = 0, wl_stream stream = nullptr) const {
    check(wl_grouped_dual_gemm_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }
  void run(const wl_quantize_args& args, void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_quantize_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }
  void run(const wl_norm_linear_args& args, void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_norm_linear_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }
  void run(const wl_moe_args& args, void* workspace = nullptr, size_t workspace_bytes = 0,
           wl_stream stream = nullptr) const {
    check(wl_moe_run(plan_.get(), &args, workspace, workspace_bytes, stream));
  }

private:
  struct Release {
    void operator()(wl_plan* plan) const noexcept { wl_plan_destroy(plan); }
  };
  std::unique_ptr<wl_plan, Release> plan_;
};

inline Plan plan_dual_gemm(const Context& context, const wl_dual_gemm_args& args) {
  wl_plan* plan = nullptr;
  check(wl_dual_gemm_plan(context.get(), &args, &plan));
  return Plan(plan);
}

inline Plan plan_gemm(const Context& context, const wl_gemm_args& args) {
  wl_plan* plan = nullptr;
  check(wl_gemm_plan(context.get(), &args, &plan));
  return Plan(plan);
}

inline Plan plan_grouped_gemm(const Context& context, const wl_grouped_gemm_args& args) {
  wl_plan* plan = nullptr;
  check(wl_grouped_gemm_plan(context.get(), &args, &plan));
  return Plan(plan);
}

inline Plan plan_grouped_dual_gemm(const Context& context, const wl_grouped_dual_gemm_args& args) {
  wl_plan* plan = nullptr;
  check(wl_grouped_dual_gemm_plan(context.get(), &args, &plan));
  return Plan(plan);
}

inline Plan plan_norm_linear(const Context& context, const wl_norm_linear_args& args) {
  wl_plan* plan = nullptr;
  check(wl_norm_linear_plan(context.get(), &args, &plan));
  return Plan(plan);
}

inline Plan plan_quantize(const Context& context, const wl_quantize_args& args) {
  wl_plan* plan = nullptr;
  check(wl_quantize_plan(context.get(), &args, &plan));
  return Plan(plan);
}

inline Plan plan_moe(const Context& context, const wl_moe_args& args) {
  wl_plan* plan = nullptr;
  check(wl_moe_plan(context.get(), &args, &plan));
  return Plan(plan);
}

} // namespace warpline

#endif
