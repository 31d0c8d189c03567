#include "runtime/src/driver.hpp"

#include "runtime/src/log.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <vector>

namespace warpline {

namespace {

const char* const virtual_profiles[] = {"b200", "b300", "h200"};

std::mutex drivers_mutex;
std::map<std::string, std::unique_ptr<Driver>> drivers; // by request

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string executable_directory() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? directory_of(std::string(path, static_cast<size_t>(length))) : "";
}

// The directory of the file that holds this function: the executable, or libwarpline.so.
std::string library_directory() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&library_directory), &info) || !info.dli_fname) return "";
  return directory_of(info.dli_fname);
}

std::vector<std::string> virtual_candidates() {
  std::vector<std::string> result;
  const auto add = [&](const std::string& directory) {
    const std::string file = directory + "/libvgpu.so";
    if (!directory.empty() && std::find(result.begin(), result.end(), file) == result.end())
      result.push_back(file);
  };
  add(executable_directory());
  add(directory_of(executable_directory()));
  add(directory_of(executable_directory()) + "/lib"); // PREFIX/bin and PREFIX/lib
  add(library_directory());
  add("./build");
  result.push_back("libvgpu.so");
  return result;
}

bool is_virtual_request(const std::string& request) {
  return request == "virtual" || request.rfind("virtual:", 0) == 0;
}

// Completes "virtual" to "virtual:PROFILE" (VGPU_PROFILE, else b200), so that one profile has one
// name, and refuses unknown profiles.
wl_status resolve_request(std::string* request) {
  if (!is_virtual_request(*request)) return WL_SUCCESS;
  std::string profile = request->size() > 8 ? request->substr(8) : "";
  if (*request == "virtual") profile = environment("VGPU_PROFILE");
  if (*request == "virtual" && profile.empty()) profile = virtual_profiles[0];
  for (const char* known : virtual_profiles) {
    if (profile == known) {
      *request = "virtual:" + profile;
      return WL_SUCCESS;
    }
  }
  return fail(WL_ERROR_INVALID_ARGUMENT,
              "WARPLINE_DRIVER: profile \"%s\" of the virtual GPU must be b200, b300 or h200",
              profile.c_str());
}

wl_status open_library(const std::string& request, Driver* driver) {
  std::vector<std::string> candidates{"libcuda.so.1", "libcuda.so"};
  if (is_virtual_request(request)) {
    candidates = virtual_candidates();
  } else if (!request.empty()) {
    candidates = {request};
  }
  std::string tried;
  for (const std::string& file : candidates) {
    driver->handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (driver->handle) {
      driver->file = file;
      return WL_SUCCESS;
    }
    const char* reason = dlerror();
    tried += (tried.empty() ? "" : "; ") + file + " (" + (reason ? reason : "unknown") + ")";
  }
  const std::string chosen =
      request.empty() ? "" : format(" (WARPLINE_DRIVER = \"%s\")", request.c_str());
  const char* advice =
      request.empty()
          ? "install the NVIDIA driver, or set WARPLINE_DRIVER=virtual to use the virtual GPU"
      : is_virtual_request(request) ? "build it with `make vgpu` or put it beside the program"
                                    : "WARPLINE_DRIVER must be empty, \"virtual[:PROFILE]\" or "
                                      "the path of a CUDA driver library";
  return fail(WL_ERROR_INSUFFICIENT_DRIVER, "no CUDA driver could be opened%s; tried %s; %s",
              chosen.c_str(), tried.c_str(), advice);
}

wl_status resolve_functions(Driver* driver) {
  std::string missing;
#define WL_RESOLVE(member, symbol_name, parameters)                                                \
  driver->cu.member = reinterpret_cast<decltype(driver->cu.member)>(driver->symbol(symbol_name));
  CUAPI_REQUIRED(WL_RESOLVE)
  CUAPI_OPTIONAL(WL_RESOLVE)
#undef WL_RESOLVE
#define WL_REQUIRE(member, symbol_name, parameters)                                                \
  if (!driver->cu.member) missing += (missing.empty() ? "" : ", ") + std::string(symbol_name);
  CUAPI_REQUIRED(WL_REQUIRE)
#undef WL_REQUIRE
  if (driver->cu.DriverGetVersion) driver->cu.DriverGetVersion(&driver->version);
  if (missing.empty()) return WL_SUCCESS;
  if (!driver->cu.Init)
    return fail(WL_ERROR_INSUFFICIENT_DRIVER, "%s is no CUDA driver: it does not export cuInit",
                driver->file.c_str());
  return fail(WL_ERROR_INSUFFICIENT_DRIVER,
              "%s (driver version %s) lacks %s; version 12.0 or newer is needed",
              driver->file.c_str(), version_text(driver->version).c_str(), missing.c_str());
}

wl_status open_new(const std::string& request, Driver* driver) {
  driver->request = request;
  if (is_virtual_request(request)) {
    // The virtual GPU has one profile a process, read from VGPU_PROFILE by its cuInit.
    for (const auto& [other, opened] : drivers) {
      if (opened->is_virtual)
        return fail(WL_ERROR_NOT_SUPPORTED,
                    "WARPLINE_DRIVER = \"%s\": this process already uses \"%s\", and it can hold "
                    "one profile of the virtual GPU",
                    request.c_str(), other.c_str());
    }
    setenv("VGPU_PROFILE", request.substr(8).c_str(), 1);
    // Kernels of this library are held to the ISA's letter.
    setenv("VGPU_STRICT", "1", 0);
  }
  WL_TRY(open_library(request, driver));
  wl_status status = resolve_functions(driver);
  if (status == WL_SUCCESS) {
    driver->is_virtual = driver->symbol("vgpuVersion") != nullptr;
    const cuapi::CUresult result = driver->cu.Init(0);
    if (result != cuapi::CUDA_SUCCESS)
      status = fail_cu(*driver, result, "cuInit", WL_ERROR_INSUFFICIENT_DRIVER,
                       format("driver %s, version %s", driver->file.c_str(),
                              version_text(driver->version).c_str())
                           .c_str());
  }
  if (status != WL_SUCCESS) dlclose(driver->handle);
  return status;
}

} // namespace

void* Driver::symbol(const char* name) const { return dlsym(handle, name); }

wl_status open_driver(const Driver** driver) {
  std::string request = environment("WARPLINE_DRIVER");
  WL_TRY(resolve_request(&request));
  std::lock_guard<std::mutex> lock(drivers_mutex);
  const auto found = drivers.find(request);
  if (found != drivers.end()) {
    *driver = found->second.get();
    return WL_SUCCESS;
  }
  auto opened = std::make_unique<Driver>();
  WL_TRY(open_new(request, opened.get()));
  WL_LOG(log_detail, "driver %s, version %s%s", opened->file.c_str(),
         version_text(opened->version).c_str(), opened->is_virtual ? ", virtual GPU" : "");
  *driver = opened.get();
  drivers[request] = std::move(opened);
  return WL_SUCCESS;
}

void* driver_symbol(const char* name) {
  const Driver* driver = nullptr;
  return open_driver(&driver) == WL_SUCCESS ? driver->symbol(name) : nullptr;
}

std::string version_text(int driver_version) {
  return format("%d.%d", driver_version / 1000, driver_version % 1000 / 10);
}

} // namespace warpline
