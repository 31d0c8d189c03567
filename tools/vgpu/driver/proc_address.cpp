// cuGetProcAddress: from the unversioned name and a CUDA version to the exported function.
#include "tools/vgpu/driver/state.hpp"

#include <cstring>
#include <dlfcn.h>

namespace vgpu::driver {

namespace {

// Names with several versions, oldest first: the CUDA version each came with, and its symbol.
struct Version {
  const char* name;
  int since;
  const char* symbol;
};
constexpr Version kVersions[] = {
#define VERSION(name, since, symbol) {#name, since, #symbol},
#include "tools/vgpu/driver/versions.inc"
#undef VERSION
};

// Values of CUdriverProcAddressQueryResult.
constexpr int kFound = 0, kNotFound = 1, kTooNew = 2;
constexpr uint64_t kPerThread = 2; // flags: prefer _ptsz and _ptds variants

void* own_library() {
  static void* handle = [] {
    Dl_info info{};
    // Any function of this library says which file it is.
    if (!dladdr(reinterpret_cast<void*>(&own_library), &info) || !info.dli_fname)
      return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return handle;
}

void* find(const std::string& symbol, bool per_thread) {
  void* library = own_library();
  if (!library) return nullptr;
  if (per_thread)
    for (const char* suffix : {"_ptsz", "_ptds"})
      if (void* p = dlsym(library, (symbol + suffix).c_str())) return p;
  return dlsym(library, symbol.c_str());
}

void* lookup(const char* name, int version, uint64_t flags, int& status) {
  const char* symbol = name;
  bool versioned = false, old_enough = false;
  for (const Version& v : kVersions) {
    if (std::strcmp(v.name, name) != 0) continue;
    versioned = true;
    if (v.since > version) continue;
    symbol = v.symbol;
    old_enough = true;
  }
  if (versioned && !old_enough) {
    status = kTooNew;
    return nullptr;
  }
  const bool known_prefix = std::strncmp(name, "cu", 2) == 0;
  void* p = known_prefix ? find(symbol, flags & kPerThread) : nullptr;
  status = p ? kFound : kNotFound;
  return p;
}

CUresult get(const char* entry_name, const char* name, void** result, int version, uint64_t flags,
             int* status) {
  return entry(entry_name, Need::Nothing, [&](Call& c) {
    c.require(name && result, "symbol or pfn is null");
    c.require(flags <= 2, "flags = " + std::to_string(flags) + " is unknown");
    int found = kNotFound;
    *result = lookup(name, version, flags, found);
    if (status) *status = found;
    // With a status to fill in, an unknown name is no error of the call.
    if (!*result && !status)
      c.refuse(CUDA_ERROR_NOT_FOUND, "there is no function '" + std::string(name) + "'");
  });
}

} // namespace

VGPU_API CUresult cuGetProcAddress_v2(const char* name, void** result, int version, uint64_t flags,
                                      int* status) {
  return get("cuGetProcAddress_v2", name, result, version, flags, status);
}

VGPU_API CUresult cuGetProcAddress(const char* name, void** result, int version, uint64_t flags) {
  return get("cuGetProcAddress", name, result, version, flags, nullptr);
}

// Private tables of the CUDA runtime: it says so and ends. The virtual GPU serves the driver API.
VGPU_API CUresult cuGetExportTable(const void** table, const void*) {
  return entry("cuGetExportTable", Need::Nothing, [&](Call& c) {
    if (table) *table = nullptr;
    c.refuse(CUDA_ERROR_NOT_FOUND, "the CUDA runtime's private interface does not exist here");
  });
}

} // namespace vgpu::driver
