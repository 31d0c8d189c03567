// The virtual GPU's driver API through the library's exports. Each object has a private copy of
// libvgpu.so, hence its own devices, contexts and errors, apart from those of other tests.
#pragma once

#include "runtime/src/cuda_api.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temporary.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace wltest {

class VgpuDriver {
public:
  explicit VgpuDriver(const std::string& profile = "b200") {
    const std::string copy = directory_ / "libvgpu.so";
    std::filesystem::copy_file(build_file("libvgpu.so"), copy);
    handle_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw std::runtime_error(dlerror());
#define WL_LOAD(member, name, parameters) load(cu.member, name);
    CUAPI_REQUIRED(WL_LOAD)
    CUAPI_OPTIONAL(WL_LOAD)
#undef WL_LOAD
    load(set_option, "vgpuSetOption");
    load(report, "vgpuReport");
    load(message, "vgpuMessage");
    load(stats, "vgpuStatsJson");
    load(reset_stats, "vgpuResetStats");
    set_option("report", "none");
    set_option("profile", profile.c_str());
    // cuInit follows the variable, which another test's driver may have set.
    setenv("VGPU_PROFILE", profile.c_str(), 1);
    setenv("VGPU_STRICT", "1", 0); // tests of what others' kernels get take it away
  }
  VgpuDriver(const VgpuDriver&) = delete;
  VgpuDriver& operator=(const VgpuDriver&) = delete;

  template <class F>
  void load(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (!function) throw std::runtime_error(std::string("libvgpu.so does not export ") + name);
  }
  template <class F>
  F* symbol(const char* name) const {
    F* function = nullptr;
    load(function, name);
    return function;
  }
  // cuInit and a context of its own, current.
  cuapi::CUcontext open() {
    if (cu.Init(0) != cuapi::CUDA_SUCCESS) throw std::runtime_error(message());
    cuapi::CUcontext context = nullptr;
    auto create =
        symbol<cuapi::CUresult(cuapi::CUcontext*, unsigned, cuapi::CUdevice)>("cuCtxCreate_v2");
    if (create(&context, 0, 0) != cuapi::CUDA_SUCCESS) throw std::runtime_error(message());
    return context;
  }
  template <class T>
  cuapi::CUdeviceptr upload(const std::vector<T>& v) const {
    cuapi::CUdeviceptr p = 0;
    if (cu.MemAlloc(&p, v.size() * sizeof(T)) != cuapi::CUDA_SUCCESS ||
        cu.MemcpyHtoD(p, v.data(), v.size() * sizeof(T)) != cuapi::CUDA_SUCCESS)
      throw std::runtime_error(message());
    return p;
  }
  template <class T>
  std::vector<T> download(cuapi::CUdeviceptr p, size_t n) const {
    std::vector<T> v(n);
    if (cu.MemcpyDtoH(v.data(), p, n * sizeof(T)) != cuapi::CUDA_SUCCESS)
      throw std::runtime_error(message());
    return v;
  }

  cuapi::Functions cu;
  int (*set_option)(const char*, const char*) = nullptr;
  const char* (*report)() = nullptr;
  const char* (*message)() = nullptr;
  const char* (*stats)() = nullptr;
  void (*reset_stats)() = nullptr;

private:
  TemporaryDirectory directory_;
  void* handle_ = nullptr;
};

// A module whose images were compiled by the driver, with its log.
struct JitResult {
  cuapi::CUresult result = cuapi::CUDA_SUCCESS;
  cuapi::CUmodule module = nullptr;
  std::string info, error;
};

inline JitResult jit(const VgpuDriver& d, const void* image, size_t log_bytes = 8192) {
  JitResult r;
  std::vector<char> info(log_bytes + 1, '#'), error(log_bytes + 1, '#');
  cuapi::CUjit_option options[] = {
      cuapi::CU_JIT_INFO_LOG_BUFFER, cuapi::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
      cuapi::CU_JIT_ERROR_LOG_BUFFER, cuapi::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {info.data(), reinterpret_cast<void*>(log_bytes), error.data(),
                    reinterpret_cast<void*>(log_bytes)};
  r.result = d.cu.ModuleLoadDataEx(&r.module, image, 4, options, values);
  if (info[log_bytes] != '#' || error[log_bytes] != '#')
    throw std::runtime_error("the driver wrote past the end of a log buffer");
  info[log_bytes] = error[log_bytes] = '\0';
  r.info = info.data();
  r.error = error.data();
  return r;
}

} // namespace wltest
